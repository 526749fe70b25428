//! One line of a result file: what was found out about a sample, and everything the question depends on.

use std::collections::BTreeMap;
use std::fmt;

use gains_core::Arithmetic;
use serde::{Deserialize, Serialize};

use crate::cli::WorkArgs;
use crate::question::{Answer, AttackPlan, Plan, StageTime, Task, Verdict, Witness, micro, step_form_word};
use crate::subject::Subject;

/// A verdict as files spell it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum VerdictWord {
    /// The property holds for every input of the region.
    Verified,
    /// The witness breaks it.
    Falsified,
    /// Neither could be shown.
    Unknown,
    /// The sample itself is misclassified.
    Misclassified,
}

impl fmt::Display for VerdictWord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Verified => "verified",
            Self::Falsified => "falsified",
            Self::Unknown => "unknown",
            Self::Misclassified => "misclassified",
        })
    }
}

/// One sample at one radius.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Line {
    /// Number of the sample in its data set and split.
    pub index: usize,
    /// What only one kind of network has.
    #[serde(flatten)]
    pub sample: SamplePart,
    /// Radius.
    pub eps: f64,
    /// The verdict.
    pub verdict: VerdictWord,
    /// Why it is unknown, in words.
    pub reason: Option<String>,
    /// Why it is unknown, in one word.
    pub reason_code: Option<String>,
    /// Vertices of the trajectory graph.
    pub vertices: Option<usize>,
    /// Edges of the trajectory graph.
    pub edges: Option<usize>,
    /// Time for the verdict.
    pub seconds: f64,
    /// What was tried; if the sample was decided, the last did it.
    pub stages: Vec<StageTime>,
    /// The input that breaks the property, if it is falsified.
    pub witness: Option<Witness>,
    /// What all lines of a run share.
    #[serde(flatten)]
    pub setting: Setting,
}

/// What only one kind of network has.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum SamplePart {
    /// An image.
    Image {
        /// True class.
        label: usize,
        /// Predicted class; nothing if the solver failed.
        prediction: Option<usize>,
        /// Smallest certified lower bound of a logit difference.
        margin: Option<f64>,
        /// Where the bound loses, if it was not enough and that was looked into.
        looseness: Option<String>,
    },
    /// A series.
    Record {
        /// Its name.
        record: String,
        /// Mean absolute error of the prediction.
        mae: Option<f64>,
        /// The error that must not be reached.
        limit: Option<f64>,
        /// Proved: the error stays at or below this.
        certified_mae: Option<f64>,
        /// Seen: a series in the region with this error.
        attacked_mae: Option<f64>,
    },
}

/// What all lines of a run share: everything an answer depends on besides sample and radius.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Setting {
    /// Method the run was asked for; after `eval-` for `gains eval`.
    pub method: String,
    /// How solver steps are bounded, where the method leaves a choice.
    pub step_form: String,
    /// Arithmetic the verdict is about.
    pub arithmetic: Arithmetic,
    /// The attack, if there is one.
    pub attack: Option<AttackPlan>,
    /// Seconds a sample may take.
    pub timeout: f64,
    /// Most vertices of a trajectory graph.
    pub max_vertices: usize,
    /// Megabytes a sample may use.
    pub max_memory: usize,
    /// The collection.
    #[serde(flatten)]
    pub subject: SubjectSetting,
    /// Content hash of the model.
    pub model: String,
    /// Version of this program.
    pub version: String,
}

/// The collection of samples, and what is asked of all of them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SubjectSetting {
    /// Data set.
    pub data: String,
    /// Which part of it.
    pub split: String,
    /// What only forecasts have.
    #[serde(flatten)]
    pub forecast: Option<ForecastSetting>,
}

/// What is asked about series.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ForecastSetting {
    /// Beginning of a hash of the prepared records.
    pub data_hash: String,
    /// How records were divided into parts.
    pub order: String,
    /// How far ahead is predicted at least.
    pub horizon: f64,
    /// Points the encoder walks through: `own` or `authors`.
    pub grid: String,
    /// ν: part of its error by which a prediction may become worse.
    pub nu: f64,
    /// δ: mean absolute error by which it may become worse besides.
    pub delta: f64,
    /// What moves, if not everything that usually does.
    pub features: Vec<String>,
    /// Radii that do not follow eps.
    pub feature_eps: BTreeMap<String, f64>,
    /// All of this in words.
    pub question: String,
}

impl Setting {
    /// What a run was asked for.
    pub fn new(subject: &dyn Subject, plan: &Plan, work: &WorkArgs) -> Self {
        Self {
            method: plan.name(),
            step_form: step_form_word(plan.step_form).into(),
            arithmetic: plan.arithmetic,
            attack: plan.attack,
            timeout: work.timeout,
            max_vertices: work.max_vertices,
            max_memory: work.max_memory,
            subject: subject.setting(),
            model: subject.network().hash.clone(),
            version: env!("CARGO_PKG_VERSION").into(),
        }
    }
}

impl Line {
    /// The line of an answer.
    pub fn new(index: usize, eps: f64, answer: Answer, subject: &dyn Subject, setting: &Setting) -> Self {
        let sample = subject.sample_part(index, &answer);
        let (verdict, reason, witness) = match answer.verdict {
            Verdict::Verified => (VerdictWord::Verified, None, None),
            Verdict::Falsified(witness) => (VerdictWord::Falsified, None, Some(witness)),
            Verdict::Unknown(reason) => (VerdictWord::Unknown, Some(reason), None),
            Verdict::Misclassified => (VerdictWord::Misclassified, None, None),
        };
        Self {
            index,
            sample,
            eps,
            verdict,
            reason: reason.as_ref().map(ToString::to_string),
            reason_code: reason.as_ref().map(|reason| reason.code().into()),
            vertices: answer.graph.map(|g| g.0),
            edges: answer.graph.map(|g| g.1),
            seconds: micro(answer.elapsed),
            stages: answer.stages,
            witness,
            setting: setting.clone(),
        }
    }

    /// What kind of network it is about.
    pub fn task(&self) -> Task {
        match self.sample {
            SamplePart::Image { .. } => Task::Classes,
            SamplePart::Record { .. } => Task::Forecasts,
        }
    }

    /// Whether the network is right without any change of its input.
    pub fn is_correct(&self) -> bool {
        matches!(self.sample, SamplePart::Image { label, prediction, .. } if prediction == Some(label))
    }
}
