//! One Runge-Kutta step of a tile of points, or of boxes whose stages know nothing of each other, and its gradient.
//!
//! `sᵢ = x + h Σ aᵢⱼ kⱼ`, `kᵢ = g(t + cᵢ h, sᵢ)`, `y = x + h Σ bᵢ kᵢ`, `e = h Σ eᵢ kᵢ`; radii go with the magnitudes
//! of the coefficients.

use gains_core::Shape;
use gains_ode::Tableau;

use super::entries::{add, combine, relu, relu_back};
use super::gradient::LayerGradient;
use super::kernel::{CENTRE, Kernel, RADIUS};
use super::real::{Real, flag};
use super::tile::{each_run, resize};

/// Numbers per sample in the tensor of error estimates.
pub(crate) const STATISTICS: usize = 4;

/// The error estimate's centre is positive; its gradient's sign.
pub(crate) const POSITIVE: u8 = 1;
/// The error estimate's centre is negative.
pub(crate) const NEGATIVE: u8 = 2;

/// A step to be taken.
pub(crate) struct Step<'a, F> {
    pub kernels: Vec<&'a Kernel<F>>,
    pub tableau: &'static Tableau,
    pub time: f64,
    pub step: f64,
}

impl<F: Real> Step<'_, F> {
    /// Stages that anything depends on.
    pub fn stages(&self) -> usize {
        if self.tableau.estimates_error() { self.tableau.len() } else { self.tableau.solution_stages() }
    }

    pub fn state(&self) -> Shape {
        self.kernels[0].plan.input
    }

    /// When a stage is evaluated.
    pub fn moment(&self, stage: usize) -> F {
        F::of(self.time + self.tableau.nodes[stage] * self.step)
    }

    /// `h·weight`, for those weights that are not 0.
    fn scaled(&self, weights: &[f64]) -> Vec<(usize, F)> {
        let weights = weights.iter().enumerate().filter(|(_, w)| **w != 0.0);
        weights.map(|(j, w)| (j, F::of(self.step * w))).collect()
    }
}

/// What an evaluation of one layer leaves for its gradient.
#[derive(Clone, Debug, Default)]
struct Evaluation<F> {
    /// By lane.
    input: Vec<Vec<F>>,
    masks: Vec<u8>,
}

/// What a step leaves for its gradient: evaluations `[stage][layer]` and the signs of the error estimate.
#[derive(Clone, Debug, Default)]
pub(crate) struct PlainMemory<F> {
    evaluations: Vec<Evaluation<F>>,
    signs: Vec<u8>,
}

/// Room to work in, reused from tile to tile.
#[derive(Debug, Default)]
pub(crate) struct PlainScratch<F> {
    columns: Vec<F>,
    /// `[stage][lane]`: slopes, and on the way back their gradients.
    slopes: Vec<Vec<Vec<F>>>,
    error: Vec<Vec<F>>,
    gradient: Vec<Vec<F>>,
    below: Vec<Vec<F>>,
}

fn lane_weight<F: Real>(lane: usize, weight: F) -> F {
    if lane == RADIUS { weight.abs() } else { weight }
}

fn reserve<F: Real>(lanes: &mut Vec<Vec<F>>, count: usize, length: usize) {
    lanes.resize_with(count, Vec::new);
    for lane in lanes {
        resize(lane, length);
    }
}

/// Takes the step from `x` (lanes of a tile) to `end` and writes four statistics for each sample.
pub(crate) fn forward<F: Real>(
    step: &Step<'_, F>,
    samples: usize,
    x: &[Vec<F>],
    memory: &mut PlainMemory<F>,
    scratch: &mut PlainScratch<F>,
    end: &mut [Vec<F>],
    statistics: &mut [F],
) {
    let (stages, layers, lanes, entries) = (step.stages(), step.kernels.len(), x.len(), x[0].len());
    end.iter_mut().for_each(|lane| resize(lane, entries));
    memory.evaluations.resize_with(stages * layers, Evaluation::default);
    scratch.slopes.resize_with(stages, Vec::new);
    for stage in 0..stages {
        let (known, rest) = scratch.slopes.split_at_mut(stage);
        let slope = &mut rest[0];
        let input = &mut memory.evaluations[stage * layers].input;
        reserve(input, lanes, entries);
        sum(&step.scaled(step.tableau.stages[stage]), x, known, input);
        for (layer, kernel) in step.kernels.iter().enumerate() {
            let (here, above) = memory.evaluations[stage * layers..].split_at_mut(layer + 1);
            let here = &mut here[layer];
            let out = if layer + 1 < layers { &mut above[0].input } else { &mut *slope };
            out.resize_with(lanes, Vec::new);
            for lane in 0..lanes {
                kernel.fill(
                    samples,
                    lane == CENTRE,
                    F::when(lane == CENTRE, step.moment(stage)),
                    &mut out[lane],
                );
                kernel.apply(lane, samples, &here.input[lane], &mut out[lane], &mut scratch.columns);
            }
            if kernel.plan.relu {
                relu(out, &mut here.masks);
            }
        }
    }
    sum(&step.scaled(step.tableau.weights), x, &scratch.slopes, end);
    reserve(&mut scratch.error, lanes, entries);
    for (lane, error) in scratch.error.iter_mut().enumerate() {
        error.fill(F::ZERO);
        let weights = step.scaled(step.tableau.error);
        let terms: Vec<_> =
            weights.iter().map(|(j, w)| (lane_weight(lane, *w), &scratch.slopes[*j][lane][..])).collect();
        combine(error, None, &terms);
    }
    signs(&scratch.error[CENTRE], &mut memory.signs);
    let none = vec![];
    let radius = scratch.error.get(RADIUS).unwrap_or(&none);
    measure(
        step.state(),
        samples,
        [&scratch.error[CENTRE], radius, &x[CENTRE], &scratch.slopes[0][CENTRE]],
        statistics,
    );
}

/// `out = x + Σ weight·slope`.
fn sum<F: Real>(weights: &[(usize, F)], x: &[Vec<F>], slopes: &[Vec<Vec<F>>], out: &mut [Vec<F>]) {
    for lane in 0..x.len() {
        let terms: Vec<_> =
            weights.iter().map(|(j, w)| (lane_weight(lane, *w), &slopes[*j][lane][..])).collect();
        combine(&mut out[lane], Some(&x[lane]), &terms);
    }
}

fn signs<F: Real>(error: &[F], signs: &mut Vec<u8>) {
    resize(signs, error.len());
    for (sign, e) in signs.iter_mut().zip(error) {
        *sign = flag(*e > F::ZERO, POSITIVE) | flag(*e < F::ZERO, NEGATIVE);
    }
}

/// For each sample: bounds of ‖e‖₁ from below and above, ‖x‖₁, ‖k₁‖₁. Without radii both bounds are the norm.
pub(crate) fn measure<F: Real>(
    shape: Shape,
    samples: usize,
    [centre, radius, start, slope]: [&[F]; 4],
    statistics: &mut [F],
) {
    let mut sums = vec![[0.0_f64; STATISTICS]; samples];
    each_run(shape, samples, |sample, run| {
        let sums = &mut sums[sample];
        for i in run {
            let (c, r) = (centre[i].abs(), if radius.is_empty() { F::ZERO } else { radius[i] });
            sums[0] += (c - r).relu().wide();
            sums[1] += (c + r).wide();
            sums[2] += start[i].abs().wide();
            sums[3] += slope[i].abs().wide();
        }
    });
    for (out, sums) in statistics.chunks_exact_mut(STATISTICS).zip(&sums) {
        for (o, s) in out.iter_mut().zip(sums) {
            *o = F::of(*s);
        }
    }
}

/// The gradient of [`forward`]: `gradient` comes in as that of the end and leaves as that of the start.
pub(crate) fn backward<F: Real>(
    step: &Step<'_, F>,
    samples: usize,
    memory: &PlainMemory<F>,
    scratch: &mut PlainScratch<F>,
    gradient: &mut [Vec<F>],
    error_weight: F,
    parameters: &mut [LayerGradient<F>],
) {
    let (stages, layers, lanes, entries) =
        (step.stages(), step.kernels.len(), gradient.len(), gradient[0].len());
    reserve(&mut scratch.error, lanes, entries);
    if error_weight != F::ZERO {
        error_gradient(&memory.signs, error_weight, &mut scratch.error);
    }
    scratch.slopes.resize_with(stages, Vec::new);
    let mut live = vec![false; stages];
    for stage in 0..stages {
        let end = F::of(step.step * step.tableau.weights[stage]);
        let error = step.tableau.error.get(stage).map_or(F::ZERO, |e| F::of(step.step * e));
        let error = F::when(error_weight != F::ZERO, error);
        live[stage] = end != F::ZERO || error != F::ZERO;
        let slope = &mut scratch.slopes[stage];
        reserve(slope, lanes, entries);
        for lane in 0..lanes {
            slope[lane].fill(F::ZERO);
            for (weight, source) in [(end, &gradient[lane]), (error, &scratch.error[lane])] {
                if weight != F::ZERO {
                    combine(&mut slope[lane], None, &[(lane_weight(lane, weight), &source[..])]);
                }
            }
        }
    }
    for stage in (0..stages).rev() {
        if !live[stage] {
            continue;
        }
        let (earlier, rest) = scratch.slopes.split_at_mut(stage);
        std::mem::swap(&mut scratch.gradient, &mut rest[0]);
        for (layer, kernel) in step.kernels.iter().enumerate().rev() {
            let evaluation = &memory.evaluations[stage * layers + layer];
            if kernel.plan.relu {
                relu_back(&mut scratch.gradient, &evaluation.masks);
            }
            parameters[layer].add(
                kernel,
                samples,
                &evaluation.input,
                &scratch.gradient,
                true,
                step.moment(stage),
                &mut scratch.columns,
            );
            scratch.below.resize_with(lanes, Vec::new);
            for lane in 0..lanes {
                let below = &mut scratch.below[lane];
                kernel.input_gradient(lane, samples, &scratch.gradient[lane], below, &mut scratch.columns);
            }
            std::mem::swap(&mut scratch.gradient, &mut scratch.below);
        }
        for lane in 0..lanes {
            add(&mut gradient[lane], &scratch.gradient[lane]);
        }
        for (j, weight) in step.scaled(step.tableau.stages[stage]) {
            live[j] = true;
            for lane in 0..lanes {
                let term = (lane_weight(lane, weight), &scratch.gradient[lane][..]);
                combine(&mut earlier[j][lane], None, &[term]);
            }
        }
    }
}

/// The gradient of `weight · Σ (|centre| + radius)`.
fn error_gradient<F: Real>(signs: &[u8], weight: F, lanes: &mut [Vec<F>]) {
    for (g, sign) in lanes[CENTRE].iter_mut().zip(signs) {
        *g = F::when(sign & POSITIVE != 0, weight) - F::when(sign & NEGATIVE != 0, weight);
    }
    if let Some(radius) = lanes.get_mut(RADIUS) {
        radius.fill(weight);
    }
}
