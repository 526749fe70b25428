//! `gains attack` on forecasting models.

use std::fmt::Write as _;

use gains_core::Network;
use gains_ode::mean_absolute_error;
use gains_verify::series::{SeriesAttack, SeriesAttackOutcome, Target};
use serde_json::json;

use crate::cli::{AttackArgs, AttackSettings, Global};
use crate::commands::certify::distinct;
use crate::failure::{Failure, Outcome};
use crate::forecasting::decide::Question;
use crate::forecasting::refuse_image_flag;
use crate::forecasting::region::Region;
use crate::forecasting::source::{Item, Source};
use crate::output::{print, remark};
use crate::table::{layout, median, percent};
use crate::{files, interrupt, progress, runner};

/// The attack a command was given.
pub fn settings(args: &AttackSettings) -> SeriesAttack {
    SeriesAttack {
        steps: args.steps,
        step_size: args.step_size,
        restarts: args.restarts as usize,
        seed: args.seed,
    }
}

/// Refuses what attacks on series do not have.
pub fn refuse_loss(args: &AttackSettings, network: &Network) -> Result<(), Failure> {
    refuse_image_flag(args.loss.map(|_| "--loss"), network)
}

struct Struck {
    item: Item,
    mae: Option<f64>,
    found: Option<SeriesAttackOutcome>,
    seconds: f64,
}

/// Runs the command: all steps on all records, whether or not the property breaks before.
pub fn run(network: &Network, args: &AttackArgs, global: &Global) -> Outcome {
    distinct(&args.target.eps)?;
    refuse_image_flag(args.target.data.given(), network)?;
    refuse_loss(&args.attack, network)?;
    let source = Source::open(&args.target.series, args.target.data.data_dir.as_deref())?;
    let set = source.set(network, &args.target.series)?;
    let indices = set.indices(args.target.data.samples.as_ref())?;
    let region = Region::new(&args.target.region, &set.names, set.kind())?;
    let tasks: Vec<(usize, f64)> =
        indices.iter().flat_map(|&index| args.target.eps.iter().map(move |&eps| (index, eps))).collect();
    let bar = progress::bar(tasks.len() as u64, global.quiet, progress::ITEMS);
    bar.set_prefix("attack");
    let precision = args.precision.into();
    let work = |&(index, eps): &(usize, f64)| {
        let started = std::time::Instant::now();
        let item = set.item(set.part, index);
        let mae = Target::new(network, item.observations.target_time).ok().and_then(|target| {
            let run = target.forecaster.run(&item.observations, precision).ok()?;
            let (truth, mask) = (&item.series.target, &item.series.target_mask);
            Some(mean_absolute_error(run.output(), truth, mask))
        });
        let attack = settings(&args.attack);
        let attack = SeriesAttack { seed: attack.seed ^ index as u64, ..attack };
        let perturbation = region.at(network, eps);
        let tolerance = region.tolerance;
        let question = Question { network, item: &item, perturbation: &perturbation, tolerance };
        let found = question.attack(attack, precision, &interrupt::requested);
        Struck { item, mae, found, seconds: started.elapsed().as_secs_f64() }
    };
    let mut lines = String::new();
    let mut outcomes = Vec::new();
    runner::for_each(&tasks, runner::threads(args.threads), work, |&(index, eps), struck| {
        bar.inc(1);
        let broken = struck.found.as_ref().is_some_and(|f| f.breaks);
        let attacked = struck.found.as_ref().map(|f| f.error).filter(|e| e.is_finite());
        let witness = struck.found.as_ref().filter(|f| f.breaks).and_then(|f| f.worst.as_ref());
        let line = json!({
            "index": index, "record": struck.item.series.id, "eps": eps, "found": broken,
            "mae": struck.mae, "attacked_mae": attacked, "seconds": struck.seconds, "model": network.hash,
            "witness": witness.map(|w| json!({"statics": w.statics, "times": w.times, "values": w.values})),
        });
        let _ = writeln!(lines, "{line}");
        outcomes.push((eps, struck.mae, attacked, broken, struck.seconds));
        Ok(())
    })?;
    bar.finish_and_clear();
    let stdout = files::deliver(args.out.as_deref(), lines.as_bytes())?;
    let row = |eps: &f64| {
        let mine: Vec<_> = outcomes.iter().filter(|o| o.0 == *eps).collect();
        let broken = mine.iter().filter(|o| o.3).count();
        vec![
            eps.to_string(),
            mine.len().to_string(),
            mean(mine.iter().map(|o| o.1)),
            mean(mine.iter().map(|o| o.2)),
            percent(mine.len() - broken, mine.len()),
            broken.to_string(),
            median(mine.iter().map(|o| o.4).collect()).map_or("–".into(), |s| format!("{s:.3}")),
        ]
    };
    let rows: Vec<Vec<String>> = args.target.eps.iter().map(row).collect();
    let header = ["eps", "records", "mae", "attacked mae", "adversarial %", "broken", "s median"];
    let text = format!("{}, {}\n\n{}", set.describe(), region.words(), layout(&header, &rows));
    if stdout {
        remark(&text);
        Ok(())
    } else {
        print(&text)
    }
}

fn mean(values: impl Iterator<Item = Option<f64>>) -> String {
    match values.collect::<Option<Vec<f64>>>() {
        Some(values) if !values.is_empty() => {
            format!("{:.4}", values.iter().sum::<f64>() / values.len() as f64)
        }
        _ => "–".into(),
    }
}
