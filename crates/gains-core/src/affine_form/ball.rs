//! Forms over a ball: symbols that, as a vector, are not longer than 1.
//!
//! `x = c + s∘e + w` with `‖e‖ₚ ≤ 1` is the ball of the norm p around `c` with a scale for every entry. Over it `g·e` is at most `‖g‖_q`
//! with `1/p + 1/q = 1`: the Euclidean length of `g` for the Euclidean norm, its largest entry for that of the sum. Which
//! symbols belong to a ball is told by their numbers, so that forms made of others need not carry it along.

use std::ops::Range;

use super::{AffineForm, Symbol, Symbols};
use crate::arithmetic::analysis_error;
use crate::interval::BoxVec;

/// Norms that make balls which are no boxes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BallNorm {
    /// The Euclidean length.
    Euclidean,
    /// The sum of all entries.
    Sum,
}

/// Symbols of a Euclidean ball have numbers from here on, those of a ball of sums from the next, all others are below or
/// above.
const EUCLIDEAN: Symbol = 1 << 60;
const SUM: Symbol = 1 << 61;
const INDEPENDENT: Symbol = 1 << 62;

impl AffineForm {
    /// A ball with one scale for each entry, of which only what lies in a box counts; entries may be off by `blur` besides. There
    /// can be one ball among the forms over `symbols`, and it comes first.
    pub fn from_ball(
        norm: BallNorm,
        (centre, scales): (&[f64], &[f64]),
        blur: &[f64],
        within: &BoxVec,
        symbols: &mut Symbols,
    ) -> Self {
        let mut form = Self {
            centre: centre.to_vec(),
            remainder: blur.to_vec(),
            bounds: within.clone(),
            ..Self::default()
        };
        symbols.next = match norm {
            BallNorm::Euclidean => EUCLIDEAN,
            BallNorm::Sum => SUM,
        };
        let units: Vec<(usize, f64)> =
            scales.iter().copied().enumerate().filter(|(_, s)| *s != 0.0).collect();
        form.push_units(&units, symbols);
        symbols.next = INDEPENDENT;
        form.settle();
        form
    }

    /// Rows of the symbols of a ball, and its norm, if there is one.
    fn of_ball(&self) -> Option<(Range<usize>, BallNorm)> {
        let from = |number: Symbol| self.symbols.partition_point(|symbol| *symbol < number);
        let (euclidean, sum, end) = (from(EUCLIDEAN), from(SUM), from(INDEPENDENT));
        if euclidean < sum && sum == end {
            Some((euclidean..sum, BallNorm::Euclidean))
        } else if euclidean == sum && sum < end {
            Some((sum..end, BallNorm::Sum))
        } else {
            None
        }
    }

    /// How far the symbols can move every entry, rounded up, where some belong to a ball.
    pub(super) fn reach(&self) -> Option<Vec<f64>> {
        let (ball, norm) = self.of_ball()?;
        let width = self.live.len();
        let mut reach = vec![0.0; self.len()];
        let mut column = vec![0.0; self.order()];
        let gamma = analysis_error(2 * self.order() + 16);
        for (at, &j) in self.live.iter().enumerate() {
            for (s, g) in column.iter_mut().enumerate() {
                *g = self.generators[s * width + at];
            }
            reach[j as usize] = radius(&column, &ball, norm) * (1.0 + gamma);
        }
        Some(reach)
    }

    /// How far the symbols can move something, given by how much each of them does.
    pub(super) fn radius_of(&self, along: &[f64]) -> f64 {
        match self.of_ball() {
            Some((ball, norm)) => radius(along, &ball, norm),
            None => along.iter().map(|g| g.abs()).sum(),
        }
    }
}

/// The dual norm over a ball and the sum of the magnitudes of all others, rounded as it comes: a few units in the last place more
/// than there are numbers cover it. What is not a number, or infinite, stays so.
fn radius(along: &[f64], ball: &Range<usize>, norm: BallNorm) -> f64 {
    let inside = &along[ball.clone()];
    let sum = |part: &[f64]| part.iter().map(|g| g.abs()).sum::<f64>();
    let others = sum(&along[..ball.start]) + sum(&along[ball.end..]);
    let all = sum(inside);
    let largest = inside.iter().fold(0.0, |most: f64, g| most.max(g.abs()));
    if !all.is_finite() || largest == 0.0 {
        return others + all;
    }
    let dual = match norm {
        // Of entries divided by the largest, so that no square overflows, and what underflows is nothing beside 1.
        BallNorm::Euclidean => largest * inside.iter().map(|g| (g / largest).powi(2)).sum::<f64>().sqrt(),
        BallNorm::Sum => largest,
    };
    others + dual
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::affine::Conv2d;
    use crate::{AffineMap, Arithmetic};

    const INPUTS: usize = 5;
    const OUTPUTS: usize = 4;

    fn number(random: &mut fastrand::Rng) -> f64 {
        2.0 * random.f64() - 1.0
    }

    /// A point of the unit ball, often on its surface.
    fn inside(random: &mut fastrand::Rng, norm: BallNorm) -> Vec<f64> {
        let e: Vec<f64> =
            (0..INPUTS).map(|_| if random.u8(0..4) == 0 { 0.0 } else { number(random) }).collect();
        let length = match norm {
            BallNorm::Euclidean => e.iter().map(|x| x * x).sum::<f64>().sqrt(),
            BallNorm::Sum => e.iter().map(|x| x.abs()).sum(),
        };
        let to = if random.bool() { 1.0 - 1e-12 } else { random.f64() } / length.max(1e-9);
        e.iter().map(|x| x * to.min(1e9)).collect()
    }

    /// Images of points stay inside, of entries and of sums of them; where each is farthest there is a point of the ball, so that the
    /// bounds are as tight as can be; and behind a curve they still hold.
    #[test]
    fn linear_images_of_balls_are_bounded_by_the_dual_norm() {
        let mut random = fastrand::Rng::with_seed(51);
        for round in 0..400 {
            let norm = if round % 2 == 0 { BallNorm::Euclidean } else { BallNorm::Sum };
            let weights: Vec<f64> = (0..INPUTS * OUTPUTS).map(|_| number(&mut random)).collect();
            let bias: Vec<f64> = (0..OUTPUTS).map(|_| number(&mut random)).collect();
            let map = AffineMap::Conv(Conv2d::linear_layer(INPUTS, &weights, &bias, false).unwrap());
            let centre: Vec<f64> = (0..INPUTS).map(|_| number(&mut random)).collect();
            let scales: Vec<f64> = (0..INPUTS)
                .map(|i| if i == round % INPUTS && round % 3 == 0 { 0.0 } else { random.f64() })
                .collect();
            let ends = |sign: f64| (0..INPUTS).map(|i| centre[i] + sign * 1.000_001 * scales[i]).collect();
            let within = BoxVec::new(ends(-1.0), ends(1.0));
            let mut symbols = Symbols::default();
            let ball = AffineForm::from_ball(norm, (&centre, &scales), &[0.0; INPUTS], &within, &mut symbols);
            let image = ball.affine(&map, None, 0.0, Arithmetic::Real, false);
            let row: Vec<f64> = (0..OUTPUTS).map(|_| number(&mut random)).collect();
            let sum = image.functional(&row);
            for _ in 0..60 {
                let e = inside(&mut random, norm);
                let x: Vec<f64> = (0..INPUTS).map(|i| centre[i] + scales[i] * e[i]).collect();
                let y = map.apply(&x, 0.0);
                assert!(ball.bounds.contains(&x) && image.bounds.contains(&y), "{norm:?} {y:?}");
                let value: f64 = row.iter().zip(&y).map(|(a, y)| a * y).sum();
                assert!(sum.lower <= value && value <= sum.upper, "{norm:?} {value} in {sum:?}");
            }
            let dual = |weights: &[f64]| -> f64 {
                let terms = weights.iter().zip(&scales).map(|(w, s)| (w * s).abs());
                match norm {
                    BallNorm::Euclidean => terms.map(|t| t * t).sum::<f64>().sqrt(),
                    BallNorm::Sum => terms.fold(0.0, f64::max),
                }
            };
            let at_centre = map.apply(&centre, 0.0);
            for j in 0..OUTPUTS {
                let radius = dual(&weights[j * INPUTS..][..INPUTS]);
                assert!(image.bounds.upper[j] - (at_centre[j] + radius) < 1e-9, "{norm:?}: not tight");
                assert!((at_centre[j] - radius) - image.bounds.lower[j] < 1e-9, "{norm:?}: not tight");
            }
            let together: Vec<f64> =
                (0..INPUTS).map(|i| (0..OUTPUTS).map(|j| row[j] * weights[j * INPUTS + i]).sum()).collect();
            let middle: f64 = row.iter().zip(&at_centre).map(|(a, y)| a * y).sum();
            assert!(sum.upper - (middle + dual(&together)) < 1e-9, "{norm:?}: not tight");
        }
    }

    /// Entries that a program rounds may be off besides, outside the ball: of each alone, and of sums of them.
    #[test]
    fn entries_are_off_by_their_blur_besides() {
        let (centre, scales, blur) = ([1.0, -2.0], [0.5, 0.25], [0.125, 0.0625]);
        let within = BoxVec::new(vec![-9.0; 2], vec![9.0; 2]);
        for norm in [BallNorm::Euclidean, BallNorm::Sum] {
            let form =
                AffineForm::from_ball(norm, (&centre, &scales), &blur, &within, &mut Symbols::default());
            for i in 0..2 {
                for sign in [-1.0, 1.0] {
                    let mut farthest = centre;
                    farthest[i] += sign * (scales[i] + blur[i]);
                    assert!(form.bounds.contains(&farthest), "{norm:?} {farthest:?}");
                    let along = form.functional(&[f64::from(u8::from(i == 0)), f64::from(u8::from(i == 1))]);
                    assert!(along.lower <= farthest[i] && farthest[i] <= along.upper, "{norm:?} {along:?}");
                }
            }
            // All that is off at once, and the ball on top of it.
            let sum = form.functional(&[1.0, 1.0]);
            assert!(sum.upper >= -1.0 + 0.5 + 0.1875 && sum.lower <= -1.0 - 0.5 - 0.1875, "{norm:?} {sum:?}");
        }
    }

    #[test]
    fn what_is_not_a_number_is_not_hidden() {
        for norm in [BallNorm::Euclidean, BallNorm::Sum] {
            assert!(radius(&[1.0, f64::NAN, 2.0], &(0..2), norm).is_nan());
            assert!(radius(&[f64::NAN, 1.0], &(1..2), norm).is_nan());
            assert_eq!(radius(&[f64::INFINITY, 1.0], &(0..2), norm), f64::INFINITY);
            assert_eq!(radius(&[0.0, 0.0, 3.0], &(0..2), norm), 3.0);
            assert_eq!(radius(&[-1.0, 3.0, -0.5], &(1..2), norm), 4.5);
            assert!(radius(&[1e-200, 1e-200], &(0..2), norm) >= 1e-200);
            assert!(radius(&[1e200, 1e200], &(0..2), norm).is_finite());
        }
    }
}
