//! `gains data prepare`: raw records into one file.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use gains_data::series::{
    Counts, Forecasts, Horizon, Kind, Order, Recordings, Role, SeriesError, Skipped, Subset, physionet_file,
    read_physionet, read_table,
};

use crate::cli::{Global, OrderArgs, PrepareCommand};
use crate::failure::{Failure, Outcome};
use crate::files::{locate, write_atomically};
use crate::output::{note, plain, print, say};
use crate::table::layout;
use crate::{interrupt, progress};

/// More malformed records than this are counted, not named.
const MOST_NAMED: usize = 20;

/// Runs the command.
pub fn run(command: &PrepareCommand, global: &Global) -> Outcome {
    match command {
        PrepareCommand::Physionet2012 { data_dir, out, order } => {
            let dir = locate(data_dir.as_deref())?;
            let out = out.clone().unwrap_or_else(|| physionet_file(&dir));
            let bar = progress::bar(0, global.quiet, progress::ITEMS);
            bar.set_prefix("reading");
            let read = read_physionet(&dir, &|done, total| {
                bar.set_length(total as u64);
                // The threads' calls come in no fixed order.
                bar.set_position(bar.position().max(done as u64));
                if interrupt::requested() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            });
            bar.finish_and_clear();
            match read {
                Err(SeriesError::Stopped) => {
                    note!("interrupted; nothing was written");
                    Ok(())
                }
                read => finish(read?, &out, order, global),
            }
        }
        PrepareCommand::Csv { table, out, order } => {
            finish(interrupt::at_once(|| read_table(table))?, out, order, global)
        }
    }
}

fn finish(
    (recordings, skipped): (Recordings, Vec<Skipped>),
    out: &Path,
    order: &OrderArgs,
    global: &Global,
) -> Outcome {
    let recordings = recordings.with_order(order.order());
    if !global.quiet {
        for Skipped { name, reason } in skipped.iter().take(MOST_NAMED) {
            note!("skipped {}: {reason}", plain(name));
        }
        if skipped.len() > MOST_NAMED {
            note!("and {} more", skipped.len() - MOST_NAMED);
        }
    }
    let bytes = recordings.to_bytes();
    write_atomically(out, &bytes).map_err(|failure| match failure.code {
        crate::failure::USAGE => failure,
        _ => failure
            .hint("check that the folder exists, is writable and has space left, or give another --out"),
    })?;
    let megabytes = bytes.len() as f64 / 1e6;
    say!("{} is in {} ({megabytes:.1} MB)", recordings.kind(), plain(&out.to_string_lossy()))?;
    say!("made from files with MD5 {}\n", recordings.source_digest())?;
    print(&summary(&recordings, &skipped))?;
    if recordings.kind() != Kind::PhysioNet2012 {
        return Ok(());
    }
    let parts = interrupt::at_once(|| parts(&recordings, order.order()));
    say!("\n{}\n\nthe parts are of records {}", parts.trim_end(), order.order())
}

fn summary(recordings: &Recordings, skipped: &[Skipped]) -> String {
    let Counts { found, ignored_lines, unordered, .. } = recordings.counts();
    let mut rules: BTreeMap<&str, usize> = BTreeMap::new();
    for skipped in skipped {
        *rules.entry(skipped.reason.rule()).or_default() += 1;
    }
    let seen = recordings.seen();
    let features = recordings.features().len();
    let initial = recordings.features().iter().filter(|feature| feature.role != Role::Series).count();
    let mut rows = vec![("records found", found), ("records skipped", skipped.len())];
    let rules: Vec<(String, usize)> = rules.iter().map(|(rule, &n)| (format!("  {rule}"), n)).collect();
    rows.extend(rules.iter().map(|(rule, count)| (rule.as_str(), *count)));
    rows.extend([
        ("records kept", recordings.records().len()),
        ("  put in order", unordered),
        ("  lines ignored", ignored_lines),
        ("points in time", recordings.points()),
        ("observations", recordings.observations()),
        ("features of the series", features - initial),
        ("features of the initial state", initial),
        ("features never seen", seen.iter().filter(|&&count| count == 0).count()),
    ]);
    let rows: Vec<Vec<String>> =
        rows.into_iter().map(|(what, count)| vec![what.to_owned(), count.to_string()]).collect();
    layout(&["what", "number"], &rows)
}

/// How many records each mode of the paper leaves.
fn parts(recordings: &Recordings, order: Order) -> String {
    let row = |horizon: Horizon| {
        let mut row = vec![format!("{horizon}h")];
        match Forecasts::new(recordings, horizon, order) {
            Ok(forecasts) => {
                let dropped = forecasts.dropped();
                row.extend(Subset::ALL.map(|part| forecasts.len(part).to_string()));
                row.extend([dropped.too_short.to_string(), dropped.no_target.to_string()]);
            }
            Err(_) => row.extend(["–".to_owned(), "–".into(), "–".into(), "too few".into(), "–".into()]),
        }
        row
    };
    let header = ["predicting ahead", "train", "validation", "test", "too short", "no target"];
    layout(&header, &Horizon::PAPER.map(row))
}

/// What there is of PhysioNet 2012, for the list of data sets.
pub fn physionet_state(data_dir: &Path) -> String {
    let file: PathBuf = physionet_file(data_dir);
    let raw =
        file.parent().is_some_and(|folder| ["set-a", "set-b"].iter().any(|set| folder.join(set).is_dir()));
    match Recordings::read(&file) {
        Ok(recordings) => format!("{} records, prepared", recordings.records().len()),
        Err(SeriesError::Prepared { .. }) => "damaged; run `gains data prepare physionet2012`".into(),
        Err(_) if raw => "raw; run `gains data prepare physionet2012`".into(),
        Err(_) => "missing".into(),
    }
}

impl From<SeriesError> for Failure {
    fn from(error: SeriesError) -> Self {
        Failure::new(error.to_string()).hint(error.hint())
    }
}
