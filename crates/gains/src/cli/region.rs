//! Flags for what may move, and how far.

use std::collections::BTreeMap;
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use gains_verify::Norm;

use super::values::{number, size};

/// What may move, and how much worse predictions may become.
#[derive(Args, Clone, Default)]
#[command(next_help_heading = "What may move")]
pub struct RegionArgs {
    /// Only these features move: names, or numbers of columns [default: what the model file says, else all]
    #[arg(long, value_name = "NAME,NAME")]
    pub features: Vec<String>,
    /// A radius of its own for a feature, 0 to keep it as it is; repeatable. Or a file: .csv with the columns feature and
    /// eps, or .npy with one radius for each
    #[arg(long, value_name = "NAME=VALUE", value_parser = feature_eps)]
    pub feature_eps: Vec<FeatureEps>,
    /// Where values stay: LOW,HIGH, NAME=LOW,HIGH for one feature (repeatable), a .csv with the columns feature, low and
    /// high, or none [default: 0,1 for the known sets of images, none for inputs of your own]
    #[arg(long, value_name = "LOW,HIGH", value_parser = range, allow_hyphen_values = true)]
    pub range: Vec<RangeArg>,
    /// How the size of a change is measured: the largest entry, the Euclidean length, or the sum
    #[arg(long, value_enum)]
    pub norm: Option<NormArg>,
    /// ν: part of its error by which a prediction may become worse [default: 0.1]
    #[arg(long, value_name = "PART", value_parser = size, allow_negative_numbers = true, help_heading = "Forecasting models")]
    pub nu: Option<f64>,
    /// δ: mean absolute error by which it may become worse besides [default: 0.01]
    #[arg(long, value_name = "ERROR", value_parser = size, allow_negative_numbers = true, help_heading = "Forecasting models")]
    pub delta: Option<f64>,
}

impl RegionArgs {
    /// The first flag given that only forecasting models have.
    pub fn of_series(&self) -> Option<&'static str> {
        let flags = [("--nu", self.nu.is_some()), ("--delta", self.delta.is_some())];
        flags.into_iter().find(|(_, given)| *given).map(|(flag, _)| flag)
    }

    /// The first flag given that they have not.
    pub fn of_values(&self) -> Option<&'static str> {
        let flags = [("--range", !self.range.is_empty()), ("--norm", self.norm.is_some())];
        flags.into_iter().find(|(_, given)| *given).map(|(flag, _)| flag)
    }

    /// The first flag given that says what may move.
    pub fn shapes(&self) -> Option<&'static str> {
        let features =
            [("--features", !self.features.is_empty()), ("--feature-eps", !self.feature_eps.is_empty())];
        features.into_iter().find(|(_, given)| *given).map(|(flag, _)| flag).or(self.of_values())
    }

    /// Radii of features, from lists that were written down.
    pub fn fixed(radii: &BTreeMap<String, f64>) -> Vec<FeatureEps> {
        radii.iter().map(|(name, radius)| FeatureEps::One(name.clone(), *radius)).collect()
    }
}

/// `--feature-eps`
#[derive(Clone, Debug, PartialEq)]
pub enum FeatureEps {
    /// The radius of one feature.
    One(String, f64),
    /// Those of many.
    File(PathBuf),
}

/// `--range`
#[derive(Clone, Debug, PartialEq)]
pub enum RangeArg {
    /// Values stay nowhere in particular.
    None,
    /// All values.
    All(f64, f64),
    /// Those of one feature.
    One(String, f64, f64),
    /// Those of many.
    File(PathBuf),
}

/// `--norm`
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum NormArg {
    /// The largest entry
    Inf,
    /// The Euclidean length
    #[value(name = "2")]
    Two,
    /// The sum of all entries
    #[value(name = "1")]
    One,
}

impl From<NormArg> for Norm {
    fn from(norm: NormArg) -> Self {
        match norm {
            NormArg::Inf => Self::Infinity,
            NormArg::Two => Self::Two,
            NormArg::One => Self::One,
        }
    }
}

impl From<Norm> for NormArg {
    fn from(norm: Norm) -> Self {
        match norm {
            Norm::Infinity => Self::Inf,
            Norm::Two => Self::Two,
            Norm::One => Self::One,
        }
    }
}

fn feature_eps(text: &str) -> Result<FeatureEps, String> {
    match text.rsplit_once('=') {
        Some((name, value)) => Ok(FeatureEps::One(name.trim().to_owned(), size(value)?)),
        None if is_file(text) => Ok(FeatureEps::File(text.into())),
        None => Err(format!("'{text}' is neither NAME=VALUE nor a .csv or .npy file")),
    }
}

fn range(text: &str) -> Result<RangeArg, String> {
    if text.trim() == "none" {
        return Ok(RangeArg::None);
    }
    if is_file(text) {
        return Ok(RangeArg::File(text.into()));
    }
    let (name, ends) = match text.rsplit_once('=') {
        Some((name, ends)) => (Some(name.trim().to_owned()), ends),
        None => (None, text),
    };
    let (low, high) =
        ends.split_once(',').ok_or_else(|| format!("'{text}' is not LOW,HIGH, NAME=LOW,HIGH or none"))?;
    let (low, high) = (number(low)?, number(high)?);
    if low > high {
        return Err(format!("{low} is above {high}"));
    }
    Ok(match name {
        Some(name) => RangeArg::One(name, low, high),
        None => RangeArg::All(low, high),
    })
}

fn is_file(text: &str) -> bool {
    let ending = std::path::Path::new(text).extension().and_then(std::ffi::OsStr::to_str);
    ending.is_some_and(|ending| matches!(ending, "csv" | "npy" | "npz"))
}
