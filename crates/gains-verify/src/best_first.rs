//! Parts of a region in the order in which they are split: the lowest bound first.

use std::cmp::Ordering;

/// A part of a region with what is proven there.
pub(crate) trait Leaf {
    /// The smallest proven bound of any row.
    fn bound(&self) -> f64;

    /// How much of the region it is: of parts of which the same is proven, the largest comes first.
    fn size(&self) -> f64 {
        0.0
    }
}

/// A part as a heap sees it: the one with the lowest bound is the greatest.
pub(crate) struct Lowest<T>(pub T);

impl<T: Leaf> PartialEq for Lowest<T> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl<T: Leaf> Eq for Lowest<T> {}

impl<T: Leaf> PartialOrd for Lowest<T> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<T: Leaf> Ord for Lowest<T> {
    fn cmp(&self, other: &Self) -> Ordering {
        let sizes = || self.0.size().total_cmp(&other.0.size());
        other.0.bound().total_cmp(&self.0.bound()).then_with(sizes)
    }
}

/// What is proven for the whole region: the lowest bound of all leaves, open or closed. The region is never
/// empty, so leaves that all claim to be prove nothing.
pub(crate) fn proven_everywhere<'a, T: Leaf + 'a>(
    closed: f64,
    open: impl IntoIterator<Item = &'a Lowest<T>>,
) -> f64 {
    let lowest = open.into_iter().map(|leaf| leaf.0.bound()).fold(closed, f64::min);
    if lowest == f64::INFINITY { f64::NEG_INFINITY } else { lowest }
}

#[cfg(test)]
mod tests {
    use std::collections::BinaryHeap;

    use super::*;

    struct Bound(f64);

    impl Leaf for Bound {
        fn bound(&self) -> f64 {
            self.0
        }
    }

    #[test]
    fn the_lowest_bound_comes_first_and_counts_for_all() {
        let mut heap: BinaryHeap<_> = [0.5, -2.0, f64::INFINITY, -0.1].map(|b| Lowest(Bound(b))).into();
        assert_eq!(proven_everywhere(f64::INFINITY, &heap), -2.0);
        assert_eq!(proven_everywhere(-3.0, &heap), -3.0);
        let order: Vec<f64> = std::iter::from_fn(|| heap.pop()).map(|leaf| leaf.0.0).collect();
        assert_eq!(order, [-2.0, -0.1, 0.5, f64::INFINITY]);
    }

    #[test]
    fn a_region_that_seems_empty_is_not_proven() {
        assert_eq!(proven_everywhere::<Bound>(f64::INFINITY, []), f64::NEG_INFINITY);
    }
}
