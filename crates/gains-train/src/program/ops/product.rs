//! Products, entry by entry.

use crate::program::number::{Number, Span};

/// `x'y' − xy = x'·(y' − y) + y·(x' − x)`.
pub fn moved<N: Number>(later_x: Span<N>, y: Span<N>, [dx, dy]: [Span<N>; 2]) -> Span<N> {
    later_x.times(dy).plus(y.times(dx))
}
