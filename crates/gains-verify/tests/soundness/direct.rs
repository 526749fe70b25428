//! Networks evaluated straight from their description, by any kind of arithmetic.
//!
//! Written from the definition of the layers and of the controlled solver, sharing no code with the
//! crates under test: images are channels first, times are fractions of the first step, every sum is a
//! list of terms handed to a [`Machine`].

use std::cmp::Reverse;

use gains_core::description::{ControllerSpec, LayerSpec, SolverSpec};
use gains_core::model_file::Tensors;
use gains_core::{Description, Shape};
use gains_ode::{Action, Tableau};

/// An arithmetic.
pub trait Machine {
    type Value: Clone;
    /// A number that is given, rounded to the format if it has to be.
    fn load(&mut self, x: f64) -> Self::Value;
    /// `Σ weight·value + bias`; `nominal` counts the terms padding may have removed as well.
    fn dot(&mut self, terms: &[(f64, Self::Value)], bias: f64, nominal: usize) -> Self::Value;
    /// `(x − mean) / std`.
    fn normalise(&mut self, x: &Self::Value, mean: f64, std: f64) -> Self::Value;
    /// An average: `Σ values / count`.
    fn mean(&mut self, values: &[Self::Value], count: usize) -> Self::Value;
    /// An activation.
    fn activate(&mut self, layer: &LayerSpec, x: &Self::Value) -> Self::Value;
    /// `base + step Σ weight·slope`.
    fn advance(
        &mut self,
        base: Option<&Self::Value>,
        step: f64,
        slopes: &[(f64, Self::Value)],
    ) -> Self::Value;
    /// `Σ |error| / tolerance`.
    fn estimate(&mut self, errors: &[Self::Value], tolerance: f64) -> Self::Value;
    /// Whether `value ≤ threshold`.
    fn at_most(&self, value: &Self::Value, threshold: f64) -> bool;
}

/// One trial step: time, step size, decision.
#[derive(Clone, Copy, Debug)]
pub struct Trial {
    pub time: f64,
    pub step: f64,
    pub action: Action,
}

/// What a run produced.
pub struct Run<V> {
    pub output: Vec<V>,
    pub trajectories: Vec<Vec<Trial>>,
}

/// A channels-first image.
struct Image<V> {
    shape: Shape,
    data: Vec<V>,
}

impl<V: Clone> Image<V> {
    fn at(&self, c: usize, y: usize, x: usize) -> &V {
        &self.data[(c * self.shape.height + y) * self.shape.width + x]
    }
}

/// Evaluates a network at a point given in the order the verifier uses, channels last.
pub fn run<M: Machine>(
    machine: &mut M,
    description: &Description,
    tensors: &Tensors,
    input: &[f64],
) -> Run<M::Value> {
    let shape = description.input;
    let mut data = Vec::new();
    for c in 0..shape.channels {
        for p in 0..shape.positions() {
            data.push(machine.load(input[p * shape.channels + c]));
        }
    }
    let mut value = Image { shape, data };
    let mut trajectories = Vec::new();
    for layer in &description.layers {
        value = match layer {
            LayerSpec::Ode { dynamics, solver } => {
                let (end, trajectory) = solve(machine, dynamics, solver, tensors, &value);
                trajectories.push(trajectory);
                end
            }
            _ => apply(machine, layer, tensors, &value, 0.0),
        };
    }
    Run { output: value.data, trajectories }
}

fn apply<M: Machine>(
    machine: &mut M,
    layer: &LayerSpec,
    tensors: &Tensors,
    x: &Image<M::Value>,
    time: f64,
) -> Image<M::Value> {
    let shape = x.shape;
    match layer {
        LayerSpec::Normalize { mean, std } => {
            let positions = shape.positions();
            let data = x.data.iter().enumerate();
            let data = data.map(|(i, v)| machine.normalise(v, mean[i / positions], std[i / positions]));
            Image { shape, data: data.collect() }
        }
        LayerSpec::Linear { name, out_features, time: with_time, .. } => {
            let (weights, bias) =
                (&tensors[&format!("{name}.weight")].1, &tensors[&format!("{name}.bias")].1);
            let columns = weights.len() / out_features;
            let clock = with_time.then(|| machine.load(time));
            let inputs: Vec<M::Value> = clock.into_iter().chain(x.data.iter().cloned()).collect();
            let data = (0..*out_features).map(|o| {
                let row = weights[o * columns..][..columns].iter().copied();
                let terms: Vec<_> = row.zip(inputs.iter().cloned()).collect();
                machine.dot(&terms, bias[o], columns + 1)
            });
            Image { data: data.collect(), shape: Shape::flat(*out_features) }
        }
        LayerSpec::Conv2d {
            name, out_channels, kernel, stride, padding, dilation, time: with_time, ..
        } => {
            let (weights, bias) =
                (&tensors[&format!("{name}.weight")].1, &tensors[&format!("{name}.bias")].1);
            let side =
                |n: usize, i: usize| (n + 2 * padding[i] - dilation[i] * (kernel[i] - 1) - 1) / stride[i] + 1;
            let output = Shape::image(side(shape.height, 0), side(shape.width, 1), *out_channels);
            let channels = shape.channels + usize::from(*with_time);
            let nominal = channels * kernel[0] * kernel[1] + 1;
            let clock = machine.load(time);
            let mut data = Vec::new();
            for co in 0..*out_channels {
                for position in 0..output.positions() {
                    let (y, column) = (position / output.width, position % output.width);
                    let mut terms = Vec::new();
                    for tap in 0..channels * kernel[0] * kernel[1] {
                        let (ci, ky, kx) =
                            (tap / (kernel[0] * kernel[1]), tap / kernel[1] % kernel[0], tap % kernel[1]);
                        let iy = (y * stride[0] + ky * dilation[0]).checked_sub(padding[0]);
                        let ix = (column * stride[1] + kx * dilation[1]).checked_sub(padding[1]);
                        let (Some(iy), Some(ix)) = (iy, ix) else { continue };
                        if iy >= shape.height || ix >= shape.width {
                            continue;
                        }
                        let weight = weights[co * channels * kernel[0] * kernel[1] + tap];
                        let term = match (*with_time, ci) {
                            (true, 0) => clock.clone(),
                            _ => x.at(ci - usize::from(*with_time), iy, ix).clone(),
                        };
                        terms.push((weight, term));
                    }
                    data.push(machine.dot(&terms, bias[co], nominal));
                }
            }
            Image { data, shape: output }
        }
        LayerSpec::AvgPool2d { kernel, stride, padding } => {
            let side = |n: usize, i: usize| (n + 2 * padding[i] - kernel[i]) / stride[i] + 1;
            let output = Shape::image(side(shape.height, 0), side(shape.width, 1), shape.channels);
            let mut data = Vec::new();
            for c in 0..shape.channels {
                for position in 0..output.positions() {
                    let (y, column) = (position / output.width, position % output.width);
                    let mut seen = Vec::new();
                    for iy in 0..shape.height {
                        for ix in 0..shape.width {
                            let rows = y * stride[0]..y * stride[0] + kernel[0];
                            let columns = column * stride[1]..column * stride[1] + kernel[1];
                            if rows.contains(&(iy + padding[0])) && columns.contains(&(ix + padding[1])) {
                                seen.push(x.at(c, iy, ix).clone());
                            }
                        }
                    }
                    data.push(machine.mean(&seen, kernel[0] * kernel[1]));
                }
            }
            Image { data, shape: output }
        }
        LayerSpec::GlobalAvgPool {} => {
            let positions = shape.positions();
            let data = x.data.chunks(positions).map(|plane| machine.mean(plane, positions)).collect();
            Image { data, shape: Shape::flat(shape.channels) }
        }
        LayerSpec::Flatten {} => Image { data: x.data.clone(), shape: Shape::flat(shape.len()) },
        LayerSpec::Ode { .. } => unreachable!("handled by the caller"),
        activation => Image { data: x.data.iter().map(|v| machine.activate(activation, v)).collect(), shape },
    }
}

/// Where the controlled solver is, in units of the first step and, after clipping, of what is left.
#[derive(Clone, Debug)]
pub struct Pace {
    factor: u64,
    first: f64,
    end: f64,
    /// The first step may be divided by the factor so many times.
    finest: u32,
    allowed: u32,
    /// Time in units of the finest step.
    done: u64,
    /// The step is the finest one times this.
    step: u64,
    /// After clipping: how many of `factor^allowed` parts of the rest are done, and are tried next.
    tail: Option<(u64, u64)>,
    rejected: u32,
    pub settled: bool,
}

impl Pace {
    pub fn new(solver: &SolverSpec) -> Self {
        let (factor, first, smallest, allowed) = match &solver.controller {
            ControllerSpec::Fixed { steps } => (2, solver.end_time / f64::from(*steps), f64::INFINITY, 0),
            ControllerSpec::ControlledAdaptive(c) => {
                (c.factor, c.initial_step.min(solver.end_time), c.minimum_step, c.rejections_after_clipping)
            }
            ControllerSpec::Adaptive { .. } => unreachable!("not on a grid"),
        };
        let factor = u64::from(factor);
        let mut finest = 0;
        while first / (factor.pow(finest + 1) as f64) >= smallest {
            finest += 1;
        }
        let step = factor.pow(finest);
        Self {
            factor,
            first,
            end: solver.end_time,
            finest,
            allowed,
            done: 0,
            step,
            tail: None,
            rejected: 0,
            settled: false,
        }
    }

    fn clipped_at(&self, ticks: u64) -> f64 {
        ticks as f64 / self.factor.pow(self.finest) as f64 * self.first
    }

    /// Time and step size.
    pub fn now(&self) -> (f64, f64) {
        let start = self.clipped_at(self.done);
        match self.tail {
            None => (start, self.clipped_at(self.step)),
            Some((done, next)) => {
                let whole = self.factor.pow(self.allowed) as f64;
                let share = done as f64 / whole;
                (start * (1.0 - share) + self.end * share, next as f64 / whole * (self.end - start))
            }
        }
    }

    /// Earlier times first, then larger steps.
    pub fn key(&self) -> (u64, Reverse<u64>, u64, Reverse<u64>, u32, bool) {
        let (done, next) = self.tail.unwrap_or_default();
        let step = if self.tail.is_some() { 0 } else { self.step };
        (self.done, Reverse(step), done, Reverse(next), self.rejected, self.settled)
    }

    /// After a decision; `None` at the end time.
    pub fn after(mut self, action: Action) -> Option<Self> {
        let growth = if action == Action::Increase && !self.settled { self.factor } else { 1 };
        if action == Action::Reject && !self.settled {
            match &mut self.tail {
                None if self.step > 1 => self.step /= self.factor,
                Some((_, next)) if self.rejected < self.allowed => {
                    *next /= self.factor;
                    self.rejected += 1;
                }
                _ => self.settled = true,
            }
            return Some(self);
        }
        let whole = self.factor.pow(self.allowed);
        match &mut self.tail {
            Some((done, next)) => {
                *done += *next;
                *next = (*next * growth).min(whole - *done);
            }
            None => {
                self.done += self.step;
                self.step *= growth;
                let units = (self.done + self.step) as f64 / self.factor.pow(self.finest) as f64;
                if units >= self.end / self.first {
                    self.tail = Some((0, whole));
                }
            }
        }
        (self.now().0 + 1e-8 < self.end).then_some(self)
    }
}

/// One step: the next state and, if asked for, δ.
fn step<M: Machine>(
    machine: &mut M,
    dynamics: &[LayerSpec],
    tableau: &Tableau,
    tensors: &Tensors,
    state: &Image<M::Value>,
    (time, size): (f64, f64),
    tolerance: Option<f64>,
) -> (Vec<M::Value>, Option<M::Value>) {
    let mut slopes: Vec<Vec<M::Value>> = Vec::new();
    let weigh = |machine: &mut M, base: bool, weights: &[f64], slopes: &[Vec<M::Value>]| -> Vec<M::Value> {
        (0..state.data.len())
            .map(|i| {
                let terms: Vec<(f64, M::Value)> = weights
                    .iter()
                    .zip(slopes)
                    .filter(|(w, _)| **w != 0.0)
                    .map(|(w, k)| (*w, k[i].clone()))
                    .collect();
                machine.advance(base.then_some(&state.data[i]), size, &terms)
            })
            .collect()
    };
    for (weights, node) in tableau.stages.iter().zip(tableau.nodes) {
        let data = weigh(machine, true, weights, &slopes);
        let mut value = Image { shape: state.shape, data };
        for layer in dynamics {
            value = apply(machine, layer, tensors, &value, time + node * size);
        }
        slopes.push(value.data);
    }
    let next = weigh(machine, true, tableau.weights, &slopes);
    let delta = tolerance.map(|tolerance| {
        let errors = weigh(machine, false, tableau.error, &slopes);
        machine.estimate(&errors, tolerance)
    });
    (next, delta)
}

/// One trial step of a flat state: the next state and δ.
pub fn trial<M: Machine>(
    machine: &mut M,
    dynamics: &[LayerSpec],
    tableau: &Tableau,
    tensors: &Tensors,
    state: &[f64],
    at: (f64, f64),
    tolerance: f64,
) -> (Vec<M::Value>, Option<M::Value>) {
    let data = state.iter().map(|x| machine.load(*x)).collect();
    let state = Image { shape: Shape::flat(state.len()), data };
    step(machine, dynamics, tableau, tensors, &state, at, Some(tolerance))
}

fn solve<M: Machine>(
    machine: &mut M,
    dynamics: &[LayerSpec],
    solver: &SolverSpec,
    tensors: &Tensors,
    initial: &Image<M::Value>,
) -> (Image<M::Value>, Vec<Trial>) {
    let tableau = Tableau::of(solver.method);
    let (tolerance, threshold) = match &solver.controller {
        ControllerSpec::ControlledAdaptive(c) => {
            (Some(c.tolerance), 1.0 / f64::from(c.factor.pow(tableau.order)))
        }
        _ => (None, 0.0),
    };
    let mut pace = Some(Pace::new(solver));
    let mut state = Image { shape: initial.shape, data: initial.data.clone() };
    let mut trials = Vec::new();
    while let Some(here) = pace {
        let (time, size) = here.now();
        let judge = tolerance.filter(|_| !here.settled);
        let (next, delta) = step(machine, dynamics, tableau, tensors, &state, (time, size), judge);
        let action = match &delta {
            Some(delta) if machine.at_most(delta, threshold) => Action::Increase,
            Some(delta) if !machine.at_most(delta, 1.0) => Action::Reject,
            _ => Action::Keep,
        };
        trials.push(Trial { time, step: size, action });
        if action != Action::Reject {
            state.data = next;
        }
        pace = here.after(action);
    }
    (state, trials)
}
