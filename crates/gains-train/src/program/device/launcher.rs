//! What kernels need of a device: memory, copies, launches.

use std::ffi::c_void;

use crate::device::DeviceError;

/// Threads of a block, of every kernel.
pub const THREADS: usize = 256;

/// An argument of a kernel.
#[derive(Clone, Copy, Debug)]
pub enum Argument {
    /// Where something lies; 0 for nothing.
    Address(u64),
    /// A count.
    Int(i32),
    /// A number.
    Number(f64),
    /// Where several values lie.
    Places([u64; 18]),
    /// Their factors.
    Factors([f64; 9]),
}

impl Argument {
    /// Where its value is, for a driver to copy.
    pub fn value(&self) -> *const c_void {
        match self {
            Self::Address(value) => std::ptr::from_ref(value).cast(),
            Self::Int(value) => std::ptr::from_ref(value).cast(),
            Self::Number(value) => std::ptr::from_ref(value).cast(),
            Self::Places(value) => std::ptr::from_ref(value).cast(),
            Self::Factors(value) => std::ptr::from_ref(value).cast(),
        }
    }
}

impl From<u64> for Argument {
    fn from(address: u64) -> Self {
        Self::Address(address)
    }
}

impl From<usize> for Argument {
    /// Counts that are too large become the largest, which no launch takes.
    fn from(count: usize) -> Self {
        Self::Int(i32::try_from(count).unwrap_or(i32::MAX))
    }
}

impl From<bool> for Argument {
    fn from(on: bool) -> Self {
        Self::Int(on.into())
    }
}

impl From<f64> for Argument {
    fn from(number: f64) -> Self {
        Self::Number(number)
    }
}

/// A device with the kernels of [`super::source`].
pub trait Launcher: Send + Sync {
    /// Memory of the device, given back when it is dropped.
    type Memory: Default + Send + Sync;

    /// Name for people.
    fn name(&self) -> String;

    /// So many bytes with anything in them.
    fn allocate(&self, bytes: usize) -> Result<Self::Memory, DeviceError>;

    /// Where memory lies; 0 for that of no bytes.
    fn address(&self, memory: &Self::Memory) -> u64;

    /// Sets its first bytes to 0.
    fn clear(&self, memory: &Self::Memory, bytes: usize) -> Result<(), DeviceError>;

    /// Replaces its first bytes.
    fn write(&self, memory: &Self::Memory, bytes: &[u8]) -> Result<(), DeviceError>;

    /// Its first bytes, once all that was launched is done.
    fn read(&self, memory: &Self::Memory, bytes: &mut [u8]) -> Result<(), DeviceError>;

    /// Launches a kernel on so many blocks of [`THREADS`] threads.
    ///
    /// # Safety
    /// The arguments are those of the kernel, and every address is good for what it reads and writes.
    unsafe fn launch(
        &self,
        kernel: &'static str,
        blocks: [u32; 3],
        arguments: &[Argument],
    ) -> Result<(), DeviceError>;
}
