//! Where the values of a batch live, and what can be done with them there.
//!
//! A program goes forwards and back by the operations of a [`Machine`] alone: [`super::host::Host`] has them on this
//! machine's processor, by the rules of [`super::ops`]; [`super::device::Kernels`] on a device, by kernels that say the same
//! rules. What crosses between the two is small: inputs of a batch, sums that decide about a solver step, and the rows that a
//! criterion looks at.

use std::ops::Range;

use super::judge::{Outlook, Seen};
use super::ops::{BatchNorm, Clock, Operation, Rule};
use super::samples::Samples;
use crate::device::{AdamStep, DeviceError, Measure, Moments};
use crate::matrix::Matrix;
use crate::optimiser::UpdateRule;
use crate::solve::Failure;

/// A place to train a program on.
///
/// Devices work behind the program's back, so operations do not fail: what went wrong is kept until [`Machine::check`] asks,
/// and numbers that are read after that mean nothing. All sums are formed in an order that depends on nothing but sizes,
/// so that the same run gives the same numbers again.
pub trait Machine: Sync + Sized {
    /// Points or boxes, row by row.
    type Values: Send + Sync;
    /// Parameters, and their magnitudes.
    type Weights: Send + Sync;
    /// Gradients of the parameters, and of their magnitudes.
    type Gradients: Send + Sync;
    /// Mean and variance of every channel.
    type Statistics: Clone + Send + Sync;
    /// What goes with the parameters: moments, averages.
    type Companions: Send + Sync;

    /// Name for people.
    fn name(&self) -> String;

    /// Does some work on the threads it has on this machine.
    fn within<R: Send>(&self, work: impl FnOnce() -> R + Send) -> R;

    /// What went wrong since the last call.
    fn check(&self) -> Result<(), DeviceError>;

    /// Values from this machine.
    fn put(&self, values: Matrix<f64>) -> Self::Values;

    /// Values on this machine.
    fn read(&self, values: &Self::Values) -> Matrix<f64>;

    /// The same once more.
    fn copy(&self, values: &Self::Values) -> Self::Values;

    /// Zeros of the same form.
    fn zeros_like(&self, values: &Self::Values) -> Self::Values;

    /// `sum += part`.
    fn add(&self, sum: &mut Self::Values, part: &Self::Values);

    /// `Σ c·x`, of at least one.
    fn sum(&self, coefficients: &[f64], x: &[&Self::Values]) -> Self::Values;

    /// The gradient of what has this coefficient in a sum.
    fn sum_back(&self, coefficient: f64, gradient: &Self::Values) -> Self::Values;

    /// A rule over intervals.
    fn rule(&self, rule: Rule, x: &[&Self::Values]) -> Self::Values;

    /// The gradients of its arguments.
    fn rule_back(&self, rule: Rule, x: &[&Self::Values], gradient: &Self::Values) -> Vec<Self::Values>;

    /// The value of an operator, given its arguments, or its change, given theirs; batch normalisation excepted.
    fn operation(
        &self,
        operation: &Operation,
        weights: &Self::Weights,
        x: &[&Self::Values],
        clock: Clock,
    ) -> Self::Values;

    /// Adds the gradients of its parameters; those of its arguments, that of the first only if it is `wanted`.
    fn operation_back(
        &self,
        operation: &Operation,
        weights: &Self::Weights,
        x: &[&Self::Values],
        clock: Clock,
        gradient: &Self::Values,
        into: &mut Self::Gradients,
        wanted: bool,
    ) -> Vec<Option<Self::Values>>;

    /// The statistics of some points (of the centres of boxes).
    fn statistics(&self, norm: &BatchNorm, x: &Self::Values) -> Self::Statistics;

    /// The running statistics.
    fn running(&self, norm: &BatchNorm, weights: &Self::Weights) -> Self::Statistics;

    /// Batch normalisation by given statistics.
    fn normalise(
        &self,
        norm: &BatchNorm,
        weights: &Self::Weights,
        x: &Self::Values,
        clock: Clock,
        statistics: &Self::Statistics,
    ) -> Self::Values;

    /// Adds the gradients of its parameters; that of its input, which the statistics depend on if they are its `own`.
    fn normalise_back(
        &self,
        norm: &BatchNorm,
        weights: &Self::Weights,
        x: &Self::Values,
        how: (Clock, &Self::Statistics, bool),
        gradient: &Self::Values,
        into: &mut Self::Gradients,
    ) -> Self::Values;

    /// Moves the running statistics towards those of a batch; the magnitudes of the parameters are not brought up to date.
    fn follow(&self, norm: &BatchNorm, batch: &Self::Statistics, weights: &mut Self::Weights);

    /// What a solver step tells about itself, on this machine.
    fn measure(&self, state: &Self::Values, slope: &Self::Values, error: Option<&Self::Values>) -> Measure;

    /// How far a state moves, as a part of its size; 0 where it has none.
    fn motion(&self, start: &Self::Values, end: &Self::Values) -> f64;

    /// The boxes of a radius around inputs.
    fn region(&self, samples: &Samples, inputs: &Self::Values, eps: f64) -> Self::Values;

    /// Inputs plus noise of at most eps.
    fn scatter(&self, samples: &Samples, inputs: &Self::Values, eps: f64, seed: u64) -> Self::Values;

    /// One sign step of an attack, by `part` of the radius, back to within eps of the inputs.
    fn ascend(
        &self,
        samples: &Samples,
        attacked: &mut Self::Values,
        gradient: &Self::Values,
        inputs: &Self::Values,
        part_of: (f64, f64),
    );

    /// What a criterion looks at, on this machine.
    fn seen(&self, outlook: &Outlook<'_, Self::Weights>, x: &Self::Values) -> Seen;

    /// From slopes in what was seen to those in `x`, and in the head.
    fn seen_back(
        &self,
        outlook: &Outlook<'_, Self::Weights>,
        x: &Self::Values,
        on: &Seen,
        into: &mut Self::Gradients,
    ) -> Self::Values;

    /// So many parameters, all 0.
    fn weights(&self, count: usize) -> Self::Weights;

    /// The parameters.
    fn parameters(&self, weights: &Self::Weights) -> Vec<f64>;

    /// Replaces them.
    fn set_parameters(&self, weights: &mut Self::Weights, parameters: &[f64]) -> Result<(), Failure>;

    /// Gradients of so many parameters, all 0; for `boxes` also of magnitudes.
    fn gradients(&self, count: usize, boxes: bool) -> Self::Gradients;

    /// Sets all of them to 0.
    fn clear(&self, gradients: &mut Self::Gradients);

    /// The gradients of the parameters, magnitudes and all.
    fn settled(&self, gradients: &Self::Gradients, weights: &Self::Weights) -> Vec<f64>;

    /// Moments and averages, all 0, of parameters of which some are learned.
    fn companions(&self, learned: &[bool]) -> Self::Companions;

    /// One step of the optimiser; the norm of the gradient before clipping. The magnitudes of the parameters are not brought
    /// up to date.
    fn update(
        &self,
        rule: UpdateRule,
        step: &AdamStep,
        weights: &mut Self::Weights,
        gradients: &Self::Gradients,
        companions: &mut Self::Companions,
    ) -> f64;

    /// Brings the magnitudes of the parameters up to date.
    fn refresh(&self, weights: &mut Self::Weights);

    /// Moves the averages towards the parameters; those of the ranges given are set.
    fn track(
        &self,
        decay: f64,
        weights: &Self::Weights,
        companions: &mut Self::Companions,
        set: &[Range<usize>],
    );

    /// The averages.
    fn averages(&self, companions: &Self::Companions) -> Vec<f64>;

    /// Replaces them.
    fn set_averages(&self, companions: &mut Self::Companions, averages: &[f64]) -> Result<(), Failure>;

    /// The moments.
    fn moments(&self, companions: &Self::Companions) -> Moments;

    /// Replaces them.
    fn set_moments(&self, companions: &mut Self::Companions, moments: &Moments) -> Result<(), Failure>;
}
