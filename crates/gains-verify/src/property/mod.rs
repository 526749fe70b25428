//! What is to be proved of the outputs.

pub mod condition;
mod errors;
pub mod linear;

pub use condition::Condition;
pub use errors::{ErrorLimit, Tolerance};
pub use linear::{LinearRow, Relation};

use std::cmp::Ordering;

use gains_core::{BoxVec, Interval, Rows, Shape, Support};

/// Something that must hold of the outputs for every input of a region.
#[derive(Clone, Debug, PartialEq)]
pub enum Property {
    /// One output is larger than every other.
    Label {
        /// Number of outputs.
        outputs: usize,
        /// Which one.
        label: usize,
    },
    /// Linear constraints, put together in any way.
    Linear {
        /// Number of outputs.
        outputs: usize,
        /// What is asked of them.
        condition: Condition,
    },
    /// The mean absolute error of some outputs stays below a limit.
    Errors(ErrorLimit),
}

impl Property {
    /// The output `label` is larger than every other.
    pub fn classification(outputs: usize, label: usize) -> Self {
        Self::Label { outputs, label }
    }

    /// Every row is positive.
    pub fn all(outputs: usize, rows: Vec<LinearRow>) -> Self {
        let condition = Condition::All(rows.into_iter().map(Condition::Row).collect());
        Self::Linear { outputs, condition }
    }

    /// Every output stays within a tolerance of what it was.
    pub fn within(nominal: &[f64], tolerance: f64) -> Self {
        let rows = (0..nominal.len()).flat_map(|i| {
            [1.0, -1.0].map(|sign| {
                let mut coefficients = vec![0.0; nominal.len()];
                coefficients[i] = sign;
                let products = [(-sign, nominal[i]), (1.0, tolerance)];
                LinearRow::with_products(coefficients, &products, Relation::NotBelow)
            })
        });
        Self::all(nominal.len(), rows.collect())
    }

    /// Number of outputs it speaks about.
    pub fn outputs(&self) -> usize {
        match self {
            Self::Label { outputs, .. } | Self::Linear { outputs, .. } => *outputs,
            Self::Errors(errors) => errors.truth.len(),
        }
    }

    /// What is wrong with it, if anything.
    pub fn problem(&self) -> Option<String> {
        match self {
            Self::Label { outputs, label } => {
                (label >= outputs).then(|| format!("label {label}, the network has {outputs} outputs"))
            }
            Self::Linear { outputs, condition } => condition.problem(*outputs),
            Self::Errors(_) => None,
        }
    }

    /// The linear rows: `output_label − output_j` for `j ≠ label`, `j` increasing; those of a condition depth first; none
    /// for errors, which are not linear.
    fn linear_rows(&self) -> Vec<LinearRow> {
        match self {
            Self::Label { outputs, label } => {
                (0..*outputs).filter(|j| j != label).map(|j| LinearRow::lead(*outputs, *label, j)).collect()
            }
            Self::Linear { condition, .. } => condition.rows().into_iter().cloned().collect(),
            Self::Errors(_) => Vec::new(),
        }
    }

    /// All linear rows, depth first, and the condition they are put together by; nothing for errors, which are not linear.
    pub(crate) fn written_out(&self) -> (Vec<LinearRow>, Condition) {
        let rows = self.linear_rows();
        let condition = match self {
            Self::Linear { condition, .. } => condition.clone(),
            Self::Label { .. } | Self::Errors(_) => {
                Condition::All(rows.iter().cloned().map(Condition::Row).collect())
            }
        };
        (rows, condition)
    }

    /// All linear rows on outputs of a shape.
    pub fn rows(&self, shape: Shape) -> Rows {
        let all = self.linear_rows();
        let coefficients: Vec<f64> = all.iter().flat_map(|row| &row.coefficients).copied().collect();
        let mut rows = Rows::new(Support::full(shape), coefficients);
        for (row, linear) in all.iter().enumerate() {
            rows.absorb(row, linear.constant, linear.slack);
        }
        rows
    }

    /// Whether all rows must be positive, so that each can be proved on its own.
    pub fn is_conjunction(&self) -> bool {
        match self {
            Self::Label { .. } => true,
            Self::Linear { condition, .. } => condition.is_conjunction(),
            Self::Errors(_) => false,
        }
    }

    /// What lower bounds of all rows prove. NaN proves nothing.
    pub fn margin(&self, lower: &[f64]) -> f64 {
        match self {
            Self::Linear { condition, .. } => condition.margin(&mut lower.iter().copied()),
            Self::Label { outputs, .. } if lower.len() + 1 == *outputs => {
                let number = |bound: &f64| if bound.is_nan() { f64::NEG_INFINITY } else { *bound };
                lower.iter().map(number).fold(f64::INFINITY, f64::min)
            }
            Self::Label { .. } | Self::Errors(_) => f64::NEG_INFINITY,
        }
    }

    /// The rows that still matter where all rows have such lower bounds; none exactly where these prove the property.
    pub fn open_rows(&self, lower: &[f64]) -> Vec<usize> {
        match self {
            Self::Linear { condition, .. } => condition.open(lower),
            _ => {
                let is_shown = |row: &usize| matches!(lower[*row].partial_cmp(&0.0), Some(Ordering::Greater));
                (0..lower.len()).filter(|row| !is_shown(row)).collect()
            }
        }
    }

    /// The row whose lower bound is the margin that all of them prove.
    pub fn hanging_on(&self, lower: &[f64]) -> Option<usize> {
        match self {
            Self::Linear { condition, .. } => condition.hanging_on(lower),
            _ => (0..lower.len()).min_by(|a, b| lower[*a].total_cmp(&lower[*b])),
        }
    }

    /// How far some outputs are from violating the property; not positive if they do, or are NaN.
    pub fn margin_at(&self, outputs: &[f64]) -> f64 {
        match self {
            Self::Errors(errors) => errors.limit - errors.error(outputs),
            Self::Linear { condition, .. } => {
                condition.decisive(outputs).map_or(f64::NEG_INFINITY, |(m, _)| m)
            }
            Self::Label { .. } => {
                let values: Vec<f64> = self.linear_rows().iter().map(|row| row.at(outputs)).collect();
                self.margin(&values)
            }
        }
    }

    /// Bytes that its rows take where they are looked at: they are written out a few times.
    pub(crate) fn bytes(&self) -> usize {
        let rows = match self {
            Self::Label { outputs, .. } => outputs.saturating_sub(1),
            Self::Linear { condition, .. } => condition.rows().len(),
            Self::Errors(_) => 1,
        };
        rows.saturating_mul(self.outputs()).saturating_mul(4 * size_of::<f64>())
    }

    /// The largest magnitude of a row at some outputs: what its margins are measured by.
    pub fn scale_at(&self, outputs: &[f64]) -> f64 {
        self.linear_rows().iter().map(|row| row.at(outputs).abs()).fold(0.0, f64::max)
    }

    /// Whether these outputs of a sample are not what is asked: as [`Self::is_violated`], but of classes with equal outputs
    /// the first one is the answer.
    pub fn is_missed(&self, outputs: &[f64]) -> bool {
        match self {
            Self::Label { label, .. } => largest(outputs) != *label,
            _ => self.is_violated(outputs),
        }
    }

    /// Whether some outputs certainly violate the property. Equal outputs of two classes violate nothing.
    pub fn is_violated(&self, outputs: &[f64]) -> bool {
        match self {
            Self::Label { label, .. } => outputs.iter().any(|output| *output > outputs[*label]),
            Self::Linear { condition, .. } => condition.is_broken_at(outputs),
            Self::Errors(errors) => errors.error(outputs) >= errors.limit,
        }
    }

    /// Whether all outputs in a box break the property, by a part `room` of the numbers involved at least.
    pub(crate) fn is_broken_throughout(&self, outputs: &BoxVec, room: f64) -> bool {
        if let Self::Errors(errors) = self {
            let ends = outputs.lower.iter().zip(&outputs.upper).zip(&errors.truth);
            let nearest: Vec<f64> = ends.map(|((l, u), truth)| truth.max(*l).min(*u)).collect();
            return errors.error(&nearest) * (1.0 - room) >= errors.limit;
        }
        let size = outputs.magnitudes();
        let highest = |row: LinearRow| {
            let ends = row.coefficients.iter().enumerate().map(|(i, a)| {
                let Interval { lower, upper } = outputs.get(i);
                (a * lower).max(a * upper)
            });
            let involved: f64 = row.coefficients.iter().zip(&size).map(|(a, x)| (a * x).abs()).sum();
            ends.sum::<f64>() + row.constant + row.slack + room * (involved + row.constant.abs())
        };
        let highest: Vec<f64> = self.linear_rows().into_iter().map(highest).collect();
        // Monotone in the rows; NaN breaks nothing.
        highest.iter().all(|bound| !bound.is_nan()) && self.margin(&highest) < 0.0
    }

    /// By how much a proved margin may exceed one that was seen before one of them must be wrong: rounding.
    pub fn rounding(&self, seen: f64) -> f64 {
        match self {
            Self::Errors(errors) => 1e-6 * (errors.limit - seen).abs() + 1e-9,
            _ => 1e-6 * (1.0 + seen.abs()),
        }
    }

    /// The gradient of the margin with respect to the outputs, turned downhill.
    pub fn downhill(&self, outputs: &[f64]) -> Vec<f64> {
        let against = |row: &LinearRow| row.coefficients.iter().map(|a| -a).collect();
        let nowhere = || vec![0.0; outputs.len()];
        match self {
            Self::Errors(errors) => errors.uphill(outputs),
            Self::Linear { condition, .. } => {
                condition.decisive(outputs).map_or_else(nowhere, |(_, row)| against(row))
            }
            Self::Label { .. } => {
                let rows = self.linear_rows();
                let worst = rows.iter().min_by(|a, b| a.at(outputs).total_cmp(&b.at(outputs)));
                worst.map_or_else(nowhere, against)
            }
        }
    }
}

/// Index of the largest output, the first of several.
pub fn largest(outputs: &[f64]) -> usize {
    let mut best = 0;
    for (index, value) in outputs.iter().enumerate() {
        if *value > outputs[best] {
            best = index;
        }
    }
    best
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(coefficients: &[f64], constant: f64) -> Condition {
        Condition::Row(LinearRow::new(coefficients.to_vec(), constant))
    }

    #[test]
    fn equal_outputs_violate_nothing_and_answer_by_their_order() {
        for (label, missed) in [(0, false), (1, true)] {
            let property = Property::classification(2, label);
            assert!(!property.is_violated(&[0.5, 0.5]) && property.is_missed(&[0.5, 0.5]) == missed);
            assert!(property.margin_at(&[0.5, 0.5]) <= 0.0, "nothing is proved of it");
        }
        assert!(Property::classification(2, 1).is_violated(&[0.5_f64.next_up(), 0.5]));
        let ahead = LinearRow::lead(2, 1, 0);
        for row in [ahead.clone(), ahead.negated()] {
            assert!(!row.is_broken_at(&[0.5, 0.5]), "{row:?}");
        }
    }

    #[test]
    fn boxes_of_outputs_break_what_all_of_them_break() {
        let leads = Property::classification(2, 0);
        let outputs = |l: [f64; 2], u: [f64; 2]| BoxVec::new(l.to_vec(), u.to_vec());
        for (lower, upper, broken) in [
            ([0.0, 1.5], [1.0, 2.0], true),
            ([0.0, 0.5], [1.0, 2.0], false),
            ([1.0, 1.0 + 1e-12], [1.0, 1.0 + 1e-12], false),
            ([0.0, f64::NAN], [1.0, f64::NAN], false),
        ] {
            assert_eq!(leads.is_broken_throughout(&outputs(lower, upper), 1e-9), broken, "{lower:?}");
        }
        let errors = ErrorLimit { truth: vec![0.0, 9.0], observed: vec![0], limit: 0.5 };
        for (lower, upper, broken) in
            [(0.6, 0.7, true), (0.4, 0.7, false), (-0.7, -0.6, true), (-0.7, 0.7, false)]
        {
            let found = Property::Errors(errors.clone())
                .is_broken_throughout(&outputs([lower, 0.0], [upper, 0.0]), 1e-9);
            assert_eq!(found, broken, "{lower} {upper}");
        }
    }

    #[test]
    fn a_label_wins_by_its_smallest_lead() {
        let property = Property::classification(3, 1);
        assert_eq!(property.margin_at(&[0.5, 2.0, 1.25]), 0.75);
        assert!(!property.is_violated(&[0.5, 2.0, 1.25]) && property.is_violated(&[0.5, 2.0, 2.5]));
        assert!(property.is_violated(&[3.0, 2.0, 1.25]));
        assert_eq!(property.margin(&[1.0, f64::NAN]), f64::NEG_INFINITY, "NaN proves nothing");
        assert_eq!(property.downhill(&[0.5, 2.0, 1.25]), [0.0, -1.0, 1.0]);
    }

    #[test]
    fn a_clause_holds_by_its_best_row_and_all_clauses_must() {
        let either = Condition::Any(vec![row(&[1.0, 0.0], -1.0), row(&[0.0, 1.0], -1.0)]);
        let condition = Condition::All(vec![either, row(&[-1.0, -1.0], 5.0)]);
        let property = Property::Linear { outputs: 2, condition };
        assert_eq!(property.margin_at(&[2.0, 0.0]), 1.0);
        assert_eq!(property.margin_at(&[0.0, 0.0]), -1.0);
        assert_eq!(property.margin_at(&[4.0, 3.0]), -2.0);
        assert_eq!(property.margin_at(&[f64::NAN, 0.0]), f64::NEG_INFINITY, "NaN never holds");
        assert_eq!(property.margin(&[-3.0, 0.25, 1.0]), 0.25);
        assert_eq!(property.downhill(&[2.0, 0.0]), [-1.0, 0.0]);
        assert!(!property.is_conjunction());
        let rows = property.rows(Shape::flat(2));
        assert_eq!((rows.count, rows.constant[2]), (3, 5.0));
        let empty = Property::Linear { outputs: 1, condition: Condition::Any(Vec::new()) };
        assert_eq!(empty.margin_at(&[1.0]), f64::NEG_INFINITY);
    }

    #[test]
    fn outputs_within_a_tolerance_are_so_on_both_sides() {
        let property = Property::within(&[1.0, -2.0], 0.25);
        assert!(property.is_conjunction() && property.rows(Shape::flat(2)).count == 4);
        assert_eq!(property.margin_at(&[1.125, -2.0]), 0.125);
        assert!((property.margin_at(&[1.0, -2.5]) + 0.25).abs() < 1e-15);
        assert!(property.is_violated(&[1.26, -2.0]) && property.is_violated(&[0.74, -2.0]));
        assert!(!property.is_violated(&[1.25, -2.0]), "the tolerance itself is allowed");
        assert!(property.rows(Shape::flat(2)).slack.iter().all(|slack| *slack > 5e-15), "sums are rounded");
    }
}
