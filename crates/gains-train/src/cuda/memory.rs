//! Buffers on the device, kept for reuse: a batch asks for the same sizes as the batch before.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;

use cudarc::driver::{CudaSlice, CudaStream, DevicePtr, DriverError};

use crate::device::DeviceError;

/// What a failed call means.
pub(super) fn failed(error: DriverError) -> DeviceError {
    DeviceError::Failed(error.to_string())
}

/// Free buffers by size. All work is on one stream, so a buffer may be handed out again as soon as it is dropped.
#[derive(Clone)]
pub(super) struct Pool {
    stream: Arc<CudaStream>,
    free: Rc<RefCell<HashMap<usize, Vec<CudaSlice<f32>>>>>,
}

impl Pool {
    pub(super) fn new(stream: Arc<CudaStream>) -> Self {
        Self { stream, free: Rc::default() }
    }

    /// A buffer of so many floats with anything in it.
    pub(super) fn floats(&self, len: usize) -> Result<Buffer, DeviceError> {
        let size = len.max(1).next_multiple_of(256);
        let reused = self.free.borrow_mut().get_mut(&size).and_then(Vec::pop);
        let slice = match reused {
            Some(slice) => slice,
            // SAFETY: every kernel writes its outputs before anything reads them.
            None => unsafe { self.stream.alloc::<f32>(size) }.or_else(|_| {
                // Give back what lies idle, then try once more.
                self.free.borrow_mut().clear();
                let _ = self.stream.synchronize();
                // SAFETY: as above.
                unsafe { self.stream.alloc::<f32>(size) }
                    .map_err(|_| DeviceError::OutOfMemory { device: "CUDA device".into(), wanted: 4 * size })
            })?,
        };
        let address = slice.device_ptr(&self.stream).0;
        Ok(Buffer { slice: Some(slice), len, address, pool: self.clone() })
    }

    /// A buffer of so many bytes with anything in it.
    pub(super) fn bytes(&self, len: usize) -> Result<Buffer, DeviceError> {
        self.floats(len.div_ceil(4))
    }

    pub(super) fn zeros(&self, len: usize) -> Result<Buffer, DeviceError> {
        let mut buffer = self.floats(len)?;
        buffer.clear()?;
        Ok(buffer)
    }

    pub(super) fn of(&self, values: &[f32]) -> Result<Buffer, DeviceError> {
        let mut buffer = self.floats(values.len())?;
        buffer.write(values)?;
        Ok(buffer)
    }
}

/// Floats (or bytes) on the device.
pub struct Buffer {
    slice: Option<CudaSlice<f32>>,
    len: usize,
    address: u64,
    pool: Pool,
}

impl Buffer {
    /// Floats.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Where it lies, for kernels.
    pub(super) fn at(&self) -> u64 {
        self.address
    }

    /// Where float number `offset` lies.
    pub(super) fn after(&self, offset: usize) -> u64 {
        debug_assert!(offset <= self.len);
        self.address + 4 * offset as u64
    }

    pub(super) fn clear(&mut self) -> Result<(), DeviceError> {
        match &mut self.slice {
            Some(slice) => self.pool.stream.memset_zeros(slice).map_err(failed),
            None => Ok(()),
        }
    }

    pub(super) fn write(&mut self, values: &[f32]) -> Result<(), DeviceError> {
        match &mut self.slice {
            Some(slice) => {
                let mut part = slice.slice_mut(..values.len());
                self.pool.stream.memcpy_htod(values, &mut part).map_err(failed)
            }
            None => Ok(()),
        }
    }

    pub(super) fn write_bytes(&mut self, bytes: &[u8]) -> Result<(), DeviceError> {
        let words: Vec<f32> = bytes
            .chunks(4)
            .map(|chunk| {
                let mut word = [0; 4];
                word[..chunk.len()].copy_from_slice(chunk);
                f32::from_le_bytes(word)
            })
            .collect();
        self.write(&words)
    }

    /// Waits for the device and copies the first `len` floats.
    pub(super) fn read(&self, len: usize) -> Result<Vec<f32>, DeviceError> {
        match &self.slice {
            Some(slice) => self.pool.stream.clone_dtoh(&slice.slice(..len)).map_err(failed),
            None => Ok(Vec::new()),
        }
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        if let Some(slice) = self.slice.take() {
            self.pool.free.borrow_mut().entry(slice.len()).or_default().push(slice);
        }
    }
}

impl std::fmt::Debug for Buffer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Buffer({} floats)", self.len)
    }
}
