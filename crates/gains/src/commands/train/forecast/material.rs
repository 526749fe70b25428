//! The series a run learns from and is judged by.

use std::path::{Path, PathBuf};

use gains_core::Description;
use gains_data::series::{Forecasts, Horizon, Recordings, Role, Series, Subset, physionet_file};
use gains_ode::Observations;
use gains_train::Config;
use gains_train::series::{ForecastConfig, Names, Network, PHYSIONET, Sample, network};

use super::super::explain;
use crate::commands::data::locate;
use crate::failure::Failure;
use crate::interrupt;

/// Training and validation series as the trainer takes them.
pub struct Material {
    /// What is trained, without weights, and its layers.
    pub network: (Description, Network),
    /// Names of features and statics.
    pub names: Names,
    /// Series to learn from.
    pub training: Vec<Sample>,
    /// Series to choose the best epoch by.
    pub validation: Vec<Sample>,
    /// How many series are held back for the test.
    pub test: usize,
    /// What the network's record tells of the data: how they were divided and normalised.
    pub record: serde_json::Value,
}

fn file(config: &Config, data_dir: Option<&Path>) -> Result<PathBuf, Failure> {
    Ok(match config.dataset.as_str() {
        PHYSIONET => physionet_file(&locate(data_dir)?),
        path => path.into(),
    })
}

impl Material {
    /// What a configuration asks for.
    pub fn load(
        config: &Config,
        forecast: &ForecastConfig,
        data_dir: Option<&Path>,
    ) -> Result<Self, Failure> {
        let file = file(config, data_dir)?;
        let recordings = interrupt::at_once(|| Recordings::read(&file))?;
        let horizon = Horizon::new(forecast.horizon).ok_or_else(|| {
            Failure::new(format!("horizon: {} is no time ahead", forecast.horizon))
                .hint("the paper has 6, 12 and 24")
        })?;
        let forecasts = Forecasts::new(&recordings, horizon, recordings.order())?;
        let features = recordings.features();
        let statics = features.iter().filter(|feature| feature.role != Role::Series);
        let names = Names {
            features: forecasts.series_features().iter().map(|index| features[*index].name.clone()).collect(),
            statics: statics.map(|feature| feature.name.clone()).collect(),
        };
        let network = network(config, &names).map_err(|e| explain(&e, None))?;
        let sample = |series: Series| {
            let Series { id, initial, times, values, mask, target_time, target, target_mask, .. } = series;
            let observations = Observations { statics: initial, times, values, mask, target_time };
            Sample::new(&network.1, &observations, &target, &target_mask).map_err(|problem| {
                Failure::new(format!("record {id}: {problem}"))
                    .hint("prepare the data again with `gains data prepare`")
            })
        };
        let most = config.images.unwrap_or(usize::MAX);
        let training = forecasts.iter(Subset::Train).take(most).map(sample).collect::<Result<_, _>>()?;
        let validation = forecasts.iter(Subset::Validation).map(sample).collect::<Result<_, _>>()?;
        let statistics = forecasts.statistics();
        let record = serde_json::json!({
            "source": recordings.source_digest(),
            "order": recordings.order().to_string(),
            "horizon": forecast.horizon,
            "features": features.iter().map(|feature| &feature.name).collect::<Vec<_>>(),
            "mean": statistics.mean(),
            "deviation": statistics.deviation(),
            "span": statistics.span(),
        });
        let test = forecasts.len(Subset::Test);
        Ok(Self { network, names, training, validation, test, record })
    }
}
