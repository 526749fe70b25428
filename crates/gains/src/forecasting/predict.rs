//! `gains predict` on forecasting models.

use gains_core::{Network, Precision};
use gains_ode::{Forecaster, Solution, mean_absolute_error};
use serde_json::json;

use crate::cli::{Global, PredictArgs};
use crate::failure::{Failure, Outcome};
use crate::forecasting::refuse_image_flag;
use crate::forecasting::source::Source;
use crate::output::{print, say};
use crate::table::layout;
use crate::{interrupt, progress};

/// Runs the command.
pub fn run(network: &Network, args: &PredictArgs, global: &Global) -> Outcome {
    refuse_image_flag(args.data.given(), network)?;
    let source = Source::open(&args.series, args.data.data_dir.as_deref())?;
    let set = source.set(network, &args.series)?;
    let indices = set.indices(args.data.samples.as_ref())?;
    let precision: Precision = args.precision.into();
    let bar = progress::bar(indices.len() as u64, global.quiet, progress::ITEMS);
    let (mut rows, mut sum) = (Vec::new(), 0.0);
    for &index in indices.iter().take_while(|_| !interrupt::requested()) {
        bar.inc(1);
        let item = set.item(set.part, index);
        let fail = |e: gains_ode::ForecastError| {
            Failure::new(format!("record {}: {e}", item.series.id)).hint("try --precision float64")
        };
        let forecaster = Forecaster::new(network, item.observations.target_time).map_err(fail)?;
        let run = forecaster.run(&item.observations, precision).map_err(fail)?;
        let (truth, mask) = (&item.series.target, &item.series.target_mask);
        let mae = mean_absolute_error(run.output(), truth, mask);
        let accepted = run.solution().map_or(0, Solution::accepted);
        let rejected = run.solution().map_or(0, Solution::rejected);
        let observed = item.series.mask.iter().filter(|seen| **seen).count();
        let time = set.raw_time(item.series.target_time);
        if args.json {
            let named = |value: &dyn Fn(usize) -> Option<f64>| -> serde_json::Map<String, serde_json::Value> {
                let entry = |(i, name): (usize, &String)| Some((name.clone(), json!(value(i)?)));
                set.names.features.iter().enumerate().filter_map(entry).collect()
            };
            say!(
                "{}",
                json!({
                    "index": index, "record": item.series.id, "time": time, "mae": mae,
                    "prediction": named(&|i| Some(set.raw(i, run.output()[i]))),
                    "truth": named(&|i| mask[i].then(|| set.raw(i, truth[i]))),
                    "output": run.output(), "accepted": accepted, "rejected": rejected, "model": network.hash,
                })
            )?;
            continue;
        }
        sum += mae;
        rows.push(vec![
            index.to_string(),
            item.series.id.clone(),
            item.series.times.len().to_string(),
            observed.to_string(),
            format!("{time:.2}"),
            mask.iter().filter(|seen| **seen).count().to_string(),
            format!("{mae:.4}"),
            format!("{accepted}+{rejected}"),
        ]);
    }
    bar.finish_and_clear();
    if !args.json {
        let header = [
            "index",
            "record",
            "points",
            "observations",
            "target time",
            "observed there",
            "mae",
            "steps (accepted+rejected)",
        ];
        print(&layout(&header, &rows))?;
        say!("\n{}", set.describe())?;
        say!("mean absolute error {:.4} over {} records", sum / rows.len().max(1) as f64, rows.len())?;
    }
    Ok(())
}
