//! Samples to learn from, to choose by and to test with, divided by a seed.

use crate::random::{Purpose, seed_at};

/// Which samples are for what.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Division {
    /// To learn from.
    pub training: Vec<usize>,
    /// To choose networks by.
    pub validation: Vec<usize>,
    /// To test the network with that was chosen.
    pub test: Vec<usize>,
}

/// Divides so many samples; parts are rounded to whole samples. It depends on nothing but the seed and the number.
pub fn divide(seed: u64, samples: usize, validation: f64, test: f64) -> Division {
    let mut order: Vec<usize> = (0..samples).collect();
    fastrand::Rng::with_seed(seed_at(seed, Purpose::Split, 0, 0, 0)).shuffle(&mut order);
    let count = |part: f64| (part * samples as f64).round() as usize;
    let test = order.split_off(samples - count(test).min(samples));
    let validation = order.split_off(order.len() - count(validation).min(order.len()));
    Division { training: order, validation, test }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_sample_is_somewhere_and_nowhere_twice() {
        for (samples, validation, test) in
            [(100, 0.15, 0.15), (7, 0.5, 0.4), (1, 0.1, 0.1), (0, 0.2, 0.2), (9, 0.0, 0.0)]
        {
            let division = divide(5, samples, validation, test);
            assert_eq!(division, divide(5, samples, validation, test));
            let Division { training, validation, test } = division;
            let mut all = [training, validation, test].concat();
            all.sort_unstable();
            assert_eq!(all, (0..samples).collect::<Vec<_>>());
        }
        let sizes = divide(5, 100, 0.15, 0.2);
        assert_eq!((sizes.validation.len(), sizes.test.len()), (15, 20));
        assert_ne!(sizes, divide(6, 100, 0.15, 0.2));
    }
}
