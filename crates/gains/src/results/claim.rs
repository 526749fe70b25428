//! What a result file claims of verified samples, read leniently: files of earlier versions count, too.

use std::path::Path;

use gains_core::Arithmetic;
use serde::Deserialize;

use super::line::{ForecastSetting, InputSetting, Particular, VerdictWord};
use crate::failure::Failure;
use crate::files;
use crate::question::Claimed;

/// Larger result files are refused before they are read.
const LARGEST: u64 = 4 << 30;

/// A line of a result file, as far as it can be challenged.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct Claim {
    /// Number of the sample.
    pub index: usize,
    /// Radius.
    pub eps: f64,
    /// The verdict.
    pub verdict: VerdictWord,
    /// Arithmetic it is about.
    pub arithmetic: Arithmetic,
    /// Content hash of the model.
    pub model: String,
    /// True class of an image.
    pub label: Option<usize>,
    /// Certified margin.
    pub margin: Option<f64>,
    /// Name of a series.
    pub record: Option<String>,
    /// The error that must not be reached.
    pub limit: Option<f64>,
    /// The error that was proved.
    pub certified_mae: Option<f64>,
    /// What `gains radius` certified: the claim is about this radius.
    pub certified_radius: Option<f64>,
    /// What is asked of the outputs, if not the usual.
    pub property: Option<String>,
    /// Data set; earlier versions did not write it.
    pub data: Option<String>,
    /// Which part of it.
    pub split: Option<String>,
    /// What only some collections have; earlier versions wrote of series only words.
    #[serde(flatten)]
    particular: Particular,
}

impl Claim {
    /// The same about the radius that was certified, where one was looked for.
    fn at_its_radius(self) -> Self {
        match self.certified_radius {
            Some(eps) if eps > 0.0 => Self { eps, verdict: VerdictWord::Verified, ..self },
            Some(_) => Self { verdict: VerdictWord::Unknown, ..self },
            None => self,
        }
    }

    /// What is asked about series.
    pub fn forecast(&self) -> Option<&ForecastSetting> {
        if let Particular::Forecast(forecast) = &self.particular { Some(forecast) } else { None }
    }

    /// What is said of inputs that are not asked about as the known sets of images are.
    pub fn inputs(&self) -> Option<&InputSetting> {
        if let Particular::Inputs(inputs) = &self.particular { Some(inputs) } else { None }
    }

    /// What the sample is claimed to keep.
    pub fn claimed(&self) -> Claimed {
        match (self.limit, self.certified_mae) {
            _ if self.property.is_some() => Claimed::Margin(self.margin.unwrap_or(0.0)),
            (Some(limit), Some(certified)) => Claimed::Error { limit, certified },
            _ => Claimed::Margin(self.margin.unwrap_or(0.0)),
        }
    }
}

/// Reads what a file claims to be verified. Claims are challenged as they stand, so their `check` is not asked for.
pub fn read_claims(path: &Path) -> Result<Vec<Claim>, Failure> {
    let text = files::read_text(path, LARGEST, "a result file")?;
    let parse = |(number, line): (usize, &str)| {
        serde_json::from_str::<Claim>(line).map_err(|e| {
            Failure::new(format!("'{}' line {} is not a result: {e}", path.display(), number + 1))
                .hint("give a file written by `gains certify --out`, in the format jsonl")
        })
    };
    let claims: Vec<Claim> = text.lines().enumerate().map(parse).collect::<Result<_, _>>()?;
    let claims: Vec<Claim> = claims.into_iter().map(Claim::at_its_radius).collect();
    let claims: Vec<Claim> = claims.into_iter().filter(|c| c.verdict == VerdictWord::Verified).collect();
    if claims.is_empty() {
        return Err(Failure::new(format!("'{}' holds no verified sample", path.display()))
            .hint("there is nothing to challenge; `gains certify` with a smaller --eps may verify some"));
    }
    if let Some(silent) = claims.iter().find(|c| c.record.is_some() && c.forecast().is_none()) {
        return Err(Failure::new(format!(
            "'{}' was written by an earlier version, which did not write down what may move in record {}",
            path.display(),
            silent.record.as_deref().unwrap_or_default()
        ))
        .hint("certify the records again; results now name everything their question depends on"));
    }
    Ok(claims)
}
