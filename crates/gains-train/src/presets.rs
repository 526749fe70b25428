//! The settings of the paper's experiments, those that did best beyond it, and one to try things out.

use crate::config::{Config, ConfigError, Method};
use crate::device::StepForm;

/// A configuration that comes with the program.
#[derive(Clone, Copy, Debug)]
pub struct Preset {
    /// Its name.
    pub name: &'static str,
    /// What it is for, in a line.
    pub summary: &'static str,
    source: &'static str,
    difference: bool,
}

impl Preset {
    /// The configuration file, with its comments. The `…-difference` presets share the file of the preset they
    /// vary.
    pub fn source(&self) -> &'static str {
        self.source
    }

    /// The configuration.
    pub fn config(&self) -> Result<Config, ConfigError> {
        let mut config = Config::from_toml(self.source)?;
        config.name = self.name.into();
        if self.difference {
            for phase in &mut config.phases {
                phase.step_form = StepForm::Difference;
            }
        }
        Ok(config)
    }

    /// How it trains.
    pub fn method(&self) -> Result<Method, ConfigError> {
        Ok(self.config()?.method)
    }
}

/// The preset of that name.
pub fn find(name: &str) -> Option<&'static Preset> {
    PRESETS.iter().find(|preset| preset.name == name)
}

macro_rules! presets {
    ($($name:literal, $file:literal, $difference:literal, $summary:literal;)*) => {
        /// All presets.
        pub const PRESETS: &[Preset] = &[$(Preset {
            name: $name,
            summary: $summary,
            source: include_str!(concat!("presets/", $file, ".toml")),
            difference: $difference,
        }),*];
    };
}

presets! {
    "quick", "quick", false, "a small Fashion-MNIST network that can be certified, in minutes on a CPU";
    "mnist-standard", "mnist-standard", false, "Table 1: MNIST, standard training";
    "mnist-adversarial", "mnist-adversarial", false, "Table 1: MNIST, adversarial training against eps 0.11";
    "mnist-provable-0.11", "mnist-provable-0.11", false, "Table 1: MNIST, provable training against eps 0.11";
    "mnist-provable-0.11-difference", "mnist-provable-0.11", true, "the same with steps in difference form";
    "mnist-provable-0.22", "mnist-provable-0.22", false, "Table 1: MNIST, provable training against eps 0.22";
    "mnist-provable-0.22-difference", "mnist-provable-0.22", true, "the same with steps in difference form";
    "mnist-provable-0.11-best", "mnist-provable-0.11-best", false, "MNIST at eps 0.1, beyond the paper";
    "mnist-provable-0.22-best", "mnist-provable-0.22-best", false, "MNIST at eps 0.2, beyond the paper";
    "mnist-tisode", "mnist-tisode", false, "MNIST, dynamics without time drawn to a steady state";
    "fashion-mnist-standard", "fashion-mnist-standard", false, "Table 1: Fashion-MNIST, standard training";
    "fashion-mnist-adversarial", "fashion-mnist-adversarial", false,
        "Table 1: Fashion-MNIST, adversarial training against eps 0.11";
    "fashion-mnist-provable-0.11", "fashion-mnist-provable-0.11", false,
        "Table 1: Fashion-MNIST, provable training against eps 0.11";
    "fashion-mnist-provable-0.11-difference", "fashion-mnist-provable-0.11", true,
        "the same with steps in difference form";
    "fashion-mnist-provable-0.16", "fashion-mnist-provable-0.16", false,
        "Table 1: Fashion-MNIST, provable training against eps 0.16";
    "fashion-mnist-provable-0.16-difference", "fashion-mnist-provable-0.16", true,
        "the same with steps in difference form";
    "fashion-mnist-provable-0.11-best", "fashion-mnist-provable-0.11-best", false,
        "Fashion-MNIST at eps 0.1, beyond the paper";
    "fashion-mnist-provable-0.16-best", "fashion-mnist-provable-0.16-best", false,
        "Fashion-MNIST at eps 0.15, beyond the paper";
    "cifar10-provable-0.001", "cifar10-provable-0.001", false,
        "CIFAR-10, provable training against eps 0.001";
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Plan;

    fn classes() -> Vec<String> {
        (0..10).map(|class| class.to_string()).collect()
    }

    #[test]
    fn every_preset_is_a_network_that_can_be_trained() {
        for preset in PRESETS {
            let config = preset.config().unwrap_or_else(|e| panic!("{}: {e}", preset.name));
            let again = Config::from_toml(&config.to_toml()).unwrap();
            assert_eq!(again, config, "{}", preset.name);
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
}
