//! What the commands share for forecasting models: the series, the region, the campaign over many records.

pub mod attack;
pub mod campaign;
pub mod decide;
pub mod line;
pub mod predict;
pub mod region;
pub mod source;

use gains_core::Network;

use crate::failure::Failure;

/// Refuses a flag that only models for images have.
pub fn refuse_image_flag(flag: Option<&str>, network: &Network) -> Result<(), Failure> {
    refuse(flag, "is for models that classify images", "forecasts series", network)
}

/// Refuses a flag that only forecasting models have.
pub fn refuse_series_flag(flag: Option<&str>, network: &Network) -> Result<(), Failure> {
    refuse(flag, "is for forecasting models", "classifies images", network)
}

fn refuse(flag: Option<&str>, what: &str, task: &str, network: &Network) -> Result<(), Failure> {
    match flag {
        None => Ok(()),
        Some(flag) => Err(Failure::usage(format!("{flag} {what}, '{}' {task}", network.description.name))
            .hint(format!(
                "leave {flag} out, or choose another --model; `gains model show` tells what one is for"
            ))),
    }
}
