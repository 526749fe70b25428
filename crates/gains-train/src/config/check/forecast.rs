//! Settings about series that make no sense.

use super::{check_solver, ensure, within};
use crate::config::{Config, Control, Problem, Training};
use crate::series::ForecastConfig;

impl Config {
    pub(super) fn check_forecast(&self, forecast: &ForecastConfig) -> Result<(), Problem> {
        ensure(
            self.method != Training::Adversarial,
            "method",
            "series are not attacked in training",
            "take \"standard\" or \"provable\"",
        )?;
        ensure(
            self.solver.control == Control::Controlled,
            "solver.control",
            "series are solved with controlled steps",
            "leave it out",
        )?;
        let hint = "the paper has 6, 12 and 24 hours";
        within("horizon".into(), forecast.horizon, f64::MIN_POSITIVE, 1e9, hint)?;
        let sizes = &forecast.network;
        for (key, value) in [
            ("network.state", sizes.state),
            ("network.dynamics", sizes.dynamics),
            ("network.gates", sizes.gates),
            ("network.transform", sizes.transform),
            ("network.latent", sizes.latent),
            ("network.decoder", sizes.decoder),
        ] {
            let message = format!("is {value}, must be 1 to 4096");
            ensure((1..=4096).contains(&value), key, message, "leave it out for the paper's value")?;
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
        let loss = &forecast.loss;
        within("loss.anneal".into(), loss.anneal, 0.0, 1.0, "the paper's is 0.99")?;
        for (key, weight) in [("loss.elbo", loss.elbo), ("loss.error", loss.error)] {
            within(key.into(), weight, 0.0, 1e9, "0 switches it off")?;
        }
        for (index, entry) in forecast.ratio.iter().enumerate() {
            within(format!("ratio[{index}].value"), entry.value, 0.0, 1.0, "1 is the end of a series")?;
        }
        ensure(
            forecast.ratio.is_sorted_by(|a, b| a.from < b.from),
            "ratio",
            "the epochs do not ascend",
            "sort the entries by `from`",
        )
    }
}
