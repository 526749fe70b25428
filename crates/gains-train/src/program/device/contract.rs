//! [`Machine`], each operation in the file of its idea.

use std::ops::Range;
use std::sync::PoisonError;

use super::Kernels;
use super::launcher::Launcher;
use super::learning::{DeviceCompanions, DeviceGradients, DeviceWeights};
use super::norm::DeviceStatistics;
use super::values::DeviceValues;
use crate::cpu::Real;
use crate::device::{AdamStep, DeviceError, Measure, Moments};
use crate::matrix::Matrix;
use crate::optimiser::UpdateRule;
use crate::program::judge::{Outlook, Seen};
use crate::program::machine::Machine;
use crate::program::ops::{BatchNorm, Clock, Operation, Rule};
use crate::program::samples::Samples;
use crate::solve::Failure;

impl<L: Launcher, F: Real> Machine for Kernels<L, F> {
    type Values = DeviceValues<L::Memory>;
    type Weights = DeviceWeights<L::Memory>;
    type Gradients = DeviceGradients<L::Memory>;
    type Statistics = DeviceStatistics<L::Memory>;
    type Companions = DeviceCompanions<L::Memory>;

    fn name(&self) -> String {
        format!("{}, operator by operator", self.launcher.name())
    }

    fn within<R: Send>(&self, work: impl FnOnce() -> R + Send) -> R {
        work()
    }

    fn check(&self) -> Result<(), DeviceError> {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).take().map_or(Ok(()), Err)
    }

    fn put(&self, values: Matrix<f64>) -> Self::Values {
        self.put_matrix(&values)
    }

    fn read(&self, values: &Self::Values) -> Matrix<f64> {
        self.read_matrix(values)
    }

    fn copy(&self, values: &Self::Values) -> Self::Values {
        self.combination(&[1.0], &[values])
    }

    fn zeros_like(&self, values: &Self::Values) -> Self::Values {
        self.cleared(values)
    }

    fn add(&self, sum: &mut Self::Values, part: &Self::Values) {
        self.add_values(sum, part);
    }

    fn sum(&self, coefficients: &[f64], x: &[&Self::Values]) -> Self::Values {
        self.combination(coefficients, x)
    }

    fn sum_back(&self, coefficient: f64, gradient: &Self::Values) -> Self::Values {
        self.combination(&[coefficient], &[gradient])
    }

    fn rule(&self, rule: Rule, x: &[&Self::Values]) -> Self::Values {
        self.rule_over(rule, x)
    }

    fn rule_back(&self, rule: Rule, x: &[&Self::Values], gradient: &Self::Values) -> Vec<Self::Values> {
        self.rule_returned(rule, x, gradient)
    }

    fn operation(
        &self,
        operation: &Operation,
        weights: &Self::Weights,
        x: &[&Self::Values],
        clock: Clock,
    ) -> Self::Values {
        match operation {
            Operation::Layer(layer) => self.layer(layer, weights, x[0], clock),
            Operation::Scale(scale) => self.scale(scale, weights, x[0], clock),
            Operation::BatchNorm(norm) => {
                self.normalised(norm, weights, x[0], clock, &self.of_running(norm, weights))
            }
            Operation::Fixed(fixed) => self.fixed(fixed, x[0], clock),
            Operation::Each(each) if x[0].is_box() => self.rule_over(Rule::Over(*each), x),
            Operation::Each(each) => self.each_at(*each, x),
            Operation::Sum(coefficients) => self.combination(coefficients, x),
            Operation::Concat => self.concat(x),
            Operation::Slice(range) => self.slice(x[0], range.clone()),
        }
    }

    fn operation_back(
        &self,
        operation: &Operation,
        weights: &Self::Weights,
        x: &[&Self::Values],
        clock: Clock,
        gradient: &Self::Values,
        into: &mut Self::Gradients,
        wanted: bool,
    ) -> Vec<Option<Self::Values>> {
        let some = |parts: Vec<Self::Values>| parts.into_iter().map(Some).collect();
        match operation {
            Operation::Layer(layer) => {
                vec![self.layer_back(layer, weights, x[0], clock, gradient, into, wanted)]
            }
            Operation::Scale(scale) => {
                some(vec![self.scale_back(scale, weights, x[0], clock, gradient, into)])
            }
            Operation::BatchNorm(norm) => {
                let statistics = self.of_running(norm, weights);
                let how = (clock, &statistics, false);
                some(vec![self.normalised_back(norm, weights, x[0], how, gradient, into)])
            }
            Operation::Fixed(fixed) => some(vec![self.fixed_back(fixed, x[0], gradient)]),
            Operation::Each(each) if x[0].is_box() => {
                some(self.rule_returned(Rule::Over(*each), x, gradient))
            }
            Operation::Each(each) => some(self.each_returned(*each, x, gradient)),
            Operation::Sum(coefficients) => {
                some(coefficients.iter().map(|c| self.sum_back(*c, gradient)).collect())
            }
            Operation::Concat => {
                let mut first = 0;
                let part = |x: &&Self::Values| {
                    first += x.columns;
                    Some(self.slice(gradient, first - x.columns..first))
                };
                x.iter().map(part).collect()
            }
            Operation::Slice(range) => some(vec![self.slice_back(x[0], range.clone(), gradient)]),
        }
    }

    fn statistics(&self, norm: &BatchNorm, x: &Self::Values) -> Self::Statistics {
        self.measured(norm, x)
    }

    fn running(&self, norm: &BatchNorm, weights: &Self::Weights) -> Self::Statistics {
        self.of_running(norm, weights)
    }

    fn normalise(
        &self,
        norm: &BatchNorm,
        weights: &Self::Weights,
        x: &Self::Values,
        clock: Clock,
        statistics: &Self::Statistics,
    ) -> Self::Values {
        self.normalised(norm, weights, x, clock, statistics)
    }

    fn normalise_back(
        &self,
        norm: &BatchNorm,
        weights: &Self::Weights,
        x: &Self::Values,
        how: (Clock, &Self::Statistics, bool),
        gradient: &Self::Values,
        into: &mut Self::Gradients,
    ) -> Self::Values {
        self.normalised_back(norm, weights, x, how, gradient, into)
    }

    fn follow(&self, norm: &BatchNorm, batch: &Self::Statistics, weights: &mut Self::Weights) {
        self.followed(norm, batch, weights);
    }

    fn measure(&self, state: &Self::Values, slope: &Self::Values, error: Option<&Self::Values>) -> Measure {
        self.measured_step(state, slope, error)
    }

    fn motion(&self, start: &Self::Values, end: &Self::Values) -> f64 {
        self.moved(start, end)
    }

    fn region(&self, samples: &Samples, inputs: &Self::Values, eps: f64) -> Self::Values {
        self.surrounded(samples, inputs, eps)
    }

    fn scatter(&self, samples: &Samples, inputs: &Self::Values, eps: f64, seed: u64) -> Self::Values {
        self.scattered(samples, inputs, eps, seed)
    }

    fn ascend(
        &self,
        samples: &Samples,
        attacked: &mut Self::Values,
        gradient: &Self::Values,
        inputs: &Self::Values,
        part_of: (f64, f64),
    ) {
        self.ascended(samples, attacked, gradient, inputs, part_of);
    }

    fn seen(&self, outlook: &Outlook<'_, Self::Weights>, x: &Self::Values) -> Seen {
        self.looked_at(outlook, x)
    }

    fn seen_back(
        &self,
        outlook: &Outlook<'_, Self::Weights>,
        x: &Self::Values,
        on: &Seen,
        into: &mut Self::Gradients,
    ) -> Self::Values {
        self.looked_back(outlook, x, on, into)
    }

    fn weights(&self, count: usize) -> Self::Weights {
        self.blank_weights(count)
    }

    fn parameters(&self, weights: &Self::Weights) -> Vec<f64> {
        self.read_weights(weights)
    }

    fn set_parameters(&self, weights: &mut Self::Weights, parameters: &[f64]) -> Result<(), Failure> {
        self.write_weights(weights, parameters)?;
        Ok(self.check()?)
    }

    fn gradients(&self, count: usize, boxes: bool) -> Self::Gradients {
        self.blank_gradients(count, boxes)
    }

    fn clear(&self, gradients: &mut Self::Gradients) {
        self.forget(gradients);
    }

    fn settled(&self, gradients: &Self::Gradients, weights: &Self::Weights) -> Vec<f64> {
        self.read_gradients(gradients, weights)
    }

    fn companions(&self, learned: &[bool]) -> Self::Companions {
        self.blank_companions(learned)
    }

    fn update(
        &self,
        rule: UpdateRule,
        step: &AdamStep,
        weights: &mut Self::Weights,
        gradients: &Self::Gradients,
        companions: &mut Self::Companions,
    ) -> f64 {
        self.updated(rule, step, weights, gradients, companions)
    }

    fn refresh(&self, weights: &mut Self::Weights) {
        self.refreshed(weights);
    }

    fn track(
        &self,
        decay: f64,
        weights: &Self::Weights,
        companions: &mut Self::Companions,
        set: &[Range<usize>],
    ) {
        self.tracked(decay, weights, companions, set);
    }

    fn averages(&self, companions: &Self::Companions) -> Vec<f64> {
        self.read_averages(companions)
    }

    fn set_averages(&self, companions: &mut Self::Companions, averages: &[f64]) -> Result<(), Failure> {
        self.write_averages(companions, averages)?;
        Ok(self.check()?)
    }

    fn moments(&self, companions: &Self::Companions) -> Moments {
        self.read_moments(companions)
    }

    fn set_moments(&self, companions: &mut Self::Companions, moments: &Moments) -> Result<(), Failure> {
        self.write_moments(companions, moments)?;
        Ok(self.check()?)
    }
}
