//! A batch on its way through a device's network and its gradients on their way back: as points, as boxes, under attack.

mod boxes;
mod points;

pub use self::boxes::BoxRun;
use self::points::For;
pub use self::points::PointRun;

use gains_core::Interval;
use gains_core::description::RungeKutta;

use crate::config::PhaseSolver;
use crate::device::{Batch, Device, DeviceError, Measure, Pull, StepForm, Trial};
use crate::engine::{
    BoxTerms, BoxTrip, FirstStep, JointOutcome, Look, Pass, Reference, Rows, Setting, Trip, joined,
};
use crate::explore::Rules;
use crate::loss::Joint;
use crate::loss::criterion::{self, CrossEntropy};
use crate::plan::{LayerPlan, OdePlan, Plan, PlanError, Stretch};
use crate::solve::{Failure, Stepping, Steps, inference_step, initial_step, solve};
use crate::tape::{Recording, Tape, ValueId};

/// The network around its one neural ODE.
#[derive(Clone, Copy)]
pub struct Route<'p> {
    before: &'p [Stretch],
    ode: &'p OdePlan,
    after: &'p [Stretch],
    head: &'p LayerPlan,
}

impl<'p> Route<'p> {
    pub(crate) fn of(plan: &'p Plan) -> Result<Self, PlanError> {
        let is_ode = |part: &&Stretch| matches!(part, Stretch::Ode(_));
        let position = plan.parts.iter().position(|part| is_ode(&part));
        match position.map(|at| (at, &plan.parts[at])) {
            Some((at, Stretch::Ode(ode))) if plan.parts.iter().filter(is_ode).count() == 1 => {
                Ok(Self { before: &plan.parts[..at], ode, after: &plan.parts[at + 1..], head: &plan.head })
            }
            _ => Err(PlanError::Layer {
                layer: "all".into(),
                problem: "the trainer wants exactly one neural ODE".into(),
            }),
        }
    }

    /// The layers of the right-hand side.
    #[cfg(test)]
    pub(crate) fn dynamics(&self) -> &'p [LayerPlan] {
        &self.ode.dynamics
    }
}

/// A solver with what its first step was chosen by.
pub(crate) struct Chosen {
    pub(crate) stepping: Stepping,
    /// The first step, if there is a choice.
    pub(crate) initial_step: Option<f64>,
    /// How far the state would go in the whole time at its first speed, as a part of its size; where it was looked at.
    pub(crate) motion: Option<f64>,
}

/// One phase's way of sending a batch through.
pub struct DevicePass<'p, D: Device> {
    pub(crate) device: &'p mut D,
    pub(crate) route: Route<'p>,
    pub(crate) setting: Setting<'p>,
    pub(crate) labels: D::Labels,
    /// The same on the host.
    pub(crate) classes: Vec<u8>,
}

impl<'p, D: Device> DevicePass<'p, D> {
    fn samples(&self) -> usize {
        self.classes.len()
    }

    /// The first step outside training.
    fn usual_step(&self) -> FirstStep {
        let eta = self.setting.steps.first().copied().unwrap_or(0.0);
        FirstStep::Given(inference_step(&self.setting.config.solver, eta))
    }

    /// The solver for a batch whose state at time 0 is `x`.
    fn stepping(&mut self, x: &Batch<D::Tensor>, first: FirstStep) -> Result<Chosen, Failure> {
        let solver = &self.setting.config.solver;
        let mut motion = None;
        let step = match (self.setting.phase.solver, first) {
            (PhaseSolver::Euler { steps }, _) => {
                let stepping = Stepping::fixed(RungeKutta::Euler, steps, solver.end_time);
                return Ok(Chosen { stepping, initial_step: None, motion });
            }
            (PhaseSolver::Controlled, FirstStep::Given(step)) => step,
            (PhaseSolver::Controlled, FirstStep::Rule) => {
                let ode = self.route.ode;
                initial_step(solver, self.samples(), |method, step| {
                    let form = StepForm::Independent;
                    let trial = self.device.step(ode, method, form, x, 0.0, step, false)?;
                    let sums = self.device.measure(&trial.errors)?;
                    // A state that is 0 has no size to compare with, and tells nothing.
                    let speed = if sums.state > 0.0 { sums.slope / sums.state } else { 0.0 };
                    motion = motion.or(Some(solver.end_time * speed));
                    Ok(sums)
                })?
            }
        };
        let stepping = Stepping::adaptive(solver, step, self.samples());
        Ok(Chosen { stepping, initial_step: Some(step), motion })
    }

    /// Steps of points.
    fn points<'b>(&'b mut self, tape: &'b mut Tape<'p, D>, stepping: &Stepping) -> DeviceSteps<'b, 'p, D> {
        let (ode, method) = (self.route.ode, stepping.method);
        DeviceSteps { device: self.device, tape, ode, method, form: StepForm::Independent, charged: false }
    }

    /// Points through the network, only to see what comes out.
    fn evaluate(&mut self, points: Batch<D::Tensor>) -> Result<(), Failure> {
        let mut tape = Tape::new(Recording::Off);
        let input = tape.input(points, false);
        let state = tape.parts(self.device, self.route.before, input)?;
        let first = self.usual_step();
        let stepping = self.stepping(tape.value(state), first)?.stepping;
        let end = solve(&mut self.points(&mut tape, &stepping), &stepping, state)?.end;
        Ok(self.judge(&mut tape, end)?)
    }

    /// Points around the neural ODE: as if nothing moved in it.
    fn evaluate_without_ode(&mut self, points: Batch<D::Tensor>) -> Result<(), Failure> {
        let mut tape = Tape::new(Recording::Off);
        let input = tape.input(points, false);
        let state = tape.parts(self.device, self.route.before, input)?;
        Ok(self.judge(&mut tape, state)?)
    }

    /// What the layers behind the ODE say, into the ledger.
    fn judge(&mut self, tape: &mut Tape<'p, D>, end: ValueId) -> Result<(), DeviceError> {
        let features = tape.parts(self.device, self.route.after, end)?;
        self.pull(tape, features, Pull::CrossEntropy(0.0), 0.0)
    }

    /// The last layer and the loss.
    fn pull(
        &mut self,
        tape: &mut Tape<'p, D>,
        features: ValueId,
        pull: Pull<'_>,
        width_weight: f64,
    ) -> Result<(), DeviceError> {
        let norm = self.setting.phase.loss.width_norm;
        let x = tape.value(features);
        let gradient = self.device.loss(self.route.head, x, &self.labels, pull, width_weight, norm)?;
        tape.seed(self.device, features, gradient)
    }
}

impl<'p, D: Device> Pass for DevicePass<'p, D> {
    type Inputs = D::Tensor;
    type Points = PointRun<'p, D>;
    type Boxes = BoxRun<'p, D>;

    fn inputs(&mut self) -> Result<D::Tensor, Failure> {
        Ok(self.device.gather(self.setting.indices)?)
    }

    fn attack(&mut self, inputs: &D::Tensor, reach: f64, seed: u64) -> Result<D::Tensor, Failure> {
        self.descend(inputs, reach, seed)
    }

    fn begin(&mut self) -> Result<(), Failure> {
        self.device.take_ledger()?;
        Ok(self.device.clear_gradients()?)
    }

    fn send_points(&mut self, inputs: &D::Tensor, first: FirstStep) -> Result<PointRun<'p, D>, Failure> {
        let points = self.device.points(inputs)?;
        self.send(points, first, For::Learning)
    }

    fn trip<'r>(&self, points: &'r PointRun<'p, D>) -> &'r Trip {
        &points.trip
    }

    fn reference(&self, points: &PointRun<'p, D>) -> Reference {
        let first = points.trip.first_steps.first().copied().flatten().unwrap_or(0.0);
        Reference { visits: vec![points.visits.clone()], first: vec![first] }
    }

    fn return_points(&mut self, points: PointRun<'p, D>, pull: Pull<'_>) -> Result<(), Failure> {
        self.take_back(points, pull).map(drop)
    }

    fn send_boxes(
        &mut self,
        inputs: &D::Tensor,
        radius: f64,
        reference: &Reference,
        rules: &Rules,
        random: &mut fastrand::Rng,
    ) -> Result<BoxRun<'p, D>, Failure> {
        let region = self.device.region(inputs, radius)?;
        self.explore_boxes(region, reference, rules, random)
    }

    fn box_trip(&self, boxes: &BoxRun<'p, D>) -> BoxTrip {
        boxes.trip
    }

    fn pull_boxes(
        &mut self,
        boxes: BoxRun<'p, D>,
        pulls: &[Pull<'_>],
        width: f64,
    ) -> Result<BoxTerms, Failure> {
        let error = self.take_boxes_back(boxes, pulls, width)?;
        Ok(BoxTerms { error, ..BoxTerms::default() })
    }

    fn look(&mut self, look: Look) -> Result<(), Failure> {
        let pixels = self.inputs()?;
        let points = self.device.points(&pixels)?;
        match look {
            Look::Whole => self.evaluate(points),
            Look::WithoutOde => self.evaluate_without_ode(points),
        }
    }

    fn samples(&self) -> usize {
        self.samples()
    }

    fn return_both(
        &mut self,
        points: PointRun<'p, D>,
        boxes: BoxRun<'p, D>,
        loss: &dyn Joint,
        width: f64,
    ) -> Result<JointOutcome, Failure> {
        joined(self, points, boxes, loss, width)
    }
}

impl<'p, D: Device> Rows for DevicePass<'p, D> {
    fn point_rows(&mut self, points: &PointRun<'p, D>) -> Result<Vec<f64>, Failure> {
        Ok(self.device.margins(self.route.head, points.tape.value(points.features), &self.labels)?)
    }

    fn box_rows(&mut self, boxes: &BoxRun<'p, D>, number: usize) -> Result<Vec<f64>, Failure> {
        Ok(self.device.margins(self.route.head, boxes.tape.value(boxes.features[number]), &self.labels)?)
    }

    fn label(&self, sample: usize) -> (usize, f64) {
        (usize::from(self.classes[sample]), 1.0)
    }

    fn criterion(&self) -> &dyn criterion::Measure {
        &CrossEntropy {}
    }
}

/// Steps of a batch on a device.
struct DeviceSteps<'a, 'p, D: Device> {
    device: &'a mut D,
    tape: &'a mut Tape<'p, D>,
    ode: &'p OdePlan,
    method: RungeKutta,
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
