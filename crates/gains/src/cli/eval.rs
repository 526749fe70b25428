//! The flags of `gains eval`.

use clap::Args;

use super::{AttackSettings, BoundArgs, OutputArgs, TargetArgs, WorkArgs};

/// `gains eval`
#[derive(Args)]
pub struct EvalArgs {
    #[command(flatten)]
    pub target: TargetArgs,
    #[command(flatten)]
    pub bounds: BoundArgs,
    #[command(flatten)]
    pub attack: AttackSettings,
    #[command(flatten)]
    pub work: WorkArgs,
    #[command(flatten)]
    pub output: OutputArgs,
}
