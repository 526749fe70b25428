//! A collection of samples with questions: images, series, and what else networks may be asked about.
//!
//! Every command goes through [`Subject`], so that what one kind of network can do, all can.

mod classes;
mod entries;
mod images;
mod numbers;
mod own;
mod region;
mod series;

use gains_core::{Network, Precision, Shape};
use serde_json::Value;

use crate::cli::{AttackSettings, DataArgs, RegionArgs, SeriesArgs};
use crate::failure::Failure;
use crate::question::{AttackLoss, AttackPlan, Budget, Model, Question, Struck, Task};
use crate::results::{Claim, Samples};

pub use crate::selection::Selection;
use classes::ClassSubject;
pub use classes::Collection;
use images::ImageSource;
use numbers::NumberSubject;
pub use own::{Given, Nominal, Order, OwnSource};
pub use series::{Item, SeriesSource, SeriesSubject};

/// Samples that were read, not yet set up for a model.
pub enum Source {
    /// Images of a known set.
    Images(ImageSource),
    /// Inputs of the user's own.
    Own(OwnSource),
    /// Recorded series.
    Series(SeriesSource),
}

impl Source {
    /// Reads what a model of some kind is asked about, and refuses flags of the other kind.
    pub fn open(
        model: &Model,
        data: &DataArgs,
        series: &SeriesArgs,
        region: &RegionArgs,
    ) -> Result<Self, Failure> {
        let network = model.network();
        match model.task() {
            Task::Classes | Task::Regression => {
                let flag = series.given().or_else(|| region.of_series());
                refuse(flag, "is for forecasting models", "takes inputs of fixed size", network)?;
                match (data.own.is_given(), data.own.given()) {
                    (true, _) => Ok(Self::Own(OwnSource::open(data, network)?)),
                    (false, Some(flag)) => Err(Failure::usage(format!("{flag} is for inputs of your own"))
                        .hint("name them with --inputs FILE")),
                    (false, None) if model.task() == Task::Regression => Err(Failure::usage(format!(
                        "'{}' predicts numbers, for which there is no data set",
                        network.description.name
                    ))
                    .hint("give inputs with --inputs FILE; `gains data formats` explains them")),
                    (false, None) => Ok(Self::Images(ImageSource::open(data, network)?)),
                }
            }
            Task::Forecasts => {
                let (what, task) = ("is for models that tell classes apart", "forecasts series");
                refuse(data.given(), what, task, network)?;
                Ok(Self::Series(SeriesSource::open(series, data.data_dir.as_deref(), network)?))
            }
        }
    }

    /// Sets the samples up for a model.
    pub fn subject<'a>(
        &'a self,
        model: &'a Model,
        data: &DataArgs,
        series: &SeriesArgs,
        region: &RegionArgs,
    ) -> Result<Box<dyn Subject + 'a>, Failure> {
        match self {
            Self::Images(source) => Ok(Box::new(ClassSubject::new(model, source, region)?)),
            Self::Own(source) if model.task() == Task::Regression => {
                Ok(Box::new(NumberSubject::new(model, source, region)?))
            }
            Self::Own(source) => Ok(Box::new(ClassSubject::new(model, source, region)?)),
            Self::Series(source) => {
                Ok(Box::new(SeriesSubject::new(source, model, data.samples.as_ref(), series, region)?))
            }
        }
    }
}

impl Source {
    /// The samples, if they are of one shape.
    pub fn collection(&self) -> Option<&dyn Collection> {
        match self {
            Self::Images(source) => Some(source),
            Self::Own(source) => Some(source),
            Self::Series(_) => None,
        }
    }

    /// Numbers in the order the network takes them, in the order of the file.
    pub fn restore(&self, values: &[f64]) -> Vec<f64> {
        match self.collection() {
            Some(collection) => collection.entries().restore(values),
            None => values.to_vec(),
        }
    }
}

/// The attack flags ask for; what is climbed can be chosen on images only.
pub fn attack_plan(asked: &AttackSettings, model: &Model) -> Result<AttackPlan, Failure> {
    if model.task() == Task::Forecasts {
        let flag = asked.loss.map(|_| "--loss");
        refuse(flag, "is for models that tell classes apart", "forecasts series", model.network())?;
    }
    Ok(AttackPlan {
        steps: asked.steps,
        step_size: asked.step_size,
        restarts: asked.restarts as usize,
        loss: asked.loss.map_or(AttackLoss::CrossEntropy, Into::into),
        seed: asked.seed,
    })
}

/// What a network takes, in words.
fn takes(shape: Shape) -> String {
    match (shape.height, shape.width, shape.channels) {
        (1, 1, 1) => "single numbers".into(),
        (1, 1, length) => format!("vectors of {length} numbers"),
        _ => format!("{shape} images"),
    }
}

fn refuse(flag: Option<&str>, what: &str, task: &str, network: &Network) -> Result<(), Failure> {
    match flag {
        None => Ok(()),
        Some(flag) => Err(Failure::usage(format!("{flag} {what}, '{}' {task}", network.description.name))
            .hint(format!(
                "leave {flag} out, or choose another --model; `gains model show` tells what one is for"
            ))),
    }
}

/// One sample as `gains predict` shows it.
pub struct Shown {
    /// The line of `--json`.
    pub json: Value,
    /// The row of the table.
    pub row: Vec<String>,
    /// What is averaged: 1 for a correct class, 0 for a wrong one; the error of a forecast.
    pub score: f64,
}

/// A collection of samples with questions.
pub trait Subject: Samples + Sync {
    /// The samples that were chosen.
    fn indices(&self) -> &[usize];

    /// What identifies a sample besides its number: a key of result files and its value.
    fn key(&self, index: usize) -> (&'static str, Value);

    /// The radii that are asked about, given those that were named: one where radii mean nothing.
    fn radii(&self, asked: &[f64]) -> Vec<f64> {
        asked.to_vec()
    }

    /// Guards against radii that make no sense.
    fn check_radius(&self, eps: f64) -> Result<(), Failure>;

    /// The question about a sample at a radius.
    fn question(&self, index: usize, eps: f64) -> Question<'_>;

    /// The samples in words, for a title, and the question below it where there is more to say.
    fn heading(&self, samples: usize) -> (String, Option<String>);

    /// A line of `gains attack`: what is known of the sample and of the attack.
    fn struck_json(&self, index: usize, struck: Option<&Struck>) -> Value;

    /// Runs the network.
    fn predict(&self, index: usize, precision: Precision) -> Result<Shown, String>;

    /// The header of the predictions.
    fn predict_header(&self) -> &'static [&'static str];

    /// What stands below them.
    fn predict_summary(&self, scores: &[f64]) -> String;

    /// Whether a sample is worth measuring: a misclassified one is never analysed.
    fn is_measured(&self, index: usize, budget: Budget<'_>) -> bool;

    /// Whether a claim is about this collection.
    fn answers(&self, claim: &Claim) -> Result<(), Failure>;
}
