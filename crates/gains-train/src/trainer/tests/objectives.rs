//! Losses at the ends of their ranges are losses that are known otherwise; averages, and the motion of the state.

use super::*;
use crate::loss::Interval;

/// The report of one batch, with livelier weights than at the start, and its gradient.
fn one_batch(config: Config) -> (BatchReport, Vec<f64>) {
    let mut trainer = trainer::<f64>(config, 40);
    let start: Vec<f64> = trainer.parameters().unwrap().iter().map(|value| value * 1.5).collect();
    trainer.set_parameters(&start).unwrap();
    let at = Position { phase: 0, epoch: 3, batch: 0 };
    let indices: Vec<u32> = (0..12).collect();
    let (report, _) = trainer.pass(at, &indices, FirstStep::Given(0.3), None).unwrap();
    (report, trainer.engine.gradients().unwrap())
}

fn with(objective: Objective, change: impl FnOnce(&mut crate::config::Phase)) -> (BatchReport, Vec<f64>) {
    let mut config = constant(Training::Provable, 0.02);
    let phase = &mut config.phases[0];
    phase.objective = objective;
    phase.attack.steps = 2;
    change(phase);
    one_batch(config)
}

fn close(a: &[f64], b: &[f64]) -> bool {
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| (a - b).abs() <= 1e-12 * (1.0 + a.abs()))
}

#[test]
fn a_box_of_the_whole_perturbation_is_the_interval_loss() {
    let whole = with(Objective::Sabr(Sabr { part: 1.0 }), |_| {});
    assert_eq!(whole, with(Objective::Interval(Interval {}), |_| {}));
    let small = with(Objective::Sabr(Sabr { part: 0.3 }), |_| {}).0;
    assert!(small.loss.robust < whole.0.loss.robust && small.loss.width < whole.0.loss.width);
    assert_eq!(small.loss.clean, whole.0.loss.clean, "the points are the images");
}

#[test]
fn all_weight_on_boxes_is_the_interval_loss_alone() {
    let (alone, slopes) = with(Objective::Interval(Interval {}), |phase| phase.loss.robust = 1.0);
    for objective in [Objective::MtlIbp(MtlIbp { alpha: 1.0 }), Objective::CcIbp(CcIbp { alpha: 1.0 })] {
        let (found, gradient) = with(objective, |_| {});
        assert!((found.loss.total - alone.loss.total).abs() < 1e-12, "{objective:?}");
        assert!(close(&gradient, &slopes), "{objective:?}");
    }
    // The powers are taken sample by sample: with all weight on one side, that is its mean.
    let (found, gradient) = with(Objective::ExpIbp(ExpIbp { alpha: 1.0 }), |_| {});
    assert!((found.loss.total - alone.loss.total).abs() < 1e-12 && close(&gradient, &slopes));
}

#[test]
fn all_weight_on_points_is_adversarial_training() {
    let mut config = constant(Training::Adversarial, 0.02);
    config.phases[0].attack.steps = 2;
    let (attacked, slopes) = one_batch(config);
    for objective in [
        Objective::MtlIbp(MtlIbp { alpha: 0.0 }),
        Objective::CcIbp(CcIbp { alpha: 0.0 }),
        Objective::ExpIbp(ExpIbp { alpha: 0.0 }),
    ] {
        let (found, gradient) = with(objective, |phase| phase.loss.width = 0.0);
        assert!((found.loss.total - attacked.loss.total).abs() < 1e-12, "{objective:?}");
        assert!(close(&gradient, &slopes), "{objective:?}");
        assert!(found.loss.clean == attacked.loss.clean && found.loss.robust > found.loss.clean);
    }
}

#[test]
fn every_objective_learns_and_is_taken_up_again_with_the_same_bits() {
    for objective in [
        Objective::Sabr(Sabr::default()),
        Objective::MtlIbp(MtlIbp::default()),
        Objective::ExpIbp(ExpIbp::default()),
    ] {
        let mut config = constant(Training::Provable, 0.03);
        config.optimiser.average = 0.8;
        config.phases[0].epochs = 12;
        config.phases[0].objective = objective;
        config.phases[0].attack.steps = 1;
        let mut whole = trainer::<f32>(config.clone(), 96);
        let mut epochs = Vec::new();
        let mut middle = None;
        whole
            .run(|trainer, advance| {
                epochs.extend(advance.epoch.clone());
                if advance.batch.at == (Position { phase: 0, epoch: 4, batch: 3 }) {
                    middle = Some(trainer.checkpoint()?.to_bytes().unwrap());
                }
                Ok::<_, TrainError>(ControlFlow::Continue(()))
            })
            .unwrap();
        let (first, last) = (&epochs[0], &epochs[11]);
        assert!(last.loss < 0.7 * first.loss, "{objective:?}: {} {}", first.loss, last.loss);
        assert!(last.evaluation.unwrap().accuracy > 0.8, "{objective:?}: {last:?}");
        // So small a problem may be solved without the neural ODE, and the run then says so.
        let Evaluation { accuracy, without_ode, .. } = last.evaluation.unwrap();
        assert!(last.motion.unwrap() > 0.0 || accuracy == without_ode, "{last:?}");
        let mut second = trainer::<f32>(config, 96);
        second.restore(&Checkpoint::from_bytes(&middle.unwrap()).unwrap()).unwrap();
        second.run(|_, _| Ok::<_, TrainError>(ControlFlow::Continue(()))).unwrap();
        assert_eq!(second.checkpoint().unwrap().state, whole.checkpoint().unwrap().state);
    }
}

#[test]
fn averaged_parameters_are_what_is_shipped() {
    let mut config = constant(Training::Standard, 0.0);
    (config.optimiser.average, config.phases[0].epochs) = (0.5, 1);
    let mut trainer = trainer::<f64>(config, 40);
    let mut expected = trainer.parameters().unwrap();
    while trainer.advance().unwrap().is_some() {
        let now = trainer.parameters().unwrap();
        expected.iter_mut().zip(&now).for_each(|(average, value)| *average = 0.5 * *average + 0.5 * value);
    }
    let (_, tensors) = trainer.finish().unwrap();
    let parameters = trainer.parameters().unwrap();
    assert!(tensors == trainer.plan().scatter(&expected) && parameters != expected);
    trainer.evaluate().unwrap();
    assert_eq!(trainer.parameters().unwrap(), parameters, "a look changes nothing");
}

#[test]
fn an_ode_that_does_nothing_is_seen() {
    let mut trainer = trainer::<f64>(constant(Training::Standard, 0.0), 40);
    let at = Position { phase: 0, epoch: 0, batch: 0 };
    let lively = trainer.pass(at, &[0, 1, 2], FirstStep::Rule, None).unwrap().0.motion.unwrap();
    let mut parameters = trainer.parameters().unwrap();
    let route = crate::pass::Route::of(trainer.plan()).unwrap();
    let last = route.dynamics().last().unwrap().clone();
    for at in last.weights.chain(last.biases) {
        parameters[at] = 0.0;
    }
    trainer.set_parameters(&parameters).unwrap();
    let still = trainer.pass(at, &[0, 1, 2], FirstStep::Rule, None).unwrap().0.motion.unwrap();
    assert!(lively > 0.01 && still == 0.0, "{lively} {still}");
    let evaluation = trainer.evaluate().unwrap();
    assert_eq!(evaluation.accuracy, evaluation.without_ode);
}
