//! The layers in front of the first ODE block, bounded with free slopes and with constraints on their
//! neurons.
//!
//! A row on the output of these layers is pulled back to the input as everywhere else, but two things are
//! chosen freely, row by row, and improved by gradient ascent:
//!
//! * the lower slope of every unstable ReLU: each value between the slopes of the two branches is sound;
//! * one multiplier `β ≥ 0` for every [`Constraint`] the row may rely on: where `g ≤ 0`, `row + β·g` lies nowhere
//!   above `row` (as in β-CROWN).
//!
//! Every iterate of the ascent is evaluated with rounding counted, so every one of them is a certified bound;
//! how good the gradient is decides how tight the best one gets, never whether it holds.
//!
//! The gradient costs one pass forwards. The bound is the row's value at one corner of the input box, and
//! pushing that corner through the very lines the row took gives the pre-activation `p` that multiplies every
//! slope: `∂bound/∂slope = a·p` where the coefficient `a` on the neuron is positive, and `∂bound/∂β = g(p)`.

use std::sync::Arc;

use gains_core::arithmetic::TINY;
use gains_core::operator::curve::CurveKnown;
use gains_core::operator::{Elementwise, Steering};
use gains_core::program::{Flight, Way};
use gains_core::relaxation::{Lines, free_slopes};
use gains_core::{
    Activation, Arithmetic, BoxVec, Circuit, Known, LowerSlope, Operator, Precision, Program, Relaxation,
    RowBlock, Rows, Shape, Support, kernels,
};

use crate::ball::Ball;
use crate::limits::{Clock, Reason};
use crate::steps::Side;

/// An elementwise function in front of the first ODE block.
pub(crate) struct Layer {
    node: Elementwise,
    /// The function.
    pub activation: Activation,
    /// Its arguments over the whole region.
    pub before: Arc<BoxVec>,
}

impl Layer {
    /// The value it makes.
    pub fn value(&self) -> usize {
        self.node.value
    }
}

/// What is known of all values of a program over a region.
#[derive(Clone, Copy)]
pub(crate) struct Enclosed<'a> {
    /// Only inputs of this ball are considered, where there is one.
    pub ball: Option<&'a Ball>,
    pub program: &'a Program,
    pub values: &'a [BoxVec],
    /// For every node.
    pub known: &'a [Known],
    /// For values that are taken several times.
    pub magnitudes: &'a [Vec<f64>],
    pub arithmetic: Arithmetic,
}

/// Everything in front of the first ODE block.
pub(crate) struct Front {
    ball: Option<Ball>,
    circuit: Circuit,
    known: Vec<Known>,
    magnitudes: Vec<Vec<f64>>,
    /// All values over the whole region.
    values: Vec<BoxVec>,
    /// The elementwise functions, in order.
    pub layers: Vec<Layer>,
    /// The value the ODE block takes.
    pub output: usize,
    /// Largest absolute outputs.
    magnitude: Vec<f64>,
    arithmetic: Arithmetic,
}

/// A case distinction: the part of the region where a pre-activation is on one side of a threshold.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Split {
    /// Which layer of the front.
    pub layer: usize,
    /// Which of its neurons.
    pub neuron: usize,
    /// The threshold.
    pub at: f64,
    /// The side.
    pub side: Side,
}

impl Split {
    /// The split's `g(p) = sign·(p − at)`, nowhere positive on its side.
    fn sign(&self) -> f64 {
        match self.side {
            Side::Below => 1.0,
            Side::Above => -1.0,
        }
    }
}

/// Something that holds in a part of the region, for rows to rely on: a linear `g ≤ 0`.
#[derive(Clone)]
pub(crate) enum Constraint {
    /// A neuron of the front is on one side of a threshold.
    Neuron(Split),
    /// One row on the front's output is nowhere positive.
    Output(Arc<RowBlock>),
}

/// What a row is free to choose.
#[derive(Clone, Debug, Default)]
pub(crate) struct Dual {
    /// Lower slopes of the neurons of every layer; only those of unstable ReLUs matter.
    pub slopes: Vec<Vec<f32>>,
    /// One multiplier per constraint.
    pub multipliers: Vec<f64>,
}

impl Dual {
    /// Memory held, roughly.
    pub fn bytes(&self) -> usize {
        self.slopes.iter().map(|s| 4 * s.len()).sum::<usize>() + 8 * self.multipliers.len()
    }
}

/// One row to be bounded over one part of the region.
#[derive(Clone)]
pub(crate) struct Subject<'n> {
    /// One row on the output of the front.
    pub row: Arc<RowBlock>,
    /// Pre-activations of every layer in this part.
    pub bounds: &'n [Arc<BoxVec>],
    /// What holds in this part.
    pub constraints: &'n [Constraint],
    /// Where to start.
    pub dual: Dual,
}

/// The best bound that was found for a [`Subject`].
#[derive(Clone)]
pub(crate) struct Solved {
    /// The row is nowhere below it in its part of the region.
    pub bound: f64,
    /// The choice that gave it.
    pub dual: Dual,
    /// The inputs at which the pulled-back row is smallest.
    pub minimiser: Vec<Vec<f64>>,
    /// The front's output there, along the lines the row took.
    pub output: Vec<f64>,
    /// For every layer and neuron, what its relaxation costs at that input.
    pub losses: Vec<Vec<f64>>,
    /// For every layer, the row's coefficients behind its neurons.
    pub behind: Vec<Vec<f32>>,
    /// The row on all inputs, one after the other.
    pub row: RowBlock,
}

/// The moments of Adam (Kingma and Ba, 2015) for a vector of free numbers.
#[derive(Default)]
struct Adam {
    first: Vec<f64>,
    second: Vec<f64>,
}

impl Adam {
    fn new(length: usize) -> Self {
        Self { first: vec![0.0; length], second: vec![0.0; length] }
    }

    /// The step for entry `i` with this gradient, in the `round`-th round (from one).
    fn step(&mut self, i: usize, gradient: f64, round: i32) -> f64 {
        const KEEP: (f64, f64) = (0.8, 0.95);
        self.first[i] = KEEP.0 * self.first[i] + (1.0 - KEEP.0) * gradient;
        self.second[i] = KEEP.1 * self.second[i] + (1.0 - KEEP.1) * gradient * gradient;
        let mean = self.first[i] / (1.0 - KEEP.0.powi(round));
        let scale = (self.second[i] / (1.0 - KEEP.1.powi(round))).sqrt();
        if scale > 0.0 { mean / scale } else { 0.0 }
    }
}

/// One problem being solved.
struct Ascent {
    dual: Dual,
    /// For every layer: the lines, their lower slopes up to date with `dual`.
    lines: Vec<Lines>,
    /// For every layer: the neurons whose slope is free, with its limits.
    free: Vec<Vec<(u32, f64, f64)>>,
    slope_steps: Vec<Adam>,
    multiplier_steps: Adam,
    best: Option<Solved>,
}

impl Ascent {
    /// Moves the slopes and multipliers of one layer uphill; `before` is what reaches the layer at the
    /// minimiser.
    fn move_layer(
        &mut self,
        layer: usize,
        constraints: &[Constraint],
        coefficients: &[f64],
        before: &[f64],
        turn: i32,
        rate: f64,
    ) {
        for (k, &(neuron, flat, steep)) in self.free[layer].iter().enumerate() {
            let i = neuron as usize;
            // Where the upper line was taken the slope has no effect.
            let gradient = if coefficients[i] > 0.0 { coefficients[i] * before[i] } else { 0.0 };
            let step = rate * self.slope_steps[layer].step(k, gradient, turn);
            let slope = &mut self.dual.slopes[layer][i];
            *slope = (f64::from(*slope) + step).clamp(flat, steep) as f32;
            self.lines[layer].lower_slope[i] = f64::from(*slope).clamp(flat, steep);
        }
        let largest = coefficients.iter().map(|a| a.abs()).fold(0.0, f64::max);
        for (k, constraint) in constraints.iter().enumerate() {
            let Constraint::Neuron(split) = constraint else { continue };
            if split.layer != layer {
                continue;
            }
            let gradient = split.sign() * (before[split.neuron] - split.at);
            let step = MULTIPLIER_RATE * rate * largest * self.multiplier_steps.step(k, gradient, turn);
            let beta = &mut self.dual.multipliers[k];
            *beta = (*beta + step).max(0.0);
        }
    }

    /// Moves the multipliers of the constraints on the output uphill; `value` is the output at the minimiser.
    fn move_outputs(&mut self, problem: &Subject<'_>, value: &[f64], turn: i32, rate: f64) {
        let largest = |row: &[f64]| row.iter().map(|a| a.abs()).fold(0.0, f64::max);
        for (k, constraint) in problem.constraints.iter().enumerate() {
            let Constraint::Output(face) = constraint else { continue };
            let gradient = face.row(0).iter().zip(value).map(|(a, v)| a * v).sum::<f64>() + face.constant[0];
            let scale = largest(problem.row.row(0)) / largest(face.row(0)).max(f64::MIN_POSITIVE);
            let step = MULTIPLIER_RATE * rate * scale * self.multiplier_steps.step(k, gradient, turn);
            let beta = &mut self.dual.multipliers[k];
            *beta = (*beta + step).clamp(0.0, 1e12);
        }
    }
}

/// Rows at the input: the coefficients they had behind every activation, and the end.
struct Pulled {
    behind: Vec<Rows>,
    inputs: Flight,
}

/// Rows of several subjects, each through its own lines and with its own multiples of constraints.
struct Ascending<'s> {
    front: &'s Front,
    subjects: &'s [Subject<'s>],
    ascents: &'s [Ascent],
    active: &'s [usize],
    /// The coefficients behind every activation.
    behind: Vec<Rows>,
}

impl Steering for Ascending<'_> {
    fn curve(&mut self, node: Elementwise, _: &CurveKnown, rows: &mut Rows) {
        let index = self.front.layer_of(node.value);
        *rows = std::mem::replace(rows, Rows::zeros(0, rows.on().clone())).widened();
        self.behind[index] = rows.clone();
        let lines: Vec<&Lines> = self.active.iter().map(|&i| &self.ascents[i].lines[index]).collect();
        rows.relax(&lines);
        for (row, &i) in self.active.iter().enumerate() {
            let multipliers = &self.ascents[i].dual.multipliers;
            for (constraint, &beta) in self.subjects[i].constraints.iter().zip(multipliers) {
                match constraint {
                    Constraint::Neuron(split) if split.layer == index && beta > 0.0 => {
                        let magnitude = lines[row].magnitude[split.neuron];
                        constrain(rows, row, split, beta, magnitude);
                    }
                    _ => {}
                }
            }
        }
    }
}

/// Rows with one lower slope for all unstable neurons.
struct Uniform<'s> {
    front: &'s Front,
    bounds: &'s [Arc<BoxVec>],
    slope: LowerSlope,
}

impl Steering for Uniform<'_> {
    fn curve(&mut self, node: Elementwise, _: &CurveKnown, rows: &mut Rows) {
        let index = self.front.layer_of(node.value);
        let layer = &self.front.layers[index];
        rows.relax(&[&Lines::for_box(
            layer.activation,
            &self.bounds[index],
            self.slope,
            self.front.arithmetic,
        )]);
    }
}

/// Step size of the first round for slopes, and the part of it that is left in the last.
const RATE: (f64, f64) = (0.1, 0.1);

/// Step size of a multiplier relative to that, for coefficients of one.
const MULTIPLIER_RATE: f64 = 0.2;

impl Front {
    /// The front of an analysed program; `None` if there is no activation in it, or if anything behind it takes
    /// something in front of its end.
    pub fn new(known: &Enclosed<'_>) -> Option<Self> {
        let Enclosed { ball, program, values, known, magnitudes, arithmetic } = *known;
        let (ode, _) = program.odes().next()?;
        let output = program.node(ode)?.from[0];
        let circuit = program.front(output)?;
        program.behind(output)?;
        let layer = |(value, node): (usize, &gains_core::dag::Node<Operator>)| match &node.operator {
            Operator::Curve(activation) => Some(Layer {
                node: Elementwise { value, argument: node.from[0] },
                activation: *activation,
                before: Arc::new(values[node.from[0]].clone()),
            }),
            _ => None,
        };
        let layers: Vec<Layer> = circuit.nodes().filter_map(layer).collect();
        let values: Vec<BoxVec> = values[..circuit.values()].to_vec();
        let known = known[..circuit.nodes().len()].to_vec();
        let magnitudes = magnitudes[..circuit.values()].to_vec();
        let last = layers.last()?.before.clone();
        let (ball, magnitude) = (ball.cloned(), Vec::new());
        let mut front =
            Self { ball, circuit, known, magnitudes, values, layers, output, magnitude, arithmetic };
        front.magnitude = front.output_box(&last).magnitudes();
        Some(front)
    }

    /// The arguments of all layers over the whole region.
    pub fn whole_region(&self) -> Vec<Arc<BoxVec>> {
        self.layers.iter().map(|layer| layer.before.clone()).collect()
    }

    /// The region: one box for each input.
    pub fn region(&self) -> &[BoxVec] {
        &self.values[..self.circuit.inputs().len()]
    }

    /// Shape of the output.
    pub fn output_shape(&self) -> Shape {
        self.circuit.shape(self.output)
    }

    /// Which layer makes a value.
    fn layer_of(&self, value: usize) -> usize {
        self.layers.partition_point(|layer| layer.node.value < value)
    }

    fn way(&self) -> Way<'_> {
        Way {
            known: &self.known,
            entries: &[],
            inputs: None,
            magnitudes: &self.magnitudes,
            matrices: &[],
            arithmetic: self.arithmetic,
        }
    }

    /// The box behind the front for given arguments of the last layer.
    pub fn output_box(&self, last: &BoxVec) -> BoxVec {
        let Some(layer) = self.layers.last() else { return self.values[self.output].clone() };
        let first = layer.node.value;
        let mut later: Vec<BoxVec> = vec![layer.activation.image_box(last, self.arithmetic)];
        for (_, node) in self.circuit.nodes().filter(|(value, _)| *value > first) {
            let argument = |v: &usize| if *v >= first { &later[*v - first] } else { &self.values[*v] };
            let arguments: Vec<&BoxVec> = node.from.iter().map(argument).collect();
            let image = node.operator.image(&arguments, 0.0, self.arithmetic, false).value;
            later.push(image);
        }
        match self.output.checked_sub(first) {
            Some(at) => later.swap_remove(at),
            None => self.values[self.output].clone(),
        }
    }

    /// All values over the whole region, inputs first.
    pub fn values(&self) -> &[BoxVec] {
        &self.values
    }

    /// Boxes of all values, each what intervals make of the boxes in front of it and what is known of it already.
    pub fn propagated(&self, known: &[BoxVec]) -> Vec<BoxVec> {
        let mut values: Vec<BoxVec> = self.region().to_vec();
        for (value, node) in self.circuit.nodes() {
            let arguments: Vec<&BoxVec> = node.from.iter().map(|&v| &values[v]).collect();
            let mut image = node.operator.image(&arguments, 0.0, self.arithmetic, false).value;
            image.meet(&known[value]);
            values.push(image);
        }
        values
    }

    /// Slopes to start from; zero everywhere is usually the best single choice.
    pub fn first_dual(&self, policy: LowerSlope) -> Dual {
        let slope = |layer: &Layer, i: usize| {
            Relaxation::new(layer.activation, layer.before.get(i), policy, self.arithmetic).lower.slope as f32
        };
        let slopes = self.layers.iter().map(|l| (0..l.before.len()).map(|i| slope(l, i)).collect());
        Dual { slopes: slopes.collect(), multipliers: Vec::new() }
    }

    /// Bounds every problem as tightly as `rounds` steps of gradient ascent allow. If that is enough, a problem
    /// whose bound has become positive is left alone.
    pub fn optimise(
        &self,
        problems: &[Subject<'_>],
        rounds: usize,
        positive_is_enough: bool,
        clock: &Clock<'_>,
    ) -> Result<Vec<Solved>, Reason> {
        let mut ascents: Vec<Ascent> = problems.iter().map(|p| self.ascent(p)).collect();
        let mut active: Vec<usize> = (0..problems.len()).collect();
        for round in 0..=rounds {
            if active.is_empty() {
                break;
            }
            clock.check(0)?;
            let pulled = self.pull(problems, &ascents, &active);
            let bounds = self.over_inputs(&pulled.inputs);
            for (at, &index) in active.iter().enumerate() {
                let rate = RATE.0 * RATE.1.powf(round as f64 / rounds.max(1) as f64);
                let last = round == rounds;
                self.climb(&problems[index], &mut ascents[index], &pulled, at, bounds[at], round, rate, last);
            }
            let open = |best: &Solved| !positive_is_enough || best.bound <= 0.0;
            active.retain(|&index| ascents[index].best.as_ref().is_none_or(open));
        }
        Ok(ascents.into_iter().filter_map(|ascent| ascent.best).collect())
    }

    fn ascent(&self, problem: &Subject<'_>) -> Ascent {
        let dual = problem.dual.clone();
        let layers = self.layers.iter().zip(problem.bounds).zip(&dual.slopes);
        let lines = layers
            .map(|((layer, bounds), slopes)| {
                Lines::with_slopes(layer.activation, bounds, slopes, self.arithmetic)
            })
            .collect();
        let free: Vec<Vec<(u32, f64, f64)>> = self
            .layers
            .iter()
            .zip(problem.bounds)
            .map(|(layer, bounds)| {
                (0..bounds.len())
                    .filter_map(|i| {
                        let (flat, steep) = free_slopes(layer.activation, bounds.get(i))?;
                        Some((i as u32, flat, steep))
                    })
                    .collect()
            })
            .collect();
        let slope_steps = free.iter().map(|free| Adam::new(free.len())).collect();
        let multiplier_steps = Adam::new(problem.constraints.len());
        Ascent { dual, lines, free, slope_steps, multiplier_steps, best: None }
    }

    /// Pulls the rows of the active problems back to the input.
    fn pull(&self, problems: &[Subject<'_>], ascents: &[Ascent], active: &[usize]) -> Pulled {
        let own = |&i: &usize| self.with_outputs(&problems[i], &ascents[i].dual.multipliers);
        let block: Vec<RowBlock> = active.iter().map(own).collect();
        let rows = Rows::from_block(RowBlock::stack(&block), Support::full(self.output_shape()));
        let none =
            |layer: &Layer| Rows::zeros(active.len(), Support::full(self.circuit.shape(layer.node.argument)));
        let behind = self.layers.iter().map(none).collect();
        let mut steering = Ascending { front: self, subjects: problems, ascents, active, behind };
        let mut inputs = Flight::new(self.circuit.values(), self.output, rows);
        self.circuit.pull(&mut inputs, &self.way(), &mut steering);
        Pulled { behind: steering.behind, inputs }
    }

    /// The row of a problem plus its multiples of the constraints on the output.
    fn with_outputs(&self, problem: &Subject<'_>, multipliers: &[f64]) -> RowBlock {
        let mut sum = RowBlock::clone(&problem.row);
        for (constraint, &beta) in problem.constraints.iter().zip(multipliers) {
            let Constraint::Output(face) = constraint else { continue };
            if beta > 0.0 {
                let moved = beta * kernels::size(face.row(0), &self.magnitude);
                kernels::add_scaled(sum.row_mut(0), beta, face.row(0));
                let size = moved + kernels::size(sum.row(0), &self.magnitude);
                let constant = beta * (face.constant[0] - face.slack[0]);
                let rounding = 4.0 * f64::EPSILON * (size + beta * (face.constant[0].abs() + face.slack[0]));
                sum.absorb(0, constant, rounding + TINY * (1.0 + self.magnitude.len() as f64));
            }
        }
        sum
    }

    /// Lower bounds of rows that have arrived at the inputs.
    fn over_inputs(&self, flight: &Flight) -> Vec<f64> {
        flight.bounded_by(|input, rows| {
            let lower = rows.lower_bounds(&self.values[input]);
            match &self.ball {
                Some(ball) if input == 0 => ball.raise(rows, lower),
                _ => lower,
            }
        })
    }

    /// Inputs where a row is least: a corner of the box, or a point of the ball.
    fn minimiser(&self, flight: &Flight, row: usize) -> Vec<Vec<f64>> {
        if let (Some(ball), Some(rows)) = (&self.ball, flight.on(0)) {
            return vec![ball.least(rows.select(&[row]).into_full().row(0))];
        }
        let region = self.region();
        (0..region.len()).map(|v| corner(flight.on(v), row, &region[v])).collect()
    }

    /// Takes note of a bound, and moves slopes and multipliers uphill unless this was the last round.
    fn climb(
        &self,
        problem: &Subject<'_>,
        ascent: &mut Ascent,
        pulled: &Pulled,
        row: usize,
        bound: f64,
        round: usize,
        rate: f64,
        last: bool,
    ) {
        let better = ascent.best.as_ref().is_none_or(|best| bound > best.bound);
        if last && !better {
            return;
        }
        let minimiser = self.minimiser(&pulled.inputs, row);
        let mut best = better.then(|| ascent.dual.clone());
        let mut losses = Vec::with_capacity(self.layers.len());
        let mut behind = Vec::with_capacity(self.layers.len());
        let mut values = minimiser.clone();
        for (_, node) in self.circuit.nodes() {
            if !matches!(node.operator, Operator::Curve(_)) {
                let arguments: Vec<&[f64]> = node.from.iter().map(|&v| &values[v][..]).collect();
                let value = node.operator.evaluate(&arguments, 0.0, Precision::Float64);
                values.push(value);
                continue;
            }
            let index = losses.len();
            let before = values[node.from[0]].clone();
            let coefficients = pulled.behind[index].row(row);
            let (value, loss) =
                self.along_lines(index, &before, coefficients, ascent, &problem.bounds[index]);
            values.push(value);
            behind.push(coefficients.iter().map(|a| *a as f32).collect());
            losses.push(loss);
            if !last {
                ascent.move_layer(index, problem.constraints, coefficients, &before, round as i32 + 1, rate);
            }
        }
        let output = values.swap_remove(self.output);
        if !last {
            ascent.move_outputs(problem, &output, round as i32 + 1, rate);
        }
        if let Some(dual) = best.take() {
            let row = self.joined_row(&pulled.inputs, row);
            ascent.best = Some(Solved { bound, dual, minimiser, output, losses, behind, row });
        }
    }

    /// What the lines that a row took make of the argument of a layer, and what each costs the row there.
    fn along_lines(
        &self,
        index: usize,
        before: &[f64],
        coefficients: &[f64],
        ascent: &Ascent,
        bounds: &BoxVec,
    ) -> (Vec<f64>, Vec<f64>) {
        let lines = &ascent.lines[index];
        let mut loss = vec![0.0; before.len()];
        let mut value = before.to_vec();
        for (i, v) in value.iter_mut().enumerate() {
            let (slope, intercept) = if coefficients[i] > 0.0 {
                (lines.lower_slope[i], lines.lower_intercept[i])
            } else {
                (lines.upper_slope[i], lines.upper_intercept[i])
            };
            if lines.lower_slope[i] != lines.upper_slope[i] || lines.upper_intercept[i] != 0.0 {
                let inside = v.max(bounds.lower[i]).min(bounds.upper[i]);
                let gap = self.layers[index].activation.value(inside) - (slope * inside + intercept);
                loss[i] = (coefficients[i] * gap).max(0.0);
            }
            *v = slope * *v + intercept;
        }
        (value, loss)
    }

    /// One row on all inputs, one after the other.
    fn joined_row(&self, flight: &Flight, row: usize) -> RowBlock {
        let mut all = RowBlock::zeros(1, 0);
        for input in 0..self.region().len() {
            let part = match flight.on(input) {
                Some(rows) => rows.select(&[row]).into_full(),
                None => RowBlock::zeros(1, self.circuit.shape(input).len()),
            };
            all.length += part.length;
            all.coefficients.extend_from_slice(&part.coefficients);
            all.absorb(0, part.constant[0], part.slack[0]);
        }
        all
    }

    /// The shape of the argument of a layer, or of the output for the layer behind the last.
    pub fn shape(&self, layer: usize) -> Shape {
        self.circuit.shape(self.argument(layer))
    }

    /// The argument of a layer, or the output for the layer behind the last.
    pub fn argument(&self, layer: usize) -> usize {
        self.layers.get(layer).map_or(self.output, |layer| layer.node.argument)
    }

    /// Pulls rows on the argument of a layer (or on the output, for the layer behind the last) back to the inputs, with
    /// one lower slope for all unstable neurons; returns rows on all inputs, one after the other.
    pub fn to_input(&self, rows: Rows, layer: usize, bounds: &[Arc<BoxVec>], slope: LowerSlope) -> RowBlock {
        let count = rows.count;
        let mut flight = Flight::new(self.circuit.values(), self.argument(layer), rows);
        self.circuit.pull(&mut flight, &self.way(), &mut Uniform { front: self, bounds, slope });
        if let ([_], Some(rows)) = (self.region(), flight.on(0)) {
            return rows.clone().into_full();
        }
        let all: Vec<RowBlock> = (0..count).map(|row| self.joined_row(&flight, row)).collect();
        RowBlock::stack(&all)
    }
}

/// The corner of an input's box where a row on it is least.
pub(crate) fn corner(rows: Option<&Rows>, row: usize, domain: &BoxVec) -> Vec<f64> {
    let mut point = domain.upper.clone();
    let Some(rows) = rows else { return point };
    let mut towards = |i: usize, a: f64| {
        if a > 0.0 {
            point[i] = domain.lower[i];
        }
    };
    match rows.on() {
        on if on.is_full() => rows.row(row).iter().enumerate().for_each(|(i, a)| towards(i, *a)),
        on => rows.row(row).iter().zip(on.indices()).for_each(|(a, i)| towards(i as usize, *a)),
    }
    point
}

/// Adds `β·g` of a split to a row on the pre-activations of its layer. The new coefficient is rounded, which
/// matters in proportion to the pre-activation's magnitude, and so is `β·at`.
fn constrain(rows: &mut Rows, row: usize, split: &Split, beta: f64, magnitude: f64) {
    let coefficient = &mut rows.row_mut(row)[split.neuron];
    *coefficient += split.sign() * beta;
    let rounding = 2.0 * f64::EPSILON * coefficient.abs() * magnitude;
    let constant = -split.sign() * beta * split.at;
    rows.absorb(row, constant, rounding + 2.0 * f64::EPSILON * constant.abs() + TINY);
}

#[cfg(test)]
mod tests {
    use gains_core::description::{ControllerSpec, Join, LayerSpec, RungeKutta, SolverSpec, Task};
    use gains_core::model_file::{Tensors, build};
    use gains_core::{Description, Network};

    use super::*;
    use crate::analysis::Analysis;
    use crate::limits::Budget;
    use crate::method::Method;
    use crate::steps::StepForm;

    fn linear(random: &mut fastrand::Rng, tensors: &mut Tensors, from: usize, to: usize) -> LayerSpec {
        let name = format!("layer{}", tensors.len());
        let mut numbers = |count: usize| (0..count).map(|_| f64::from(random.f32() * 2.0 - 1.0)).collect();
        tensors.insert(format!("{name}.weight"), (vec![to, from], numbers(to * from)));
        tensors.insert(format!("{name}.bias"), (vec![to], numbers(to)));
        LayerSpec::Linear { name, in_features: from, out_features: to, time: false }
    }

    fn activation(random: &mut fastrand::Rng) -> LayerSpec {
        match random.u8(0..6) {
            0 => LayerSpec::Sigmoid {},
            1 => LayerSpec::Tanh {},
            2 => LayerSpec::LeakyRelu { slope: 0.1 },
            _ => LayerSpec::Relu {},
        }
    }

    /// Two or three inputs, a front of one to three layers with three neurons each, some beside a branch without any,
    /// an ODE that does little.
    fn network(random: &mut fastrand::Rng) -> Network {
        let mut tensors = Tensors::new();
        let inputs = random.usize(2..4);
        let mut layers = Vec::new();
        let mut width = inputs;
        for _ in 0..random.usize(1..4) {
            let branch = vec![linear(random, &mut tensors, width, 3), activation(random)];
            match random.u8(0..6) {
                0 if width == 3 => {
                    layers.push(LayerSpec::Parallel { branches: vec![branch, Vec::new()], join: Join::Add });
                }
                1 => {
                    let other = vec![linear(random, &mut tensors, width, 3), activation(random)];
                    layers.push(LayerSpec::Parallel { branches: vec![other, branch], join: Join::Product });
                }
                _ => layers.extend(branch),
            }
            width = 3;
        }
        if random.bool() {
            layers.push(linear(random, &mut tensors, 3, 4));
            width = 4;
        }
        let dynamics = vec![linear(random, &mut tensors, width, width)];
        let controller = ControllerSpec::Fixed { steps: 1 };
        let solver = SolverSpec { method: RungeKutta::Euler, controller, end_time: 1.0 };
        layers.extend([LayerSpec::Ode { dynamics, solver }, linear(random, &mut tensors, width, 2)]);
        let task = Task::Classification { classes: vec!["0".into(), "1".into()] };
        let description = Description::new("front", task, Shape::flat(inputs), layers);
        build(description, &tensors, String::new()).expect("a sound network")
    }

    /// Pre-activations of every layer and the output.
    fn run(front: &Front, x: &[f64]) -> (Vec<Vec<f64>>, Vec<f64>) {
        let all = front.circuit.evaluate(&[x], 0.0, Precision::Float64).values;
        let before = front.layers.iter().map(|layer| all[layer.node.argument].clone()).collect();
        (before, all[front.output].clone())
    }

    fn row_at(row: &RowBlock, x: &[f64]) -> f64 {
        row.row(0).iter().zip(x).map(|(a, x)| a * x).sum::<f64>() + row.constant[0]
    }

    /// Random fronts, splits, faces, slopes and multipliers, sensible or not: where the constraints hold, no
    /// input's value is below the bound, neither at once nor after some steps of ascent.
    #[test]
    fn bounds_hold_wherever_their_constraints_do() {
        let mut random = fastrand::Rng::with_seed(33);
        let (mut checked, mut raised) = (0, 0);
        for round in 0..1500 {
            let network = network(&mut random);
            let n = network.input().len();
            let lower: Vec<f64> = (0..n).map(|_| 2.0 * random.f64() - 1.5).collect();
            let upper = lower.iter().map(|l| l + random.f64()).collect();
            let arithmetic = Arithmetic::Real;
            let clock = Clock::start(Budget::default());
            let (input, form) = (BoxVec::new(lower, upper), StepForm::Difference);
            let region = vec![input.clone()];
            let analysis =
                Analysis::new(&network.body, region, Method::Tight, form, arithmetic, clock).unwrap();
            let front = Front::new(&analysis.enclosed()).expect("there is a front");
            let mut inside = |i: usize| input.lower[i] + random.f64() * (input.upper[i] - input.lower[i]);
            let inputs: Vec<Vec<f64>> = (0..60).map(|_| (0..n).map(&mut inside).collect()).collect();
            let runs: Vec<_> = inputs.iter().map(|x| run(&front, x)).collect();
            let mut bounds = front.whole_region();
            let mut constraints = Vec::new();
            let mut wide = |scale: f64| scale * (2.0 * random.f64() - 1.0);
            for c in 0..round % 4 {
                let (seen, output) = &runs[c];
                if c % 2 == 0 {
                    // Through a value that occurs, so that both sides have points.
                    let (layer, neuron) = (round / 4 % front.layers.len(), round / 16 % 3);
                    let side = if round / 2 % 2 == 0 { Side::Below } else { Side::Above };
                    let at = seen[layer][neuron];
                    let own = Arc::make_mut(&mut bounds[layer]);
                    side.cut(own, neuron, at);
                    constraints.push(Constraint::Neuron(Split { layer, neuron, at, side }));
                } else {
                    let mut face = RowBlock::zeros(1, output.len());
                    face.row_mut(0).iter_mut().for_each(|a| *a = wide(1.0));
                    let at = row_at(&face, output);
                    // With some slack, which the constraint may not use.
                    face.absorb(0, 0.25 - at, 0.25);
                    constraints.push(Constraint::Output(Arc::new(face)));
                }
            }
            let mut row = RowBlock::zeros(1, front.output_shape().len());
            row.row_mut(0).iter_mut().for_each(|a| *a = wide(1.0));
            row.constant[0] = wide(1.0) - 8.0;
            let row = Arc::new(row);
            let mut slopes = front.first_dual(LowerSlope::Zero).slopes;
            slopes.iter_mut().flatten().for_each(|s| *s = wide(1.5) as f32 + 0.5);
            let multipliers = constraints.iter().map(|_| wide(1.0)).collect();
            let duals = [
                Dual { slopes, multipliers },
                Dual { multipliers: vec![0.0; constraints.len()], ..front.first_dual(LowerSlope::Zero) },
            ];
            let problem = |dual: &Dual| Subject {
                row: row.clone(),
                bounds: &bounds,
                constraints: &constraints,
                dual: dual.clone(),
            };
            let problems: Vec<Subject<'_>> = duals.iter().map(problem).collect();
            let at_once = front.optimise(&problems, 0, true, &clock).unwrap();
            let later = front.optimise(&problems, 6, true, &clock).unwrap();
            let hold = |(seen, output): &(Vec<Vec<f64>>, Vec<f64>)| {
                constraints.iter().all(|constraint| match constraint {
                    Constraint::Neuron(s) if s.side == Side::Below => seen[s.layer][s.neuron] <= s.at,
                    Constraint::Neuron(s) => seen[s.layer][s.neuron] >= s.at,
                    Constraint::Output(face) => row_at(face, output) - face.slack[0] <= 0.0,
                })
            };
            for (x, seen) in inputs.iter().zip(&runs).filter(|(_, seen)| hold(seen)) {
                for solved in at_once.iter().chain(&later) {
                    let value = row_at(&row, &seen.1);
                    assert!(solved.bound <= value + 1e-12, "round {round}: {value} below {}", solved.bound);
                    // The row on the input is one below the value, too.
                    let pulled = row_at(&solved.row, x) - solved.row.slack[0];
                    assert!(pulled <= value + 1e-12, "round {round}: {value} below {pulled}");
                    checked += 1;
                }
            }
            raised += usize::from(later[1].bound > at_once[1].bound + 1e-9);
        }
        assert!(checked > 30_000 && raised > 500, "{checked} {raised}");
    }

    /// What `a + b` loses in float64, exactly.
    fn lost_by_sum(a: f64, b: f64) -> f64 {
        let sum = a + b;
        let second = sum - a;
        (a - (sum - second)) + (b - second)
    }

    /// At 1 a row is its coefficient: its slack pays for what rounding adds to that.
    #[test]
    fn multiples_of_splits_pay_for_their_rounding() {
        let mut random = fastrand::Rng::with_seed(91);
        for _ in 0..2000 {
            let (a, beta) = (random.f64(), 8.0 * random.f64());
            let mut rows = Rows::new(Support::full(Shape::flat(1)), vec![a]);
            let split = Split { layer: 0, neuron: 0, at: 0.0, side: Side::Below };
            constrain(&mut rows, 0, &split, beta, 1.0);
            let lost = lost_by_sum(a, beta);
            assert!(rows.slack[0] >= -lost, "{a} {beta}: {:e} for {lost:e}", rows.slack[0]);
            // At the threshold the constraint is 0, and the row what it was.
            let at = random.f64();
            let mut rows = Rows::new(Support::full(Shape::flat(1)), vec![a]);
            constrain(&mut rows, 0, &Split { at, ..split }, beta, at);
            let (product, offset) = (beta * at, rows.constant[0]);
            let lost = lost * at - beta.mul_add(at, -product) - (product + offset);
            assert!(rows.slack[0] >= -lost, "{a} {beta} {at}: {:e} for {lost:e}", rows.slack[0]);
        }
    }

    fn some_front(random: &mut fastrand::Rng) -> Front {
        let network = network(random);
        let n = network.input().len();
        let region = vec![BoxVec::new(vec![-1.0; n], vec![1.0; n])];
        let clock = Clock::start(Budget::default());
        let (arithmetic, form) = (Arithmetic::Real, StepForm::Difference);
        let analysis = Analysis::new(&network.body, region, Method::Tight, form, arithmetic, clock).unwrap();
        Front::new(&analysis.enclosed()).expect("there is a front")
    }

    /// One row on two inputs is one row on both, with the constants and the slack of both.
    #[test]
    fn rows_on_several_inputs_are_joined_with_all_they_owe() {
        let mut front = some_front(&mut fastrand::Rng::with_seed(93));
        let input =
            |name: &str, length| gains_core::dag::Input { name: name.into(), shape: Shape::flat(length) };
        front.circuit = Circuit::new(vec![input("a", 2), input("b", 1)]);
        front.values = [2, 1].map(|n| BoxVec::new(vec![-1.0; n], vec![1.0; n])).to_vec();
        let row = |coefficients: &[f64], constant: f64, slack: f64| {
            let mut rows = Rows::new(Support::full(Shape::flat(coefficients.len())), coefficients.to_vec());
            rows.absorb(0, constant, slack);
            rows
        };
        let mut flight = Flight::new(2, 0, row(&[1.0, 2.0], 0.25, 0.5));
        flight.add(1, row(&[3.0], -8.0, 1.0), &[]);
        let joined = front.joined_row(&flight, 0);
        assert_eq!((joined.row(0), joined.constant[0]), (&[1.0, 2.0, 3.0][..], -7.75));
        assert!(joined.slack[0] >= 1.5 && joined.slack[0] < 1.5 + 1e-12);
    }

    #[test]
    fn multiples_of_constraints_on_the_output_pay_for_their_rounding() {
        let mut random = fastrand::Rng::with_seed(92);
        let mut front = some_front(&mut random);
        front.magnitude.fill(1.0);
        let n = front.output_shape().len();
        for _ in 0..2000 {
            let (a, face, beta) = (random.f64(), 4.0 * random.f64(), 2.0 * random.f64());
            let row_of = |coefficient: f64| {
                let mut row = RowBlock::zeros(1, n);
                row.row_mut(0)[0] = coefficient;
                Arc::new(row)
            };
            let constraints = [Constraint::Output(row_of(face))];
            let dual = Dual { slopes: Vec::new(), multipliers: vec![beta] };
            let subject = Subject { row: row_of(a), bounds: &[], constraints: &constraints, dual };
            let sum = front.with_outputs(&subject, &[beta]);
            let product = beta * face;
            let lost = beta.mul_add(face, -product) + lost_by_sum(a, product);
            assert!(sum.slack[0] >= -lost, "{a} {face} {beta}: {:e} for {lost:e}", sum.slack[0]);
        }
    }
}
