//! The regulariser of TisODE (Yan et al. 2019): how far the state still moves after the end time.

/// The mean over `samples` of `‖later − end‖₁`, and its slopes at `later`; those at `end` are their negatives.
pub(crate) fn steady(end: &[f64], later: &[f64], samples: usize) -> (f64, Vec<f64>) {
    let each = 1.0 / samples as f64;
    let mut total = 0.0;
    let mut slopes = Vec::with_capacity(end.len());
    for (before, after) in end.iter().zip(later) {
        let change = after - before;
        total += change.abs();
        slopes.push(if change == 0.0 { 0.0 } else { each * change.signum() });
    }
    (total * each, slopes)
}
