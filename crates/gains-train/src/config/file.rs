//! Configurations as TOML files.

use gains_core::description::LayerSpec;
use serde::de::DeserializeOwned;

use super::{Config, ConfigError, Problem, SolverConfig};
use crate::series::file::ForecastFile;

impl Config {
    /// Reads and checks a configuration.
    pub fn from_toml(text: &str) -> Result<Self, ConfigError> {
        let config = Self::parse(text)?;
        config.problem().map_or(Ok(config), |problem| Err(problem.into()))
    }

    /// Reads a configuration of which something may still be missing.
    pub fn parse(text: &str) -> Result<Self, ConfigError> {
        let given: toml::Table = read(text)?;
        if ForecastFile::is_meant_by(&given) {
            return Ok(read::<ForecastFile>(text)?.into());
        }
        let mut config: Self = read(text)?;
        config.adopt_solver();
        if config.is_described()
            && let Some(key) = ["network", "solver"].into_iter().find(|key| given.contains_key(*key))
        {
            return Err(Problem {
                key: key.into(),
                message: "has no meaning beside layers or model, which say all of it".into(),
                hint: "leave it out; solvers stand in the ode layers".into(),
            }
            .into());
        }
        Ok(config)
    }

    /// The keys of its file.
    pub fn to_table(&self) -> Result<toml::Table, toml::ser::Error> {
        match ForecastFile::of(self) {
            Some(file) => toml::Table::try_from(file),
            None => toml::Table::try_from(self),
        }
    }

    /// A configuration of which something may still be missing or wrong, from the keys of its file.
    pub fn from_table(table: toml::Table) -> Result<Self, toml::de::Error> {
        match ForecastFile::is_meant_by(&table) {
            true => table.try_into::<ForecastFile>().map(Self::from),
            false => table.try_into(),
        }
    }

    /// The whole configuration, with every value that was left out and has a meaning.
    pub fn to_toml(&self) -> String {
        // Every type here has a TOML form, so none of this can fail.
        if let Some(file) = ForecastFile::of(self) {
            return toml::to_string(&file).unwrap_or_default();
        }
        if !self.is_described() && self.data.is_none() {
            return toml::to_string(self).unwrap_or_default();
        }
        let mut table = self.to_table().unwrap_or_default();
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

    /// How the file spells a key of a phase.
    pub fn phase_key(&self, index: usize, key: &str) -> String {
        match &self.forecast {
            Some(_) => key.into(),
            None => format!("phases[{index}].{key}"),
        }
    }
}

fn read<T: DeserializeOwned>(text: &str) -> Result<T, ConfigError> {
    toml::from_str(text).map_err(|e| ConfigError::Syntax(e.to_string().trim_end().to_string()))
}
