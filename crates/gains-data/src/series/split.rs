//! Dividing records into those trained on, those validated on and those tested on.

use std::fmt;
use std::ops::Range;

/// In which order records are laid out before they are divided.
///
/// The reference divides in the order in which the authors' file system happened to list the files, which
/// nobody can repeat. Both orders here are the same on every machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Order {
    /// By id. The golden numbers of the reference were made with this one.
    Sorted,
    /// By id, then shuffled with this seed.
    Shuffled(u64),
}

impl Default for Order {
    fn default() -> Self {
        Order::Shuffled(0)
    }
}

impl fmt::Display for Order {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Order::Sorted => write!(f, "sorted by id"),
            Order::Shuffled(seed) => write!(f, "shuffled with seed {seed}"),
        }
    }
}

/// A part of the records.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Subset {
    /// Trained on; the only part that statistics are taken from.
    Train,
    /// Used to choose among trained networks.
    Validation,
    /// Used once, for the results.
    Test,
}

impl Subset {
    /// All of them.
    pub const ALL: [Subset; 3] = [Subset::Train, Subset::Validation, Subset::Test];
}

impl fmt::Display for Subset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Subset::Train => "train",
            Subset::Validation => "validation",
            Subset::Test => "test",
        })
    }
}

/// No more records than this are tested on, and as many validated on.
const MOST_HELD_OUT: usize = 400;

/// The positions `0..records`, sorted by id, in this order.
///
/// The shuffle is that of Fisher and Yates from the last position down, with numbers from SplitMix64 that is
/// started with the seed; the number below `n` is the upper half of the product with `n`.
pub(super) fn arrange(records: usize, order: Order) -> Vec<usize> {
    let mut positions: Vec<usize> = (0..records).collect();
    if let Order::Shuffled(mut state) = order {
        for last in (1..records).rev() {
            let drawn = u128::from(split_mix(&mut state)) * (last as u128 + 1);
            positions.swap(last, (drawn >> 64) as usize);
        }
    }
    positions
}

/// Steele, Lea and Flood, *Fast splittable pseudorandom number generators*, 2014.
fn split_mix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Where a part lies among `records` records in order: the last are tested on, those before them validated on.
/// Each of the two gets a twentieth, rounded up, and at most 400.
pub(super) fn range(records: usize, part: Subset) -> Range<usize> {
    let held_out = records.div_ceil(20).min(MOST_HELD_OUT);
    let test = records.saturating_sub(held_out);
    let validation = test.saturating_sub(held_out);
    match part {
        Subset::Train => 0..validation,
        Subset::Validation => validation..test,
        Subset::Test => test..records,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_generator_is_the_published_one() {
        // The first three numbers from seed 1234567, as in the tests of the reference implementations.
        let mut state = 1_234_567;
        let numbers = [split_mix(&mut state), split_mix(&mut state), split_mix(&mut state)];
        assert_eq!(
            numbers,
            [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423]
        );
    }

    #[test]
    fn a_shuffle_loses_nothing_and_depends_on_the_seed_alone() {
        let shuffled = arrange(1000, Order::Shuffled(3));
        let mut sorted = shuffled.clone();
        sorted.sort_unstable();
        assert_eq!(sorted, arrange(1000, Order::Sorted));
        assert_eq!(shuffled, arrange(1000, Order::Shuffled(3)));
        assert_ne!(shuffled, arrange(1000, Order::Shuffled(4)));
        assert_ne!(shuffled, sorted);
        assert!(arrange(0, Order::Shuffled(1)).is_empty());
    }

    #[test]
    fn every_position_is_reached_about_equally_often() {
        let mut first = [0_usize; 5];
        for seed in 0..5000 {
            first[arrange(5, Order::Shuffled(seed))[0]] += 1;
        }
        assert!(first.iter().all(|&count| (850..1150).contains(&count)), "{first:?}");
    }

    #[test]
    fn the_parts_are_those_of_the_reference_and_small_sets_divide_too() {
        let sizes = |records| Subset::ALL.map(|part| range(records, part).len());
        assert_eq!(sizes(7982), [7182, 400, 400]);
        assert_eq!(sizes(8000), [7200, 400, 400]);
        assert_eq!(sizes(20_000), [19_200, 400, 400]);
        assert_eq!(sizes(100), [90, 5, 5]);
        assert_eq!(sizes(3), [1, 1, 1]);
        assert_eq!(sizes(2), [0, 1, 1]);
        assert_eq!(sizes(0), [0, 0, 0]);
        assert_eq!(range(7982, Subset::Test), 7582..7982);
    }
}
