//! What sends batches through a network: the trainer is written against [`Engine`] and [`Pass`] alone.
//!
//! Three engines implement them. [`crate::fused::Fused`] knows one family of networks (convolutions with ReLUs, one neural
//! ODE) and runs it by a few large operations of a [`crate::device::Device`], on CPU and CUDA. [`crate::program::ProgramEngine`]
//! takes whatever can be loaded and bounded, operator by operator, on a
//! [`crate::program::Machine`], on CPU and CUDA. [`crate::series::SeriesEngine`] is for
//! latent ODEs, whose samples are irregular series, on the CPU.

use gains_core::model_file::Tensors;

use crate::config::{Config, Optimiser, Phase};
use crate::device::{AdamStep, Ledger, Moments, Pull};
use crate::explore::Rules;
use crate::loss::criterion::Measure;
use crate::loss::{Joint, Measured};
use crate::metrics::Position;
use crate::solve::{Failure, Visit};

/// Where the first steps of the solvers come from.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum FirstStep {
    /// From the batch.
    Rule,
    /// From outside, the same for every ODE.
    Given(f64),
}

/// Which network samples go through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Look {
    /// The whole one.
    Whole,
    /// The one whose neural ODEs do nothing.
    WithoutOde,
}

/// A batch, and how its phase wants it treated.
#[derive(Clone, Copy)]
pub struct Setting<'a> {
    /// The run.
    pub config: &'a Config,
    /// The phase.
    pub phase: &'a Phase,
    /// Where the run is.
    pub at: Position,
    /// Which samples.
    pub indices: &'a [u32],
    /// Running averages of first steps, one for each ODE.
    pub steps: &'a [f64],
    /// What is missing of the target perturbation, as a part of it: 1 − r.
    pub early: f64,
    /// Seed of changes to the inputs that they learn from, where there are such.
    pub augment: Option<u64>,
}

/// What points did on their way.
#[derive(Clone, Debug, Default)]
pub struct Trip {
    /// Trial steps of all solvers.
    pub steps: usize,
    /// First steps by ODE, where there was a choice.
    pub first_steps: Vec<Option<f64>>,
    /// How far the state moves, as a part of its size; where it was looked at.
    pub motion: Option<f64>,
    /// Mean over the batch of ‖z(2T) − z(T)‖₁, where it was asked for.
    pub steady: f64,
    /// The term for living dynamics, where it was asked for.
    pub alive: f64,
}

/// What boxes did on their way.
#[derive(Clone, Copy, Debug, Default)]
pub struct BoxTrip {
    /// Boxes for each sample that go into the loss.
    pub boxes: usize,
    /// Trajectories followed.
    pub trajectories: usize,
    /// Steps at which a trajectory split.
    pub splits: usize,
    /// Trial steps.
    pub steps: usize,
}

/// What regularisers of the way of boxes came to; 0 where they are not asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct BoxTerms {
    /// Mean over the batch of the upper bounds of δ, summed over steps.
    pub error: f64,
    /// Boxes that grow.
    pub tightness: f64,
    /// Activations on one side of their kink.
    pub balance: f64,
    /// Decisions left open.
    pub decisions: f64,
}

/// What the points did that boxes lie around, by ODE.
#[derive(Clone, Debug, Default)]
pub struct Reference {
    /// Every trial step.
    pub visits: Vec<Vec<Visit>>,
    /// The first step.
    pub first: Vec<f64>,
}

/// One batch on its way through the network and its gradients on their way back.
pub trait Pass {
    /// Inputs of the batch, as they are or attacked.
    type Inputs;
    /// Points in front of the loss.
    type Points;
    /// Boxes in front of the loss.
    type Boxes;

    /// The inputs of the batch.
    fn inputs(&mut self) -> Result<Self::Inputs, Failure>;

    /// Inputs that an attack moved by at most `reach`, the first step being that of inference. Engines that know no attack
    /// say so.
    fn attack(&mut self, inputs: &Self::Inputs, reach: f64, seed: u64) -> Result<Self::Inputs, Failure>;

    /// Forgets gradients and tallies.
    fn begin(&mut self) -> Result<(), Failure>;

    /// Points as far as the loss, for parameters to learn from.
    fn send_points(&mut self, inputs: &Self::Inputs, first: FirstStep) -> Result<Self::Points, Failure>;

    /// What they did.
    fn trip<'r>(&self, points: &'r Self::Points) -> &'r Trip;

    /// What boxes around them need to know.
    fn reference(&self, points: &Self::Points) -> Reference;

    /// The loss of points and their way back.
    fn return_points(&mut self, points: Self::Points, pull: Pull<'_>) -> Result<(), Failure>;

    /// The boxes of a radius around inputs as far as the loss, along sampled trajectories.
    fn send_boxes(
        &mut self,
        inputs: &Self::Inputs,
        radius: f64,
        reference: &Reference,
        rules: &Rules,
        random: &mut fastrand::Rng,
    ) -> Result<Self::Boxes, Failure>;

    /// What they did.
    fn box_trip(&self, boxes: &Self::Boxes) -> BoxTrip;

    /// The loss of boxes and their way back: a pull for each box of a sample, `width` times the widths, and what the phase
    /// asks of their way besides.
    fn pull_boxes(&mut self, boxes: Self::Boxes, pulls: &[Pull<'_>], width: f64)
    -> Result<BoxTerms, Failure>;

    /// Sends the batch through as it would be used, only to see what comes out: into the tallies.
    fn look(&mut self, look: Look) -> Result<(), Failure>;

    /// Samples in the batch.
    fn samples(&self) -> usize;

    /// The loss of boxes that is a mean, times `weight`, and their way back.
    fn return_boxes(&mut self, boxes: Self::Boxes, weight: f64, width: f64) -> Result<BoxTerms, Failure> {
        let count = self.box_trip(&boxes).boxes;
        let each = Pull::CrossEntropy(weight / (count * self.samples()) as f64);
        self.pull_boxes(boxes, &vec![each; count], width)
    }

    /// The loss that looks at the point and the boxes of a sample together, and both their ways back: `joined`, where a
    /// batch has rows. Engines without say so.
    fn return_both(
        &mut self,
        points: Self::Points,
        boxes: Self::Boxes,
        loss: &dyn Joint,
        width: f64,
    ) -> Result<JointOutcome, Failure>;
}

/// A batch of which a criterion looks at a row for each sample.
pub(crate) trait Rows: Pass {
    /// What it looks at, row by row, for points.
    fn point_rows(&mut self, points: &Self::Points) -> Result<Vec<f64>, Failure>;

    /// The same for the boxes with this number.
    fn box_rows(&mut self, boxes: &Self::Boxes, number: usize) -> Result<Vec<f64>, Failure>;

    /// The right class of a sample, and what it weighs.
    fn label(&self, sample: usize) -> (usize, f64);

    /// How wrong outputs are measured.
    fn criterion(&self) -> &dyn Measure;
}

/// [`Pass::return_both`] of a batch that has rows.
pub(crate) fn joined<P: Rows>(
    pass: &mut P,
    points: P::Points,
    boxes: P::Boxes,
    loss: &dyn Joint,
    width: f64,
) -> Result<JointOutcome, Failure> {
    let rows = pass.point_rows(&points)?;
    let (count, samples) = (pass.box_trip(&boxes).boxes, pass.samples());
    let length = rows.len() / samples.max(1);
    let each = 1.0 / (count * samples) as f64;
    let mut of_points = vec![0.0; rows.len()];
    let mut of_boxes = Vec::with_capacity(count);
    let mut value = 0.0;
    for number in 0..count {
        let bounds = pass.box_rows(&boxes, number)?;
        let mut slopes = Vec::with_capacity(bounds.len());
        let pairs = rows.chunks(length).zip(bounds.chunks(length));
        for (sample, ((point, bound), sums)) in pairs.zip(of_points.chunks_mut(length)).enumerate() {
            let (label, weight) = pass.label(sample);
            let each = each * weight;
            let together = loss.of(Measured { criterion: pass.criterion(), label }, point, bound);
            value += each * together.value;
            slopes.extend(together.boxes.iter().map(|slope| each * slope));
            for (sum, slope) in sums.iter_mut().zip(&together.points) {
                *sum += each * slope;
            }
        }
        of_boxes.push(slopes);
    }
    pass.return_points(points, Pull::Margins(&of_points))?;
    let pulls: Vec<Pull<'_>> = of_boxes.iter().map(|slopes| Pull::Margins(slopes)).collect();
    let terms = pass.pull_boxes(boxes, &pulls, width)?;
    Ok(JointOutcome { value, terms })
}

/// What [`Pass::return_both`] came to.
#[derive(Clone, Copy, Debug)]
pub struct JointOutcome {
    /// Mean over samples and their boxes of the loss.
    pub value: f64,
    /// What regularisers of boxes came to.
    pub terms: BoxTerms,
}

/// A network with its samples, parameters and optimiser.
pub trait Engine {
    /// A batch on its way.
    type Pass<'a>: Pass
    where
        Self: 'a;

    /// Where it computes, for people.
    fn name(&self) -> String;

    /// Samples to learn from, and behind them samples to look at.
    fn samples(&self) -> (usize, usize);

    /// A batch on its way.
    fn pass<'a>(&'a mut self, setting: Setting<'a>) -> Result<Self::Pass<'a>, Failure>;

    /// One step of the optimiser with the gradients accumulated since [`Pass::begin`].
    fn update(&mut self, step: &AdamStep, optimiser: &Optimiser) -> Result<(), Failure>;

    /// What passes added up since the last call; clears it.
    fn take_ledger(&mut self) -> Result<Ledger, Failure>;

    /// Moves the averages of the parameters: `average ← decay · average + (1 − decay) · parameter`.
    fn track(&mut self, decay: f64) -> Result<(), Failure>;

    /// The averages of the parameters.
    fn averages(&mut self) -> Result<Vec<f64>, Failure>;

    /// Replaces them.
    fn set_averages(&mut self, averages: &[f64]) -> Result<(), Failure>;

    /// How many parameters there are.
    fn count(&self) -> usize;

    /// The parameters.
    fn parameters(&mut self) -> Result<Vec<f64>, Failure>;

    /// Replaces them.
    fn set_parameters(&mut self, parameters: &[f64]) -> Result<(), Failure>;

    /// The gradients of the parameters.
    fn gradients(&mut self) -> Result<Vec<f64>, Failure>;

    /// The optimiser's moments.
    fn moments(&mut self) -> Result<Moments, Failure>;

    /// Replaces them.
    fn set_moments(&mut self, moments: &Moments) -> Result<(), Failure>;

    /// Parameters as named tensors.
    fn tensors(&self, parameters: &[f64]) -> Tensors;
}
