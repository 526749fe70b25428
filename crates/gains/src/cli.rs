//! The command line, defined once; the help texts are generated from here.

mod bounds;
mod series;
mod train;

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use gains_data::series::Order;
use gains_data::{Dataset, Split};

use crate::samples::Selection;

pub use bounds::{ArithmeticArg, BoundArgs, LossArg, MethodArg, PrecisionArg, StepFormArg};
pub use series::{ForecastArgs, GridArg, RegionArgs, SeriesArgs};
pub use train::{DeviceArg, TrainArgs};

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
    #[command(after_help = CERTIFY_EXAMPLES)]
    Certify(CertifyArgs),
    /// Standard, adversarial and certified accuracy in one table
    ///
    /// Tries the cheapest method first, attacks before the expensive one (--method), and counts. For forecasting
    /// models: mean absolute error, adversarial and certified ν-δ-robustness.
    Eval(EvalArgs),
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
    #[command(after_help = FORECAST_EXAMPLES)]
    Forecast(ForecastArgs),
    /// Show the solver's trajectory and all trajectories an input region can cause
    Trajectory(TrajectoryArgs),
    /// Look into, list and import model files
    #[command(subcommand)]
    Model(ModelCommand),
    /// Fetch, prepare and list data sets
    #[command(subcommand)]
    Data(DataCommand),
    /// Measure the verifier's speed on this machine
    #[command(args_conflicts_with_subcommands = true)]
    Bench(BenchArgs),
    /// Print a completion script for a shell
    ///
    /// For bash: gains completions bash > ~/.local/share/bash-completion/completions/gains
    Completions(CompletionArgs),
}

const CERTIFY_EXAMPLES: &str = "\
Examples:
  gains certify
  gains certify --eps 0.05,0.1 --samples 0..20 --method box
  gains certify --model net.safetensors --data mnist --samples 0..1000 --eps 0.1,0.15 \\
      --timeout 60 --out results.jsonl
  gains certify ... --out results.jsonl --resume     # after an interruption

Each line of the output file is one sample at one eps: index, label, prediction, eps, verdict
(verified, falsified, unknown, misclassified), reason, margin (smallest certified lower bound of a
logit difference), vertices, edges, seconds, stages (what was tried and for how long, the last one
decided), looseness (where the bound of an unknown loses), method, arithmetic, model, version.

Forecasting models (docs/forecasting.md):
  gains certify --model net.safetensors --records 0..100 --eps 0.05,0.1 --horizon 24h
Here a line is one record at one eps: index, record, eps, verdict (verified, falsified, unknown), reason,
mae, limit ((1 + nu) mae + delta), certified_mae (the error is proved to stay at or below this),
attacked_mae (an attack reached this), vertices, edges, seconds, stages, method, arithmetic, question,
model, version.";

const FORECAST_EXAMPLES: &str = "\
Examples:
  gains forecast --model net.safetensors --record 132539 --eps 0.1
  gains forecast --model net.safetensors --record 132539 --features HR,MAP --svg forecast.svg --plot HR,MAP,Temp

The band is certified: no series within eps is predicted outside of it. Values are in the units of the data.";

/// Which images.
#[derive(Args, Clone)]
pub struct DataArgs {
    /// Data set; by default the one the model was made for
    #[arg(long, value_name = "NAME")]
    pub data: Option<Dataset>,
    /// Folder with the data sets [default: $GAINS_DATA, else the user's data folder]
    #[arg(long, value_name = "DIR")]
    pub data_dir: Option<PathBuf>,
    /// Which part of the data set [default: test]
    #[arg(long)]
    pub split: Option<Split>,
    /// Images or records to take, e.g. 0..1000 or 3,7,20..30 (ends not included) [default: 0..100]
    #[arg(long, visible_alias = "records", value_name = "LIST")]
    pub samples: Option<Selection>,
}

impl DataArgs {
    /// The first flag given that only images have.
    pub fn given(&self) -> Option<&'static str> {
        match (self.data, self.split) {
            (Some(_), _) => Some("--data"),
            (None, Some(_)) => Some("--split"),
            (None, None) => None,
        }
    }
}

/// What is verified or attacked: a model, images, radii.
#[derive(Args, Clone)]
pub struct TargetArgs {
    /// Model file, or the name of a bundled network (`gains model list`) [default: fashion-mnist]
    #[arg(long, value_name = "FILE")]
    pub model: Option<PathBuf>,
    #[command(flatten)]
    pub data: DataArgs,
    /// Radii: largest change of a pixel, on the scale 0 to 1; for series, of a value in deviations of its feature
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = size, allow_negative_numbers = true, default_value = "0.1")]
    pub eps: Vec<f64>,
    #[command(flatten)]
    pub series: SeriesArgs,
    #[command(flatten)]
    pub region: RegionArgs,
}

impl TargetArgs {
    /// The first flag given that only series have.
    pub fn given_for_series(&self) -> Option<&'static str> {
        self.series.given().or_else(|| self.region.given())
    }
}

/// How much work.
#[derive(Args, Clone)]
pub struct WorkArgs {
    /// Worker threads [default: all cores]
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub threads: Option<u16>,
    /// Seconds per sample and eps; beyond them the verdict is unknown
    #[arg(long, value_name = "SECONDS", value_parser = positive, allow_negative_numbers = true, default_value = "60")]
    pub timeout: f64,
    /// Most solver states a region may reach; beyond them the verdict is unknown
    #[arg(long, value_name = "N", default_value_t = 20_000)]
    pub max_vertices: usize,
    /// Megabytes one sample may use; beyond them the verdict is unknown
    #[arg(long, value_name = "MB", default_value_t = 4096)]
    pub max_memory: usize,
}

/// Where results go.
#[derive(Args, Clone)]
pub struct OutputArgs {
    /// Write one line per sample and eps to this file as they are done (- for standard output)
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// Format of the output file
    #[arg(long, value_enum, default_value_t = Format::Jsonl)]
    pub format: Format,
    /// Go on with an output file: keep its results, do only what is missing
    #[arg(long, requires = "out")]
    pub resume: bool,
}

/// Format of result files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// One JSON object per line
    Jsonl,
    /// Comma-separated values with a header
    Csv,
}

/// `gains certify`
#[derive(Args)]
pub struct CertifyArgs {
    #[command(flatten)]
    pub target: TargetArgs,
    #[command(flatten)]
    pub bounds: BoundArgs,
    /// Gradient steps of the attack on samples that are not verified at once; 0 for none (`auto` still has its
    /// short one)
    #[arg(long, value_name = "N", default_value_t = 100)]
    pub attack_steps: usize,
    #[command(flatten)]
    pub work: WorkArgs,
    #[command(flatten)]
    pub output: OutputArgs,
}

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

/// Settings of PGD.
#[derive(Args, Clone)]
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
    #[arg(long, value_enum, default_value_t = PrecisionArg::Float64)]
    pub precision: PrecisionArg,
    /// Worker threads [default: all cores]
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub threads: Option<u16>,
    /// Write one JSON line per sample and eps, witnesses included, to this file (- for standard output)
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
}

/// `gains challenge`
#[derive(Args)]
pub struct ChallengeArgs {
    /// Results of `gains certify --out` (JSON lines)
    #[arg(value_name = "RESULTS")]
    pub results: PathBuf,
    /// Model file, or the name of a bundled network (`gains model list`) [default: fashion-mnist]
    #[arg(long, value_name = "FILE")]
    pub model: Option<PathBuf>,
    #[command(flatten)]
    pub data: DataArgs,
    /// Points per verified sample
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..))]
    pub points: u32,
    /// Worker threads [default: all cores]
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub threads: Option<u16>,
}

/// `gains predict`
#[derive(Args)]
pub struct PredictArgs {
    /// Model file, or the name of a bundled network (`gains model list`) [default: fashion-mnist]
    #[arg(long, value_name = "FILE")]
    pub model: Option<PathBuf>,
    #[command(flatten)]
    pub data: DataArgs,
    /// Format the network is run in
    #[arg(long, value_enum, default_value_t = PrecisionArg::Float64)]
    pub precision: PrecisionArg,
    /// Print one JSON line per sample instead of a table
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub series: SeriesArgs,
}

/// `gains trajectory`
#[derive(Args)]
pub struct TrajectoryArgs {
    /// Model file, or the name of a bundled network (`gains model list`) [default: fashion-mnist]
    #[arg(long, value_name = "FILE")]
    pub model: Option<PathBuf>,
    #[command(flatten)]
    pub data: DataArgs,
    /// The sample
    #[arg(long, value_name = "INDEX", default_value_t = 0, conflicts_with = "samples")]
    pub sample: usize,
    /// Radius of the region
    #[arg(long, value_parser = radius, allow_negative_numbers = true, default_value = "0.1")]
    pub eps: f64,
    #[command(flatten)]
    pub bounds: BoundArgs,
    /// Write the trajectory and the graph as JSON
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Draw them as an SVG picture
    #[arg(long, value_name = "FILE")]
    pub svg: Option<PathBuf>,
    /// Most solver states to explore
    #[arg(long, value_name = "N", default_value_t = 20_000)]
    pub max_vertices: usize,
}

/// `gains model`
#[derive(Subcommand)]
pub enum ModelCommand {
    /// Layers, shapes, parameters, solver and training record of a model
    Show {
        /// Model file, or the name of a bundled network (`gains model list`) [default: fashion-mnist]
        #[arg(value_name = "FILE")]
        file: Option<PathBuf>,
    },
    /// The bundled networks
    List,
    /// Turn the weights of a published GAINS checkpoint into a model file
    Import {
        /// Weights
        #[arg(value_name = "WEIGHTS")]
        weights: PathBuf,
        /// JSON file with h0 and the normalisation constants
        #[arg(long, value_name = "FILE")]
        sidecar: PathBuf,
        /// Model file to write
        #[arg(long, value_name = "MODEL")]
        out: PathBuf,
    },
}

/// `gains data`
#[derive(Subcommand)]
pub enum DataCommand {
    /// Download a data set, check it, unpack it; continues where it broke off
    Fetch {
        /// mnist, fashion-mnist or cifar10
        name: Dataset,
        /// Folder with the data sets [default: $GAINS_DATA, else the user's data folder]
        #[arg(long, value_name = "DIR")]
        data_dir: Option<PathBuf>,
        /// Download from here instead of the official place
        #[arg(long, value_name = "URL")]
        mirror: Option<String>,
    },
    /// Put irregularly sampled series into one file that loads quickly
    ///
    /// The file holds what was measured; which part is trained on, how far ahead is predicted and how values
    /// are scaled is decided when it is used.
    #[command(subcommand)]
    Prepare(PrepareCommand),
    /// Which data sets are there
    List {
        /// Folder with the data sets [default: $GAINS_DATA, else the user's data folder]
        #[arg(long, value_name = "DIR")]
        data_dir: Option<PathBuf>,
    },
}

/// `gains data prepare`
#[derive(Subcommand)]
pub enum PrepareCommand {
    /// The intensive care records of the PhysioNet 2012 challenge, sets a and b
    ///
    /// Reads physionet2012/set-a and physionet2012/set-b below the data folder.
    #[command(name = "physionet2012")]
    Physionet2012 {
        /// Folder with the data sets [default: $GAINS_DATA, else the user's data folder]
        #[arg(long, value_name = "DIR")]
        data_dir: Option<PathBuf>,
        /// Write this file [default: physionet2012.series beside set-a and set-b]
        #[arg(long, value_name = "FILE")]
        out: Option<PathBuf>,
        #[command(flatten)]
        order: OrderArgs,
    },
    /// A table record,time,feature,value with one line per value
    ///
    /// Lines without a time hold throughout their record. docs/data-formats.md has an example.
    Csv {
        /// The table
        #[arg(value_name = "TABLE")]
        table: PathBuf,
        /// Write this file
        #[arg(long, value_name = "FILE")]
        out: PathBuf,
        #[command(flatten)]
        order: OrderArgs,
    },
}

/// How records are divided into those trained on, validated on and tested on.
#[derive(Args)]
pub struct OrderArgs {
    /// Seed of the shuffle before records are divided: the last are tested on, those before them validated on
    #[arg(long, value_name = "N", allow_negative_numbers = true, default_value_t = 0)]
    pub split_seed: u64,
    /// Do not shuffle; divide in the order of the records' names
    #[arg(long, conflicts_with = "split_seed")]
    pub sorted: bool,
}

impl OrderArgs {
    /// The order asked for.
    pub fn order(&self) -> Order {
        if self.sorted { Order::Sorted } else { Order::Shuffled(self.split_seed) }
    }
}

/// `gains bench`
#[derive(Args)]
pub struct BenchArgs {
    /// A study instead of the plain measurement
    #[command(subcommand)]
    pub study: Option<BenchStudy>,
    /// Model file, or the name of a bundled network (`gains model list`) [default: fashion-mnist]
    #[arg(long, value_name = "FILE")]
    pub model: Option<PathBuf>,
    #[command(flatten)]
    pub data: DataArgs,
    /// Radii
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = radius, allow_negative_numbers = true, default_value = "0.1,0.15")]
    pub eps: Vec<f64>,
    /// How solver steps are bounded: stages on their own, or each as the one before plus a difference
    #[arg(long, value_enum, default_value_t = StepFormArg::Independent)]
    pub step_form: StepFormArg,
    /// Rounds; the median counts
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub rounds: u32,
}

/// Studies of `gains bench`.
#[derive(Subcommand)]
pub enum BenchStudy {
    /// Time against eps, the ODE's end time and the size of its state, for `gains` and `tight`
    ///
    /// One thing grows at a time: eps; the end time of the same network; the state, each of whose channels is
    /// repeated without changing what the network computes. Only samples the network classifies correctly
    /// are measured, on one thread. Ctrl-C shows what has been measured so far.
    #[command(after_help = GROWTH_EXAMPLES, mut_arg("samples", |arg| arg.help(GROWTH_SAMPLES)))]
    Growth(GrowthArgs),
}

const GROWTH_SAMPLES: &str = "Images to take, e.g. 0..20 or 3,7,20..30 (ends not included) [default: 0..10]";
const GROWTH_EXAMPLES: &str = "\
Examples:
  gains bench growth
  gains bench growth --svg growth.svg        # and the measured numbers in growth.csv
  gains bench growth --model net.safetensors --samples 0..20 --timeout 30 --end-times 1,2,3";

/// `gains bench growth`
#[derive(Args)]
pub struct GrowthArgs {
    /// Model file, or the name of a bundled network (`gains model list`) [default: fashion-mnist]
    #[arg(long, value_name = "FILE")]
    pub model: Option<PathBuf>,
    #[command(flatten)]
    pub data: DataArgs,
    /// Radii of the first axis
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = radius, allow_negative_numbers = true, default_value = "0.01,0.02,0.05,0.1,0.15,0.2")]
    pub eps: Vec<f64>,
    /// End times of the second axis
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = positive, allow_negative_numbers = true, default_value = "1,2,4")]
    pub end_times: Vec<f64>,
    /// Third axis: how often each channel of the state is there
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = clap::value_parser!(u8).range(1..=64), default_value = "1,2,4")]
    pub copies: Vec<u8>,
    /// Radius while something else grows
    #[arg(long, value_name = "EPS", value_parser = radius, allow_negative_numbers = true, default_value = "0.1")]
    pub base_eps: f64,
    /// Rounds; the median counts
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub rounds: u32,
    /// Seconds per sample; beyond them it counts as unfinished
    #[arg(long, value_name = "SECONDS", value_parser = positive, allow_negative_numbers = true, default_value = "60")]
    pub timeout: f64,
    /// Draw the study here, and write the measured numbers beside it as FILE.csv
    #[arg(long, value_name = "FILE.svg")]
    pub svg: Option<PathBuf>,
}

/// `gains completions`
#[derive(Args)]
pub struct CompletionArgs {
    /// The shell
    #[arg(value_enum)]
    pub shell: clap_complete::Shell,
}

/// A number from 0 on, of a size that makes sense.
fn size(text: &str) -> Result<f64, String> {
    match text.trim().parse::<f64>() {
        Ok(value) if (0.0..=1e9).contains(&value) => Ok(value),
        Ok(value) => Err(format!("{value} is not between 0 and 1e9")),
        Err(_) => Err(format!("'{text}' is not a number")),
    }
}

fn radius(text: &str) -> Result<f64, String> {
    match text.trim().parse::<f64>() {
        Ok(value) if (0.0..=1.0).contains(&value) => Ok(value),
        Ok(value) => Err(format!("{value} is not between 0 and 1, the range of a pixel")),
        Err(_) => Err(format!("'{text}' is not a number")),
    }
}

fn positive(text: &str) -> Result<f64, String> {
    match text.trim().parse::<f64>() {
        Ok(value) if value > 0.0 && value <= 1e9 => Ok(value),
        Ok(value) => Err(format!("{value} is not between 0 and 1e9")),
        Err(_) => Err(format!("'{text}' is not a number")),
    }
}
