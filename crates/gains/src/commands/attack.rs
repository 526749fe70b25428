//! `gains attack`.

use std::fmt::Write as _;

use gains_core::{Interval, Precision};
use gains_ode::Inference;

use gains_verify::Ball;

use crate::cli::{AttackArgs, Global};
use crate::commands::certify::check_target;
use crate::commands::eval;
use crate::failure::Outcome;
use crate::output::{print, remark};
use crate::table::{layout, percent};
use crate::{files, forecasting, interrupt, progress, runner, samples};

/// One attacked sample.
struct Attacked {
    prediction: Option<usize>,
    witness: Option<(Vec<f64>, usize)>,
    margin: f64,
    seconds: f64,
}

/// Runs the command.
pub fn run(args: &AttackArgs, global: &Global) -> Outcome {
    let network = files::load_model(args.target.model.as_deref())?;
    if files::forecasts(&network) {
        return forecasting::attack::run(&network, args, global);
    }
    check_target(&args.target, &network)?;
    let (images, indices) = samples::load(&args.target.data, &network)?;
    let precision: Precision = args.precision.into();
    let pixels = Interval::new(0.0, 1.0);
    let tasks: Vec<(usize, f64)> =
        indices.iter().flat_map(|&index| args.target.eps.iter().map(move |&eps| (index, eps))).collect();
    let bar = progress::bar(tasks.len() as u64, global.quiet, progress::ITEMS);
    bar.set_prefix("attack");
    let work = |&(index, eps): &(usize, f64)| {
        let started = std::time::Instant::now();
        let image = images.image(index);
        let label = images.label(index);
        let prediction = Inference::run(&network, &image, precision).ok().map(|run| run.prediction());
        let mut attack = eval::attack(&args.attack);
        attack.seed ^= index as u64;
        let (witness, margin) = if prediction == Some(label) {
            let ball = Ball::new(&network, &image, label, eps, pixels, precision);
            let found = attack.run(&ball, &interrupt::requested);
            let witness = found.witness.and_then(|point| {
                let wrong = Inference::run(&network, &point, precision).ok()?.prediction();
                Some((point, wrong))
            });
            (witness, found.margin)
        } else {
            (None, f64::NAN)
        };
        Attacked { prediction, witness, margin, seconds: started.elapsed().as_secs_f64() }
    };
    let mut lines = String::new();
    let mut outcomes = Vec::new();
    runner::for_each(&tasks, runner::threads(args.threads), work, |&(index, eps), a| {
        bar.inc(1);
        let line = serde_json::json!({
            "index": index, "label": images.label(index), "prediction": a.prediction, "eps": eps,
            "found": a.witness.is_some(),
            "adversarial_prediction": a.witness.as_ref().map(|w| w.1),
            "margin": a.margin, "seconds": a.seconds, "model": network.hash,
            "witness": a.witness.as_ref().map(|w| &w.0),
        });
        let _ = writeln!(lines, "{line}");
        outcomes.push((eps, a.prediction == Some(images.label(index)), a.witness.is_some()));
        Ok(())
    })?;
    bar.finish_and_clear();
    let stdout = files::deliver(args.out.as_deref(), lines.as_bytes())?;
    let rows: Vec<Vec<String>> = args
        .target
        .eps
        .iter()
        .map(|eps| {
            let mine: Vec<_> = outcomes.iter().filter(|o| o.0 == *eps).collect();
            let correct = mine.iter().filter(|o| o.1).count();
            let broken = mine.iter().filter(|o| o.2).count();
            vec![
                eps.to_string(),
                mine.len().to_string(),
                percent(correct, mine.len()),
                percent(correct - broken, mine.len()),
                broken.to_string(),
            ]
        })
        .collect();
    let table = layout(&["eps", "samples", "standard %", "adversarial %", "broken"], &rows);
    if stdout {
        remark(&table);
        Ok(())
    } else {
        print(&table)
    }
}
