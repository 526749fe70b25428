//! The flags of `gains certify`.

use std::path::PathBuf;

use clap::Args;

use super::{BoundArgs, OutputArgs, TargetArgs, WorkArgs};

/// Examples below the help text.
pub const EXAMPLES: &str = "\
Examples:
  gains certify
  gains certify --eps 0.05,0.1 --samples 0..20 --method box
  gains certify --model net.safetensors --data mnist --samples 0..1000 --eps 0.1,0.15 \\
      --timeout 60 --out results.jsonl
  gains certify ... --out results.jsonl --resume     # after an interruption
  gains certify --samples 0..20 --certificates proofs --check

Each line of the output file is one sample at one eps: index, label, prediction, eps, verdict
(verified, falsified, unknown, misclassified), reason, margin (smallest certified lower bound of a
logit difference), vertices, edges, seconds, stages (what was tried and for how long, the last one
decided), looseness (where the bound of an unknown loses), bounds (what was proved of each output),
witness (an input that breaks it), and everything the question depends on: model, data, split, method, limits, version.
docs/results-format.md describes every key.

Forecasting models (docs/forecasting.md):
  gains certify --model net.safetensors --records 0..100 --eps 0.05,0.1 --horizon 24h
Here a line is one record at one eps: index, record, eps, verdict (verified, falsified, unknown), reason,
mae, limit ((1 + nu) mae + delta), certified_mae (the error is proved to stay at or below this),
attacked_mae (an attack reached this), vertices, edges, seconds, stages, witness, question, and so on.";

/// `gains certify`
#[derive(Args)]
pub struct CertifyArgs {
    #[command(flatten)]
    pub target: TargetArgs,
    #[command(flatten)]
    pub bounds: BoundArgs,
    /// Gradient steps of the attack on samples that are not verified at once; 0 for none (`auto` still has its
    /// short one)
    #[arg(long, value_name = "N", default_value_t = 100, help_heading = "Attack")]
    pub attack_steps: usize,
    #[command(flatten)]
    pub work: WorkArgs,
    #[command(flatten)]
    pub output: OutputArgs,
    #[command(flatten)]
    pub certificates: CertificateArgs,
}

/// Where proofs go, and who looks at them.
#[derive(Args)]
#[command(next_help_heading = "Certificates")]
pub struct CertificateArgs {
    /// Write a certificate of every verdict into this folder, which `gains-check` can check; those of the same name there
    /// are replaced
    #[arg(long, value_name = "DIR")]
    pub certificates: Option<PathBuf>,
    /// Have every certificate checked at once
    #[arg(long, requires = "certificates")]
    pub check: bool,
}
