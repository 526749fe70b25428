//! One question about one sample at one radius, and how it is answered.
//!
//! This is the only place that calls the verifier. A [`Question`] knows the network, the region and the property; a
//! [`Plan`] says what to try; an [`Answer`] is what came out, in the same form for every kind of network.

mod ask;
mod plan;

use std::time::Duration;

use gains_core::Network;
use gains_ode::{Graph, Observations, Visit};
use gains_verify::steps::{Reach, StepTrace};
use serde::{Deserialize, Serialize};

pub use gains_verify::property::Tolerance;
pub use gains_verify::series::{Allowance, Perturbation};
pub use gains_verify::verifier::precision_of;
pub use gains_verify::{AttackLoss, Budget, Method, Reason, StepForm};
pub use plan::{AttackPlan, Plan, Purpose, Way};

/// What networks are for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Task {
    /// Telling classes of images apart.
    Classes,
    /// Predicting series.
    Forecasts,
}

impl Task {
    /// What a network is for.
    pub fn of(network: &Network) -> Self {
        match network.description.task {
            gains_core::description::Task::Classification { .. } => Self::Classes,
            gains_core::description::Task::Forecasting { .. } => Self::Forecasts,
        }
    }
}

/// A network, and what it is for.
pub struct Model {
    network: Network,
}

impl Model {
    /// Takes a network.
    pub fn new(network: Network) -> Self {
        Self { network }
    }

    /// The network.
    pub fn network(&self) -> &Network {
        &self.network
    }

    /// What it is for.
    pub fn task(&self) -> Task {
        Task::of(&self.network)
    }
}

/// What is known about one sample at one radius.
#[derive(Clone, Debug, PartialEq)]
pub enum Verdict {
    /// The property holds for every input of the region.
    Verified,
    /// This input of the region breaks it.
    Falsified(Witness),
    /// Neither could be shown.
    Unknown(Reason),
    /// The sample itself is misclassified.
    Misclassified,
}

/// An input that breaks a property, as result files show it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Witness {
    /// The pixels, as the network takes them.
    Image(Vec<f64>),
    /// A series on the scale of the network.
    Series {
        /// What is known of it as a whole.
        statics: Vec<f64>,
        /// Its times.
        times: Vec<f64>,
        /// Row by row, one entry per feature for each time; where nothing is observed the entry does not matter.
        values: Vec<f64>,
    },
}

/// What was found out besides the verdict.
#[derive(Clone, Debug, PartialEq)]
pub enum Findings {
    /// Of a classifier.
    Classes {
        /// Class predicted by the concrete solver; nothing if it failed.
        prediction: Option<usize>,
        /// Smallest certified lower bound of a logit difference.
        margin: Option<f64>,
        /// Where the bound loses, if it was not enough and that was looked into.
        looseness: Option<String>,
    },
    /// Of a forecast.
    Forecasts {
        /// Mean absolute error of the prediction.
        mae: Option<f64>,
        /// The error that must not be reached.
        limit: Option<f64>,
        /// Proved: the error stays at or below this.
        certified: Option<f64>,
        /// Seen: an input of the region has this error.
        attacked: Option<f64>,
    },
}

/// Something that was tried.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StageTime {
    /// `attack`, the name of a method, `slopes` or `branch`.
    pub name: String,
    /// How long it took.
    pub seconds: f64,
}

/// What came out for one sample at one radius.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    /// The verdict.
    pub verdict: Verdict,
    /// What was found out besides.
    pub findings: Findings,
    /// What was tried, in order; if the sample was decided, the last did it.
    pub stages: Vec<StageTime>,
    /// Vertices and edges of the trajectory graph of the last method that finished.
    pub graph: Option<(usize, usize)>,
    /// Time for the verdict.
    pub elapsed: Duration,
}

impl Answer {
    /// The answer of a run that panicked: nothing is known.
    pub fn internal(task: Task, what: String, elapsed: Duration) -> Self {
        let findings = match task {
            Task::Classes => Findings::Classes { prediction: None, margin: None, looseness: None },
            Task::Forecasts => {
                Findings::Forecasts { mae: None, limit: None, certified: None, attacked: None }
            }
        };
        let verdict = Verdict::Unknown(Reason::Internal(what));
        Self { verdict, findings, stages: Vec::new(), graph: None, elapsed }
    }
}

/// Seconds, to the microsecond.
pub fn micro(time: Duration) -> f64 {
    time.as_micros() as f64 / 1e6
}

/// What an attack alone did.
#[derive(Clone, Debug, PartialEq)]
pub enum Struck {
    /// To an image.
    Classes {
        /// Class predicted without it.
        prediction: Option<usize>,
        /// A misclassified image and its class.
        broken: Option<(Witness, usize)>,
        /// Smallest logit difference seen; NaN if the sample itself is misclassified.
        margin: f64,
    },
    /// To a series.
    Forecasts {
        /// Mean absolute error without it.
        mae: Option<f64>,
        /// The worst error seen.
        attacked: Option<f64>,
        /// The worst series, if it breaks the property.
        broken: Option<Witness>,
    },
}

/// What a verified sample is claimed to keep.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Claimed {
    /// The class, ahead of all others by this margin.
    Margin(f64),
    /// An error below the limit, and at or below what was certified.
    Error {
        /// The error that must not be reached.
        limit: f64,
        /// The error that was proved.
        certified: f64,
    },
}

/// What the points of one sample showed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tried {
    /// Points that were run.
    pub points: usize,
    /// Points that break the property although the sample was verified.
    pub wrong: usize,
    /// Points beyond the certified bound.
    pub beyond: usize,
    /// The smallest distance to the certified bound.
    pub slack: f64,
}

impl Tried {
    const NOTHING: Self = Self { points: 0, wrong: 0, beyond: 0, slack: f64::INFINITY };

    fn note(&mut self, wrong: bool, slack: f64) {
        self.points += 1;
        self.wrong += usize::from(wrong);
        // The concrete run rounds, too.
        self.beyond += usize::from(slack < -1e-9);
        self.slack = self.slack.min(slack);
    }
}

/// All trajectories that a region can cause.
pub type TrajectoryGraph = Graph<Reach, StepTrace>;

/// Bounds by one method, and the graph they were made on.
pub struct Bounded<'a> {
    /// Smallest certified lower bound: of a logit difference, or of the distance to the limit of the error.
    pub margin: f64,
    /// Vertices and edges of all graphs.
    pub size: (usize, usize),
    /// The first trajectory graph.
    pub graph: Option<&'a TrajectoryGraph>,
}

/// A sample and what may happen to it.
pub enum Sample {
    /// Does an image keep its class?
    Image {
        /// The pixels.
        image: Vec<f64>,
        /// Its class.
        label: usize,
        /// How far pixels may move.
        eps: f64,
    },
    /// Is a series predicted hardly worse?
    Series {
        /// The series as the network takes it.
        observations: Observations,
        /// What is observed at the target.
        truth: Vec<f64>,
        /// Whether it is.
        truth_mask: Vec<bool>,
        /// What may move.
        perturbation: Perturbation,
        /// How much worse the prediction may become.
        tolerance: Tolerance,
    },
}

/// What is asked about one sample at one radius.
pub struct Question<'a> {
    /// Of this network.
    pub network: &'a Network,
    /// The sample.
    pub sample: Sample,
}

/// Certified intervals of all features of a forecast, and what was found out besides.
pub struct Forecasted {
    /// The verdict and its figures.
    pub answer: Answer,
    /// On the scale of the network; why there are none.
    pub band: Result<gains_core::BoxVec, Reason>,
    /// Predictions for the worst series found, and their error.
    pub attacked: Option<(Vec<f64>, f64)>,
}

/// What the concrete solver did.
pub struct Ran {
    /// Logits, or features on the scale of the network.
    pub output: Vec<f64>,
    /// Steps of the first ODE block.
    pub trajectory: Vec<Visit>,
    /// Accepted steps of all blocks.
    pub accepted: usize,
    /// Rejected ones.
    pub rejected: usize,
    /// Evaluations of the dynamics.
    pub evaluations: usize,
    /// Whether every step is within the solver's tolerance.
    pub within_tolerance: bool,
}

impl Ran {
    /// The first of the largest outputs: the class a classifier predicts.
    pub fn largest(&self) -> usize {
        let better = |best: usize, i: usize| if self.output[i] > self.output[best] { i } else { best };
        (0..self.output.len()).fold(0, better)
    }
}

/// The word result files use.
pub fn step_form_word(form: StepForm) -> &'static str {
    match form {
        StepForm::Independent => "independent",
        StepForm::Difference => "difference",
    }
}
