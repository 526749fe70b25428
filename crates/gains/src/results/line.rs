//! One line of a result file: what was found out about a sample, and everything the question depends on.

use std::collections::BTreeMap;
use std::fmt;

use gains_core::Arithmetic;
use gains_verify::Norm;
use serde::{Deserialize, Deserializer, Serialize};

use super::samples::Samples;
use crate::cli::WorkArgs;
use crate::question::{
    Answer, AttackPlan, OutputBounds, Plan, StageTime, Task, Verdict, Witness, micro, step_form_word,
};

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
    /// What was proved of each output.
    pub bounds: Option<OutputBounds>,
    /// What `gains radius` found out.
    #[serde(flatten)]
    pub radius: Option<RadiusPart>,
    /// What came of its certificate, where certificates are wanted.
    #[serde(flatten)]
    pub certificate: Option<CertificatePart>,
    /// What all lines of a run share.
    #[serde(flatten)]
    pub setting: Setting,
}

/// What came of the certificate of a sample.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CertificatePart {
    /// The name of its file, or `not written: ` and why; nothing if there is no verdict to certify.
    #[serde(deserialize_with = "required")]
    pub certificate: Option<String>,
    /// Whether `gains-check` accepted it; nothing if it was not asked.
    #[serde(deserialize_with = "required")]
    pub checked: Option<bool>,
}

/// A key that must be there, even if it says nothing.
fn required<'de, D: Deserializer<'de>, T: Deserialize<'de>>(from: D) -> Result<Option<T>, D::Error> {
    Option::deserialize(from)
}

/// What `gains radius` found out about a sample.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RadiusPart {
    /// The property holds for all changes of at most this size.
    pub certified_radius: f64,
    /// The witness, which breaks it, is a change of at most this size.
    pub attacked_radius: Option<f64>,
    /// Radii that were looked at.
    pub probes: usize,
}

/// What only one kind of network has. The first has a key that the other has not.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum SamplePart {
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
        /// Smallest certified distance to breaking another property.
        margin: Option<f64>,
    },
    /// The input of a network that predicts numbers.
    Numbers {
        /// What is predicted; empty if the solver failed.
        output: Vec<f64>,
        /// What is known to be true.
        truth: Option<Vec<f64>>,
        /// Smallest certified distance to breaking the property.
        margin: Option<f64>,
        /// Where the bound loses, if it was not enough and that was looked into.
        looseness: Option<String>,
    },
    /// An input of fixed size: an image, the row of a table.
    Image {
        /// True class; nothing if the predicted one is asked about.
        label: Option<usize>,
        /// Predicted class; nothing if the solver failed.
        prediction: Option<usize>,
        /// Smallest certified lower bound of a logit difference.
        margin: Option<f64>,
        /// Where the bound loses, if it was not enough and that was looked into.
        looseness: Option<String>,
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
    /// What is asked of the outputs, as a property file says it; nothing if it is the usual.
    pub property: Option<String>,
    /// How radii are looked for, if they are.
    #[serde(flatten)]
    pub radius: Option<RadiusSetting>,
    /// The collection.
    #[serde(flatten)]
    pub subject: SubjectSetting,
    /// Content hash of the model.
    pub model: String,
    /// Version of this program.
    pub version: String,
    /// Whether lines tell of certificates. No answer depends on it.
    #[serde(skip)]
    pub certificates: bool,
}

/// How `gains radius` looks for radii.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RadiusSetting {
    /// How close radii must come.
    pub gap: f64,
    /// Where intervals are divided: `log` or `plain`.
    pub bisect: String,
}

/// The collection of samples, and what is asked of all of them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(from = "WrittenSetting")]
pub struct SubjectSetting {
    /// Data set.
    pub data: String,
    /// Which part of it.
    pub split: String,
    /// What only forecasts have.
    #[serde(flatten)]
    pub forecast: Option<ForecastSetting>,
    /// What is said of inputs of fixed size that are not asked about as the known sets of images are.
    #[serde(flatten)]
    pub inputs: Option<InputSetting>,
}

/// The same as it is read: two optional parts with keys in common would take them from each other.
#[derive(Deserialize)]
struct WrittenSetting {
    data: String,
    split: String,
    #[serde(flatten)]
    particular: Particular,
}

/// What only some collections have.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(untagged)]
pub enum Particular {
    /// Series.
    Forecast(ForecastSetting),
    /// Inputs of fixed size.
    Inputs(InputSetting),
    /// Known sets of images.
    Nothing {},
}

impl Particular {
    /// Both parts, of which there is at most one.
    pub fn parts(self) -> (Option<ForecastSetting>, Option<InputSetting>) {
        match self {
            Self::Forecast(forecast) => (Some(forecast), None),
            Self::Inputs(inputs) => (None, Some(inputs)),
            Self::Nothing {} => (None, None),
        }
    }
}

impl From<WrittenSetting> for SubjectSetting {
    fn from(written: WrittenSetting) -> Self {
        let (forecast, inputs) = written.particular.parts();
        Self { data: written.data, split: written.split, forecast, inputs }
    }
}

impl SubjectSetting {
    /// What is asked, in words, where there is more to say than the data set does.
    pub fn question(&self) -> Option<&str> {
        let of_series = self.forecast.as_ref().map(|forecast| &forecast.question[..]);
        of_series.or(self.inputs.as_ref().map(|inputs| &inputs.question[..]))
    }
}

/// Which inputs of fixed size, and what may move in them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct InputSetting {
    /// Beginning of a hash of all inputs as the network takes them, and of their labels; nothing for known sets.
    pub inputs_hash: Option<String>,
    /// Beginning of a hash of the boxes, if they are given.
    pub box_hash: Option<String>,
    /// How changes are measured.
    pub norm: Norm,
    /// Where values stay.
    pub range: Option<RangeSetting>,
    /// What moves, if not everything does.
    pub features: Vec<String>,
    /// Radii that do not follow eps.
    pub feature_eps: BTreeMap<String, f64>,
    /// All of this in words.
    pub question: String,
}

/// Where values stay.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum RangeSetting {
    /// All in one range.
    All([f64; 2]),
    /// Those that are named each in its own, the others anywhere.
    Each(BTreeMap<String, [f64; 2]>),
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
    pub fn new(subject: &(impl Samples + ?Sized), plan: &Plan, work: &WorkArgs) -> Self {
        Self {
            method: plan.name(),
            step_form: step_form_word(plan.step_form).into(),
            arithmetic: plan.arithmetic,
            attack: plan.attack,
            timeout: work.timeout,
            max_vertices: work.max_vertices,
            max_memory: work.max_memory,
            property: subject.property().map(String::from),
            radius: None,
            subject: subject.setting(),
            model: subject.network().hash.clone(),
            version: env!("CARGO_PKG_VERSION").into(),
            certificates: false,
        }
    }
}

impl Line {
    /// The line of an answer.
    pub fn new(
        index: usize,
        eps: f64,
        answer: Answer,
        subject: &(impl Samples + ?Sized),
        setting: &Setting,
    ) -> Self {
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
            bounds: answer.bounds,
            radius: None,
            certificate: None,
            setting: setting.clone(),
        }
    }

    /// What kind of network it is about.
    pub fn task(&self) -> Task {
        match self.sample {
            SamplePart::Image { .. } => Task::Classes,
            SamplePart::Record { .. } => Task::Forecasts,
            SamplePart::Numbers { .. } => Task::Regression,
        }
    }

    /// Whether the network is right without any change of its input: about the class, or about what is asked instead.
    /// Without a label, whatever it says is.
    pub fn is_correct(&self) -> bool {
        match self.sample {
            _ if self.setting.property.is_some() => self.verdict != VerdictWord::Misclassified,
            SamplePart::Image { label: Some(label), prediction, .. } => prediction == Some(label),
            SamplePart::Image { label: None, prediction, .. } => prediction.is_some(),
            SamplePart::Record { .. } | SamplePart::Numbers { .. } => true,
        }
    }

    /// Whether its sample has a label.
    pub fn is_labelled(&self) -> bool {
        matches!(self.sample, SamplePart::Image { label: Some(_), .. })
    }
}
