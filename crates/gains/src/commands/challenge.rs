//! `gains challenge`: trying to break the verdicts of a result file.

use std::fmt::Write as _;

use gains_core::{Arithmetic, BoxVec, Interval, Precision};
use gains_ode::Inference;

use crate::cli::{ChallengeArgs, Global};
use crate::failure::{Failure, Outcome};
use crate::output::print;
use crate::results::{self, Record};
use crate::table::layout;
use crate::{files, interrupt, progress, runner, samples};

/// What the points of one sample showed.
struct Tried {
    points: usize,
    /// Points that are misclassified although the sample was verified.
    wrong: usize,
    /// Points whose margin is below the certified one.
    below: usize,
    /// Smallest margin seen minus the certified one.
    slack: f64,
}

/// How points are chosen: in turn uniformly, at corners, and on the way downhill from either.
fn challenge(
    network: &gains_core::Network,
    image: &[f64],
    record: &Record,
    points: usize,
    precision: Precision,
) -> Tried {
    let ball = BoxVec::ball(image, record.eps, Interval::new(0.0, 1.0));
    let mut random = fastrand::Rng::with_seed(record.index as u64 ^ record.eps.to_bits());
    let mut tried = Tried { points: 0, wrong: 0, below: 0, slack: f64::INFINITY };
    let mut point: Vec<f64> = Vec::new();
    let mut downhill = 0;
    while tried.points < points && !interrupt::requested() {
        if downhill == 0 {
            let corner = random.bool();
            let pick = |i: usize, u: f64| {
                let u = if corner { u.round() } else { u };
                (ball.lower[i] + u * (ball.upper[i] - ball.lower[i])).clamp(ball.lower[i], ball.upper[i])
            };
            point = (0..ball.len()).map(|i| pick(i, random.f64())).collect();
            downhill = 8;
        }
        if precision == Precision::Float32 {
            // A float32 program sees float32 images; what rounds out of the ball is moved to the image.
            for (i, x) in point.iter_mut().enumerate() {
                let rounded = f64::from(*x as f32);
                *x = if ball.lower[i] <= rounded && rounded <= ball.upper[i] { rounded } else { image[i] };
            }
        }
        tried.points += 1;
        let Ok(run) = Inference::run(network, &point, precision) else {
            tried.wrong += 1;
            downhill = 0;
            continue;
        };
        let others = (0..run.output.len()).filter(|j| *j != record.label);
        let rival = others.max_by(|a, b| run.output[*a].total_cmp(&run.output[*b])).unwrap_or(record.label);
        let slack = run.output[record.label] - run.output[rival] - record.margin.unwrap_or(0.0);
        tried.wrong += usize::from(run.prediction() != record.label);
        // The concrete run rounds, too.
        tried.below += usize::from(slack < -1e-9);
        tried.slack = tried.slack.min(slack);
        let mut cotangent = vec![0.0; run.output.len()];
        cotangent[record.label] = -1.0;
        cotangent[rival] += 1.0;
        let step = record.eps * random.f64();
        for (i, g) in run.pull_back(&cotangent).iter().enumerate().filter(|(_, g)| **g != 0.0) {
            point[i] = (point[i] + step * g.signum()).clamp(ball.lower[i], ball.upper[i]);
        }
        downhill -= 1;
    }
    tried
}

/// Runs the command.
pub fn run(args: &ChallengeArgs, global: &Global) -> Outcome {
    let network = files::load_classifier(args.model.as_deref())?;
    let records: Vec<Record> =
        results::read(&args.results)?.into_iter().filter(|r| r.verdict == "verified").collect();
    if let Some(other) = records.iter().find(|r| r.model != network.hash) {
        return Err(Failure::usage(format!(
            "'{}' holds results of model {}, this is {}",
            args.results.display(),
            other.model,
            network.hash
        ))
        .hint("give the model the results were made with"));
    }
    if records.is_empty() {
        return Err(Failure::new(format!("'{}' holds no verified sample", args.results.display())));
    }
    let (images, _) = samples::load(&args.data, &network)?;
    if let Some(missing) = records.iter().find(|r| r.index >= images.len()) {
        return Err(Failure::usage(format!("the data set has no image {}", missing.index))
            .hint("give the data set and split the results were made with"));
    }
    let bar = progress::bar(records.len() as u64, global.quiet, progress::ITEMS);
    bar.set_prefix("challenge");
    let work = |record: &Record| {
        let real = record.arithmetic == Arithmetic::Real.to_string();
        let precision = if real { Precision::Float64 } else { Precision::Float32 };
        challenge(&network, &images.image(record.index), record, args.points as usize, precision)
    };
    let mut all: Vec<(Record, Tried)> = Vec::new();
    runner::for_each(&records, runner::threads(args.threads), work, |record, tried| {
        bar.inc(1);
        all.push((record.clone(), tried));
        Ok(())
    })?;
    bar.finish_and_clear();
    let mut text = String::new();
    let sum = |get: fn(&Tried) -> usize| all.iter().map(|(_, t)| get(t)).sum::<usize>();
    let closest = all.iter().map(|(_, t)| t.slack).fold(f64::INFINITY, f64::min);
    let row = vec![
        all.len().to_string(),
        sum(|t| t.points).to_string(),
        sum(|t| t.wrong).to_string(),
        sum(|t| t.below).to_string(),
        format!("{closest:.6}"),
    ];
    let header = ["verified", "points", "misclassified", "below the margin", "closest to the margin"];
    let _ = write!(text, "{}", layout(&header, &[row]));
    print(&text)?;
    match all.iter().find(|(_, t)| t.wrong + t.below > 0) {
        Some((record, _)) => Err(Failure::new(format!(
            "sample {} at eps {} does not keep its verdict: this is a fault of gains",
            record.index, record.eps
        ))
        .hint("please report it with the model, the data set and the result file")),
        None => Ok(()),
    }
}
