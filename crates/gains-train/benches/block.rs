//! One dopri5 step of the paper's neural ODE (two 3×3 convolutions with time on 4×4 images of 32 channels), forward
//! and backward.
//!
//! ```sh
//! cargo bench -p gains-train --bench block -- --batch 512 --threads 1
//! cargo bench -p gains-train --bench block -- --batch 512 --runs 100 --device cuda
//! ```
#![allow(clippy::print_stdout, clippy::unwrap_used)]

use std::time::Instant;

use gains_core::Shape;
use gains_core::description::RungeKutta;
use gains_train::cpu::Cpu;
use gains_train::cuda::Cuda;
use gains_train::device::Trial;
use gains_train::plan::Stretch;
use gains_train::{Batch, Device, Plan, StepForm};

/// Operations in a row between two waits.
const ROW: usize = 10;

const NETWORK: &str = r#"{
    "format": "gains-model", "version": 1, "name": "block", "input": {"height": 4, "width": 4, "channels": 32},
    "task": {"type": "classification", "classes": ["a", "b"]},
    "layers": [
        {"type": "ode", "dynamics": [
            {"type": "conv2d", "name": "a", "in_channels": 32, "out_channels": 32, "kernel": [3, 3], "padding": [1, 1],
             "time": true},
            {"type": "relu"},
            {"type": "conv2d", "name": "b", "in_channels": 32, "out_channels": 32, "kernel": [3, 3], "padding": [1, 1],
             "time": true},
            {"type": "relu"}],
         "solver": {"method": "dopri5", "controller": {"type": "fixed", "steps": 1}, "end_time": 1.0}},
        {"type": "global_avg_pool"},
        {"type": "linear", "name": "head", "in_features": 32, "out_features": 2}]
}"#;

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let option = |name: &str, default: usize| {
        let at = arguments.iter().position(|a| a == name);
        at.and_then(|at| arguments.get(at + 1)).map_or(default, |value| value.parse().unwrap())
    };
    let (batch, threads, runs) = (option("--batch", 512), option("--threads", 1), option("--runs", 9));
    let plan = Plan::new(&serde_json::from_str(NETWORK).unwrap()).unwrap();
    let parameters = plan.initial_parameters(5, gains_train::config::Initial::Usual);
    if arguments.windows(2).any(|pair| pair == ["--device", "cuda"]) {
        measure(Cuda::new(&plan, &parameters, 0).unwrap(), &plan, batch, runs);
    } else {
        measure(Cpu::<f32>::new(&plan, &parameters, Some(threads)).unwrap(), &plan, batch, runs);
    }
}

fn measure<D: Device>(mut device: D, plan: &Plan, batch: usize, runs: usize) {
    let Stretch::Ode(ode) = &plan.parts[0] else { unreachable!() };
    let shape = Shape::image(4, 4, 32);
    let mut random = fastrand::Rng::with_seed(25);
    let mut fill = |low: f64, high: f64| -> Vec<f64> {
        (0..batch * shape.len()).map(|_| low + (high - low) * random.f64()).collect()
    };
    let (centre, radius) = (fill(-1.0, 1.0), fill(0.0, 0.1));
    println!("{}, batch {batch}, milliseconds over {runs} runs", device.name());
    let cases = [
        ("points", StepForm::Independent, false),
        ("independent", StepForm::Independent, true),
        ("difference", StepForm::Difference, true),
    ];
    for (name, form, boxes) in cases {
        let centre = device.upload(shape, &centre).unwrap();
        let radius = boxes.then(|| device.upload(shape, &radius).unwrap());
        let x = Batch { centre, radius };
        let step = |device: &mut D| device.step(ode, RungeKutta::Dopri5, form, &x, 0.0, 1.0, true).unwrap();
        let back = |device: &mut D, trial: &Trial<D>| {
            let memory = trial.memory.as_ref().unwrap();
            std::hint::black_box(device.step_back(ode, &x, memory, &trial.end, 1.0).unwrap());
        };
        let whole = times(runs, || {
            let trial = step(&mut device);
            // Reading the errors waits for the device.
            device.measure(&trial.errors).unwrap();
            back(&mut device, &trial);
            device.measure(&trial.errors).unwrap();
        });
        // In a row, without waiting in between: what the kernels alone take.
        let kept = step(&mut device);
        let mut in_a_row = |work: &dyn Fn(&mut D)| {
            let all = times(runs.div_ceil(ROW), || {
                (0..ROW).for_each(|_| work(&mut device));
                device.measure(&kept.errors).unwrap();
            });
            all[all.len() / 2] / ROW as f64
        };
        let forward = in_a_row(&|device| drop(step(device)));
        let both = in_a_row(&|device| back(device, &kept));
        let inputs = in_a_row(&|device| {
            device.freeze(true);
            back(device, &kept);
            device.freeze(false);
        });
        println!(
            "{name:<12} min {:8.3}  median {:8.3}  max {:8.3}   in a row: forward {forward:.3}, back {inputs:.3}, gradients of \
             weights {:.3}",
            whole[0],
            whole[whole.len() / 2],
            whole[whole.len() - 1],
            both - inputs
        );
    }
}

/// Milliseconds of so many runs after a first one that does not count, in order.
fn times(runs: usize, mut work: impl FnMut()) -> Vec<f64> {
    work();
    let mut all: Vec<f64> = (0..runs)
        .map(|_| {
            let start = Instant::now();
            work();
            start.elapsed().as_secs_f64() * 1e3
        })
        .collect();
    all.sort_by(f64::total_cmp);
    all
}
