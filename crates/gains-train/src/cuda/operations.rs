//! The operations of [`Device`] as launches.

use cudarc::driver::{DeviceRepr, LaunchConfig};
use gains_core::Shape;
use gains_core::description::Method;
use gains_ode::Tableau;

use super::memory::Buffer;
use super::source::{gradient_bytes, image_bytes};
use super::{Cuda, launch, reorder, shape, spread};
use crate::device::{
    AdamStep, Batch, Device, DeviceError, Join, LabelData, Ledger, Measure, Moments, StepForm, Tally, Trial,
    WidthNorm,
};
use crate::plan::{LayerPlan, OdePlan};

/// Floats of the ledger; it is read back when it would run over.
const LEDGER: usize = 1 << 18;

/// Losses that lie in the ledger's buffer.
pub(super) struct Recorded {
    boxes: bool,
    samples: usize,
}

/// Floats that a sample's image takes in the buffers of a solver step, where every layer's part is aligned for vectors of
/// four: `Sizes` of the kernels.
fn padded(shape: Shape) -> usize {
    shape.len().next_multiple_of(4)
}

/// What a solver step remembers.
pub struct StepMemory {
    method: Method,
    lanes: usize,
    time: f64,
    step: f64,
    inputs: Buffer,
    masks: Buffer,
    /// Telescoped ends of the state (difference form) or signs of the error.
    marks: Buffer,
    end_masks: Buffer,
}

/// What a join remembers.
pub enum JoinMemory {
    /// How many boxes.
    Average(usize),
    /// Where each end came from.
    Hull(usize, Buffer, Buffer),
}

/// Labels and their weights.
pub struct Labels {
    labels: Buffer,
    widths: Buffer,
}

/// Pointers to the layers of a stretch, as kernels take them.
#[repr(C)]
#[derive(Clone, Copy)]
struct Weights([[u64; 8]; 4]);
// SAFETY: plain addresses, laid out as the kernels' `Weights`.
unsafe impl DeviceRepr for Weights {}

/// The rows a gradient is summed over, as kernels take them.
#[repr(C)]
#[derive(Clone, Copy)]
struct Rows {
    count: i32,
    batch: i32,
    time: [f32; 26],
    bias: [f32; 26],
    source: [i32; 26],
}
// SAFETY: plain numbers, laid out as the kernels' `Rows`.
unsafe impl DeviceRepr for Rows {}

impl Rows {
    fn one(batch: usize) -> Self {
        let mut bias = [0.0; 26];
        bias[0] = 1.0;
        Self { count: 1, batch: batch as i32, time: [0.0; 26], bias, source: [0; 26] }
    }

    /// The stages of a step, and in difference form their differences as well.
    fn stages(batch: usize, tableau: &Tableau, last: usize, memory: &StepMemory) -> Self {
        let mut rows = Self { count: 0, ..Self::one(batch) };
        let mut push = |time: f64, bias: f32, source: usize| {
            let at = rows.count as usize;
            (rows.time[at], rows.bias[at], rows.source[at]) = (time as f32, bias, source as i32);
            rows.count += 1;
        };
        for stage in 0..last {
            push(memory.time + tableau.nodes[stage] * memory.step, 1.0, stage);
        }
        if memory.lanes == 4 {
            for stage in 1..last {
                let elapsed = (tableau.nodes[stage] - tableau.nodes[stage - 1]) * memory.step;
                push(elapsed, 0.0, tableau.len() + stage - 1);
            }
        }
        rows
    }
}

fn radius(batch: &Batch<Buffer>) -> u64 {
    batch.radius.as_ref().map_or(0, Buffer::at)
}

fn lanes(batch: &Batch<Buffer>) -> usize {
    1 + usize::from(batch.radius.is_some())
}

impl Cuda {
    fn like(&self, boxes: bool, len: usize) -> Result<Batch<Buffer>, DeviceError> {
        let radius = if boxes { Some(self.pool.floats(len)?) } else { None };
        Ok(Batch { centre: self.pool.floats(len)?, radius })
    }

    fn net(&self, ode: &OdePlan) -> Result<Weights, DeviceError> {
        let mut all = [[0; 8]; 4];
        for (i, layer) in ode.dynamics.iter().enumerate() {
            let state = self.state(layer)?;
            all[0][i] = state.w.at();
            all[1][i] = state.wt.at();
            all[2][i] = self.parameters.after(layer.biases.start);
            all[3][i] = state.shift.at();
        }
        Ok(Weights(all))
    }

    /// Adds the gradients of a layer's weights and biases: inputs and gradients in front of the activation, as addresses
    /// of centres and radii.
    fn add_gradients(
        &mut self,
        layer: &LayerPlan,
        lanes: usize,
        (xc, xr): (u64, u64),
        (dc, dr): (u64, u64),
        rows: Rows,
    ) -> Result<(), DeviceError> {
        let kernels = self.programs.layer(layer)?;
        let positions = self.function("position_gradient")?;
        let state = self.state(layer)?;
        let shares = kernels.shares;
        launch!(
            self,
            kernels.weights[lanes - 1],
            shape(
                self.processors,
                shares.blocks,
                shares.warps * 32,
                gradient_bytes(layer, lanes, state.dynamics)
            ),
            xc,
            xr,
            dc,
            dr,
            state.w.at(),
            state.weight_slabs.at(),
            rows,
        );
        let n = layer.output.len();
        let config = shape(self.processors, n.div_ceil(256), 256, 0);
        launch!(self, positions, config, dc, state.position_slabs.at(), rows, n as i32);
        Ok(())
    }

    /// Reads the ledger's buffer into sums.
    fn settle(&mut self) -> Result<(Tally, Tally), DeviceError> {
        let total: usize = self.recorded.iter().map(|r| 4 * r.samples).sum();
        let values = if total == 0 { Vec::new() } else { self.ledger.read(total)? };
        let mut rest = &values[..];
        let mut tallies = (Tally::default(), Tally::default());
        for record in self.recorded.drain(..) {
            let (rows, after) = rest.split_at(4 * record.samples);
            rest = after;
            let tally = if record.boxes { &mut tallies.1 } else { &mut tallies.0 };
            for row in rows.chunks_exact(4) {
                tally.cross_entropy += f64::from(row[0]);
                tally.width += f64::from(row[1]);
                tally.correct += f64::from(row[2]);
                tally.samples += f64::from(row[3]);
            }
        }
        Ok(tallies)
    }

    fn to_f64(buffer: &Buffer) -> Result<Vec<f64>, DeviceError> {
        Ok(buffer.read(buffer.len())?.into_iter().map(f64::from).collect())
    }
}

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
        debug_assert_eq!(pixels.len(), count * self.plan.input.len());
        let mut images = self.pool.bytes(pixels.len())?;
        images.write_bytes(pixels)?;
        self.images = Some(images);
        Ok(())
    }

    fn gather(&mut self, indices: &[u32]) -> Result<Buffer, DeviceError> {
        let function = self.function("gather_images")?;
        let words: Vec<f32> = indices.iter().map(|i| f32::from_bits(*i)).collect();
        let chosen = self.pool.of(&words)?;
        let total = indices.len() * self.plan.input.len();
        let out = self.pool.floats(total)?;
        let Some(images) = &self.images else {
            return Err(DeviceError::Failed("no images are stored".into()));
        };
        launch!(
            self,
            function,
            spread(total),
            images.at(),
            chosen.at(),
            out.at(),
            self.picture(),
            total as i32
        );
        Ok(out)
    }

    fn labels(&mut self, data: &LabelData) -> Result<Labels, DeviceError> {
        let mut labels = self.pool.bytes(data.labels.len())?;
        labels.write_bytes(&data.labels)?;
        Ok(Labels { labels, widths: self.pool.of(&data.width_weights)? })
    }

    fn points(&mut self, pixels: &Buffer) -> Result<Batch<Buffer>, DeviceError> {
        let function = self.function("normalise")?;
        let out = self.like(false, pixels.len())?;
        let total = pixels.len() as i32;
        let config = spread(pixels.len());
        launch!(
            self,
            function,
            config,
            pixels.at(),
            self.normal.at(),
            out.centre.at(),
            self.picture(),
            total
        );
        Ok(out)
    }

    fn region(&mut self, pixels: &Buffer, reach: f64) -> Result<Batch<Buffer>, DeviceError> {
        let function = self.function("surround")?;
        let out = self.like(true, pixels.len())?;
        launch!(
            self,
            function,
            spread(pixels.len()),
            pixels.at(),
            self.normal.at(),
            reach as f32,
            out.centre.at(),
            radius(&out),
            self.picture(),
            pixels.len() as i32,
        );
        Ok(out)
    }

    fn scatter(&mut self, pixels: &Buffer, reach: f64, seed: u64) -> Result<Buffer, DeviceError> {
        let function = self.function("scatter_noise")?;
        let out = self.pool.floats(pixels.len())?;
        let total = pixels.len() as i32;
        let config = spread(pixels.len());
        launch!(self, function, config, pixels.at(), reach as f32, seed, out.at(), self.picture(), total);
        Ok(out)
    }

    fn ascend(
        &mut self,
        attacked: &mut Buffer,
        gradient: &Buffer,
        pixels: &Buffer,
        rate: f64,
        reach: f64,
    ) -> Result<(), DeviceError> {
        let function = self.function("ascend_sign")?;
        let total = pixels.len() as i32;
        let (rate, reach) = (rate as f32, reach as f32);
        let config = spread(pixels.len());
        launch!(self, function, config, attacked.at(), gradient.at(), pixels.at(), rate, reach, total);
        Ok(())
    }

    fn layer(
        &mut self,
        layer: &LayerPlan,
        x: &Batch<Buffer>,
    ) -> Result<(Batch<Buffer>, Buffer), DeviceError> {
        let kernels = self.programs.layer(layer)?;
        let samples = x.centre.len() / layer.input.len();
        let total = samples * layer.output.len();
        let y = self.like(x.radius.is_some(), total)?;
        let mask = self.pool.bytes(total)?;
        let config = shape(samples, 1, kernels.shares.forward.1, image_bytes(layer.input, lanes(x)));
        launch!(
            self,
            kernels.forward[lanes(x) - 1],
            config,
            x.centre.at(),
            radius(x),
            self.state(layer)?.w.at(),
            self.parameters.after(layer.biases.start),
            y.centre.at(),
            radius(&y),
            mask.at(),
        );
        Ok((y, mask))
    }

    fn layer_back(
        &mut self,
        layer: &LayerPlan,
        x: &Batch<Buffer>,
        mask: &Buffer,
        gradient: &Batch<Buffer>,
        inputs: bool,
    ) -> Result<Option<Batch<Buffer>>, DeviceError> {
        let kernels = self.programs.layer(layer)?;
        let lanes = lanes(x);
        let samples = x.centre.len() / layer.input.len();
        let total = samples * layer.output.len();
        let front = self.like(lanes == 2, total)?;
        launch!(
            self,
            kernels.gate[lanes - 1],
            spread(total),
            gradient.centre.at(),
            radius(gradient),
            mask.at(),
            front.centre.at(),
            radius(&front),
            total as i32,
        );
        if !self.frozen {
            let (xs, ds) = ((x.centre.at(), radius(x)), (front.centre.at(), radius(&front)));
            self.add_gradients(layer, lanes, xs, ds, Rows::one(samples))?;
        }
        if !inputs {
            return Ok(None);
        }
        let back = self.like(lanes == 2, x.centre.len())?;
        launch!(
            self,
            kernels.back[lanes - 1],
            shape(samples, 1, kernels.shares.back.1, image_bytes(layer.output, lanes)),
            front.centre.at(),
            radius(&front),
            self.state(layer)?.wt.at(),
            back.centre.at(),
            radius(&back),
        );
        Ok(Some(back))
    }

    fn pool(&mut self, image: Shape, x: &Batch<Buffer>) -> Result<Batch<Buffer>, DeviceError> {
        let function = self.function("pool_forward")?;
        let total = x.centre.len() / image.positions();
        let y = self.like(x.radius.is_some(), total)?;
        let positions = image.positions() as i32;
        for (from, to) in std::iter::once((&x.centre, &y.centre)).chain(x.radius.iter().zip(&y.radius)) {
            launch!(self, function, spread(total), from.at(), to.at(), positions, total as i32);
        }
        Ok(y)
    }

    fn pool_back(&mut self, image: Shape, g: &Batch<Buffer>) -> Result<Batch<Buffer>, DeviceError> {
        let function = self.function("pool_backward")?;
        let total = g.centre.len() * image.positions();
        let x = self.like(g.radius.is_some(), total)?;
        let positions = image.positions() as i32;
        for (from, to) in std::iter::once((&g.centre, &x.centre)).chain(g.radius.iter().zip(&x.radius)) {
            launch!(self, function, spread(total), from.at(), to.at(), positions, total as i32);
        }
        Ok(x)
    }

    fn step(
        &mut self,
        ode: &OdePlan,
        method: Method,
        form: StepForm,
        x: &Batch<Buffer>,
        time: f64,
        step: f64,
        keep: bool,
    ) -> Result<Trial<Self>, DeviceError> {
        let lanes = match (&x.radius, form) {
            (None, _) => 1,
            (Some(_), StepForm::Independent) => 2,
            (Some(_), StepForm::Difference) => 4,
        };
        let kernels = self.programs.step(ode, method, lanes)?;
        let stages = Tableau::of(method).len();
        let n = ode.state().len();
        let samples = x.centre.len() / n;
        let end = self.like(lanes > 1, x.centre.len())?;
        let errors = self.pool.floats(4 * samples)?;
        let net = self.net(ode)?;
        let memory = if keep {
            let inputs: usize = ode.dynamics.iter().map(|layer| padded(layer.input)).sum();
            let outputs: usize = ode.dynamics.iter().map(|layer| padded(layer.output)).sum();
            let (groups, mask_bytes, marks) = match lanes {
                4 => (2 * (2 * stages - 1), 2, stages * samples * n),
                _ => (lanes * stages, 1, samples * n),
            };
            Some(StepMemory {
                method,
                lanes,
                time,
                step,
                inputs: self.pool.floats(groups * samples * inputs)?,
                masks: self.pool.bytes(mask_bytes * stages * samples * outputs)?,
                marks: self.pool.bytes(marks)?,
                end_masks: self.pool.bytes(if lanes == 4 { samples * n } else { 0 })?,
            })
        } else {
            None
        };
        let address = |pick: fn(&StepMemory) -> &Buffer| memory.as_ref().map_or(0, |m| pick(m).at());
        let (inputs, masks, marks) = (address(|m| &m.inputs), address(|m| &m.masks), address(|m| &m.marks));
        let config = shape(samples, 1, kernels.shares.threads, kernels.shares.shared);
        let (xc, xr, yc, yr) = (x.centre.at(), radius(x), end.centre.at(), radius(&end));
        let (time, step, batch) = (time as f32, step as f32, samples as i32);
        if lanes == 4 {
            let scratch = self.pool.floats(samples * kernels.shares.memory)?;
            let end_masks = address(|m| &m.end_masks);
            launch!(
                self,
                kernels.forward,
                config,
                xc,
                xr,
                time,
                step,
                net,
                yc,
                yr,
                errors.at(),
                inputs,
                masks,
                marks,
                end_masks,
                scratch.at(),
                batch
            );
        } else {
            launch!(
                self,
                kernels.forward,
                config,
                xc,
                xr,
                time,
                step,
                net,
                yc,
                yr,
                errors.at(),
                inputs,
                masks,
                marks,
                batch
            );
        }
        Ok(Trial { end, errors, memory })
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
        let tableau = Tableau::of(memory.method);
        let kernels = self.programs.step(ode, memory.method, memory.lanes)?;
        let samples = x.centre.len() / ode.state().len();
        let last = if error_weight == 0.0 { tableau.solution_stages() } else { tableau.len() };
        let boxes = memory.lanes > 1;
        let groups = if memory.lanes == 4 { 2 * last - 1 } else { last };
        let sides = 1 + usize::from(boxes);
        let outputs: usize = ode.dynamics.iter().map(|layer| padded(layer.output)).sum();
        let grads =
            if self.frozen { None } else { Some(self.pool.floats(sides * groups * samples * outputs)?) };
        let back = self.like(boxes, x.centre.len())?;
        let net = self.net(ode)?;
        let config = shape(samples, 1, kernels.shares.threads, kernels.shares.shared);
        let (gc, gr) = (gradient.centre.at(), radius(gradient));
        let (xc, xr) = (back.centre.at(), radius(&back));
        let (step, weight) = (memory.step as f32, error_weight as f32);
        let (masks, marks, ends) = (memory.masks.at(), memory.marks.at(), memory.end_masks.at());
        let (batch, stop) = (samples as i32, last as i32);
        let out = grads.as_ref().map_or(0, Buffer::at);
        let scratch = self.pool.floats(samples * kernels.shares.memory)?;
        if memory.lanes == 4 {
            launch!(
                self,
                kernels.backward,
                config,
                gc,
                gr,
                step,
                weight,
                net,
                masks,
                marks,
                ends,
                scratch.at(),
                out,
                xc,
                xr,
                batch,
                stop
            );
        } else {
            launch!(
                self,
                kernels.backward,
                config,
                gc,
                gr,
                step,
                weight,
                net,
                masks,
                marks,
                out,
                xc,
                xr,
                batch,
                stop
            );
        }
        if let Some(grads) = grads {
            let rows = Rows::stages(samples, tableau, last, memory);
            let kept = if memory.lanes == 4 { 2 * tableau.len() - 1 } else { tableau.len() };
            let (mut inputs_at, mut grads_at) = (0, 0);
            for layer in &ode.dynamics {
                let (inputs, outputs) = (samples * layer.input.len(), samples * layer.output.len());
                let xs = (
                    memory.inputs.after(inputs_at),
                    memory.inputs.after(inputs_at + (sides - 1) * kept * inputs),
                );
                let ds = (grads.after(grads_at), grads.after(grads_at + (sides - 1) * groups * outputs));
                self.add_gradients(layer, sides, xs, ds, rows)?;
                inputs_at += sides * kept * samples * padded(layer.input);
                grads_at += sides * groups * samples * padded(layer.output);
            }
        }
        Ok(back)
    }

    fn join(&mut self, how: Join, xs: &[&Batch<Buffer>]) -> Result<(Batch<Buffer>, JoinMemory), DeviceError> {
        let total = xs[0].centre.len();
        let out = self.like(true, total)?;
        match how {
            Join::Average => {
                let (scaled, add) = (self.function("scaled")?, self.function("add_to")?);
                let factor = 1.0 / xs.len() as f32;
                for (i, x) in xs.iter().enumerate() {
                    for (from, to) in [(x.centre.at(), out.centre.at()), (radius(x), radius(&out))] {
                        if i == 0 {
                            launch!(self, scaled, spread(total), from, factor, to, total as i32);
                        } else {
                            launch!(self, add, spread(total), to, from, factor, total as i32);
                        }
                    }
                }
                Ok((out, JoinMemory::Average(xs.len())))
            }
            Join::Hull => {
                let (widen, recentre) = (self.function("hull_with")?, self.function("recentre")?);
                let (low, up) = (self.pool.bytes(total)?, self.pool.bytes(total)?);
                let (lower, upper) = (out.centre.at(), radius(&out));
                for (i, x) in xs.iter().enumerate() {
                    let (c, r, i) = (x.centre.at(), radius(x), i as i32);
                    launch!(
                        self,
                        widen,
                        spread(total),
                        c,
                        r,
                        lower,
                        upper,
                        low.at(),
                        up.at(),
                        i,
                        total as i32
                    );
                }
                launch!(self, recentre, spread(total), lower, upper, total as i32);
                Ok((out, JoinMemory::Hull(xs.len(), low, up)))
            }
        }
    }

    fn join_back(
        &mut self,
        memory: &JoinMemory,
        gradient: &Batch<Buffer>,
    ) -> Result<Vec<Batch<Buffer>>, DeviceError> {
        let total = gradient.centre.len();
        let (scaled, hull) = (self.function("scaled")?, self.function("hull_back")?);
        let (gc, gr) = (gradient.centre.at(), radius(gradient));
        let count = match memory {
            JoinMemory::Average(count) | JoinMemory::Hull(count, ..) => *count,
        };
        let mut parts = Vec::with_capacity(count);
        for i in 0..count {
            let part = self.like(true, total)?;
            let (c, r) = (part.centre.at(), radius(&part));
            match memory {
                JoinMemory::Average(_) => {
                    let factor = 1.0 / count as f32;
                    launch!(self, scaled, spread(total), gc, factor, c, total as i32);
                    launch!(self, scaled, spread(total), gr, factor, r, total as i32);
                }
                JoinMemory::Hull(_, low, up) => {
                    launch!(
                        self,
                        hull,
                        spread(total),
                        gc,
                        gr,
                        low.at(),
                        up.at(),
                        c,
                        r,
                        i as i32,
                        total as i32
                    );
                }
            }
            parts.push(part);
        }
        Ok(parts)
    }

    fn accumulate(&mut self, into: &mut Batch<Buffer>, part: &Batch<Buffer>) -> Result<(), DeviceError> {
        let function = self.function("add_to")?;
        let total = into.centre.len();
        let sides = std::iter::once((&into.centre, &part.centre)).chain(into.radius.iter().zip(&part.radius));
        for (to, from) in sides {
            launch!(self, function, spread(total), to.at(), from.at(), 1.0_f32, total as i32);
        }
        Ok(())
    }

    fn loss(
        &mut self,
        head: &LayerPlan,
        x: &Batch<Buffer>,
        labels: &Labels,
        weight: f64,
        width_weight: f64,
        norm: WidthNorm,
    ) -> Result<Batch<Buffer>, DeviceError> {
        let boxes = x.radius.is_some();
        let function = self.function(if boxes { "loss_boxes" } else { "loss_points" })?;
        let (inputs, classes) = (head.input.len(), head.output.channels);
        let samples = x.centre.len() / inputs;
        let used: usize = self.recorded.iter().map(|r| 4 * r.samples).sum();
        if used + 4 * samples > self.ledger.len() {
            if !self.recorded.is_empty() {
                return Err(DeviceError::Failed("the ledger is full: take it more often".into()));
            }
            self.ledger = self.pool.floats(LEDGER.max(4 * samples))?;
        }
        let back = self.like(boxes, x.centre.len())?;
        let grads = self.like(true, samples * classes)?;
        let weights = self.parameters.after(head.weights.start);
        let (gc, gr) = (grads.centre.at(), radius(&grads));
        const WARPS: usize = 4;
        launch!(
            self,
            function,
            shape(samples.div_ceil(WARPS), 1, 32 * WARPS, 4 * WARPS * 2 * classes),
            x.centre.at(),
            radius(x),
            weights,
            self.parameters.after(head.biases.start),
            labels.labels.at(),
            labels.widths.at(),
            weight as f32,
            width_weight as f32,
            i32::from(norm == WidthNorm::Squared),
            gc,
            gr,
            back.centre.at(),
            radius(&back),
            self.ledger.after(used),
            inputs as i32,
            classes as i32,
            samples as i32,
        );
        if self.frozen {
            return Ok(back);
        }
        self.recorded.push(Recorded { boxes, samples });
        let function = self.function("head_gradient")?;
        const SLICES: u32 = 16;
        let config = LaunchConfig {
            grid_dim: (classes as u32, 1, 1),
            block_dim: (64, SLICES, 1),
            shared_mem_bytes: 4 * 64 * SLICES,
        };
        launch!(
            self,
            function,
            config,
            x.centre.at(),
            radius(x),
            weights,
            labels.labels.at(),
            gc,
            gr,
            self.gradients.after(head.weights.start),
            self.gradients.after(head.biases.start),
            i32::from(boxes),
            inputs as i32,
            classes as i32,
            samples as i32,
        );
        Ok(back)
    }

    fn take_ledger(&mut self) -> Result<Ledger, DeviceError> {
        let (clean, robust) = self.settle()?;
        let gradient_norm = if self.updated {
            let words = self.norm.read(2)?;
            f64::from_bits(u64::from(words[0].to_bits()) | u64::from(words[1].to_bits()) << 32)
        } else {
            0.0
        };
        self.updated = false;
        Ok(Ledger { clean, robust, gradient_norm })
    }

    fn clear_gradients(&mut self) -> Result<(), DeviceError> {
        self.gradients.clear()?;
        for state in self.layers.values_mut() {
            state.weight_slabs.clear()?;
            state.position_slabs.clear()?;
        }
        Ok(())
    }

    fn update(&mut self, adam: &AdamStep) -> Result<(), DeviceError> {
        self.collect()?;
        let (norm, step) = (self.function("gradient_norm")?, self.function("adam")?);
        let n = self.plan.parameters;
        launch!(self, norm, shape(1, 1, 1024, 0), self.gradients.at(), n as i32, self.norm.at());
        let count = adam.count as i32;
        launch!(
            self,
            step,
            shape(n.div_ceil(256), 1, 256, 0),
            self.parameters.at(),
            self.gradients.at(),
            self.first.at(),
            self.second.at(),
            self.norm.at(),
            adam.rate as f32,
            adam.decay as f32,
            adam.beta1 as f32,
            adam.beta2 as f32,
            adam.epsilon as f32,
            adam.clip as f32,
            (1.0 - adam.beta1.powi(count)) as f32,
            (1.0 - adam.beta2.powi(count)).sqrt() as f32,
            n as i32,
        );
        self.updated = true;
        self.refresh()
    }

    fn parameters(&mut self) -> Result<Vec<f64>, DeviceError> {
        Self::to_f64(&self.parameters)
    }

    fn set_parameters(&mut self, parameters: &[f64]) -> Result<(), DeviceError> {
        let values: Vec<f32> = parameters.iter().map(|v| *v as f32).collect();
        self.parameters.write(&values)?;
        self.refresh()
    }

    fn gradients(&mut self) -> Result<Vec<f64>, DeviceError> {
        self.collect()?;
        Self::to_f64(&self.gradients)
    }

    fn moments(&mut self) -> Result<Moments, DeviceError> {
        Ok(Moments { first: Self::to_f64(&self.first)?, second: Self::to_f64(&self.second)? })
    }

    fn set_moments(&mut self, moments: &Moments) -> Result<(), DeviceError> {
        let single = |values: &[f64]| values.iter().map(|v| *v as f32).collect::<Vec<f32>>();
        self.first.write(&single(&moments.first))?;
        self.second.write(&single(&moments.second))
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
