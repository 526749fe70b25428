//! Whole networks: gradients against differences, boxes against points, the general engine against the fused one, and runs.

mod grammar;

use std::ops::ControlFlow;

use gains_core::description::{LayerSpec, Task};
use gains_core::{Description, Shape};

use super::machines::{config, layers, networks, samples};
use super::*;
use crate::config::{Aggregation, Config, Initial, PhaseSolver, Training};
use crate::cpu::{Cpu, Real};
use crate::device::{StepForm, WidthNorm};
use crate::engine::{Engine, FirstStep};
use crate::metrics::{BatchReport, Position};
use crate::trainer::{Images, Outcome, TrainError, Trainer};
use crate::{Checkpoint, Plan};

fn trainer<F: Real>(
    config: &Config,
    network: (Shape, &[LayerSpec], usize),
) -> Trainer<ProgramEngine<Host<F>>> {
    machines::trainer(Host::new(Some(1)).unwrap(), config, network)
}

/// Compares the gradient of a batch with differences of its loss.
fn check_gradient(config: &Config, network: (Shape, &[LayerSpec], usize), name: &str) -> BatchReport {
    let mut trainer = trainer::<f64>(config, network);
    let at = Position { phase: 0, epoch: 3, batch: 0 };
    let indices: Vec<u32> = (0..8).collect();
    let first = FirstStep::Given(0.3);
    let start: Vec<f64> = trainer.parameters().unwrap().iter().map(|value| value * 1.2).collect();
    trainer.set_parameters(&start).unwrap();
    let (report, _) = trainer.pass(at, &indices, first, None).unwrap();
    let gradient = trainer.engine.gradients().unwrap();
    let size = gradient.iter().fold(0.0_f64, |most, value| most.max(value.abs()));
    assert!(size > 0.0, "{name}");
    let learned = trainer.engine.learned();
    let mut random = fastrand::Rng::with_seed(5);
    for round in 0..10 {
        let mut direction = vec![0.0; start.len()];
        if round % 2 == 0 {
            direction.fill_with(|| random.f64() - 0.5);
        } else {
            direction[random.usize(0..start.len())] = 1.0;
        }
        direction.iter_mut().zip(&learned).for_each(|(d, learned)| *d *= f64::from(u8::from(*learned)));
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
        let off = (difference - product).abs() / (size * length.max(1.0));
        assert!(off < 5e-6, "{name}, round {round}: {off}: {difference}, {product}");
    }
    report
}

#[test]
fn gradients_of_whole_networks_are_the_slopes_of_their_losses() {
    for (name, shape, layers, outputs) in networks() {
        let network = (shape, &layers[..], outputs);
        check_gradient(&config(Training::Standard, 0.0), network, name);
        for form in [StepForm::Independent, StepForm::Difference] {
            let mut config = config(Training::Provable, 0.01);
            config.phases[0].step_form = form;
            // Statistics of a batch are constants to its boxes, so that slopes through them are left out.
            if name == "images" {
                config.phases[0].loss.robust = 0.0;
                config.phases[0].loss.width = 0.0;
            }
            check_gradient(&config, network, &format!("{name}, {form:?}"));
        }
    }
}

#[test]
fn gradients_of_every_setting_are_the_slopes_of_the_loss() {
    let (_, shape, layers, outputs) = networks().remove(2);
    let network = (shape, &layers[..], outputs);
    for aggregation in [Aggregation::Average, Aggregation::WorstCase] {
        let mut config = config(Training::Provable, 0.02);
        let phase = &mut config.phases[0];
        phase.aggregation = aggregation;
        phase.loss.width_norm = WidthNorm::Absolute;
        phase.loss.error = 0.01;
        phase.loss.alive = 0.3;
        phase.loss.alive_target = 20.0;
        check_gradient(&config, network, &format!("{aggregation:?}"));
    }
    for form in [StepForm::Independent, StepForm::Difference] {
        let mut config = config(Training::Provable, 0.05);
        let phase = &mut config.phases[0];
        // On the way to the target.
        phase.eps = Some(crate::schedule::Smooth::new(0.05, 0, 8));
        phase.step_form = form;
        (phase.loss.tightness, phase.loss.balance, phase.loss.decisions) = (0.4, 0.3, 0.02);
        let report = check_gradient(&config, network, &format!("the way of boxes, {form:?}"));
        let terms = report.loss;
        assert!(terms.tightness > 0.0 && terms.balance > 0.0 && terms.decisions > 0.0, "{terms:?}");
    }
    let mut warm = config(Training::Provable, 0.02);
    warm.phases[0].solver = PhaseSolver::Euler { steps: 2 };
    check_gradient(&warm, network, "euler");
    for criterion in ["type = 'margin'", "type = 'squared'", "type = 'absolute'"] {
        let mut config = config(Training::Provable, 0.02);
        config.criterion = toml::from_str(criterion).unwrap();
        config.data = Some(crate::config::DataConfig::default());
        if criterion.contains("margin") {
            config.data = Some(toml::from_str("class_weights = 'balanced'").unwrap());
        }
        check_gradient(&config, network, criterion);
        config.phases[0].objective = toml::from_str("type = 'cc_ibp'\nalpha = 0.3").unwrap();
        check_gradient(&config, network, &format!("{criterion}, mixed"));
    }
}

/// On the family of networks that devices know, both engines come to the same losses, steps and gradients.
#[test]
fn the_general_engine_agrees_with_the_fused_one() {
    let text = "batch = 16\nmethod = 'provable'\n[network]\nimage = { height = 8, width = 8, channels = 1 }\nmean = [0.3]\n\
                std = [0.4]\nencoder = { channels = [4, 3], kernel = 3, stride = 2 }\n\
                dynamics = { channels = [5, 3], kernel = 3 }\n[[phases]]\nepochs = 4\n\
                eps = { target = 0.02 }\nkappa = [{ from = 0, count = 3 }]";
    let mut config = Config::from_toml(text).unwrap();
    let mut random = fastrand::Rng::with_seed(1);
    let pixels: Vec<u8> = (0..12 * 64).map(|_| random.u8(..)).collect();
    let labels: Vec<u8> = (0..12).map(|_| random.u8(0..3)).collect();
    let classes = ["a", "b", "c"].map(String::from);
    let description = config.description(0.1, &classes);
    let at = Position { phase: 0, epoch: 3, batch: 0 };
    let indices: Vec<u32> = (0..12).collect();
    for (form, tolerance, objective) in [
        (StepForm::Independent, 0.005, "type = 'interval'"),
        (StepForm::Difference, 1e-4, "type = 'interval'"),
        (StepForm::Independent, 0.005, "type = 'sabr'"),
        (StepForm::Independent, 0.005, "type = 'exp_ibp'"),
    ] {
        config.phases[0].step_form = form;
        config.solver.tolerance = tolerance;
        config.phases[0].objective = toml::from_str(objective).unwrap();
        let plan = Plan::new(&description).unwrap();
        let start: Vec<f64> =
            plan.initial_parameters(3, Initial::Usual).iter().map(|value| 1.5 * value).collect();
        let tensors = plan.scatter(&start);
        let device = Cpu::<f64>::new(&plan, &start, Some(1)).unwrap();
        let (images, none) =
            (Images { pixels: &pixels, labels: &labels }, Images { pixels: &[], labels: &[] });
        let mut fused = Trainer::new(device, config.clone(), &classes, images, none).unwrap();
        fused.set_parameters(&start).unwrap();
        let solved = config.description(0.1, &classes);
        let blueprint = Blueprint::new(&solved).unwrap();
        let gathered = blueprint.parameters.gather(&tensors).unwrap();
        let samples = Samples {
            shape: solved.input,
            inputs: pixels.iter().map(|byte| f32::from(*byte) / 255.0).collect(),
            truth: Truth::Classes(labels.iter().map(|label| u32::from(*label)).collect()),
            training: 12,
            radii: vec![1.0; 64],
            range: Some([0.0, 1.0]),
        };
        let host = Host::<f64>::new(Some(2)).unwrap();
        let engine = ProgramEngine::new(host, blueprint, &config, samples).unwrap();
        let mut general = Trainer::with(engine, config.clone(), solved, &classes, &gathered).unwrap();
        let (a, _) = fused.pass(at, &indices, FirstStep::Given(0.3), None).unwrap();
        let (b, _) = general.pass(at, &indices, FirstStep::Given(0.3), None).unwrap();
        assert_eq!(
            (a.splits, a.abstract_steps, a.trajectories),
            (b.splits, b.abstract_steps, b.trajectories)
        );
        let near = |x: f64, y: f64| (x - y).abs() < 1e-6 * (1.0 + x.abs());
        assert!(
            near(a.loss.total, b.loss.total) && near(a.loss.robust, b.loss.robust),
            "{form:?} {a:?} {b:?}"
        );
        assert!(near(a.loss.width, b.loss.width) && near(a.loss.clean, b.loss.clean), "{form:?} {a:?} {b:?}");
        let (of_fused, of_general) = (fused.engine.gradients().unwrap(), general.engine.gradients().unwrap());
        let (fused, general) = (fused.engine.tensors(&of_fused), general.engine.tensors(&of_general));
        for (name, (_, expected)) in &fused {
            let size = expected.iter().fold(1e-3_f64, |most, value| most.max(value.abs()));
            let found = &general[name].1;
            let off = expected.iter().zip(found).fold(0.0_f64, |most, (a, b)| most.max((a - b).abs()));
            assert!(off < 1e-5 * size, "{form:?} {objective} {name}: {off} of {size}");
        }
    }
}

#[test]
fn every_network_learns_and_is_taken_up_again_with_the_same_bits() {
    for (name, shape, layers, outputs) in networks() {
        let mut config = config(Training::Provable, 0.01);
        config.phases[0].epochs = 6;
        config.phases[0].objective = toml::from_str("type = 'sabr'").unwrap();
        config.optimiser.average = 0.5;
        config.optimiser.warmup = 0.2;
        config.layers = Some(layers.clone());
        config.adopt_solver();
        let network = (shape, &layers[..], outputs);
        let mut whole = trainer::<f32>(&config, network);
        let mut losses = Vec::new();
        let mut middle = None;
        let outcome = whole.run(|trainer, advance| {
            losses.extend(advance.epoch.as_ref().map(|epoch| epoch.loss));
            if advance.batch.at == (Position { phase: 0, epoch: 2, batch: 1 }) {
                trainer.judge(2, 0.5, None)?;
                middle = Some(trainer.checkpoint()?.to_bytes().unwrap());
            }
            Ok::<_, TrainError>(ControlFlow::Continue(()))
        });
        assert_eq!(outcome.unwrap(), Outcome::Finished);
        assert!(losses[5] < losses[0], "{name}: {losses:?}");
        let checkpoint = Checkpoint::from_bytes(&middle.unwrap()).unwrap();
        let mut again = trainer::<f32>(&config, network);
        again.restore(&checkpoint).unwrap();
        again.run(|_, _| Ok::<_, TrainError>(ControlFlow::Continue(()))).unwrap();
        let ends = [&mut whole, &mut again].map(|trainer| trainer.checkpoint().unwrap().state);
        assert!(ends[0] == ends[1], "{name}");
        // What is kept is a model file.
        let (description, tensors) = whole.finish().unwrap();
        let bytes = gains_core::model_file::write_model(&description, &tensors).unwrap();
        gains_core::model_file::read_model(&bytes).unwrap();
    }
}

#[test]
fn what_is_frozen_stays() {
    let (_, shape, layers, outputs) = networks().remove(2);
    let mut config = config(Training::Standard, 0.0);
    config.freeze = vec!["a".into(), "f.bias".into()];
    let mut trainer = trainer::<f32>(&config, (shape, &layers, outputs));
    let before = trainer.network().unwrap().1;
    while trainer.advance().unwrap().is_some() {}
    let after = trainer.network().unwrap().1;
    for (name, values) in &before {
        let held = ["a.weight", "a.bias", "f.bias"].contains(&name.as_str());
        assert_eq!(after[name] == *values, held, "{name}");
    }
    config.freeze = vec!["b".into(), "nothing".into()];
    let blueprint = Blueprint::new(&trainer.network().unwrap().0).unwrap();
    let host = Host::<f32>::new(None).unwrap();
    let refused = ProgramEngine::new(host, blueprint, &config, samples(shape, outputs, 8, false));
    assert!(refused.err().unwrap().to_string().contains("'nothing'"));
}

#[test]
fn what_cannot_be_trained_is_named() {
    let adaptive = r#"[{"type": "ode", "dynamics": [{"type": "linear", "name": "f", "in_features": 2, "out_features": 2}],
        "solver": {"method": "dopri5", "end_time": 1.0, "controller": {"type": "adaptive", "tolerance": 0.1, "initial_step": 0.1}}}]"#;
    let task = || Task::Classification { classes: vec!["a".into(), "b".into()] };
    let describe = |json: &str| Description::new("x", task(), Shape::flat(2), layers(json));
    let blueprint = Blueprint::new(&describe(adaptive)).unwrap();
    let engine = |blueprint, samples| {
        let host = Host::<f32>::new(None).unwrap();
        ProgramEngine::new(host, blueprint, &config(Training::Standard, 0.0), samples)
    };
    let message = engine(blueprint, samples(Shape::flat(2), 2, 8, false)).err().unwrap().to_string();
    assert!(message.contains("any step size"), "{message}");
    let blueprint = Blueprint::new(&describe(r#"[{"type": "relu"}]"#)).unwrap();
    let message = engine(blueprint, samples(Shape::flat(2), 2, 8, false)).err().unwrap().to_string();
    assert!(message.contains("nothing to learn"), "{message}");
    let linear = r#"[{"type": "linear", "name": "f", "in_features": 2, "out_features": 2}]"#;
    let made =
        |samples| engine(Blueprint::new(&describe(linear)).unwrap(), samples).err().unwrap().to_string();
    assert!(made(samples(Shape::flat(3), 2, 8, false)).contains("the samples are"));
    assert!(made(samples(Shape::flat(2), 3, 8, false)).contains("there are 2 classes"));
    assert!(made(samples(Shape::flat(2), 2, 8, true)).contains("criterion"));
    let wrong = Blueprint::new(&describe(
        r#"[{"type": "linear", "name": "f", "in_features": 3, "out_features": 2}]"#,
    ));
    assert!(wrong.err().unwrap().to_string().contains("expects 3 features"));
    let huge = Blueprint::new(&describe(
        r#"[{"type": "linear", "name": "f", "in_features": 2, "out_features": 4000000000}]"#,
    ));
    assert!(huge.err().unwrap().to_string().contains("more than"));
}
