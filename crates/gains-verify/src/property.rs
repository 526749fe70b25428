//! What is to be proved: linear functions of the outputs that must stay positive.

/// Rows `coefficients · outputs`, all of which must be positive.
#[derive(Clone, Debug, PartialEq)]
pub struct Property {
    /// Number of outputs.
    pub outputs: usize,
    /// One row per demand.
    pub rows: Vec<Vec<f64>>,
}

impl Property {
    /// The output `label` is larger than every other: `logit_label − logit_j > 0` for `j ≠ label`, `j`
    /// increasing.
    pub fn classification(outputs: usize, label: usize) -> Self {
        let rows = (0..outputs)
            .filter(|j| *j != label)
            .map(|j| {
                let mut row = vec![0.0; outputs];
                row[label] = 1.0;
                row[j] = -1.0;
                row
            })
            .collect();
        Self { outputs, rows }
    }
}
