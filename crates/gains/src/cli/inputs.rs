//! Flags for inputs of one's own.

use std::path::PathBuf;

use clap::{ArgGroup, Args, ValueEnum};

use super::values::positive;

/// Which inputs, instead of a data set that is known by its name.
#[derive(Args, Clone, Default)]
#[command(next_help_heading = "Inputs of your own", group(ArgGroup::new("own").args(["inputs", "boxes"]).multiple(true)))]
pub struct InputArgs {
    /// Inputs: .npy, .npz, .csv, IDX, a folder with a folder of PNG pictures per class, or - for lines of JSON on
    /// standard input; `gains data formats` explains them
    #[arg(long, value_name = "FILE", conflicts_with_all = ["data", "split"])]
    pub inputs: Option<PathBuf>,
    /// Their classes, one for each: .npy, .npz, .csv, IDX, or lines of JSON with a y [default: what the inputs say
    /// themselves]
    #[arg(long, value_name = "FILE", requires = "own")]
    pub labels: Option<PathBuf>,
    /// The column of a .csv that holds the classes
    #[arg(long, value_name = "NAME", requires = "inputs", conflicts_with = "labels")]
    pub label_column: Option<String>,
    /// How pictures lie in arrays: by channel, or by pixel [default: as the axes fit the model, flat rows by channel]
    #[arg(long, value_enum)]
    pub layout: Option<LayoutArg>,
    /// Divide all values by this [default: 255 for PNG pictures; for bytes what training divided them by, or 255 if the
    /// model was made for one of the known data sets; else 1]
    #[arg(long, value_name = "NUMBER", value_parser = positive, allow_negative_numbers = true)]
    pub scale: Option<f64>,
    /// Boxes instead of --eps: smallest and largest values of all inputs, in arrays like those of --inputs; the nominal
    /// points are those of --inputs, else the middles
    #[arg(id = "boxes", long = "box", value_name = "LOWER,UPPER", value_delimiter = ',', num_args = 1, conflicts_with_all = ["data", "split"])]
    pub boxes: Vec<PathBuf>,
}

impl InputArgs {
    /// The first of these flags that was given.
    pub fn given(&self) -> Option<&'static str> {
        let flags = [
            ("--inputs", self.inputs.is_some()),
            ("--box", !self.boxes.is_empty()),
            ("--layout", self.layout.is_some()),
            ("--scale", self.scale.is_some()),
        ];
        flags.into_iter().find(|(_, given)| *given).map(|(flag, _)| flag)
    }

    /// Whether inputs are given, and no data set is meant.
    pub fn is_given(&self) -> bool {
        self.inputs.is_some() || !self.boxes.is_empty()
    }
}

/// `--layout`
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LayoutArg {
    /// Channel by channel: samples × channels × height × width
    Nchw,
    /// Pixel by pixel: samples × height × width × channels
    Nhwc,
}
