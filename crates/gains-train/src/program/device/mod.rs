//! A device that goes through programs operator by operator: every value is a matrix in its memory, every rule of
//! [`super::ops`] a kernel or two over it.
//!
//! Nothing here is specialised to a network and no sample has to fit anywhere, so that whatever the host trains, this does. What
//! comes back to the host is small: four sums a row for a solver step that decides, and what a criterion looks at.
//! A [`Launcher`] knows a driver; [`crate::cuda::Driver`] is that of NVIDIA's devices. Tests run the very same kernels,
//! compiled by a C++ compiler, on the processor.

mod batch;
mod contract;
#[cfg(test)]
mod emulated;
mod fixed;
pub mod launcher;
mod layer;
mod learning;
mod norm;
mod rules;
pub mod source;
#[cfg(test)]
mod tests;
mod values;

use std::collections::HashMap;
use std::marker::PhantomData;
use std::sync::{Arc, Mutex, PoisonError};

use self::fixed::Table;
use self::launcher::{Argument, Launcher, THREADS};
pub use self::values::DeviceValues;
use crate::cpu::Real;
use crate::device::DeviceError;

/// A device with its kernels; values are stored in `F`.
pub struct Kernels<L: Launcher, F> {
    launcher: L,
    /// What went wrong first.
    failure: Mutex<Option<DeviceError>>,
    /// What maps look like, by where this machine keeps them.
    tables: Mutex<HashMap<usize, Arc<Table<L::Memory>>>>,
    numbers: PhantomData<F>,
}

/// Launches a kernel: blocks, arguments.
macro_rules! launch {
    ($machine:expr, $kernel:literal, $blocks:expr, $($argument:expr),+ $(,)?) => {
        $machine.launch($kernel, $blocks, &[$(crate::program::device::launcher::Argument::from($argument)),+])
    };
}
use launch;

/// Blocks for so many entries.
fn spread(entries: usize) -> [usize; 3] {
    [entries.div_ceil(THREADS), 1, 1]
}

impl<L: Launcher, F: Real> Kernels<L, F> {
    /// A device.
    pub fn new(launcher: L) -> Self {
        Self { launcher, failure: Mutex::default(), tables: Mutex::default(), numbers: PhantomData }
    }

    /// Keeps what went wrong, if nothing did before.
    fn fail(&self, error: DeviceError) {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
    }

    fn has_failed(&self) -> bool {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).is_some()
    }

    /// The result of something, or what comes closest to it where it failed; nothing is done any more once something failed.
    fn attempt<T: Default>(&self, work: impl FnOnce() -> Result<T, DeviceError>) -> T {
        if self.has_failed() {
            return T::default();
        }
        work().unwrap_or_else(|error| {
            self.fail(error);
            T::default()
        })
    }

    fn launch(&self, kernel: &'static str, blocks: [usize; 3], arguments: &[Argument]) {
        // Nothing is a launch of no blocks.
        if blocks.contains(&0) {
            return;
        }
        let counts = arguments.iter().any(|argument| matches!(argument, Argument::Int(i32::MAX)));
        self.attempt(|| {
            let [x, y, z] = blocks.map(|count| u32::try_from(count).unwrap_or(u32::MAX));
            if counts || x > i32::MAX as u32 || y > 65_535 || z > 65_535 {
                let message = "a batch has more entries than the device counts: choose smaller batches";
                return Err(DeviceError::Unsupported(message.into()));
            }
            // SAFETY: every launch in this module passes what its kernel declares (the emulated device compares their kinds),
            // and memory of the sizes it is given.
            unsafe { self.launcher.launch(kernel, [x, y, z], arguments) }
        });
    }

    fn bytes(&self, count: usize, each: usize) -> L::Memory {
        self.attempt(|| self.launcher.allocate(count * each))
    }

    /// So many values with anything in them.
    fn floats(&self, count: usize) -> L::Memory {
        self.bytes(count, size_of::<F>())
    }

    /// So many values, all 0.
    fn zeros(&self, count: usize) -> L::Memory {
        let memory = self.floats(count);
        self.attempt(|| self.launcher.clear(&memory, count * size_of::<F>()));
        memory
    }

    fn doubles(&self, count: usize) -> L::Memory {
        self.bytes(count, size_of::<f64>())
    }

    fn at(&self, memory: &L::Memory) -> u64 {
        self.launcher.address(memory)
    }

    /// Where value number `offset` lies.
    fn after(&self, memory: &L::Memory, offset: usize) -> u64 {
        self.at(memory) + (offset * size_of::<F>()) as u64
    }

    fn put_bytes(&self, bytes: &[u8]) -> L::Memory {
        let memory = self.bytes(bytes.len(), 1);
        self.attempt(|| self.launcher.write(&memory, bytes));
        memory
    }

    fn put_floats(&self, values: impl Iterator<Item = f64>) -> L::Memory {
        self.put_bytes(&encode::<F>(values))
    }

    fn put_doubles(&self, values: &[f64]) -> L::Memory {
        self.put_bytes(&encode::<f64>(values.iter().copied()))
    }

    fn put_ints(&self, values: impl Iterator<Item = i32>) -> L::Memory {
        self.put_bytes(&values.flat_map(i32::to_ne_bytes).collect::<Vec<u8>>())
    }

    fn read_bytes(&self, memory: &L::Memory, count: usize) -> Vec<u8> {
        let mut bytes = vec![0; count];
        if count > 0 {
            self.attempt(|| self.launcher.read(memory, &mut bytes));
        }
        bytes
    }

    fn read_floats(&self, memory: &L::Memory, count: usize) -> Vec<f64> {
        decode::<F>(&self.read_bytes(memory, count * size_of::<F>()))
    }

    fn read_doubles(&self, memory: &L::Memory, count: usize) -> Vec<f64> {
        decode::<f64>(&self.read_bytes(memory, count * size_of::<f64>()))
    }
}

/// Numbers as a device stores them.
fn encode<F: Real>(values: impl Iterator<Item = f64>) -> Vec<u8> {
    match size_of::<F>() {
        4 => values.flat_map(|value| (value as f32).to_ne_bytes()).collect(),
        _ => values.flat_map(f64::to_ne_bytes).collect(),
    }
}

fn decode<F: Real>(bytes: &[u8]) -> Vec<f64> {
    let (singles, _) = bytes.as_chunks::<4>();
    let (doubles, _) = bytes.as_chunks::<8>();
    match size_of::<F>() {
        4 => singles.iter().map(|bytes| f64::from(f32::from_ne_bytes(*bytes))).collect(),
        _ => doubles.iter().map(|bytes| f64::from_ne_bytes(*bytes)).collect(),
    }
}
