//! Choosing series: the prepared file, the horizon, the part, and whether a model fits them.

use std::path::{Path, PathBuf};

use gains_core::Network;
use gains_core::description::{Points, Task};
use gains_data::series::{
    Forecasts, Horizon, Kind, Order, Recordings, Role, Series, SeriesError, Statistics, Subset,
    physionet_file,
};
use gains_ode::Observations;

use crate::bundled;
use crate::cli::{GridArg, SeriesArgs};
use crate::failure::Failure;
use crate::files::locate;
use crate::property::Unit;
use crate::selection::{Selection, split_names};

/// The data set whose prepared file is looked for where none is named.
const PHYSIONET: &str = "physionet2012";

/// A prepared file that has been read.
pub struct SeriesSource {
    path: PathBuf,
    recordings: Recordings,
}

/// One record as the data give it and as the network takes it.
pub struct Item {
    /// As the data give it, on the scale of the network.
    pub series: Series,
    /// As the network takes it.
    pub observations: Observations,
}

/// A prepared file set up for a model.
pub struct SeriesSet<'a> {
    /// The forecasting task.
    pub forecasts: Forecasts<'a>,
    /// Names of features and of statics.
    pub names: Names,
    /// Which part.
    pub part: Subset,
    /// How far ahead is predicted at least.
    pub horizon: Horizon,
    /// How records are divided.
    pub order: Order,
    /// Points the encoder walks through.
    pub grid: GridArg,
    recordings: &'a Recordings,
    /// What else the answer depends on.
    remark: String,
}

/// Names of what is observed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Names {
    /// Features of the series.
    pub features: Vec<String>,
    /// What is known of a series as a whole.
    pub statics: Vec<String>,
}

impl Names {
    fn of_model(network: &Network) -> Result<Self, Failure> {
        match &network.description.task {
            Task::Forecasting { features, statics, .. } => {
                Ok(Self { features: features.clone(), statics: statics.clone() })
            }
            Task::Classification { .. } | Task::Regression { .. } => Err(Failure::usage(format!(
                "'{}' takes inputs of fixed size, it does not forecast series",
                network.description.name
            ))
            .hint("choose a forecasting model with --model; `gains model show` tells what one is for")),
        }
    }

    fn of_data(recordings: &Recordings) -> Self {
        let with = |series: bool| {
            let of_role = |f: &&gains_data::series::Feature| (f.role == Role::Series) == series;
            recordings.features().iter().filter(of_role).map(|f| f.name.clone()).collect()
        };
        Self { features: with(true), statics: with(false) }
    }

    /// The positions of features given as `A,B` or one by one; all must be there.
    pub fn features_of(&self, given: &[String]) -> Result<Vec<usize>, Failure> {
        let find = |name: &String| {
            self.features
                .iter()
                .position(|known| known == name)
                .ok_or_else(|| unknown_name(name, "feature", &self.features))
        };
        split_names(given, &|name| self.features.iter().any(|known| known == name)).iter().map(find).collect()
    }
}

/// A name that is none.
pub fn unknown_name(name: &str, what: &str, known: &[String]) -> Failure {
    Failure::usage(format!("there is no {what} '{name}'")).hint(format!("there are {}", known.join(", ")))
}

impl SeriesSource {
    /// Reads the file a command was given, the records bundled with a network, or the prepared PhysioNet records.
    pub fn open(args: &SeriesArgs, data_dir: Option<&Path>, network: &Network) -> Result<Self, Failure> {
        let path = match (&args.series, network.description.dataset.as_deref()) {
            (Some(path), _) => path.clone(),
            (None, dataset) => {
                if let Some(bytes) = bundled::series_of(network) {
                    return Self::bundled(bytes);
                }
                if let Some(other) = dataset.filter(|name| *name != PHYSIONET) {
                    let name = &network.description.name;
                    return Err(Failure::usage(format!(
                        "'{name}' was made for '{other}', no series are given"
                    ))
                    .hint(format!("name the prepared file: --series {other}")));
                }
                physionet_file(&locate(data_dir)?)
            }
        };
        let recordings = crate::interrupt::at_once(|| Recordings::read(&path)).map_err(|error| {
            match (&error, &args.series) {
            (SeriesError::Read { source, .. }, None) if source.kind() == std::io::ErrorKind::NotFound => {
                Failure::new(format!("there is no prepared file '{}'", path.display())).hint(
                    "make one with `gains data prepare physionet2012`, or name another with --series FILE",
                )
            }
            _ => Failure::from(error),
        }
        })?;
        Ok(Self { path, recordings })
    }

    fn bundled(bytes: &[u8]) -> Result<Self, Failure> {
        let recordings = Recordings::from_bytes(bytes)
            .map_err(|(offset, fault)| Failure::new(format!("bundled series: {fault} at byte {offset}")))?;
        Ok(Self { path: "bundled series".into(), recordings })
    }

    /// Sets the records up for a model.
    pub fn set(&self, network: &Network, args: &SeriesArgs) -> Result<SeriesSet<'_>, Failure> {
        let names = Names::of_model(network)?;
        self.check(&names)?;
        let horizon = match args.horizon.or_else(|| horizon_of(network)) {
            Some(horizon) => horizon,
            None => Horizon::PAPER[2],
        };
        let order = if args.sorted { Order::Sorted } else { self.recordings.order() };
        let points = network.description.encoder.as_ref().map(|e| e.points);
        let grid = args.grid.unwrap_or(match points {
            Some(Points::All) => GridArg::Authors,
            _ => GridArg::Own,
        });
        let forecasts = Forecasts::new(&self.recordings, horizon, order)?;
        let part = args.part.map_or(Subset::Test, Into::into);
        let mut remark = self.other_division(network, (horizon, order), part);
        // A network knows the scale it was trained on, whatever records it is shown.
        let forecasts = match self.trained_scale(network)? {
            Some(statistics) if statistics != *forecasts.statistics() => {
                remark += ", normalised as in training";
                forecasts.on_scale_of(statistics)
            }
            _ => forecasts,
        };
        Ok(SeriesSet { forecasts, names, part, recordings: &self.recordings, horizon, order, grid, remark })
    }

    /// Means, deviations and the span of the records that a network was trained with, if it tells.
    fn trained_scale(&self, network: &Network) -> Result<Option<Statistics>, Failure> {
        let data = &network.description.training["data"];
        let numbers =
            |key: &str| -> Option<Vec<f64>> { data[key].as_array()?.iter().map(|x| x.as_f64()).collect() };
        let (Some(features), Some(span)) = (data["features"].as_array(), data["span"].as_f64()) else {
            return Ok(None);
        };
        let of = |all: &[f64]| -> Option<Vec<f64>> {
            let place = |name: &str| features.iter().position(|known| known.as_str() == Some(name));
            self.recordings.features().iter().map(|f| all.get(place(&f.name)?).copied()).collect()
        };
        let statistics = numbers("mean")
            .zip(numbers("deviation"))
            .and_then(|(mean, deviation)| Statistics::new(of(&mean)?, of(&deviation)?, span));
        statistics.map(Some).ok_or_else(|| {
            let file = self.path.display();
            Failure::usage(format!("the model does not say on which scale it takes the features of '{file}'"))
                .hint("its record of training (`gains model show`) needs a mean and a positive deviation of each")
        })
    }

    /// What there is to say of records that were divided otherwise when a network was trained on them.
    fn other_division(&self, network: &Network, (horizon, order): (Horizon, Order), part: Subset) -> String {
        let data = &network.description.training["data"];
        let same_records = data["source"].as_str() == Some(&self.recordings.source_digest());
        let same_division = data["order"].as_str() == Some(&order.to_string())
            && data["horizon"].as_f64() == Some(horizon.ahead());
        match same_records && !same_division && part != Subset::Train {
            true => {
                ", divided otherwise than in training: some of these records may have been trained on".into()
            }
            false => String::new(),
        }
    }

    fn check(&self, model: &Names) -> Result<(), Failure> {
        let data = Names::of_data(&self.recordings);
        let lists =
            [("features", &model.features, &data.features), ("statics", &model.statics, &data.statics)];
        for (what, wanted, found) in lists {
            if wanted.len() != found.len() {
                return Err(self.mismatch(format!("{} {what}", wanted.len()), found.len().to_string()));
            }
            if let Some(i) = (0..found.len()).find(|&i| wanted[i] != found[i]) {
                let (wanted, found) = (&wanted[i], &found[i]);
                return Err(
                    self.mismatch(format!("{what} with '{wanted}' at place {}", i + 1), format!("'{found}'"))
                );
            }
        }
        Ok(())
    }

    fn mismatch(&self, model: String, data: String) -> Failure {
        Failure::usage(format!("the model takes {model}, '{}' has {data}", self.path.display())).hint(
            "choose the data the model was made for with --series; `gains model show` lists its features",
        )
    }
}

/// The horizon a model file names.
fn horizon_of(network: &Network) -> Option<Horizon> {
    match &network.description.task {
        Task::Forecasting { horizon, .. } => horizon.and_then(Horizon::new),
        Task::Classification { .. } | Task::Regression { .. } => None,
    }
}

impl SeriesSet<'_> {
    /// The indices asked for, all of them in the part.
    pub fn indices(&self, asked: Option<&Selection>) -> Result<Vec<usize>, Failure> {
        let there = self.forecasts.len(self.part);
        asked.unwrap_or(&Selection::first(100)).among(there).map_err(|missing| {
            Failure::usage(format!("--samples asks for record {missing}, the {} part has {there}", self.part))
                .hint(format!("use --samples 0..{there}"))
        })
    }

    /// One record.
    pub fn item(&self, part: Subset, index: usize) -> Item {
        let series = self.forecasts.series(part, index);
        let observations = match self.grid {
            GridArg::Own => Observations {
                statics: series.initial.clone(),
                times: series.times.clone(),
                values: series.values.clone(),
                mask: series.mask.clone(),
                target_time: series.target_time,
            },
            GridArg::Authors => {
                let grid = series.authors_grid();
                Observations {
                    statics: series.initial.iter().map(|x| f64::from(*x as f32)).collect(),
                    times: grid.times,
                    values: grid.values,
                    mask: grid.mask,
                    target_time: series.target_time,
                }
            }
        };
        Item { series, observations }
    }

    /// Where the record with this name is.
    pub fn find(&self, id: &str) -> Result<(Subset, usize), Failure> {
        let of_part = |part: Subset| (0..self.forecasts.len(part)).map(move |index| (part, index));
        if let Some(place) = Subset::ALL
            .into_iter()
            .flat_map(of_part)
            .find(|&(part, index)| self.forecasts.id(part, index) == id)
        {
            return Ok(place);
        }
        let records = self.recordings.records();
        if records.iter().any(|record| record.id() == id) {
            return Err(Failure::usage(format!(
                "record '{id}' has nothing to predict {} ahead",
                self.horizon_text()
            ))
            .hint("try a shorter --horizon"));
        }
        let key = |id: &str| (id.len(), id.to_owned());
        let place = records.partition_point(|record| key(record.id()) < key(id));
        let near = records[place.saturating_sub(2)..(place + 2).min(records.len())].iter();
        let near: Vec<&str> = near.map(gains_data::series::Record::id).collect();
        Err(Failure::usage(format!("there is no record '{id}'"))
            .hint(format!("near it are {}; `gains predict --model MODEL` lists records", near.join(", "))))
    }

    /// A value of a feature of the series, in the units of the data.
    pub fn raw(&self, column: usize, value: f64) -> f64 {
        self.forecasts.statistics().to_raw(self.forecasts.series_features()[column], value)
    }

    /// How a feature of the series is written in the units of the data.
    pub fn unit(&self, column: usize) -> Unit {
        let (statistics, feature) = (self.forecasts.statistics(), self.forecasts.series_features()[column]);
        Unit { shift: statistics.mean()[feature], scale: statistics.deviation()[feature] }
    }

    /// A time, in the units of the data.
    pub fn raw_time(&self, time: f64) -> f64 {
        time * self.forecasts.statistics().span()
    }

    /// A hash of the records.
    pub fn digest(&self) -> String {
        let digest = self.recordings.source_digest();
        digest.get(..8).unwrap_or(&digest).to_owned()
    }

    /// Where the records come from.
    pub fn kind(&self) -> Kind {
        self.recordings.kind()
    }

    fn horizon_text(&self) -> String {
        match self.kind() {
            Kind::PhysioNet2012 => format!("{}h", self.horizon),
            Kind::Csv => self.horizon.to_string(),
        }
    }

    /// What is predicted from what, in words that differ whenever the answer might.
    pub fn describe(&self) -> String {
        let grid = match self.grid {
            GridArg::Own => "",
            GridArg::Authors => ", authors' grid",
        };
        format!(
            "{} {} ({} records {}), {} ahead{grid}{}",
            self.kind(),
            self.digest(),
            self.part,
            self.order,
            self.horizon_text(),
            self.remark,
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_split_at_commas_unless_the_whole_is_a_name() {
        let known = |name: &str| name == "pressure, mean";
        let given = ["pressure, mean".to_string(), "a,b".into()];
        assert_eq!(split_names(&given, &known), ["pressure, mean", "a", "b"]);
    }
}
