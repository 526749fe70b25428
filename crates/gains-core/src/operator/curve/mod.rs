//! Elementwise functions as operators; what they are is in [`crate::activation`], their lines in
//! [`crate::relaxation`].

mod form;

pub(super) use form::{form, form_by_chords};

use crate::arithmetic::{Arithmetic, down_product, up_product};
use crate::interval::{BoxVec, Interval};
use crate::relaxation::{Lines, LowerSlope, Relaxation};
use crate::rows::Rows;
use crate::support::Support;

use super::{ChangeKnown, Changing};
use crate::activation::Activation;

/// An elementwise function of known arguments.
#[derive(Clone, Debug)]
pub struct CurveKnown {
    /// The function.
    pub activation: Activation,
    /// The entries rows may have coefficients on.
    pub on: Support,
    /// The arguments there.
    pub before: BoxVec,
}

impl CurveKnown {
    pub(super) fn new(activation: Activation, before: &BoxVec, on: Support) -> Self {
        let before = on.cut_box(before);
        Self { activation, on, before }
    }

    pub(super) fn bytes(&self) -> usize {
        20 * self.before.len()
    }

    /// The same rows on entries whose arguments are known: all, or a part of the whole.
    pub(super) fn placed(&self, rows: Rows) -> Rows {
        match &self.on {
            Support::Entries { entries, .. } => rows.onto(entries),
            Support::Window(_) => rows,
        }
    }

    /// Lines for all known arguments.
    pub fn lines(&self, policy: LowerSlope, arithmetic: Arithmetic) -> Lines {
        Lines::for_box(self.activation, &self.before, policy, arithmetic)
    }

    /// Lines with lower slopes given as numbers, one per entry of the whole.
    pub fn lines_with(&self, slopes: &[f32], arithmetic: Arithmetic) -> Lines {
        Lines::with_slopes(self.activation, &self.before, &self.on.cut(slopes), arithmetic)
    }

    /// Both choices of [`Relaxation::pair`].
    pub fn pair(&self, arithmetic: Arithmetic) -> [Lines; 2] {
        let all: Vec<[Relaxation; 2]> = (0..self.before.len())
            .map(|i| Relaxation::pair(self.activation, self.before.get(i), arithmetic))
            .collect();
        [0, 1].map(|k| all.iter().map(|pair| pair[k]).collect())
    }
}

/// The smallest interval around both.
fn hull(a: &BoxVec, b: &BoxVec, i: usize) -> Interval {
    Interval::new(a.lower[i].min(b.lower[i]), a.upper[i].max(b.upper[i]))
}

/// What evaluating the function may be off in both evaluations.
fn error(activation: Activation, c: &Changing<'_>, i: usize) -> f64 {
    let one = |(x, y): (&[&BoxVec], &BoxVec)| {
        activation.evaluation_error(x[0].get(i), y.get(i).magnitude(), c.arithmetic)
    };
    one(c.after) + one(c.before)
}

/// `f(after) − f(before) = f'(ξ)·(after − before)` for some ξ between the two (mean value theorem; for a kink, some
/// slope between the one-sided ones); also the difference of the values themselves.
pub(super) fn change(activation: Activation, c: &Changing<'_>) -> BoxVec {
    let d = c.apart[0];
    let mut out = BoxVec::collect(d.len(), |i| {
        let slope = activation.derivative_range(hull(c.before.0[0], c.after.0[0], i));
        scaled(slope, d.get(i))
    });
    out.widen(|i| error(activation, c, i));
    out.meet(&c.after.1.apart(c.before.1));
    out
}

/// A slope times a change, exact where the slope is 0 or 1.
fn scaled(slope: Interval, d: Interval) -> Interval {
    let product = |factor: f64, x: f64, round: fn(f64) -> f64| match factor {
        0.0 => 0.0,
        1.0 => x,
        _ => round(factor * x),
    };
    let (low, high) = (d.lower, d.upper);
    if slope.lower >= 0.0 {
        return Interval::new(
            product(if low >= 0.0 { slope.lower } else { slope.upper }, low, down_product),
            product(if high >= 0.0 { slope.upper } else { slope.lower }, high, up_product),
        );
    }
    let ends = |round: fn(f64) -> f64| {
        [(slope.lower, low), (slope.lower, high), (slope.upper, low), (slope.upper, high)]
            .map(|(m, d)| product(m, d, round))
    };
    let least = crate::interval::hull_of(ends(down_product)).lower;
    Interval::new(least, crate::interval::hull_of(ends(up_product)).upper)
}

/// Lines in the change of the argument.
pub(super) fn known_change(
    activation: Activation,
    c: &Changing<'_>,
    moved: &BoxVec,
    on: Support,
) -> ChangeKnown {
    let one = |&i: &u32| {
        let i = i as usize;
        let slopes = activation.derivative_range(hull(c.before.0[0], c.after.0[0], i));
        Relaxation::of_difference(slopes, c.apart[0].get(i), moved.get(i)).widened(error(activation, c, i))
    };
    let lines = on.indices().iter().map(one).collect();
    ChangeKnown { on, lines: vec![lines] }
}
