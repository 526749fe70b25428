//! What result files say, as plain data.

use serde_json::{Map, Value};

/// One file that was read.
#[derive(Clone, Debug)]
pub enum Document {
    /// `gains certify --out`, `gains eval --out`.
    Verdicts(Verdicts),
    /// `gains attack --out`.
    Attacks(Attacks),
    /// `gains trajectory --json`.
    Trajectory(Trajectory),
    /// `gains forecast --json`.
    Forecast(Forecast),
    /// `metrics.csv` of `gains train`.
    Run(Run),
    /// `results.jsonl` in the folder of `gains study`.
    Study(Study),
}

impl Document {
    /// The verdicts, if it holds such.
    pub fn verdicts(&self) -> Option<&Verdicts> {
        if let Self::Verdicts(verdicts) = self { Some(verdicts) } else { None }
    }

    /// The attacks, if it holds such.
    pub fn attacks(&self) -> Option<&Attacks> {
        if let Self::Attacks(attacks) = self { Some(attacks) } else { None }
    }

    /// The trajectory graphs, if it holds such.
    pub fn trajectory(&self) -> Option<&Trajectory> {
        if let Self::Trajectory(trajectory) = self { Some(trajectory) } else { None }
    }

    /// The forecast, if it holds one.
    pub fn forecast(&self) -> Option<&Forecast> {
        if let Self::Forecast(forecast) = self { Some(forecast) } else { None }
    }

    /// The study, if it holds one.
    pub fn study(&self) -> Option<&Study> {
        if let Self::Study(study) = self { Some(study) } else { None }
    }

    /// The training run, if it holds one.
    pub fn run(&self) -> Option<&Run> {
        if let Self::Run(run) = self { Some(run) } else { None }
    }
}

/// A verdict.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verdict {
    /// The property holds for every input of the region.
    Verified,
    /// Neither could be shown.
    Unknown,
    /// The witness breaks it.
    Falsified,
    /// The sample itself is misclassified.
    Misclassified,
}

impl Verdict {
    /// All of them, the best first.
    pub const ALL: [Self; 4] = [Self::Verified, Self::Unknown, Self::Falsified, Self::Misclassified];

    /// The word files and the page use.
    pub fn word(self) -> &'static str {
        match self {
            Self::Verified => "verified",
            Self::Unknown => "unknown",
            Self::Falsified => "falsified",
            Self::Misclassified => "misclassified",
        }
    }

    /// The verdict of a word.
    pub fn of(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|verdict| verdict.word() == word)
    }
}

/// Something that was tried on a sample.
#[derive(Clone, Debug, PartialEq)]
pub struct Stage {
    /// Its name.
    pub name: String,
    /// How long it took.
    pub seconds: f64,
}

/// An input that breaks a property.
#[derive(Clone, Debug, PartialEq)]
pub enum Witness {
    /// Values as the network takes them.
    Values(Vec<f64>),
    /// A series: `values` row by row, one entry per feature for each time.
    Series {
        /// Its times.
        times: Vec<f64>,
        /// Its values.
        values: Vec<f64>,
    },
}

/// One sample at one radius.
#[derive(Clone, Debug, PartialEq)]
pub struct Line {
    /// Number of the sample.
    pub index: usize,
    /// Radius.
    pub eps: f64,
    /// The verdict; unknown if the line cannot be trusted, whatever it says.
    pub verdict: Verdict,
    /// Why it is unknown, in words.
    pub reason: Option<String>,
    /// Why it is unknown, in one word.
    pub reason_code: Option<String>,
    /// What is wrong with the line itself.
    pub fault: Option<String>,
    /// True class.
    pub label: Option<usize>,
    /// Predicted class.
    pub prediction: Option<usize>,
    /// Name of the record.
    pub record: Option<String>,
    /// Certified distance from a violation: of logits, or of the error from its limit.
    pub margin: Option<f64>,
    /// Error of the prediction.
    pub mae: Option<f64>,
    /// The error not to be reached.
    pub limit: Option<f64>,
    /// Proved: the error stays at or below this.
    pub certified_mae: Option<f64>,
    /// Seen: a series of the region has this error.
    pub attacked_mae: Option<f64>,
    /// Vertices and edges of the trajectory graph.
    pub graph: Option<(usize, usize)>,
    /// Time for the verdict.
    pub seconds: f64,
    /// What was tried, in order.
    pub stages: Vec<Stage>,
    /// An input that breaks the property.
    pub witness: Option<Witness>,
    /// Where the bound of an unknown loses, in words.
    pub looseness: Option<String>,
    /// What was proved of each output.
    pub bounds: Option<Bounds>,
    /// The file with the proof, or why there is none, if it was to be written down.
    pub certificate: Option<String>,
    /// Whether the checker accepted it, if it was asked.
    pub checked: Option<bool>,
    /// What `gains radius` found; the verdict is then about the largest radius it looked at.
    pub radius: Option<Radius>,
    /// What a network that predicts numbers says, and what is true.
    pub numbers: Option<String>,
}

/// Outputs at a sample and over its region; null where nothing finite was proved.
#[derive(Clone, Debug, PartialEq)]
pub struct Bounds {
    /// What the network gives for the sample.
    pub output: Vec<f64>,
    /// Proved: each output stays at or above this.
    pub low: Vec<Option<f64>>,
    /// Proved: and at or below this.
    pub high: Vec<Option<f64>>,
    /// Proved: the label stays ahead of each class by this; empty if something else is asked.
    pub margins: Vec<Option<f64>>,
    /// Where the bound loses.
    pub losses: Option<Losses>,
}

/// Where a bound loses: from the true value at the input where it is attained down to the bound.
#[derive(Clone, Debug, PartialEq)]
pub struct Losses {
    /// The true value there; earlier versions did not write it.
    pub truth: Option<f64>,
    /// In the layers in front of the first ODE block.
    pub layers: Vec<f64>,
    /// In its solver steps: time and loss.
    pub steps: Vec<[f64; 2]>,
    /// Everywhere else.
    pub rest: f64,
}

/// How far a sample can be certified and attacked.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Radius {
    /// The property holds for all changes of at most this size.
    pub certified: f64,
    /// A change of at most this size breaks it.
    pub attacked: Option<f64>,
}

impl Line {
    /// Whether its proof was written down, and what the checker says of it.
    pub fn seal(&self) -> Option<Seal> {
        let written = self.certificate.as_ref().is_some_and(|file| !file.starts_with(NOT_WRITTEN));
        let decided = matches!(self.verdict, Verdict::Verified | Verdict::Falsified);
        (written && decided).then_some(match self.checked {
            Some(true) => Seal::Checked,
            Some(false) => Seal::Refused,
            None => Seal::Written,
        })
    }

    /// Where its bound loses.
    pub fn losses(&self) -> Option<&Losses> {
        self.bounds.as_ref()?.losses.as_ref()
    }

    /// Whether the network is right, or tolerably wrong, without any change of its input.
    pub fn is_correct(&self) -> bool {
        match (self.label, self.prediction) {
            (Some(label), prediction) => prediction == Some(label),
            (None, _) => self.verdict != Verdict::Misclassified,
        }
    }
}

/// How a line says that there is no certificate although one was wanted.
const NOT_WRITTEN: &str = "not written";

/// What there is of a proof besides the word of the verifier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seal {
    /// It was written down.
    Written,
    /// It was written down, and the checker has accepted it.
    Checked,
    /// It was written down, and the checker has not accepted it.
    Refused,
}

impl Seal {
    /// The word the page uses.
    pub fn word(self) -> &'static str {
        match self {
            Self::Written => "certificate",
            Self::Checked => "checked",
            Self::Refused => "refused",
        }
    }
}

/// A file of verdicts.
#[derive(Clone, Debug)]
pub struct Verdicts {
    /// Name of the file.
    pub name: String,
    /// Its lines, by sample and radius.
    pub lines: Vec<Line>,
    /// What all lines share: model, data, method, limits, version.
    pub setting: Map<String, Value>,
    /// Whether the file ends in the middle of a line.
    pub cut: bool,
    /// Lines without a check, as earlier versions wrote them.
    pub unchecked: usize,
    /// How far the run is, where that is known.
    pub progress: Option<Progress>,
}

/// How far a run is that is going on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Progress {
    /// Samples it was asked for.
    pub samples: usize,
    /// Seconds from its first line to its last.
    pub seconds: f64,
}

impl Verdicts {
    /// The radii, smallest first.
    pub fn radii(&self) -> Vec<f64> {
        radii(self.lines.iter().map(|line| line.eps))
    }

    /// The samples, each once.
    pub fn samples(&self) -> Vec<usize> {
        let mut samples: Vec<usize> = self.lines.iter().map(|line| line.index).collect();
        samples.sort_unstable();
        samples.dedup();
        samples
    }

    /// Pairs of a sample and a radius that other lines make one expect, and that are not there.
    pub fn missing(&self) -> usize {
        (self.samples().len() * self.radii().len()).saturating_sub(self.lines.len())
    }

    /// A text all lines share.
    pub fn text(&self, key: &str) -> Option<&str> {
        self.setting.get(key)?.as_str()
    }

    /// Whether radii were looked for.
    pub fn has_radii(&self) -> bool {
        self.lines.iter().any(|line| line.radius.is_some())
    }

    /// Whether it is about forecasts.
    pub fn is_about_series(&self) -> bool {
        self.lines.iter().any(|line| line.record.is_some())
    }
}

/// Different radii, smallest first.
pub fn radii(all: impl Iterator<Item = f64>) -> Vec<f64> {
    let mut radii: Vec<f64> = all.collect();
    radii.sort_by(f64::total_cmp);
    radii.dedup();
    radii
}

/// What an attack did to one sample at one radius.
#[derive(Clone, Debug, PartialEq)]
pub struct Attacked {
    /// Number of the sample.
    pub index: usize,
    /// Radius.
    pub eps: f64,
    /// Whether the network is right without an attack.
    pub correct: bool,
    /// Whether it broke the property.
    pub found: bool,
}

/// A file of attacks.
#[derive(Clone, Debug)]
pub struct Attacks {
    /// Name of the file.
    pub name: String,
    /// Its lines.
    pub lines: Vec<Attacked>,
    /// What all lines share.
    pub setting: Map<String, Value>,
    /// Whether the file ends in the middle of a line.
    pub cut: bool,
}

/// A step of the concrete solver.
#[derive(Clone, Debug, PartialEq)]
pub struct Visit {
    /// When.
    pub time: f64,
    /// How large.
    pub step: f64,
    /// Its error estimate, divided by the tolerance.
    pub error: Option<f64>,
    /// What the controller did.
    pub action: String,
}

/// A place of the solver that some input of the region reaches.
#[derive(Clone, Debug, PartialEq)]
pub struct Vertex {
    /// Time.
    pub time: f64,
    /// Step size.
    pub step: f64,
    /// Whether the step is cut at the end time.
    pub clipped: bool,
    /// Whether the solver no longer looks at errors.
    pub settled: bool,
    /// All error estimates, divided by the tolerance.
    pub error: Option<[f64; 2]>,
    /// Mean width of the states.
    pub width: f64,
}

/// A decision some input of the region causes.
#[derive(Clone, Debug, PartialEq)]
pub struct Edge {
    /// Vertex it leaves.
    pub from: usize,
    /// Vertex it enters; none for the end time.
    pub to: Option<usize>,
    /// `keep`, `increase` or `reject`.
    pub action: String,
}

/// All trajectories of one region, bounded by one method.
#[derive(Clone, Debug, PartialEq)]
pub struct Graph {
    /// The method.
    pub method: String,
    /// Radius of the region.
    pub eps: f64,
    /// Certified margin on this graph.
    pub margin: Option<f64>,
    /// What was proved of each output on it.
    pub bounds: Option<Bounds>,
    /// Mean width of the states at the end.
    pub end_width: f64,
    /// Places.
    pub vertices: Vec<Vertex>,
    /// Decisions.
    pub edges: Vec<Edge>,
    /// Why there is no graph.
    pub failure: Option<String>,
}

/// `gains trajectory --json`.
#[derive(Clone, Debug)]
pub struct Trajectory {
    /// Name of the file.
    pub name: String,
    /// Content hash of the model.
    pub model: String,
    /// Number of the sample.
    pub sample: usize,
    /// The sample in words: `label 3`, `record 135698`.
    pub about: String,
    /// Its true class.
    pub label: Option<usize>,
    /// End time.
    pub end: f64,
    /// Errors at or below this make the solver increase its step; above 1 it rejects.
    pub increase_below: Option<f64>,
    /// The solver's own steps.
    pub concrete: Vec<Visit>,
    /// All that the region can cause, by method and radius.
    pub graphs: Vec<Graph>,
}

/// One feature of a forecast, in the units of the data.
#[derive(Clone, Debug, PartialEq)]
pub struct Feature {
    /// Its name.
    pub name: String,
    /// How often it was observed.
    pub observed: usize,
    /// Times and values of the observations.
    pub points: Vec<[f64; 2]>,
    /// What the network says.
    pub prediction: f64,
    /// Certified band.
    pub band: Option<[f64; 2]>,
    /// What it says of the worst series found.
    pub attacked: Option<f64>,
    /// What was observed at the target.
    pub truth: Option<f64>,
    /// Error of the prediction on the scale of the network.
    pub error: Option<f64>,
    /// Largest error anywhere in the band, on the scale of the network.
    pub worst: Option<f64>,
}

/// `gains forecast --json`.
#[derive(Clone, Debug)]
pub struct Forecast {
    /// Name of the file.
    pub name: String,
    /// Content hash of the model.
    pub model: String,
    /// The record.
    pub record: String,
    /// Radius.
    pub eps: f64,
    /// What was asked, in words.
    pub question: String,
    /// The time predicted for, in the units of the data.
    pub time: f64,
    /// The verdict, in words.
    pub verdict: String,
    /// Error of the prediction.
    pub mae: f64,
    /// The error not to be reached; nothing if something else is asked.
    pub limit: Option<f64>,
    /// Certified distance to breaking what is asked instead.
    pub margin: Option<f64>,
    /// Proved: the error stays at or below this.
    pub certified: Option<f64>,
    /// Seen: a series of the region has this error.
    pub attacked: Option<f64>,
    /// All features.
    pub features: Vec<Feature>,
}

/// The finished cases of a study.
#[derive(Clone, Debug)]
pub struct Study {
    /// Name of the file.
    pub name: String,
    /// Which study.
    pub study: String,
    /// How it was set up, in words.
    pub setting: String,
    /// Its cases.
    pub cases: Vec<StudyCase>,
    /// Whether the file ends in the middle of a line.
    pub cut: bool,
}

/// One case of a study.
#[derive(Clone, Debug, PartialEq)]
pub struct StudyCase {
    /// What tells it from the others: names and values.
    pub keys: Vec<(String, String)>,
    /// What came out.
    pub figures: std::collections::BTreeMap<String, f64>,
    /// How long it took.
    pub seconds: f64,
}

/// `metrics.csv` of a training run: one column per figure, one row per epoch.
#[derive(Clone, Debug)]
pub struct Run {
    /// Name of the file.
    pub name: String,
    /// Names of the columns.
    pub columns: Vec<String>,
    /// Rows; what is no number is nothing.
    pub rows: Vec<Vec<Option<f64>>>,
    /// How many epochs were planned, where that is known.
    pub planned: Option<usize>,
}

impl Run {
    /// A column by its name.
    pub fn column(&self, name: &str) -> Option<Vec<Option<f64>>> {
        let at = self.columns.iter().position(|column| column == name)?;
        Some(self.rows.iter().map(|row| row.get(at).copied().flatten()).collect())
    }
}
