//! Whatever the loader accepts can be trained: networks drawn from its grammar compute the same in training as in use, and
//! their boxes hold their points.

use gains_core::description::{ControllerSpec, SolverSpec};
use gains_core::{Description, Precision};
use gains_ode::Inference;
use gains_testkit::Choices;
use gains_testkit::grammar::ImageCase;

use super::*;
use crate::engine::{Look, Pass, Rows, Setting};
use crate::explore::Rules;
use crate::metrics::Position;

fn solvers(description: &Description) -> Vec<SolverSpec> {
    let odes = description.layers.iter().filter_map(|layer| match layer {
        LayerSpec::Ode { solver, .. } => Some(solver.clone()),
        _ => None,
    });
    odes.collect()
}

/// A trainer for one case, whose only sample is its centre.
fn trainer_of(case: &ImageCase, form: StepForm) -> Option<Trainer<ProgramEngine<Host<f64>>>> {
    let description = &case.model.description;
    let solvers = solvers(description);
    if solvers.iter().any(|solver| matches!(solver.controller, ControllerSpec::Adaptive { .. })) {
        return None;
    }
    let blueprint = Blueprint::new(description).unwrap_or_else(|error| panic!("{error}\n{case}"));
    if blueprint.parameters.count() == 0 {
        return None;
    }
    let start = blueprint.parameters.gather(&case.model.tensors).unwrap();
    let shape = description.input;
    let samples = Samples {
        shape,
        inputs: case.centre.iter().map(|value| *value as f32).collect(),
        truth: Truth::Classes(vec![0]),
        training: 1,
        radii: case.free.iter().map(|free| f32::from(u8::from(*free))).collect(),
        range: Some([case.range.lower as f32, case.range.upper as f32]),
    };
    let mut config = config(Training::Provable, 0.1);
    config.phases[0].step_form = form;
    let classes: Vec<String> = (0..case.model.network().outputs()).map(|class| class.to_string()).collect();
    let engine = ProgramEngine::new(Host::<f64>::new(Some(1)).unwrap(), blueprint, &config, samples).unwrap();
    let mut trainer = Trainer::with(engine, config, description.clone(), &classes, &start).unwrap();
    let first = |solver: &SolverSpec| match &solver.controller {
        ControllerSpec::ControlledAdaptive(spec) => spec.initial_step,
        _ => 0.0,
    };
    trainer.set_average_steps(solvers.iter().map(first).collect());
    Some(trainer)
}

/// The margins of a network in use at a point, the first class being the label; none where numbers are so large on the way
/// that sums in another order say something else, as a cosine of 10³⁶ does.
fn margins(network: &gains_core::Network, input: &[f64]) -> Option<Vec<f64>> {
    let run = Inference::run(network, input, Precision::Float64).ok()?;
    let size = run.values.iter().flatten().fold(0.0_f64, |most, value| most.max(value.abs()));
    (size < 1e6).then(|| run.output.iter().map(|value| value - run.output[0]).collect())
}

fn near(a: &[f64], b: &[f64]) -> bool {
    let size = a.iter().chain(b).fold(1.0_f64, |most, value| most.max(value.abs()));
    a.iter().zip(b).all(|(a, b)| (a - b).abs() <= 1e-7 * size)
}

#[test]
fn networks_of_the_grammar_compute_in_training_what_they_compute_in_use() {
    let mut compared = 0;
    for seed in 0..400 {
        let mut case = ImageCase::draw(&mut Choices::from_seed(seed));
        case.centre.iter_mut().for_each(|value| *value = f64::from(*value as f32));
        let network = case.model.network();
        let Some(mut trainer) = trainer_of(&case, StepForm::Independent) else { continue };
        let Some(expected) = margins(&network, &case.centre) else { continue };
        let found = trainer.rows_in_use().unwrap();
        assert!(near(&found, &expected), "seed {seed}: {found:?}, expected {expected:?}\n{case}");
        compared += 1;
    }
    assert!(compared > 150, "{compared}");
}

/// With fixed steps there is one trajectory, which every point of a box follows.
#[test]
fn boxes_of_networks_of_the_grammar_hold_their_points() {
    let mut compared = 0;
    for seed in 0..1200 {
        let case = ImageCase::draw(&mut Choices::from_seed(seed));
        let fixed =
            |solver: &SolverSpec| matches!(solver.controller, ControllerSpec::Fixed { steps } if steps < 20);
        if !solvers(&case.model.description).iter().all(fixed) || case.radius > 2.0 {
            continue;
        }
        let network = case.model.network();
        let mut random = fastrand::Rng::with_seed(seed);
        for form in [StepForm::Independent, StepForm::Difference] {
            let Some(mut trainer) = trainer_of(&case, form) else { continue };
            let Some(bounds) = trainer.bounds_in_use(case.radius) else { continue };
            let (low, high) = region(&case);
            for round in 0..20 {
                let draw = |(low, high): (&f64, &f64)| match round % 2 {
                    0 => low + (high - low) * random.f64(),
                    _ => {
                        if random.bool() {
                            *low
                        } else {
                            *high
                        }
                    }
                };
                let point: Vec<f64> = low.iter().zip(&high).map(draw).collect();
                let Some(found) = margins(&network, &point) else { continue };
                for (found, bound) in found.iter().zip(&bounds) {
                    let room = 1e-6 * (1.0 + found.abs() + bound.abs());
                    assert!(*found <= bound + room, "seed {seed}, {form:?}: {found} above {bound}\n{case}");
                }
                compared += 1;
            }
        }
    }
    assert!(compared > 1000, "{compared}");
}

/// The ends of the box that training makes, a little inside for float32.
fn region(case: &ImageCase) -> (Vec<f64>, Vec<f64>) {
    let ends = |at: usize| {
        let x = f64::from(case.centre[at] as f32);
        let reach = if case.free[at] { 0.999 * case.radius } else { 0.0 };
        ((x - reach).max(case.range.lower).min(x), (x + reach).min(case.range.upper).max(x))
    };
    (0..case.centre.len()).map(ends).unzip()
}

impl Trainer<ProgramEngine<Host<f64>>> {
    /// What the criterion would see at the only sample, solved as in use.
    fn rows_in_use(&mut self) -> Result<Vec<f64>, crate::solve::Failure> {
        let (phase, steps) = (self.config().phases[0].clone(), self.average_steps().to_vec());
        let config = self.config().clone();
        let setting = Setting {
            early: 0.0,
            config: &config,
            phase: &phase,
            at: Position::default(),
            indices: &[0],
            steps: &steps,
            augment: None,
        };
        self.engine.pass(setting)?.rows_of(Look::Whole)
    }

    /// Bounds of the same over the box around it; nothing where points have no finite value.
    fn bounds_in_use(&mut self, radius: f64) -> Option<Vec<f64>> {
        let (phase, steps) = (self.config().phases[0].clone(), self.average_steps().to_vec());
        let config = self.config().clone();
        let setting = Setting {
            early: 0.0,
            config: &config,
            phase: &phase,
            at: Position::default(),
            indices: &[0],
            steps: &steps,
            augment: None,
        };
        let mut pass = self.engine.pass(setting).ok()?;
        let inputs = pass.inputs().ok()?;
        let points = pass.send_points(&inputs, FirstStep::Given(0.1)).ok()?;
        let reference = pass.reference(&points);
        let rules = Rules { trajectories: 1, q: 0.2, include_reference: false };
        let random = &mut fastrand::Rng::with_seed(1);
        pass.forget_statistics();
        let boxes = pass.send_boxes(&inputs, radius, &reference, &rules, random).ok()?;
        let bounds = pass.box_rows(&boxes, 0).ok()?;
        bounds.iter().all(|bound| !bound.is_nan()).then_some(bounds)
    }
}
