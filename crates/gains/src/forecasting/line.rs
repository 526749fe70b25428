//! One line of a result file of a forecasting model.

use gains_verify::series::ForecastVerdict;
use serde::{Deserialize, Serialize};

use crate::forecasting::decide::Decided;
use crate::results::{ResultLine, RunIdentity};

/// One record at one radius.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ForecastLine {
    /// Position in its part.
    pub index: usize,
    /// Name of the record.
    pub record: String,
    /// Radius.
    pub eps: f64,
    /// `verified`, `falsified` or `unknown`.
    pub verdict: String,
    /// Why, where that is not clear from the verdict.
    pub reason: Option<String>,
    /// Mean absolute error of the prediction.
    pub mae: Option<f64>,
    /// The error that must not be reached.
    pub limit: Option<f64>,
    /// Proved: the error stays at or below this.
    pub certified_mae: Option<f64>,
    /// Seen: a series in the region with this error.
    pub attacked_mae: Option<f64>,
    /// Vertices of the trajectory graph.
    pub vertices: Option<usize>,
    /// Edges of the trajectory graph.
    pub edges: Option<usize>,
    /// Time for the verdict.
    pub seconds: f64,
    /// What was tried, with seconds.
    pub stages: String,
    /// Method the run was asked for.
    pub method: String,
    /// Arithmetic the verdict is about.
    pub arithmetic: String,
    /// Data, horizon and tolerances.
    pub question: String,
    /// Content hash of the model.
    pub model: String,
    /// Version of this program.
    pub version: String,
}

impl ForecastLine {
    /// The line of what was decided.
    pub fn new(index: usize, record: String, eps: f64, decided: &Decided, identity: &RunIdentity) -> Self {
        let report = &decided.report;
        let reason = match &report.verdict {
            ForecastVerdict::Unknown(reason) => Some(reason.to_string()),
            _ => None,
        };
        let stages: Vec<String> = report
            .stages
            .iter()
            .map(|stage| format!("{} {:.3}", stage.name, stage.elapsed.as_secs_f64()))
            .collect();
        Self {
            index,
            record,
            eps,
            verdict: report.verdict.word().into(),
            reason,
            mae: finite(report.error),
            limit: finite(report.limit),
            certified_mae: finite(report.worst),
            attacked_mae: finite(report.attacked),
            vertices: report.graph.map(|g| g.0),
            edges: report.graph.map(|g| g.1),
            seconds: report.elapsed.as_secs_f64(),
            stages: stages.join(", "),
            method: identity.method.clone(),
            arithmetic: identity.arithmetic.to_string(),
            question: identity.question.clone(),
            model: identity.model.clone(),
            version: env!("CARGO_PKG_VERSION").into(),
        }
    }
}

fn finite(value: Option<f64>) -> Option<f64> {
    value.filter(|v| v.is_finite())
}

impl ResultLine for ForecastLine {
    const CSV_HEADER: &'static str = "index,record,eps,verdict,reason,mae,limit,certified_mae,attacked_mae,vertices,edges,seconds,stages,method,arithmetic,question,model,version\n";

    fn key(&self) -> (usize, u64) {
        (self.index, self.eps.to_bits())
    }

    fn identity(&self) -> [&str; 4] {
        [&self.method, &self.arithmetic, &self.model, &self.question]
    }
}
