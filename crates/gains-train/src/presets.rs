//! The settings of the paper's experiments, those that did best beyond it, and one to try things out.

use crate::config::{Config, ConfigError};
use crate::device::StepForm;

/// A configuration that comes with the program.
#[derive(Clone, Copy, Debug)]
pub struct Preset {
    /// Its name.
    pub name: &'static str,
    /// What it is for, in a line.
    pub summary: &'static str,
    source: &'static str,
    variation: Variation,
}

/// How a preset differs from its file.
#[derive(Clone, Copy, Debug)]
enum Variation {
    /// Not at all.
    Plain,
    /// Solver steps of boxes are taken in difference form.
    Difference,
    /// Hours to predict ahead, and the perturbation.
    Ahead(f64, f64),
}

use Variation::{Ahead, Difference, Plain};

impl Preset {
    /// The configuration file, with its comments. Some presets share one.
    pub fn source(&self) -> &'static str {
        self.source
    }

    /// The configuration.
    pub fn config(&self) -> Result<Config, ConfigError> {
        let mut config = Config::from_toml(self.source)?;
        config.name = self.name.into();
        for phase in &mut config.phases {
            match (self.variation, &mut phase.eps) {
                (Difference, _) => phase.step_form = StepForm::Difference,
                (Ahead(_, target), Some(eps)) => eps.target = target,
                _ => {}
            }
        }
        if let (Ahead(horizon, _), Some(forecast)) = (self.variation, &mut config.forecast) {
            forecast.horizon = horizon;
        }
        Ok(config)
    }
}

/// The preset of that name.
pub fn find(name: &str) -> Option<&'static Preset> {
    PRESETS.iter().find(|preset| preset.name == name)
}

macro_rules! presets {
    ($($name:literal, $file:literal, $variation:expr, $summary:literal;)*) => {
        /// All presets.
        pub const PRESETS: &[Preset] = &[$(Preset {
            name: $name,
            summary: $summary,
            source: include_str!(concat!("presets/", $file, ".toml")),
            variation: $variation,
        }),*];
    };
}

presets! {
    "quick", "quick", Plain, "a small Fashion-MNIST network that can be certified, in minutes on a CPU";
    "mnist-standard", "mnist-standard", Plain, "Table 1: MNIST, standard training";
    "mnist-adversarial", "mnist-adversarial", Plain, "Table 1: MNIST, adversarial training against eps 0.11";
    "mnist-provable-0.11", "mnist-provable-0.11", Plain, "Table 1: MNIST, provable training against eps 0.11";
    "mnist-provable-0.11-difference", "mnist-provable-0.11", Difference, "the same with steps in difference form";
    "mnist-provable-0.22", "mnist-provable-0.22", Plain, "Table 1: MNIST, provable training against eps 0.22";
    "mnist-provable-0.22-difference", "mnist-provable-0.22", Difference, "the same with steps in difference form";
    "mnist-provable-0.11-best", "mnist-provable-0.11-best", Plain, "MNIST at eps 0.1, beyond the paper";
    "mnist-provable-0.22-best", "mnist-provable-0.22-best", Plain, "MNIST at eps 0.2, beyond the paper";
    "mnist-tisode", "mnist-tisode", Plain, "MNIST, dynamics without time drawn to a steady state";
    "fashion-mnist-standard", "fashion-mnist-standard", Plain, "Table 1: Fashion-MNIST, standard training";
    "fashion-mnist-adversarial", "fashion-mnist-adversarial", Plain,
        "Table 1: Fashion-MNIST, adversarial training against eps 0.11";
    "fashion-mnist-provable-0.11", "fashion-mnist-provable-0.11", Plain,
        "Table 1: Fashion-MNIST, provable training against eps 0.11";
    "fashion-mnist-provable-0.11-difference", "fashion-mnist-provable-0.11", Difference,
        "the same with steps in difference form";
    "fashion-mnist-provable-0.16", "fashion-mnist-provable-0.16", Plain,
        "Table 1: Fashion-MNIST, provable training against eps 0.16";
    "fashion-mnist-provable-0.16-difference", "fashion-mnist-provable-0.16", Difference,
        "the same with steps in difference form";
    "fashion-mnist-provable-0.11-best", "fashion-mnist-provable-0.11-best", Plain,
        "Fashion-MNIST at eps 0.1, beyond the paper";
    "fashion-mnist-provable-0.16-best", "fashion-mnist-provable-0.16-best", Plain,
        "Fashion-MNIST at eps 0.15, beyond the paper";
    "cifar10-provable-0.001", "cifar10-provable-0.001", Plain,
        "CIFAR-10, provable training against eps 0.001";
    "physionet-6h-standard", "physionet-standard", Ahead(6.0, 0.0), "Table 2: 6 hours ahead, standard training";
    "physionet-6h-provable-0.1", "physionet-provable", Ahead(6.0, 0.1),
        "Table 2: 6 hours ahead, provable training against eps 0.1";
    "physionet-6h-provable-0.2", "physionet-provable", Ahead(6.0, 0.2),
        "Table 2: 6 hours ahead, provable training against eps 0.2";
    "physionet-12h-standard", "physionet-standard", Ahead(12.0, 0.0), "Table 2: 12 hours ahead, standard training";
    "physionet-12h-provable-0.1", "physionet-provable", Ahead(12.0, 0.1),
        "Table 2: 12 hours ahead, provable training against eps 0.1";
    "physionet-12h-provable-0.2", "physionet-provable", Ahead(12.0, 0.2),
        "Table 2: 12 hours ahead, provable training against eps 0.2";
    "physionet-24h-standard", "physionet-standard", Ahead(24.0, 0.0), "Table 2: 24 hours ahead, standard training";
    "physionet-24h-provable-0.1", "physionet-provable", Ahead(24.0, 0.1),
        "Table 2: 24 hours ahead, provable training against eps 0.1";
    "physionet-24h-provable-0.2", "physionet-provable", Ahead(24.0, 0.2),
        "Table 2: 24 hours ahead, provable training against eps 0.2";
    "physionet-6h-provable-0.4", "physionet-provable", Ahead(6.0, 0.4), "6 hours ahead at eps 0.2, beyond the paper";
    "physionet-12h-provable-0.3", "physionet-provable", Ahead(12.0, 0.3),
        "12 hours ahead at eps 0.2, beyond the paper";
    "physionet-24h-provable-0.3", "physionet-provable", Ahead(24.0, 0.3),
        "24 hours ahead at eps 0.2, beyond the paper";
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Plan;
    use crate::series::{Names, Network};

    fn classes() -> Vec<String> {
        (0..10).map(|class| class.to_string()).collect()
    }

    #[test]
    fn every_preset_is_a_network_that_can_be_trained() {
        for preset in PRESETS {
            let config = preset.config().unwrap_or_else(|e| panic!("{}: {e}", preset.name));
            let again = Config::from_toml(&config.to_toml()).unwrap();
            assert_eq!(again, config, "{}", preset.name);
            if let Some(forecast) = &config.forecast {
                assert!(preset.name.contains(&format!("-{}h-", forecast.horizon)));
                let target =
                    config.target().map_or_else(|| "standard".into(), |eps| format!("provable-{eps}"));
                assert!(preset.name.ends_with(&target), "{}", preset.name);
                let names = |count: usize| (0..count).map(|i| i.to_string()).collect::<Vec<_>>();
                let names = Names { features: names(35), statics: names(6) };
                Network::new(&forecast.description(&config, &names, 0.1)).unwrap();
                continue;
            }
            let plan = Plan::new(&config.description(0.1, &classes())).unwrap();
            let papers = preset.name.contains("mnist") && !preset.name.ends_with("-best");
            if papers {
                let time = if config.network.dynamics.time { 576 } else { 0 };
                assert_eq!(plan.parameters, 45_290 + time, "{}", preset.name);
            }
        }
    }

    #[test]
    fn a_provable_preset_says_what_the_paper_says() {
        let config = find("fashion-mnist-provable-0.16").unwrap().config().unwrap();
        assert_eq!((config.dataset.as_str(), config.batch, config.epochs()), ("fashion-mnist", 512, 150));
        assert_eq!(config.network.mean, [0.286]);
        let [warm, main] = &config.phases[..] else { panic!("{config:?}") };
        let eps = |phase: &crate::config::Phase, epoch| phase.eps.unwrap().at(epoch);
        assert_eq!((eps(warm, 9), eps(warm, 39)), (0.0, 1.0 / 255.0));
        assert_eq!(eps(main, 59), 0.16);
        assert_eq!(main.kappa.len(), 4);
        assert_eq!(main.loss.robust, 0.66);
        let difference = find("fashion-mnist-provable-0.16-difference").unwrap().config().unwrap();
        assert!(difference.phases.iter().all(|phase| phase.step_form == StepForm::Difference));
    }

    #[test]
    fn the_forecasts_presets_say_what_the_paper_says() {
        let config = find("physionet-12h-provable-0.2").unwrap().config().unwrap();
        let eps = config.phases[0].eps.unwrap();
        assert_eq!((eps.at(4), eps.at(64), eps.at(119)), (0.0, 0.2, 0.2));
        assert!(eps.at(63) < 0.2);
        assert_eq!((config.epochs(), config.selection.unwrap().from), (120, 65));
        let (forecast, decay) = (config.forecast.unwrap(), config.optimiser.decay);
        let ratios = [0, 9, 10, 14, 15, 20, 25, 54, 55, 119].map(|epoch| forecast.ratio(epoch));
        assert_eq!(ratios, [0.1, 0.1, 0.15, 0.15, 0.2, 0.3, 0.4, 0.9, 1.0, 1.0]);
        assert_eq!((decay, forecast.loss.divergence(10), forecast.loss.divergence(3)), (1.0, 0.0, 0.0));
        assert!((forecast.loss.divergence(12) - (1.0 - 0.99 * 0.99)).abs() < 1e-15);
    }
}
