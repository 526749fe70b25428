//! Points at which functions turn and bend, and numbers at the ends of what there is.

use super::*;

/// Half of the smallest number is none, but not nothing: what is multiplied later is not lost.
#[test]
fn the_smallest_numbers_are_not_taken_for_zero() {
    for pieced in [Curve::Gelu, Curve::GeluTanh, Curve::Silu] {
        for x in [5e-324, 1.5e-323, 1e-310] {
            let (above, below) = (pieced.at(x), pieced.at(-x));
            assert!(above.high >= 0.5 * x && above.high > 0.0, "{pieced:?} {x:e}: {above:?}");
            assert!(below.low <= -0.5 * x && below.low < 0.0, "{pieced:?} {x:e}: {below:?}");
        }
    }
    assert!(Curve::GeluTanh.steepness(5e-324).high > 0.5);
}

/// Ends whose difference overflows leave no tangent to look for.
#[test]
fn functions_over_nearly_all_numbers_are_bounded() {
    for pieced in [Curve::Square, Curve::Softplus, Curve::Gelu, Curve::Elu { alpha: 1.0 }] {
        for (low, high) in [(-1.7e308, 1.7e308), (-1.7e308, 1e-300), (0.0, 1.7e308)] {
            let x = Interval::new(low, high);
            let least = pieced.least(1.0, 0.0, x);
            assert!(least <= pieced.at(low).high.min(pieced.at(high).high), "{pieced:?}: {least}");
        }
    }
}

/// The points at which functions turn or bend lie in their intervals.
#[test]
fn functions_turn_and_bend_where_they_are_said_to() {
    for (pieced, turn) in
        [(Curve::Silu, SILU_TURN), (Curve::Gelu, GELU_TURN), (Curve::GeluTanh, GELU_TANH_TURN)]
    {
        let (falls, grows) = (pieced.steepness(turn.low), pieced.steepness(turn.high));
        assert!(falls.high < 0.0 && grows.low > 0.0, "{pieced:?}: {falls:?} {grows:?}");
        assert!(turn.high - turn.low < 3e-14);
    }
    // x tanh(x/2) = 2.
    let silu = |x: f64| x * tanh(Interval::point(0.5 * x));
    assert!(silu(SILU_BEND.low).high < 2.0 && silu(SILU_BEND.high).low > 2.0);
    // x u'² tanh u = √(2/π) (1 + 6c x²).
    let gelu = |x: f64| {
        let (u, steepness) = inner(x);
        let c = Interval::point(44715.0) / Interval::point(1e6);
        let right = root_two_over_pi() * (Interval::ONE + 6.0 * (c * Interval::point(x).square()));
        x * (steepness.square() * tanh(u)) - right
    };
    assert!(gelu(GELU_TANH_BEND.low).high < 0.0 && gelu(GELU_TANH_BEND.high).low > 0.0);
    // Bends at √2 and at multiples of π, or half turns more.
    for (pieced, x) in [
        (Curve::Gelu, Interval::new(-3.0, 3.0)),
        (Curve::Wave { cosine: false }, Interval::new(-7.0, 7.0)),
        (Curve::Wave { cosine: true }, Interval::new(-7.0, 7.0)),
    ] {
        for piece in pieced.pieces(x).unwrap_or_default() {
            let at = |part: f64| piece.on.low + part * (piece.on.high - piece.on.low);
            let (a, b) = (pieced.steepness(at(0.25)), pieced.steepness(at(0.75)));
            match piece.bend {
                Bend::Convex => assert!(a.high < b.low, "{pieced:?} {:?}", piece.on),
                Bend::Concave => assert!(a.low > b.high, "{pieced:?} {:?}", piece.on),
                _ => assert!(piece.on.high - piece.on.low < 1e-14),
            }
        }
    }
}
