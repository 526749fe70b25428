//! Blocks of linear lower bounds.

/// A block of rows, each a linear lower bound of some quantity in some vector `x`:
/// `quantity ≥ coefficients·x + constant − slack` for every `x` the analysis considers.
///
/// An upper bound is the lower bound of the negated quantity. `slack` collects what rounding may have
/// cost so far; it is kept apart so that a caller can see it, and is subtracted on concretisation.
#[derive(Clone, Debug, Default)]
pub struct RowBlock {
    /// Number of rows.
    pub count: usize,
    /// Length of a row.
    pub length: usize,
    /// Coefficients, row by row.
    pub coefficients: Vec<f64>,
    /// Constant terms.
    pub constant: Vec<f64>,
    /// Rounding already owed, never negative.
    pub slack: Vec<f64>,
}

impl RowBlock {
    /// Rows that are identically zero.
    pub fn zeros(count: usize, length: usize) -> Self {
        Self {
            count,
            length,
            coefficients: vec![0.0; count * length],
            constant: vec![0.0; count],
            slack: vec![0.0; count],
        }
    }

    /// The same with rows of another length, before coefficients are filled in.
    pub(crate) fn of_length(mut self, length: usize) -> Self {
        self.length = length;
        self
    }

    /// Coefficients of one row.
    pub fn row(&self, row: usize) -> &[f64] {
        &self.coefficients[row * self.length..][..self.length]
    }

    /// Coefficients of one row.
    pub fn row_mut(&mut self, row: usize) -> &mut [f64] {
        &mut self.coefficients[row * self.length..][..self.length]
    }

    /// Adds `constant` to a row's constant and `owed` to its slack, accounting for the rounding of that
    /// addition.
    pub fn absorb(&mut self, row: usize, constant: f64, owed: f64) {
        let sum = self.constant[row] + constant;
        let owed = owed + f64::EPSILON * (sum.abs() + constant.abs());
        self.slack[row] = (self.slack[row] + owed) * (1.0 + 4.0 * f64::EPSILON);
        self.constant[row] = sum;
    }

    /// One block after the other.
    pub fn stack(parts: &[Self]) -> Self {
        let mut all = Self { length: parts.first().map_or(0, |p| p.length), ..Self::default() };
        for part in parts {
            all.count += part.count;
            all.coefficients.extend_from_slice(&part.coefficients);
            all.constant.extend_from_slice(&part.constant);
            all.slack.extend_from_slice(&part.slack);
        }
        all
    }

    /// Undoes [`Self::stack`] for blocks of equal size.
    pub fn unstack(self, parts: usize) -> Vec<Self> {
        let count = self.count / parts.max(1);
        (0..parts)
            .map(|part| {
                let rows = part * count..(part + 1) * count;
                Self {
                    count,
                    length: self.length,
                    coefficients: self.coefficients[rows.start * self.length..rows.end * self.length]
                        .to_vec(),
                    constant: self.constant[rows.clone()].to_vec(),
                    slack: self.slack[rows].to_vec(),
                }
            })
            .collect()
    }

    /// The given rows.
    pub fn select(&self, rows: &[usize]) -> Self {
        Self {
            count: rows.len(),
            length: self.length,
            coefficients: rows.iter().flat_map(|&row| self.row(row)).copied().collect(),
            constant: rows.iter().map(|&row| self.constant[row]).collect(),
            slack: rows.iter().map(|&row| self.slack[row]).collect(),
        }
    }

    /// Overwrites the given rows.
    pub fn put(&mut self, rows: &[usize], from: &Self) {
        for (i, &row) in rows.iter().enumerate() {
            self.row_mut(row).copy_from_slice(from.row(i));
            self.constant[row] = from.constant[i];
            self.slack[row] = from.slack[i];
        }
    }

    /// Memory held, roughly.
    pub fn bytes(&self) -> usize {
        8 * (self.coefficients.len() + 2 * self.count)
    }
}
