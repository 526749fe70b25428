//! Kernels, compiled by NVRTC when they are first needed and kept.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use cudarc::driver::sys::CUfunction_attribute;
use cudarc::driver::{CudaContext, CudaFunction, CudaModule};
use cudarc::nvrtc::{CompileError, CompileOptions, compile_ptx_with_opts};
use gains_core::description::RungeKutta;
use gains_ode::Tableau;

use super::memory::failed;
use super::source::{self, LayerShares, StepShares};
use crate::device::DeviceError;
use crate::plan::{LayerPlan, OdePlan, Plan, Stretch};

/// The kernels of a layer; index 0 for points, 1 for boxes.
pub(super) struct LayerKernels {
    pub shares: LayerShares,
    pub forward: [CudaFunction; 2],
    pub gate: [CudaFunction; 2],
    pub back: [CudaFunction; 2],
    pub weights: [CudaFunction; 2],
}

/// The kernels of a solver step.
pub(super) struct StepKernels {
    pub shares: StepShares,
    pub forward: CudaFunction,
    pub backward: CudaFunction,
}

/// Everything compiled so far.
pub(super) struct Programs {
    context: Arc<CudaContext>,
    architecture: &'static str,
    most_shared: usize,
    /// Their gradients come from solver steps, channels last.
    dynamics: HashSet<usize>,
    common: Arc<CudaModule>,
    functions: HashMap<&'static str, CudaFunction>,
    layers: HashMap<usize, Arc<LayerKernels>>,
    steps: HashMap<(usize, RungeKutta, usize), Arc<StepKernels>>,
}

/// A virtual architecture NVRTC knows, not newer than the device.
pub(super) fn architecture((major, minor): (i32, i32)) -> &'static str {
    match (major, minor) {
        (10.., _) => "compute_100",
        (9, _) => "compute_90",
        (8, 9) => "compute_89",
        (8, 6..) => "compute_86",
        (8, _) => "compute_80",
        _ => "compute_75",
    }
}

/// The shared memory a block can have on a device.
pub(super) fn most_shared(context: &Arc<CudaContext>) -> Result<usize, DeviceError> {
    let attribute =
        cudarc::driver::sys::CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN;
    Ok(context.attribute(attribute).map_err(failed)? as usize)
}

/// Why a block cannot have so much shared memory, if it cannot.
fn excess(what: &str, bytes: usize, most: usize) -> Option<String> {
    (bytes > most)
        .then(|| format!("{what} needs {bytes} bytes of shared memory per sample, the device has {most}"))
}

/// Bytes of shared memory that the kernels of a layer take: forward, back, and for the gradient of its weights.
fn layer_bytes(layer: &LayerPlan, lanes: usize, dynamics: bool) -> [usize; 3] {
    [
        source::image_bytes(layer.input, lanes),
        source::image_bytes(layer.output, lanes),
        source::gradient_bytes(layer, lanes, dynamics),
    ]
}

fn unknown_dynamics(ode: &OdePlan) -> Option<String> {
    (ode.dynamics.iter().any(|layer| layer.stride != [1, 1]) || ode.dynamics.len() > 8)
        .then(|| "fused kernels want dynamics of at most eight layers without strides".into())
}

/// What stands in the way of a network whose steps are by these methods, with so many lanes each.
pub(super) fn obstacle(plan: &Plan, steps: &[(RungeKutta, usize)], most: usize) -> Option<String> {
    let of_layer = |layer: &LayerPlan, dynamics: bool| {
        layer_bytes(layer, 2, dynamics).into_iter().find_map(|bytes| excess(&layer.name, bytes, most))
    };
    plan.parts.iter().find_map(|part| match part {
        Stretch::Layer(layer) => of_layer(layer, false),
        Stretch::Pool(_) => None,
        Stretch::Ode(ode) => {
            let of_step = |(method, lanes): &(RungeKutta, usize)| {
                let shares = source::step_shares(ode, Tableau::of(*method).len(), *lanes);
                excess("a solver step", shares.shared, most)
            };
            unknown_dynamics(ode)
                .or_else(|| ode.dynamics.iter().find_map(|layer| of_layer(layer, true)))
                .or_else(|| steps.iter().find_map(of_step))
        }
    })
}

impl Programs {
    /// `dynamics` are the starts of the weights of layers that are part of an ODE.
    pub(super) fn new(context: Arc<CudaContext>, dynamics: HashSet<usize>) -> Result<Self, DeviceError> {
        let architecture = architecture(context.compute_capability().map_err(failed)?);
        let most_shared = most_shared(&context)?;
        let common = compile(&context, architecture, source::common())?;
        Ok(Self {
            context,
            architecture,
            most_shared,
            dynamics,
            common,
            functions: HashMap::new(),
            layers: HashMap::new(),
            steps: HashMap::new(),
        })
    }

    /// Whether a layer is part of an ODE.
    pub(super) fn is_dynamics(&self, layer: &LayerPlan) -> bool {
        self.dynamics.contains(&layer.weights.start)
    }

    /// A kernel that does not depend on the network.
    pub(super) fn function(&mut self, name: &'static str) -> Result<CudaFunction, DeviceError> {
        if let Some(found) = self.functions.get(name) {
            return Ok(found.clone());
        }
        let function = self.common.load_function(name).map_err(failed)?;
        self.functions.insert(name, function.clone());
        Ok(function)
    }

    /// Lets a kernel use so much shared memory.
    fn allow(&self, function: &CudaFunction, bytes: usize, what: &str) -> Result<(), DeviceError> {
        if let Some(problem) = excess(what, bytes, self.most_shared) {
            return Err(DeviceError::Unsupported(problem));
        }
        let attribute = CUfunction_attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
        function.set_attribute(attribute, bytes as i32).map_err(failed)
    }

    /// The kernels of a layer, known by where its weights begin.
    pub(super) fn layer(&mut self, layer: &LayerPlan) -> Result<Arc<LayerKernels>, DeviceError> {
        let dynamics = self.is_dynamics(layer);
        let key = layer.weights.start;
        if let Some(found) = self.layers.get(&key) {
            return Ok(found.clone());
        }
        let shares = LayerShares::new(layer);
        let module = compile(&self.context, self.architecture, &source::layer(layer, shares, dynamics))?;
        let bytes = |kernel: usize| move |lanes: usize| layer_bytes(layer, lanes, dynamics)[kernel];
        let pair = |name: &str, shared: &dyn Fn(usize) -> usize| -> Result<[CudaFunction; 2], DeviceError> {
            let one = |lanes: usize| {
                let function = module.load_function(&format!("{name}{lanes}")).map_err(failed)?;
                self.allow(&function, shared(lanes), &layer.name)?;
                Ok::<_, DeviceError>(function)
            };
            Ok([one(1)?, one(2)?])
        };
        let kernels = Arc::new(LayerKernels {
            shares,
            forward: pair("forward", &bytes(0))?,
            gate: pair("gate", &|_| 0)?,
            back: pair("back", &bytes(1))?,
            weights: pair("weights", &bytes(2))?,
        });
        self.layers.insert(key, kernels.clone());
        Ok(kernels)
    }

    /// The kernels of a solver step with 1, 2 or 4 lanes.
    pub(super) fn step(
        &mut self,
        ode: &OdePlan,
        method: RungeKutta,
        lanes: usize,
    ) -> Result<Arc<StepKernels>, DeviceError> {
        let key = (ode.index, method, lanes);
        if let Some(found) = self.steps.get(&key) {
            return Ok(found.clone());
        }
        if let Some(problem) = unknown_dynamics(ode) {
            return Err(DeviceError::Unsupported(problem));
        }
        let tableau = Tableau::of(method);
        let shares = source::step_shares(ode, tableau.len(), lanes);
        let module = compile(&self.context, self.architecture, &source::step(ode, tableau, lanes, shares))?;
        let load = |name: &str| {
            let function = module.load_function(name).map_err(failed)?;
            self.allow(&function, shares.shared, "a solver step")?;
            Ok::<_, DeviceError>(function)
        };
        let kernels =
            Arc::new(StepKernels { shares, forward: load("forward")?, backward: load("backward")? });
        self.steps.insert(key, kernels.clone());
        Ok(kernels)
    }
}

pub(super) fn compile(
    context: &Arc<CudaContext>,
    architecture: &'static str,
    source: &str,
) -> Result<Arc<CudaModule>, DeviceError> {
    let options = CompileOptions {
        arch: Some(architecture),
        options: vec!["--std=c++17".into(), "--device-as-default-execution-space".into()],
        ..CompileOptions::default()
    };
    let ptx = compile_ptx_with_opts(source, options).map_err(|error| {
        DeviceError::Failed(match error {
            CompileError::CompileError { log, .. } => {
                format!("the kernels do not compile: {}", log.to_string_lossy())
            }
            other => format!("NVRTC: {other:?}"),
        })
    })?;
    context.load_module(ptx).map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::program::device::source::{PARTS, source as program_source};
    use gains_core::Shape;
    use gains_core::description::{ControllerSpec, Description, LayerSpec, SolverSpec, Task};

    fn network(side: usize, channels: usize, width: usize, time: bool) -> Plan {
        let conv = |name: &str, from, to, kernel, stride, padding, time| LayerSpec::Conv2d {
            name: name.into(),
            in_channels: from,
            out_channels: to,
            kernel: [kernel; 2],
            stride: [stride; 2],
            padding: [padding; 2],
            dilation: [1, 1],
            time,
        };
        let solver = SolverSpec {
            method: RungeKutta::Dopri5,
            controller: ControllerSpec::Fixed { steps: 1 },
            end_time: 1.0,
        };
        let dynamics = vec![
            conv("a", width, width, 3, 1, 1, time),
            LayerSpec::Relu {},
            conv("b", width, width, 3, 1, 1, time),
        ];
        let layers = vec![
            conv("c", channels, width, 5, 2, 0, false),
            LayerSpec::Relu {},
            conv("d", width, width, 5, 2, 0, false),
            LayerSpec::Relu {},
            LayerSpec::Ode { dynamics, solver },
            LayerSpec::GlobalAvgPool {},
            LayerSpec::Linear { name: "e".into(), in_features: width, out_features: 10, time: false },
        ];
        let task = Task::Classification { classes: (0..10).map(|c| c.to_string()).collect() };
        let description = Description::new("test", task, Shape::image(side, side, channels), layers);
        Plan::new(&description).unwrap()
    }

    /// NVRTC needs no device, so wherever it is, the generated kernels are at least compiled. With `GAINS_PTX` what came out is
    /// put into that folder, for an assembler to tell registers and shared memory (`scripts/gpu_check.sh compile`).
    #[test]
    fn generated_kernels_compile() {
        // SAFETY: loading the library runs its constructors.
        if !unsafe { cudarc::nvrtc::sys::is_culib_present() } {
            eprintln!("skipped: there is no libnvrtc on this machine");
            return;
        }
        let folder = std::env::var_os("GAINS_PTX").map(std::path::PathBuf::from);
        let compile = |name: &str, source: &str| {
            let options = CompileOptions {
                arch: Some("compute_90"),
                options: vec!["--std=c++17".into(), "--device-as-default-execution-space".into()],
                ..CompileOptions::default()
            };
            match compile_ptx_with_opts(source, options) {
                Ok(ptx) => {
                    if let Some(folder) = &folder {
                        std::fs::write(folder.join(format!("{name}.ptx")), ptx.to_src()).unwrap();
                    }
                }
                Err(CompileError::CompileError { log, .. }) => panic!("{name}: {}", log.to_string_lossy()),
                Err(error) => panic!("{name}: {error:?}"),
            }
        };
        compile("fused-common", source::common());
        for (number, part) in PARTS.iter().enumerate() {
            let name = part.kernels[0];
            compile(&format!("program-{name}"), &program_source::<f32>(number));
            compile(&format!("program-double-{name}"), &program_source::<f64>(number));
        }
        for (which, plan) in [("mnist", network(28, 1, 32, true)), ("odd", network(32, 3, 9, false))] {
            for (number, part) in plan.parts.iter().enumerate() {
                match part {
                    Stretch::Layer(layer) => {
                        let source = source::layer(layer, LayerShares::new(layer), false);
                        compile(&format!("fused-{which}-layer{number}"), &source);
                    }
                    Stretch::Ode(ode) => {
                        for (method, lanes) in [
                            (RungeKutta::Dopri5, 1),
                            (RungeKutta::Dopri5, 2),
                            (RungeKutta::Bosh3, 4),
                            (RungeKutta::Euler, 4),
                        ] {
                            let tableau = Tableau::of(method);
                            let shares = source::step_shares(ode, tableau.len(), lanes);
                            let source = source::step(ode, tableau, lanes, shares);
                            compile(&format!("fused-{which}-{method:?}-{lanes}"), &source);
                        }
                    }
                    Stretch::Pool(_) => {}
                }
            }
        }
    }

    /// The network that the fused kernels have no shared memory for, and those that they do.
    #[test]
    fn what_does_not_fit_is_seen_before_it_is_tried() {
        // The shared memory of an H200, and of a device that has less.
        let (large, small) = (232_448, 50_000);
        let steps = [(RungeKutta::Dopri5, 1), (RungeKutta::Dopri5, 2), (RungeKutta::Dopri5, 4)];
        let config = |encoder: &str, dynamics: &str, padding: usize| {
            let text = format!(
                "[network.encoder]\nchannels = {encoder}\npadding = {padding}\n[network.dynamics]\nchannels = {dynamics}\n\
                 [[phases]]\nepochs = 1"
            );
            let config = crate::Config::from_toml(&text).unwrap();
            let classes: Vec<String> = (0..10).map(|class| class.to_string()).collect();
            Plan::pattern(&config.description(0.1, &classes)).unwrap()
        };
        let usual = config("[32, 32]", "[32, 32]", 0);
        assert_eq!(obstacle(&usual, &steps, large), None);
        assert!(obstacle(&usual, &steps, small).is_some());
        let why = obstacle(&config("[64, 64, 64]", "[64, 64]", 2), &steps, large).unwrap();
        assert!(
            why.contains("needs 250880 bytes of shared memory per sample, the device has 232448"),
            "{why}"
        );
    }
}
