//! What one method proves of a property.

use gains_core::BoxVec;

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
        let region = &problem.region;
        let analysis = Analysis::over(problem.program, region, method, step_form, arithmetic, clock)?;
        report.graph = Some(analysis.graph_size());
        if intervals {
            let all: Vec<usize> = (0..analysis.output().len()).collect();
            report.intervals = Some(analysis.intervals(&all)?);
        }
        if let Property::Errors(errors) = &problem.property {
            let worst = worst_error(&analysis, errors, method != Method::Box, thorough, report)?;
            return Ok((errors.limit - worst, Vec::new(), analysis));
        }
        let bounds = analysis.bound(&problem.property.rows(problem.program.output_shape()))?;
        report.bounded(&bounds.lower, analysis.output());
        Ok((problem.property.margin(&bounds.lower), bounds.lower, analysis))
    }
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
    let together = |known: &BoxVec| analysis.worst_together(errors, known);
    let mut worst = errors.worst(&known).min(together(&known)?);
    // Where no error can change its sign, outputs on their own tell nothing new.
    if by_rows && thorough && worst >= errors.limit && errors.may_change_sign(&known) {
        known.meet(&analysis.intervals(&errors.observed)?);
        worst = worst.min(errors.worst(&known));
        worst = worst.min(together(&known)?);
    }
    if report.intervals.as_ref().is_none_or(|all| all.len() != boxes.len()) {
        report.intervals = Some(known);
    }
    Ok(worst)
}
