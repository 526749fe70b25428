//! The encoder of a latent ODE, bound to its weights; see [`crate::description::EncoderSpec`] for what it computes.

use crate::description::Points;
use crate::network::Stack;

/// An ODE-RNN that turns a series into a latent state.
///
/// # Shapes
///
/// With `n` = [`Self::width`], `f` features and `l` = [`Self::latent_width`]: `initial` maps the statics to `2n`,
/// `dynamics` `n` to `n`, `update` and `reset` `2n + f` to `n`, `candidate` `2n + f` to `2n`, `latent` `2n` to `2l`.
#[derive(Clone, Debug)]
pub struct SeriesEncoder {
    /// From the statics to the first state.
    pub initial: Stack,
    /// How the mean moves between observations.
    pub dynamics: Stack,
    /// How much of the old state stays.
    pub update: Stack,
    /// How much of the old state the candidate sees.
    pub reset: Stack,
    /// The new state, as far as the update gate lets it in.
    pub candidate: Stack,
    /// From the last state to the latent mean and deviation.
    pub latent: Stack,
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
        self.dynamics.input.len()
    }

    /// Entries of an observation.
    pub fn features(&self) -> usize {
        self.update.input.len().saturating_sub(2 * self.width())
    }

    /// Entries known of the series as a whole.
    pub fn statics(&self) -> usize {
        self.initial.input.len()
    }

    /// Entries of the latent state.
    pub fn latent_width(&self) -> usize {
        self.latent.output().len() / 2
    }

    /// The six networks, with their names.
    pub fn parts(&self) -> [(&'static str, &Stack); 6] {
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
    use crate::shape::Shape;

    fn encoder(points: Points) -> SeriesEncoder {
        let empty = |length| Stack { input: Shape::flat(length), layers: Vec::new() };
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
