//! Affine maps as operators: how they change between two evaluations, and rows on their outputs pulled back to rows on
//! their inputs.

use std::sync::Arc;

use crate::affine::{AffineMap, Matrix, multiply};
use crate::arithmetic::{Arithmetic, analysis_error};
use crate::kernels;
use crate::rows::Rows;
use crate::support::Support;

use super::{Changing, Image, Spot};

/// An affine map, or the change of one, over a region: what it adds and what rounding is proportional to.
#[derive(Clone, Debug)]
pub struct AffineKnown {
    /// The outputs that matter to anything behind.
    on: Support,
    /// What is added there.
    bias: Vec<f64>,
    /// [`AffineMap::magnitude`] there.
    magnitude: Vec<f64>,
    /// What a program's own rounding costs besides, for a coefficient of one; nothing if empty.
    program: Vec<f64>,
    /// Whose arithmetic the magnitude is charged for.
    arithmetic: Option<Arithmetic>,
}

impl AffineKnown {
    /// Of the values, `magnitude` being that of all outputs.
    pub fn of_value(map: &AffineMap, magnitude: &[f64], on: Support, time: f64) -> Self {
        let bias = on.cut(&map.bias(time)).into_owned();
        let magnitude = on.cut(magnitude).into_owned();
        Self { on, bias, magnitude, program: Vec::new(), arithmetic: None }
    }

    /// Of the change between two evaluations: the bias drops out, and a program rounds in both.
    pub(super) fn of_change(map: &AffineMap, c: &Changing<'_>, size: &[f64], on: Support) -> Self {
        let program = map.program_rounding(c);
        Self {
            bias: on.cut(&map.time_shift(c.elapsed).0).into_owned(),
            magnitude: on.cut(size).into_owned(),
            program: on.cut(&program).into_owned(),
            arithmetic: Some(Arithmetic::Real),
            on,
        }
    }

    pub(super) fn bytes(&self) -> usize {
        8 * (self.bias.len() + self.magnitude.len() + self.program.len()) + 4 * self.on.len()
    }
}

impl AffineMap {
    /// What a program rounds in two evaluations, `γ (v + v')` for every output.
    fn program_rounding(&self, c: &Changing<'_>) -> Vec<f64> {
        let rounding = self.program_dot(c.arithmetic);
        c.magnitudes.1.iter().zip(c.magnitudes.0).map(|(a, b)| rounding * (a + b)).collect()
    }

    /// `d ↦ W d + elapsed·u`, widened by what a program rounds.
    pub(super) fn change(&self, c: &Changing<'_>) -> Image {
        let (mut value, magnitude) = self.apply_difference(c.apart[0], c.elapsed);
        let program = self.program_rounding(c);
        value.widen(|i| program[i]);
        Image { value, magnitude }
    }

    /// `A ↦ A W`, constant `+ A·(b + t·u)`. Rounding costs at most `γ |A| v`, taken off each row as slack: of the
    /// product, which sums over the outputs a row has coefficients on, and of the program's own sums.
    pub(super) fn pull(&self, known: &AffineKnown, rows: Rows, spot: Spot<'_>) -> Rows {
        let mut rows = match &known.on {
            Support::Entries { entries, .. } => rows.onto(entries),
            Support::Window(_) => rows,
        };
        let program = self.program_dot(known.arithmetic.unwrap_or(spot.arithmetic));
        let gamma = analysis_error(self.terms() + rows.length) + program;
        let whole = known.bias.len() != rows.length;
        let place = rows.on().clone();
        let part = |all: &[f64]| if whole { place.cut(all).into_owned() } else { all.to_vec() };
        let (bias, magnitude) = match whole {
            true => (&part(&known.bias), &part(&known.magnitude)),
            false => (&known.bias, &known.magnitude),
        };
        let own = if known.program.is_empty() { Vec::new() } else { part(&known.program) };
        for row in 0..rows.count {
            let (constant, size) = kernels::dot_and_size(rows.row(row), bias, magnitude);
            let mut owed = gamma * size;
            if !own.is_empty() {
                owed += kernels::size(rows.row(row), &own);
            }
            rows.absorb(row, constant, owed);
        }
        match (rows.on(), spot.entries[0]) {
            (Support::Entries { .. }, Some(wanted)) => self.pull_entries(rows, wanted, spot.matrix),
            (Support::Entries { .. }, None) => self.pull_linear(&rows.widened()),
            (Support::Window(_), Some(wanted)) => self.pull_linear(&rows).onto(wanted),
            (Support::Window(_), None) => self.pull_linear(&rows),
        }
    }

    /// Few entries: a small dense product. Many: the map's own way, which touches fewer weights.
    fn pull_entries(&self, rows: Rows, wanted: &Arc<[u32]>, matrix: Option<&Matrix>) -> Rows {
        let Support::Entries { entries: outputs, .. } = rows.on() else { return rows };
        let count = rows.count;
        // The extra rows stand for gathering and packing.
        let dense = outputs.len() * wanted.len() * (count + 16);
        match matrix.filter(|_| dense < self.pull_cost() * (count + count / 3)) {
            Some(matrix) => {
                let mut weights = Vec::new();
                matrix.gather(outputs, wanted, &mut weights);
                let mut pulled = Rows::zeros(count, Support::entries(self.input(), wanted.clone()));
                let width = outputs.len();
                multiply(count, width, wanted.len(), &rows.coefficients, &weights, &mut pulled.coefficients);
                pulled.constant.copy_from_slice(&rows.constant);
                pulled.slack.copy_from_slice(&rows.slack);
                pulled
            }
            None => self.pull_linear(&rows.widened()).onto(wanted),
        }
    }
}
