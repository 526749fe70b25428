//! Matrices on a device: copies, sums, columns.

use std::ops::Range;

use super::launcher::{Argument, Launcher};
use super::{Kernels, launch, spread};
use crate::cpu::Real;
use crate::matrix::Matrix;

/// Most terms that one kernel adds up.
const MOST_TERMS: usize = 9;

/// Points, or boxes by centre and radius, row by row, in the memory of a device.
pub struct DeviceValues<M> {
    pub(super) rows: usize,
    pub(super) columns: usize,
    pub(super) centre: M,
    pub(super) radius: Option<M>,
}

impl<M> DeviceValues<M> {
    /// Entries of a lane.
    pub(super) fn len(&self) -> usize {
        self.rows * self.columns
    }

    /// Centres and, for boxes, radii.
    pub(super) fn lanes(&self) -> impl Iterator<Item = &M> {
        std::iter::once(&self.centre).chain(&self.radius)
    }

    pub(super) fn is_box(&self) -> bool {
        self.radius.is_some()
    }
}

impl<L: Launcher, F: Real> Kernels<L, F> {
    /// Values of a size with anything in them.
    pub(super) fn blank(&self, rows: usize, columns: usize, boxes: bool) -> DeviceValues<L::Memory> {
        let lane = || self.floats(rows * columns);
        DeviceValues { rows, columns, centre: lane(), radius: boxes.then(lane) }
    }

    pub(super) fn blank_like(&self, x: &DeviceValues<L::Memory>) -> DeviceValues<L::Memory> {
        self.blank(x.rows, x.columns, x.is_box())
    }

    pub(super) fn put_matrix(&self, x: &Matrix<f64>) -> DeviceValues<L::Memory> {
        let lane = |lane: &[f64]| self.put_floats(lane.iter().copied());
        let radius = x.is_box().then(|| lane(&x.radius));
        DeviceValues { rows: x.rows, columns: x.columns, centre: lane(&x.centre), radius }
    }

    pub(super) fn read_matrix(&self, x: &DeviceValues<L::Memory>) -> Matrix<f64> {
        let lane = |lane: &L::Memory| self.read_floats(lane, x.len());
        let radius = x.radius.as_ref().map(lane).unwrap_or_default();
        Matrix { rows: x.rows, columns: x.columns, centre: lane(&x.centre), radius }
    }

    pub(super) fn cleared(&self, x: &DeviceValues<L::Memory>) -> DeviceValues<L::Memory> {
        let lane = || self.zeros(x.len());
        DeviceValues {
            rows: x.rows,
            columns: x.columns,
            centre: lane(),
            radius: x.radius.as_ref().map(|_| lane()),
        }
    }

    pub(super) fn add_values(&self, sum: &DeviceValues<L::Memory>, part: &DeviceValues<L::Memory>) {
        for (to, from) in sum.lanes().zip(part.lanes()) {
            launch!(self, "add_to", spread(sum.len()), self.at(to), self.at(from), sum.len());
        }
    }

    /// `Σ c·x`; a box has the radius `Σ |c|·r`.
    pub(super) fn combination(
        &self,
        coefficients: &[f64],
        x: &[&DeviceValues<L::Memory>],
    ) -> DeviceValues<L::Memory> {
        let out = self.blank_like(x[0]);
        let terms: Vec<(f64, &DeviceValues<L::Memory>)> =
            coefficients.iter().copied().zip(x.iter().copied()).collect();
        for (index, terms) in terms.chunks(MOST_TERMS).enumerate() {
            let centres = terms.iter().map(|(c, x)| (*c, &x.centre));
            self.combine_lane(&out.centre, out.len(), index > 0, centres);
            if let Some(radius) = &out.radius {
                let radii = terms.iter().filter_map(|(c, x)| Some((c.abs(), x.radius.as_ref()?)));
                self.combine_lane(radius, out.len(), index > 0, radii);
            }
        }
        out
    }

    fn combine_lane<'a>(
        &self,
        out: &L::Memory,
        len: usize,
        onto: bool,
        terms: impl Iterator<Item = (f64, &'a L::Memory)>,
    ) where
        L::Memory: 'a,
    {
        let (mut places, mut factors, mut count) = ([0; 18], [0.0; MOST_TERMS], 0);
        for (factor, x) in terms {
            (places[count], factors[count]) = (self.at(x), factor);
            count += 1;
        }
        let (places, factors) = (Argument::Places(places), Argument::Factors(factors));
        launch!(self, "combine", spread(len), self.at(out), len, count, onto, places, factors);
    }

    /// Copies columns of a lane to columns of another.
    fn copy_columns(
        &self,
        rows: usize,
        (from, from_columns): (&L::Memory, usize),
        (to, to_columns): (&L::Memory, usize),
        [first, start, count]: [usize; 3],
    ) {
        let n = rows * count;
        let (from, to) = (self.at(from), self.at(to));
        launch!(self, "copy_columns", spread(n), from, from_columns, first, to, to_columns, start, count, n);
    }

    /// Rows of several values side by side.
    pub(super) fn concat(&self, x: &[&DeviceValues<L::Memory>]) -> DeviceValues<L::Memory> {
        let columns = x.iter().map(|x| x.columns).sum();
        let out = self.blank(x[0].rows, columns, x[0].is_box());
        let mut start = 0;
        for x in x {
            for (from, to) in x.lanes().zip(out.lanes()) {
                self.copy_columns(x.rows, (from, x.columns), (to, columns), [0, start, x.columns]);
            }
            start += x.columns;
        }
        out
    }

    /// Some columns.
    pub(super) fn slice(&self, x: &DeviceValues<L::Memory>, range: Range<usize>) -> DeviceValues<L::Memory> {
        let out = self.blank(x.rows, range.len(), x.is_box());
        for (from, to) in x.lanes().zip(out.lanes()) {
            let places = [range.start, 0, range.len()];
            self.copy_columns(x.rows, (from, x.columns), (to, range.len()), places);
        }
        out
    }

    /// The gradient of what [`Self::slice`] took columns of.
    pub(super) fn slice_back(
        &self,
        x: &DeviceValues<L::Memory>,
        range: Range<usize>,
        gradient: &DeviceValues<L::Memory>,
    ) -> DeviceValues<L::Memory> {
        let out = self.cleared(x);
        for (from, to) in gradient.lanes().zip(out.lanes()) {
            let places = [0, range.start, range.len()];
            self.copy_columns(x.rows, (from, range.len()), (to, x.columns), places);
        }
        out
    }
}
