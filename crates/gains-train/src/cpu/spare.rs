//! Buffers that outlive the operation they were made for: fresh memory from the system costs as much as an eighth of
//! a solver step.

use std::sync::{Mutex, PoisonError};

use super::difference::{DifferenceMemory, DifferenceScratch};
use super::difference_back::BackScratch;
use super::gradient::LayerGradient;
use super::step::{PlainMemory, PlainScratch};

/// Things to be used again; what they hold is whatever the last user left.
#[derive(Debug)]
pub(crate) struct Shelf<T>(Mutex<Vec<T>>);

impl<T> Default for Shelf<T> {
    fn default() -> Self {
        Self(Mutex::new(Vec::new()))
    }
}

impl<T: Default> Shelf<T> {
    /// One from the shelf, or a new one.
    pub fn take(&self) -> T {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).pop().unwrap_or_default()
    }

    /// Puts several back.
    pub fn give(&self, things: impl IntoIterator<Item = T>) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).extend(things);
    }
}

/// One shelf for each kind of buffer.
#[derive(Debug)]
pub(crate) struct Spare<F> {
    pub plain_memory: Shelf<PlainMemory<F>>,
    pub difference_memory: Shelf<DifferenceMemory<F>>,
    pub plain: Shelf<PlainScratch<F>>,
    pub difference: Shelf<DifferenceScratch<F>>,
    pub back: Shelf<BackScratch<F>>,
    pub gradients: Shelf<Vec<LayerGradient<F>>>,
}

impl<F: Default> Default for Spare<F> {
    fn default() -> Self {
        Self {
            plain_memory: Shelf::default(),
            difference_memory: Shelf::default(),
            plain: Shelf::default(),
            difference: Shelf::default(),
            back: Shelf::default(),
            gradients: Shelf::default(),
        }
    }
}
