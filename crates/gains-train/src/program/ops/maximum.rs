//! The larger of two values, entry by entry.

use crate::program::number::{Number, Span};

/// It grows with both arguments.
pub fn over<N: Number>([x, y]: [Span<N>; 2]) -> Span<N> {
    Span::new(x.low.larger(y.low), x.high.larger(y.high))
}

/// Between the changes of both arguments; where the same one is larger in both evaluations, its change.
pub fn moved<N: Number>(before: [Span<N>; 2], after: [Span<N>; 2], [dx, dy]: [Span<N>; 2]) -> Span<N> {
    let leads = |x: &Span<N>, y: &Span<N>| x.low.value() >= y.high.value();
    let all = [&before, &after];
    if all.iter().all(|[x, y]| leads(x, y)) {
        dx
    } else if all.iter().all(|[x, y]| leads(y, x)) {
        dy
    } else {
        dx.hull(dy)
    }
}
