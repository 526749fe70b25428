//! A network of any kind with its samples, parameters and optimiser.

use gains_core::description::ControllerSpec;
use gains_core::model_file::Tensors;

use super::blueprint::Blueprint;
use super::judge::{Judge, Target};
use super::ops::{Statistics, Weights};
use super::pass::ProgramPass;
use super::samples::{Samples, Truth};
use crate::companions::{Companions, narrow, widen};
use crate::config::{Config, DataConfig, Optimiser};
use crate::cpu::Real;
use crate::device::{AdamStep, Ledger, Moments, WidthNorm};
use crate::engine::{Engine, Setting};
use crate::gradients::Gradients;
use crate::loss::criterion::Kind;
use crate::plan::PlanError;
use crate::solve::Failure;
use crate::threads::Threads;
use crate::trainer::TrainError;

/// What a pass adds up.
pub(super) struct Books<F> {
    pub(super) gradients: Gradients<F>,
    pub(super) ledger: Ledger,
    /// What clean points measured, by layer of batch normalisation.
    pub(super) measured: Vec<Option<Statistics>>,
}

/// Any network on the CPU, in `F`: float32 to train, float64 to check gradients.
pub struct ProgramEngine<F: Real> {
    blueprint: Blueprint,
    samples: Samples,
    /// What samples of every class weigh.
    class_weights: Vec<f64>,
    learned: Vec<bool>,
    weights: Weights<F>,
    companions: Companions<F>,
    books: Books<F>,
    outputs: usize,
    threads: Threads,
}

impl<F: Real> ProgramEngine<F> {
    /// A network with its samples, on `threads` threads of its own or on rayon's.
    pub fn new(
        blueprint: Blueprint,
        config: &Config,
        samples: Samples,
        threads: Option<usize>,
    ) -> Result<Self, TrainError> {
        let outputs = match &blueprint.head {
            Some(head) => head.sizes().1,
            None => blueprint.outputs(),
        };
        check(&blueprint, config, &samples)?;
        samples.check(outputs)?;
        let wanted = config.data.as_ref().map(|data| data.class_weights.clone()).unwrap_or_default();
        let class_weights = samples.weights(&wanted, outputs)?;
        let learned = blueprint.parameters.learned(&config.freeze)?;
        let threads = Threads::new(threads)?;
        let count = blueprint.parameters.count();
        let books = Books {
            gradients: Gradients::new(count, true),
            ledger: Ledger::default(),
            measured: vec![None; blueprint.norms],
        };
        Ok(Self {
            blueprint,
            samples,
            class_weights,
            learned,
            weights: Weights::new(vec![F::ZERO; count]),
            companions: Companions::new(count),
            books,
            outputs,
            threads,
        })
    }

    /// Which parameters gradients change.
    #[cfg(test)]
    pub(super) fn learned(&self) -> &[bool] {
        &self.learned
    }

    fn target(&self, indices: &[u32]) -> Target {
        match &self.samples.truth {
            Truth::Classes(labels) => {
                Target::Classes(indices.iter().map(|index| labels[*index as usize] as usize).collect())
            }
            Truth::Numbers { each, values } => Target::Numbers(
                indices
                    .iter()
                    .flat_map(|index| &values[*index as usize * each..][..*each])
                    .map(|value| f64::from(*value))
                    .collect(),
            ),
        }
    }

    /// What the widths of samples weigh, as in [`crate::loss::width`] but for any number of classes.
    fn width_weights(&self, target: &Target, norm: WidthNorm, samples: usize) -> Vec<f32> {
        let count = samples as f64;
        match (target, norm) {
            (_, WidthNorm::Absolute) => vec![(1.0 / count) as f32; samples],
            (Target::Numbers(_), _) => vec![(1.0 / (count * self.outputs as f64)) as f32; samples],
            (Target::Classes(labels), WidthNorm::Squared) => {
                let mut counts = vec![0.0_f64; self.outputs];
                labels.iter().for_each(|label| counts[*label] += 1.0);
                let weight = |label: &usize| 1.0 / (counts[*label] * self.outputs as f64 * count);
                labels.iter().map(|label| weight(label) as f32).collect()
            }
        }
    }
}

/// Refuses what cannot be trained.
fn check(blueprint: &Blueprint, config: &Config, samples: &Samples) -> Result<(), TrainError> {
    let refuse = |layer: &str, problem: &str| -> TrainError {
        PlanError::Layer { layer: layer.into(), problem: problem.into() }.into()
    };
    if blueprint.odes().any(|ode| matches!(ode.solver.controller, ControllerSpec::Adaptive { .. })) {
        return Err(refuse(
            "ode",
            "the solver chooses any step size, so nothing about it can be proved; take fixed or controlled_adaptive",
        ));
    }
    let numbers = matches!(samples.truth, Truth::Numbers { .. });
    if numbers != (config.criterion.kind() == Kind::Numbers) {
        let message = "the criterion is for classes where numbers are known, or the other way round";
        return Err(TrainError::Data(message.into()));
    }
    if blueprint.uses_time() && config.phases.iter().any(|phase| phase.loss.steady > 0.0) {
        return Err(refuse("ode", "a steady state (loss.steady) needs dynamics without time"));
    }
    if blueprint.parameters.count() == 0 {
        return Err(refuse("all", "there is nothing to learn: no layer has weights"));
    }
    if samples.shape != blueprint.description.input {
        let message =
            format!("the network takes {}, the samples are {}", blueprint.description.input, samples.shape);
        return Err(TrainError::Data(message));
    }
    Ok(())
}

impl<F: Real> Engine for ProgramEngine<F> {
    type Pass<'a> = ProgramPass<'a, F>;

    fn name(&self) -> String {
        self.threads.name()
    }

    fn samples(&self) -> (usize, usize) {
        (self.samples.training, self.samples.len() - self.samples.training)
    }

    fn pass<'a>(&'a mut self, setting: Setting<'a>) -> Result<ProgramPass<'a, F>, Failure> {
        let target = self.target(setting.indices);
        let samples = setting.indices.len();
        let shares = match &target {
            Target::Classes(labels) => labels.iter().map(|label| self.class_weights[*label]).collect(),
            Target::Numbers(_) => vec![1.0; samples],
        };
        let norm = setting.phase.loss.width_norm;
        let width_weights = self.width_weights(&target, norm, samples);
        let judge = Judge {
            criterion: setting.config.criterion.measure(),
            head: self.blueprint.head.as_ref(),
            weights: &self.weights,
            target,
            shares,
            width_weights,
            norm,
            outputs: self.outputs,
        };
        Ok(ProgramPass {
            blueprint: &self.blueprint,
            samples: &self.samples,
            augment: setting.config.data.as_ref().map(|data: &DataConfig| data.augment).unwrap_or_default(),
            judge,
            setting,
            books: &mut self.books,
            threads: &self.threads,
        })
    }

    fn update(&mut self, step: &AdamStep, settings: &Optimiser) -> Result<(), Failure> {
        let mut total = vec![F::ZERO; self.weights.values.len()];
        self.books.gradients.settle(&self.weights.values, &mut total);
        let (values, learned) = (&mut self.weights.values, Some(&self.learned[..]));
        self.books.ledger.gradient_norm =
            self.companions.update(settings.method, step, learned, values, &total);
        for (norm, measured) in self.blueprint.batch_norms().into_iter().zip(&mut self.books.measured) {
            if let Some(measured) = measured.take() {
                norm.follow(&measured, &mut self.weights.values);
            }
        }
        self.weights.refresh();
        Ok(())
    }

    fn take_ledger(&mut self) -> Result<Ledger, Failure> {
        Ok(std::mem::take(&mut self.books.ledger))
    }

    fn track(&mut self, decay: f64) -> Result<(), Failure> {
        // Running statistics are averages already.
        let statistics = self.blueprint.parameters.statistics();
        self.companions.track(decay, &self.weights.values, statistics);
        Ok(())
    }

    fn averages(&mut self) -> Result<Vec<f64>, Failure> {
        Ok(self.companions.averages())
    }

    fn set_averages(&mut self, averages: &[f64]) -> Result<(), Failure> {
        self.companions.set_averages(averages)
    }

    fn count(&self) -> usize {
        self.weights.values.len()
    }

    fn parameters(&mut self) -> Result<Vec<f64>, Failure> {
        Ok(widen(&self.weights.values))
    }

    fn set_parameters(&mut self, parameters: &[f64]) -> Result<(), Failure> {
        narrow("parameters", parameters, &mut self.weights.values)?;
        self.weights.refresh();
        Ok(())
    }

    fn gradients(&mut self) -> Result<Vec<f64>, Failure> {
        let mut total = vec![F::ZERO; self.weights.values.len()];
        self.books.gradients.settle(&self.weights.values, &mut total);
        Ok(widen(&total))
    }

    fn moments(&mut self) -> Result<Moments, Failure> {
        Ok(self.companions.moments())
    }

    fn set_moments(&mut self, moments: &Moments) -> Result<(), Failure> {
        self.companions.set_moments(moments)
    }

    fn tensors(&self, parameters: &[f64]) -> Tensors {
        self.blueprint.parameters.scatter(parameters)
    }
}
