//! Dense row-major matrices and their product.

/// A dense row-major matrix.
#[derive(Clone, Debug)]
pub struct Matrix {
    /// Number of rows.
    pub rows: usize,
    /// Number of columns.
    pub columns: usize,
    /// Entries, row by row.
    pub data: Vec<f64>,
}

impl Matrix {
    /// The zero matrix.
    pub fn zeros(rows: usize, columns: usize) -> Self {
        Self { rows, columns, data: vec![0.0; rows * columns] }
    }

    /// The sub-matrix of the given rows and columns, written into `out`.
    pub fn gather(&self, rows: &[u32], columns: &[u32], out: &mut Vec<f64>) {
        out.clear();
        out.reserve(rows.len() * columns.len());
        for &row in rows {
            let line = &self.data[row as usize * self.columns..(row as usize + 1) * self.columns];
            out.extend(columns.iter().map(|&column| line[column as usize]));
        }
    }
}

/// `C = A B` for row-major `A` (m×k), `B` (k×n); `C` (m×n) is overwritten. One thread.
pub fn multiply(m: usize, k: usize, n: usize, a: &[f64], b: &[f64], c: &mut [f64]) {
    assert!(a.len() >= m * k && b.len() >= k * n && c.len() >= m * n, "matrix sizes do not fit");
    if m == 0 || n == 0 {
        return;
    }
    if k == 0 {
        c[..m * n].fill(0.0);
        return;
    }
    // SAFETY: the assertion above guarantees that every index below m·k, k·n, m·n is in bounds; the
    // strides describe exactly those row-major layouts; `c` is exclusively borrowed.
    unsafe {
        gemm::gemm(
            m,
            n,
            k,
            c.as_mut_ptr(),
            1,
            n as isize,
            false,
            a.as_ptr(),
            1,
            k as isize,
            b.as_ptr(),
            1,
            n as isize,
            0.0,
            1.0,
            false,
            false,
            false,
            gemm::Parallelism::None,
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn product_agrees_with_the_definition() {
        for (m, k, n) in [(1, 1, 1), (3, 5, 7), (27, 60, 33), (4, 0, 3), (0, 3, 4)] {
            let a: Vec<f64> = (0..m * k).map(|i| (i as f64 * 0.37).sin()).collect();
            let b: Vec<f64> = (0..k * n).map(|i| (i as f64 * 0.73).cos()).collect();
            let mut c = vec![9.0; m * n];
            multiply(m, k, n, &a, &b, &mut c);
            for i in 0..m {
                for j in 0..n {
                    let exact: f64 = (0..k).map(|l| a[i * k + l] * b[l * n + j]).sum();
                    assert!((c[i * n + j] - exact).abs() < 1e-12);
                }
            }
        }
    }
}
