//! Configurations as TOML files.

use gains_core::description::LayerSpec;

use super::{Config, ConfigError, Problem, SolverConfig};

impl Config {
    /// Reads and checks a configuration.
    pub fn from_toml(text: &str) -> Result<Self, ConfigError> {
        let config = Self::parse(text)?;
        config.problem().map_or(Ok(config), |problem| Err(problem.into()))
    }

    /// Reads a configuration of which something may still be missing.
    pub fn parse(text: &str) -> Result<Self, ConfigError> {
        let syntax = |e: toml::de::Error| ConfigError::Syntax(e.to_string().trim_end().to_string());
        let mut config: Self = toml::from_str(text).map_err(syntax)?;
        config.adopt_solver();
        if config.is_described() {
            let given: toml::Table = toml::from_str(text).map_err(syntax)?;
            if let Some(key) = ["network", "solver"].into_iter().find(|key| given.contains_key(*key)) {
                return Err(Problem {
                    key: key.into(),
                    message: "has no meaning beside layers or model, which say all of it".into(),
                    hint: "leave it out; solvers stand in the ode layers".into(),
                }
                .into());
            }
        }
        Ok(config)
    }

    /// The whole configuration, with every value that was left out and has a meaning.
    pub fn to_toml(&self) -> String {
        let mut table = toml::Table::try_from(self).unwrap_or_default();
        if !self.is_described() && self.data.is_none() {
            // Every type here has a TOML form, so this cannot fail.
            return toml::to_string(self).unwrap_or_default();
        }
        if self.is_described() {
            table.remove("network");
            table.remove("solver");
        }
        if self.own_inputs().is_some() {
            table.remove("dataset");
            table.remove("validation");
        }
        toml::to_string(&table).unwrap_or_default()
    }

    /// Takes over the solver of the only ODE among the layers, for devices that know one.
    pub fn adopt_solver(&mut self) {
        let mut solvers = self.layers.iter().flatten().filter_map(|layer| match layer {
            LayerSpec::Ode { solver, .. } => Some(solver),
            _ => None,
        });
        if let (Some(solver), None) = (solvers.next().and_then(SolverConfig::of), solvers.next()) {
            self.solver = solver;
        }
    }

    /// Whether the network is described by its layers, or by another network.
    pub fn is_described(&self) -> bool {
        self.layers.is_some() || self.model.is_some()
    }

    /// Where samples of one's own are, if they are.
    pub fn own_inputs(&self) -> Option<&str> {
        self.data.as_ref()?.inputs.as_deref()
    }
}
