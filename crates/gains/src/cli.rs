//! The command line, defined once; the help texts are generated from here.

mod apart;
mod attack;
mod bench;
mod bounds;
mod certify;
mod challenge;
mod data;
mod eval;
mod forecast;
mod inputs;
mod model;
mod predict;
mod property;
mod radius;
mod region;
mod report;
mod series;
mod study;
mod target;
mod train;
mod trajectory;
mod values;

use clap::{Args, Parser, Subcommand};

pub use apart::apart;
pub use attack::{AttackArgs, AttackSettings};
pub use bench::{BenchArgs, BenchStudy, GrowthArgs};
pub use bounds::{ArithmeticArg, BoundArgs, LossArg, MethodArg, PrecisionArg, StepFormArg};
pub use certify::{CertificateArgs, CertifyArgs};
pub use challenge::ChallengeArgs;
pub use data::{DataCommand, OrderArgs, PrepareCommand};
pub use eval::EvalArgs;
pub use forecast::ForecastArgs;
pub use inputs::{InputArgs, LayoutArg};
pub use model::{AdaptArgs, ImportArgs, ModelCommand};
pub use predict::PredictArgs;
pub use property::PropertyArgs;
pub use radius::{BisectArg, RadiusArgs};
pub use region::{FeatureEps, RangeArg, RegionArgs};
pub use report::ReportArgs;
pub use series::{GridArg, PartArg, SeriesArgs};
pub use study::StudyArgs;
pub use target::{DataArgs, Format, OutputArgs, TargetArgs, WorkArgs};
pub use train::{DeviceArg, TrainArgs};
pub use trajectory::TrajectoryArgs;

/// Certified training and robustness verification of neural ODEs.
///
/// A network is *verified* on an image if no change of its pixels by at most eps can change the answer;
/// the claim covers the adaptive ODE solver and all rounding. `gains certify` alone tries it on a bundled
/// Fashion-MNIST network.
#[derive(Parser)]
#[command(name = "gains", version, propagate_version = true, arg_required_else_help = true)]
#[command(
    after_help = "Exit codes: 0 done, 1 failed, 2 wrong usage, 130 interrupted (finished results are kept)."
)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
    /// Flags every command has.
    #[command(flatten)]
    pub global: Global,
}

/// Flags every command has.
#[derive(Args)]
pub struct Global {
    /// No progress bars and no chatter, only results and errors
    #[arg(long, short, global = true)]
    pub quiet: bool,
}

/// The commands.
#[derive(Subcommand)]
pub enum Command {
    /// Prove that images cannot be misclassified, or series predicted much worse, within eps
    ///
    /// Without any flag: the bundled Fashion-MNIST network on 100 bundled images. What the model is for decides
    /// which flags make sense.
    #[command(after_help = certify::EXAMPLES)]
    Certify(CertifyArgs),
    /// Standard, adversarial and certified accuracy in one table
    ///
    /// Tries the cheapest method first, attacks before the expensive one (--method), and counts. For forecasting
    /// models: mean absolute error, adversarial and certified ν-δ-robustness.
    Eval(EvalArgs),
    /// The largest certified and the smallest attacked radius of each sample, by bisection
    #[command(after_help = radius::EXAMPLES, mut_arg("timeout", |arg| arg.help(radius::TIMEOUT)))]
    Radius(RadiusArgs),
    /// Look for misclassified images, or badly predicted series, within eps by projected gradient descent
    Attack(AttackArgs),
    /// Try to break the verdicts of a result file: every verified sample must keep its answer and its margin
    ///
    /// Points are drawn uniformly, at corners of the region and downhill from both; each is run by the
    /// concrete solver.
    Challenge(ChallengeArgs),
    /// Train a neural ODE: plainly, against attacks, or so that it can be certified
    #[command(after_help = train::EXAMPLES)]
    Train(TrainArgs),
    /// Run a network on images or series
    Predict(PredictArgs),
    /// Predict one record, with a certified band and the worst that an attack finds
    #[command(after_help = forecast::EXAMPLES)]
    Forecast(ForecastArgs),
    /// Show the solver's trajectory and all trajectories an input region can cause
    Trajectory(TrajectoryArgs),
    /// Make one offline page of result files: what was proved, and why not
    #[command(after_help = report::EXAMPLES)]
    Report(ReportArgs),
    /// Look into, list, import and adapt model files
    #[command(subcommand)]
    Model(ModelCommand),
    /// Fetch, prepare and list data sets
    #[command(subcommand)]
    Data(DataCommand),
    /// Run one of the paper's experiments, or one of our own: tables, numbers and pictures
    #[command(after_help = study::EXAMPLES)]
    Study(StudyArgs),
    /// Measure the verifier's speed on this machine
    #[command(args_conflicts_with_subcommands = true)]
    Bench(BenchArgs),
    /// Print a completion script for a shell
    ///
    /// For bash: gains completions bash > ~/.local/share/bash-completion/completions/gains
    Completions(CompletionArgs),
}

/// `gains completions`
#[derive(Args)]
pub struct CompletionArgs {
    /// The shell
    #[arg(value_enum)]
    pub shell: clap_complete::Shell,
}
