//! The CPU: every operation runs over tiles of a few samples that stay in the cache, tiles are shared out among
//! threads in parts, and sums over parts are formed in order, so that neither the number of threads nor their timing
//! shows in any result.

mod difference;
mod difference_back;
mod entries;
mod gradient;
mod head;
mod images;
mod join;
mod kernel;
mod layer;
mod meet;
pub(crate) mod real;
mod solver;
mod spare;
mod step;
mod tile;

use std::sync::Arc;

use gains_core::Shape;
use gains_core::description::RungeKutta;

use self::kernel::Kernel;
pub use self::real::Real;
pub use self::{join::JoinMemory, layer::LayerMemory, solver::StepMemory};
use crate::device::{
    AdamStep, Batch, Device, DeviceError, Join, LabelData, Ledger, Measure, Moments, Pull, StepForm, Trial,
    WidthNorm,
};
use crate::optimiser;
use crate::plan::{LayerPlan, OdePlan, Plan};

/// Numbers, one row per sample, channels last.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Tensor<F>(pub(crate) Vec<F>);

/// A CPU that computes in `F`: float32 to train, float64 to check gradients.
pub struct Cpu<F: Real> {
    input: Shape,
    /// Mean and deviation by channel.
    normalise: Vec<(F, F)>,
    kernels: Vec<Kernel<F>>,
    parameters: Vec<F>,
    gradients: Vec<F>,
    first: Vec<F>,
    second: Vec<F>,
    /// Running averages of the parameters.
    averages: Vec<F>,
    images: Vec<u8>,
    ledger: Ledger,
    frozen: bool,
    spare: Arc<spare::Spare<F>>,
    /// A pool of our own; without one, rayon's global pool.
    pool: Option<rayon::ThreadPool>,
}

fn mismatch(what: &str, expected: usize, found: usize) -> DeviceError {
    DeviceError::Failed(format!("{what}: {found} numbers where {expected} were expected"))
}

impl<F: Real> Cpu<F> {
    /// A CPU with the parameters of a network on it. `threads` of its own, or rayon's.
    pub fn new(plan: &Plan, parameters: &[f64], threads: Option<usize>) -> Result<Self, DeviceError> {
        let pool = threads
            .map(|threads| rayon::ThreadPoolBuilder::new().num_threads(threads).build())
            .transpose()
            .map_err(|error| DeviceError::Failed(format!("cannot start threads: {error}")))?;
        let channels = plan.input.channels;
        let normalise = match &plan.normalise {
            Some((mean, deviation)) => {
                mean.iter().zip(deviation).map(|(m, d)| (F::of(*m), F::of(*d))).collect()
            }
            None => vec![(F::ZERO, F::ONE); channels],
        };
        if normalise.len() != channels {
            return Err(mismatch("means and deviations", channels, normalise.len()));
        }
        let zeros = vec![F::ZERO; plan.parameters];
        let mut cpu = Self {
            input: plan.input,
            normalise,
            kernels: plan.layers().map(Kernel::new).collect(),
            parameters: zeros.clone(),
            frozen: false,
            gradients: zeros.clone(),
            first: zeros.clone(),
            averages: zeros.clone(),
            second: zeros,
            images: Vec::new(),
            ledger: Ledger::default(),
            spare: Arc::default(),
            pool,
        };
        cpu.set_parameters(parameters)?;
        Ok(cpu)
    }

    /// The kernel of a layer of the plan.
    fn kernel(&self, layer: &LayerPlan) -> Result<&Kernel<F>, DeviceError> {
        let found = self.kernels.iter().find(|kernel| kernel.plan.weights == layer.weights);
        found.ok_or_else(|| {
            DeviceError::Unsupported(format!("layer '{}' is not part of the plan", layer.name))
        })
    }

    /// Runs something on this device's threads.
    fn install<R: Send>(&self, work: impl FnOnce() -> R + Send) -> R {
        match &self.pool {
            Some(pool) => pool.install(work),
            None => work(),
        }
    }

    fn refresh(&mut self) {
        for kernel in &mut self.kernels {
            kernel.refresh(&self.parameters);
        }
    }
}

impl<F: Real> Batch<Tensor<F>> {
    /// Centres and, for boxes, radii.
    fn lanes(&self) -> Vec<&[F]> {
        std::iter::once(&self.centre).chain(&self.radius).map(|tensor| &tensor.0[..]).collect()
    }

    /// Number of samples, if every lane has a whole and equal number of them.
    fn samples(&self, entries: usize) -> Result<usize, DeviceError> {
        let length = self.centre.0.len();
        let radius = self.radius.as_ref().map_or(length, |radius| radius.0.len());
        if entries == 0 || !length.is_multiple_of(entries) || radius != length {
            return Err(DeviceError::Failed(format!(
                "a batch of {length} centres and {radius} radii is not made of samples of {entries}"
            )));
        }
        Ok(length / entries)
    }

    fn of_lanes(lanes: Vec<Vec<F>>) -> Self {
        let mut lanes = lanes.into_iter().map(Tensor);
        Self { centre: lanes.next().unwrap_or_default(), radius: lanes.next() }
    }
}

impl<F: Real> Device for Cpu<F> {
    type Tensor = Tensor<F>;
    type LayerMemory = LayerMemory;
    type StepMemory = StepMemory<F>;
    type JoinMemory = JoinMemory;
    type Labels = LabelData;

    fn name(&self) -> String {
        let threads = self
            .pool
            .as_ref()
            .map_or_else(rayon::current_num_threads, rayon::ThreadPool::current_num_threads);
        format!("CPU ({threads} threads, {})", F::NAME)
    }

    fn freeze(&mut self, frozen: bool) {
        self.frozen = frozen;
    }

    fn store(&mut self, pixels: &[u8], count: usize) -> Result<(), DeviceError> {
        let expected = count * self.input.len();
        if pixels.len() != expected {
            return Err(mismatch("images", expected, pixels.len()));
        }
        self.images = pixels.to_vec();
        Ok(())
    }

    fn gather(&mut self, indices: &[u32]) -> Result<Self::Tensor, DeviceError> {
        images::gather(&self.images, self.input.len(), indices)
    }

    fn labels(&mut self, labels: &LabelData) -> Result<Self::Labels, DeviceError> {
        if labels.labels.len() != labels.width_weights.len() {
            return Err(mismatch("weights of widths", labels.labels.len(), labels.width_weights.len()));
        }
        Ok(LabelData { labels: labels.labels.clone(), width_weights: labels.width_weights.clone() })
    }

    fn points(&mut self, pixels: &Self::Tensor) -> Result<Batch<Self::Tensor>, DeviceError> {
        Ok(images::points(&self.normalise, pixels))
    }

    fn region(&mut self, pixels: &Self::Tensor, radius: f64) -> Result<Batch<Self::Tensor>, DeviceError> {
        Ok(images::region(&self.normalise, pixels, F::of(radius)))
    }

    fn scatter(&mut self, pixels: &Self::Tensor, reach: f64, seed: u64) -> Result<Self::Tensor, DeviceError> {
        Ok(images::scatter(pixels, F::of(reach), seed))
    }

    fn ascend(
        &mut self,
        attacked: &mut Self::Tensor,
        gradient: &Self::Tensor,
        pixels: &Self::Tensor,
        rate: f64,
        reach: f64,
    ) -> Result<(), DeviceError> {
        images::ascend(attacked, gradient, pixels, F::of(rate), F::of(reach))
    }

    fn layer(
        &mut self,
        layer: &LayerPlan,
        x: &Batch<Self::Tensor>,
    ) -> Result<(Batch<Self::Tensor>, Self::LayerMemory), DeviceError> {
        self.apply_layer(layer, x)
    }

    fn layer_back(
        &mut self,
        layer: &LayerPlan,
        x: &Batch<Self::Tensor>,
        memory: &Self::LayerMemory,
        gradient: &Batch<Self::Tensor>,
        inputs: bool,
    ) -> Result<Option<Batch<Self::Tensor>>, DeviceError> {
        self.pull_back_layer(layer, x, memory, gradient, inputs)
    }

    fn pool(&mut self, shape: Shape, x: &Batch<Self::Tensor>) -> Result<Batch<Self::Tensor>, DeviceError> {
        layer::pool(shape, x)
    }

    fn pool_back(
        &mut self,
        shape: Shape,
        gradient: &Batch<Self::Tensor>,
    ) -> Result<Batch<Self::Tensor>, DeviceError> {
        layer::pool_back(shape, gradient)
    }

    fn step(
        &mut self,
        ode: &OdePlan,
        method: RungeKutta,
        form: StepForm,
        x: &Batch<Self::Tensor>,
        time: f64,
        step: f64,
        keep: bool,
    ) -> Result<Trial<Self>, DeviceError> {
        self.take_step(ode, method, form, x, time, step, keep)
    }

    fn measure(&mut self, errors: &Self::Tensor) -> Result<Measure, DeviceError> {
        Ok(solver::total(&errors.0))
    }

    fn step_back(
        &mut self,
        ode: &OdePlan,
        _x: &Batch<Self::Tensor>,
        memory: &Self::StepMemory,
        gradient: &Batch<Self::Tensor>,
        error_weight: f64,
    ) -> Result<Batch<Self::Tensor>, DeviceError> {
        self.pull_back_step(ode, memory, gradient, error_weight)
    }

    fn join(
        &mut self,
        how: Join,
        xs: &[&Batch<Self::Tensor>],
    ) -> Result<(Batch<Self::Tensor>, Self::JoinMemory), DeviceError> {
        join::join(how, xs)
    }

    fn join_back(
        &mut self,
        memory: &Self::JoinMemory,
        gradient: &Batch<Self::Tensor>,
    ) -> Result<Vec<Batch<Self::Tensor>>, DeviceError> {
        Ok(join::join_back(memory, gradient))
    }

    fn accumulate(
        &mut self,
        into: &mut Batch<Self::Tensor>,
        part: &Batch<Self::Tensor>,
    ) -> Result<(), DeviceError> {
        part.samples(into.centre.0.len().max(1))?;
        entries::add(&mut into.centre.0, &part.centre.0);
        match (&mut into.radius, &part.radius) {
            (Some(into), Some(part)) => entries::add(&mut into.0, &part.0),
            (None, None) => {}
            _ => return Err(DeviceError::Failed("points and boxes cannot be added".into())),
        }
        Ok(())
    }

    fn loss(
        &mut self,
        head: &LayerPlan,
        x: &Batch<Self::Tensor>,
        labels: &Self::Labels,
        pull: Pull<'_>,
        width_weight: f64,
        norm: WidthNorm,
    ) -> Result<Batch<Self::Tensor>, DeviceError> {
        self.head_loss(head, x, labels, pull, width_weight, norm)
    }

    fn margins(
        &mut self,
        head: &LayerPlan,
        x: &Batch<Self::Tensor>,
        labels: &Self::Labels,
    ) -> Result<Vec<f64>, DeviceError> {
        self.head_margins(head, x, labels)
    }

    fn take_ledger(&mut self) -> Result<Ledger, DeviceError> {
        Ok(std::mem::take(&mut self.ledger))
    }

    fn clear_gradients(&mut self) -> Result<(), DeviceError> {
        self.gradients.fill(F::ZERO);
        Ok(())
    }

    fn update(&mut self, step: &AdamStep) -> Result<(), DeviceError> {
        let moments = (&mut self.first[..], &mut self.second[..]);
        let (parameters, gradients) = (&mut self.parameters, &self.gradients);
        self.ledger.gradient_norm =
            optimiser::update(optimiser::UpdateRule::Adam, step, None, parameters, gradients, moments);
        self.refresh();
        Ok(())
    }

    fn track(&mut self, decay: f64) -> Result<(), DeviceError> {
        let (keep, take) = (F::of(decay), F::of(1.0 - decay));
        for (average, parameter) in self.averages.iter_mut().zip(&self.parameters) {
            *average = keep * *average + take * *parameter;
        }
        Ok(())
    }

    fn averages(&mut self) -> Result<Vec<f64>, DeviceError> {
        Ok(widen(&self.averages))
    }

    fn set_averages(&mut self, averages: &[f64]) -> Result<(), DeviceError> {
        narrow("averages", averages, &mut self.averages)
    }

    fn parameters(&mut self) -> Result<Vec<f64>, DeviceError> {
        Ok(widen(&self.parameters))
    }

    fn set_parameters(&mut self, parameters: &[f64]) -> Result<(), DeviceError> {
        narrow("parameters", parameters, &mut self.parameters)?;
        self.refresh();
        Ok(())
    }

    fn gradients(&mut self) -> Result<Vec<f64>, DeviceError> {
        Ok(widen(&self.gradients))
    }

    fn moments(&mut self) -> Result<Moments, DeviceError> {
        Ok(Moments { first: widen(&self.first), second: widen(&self.second) })
    }

    fn set_moments(&mut self, moments: &Moments) -> Result<(), DeviceError> {
        narrow("first moments", &moments.first, &mut self.first)?;
        narrow("second moments", &moments.second, &mut self.second)
    }

    fn download(&mut self, _shape: Shape, tensor: &Self::Tensor) -> Result<Vec<f64>, DeviceError> {
        Ok(widen(&tensor.0))
    }

    fn upload(&mut self, shape: Shape, values: &[f64]) -> Result<Self::Tensor, DeviceError> {
        if !shape.is_empty() && !values.len().is_multiple_of(shape.len()) {
            return Err(mismatch("a tensor", values.len().next_multiple_of(shape.len()), values.len()));
        }
        Ok(Tensor(values.iter().map(|v| F::of(*v)).collect()))
    }
}

fn widen<F: Real>(values: &[F]) -> Vec<f64> {
    values.iter().map(|v| v.wide()).collect()
}

fn narrow<F: Real>(what: &str, values: &[f64], into: &mut [F]) -> Result<(), DeviceError> {
    if values.len() != into.len() {
        return Err(mismatch(what, into.len(), values.len()));
    }
    for (i, v) in into.iter_mut().zip(values) {
        *i = F::of(*v);
    }
    Ok(())
}
