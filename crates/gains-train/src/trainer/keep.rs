//! What becomes of a run: the network that is kept.

use gains_core::Description;
use gains_core::description::{ControlledSpec, ControllerSpec, LayerSpec};
use gains_core::model_file::Tensors;

use super::{TrainError, Trainer};
use crate::checkpoint::Best;
use crate::config::SolverConfig;
use crate::engine::Engine;
use crate::solve::inference_step;

impl<E: Engine> Trainer<E> {
    /// The network that is kept: the best one, if networks are chosen, or the one as it is now. Its description has the running
    /// averages as first steps and a record of the training.
    pub fn finish(&mut self) -> Result<(Description, Tensors), TrainError> {
        let (parameters, steps) = match self.best.take() {
            Some(best) => {
                let kept = (best.parameters.clone(), best.average_steps.clone());
                self.best = Some(best);
                kept
            }
            None => (self.shipped()?, self.average_steps.clone()),
        };
        let mut description = self.describe(&steps);
        description.training = serde_json::json!({
            "program": concat!("gains ", env!("CARGO_PKG_VERSION")),
            "device": self.engine.name(),
            "method": self.config.method,
            "seed": self.config.seed,
            "updates": self.updates,
            "finished": self.is_finished(),
            "last_epoch": self.last_epoch,
            "config": self.config.to_toml(),
        });
        if let Some(best) = &self.best {
            description.training["best_epoch"] = best.epoch.into();
            description.training["best_score"] = best.score.into();
            if self.config.forecast.is_some() {
                description.training["validation_error"] = (-best.score).into();
            }
        }
        Ok((description, self.engine.tensors(&parameters)))
    }

    /// The network as it is now, without a record of its training.
    pub fn network(&mut self) -> Result<(Description, Tensors), TrainError> {
        let parameters = self.shipped()?;
        Ok((self.describe(&self.average_steps), self.engine.tensors(&parameters)))
    }

    /// What is trained, with first steps.
    fn describe(&self, averages: &[f64]) -> Description {
        let mut description = self.description.clone();
        let odes = description.layers.iter_mut().filter_map(|layer| match layer {
            LayerSpec::Ode { solver, .. } => Some(solver),
            _ => None,
        });
        for (solver, average) in odes.zip(averages) {
            let step = SolverConfig::of(solver).map(|config| inference_step(&config, *average));
            match (&mut solver.controller, step) {
                (ControllerSpec::ControlledAdaptive(ControlledSpec { initial_step, .. }), Some(step))
                | (ControllerSpec::Adaptive { initial_step, .. }, Some(step)) => *initial_step = step,
                _ => {}
            }
        }
        description
    }

    /// Says how good the network is after an epoch of the whole run, counted from 1: the best one is kept. Ends the run if
    /// there was none better for more than `patience` epochs. Returns whether this one is the best so far.
    pub fn judge(&mut self, epoch: u32, score: f64, patience: Option<u32>) -> Result<bool, TrainError> {
        let better = self.best.as_ref().is_none_or(|best| score > best.score);
        if better {
            let (parameters, average_steps) = (self.shipped()?, self.average_steps.clone());
            self.best = Some(Best { epoch, score, average_steps, parameters });
        }
        if let (Some(best), Some(patience)) = (&self.best, patience) {
            self.stopped = epoch - best.epoch > patience;
        }
        Ok(better)
    }

    /// The best network so far, if networks are chosen.
    pub fn best(&self) -> Option<&Best> {
        self.best.as_ref()
    }
}
