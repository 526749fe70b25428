//! The flags of `gains attack`, and those of attacks wherever there is one.

use std::path::PathBuf;

use clap::Args;

use super::values::positive;
use super::{LossArg, PrecisionArg, TargetArgs};

/// Settings of PGD.
#[derive(Args, Clone)]
#[command(next_help_heading = "Attack")]
pub struct AttackSettings {
    /// Gradient steps per start
    #[arg(long, value_name = "N", default_value_t = 200)]
    pub steps: usize,
    /// Size of one gradient step
    #[arg(long, value_name = "SIZE", value_parser = positive, allow_negative_numbers = true, default_value = "0.0025")]
    pub step_size: f64,
    /// Random starts
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub restarts: u32,
    /// What to climb, on images [default: cross-entropy]
    #[arg(long, value_enum)]
    pub loss: Option<LossArg>,
    /// Seed of the random starts
    #[arg(long, default_value_t = 0)]
    pub seed: u64,
}

/// `gains attack`
#[derive(Args)]
pub struct AttackArgs {
    #[command(flatten)]
    pub target: TargetArgs,
    #[command(flatten)]
    pub attack: AttackSettings,
    /// Format the network is run in
    #[arg(long, value_enum, default_value_t = PrecisionArg::Float64, help_heading = "Attack")]
    pub precision: PrecisionArg,
    /// Worker threads [default: all cores]
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=1024), help_heading = "Limits")]
    pub threads: Option<u16>,
    /// Write one JSON line per sample and eps, witnesses included, to this file (- for standard output)
    #[arg(long, value_name = "FILE", help_heading = "Results")]
    pub out: Option<PathBuf>,
}
