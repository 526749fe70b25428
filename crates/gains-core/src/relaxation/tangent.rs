//! Tangents of sigmoid and tanh, for intervals that are neither tiny nor on one side of zero.

use super::{Line, Relaxation};
use crate::activation::Activation;
use crate::arithmetic::{Arithmetic, TINY, down_product, up};
use crate::interval::Interval;

/// Halvings of the interval in which the point of contact is sought.
const HALVINGS: usize = 12;

impl Relaxation {
    /// Relaxes sigmoid or tanh with tangents: the line below touches the function in the middle of the interval,
    /// or as far right as it may without crossing it at the upper end; the line above is the mirror image. Other
    /// activations are relaxed as by [`Relaxation::new`].
    ///
    /// Both functions are symmetric about zero, convex left of it and concave right of it.
    pub fn tangent(activation: Activation, x: Interval, arithmetic: Arithmetic) -> Self {
        // f(x) + f(−x), the same for all x.
        let sum = match activation {
            Activation::Sigmoid => 1.0,
            Activation::Tanh => 0.0,
            _ => return Self::new(activation, x, super::LowerSlope::MinArea, arithmetic),
        };
        let lower = below(activation, x, arithmetic);
        let mirrored = below(activation, Interval::new(-x.upper, -x.lower), arithmetic);
        let upper = Line { slope: mirrored.slope, intercept: up(sum - mirrored.intercept) };
        Self { lower, upper, magnitude: x.magnitude() }
    }
}

/// A line below `f` on `[l, u]`, as the program may evaluate `f`.
///
/// For a slope `m ≥ 0`, `f(x) − m·x` is concave right of zero, so there it is least at zero or at `u`. Left of zero it
/// is convex: where `f' (l) ≥ m` it grows from `l` on; otherwise it lies above its tangent in `p`, where `f'(p)` is
/// `m` up to the rounding of the derivative, which may tilt the tangent by as much over the length of the interval.
fn below(f: Activation, x: Interval, arithmetic: Arithmetic) -> Line {
    let Interval { lower: l, upper: u } = x;
    let (at_l, at_u) = (f.value(l), f.value(u));
    let error = f.evaluation_error(x, 1.0, arithmetic);
    // At slope `m`, f(end) − m·end, rounded down.
    let rest = |value: f64, slope: f64, end: f64| {
        let product = slope * end;
        down_product(value - error - product - 2.0 * f64::EPSILON * product.abs())
    };
    let chord = (at_u - at_l) / (u - l);
    let chord_usable = u - l > 1e-9 * x.magnitude().max(1e-9) && chord.is_finite() && chord > TINY;
    if l >= 0.0 {
        // Concave: the chord.
        let slope = if chord_usable { chord } else { usable(f.derivative(u)) };
        return Line { slope, intercept: rest(at_l, slope, l).min(rest(at_u, slope, u)) };
    }
    let crosses = |p: f64| f.value(p) + f.derivative(p) * (u - p) > at_u;
    let mut contact = (0.5 * l + 0.5 * u).min(0.0);
    if crosses(contact) {
        let (mut good, mut bad) = (l, contact);
        for _ in 0..HALVINGS {
            let middle = 0.5 * good + 0.5 * bad;
            if crosses(middle) { bad = middle } else { good = middle }
        }
        contact = good;
    }
    if contact == l && crosses(l) && chord_usable {
        // Even the tangent at the lower end crosses: steeper than the chord everywhere left of zero.
        let slope = chord.min(f.derivative(l) * (1.0 - 256.0 * f64::EPSILON));
        return Line { slope, intercept: rest(at_l, slope, l).min(rest(at_u, slope, u)) };
    }
    let slope = usable(f.derivative(contact));
    let tilt = 512.0 * f64::EPSILON * slope * (u - l) + TINY * (u - l);
    let touching = rest(f.value(contact), slope, contact) - tilt - f64::EPSILON * tilt;
    Line { slope, intercept: down_product(touching).min(rest(at_u, slope, u)) }
}

/// A slope whose products do not underflow; flatter ones become 0, which is sound with the intercepts above.
fn usable(slope: f64) -> f64 {
    if slope < TINY { 0.0 } else { slope }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::relaxation::LowerSlope;

    fn ends() -> Vec<f64> {
        let mut ends = vec![0.0, 5e-324, 1e-300, 1e-12, 1e-3, 0.5, 40.0, 800.0, 1e9, 1e20];
        ends.extend((1..=40).map(|i| 0.2 * f64::from(i)));
        let negative: Vec<f64> = ends.iter().map(|x| -x).collect();
        ends.extend(negative);
        ends.sort_by(f64::total_cmp);
        ends
    }

    #[test]
    fn tangents_stay_on_their_side_on_a_grid_of_intervals() {
        let ends = ends();
        for activation in [Activation::Sigmoid, Activation::Tanh] {
            for (i, &l) in ends.iter().enumerate() {
                for &u in &ends[i..] {
                    let r = Relaxation::tangent(activation, Interval::new(l, u), Arithmetic::Real);
                    let spread = (0..=60).map(|k| l + (u - l) * f64::from(k) / 60.0);
                    let near = (-60..=60).map(|k| 0.15 * f64::from(k));
                    for x in spread.chain(near).filter(|x| l <= *x && *x <= u) {
                        let y = activation.value(x);
                        let low = r.lower.slope * x + r.lower.intercept;
                        let high = r.upper.slope * x + r.upper.intercept;
                        let rounding =
                            4.0 * f64::EPSILON * (r.lower.slope * x).abs().max(r.upper.slope * x.abs());
                        assert!(low <= y + rounding, "{activation} [{l}, {u}] at {x}: {low} > {y}");
                        assert!(high >= y - rounding, "{activation} [{l}, {u}] at {x}: {high} < {y}");
                    }
                }
            }
        }
    }

    #[test]
    fn tangents_leave_less_area_than_the_lines_through_the_ends() {
        let area = |r: &Relaxation, x: Interval| {
            let at = |line: Line| line.slope * 0.5 * (x.lower + x.upper) + line.intercept;
            at(r.upper) - at(r.lower)
        };
        for (l, u) in [(-2.0, 1.0), (-0.3, 0.1), (-4.0, -1.0), (-1.0, 5.0)] {
            let x = Interval::new(l, u);
            let tangent = Relaxation::tangent(Activation::Sigmoid, x, Arithmetic::Real);
            let flat = Relaxation::new(Activation::Sigmoid, x, LowerSlope::MinArea, Arithmetic::Real);
            assert!(area(&tangent, x) < area(&flat, x), "[{l}, {u}]");
        }
    }

    #[test]
    fn what_is_no_number_bounds_nothing() {
        for x in
            [Interval::new(f64::NAN, f64::NAN), Interval::new(f64::NAN, 1.0), Interval::new(-1.0, f64::NAN)]
        {
            let r = Relaxation::tangent(Activation::Sigmoid, x, Arithmetic::Real);
            assert!(!(r.lower.intercept.is_finite() && r.upper.intercept.is_finite()), "{x:?} {r:?}");
        }
    }
}
