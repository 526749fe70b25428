//! A latent ODE with its series, parameters and optimiser.

use gains_core::Description;
use gains_core::description::Task;
use gains_core::model_file::Tensors;

use super::cohort::{PARTS, deal};
use super::config::Names;
use super::network::{Network, Weights};
use super::pass::SeriesPass;
use super::sample::Sample;
use crate::companions::{Companions, narrow, widen};
use crate::config::{Config, Optimiser};
use crate::cpu::Real;
use crate::device::{AdamStep, Ledger, Moments};
use crate::engine::{Engine, Setting};
use crate::plan::PlanError;
use crate::solve::{Failure, inference_step};
use crate::threads::Threads;
use crate::trainer::TrainError;

/// What a pass adds up.
pub(super) struct Books<F> {
    pub(super) gradient: Vec<F>,
    pub(super) ledger: Ledger,
}

/// A latent ODE on the CPU, in `F`: float32 to train, float64 to check gradients.
pub struct SeriesEngine<F: Real> {
    weights: Weights<F>,
    companions: Companions<F>,
    /// Those to learn from, then those to look at.
    samples: Vec<Sample>,
    training: usize,
    /// Which features stay in [0, 1].
    bounded: Vec<bool>,
    /// Which statics move.
    moving: Vec<bool>,
    books: Books<F>,
    threads: Threads,
}

/// The network a configuration asks for, for series with these names: what is trained, and the layers samples are made for.
pub fn network(config: &Config, names: &Names) -> Result<(Description, Network), TrainError> {
    if let Some(problem) = config.problem() {
        return Err(problem.into());
    }
    let Some(forecast) = &config.forecast else {
        return Err(TrainError::Data("the configuration is not about series".into()));
    };
    if names.statics.is_empty() || names.features.is_empty() {
        return Err(TrainError::Data("a forecasting network needs features and statics".into()));
    }
    let description = forecast.description(config, names, inference_step(&config.solver, 0.0));
    let network = Network::new(&description)?;
    Ok((description, network))
}

impl<F: Real> SeriesEngine<F> {
    /// A network made by [`network`] with series made for it, to learn from and to look at, on `threads` threads of its own
    /// or on rayon's.
    pub fn new(
        config: &Config,
        (description, network): (&Description, Network),
        training: Vec<Sample>,
        validation: Vec<Sample>,
        threads: Option<usize>,
    ) -> Result<Self, TrainError> {
        let (Some(forecast), Task::Forecasting { features, statics, .. }) =
            (&config.forecast, &description.task)
        else {
            let problem = "is not made for forecasts".into();
            return Err(PlanError::Layer { layer: "the network".into(), problem }.into());
        };
        let mut samples = training;
        samples.truncate(config.images.unwrap_or(usize::MAX));
        let training = samples.len();
        if training == 0 {
            return Err(TrainError::Data("there are no training series".into()));
        }
        samples.extend(validation);
        for sample in &samples {
            if sample.statics.len() != network.statics() || sample.target.len() != network.features() {
                return Err(TrainError::Data("a series was made for another network".into()));
            }
        }
        let among =
            |names: &[String], list: &[String]| names.iter().map(|name| list.contains(name)).collect();
        let perturbed = forecast.perturbed(&config.dataset);
        let count = network.parameters;
        Ok(Self {
            weights: Weights::new(network, &vec![0.0; count]),
            companions: Companions::new(count),
            samples,
            training,
            bounded: among(features, &perturbed.bounded),
            moving: among(statics, &perturbed.statics),
            books: Books { gradient: vec![F::ZERO; count], ledger: Ledger::default() },
            threads: Threads::new(threads)?,
        })
    }
}

impl<F: Real> Engine for SeriesEngine<F> {
    type Pass<'a> = SeriesPass<'a, F>;

    fn name(&self) -> String {
        self.threads.name()
    }

    fn samples(&self) -> (usize, usize) {
        (self.training, self.samples.len() - self.training)
    }

    fn pass<'a>(&'a mut self, setting: Setting<'a>) -> Result<SeriesPass<'a, F>, Failure> {
        let Some(forecast) = &setting.config.forecast else {
            return Err(Failure::Diverged("the configuration is not about series".into()));
        };
        let samples: Vec<&Sample> =
            setting.indices.iter().map(|index| &self.samples[*index as usize]).collect();
        Ok(SeriesPass {
            weights: &self.weights,
            dealt: deal(&samples, PARTS),
            samples,
            bounded: &self.bounded,
            moving: &self.moving,
            forecast,
            setting,
            drawn: true,
            books: &mut self.books,
            threads: &self.threads,
        })
    }

    fn update(&mut self, step: &AdamStep, optimiser: &Optimiser) -> Result<(), Failure> {
        let (parameters, gradient) = (&mut self.weights.parameters, &self.books.gradient);
        self.books.ledger.gradient_norm =
            self.companions.update(optimiser.method, step, None, parameters, gradient);
        self.weights.refresh();
        Ok(())
    }

    fn take_ledger(&mut self) -> Result<Ledger, Failure> {
        Ok(std::mem::take(&mut self.books.ledger))
    }

    fn track(&mut self, decay: f64) -> Result<(), Failure> {
        self.companions.track(decay, &self.weights.parameters, std::iter::empty());
        Ok(())
    }

    fn averages(&mut self) -> Result<Vec<f64>, Failure> {
        Ok(self.companions.averages())
    }

    fn set_averages(&mut self, averages: &[f64]) -> Result<(), Failure> {
        self.companions.set_averages(averages)
    }

    fn count(&self) -> usize {
        self.weights.network.parameters
    }

    fn parameters(&mut self) -> Result<Vec<f64>, Failure> {
        Ok(widen(&self.weights.parameters))
    }

    fn set_parameters(&mut self, parameters: &[f64]) -> Result<(), Failure> {
        narrow("parameters", parameters, &mut self.weights.parameters)?;
        self.weights.refresh();
        Ok(())
    }

    fn gradients(&mut self) -> Result<Vec<f64>, Failure> {
        Ok(widen(&self.books.gradient))
    }

    fn moments(&mut self) -> Result<Moments, Failure> {
        Ok(self.companions.moments())
    }

    fn set_moments(&mut self, moments: &Moments) -> Result<(), Failure> {
        self.companions.set_moments(moments)
    }

    fn tensors(&self, parameters: &[f64]) -> Tensors {
        self.weights.network.scatter(parameters)
    }
}
