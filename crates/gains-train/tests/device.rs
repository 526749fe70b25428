//! Threads, tiles, the optimiser, and what happens to pixels.
#![allow(clippy::unwrap_used)]

mod common;

use common::{Case, batch, flat, unflat, values};
use gains_core::description::RungeKutta;
use gains_train::cpu::Cpu;
use gains_train::device::{AdamStep, LabelData, Moments, Pull, WidthNorm, uniform};
use gains_train::{Batch, Device, StepForm};

/// Everything a network of one ODE and a head computes from boxes, as bits.
fn run(case: &Case, threads: Option<usize>, form: StepForm, boxes: bool, samples: usize) -> Vec<u64> {
    let mut cpu = Cpu::<f32>::new(&case.plan, &case.parameters, threads).unwrap();
    let mut random = fastrand::Rng::with_seed(1);
    let (ode, head) = (case.ode(), &case.plan.head);
    let shape = ode.state();
    let mut fill = |low: f64, high: f64| values(&mut random, samples * shape.len(), low, high);
    let centre = cpu.upload(shape, &fill(-1.0, 1.0)).unwrap();
    let radius = boxes.then(|| cpu.upload(shape, &fill(0.0, 0.2)).unwrap());
    let x = Batch { centre, radius };
    let trial = cpu.step(ode, RungeKutta::Dopri5, form, &x, 0.1, 0.5, true).unwrap();
    let labels = LabelData {
        labels: (0..samples).map(|i| (i % 4) as u8).collect(),
        width_weights: (0..samples).map(|i| i as f32).collect(),
    };
    let labels = cpu.labels(&labels).unwrap();
    let pull =
        cpu.loss(head, &trial.end, &labels, Pull::CrossEntropy(0.5), 0.01, WidthNorm::Absolute).unwrap();
    let (layer_end, memory) = cpu.layer(&ode.dynamics[0], &x).unwrap();
    cpu.layer_back(&ode.dynamics[0], &x, &memory, &layer_end, true).unwrap();
    let start = cpu.step_back(ode, &x, trial.memory.as_ref().unwrap(), &pull, 0.1).unwrap();
    let update =
        AdamStep { rate: 1e-2, decay: 1e-4, beta1: 0.9, beta2: 0.999, epsilon: 1e-8, clip: 1.0, count: 1 };
    cpu.update(&update).unwrap();
    let ledger = cpu.take_ledger().unwrap();
    let tally = if boxes { ledger.robust } else { ledger.clean };
    let mut all = vec![tally.cross_entropy, tally.width, tally.correct, ledger.gradient_norm];
    for tensor in [&trial.end.centre, &trial.errors, &layer_end.centre, &start.centre] {
        all.extend(cpu.download(shape, tensor).unwrap());
    }
    all.extend(cpu.gradients().unwrap());
    all.extend(cpu.parameters().unwrap());
    assert!(all.iter().all(|v| v.is_finite()));
    all.iter().map(|v| v.to_bits()).collect()
}

#[test]
fn threads_do_not_show() {
    for case in [Case::convolutions(2), Case::perceptron(3)] {
        for (form, boxes) in
            [(StepForm::Independent, false), (StepForm::Independent, true), (StepForm::Difference, true)]
        {
            let alone = run(&case, Some(1), form, boxes, 300);
            for threads in [Some(2), Some(3), None] {
                assert!(alone == run(&case, threads, form, boxes, 300), "{form:?} with {threads:?} threads");
            }
        }
    }
}

#[test]
fn samples_do_not_see_each_other() {
    let mut random = fastrand::Rng::with_seed(4);
    let case = Case::convolutions(5);
    let mut cpu = case.cpu(2);
    let (ode, entries) = (case.ode(), case.ode().state().len());
    for samples in [1, 63, 64, 65, 131] {
        let x = batch(&mut cpu, &mut random, ode.state(), samples, Some(0.1));
        let all = flat(&mut cpu, &x);
        let count = samples * entries;
        for form in [StepForm::Independent, StepForm::Difference] {
            let trial = cpu.step(ode, RungeKutta::Bosh3, form, &x, 0.0, 0.5, true).unwrap();
            cpu.clear_gradients().unwrap();
            let back = cpu.step_back(ode, &x, trial.memory.as_ref().unwrap(), &trial.end, 0.3).unwrap();
            let gradients = cpu.gradients().unwrap();
            let (end, back) = (flat(&mut cpu, &trial.end), flat(&mut cpu, &back));
            cpu.clear_gradients().unwrap();
            for sample in 0..samples {
                let pick = |values: &[f64]| {
                    [&values[sample * entries..][..entries], &values[count + sample * entries..][..entries]]
                        .concat()
                };
                let x = unflat(&mut cpu, &pick(&all), true);
                let one = cpu.step(ode, RungeKutta::Bosh3, form, &x, 0.0, 0.5, true).unwrap();
                let one_back = cpu.step_back(ode, &x, one.memory.as_ref().unwrap(), &one.end, 0.3).unwrap();
                for (found, expected) in
                    [(flat(&mut cpu, &one.end), pick(&end)), (flat(&mut cpu, &one_back), pick(&back))]
                {
                    assert!(
                        found.iter().zip(&expected).all(|(f, e)| (f - e).abs() < 1e-11 * (1.0 + e.abs()))
                    );
                }
            }
            let singly = cpu.gradients().unwrap();
            assert!(singly.iter().zip(&gradients).all(|(s, g)| (s - g).abs() < 1e-10 * (1.0 + g.abs())));
        }
    }
}

#[test]
fn adam_is_that_of_pytorch() {
    let case = Case::perceptron(6);
    let mut cpu = case.cpu(1);
    let head = &case.plan.head;
    let mut random = fastrand::Rng::with_seed(7);
    let mut expected = case.parameters.clone();
    let (mut m, mut v) = (vec![0.0; expected.len()], vec![0.0; expected.len()]);
    let labels = cpu.labels(&LabelData { labels: vec![1, 2], width_weights: vec![1.0, 1.0] }).unwrap();
    let mut clipped = 0;
    for count in 1..=5 {
        cpu.clear_gradients().unwrap();
        let x = batch(&mut cpu, &mut random, head.input, 2, None);
        cpu.loss(head, &x, &labels, Pull::CrossEntropy(1.0), 0.0, WidthNorm::Squared).unwrap();
        let gradients = cpu.gradients().unwrap();
        let step = AdamStep {
            rate: 0.05,
            decay: 0.01,
            beta1: 0.9,
            beta2: 0.99,
            epsilon: 1e-8,
            clip: if count % 2 == 0 { 0.5 } else { 100.0 },
            count,
        };
        cpu.update(&step).unwrap();
        let norm = gradients.iter().map(|g| g.powi(2)).sum::<f64>().sqrt();
        assert!((cpu.take_ledger().unwrap().gradient_norm - norm).abs() < 1e-12);
        clipped += usize::from(norm > step.clip);
        for i in 0..expected.len() {
            let g = gradients[i] * (step.clip / (norm + 1e-6)).min(1.0) + 0.01 * expected[i];
            m[i] = m[i] + (g - m[i]) * (1.0 - 0.9);
            v[i] = v[i] * 0.99 + g * g * (1.0 - 0.99);
            let denominator = (v[i] / (1.0 - 0.99_f64.powi(count as i32))).sqrt() + 1e-8;
            expected[i] -= 0.05 / (1.0 - 0.9_f64.powi(count as i32)) * m[i] / denominator;
        }
        let found = cpu.parameters().unwrap();
        assert!(found.iter().zip(&expected).all(|(f, e)| (f - e).abs() < 1e-12), "step {count}");
    }
    assert!(clipped > 0 && clipped < 5, "{clipped} of 5 steps were clipped");
    let moments = cpu.moments().unwrap();
    assert!(moments.first.iter().zip(&m).all(|(f, e)| (f - e).abs() < 1e-12));
    assert!(moments.second.iter().zip(&v).all(|(f, e)| (f - e).abs() < 1e-12));
    let other = Moments { first: v, second: m };
    cpu.set_moments(&other).unwrap();
    assert_eq!(cpu.moments().unwrap(), other);
    assert!(cpu.set_moments(&Moments::default()).is_err());
}

#[test]
fn pixels_boxes_and_attacks() {
    let case = Case::encoder(8);
    let mut cpu = Cpu::<f32>::new(&case.plan, &case.parameters, Some(1)).unwrap();
    let shape = case.plan.input;
    let images: Vec<u8> = (0..2 * shape.len()).map(|i| (i * 37 % 256) as u8).collect();
    cpu.store(&images, 2).unwrap();
    assert!(cpu.gather(&[2]).is_err());
    let pixels = cpu.gather(&[1, 0, 1]).unwrap();
    let found = cpu.download(shape, &pixels).unwrap();
    for (i, value) in found.iter().enumerate() {
        let byte = images[(i + shape.len()) % images.len()];
        assert_eq!(*value, f64::from(f32::from(byte) / 255.0));
    }
    let region = cpu.region(&pixels, 0.1).unwrap();
    let (centre, radius) = (
        cpu.download(shape, &region.centre).unwrap(),
        cpu.download(shape, region.radius.as_ref().unwrap()).unwrap(),
    );
    for ((c, r), p) in centre.iter().zip(&radius).zip(&found) {
        assert!((c - r - (p - 0.1).max(0.0)).abs() < 1e-6 && (c + r - (p + 0.1).min(1.0)).abs() < 1e-6);
    }
    let scattered = cpu.scatter(&pixels, 0.2, 99).unwrap();
    let mut attacked = cpu.download(shape, &scattered).unwrap();
    for (i, (s, p)) in attacked.iter().zip(&found).enumerate() {
        let expected = (p + 0.2 * (2.0 * f64::from(uniform(99, i as u32)) - 1.0)).clamp(0.0, 1.0);
        assert!((s - expected).abs() < 1e-6);
    }
    let slope: Vec<f64> = (0..found.len()).map(|i| [1.5, -0.1, 0.0][i % 3]).collect();
    let gradient = cpu.upload(shape, &slope).unwrap();
    let mut tensor = scattered;
    for _ in 0..3 {
        cpu.ascend(&mut tensor, &gradient, &pixels, 0.15, 0.2).unwrap();
        for ((a, g), p) in attacked.iter_mut().zip(&slope).zip(&found) {
            let sign = if *g == 0.0 { 0.0 } else { g.signum() };
            *a = (*a + 0.15 * sign).clamp(p - 0.2, p + 0.2).clamp(0.0, 1.0);
        }
        let now = cpu.download(shape, &tensor).unwrap();
        assert!(now.iter().zip(&attacked).all(|(n, a)| (n - a).abs() < 1e-6));
    }
}

#[test]
fn losses_count_right_answers_and_ties_are_wrong() {
    let case = Case::perceptron(9);
    let mut cpu = case.cpu(1);
    let head = &case.plan.head;
    let mut parameters = vec![0.0; case.plan.parameters];
    // Logits: the first entry of x, twice it, 0 and 0.
    parameters[head.weights.start] = 1.0;
    parameters[head.weights.start + 5] = 2.0;
    cpu.set_parameters(&parameters).unwrap();
    let labels =
        cpu.labels(&LabelData { labels: vec![1, 1, 0], width_weights: vec![1.0, 0.0, 2.0] }).unwrap();
    let mut x = vec![0.0; 30];
    (x[0], x[10], x[15]) = (1.0, 1.0, 0.25);
    let points = unflat(&mut cpu, &x[..15], false);
    cpu.loss(head, &points, &labels, Pull::CrossEntropy(1.0), 0.0, WidthNorm::Squared).unwrap();
    let clean = cpu.take_ledger().unwrap().clean;
    // The second sample ties all logits at 0, the third prefers class 1.
    assert_eq!((clean.correct, clean.samples), (1.0, 3.0));
    let e = std::f64::consts::E;
    let expected = (e + e * e + 2.0).ln() - 2.0 + 4.0_f64.ln() + (e + e * e + 2.0).ln() - 1.0;
    assert!((clean.cross_entropy - expected).abs() < 1e-12);
    let boxes = unflat(&mut cpu, &x, true);
    cpu.loss(head, &boxes, &labels, Pull::CrossEntropy(1.0), 0.0, WidthNorm::Squared).unwrap();
    let robust = cpu.take_ledger().unwrap().robust;
    // Differences to class 1 have rows −1, −2, −2, so widths 0.5, 1, 1 in the first sample.
    assert!((robust.width - (0.25 + 1.0 + 1.0)).abs() < 1e-12);
    assert_eq!(robust.correct, 1.0);
}
