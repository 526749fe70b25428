//! Elementwise functions of affine forms: on their own, or as a change from an evaluation nearby.

use crate::affine_form::{AffineForm, Passing, Symbols};
use crate::arithmetic::{Arithmetic, TINY, up};
use crate::interval::{BoxVec, Interval};
use crate::relaxation::{Line, LowerSlope, Relaxation, envelope};

use crate::activation::Activation;

/// How far `line` and `slope·x` may be apart at `x`, rounded down and up.
fn gap(line: Line, slope: f64, x: f64) -> (f64, f64) {
    let value = (line.slope - slope) * x + line.intercept;
    let owed =
        8.0 * f64::EPSILON * ((line.slope.abs() + slope.abs()) * x.abs() + line.intercept.abs()) + TINY;
    (value - owed, value + owed)
}

/// `slope·x + offset ± radius` around everything between two lines over an interval, and `error` more.
fn between(lines: Relaxation, x: Interval, error: f64) -> Passing {
    let slope = 0.5 * lines.lower.slope + 0.5 * lines.upper.slope;
    let low = gap(lines.lower, slope, x.lower).0.min(gap(lines.lower, slope, x.upper).0) - error;
    let high = gap(lines.upper, slope, x.lower).1.max(gap(lines.upper, slope, x.upper).1) + error;
    strip(slope, low, high)
}

/// `slope·x + [low, high]`.
fn strip(slope: f64, low: f64, high: f64) -> Passing {
    let offset = 0.5 * low + 0.5 * high;
    let radius = up(up((high - offset).max(offset - low)));
    Passing { slope, offset, radius, ..Passing::default() }
}

/// One activation on its own: exact where a ReLU is stable; else the strip of smallest area, for ReLU and
/// its like below the chord and above the parallel through the origin (convex, with derivatives on both sides
/// of the chord's slope).
fn alone(activation: Activation, x: Interval, arithmetic: Arithmetic) -> Passing {
    let relu = activation == Activation::Relu;
    if relu && x.upper <= 0.0 {
        return Passing::default();
    }
    if relu && x.lower >= 0.0 {
        return Passing { slope: 1.0, ..Passing::default() };
    }
    if let Activation::Smooth(f) = activation {
        let (slope, low, high) = envelope::strip(f, x, arithmetic);
        return strip(slope, low, high);
    }
    let lines = Relaxation::new(activation, x, LowerSlope::MinArea, arithmetic);
    match activation {
        Activation::Relu | Activation::LeakyRelu { .. } | Activation::Absolute
            if x.lower < 0.0 && x.upper > 0.0 =>
        {
            let error = activation.evaluation_error(x, x.magnitude(), arithmetic);
            strip(lines.upper.slope, -error, lines.upper.intercept)
        }
        _ => between(lines, x, 0.0),
    }
}

/// One activation on its own, beside its chord: what certificates of affine forms speak of, where other rules go without saying. For
/// functions that bend at 0 only, chords leave less open than `alone` besides.
fn beside_chord(activation: Activation, x: Interval) -> Passing {
    let (l, u) = (x.lower, x.upper);
    let chord = (activation.value(u) - activation.value(l)) / (u - l);
    let chord = if chord.is_finite() { chord } else { activation.derivative_range(x).lower };
    let rest = |p: f64| gap(Line { slope: 0.0, intercept: activation.value(p) }, chord, p);
    let (low, high) = match activation {
        Activation::Smooth(f) => envelope::strip_along(f, chord, x),
        Activation::Sigmoid | Activation::Tanh => {
            // Where the derivative is that of the chord, on both sides of 0.
            let far = match activation {
                Activation::Tanh => (1.0 - chord).max(0.0).sqrt().atanh(),
                _ => 2.0 * (1.0 - 4.0 * chord).max(0.0).sqrt().atanh(),
            };
            let points = [l, u, (-far).clamp(l, u), far.clamp(l, u)].map(rest);
            let least = points.iter().map(|(low, _)| *low).fold(f64::INFINITY, f64::min);
            (least, points.iter().map(|(_, high)| *high).fold(f64::NEG_INFINITY, f64::max))
        }
        _ => return alone(activation, x, Arithmetic::Real),
    };
    strip(chord, low, high)
}

/// Passes a form through an activation, as a change from an earlier evaluation where that leaves less open. What is known of an
/// open entry only up to a distance goes into its symbol.
pub(in super::super) fn form(
    activation: Activation,
    x: &AffineForm,
    earlier: Option<(&AffineForm, &AffineForm)>,
    arithmetic: Arithmetic,
    symbols: &mut Symbols,
) -> AffineForm {
    let passing = (0..x.len()).map(|j| alone(activation, x.bounds.get(j), arithmetic)).collect();
    let (image, mut passing) = choose(activation, x, earlier, arithmetic, passing);
    passing.iter_mut().for_each(|passing| passing.named = true);
    x.pass(&passing, image, earlier, symbols)
}

/// How much wider strips of certificates are than they need be: another program's own, found by other means, may be so much wider, and
/// what it loses by that would grow from step to step.
const ROOM: f64 = 1e-6;

/// The same in exact arithmetic beside chords, and which entries pass as changes. By the rules of certificates remainders stay what they are.
pub(in super::super) fn form_by_chords(
    activation: Activation,
    x: &AffineForm,
    earlier: Option<(&AffineForm, &AffineForm)>,
    symbols: &mut Symbols,
) -> (AffineForm, Vec<bool>) {
    let passing = (0..x.len()).map(|j| beside_chord(activation, x.bounds.get(j))).collect();
    let (image, mut passing) = choose(activation, x, earlier, Arithmetic::Real, passing);
    passing.iter_mut().for_each(|passing| passing.radius *= 1.0 + ROOM);
    let changes = passing.iter().map(|passing| passing.as_change).collect();
    (x.pass(&passing, image, earlier, symbols), changes)
}

/// The image of a form, and how its entries pass: as `passing` says, or as a change where that leaves less open.
fn choose(
    activation: Activation,
    x: &AffineForm,
    earlier: Option<(&AffineForm, &AffineForm)>,
    arithmetic: Arithmetic,
    mut passing: Vec<Passing>,
) -> (BoxVec, Vec<Passing>) {
    let image = activation.image_box(&x.bounds, arithmetic);
    if let Some((input, output)) = earlier {
        let open: Vec<usize> = (0..x.len()).filter(|&j| passing[j].radius > 0.0).collect();
        for (&j, d) in open.iter().zip(x.apart(input, &open)) {
            let (now, then) = (x.bounds.get(j), input.bounds.get(j));
            let hull = Interval::new(now.lower.min(then.lower), now.upper.max(then.upper));
            let error = activation.evaluation_error(now, image.get(j).magnitude(), arithmetic)
                + activation.evaluation_error(then, output.bounds.get(j).magnitude(), arithmetic);
            let everything = Interval::new(f64::NEG_INFINITY, f64::INFINITY);
            let lines = Relaxation::of_difference(activation.derivative_range(hull), d, everything);
            let change = between(lines, d, error);
            let vague = x.remainder[j] + input.remainder[j];
            let alone = passing[j].radius + x.remainder[j];
            if change.radius + change.slope.abs() * vague + output.remainder[j] < alone {
                passing[j] = Passing { as_change: true, ..change };
            }
        }
    }
    (image, passing)
}
