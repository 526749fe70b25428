//! Inputs of fixed size of which numbers are predicted.

use gains_core::{Network, Precision};
use serde_json::{Value, json};

use super::classes::{ClassSubject, Collection};
use super::{Shown, Subject};
use crate::cli::RegionArgs;
use crate::failure::Failure;
use crate::question::{Answer, Budget, Findings, Model, Question, Struck, Task, Witness};
use crate::results::{Claim, Line, SamplePart, Samples, SubjectSetting, VerdictWord};

/// A network that predicts numbers and the samples it is asked about. All that has nothing to do with classes is as it is
/// with them.
pub struct NumberSubject<'a> {
    samples: ClassSubject<'a>,
}

impl<'a> NumberSubject<'a> {
    /// Sets samples up for a model.
    pub fn new(
        model: &'a Model,
        collection: &'a dyn Collection,
        region: &RegionArgs,
    ) -> Result<Self, Failure> {
        Ok(Self { samples: ClassSubject::new(model, collection, region)? })
    }

    fn truth(&self, index: usize) -> Option<Vec<f64>> {
        self.samples.collection().truth(index)
    }
}

impl Samples for NumberSubject<'_> {
    fn network(&self) -> &Network {
        self.samples.network()
    }

    fn task(&self) -> Task {
        Task::Regression
    }

    fn name(&self, index: usize) -> String {
        self.samples.name(index)
    }

    fn setting(&self) -> SubjectSetting {
        self.samples.setting()
    }

    fn property(&self) -> Option<&str> {
        self.samples.property()
    }

    fn sample_part(&self, index: usize, answer: &Answer) -> SamplePart {
        let (output, margin, looseness) = match &answer.findings {
            Findings::Regression { output, margin, looseness } => {
                (output.clone(), *margin, looseness.clone())
            }
            _ => (None, None, None),
        };
        let (output, truth) = (output.unwrap_or_default(), self.truth(index));
        SamplePart::Numbers { output, truth, margin, looseness }
    }

    fn fault(&self, line: &Line) -> Option<String> {
        let SamplePart::Numbers { output, truth, margin, .. } = &line.sample else {
            return Some("it is not about a network that predicts numbers".into());
        };
        let (there, outputs) = (self.samples.collection().len(), self.network().outputs());
        if line.index >= there {
            return Some(format!("index is {}, there are {there} samples", line.index));
        }
        if *truth != self.truth(line.index) {
            return Some(format!("its truth is not that of sample {}", line.index));
        }
        let runs = output.len() == outputs;
        let holds = match line.verdict {
            VerdictWord::Verified => runs && margin.is_some_and(|m| m > 0.0),
            VerdictWord::Falsified => {
                let length = self.network().input().len();
                runs && matches!(&line.witness, Some(Witness::Values(values)) if values.len() == length)
            }
            VerdictWord::Misclassified => runs,
            VerdictWord::Unknown => runs || output.is_empty(),
        };
        (!holds).then(|| format!("the rest of the line does not support that it is {}", line.verdict))
    }
}

impl Subject for NumberSubject<'_> {
    fn indices(&self) -> &[usize] {
        self.samples.indices()
    }

    fn key(&self, index: usize) -> (&'static str, Value) {
        ("truth", self.truth(index).into())
    }

    fn radii(&self, asked: &[f64]) -> Vec<f64> {
        self.samples.radii(asked)
    }

    fn check_radius(&self, eps: f64) -> Result<(), Failure> {
        self.samples.check_radius(eps)
    }

    fn question(&self, index: usize, eps: f64) -> Question<'_> {
        self.samples.question(index, eps)
    }

    fn heading(&self, samples: usize) -> (String, Option<String>) {
        self.samples.heading(samples)
    }

    fn struck_json(&self, index: usize, struck: Option<&Struck>) -> Value {
        let (output, broken, margin) = match struck {
            Some(Struck::Regression { output, broken, margin }) => {
                (output.as_ref(), broken.as_ref(), *margin)
            }
            _ => (None, None, f64::NAN),
        };
        json!({
            "index": index, "truth": self.truth(index), "output": output, "found": broken.is_some(),
            "adversarial_output": broken.map(|b| &b.1), "margin": margin, "witness": broken.map(|b| &b.0),
        })
    }

    fn predict(&self, index: usize, precision: Precision) -> Result<Shown, String> {
        let ran = self.question(index, 0.0).run(precision, &crate::campaign::watch())?;
        let truth = self.truth(index);
        let error = truth.as_ref().map_or(f64::NAN, |truth| {
            gains_ode::mean_absolute_error(&ran.output, truth, &vec![true; truth.len()])
        });
        let json = json!({
            "index": index, "truth": truth, "output": ran.output, "mae": error.is_finite().then_some(error),
            "accepted": ran.accepted, "rejected": ran.rejected, "evaluations": ran.evaluations,
            "within_tolerance": ran.within_tolerance, "model": self.network().hash,
        });
        let row = vec![
            index.to_string(),
            truth.map_or("–".into(), |truth| listed(&truth)),
            listed(&ran.output),
            if error.is_nan() { "–".into() } else { format!("{error:.4}") },
            format!("{}+{}", ran.accepted, ran.rejected),
            ran.evaluations.to_string(),
        ];
        Ok(Shown { json, row, score: error })
    }

    fn predict_header(&self) -> &'static [&'static str] {
        &["index", "truth", "output", "mae", "steps (accepted+rejected)", "evaluations"]
    }

    fn predict_summary(&self, scores: &[f64]) -> String {
        let known: Vec<f64> = scores.iter().copied().filter(|score| !score.is_nan()).collect();
        match known.len() {
            0 => format!("{} samples without known values\n", scores.len()),
            count => {
                let mean = known.iter().sum::<f64>() / count as f64;
                format!("mean absolute error {mean:.4} over {count} samples\n")
            }
        }
    }

    fn is_measured(&self, index: usize, budget: Budget<'_>) -> bool {
        self.samples.is_measured(index, budget)
    }

    fn answers(&self, claim: &Claim) -> Result<(), Failure> {
        self.samples.answers(claim)
    }
}

/// A few numbers.
fn listed(values: &[f64]) -> String {
    const MOST: usize = 4;
    let shown: Vec<String> = values.iter().take(MOST).map(|value| format!("{value:.4}")).collect();
    let more = if values.len() > MOST { ", …" } else { "" };
    format!("{}{more}", shown.join(", "))
}
