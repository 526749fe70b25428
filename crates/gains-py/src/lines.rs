//! Results, column by column.

use std::sync::Arc;

use gains::library::{Line, SamplePart, Samples, Witness, jsonl};
use numpy::PyArray1;
use pyo3::prelude::*;

use crate::errors::{Kind, raised, wrong};

/// Lines of a result file.
#[pyclass(frozen, module = "gains_ode._native")]
pub struct Lines {
    /// They.
    pub lines: Vec<Line>,
    /// What they are about.
    pub samples: Arc<Samples>,
}

#[pymethods]
impl Lines {
    fn __len__(&self) -> usize {
        self.lines.len()
    }

    /// A column of numbers; NaN where there is none.
    fn numbers<'py>(&self, py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyArray1<f64>>> {
        let number: fn(&Line) -> Option<f64> = match name {
            "eps" => |line| Some(line.eps),
            "seconds" => |line| Some(line.seconds),
            "margin" => margin,
            "certified_radius" => |line| line.radius.as_ref().map(|radius| radius.certified_radius),
            "attacked_radius" => |line| line.radius.as_ref().and_then(|radius| radius.attacked_radius),
            "mae" => |line| error(line).0,
            "limit" => |line| error(line).1,
            "certified_mae" => |line| error(line).2,
            "attacked_mae" => |line| error(line).3,
            _ => return Err(no_column(py, name)),
        };
        let column = self.lines.iter().map(|line| number(line).unwrap_or(f64::NAN)).collect();
        Ok(PyArray1::from_vec(py, column))
    }

    /// A column of whole numbers; -1 where there is none.
    fn integers<'py>(&self, py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyArray1<i64>>> {
        let number: fn(&Line) -> Option<usize> = match name {
            "index" => |line| Some(line.index),
            "vertices" => |line| line.vertices,
            "edges" => |line| line.edges,
            "label" => |line| classes(line).0,
            "prediction" => |line| classes(line).1,
            "probes" => |line| line.radius.as_ref().map(|radius| radius.probes),
            _ => return Err(no_column(py, name)),
        };
        let whole = |line| number(line).and_then(|n| i64::try_from(n).ok()).unwrap_or(-1);
        Ok(PyArray1::from_vec(py, self.lines.iter().map(whole).collect()))
    }

    /// A column of words; `None` where there is none.
    fn words(&self, py: Python<'_>, name: &str) -> PyResult<Vec<Option<String>>> {
        let word: fn(&Line) -> Option<String> = match name {
            "verdict" => |line| Some(line.verdict.to_string()),
            "reason" => |line| line.reason.clone(),
            "reason_code" => |line| line.reason_code.clone(),
            "stage" => |line| line.stages.last().map(|stage| stage.name.clone()),
            "record" => |line| match &line.sample {
                SamplePart::Record { record, .. } => Some(record.clone()),
                _ => None,
            },
            "looseness" => |line| match &line.sample {
                SamplePart::Image { looseness, .. } | SamplePart::Numbers { looseness, .. } => looseness.clone(),
                SamplePart::Record { .. } => None,
            },
            _ => return Err(no_column(py, name)),
        };
        Ok(self.lines.iter().map(word).collect())
    }

    /// The input that breaks the property, in the order the samples were given in.
    fn witness<'py>(&self, py: Python<'py>, at: usize) -> Option<Bound<'py, PyArray1<f64>>> {
        match &self.lines.get(at)?.witness {
            Some(Witness::Values(values)) => Some(PyArray1::from_vec(py, self.samples.restore(values))),
            Some(Witness::Series { values, .. }) => Some(PyArray1::from_slice(py, values)),
            None => None,
        }
    }

    /// The lines as a result file has them.
    fn jsonl(&self, py: Python<'_>) -> PyResult<String> {
        py.detach(|| jsonl(&self.lines)).map_err(|failure| raised(py, &failure, Kind::Run))
    }
}

fn no_column(py: Python<'_>, name: &str) -> PyErr {
    wrong(py, format!("there is no column '{name}'"), "docs/results-format.md names them")
}

fn margin(line: &Line) -> Option<f64> {
    match &line.sample {
        SamplePart::Image { margin, .. } | SamplePart::Numbers { margin, .. } => *margin,
        SamplePart::Record { margin, limit, certified_mae, .. } => {
            margin.or(limit.zip(*certified_mae).map(|(limit, certified)| limit - certified))
        }
    }
}

fn classes(line: &Line) -> (Option<usize>, Option<usize>) {
    match line.sample {
        SamplePart::Image { label, prediction, .. } => (label, prediction),
        _ => (None, None),
    }
}

/// Errors of a forecast: of itself, not to be reached, certified, attacked.
fn error(line: &Line) -> (Option<f64>, Option<f64>, Option<f64>, Option<f64>) {
    match line.sample {
        SamplePart::Record { mae, limit, certified_mae, attacked_mae, .. } => {
            (mae, limit, certified_mae, attacked_mae)
        }
        _ => (None, None, None, None),
    }
}
