//! Intervals and rows without rounding, for the oracle: linear layers, ReLUs, CURLS.
//!
//! Everything carries its charge: the sum of magnitudes of every operation that led to it, each carried
//! along as an error of that size would be. An implementation that rounds every operation once, and counts
//! it, is off by one unit roundoff of this sum.

use gains_core::description::LayerSpec;
use gains_core::model_file::Tensors;

use crate::exact::Exact;

/// A closed interval.
#[derive(Clone)]
pub struct Range {
    pub low: Exact,
    pub high: Exact,
    /// Magnitudes of the operations that led here.
    pub charge: f64,
}

impl Range {
    pub fn point(x: Exact) -> Self {
        Self { low: x.clone(), high: x, charge: 0.0 }
    }

    pub fn scaled(&self, factor: &Exact) -> Self {
        let (a, b) = (factor * &self.low, factor * &self.high);
        let charge = self.charge * factor.abs().to_f64();
        if factor.is_negative() { Self { low: b, high: a, charge } } else { Self { low: a, high: b, charge } }
    }

    pub fn plus(&self, other: &Self) -> Self {
        Self {
            low: (&self.low + &other.low).trim(),
            high: (&self.high + &other.high).trim(),
            charge: self.charge + other.charge,
        }
    }

    pub fn size(&self) -> f64 {
        self.low.abs().max(self.high.abs()).to_f64()
    }

    pub fn relu(&self) -> Self {
        let cut = |x: &Exact| x.clone().max(Exact::zero());
        Self { low: cut(&self.low), high: cut(&self.high), charge: self.charge }
    }
}

pub type Ranges = Vec<Range>;

/// `coefficients·x + constant`.
#[derive(Clone)]
pub struct Row {
    pub coefficients: Vec<Exact>,
    pub constant: Exact,
    /// As for [`Range`].
    pub charge: f64,
}

impl Row {
    pub fn new(coefficients: Vec<Exact>, constant: Exact) -> Self {
        Self { coefficients, constant, charge: 0.0 }
    }

    pub fn range(&self, x: &[Range]) -> Range {
        let start = Range::point(self.constant.clone());
        self.coefficients.iter().zip(x).fold(start, |sum, (a, x)| sum.plus(&x.scaled(a)))
    }

    /// The magnitude of evaluating the row, and what is already charged on what it is evaluated on.
    pub fn size(&self, x: &[Range]) -> f64 {
        let parts = self.coefficients.iter().zip(x);
        let parts = parts.map(|(a, x)| a.abs().to_f64() * (x.size() + x.charge));
        parts.sum::<f64>() + self.constant.abs().to_f64()
    }

    pub fn combined(&self, weight: &Exact, other: &Self, rest: &Exact, shift: &Exact) -> Self {
        let mix = |a: &Exact, b: &Exact| (&(weight * a) + &(rest * b)).trim();
        Self {
            coefficients: self.coefficients.iter().zip(&other.coefficients).map(|(a, b)| mix(a, b)).collect(),
            constant: (&mix(&self.constant, &other.constant) + shift).trim(),
            charge: self.charge.max(other.charge),
        }
    }
}

/// A linear layer at a fixed time.
pub struct Dense {
    pub weights: Vec<Vec<Exact>>,
    pub bias: Vec<Exact>,
}

impl Dense {
    pub fn new(layer: &LayerSpec, tensors: &Tensors, time: &Exact) -> Self {
        let LayerSpec::Linear { name, in_features, out_features, time: clocked } = layer else {
            unreachable!("the oracle knows linear layers only")
        };
        let (weights, bias) = (&tensors[&format!("{name}.weight")].1, &tensors[&format!("{name}.bias")].1);
        let columns = in_features + usize::from(*clocked);
        let mut dense = Self { weights: Vec::new(), bias: Vec::new() };
        for o in 0..*out_features {
            let row: Vec<Exact> = weights[o * columns..][..columns].iter().map(|&w| w.into()).collect();
            let extra = if *clocked { &row[0] * time } else { Exact::zero() };
            dense.bias.push(&Exact::from(bias[o]) + &extra);
            dense.weights.push(row[columns - in_features..].to_vec());
        }
        dense
    }

    pub fn rows(&self) -> impl Iterator<Item = Row> {
        self.weights.iter().zip(&self.bias).map(|(w, b)| Row::new(w.clone(), b.clone()))
    }

    pub fn image(&self, x: &[Range]) -> Ranges {
        self.rows().map(|row| Range { charge: row.size(x), ..row.range(x) }).collect()
    }

    pub fn pull(&self, row: &Row, x: &[Range]) -> Row {
        let zeros = vec![Exact::zero(); self.weights[0].len()];
        let mut out = Row { coefficients: zeros, ..row.clone() };
        for (a, own) in row.coefficients.iter().zip(self.rows()) {
            for (to, w) in out.coefficients.iter_mut().zip(&own.coefficients) {
                *to = (&*to + &(a * w)).trim();
            }
            out.constant = (&out.constant + &(a * &own.constant)).trim();
            out.charge += a.abs().to_f64() * own.size(x);
        }
        out
    }
}

/// Lower slope, upper slope, upper intercept of a ReLU; the lower line passes through the origin.
pub fn lines(x: &Range) -> (Exact, Exact, Exact) {
    let (zero, one) = (Exact::zero(), Exact::from(1.0));
    if !x.low.is_negative() {
        return (one.clone(), one, zero);
    }
    if x.high <= zero {
        return (zero.clone(), zero.clone(), zero);
    }
    let slope = x.high.over(&(&x.high - &x.low));
    let intercept = -&(&slope * &x.low);
    (if x.high >= -&x.low { one } else { zero }, slope, intercept.trim())
}

pub fn relax(row: &Row, x: &[Range]) -> Row {
    let mut out = row.clone();
    for (a, x) in out.coefficients.iter_mut().zip(x) {
        let (lower, upper, intercept) = lines(x);
        out.charge += a.abs().to_f64() * (x.size() + x.charge);
        if a.is_negative() {
            out.constant = (&out.constant + &(&*a * &intercept)).trim();
            *a = (&*a * &upper).trim();
        } else {
            *a = (&*a * &lower).trim();
        }
    }
    out
}

/// The fold of several rows, smallest first, each time by the chord of `min(0, ·)`.
pub fn curls(rows: &[Row], x: &[Range]) -> Row {
    let mut sorted: Vec<(Range, &Row)> = rows.iter().map(|row| (row.range(x), row)).collect();
    sorted.sort_by(|a, b| a.0.low.cmp(&b.0.low));
    let mut best = sorted[0].1.clone();
    for (range, row) in &sorted[1..] {
        if best.range(x).high <= range.low {
            break;
        }
        let gap = best.combined(&1.0.into(), row, &(-1.0).into(), &Exact::zero()).range(x);
        if !gap.low.is_negative() {
            best = (*row).clone();
        } else if gap.high > Exact::zero() {
            let weight = (-&gap.low).over(&(&gap.high - &gap.low));
            let rest = &Exact::from(1.0) - &weight;
            let size = best.size(x) + row.size(x);
            best = best.combined(&weight, row, &rest, &(&rest * &gap.low));
            best.charge += size;
        }
    }
    best
}
