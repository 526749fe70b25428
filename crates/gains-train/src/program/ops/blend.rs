//! Convex combinations with a gate, `(1 − u)·g + u·y`, for `u` inside [0, 1].

use crate::program::number::{Number, Span};

/// At a point.
pub fn at<N: Number>([u, g, y]: [N; 3]) -> N {
    g + u * (y - g)
}

/// It grows with `g` and `y` and is linear in `u`.
pub fn over<N: Number>([u, g, y]: [Span<N>; 3]) -> Span<N> {
    let low = [u.low, u.high].map(|u| at([u, g.low, y.low]));
    let high = [u.low, u.high].map(|u| at([u, g.high, y.high]));
    Span::new(low[0].smaller(low[1]), high[0].larger(high[1]))
}

/// `(y − g)·(u' − u) + (1 − u')·(g' − g) + u'·(y' − y)`, with the old `y` and `g` and the new `u`.
pub fn moved<N: Number>([u, g, y]: [Span<N>; 3], [du, dg, dy]: [Span<N>; 3]) -> Span<N> {
    let one = N::constant(1.0);
    let rest = Span::new(one - u.high, one - u.low);
    y.minus(g).times(du).plus(rest.times(dg)).plus(u.times(dy))
}
