//! What was proved of each output over a region, as files show it.

use gains_core::BoxVec;
use gains_verify::{Looseness, Property, Report};
use serde::{Deserialize, Serialize};

use super::Bounded;

/// Outputs at the sample and over its region. Bounds that are not finite are null.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OutputBounds {
    /// What the concrete solver gives for the sample.
    pub output: Vec<f64>,
    /// Proved: each output stays at or above this.
    pub low: Vec<Option<f64>>,
    /// Proved: and at or below this.
    pub high: Vec<Option<f64>>,
    /// Proved: the class stays ahead of each other by at least this; null for itself. Empty if something else is asked.
    pub margins: Vec<Option<f64>>,
    /// Where the bound loses, if it was not enough and that was looked into.
    pub losses: Option<Losses>,
}

/// Where a bound loses: from the true value at the input where it is attained, loss by loss, down to the bound.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Losses {
    /// The true value there.
    pub truth: f64,
    /// In the layers in front of the first ODE block.
    pub layers: Vec<f64>,
    /// In its solver steps: time and loss.
    pub steps: Vec<(f64, f64)>,
    /// Everywhere else.
    pub rest: f64,
}

impl Losses {
    fn new(found: &Looseness) -> Option<Self> {
        let Looseness { truth, front, steps, rest } = found;
        let numbers = steps.iter().flat_map(|(time, loss)| [time, loss]).chain(front).chain([truth, rest]);
        let all_finite = { numbers }.all(|number| number.is_finite());
        all_finite.then(|| Self { truth: *truth, layers: front.clone(), steps: steps.clone(), rest: *rest })
    }
}

impl OutputBounds {
    /// What was proved on the way to a verdict; nothing if no method finished. Of forecasts results say the error.
    pub(super) fn of_report(report: &Report, property: &Property) -> Option<Self> {
        let output = report.output.as_ref().filter(|output| output.iter().all(|x| x.is_finite()))?;
        let all = report.intervals.as_ref().filter(|all| all.len() == output.len())?;
        if matches!(property, Property::Errors(_)) {
            return None;
        }
        let mut bounds = Self::new(output, all, &report.rows, report.margin, property);
        bounds.losses = report.looseness.as_ref().and_then(Losses::new);
        Some(bounds)
    }

    /// `margin` is proved of every row, by whichever way.
    fn new(output: &[f64], all: &BoxVec, rows: &[f64], margin: Option<f64>, property: &Property) -> Self {
        let finite = |value: f64| value.is_finite().then_some(value);
        let margins = match property {
            Property::Label { outputs, label } if rows.len() + 1 == *outputs => {
                let mut rows = rows.iter().map(|row| finite(margin.map_or(*row, |margin| row.max(margin))));
                let of_class = |class| if class == *label { None } else { rows.next().flatten() };
                (0..*outputs).map(of_class).collect()
            }
            _ => Vec::new(),
        };
        let ends = |ends: &[f64]| ends.iter().map(|end| finite(*end)).collect();
        Self { output: output.to_vec(), low: ends(&all.lower), high: ends(&all.upper), margins, losses: None }
    }
}

impl Bounded<'_> {
    /// What this method proves of each output, by rows of its own; `output` is what the sample itself has.
    pub fn outputs(&self, output: &[f64]) -> Option<OutputBounds> {
        let Bounded { problem, analysis, .. } = self;
        if !output.iter().all(|x| x.is_finite()) {
            return None;
        }
        let all = analysis.intervals(&(0..output.len()).collect::<Vec<_>>()).ok()?;
        let rows = analysis.bound(&problem.property.rows(problem.program.output_shape())).ok()?.lower;
        Some(OutputBounds::new(output, &all, &rows, None, &problem.property))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn margins_stand_at_their_classes() {
        let all = BoxVec::new(vec![0.0, 1.0, f64::NEG_INFINITY], vec![1.0, 2.0, 0.5]);
        let label = Property::classification(3, 1);
        let bounds = OutputBounds::new(&[0.5, 1.5, 0.0], &all, &[0.25, f64::NEG_INFINITY], None, &label);
        assert_eq!(bounds.margins, [Some(0.25), None, None]);
        assert_eq!((bounds.low, bounds.high[2]), (vec![Some(0.0), Some(1.0), None], Some(0.5)));
        // What is proved of all rows is proved of each.
        let bounds = OutputBounds::new(&[0.5, 1.5, 0.0], &all, &[0.25, -0.5], Some(0.125), &label);
        assert_eq!(bounds.margins, [Some(0.25), None, Some(0.125)]);
        let other = Property::within(&[0.5, 1.5, 0.0], 1.0);
        assert!(OutputBounds::new(&[0.5, 1.5, 0.0], &all, &[0.25; 6], None, &other).margins.is_empty());
    }
}
