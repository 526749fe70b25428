//! `gains bench`: how fast the verifier is here.

mod growth;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use gains_core::Arithmetic;

use crate::campaign::{check_radii, items};
use crate::cli::{BenchArgs, BenchStudy, Global, RegionArgs};
use crate::failure::{Failure, Outcome};
use crate::output::plain;
use crate::question::{Budget, Method, Model, Reason, Task, Way};
use crate::subject::{Source, Subject};
use crate::table::{layout, median};
use crate::{files, interrupt, panics, progress, runner, tell};

/// Graph sizes reported apart: a name and the most vertices it holds.
const CLASSES: [(&str, usize); 5] =
    [("4 or fewer", 4), ("5 to 20", 20), ("21 to 60", 60), ("61 to 250", 250), ("over 250", usize::MAX)];

struct Measured {
    method: Method,
    vertices: usize,
    edges: usize,
    seconds: f64,
}

/// What a sample may cost; Ctrl-C ends it.
fn budget(seconds: f64) -> Budget<'static> {
    let timeout = Some(Duration::from_secs_f64(seconds));
    Budget { timeout, interrupted: &interrupt::requested, ..Budget::default() }
}

/// Runs the command.
pub fn run(args: &BenchArgs, global: &Global) -> Outcome {
    if let Some(BenchStudy::Growth(args)) = &args.study {
        return growth::run(args, global);
    }
    let model = Model::asking(files::load_model(args.model.as_deref())?, &args.property)?;
    let region = RegionArgs::default();
    let source = Source::open(&model, &args.data, &args.series, &region)?;
    let subject = source.subject(&model, &args.data, &args.series, &region)?;
    let radii = subject.radii(&args.eps);
    check_radii(&*subject, &radii)?;
    let measured = measured_samples(&*subject, budget(args.timeout));
    if interrupt::requested() {
        return Ok(());
    }
    if measured.is_empty() {
        return Err(Failure::usage("the network is right about none of the chosen samples within --timeout")
            .hint("choose others with --samples, or give more time"));
    }
    let mut tasks = items(subject.indices(), &radii);
    tasks.retain(|(index, _)| measured.contains(index));
    let bound = |&(index, eps): &(usize, f64), method: Method| {
        let way = Way { method, step_form: args.step_form.into(), arithmetic: Arithmetic::Real };
        let started = Instant::now();
        let outcome = panics::contain(|| {
            let question = subject.question(index, eps);
            question.bound(way, budget(args.timeout), |bounded| bounded.size)
        });
        let size = outcome.unwrap_or_else(|caught| Err(Reason::Internal(caught.to_string())))?;
        let seconds = started.elapsed().as_secs_f64();
        Ok::<_, Reason>(Measured { method, vertices: size.0, edges: size.1, seconds })
    };
    let (rounds, words) = (args.rounds as usize, measured_methods(model.task()));
    let bar = progress::bar((tasks.len() * words.len() * rounds) as u64, global.quiet, progress::ITEMS);
    bar.set_prefix("bench");
    let (mut all, mut failed) = (Vec::new(), BTreeMap::<String, (Reason, usize)>::new());
    for task in tasks.iter().take_while(|_| !interrupt::requested()) {
        for &method in words {
            match (0..rounds).map(|_| bound(task, method)).collect::<Result<Vec<Measured>, Reason>>() {
                Ok(mut measured) => {
                    measured.sort_by(|a, b| a.seconds.total_cmp(&b.seconds));
                    all.push(measured.swap_remove(rounds / 2));
                }
                Err(Reason::Interrupted) => break,
                Err(reason) => failed.entry(reason.to_string()).or_insert((reason, 0)).1 += 1,
            }
            bar.inc(rounds as u64);
        }
    }
    bar.finish_and_clear();
    if all.is_empty() && interrupt::requested() {
        return Ok(());
    }
    if let (true, Some((reason, _))) = (all.is_empty(), failed.values().next()) {
        return Err(Failure::new(format!("nothing could be measured: {reason}")).hint(remedy(reason)));
    }
    for (reason, (_, count)) in &failed {
        let plural = if *count == 1 { "" } else { "s" };
        tell::note(&format!("{count} measurement{plural} left out: {reason}"));
    }
    let name = plain(&subject.network().description.name);
    let mut text = format!(
        "{name}, {} correct samples, eps {:?}, one thread, median of {rounds}\n\n{}",
        measured.len(),
        radii,
        layout(&HEADER, &rows(words, &all))
    );
    if let Some(megabytes) = peak_memory() {
        text.push_str(&format!("\npeak memory {megabytes:.0} MB (one thread)\n"));
    }
    tell::print(&text)?;
    if runner::threads(None) > 1 && !interrupt::requested() {
        let last = words[words.len().saturating_sub(2)];
        let ratio = scaling(&tasks, rounds, |task| bound(task, last));
        if !interrupt::requested() {
            tell::print(&format!(
                "two threads do the samples {ratio:.2} times as fast as one (median of {rounds})\n"
            ))?;
        }
    }
    Ok(())
}

/// What helps where no sample has bounds.
fn remedy(reason: &Reason) -> &'static str {
    match reason {
        Reason::NotControlled => "`gains model adapt` makes a network of it whose solver can be followed",
        Reason::TimeLimit { .. } => "give more time with --timeout, or take a smaller --eps",
        _ => "try a smaller --eps or other --samples",
    }
}

/// The methods that are measured.
fn measured_methods(task: Task) -> &'static [Method] {
    match task {
        Task::Classes | Task::Regression => &[Method::Box, Method::Linear, Method::Gains, Method::Tight],
        Task::Forecasts => &[Method::Box, Method::Gains, Method::Tight],
    }
}

/// The chosen samples that are worth measuring.
fn measured_samples(subject: &dyn Subject, budget: Budget<'_>) -> Vec<usize> {
    let indices = subject.indices().iter().copied().take_while(|_| !interrupt::requested());
    indices.filter(|&index| subject.is_measured(index, budget)).collect()
}

const HEADER: [&str; 7] =
    ["method", "graph vertices", "samples", "median V/E", "ms median", "ms 90 %", "ms max"];

fn rows(words: &[Method], all: &[Measured]) -> Vec<Vec<String>> {
    let mut rows = Vec::new();
    for &method in words {
        let mut least = 0;
        for (name, most) in CLASSES {
            let mine: Vec<&Measured> = all
                .iter()
                .filter(|m| m.method == method && m.vertices > least && m.vertices <= most)
                .collect();
            least = most;
            let mut ms: Vec<f64> = mine.iter().map(|m| 1e3 * m.seconds).collect();
            ms.sort_by(f64::total_cmp);
            let Some(largest) = ms.last() else { continue };
            let middle = |get: fn(&Measured) -> usize| {
                median(mine.iter().map(|m| get(m) as f64).collect()).unwrap_or_default()
            };
            rows.push(vec![
                method.to_string(),
                name.into(),
                mine.len().to_string(),
                format!("{}/{}", middle(|m| m.vertices), middle(|m| m.edges)),
                format!("{:.1}", ms[ms.len() / 2]),
                format!("{:.1}", ms[ms.len() * 9 / 10]),
                format!("{largest:.1}"),
            ]);
        }
    }
    rows
}

/// Time on one thread over time on two, the rounds taken in turn so that a noisy machine hurts both.
fn scaling<R: Send>(tasks: &[(usize, f64)], rounds: usize, work: impl Fn(&(usize, f64)) -> R + Sync) -> f64 {
    let time = |threads| {
        let started = Instant::now();
        let _ = runner::for_each(tasks, threads, &work, |_, _| Ok(()));
        started.elapsed().as_secs_f64()
    };
    median((0..rounds).map(|_| time(1) / time(2)).collect()).unwrap_or(f64::NAN)
}

/// The most memory this process has held, where the system tells.
fn peak_memory() -> Option<f64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
    let kilobytes: f64 = line.split_whitespace().nth(1)?.parse().ok()?;
    Some(kilobytes / 1024.0)
}
