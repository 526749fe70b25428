//! The encoder of a latent ODE, bound to its weights; see [`crate::description::EncoderSpec`] for what it computes.

use crate::activation::Activation;
use crate::dag::{Input, Value};
use crate::description::Points;
use crate::operator::Operator;
use crate::operator::blend::Blend;
use crate::operator::concat::Concat;
use crate::operator::slice::Slice;
use crate::operator::sum::Sum;
use crate::program::{Circuit, Program};
use crate::shape::Shape;

/// An ODE-RNN that turns a series into a latent state.
///
/// # Shapes
///
/// With `n` = [`Self::width`], `f` features and `l` = [`Self::latent_width`]: `initial` maps the statics to `2n`,
/// `dynamics` `n` to `n`, `update` and `reset` `2n + f` to `n`, `candidate` `2n + f` to `2n`, `latent` `2n` to `2l`.
#[derive(Clone, Debug)]
pub struct SeriesEncoder {
    /// From the statics to the first state.
    pub initial: Circuit,
    /// How the mean moves between observations.
    pub dynamics: Circuit,
    /// How much of the old state stays.
    pub update: Circuit,
    /// How much of the old state the candidate sees.
    pub reset: Circuit,
    /// The new state, as far as the update gate lets it in.
    pub candidate: Circuit,
    /// From the last state to the latent mean and deviation.
    pub latent: Circuit,
    /// The walk starts this long after the last point.
    pub lead: f64,
    /// Where the walk stops.
    pub points: Points,
}

/// Points closer together than this are not stepped between, as in the authors' program.
pub const SAME_TIME: f64 = 1e-8;

impl SeriesEncoder {
    /// Entries of the mean, and of the deviation.
    pub fn width(&self) -> usize {
        self.dynamics.shape(0).len()
    }

    /// Entries of an observation.
    pub fn features(&self) -> usize {
        self.update.shape(0).len().saturating_sub(2 * self.width())
    }

    /// Entries known of the series as a whole.
    pub fn statics(&self) -> usize {
        self.initial.shape(0).len()
    }

    /// Entries of the latent state.
    pub fn latent_width(&self) -> usize {
        self.latent.output_shape().len() / 2
    }

    /// The six networks, with their names.
    pub fn parts(&self) -> [(&'static str, &Circuit); 6] {
        [
            ("initial", &self.initial),
            ("dynamics", &self.dynamics),
            ("update", &self.update),
            ("reset", &self.reset),
            ("candidate", &self.candidate),
            ("latent", &self.latent),
        ]
    }

    /// Number of trained parameters.
    pub fn parameters(&self) -> usize {
        self.parts().iter().map(|(_, stack)| stack.parameters()).sum()
    }

    /// The walk through points with these times: where it stops, in order, and how far it steps to get there.
    ///
    /// `observed` says of each point whether anything is observed there. Boxes and concrete programs read the
    /// same steps, computed once in float64.
    pub fn walk(&self, times: &[f64], observed: impl Fn(usize) -> bool) -> Vec<Stop> {
        walk(times, observed, self.lead, self.points)
    }

    /// The program from a series with this walk to the outputs of a body, whose input is the latent state. Its inputs
    /// are the statics and one observation for every stop where there is one.
    pub fn unroll(&self, walk: &[Stop], body: &Program, blend: Blend) -> Unrolled {
        let points: Vec<usize> = walk.iter().filter(|stop| stop.observed).map(|stop| stop.point).collect();
        let statics = Input { name: "statics".into(), shape: Shape::flat(self.statics()) };
        let seen =
            |point: &usize| Input { name: format!("point {point}"), shape: Shape::flat(self.features()) };
        let program = Program::new(std::iter::once(statics).chain(points.iter().map(seen)).collect());
        let mut unrolling = Unrolling { encoder: self, program, blend };
        let mut state = unrolling.initial();
        let mut next_input = 1;
        for stop in walk {
            if stop.step != 0.0 {
                state = unrolling.euler(state, stop.step);
            }
            if stop.observed {
                state = unrolling.update(state, next_input);
                next_input += 1;
            }
        }
        let latent = unrolling.latent(state);
        let mut program = unrolling.program;
        program.append(body, &[latent]);
        Unrolled { program, points, latent }
    }
}

/// A forecasting network for series of one walk.
#[derive(Clone, Debug)]
pub struct Unrolled {
    /// From the statics and the observations to the outputs.
    pub program: Program,
    /// The point of the series behind every input but the first.
    pub points: Vec<usize>,
    /// The latent state.
    pub latent: Value,
}

/// Mean and deviation.
#[derive(Clone, Copy)]
struct State {
    mean: Value,
    deviation: Value,
}

/// An encoder on its way into a program.
struct Unrolling<'a> {
    encoder: &'a SeriesEncoder,
    program: Program,
    blend: Blend,
}

impl Unrolling<'_> {
    fn push(&mut self, operator: Operator, from: Vec<Value>, length: usize) -> Value {
        self.program.push(operator.into(), from, Shape::flat(length))
    }

    /// Both halves of a state, the second as its absolute value.
    fn halves(&mut self, state: Value) -> State {
        let length = self.encoder.width();
        let mean = self.push(Operator::Slice(Slice { first: 0, length }), vec![state], length);
        let second = self.push(Operator::Slice(Slice { first: length, length }), vec![state], length);
        let deviation = self.push(Operator::Curve(Activation::Absolute), vec![second], length);
        State { mean, deviation }
    }

    fn initial(&mut self) -> State {
        let state = self.program.append(&self.encoder.initial, &[0]);
        self.halves(state)
    }

    /// `mean + step·dynamics(mean)`.
    fn euler(&mut self, state: State, step: f64) -> State {
        let slope = self.program.append(&self.encoder.dynamics, &[state.mean]);
        let sum = Operator::Sum(Sum { coefficients: vec![1.0, step] });
        State { mean: self.push(sum, vec![state.mean, slope], self.encoder.width()), ..state }
    }

    /// The gated update with one observation.
    fn update(&mut self, State { mean, deviation }: State, seen: Value) -> State {
        let (width, all) = (self.encoder.width(), 2 * self.encoder.width() + self.encoder.features());
        let before = self.push(Operator::Concat(Concat), vec![mean, deviation, seen], all);
        let update = self.program.append(&self.encoder.update, &[before]);
        let reset = self.program.append(&self.encoder.reset, &[before]);
        let shown = [mean, deviation].map(|v| self.push(Operator::Product, vec![reset, v], width));
        let shown = self.push(Operator::Concat(Concat), vec![shown[0], shown[1], seen], all);
        let candidate = self.program.append(&self.encoder.candidate, &[shown]);
        let new = self.halves(candidate);
        let blend = Operator::Blend(self.blend);
        State {
            mean: self.push(blend.clone(), vec![update, new.mean, mean], width),
            deviation: self.push(blend, vec![update, new.deviation, deviation], width),
        }
    }

    fn latent(&mut self, State { mean, deviation }: State) -> Value {
        let state = self.push(Operator::Concat(Concat), vec![mean, deviation], 2 * self.encoder.width());
        let both = self.program.append(&self.encoder.latent, &[state]);
        let length = self.encoder.latent_width();
        self.push(Operator::Slice(Slice { first: 0, length }), vec![both], length)
    }
}

/// See [`SeriesEncoder::walk`].
pub fn walk(times: &[f64], observed: impl Fn(usize) -> bool, lead: f64, points: Points) -> Vec<Stop> {
    let stops = |&point: &usize| points == Points::All || observed(point);
    let mut visited = (0..times.len()).rev().filter(stops).peekable();
    let Some(&last) = visited.peek() else { return Vec::new() };
    let mut previous = times[last] + lead;
    let mut walk = Vec::new();
    for point in visited {
        let step = times[point] - previous;
        let step = if step.abs() >= SAME_TIME { step } else { 0.0 };
        walk.push(Stop { point, step, observed: observed(point) });
        // Points at the same time are seen from the same place.
        if step != 0.0 {
            previous = times[point];
        }
    }
    walk
}

/// A stop on the walk through a series.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Stop {
    /// The point.
    pub point: usize,
    /// The Euler step that leads there, backwards in time and so negative; 0 where none is taken.
    pub step: f64,
    /// Whether anything is observed there, so that the state is updated.
    pub observed: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encoder(points: Points) -> SeriesEncoder {
        let empty = |length| Circuit::of("x", Shape::flat(length));
        SeriesEncoder {
            initial: empty(2),
            dynamics: empty(1),
            update: empty(3),
            reset: empty(3),
            candidate: empty(3),
            latent: empty(2),
            lead: 0.25,
            points,
        }
    }

    #[test]
    fn the_walk_goes_backwards_and_stops_where_it_should() {
        let times = [0.0, 0.5, 0.5, 0.75, 1.0];
        let observed = |point: usize| point < 3;
        let steps = |points| {
            let walk = encoder(points).walk(&times, observed);
            walk.iter().map(|stop| (stop.point, stop.step, stop.observed)).collect::<Vec<_>>()
        };
        assert_eq!(steps(Points::Observed), [(2, -0.25, true), (1, 0.0, true), (0, -0.5, true)]);
        let all = [(4, -0.25, false), (3, -0.25, false), (2, -0.25, true), (1, 0.0, true), (0, -0.5, true)];
        assert_eq!(steps(Points::All), all);
    }

    #[test]
    fn nothing_observed_is_no_walk() {
        assert!(encoder(Points::Observed).walk(&[0.0, 1.0], |_| false).is_empty());
        assert!(encoder(Points::All).walk(&[], |_| true).is_empty());
        assert_eq!(encoder(Points::All).walk(&[0.0, 1.0], |_| false).len(), 2);
    }
}
