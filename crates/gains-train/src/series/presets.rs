//! The paper's experiments on PhysioNet: three horizons, standard and provable training.

use super::config::ForecastConfig;
use crate::config::ConfigError;

/// A configuration that comes with the program.
#[derive(Clone, Copy, Debug)]
pub struct ForecastPreset {
    /// Its name.
    pub name: &'static str,
    /// What it is for, in a line.
    pub summary: &'static str,
    /// Hours to predict ahead.
    pub horizon: f64,
    /// The perturbation trained against; none in standard training.
    pub eps: Option<f64>,
}

impl ForecastPreset {
    /// The configuration file that the presets of one method share, with its comments.
    pub fn source(&self) -> &'static str {
        match self.eps {
            None => include_str!("../presets/physionet-standard.toml"),
            Some(_) => include_str!("../presets/physionet-provable.toml"),
        }
    }

    /// The configuration.
    pub fn config(&self) -> Result<ForecastConfig, ConfigError> {
        let mut config = ForecastConfig::from_toml(self.source())?;
        config.name = self.name.into();
        config.horizon = self.horizon;
        if let (Some(schedule), Some(target)) = (&mut config.eps, self.eps) {
            schedule.target = target;
        }
        Ok(config)
    }
}

/// The preset of that name.
pub fn find(name: &str) -> Option<&'static ForecastPreset> {
    PRESETS.iter().find(|preset| preset.name == name)
}

macro_rules! presets {
    ($($name:literal, $horizon:literal, $eps:expr, $summary:literal;)*) => {
        /// All presets.
        pub const PRESETS: &[ForecastPreset] =
            &[$(ForecastPreset { name: $name, summary: $summary, horizon: $horizon, eps: $eps }),*];
    };
}

presets! {
    "physionet-6h-standard", 6.0, None, "Table 2: 6 hours ahead, standard training";
    "physionet-6h-provable-0.1", 6.0, Some(0.1), "Table 2: 6 hours ahead, provable training against eps 0.1";
    "physionet-6h-provable-0.2", 6.0, Some(0.2), "Table 2: 6 hours ahead, provable training against eps 0.2";
    "physionet-12h-standard", 12.0, None, "Table 2: 12 hours ahead, standard training";
    "physionet-12h-provable-0.1", 12.0, Some(0.1), "Table 2: 12 hours ahead, provable training against eps 0.1";
    "physionet-12h-provable-0.2", 12.0, Some(0.2), "Table 2: 12 hours ahead, provable training against eps 0.2";
    "physionet-24h-standard", 24.0, None, "Table 2: 24 hours ahead, standard training";
    "physionet-24h-provable-0.1", 24.0, Some(0.1), "Table 2: 24 hours ahead, provable training against eps 0.1";
    "physionet-24h-provable-0.2", 24.0, Some(0.2), "Table 2: 24 hours ahead, provable training against eps 0.2";
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::series::{ForecastMethod, Network};

    #[test]
    fn every_preset_is_a_network_that_can_be_trained() {
        for preset in PRESETS {
            let config = preset.config().unwrap_or_else(|e| panic!("{}: {e}", preset.name));
            assert_eq!(ForecastConfig::from_toml(&config.to_toml()).unwrap(), config, "{}", preset.name);
            assert!(preset.name.contains(&format!("-{}h-", config.horizon)));
            assert_eq!(config.method == ForecastMethod::Provable, preset.eps.is_some());
            let names = |count: usize| (0..count).map(|i| i.to_string()).collect::<Vec<_>>();
            Network::new(&config.description(&names(35), &names(6), 0.1)).unwrap();
        }
    }

    #[test]
    fn the_provable_presets_say_what_the_paper_says() {
        let config = find("physionet-12h-provable-0.2").unwrap().config().unwrap();
        let eps = config.eps.unwrap();
        assert_eq!((eps.at(4), eps.at(64), eps.at(119)), (0.0, 0.2, 0.2));
        assert!(eps.at(63) < 0.2);
        let ratios = [0, 9, 10, 14, 15, 20, 25, 54, 55, 119].map(|epoch| config.ratio(epoch));
        assert_eq!(ratios, [0.1, 0.1, 0.15, 0.15, 0.2, 0.3, 0.4, 0.9, 1.0, 1.0]);
        assert_eq!((config.optimiser.decay, config.selection.from, config.epochs), (1.0, 65, 120));
        assert_eq!((config.loss.divergence(10), config.loss.divergence(3)), (0.0, 0.0));
        assert!((config.loss.divergence(12) - (1.0 - 0.99 * 0.99)).abs() < 1e-15);
    }
}
