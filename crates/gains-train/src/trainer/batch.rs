//! What is done with one batch.

use crate::config::{LossWeights, Training};
use crate::device::{AdamStep, Pull, Tally};
use crate::engine::{Engine, FirstStep, Look, Pass, Setting};
use crate::explore::Rules;
use crate::loss::width::width_share;
use crate::loss::{Combination, Points};
use crate::metrics::{BatchReport, Evaluation, LossTerms, Position};
use crate::random::{Purpose, seed_at};
use crate::solve::{Failure, average};

use super::Trainer;

impl<E: Engine> Trainer<E> {
    /// Trains on the samples at these indices.
    pub(super) fn train(&mut self, at: Position, indices: &[u32]) -> Result<BatchReport, Failure> {
        let phase = &self.config.phases[at.phase];
        let optimiser = &self.config.optimiser;
        let (done, all) = self.progress();
        let factor = optimiser.schedule.at(at.epoch, phase.epochs) * optimiser.warmth(done, all);
        let step = optimiser.step(factor, self.updates + 1);
        let (report, steps) = self.pass(at, indices, FirstStep::Rule, Some(&step))?;
        for (what, value) in
            [("the loss", report.loss.total), ("the norm of the gradient", report.gradient_norm)]
        {
            if !value.is_finite() {
                return Err(Failure::Diverged(format!("{what} is {value}")));
            }
        }
        self.updates += 1;
        self.average_steps = steps;
        if self.averaging() {
            self.engine.track(self.config.optimiser.average)?;
        }
        Ok(report)
    }

    /// The loss of a batch and its gradient; an update, if one is given. Nothing else changes. Also returns the averages of
    /// first steps that the batch leads to.
    pub(crate) fn pass(
        &mut self,
        at: Position,
        indices: &[u32],
        first: FirstStep,
        update: Option<&AdamStep>,
    ) -> Result<(BatchReport, Vec<f64>), Failure> {
        let phase = &self.config.phases[at.phase];
        let mut report = BatchReport {
            at,
            batches: self.batches(),
            samples: indices.len(),
            eps: phase.eps_in(at.epoch, at.batch, self.batches()),
            kappa: phase.kappa_at(at.epoch),
            q: phase.q_at(at.epoch),
            rate: update.map_or(0.0, |step| step.rate),
            ..BatchReport::default()
        };
        let augment = seed_at(self.config.seed, Purpose::Augment, at.phase, at.epoch, at.batch);
        let target = phase.eps.map_or(0.0, |eps| eps.target);
        let early = if target > 0.0 { 1.0 - report.eps / target } else { 0.0 };
        let setting = Setting {
            config: &self.config,
            phase,
            at,
            indices,
            steps: &self.average_steps,
            early,
            augment: update.map(|_| augment),
        };
        let mut pass = self.engine.pass(setting)?;
        let (terms, first_steps) = minimise(&mut pass, setting, first, &mut report)?;
        drop(pass);
        if let Some(step) = update {
            self.engine.update(step, &self.config.optimiser)?;
        }
        let steps = self.average_steps.iter().zip(&first_steps);
        let steps: Vec<f64> =
            steps.map(|(eta, step)| step.map_or(*eta, |step| average(*eta, step))).collect();
        report.initial_step = first_steps.iter().copied().flatten().next().unwrap_or(0.0);
        report.average_step = steps.first().copied().unwrap_or(0.0);
        let ledger = self.engine.take_ledger()?;
        let samples = indices.len() as f64;
        report.gradient_norm = ledger.gradient_norm;
        report.latent = ledger.latent;
        report.loss.clean = ledger.clean.cross_entropy / samples;
        report.accuracy = ledger.clean.correct / samples;
        report.error = ledger.clean.error / samples;
        if ledger.robust.samples > 0.0 {
            report.loss.robust = ledger.robust.cross_entropy / ledger.robust.samples;
            report.robust_accuracy = ledger.robust.correct / ledger.robust.samples;
            report.robust_error = ledger.robust.error / ledger.robust.samples;
            report.loss.width = ledger.robust.width * terms.width_share;
        }
        let main = match terms.main {
            Main::Sum { points, boxes } => points * report.loss.clean + boxes * report.loss.robust,
            Main::Joint(value) => value,
        };
        report.loss.total = main + regularisers(&report.loss, &phase.loss, early);
        Ok((report, steps))
    }

    /// The samples to look at, solved as in a phase.
    pub(super) fn evaluate_at(&mut self, phase: usize) -> Result<Evaluation, Failure> {
        let tally = self.look(phase, Look::Whole)?;
        let without_ode = self.look(phase, Look::WithoutOde)?.correct;
        let images = self.engine.samples().1;
        let count = images.max(1) as f64;
        Ok(Evaluation {
            images,
            accuracy: tally.correct / count,
            cross_entropy: tally.cross_entropy / count,
            without_ode: without_ode / count,
            error: tally.error / count,
        })
    }

    fn look(&mut self, phase: usize, look: Look) -> Result<Tally, Failure> {
        let (at, phase) = (self.course.at, &self.config.phases[phase]);
        let (first, count) = self.engine.samples();
        self.engine.take_ledger()?;
        let all: Vec<u32> = (first..first + count).map(|index| index as u32).collect();
        for indices in all.chunks(self.config.batch) {
            let steps = &self.average_steps;
            let config = &self.config;
            let setting = Setting { config, phase, at, indices, steps, early: 0.0, augment: None };
            self.engine.pass(setting)?.look(look)?;
        }
        Ok(self.engine.take_ledger()?.clean)
    }
}

/// What the main term of a loss came to.
enum Main {
    /// The weights of its two parts, which the ledger knows.
    Sum { points: f64, boxes: f64 },
    /// Its value.
    Joint(f64),
}

struct Terms {
    main: Main,
    width_share: f64,
}

/// Sends a batch through as its phase asks for, and its gradients back. Also returns the first steps of its solvers.
fn minimise<P: Pass>(
    pass: &mut P,
    setting: Setting<'_>,
    first: FirstStep,
    report: &mut BatchReport,
) -> Result<(Terms, Vec<Option<f64>>), Failure> {
    let (phase, config, samples) = (setting.phase, setting.config, pass.samples());
    let at = report.at;
    let seed = |purpose| seed_at(config.seed, purpose, at.phase, at.epoch, at.batch);
    let objective = phase.objective.loss();
    let boxes = objective.boxes();
    let bounds = config.method == Training::Provable && report.eps > 0.0;
    let attacked_points = match config.method {
        Training::Standard => false,
        Training::Adversarial => report.eps > 0.0,
        Training::Provable => bounds && objective.points() == Points::Attacked,
    };
    let attacked_boxes = bounds && boxes.around == Points::Attacked && boxes.part < 1.0;
    let reach = if attacked_points { report.eps } else { (1.0 - boxes.part) * report.eps };
    let inputs = pass.inputs()?;
    let attacked = match attacked_points || attacked_boxes {
        true => Some(pass.attack(&inputs, reach, seed(Purpose::Attack))?),
        false => None,
    };
    // An attack leaves its own traces.
    pass.begin()?;

    let chosen = |wanted: bool| attacked.as_ref().filter(|_| wanted).unwrap_or(&inputs);
    let points = pass.send_points(chosen(attacked_points), first)?;
    let trip = pass.trip(&points);
    report.concrete_steps = trip.steps;
    (report.loss.steady, report.loss.alive, report.motion) = (trip.steady, trip.alive, trip.motion);
    let first_steps = trip.first_steps.clone();
    if !bounds {
        pass.return_points(points, Pull::CrossEntropy(1.0 / samples as f64))?;
        let main = Main::Sum { points: 1.0, boxes: 0.0 };
        return Ok((Terms { main, width_share: 0.0 }, first_steps));
    }
    let target = phase.eps.map_or(report.eps, |eps| eps.target);
    let combination = objective.combination(phase.loss.robust * report.eps / target);
    let reference = pass.reference(&points);
    // A sum lets the points go back before the boxes set out: less lies in memory at once.
    let kept = match combination {
        Combination::Sum { points: weight, .. } => {
            pass.return_points(points, Pull::CrossEntropy(weight / samples as f64))?;
            None
        }
        Combination::Joint(loss) => Some((points, loss)),
    };
    let rules = Rules {
        trajectories: report.kappa as usize,
        q: report.q,
        include_reference: phase.include_reference,
    };
    let mut random = fastrand::Rng::with_seed(seed(Purpose::Explore));
    let radius = boxes.part * report.eps;
    let run = pass.send_boxes(chosen(attacked_boxes), radius, &reference, &rules, &mut random)?;
    let trip = pass.box_trip(&run);
    let width_share = width_share(phase, trip.boxes);
    (report.trajectories, report.splits, report.abstract_steps) =
        (trip.trajectories, trip.splits, trip.steps);
    let width = phase.loss.width;
    let (terms, main) = match (combination, kept) {
        (_, Some((points, loss))) => {
            let outcome = pass.return_both(points, run, loss, width)?;
            (outcome.terms, Main::Joint(outcome.value))
        }
        (Combination::Sum { points, boxes }, None) => {
            (pass.return_boxes(run, boxes, width)?, Main::Sum { points, boxes })
        }
        (Combination::Joint(_), None) => unreachable!("a joint loss keeps its points"),
    };
    (report.loss.error, report.loss.decisions) = (terms.error, terms.decisions);
    (report.loss.tightness, report.loss.balance) = (terms.tightness, terms.balance);
    Ok((Terms { main, width_share }, first_steps))
}

fn regularisers(terms: &LossTerms, weights: &LossWeights, early: f64) -> f64 {
    weights.width * terms.width
        + weights.error * terms.error
        + early * (weights.tightness * terms.tightness + weights.balance * terms.balance)
        + weights.decisions * terms.decisions
        + weights.steady * terms.steady
        + weights.alive * terms.alive
}
