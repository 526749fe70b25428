//! `gains data`.

use std::ops::ControlFlow;
use std::path::Path;

use gains_data::series::Kind;
use gains_data::{Dataset, FetchEvent, Fetched, Images, Split};

use crate::cli::{DataCommand, Global};
use crate::failure::Outcome;
pub use crate::files::locate;
use crate::output::{note, print, say};
use crate::table::layout;
use crate::{interrupt, progress};

/// What `gains data formats` says.
const FORMATS: &str = include_str!("data/formats.txt");

/// Runs the command.
pub fn run(command: &DataCommand, global: &Global) -> Outcome {
    match command {
        DataCommand::Fetch { name, data_dir, mirror } => {
            fetch(*name, data_dir.as_deref(), mirror.as_deref(), global)
        }
        DataCommand::Prepare(command) => super::prepare::run(command, global),
        DataCommand::Formats => print(FORMATS),
        DataCommand::List { data_dir } => interrupt::at_once(|| list(data_dir.as_deref())),
    }
}

fn fetch(name: Dataset, data_dir: Option<&Path>, mirror: Option<&str>, global: &Global) -> Outcome {
    let dir = locate(data_dir)?;
    let bar = progress::bar(0, global.quiet, progress::BYTES);
    let outcome = gains_data::fetch(name, &dir, mirror, &mut |event| {
        match event {
            FetchEvent::Progress { name, received, total } => {
                bar.set_prefix(name.to_string());
                bar.set_length(total);
                bar.set_position(received);
            }
            FetchEvent::Kept { name } if !global.quiet => bar.suspend(|| note!("{name} is there already")),
            FetchEvent::Retrying { name, reason } if !global.quiet => {
                bar.suspend(|| note!("{name}: {reason}; trying again"));
            }
            FetchEvent::Unpacking { name } if !global.quiet => bar.suspend(|| note!("unpacking {name}")),
            _ => {}
        }
        if interrupt::requested() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    bar.finish_and_clear();
    match outcome? {
        Fetched::Complete { downloaded, kept } => {
            say!("{name} is in {}: {downloaded} downloaded, {kept} kept", dir.display())
        }
        Fetched::Stopped => {
            note!("interrupted; fetch again to go on where it stopped");
            Ok(())
        }
    }
}

fn list(data_dir: Option<&Path>) -> Outcome {
    let dir = locate(data_dir)?;
    say!("{}", dir.display())?;
    let rows: Vec<Vec<String>> = Dataset::ALL
        .iter()
        .map(|&dataset| {
            let state = |split| match Images::load(dataset, split, &dir) {
                Ok(images) => images.len().to_string(),
                Err(gains_data::DataError::Missing { .. }) => "missing".into(),
                Err(_) => "damaged".into(),
            };
            vec![dataset.to_string(), state(Split::Train), state(Split::Test)]
        })
        .collect();
    print(&layout(&["data set", "train", "test"], &rows))?;
    say!("\n{}: {}", Kind::PhysioNet2012, super::prepare::physionet_state(&dir))
}
