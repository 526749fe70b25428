//! `gains attack`.

use std::fmt::Write as _;
use std::time::Instant;

use serde_json::{Value, json};

use crate::campaign::{check_radii, items, report_panic, unlimited};
use crate::cli::{AttackArgs, Global};
use crate::failure::Outcome;
use crate::question::{Model, Reason, Struck, Task, micro};
use crate::results::refuse_other_results;
use crate::subject::{Source, attack_plan};
use crate::table::{layout, median, percent};
use crate::{files, interrupt, panics, progress, runner, tell};

/// One attacked sample; nothing is known of one whose attack panicked.
struct Attacked {
    eps: f64,
    struck: Option<Struck>,
    seconds: f64,
}

/// Runs the command.
pub fn run(args: &AttackArgs, global: &Global) -> Outcome {
    let network = files::load_model(args.target.model.as_deref())?;
    let model = Model::asking(network, &args.target.property)?;
    let attack = attack_plan(&args.attack, &model)?;
    let target = &args.target;
    let source = Source::open(&model, &target.data, &target.series, &target.region)?;
    let subject = source.subject(&model, &target.data, &target.series, &target.region)?;
    let radii = subject.radii(&target.eps);
    check_radii(&*subject, &radii)?;
    if let Some(out) = args.out.as_deref().filter(|out| !files::is_stdout(Some(out))) {
        refuse_other_results(out)?;
    }
    let tasks = items(subject.indices(), &radii);
    let bar = progress::bar(tasks.len() as u64, global.quiet, progress::ITEMS);
    bar.set_prefix("attack");
    let work = |&(index, eps): &(usize, f64)| {
        panics::provoke(index);
        let started = Instant::now();
        let attack = attack.on(index as u64);
        let struck = subject.question(index, eps).attack(&attack, args.precision.into(), unlimited());
        (struck, micro(started.elapsed()))
    };
    let setting = subject.setting();
    let mut lines = String::new();
    let mut outcomes = Vec::new();
    runner::for_each(&tasks, runner::threads(args.threads), work, |&(index, eps), outcome| {
        // What was cut short says nothing.
        if interrupt::requested() {
            return Ok(());
        }
        bar.inc(1);
        let (struck, seconds, reason) = match outcome {
            Ok((struck, seconds)) => (Some(struck), seconds, None),
            Err(panicked) => {
                report_panic(&bar, &*subject, (index, Some(eps)), &panicked);
                (None, micro(panicked.elapsed), Some(Reason::Internal(panicked.to_string())))
            }
        };
        let mut line = subject.struck_json(index, struck.as_ref());
        if let Some(inputs) = &setting.inputs {
            extend(&mut line, serde_json::to_value(inputs).unwrap_or(Value::Null));
        }
        extend(
            &mut line,
            json!({
                "eps": eps, "seconds": seconds, "model": subject.network().hash,
                "reason": reason.as_ref().map(ToString::to_string), "reason_code": reason.as_ref().map(Reason::code),
                "property": subject.property(), "data": setting.data, "split": setting.split,
                "question": setting.question(),
                "attack": attack, "precision": args.precision.word(), "version": env!("CARGO_PKG_VERSION"),
            }),
        );
        let _ = writeln!(lines, "{line}");
        outcomes.push(Attacked { eps, struck, seconds });
        Ok(())
    })?;
    bar.finish_and_clear();
    if outcomes.len() < tasks.len() {
        tell::note(&format!("interrupted after {} of {} attacks", outcomes.len(), tasks.len()));
    }
    let stdout = files::deliver(args.out.as_deref(), lines.as_bytes())?;
    let of_radius = |eps: &f64| {
        let mine: Vec<&Attacked> = outcomes.iter().filter(|o| o.eps == *eps).collect();
        match subject.task() {
            Task::Classes | Task::Regression => row_of_classes(*eps, &mine),
            Task::Forecasts => row_of_forecasts(*eps, &mine),
        }
    };
    let header: &[&str] = match subject.task() {
        Task::Regression => &["eps", "samples", "holding %", "adversarial %", "broken"],
        Task::Classes => &["eps", "samples", "standard %", "adversarial %", "broken"],
        Task::Forecasts => &["eps", "records", "mae", "attacked mae", "adversarial %", "broken", "s median"],
    };
    let rows: Vec<Vec<String>> = radii.iter().map(of_radius).collect();
    let title = setting.question().map_or(String::new(), |question| format!("{question}\n\n"));
    tell::summary(&format!("{title}{}", layout(header, &rows)), stdout)
}

fn extend(line: &mut Value, more: Value) {
    if let (Value::Object(line), Value::Object(more)) = (line, more) {
        line.extend(more);
    }
}

fn row_of_classes(eps: f64, mine: &[&Attacked]) -> Vec<String> {
    let count =
        |is: &dyn Fn(&Struck) -> bool| mine.iter().filter(|a| a.struck.as_ref().is_some_and(is)).count();
    // Only what is classified correctly is attacked, and then a margin was seen.
    let margin = |s: &Struck| match s {
        Struck::Classes { margin, .. } | Struck::Regression { margin, .. } => *margin,
        Struck::Forecasts { .. } => f64::NAN,
    };
    let is_broken = |s: &Struck| {
        matches!(s, Struck::Classes { broken: Some(_), .. } | Struck::Regression { broken: Some(_), .. })
    };
    let correct = count(&|s| !margin(s).is_nan());
    let broken = count(&is_broken);
    vec![
        eps.to_string(),
        mine.len().to_string(),
        percent(correct, mine.len()),
        percent(correct - broken, mine.len()),
        broken.to_string(),
    ]
}

fn row_of_forecasts(eps: f64, mine: &[&Attacked]) -> Vec<String> {
    let errors = |attacked: &&Attacked| match &attacked.struck {
        Some(Struck::Forecasts { mae, attacked, .. }) => (*mae, *attacked),
        _ => (None, None),
    };
    let is_broken = |a: &&&Attacked| matches!(a.struck, Some(Struck::Forecasts { broken: Some(_), .. }));
    let broken = mine.iter().filter(is_broken).count();
    vec![
        eps.to_string(),
        mine.len().to_string(),
        mean(mine.iter().map(|a| errors(a).0)),
        mean(mine.iter().map(|a| errors(a).1)),
        percent(mine.len() - broken, mine.len()),
        broken.to_string(),
        median(mine.iter().map(|a| a.seconds).collect()).map_or("–".into(), |s| format!("{s:.3}")),
    ]
}

fn mean(values: impl Iterator<Item = Option<f64>>) -> String {
    match values.collect::<Option<Vec<f64>>>() {
        Some(values) if !values.is_empty() => {
            format!("{:.4}", values.iter().sum::<f64>() / values.len() as f64)
        }
        _ => "–".into(),
    }
}
