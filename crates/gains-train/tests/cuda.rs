//! The CUDA device against the CPU in float64: every operation, forward and back.
//!
//! `programs_…`: the same of the kernels that any network goes through, operator by operator.
//!
//! Runs where `GAINS_CUDA` is set; elsewhere it says that it was skipped. `scripts/gpu_check.sh` runs it.

#![allow(clippy::unwrap_used, clippy::print_stderr)]

#[path = "common/machines.rs"]
mod machines;

use std::time::Instant;

use gains_core::Shape;
use gains_core::description::{ControllerSpec, Description, LayerSpec, RungeKutta, SolverSpec, Task};
use gains_train::cpu::Cpu;
use gains_train::cuda::{Cuda, Driver};
use gains_train::device::{AdamStep, Batch, Device, Join, LabelData, Pull, StepForm, WidthNorm};
use gains_train::plan::{OdePlan, Plan, Stretch};
use gains_train::program::{Host, Kernels};

/// Whether there is a device to test.
fn wanted() -> bool {
    let wanted = std::env::var_os("GAINS_CUDA").is_some();
    if !wanted {
        eprintln!("skipped: set GAINS_CUDA=1 on a machine with an NVIDIA device");
    }
    wanted
}

fn conv(
    name: &str,
    channels: (usize, usize),
    kernel: usize,
    stride: usize,
    padding: usize,
    time: bool,
) -> LayerSpec {
    LayerSpec::Conv2d {
        name: name.into(),
        in_channels: channels.0,
        out_channels: channels.1,
        kernel: [kernel; 2],
        stride: [stride; 2],
        padding: [padding; 2],
        dilation: [1, 1],
        time,
    }
}

fn linear(name: &str, inputs: usize, outputs: usize) -> LayerSpec {
    LayerSpec::Linear { name: name.into(), in_features: inputs, out_features: outputs, time: false }
}

fn plan(input: Shape, layers: Vec<LayerSpec>, classes: usize) -> Plan {
    let task = Task::Classification { classes: (0..classes).map(|c| c.to_string()).collect() };
    let description = Description::new("test", task, input, layers);
    Plan::new(&description).unwrap()
}

fn solver() -> SolverSpec {
    SolverSpec { method: RungeKutta::Dopri5, controller: ControllerSpec::Fixed { steps: 1 }, end_time: 1.0 }
}

/// Two convolutions, an ODE on what they give, the mean, a linear layer.
fn image_network(side: usize, channels: usize, width: usize, time: bool) -> Plan {
    let dynamics = vec![
        conv("ode.1", (width, width), 3, 1, 1, time),
        LayerSpec::Relu {},
        conv("ode.2", (width, width), 3, 1, 1, time),
        LayerSpec::Relu {},
    ];
    let normal = LayerSpec::Normalize { mean: vec![0.3; channels], std: vec![0.4; channels] };
    let layers = vec![
        normal,
        conv("encoder.1", (channels, width), 5, 2, 0, false),
        LayerSpec::Relu {},
        conv("encoder.2", (width, width), 5, 2, 0, false),
        LayerSpec::Relu {},
        LayerSpec::Ode { dynamics, solver: solver() },
        LayerSpec::GlobalAvgPool {},
        linear("head", width, 10),
    ];
    plan(Shape::image(side, side, channels), layers, 10)
}

/// Linear layers only, the last of the dynamics without an activation.
fn flat_network() -> Plan {
    let dynamics = vec![
        linear("ode.1", 20, 40),
        LayerSpec::Relu {},
        linear("ode.2", 40, 37),
        LayerSpec::Relu {},
        linear("ode.3", 37, 20),
    ];
    let layers = vec![
        LayerSpec::Flatten {},
        linear("encoder", 48, 20),
        LayerSpec::Relu {},
        LayerSpec::Ode { dynamics, solver: solver() },
        linear("middle", 20, 33),
        LayerSpec::Relu {},
        linear("head", 33, 3),
    ];
    plan(Shape::image(4, 4, 3), layers, 3)
}

fn networks() -> Vec<(&'static str, Plan)> {
    vec![
        ("MNIST's", image_network(28, 1, 32, true)),
        ("CIFAR-10's", image_network(32, 3, 32, true)),
        ("time-invariant, odd", image_network(30, 2, 9, false)),
        ("flat", flat_network()),
    ]
}

fn random(seed: u64, len: usize, low: f64, high: f64) -> Vec<f64> {
    let mut random = fastrand::Rng::with_seed(seed);
    // Rounded, so that both devices get the same numbers.
    (0..len).map(|_| f64::from((low + (high - low) * random.f64()) as f32)).collect()
}

/// Relative distance in the Euclidean norm.
fn distance(a: &[f64], b: &[f64]) -> f64 {
    assert_eq!(a.len(), b.len());
    let norm = |v: &mut dyn Iterator<Item = f64>| v.map(|x| x * x).sum::<f64>().sqrt();
    let apart = norm(&mut a.iter().zip(b).map(|(a, b)| a - b));
    apart / (norm(&mut b.iter().copied()) + 1e-12)
}

/// Compares sample by sample where there are samples. A neuron within a rounding error of its kink may be on either side
/// of it, which changes the gradient of its sample: a few samples may be off, and sums over samples a little.
fn check(what: &str, a: &[f64], b: &[f64], tolerance: f64) {
    assert!(b.iter().any(|v| *v != 0.0), "{what} is zero, nothing was compared");
    if a.len().is_multiple_of(SAMPLES) {
        let row = a.len() / SAMPLES;
        let apart: Vec<f64> = a.chunks(row).zip(b.chunks(row)).map(|(a, b)| distance(a, b)).collect();
        let off = apart.iter().filter(|apart| apart.is_nan() || **apart >= tolerance).count();
        assert!(off <= SAMPLES / 12, "{what}: {off} samples are off, relative distances {apart:?}");
    } else {
        let apart = distance(a, b);
        assert!(apart < 50.0 * tolerance, "{what}: relative distance {apart:e}");
    }
}

struct Pair {
    plan: Plan,
    cpu: Cpu<f64>,
    cuda: Cuda,
}

const SAMPLES: usize = 37;

impl Pair {
    fn new(plan: Plan) -> Self {
        let parameters = plan.initial_parameters(7, gains_train::config::Initial::Usual);
        let cpu = Cpu::new(&plan, &parameters, None).unwrap();
        let cuda = Cuda::new(&plan, &parameters, 0).unwrap();
        Self { plan, cpu, cuda }
    }

    fn batch<D: Device>(
        device: &mut D,
        shape: Shape,
        centre: &[f64],
        radius: Option<&[f64]>,
    ) -> Batch<D::Tensor> {
        Batch {
            centre: device.upload(shape, centre).unwrap(),
            radius: radius.map(|r| device.upload(shape, r).unwrap()),
        }
    }

    /// Runs the same thing on both devices; it returns named numbers to compare.
    fn both(
        &mut self,
        what: &str,
        tolerance: f64,
        on_cpu: impl FnOnce(&mut Cpu<f64>, &Plan) -> Vec<(String, Vec<f64>)>,
        on_cuda: impl FnOnce(&mut Cuda, &Plan) -> Vec<(String, Vec<f64>)>,
    ) {
        self.cpu.clear_gradients().unwrap();
        self.cuda.clear_gradients().unwrap();
        let expected = on_cpu(&mut self.cpu, &self.plan);
        let found = on_cuda(&mut self.cuda, &self.plan);
        for ((name, expected), (_, found)) in expected.iter().zip(&found) {
            check(&format!("{what}, {name}"), found, expected, tolerance);
        }
    }
}

/// Numbers of a batch on the host.
fn fetch<D: Device>(
    device: &mut D,
    shape: Shape,
    batch: &Batch<D::Tensor>,
    name: &str,
) -> Vec<(String, Vec<f64>)> {
    let mut all = vec![(format!("{name} centre"), device.download(shape, &batch.centre).unwrap())];
    if let Some(radius) = &batch.radius {
        all.push((format!("{name} radius"), device.download(shape, radius).unwrap()));
    }
    all
}

fn run_layers<D: Device>(device: &mut D, plan: &Plan, boxes: bool) -> Vec<(String, Vec<f64>)> {
    let mut all = Vec::new();
    for (i, layer) in plan.parts.iter().enumerate() {
        let Stretch::Layer(layer) = layer else { continue };
        let (input, output) = (SAMPLES * layer.input.len(), SAMPLES * layer.output.len());
        let radius = random(2, input, 0.0, 0.2);
        let x = Pair::batch(device, layer.input, &random(1, input, -1.0, 1.0), boxes.then_some(&radius[..]));
        let (y, memory) = device.layer(layer, &x).unwrap();
        all.extend(fetch(device, layer.output, &y, &format!("layer {i}")));
        let weights = random(4, output, -1.0, 1.0);
        let g =
            Pair::batch(device, layer.output, &random(3, output, -1.0, 1.0), boxes.then_some(&weights[..]));
        let back = device.layer_back(layer, &x, &memory, &g, true).unwrap().unwrap();
        all.extend(fetch(device, layer.input, &back, &format!("gradient of layer {i}")));
    }
    all.push(("gradient of the parameters".into(), device.gradients().unwrap()));
    all
}

fn ode(plan: &Plan) -> OdePlan {
    plan.parts
        .iter()
        .find_map(|part| if let Stretch::Ode(ode) = part { Some(ode.clone()) } else { None })
        .unwrap()
}

fn run_step<D: Device>(
    device: &mut D,
    plan: &Plan,
    method: RungeKutta,
    form: Option<StepForm>,
    error_weight: f64,
) -> Vec<(String, Vec<f64>)> {
    let ode = ode(plan);
    let shape = ode.state();
    let n = SAMPLES * shape.len();
    let boxes = form.is_some();
    let (radius, weights) = (random(12, n, 0.0, 0.05), random(14, n, 0.0, 1.0));
    let x = Pair::batch(device, shape, &random(11, n, -0.2, 1.0), boxes.then_some(&radius[..]));
    let form = form.unwrap_or(StepForm::Independent);
    let trial = device.step(&ode, method, form, &x, 0.25, 0.4, true).unwrap();
    let mut all = fetch(device, shape, &trial.end, "end");
    let m = device.measure(&trial.errors).unwrap();
    let estimates = !gains_ode::Tableau::of(method).error.is_empty();
    if estimates {
        // The lower bound of a box is zero but for a few entries.
        all.push(("error".into(), vec![m.lower + m.upper, m.largest]));
    }
    all.push(("sizes".into(), vec![m.state, m.slope]));
    let plain = device.step(&ode, method, form, &x, 0.25, 0.4, false).unwrap();
    all.extend(fetch(device, shape, &plain.end, "end without memory"));
    let g = Pair::batch(device, shape, &random(13, n, -1.0, 1.0), boxes.then_some(&weights[..]));
    let back = device.step_back(&ode, &x, &trial.memory.unwrap(), &g, error_weight).unwrap();
    all.extend(fetch(device, shape, &back, "gradient"));
    all.push(("gradient of the parameters".into(), device.gradients().unwrap()));
    all
}

fn run_rest<D: Device>(device: &mut D, plan: &Plan) -> Vec<(String, Vec<f64>)> {
    let mut all = Vec::new();
    let pixels: Vec<u8> = random(21, 50 * plan.input.len(), 0.0, 255.0).iter().map(|v| *v as u8).collect();
    device.store(&pixels, 50).unwrap();
    let indices: Vec<u32> = (0..SAMPLES as u32).map(|i| (i * 7) % 50).collect();
    let clean = device.gather(&indices).unwrap();
    all.push(("pixels".into(), device.download(plan.input, &clean).unwrap()));
    let points = device.points(&clean).unwrap();
    all.extend(fetch(device, plan.input, &points, "points"));
    let region = device.region(&clean, 0.3).unwrap();
    all.extend(fetch(device, plan.input, &region, "region"));
    let mut attacked = device.scatter(&clean, 0.2, 0x1234_5678_9ABC_DEF0).unwrap();
    all.push(("noise".into(), device.download(plan.input, &attacked).unwrap()));
    let push = random(22, SAMPLES * plan.input.len(), -1.0, 1.0);
    let push = device.upload(plan.input, &push).unwrap();
    device.ascend(&mut attacked, &push, &clean, 0.07, 0.1).unwrap();
    all.push(("attacked".into(), device.download(plan.input, &attacked).unwrap()));

    let image = ode(plan).state();
    let n = SAMPLES * image.len();
    let batches: Vec<_> = (0..3)
        .map(|i| {
            let radius = random(40 + i, n, 0.0, 0.5);
            Pair::batch(device, image, &random(30 + i, n, -1.0, 1.0), Some(&radius))
        })
        .collect();
    let pooled = device.pool(image, &batches[0]).unwrap();
    let flat = Shape::flat(image.channels);
    all.extend(fetch(device, flat, &pooled, "pool"));
    let back = device.pool_back(image, &pooled).unwrap();
    all.extend(fetch(device, image, &back, "gradient of pool"));
    for how in [Join::Average, Join::Hull] {
        let (joined, memory) = device.join(how, &batches.iter().collect::<Vec<_>>()).unwrap();
        all.extend(fetch(device, image, &joined, &format!("{how:?}")));
        for part in device.join_back(&memory, &batches[1]).unwrap() {
            all.extend(fetch(device, image, &part, &format!("gradient of {how:?}")));
        }
    }
    let mut sum = device.pool_back(image, &pooled).unwrap();
    device.accumulate(&mut sum, &batches[2]).unwrap();
    all.extend(fetch(device, image, &sum, "sum"));

    let head = &plan.head;
    let n = SAMPLES * head.input.len();
    let classes = head.output.channels;
    let labels = LabelData {
        labels: (0..SAMPLES).map(|i| (i % classes) as u8).collect(),
        width_weights: (0..SAMPLES).map(|i| 0.1 + i as f32 * 0.01).collect(),
    };
    let labels = device.labels(&labels).unwrap();
    for (boxes, norm) in
        [(false, WidthNorm::Squared), (true, WidthNorm::Squared), (true, WidthNorm::Absolute)]
    {
        let radius = random(52, n, 0.0, 0.5);
        let x = Pair::batch(device, head.input, &random(51, n, -3.0, 3.0), boxes.then_some(&radius[..]));
        let back = device.loss(head, &x, &labels, Pull::CrossEntropy(0.3), 0.7, norm).unwrap();
        all.extend(fetch(device, head.input, &back, &format!("gradient of the loss ({boxes}, {norm:?})")));
        let ledger = device.take_ledger().unwrap();
        let t = if boxes { ledger.robust } else { ledger.clean };
        all.push(("tally".into(), vec![t.cross_entropy, t.width, t.correct, t.samples]));
        all.push(("margins".into(), device.margins(head, &x, &labels).unwrap()));
        let slopes = random(53, SAMPLES * classes, -0.1, 0.2);
        let back = device.loss(head, &x, &labels, Pull::Margins(&slopes), 0.7, norm).unwrap();
        all.extend(fetch(device, head.input, &back, &format!("gradient by margins ({boxes}, {norm:?})")));
        assert_eq!(device.take_ledger().unwrap().gradient_norm, 0.0);
        device.freeze(true);
        device.loss(head, &x, &labels, Pull::CrossEntropy(0.3), 0.7, norm).unwrap();
        device.freeze(false);
        assert_eq!(device.take_ledger().unwrap().robust.samples, 0.0);
    }
    all.push(("gradient of the head".into(), device.gradients().unwrap()));

    for count in 1..=3 {
        let adam =
            AdamStep { rate: 1e-2, decay: 1e-2, beta1: 0.9, beta2: 0.999, epsilon: 1e-8, clip: 0.5, count };
        device.update(&adam).unwrap();
    }
    let averages = random(54, plan.parameters, -1.0, 1.0);
    device.set_averages(&averages).unwrap();
    assert_eq!(device.averages().unwrap(), averages);
    device.track(0.9).unwrap();
    all.push(("averages".into(), device.averages().unwrap()));
    all.push(("norm".into(), vec![device.take_ledger().unwrap().gradient_norm]));
    all.push(("updated".into(), device.parameters().unwrap()));
    let moments = device.moments().unwrap();
    all.push(("first moment".into(), moments.first.clone()));
    all.push(("second moment".into(), moments.second.clone()));
    device.set_moments(&moments).unwrap();
    assert_eq!(device.moments().unwrap(), moments);
    all
}

#[test]
fn layers_agree() {
    if !wanted() {
        return;
    }
    for (name, plan) in networks() {
        let mut pair = Pair::new(plan);
        for boxes in [false, true] {
            let what = format!("{name} network, boxes {boxes}");
            pair.both(&what, 2e-4, |d, p| run_layers(d, p, boxes), |d, p| run_layers(d, p, boxes));
        }
    }
}

#[test]
fn steps_agree() {
    if !wanted() {
        return;
    }
    for (name, plan) in networks() {
        let mut pair = Pair::new(plan);
        for method in [RungeKutta::Dopri5, RungeKutta::Euler, RungeKutta::Bosh3] {
            for form in [None, Some(StepForm::Independent), Some(StepForm::Difference)] {
                for weight in [0.0, 0.3] {
                    let what = format!("{name} network, {method:?}, {form:?}, error weight {weight}");
                    let run = |d: &mut Cpu<f64>, p: &Plan| run_step(d, p, method, form, weight);
                    pair.both(&what, 2e-4, run, |d, p| run_step(d, p, method, form, weight));
                }
            }
        }
    }
}

#[test]
fn the_rest_agrees() {
    if !wanted() {
        return;
    }
    for (name, plan) in networks() {
        let mut pair = Pair::new(plan);
        pair.both(&format!("{name} network"), 2e-4, run_rest, run_rest);
    }
}

/// The same work gives the same bits.
#[test]
fn runs_repeat_themselves() {
    if !wanted() {
        return;
    }
    for form in [None, Some(StepForm::Independent), Some(StepForm::Difference)] {
        let run = || {
            let plan = image_network(28, 1, 32, true);
            let mut cuda =
                Cuda::new(&plan, &plan.initial_parameters(3, gains_train::config::Initial::Usual), 0)
                    .unwrap();
            let mut all = run_step(&mut cuda, &plan, RungeKutta::Dopri5, form, 0.1);
            cuda.clear_gradients().unwrap();
            all.extend(run_layers(&mut cuda, &plan, form.is_some()));
            all
        };
        assert_eq!(run(), run());
    }
}

/// An allocation that cannot be met is an error, and the device goes on working.
#[test]
fn out_of_memory_is_said() {
    if !wanted() {
        return;
    }
    let plan = image_network(28, 1, 32, true);
    let mut cuda =
        Cuda::new(&plan, &plan.initial_parameters(3, gains_train::config::Initial::Usual), 0).unwrap();
    let ode = ode(&plan);
    let n = 400_000 * ode.state().len();
    let x = Pair::batch(&mut cuda, ode.state(), &vec![0.1; n], Some(&vec![0.1; n]));
    let mut kept = Vec::new();
    let error = loop {
        match cuda.step(&ode, RungeKutta::Dopri5, StepForm::Difference, &x, 0.0, 0.1, true) {
            Ok(trial) => kept.push(trial),
            Err(error) => break error,
        }
    };
    assert!(error.to_string().contains("out of memory"), "{error}");
    drop((kept, x));
    run_step(&mut cuda, &plan, RungeKutta::Dopri5, Some(StepForm::Difference), 0.0);
}

fn host() -> Host<f64> {
    Host::new(None).unwrap()
}

/// Machines on one device, which compile their kernels once.
fn kernels<F: gains_train::cpu::Real>() -> impl Fn() -> Kernels<Driver, F> {
    let driver = Driver::new::<F>(0).unwrap();
    move || Kernels::new(driver.clone())
}

/// In float64 a device computes what the host does, but for the last digits of products and functions; in float32 to its own.
#[test]
fn programs_agree_operator_by_operator() {
    if !wanted() {
        return;
    }
    let (double, single) = (kernels::<f64>()(), kernels::<f32>()());
    machines::operators_agree(&host(), &double, 1e-10);
    machines::operators_agree(&host(), &single, 1e-5);
    machines::rules_agree(&host(), &double, 1e-8);
    machines::rules_agree(&host(), &single, 1e-5);
    machines::batches_agree(&host(), &double, 1e-7);
    machines::batches_agree(&Host::<f32>::new(None).unwrap(), &single, 1e-6);
}

#[test]
fn programs_agree_in_whole_runs() {
    if wanted() {
        machines::runs_agree(host, kernels::<f64>(), 3, 1e-7);
    }
}

#[test]
fn programs_learn_and_repeat_themselves() {
    if wanted() {
        machines::runs_learn_and_repeat_themselves(kernels::<f32>());
    }
}

/// What fused kernels cannot take, programs train; and how long a batch takes.
#[test]
fn programs_train_wide_padded_encoders() {
    if !wanted() {
        return;
    }
    let kernels = kernels::<f32>();
    for form in [StepForm::Independent, StepForm::Difference] {
        let (config, description) = machines::padded(64, 16, form);
        let plan = Plan::new(&description).unwrap();
        let why = Cuda::obstacle(&plan, &config, 0).unwrap();
        assert!(why.is_some_and(|why| why.contains("shared memory")), "fused kernels take it");
        let network = (description.input, &description.layers[..], 10);
        let (found, _) = machines::some_batches(kernels(), &config, network, 2);
        let (expected, _) = machines::some_batches(host(), &config, network, 1);
        let (a, b) = (found[0].loss.total, expected[0].loss.total);
        assert!((a - b).abs() < 1e-3 * b.abs(), "{form:?}: {a}, expected {b}");
        assert!(found[1].loss.total.is_finite());

        let (config, description) = machines::padded(64, 512, form);
        let network = (description.input, &description.layers[..], 10);
        let mut trainer = machines::trainer_of(kernels(), &config, network, 2731);
        // The first batch compiles the kernels.
        trainer.advance().unwrap();
        for _ in 0..3 {
            let begin = Instant::now();
            let batch = trainer.advance().unwrap().unwrap().batch;
            let (time, steps) = (begin.elapsed().as_secs_f64(), batch.abstract_steps);
            eprintln!(
                "padded [64, 64, 64], batch 512, {form:?}: {:.0} ms, {} steps of points, {steps} of boxes",
                1e3 * time,
                batch.concrete_steps
            );
        }
    }
}

/// Networks that fit are still those of the fused kernels.
#[test]
fn fused_kernels_take_what_fits() {
    if !wanted() {
        return;
    }
    for preset in ["mnist-provable-0.11", "mnist-provable-0.11-best", "cifar10-provable-0.001"] {
        let preset = gains_train::PRESETS.iter().find(|known| known.name == preset).unwrap();
        let config = preset.config().unwrap();
        let classes: Vec<String> = (0..10).map(|class| class.to_string()).collect();
        let plan = Plan::pattern(&config.description(0.1, &classes)).unwrap();
        assert_eq!(Cuda::obstacle(&plan, &config, 0).unwrap(), None, "{}", preset.name);
    }
}
