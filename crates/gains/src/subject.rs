//! A collection of samples with questions: images, series, and what else networks may be asked about.
//!
//! Every command goes through [`Subject`], so that what one kind of network can do, all can.

mod images;
mod selection;
mod series;

use gains_core::{Network, Precision};
use serde_json::Value;

use crate::cli::{DataArgs, RegionArgs, SeriesArgs};
use crate::failure::Failure;
use crate::question::{Answer, Model, Question, Struck, Task};
use crate::results::{Claim, Line, SamplePart, SubjectSetting};

pub use images::ImageSource;
pub use selection::Selection;
pub use series::{Item, SeriesSource, SeriesSubject};

/// Samples that were read, not yet set up for a model.
pub enum Source {
    /// Images with labels.
    Images(ImageSource),
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
            Task::Classes => {
                let flag = series.given().or_else(|| region.given());
                refuse(flag, "is for forecasting models", "classifies images", network)?;
                Ok(Self::Images(ImageSource::open(data, network)?))
            }
            Task::Forecasts => {
                let (what, task) = ("is for models that classify images", "forecasts series");
                refuse(data.given(), what, task, network)?;
                Ok(Self::Series(SeriesSource::open(series, data.data_dir.as_deref())?))
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
            Self::Images(source) => Ok(Box::new(source.subject(model))),
            Self::Series(source) => {
                Ok(Box::new(SeriesSubject::new(source, model, data.samples.as_ref(), series, region)?))
            }
        }
    }
}

/// Refuses a flag that only models for images have.
pub fn refuse_image_flag(flag: Option<&str>, network: &Network) -> Result<(), Failure> {
    refuse(flag, "is for models that classify images", "forecasts series", network)
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
pub trait Subject: Sync {
    /// The network that is asked.
    fn network(&self) -> &Network;

    /// What is asked.
    fn task(&self) -> Task;

    /// The samples that were chosen.
    fn indices(&self) -> &[usize];

    /// What a sample is called in messages.
    fn name(&self, index: usize) -> String;

    /// What identifies a sample besides its number: a key of result files and its value.
    fn key(&self, index: usize) -> (&'static str, Value);

    /// Guards against radii that make no sense.
    fn check_radius(&self, eps: f64) -> Result<(), Failure>;

    /// The question about a sample at a radius.
    fn question(&self, index: usize, eps: f64) -> Question<'_>;

    /// What all lines of a result file say about the collection.
    fn setting(&self) -> SubjectSetting;

    /// What a line says about its sample.
    fn sample_part(&self, index: usize, answer: &Answer) -> SamplePart;

    /// What is wrong with a line that claims to be about this collection.
    fn fault(&self, line: &Line) -> Option<String>;

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
    fn is_measured(&self, index: usize) -> bool;

    /// Whether a claim is about this collection.
    fn answers(&self, claim: &Claim) -> Result<(), Failure>;
}
