//! Solver steps of whole batches: tiles through [`super::step`] or [`super::difference`].

use std::ops::Range;
use std::sync::Arc;

use gains_core::description::RungeKutta;
use gains_ode::Tableau;
use rayon::prelude::*;

use super::difference::{self, DifferenceMemory};
use super::difference_back;
use super::gradient::LayerGradient;
use super::real::Real;
use super::spare::{Shelf, Spare};
use super::step::{self, PlainMemory, STATISTICS, Step};
use super::tile::{Tiling, load, store};
use super::{Cpu, Tensor};
use crate::device::{Batch, DeviceError, Measure, StepForm, Trial};
use crate::plan::OdePlan;

/// What a step remembers for its gradient, tile by tile.
pub struct StepMemory<F: Real> {
    method: RungeKutta,
    time: f64,
    step: f64,
    samples: usize,
    boxes: bool,
    /// By part.
    tiles: Tiles<F>,
    /// Where it goes when it is dropped.
    spare: Arc<Spare<F>>,
}

impl<F: Real> Drop for StepMemory<F> {
    fn drop(&mut self) {
        match &mut self.tiles {
            Tiles::Plain(parts) => self.spare.plain_memory.give(parts.drain(..).flatten()),
            Tiles::Difference(parts) => self.spare.difference_memory.give(parts.drain(..).flatten()),
        }
    }
}

enum Tiles<F> {
    Plain(Vec<Vec<PlainMemory<F>>>),
    Difference(Vec<Vec<DifferenceMemory<F>>>),
}

/// Sums the statistics of all samples.
pub(super) fn total<F: Real>(errors: &[F]) -> Measure {
    let mut measure = Measure::default();
    for sample in errors.chunks_exact(STATISTICS) {
        let upper = sample[1].wide();
        measure.lower += sample[0].wide();
        measure.upper += upper;
        // A NaN is larger than anything and stays.
        if upper > measure.largest || upper.is_nan() {
            measure.largest = upper;
        }
        measure.state += sample[2].wide();
        measure.slope += sample[3].wide();
    }
    measure
}

/// A step of a whole batch on its way forward.
struct Run<'a, F: Real> {
    cpu: &'a Cpu<F>,
    step: &'a Step<'a, F>,
    tiling: Tiling,
    inputs: Vec<&'a [F]>,
    keep: bool,
}

impl<F: Real> Run<'_, F> {
    /// Applies `forward` to every tile; returns what the tiles remember, part by part.
    fn forward<M: Default + Send, S: Default + Send>(
        &self,
        end: &mut [Vec<F>],
        errors: &mut [F],
        memories: &Shelf<M>,
        scratches: &Shelf<S>,
        forward: impl Fn(&Step<'_, F>, usize, &[Vec<F>], &mut M, &mut S, &mut [Vec<F>], &mut [F]) + Sync,
    ) -> Vec<Vec<M>> {
        let (shape, entries, lanes) = (self.step.state(), self.step.state().len(), self.inputs.len());
        let one_part = |part: Range<usize>, mut out: Vec<&mut [F]>, errors: &mut [F]| {
            let mut scratch = scratches.take();
            let (mut x, mut end) = (vec![Vec::new(); lanes], vec![Vec::new(); lanes]);
            let mut kept: Vec<M> = Vec::new();
            for tile in self.tiling.tiles(part.clone()) {
                let at = tile.start - part.start..tile.end - part.start;
                for (x, input) in x.iter_mut().zip(&self.inputs) {
                    load(shape, &input[tile.start * entries..tile.end * entries], x);
                }
                // What nobody wants to keep is overwritten by the next tile.
                let last = if self.keep { None } else { kept.pop() };
                let mut memory = last.unwrap_or_else(|| memories.take());
                let errors = &mut errors[at.start * STATISTICS..at.end * STATISTICS];
                forward(self.step, tile.len(), &x, &mut memory, &mut scratch, &mut end, errors);
                for (end, out) in end.iter().zip(&mut out) {
                    store(shape, end, &mut out[at.start * entries..at.end * entries]);
                }
                kept.push(memory);
            }
            scratches.give([scratch]);
            kept
        };
        let outs = self.tiling.split_lanes(end, entries);
        let errors = self.tiling.split(errors, STATISTICS);
        let jobs: Vec<_> = self.tiling.parts().zip(outs).zip(errors).collect();
        let run = || jobs.into_par_iter().map(|((part, out), errors)| one_part(part, out, errors)).collect();
        self.cpu.install(run)
    }
}

impl<F: Real> Cpu<F> {
    fn solver_step(
        &self,
        ode: &OdePlan,
        method: RungeKutta,
        time: f64,
        step: f64,
    ) -> Result<Step<'_, F>, DeviceError> {
        let kernels = ode.dynamics.iter().map(|layer| self.kernel(layer)).collect::<Result<Vec<_>, _>>()?;
        Ok(Step { kernels, tableau: Tableau::of(method), time, step })
    }

    fn step_tiling(step: &Step<'_, F>, samples: usize) -> Tiling {
        let widest = step.kernels.iter().map(|kernel| kernel.plan.output.len()).max().unwrap_or(0);
        Tiling::new(samples, widest.max(step.state().len()))
    }

    pub(super) fn take_step(
        &self,
        ode: &OdePlan,
        method: RungeKutta,
        form: StepForm,
        x: &Batch<Tensor<F>>,
        time: f64,
        size: f64,
        keep: bool,
    ) -> Result<Trial<Self>, DeviceError> {
        let step = self.solver_step(ode, method, time, size)?;
        let entries = step.state().len();
        let samples = x.samples(entries)?;
        let tiling = Self::step_tiling(&step, samples);
        let inputs = x.lanes();
        let mut end = vec![vec![F::ZERO; samples * entries]; inputs.len()];
        let mut errors = vec![F::ZERO; samples * STATISTICS];
        let run = Run { cpu: self, step: &step, tiling, inputs, keep };
        let spare = &self.spare;
        let tiles = if form == StepForm::Difference && end.len() == 2 {
            let (memories, scratches) = (&spare.difference_memory, &spare.difference);
            Tiles::Difference(run.forward(&mut end, &mut errors, memories, scratches, difference::forward))
        } else {
            let (memories, scratches) = (&spare.plain_memory, &spare.plain);
            Tiles::Plain(run.forward(&mut end, &mut errors, memories, scratches, step::forward))
        };
        // Dropped at once if nobody wants it, which puts its buffers back.
        let memory = StepMemory {
            method,
            time,
            step: size,
            samples,
            boxes: end.len() == 2,
            tiles,
            spare: spare.clone(),
        };
        let memory = keep.then_some(memory);
        Ok(Trial { end: Batch::of_lanes(end), errors: Tensor(errors), memory })
    }

    pub(super) fn pull_back_step(
        &mut self,
        ode: &OdePlan,
        memory: &StepMemory<F>,
        gradient: &Batch<Tensor<F>>,
        error_weight: f64,
    ) -> Result<Batch<Tensor<F>>, DeviceError> {
        let step = self.solver_step(ode, memory.method, memory.time, memory.step)?;
        let (shape, entries) = (step.state(), step.state().len());
        let samples = gradient.samples(entries)?;
        let tiling = Self::step_tiling(&step, samples);
        let weight = F::of(error_weight);
        let ends = gradient.lanes();
        let boxes = ends.len() == 2;
        if (memory.samples, memory.boxes) != (samples, boxes) {
            return Err(DeviceError::Failed("the gradient of a step does not fit its end".into()));
        }
        let mut start = vec![vec![F::ZERO; samples * entries]; ends.len()];
        let jobs: Vec<_> = tiling.parts().zip(tiling.split_lanes(&mut start, entries)).enumerate().collect();
        let frozen = self.frozen;
        let run = |(number, (part, mut out)): (usize, (Range<usize>, Vec<&mut [F]>))| {
            let mut parameters = self.spare.gradients.take();
            parameters.resize_with(step.kernels.len(), LayerGradient::default);
            for (sums, kernel) in parameters.iter_mut().zip(&step.kernels) {
                sums.reset(kernel, boxes, frozen);
            }
            let (mut plain, mut difference) = (self.spare.plain.take(), self.spare.back.take());
            let mut lanes = vec![Vec::new(); ends.len()];
            for (index, tile) in tiling.tiles(part.clone()).enumerate() {
                let at = (tile.start - part.start) * entries..(tile.end - part.start) * entries;
                for (lane, end) in lanes.iter_mut().zip(&ends) {
                    load(shape, &end[tile.start * entries..tile.end * entries], lane);
                }
                let (samples, lanes, sums) = (tile.len(), &mut lanes[..], &mut parameters[..]);
                match &memory.tiles {
                    Tiles::Plain(tiles) => {
                        let memory = &tiles[number][index];
                        step::backward(&step, samples, memory, &mut plain, lanes, weight, sums);
                    }
                    Tiles::Difference(tiles) => {
                        let (memory, scratch) = (&tiles[number][index], &mut difference);
                        difference_back::backward(&step, samples, memory, scratch, lanes, weight, sums);
                    }
                }
                for (lane, out) in lanes.iter().zip(&mut out) {
                    store(shape, lane, &mut out[at.clone()]);
                }
            }
            self.spare.plain.give([plain]);
            self.spare.back.give([difference]);
            parameters
        };
        let parts: Vec<Vec<_>> = self.install(|| jobs.into_par_iter().map(run).collect());
        let mut gradients = std::mem::take(&mut self.gradients);
        for (layer, plan) in ode.dynamics.iter().enumerate() {
            let sums: Vec<_> = parts.iter().map(|part| &part[layer]).collect();
            LayerGradient::settle(self.kernel(plan)?, &sums, &mut gradients);
        }
        self.gradients = gradients;
        self.spare.gradients.give(parts);
        Ok(Batch::of_lanes(start))
    }
}
