//! One question about one sample at one radius, and how it is answered.
//!
//! This is the only place that calls the verifier. A [`Question`] knows the network, the region and the property; a
//! [`Plan`] says what to try; an [`Answer`] is what came out, in the same form for every kind of network.

mod ask;
mod moved;
mod outputs;
mod plan;
mod study;

use std::sync::Arc;
use std::time::Duration;

use gains_core::Network;
use gains_ode::{Graph, Observations, Visit};
use gains_verify::steps::{Reach, StepTrace};
use serde::{Deserialize, Serialize};

pub use gains_verify::property::Tolerance;
pub use gains_verify::series::{Allowance, Perturbation};
pub use gains_verify::verifier::precision_of;
use gains_verify::{Analysis, Problem};
pub use gains_verify::{AttackLoss, Budget, Method, Reason, Region, StepForm};

use crate::cli::PropertyArgs;
use crate::failure::Failure;
use crate::property::{Asked, Unit};

pub use outputs::OutputBounds;
pub use plan::{AttackPlan, Plan, Purpose, Way};
pub use study::{DecisionAttack, Drawn, Until};

/// What networks are for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Task {
    /// Telling classes apart.
    Classes,
    /// Predicting numbers.
    Regression,
    /// Predicting series.
    Forecasts,
}

impl Task {
    /// What a network is for.
    pub fn of(network: &Network) -> Self {
        match network.description.task {
            gains_core::description::Task::Classification { .. } => Self::Classes,
            gains_core::description::Task::Regression { .. } => Self::Regression,
            gains_core::description::Task::Forecasting { .. } => Self::Forecasts,
        }
    }
}

/// A network, what it is for, and what is asked of its outputs.
#[derive(Clone)]
pub struct Model {
    network: Arc<Network>,
    asked: Arc<Asked>,
}

impl Model {
    /// Takes a network, of which the usual is asked.
    pub fn new(network: impl Into<Arc<Network>>) -> Self {
        let network = network.into();
        Self { asked: Arc::new(Asked::usual(&network)), network }
    }

    /// Takes a network, of which is asked what flags say.
    pub fn asking(network: impl Into<Arc<Network>>, property: &PropertyArgs) -> Result<Self, Failure> {
        let network = network.into();
        Ok(Self { asked: Arc::new(Asked::new(property, &network)?), network })
    }

    /// The same network, of which is asked what the text of a property file says.
    pub fn asking_for(&self, property: &str) -> Result<Self, Failure> {
        let network = Arc::clone(&self.network);
        Ok(Self { asked: Arc::new(Asked::said(&network, property)?), network })
    }

    /// The network, to be shared.
    pub fn shared(&self) -> Arc<Network> {
        Arc::clone(&self.network)
    }

    /// Takes a network, of which is asked what a result file says.
    pub fn asking_again(network: Network, property: Option<&str>) -> Result<Self, Failure> {
        let network = Arc::new(network);
        Ok(Self { asked: Arc::new(Asked::again(&network, property)?), network })
    }

    /// What is asked of its outputs.
    pub fn asked(&self) -> &Arc<Asked> {
        &self.asked
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
    /// The values, as the network takes them.
    Values(Vec<f64>),
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
    /// Of a network that predicts numbers.
    Regression {
        /// What the concrete solver predicts; nothing if it failed.
        output: Option<Vec<f64>>,
        /// Smallest certified distance to breaking the property.
        margin: Option<f64>,
        /// Where the bound loses, if it was not enough and that was looked into.
        looseness: Option<String>,
    },
    /// Of a forecast.
    Forecasts {
        /// Mean absolute error of the prediction.
        mae: Option<f64>,
        /// The error that must not be reached; nothing if something else is asked.
        limit: Option<f64>,
        /// Proved: the error stays at or below this.
        certified: Option<f64>,
        /// Seen: an input of the region has this error.
        attacked: Option<f64>,
        /// Smallest certified distance to breaking another property.
        margin: Option<f64>,
    },
}

impl Findings {
    /// Smallest certified distance to breaking the property.
    pub fn margin(&self) -> Option<f64> {
        match self {
            Self::Classes { margin, .. } | Self::Regression { margin, .. } => *margin,
            Self::Forecasts { margin, limit, certified, .. } => {
                margin.or(limit.zip(*certified).map(|(limit, certified)| limit - certified))
            }
        }
    }

    /// Nothing was found out.
    pub fn nothing(task: Task) -> Self {
        match task {
            Task::Classes => Self::Classes { prediction: None, margin: None, looseness: None },
            Task::Regression => Self::Regression { output: None, margin: None, looseness: None },
            Task::Forecasts => {
                Self::Forecasts { mae: None, limit: None, certified: None, attacked: None, margin: None }
            }
        }
    }
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
    /// What was proved of each output on the way.
    pub bounds: Option<OutputBounds>,
    /// Time for the verdict.
    pub elapsed: Duration,
}

impl Answer {
    /// The answer of a run that panicked: nothing is known.
    pub fn internal(task: Task, what: String, elapsed: Duration) -> Self {
        let findings = Findings::nothing(task);
        let verdict = Verdict::Unknown(Reason::Internal(what));
        Self { verdict, findings, stages: Vec::new(), graph: None, bounds: None, elapsed }
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
    /// To the input of a network that predicts numbers.
    Regression {
        /// What is predicted without it.
        output: Option<Vec<f64>>,
        /// An input that breaks the property, and what is predicted for it.
        broken: Option<(Witness, Vec<f64>)>,
        /// Smallest margin seen; NaN if the sample itself breaks the property.
        margin: f64,
    },
    /// To a series.
    Forecasts {
        /// Mean absolute error without it.
        mae: Option<f64>,
        /// The worst error seen, if that is what is asked about.
        attacked: Option<f64>,
        /// Smallest margin of another property seen.
        margin: Option<f64>,
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
    problem: &'a Problem<'a>,
    analysis: &'a Analysis<'a>,
}

/// What is asked of one sample. It may depend on what the network says of it, so it becomes a property only when the
/// clock is running.
pub struct Wanted {
    /// What is asked of all samples.
    pub asked: Arc<Asked>,
    /// The class of this one; without it the predicted one is asked about.
    pub label: Option<usize>,
    /// What is known to be true of it, for networks that predict numbers.
    pub truth: Option<Vec<f64>>,
}

/// A sample and what may happen to it.
pub enum Sample {
    /// Does a property hold for every input of a region? An image, the row of a table, or any other input of fixed size.
    Values {
        /// The nominal input, in the order the network takes it.
        values: Vec<f64>,
        /// The inputs considered; the nominal one is among them.
        region: Region,
        /// What must hold of the outputs.
        wanted: Wanted,
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
        /// How much worse the prediction may become, if nothing else is asked.
        tolerance: Tolerance,
        /// What is asked.
        asked: Arc<Asked>,
        /// Units of the outputs.
        units: Vec<Unit>,
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
    /// Predictions for the worst series found.
    pub attacked: Option<Vec<f64>>,
}

/// What the concrete solver did.
pub struct Ran {
    /// Logits, or features on the scale of the network.
    pub output: Vec<f64>,
    /// Steps of every ODE block, in order.
    pub trajectories: Vec<Vec<Visit>>,
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
    /// Steps of the first ODE block.
    pub fn trajectory(&self) -> &[Visit] {
        self.trajectories.first().map_or(&[], Vec::as_slice)
    }

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
