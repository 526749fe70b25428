//! `gains predict`.

use gains_core::Precision;
use gains_ode::{Inference, StopReason};

use crate::cli::{Global, PredictArgs};
use crate::failure::{Failure, Outcome};
use crate::output::{print, say};
use crate::table::{layout, percent};
use crate::{files, forecasting, interrupt, progress, samples};

/// Runs the command.
pub fn run(args: &PredictArgs, global: &Global) -> Outcome {
    let network = files::load_model(args.model.as_deref())?;
    if files::forecasts(&network) {
        return forecasting::predict::run(&network, args, global);
    }
    forecasting::refuse_series_flag(args.series.given(), &network)?;
    let (images, indices) = samples::load(&args.data, &network)?;
    let precision: Precision = args.precision.into();
    let bar = progress::bar(indices.len() as u64, global.quiet, progress::ITEMS);
    let mut rows = Vec::new();
    let mut correct = 0;
    for &index in indices.iter().take_while(|_| !interrupt::requested()) {
        bar.inc(1);
        let label = images.label(index);
        let run = Inference::run(&network, &images.image(index), precision)
            .map_err(|e| Failure::new(format!("sample {index}: {e}")).hint("try --precision float64"))?;
        let prediction = run.prediction();
        correct += usize::from(prediction == label);
        let accepted: usize = run.solutions().map(gains_ode::Solution::accepted).sum();
        let rejected: usize = run.solutions().map(gains_ode::Solution::rejected).sum();
        let evaluations: usize = run.solutions().map(|s| s.evaluations).sum();
        let within = run.solutions().all(|s| s.stop == StopReason::Finished);
        if args.json {
            say!(
                "{}",
                serde_json::json!({
                    "index": index, "label": label, "prediction": prediction, "logits": run.output,
                    "accepted": accepted, "rejected": rejected, "evaluations": evaluations,
                    "within_tolerance": within, "model": network.hash,
                })
            )?;
            continue;
        }
        let name = |class: usize| images.class_name(class).map_or_else(|| class.to_string(), String::from);
        rows.push(vec![
            index.to_string(),
            name(label),
            name(prediction),
            if prediction == label { "yes" } else { "no" }.into(),
            format!("{:.3}", run.output[prediction]),
            format!("{accepted}+{rejected}"),
            evaluations.to_string(),
        ]);
    }
    bar.finish_and_clear();
    if !args.json {
        let header =
            ["index", "label", "prediction", "correct", "logit", "steps (accepted+rejected)", "evaluations"];
        print(&layout(&header, &rows))?;
        say!("\n{correct} of {} correct ({} %)", rows.len(), percent(correct, rows.len()))?;
    }
    Ok(())
}
