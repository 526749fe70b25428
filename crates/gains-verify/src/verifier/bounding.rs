//! What one method proves of a property.

use gains_core::{BoxVec, Rows, Support};

use super::{Report, Settings, Verifier};
use crate::analysis::Analysis;
use crate::limits::{Clock, Reason};
use crate::method::Method;
use crate::problem::Problem;
use crate::property::{ErrorLimit, Property};

impl Verifier {
    /// The margin a method proves, lower bounds of all rows of the property, and the analysis. `thorough` if no other
    /// method comes after it.
    pub(super) fn bound<'a>(
        &self,
        problem: &Problem<'a>,
        method: Method,
        thorough: bool,
        clock: Clock<'a>,
        report: &mut Report,
    ) -> Result<(f64, Vec<f64>, Analysis<'a>), Reason> {
        let Settings { step_form, arithmetic, intervals, .. } = self.settings;
        let region = problem.region.outer.clone();
        let analysis = Analysis::new(problem.program, region, method, step_form, arithmetic, clock)?;
        report.graph = Some(analysis.graph_size());
        if intervals && thorough {
            report.intervals = Some(all_intervals(&analysis)?);
        }
        if let Property::Errors(errors) = &problem.property {
            let worst = worst_error(&analysis, errors, method != Method::Box, thorough, report)?;
            return Ok((errors.limit - worst, Vec::new(), analysis));
        }
        let bounds = analysis.bound(&problem.property.rows(problem.program.output_shape()))?;
        Ok((problem.property.margin(&bounds.lower), bounds.lower, analysis))
    }
}

/// Certified intervals of some outputs.
fn intervals(analysis: &Analysis<'_>, outputs: &[usize]) -> Result<BoxVec, Reason> {
    let shape = analysis.program().output_shape();
    let bounds = analysis.bound(&Rows::units(shape, outputs))?.lower;
    let (lower, upper) = bounds.split_at(outputs.len());
    let mut found = BoxVec::new(lower.to_vec(), upper.iter().map(|u| -u).collect());
    let boxes = analysis.output();
    for (i, &output) in outputs.iter().enumerate() {
        found.lower[i] = found.lower[i].max(boxes.lower[output]);
        found.upper[i] = found.upper[i].min(boxes.upper[output]);
    }
    Ok(found)
}

fn all_intervals(analysis: &Analysis<'_>) -> Result<BoxVec, Reason> {
    intervals(analysis, &(0..analysis.output().len()).collect::<Vec<_>>())
}

/// The smallest upper bound of the error that an analysis proves. All outputs together come first: that is one row, and
/// often enough.
fn worst_error(
    analysis: &Analysis<'_>,
    errors: &ErrorLimit,
    by_rows: bool,
    thorough: bool,
    report: &mut Report,
) -> Result<f64, Reason> {
    let boxes = analysis.output();
    let pick = |side: &[f64]| errors.observed.iter().map(|&i| side[i]).collect();
    let mut known = BoxVec::new(pick(&boxes.lower), pick(&boxes.upper));
    if let Some(all) = report.intervals.as_ref().filter(|all| all.len() == boxes.len()) {
        known.meet(&BoxVec::new(pick(&all.lower), pick(&all.upper)));
    }
    let together = |known: &BoxVec| -> Result<f64, Reason> {
        let together = errors.together(known);
        let row = Rows::new(Support::full(analysis.program().output_shape()), together.row.clone());
        let lower = analysis.bound(&row)?.lower.first().copied().unwrap_or(f64::NEG_INFINITY);
        Ok(errors.worst_together(&together, lower))
    };
    let mut worst = errors.worst(&known);
    if by_rows {
        worst = worst.min(together(&known)?);
        // Where no error can change its sign, outputs on their own tell nothing new.
        if thorough && worst >= errors.limit && errors.may_change_sign(&known) {
            known.meet(&intervals(analysis, &errors.observed)?);
            worst = worst.min(errors.worst(&known));
            worst = worst.min(together(&known)?);
        }
    }
    if report.intervals.as_ref().is_none_or(|all| all.len() != boxes.len()) {
        report.intervals = Some(known);
    }
    Ok(worst)
}
