//! A batch on its way through the network and its gradients on their way back: as points, as boxes, under attack.

use gains_core::Interval;
use gains_core::description::Method;

use crate::config::{Aggregation, Config, Phase, PhaseSolver};
use crate::device::{Batch, Device, DeviceError, Join, Measure, StepForm, Trial, WidthNorm};
use crate::explore::{Rules, explore};
use crate::plan::{LayerPlan, OdePlan, Part, Plan, PlanError};
use crate::solve::{Failure, Stepping, Steps, Visit, inference_step, initial_step, solve};
use crate::tape::{Recording, Tape, ValueId};

/// The network around its one neural ODE.
#[derive(Clone, Copy)]
pub(crate) struct Route<'p> {
    before: &'p [Part],
    ode: &'p OdePlan,
    after: &'p [Part],
    head: &'p LayerPlan,
}

impl<'p> Route<'p> {
    pub(crate) fn of(plan: &'p Plan) -> Result<Self, PlanError> {
        let is_ode = |part: &&Part| matches!(part, Part::Ode(_));
        let position = plan.parts.iter().position(|part| is_ode(&part));
        match position.map(|at| (at, &plan.parts[at])) {
            Some((at, Part::Ode(ode))) if plan.parts.iter().filter(is_ode).count() == 1 => {
                Ok(Self { before: &plan.parts[..at], ode, after: &plan.parts[at + 1..], head: &plan.head })
            }
            _ => Err(PlanError::Layer {
                layer: "all".into(),
                problem: "the trainer wants exactly one neural ODE".into(),
            }),
        }
    }
}

/// Where the first step of the solver comes from.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum FirstStep {
    /// From the batch.
    Rule,
    /// From outside.
    Given(f64),
}

/// What a pass of points came to.
pub(crate) struct Clean<D: Device> {
    pub(crate) visits: Vec<Visit>,
    /// The first step, if there is a choice.
    pub(crate) initial_step: Option<f64>,
    /// Gradient of the normalised pixels, if wanted.
    pub(crate) gradient: Option<Batch<D::Tensor>>,
    /// Mean over the batch of ‖z(2T) − z(T)‖₁.
    pub(crate) steady: f64,
}

/// What a pass of boxes came to.
pub(crate) struct Robust {
    pub(crate) trajectories: usize,
    /// Boxes for each sample that went into the loss.
    pub(crate) boxes: usize,
    pub(crate) splits: usize,
    pub(crate) steps: usize,
    /// Mean over the batch of the upper bounds of δ, summed over steps.
    pub(crate) error: f64,
}

/// One phase's way of sending a batch through.
pub(crate) struct Pass<'a, 'p, D: Device> {
    pub(crate) device: &'a mut D,
    pub(crate) route: Route<'p>,
    pub(crate) config: &'a Config,
    pub(crate) phase: &'a Phase,
    pub(crate) labels: &'a D::Labels,
    /// Samples in the batch.
    pub(crate) samples: usize,
}

impl<'p, D: Device> Pass<'_, 'p, D> {
    /// The solver for a batch whose state at time 0 is `x`, and its first step if there is a choice.
    fn stepping(
        &mut self,
        x: &Batch<D::Tensor>,
        first: FirstStep,
    ) -> Result<(Stepping, Option<f64>), Failure> {
        let solver = &self.config.solver;
        match (self.phase.solver, first) {
            (PhaseSolver::Euler { steps }, _) => Ok((Stepping::euler(steps, solver.end_time), None)),
            (PhaseSolver::Controlled, FirstStep::Given(step)) => {
                Ok((Stepping::controlled(solver, step, self.samples), Some(step)))
            }
            (PhaseSolver::Controlled, FirstStep::Rule) => {
                let ode = self.route.ode;
                let step = initial_step(solver, self.samples, |method, step| {
                    let form = StepForm::Independent;
                    let trial = self.device.step(ode, method, form, x, 0.0, step, false)?;
                    Ok(self.device.measure(&trial.errors)?)
                })?;
                Ok((Stepping::controlled(solver, step, self.samples), Some(step)))
            }
        }
    }

    /// Steps of points.
    fn points<'b>(&'b mut self, tape: &'b mut Tape<'p, D>, stepping: &Stepping) -> DeviceSteps<'b, 'p, D> {
        let (ode, method) = (self.route.ode, stepping.method);
        DeviceSteps { device: self.device, tape, ode, method, form: StepForm::Independent, charged: false }
    }

    /// Points through the network and back. `weight` is that of the summed cross-entropy.
    pub(crate) fn clean(
        &mut self,
        points: Batch<D::Tensor>,
        first: FirstStep,
        weight: f64,
        wanted: bool,
    ) -> Result<Clean<D>, Failure> {
        let mut tape = Tape::new(Recording::On);
        let input = tape.input(points, wanted);
        let state = tape.parts(self.device, self.route.before, input)?;
        let (stepping, initial_step) = self.stepping(tape.value(state), first)?;
        let solution = solve(&mut self.points(&mut tape, &stepping), &stepping, state)?;
        let steady_weight = self.phase.loss.steady;
        let steady = if steady_weight > 0.0 && !wanted {
            self.steady(&mut tape, &stepping, solution.end, steady_weight)?
        } else {
            0.0
        };
        self.finish(&mut tape, solution.end, weight, 0.0)?;
        let returned = tape.backward(self.device, 0.0)?;
        Ok(Clean { visits: solution.visits, initial_step, gradient: returned.input, steady })
    }

    /// Points through the network, only to see what comes out.
    pub(crate) fn evaluate(&mut self, points: Batch<D::Tensor>, eta: f64) -> Result<(), Failure> {
        let mut tape = Tape::new(Recording::Off);
        let input = tape.input(points, false);
        let state = tape.parts(self.device, self.route.before, input)?;
        let first = FirstStep::Given(inference_step(&self.config.solver, eta));
        let (stepping, _) = self.stepping(tape.value(state), first)?;
        let solution = solve(&mut self.points(&mut tape, &stepping), &stepping, state)?;
        self.finish(&mut tape, solution.end, 0.0, 0.0)?;
        Ok(())
    }

    /// The layers behind the ODE and the loss.
    fn finish(
        &mut self,
        tape: &mut Tape<'p, D>,
        end: ValueId,
        weight: f64,
        width_weight: f64,
    ) -> Result<(), DeviceError> {
        let features = tape.parts(self.device, self.route.after, end)?;
        let norm = self.phase.loss.width_norm;
        let x = tape.value(features);
        let gradient = self.device.loss(self.route.head, x, self.labels, weight, width_weight, norm)?;
        tape.seed(self.device, features, gradient)
    }

    /// The regulariser of TisODE. The dynamics do not depend on time, so going on from T to 2T is starting again with
    /// what was reached.
    fn steady(
        &mut self,
        tape: &mut Tape<'p, D>,
        stepping: &Stepping,
        end: ValueId,
        weight: f64,
    ) -> Result<f64, Failure> {
        let later = solve(&mut self.points(tape, stepping), stepping, end)?.end;
        let shape = self.route.ode.state();
        let reached = self.device.download(shape, &tape.value(end).centre)?;
        let moved = self.device.download(shape, &tape.value(later).centre)?;
        let each = weight / self.samples as f64;
        let mut total = 0.0;
        let mut signs = Vec::with_capacity(reached.len());
        for (before, after) in reached.iter().zip(&moved) {
            let change = after - before;
            total += change.abs();
            signs.push(if change == 0.0 { 0.0 } else { each * change.signum() });
        }
        let up = self.device.upload(shape, &signs)?;
        tape.seed(self.device, later, Batch { centre: up, radius: None })?;
        signs.iter_mut().for_each(|sign| *sign = -*sign);
        let down = self.device.upload(shape, &signs)?;
        tape.seed(self.device, end, Batch { centre: down, radius: None })?;
        Ok(total / self.samples as f64)
    }

    /// Boxes through the network and back, along sampled trajectories. `weight` is that of the mean cross-entropy,
    /// `width` that of the widths.
    pub(crate) fn robust(
        &mut self,
        region: Batch<D::Tensor>,
        clean: &Clean<D>,
        rules: &Rules,
        random: &mut fastrand::Rng,
        weight: f64,
        width: f64,
    ) -> Result<Robust, Failure> {
        let mut tape = Tape::new(Recording::On);
        let input = tape.input(region, false);
        let state = tape.parts(self.device, self.route.before, input)?;
        let first = FirstStep::Given(clean.initial_step.unwrap_or(0.0));
        let (stepping, _) = self.stepping(tape.value(state), first)?;
        let charge = self.phase.loss.error;
        let mut steps = DeviceSteps {
            device: &mut *self.device,
            tape: &mut tape,
            ode: self.route.ode,
            method: stepping.method,
            form: self.phase.step_form,
            charged: charge > 0.0,
        };
        let found = explore(&mut steps, &stepping, state, &clean.visits, rules, random)?;
        let joined = match self.phase.aggregation {
            Aggregation::Stack => None,
            Aggregation::Average => Some(Join::Average),
            Aggregation::WorstCase => Some(Join::Hull),
        };
        let ends = match joined {
            Some(how) if found.ends.len() > 1 => vec![tape.join(self.device, how, found.ends.clone())?],
            Some(_) | None => found.ends.clone(),
        };
        let boxes = ends.len();
        let each = weight / (boxes * self.samples) as f64;
        let width = width * width_share(self.phase, boxes);
        for end in ends {
            self.finish(&mut tape, end, each, width)?;
        }
        let scale = 1.0 / (self.samples as f64 * self.config.solver.tolerance);
        let returned = tape.backward(self.device, charge * scale)?;
        Ok(Robust {
            trajectories: found.ends.len(),
            boxes,
            splits: found.splits,
            steps: found.steps,
            error: returned.errors * scale,
        })
    }

    /// Projected gradient descent from the pixels, the first step being that of inference.
    pub(crate) fn attack(
        &mut self,
        pixels: &D::Tensor,
        eps: f64,
        eta: f64,
        seed: u64,
    ) -> Result<D::Tensor, Failure> {
        let settings = self.phase.attack;
        let reach = if settings.random_start { eps } else { 0.0 };
        let mut attacked = self.device.scatter(pixels, reach, seed)?;
        let first = FirstStep::Given(inference_step(&self.config.solver, eta));
        self.device.freeze(true);
        for _ in 0..settings.steps {
            let points = self.device.points(&attacked)?;
            if let Some(gradient) = self.clean(points, first, 1.0, true)?.gradient {
                let rate = settings.fraction * eps;
                self.device.ascend(&mut attacked, &gradient.centre, pixels, rate, eps)?;
            }
        }
        self.device.freeze(false);
        Ok(attacked)
    }
}

/// What the summed widths of `count` boxes for each sample are multiplied with; see [`width_weights`].
pub(crate) fn width_share(phase: &Phase, count: usize) -> f64 {
    let count = count as f64;
    match phase.loss.width_norm {
        WidthNorm::Squared => 1.0 / (count * count),
        WidthNorm::Absolute => 1.0 / count,
    }
}

/// What a sample's widths weigh, before [`width_share`].
///
/// Squared widths are weighed as in the authors' program: the mean over the κ boxes and the outputs of a class's
/// samples, summed over classes, divided by κB. Absolute widths as in the paper: the mean over boxes of the sum over
/// outputs.
pub(crate) fn width_weights(phase: &Phase, labels: &[u8], classes: usize) -> Vec<f32> {
    let samples = labels.len() as f64;
    let mut counts = [0.0_f64; 256];
    for label in labels {
        counts[usize::from(*label)] += 1.0;
    }
    let weight = |label: &u8| match phase.loss.width_norm {
        WidthNorm::Squared => 1.0 / (counts[usize::from(*label)] * classes as f64 * samples),
        WidthNorm::Absolute => 1.0 / samples,
    };
    labels.iter().map(|label| weight(label) as f32).collect()
}

/// Steps of a batch on a device.
struct DeviceSteps<'a, 'p, D: Device> {
    device: &'a mut D,
    tape: &'a mut Tape<'p, D>,
    ode: &'p OdePlan,
    method: Method,
    form: StepForm,
    /// Whether the loss asks for the error of every step.
    charged: bool,
}

impl<D: Device> Steps for DeviceSteps<'_, '_, D> {
    type State = ValueId;
    type Trial = (Trial<D>, f64);

    fn attempt(
        &mut self,
        from: ValueId,
        time: f64,
        step: f64,
        measured: bool,
    ) -> Result<(Self::Trial, Interval), Failure> {
        let x = self.tape.value(from);
        let keep = self.tape.keeps();
        let trial = self.device.step(self.ode, self.method, self.form, x, time, step, keep)?;
        let Measure { lower, upper, .. } =
            if measured || self.charged { self.device.measure(&trial.errors)? } else { Measure::default() };
        Ok(((trial, upper), Interval { lower, upper }))
    }

    fn accept(&mut self, from: ValueId, (trial, error): Self::Trial) -> ValueId {
        self.tape.step(self.ode, from, trial, error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Widths of κ = 2 boxes of 5 samples with 3 outputs, weighed as the reference describes it in words.
    #[test]
    fn widths_are_weighed_as_in_the_authors_program_or_the_paper() {
        let labels = [0_u8, 1, 1, 0, 1];
        let (boxes, outputs) = (2, 3);
        let mut random = fastrand::Rng::with_seed(3);
        let widths: Vec<[f64; 3]> =
            (0..boxes * labels.len()).map(|_| [(); 3].map(|()| random.f64())).collect();
        let ours = |norm: WidthNorm, measure: fn(f64) -> f64| {
            let mut phase = Phase::default();
            phase.loss.width_norm = norm;
            let weights = width_weights(&phase, &labels, outputs);
            let sum: f64 = widths
                .iter()
                .enumerate()
                .map(|(row, widths)| {
                    f64::from(weights[row % 5]) * widths.iter().map(|w| measure(*w)).sum::<f64>()
                })
                .sum();
            sum * width_share(&phase, boxes)
        };
        let mut squared = 0.0;
        for class in 0..2 {
            let rows = widths.iter().enumerate().filter(|(row, _)| labels[row % 5] == class);
            let entries: Vec<f64> = rows.flat_map(|(_, widths)| widths.map(|w| w * w)).collect();
            squared += entries.iter().sum::<f64>() / entries.len() as f64;
        }
        assert!((ours(WidthNorm::Squared, |w| w * w) - squared / 10.0).abs() < 1e-7);
        let absolute = widths.iter().flatten().sum::<f64>() / 10.0;
        assert!((ours(WidthNorm::Absolute, |w| w) - absolute).abs() < 1e-7);
    }
}
