//! Small random networks, one for each kind of operation.
#![allow(dead_code, clippy::unwrap_used)]

use gains_core::Shape;
use gains_train::cpu::{Cpu, Tensor};
use gains_train::plan::{LayerPlan, OdePlan, Stretch};
use gains_train::{Batch, Device, Plan};

fn conv(
    name: &str,
    from: usize,
    to: usize,
    kernel: usize,
    stride: usize,
    padding: usize,
    time: bool,
) -> String {
    format!(
        r#"{{"type": "conv2d", "name": "{name}", "in_channels": {from}, "out_channels": {to},
            "kernel": [{kernel}, {kernel}], "stride": [{stride}, {stride}], "padding": [{padding}, {padding}],
            "time": {time}}}"#
    )
}

fn linear(name: &str, from: usize, to: usize, time: bool) -> String {
    format!(
        r#"{{"type": "linear", "name": "{name}", "in_features": {from}, "out_features": {to}, "time": {time}}}"#
    )
}

const RELU: &str = r#"{"type": "relu"}"#;
const SOLVER: &str = r#"{"method": "dopri5", "controller": {"type": "fixed", "steps": 1}, "end_time": 1.0}"#;

fn describe(input: Shape, layers: &[String]) -> String {
    format!(
        r#"{{"format": "gains-model", "version": 1, "name": "test",
            "input": {{"height": {}, "width": {}, "channels": {}}},
            "task": {{"type": "classification", "classes": ["a", "b", "c", "d"]}}, "layers": [{}]}}"#,
        input.height,
        input.width,
        input.channels,
        layers.join(", ")
    )
}

fn ode(dynamics: &[String]) -> String {
    format!(r#"{{"type": "ode", "dynamics": [{}], "solver": {SOLVER}}}"#, dynamics.join(", "))
}

/// A network, its parameters, and what it was made from.
pub struct Case {
    pub description: gains_core::Description,
    pub plan: Plan,
    pub parameters: Vec<f64>,
}

impl Case {
    fn new(input: Shape, layers: &[String], seed: u64) -> Self {
        let description: gains_core::Description = serde_json::from_str(&describe(input, layers)).unwrap();
        let plan = Plan::new(&description).unwrap();
        let mut parameters = plan.initial_parameters(seed, gains_train::config::Initial::Usual);
        // Livelier than fresh parameters, so that ReLUs switch and times matter.
        parameters.iter_mut().for_each(|p| *p *= 1.5);
        Self { description, plan, parameters }
    }

    /// Convolutions with and without stride, padding, bias-only time; pooling is left to the head.
    pub fn encoder(seed: u64) -> Self {
        let layers = [
            conv("a", 2, 3, 3, 1, 1, false),
            RELU.into(),
            conv("b", 3, 9, 3, 2, 1, false),
            conv("c", 9, 4, 2, 1, 0, false),
            RELU.into(),
            r#"{"type": "flatten"}"#.into(),
            linear("d", 16, 5, false),
            RELU.into(),
            linear("head", 5, 4, false),
        ];
        Self::new(Shape::image(5, 6, 2), &layers, seed)
    }

    /// Two convolutions with time, a ReLU behind each.
    pub fn convolutions(seed: u64) -> Self {
        let dynamics =
            [conv("a", 2, 9, 3, 1, 1, true), RELU.into(), conv("b", 9, 2, 3, 1, 1, true), RELU.into()];
        let layers = [ode(&dynamics), r#"{"type": "flatten"}"#.into(), linear("head", 18, 4, false)];
        Self::new(Shape::image(3, 3, 2), &layers, seed)
    }

    /// Three linear layers, the last without activation.
    pub fn perceptron(seed: u64) -> Self {
        let dynamics = [
            linear("a", 5, 7, true),
            RELU.into(),
            linear("b", 7, 6, false),
            RELU.into(),
            linear("c", 6, 5, true),
        ];
        Self::new(Shape::flat(5), &[ode(&dynamics), linear("head", 5, 4, false)], seed)
    }

    pub fn cpu(&self, threads: usize) -> Cpu<f64> {
        Cpu::new(&self.plan, &self.parameters, Some(threads)).unwrap()
    }

    pub fn ode(&self) -> &OdePlan {
        self.plan
            .parts
            .iter()
            .find_map(|part| if let Stretch::Ode(ode) = part { Some(ode) } else { None })
            .unwrap()
    }

    pub fn layers(&self) -> Vec<&LayerPlan> {
        self.plan
            .parts
            .iter()
            .filter_map(|part| if let Stretch::Layer(layer) = part { Some(layer) } else { None })
            .collect()
    }

    pub fn network(&self) -> gains_core::Network {
        let tensors = self.plan.scatter(&self.parameters);
        gains_core::model_file::build(self.description.clone(), &tensors, String::new()).unwrap()
    }
}

pub fn values(random: &mut fastrand::Rng, count: usize, low: f64, high: f64) -> Vec<f64> {
    (0..count).map(|_| low + (high - low) * random.f64()).collect()
}

/// Random points, or boxes of radius up to `radius`.
pub fn batch(
    cpu: &mut Cpu<f64>,
    random: &mut fastrand::Rng,
    shape: Shape,
    samples: usize,
    radius: Option<f64>,
) -> Batch<Tensor<f64>> {
    let count = samples * shape.len();
    let centre = cpu.upload(shape, &values(random, count, -1.0, 1.0)).unwrap();
    let radius = radius.map(|radius| cpu.upload(shape, &values(random, count, 0.0, radius)).unwrap());
    Batch { centre, radius }
}

/// Centres, then radii.
pub fn flat(cpu: &mut Cpu<f64>, batch: &Batch<Tensor<f64>>) -> Vec<f64> {
    let shape = Shape::flat(1);
    let mut all = cpu.download(shape, &batch.centre).unwrap();
    if let Some(radius) = &batch.radius {
        all.extend(cpu.download(shape, radius).unwrap());
    }
    all
}

/// The inverse of [`flat`].
pub fn unflat(cpu: &mut Cpu<f64>, values: &[f64], boxes: bool) -> Batch<Tensor<f64>> {
    let shape = Shape::flat(1);
    if !boxes {
        return Batch { centre: cpu.upload(shape, values).unwrap(), radius: None };
    }
    let (centre, radius) = values.split_at(values.len() / 2);
    Batch { centre: cpu.upload(shape, centre).unwrap(), radius: Some(cpu.upload(shape, radius).unwrap()) }
}
