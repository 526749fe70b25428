//! Forecasts of irregularly sampled series by latent ODEs: how far the prediction can move when the observations do.
//!
//! ```text
//! statics ─▶ state ─▶ [Euler step, gated update with xᵢ] … ─▶ latent ─▶ decoder's trajectory graph ─▶ features
//! ```
//!
//! [`region`] says which series are considered, [`encode`] pushes boxes through the encoder, [`pull`] pulls rows of
//! linear bounds from the latent state back to all observations at once, [`enclosure`] joins both with the
//! decoder's graph, and [`verifier`] decides ν-δ-robustness ([`property`]).

pub mod attack;
pub mod enclosure;
pub mod encode;
pub mod product;
pub mod property;
pub mod pull;
pub mod region;
pub mod stack;
pub mod verifier;

pub use attack::{SeriesAttack, SeriesAttackOutcome};
pub use enclosure::{Enclosure, SeriesMethod, Target};
pub use encode::MixForm;
pub use property::{ForecastProperty, Tolerance};
pub use region::{Allowance, Perturbation, SeriesRegion};
pub use verifier::{ForecastReport, ForecastSettings, ForecastVerdict, ForecastVerifier};
