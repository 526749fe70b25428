//! The engine for the family of networks that devices have large operations for: convolutions with ReLUs in front of
//! one neural ODE of the same, then pooling and a linear layer.

use gains_core::model_file::Tensors;

use crate::config::Optimiser;
use crate::device::{AdamStep, Device, LabelData, Ledger, Moments};
use crate::engine::{Engine, Setting};
use crate::loss::width::width_weights;
use crate::pass::{DevicePass, Route};
use crate::plan::{Plan, PlanError};
use crate::solve::Failure;
use crate::trainer::{Images, TrainError};

/// A device with a network of the family and its images.
pub struct Fused<D: Device> {
    pub(crate) device: D,
    pub(crate) plan: Plan,
    /// Of the images to learn from, then of those to look at.
    labels: Vec<u8>,
    training: usize,
}

impl<D: Device> Fused<D> {
    /// Puts images on the device: at most `most` to learn from, at most `looked` to look at.
    pub fn new(
        mut device: D,
        plan: Plan,
        (training, most): (Images<'_>, usize),
        (test, looked): (Images<'_>, usize),
    ) -> Result<Self, TrainError> {
        Route::of(&plan)?;
        let (entries, classes) = (plan.input.len(), plan.head.output.channels);
        for (name, images) in [("training", training), ("test", test)] {
            if images.pixels.len() != images.labels.len() * entries {
                return Err(TrainError::Data(format!(
                    "{} {name} images of {entries} entries cannot have {} entries in all",
                    images.labels.len(),
                    images.pixels.len()
                )));
            }
            if let Some(label) = images.labels.iter().find(|label| usize::from(**label) >= classes) {
                return Err(TrainError::Data(format!(
                    "a {name} image has the label {label}, and there are {classes} classes"
                )));
            }
        }
        let count = most.min(training.labels.len());
        let tests = looked.min(test.labels.len());
        if count == 0 {
            return Err(TrainError::Data("there are no training images".into()));
        }
        let mut pixels = Vec::with_capacity((count + tests) * entries);
        pixels.extend_from_slice(&training.pixels[..count * entries]);
        pixels.extend_from_slice(&test.pixels[..tests * entries]);
        device.store(&pixels, count + tests)?;
        let labels = [&training.labels[..count], &test.labels[..tests]].concat();
        Ok(Self { device, plan, labels, training: count })
    }

    /// The network.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }
}

impl<D: Device> Engine for Fused<D> {
    type Pass<'a>
        = DevicePass<'a, D>
    where
        D: 'a;

    fn name(&self) -> String {
        self.device.name()
    }

    fn samples(&self) -> (usize, usize) {
        (self.training, self.labels.len() - self.training)
    }

    fn pass<'a>(&'a mut self, setting: Setting<'a>) -> Result<DevicePass<'a, D>, Failure> {
        let labels: Vec<u8> = setting.indices.iter().map(|index| self.labels[*index as usize]).collect();
        let width_weights = width_weights(setting.phase, &labels, self.plan.head.output.channels);
        let on_device = self.device.labels(&LabelData { labels: labels.clone(), width_weights })?;
        let route = Route::of(&self.plan).map_err(|e: PlanError| Failure::Diverged(e.to_string()))?;
        Ok(DevicePass { device: &mut self.device, route, setting, labels: on_device, classes: labels })
    }

    fn update(&mut self, step: &AdamStep, _optimiser: &Optimiser) -> Result<(), Failure> {
        Ok(self.device.update(step)?)
    }

    fn take_ledger(&mut self) -> Result<Ledger, Failure> {
        Ok(self.device.take_ledger()?)
    }

    fn track(&mut self, decay: f64) -> Result<(), Failure> {
        Ok(self.device.track(decay)?)
    }

    fn averages(&mut self) -> Result<Vec<f64>, Failure> {
        Ok(self.device.averages()?)
    }

    fn set_averages(&mut self, averages: &[f64]) -> Result<(), Failure> {
        Ok(self.device.set_averages(averages)?)
    }

    fn count(&self) -> usize {
        self.plan.parameters
    }

    fn parameters(&mut self) -> Result<Vec<f64>, Failure> {
        Ok(self.device.parameters()?)
    }

    fn set_parameters(&mut self, parameters: &[f64]) -> Result<(), Failure> {
        Ok(self.device.set_parameters(parameters)?)
    }

    fn gradients(&mut self) -> Result<Vec<f64>, Failure> {
        Ok(self.device.gradients()?)
    }

    fn moments(&mut self) -> Result<Moments, Failure> {
        Ok(self.device.moments()?)
    }

    fn set_moments(&mut self, moments: &Moments) -> Result<(), Failure> {
        Ok(self.device.set_moments(moments)?)
    }

    fn tensors(&self, parameters: &[f64]) -> Tensors {
        self.plan.scatter(parameters)
    }
}
