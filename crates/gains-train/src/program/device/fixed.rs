//! Affine maps without parameters, learned factors and summands, and what is kept of their shapes on the device.

use std::sync::{Arc, PoisonError};

use gains_core::affine::{AffineMap, GroupPart};

use super::launcher::Launcher;
use super::learning::{DeviceGradients, DeviceWeights};
use super::values::DeviceValues;
use super::{Kernels, launch, spread};
use crate::cpu::Real;
use crate::program::ops::{Clock, Fixed, Scale};

/// Some lists one after the other: where each begins, then its numbers.
pub(super) struct Lists<M> {
    starts: M,
    entries: M,
}

/// What a map looks like. What it was made from is kept, so that nothing else comes to lie where it did.
pub(super) enum Table<M> {
    /// A convolution or a linear layer.
    Layer { _keep: Arc<[u32]>, pixels: M, positions: M },
    /// Outputs that are `factor` times a sum of inputs, and the same transposed.
    Sums { _keep: Arc<AffineMap>, forward: Lists<M>, back: Lists<M>, factor: f64 },
    /// Given factors and summands by entry.
    Given { _keep: Arc<AffineMap>, factors: M, summands: M },
    /// Groups of channels.
    Groups { map: Arc<AffineMap>, groups: usize, part: GroupPart },
    /// Which of some parameters belongs to every entry, and which entries to each of them.
    Index { _keep: Arc<[u32]>, index: M, entries: Lists<M> },
}

/// The inputs that every output is a sum of, and their factor.
fn sources(map: &AffineMap) -> Option<(Vec<Vec<usize>>, f64)> {
    match map {
        AffineMap::Pool(pool) => {
            let (pixels, factor) = pool.sources();
            let channels = map.input().channels;
            let of = |pixels: &Vec<usize>, channel: usize| {
                pixels.iter().map(|pixel| pixel * channels + channel).collect()
            };
            let all = pixels.iter().flat_map(|pixels| (0..channels).map(move |c| of(pixels, c)));
            Some((all.collect(), factor))
        }
        AffineMap::Select(selection) => {
            let one = |source: &Option<u32>| source.iter().map(|entry| *entry as usize).collect();
            Some((selection.sources().iter().map(one).collect(), 1.0))
        }
        _ => None,
    }
}

/// For every entry, the lists it is in.
fn transposed(lists: &[Vec<usize>], count: usize) -> Vec<Vec<usize>> {
    let mut all = vec![Vec::new(); count];
    for (index, list) in lists.iter().enumerate() {
        list.iter().for_each(|entry| all[*entry].push(index));
    }
    all
}

impl<L: Launcher, F: Real> Kernels<L, F> {
    /// What is kept of something that lies at an address of this machine.
    pub(super) fn table(
        &self,
        address: usize,
        make: impl FnOnce() -> Table<L::Memory>,
    ) -> Arc<Table<L::Memory>> {
        let mut tables = self.tables.lock().unwrap_or_else(PoisonError::into_inner);
        tables.entry(address).or_insert_with(|| Arc::new(make())).clone()
    }

    fn put_lists(&self, lists: &[Vec<usize>]) -> Lists<L::Memory> {
        let mut starts = vec![0];
        for list in lists {
            starts.push(starts.last().copied().unwrap_or(0) + list.len() as i32);
        }
        let entries = lists.iter().flatten().map(|entry| *entry as i32);
        Lists { starts: self.put_ints(starts.into_iter()), entries: self.put_ints(entries) }
    }

    fn fixed_table(&self, Fixed(map): &Fixed) -> Arc<Table<L::Memory>> {
        self.table(Arc::as_ptr(map) as usize, || {
            let keep = map.clone();
            if let Some((lists, factor)) = sources(map) {
                let back = self.put_lists(&transposed(&lists, map.input().len()));
                return Table::Sums { _keep: keep, forward: self.put_lists(&lists), back, factor };
            }
            match &**map {
                AffineMap::Group(group) => {
                    Table::Groups { map: keep, groups: group.groups(), part: group.part() }
                }
                _ => {
                    let factors = self.put_doubles(&map.apply_linear(&vec![1.0; map.input().len()]));
                    Table::Given { _keep: keep, factors, summands: self.put_doubles(&map.bias(0.0)) }
                }
            }
        })
    }

    /// `W x + b`, or of changes `W d`.
    pub(super) fn fixed(
        &self,
        fixed: &Fixed,
        x: &DeviceValues<L::Memory>,
        clock: Clock,
    ) -> DeviceValues<L::Memory> {
        let out = self.blank(x.rows, fixed.0.output().len(), x.is_box());
        let table = self.fixed_table(fixed);
        for (lane, (from, to)) in x.lanes().zip(out.lanes()).enumerate() {
            let sizes = [x.rows, x.columns, out.columns];
            self.fixed_lane(&table, (from, to), sizes, (lane == 0 && clock.biased, lane == 1, false));
        }
        out
    }

    /// The gradient of the input.
    pub(super) fn fixed_back(
        &self,
        fixed: &Fixed,
        x: &DeviceValues<L::Memory>,
        gradient: &DeviceValues<L::Memory>,
    ) -> DeviceValues<L::Memory> {
        let part = self.blank_like(x);
        let table = self.fixed_table(fixed);
        for (lane, (from, to)) in gradient.lanes().zip(part.lanes()).enumerate() {
            let sizes = [x.rows, gradient.columns, part.columns];
            self.fixed_lane(&table, (from, to), sizes, (false, lane == 1, true));
        }
        part
    }

    /// One lane through a map: with what it adds, by magnitudes of its entries, transposed.
    fn fixed_lane(
        &self,
        table: &Table<L::Memory>,
        (from, to): (&L::Memory, &L::Memory),
        [rows, inputs, outputs]: [usize; 3],
        (biased, magnitudes, back): (bool, bool, bool),
    ) {
        let (n, x, y) = (rows * outputs, self.at(from), self.at(to));
        match table {
            Table::Sums { forward, back: transposed, factor, .. } => {
                let lists = if back { transposed } else { forward };
                let (starts, entries) = (self.at(&lists.starts), self.at(&lists.entries));
                launch!(self, "gathered", spread(n), x, inputs, starts, entries, *factor, y, outputs, n);
            }
            Table::Given { factors, summands, .. } => {
                let summands = if biased { self.at(summands) } else { 0 };
                launch!(self, "given_scale", spread(n), x, self.at(factors), summands, y, outputs, n);
            }
            Table::Groups { map, groups, part } => {
                // All entries of a mean are positive; what is left without it is symmetric, as its magnitudes are.
                let part = match (part, magnitudes) {
                    (GroupPart::Mean, _) => 0_usize,
                    (GroupPart::Rest, false) => 1,
                    (GroupPart::Rest, true) => 2,
                };
                let channels = map.input().channels;
                launch!(self, "group_means", [rows, *groups, 1], x, channels, *groups, outputs, part, y);
            }
            Table::Layer { .. } | Table::Index { .. } => {}
        }
    }

    fn index_table(&self, scale: &Scale) -> Arc<Table<L::Memory>> {
        self.table(scale.index.as_ptr() as usize, || {
            let of: Vec<Vec<usize>> = scale.index.iter().map(|which| vec![*which as usize]).collect();
            Table::Index {
                _keep: scale.index.clone(),
                index: self.put_ints(scale.index.iter().map(|which| *which as i32)),
                entries: self.put_lists(&transposed(&of, scale.factors.len())),
            }
        })
    }

    /// `w·x + b`, or of changes `w·d`.
    pub(super) fn scale(
        &self,
        scale: &Scale,
        weights: &DeviceWeights<L::Memory>,
        x: &DeviceValues<L::Memory>,
        clock: Clock,
    ) -> DeviceValues<L::Memory> {
        let out = self.blank_like(x);
        let summands = if clock.biased { self.after(&weights.values, scale.summands.start) } else { 0 };
        self.scale_lanes(scale, weights, x, &out, summands);
        out
    }

    fn scale_lanes(
        &self,
        scale: &Scale,
        weights: &DeviceWeights<L::Memory>,
        x: &DeviceValues<L::Memory>,
        out: &DeviceValues<L::Memory>,
        summands: u64,
    ) {
        let table = self.index_table(scale);
        let Table::Index { index, .. } = &*table else { return };
        let numbers = [(&weights.values, summands), (&weights.magnitudes, 0)];
        for ((from, to), (factors, summands)) in x.lanes().zip(out.lanes()).zip(numbers) {
            let factors = self.after(factors, scale.factors.start);
            let (x, index, y, n) = (self.at(from), self.at(index), self.at(to), x.len());
            launch!(self, "learned_scale", spread(n), x, factors, summands, index, y, out.columns, n);
        }
    }

    /// Adds the gradients of factors and summands; that of the input.
    pub(super) fn scale_back(
        &self,
        scale: &Scale,
        weights: &DeviceWeights<L::Memory>,
        x: &DeviceValues<L::Memory>,
        clock: Clock,
        gradient: &DeviceValues<L::Memory>,
        into: &DeviceGradients<L::Memory>,
    ) -> DeviceValues<L::Memory> {
        let part = self.blank_like(x);
        self.scale_lanes(scale, weights, gradient, &part, 0);
        let table = self.index_table(scale);
        let Table::Index { entries, .. } = &*table else { return part };
        let summands = if clock.biased { self.after(&into.signed, scale.summands.start) } else { 0 };
        let sums = [(Some(&into.signed), summands), (into.magnitudes.as_ref(), 0)];
        for ((x_lane, g), (factors, summands)) in x.lanes().zip(gradient.lanes()).zip(sums) {
            let Some(factors) = factors else { continue };
            let factors = self.after(factors, scale.factors.start);
            let (starts, entries) = (self.at(&entries.starts), self.at(&entries.entries));
            let (from, g, blocks) = (self.at(x_lane), self.at(g), [scale.factors.len(), 1, 1]);
            let (columns, rows) = (x.columns, x.rows);
            launch!(
                self,
                "learned_scale_gradient",
                blocks,
                from,
                g,
                starts,
                entries,
                columns,
                rows,
                factors,
                summands
            );
        }
        part
    }
}
