use std::ops::ControlFlow;

use super::*;
use crate::config::{Aggregation, Initial, PhaseSolver, Training};
use crate::cpu::Cpu;
use crate::device::{StepForm, WidthNorm};
use crate::engine::{Engine, FirstStep};
use crate::loss::{CcIbp, ExpIbp, MtlIbp, Objective, Sabr};

mod objectives;

/// A small network on 8×8 images, with everything the paper's has.
const TINY: &str = r#"
batch = 16
method = "provable"
[network]
image = { height = 8, width = 8, channels = 1 }
mean = [0.3]
std = [0.4]
encoder = { channels = [4, 3], kernel = 3, stride = 2 }
dynamics = { channels = [5, 3], kernel = 3 }
[optimiser]
rate = 0.02
[rhythm]
test_images = 20
[[phases]]
name = "warm-up"
epochs = 2
solver = { type = "euler", steps = 2 }
eps = { target = 0.01, start = 1, length = 1 }
[[phases]]
name = "main"
epochs = 4
eps = { target = 0.05, start = 0, length = 3 }
kappa = [{ from = 0, count = 2 }, { from = 2, count = 3 }]
q = { start = 0.15, end = 0.33, first = 1, last = 3 }
"#;

fn classes() -> Vec<String> {
    ["left", "right", "dark"].map(String::from).to_vec()
}

/// Bright on the left, bright on the right, or dark.
fn images(count: usize, seed: u64) -> (Vec<u8>, Vec<u8>) {
    let mut random = fastrand::Rng::with_seed(seed);
    let labels: Vec<u8> = (0..count).map(|_| random.u8(0..3)).collect();
    let mut pixels = Vec::new();
    for label in &labels {
        for entry in 0..64 {
            let bright = match label {
                0 => entry % 8 < 4,
                1 => entry % 8 >= 4,
                _ => false,
            };
            pixels.push(if bright { 150 } else { 20 } + random.u8(0..60));
        }
    }
    (pixels, labels)
}

fn trainer<F: crate::cpu::Real>(config: Config, count: usize) -> Trainer<Fused<Cpu<F>>> {
    let (pixels, labels) = images(count, 1);
    let (test_pixels, test_labels) = images(20, 2);
    let plan = Plan::new(&config.description(0.1, &classes())).unwrap();
    let device = Cpu::<F>::new(&plan, &plan.initial_parameters(0, Initial::Usual), Some(1)).unwrap();
    let training = Images { pixels: &pixels, labels: &labels };
    let test = Images { pixels: &test_pixels, labels: &test_labels };
    Trainer::new(device, config, &classes(), training, test).unwrap()
}

fn tiny() -> Config {
    Config::from_toml(TINY).unwrap()
}

/// A configuration with one controlled phase at its full perturbation.
fn constant(method: Training, eps: f64) -> Config {
    let mut config = tiny();
    config.method = method;
    config.phases.remove(0);
    let phase = &mut config.phases[0];
    phase.eps = (method != Training::Standard).then(|| crate::schedule::Smooth::new(eps, 0, 1));
    config
}

/// Compares the gradient of a batch with differences of its loss. The first step is held, and the samples drawn do not
/// change unless an error crosses a threshold.
fn check_gradient(config: Config, step: f64, name: &str) {
    let mut trainer = trainer::<f64>(config, 40);
    let at = Position { phase: trainer.config.phases.len() - 1, epoch: 3, batch: 0 };
    let indices: Vec<u32> = (0..12).collect();
    let first = FirstStep::Given(step);
    // Larger weights than at the start, so that errors matter and trajectories split.
    let start: Vec<f64> = trainer.parameters().unwrap().iter().map(|value| value * 1.5).collect();
    trainer.set_parameters(&start).unwrap();
    let (report, _) = trainer.pass(at, &indices, first, None).unwrap();
    let gradient = trainer.engine.gradients().unwrap();
    assert!(gradient.iter().any(|value| *value != 0.0));
    let splits = trainer.config.method == Training::Provable && report.initial_step > 0.0;
    assert!(report.splits > 0 || !splits, "{name}: {report:?}");
    let mut random = fastrand::Rng::with_seed(5);
    let (mut worst, size) = (0.0_f64, gradient.iter().fold(0.0_f64, |most, value| most.max(value.abs())));
    for _ in 0..12 {
        // Directional derivatives see every parameter; single ones find what is misplaced.
        let mut direction = vec![0.0; start.len()];
        if random.bool() {
            direction.fill_with(|| random.f64() - 0.5);
        } else {
            direction[random.usize(0..start.len())] = 1.0;
        }
        let reach = 1e-6;
        let mut loss = |sign: f64| {
            let moved: Vec<f64> = start.iter().zip(&direction).map(|(p, d)| p + sign * reach * d).collect();
            trainer.set_parameters(&moved).unwrap();
            let (moved, _) = trainer.pass(at, &indices, first, None).unwrap();
            assert_eq!((moved.splits, moved.abstract_steps), (report.splits, report.abstract_steps));
            moved.loss.total
        };
        let difference = (loss(1.0) - loss(-1.0)) / (2.0 * reach);
        let product: f64 = gradient.iter().zip(&direction).map(|(g, d)| g * d).sum();
        let length = direction.iter().map(|d| d.abs()).sum::<f64>().sqrt();
        worst = worst.max((difference - product).abs() / (size * length));
    }
    assert!(worst < 2e-6, "{name}: {worst}, {report:?}");
}

#[test]
fn gradients_of_every_loss_are_the_slopes_of_the_loss() {
    check_gradient(constant(Training::Standard, 0.0), 0.2, "standard");
    for form in [StepForm::Independent, StepForm::Difference] {
        for aggregation in [Aggregation::Stack, Aggregation::Average, Aggregation::WorstCase] {
            for (norm, error) in [(WidthNorm::Squared, 0.0), (WidthNorm::Absolute, 0.01)] {
                let mut config = constant(Training::Provable, 0.02);
                let phase = &mut config.phases[0];
                phase.step_form = form;
                phase.aggregation = aggregation;
                phase.loss.width_norm = norm;
                phase.loss.error = error;
                if form == StepForm::Difference {
                    // Its bounds are so tight that it takes a strict tolerance to make trajectories split.
                    config.solver.tolerance = 1e-4;
                }
                check_gradient(config, 0.3, &format!("{form:?} {aggregation:?} {norm:?}"));
            }
        }
    }
    let mut warm = constant(Training::Provable, 0.02);
    warm.phases[0].solver = PhaseSolver::Euler { steps: 2 };
    check_gradient(warm, 0.3, "euler");
    for objective in [
        Objective::Sabr(Sabr { part: 0.4 }),
        Objective::MtlIbp(MtlIbp { alpha: 0.3 }),
        Objective::CcIbp(CcIbp { alpha: 0.3 }),
        Objective::ExpIbp(ExpIbp { alpha: 0.3 }),
    ] {
        for form in [StepForm::Independent, StepForm::Difference] {
            // The box of SABR is a part of it.
            let eps = 0.02 / objective.loss().boxes().part;
            let mut config = constant(Training::Provable, eps);
            let phase = &mut config.phases[0];
            phase.objective = objective;
            phase.attack.steps = 2;
            phase.step_form = form;
            phase.loss.alive = 0.3;
            phase.loss.alive_target = 20.0;
            if form == StepForm::Difference {
                config.solver.tolerance = 1e-4;
            }
            check_gradient(config, 0.3, &format!("{objective:?} {form:?}"));
        }
    }
    let mut steady = constant(Training::Standard, 0.0);
    steady.network.dynamics.time = false;
    steady.phases[0].loss.steady = 0.3;
    check_gradient(steady, 0.2, "steady");
}

#[test]
fn boxes_split_and_share_their_beginnings() {
    let mut trainer = trainer::<f64>(constant(Training::Provable, 0.02), 40);
    let start: Vec<f64> = trainer.parameters().unwrap().iter().map(|value| value * 1.5).collect();
    trainer.set_parameters(&start).unwrap();
    let at = Position { phase: 0, epoch: 3, batch: 0 };
    let (report, _) = trainer.pass(at, &[0, 1, 2, 3], FirstStep::Given(0.3), None).unwrap();
    assert!(report.splits > 0 && report.trajectories == 3, "{report:?}");
}

#[test]
fn every_method_learns() {
    for method in [Training::Standard, Training::Adversarial, Training::Provable] {
        let mut config = constant(method, 0.03);
        config.phases[0].epochs = 12;
        let mut trainer = trainer::<f32>(config, 96);
        let mut epochs = Vec::new();
        let outcome = trainer.run(|_, advance| {
            epochs.extend(advance.epoch.clone());
            Ok::<_, TrainError>(ControlFlow::Continue(()))
        });
        assert_eq!(outcome.unwrap(), Outcome::Finished);
        let (first, last) = (&epochs[0], &epochs[epochs.len() - 1]);
        assert!(last.loss < 0.7 * first.loss, "{method:?}: {} {}", first.loss, last.loss);
        assert!(last.evaluation.unwrap().accuracy > 0.8, "{method:?}: {last:?}");
        assert!(method != Training::Provable || last.robust_accuracy > 0.7, "{last:?}");
        assert_eq!(epochs.len(), 12);
    }
}

#[test]
fn a_run_taken_up_again_ends_with_the_same_bits() {
    for method in [Training::Provable, Training::Adversarial] {
        let mut config = tiny();
        config.method = method;
        let mut whole = trainer::<f32>(config.clone(), 70);
        let outcome = whole.run(|_, _| Ok::<_, TrainError>(ControlFlow::Continue(()))).unwrap();
        assert_eq!(outcome, Outcome::Finished);
        assert_eq!(whole.batches(), 5, "the last batch is smaller");
        let parameters = whole.parameters().unwrap();
        for stop in [1, 5, 7, 10, 12, 29] {
            let mut first = trainer::<f32>(config.clone(), 70);
            let mut seen = 0;
            let outcome = first.run(|_, _| {
                seen += 1;
                let stop = seen == stop;
                Ok::<_, TrainError>(if stop { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
            });
            assert_eq!(outcome.unwrap(), Outcome::Stopped);
            assert_eq!(first.progress(), (stop, 30));
            let bytes = first.checkpoint().unwrap().to_bytes().unwrap();
            let checkpoint = Checkpoint::from_bytes(&bytes).unwrap();
            let mut second = trainer::<f32>(checkpoint.config.clone(), 70);
            second.restore(&checkpoint).unwrap();
            second.run(|_, _| Ok::<_, TrainError>(ControlFlow::Continue(()))).unwrap();
            assert_eq!(second.parameters().unwrap(), parameters, "stopped after {stop}");
            assert_eq!(second.checkpoint().unwrap().state, whole.checkpoint().unwrap().state);
        }
    }
}

#[test]
fn a_run_that_diverges_says_so_and_saves_nothing() {
    let mut config = tiny();
    config.method = Training::Provable;
    let mut trainer = trainer::<f32>(config, 40);
    trainer.advance().unwrap();
    let good = trainer.checkpoint().unwrap();
    let huge = vec![1e30; trainer.plan().parameters];
    trainer.set_parameters(&huge).unwrap();
    let stopped = trainer.advance();
    assert!(matches!(&stopped, Err(TrainError::Diverged { at, .. }) if at.batch == 1), "{stopped:?}");
    assert!(matches!(trainer.checkpoint(), Err(TrainError::Diverged { .. })));
    assert!(matches!(trainer.finish(), Err(TrainError::Diverged { .. })));
    assert!(trainer.advance().is_err());
    trainer.restore(&good).unwrap();
    assert!(trainer.advance().is_ok());
}

#[test]
fn a_finished_run_is_a_model_file() {
    let mut config = constant(Training::Standard, 0.0);
    config.phases[0].epochs = 2;
    let mut trainer = trainer::<f32>(config, 40);
    while trainer.advance().unwrap().is_some() {}
    assert!(trainer.is_finished() && trainer.advance().unwrap().is_none());
    assert_eq!(trainer.progress(), (6, 6));
    let (description, tensors) = trainer.finish().unwrap();
    let bytes = gains_core::model_file::write_model(&description, &tensors).unwrap();
    let network = gains_core::model_file::read_model(&bytes).unwrap();
    // One image at a time, as the network will be used, agrees with the trainer on easy images.
    let (pixels, labels) = images(20, 2);
    let right = labels.iter().zip(pixels.chunks(64)).filter(|(label, pixels)| {
        let input: Vec<f64> = pixels.iter().map(|byte| f64::from(f32::from(*byte) / 255.0)).collect();
        let run = gains_ode::Inference::run(&network, &input, gains_core::Precision::Float64).unwrap();
        run.prediction() == usize::from(**label)
    });
    let accuracy = right.count() as f64 / 20.0;
    let evaluation = trainer.evaluate().unwrap();
    assert!((accuracy - evaluation.accuracy).abs() <= 0.1, "{accuracy} {evaluation:?}");
    assert_eq!(description.training["finished"], true);
    let config = description.training["config"].as_str().unwrap();
    assert_eq!(&Config::from_toml(config).unwrap(), trainer.config());
}

#[test]
fn checkpoints_and_data_of_something_else_are_refused() {
    let mut first = trainer::<f32>(tiny(), 40);
    let mut checkpoint = first.checkpoint().unwrap();
    checkpoint.config.seed += 1;
    assert!(matches!(first.restore(&checkpoint), Err(TrainError::Data(_))));
    let config = tiny();
    let plan = Plan::new(&config.description(0.1, &classes())).unwrap();
    let (pixels, labels) = images(5, 1);
    let none = Images { pixels: &[], labels: &[] };
    for (pixels, labels) in [(&pixels[1..], &labels[..]), (&pixels[..64], &[7_u8][..]), (&[][..], &[][..])] {
        let device = Cpu::<f32>::new(&plan, &plan.initial_parameters(0, Initial::Usual), Some(1)).unwrap();
        let made = Trainer::new(device, config.clone(), &classes(), Images { pixels, labels }, none);
        assert!(matches!(made, Err(TrainError::Data(_))));
    }
}

/// The network of a trainer, in the form inference uses.
fn network<F: crate::cpu::Real>(trainer: &mut Trainer<Fused<Cpu<F>>>, step: f64) -> gains_core::Network {
    let description = trainer.config().description(step, &classes());
    let parameters = trainer.parameters().unwrap();
    let tensors = trainer.engine.tensors(&parameters);
    gains_core::model_file::build(description, &tensors, String::new()).unwrap()
}

fn pixels_of(image: &[u8]) -> Vec<f64> {
    image.iter().map(|byte| f64::from(f32::from(*byte) / 255.0)).collect()
}

#[test]
fn a_batch_of_one_is_solved_as_in_inference() {
    let mut config = constant(Training::Standard, 0.0);
    config.batch = 1;
    for (scale, step) in [(1.0, 0.3), (2.5, 0.11)] {
        let mut trainer = trainer::<f64>(config.clone(), 10);
        let start: Vec<f64> = trainer.parameters().unwrap().iter().map(|value| value * scale).collect();
        trainer.set_parameters(&start).unwrap();
        trainer.average_steps = vec![step];
        let evaluation = trainer.evaluate().unwrap();
        let network = network(&mut trainer, step);
        let (pixels, labels) = images(20, 2);
        let mut total = 0.0;
        for (label, image) in labels.iter().zip(pixels.chunks(64)) {
            let run = gains_ode::Inference::run(&network, &pixels_of(image), gains_core::Precision::Float64);
            let logits = run.unwrap().output;
            total += logits.iter().map(|logit| logit.exp()).sum::<f64>().ln() - logits[usize::from(*label)];
        }
        let difference = (evaluation.cross_entropy - total / 20.0).abs();
        assert!(difference < 1e-6, "{difference} {evaluation:?}");
    }
}

#[test]
fn the_first_step_follows_the_papers_rule() {
    let mut trainer = trainer::<f64>(constant(Training::Standard, 0.0), 10);
    let start: Vec<f64> = trainer.parameters().unwrap().iter().map(|value| value * 2.0).collect();
    trainer.set_parameters(&start).unwrap();
    let at = Position { phase: 0, epoch: 0, batch: 0 };
    let (report, _) = trainer.pass(at, &[0, 1, 2], FirstStep::Rule, None).unwrap();

    let network = network(&mut trainer, 0.1);
    let (value, ode) = network.body.odes().next().unwrap();
    let start = network.body.node(value).unwrap().from[0];
    let dynamics = &ode.block.dynamics;
    let precision = gains_core::Precision::Float64;
    let slope =
        |time: f64, z: &[f64]| dynamics.evaluate(&[z], time, precision).values[dynamics.output()].clone();
    let norm = |values: &[f64]| values.iter().map(|value| value.abs()).sum::<f64>();
    let (pixels, _) = images(10, 1);
    let states: Vec<Vec<f64>> = pixels
        .chunks(64)
        .take(3)
        .map(|image| {
            let run = gains_ode::Inference::run(&network, &pixels_of(image), gains_core::Precision::Float64);
            run.unwrap().values[start].clone()
        })
        .collect();
    let size: f64 = states.iter().map(|z| norm(z)).sum();
    let speed: f64 = states.iter().map(|z| norm(&slope(0.0, z))).sum();
    let proposal = 0.01 * size / speed;
    let table = gains_ode::Tableau::of(gains_core::description::RungeKutta::Dopri5);
    let error = |z: &Vec<f64>| {
        let mut stages: Vec<Vec<f64>> = Vec::new();
        let sum = |weights: &[f64], stages: &[Vec<f64>], entry: usize| {
            weights.iter().zip(stages).map(|(weight, stage)| weight * stage[entry]).sum::<f64>() * proposal
        };
        for stage in 0..table.len() {
            let input: Vec<f64> =
                (0..z.len()).map(|entry| z[entry] + sum(table.stages[stage], &stages, entry)).collect();
            stages.push(slope(table.nodes[stage] * proposal, &input));
        }
        (0..z.len()).map(|entry| sum(table.error, &stages, entry).abs()).sum::<f64>() / 0.005
    };
    let worst = states.iter().map(error).fold(0.0, f64::max);
    let least = if worst < 1.0 { 1.0 } else { 0.2 };
    let step = (proposal * (0.9 * worst.powf(-0.25)).max(least).min(10.0)).min(1.0);
    assert!((report.initial_step / step - 1.0).abs() < 1e-6, "{} {step}", report.initial_step);
    assert!((report.average_step - 0.1 * step).abs() < 1e-6);
}
