//! Series as a subject: which records, what moves in them, how much worse predictions may become.

mod region;
mod source;

use std::sync::Arc;

use gains_core::{Network, Precision};
use gains_data::series::Subset;
use serde_json::{Map, Value, json};

use super::{Selection, Shown, Subject};
use crate::cli::{GridArg, RegionArgs, SeriesArgs};
use crate::failure::Failure;
use crate::question::{Answer, Budget, Findings, Model, Question, Sample, Struck, Task, Witness};
use crate::results::{Claim, ForecastSetting, Line, SamplePart, Samples, SubjectSetting, VerdictWord};

use region::Region;
use source::SeriesSet;
pub use source::{Item, SeriesSource};

/// A forecasting network and the records it is asked about.
pub struct SeriesSubject<'a> {
    model: &'a Model,
    set: SeriesSet<'a>,
    region: Region,
    indices: Vec<usize>,
}

impl<'a> SeriesSubject<'a> {
    /// Sets records up for a model.
    pub fn new(
        source: &'a SeriesSource,
        model: &'a Model,
        samples: Option<&Selection>,
        series: &SeriesArgs,
        region: &RegionArgs,
    ) -> Result<Self, Failure> {
        if let Some(flag) = region.of_values() {
            let message = format!("{flag} is for inputs of fixed size, not for series");
            return Err(Failure::usage(message)
                .hint("where features of series stay is said in the model file; --feature-eps says how far they move"));
        }
        let set = source.set(model.network(), series)?;
        let indices = set.indices(samples)?;
        if let (Some(flag), Some(_)) = (region.of_series(), model.asked().text()) {
            return Err(Failure::usage(format!("{flag} is about the mean error, another property is asked"))
                .hint(format!("leave out {flag}, or the property")));
        }
        let region = Region::new(region, &set.names)?;
        Ok(Self { model, set, region, indices })
    }

    /// The records, and what is known of them.
    pub fn set(&self) -> &SeriesSet<'a> {
        &self.set
    }

    /// The question about a record of any part.
    pub fn ask(&self, part: Subset, index: usize, eps: f64) -> (Item, Question<'_>) {
        let network = self.model.network();
        let item = self.set.item(part, index);
        let sample = Sample::Series {
            observations: item.observations.clone(),
            truth: item.series.target.clone(),
            truth_mask: item.series.target_mask.clone(),
            perturbation: self.region.at(network, eps),
            tolerance: self.region.tolerance,
            asked: Arc::clone(self.model.asked()),
            units: (0..self.set.names.features.len()).map(|column| self.set.unit(column)).collect(),
        };
        (item, Question { network, sample })
    }

    /// The question in words that differ whenever the answer might.
    pub fn words(&self) -> String {
        match self.model.asked().text() {
            None => format!("{}, {}", self.set.describe(), self.region.words()),
            Some(text) => format!("{}, {}, property {text}", self.set.describe(), self.region.words()),
        }
    }

    fn id(&self, index: usize) -> &str {
        self.set.forecasts.id(self.set.part, index)
    }
}

impl Samples for SeriesSubject<'_> {
    fn network(&self) -> &Network {
        self.model.network()
    }

    fn task(&self) -> Task {
        Task::Forecasts
    }

    fn name(&self, index: usize) -> String {
        format!("record {}", self.id(index))
    }

    fn setting(&self) -> SubjectSetting {
        let grid = match self.set.grid {
            GridArg::Own => "own",
            GridArg::Authors => "authors",
        };
        let forecast = ForecastSetting {
            data_hash: self.set.digest(),
            order: self.set.order.to_string(),
            horizon: self.set.horizon.ahead(),
            grid: grid.into(),
            nu: self.region.tolerance.relative,
            delta: self.region.tolerance.absolute,
            features: self.region.listed.clone(),
            feature_eps: self.region.named.clone(),
            question: self.words(),
        };
        let (data, split) = (self.set.kind().to_string(), self.set.part.to_string());
        SubjectSetting { data, split, forecast: Some(forecast), inputs: None }
    }

    fn property(&self) -> Option<&str> {
        self.model.asked().text()
    }

    fn sample_part(&self, index: usize, answer: &Answer) -> SamplePart {
        let (mae, limit, certified_mae, attacked_mae, margin) = match answer.findings {
            Findings::Forecasts { mae, limit, certified, attacked, margin } => {
                (mae, limit, certified, attacked, margin)
            }
            _ => (None, None, None, None, None),
        };
        SamplePart::Record { record: self.id(index).into(), mae, limit, certified_mae, attacked_mae, margin }
    }

    fn fault(&self, line: &Line) -> Option<String> {
        let SamplePart::Record { record, limit, certified_mae, margin, .. } = &line.sample else {
            return Some("it is about an image".into());
        };
        let there = self.set.forecasts.len(self.set.part);
        if line.index >= there {
            return Some(format!("index is {}, there are {there} records", line.index));
        }
        if record != self.id(line.index) {
            return Some(format!("record is '{record}', number {} is '{}'", line.index, self.id(line.index)));
        }
        let linear = self.model.asked().text().is_some();
        let holds = match line.verdict {
            VerdictWord::Verified if linear => margin.is_some_and(|m| m > 0.0),
            VerdictWord::Verified => matches!((certified_mae, limit), (Some(c), Some(l)) if c < l),
            VerdictWord::Falsified => matches!(line.witness, Some(Witness::Series { .. })),
            VerdictWord::Misclassified => linear,
            VerdictWord::Unknown => true,
        };
        (!holds).then(|| format!("the rest of the line does not support that it is {}", line.verdict))
    }
}

impl Subject for SeriesSubject<'_> {
    fn indices(&self) -> &[usize] {
        &self.indices
    }

    fn key(&self, index: usize) -> (&'static str, Value) {
        ("record", self.id(index).into())
    }

    fn check_radius(&self, _eps: f64) -> Result<(), Failure> {
        Ok(())
    }

    fn question(&self, index: usize, eps: f64) -> Question<'_> {
        self.ask(self.set.part, index, eps).1
    }

    fn heading(&self, samples: usize) -> (String, Option<String>) {
        (format!("{samples} records"), Some(self.words()))
    }

    fn struck_json(&self, index: usize, struck: Option<&Struck>) -> Value {
        let (mae, attacked, margin, broken) = match struck {
            Some(Struck::Forecasts { mae, attacked, margin, broken }) => {
                (*mae, *attacked, *margin, broken.as_ref())
            }
            _ => (None, None, None, None),
        };
        json!({
            "index": index, "record": self.id(index), "found": broken.is_some(),
            "mae": mae, "attacked_mae": attacked, "margin": margin, "witness": broken,
        })
    }

    fn predict(&self, index: usize, precision: Precision) -> Result<Shown, String> {
        let (item, question) = self.ask(self.set.part, index, 0.0);
        let (truth, mask) = (&item.series.target, &item.series.target_mask);
        let ran = question.run(precision, &crate::campaign::watch())?;
        let mae = gains_ode::mean_absolute_error(&ran.output, truth, mask);
        let observed = item.series.mask.iter().filter(|seen| **seen).count();
        let time = self.set.raw_time(item.series.target_time);
        let named = |value: &dyn Fn(usize) -> Option<f64>| -> Map<String, Value> {
            let entry = |(i, name): (usize, &String)| Some((name.clone(), json!(value(i)?)));
            self.set.names.features.iter().enumerate().filter_map(entry).collect()
        };
        let json = json!({
            "index": index, "record": item.series.id, "time": time, "mae": mae,
            "prediction": named(&|i| Some(self.set.raw(i, ran.output[i]))),
            "truth": named(&|i| mask[i].then(|| self.set.raw(i, truth[i]))),
            "output": ran.output, "accepted": ran.accepted, "rejected": ran.rejected,
            "model": self.network().hash,
        });
        let row = vec![
            index.to_string(),
            item.series.id.clone(),
            item.series.times.len().to_string(),
            observed.to_string(),
            format!("{time:.2}"),
            mask.iter().filter(|seen| **seen).count().to_string(),
            format!("{mae:.4}"),
            format!("{}+{}", ran.accepted, ran.rejected),
        ];
        Ok(Shown { json, row, score: mae })
    }

    fn predict_header(&self) -> &'static [&'static str] {
        &[
            "index",
            "record",
            "points",
            "observations",
            "target time",
            "observed there",
            "mae",
            "steps (accepted+rejected)",
        ]
    }

    fn predict_summary(&self, scores: &[f64]) -> String {
        let mean = scores.iter().sum::<f64>() / scores.len().max(1) as f64;
        let described = self.set.describe();
        format!("{described}\nmean absolute error {mean:.4} over {} records\n", scores.len())
    }

    fn is_measured(&self, index: usize, budget: Budget<'_>) -> bool {
        self.question(index, 0.0).is_answered(budget)
    }

    fn answers(&self, claim: &Claim) -> Result<(), Failure> {
        let hint = "give the series the results were made with by --series";
        let there = self.set.forecasts.len(self.set.part);
        if claim.index >= there {
            return Err(
                Failure::usage(format!("there is no record {} among {there}", claim.index)).hint(hint)
            );
        }
        if claim.record.as_deref() != Some(self.id(claim.index)) {
            let message =
                format!("record {} is '{}', the results say another", claim.index, self.id(claim.index));
            return Err(Failure::usage(message).hint(hint));
        }
        if claim.forecast() != self.setting().forecast.as_ref() {
            let asked = claim.forecast().map_or("", |setting| &setting.question);
            let message = format!("the results are about another question: {asked}; here: {}", self.words());
            return Err(Failure::usage(message).hint(hint));
        }
        Ok(())
    }
}
