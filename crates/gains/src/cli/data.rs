//! The commands of `gains data`.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use gains_data::Dataset;
use gains_data::series::Order;

use super::values::data_set;

/// `gains data`
#[derive(Subcommand)]
pub enum DataCommand {
    /// Download a data set, check it, unpack it; continues where it broke off
    Fetch {
        /// mnist, fashion-mnist or cifar10
        #[arg(value_parser = data_set)]
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
    /// Explain the formats of inputs of your own: arrays, tables, pictures, lines of JSON
    Formats,
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
