//! Elementwise functions. What they are, [`Activation`] knows: a new one trains without anything being added here.

use gains_core::activation::Activation;
use gains_core::smooth::Bend;
use gains_core::{Arithmetic, Interval};

use crate::program::number::{Number, Span};

/// `f(x)`.
pub fn at<N: Number>(f: Activation, x: N) -> N {
    x.chain(f.value(x.value()), f.derivative(x.value()))
}

/// All `f(x)`: between the values at the ends, unless `f` turns around inside, where its slope is 0.
pub fn over<N: Number>(f: Activation, x: Span<N>) -> Span<N> {
    let (a, b) = (at(f, x.low), at(f, x.high));
    let (least, most) = (a.smaller(b), a.larger(b));
    let on = Interval::new(x.low.value(), x.high.value());
    let image = f.image(on, Arithmetic::Real);
    // The image also has room for rounding, which is no turn.
    let size = least.value().abs().max(most.value().abs());
    let room = 2.0 * f.evaluation_error(on, size, Arithmetic::Real) + 1e-12 * (1.0 + size);
    let turns = |end: N, image: f64| (end.value() - image).abs() > room;
    Span::new(
        if turns(least, image.lower) { N::constant(image.lower) } else { least },
        if turns(most, image.upper) { N::constant(image.upper) } else { most },
    )
}

/// `f(after) − f(before)` is a slope of `f` between the two, times how far they are apart.
pub fn moved<N: Number>(f: Activation, between: Span<N>, apart: Span<N>) -> Span<N> {
    let (a, b) = (between.low.value(), between.high.value());
    let on = Interval::new(a, b);
    let range = f.derivative_range(on);
    if !bends(f, on) {
        return Span::new(N::constant(range.lower), N::constant(range.upper)).times(apart);
    }
    let ends = [between.low, between.high].map(|x| x.chain(f.derivative(x.value()), bend(f, x.value())));
    // The steepest slope is that of one end or, where the bend changes its direction inside, moves with neither.
    let slope = |bound: f64| {
        let room = 1e-9 * (1.0 + bound.abs());
        let end = ends.into_iter().find(|end| (end.value() - bound).abs() <= room);
        end.unwrap_or(N::constant(bound))
    };
    Span::new(slope(range.lower), slope(range.upper)).times(apart)
}

/// Whether the slope of a function changes other than by jumps.
fn bends(f: Activation, on: Interval) -> bool {
    match f {
        Activation::Relu | Activation::LeakyRelu { .. } | Activation::Absolute => false,
        Activation::Sigmoid | Activation::Tanh => true,
        Activation::Smooth(f) => {
            f.pieces(on).is_none_or(|pieces| pieces.iter().any(|piece| piece.bend != Bend::Linear))
        }
    }
}

/// How fast the slope changes. Only training asks for it, so it is no rule of an activation: by differences of slopes.
fn bend(f: Activation, x: f64) -> f64 {
    let h = 1e-5 * (1.0 + x.abs());
    (f.derivative(x + h) - f.derivative(x - h)) / (2.0 * h)
}
