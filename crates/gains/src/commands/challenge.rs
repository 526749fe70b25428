//! `gains challenge`: trying to break the verdicts of a result file.

use gains_data::series::Horizon;

use crate::campaign::{report_panic, unlimited};
use crate::cli::{ChallengeArgs, DataArgs, Global, GridArg, PartArg, RangeArg, RegionArgs, SeriesArgs};
use crate::failure::{Failure, Outcome};
use crate::question::{Model, Task, Tried};
use crate::results::{Claim, ForecastSetting, InputSetting, RangeSetting, read_claims};
use crate::subject::{Selection, Source};
use crate::table::layout;
use crate::{files, panics, progress, runner, tell};

/// Runs the command.
pub fn run(args: &ChallengeArgs, global: &Global) -> Outcome {
    let network = files::load_model(args.model.as_deref())?;
    let mut claims = read_claims(&args.results)?;
    if let Some(chosen) = &args.data.samples {
        let chosen = chosen.indices();
        claims.retain(|claim| chosen.contains(&claim.index));
        if claims.is_empty() {
            return Err(Failure::usage(format!(
                "'{}' verifies none of these samples",
                args.results.display()
            ))
            .hint("leave --samples out for all that are verified"));
        }
    }
    let asked = claims.first().and_then(|claim| claim.property.as_deref());
    if let Some(other) = claims.iter().find(|claim| claim.property.as_deref() != asked) {
        return Err(Failure::usage(format!(
            "'{}' asks different things of its samples, of {} another than of the first",
            args.results.display(),
            other.index
        ))
        .hint("challenge the results of one run at a time"));
    }
    let model = Model::asking_again(network, asked)?;
    if let Some(other) = claims.iter().find(|claim| claim.model != model.network().hash) {
        return Err(Failure::usage(format!(
            "'{}' holds results of model {}, this is {}",
            args.results.display(),
            other.model,
            model.network().hash
        ))
        .hint("give the model the results were made with"));
    }
    if let Some(own) = claims.iter().find(|claim| is_own(claim) && !args.data.own.is_given()) {
        let name = own.data.as_deref().unwrap_or("inputs of their own");
        return Err(Failure::usage(format!("the results are about '{name}', which are not given"))
            .hint("give them with --inputs, --labels, --box, --layout and --scale as they were"));
    }
    let data = data_of(args, &claims)?;
    let (series, region) = series_of(args, claims.first().and_then(|claim| claim.forecast()), &claims);
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
    tell::print(&table(&model, &all))?;
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

fn table(model: &Model, all: &[(&Claim, Tried)]) -> String {
    let sum = |get: fn(&Tried) -> usize| all.iter().map(|(_, tried)| get(tried)).sum::<usize>();
    let closest = all.iter().map(|(_, tried)| tried.slack).fold(f64::INFINITY, f64::min);
    let row = vec![
        all.len().to_string(),
        sum(|t| t.points).to_string(),
        sum(|t| t.wrong).to_string(),
        sum(|t| t.beyond).to_string(),
        format!("{closest:.6}"),
    ];
    let header = match model.task() {
        _ if model.asked().text().is_some() => {
            ["verified", "points", "broken", "below the margin", "closest to the margin"]
        }
        Task::Classes | Task::Regression => {
            ["verified", "points", "misclassified", "below the margin", "closest to the margin"]
        }
        Task::Forecasts => ["verified", "points", "at the limit", "above the bound", "closest to the bound"],
    };
    layout(&header, &[row])
}

/// Whether a claim is about inputs of the user's own.
fn is_own(claim: &Claim) -> bool {
    claim.inputs().is_some_and(|inputs| inputs.inputs_hash.is_some())
}

/// What may move in the inputs that results are about: as the results say.
fn region_of(asked: &InputSetting) -> RegionArgs {
    let range = match &asked.range {
        None => vec![RangeArg::None],
        Some(RangeSetting::All([low, high])) => vec![RangeArg::All(*low, *high)],
        Some(RangeSetting::Each(each)) => {
            each.iter().map(|(name, [low, high])| RangeArg::One(name.clone(), *low, *high)).collect()
        }
    };
    let boxed = asked.box_hash.is_some();
    RegionArgs {
        features: asked.features.clone(),
        feature_eps: RegionArgs::fixed(&asked.feature_eps),
        range: if boxed { Vec::new() } else { range },
        norm: (!boxed).then(|| asked.norm.into()),
        ..RegionArgs::default()
    }
}

/// The images that results are about: as the flags say, else as the results do.
fn data_of(args: &ChallengeArgs, claims: &[Claim]) -> Result<DataArgs, Failure> {
    let mut data = args.data.clone();
    data.samples = Some(Selection::of(claims.iter().map(|claim| claim.index)));
    let known = |claim: &&Claim| claim.label.is_some() && !is_own(claim);
    let Some(claim) = claims.iter().find(known) else { return Ok(data) };
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
    let Some(asked) = asked else {
        let inputs = claims.first().and_then(|claim| claim.inputs());
        return (series, inputs.map_or_else(RegionArgs::default, region_of));
    };
    series.part = match claims.first().and_then(|claim| claim.split.as_deref()) {
        Some("train") => Some(PartArg::Train),
        Some("validation") => Some(PartArg::Validation),
        _ => Some(PartArg::Test),
    };
    series.horizon = Horizon::new(asked.horizon);
    series.sorted = asked.order == gains_data::series::Order::Sorted.to_string();
    series.grid = Some(if asked.grid == "authors" { GridArg::Authors } else { GridArg::Own });
    // Of the mean error nothing is asked where another property is.
    let errors = claims.first().is_none_or(|claim| claim.property.is_none());
    let region = RegionArgs {
        features: asked.features.clone(),
        feature_eps: RegionArgs::fixed(&asked.feature_eps),
        nu: errors.then_some(asked.nu),
        delta: errors.then_some(asked.delta),
        ..RegionArgs::default()
    };
    (series, region)
}
