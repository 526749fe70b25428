//! A problem: does a property hold of a program for every input of a region?

use gains_core::arithmetic::{down, up};
use gains_core::{BoxVec, Interval, Network, Precision, Program};

use crate::ball::{Ball, Norm};
use crate::property::Property;

/// One value for each input of a program.
pub type Point = Vec<Vec<f64>>;

/// A set of inputs: one box for each input of a program, and perhaps a ball in the first of them.
#[derive(Clone, Debug, PartialEq)]
pub struct Region {
    /// Holds all inputs considered, rounded outwards.
    pub outer: Vec<BoxVec>,
    /// Rounded inwards: what is in here, and in the ball, is certainly considered.
    pub inner: Vec<BoxVec>,
    /// The size of the perturbations, for the steps of attacks.
    pub radius: f64,
    /// Only points of this ball are considered, where there is one. The boxes hold it.
    pub ball: Option<Ball>,
    /// How long a step of an attack is along every entry of the first input, relative to the longest; empty where all
    /// are as long as the attack says.
    pub paces: Vec<f64>,
}

impl Region {
    /// All points within `radius` of `centre` (max norm), entries kept inside `range`.
    pub fn ball(centre: &[f64], radius: f64, range: Interval) -> Self {
        let shrink = |x: f64, bound: f64| if bound.is_nan() { x } else { bound };
        let inner = BoxVec::new(
            centre.iter().map(|&x| shrink(x, up(x - radius).max(range.lower).min(x))).collect(),
            centre.iter().map(|&x| shrink(x, down(x + radius).min(range.upper).max(x))).collect(),
        );
        let outer = vec![BoxVec::ball(centre, radius, range)];
        Self { outer, inner: vec![inner], radius, ball: None, paces: Vec::new() }
    }

    /// All points each of whose entries is within its own radius of the centre and inside its own range, or in the ball
    /// of another norm that has these radii as scales. A radius of 0 keeps an entry as it is; one of the centre that is
    /// out of its range may move towards it.
    pub fn around(centre: &[f64], radii: &[f64], ranges: &[Interval], norm: Norm) -> Self {
        let wide = |i: usize| {
            let (x, radius, range) = (centre[i], radii[i], ranges[i]);
            match radius == 0.0 {
                true => Interval::point(x),
                false => Interval::new(
                    down(x - radius).max(range.lower).min(x),
                    up(x + radius).min(range.upper).max(x),
                ),
            }
        };
        let narrow = |i: usize| {
            let (x, radius, range) = (centre[i], radii[i], ranges[i]);
            let reach = if radius.is_finite() { radius } else { 0.0 };
            Interval::new(up(x - reach).max(range.lower).min(x), down(x + reach).min(range.upper).max(x))
        };
        let radius = radii.iter().copied().fold(0.0, f64::max);
        Self {
            outer: vec![BoxVec::collect(centre.len(), wide)],
            inner: vec![BoxVec::collect(centre.len(), narrow)],
            radius,
            ball: Ball::new(norm, centre, radii),
            paces: paces(radii),
        }
    }

    /// A box for each input, as given.
    pub fn boxes(boxes: Vec<BoxVec>) -> Self {
        let half = |b: &BoxVec| 0.5 * b.width();
        let radius = boxes.iter().map(half).fold(0.0, f64::max);
        Self { inner: boxes.clone(), outer: boxes, radius, ball: None, paces: Vec::new() }
    }

    /// The same with steps of attacks in proportion to the sides of the first input's box.
    #[must_use]
    pub fn paced(mut self) -> Self {
        let sides = |b: &BoxVec| b.lower.iter().zip(&b.upper).map(|(l, u)| u - l).collect::<Vec<_>>();
        self.paces = self.inner.first().map_or(Vec::new(), |b| paces(&sides(b)));
        self
    }

    /// The same for a program that rounds its inputs to float32 before it starts: whatever the inputs considered are
    /// rounded to, and the nominal ones, is considered too.
    #[must_use]
    pub fn rounded_to_float32(mut self, nominal: &Point) -> Self {
        let rounded = |x: f64| f64::from(x as f32);
        for (outer, nominal) in self.outer.iter_mut().zip(nominal) {
            for (i, x) in nominal.iter().enumerate() {
                outer.lower[i] = outer.lower[i].min(rounded(outer.lower[i])).min(rounded(*x));
                outer.upper[i] = outer.upper[i].max(rounded(outer.upper[i])).max(rounded(*x));
            }
        }
        let magnitudes = self.outer.first().map_or(Vec::new(), BoxVec::magnitudes);
        self.ball = self.ball.map(|ball| ball.rounded_to_float32(&magnitudes));
        self
    }

    /// Whether a point is certainly inside.
    pub fn contains(&self, point: &Point) -> bool {
        point.len() == self.inner.len()
            && self.inner.iter().zip(point).all(|(b, x)| b.contains(x))
            && self.ball.as_ref().is_none_or(|ball| point.first().is_some_and(|x| ball.contains(x)))
    }

    /// Takes a point a step along the signs of gradients; in a ball, along the gradient itself.
    pub fn walk(&self, point: &mut Point, gradients: &Point, step: f64) {
        if let (Some(ball), Some(x), Some(g)) = (&self.ball, point.first_mut(), gradients.first()) {
            let longest = self.radius.max(f64::MIN_POSITIVE);
            for (x, d) in x.iter_mut().zip(ball.steepest(g)) {
                *x += step / longest * d;
            }
            return;
        }
        for (x, g) in point.iter_mut().zip(gradients) {
            for (i, (x, g)) in x.iter_mut().zip(g).enumerate() {
                if *g != 0.0 {
                    let pace = self.paces.get(i).copied().unwrap_or(1.0);
                    *x += step * pace * g.signum();
                }
            }
        }
    }

    /// Takes a point a part of the region's extent along the signs of gradients; in a ball, along the gradient itself.
    pub fn stride(&self, point: &mut Point, gradients: &Point, part: f64) {
        if self.ball.is_some() {
            return self.walk(point, gradients, part * self.radius);
        }
        for ((values, gradient), allowed) in point.iter_mut().zip(gradients).zip(&self.inner) {
            for (i, (x, g)) in values.iter_mut().zip(gradient).enumerate() {
                if *g != 0.0 {
                    *x += 0.5 * part * (allowed.upper[i] - allowed.lower[i]) * g.signum();
                }
            }
        }
    }

    /// Rounds a point to the program's format without leaving the region.
    pub fn settle(&self, point: &mut Point, precision: Precision) {
        if let (Some(ball), Some(values)) = (&self.ball, point.first_mut()) {
            // The box is convex and holds the centre, so that the way there stays in it.
            let allowed = &self.inner[0];
            for (i, x) in values.iter_mut().enumerate() {
                *x = x.clamp(allowed.lower[i], allowed.upper[i]);
            }
            ball.project(values);
            if precision == Precision::Float32 {
                values.iter_mut().enumerate().for_each(|(i, x)| *x = ball.rounded(i, *x));
            }
            return;
        }
        for (values, allowed) in point.iter_mut().zip(&self.inner) {
            for (i, x) in values.iter_mut().enumerate() {
                *x = x.clamp(allowed.lower[i], allowed.upper[i]);
                if precision == Precision::Float32 {
                    let mut rounded = *x as f32;
                    if f64::from(rounded) > allowed.upper[i] {
                        rounded = rounded.next_down();
                    }
                    if f64::from(rounded) < allowed.lower[i] {
                        rounded = rounded.next_up();
                    }
                    *x = f64::from(rounded);
                }
            }
        }
    }
}

/// Lengths relative to the longest.
fn paces(lengths: &[f64]) -> Vec<f64> {
    let longest = lengths.iter().copied().fold(0.0, f64::max);
    let share = |length: &f64| if longest > 0.0 && longest.is_finite() { length / longest } else { 1.0 };
    lengths.iter().map(share).collect()
}

/// A program, a region of its inputs, a property of its outputs, and a point of the region.
#[derive(Clone, Debug)]
pub struct Problem<'a> {
    /// The program.
    pub program: &'a Program,
    /// The inputs considered.
    pub region: Region,
    /// What must hold of the outputs.
    pub property: Property,
    /// The sample the region was made around.
    pub nominal: Point,
    /// The program's outputs there, if they have been computed in the arithmetic the problem is about.
    pub output: Option<Vec<f64>>,
}

impl<'a> Problem<'a> {
    /// Whether all images within `eps` of one, pixels kept inside `range`, are classified as `label`.
    pub fn classification(
        network: &'a Network,
        image: &[f64],
        label: usize,
        eps: f64,
        range: Interval,
    ) -> Self {
        Self {
            program: &network.body,
            region: Region::ball(image, eps, range),
            property: Property::classification(network.outputs(), label),
            nominal: vec![image.to_vec()],
            output: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ANYWHERE: Interval = Interval::new(f64::NEG_INFINITY, f64::INFINITY);

    /// One radius for all is the ball of the largest entry, to the last bit.
    #[test]
    fn radii_of_all_entries_make_the_same_boxes() {
        let mut random = fastrand::Rng::with_seed(3);
        for case in 0..200 {
            let centre: Vec<f64> = (0..5).map(|_| random.f64()).collect();
            let radius = 10_f64.powi(-(case % 17)) * random.f64();
            let range = Interval::new(0.0, 1.0);
            let plain = Region::ball(&centre, radius, range);
            let own = Region::around(&centre, &[radius; 5], &[range; 5], Norm::Infinity);
            assert_eq!((&own.outer, &own.inner), (&plain.outer, &plain.inner));
            assert_eq!((own.radius, own.ball.is_none()), (plain.radius, true));
        }
    }

    /// A corner of the box around a ball is no witness.
    #[test]
    fn a_region_with_a_ball_holds_nothing_outside_of_it() {
        for norm in [Norm::Two, Norm::One] {
            let region = Region::around(&[0.5, 0.5], &[0.1; 2], &[ANYWHERE; 2], norm);
            assert!(
                region.contains(&vec![vec![0.5, 0.55]]) && region.contains(&vec![vec![0.54, 0.54]]),
                "{norm}"
            );
            assert!(
                region.inner[0].contains(&[0.59, 0.59]) && !region.contains(&vec![vec![0.59, 0.59]]),
                "{norm}"
            );
        }
    }

    #[test]
    fn entries_move_within_their_own_radius_and_range() {
        let ranges = [ANYWHERE, Interval::new(0.0, 1.0), ANYWHERE];
        let region = Region::around(&[0.1, 0.9, 0.3], &[0.5, 0.5, 0.0], &ranges, Norm::Infinity);
        let outer = &region.outer[0];
        assert!(outer.lower[0] <= -0.4 && outer.lower[0] > -0.4000001 && outer.upper[0] >= 0.6);
        assert_eq!((outer.upper[1], outer.get(2)), (1.0, Interval::point(0.3)));
        assert_eq!(region.paces, [1.0, 1.0, 0.0]);
        let mut point = vec![vec![0.1, 0.9, 0.3]];
        region.walk(&mut point, &vec![vec![1.0, -2.0, 5.0]], 0.25);
        assert_eq!(point, [vec![0.35, 0.65, 0.3]]);
        let unknown = Region::around(&[0.1], &[f64::NAN], &[ANYWHERE], Norm::Two);
        assert!(!unknown.outer[0].is_sane() && unknown.inner[0].get(0) == Interval::point(0.1));
    }

    #[test]
    fn what_is_outside_of_the_ball_is_not_considered() {
        for precision in [Precision::Float64, Precision::Float32] {
            for norm in [Norm::Two, Norm::One] {
                let centre = [0.1, 0.9, 0.25];
                let ranges = [Interval::new(0.0, 1.0); 3];
                let region = Region::around(&centre, &[0.5, 0.25, 0.0], &ranges, norm);
                let corner = vec![vec![0.6, 0.65, 0.25]];
                assert!(region.inner[0].contains(&[0.59, 0.66, 0.25]) && !region.contains(&corner));
                let mut point = vec![vec![7.0, -7.0, 1.0]];
                region.settle(&mut point, precision);
                assert!(region.contains(&point), "{norm} {point:?}");
                assert!(point[0][0] > 0.2 && point[0][1] < 0.85, "it went as far as it could: {point:?}");
            }
        }
    }

    /// Whatever a float32 program makes of an input of the region is in the region it is analysed on.
    #[test]
    fn inputs_that_are_rounded_stay_considered() {
        let (centre, ranges) = ([0.1, -3.7], [ANYWHERE; 2]);
        for radius in [0.0, 1e-12, 0.3] {
            let region = Region::around(&centre, &[radius; 2], &ranges, Norm::Infinity);
            let wide = region.clone().rounded_to_float32(&vec![centre.to_vec()]);
            for ends in [&region.outer[0].lower, &region.outer[0].upper, &centre.to_vec()] {
                let rounded: Vec<f64> = ends.iter().map(|x| f64::from(*x as f32)).collect();
                assert!(wide.outer[0].contains(&rounded) && wide.outer[0].contains(ends), "{radius}");
            }
        }
    }
}
