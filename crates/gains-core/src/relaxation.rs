//! Linear relaxations of activations: one line below and one above, over an interval.
//!
//! Every line is *proposed* with ordinary float arithmetic and then *repaired*: its intercept is moved
//! until the line is provably on its side of the activation, with rounding counted. How good a line is
//! depends on the proposal, whether it is sound does not.

use serde::{Deserialize, Serialize};

use crate::activation::Activation;
use crate::arithmetic::{Arithmetic, TINY, down, down_product, up, up_product};
use crate::interval::{BoxVec, Interval};
use crate::support::Support;

pub mod envelope;
mod row;
mod tangent;

pub(crate) use row::relax_row;

/// `slope·x + intercept`.
#[derive(Clone, Copy, Debug, PartialEq, Default)]
pub struct Line {
    /// Slope.
    pub slope: f64,
    /// Value at zero.
    pub intercept: f64,
}

impl Line {
    /// The line through the origin.
    const fn through_origin(slope: f64) -> Self {
        Self { slope, intercept: 0.0 }
    }
}

/// How to choose the slope of the lower line of an unstable ReLU; every choice in [0, 1] is sound.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LowerSlope {
    /// 1 if the interval reaches further up than down, else 0 (smallest area between the lines).
    #[default]
    MinArea,
    /// Always 0.
    Zero,
    /// Always 1.
    One,
}

/// A lower and an upper line of an activation over one interval.
#[derive(Clone, Copy, Debug, PartialEq, Default)]
pub struct Relaxation {
    /// Nowhere above the activation.
    pub lower: Line,
    /// Nowhere below the activation.
    pub upper: Line,
    /// Largest absolute pre-activation, which the rounding of a scaled coefficient is proportional to.
    pub magnitude: f64,
}

impl Relaxation {
    /// Relaxes `activation` over `[x.lower, x.upper]`, for the values the given arithmetic may compute.
    pub fn new(activation: Activation, x: Interval, policy: LowerSlope, arithmetic: Arithmetic) -> Self {
        let magnitude = x.magnitude();
        let (lower, upper) = match activation {
            Activation::Relu => piecewise(0.0, x, policy),
            Activation::LeakyRelu { slope } => piecewise(slope, x, policy),
            Activation::Absolute => piecewise(-1.0, x, policy),
            Activation::Sigmoid | Activation::Tanh => s_shaped(activation, x, arithmetic),
            Activation::Smooth(f) => envelope::lines(f, x, arithmetic),
        };
        let mut relaxation = Self { lower, upper, magnitude };
        if let Activation::LeakyRelu { .. } = activation {
            let error = activation.evaluation_error(x, magnitude, arithmetic);
            relaxation.lower.intercept -= error;
            relaxation.upper.intercept += error;
        }
        relaxation
    }

    /// Relaxes with the lower slope of an unstable ReLU or LeakyReLU given as a number; every one between the
    /// slopes of the two branches is sound, others are moved there. Other cases have no choice.
    pub fn with_slope(activation: Activation, x: Interval, slope: f64, arithmetic: Arithmetic) -> Self {
        let mut relaxation = Self::new(activation, x, LowerSlope::Zero, arithmetic);
        if let Some((flat, steep)) = free_slopes(activation, x) {
            relaxation.lower.slope = if slope >= flat { slope.min(steep) } else { flat };
        }
        relaxation
    }

    /// Two choices of lines, the likelier one first: for ReLU and its like the two extreme lower slopes, the one
    /// with less area first; for sigmoid and tanh tangents in the middle and at the ends; for the others the lines that are
    /// best in the middle, and those best near the end where these leave most.
    pub fn pair(activation: Activation, x: Interval, arithmetic: Arithmetic) -> [Self; 2] {
        match activation {
            Activation::Relu | Activation::LeakyRelu { .. } | Activation::Absolute => {
                let other = if x.upper >= -x.lower { LowerSlope::Zero } else { LowerSlope::One };
                [LowerSlope::MinArea, other].map(|policy| Self::new(activation, x, policy, arithmetic))
            }
            Activation::Sigmoid | Activation::Tanh => [
                Self::tangent(activation, x, arithmetic),
                Self::new(activation, x, LowerSlope::MinArea, arithmetic),
            ],
            Activation::Smooth(f) => envelope::pair(f, x, arithmetic).map(|(lower, upper)| Self {
                lower,
                upper,
                magnitude: x.magnitude(),
            }),
        }
    }

    /// Relaxes `f(b) − f(a)` as lines in `d = b − a`, for `d` in the given interval, where the derivative of
    /// `f` between `a` and `b` lies in `slopes` and `f(b) − f(a)` itself in `bounds`.
    ///
    /// By the mean value theorem the difference lies between `min(m·d, M·d)`, which is concave, and
    /// `max(m·d, M·d)`, which is convex; their chords over the interval are the lines, repaired at both
    /// ends. A constant from `bounds` is taken instead where it is tighter in the middle.
    pub fn of_difference(slopes: Interval, d: Interval, bounds: Interval) -> Self {
        let Interval { lower: flat, upper: steep } = slopes;
        let Interval { lower: low, upper: high } = d;
        let (mut lower, mut upper) = if flat == steep {
            (Line::through_origin(flat), Line::through_origin(flat))
        } else if low >= 0.0 {
            (Line::through_origin(flat), Line::through_origin(steep))
        } else if high <= 0.0 {
            (Line::through_origin(steep), Line::through_origin(flat))
        } else {
            let chord =
                |left: f64, right: f64| ((right * high - left * low) / (high - low)).clamp(flat, steep);
            let (below, above) = (chord(steep, flat), chord(flat, steep));
            let sink = down_product((steep - below) * low).min(down_product((flat - below) * high));
            let rise = up_product((flat - above) * low).max(up_product((steep - above) * high));
            let spread = 4.0 * f64::EPSILON;
            (
                Line { slope: below, intercept: sink - spread * sink.abs() },
                Line { slope: above, intercept: rise + spread * rise.abs() },
            )
        };
        let middle = 0.5 * low + 0.5 * high;
        if bounds.lower > lower.slope * middle + lower.intercept {
            lower = Line { slope: 0.0, intercept: bounds.lower };
        }
        if bounds.upper < upper.slope * middle + upper.intercept {
            upper = Line { slope: 0.0, intercept: bounds.upper };
        }
        Self { lower, upper, magnitude: d.magnitude() }
    }

    /// Relaxes `slope·d` as lines in `d`, for a slope and a `d` anywhere in their intervals.
    pub fn of_term(slope: Interval, d: Interval) -> Self {
        Self::of_difference(slope, d, Interval::new(f64::NEG_INFINITY, f64::INFINITY))
    }

    /// Both lines moved outwards.
    pub fn widened(mut self, by: f64) -> Self {
        self.lower.intercept = down(self.lower.intercept - by);
        self.upper.intercept = up(self.upper.intercept + by);
        self
    }
}

/// The lower slopes an activation may be relaxed with over an interval, if there is a choice.
pub fn free_slopes(activation: Activation, x: Interval) -> Option<(f64, f64)> {
    let unstable = x.lower < 0.0 && x.upper > 0.0;
    match activation {
        Activation::Relu if unstable => Some((0.0, 1.0)),
        Activation::LeakyRelu { slope } if unstable => Some((slope, 1.0)),
        Activation::Absolute if unstable => Some((-1.0, 1.0)),
        _ => None,
    }
}

/// Relaxations of many neurons, one array per number: what rows are multiplied with.
#[derive(Clone, Debug, Default)]
pub struct Lines {
    /// Slopes of the lower lines.
    pub lower_slope: Vec<f64>,
    /// Intercepts of the lower lines.
    pub lower_intercept: Vec<f64>,
    /// Slopes of the upper lines.
    pub upper_slope: Vec<f64>,
    /// Intercepts of the upper lines.
    pub upper_intercept: Vec<f64>,
    /// See [`Relaxation::magnitude`].
    pub magnitude: Vec<f64>,
}

impl FromIterator<Relaxation> for Lines {
    fn from_iter<I: IntoIterator<Item = Relaxation>>(relaxations: I) -> Self {
        let mut lines = Self::default();
        for r in relaxations {
            lines.lower_slope.push(r.lower.slope);
            lines.lower_intercept.push(r.lower.intercept);
            lines.upper_slope.push(r.upper.slope);
            lines.upper_intercept.push(r.upper.intercept);
            lines.magnitude.push(r.magnitude);
        }
        lines
    }
}

impl Lines {
    /// Relaxes every entry of a box.
    pub fn for_box(activation: Activation, x: &BoxVec, policy: LowerSlope, arithmetic: Arithmetic) -> Self {
        (0..x.len()).map(|i| Relaxation::new(activation, x.get(i), policy, arithmetic)).collect()
    }

    /// Relaxes every entry of a box with lower slopes given as numbers; see [`Relaxation::with_slope`].
    pub fn with_slopes(activation: Activation, x: &BoxVec, slopes: &[f32], arithmetic: Arithmetic) -> Self {
        (0..x.len())
            .map(|i| Relaxation::with_slope(activation, x.get(i), slopes[i].into(), arithmetic))
            .collect()
    }

    /// Number of neurons.
    pub fn len(&self) -> usize {
        self.magnitude.len()
    }

    /// True if there is no neuron.
    pub fn is_empty(&self) -> bool {
        self.magnitude.is_empty()
    }

    /// The lines of a whole tensor at some of its entries.
    pub fn cut(&self, on: &Support) -> Self {
        let part = |all: &[f64]| on.cut(all).into_owned();
        Self {
            lower_slope: part(&self.lower_slope),
            lower_intercept: part(&self.lower_intercept),
            upper_slope: part(&self.upper_slope),
            upper_intercept: part(&self.upper_intercept),
            magnitude: part(&self.magnitude),
        }
    }

    /// The box the lines map a box into: the lower line at its lower end, the upper line at its upper end. Wider than the image, but what plain back-substitution would find.
    pub fn image(&self, x: &BoxVec) -> BoxVec {
        let end =
            |slope: f64, intercept: f64, x: f64| (slope * x + intercept, (slope * x).abs() + intercept.abs());
        let mut image = x.clone();
        for i in 0..x.len() {
            let turned = |slope: f64, by_rising: f64, by_falling: f64| {
                if slope < 0.0 { by_falling } else { by_rising }
            };
            let lowest = turned(self.lower_slope[i], x.lower[i], x.upper[i]);
            let (low, size) = end(self.lower_slope[i], self.lower_intercept[i], lowest);
            image.lower[i] = low - 4.0 * f64::EPSILON * size;
            let highest = turned(self.upper_slope[i], x.upper[i], x.lower[i]);
            let (high, size) = end(self.upper_slope[i], self.upper_intercept[i], highest);
            image.upper[i] = high + 4.0 * f64::EPSILON * size;
        }
        image
    }
}

/// ReLU (`leak = 0`), LeakyReLU and the absolute value (`leak = −1`): convex, so the chord lies above it and every
/// line through the origin with a slope between `leak` and 1 lies below.
fn piecewise(leak: f64, x: Interval, policy: LowerSlope) -> (Line, Line) {
    let Interval { lower: l, upper: u } = x;
    if l >= 0.0 {
        return (Line::through_origin(1.0), Line::through_origin(1.0));
    }
    if u <= 0.0 {
        return (Line::through_origin(leak), Line::through_origin(leak));
    }
    let lower_slope = match policy {
        LowerSlope::MinArea if u >= -l => 1.0,
        LowerSlope::One => 1.0,
        LowerSlope::MinArea | LowerSlope::Zero => leak,
    };
    let slope = ((u - leak * l) / (u - l)).clamp(leak, 1.0);
    // Convex below a line at both ends is below it in between: intercept ≥ f(l) − slope·l, f(u) − slope·u.
    let at_lower = up_product((slope - leak) * -l);
    let at_upper = up_product((1.0 - slope) * u);
    let intercept = at_lower.max(at_upper) * (1.0 + 4.0 * f64::EPSILON);
    (Line::through_origin(lower_slope), Line { slope, intercept })
}

/// Sigmoid and tanh: convex left of zero, concave right of it.
///
/// Below: the chord where the function is concave (`l ≥ 0`), else the line through the lower end with
/// the smallest derivative on the interval, which sits at one of its ends. Above: the mirror image.
fn s_shaped(activation: Activation, x: Interval, arithmetic: Arithmetic) -> (Line, Line) {
    let Interval { lower: l, upper: u } = x;
    let (at_l, at_u) = (activation.value(l), activation.value(u));
    // The error of the program grows with the value, so it may be largest at the other end of the line.
    let error = activation.evaluation_error(x, at_l.abs().max(at_u.abs()), arithmetic);
    // 1 − 64ε leaves room for the rounding of the derivative; an underflowing slope becomes 0.
    let flat = activation.derivative(l).min(activation.derivative(u)) * (1.0 - 64.0 * f64::EPSILON);
    let flat = if flat < TINY { 0.0 } else { flat };
    let chord = (at_u - at_l) / (u - l);
    let chord_usable = u - l > 1e-9 * x.magnitude().max(1e-9) && chord.is_finite();
    let lower = if l >= 0.0 && chord_usable {
        let at = |end: f64, value: f64| down_product(value - up_product(chord * end));
        Line { slope: chord, intercept: at(l, at_l - error).min(at(u, at_u - error)) }
    } else {
        Line { slope: flat, intercept: down_product(at_l - error - up_product(flat * l)) }
    };
    let upper = if u <= 0.0 && chord_usable {
        let at = |end: f64, value: f64| up_product(value - down_product(chord * end));
        Line { slope: chord, intercept: at(l, at_l + error).max(at(u, at_u + error)) }
    } else {
        Line { slope: flat, intercept: up_product(at_u + error - down_product(flat * u)) }
    };
    (lower, upper)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ACTIVATIONS: [Activation; 6] = [
        Activation::Relu,
        Activation::LeakyRelu { slope: 0.01 },
        Activation::LeakyRelu { slope: 1.0 },
        Activation::Sigmoid,
        Activation::Tanh,
        Activation::Absolute,
    ];
    const POLICIES: [LowerSlope; 3] = [LowerSlope::MinArea, LowerSlope::Zero, LowerSlope::One];

    fn ends() -> Vec<f64> {
        let mut ends = vec![0.0, 5e-324, 1e-300, 1e-12, 1e-3, 0.5, 40.0, 800.0, 1e9, 1e150];
        ends.extend((1..=30).map(|i| 0.25 * f64::from(i)));
        let negative: Vec<f64> = ends.iter().map(|x| -x).collect();
        ends.extend(negative);
        ends.sort_by(f64::total_cmp);
        ends
    }

    /// Every line, on a dense grid of intervals, at ends, thirds and near the kink. The comparison is in
    /// float64, so a line may seem wrong by the rounding of the comparison itself and no more.
    #[test]
    fn lines_stay_on_their_side_on_a_grid_of_intervals() {
        let ends = ends();
        for activation in ACTIVATIONS {
            for policy in POLICIES {
                for (i, &l) in ends.iter().enumerate() {
                    for &u in &ends[i..] {
                        let r = Relaxation::new(activation, Interval::new(l, u), policy, Arithmetic::Real);
                        let points = (0..=24)
                            .map(|k| l + (u - l) * f64::from(k) / 24.0)
                            .chain([0.0, l / 2.0, u / 2.0])
                            .filter(|x| l <= *x && *x <= u);
                        for x in points {
                            let y = activation.value(x);
                            let rounding = 4.0 * f64::EPSILON * x.abs().max(y.abs());
                            let low = r.lower.slope * x + r.lower.intercept;
                            let high = r.upper.slope * x + r.upper.intercept;
                            assert!(
                                low <= y + rounding,
                                "{activation} {policy:?} [{l}, {u}] at {x}: {low} > {y}"
                            );
                            assert!(
                                high >= y - rounding,
                                "{activation} {policy:?} [{l}, {u}] at {x}: {high} < {y}"
                            );
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn sigmoid_lower_line_where_the_chord_would_be_wrong() {
        // Using the chord as a lower bound on [−6, 6] is off by 0.22 near x = −2.
        let r = Relaxation::new(
            Activation::Sigmoid,
            Interval::new(-6.0, 6.0),
            LowerSlope::MinArea,
            Arithmetic::Real,
        );
        let y = Activation::Sigmoid.value(-2.0);
        assert!(r.lower.slope * -2.0 + r.lower.intercept <= y);
    }

    /// The difference relaxation on its own: pairs of points from two intervals, their difference confined to
    /// a third, must lie between the lines, and between the lines and the interval bounds.
    #[test]
    fn difference_lines_hold_for_all_pairs() {
        let mut random = fastrand::Rng::with_seed(11);
        for activation in ACTIVATIONS {
            for trial in 0..20_000 {
                let scale = 10.0_f64.powi(random.i32(-9..4));
                let mut end = || (random.f64() * 2.0 - 1.0) * scale;
                let (a, b, c, e) = (end(), end(), end(), end());
                let before = Interval::new(a.min(b), a.max(b));
                // Every third pair of intervals lies close together, as stages of a step do.
                let near = if trial % 3 == 0 { 1e-3 } else { 1.0 };
                let after = Interval::new(before.lower + near * c.min(e), before.upper + near * c.max(e));
                if after.lower > after.upper {
                    continue;
                }
                let hull = Interval::new(before.lower.min(after.lower), before.upper.max(after.upper));
                let slopes = activation.derivative_range(hull);
                let full = Interval::new(after.lower - before.upper, after.upper - before.lower);
                let t = random.f64();
                let d = if trial % 2 == 0 {
                    full
                } else {
                    Interval::new(
                        full.lower * t,
                        full.lower * t + (full.upper - full.lower * t) * random.f64(),
                    )
                };
                let image = |x: f64| activation.value(x);
                let slack = 16.0 * f64::EPSILON * (1.0 + scale);
                let values = |x: Interval| activation.image(x, Arithmetic::Real);
                let (then, now) = (values(before), values(after));
                let bounds = Interval::new(now.lower - then.upper - slack, now.upper - then.lower + slack);
                let r = Relaxation::of_difference(slopes, d, bounds);
                for k in 0..12 {
                    let pick = |x: Interval, u: f64| x.lower + u * (x.upper - x.lower);
                    let u = if k < 4 { f64::from(k % 2) } else { random.f64() };
                    let v = if k < 4 { f64::from(k / 2) } else { random.f64() };
                    let (p, q) = (pick(before, u), pick(after, v));
                    let moved = q - p;
                    if !d.contains(moved) {
                        continue;
                    }
                    let change = image(q) - image(p);
                    let size = p.abs() + q.abs() + image(p).abs() + image(q).abs();
                    let rounding = 8.0 * f64::EPSILON * size;
                    let low = r.lower.slope * moved + r.lower.intercept;
                    let high = r.upper.slope * moved + r.upper.intercept;
                    assert!(low <= change + rounding, "{activation} {p} {q}: {low} > {change}");
                    assert!(high >= change - rounding, "{activation} {p} {q}: {high} < {change}");
                }
            }
        }
    }

    #[test]
    fn relu_lines_are_as_tight_as_real_arithmetic_allows() {
        let r = Relaxation::new(
            Activation::Relu,
            Interval::new(-1.0, 3.0),
            LowerSlope::MinArea,
            Arithmetic::Real,
        );
        assert_eq!(r.lower, Line::through_origin(1.0));
        assert_eq!(r.upper.slope, 0.75);
        assert!(r.upper.intercept >= 0.75 && r.upper.intercept < 0.75 + 1e-14);
    }
}
