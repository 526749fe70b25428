//! What is to be proved of the outputs.

mod errors;

pub use errors::{ErrorLimit, Tolerance};

use gains_core::{Rows, Shape, Support};

/// `coefficients · outputs + constant`.
#[derive(Clone, Debug, PartialEq)]
pub struct LinearRow {
    /// One per output.
    pub coefficients: Vec<f64>,
    /// The constant.
    pub constant: f64,
}

impl LinearRow {
    /// The value at some outputs.
    pub fn at(&self, outputs: &[f64]) -> f64 {
        self.coefficients.iter().zip(outputs).map(|(a, y)| a * y).sum::<f64>() + self.constant
    }
}

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
    /// Each of the clauses has a row that is positive: any combination of linear constraints by *and* and *or*.
    Clauses {
        /// Number of outputs.
        outputs: usize,
        /// Clauses of rows.
        clauses: Vec<Vec<LinearRow>>,
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
        Self::Clauses { outputs, clauses: rows.into_iter().map(|row| vec![row]).collect() }
    }

    /// Number of outputs it speaks about.
    pub fn outputs(&self) -> usize {
        match self {
            Self::Label { outputs, .. } | Self::Clauses { outputs, .. } => *outputs,
            Self::Errors(errors) => errors.truth.len(),
        }
    }

    /// What is wrong with it, if anything.
    pub fn problem(&self) -> Option<String> {
        match self {
            Self::Label { outputs, label } => {
                (label >= outputs).then(|| format!("label {label}, the network has {outputs} outputs"))
            }
            Self::Clauses { outputs, clauses } => clauses.iter().flatten().find_map(|row| {
                let finite = row.coefficients.iter().all(|a| a.is_finite()) && row.constant.is_finite();
                (row.coefficients.len() != *outputs || !finite).then(|| {
                    format!(
                        "a row has {} coefficients for {outputs} outputs, or one is not finite",
                        row.coefficients.len()
                    )
                })
            }),
            Self::Errors(_) => None,
        }
    }

    /// The linear rows, clause by clause: `output_label − output_j` for `j ≠ label`, `j` increasing; none for errors,
    /// which are not linear.
    fn clauses(&self) -> Vec<Vec<LinearRow>> {
        match self {
            Self::Label { outputs, label } => (0..*outputs)
                .filter(|j| j != label)
                .map(|j| {
                    let mut coefficients = vec![0.0; *outputs];
                    coefficients[*label] = 1.0;
                    coefficients[j] = -1.0;
                    vec![LinearRow { coefficients, constant: 0.0 }]
                })
                .collect(),
            Self::Clauses { clauses, .. } => clauses.clone(),
            Self::Errors(_) => Vec::new(),
        }
    }

    /// All linear rows on outputs of a shape.
    pub fn rows(&self, shape: Shape) -> Rows {
        let all: Vec<LinearRow> = self.clauses().into_iter().flatten().collect();
        let coefficients: Vec<f64> = all.iter().flat_map(|row| &row.coefficients).copied().collect();
        let mut rows = Rows::new(Support::full(shape), coefficients);
        for (row, linear) in all.iter().enumerate() {
            rows.absorb(row, linear.constant, 0.0);
        }
        rows
    }

    /// Whether all rows must be positive, so that each can be proved on its own.
    pub fn is_conjunction(&self) -> bool {
        match self {
            Self::Label { .. } => true,
            Self::Clauses { clauses, .. } => clauses.iter().all(|clause| clause.len() == 1),
            Self::Errors(_) => false,
        }
    }

    /// The smallest bound of a clause, of which the best row counts, given lower bounds of all rows. NaN proves
    /// nothing.
    pub fn margin(&self, lower: &[f64]) -> f64 {
        let mut rest = lower;
        let mut least = f64::INFINITY;
        for clause in self.clauses() {
            let (own, others) = rest.split_at(clause.len().min(rest.len()));
            rest = others;
            let best = own.iter().copied().filter(|b| !b.is_nan()).fold(f64::NEG_INFINITY, f64::max);
            least = least.min(best);
        }
        least
    }

    /// How far some outputs are from violating the property; not positive if they do.
    pub fn margin_at(&self, outputs: &[f64]) -> f64 {
        match self {
            Self::Errors(errors) => errors.limit - errors.error(outputs),
            _ => self.clauses().iter().map(|clause| best_of(clause, outputs).0).fold(f64::INFINITY, f64::min),
        }
    }

    /// Whether some outputs certainly violate the property.
    pub fn is_violated(&self, outputs: &[f64]) -> bool {
        match self {
            Self::Label { label, .. } => largest(outputs) != *label,
            Self::Clauses { .. } => self.margin_at(outputs) <= 0.0,
            Self::Errors(errors) => errors.error(outputs) >= errors.limit,
        }
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
        match self {
            Self::Errors(errors) => errors.uphill(outputs),
            _ => {
                let clauses = self.clauses();
                let worst =
                    clauses.iter().map(|clause| best_of(clause, outputs)).min_by(|a, b| a.0.total_cmp(&b.0));
                worst.map_or(vec![0.0; outputs.len()], |(_, row)| {
                    row.coefficients.iter().map(|a| -a).collect()
                })
            }
        }
    }
}

/// The row of a clause that is furthest from being violated.
fn best_of<'c>(clause: &'c [LinearRow], outputs: &[f64]) -> (f64, &'c LinearRow) {
    let all = clause.iter().map(|row| (row.at(outputs), row));
    all.max_by(|a, b| a.0.total_cmp(&b.0)).unwrap_or((f64::NEG_INFINITY, &EMPTY))
}

/// What an empty clause has: it never holds.
static EMPTY: LinearRow = LinearRow { coefficients: Vec::new(), constant: f64::NEG_INFINITY };

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

    fn row(coefficients: &[f64], constant: f64) -> LinearRow {
        LinearRow { coefficients: coefficients.to_vec(), constant }
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
        let either = vec![row(&[1.0, 0.0], -1.0), row(&[0.0, 1.0], -1.0)];
        let property = Property::Clauses { outputs: 2, clauses: vec![either, vec![row(&[-1.0, -1.0], 5.0)]] };
        assert_eq!(property.margin_at(&[2.0, 0.0]), 1.0);
        assert_eq!(property.margin_at(&[0.0, 0.0]), -1.0);
        assert_eq!(property.margin_at(&[4.0, 3.0]), -2.0);
        assert_eq!(property.margin(&[-3.0, 0.25, 1.0]), 0.25);
        assert!(!property.is_conjunction());
        let rows = property.rows(Shape::flat(2));
        assert_eq!((rows.count, rows.constant[2]), (3, 5.0));
        assert_eq!(
            Property::Clauses { outputs: 1, clauses: vec![Vec::new()] }.margin_at(&[1.0]),
            f64::NEG_INFINITY
        );
    }
}
