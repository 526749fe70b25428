//! A network of any kind with its samples, parameters and optimiser.

use gains_core::description::ControllerSpec;
use gains_core::model_file::Tensors;

use super::blueprint::Blueprint;
use super::judge::{Judge, Outlook, Target};
use super::machine::Machine;
use super::pass::ProgramPass;
use super::samples::{Samples, Truth};
use crate::config::{Config, DataConfig, Optimiser};
use crate::device::{AdamStep, Ledger, Moments, WidthNorm};
use crate::engine::{Engine, Setting};
use crate::loss::criterion::Kind;
use crate::plan::PlanError;
use crate::solve::Failure;
use crate::trainer::TrainError;

/// What a pass adds up.
pub(super) struct Books<M: Machine> {
    pub(super) gradients: M::Gradients,
    pub(super) ledger: Ledger,
    /// What clean points measured, by layer of batch normalisation.
    pub(super) measured: Vec<Option<M::Statistics>>,
}

/// Any network on a machine.
pub struct ProgramEngine<M: Machine> {
    machine: M,
    blueprint: Blueprint,
    samples: Samples,
    /// What samples of every class weigh.
    class_weights: Vec<f64>,
    weights: M::Weights,
    companions: M::Companions,
    books: Books<M>,
    outputs: usize,
}

impl<M: Machine> ProgramEngine<M> {
    /// A network with its samples.
    pub fn new(
        machine: M,
        blueprint: Blueprint,
        config: &Config,
        samples: Samples,
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
        let count = blueprint.parameters.count();
        let books = Books {
            gradients: machine.gradients(count, true),
            ledger: Ledger::default(),
            measured: vec![None; blueprint.norms],
        };
        Ok(Self {
            weights: machine.weights(count),
            companions: machine.companions(&learned),
            machine,
            blueprint,
            samples,
            class_weights,
            books,
            outputs,
        })
    }

    /// Which parameters gradients change where nothing is frozen.
    #[cfg(test)]
    pub(super) fn learned(&self) -> Vec<bool> {
        self.blueprint.parameters.learned(&[]).unwrap()
    }

    /// What was read, if that went well.
    fn read<T>(&self, found: T) -> Result<T, Failure> {
        self.machine.check()?;
        Ok(found)
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

impl<M: Machine> Engine for ProgramEngine<M> {
    type Pass<'a>
        = ProgramPass<'a, M>
    where
        Self: 'a;

    fn name(&self) -> String {
        self.machine.name()
    }

    fn samples(&self) -> (usize, usize) {
        (self.samples.training, self.samples.len() - self.samples.training)
    }

    fn pass<'a>(&'a mut self, setting: Setting<'a>) -> Result<ProgramPass<'a, M>, Failure> {
        let target = self.target(setting.indices);
        let samples = setting.indices.len();
        let shares = match &target {
            Target::Classes(labels) => labels.iter().map(|label| self.class_weights[*label]).collect(),
            Target::Numbers(_) => vec![1.0; samples],
        };
        let norm = setting.phase.loss.width_norm;
        let width_weights = self.width_weights(&target, norm, samples);
        let outlook = Outlook {
            head: self.blueprint.head.as_ref(),
            weights: &self.weights,
            target,
            outputs: self.outputs,
        };
        let judge = Judge {
            machine: &self.machine,
            criterion: setting.config.criterion.measure(),
            outlook,
            shares,
            width_weights,
            norm,
        };
        Ok(ProgramPass {
            machine: &self.machine,
            blueprint: &self.blueprint,
            samples: &self.samples,
            augment: setting.config.data.as_ref().map(|data: &DataConfig| data.augment).unwrap_or_default(),
            judge,
            setting,
            books: &mut self.books,
        })
    }

    fn update(&mut self, step: &AdamStep, settings: &Optimiser) -> Result<(), Failure> {
        let (weights, gradients) = (&mut self.weights, &self.books.gradients);
        self.books.ledger.gradient_norm =
            self.machine.update(settings.method, step, weights, gradients, &mut self.companions);
        for (norm, measured) in self.blueprint.batch_norms().into_iter().zip(&mut self.books.measured) {
            if let Some(measured) = measured.take() {
                self.machine.follow(norm, &measured, &mut self.weights);
            }
        }
        self.machine.refresh(&mut self.weights);
        Ok(self.machine.check()?)
    }

    fn take_ledger(&mut self) -> Result<Ledger, Failure> {
        Ok(std::mem::take(&mut self.books.ledger))
    }

    fn track(&mut self, decay: f64) -> Result<(), Failure> {
        // Running statistics are averages already.
        let statistics: Vec<_> = self.blueprint.parameters.statistics().collect();
        self.machine.track(decay, &self.weights, &mut self.companions, &statistics);
        Ok(self.machine.check()?)
    }

    fn averages(&mut self) -> Result<Vec<f64>, Failure> {
        self.read(self.machine.averages(&self.companions))
    }

    fn set_averages(&mut self, averages: &[f64]) -> Result<(), Failure> {
        self.machine.set_averages(&mut self.companions, averages)
    }

    fn count(&self) -> usize {
        self.blueprint.parameters.count()
    }

    fn parameters(&mut self) -> Result<Vec<f64>, Failure> {
        self.read(self.machine.parameters(&self.weights))
    }

    fn set_parameters(&mut self, parameters: &[f64]) -> Result<(), Failure> {
        self.machine.set_parameters(&mut self.weights, parameters)
    }

    fn gradients(&mut self) -> Result<Vec<f64>, Failure> {
        self.read(self.machine.settled(&self.books.gradients, &self.weights))
    }

    fn moments(&mut self) -> Result<Moments, Failure> {
        self.read(self.machine.moments(&self.companions))
    }

    fn set_moments(&mut self, moments: &Moments) -> Result<(), Failure> {
        self.machine.set_moments(&mut self.companions, moments)
    }

    fn tensors(&self, parameters: &[f64]) -> Tensors {
        self.blueprint.parameters.scatter(parameters)
    }
}
