//! Balls of other norms than the largest entry.
//!
//! A ball is `{x : ‖(x − c) / s‖ₚ ≤ 1}`: entry `i` alone can move `sᵢ` away from the centre, and an entry with `sᵢ = 0`
//! does not move. Its smallest box is `c ± s`; everything that knows boxes only works on that, which is larger and
//! so never wrong. Rows that arrive at the inputs know better, and so do affine forms over them:
//!
//! ```text
//! min a·x over the ball  =  a·c − ‖a∘s‖_q,    1/p + 1/q = 1     (Hölder; attained)
//! ```
//!
//! so a row is bounded by the better of this and its bound over the box.

use gains_core::affine_form::{AffineForm, BallNorm, Symbols};
use gains_core::arithmetic::{TINY, UNIT32, analysis_error, down, up};
use gains_core::{BoxVec, Rows, kernels};
use serde::{Deserialize, Serialize};

/// How the size of a perturbation is measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Norm {
    /// The largest entry.
    #[default]
    #[serde(rename = "inf")]
    Infinity,
    /// The Euclidean length.
    #[serde(rename = "2")]
    Two,
    /// The sum of all entries.
    #[serde(rename = "1")]
    One,
}

impl std::fmt::Display for Norm {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Infinity => "inf",
            Self::Two => "2",
            Self::One => "1",
        })
    }
}

/// A ball around a point, in the Euclidean norm or that of the sum, with a scale of its own for every entry.
#[derive(Clone, Debug, PartialEq)]
pub struct Ball {
    norm: Norm,
    centre: Vec<f64>,
    scales: Vec<f64>,
    /// By how much each entry may be off besides, for bounds: what a program rounds its inputs by.
    blur: Vec<f64>,
}

/// By how much points that attacks try stay away from the surface, so that rounding leaves them inside.
const MARGIN: f64 = 1e-9;

impl Ball {
    /// The ball of a norm with one scale for each entry; there is none in the norm of the largest entry, which is a
    /// box, and none with a scale that is not a number from 0 on.
    pub fn new(norm: Norm, centre: &[f64], scales: &[f64]) -> Option<Self> {
        let proper = scales.len() == centre.len() && scales.iter().all(|s| *s >= 0.0 && s.is_finite());
        (proper && norm != Norm::Infinity).then(|| Self {
            norm,
            centre: centre.to_vec(),
            scales: scales.to_vec(),
            blur: vec![0.0; centre.len()],
        })
    }

    /// The same for a program that rounds its inputs, of at most these sizes, to float32 before it starts.
    #[must_use]
    pub fn rounded_to_float32(mut self, magnitudes: &[f64]) -> Self {
        // Half a unit in the last place, or half the smallest number.
        let off = |size: &f64| up(up(1.0001 * UNIT32 * size) + f64::from(f32::MIN_POSITIVE) * UNIT32);
        self.blur = magnitudes.iter().map(off).collect();
        self
    }

    /// Certified lower bounds of rows over the ball; no bound where numbers get out of hand.
    ///
    /// Rounding: the dot product and the dual norm are sums of as many products as there are entries, and the norm
    /// one square root more; [`analysis_error`] of that many covers them, and [`TINY`] what underflows. The squares
    /// are taken of entries divided by the largest, so that they do not overflow.
    pub fn lower_bounds(&self, rows: &Rows) -> Vec<f64> {
        let on = rows.on();
        let (centre, scales, blur) = (on.cut(&self.centre), on.cut(&self.scales), on.cut(&self.blur));
        let gamma = analysis_error(rows.length + 4);
        (0..rows.count)
            .map(|row| {
                let a = rows.row(row);
                let (value, blurred, size) = kernels::row_over_box(a, &centre, &blur);
                let spread = self.dual(a, &scales) + blurred;
                let constant = rows.constant[row];
                let owed = rows.slack[row] + gamma * (size + spread + constant.abs());
                let bound = down(value - spread + constant - owed * (1.0 + gamma)) - TINY;
                if bound.is_nan() { f64::NEG_INFINITY } else { bound }
            })
            .collect()
    }

    /// Certified lower bounds of rows on the ball's input, given those over the box: the better of both.
    pub(crate) fn raise(&self, rows: &Rows, mut lower: Vec<f64>) -> Vec<f64> {
        for (bound, over_ball) in lower.iter_mut().zip(self.lower_bounds(rows)) {
            *bound = bound.max(over_ball);
        }
        lower
    }

    /// The ball as an affine form, of which only what lies in a box counts.
    pub(crate) fn form(&self, within: &BoxVec, symbols: &mut Symbols) -> AffineForm {
        let norm = match self.norm {
            // There is no such ball, see `new`.
            Norm::Infinity => return AffineForm::from_box(within, symbols),
            Norm::Two => BallNorm::Euclidean,
            Norm::One => BallNorm::Sum,
        };
        AffineForm::from_ball(norm, (&self.centre, &self.scales), &self.blur, within, symbols)
    }

    /// `‖a∘s‖` in the dual norm.
    fn dual(&self, a: &[f64], scales: &[f64]) -> f64 {
        let terms = || a.iter().zip(scales).map(|(a, s)| (a * s).abs());
        if terms().any(f64::is_nan) {
            return f64::NAN;
        }
        let largest = terms().fold(0.0, f64::max);
        match self.norm {
            Norm::Two if largest > 0.0 && largest.is_finite() => {
                largest * terms().map(|t| (t / largest) * (t / largest)).sum::<f64>().sqrt()
            }
            _ => largest,
        }
    }

    /// The norm.
    pub fn norm(&self) -> Norm {
        self.norm
    }

    /// The centre.
    pub fn centre(&self) -> &[f64] {
        &self.centre
    }

    /// How far each entry can move alone.
    pub fn scales(&self) -> &[f64] {
        &self.scales
    }

    /// Number of entries.
    pub fn len(&self) -> usize {
        self.centre.len()
    }

    /// True if there is no entry.
    pub fn is_empty(&self) -> bool {
        self.centre.is_empty()
    }

    /// Where the row is least, roughly: for gradients, not for bounds.
    pub fn least(&self, a: &[f64]) -> Vec<f64> {
        let dual = self.dual(a, &self.scales);
        let mut point = self.centre.clone();
        if !(dual > 0.0 && dual.is_finite()) {
            return point;
        }
        for (i, x) in point.iter_mut().enumerate() {
            let share = a[i] * self.scales[i] / dual;
            *x -= match self.norm {
                Norm::One if share.abs() < 1.0 => 0.0,
                _ => share * self.scales[i],
            };
        }
        point
    }

    /// `‖(x − c) / s‖`, infinite for a point that moves what does not.
    fn distance(&self, point: &[f64]) -> f64 {
        let mut sum = 0.0;
        for ((x, c), s) in point.iter().zip(&self.centre).zip(&self.scales) {
            let moved = (x - c).abs();
            if moved == 0.0 {
                continue;
            }
            if *s == 0.0 {
                return f64::INFINITY;
            }
            let part = moved / s;
            sum += if self.norm == Norm::Two { part * part } else { part };
        }
        if self.norm == Norm::Two { sum.sqrt() } else { sum }
    }

    /// Whether a point is certainly inside: its distance is off by at most the rounding of so many operations.
    pub fn contains(&self, point: &[f64]) -> bool {
        let rounding = analysis_error(point.len() + 8);
        point.len() == self.centre.len() && self.distance(point) * (1.0 + rounding) + TINY <= 1.0
    }

    /// Moves a point straight towards the centre until it is inside.
    pub fn project(&self, point: &mut [f64]) {
        for ((x, c), s) in point.iter_mut().zip(&self.centre).zip(&self.scales) {
            if *s == 0.0 {
                *x = *c;
            }
        }
        let distance = self.distance(point);
        if distance.is_nan() || distance <= 1.0 - MARGIN {
            return;
        }
        let part = (1.0 - MARGIN) / distance;
        for (x, c) in point.iter_mut().zip(&self.centre) {
            *x = c + part * (*x - c);
        }
    }

    /// The float32 number next to an entry on the side of the centre.
    pub fn rounded(&self, entry: usize, value: f64) -> f64 {
        let near = value as f32;
        let outwards = (f64::from(near) - value) * (value - self.centre[entry]) > 0.0;
        let towards = if value > self.centre[entry] { near.next_down() } else { near.next_up() };
        f64::from(if outwards { towards } else { near })
    }

    /// The direction in which a gradient falls or rises fastest, of the ball's own length 1 along each scale.
    pub fn steepest(&self, gradient: &[f64]) -> Vec<f64> {
        let scaled: Vec<f64> = gradient.iter().zip(&self.scales).map(|(g, s)| g * s).collect();
        let length = scaled.iter().map(|g| g * g).sum::<f64>().sqrt();
        if !(length > 0.0 && length.is_finite()) {
            return vec![0.0; gradient.len()];
        }
        scaled.iter().zip(&self.scales).map(|(g, s)| g / length * s).collect()
    }
}

#[cfg(test)]
mod tests {
    use gains_core::{Shape, Support};

    use super::*;

    fn points(n: usize, random: &mut fastrand::Rng) -> Vec<f64> {
        (0..n).map(|_| 2.0 * random.f64() - 1.0).collect()
    }

    /// No point of the ball is below the bound, and the best is close to it.
    #[test]
    fn rows_are_bounded_by_the_dual_norm() {
        let mut random = fastrand::Rng::with_seed(7);
        for case in 0..400 {
            let n = 1 + case % 9;
            let norm = if case % 2 == 0 { Norm::Two } else { Norm::One };
            let size = 10_f64.powi((case % 13) as i32 - 6);
            let centre: Vec<f64> = points(n, &mut random).iter().map(|x| 3.0 * size * x).collect();
            let scales: Vec<f64> = points(n, &mut random).iter().map(|x| (size * x).max(0.0)).collect();
            let ball = Ball::new(norm, &centre, &scales).unwrap();
            let mut rows = Rows::new(Support::full(Shape::flat(n)), points(n, &mut random));
            rows.absorb(0, random.f64(), 0.0);
            let bound = ball.lower_bounds(&rows)[0];
            let at =
                |x: &[f64]| rows.row(0).iter().zip(x).map(|(a, x)| a * x).sum::<f64>() + rows.constant[0];
            for _ in 0..60 {
                let mut point: Vec<f64> =
                    (0..n).map(|i| centre[i] + 3.0 * scales[i] * (2.0 * random.f64() - 1.0)).collect();
                ball.project(&mut point);
                assert!(ball.contains(&point), "{norm} {point:?}");
                assert!(at(&point) >= bound, "{norm} {n}");
            }
            let mut least = ball.least(rows.row(0));
            let attained = at(&least);
            assert!(attained >= bound && attained - bound <= 1e-9 * (size + bound.abs()), "{norm} {n}");
            ball.project(&mut least);
            assert!(ball.contains(&least));
        }
    }

    /// A float32 program rounds points of the ball; the bound holds of what it makes of them.
    #[test]
    fn points_may_be_rounded_to_float32() {
        let mut random = fastrand::Rng::with_seed(11);
        for _ in 0..300 {
            let centre: Vec<f64> = points(4, &mut random).iter().map(|x| 1e3 * x).collect();
            let scales = [1e-7, 0.0, 1e-4, 1e-9];
            let magnitudes: Vec<f64> = centre.iter().zip(scales).map(|(c, s)| c.abs() + s).collect();
            let ball = Ball::new(Norm::Two, &centre, &scales).unwrap().rounded_to_float32(&magnitudes);
            let rows = Rows::new(Support::full(Shape::flat(4)), points(4, &mut random));
            let bound = ball.lower_bounds(&rows)[0];
            let least = ball.least(rows.row(0));
            let value: f64 = rows.row(0).iter().zip(&least).map(|(a, x)| a * f64::from(*x as f32)).sum();
            assert!(value >= bound);
        }
    }

    #[test]
    fn only_what_is_certainly_inside_is_inside() {
        let ball = Ball::new(Norm::Two, &[0.0, 1.0, 5.0], &[1.0, 2.0, 0.0]).unwrap();
        assert!(ball.contains(&[0.0, 1.0, 5.0]) && ball.contains(&[0.9, 1.5, 5.0]));
        assert!(!ball.contains(&[0.9, 2.0, 5.0]), "0.81 + 0.25 is more than 1");
        assert!(!ball.contains(&[0.0, 1.0, 5.000001]), "what does not move");
        assert!(!ball.contains(&[f64::NAN, 1.0, 5.0]) && !ball.contains(&[0.0, 1.0]));
        let sum = Ball::new(Norm::One, &[0.0, 0.0], &[1.0, 1.0]).unwrap();
        assert!(sum.contains(&[0.5, 0.4]) && !sum.contains(&[0.6, 0.6]));
        assert!(Ball::new(Norm::Infinity, &[0.0], &[1.0]).is_none());
        assert!(Ball::new(Norm::Two, &[0.0], &[f64::NAN]).is_none());
    }

    #[test]
    fn rows_that_overflow_have_no_bound() {
        let ball = Ball::new(Norm::Two, &[1.0, 1.0], &[1e10, 1e10]).unwrap();
        for a in [f64::INFINITY, f64::NAN, 1e300] {
            let rows = Rows::new(Support::full(Shape::flat(2)), vec![a, 1.0]);
            assert_eq!(ball.lower_bounds(&rows), [f64::NEG_INFINITY], "{a}");
        }
    }
}
