//! Pictures of the samples that results are about, as far as their data are there.

use std::collections::BTreeSet;

use clap::ValueEnum as _;
use gains_core::Network;
use gains_core::description::Task as Purpose;
use gains_report::{Channels, Document, Input, Verdicts};
use serde_json::{Value, json};

use super::cards::Models;
use crate::cli::{DataArgs, GridArg, InputArgs, PartArg, RegionArgs, ReportArgs, SeriesArgs};
use crate::failure::Failure;
use crate::question::{Sample, Task};
use crate::subject::{Selection, Source, Subject};

/// Samples that get a picture; a page with more would be slow to open.
const MOST: usize = 2000;

/// The pictures, and why there are none for some results.
pub fn read(args: &ReportArgs, models: &Models, documents: &[Document]) -> (Vec<Input>, Vec<String>) {
    let (mut inputs, mut notes): (Vec<Input>, Vec<String>) = (Vec::new(), Vec::new());
    for document in documents {
        let Document::Verdicts(results) = document else { continue };
        match of_file(args, models, results) {
            Ok(more) => {
                let new = |input: &Input| inputs.iter().all(|known| known.key() != input.key());
                let more: Vec<Input> = more.into_iter().filter(new).collect();
                inputs.extend(more);
            }
            Err(failure) => {
                notes.push(format!("No pictures of the samples of {}: {}", results.name, failure.message))
            }
        }
    }
    (inputs, notes)
}

fn of_file(args: &ReportArgs, models: &Models, results: &Verdicts) -> Result<Vec<Input>, Failure> {
    let missing = |what: &str| Failure::new(what.to_owned());
    let hash = results.text("model").ok_or_else(|| missing("its lines name no network"))?;
    let model = models.find(hash).ok_or_else(|| missing("their network is not there (--model)"))?;
    let (name, split) =
        results.text("data").zip(results.text("split")).ok_or_else(|| missing("its lines name no data"))?;
    let samples: BTreeSet<usize> = results.samples().into_iter().take(MOST).collect();
    let mut data = DataArgs {
        data_dir: args.data_dir.clone(),
        samples: Some(Selection::of(samples.iter().copied())),
        ..DataArgs::default()
    };
    let mut series = SeriesArgs::default();
    match (model.task(), name.parse(), split.parse()) {
        (Task::Forecasts, _, _) => series = series_args(args, results, split),
        (_, Ok(set), Ok(part)) => (data.data, data.split) = (Some(set), Some(part)),
        _ if args.inputs.is_none() => return Err(missing("they are inputs of somebody's own (--inputs)")),
        _ => {
            let (inputs, labels, label_column) =
                (args.inputs.clone(), args.labels.clone(), args.label_column.clone());
            data.own = InputArgs { inputs, labels, label_column, ..InputArgs::default() };
        }
    }
    let region = RegionArgs::default();
    let source = Source::open(model, &data, &series, &region)?;
    let subject = source.subject(model, &data, &series, &region)?;
    let key = (name.to_owned(), split.to_owned());
    if let Some(what) = difference(results, &samples, &*subject) {
        return Err(missing(&format!("the data that were found are others: {what}")));
    }
    let picture =
        |index: &usize| input(model.network(), key.clone(), *index, subject.question(*index, 0.0).sample);
    Ok(samples.iter().filter_map(picture).collect())
}

/// How the data that were found differ from those that results are about, as far as lines tell.
fn difference(results: &Verdicts, samples: &BTreeSet<usize>, subject: &dyn Subject) -> Option<String> {
    let found = serde_json::to_value(subject.setting()).unwrap_or_default();
    let differs = |key: &&&str| {
        found.get(**key).unwrap_or(&Value::Null) != results.setting.get(**key).unwrap_or(&Value::Null)
    };
    if let Some(key) = ["data_hash", "order", "inputs_hash"].iter().find(differs) {
        return Some(format!("their '{key}' is not the same"));
    }
    results.lines.iter().filter(|line| samples.contains(&line.index)).find_map(|line| {
        let (key, found) = subject.key(line.index);
        let said = match key {
            "label" => json!(line.label),
            "record" => json!(line.record),
            _ => return None,
        };
        (said != found).then(|| format!("sample {} has {key} {found}", line.index))
    })
}

/// The flags that choose the same series.
fn series_args(args: &ReportArgs, results: &Verdicts, split: &str) -> SeriesArgs {
    let horizon = results.setting.get("horizon").and_then(Value::as_f64);
    SeriesArgs {
        series: args.series.clone(),
        part: PartArg::from_str(split, true).ok(),
        horizon: horizon.and_then(|hours| hours.to_string().parse().ok()),
        sorted: results.text("order").is_some_and(|order| order.starts_with("sorted")),
        grid: results.text("grid").and_then(|grid| GridArg::from_str(grid, true).ok()),
    }
}

fn input(network: &Network, source: (String, String), index: usize, sample: Sample) -> Option<Input> {
    match sample {
        Sample::Values { values, .. } => {
            let shape = network.input();
            let (height, width) = (shape.height, shape.width);
            let channels = match shape.channels {
                1 => Some(Channels::Grey),
                3 => Some(Channels::Colour),
                _ => None,
            };
            match channels.filter(|_| height * width > 1) {
                Some(channels) => Some(Input::Image { source, index, height, width, channels, values }),
                None => {
                    let names = (1..=values.len()).map(|i| format!("input {i}")).collect();
                    Some(Input::Features { source, index, names, values })
                }
            }
        }
        Sample::Series { observations, .. } => {
            let Purpose::Forecasting { features, .. } = &network.description.task else { return None };
            let seen = observations.values.iter().zip(&observations.mask);
            let values = seen.map(|(value, seen)| seen.then_some(*value)).collect();
            Some(Input::Series {
                source,
                index,
                features: features.clone(),
                times: observations.times,
                values,
            })
        }
    }
}
