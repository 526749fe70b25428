//! This machine's processor: every operation by the rule of its operator.

use std::marker::PhantomData;
use std::ops::Range;

use super::judge::{Outlook, Seen};
use super::machine::Machine;
use super::ops::{BatchNorm, Clock, Operation, Return, Rule, Statistics, Weights, sum};
use super::samples::Samples;
use crate::companions::{Companions, narrow, widen};
use crate::cpu::Real;
use crate::device::{AdamStep, DeviceError, Measure, Moments};
use crate::gradients::Gradients;
use crate::matrix::Matrix;
use crate::optimiser::UpdateRule;
use crate::solve::Failure;
use crate::threads::Threads;

/// The processor, in `F`: float32 to train, float64 to check gradients.
pub struct Host<F> {
    threads: Threads,
    numbers: PhantomData<F>,
}

impl<F: Real> Host<F> {
    /// So many threads of its own, or rayon's.
    pub fn new(threads: Option<usize>) -> Result<Self, DeviceError> {
        Ok(Self { threads: Threads::new(threads)?, numbers: PhantomData })
    }
}

/// Moments and averages, and which parameters gradients change.
pub struct Learning<F> {
    companions: Companions<F>,
    learned: Vec<bool>,
}

/// Numbers in another format.
fn cast<F: Real, G: Real>(matrix: &Matrix<F>) -> Matrix<G> {
    let lane = |lane: &[F]| lane.iter().map(|value| G::of(value.wide())).collect();
    Matrix {
        rows: matrix.rows,
        columns: matrix.columns,
        centre: lane(&matrix.centre),
        radius: lane(&matrix.radius),
    }
}

impl<F: Real> Machine for Host<F> {
    type Values = Matrix<F>;
    type Weights = Weights<F>;
    type Gradients = Gradients<F>;
    type Statistics = Statistics;
    type Companions = Learning<F>;

    fn name(&self) -> String {
        self.threads.name()
    }

    fn within<R: Send>(&self, work: impl FnOnce() -> R + Send) -> R {
        self.threads.within(work)
    }

    fn check(&self) -> Result<(), DeviceError> {
        Ok(())
    }

    fn put(&self, values: Matrix<f64>) -> Matrix<F> {
        cast(&values)
    }

    fn read(&self, values: &Matrix<F>) -> Matrix<f64> {
        cast(values)
    }

    fn copy(&self, values: &Matrix<F>) -> Matrix<F> {
        values.clone()
    }

    fn zeros_like(&self, values: &Matrix<F>) -> Matrix<F> {
        values.zeros_like()
    }

    fn add(&self, sum: &mut Matrix<F>, part: &Matrix<F>) {
        sum.add(part);
    }

    fn sum(&self, coefficients: &[f64], x: &[&Matrix<F>]) -> Matrix<F> {
        sum::forward(coefficients, x)
    }

    fn sum_back(&self, coefficient: f64, gradient: &Matrix<F>) -> Matrix<F> {
        sum::backward(coefficient, gradient)
    }

    fn rule(&self, rule: Rule, x: &[&Matrix<F>]) -> Matrix<F> {
        rule.forward(x)
    }

    fn rule_back(&self, rule: Rule, x: &[&Matrix<F>], gradient: &Matrix<F>) -> Vec<Matrix<F>> {
        rule.backward(x, gradient)
    }

    fn operation(
        &self,
        operation: &Operation,
        weights: &Weights<F>,
        x: &[&Matrix<F>],
        clock: Clock,
    ) -> Matrix<F> {
        operation.forward(weights, x, clock)
    }

    fn operation_back(
        &self,
        operation: &Operation,
        weights: &Weights<F>,
        x: &[&Matrix<F>],
        clock: Clock,
        gradient: &Matrix<F>,
        into: &mut Gradients<F>,
        wanted: bool,
    ) -> Vec<Option<Matrix<F>>> {
        operation.backward(x, clock, gradient, &mut Return { weights, into, wanted })
    }

    fn statistics(&self, norm: &BatchNorm, x: &Matrix<F>) -> Statistics {
        norm.measure(x)
    }

    fn running(&self, norm: &BatchNorm, weights: &Weights<F>) -> Statistics {
        norm.running(weights)
    }

    fn normalise(
        &self,
        norm: &BatchNorm,
        weights: &Weights<F>,
        x: &Matrix<F>,
        clock: Clock,
        statistics: &Statistics,
    ) -> Matrix<F> {
        norm.forward(weights, x, clock, statistics)
    }

    fn normalise_back(
        &self,
        norm: &BatchNorm,
        weights: &Weights<F>,
        x: &Matrix<F>,
        how: (Clock, &Statistics, bool),
        gradient: &Matrix<F>,
        into: &mut Gradients<F>,
    ) -> Matrix<F> {
        norm.backward(weights, x, how, gradient, into)
    }

    fn follow(&self, norm: &BatchNorm, batch: &Statistics, weights: &mut Weights<F>) {
        norm.follow(batch, &mut weights.values);
    }

    fn measure(&self, state: &Matrix<F>, slope: &Matrix<F>, error: Option<&Matrix<F>>) -> Measure {
        let size = |m: &Matrix<F>| m.centre.iter().map(|value| value.wide().abs()).sum::<f64>();
        let mut sums = Measure { state: size(state), slope: size(slope), ..Measure::default() };
        let Some(error) = error else { return sums };
        for row in 0..error.rows {
            let entries = row * error.columns..(row + 1) * error.columns;
            let (mut lower, mut upper) = (0.0, 0.0);
            for at in entries {
                let centre = error.centre[at].wide().abs();
                let radius = error.radius.get(at).map_or(0.0, |r| r.wide());
                // Not `max`, which hides NaN.
                lower += if centre < radius { 0.0 } else { centre - radius };
                upper += centre + radius;
            }
            sums.lower += lower;
            sums.upper += upper;
            sums.largest = if upper <= sums.largest { sums.largest } else { upper };
        }
        sums
    }

    fn motion(&self, start: &Matrix<F>, end: &Matrix<F>) -> f64 {
        let size: f64 = start.centre.iter().map(|value| value.wide().abs()).sum();
        let pairs = start.centre.iter().zip(&end.centre);
        let moved: f64 = pairs.map(|(from, to)| (to.wide() - from.wide()).abs()).sum();
        if size > 0.0 { moved / size } else { 0.0 }
    }

    fn region(&self, samples: &Samples, inputs: &Matrix<F>, eps: f64) -> Matrix<F> {
        samples.region(inputs, eps)
    }

    fn scatter(&self, samples: &Samples, inputs: &Matrix<F>, eps: f64, seed: u64) -> Matrix<F> {
        samples.scatter(inputs, eps, seed)
    }

    fn ascend(
        &self,
        samples: &Samples,
        attacked: &mut Matrix<F>,
        gradient: &Matrix<F>,
        inputs: &Matrix<F>,
        part_of: (f64, f64),
    ) {
        samples.ascend(attacked, gradient, inputs, part_of);
    }

    fn seen(&self, outlook: &Outlook<'_, Weights<F>>, x: &Matrix<F>) -> Seen {
        outlook.seen(x)
    }

    fn seen_back(
        &self,
        outlook: &Outlook<'_, Weights<F>>,
        x: &Matrix<F>,
        on: &Seen,
        into: &mut Gradients<F>,
    ) -> Matrix<F> {
        outlook.back(x, on, into)
    }

    fn weights(&self, count: usize) -> Weights<F> {
        Weights::new(vec![F::ZERO; count])
    }

    fn parameters(&self, weights: &Weights<F>) -> Vec<f64> {
        widen(&weights.values)
    }

    fn set_parameters(&self, weights: &mut Weights<F>, parameters: &[f64]) -> Result<(), Failure> {
        narrow("parameters", parameters, &mut weights.values)?;
        weights.refresh();
        Ok(())
    }

    fn gradients(&self, count: usize, boxes: bool) -> Gradients<F> {
        Gradients::new(count, boxes)
    }

    fn clear(&self, gradients: &mut Gradients<F>) {
        gradients.signed.fill(F::ZERO);
        gradients.magnitudes.fill(F::ZERO);
    }

    fn settled(&self, gradients: &Gradients<F>, weights: &Weights<F>) -> Vec<f64> {
        widen(&total(gradients, weights))
    }

    fn companions(&self, learned: &[bool]) -> Learning<F> {
        Learning { companions: Companions::new(learned.len()), learned: learned.to_vec() }
    }

    fn update(
        &self,
        rule: UpdateRule,
        step: &AdamStep,
        weights: &mut Weights<F>,
        gradients: &Gradients<F>,
        with: &mut Learning<F>,
    ) -> f64 {
        let total = total(gradients, weights);
        with.companions.update(rule, step, Some(&with.learned), &mut weights.values, &total)
    }

    fn refresh(&self, weights: &mut Weights<F>) {
        weights.refresh();
    }

    fn track(&self, decay: f64, weights: &Weights<F>, with: &mut Learning<F>, set: &[Range<usize>]) {
        with.companions.track(decay, &weights.values, set.iter().cloned());
    }

    fn averages(&self, with: &Learning<F>) -> Vec<f64> {
        with.companions.averages()
    }

    fn set_averages(&self, with: &mut Learning<F>, averages: &[f64]) -> Result<(), Failure> {
        with.companions.set_averages(averages)
    }

    fn moments(&self, with: &Learning<F>) -> Moments {
        with.companions.moments()
    }

    fn set_moments(&self, with: &mut Learning<F>, moments: &Moments) -> Result<(), Failure> {
        with.companions.set_moments(moments)
    }
}

fn total<F: Real>(gradients: &Gradients<F>, weights: &Weights<F>) -> Vec<F> {
    let mut total = vec![F::ZERO; weights.values.len()];
    gradients.settle(&weights.values, &mut total);
    total
}
