//! [`Device`], each operation in the file of its idea.

use gains_core::Shape;
use gains_core::description::RungeKutta;

use super::images::Labels;
use super::join::JoinMemory;
use super::memory::Buffer;
use super::step::StepMemory;
use super::{Cuda, reorder};
use crate::device::{
    AdamStep, Batch, Device, DeviceError, Join, LabelData, Ledger, Measure, Moments, Pull, StepForm, Trial,
    WidthNorm,
};
use crate::plan::{LayerPlan, OdePlan};

impl Device for Cuda {
    type Tensor = Buffer;
    type LayerMemory = Buffer;
    type StepMemory = StepMemory;
    type JoinMemory = JoinMemory;
    type Labels = Labels;

    fn name(&self) -> String {
        self.name.clone()
    }

    fn freeze(&mut self, frozen: bool) {
        self.frozen = frozen;
    }

    fn store(&mut self, pixels: &[u8], count: usize) -> Result<(), DeviceError> {
        self.put_images(pixels, count)
    }

    fn gather(&mut self, indices: &[u32]) -> Result<Buffer, DeviceError> {
        self.gather_images(indices)
    }

    fn labels(&mut self, data: &LabelData) -> Result<Labels, DeviceError> {
        self.put_labels(data)
    }

    fn points(&mut self, pixels: &Buffer) -> Result<Batch<Buffer>, DeviceError> {
        self.normalise(pixels)
    }

    fn region(&mut self, pixels: &Buffer, reach: f64) -> Result<Batch<Buffer>, DeviceError> {
        self.surround(pixels, reach)
    }

    fn scatter(&mut self, pixels: &Buffer, reach: f64, seed: u64) -> Result<Buffer, DeviceError> {
        self.add_noise(pixels, reach, seed)
    }

    fn ascend(
        &mut self,
        attacked: &mut Buffer,
        gradient: &Buffer,
        pixels: &Buffer,
        rate: f64,
        reach: f64,
    ) -> Result<(), DeviceError> {
        self.climb(attacked, gradient, pixels, rate, reach)
    }

    fn layer(
        &mut self,
        layer: &LayerPlan,
        x: &Batch<Buffer>,
    ) -> Result<(Batch<Buffer>, Buffer), DeviceError> {
        self.apply_layer(layer, x)
    }

    fn layer_back(
        &mut self,
        layer: &LayerPlan,
        x: &Batch<Buffer>,
        mask: &Buffer,
        gradient: &Batch<Buffer>,
        inputs: bool,
    ) -> Result<Option<Batch<Buffer>>, DeviceError> {
        self.pull_back_layer(layer, x, mask, gradient, inputs)
    }

    fn pool(&mut self, image: Shape, x: &Batch<Buffer>) -> Result<Batch<Buffer>, DeviceError> {
        self.mean(image, x)
    }

    fn pool_back(&mut self, image: Shape, g: &Batch<Buffer>) -> Result<Batch<Buffer>, DeviceError> {
        self.pull_back_mean(image, g)
    }

    fn step(
        &mut self,
        ode: &OdePlan,
        method: RungeKutta,
        form: StepForm,
        x: &Batch<Buffer>,
        time: f64,
        step: f64,
        keep: bool,
    ) -> Result<Trial<Self>, DeviceError> {
        self.take_step(ode, method, form, x, time, step, keep)
    }

    fn measure(&mut self, errors: &Buffer) -> Result<Measure, DeviceError> {
        let mut sum = Measure::default();
        for row in errors.read(errors.len())?.chunks_exact(4) {
            sum.lower += f64::from(row[0]);
            sum.upper += f64::from(row[1]);
            sum.state += f64::from(row[2]);
            sum.slope += f64::from(row[3]);
            if sum.largest.is_nan() || f64::from(row[1]) <= sum.largest {
                continue;
            }
            sum.largest = f64::from(row[1]);
        }
        Ok(sum)
    }

    fn step_back(
        &mut self,
        ode: &OdePlan,
        x: &Batch<Buffer>,
        memory: &StepMemory,
        gradient: &Batch<Buffer>,
        error_weight: f64,
    ) -> Result<Batch<Buffer>, DeviceError> {
        self.pull_back_step(ode, x, memory, gradient, error_weight)
    }

    fn join(&mut self, how: Join, xs: &[&Batch<Buffer>]) -> Result<(Batch<Buffer>, JoinMemory), DeviceError> {
        self.join_boxes(how, xs)
    }

    fn join_back(
        &mut self,
        memory: &JoinMemory,
        gradient: &Batch<Buffer>,
    ) -> Result<Vec<Batch<Buffer>>, DeviceError> {
        self.pull_back_join(memory, gradient)
    }

    fn accumulate(&mut self, into: &mut Batch<Buffer>, part: &Batch<Buffer>) -> Result<(), DeviceError> {
        self.add_batch(into, part)
    }

    fn loss(
        &mut self,
        head: &LayerPlan,
        x: &Batch<Buffer>,
        labels: &Labels,
        pull: Pull<'_>,
        width_weight: f64,
        norm: WidthNorm,
    ) -> Result<Batch<Buffer>, DeviceError> {
        self.head_loss(head, x, labels, pull, width_weight, norm)
    }

    fn margins(
        &mut self,
        head: &LayerPlan,
        x: &Batch<Buffer>,
        labels: &Labels,
    ) -> Result<Vec<f64>, DeviceError> {
        self.head_margins(head, x, labels)
    }

    fn take_ledger(&mut self) -> Result<Ledger, DeviceError> {
        self.read_ledger()
    }

    fn clear_gradients(&mut self) -> Result<(), DeviceError> {
        self.forget_gradients()
    }

    fn update(&mut self, adam: &AdamStep) -> Result<(), DeviceError> {
        self.adam(adam)
    }

    fn track(&mut self, decay: f64) -> Result<(), DeviceError> {
        self.move_averages(decay)
    }

    fn averages(&mut self) -> Result<Vec<f64>, DeviceError> {
        Self::to_f64(&self.averages)
    }

    fn set_averages(&mut self, averages: &[f64]) -> Result<(), DeviceError> {
        self.write_averages(averages)
    }

    fn parameters(&mut self) -> Result<Vec<f64>, DeviceError> {
        self.read_parameters()
    }

    fn set_parameters(&mut self, parameters: &[f64]) -> Result<(), DeviceError> {
        self.write_parameters(parameters)
    }

    fn gradients(&mut self) -> Result<Vec<f64>, DeviceError> {
        self.read_gradients()
    }

    fn moments(&mut self) -> Result<Moments, DeviceError> {
        self.read_moments()
    }

    fn set_moments(&mut self, moments: &Moments) -> Result<(), DeviceError> {
        self.write_moments(moments)
    }

    fn download(&mut self, shape: Shape, tensor: &Buffer) -> Result<Vec<f64>, DeviceError> {
        let values = tensor.read(tensor.len())?;
        Ok(reorder(shape, values.into_iter().map(f64::from).collect::<Vec<_>>().into_iter(), false))
    }

    fn upload(&mut self, shape: Shape, values: &[f64]) -> Result<Buffer, DeviceError> {
        let ordered = reorder(shape, values.iter().copied(), true);
        self.pool.of(&ordered.iter().map(|v| *v as f32).collect::<Vec<_>>())
    }
}
