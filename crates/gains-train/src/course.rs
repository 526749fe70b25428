//! Where a run stands: the batch that comes next, which samples are in it, and whether the run diverged.

use crate::metrics::Position;
use crate::random::{Purpose, seed_at};
use crate::solve::Failure;
use crate::trainer::TrainError;

/// The way of a run through its samples.
#[derive(Debug)]
pub(crate) struct Course {
    /// The batch that comes next.
    pub at: Position,
    seed: u64,
    samples: usize,
    batch: usize,
    /// The order of the samples in the phase and epoch it was made for.
    order: Option<((usize, u32), Vec<u32>)>,
    diverged: Option<(Position, String)>,
}

impl Course {
    /// A run of so many samples in batches, from the beginning.
    pub(crate) fn new(seed: u64, samples: usize, batch: usize) -> Self {
        Self { at: Position::default(), seed, samples, batch, order: None, diverged: None }
    }

    /// Batches in an epoch.
    pub(crate) fn batches(&self) -> u32 {
        u32::try_from(self.samples.div_ceil(self.batch)).unwrap_or(u32::MAX)
    }

    /// Goes to where a checkpoint with so many parameters was saved, for a network of `parameters`.
    pub(crate) fn restore(
        &mut self,
        at: Position,
        found: usize,
        parameters: usize,
    ) -> Result<(), TrainError> {
        if found != parameters {
            let message = format!("the checkpoint has {found} parameters, the network has {parameters}");
            return Err(TrainError::Data(message));
        }
        if at.batch > 0 && at.batch >= self.batches() {
            let message =
                format!("the checkpoint stands at {at}, and an epoch has {} batches", self.batches());
            return Err(TrainError::Data(message));
        }
        self.at = at;
        self.diverged = None;
        Ok(())
    }

    /// The samples of the batch that comes next.
    pub(crate) fn samples(&mut self) -> Vec<u32> {
        let epoch = (self.at.phase, self.at.epoch);
        if self.order.as_ref().is_none_or(|(made_for, _)| *made_for != epoch) {
            let mut order: Vec<u32> = (0..self.samples as u32).collect();
            let seed = seed_at(self.seed, Purpose::Shuffle, epoch.0, epoch.1, 0);
            fastrand::Rng::with_seed(seed).shuffle(&mut order);
            self.order = Some((epoch, order));
        }
        let first = self.at.batch as usize * self.batch;
        match &self.order {
            Some((_, order)) => order.iter().skip(first).take(self.batch).copied().collect(),
            None => Vec::new(),
        }
    }

    /// Fails if the run diverged.
    pub(crate) fn still_sound(&self) -> Result<(), TrainError> {
        match &self.diverged {
            Some((at, what)) => Err(TrainError::Diverged { at: *at, what: what.clone() }),
            None => Ok(()),
        }
    }

    /// Remembers that the run diverged.
    pub(crate) fn diverge(&mut self, at: Position, what: String) -> TrainError {
        self.diverged = Some((at, what.clone()));
        TrainError::Diverged { at, what }
    }

    /// What a failed batch means for the run.
    pub(crate) fn failed(&mut self, at: Position, failure: Failure) -> TrainError {
        match failure {
            Failure::Device(error) => error.into(),
            Failure::Diverged(what) => self.diverge(at, what),
        }
    }

    /// The parameters of a run that has not diverged, all finite.
    pub(crate) fn sound(&mut self, parameters: Vec<f64>) -> Result<Vec<f64>, TrainError> {
        match parameters.iter().position(|value| !value.is_finite()) {
            Some(index) => Err(self.diverge(self.at, format!("parameter {index} is {}", parameters[index]))),
            None => Ok(parameters),
        }
    }

    /// Refuses moments of an optimiser that are not finite.
    pub(crate) fn sound_moments(&mut self, moments: &crate::device::Moments) -> Result<(), TrainError> {
        if moments.first.iter().chain(&moments.second).all(|value| value.is_finite()) {
            return Ok(());
        }
        Err(self.diverge(self.at, "the optimiser's moments are not finite".into()))
    }
}
