//! An NVIDIA device: fused kernels, compiled for the network at run time.
//!
//! [`Cuda`] knows one family of networks; [`Driver`] has the kernels for any other, operator by operator
//! ([`crate::program::device`]).
//!
//! Nothing here is needed to build the program. The driver and NVRTC are looked for when a device is asked for.
//!
//! A whole Runge-Kutta step is one kernel, one block per sample: all stages and layers of it stay in shared memory and
//! registers. The way back is one more, and the gradients of the weights of all its stages a third. Sums over samples
//! go through per-block slabs that are added up in a fixed order, so a run repeats itself bit for bit.

mod contract;
mod driver;
mod gradient;
mod head;
mod images;
mod join;
mod layer;
mod memory;
mod optimiser;
mod programs;
mod source;
mod step;

use std::sync::Arc;

use cudarc::driver::{CudaContext, CudaFunction, CudaStream, DeviceRepr, LaunchConfig};
use gains_core::Shape;
use gains_core::description::RungeKutta;

pub use driver::Driver;
use head::Recorded;
pub use memory::Buffer;
use memory::{Pool, failed};

use programs::Programs;

use crate::config::{Config, Training};
use crate::device::{Batch, DeviceError, StepForm};
use crate::plan::{LayerPlan, Plan, Stretch};

/// The oldest driver interface the kernels were tried with.
const OLDEST_DRIVER: i32 = 12000;

/// The layouts of a layer's parameters that kernels read, and where its gradients gather.
struct LayerState {
    w: Buffer,
    wt: Buffer,
    shift: Buffer,
    weight_slabs: Buffer,
    position_slabs: Buffer,
    slabs: usize,
    /// Part of an ODE: its gradients come from solver steps.
    dynamics: bool,
}

/// The training device.
pub struct Cuda {
    stream: Arc<CudaStream>,
    name: String,
    pool: Pool,
    programs: Programs,
    /// Streaming multiprocessors.
    processors: usize,
    plan: Plan,
    /// By the start of the layer's weights; the head has none.
    layers: std::collections::HashMap<usize, LayerState>,
    parameters: Buffer,
    gradients: Buffer,
    first: Buffer,
    second: Buffer,
    /// Running averages of the parameters.
    averages: Buffer,
    norm: Buffer,
    normal: Buffer,
    images: Option<Buffer>,
    ledger: Buffer,
    recorded: Vec<Recorded>,
    updated: bool,
    frozen: bool,
}

/// A layer's geometry as kernels take it.
#[repr(C)]
#[derive(Clone, Copy)]
struct Geometry([i32; 14]);
// SAFETY: plain integers, laid out as the kernels' `Shape`.
unsafe impl DeviceRepr for Geometry {}

impl Geometry {
    fn new(layer: &LayerPlan, dynamics: bool) -> Self {
        let LayerPlan { input: i, output: o, kernel: k, stride: s, padding: p, .. } = layer;
        let all = [
            i.channels,
            o.channels,
            i.height,
            i.width,
            o.height,
            o.width,
            k[0],
            k[1],
            s[0],
            s[1],
            p[0],
            p[1],
            usize::from(layer.time),
            usize::from(dynamics),
        ];
        Self(all.map(|v| v as i32))
    }
}

/// An image's geometry as kernels take it.
#[repr(C)]
#[derive(Clone, Copy)]
struct Picture([i32; 2]);
// SAFETY: plain integers, laid out as the kernels' `Picture`.
unsafe impl DeviceRepr for Picture {}

/// Blocks and threads for an elementwise kernel.
fn spread(total: usize) -> LaunchConfig {
    shape(total.div_ceil(256).clamp(1, 4096), 1, 256, 0)
}

fn shape(blocks: usize, across: usize, threads: usize, shared: usize) -> LaunchConfig {
    LaunchConfig {
        grid_dim: (blocks as u32, across as u32, 1),
        block_dim: (threads as u32, 1, 1),
        shared_mem_bytes: shared as u32,
    }
}

/// Launches a kernel: function, configuration, arguments.
macro_rules! launch {
    ($device:expr, $function:expr, $config:expr, $($argument:expr),+ $(,)?) => {{
        let function = &$function;
        let mut builder = $device.stream.launch_builder(function);
        $( let argument = $argument; let argument = &argument; cudarc::driver::PushKernelArg::arg(&mut builder, argument); )+
        // SAFETY: the arguments are those of the kernel, and every pointer is good for what it reads and writes.
        unsafe { builder.launch($config) }.map_err($crate::cuda::memory::failed)?;
    }};
}
use launch;

impl Cuda {
    /// What stands in the way of the fused kernels on device number `ordinal`, for the steps a configuration takes: a sample
    /// that does not fit into shared memory, or dynamics that they do not know.
    pub fn obstacle(plan: &Plan, config: &Config, ordinal: usize) -> Result<Option<String>, DeviceError> {
        let most = programs::most_shared(&open(ordinal)?)?;
        Ok(programs::obstacle(plan, &steps_of(config), most))
    }

    /// Opens device number `ordinal` for a network.
    pub fn new(plan: &Plan, parameters: &[f64], ordinal: usize) -> Result<Self, DeviceError> {
        let context = open(ordinal)?;
        // SAFETY: there is only one stream.
        unsafe { context.disable_event_tracking() };
        let stream = context.new_stream().map_err(failed)?;
        let pool = Pool::new(stream.clone());
        let odes = plan
            .parts
            .iter()
            .filter_map(|part| if let Stretch::Ode(ode) = part { Some(&ode.dynamics) } else { None });
        let dynamics = odes.flatten().map(|layer| layer.weights.start).collect();
        let programs = Programs::new(context.clone(), dynamics)?;
        let count = cudarc::driver::sys::CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT;
        let normal: Vec<f32> = match &plan.normalise {
            Some((mean, std)) => mean.iter().chain(std).map(|v| *v as f32).collect(),
            None => [vec![0.0; plan.input.channels], vec![1.0; plan.input.channels]].concat(),
        };
        let mut device = Self {
            name: context.name().map_err(failed)?,
            processors: context.attribute(count).map_err(failed)? as usize,
            parameters: pool.zeros(plan.parameters)?,
            gradients: pool.zeros(plan.parameters)?,
            first: pool.zeros(plan.parameters)?,
            second: pool.zeros(plan.parameters)?,
            averages: pool.zeros(plan.parameters)?,
            norm: pool.zeros(2)?,
            normal: pool.of(&normal)?,
            images: None,
            ledger: pool.zeros(0)?,
            recorded: Vec::new(),
            updated: false,
            frozen: false,
            layers: std::collections::HashMap::new(),
            plan: plan.clone(),
            stream,
            pool,
            programs,
        };
        for layer in plan.layers().filter(|layer| layer.weights != plan.head.weights) {
            let state = device.layer_state(layer)?;
            device.layers.insert(layer.weights.start, state);
        }
        crate::Device::set_parameters(&mut device, parameters)?;
        // Compiled now, so that a network the kernels cannot take is refused at once.
        for part in &plan.parts {
            match part {
                Stretch::Layer(layer) => drop(device.programs.layer(layer)?),
                Stretch::Ode(ode) => {
                    for layer in &ode.dynamics {
                        device.programs.layer(layer)?;
                    }
                }
                Stretch::Pool(_) => {}
            }
        }
        Ok(device)
    }

    fn layer_state(&mut self, layer: &LayerPlan) -> Result<LayerState, DeviceError> {
        let weights = layer.input.channels * layer.taps() * layer.output.channels;
        let kernels = self.programs.layer(layer)?;
        let slabs = self.processors * kernels.shares.split;
        Ok(LayerState {
            w: self.pool.zeros(weights)?,
            wt: self.pool.zeros(weights)?,
            shift: self.pool.zeros(layer.output.len())?,
            weight_slabs: self.pool.zeros(slabs * weights)?,
            position_slabs: self.pool.zeros(self.processors * 2 * layer.output.len())?,
            slabs,
            dynamics: self.programs.is_dynamics(layer),
        })
    }

    fn state(&self, layer: &LayerPlan) -> Result<&LayerState, DeviceError> {
        self.layers
            .get(&layer.weights.start)
            .ok_or_else(|| DeviceError::Failed(format!("layer '{}' is not part of the network", layer.name)))
    }

    fn function(&mut self, name: &'static str) -> Result<CudaFunction, DeviceError> {
        self.programs.function(name)
    }

    /// After the parameters have changed.
    fn refresh(&mut self) -> Result<(), DeviceError> {
        let function = self.function("spread_parameters")?;
        let layers: Vec<LayerPlan> =
            self.plan.layers().filter(|layer| layer.weights != self.plan.head.weights).cloned().collect();
        for layer in &layers {
            let state = self.state(layer)?;
            let total = state.w.len() + layer.output.len();
            launch!(
                self,
                function,
                shape(total.div_ceil(256), 1, 256, 0),
                self.parameters.after(layer.weights.start),
                state.w.at(),
                state.wt.at(),
                state.shift.at(),
                Geometry::new(layer, state.dynamics),
            );
        }
        Ok(())
    }

    /// Adds up the slabs into [`Self::gradients`], where the head's part already is.
    fn collect(&mut self) -> Result<(), DeviceError> {
        let (sum, collect) = (self.function("sum_slabs")?, self.function("collect_gradient")?);
        let layers: Vec<LayerPlan> =
            self.plan.layers().filter(|layer| layer.weights != self.plan.head.weights).cloned().collect();
        for layer in &layers {
            let state = self.state(layer)?;
            let (weights, positions) = (state.w.len(), 2 * layer.output.len());
            let totals = self.pool.floats(weights + positions)?;
            for (slabs, at, count, size) in [
                (&state.weight_slabs, totals.at(), state.slabs, weights),
                (&state.position_slabs, totals.after(weights), self.processors, positions),
            ] {
                let config = shape(size.div_ceil(128), 1, 128, 0);
                launch!(self, sum, config, slabs.at(), at, count as i32, size as i32);
            }
            let total = layer.weights.len() + layer.output.channels;
            launch!(
                self,
                collect,
                shape(total.div_ceil(128), 1, 128, 0),
                totals.at(),
                totals.after(weights),
                self.gradients.after(layer.weights.start),
                self.gradients.after(layer.biases.start),
                Geometry::new(layer, state.dynamics),
            );
        }
        Ok(())
    }

    /// An uninitialised batch, of boxes or points.
    fn like(&self, boxes: bool, len: usize) -> Result<Batch<Buffer>, DeviceError> {
        let radius = if boxes { Some(self.pool.floats(len)?) } else { None };
        Ok(Batch { centre: self.pool.floats(len)?, radius })
    }

    fn picture(&self) -> Picture {
        Picture([self.plan.input.channels as i32, self.plan.input.positions() as i32])
    }
}

/// The methods of a configuration's steps, each with the lanes of numbers it carries.
fn steps_of(config: &Config) -> Vec<(RungeKutta, usize)> {
    let mut lanes = vec![1];
    if config.method == Training::Provable {
        lanes.extend(config.phases.iter().map(|phase| match phase.step_form {
            StepForm::Independent => 2,
            StepForm::Difference => 4,
        }));
    }
    // First steps are found by one of Euler's method.
    let methods = |lanes: usize| [(RungeKutta::Euler, lanes), (config.solver.method, lanes)];
    lanes.into_iter().flat_map(methods).collect()
}

/// The address of the radii, 0 for points.
fn radius(batch: &Batch<Buffer>) -> u64 {
    batch.radius.as_ref().map_or(0, Buffer::at)
}

/// Numbers for each entry: 1 for points, 2 for boxes.
fn lanes(batch: &Batch<Buffer>) -> usize {
    1 + usize::from(batch.radius.is_some())
}

/// Opens the driver and a device, or says what is missing.
fn open(ordinal: usize) -> Result<Arc<CudaContext>, DeviceError> {
    let missing = |message: String, hint: &str| DeviceError::Missing { message, hint: hint.into() };
    // SAFETY: loading a library runs its constructors; these are NVIDIA's.
    if !unsafe { cudarc::driver::sys::is_culib_present() } {
        return Err(missing(
            "no CUDA driver: the library libcuda is not there".into(),
            "install the NVIDIA driver, or train with --device cpu",
        ));
    }
    let too_old = || {
        missing(
            "the CUDA driver is too old for this program".into(),
            "update the NVIDIA driver, or train with --device cpu",
        )
    };
    let refused = |error: String| {
        missing(
            format!("CUDA device {ordinal} cannot be opened: {error}"),
            "check `nvidia-smi`, or train with --device cpu",
        )
    };
    let version = || cudarc::driver::result::init().and_then(|()| driver_version());
    let version = without_panic(move || version().map_err(|error| error.to_string()))
        .ok_or_else(too_old)?
        .map_err(refused)?;
    if version < OLDEST_DRIVER {
        return Err(missing(
            format!("the CUDA driver is too old: it speaks CUDA {}.{}", version / 1000, version % 1000 / 10),
            "update the NVIDIA driver to one for CUDA 12 or newer, or train with --device cpu",
        ));
    }
    // SAFETY: as above.
    if !unsafe { cudarc::nvrtc::sys::is_culib_present() } {
        return Err(missing(
            "no CUDA run-time compiler: the library libnvrtc is not there".into(),
            "install the CUDA toolkit's NVRTC and put its folder on LD_LIBRARY_PATH, or train with --device cpu",
        ));
    }
    without_panic(move || CudaContext::new(ordinal).map_err(|error| error.to_string()))
        .ok_or_else(too_old)?
        .map_err(refused)
}

/// `None` if the work panics, as the bindings do when the driver lacks a function they want. Nothing is printed then.
fn without_panic<R>(work: impl FnOnce() -> R + std::panic::UnwindSafe) -> Option<R> {
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    let result = std::panic::catch_unwind(work);
    std::panic::set_hook(hook);
    result.ok()
}

fn driver_version() -> Result<i32, cudarc::driver::DriverError> {
    let mut version = 0;
    // SAFETY: the driver is loaded and writes one integer.
    unsafe { cudarc::driver::sys::cuDriverGetVersion(&mut version) }.result()?;
    Ok(version)
}

/// Reorders rows between channels last (the host) and channels first (the device).
fn reorder(shape: Shape, values: impl ExactSizeIterator<Item = f64>, to_device: bool) -> Vec<f64> {
    let (channels, positions) = (shape.channels, shape.positions());
    let mut out = vec![0.0; values.len()];
    for (i, value) in values.enumerate() {
        let (row, e) = (i / shape.len(), i % shape.len());
        let at = if to_device {
            e % channels * positions + e / channels
        } else {
            e % positions * channels + e / positions
        };
        out[row * shape.len() + at] = value;
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reordering_and_back_is_nothing() {
        let shape = Shape::image(2, 3, 4);
        let values: Vec<f64> = (0..48).map(f64::from).collect();
        let there = reorder(shape, values.iter().copied(), true);
        assert_eq!(there[1], 4.0, "the second pixel of the first channel");
        assert_eq!(reorder(shape, there.into_iter(), false), values);
    }
}
