//! What programs ask of an NVIDIA device operator by operator: memory and launches on one stream, and kernels that are compiled
//! when they are first launched.

use std::collections::HashMap;
use std::ffi::c_void;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cudarc::driver::{CudaContext, CudaFunction, CudaModule, CudaSlice, CudaStream, DevicePtr, result};

use super::memory::failed;
use super::open;
use super::programs::{architecture, compile};
use crate::cpu::Real;
use crate::device::DeviceError;
use crate::program::device::launcher::{Argument, Launcher, THREADS};
use crate::program::device::source::{PARTS, part_of, source};

/// Free memory by size. All work is on one stream, so it may be handed out again as soon as it is dropped.
type Free = Arc<Mutex<HashMap<usize, Vec<CudaSlice<u8>>>>>;

/// Memory is handed out in multiples of so many bytes.
const GRAIN: usize = 1024;

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The driver of a device, with the kernels of programs; clones share all of it.
#[derive(Clone)]
pub struct Driver {
    stream: Arc<CudaStream>,
    name: String,
    architecture: &'static str,
    source: fn(usize) -> String,
    free: Free,
    modules: Arc<Mutex<[Option<Arc<CudaModule>>; PARTS.len()]>>,
    functions: Arc<Mutex<HashMap<&'static str, CudaFunction>>>,
}

/// Some memory of the device.
#[derive(Default)]
pub struct Memory {
    slice: Option<CudaSlice<u8>>,
    address: u64,
    free: Option<Free>,
}

impl Drop for Memory {
    fn drop(&mut self) {
        if let (Some(slice), Some(free)) = (self.slice.take(), &self.free) {
            lock(free).entry(slice.len()).or_default().push(slice);
        }
    }
}

impl Driver {
    /// Opens device number `ordinal`, for values in `F`.
    pub fn new<F: Real>(ordinal: usize) -> Result<Self, DeviceError> {
        let context = open(ordinal)?;
        // SAFETY: there is only one stream.
        unsafe { context.disable_event_tracking() };
        Ok(Self {
            stream: context.new_stream().map_err(failed)?,
            name: context.name().map_err(failed)?,
            architecture: architecture(context.compute_capability().map_err(failed)?),
            source: source::<F>,
            free: Free::default(),
            modules: Arc::default(),
            functions: Arc::default(),
        })
    }

    fn context(&self) -> &Arc<CudaContext> {
        self.stream.context()
    }

    /// A kernel; its part is compiled if it has not been.
    fn function(&self, kernel: &'static str) -> Result<CudaFunction, DeviceError> {
        let mut functions = lock(&self.functions);
        if let Some(function) = functions.get(kernel) {
            return Ok(function.clone());
        }
        let unknown = || DeviceError::Failed(format!("there is no kernel '{kernel}'"));
        let part = part_of(kernel).ok_or_else(unknown)?;
        let mut modules = lock(&self.modules);
        let module = match &mut modules[part] {
            Some(module) => module.clone(),
            empty => empty.insert(compile(self.context(), self.architecture, &(self.source)(part))?).clone(),
        };
        let function = module.load_function(kernel).map_err(failed)?;
        functions.insert(kernel, function.clone());
        Ok(function)
    }
}

impl Launcher for Driver {
    type Memory = Memory;

    fn name(&self) -> String {
        self.name.clone()
    }

    fn allocate(&self, bytes: usize) -> Result<Memory, DeviceError> {
        let size = bytes.max(1).next_multiple_of(GRAIN);
        let reused = lock(&self.free).get_mut(&size).and_then(Vec::pop);
        let slice = match reused {
            Some(slice) => slice,
            // SAFETY: kernels write their outputs before anything reads them.
            None => unsafe { self.stream.alloc::<u8>(size) }.or_else(|_| {
                // Give back what lies idle, then try once more.
                lock(&self.free).clear();
                let _ = self.stream.synchronize();
                // SAFETY: as above.
                unsafe { self.stream.alloc::<u8>(size) }
                    .map_err(|_| DeviceError::OutOfMemory { device: "CUDA device".into(), wanted: size })
            })?,
        };
        let address = slice.device_ptr(&self.stream).0;
        Ok(Memory { slice: Some(slice), address, free: Some(self.free.clone()) })
    }

    fn address(&self, memory: &Memory) -> u64 {
        memory.address
    }

    fn clear(&self, memory: &Memory, bytes: usize) -> Result<(), DeviceError> {
        self.context().bind_to_thread().map_err(failed)?;
        // SAFETY: the memory is there and at least so long.
        unsafe { result::memset_d8_async(memory.address, 0, bytes, self.stream.cu_stream()) }.map_err(failed)
    }

    fn write(&self, memory: &Memory, bytes: &[u8]) -> Result<(), DeviceError> {
        self.context().bind_to_thread().map_err(failed)?;
        // SAFETY: as above. The bytes are not page-locked, so the driver has copied them when the call returns.
        unsafe { result::memcpy_htod_async(memory.address, bytes, self.stream.cu_stream()) }.map_err(failed)
    }

    fn read(&self, memory: &Memory, bytes: &mut [u8]) -> Result<(), DeviceError> {
        self.context().bind_to_thread().map_err(failed)?;
        // SAFETY: as above, and nobody looks at the bytes before the stream is done.
        unsafe { result::memcpy_dtoh_async(bytes, memory.address, self.stream.cu_stream()) }
            .map_err(failed)?;
        self.stream.synchronize().map_err(failed)
    }

    unsafe fn launch(
        &self,
        kernel: &'static str,
        blocks: [u32; 3],
        arguments: &[Argument],
    ) -> Result<(), DeviceError> {
        let function = self.function(kernel)?;
        self.context().bind_to_thread().map_err(failed)?;
        let mut values: Vec<*mut c_void> =
            arguments.iter().map(|argument| argument.value().cast_mut()).collect();
        let threads = (THREADS as u32, 1, 1);
        let stream = self.stream.cu_stream();
        // SAFETY: the caller says that the arguments are those of the kernel; the driver copies them before it returns.
        unsafe {
            result::launch_kernel(function.cu_function(), blocks.into(), threads, 0, stream, &mut values)
        }
        .map_err(failed)
    }
}
