//! `gains challenge`: trying to break the verdicts of a result file.

use gains_data::series::Horizon;

use crate::campaign::{report_panic, unlimited};
use crate::cli::{ChallengeArgs, DataArgs, Global, GridArg, PartArg, RegionArgs, SeriesArgs};
use crate::failure::{Failure, Outcome};
use crate::question::{Model, Task, Tried};
use crate::results::{Claim, ForecastSetting, read_claims};
use crate::subject::{Selection, Source};
use crate::table::layout;
use crate::{files, panics, progress, runner, tell};

/// Runs the command.
pub fn run(args: &ChallengeArgs, global: &Global) -> Outcome {
    let model = Model::new(files::load_model(args.model.as_deref())?);
    let claims = read_claims(&args.results)?;
    if let Some(other) = claims.iter().find(|claim| claim.model != model.network().hash) {
        return Err(Failure::usage(format!(
            "'{}' holds results of model {}, this is {}",
            args.results.display(),
            other.model,
            model.network().hash
        ))
        .hint("give the model the results were made with"));
    }
    let data = data_of(args, &claims)?;
    let (series, region) = series_of(args, claims.first().and_then(|claim| claim.forecast.as_ref()), &claims);
    let source = Source::open(&model, &data, &series, &region)?;
    let subject = source.subject(&model, &data, &series, &region)?;
    claims.iter().try_for_each(|claim| subject.answers(claim))?;
    let bar = progress::bar(claims.len() as u64, global.quiet, progress::ITEMS);
    bar.set_prefix("challenge");
    let work = |claim: &Claim| {
        panics::provoke(claim.index);
        let (points, seed) = (args.points as usize, claim.index as u64 ^ claim.eps.to_bits());
        let question = subject.question(claim.index, claim.eps);
        question.challenge(claim.claimed(), points, seed, claim.arithmetic, unlimited())
    };
    let mut all: Vec<(&Claim, Tried)> = Vec::new();
    let mut panicked = 0;
    let threads = runner::threads(args.threads);
    let numbers: Vec<usize> = (0..claims.len()).collect();
    runner::for_each(
        &numbers,
        threads,
        |&i| work(&claims[i]),
        |&i, tried| {
            bar.inc(1);
            match tried {
                Ok(tried) => all.push((&claims[i], tried)),
                Err(caught) => {
                    report_panic(&bar, &*subject, (claims[i].index, Some(claims[i].eps)), &caught);
                    panicked += 1;
                }
            }
            Ok(())
        },
    )?;
    bar.finish_and_clear();
    tell::print(&table(model.task(), &all))?;
    match all.iter().find(|(_, tried)| tried.wrong + tried.beyond > 0) {
        Some((claim, _)) => Err(Failure::new(format!(
            "{} at eps {} does not keep its verdict: this is a fault of gains",
            subject.name(claim.index),
            claim.eps
        ))
        .hint("please report it with the model, the data set and the result file")),
        None if panicked > 0 => Err(Failure::new(format!("{panicked} samples made gains panic"))
            .hint("the others kept their verdicts; please report it with the model and the lines above")),
        None => Ok(()),
    }
}

fn table(task: Task, all: &[(&Claim, Tried)]) -> String {
    let sum = |get: fn(&Tried) -> usize| all.iter().map(|(_, tried)| get(tried)).sum::<usize>();
    let closest = all.iter().map(|(_, tried)| tried.slack).fold(f64::INFINITY, f64::min);
    let row = vec![
        all.len().to_string(),
        sum(|t| t.points).to_string(),
        sum(|t| t.wrong).to_string(),
        sum(|t| t.beyond).to_string(),
        format!("{closest:.6}"),
    ];
    let header = match task {
        Task::Classes => ["verified", "points", "misclassified", "below the margin", "closest to the margin"],
        Task::Forecasts => ["verified", "points", "at the limit", "above the bound", "closest to the bound"],
    };
    layout(&header, &[row])
}

/// The images that results are about: as the flags say, else as the results do.
fn data_of(args: &ChallengeArgs, claims: &[Claim]) -> Result<DataArgs, Failure> {
    let mut data = args.data.clone();
    data.samples = Some(Selection::of(claims.iter().map(|claim| claim.index)));
    let images = claims.iter().find(|claim| claim.label.is_some());
    let Some(claim) = images else { return Ok(data) };
    let unknown = |e: String| {
        Failure::new(format!("'{}': {e}", args.results.display())).hint("name them with --data and --split")
    };
    if let (None, Some(name)) = (data.data, &claim.data) {
        data.data = Some(name.parse().map_err(|e| unknown(format!("{e}")))?);
    }
    if let (None, Some(name)) = (data.split, &claim.split) {
        data.split = Some(name.parse().map_err(|e| unknown(format!("{e}")))?);
    }
    Ok(data)
}

/// The series that results are about, and what moved in them: as the results say. Only the file is the user's to name.
fn series_of(
    args: &ChallengeArgs,
    asked: Option<&ForecastSetting>,
    claims: &[Claim],
) -> (SeriesArgs, RegionArgs) {
    let mut series = SeriesArgs { series: args.series.clone(), ..SeriesArgs::default() };
    let Some(asked) = asked else { return (series, RegionArgs::default()) };
    series.part = match claims.first().and_then(|claim| claim.split.as_deref()) {
        Some("train") => Some(PartArg::Train),
        Some("validation") => Some(PartArg::Validation),
        _ => Some(PartArg::Test),
    };
    series.horizon = Horizon::new(asked.horizon);
    series.sorted = asked.order == gains_data::series::Order::Sorted.to_string();
    series.grid = Some(if asked.grid == "authors" { GridArg::Authors } else { GridArg::Own });
    let region = RegionArgs {
        features: asked.features.clone(),
        feature_eps: asked.feature_eps.iter().map(|(name, radius)| (name.clone(), *radius)).collect(),
        nu: Some(asked.nu),
        delta: Some(asked.delta),
    };
    (series, region)
}
