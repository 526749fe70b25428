//! Values of a configuration that make no sense.

use super::config::{ForecastConfig, ForecastMethod};
use crate::config::Problem;
use crate::config::check::{check_optimiser, check_solver, ensure, within};

impl ForecastConfig {
    /// What is wrong with the values, if anything.
    pub fn problem(&self) -> Option<Problem> {
        self.check().err()
    }

    fn check(&self) -> Result<(), Problem> {
        let count = |key: &str, value: usize, most: usize| {
            let message = format!("is {value}, must be 1 to {most}");
            ensure((1..=most).contains(&value), key, message, "leave it out for the paper's value")
        };
        count("batch", self.batch, 1 << 16)?;
        count("epochs", self.epochs as usize, 1_000_000)?;
        count("records", self.records.unwrap_or(1), usize::MAX)?;
        within("horizon".into(), self.horizon, f64::MIN_POSITIVE, 1e9, "the paper has 6, 12 and 24 hours")?;
        let sizes = &self.network;
        for (key, value) in [
            ("network.state", sizes.state),
            ("network.dynamics", sizes.dynamics),
            ("network.gates", sizes.gates),
            ("network.transform", sizes.transform),
            ("network.latent", sizes.latent),
            ("network.decoder", sizes.decoder),
        ] {
            count(key, value, 4096)?;
        }
        for (key, value) in
            [("network.dynamics_depth", sizes.dynamics_depth), ("network.decoder_depth", sizes.decoder_depth)]
        {
            ensure(value <= 64, key, format!("is {value}, must be at most 64"), "the paper has 3")?;
        }
        check_solver(&self.solver)?;
        let end = self.solver.end_time;
        ensure(
            end == 1.0,
            "solver.end_time",
            format!("is {end}, must be 1"),
            "each series is solved to its own time",
        )?;
        check_optimiser(&self.optimiser)?;
        ensure(
            self.optimiser.average == 0.0,
            "optimiser.average",
            "weights of forecasting networks are not averaged",
            "set it to 0; selection keeps the best network",
        )?;
        self.check_perturbation()?;
        let loss = &self.loss;
        within("loss.robust".into(), loss.robust, 0.0, 1.0, "the rest to 1 is the weight of the plain loss")?;
        within("loss.anneal".into(), loss.anneal, 0.0, 1.0, "the paper's is 0.99")?;
        for (key, weight) in
            [("loss.elbo", loss.elbo), ("loss.error", loss.error), ("loss.width", loss.width)]
        {
            within(key.into(), weight, 0.0, 1e9, "0 switches it off")?;
        }
        Ok(())
    }

    fn check_perturbation(&self) -> Result<(), Problem> {
        let provable = self.method == ForecastMethod::Provable;
        ensure(
            provable == self.eps.is_some(),
            "eps",
            if provable {
                "is missing: this method trains against perturbations"
            } else {
                "standard training has no perturbation"
            },
            "add e.g. eps = { target = 0.1, start = 5, length = 60 } with method = \"provable\", or leave it out with \"standard\"",
        )?;
        if let Some(eps) = &self.eps {
            within("eps.target".into(), eps.target, f64::MIN_POSITIVE, 1e3, "in units of deviations")?;
            within("eps.beta".into(), eps.beta, 1.0, 100.0, "the paper uses 4")?;
            within("eps.middle".into(), eps.middle, 0.0, 1.0, "the paper uses 0.6")?;
        }
        for (key, value) in [("q.start", self.q.start), ("q.end", self.q.end)] {
            within(key.into(), value, 0.0, 0.5, "q is spent twice and cannot exceed a half")?;
        }
        ensure(self.q.first <= self.q.last, "q", "first comes after last", "exchange them")?;
        for (index, entry) in self.ratio.iter().enumerate() {
            within(format!("ratio[{index}].value"), entry.value, 0.0, 1.0, "1 is the end of a series")?;
        }
        ensure(
            self.ratio.is_sorted_by(|a, b| a.from < b.from),
            "ratio",
            "the epochs do not ascend",
            "sort the entries by `from`",
        )
    }
}
