//! A list of small decisions, out of which everything random is made, and a way to make that list shorter.
//!
//! What is drawn from a [`Choices`] is a function of the list alone. So a case can be repeated from its seed, and
//! made smaller without knowing what it is: drop or lower decisions, draw again, and look whether it still fails.
//! That only works if 0 is always the simplest decision, and a list that has ended goes on with zeros.

/// Where decisions come from.
pub struct Choices {
    made: Vec<u64>,
    at: usize,
    /// Where new ones come from; without it they are 0.
    fresh: Option<fastrand::Rng>,
}

impl Choices {
    /// Decisions that a seed makes.
    pub fn from_seed(seed: u64) -> Self {
        Self { made: Vec::new(), at: 0, fresh: Some(fastrand::Rng::with_seed(seed)) }
    }

    /// Decisions made before, then zeros.
    pub fn replay(made: &[u64]) -> Self {
        Self { made: made.to_vec(), at: 0, fresh: None }
    }

    /// What has been decided so far.
    pub fn made(&self) -> &[u64] {
        &self.made[..self.at.min(self.made.len())]
    }

    /// A number below `count`; 0 is the simplest.
    pub fn below(&mut self, count: usize) -> usize {
        let count = count.max(1) as u64;
        if self.at == self.made.len() {
            let drawn = self.fresh.as_mut().map_or(0, |random| random.u64(0..count));
            self.made.push(drawn);
        }
        // A list that was made shorter may hold anything here.
        self.made[self.at] %= count;
        let chosen = self.made[self.at];
        self.at += 1;
        chosen as usize
    }

    /// A number of a range; its start is the simplest.
    pub fn within(&mut self, range: std::ops::RangeInclusive<usize>) -> usize {
        range.start() + self.below(range.end() - range.start() + 1)
    }

    /// One of several; the first is the simplest.
    pub fn pick<T: Clone>(&mut self, options: &[T]) -> T {
        options[self.below(options.len())].clone()
    }

    /// True so often in a hundred; false is simpler.
    pub fn chance(&mut self, percent: usize) -> bool {
        self.below(100) >= 100 - percent
    }

    /// A number of [0, 1).
    pub fn unit(&mut self) -> f64 {
        self.below(1 << 24) as f64 / (1 << 24) as f64
    }

    /// A number of (−1, 1).
    pub fn signed(&mut self) -> f64 {
        let drawn = self.below(1 << 24);
        let size = (drawn / 2) as f64 / (1 << 23) as f64;
        if drawn.is_multiple_of(2) { size } else { -size }
    }

    /// A number for a generator of random numbers that need not be made simpler one by one.
    pub fn seed(&mut self) -> u64 {
        self.below(1 << 32) as u64
    }
}

/// A shorter and lower list of decisions that still `fails`, found within so many attempts.
///
/// `fails` draws a case from the list and returns what it has used of it, or `None` if the case does not fail.
pub fn shrink(made: &[u64], attempts: usize, mut fails: impl FnMut(&[u64]) -> Option<Vec<u64>>) -> Vec<u64> {
    let mut best = made.to_vec();
    let mut left = attempts;
    let mut attempt = |best: &mut Vec<u64>, changed: Vec<u64>| {
        if left == 0 || changed == *best {
            return false;
        }
        left -= 1;
        let simpler = |used: &Vec<u64>| (used.len(), &used[..]) < (best.len(), &best[..]);
        match fails(&changed).filter(simpler) {
            Some(used) => {
                *best = used;
                true
            }
            None => false,
        }
    };
    loop {
        let before = best.clone();
        for size in [128, 64, 32, 16, 8, 4, 2, 1] {
            let mut from = 0;
            while from < best.len() {
                let end = (from + size).min(best.len());
                let mut without = best.clone();
                without.drain(from..end);
                let mut zeros = best.clone();
                zeros[from..end].fill(0);
                if !attempt(&mut best, without) && !attempt(&mut best, zeros) {
                    from += size;
                }
            }
        }
        for index in 0..best.len() {
            for lower in [|x: u64| x / 16, |x: u64| x / 2, |x: u64| x.saturating_sub(1)] {
                while index < best.len() {
                    let mut changed = best.clone();
                    changed[index] = lower(changed[index]);
                    if !attempt(&mut best, changed) {
                        break;
                    }
                }
            }
        }
        if best == before {
            return best;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn draw(choices: &mut Choices) -> Vec<usize> {
        let mut drawn = Vec::new();
        while choices.chance(90) {
            drawn.push(choices.below(1000));
        }
        drawn
    }

    #[test]
    fn a_list_says_everything() {
        let mut fresh = Choices::from_seed(7);
        let first = draw(&mut fresh);
        assert!(!first.is_empty());
        assert_eq!(draw(&mut Choices::replay(fresh.made())), first);
        assert!(draw(&mut Choices::replay(&[])).is_empty());
    }

    #[test]
    fn what_is_left_of_a_list_is_what_matters() {
        let fails = |made: &[u64]| {
            let mut choices = Choices::replay(made);
            let drawn = draw(&mut choices);
            drawn.iter().any(|x| *x >= 123).then(|| choices.made().to_vec())
        };
        let seed = (0..).find(|&seed| {
            let mut fresh = Choices::from_seed(seed);
            draw(&mut fresh).len() > 10 && fails(fresh.made()).is_some()
        });
        let mut fresh = Choices::from_seed(seed.expect("one of them is long"));
        draw(&mut fresh);
        let least = shrink(fresh.made(), 10_000, fails);
        assert_eq!(draw(&mut Choices::replay(&least)), [123]);
    }
}
