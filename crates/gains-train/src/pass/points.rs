//! Points: through the network, back, and under attack.

use super::DevicePass;
use crate::device::{Batch, Device, Pull};
use crate::engine::{FirstStep, Trip};
use crate::loss::alive::alive;
use crate::loss::steady::steady;
use crate::solve::{Failure, Stepping, Visit, solve};
use crate::tape::{Recording, Tape, ValueId};

/// What a pass is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum For {
    /// Parameters are to learn from it: regularisers count.
    Learning,
    /// The gradient of the pixels.
    Attack,
}

/// Points in front of the last layer.
pub struct PointRun<'p, D: Device> {
    pub(super) tape: Tape<'p, D>,
    pub(super) features: ValueId,
    /// What the solver did.
    pub(super) visits: Vec<Visit>,
    pub(super) trip: Trip,
}

impl<'p, D: Device> DevicePass<'p, D> {
    /// Points as far as the last layer.
    pub(super) fn send(
        &mut self,
        points: Batch<D::Tensor>,
        first: FirstStep,
        purpose: For,
    ) -> Result<PointRun<'p, D>, Failure> {
        let mut tape = Tape::new(Recording::On);
        let input = tape.input(points, purpose == For::Attack);
        let state = tape.parts(self.device, self.route.before, input)?;
        let chosen = self.stepping(tape.value(state), first)?;
        let solution = solve(&mut self.points(&mut tape, &chosen.stepping), &chosen.stepping, state)?;
        let (mut steady, mut alive, mut motion) = (0.0, 0.0, chosen.motion);
        let weights = &self.setting.phase.loss;
        if purpose == For::Learning && weights.steady > 0.0 {
            steady = self.settle(&mut tape, &chosen.stepping, solution.end, weights.steady)?;
        }
        if purpose == For::Learning && weights.alive > 0.0 {
            let found = self.enliven(&mut tape, state, solution.end, weights.alive)?;
            (alive, motion) = (found.0, Some(found.1));
        }
        let features = tape.parts(self.device, self.route.after, solution.end)?;
        let (visits, first_steps) = (solution.visits, vec![chosen.initial_step]);
        let trip = Trip { steps: visits.len(), first_steps, motion, steady, alive };
        Ok(PointRun { tape, features, visits, trip })
    }

    /// The loss of points and their way back; the gradient of the normalised pixels, if it was wanted.
    pub(super) fn take_back(
        &mut self,
        mut run: PointRun<'p, D>,
        pull: Pull<'_>,
    ) -> Result<Option<Batch<D::Tensor>>, Failure> {
        self.pull(&mut run.tape, run.features, pull, 0.0)?;
        Ok(run.tape.backward(self.device, 0.0)?.input)
    }

    /// The regulariser of TisODE. The dynamics do not depend on time, so going on from T to 2T is starting again with
    /// what was reached.
    fn settle(
        &mut self,
        tape: &mut Tape<'p, D>,
        stepping: &Stepping,
        end: ValueId,
        weight: f64,
    ) -> Result<f64, Failure> {
        let later = solve(&mut self.points(tape, stepping), stepping, end)?.end;
        let (reached, moved) = (self.state(tape, end)?, self.state(tape, later)?);
        let (value, slopes) = steady(&reached, &moved, self.samples());
        self.seed(tape, later, &slopes, weight)?;
        self.seed(tape, end, &slopes, -weight)?;
        Ok(value)
    }

    /// The term for living dynamics, and the motion.
    fn enliven(
        &mut self,
        tape: &mut Tape<'p, D>,
        start: ValueId,
        end: ValueId,
        weight: f64,
    ) -> Result<(f64, f64), Failure> {
        let (from, to) = (self.state(tape, start)?, self.state(tape, end)?);
        let found = alive(&from, &to, self.setting.phase.loss.alive_target);
        if found.value > 0.0 {
            self.seed(tape, end, &found.end, weight)?;
            self.seed(tape, start, &found.start, weight)?;
        }
        Ok((found.value, found.motion))
    }

    fn state(&mut self, tape: &Tape<'p, D>, at: ValueId) -> Result<Vec<f64>, Failure> {
        Ok(self.device.download(self.route.ode.state(), &tape.value(at).centre)?)
    }

    fn seed(
        &mut self,
        tape: &mut Tape<'p, D>,
        at: ValueId,
        slopes: &[f64],
        weight: f64,
    ) -> Result<(), Failure> {
        let slopes: Vec<f64> = slopes.iter().map(|slope| weight * slope).collect();
        let centre = self.device.upload(self.route.ode.state(), &slopes)?;
        Ok(tape.seed(self.device, at, Batch { centre, radius: None })?)
    }

    /// Projected gradient descent from the pixels, the first step being that of inference.
    pub(super) fn descend(&mut self, pixels: &D::Tensor, eps: f64, seed: u64) -> Result<D::Tensor, Failure> {
        let settings = self.setting.phase.attack;
        let reach = if settings.random_start { eps } else { 0.0 };
        let mut attacked = self.device.scatter(pixels, reach, seed)?;
        let first = self.usual_step();
        self.device.freeze(true);
        for _ in 0..settings.steps {
            let points = self.device.points(&attacked)?;
            let run = self.send(points, first, For::Attack)?;
            if let Some(gradient) = self.take_back(run, Pull::CrossEntropy(1.0))? {
                let rate = settings.fraction * eps;
                self.device.ascend(&mut attacked, &gradient.centre, pixels, rate, eps)?;
            }
        }
        self.device.freeze(false);
        Ok(attacked)
    }
}
