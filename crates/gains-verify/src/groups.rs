//! Rows of which parts stand for several variants at once, until their slopes differ.

use gains_core::program::Flight;

/// For each group of equally many rows, the variants it stands for.
#[derive(Clone)]
pub(crate) struct Groups {
    members: Vec<Vec<usize>>,
}

impl Groups {
    /// One group for all variants.
    pub fn new(variants: usize) -> Self {
        Self { members: vec![(0..variants).collect()] }
    }

    fn per_group(&self, flight: &Flight) -> usize {
        flight.count() / self.members.len()
    }

    /// Splits groups whose variants disagree about `key`; returns the key of each group.
    pub fn split<K: PartialEq>(&mut self, flight: &mut Flight, key: impl Fn(usize) -> K) -> Vec<K> {
        let per = self.per_group(flight);
        let mut chosen: Vec<usize> = Vec::new();
        let mut members: Vec<Vec<usize>> = Vec::new();
        let mut keys: Vec<K> = Vec::new();
        for (group, variants) in self.members.iter().enumerate() {
            let first = members.len();
            for &variant in variants {
                match keys[first..].iter().position(|k| *k == key(variant)) {
                    Some(at) => members[first + at].push(variant),
                    None => {
                        keys.push(key(variant));
                        members.push(vec![variant]);
                        chosen.extend(group * per..(group + 1) * per);
                    }
                }
            }
        }
        if members.len() > self.members.len() {
            flight.select(&chosen);
        }
        self.members = members;
        keys
    }

    /// Which row of the flight a variant has for a row.
    pub fn row_of(&self, flight: &Flight, row: usize, variant: usize) -> usize {
        let group = self.members.iter().position(|m| m.contains(&variant)).unwrap_or(0);
        group * self.per_group(flight) + row
    }

    /// Bounds of all rows of a flight, by variant.
    pub fn by_variant(&self, flight: &Flight, bounds: &[f64], variants: usize) -> Vec<Vec<f64>> {
        let per = self.per_group(flight);
        let mut all = vec![Vec::new(); variants];
        for (group, members) in self.members.iter().enumerate() {
            for &variant in members {
                all[variant] = bounds[group * per..(group + 1) * per].to_vec();
            }
        }
        all
    }
}
