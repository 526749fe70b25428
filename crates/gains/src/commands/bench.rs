//! `gains bench`: how fast the verifier is here.

mod growth;

use std::time::Instant;

use gains_core::{Network, Precision};
use gains_data::Images;
use gains_ode::Inference;
use gains_verify::limits::Clock;
use gains_verify::verifier::Settings;
use gains_verify::{Budget, Method, Verifier};

use crate::cli::{BenchArgs, BenchStudy, DataArgs, Global};
use crate::failure::{Failure, Outcome};
use crate::output::{plain, print, say};
use crate::table::{layout, median};
use crate::{files, interrupt, progress, runner, samples};

/// Graph sizes reported apart: a name and the most vertices it holds.
const CLASSES: [(&str, usize); 5] =
    [("4 or fewer", 4), ("5 to 20", 20), ("21 to 60", 60), ("61 to 250", 250), ("over 250", usize::MAX)];

struct Measured {
    method: Method,
    vertices: usize,
    edges: usize,
    seconds: f64,
}

/// Runs the command.
pub fn run(args: &BenchArgs, global: &Global) -> Outcome {
    if let Some(BenchStudy::Growth(args)) = &args.study {
        return growth::run(args, global);
    }
    let verifier = Verifier::new(files::load_classifier(args.model.as_deref())?);
    let (images, correct) = correct_samples(&args.data, verifier.network())?;
    let tasks: Vec<(usize, f64)> =
        correct.iter().flat_map(|&index| args.eps.iter().map(move |&eps| (index, eps))).collect();
    let bound = |&(index, eps): &(usize, f64), method: Method| {
        let started = Instant::now();
        let settings = Settings { step_form: args.step_form.into(), ..Settings::default() };
        let clock = Clock::start(Budget::default());
        let outcome =
            verifier.bounds(&images.image(index), images.label(index), eps, method, &settings, clock);
        let size = outcome.as_ref().map_or((0, 0), |(_, analysis)| analysis.graph_size());
        drop(outcome);
        Measured { method, vertices: size.0, edges: size.1, seconds: started.elapsed().as_secs_f64() }
    };
    let rounds = args.rounds as usize;
    let bar = progress::bar((tasks.len() * METHODS.len() * rounds) as u64, global.quiet, progress::ITEMS);
    bar.set_prefix("bench");
    let mut all = Vec::new();
    for task in tasks.iter().take_while(|_| !interrupt::requested()) {
        for method in METHODS {
            let mut measured: Vec<Measured> = (0..rounds).map(|_| bound(task, method)).collect();
            measured.sort_by(|a, b| a.seconds.total_cmp(&b.seconds));
            all.push(measured.swap_remove(rounds / 2));
            bar.inc(rounds as u64);
        }
    }
    bar.finish_and_clear();
    let name = plain(&verifier.network().description.name);
    say!("{name}, {} correct samples, eps {:?}, one thread, median of {rounds}\n", correct.len(), args.eps)?;
    print(&layout(&HEADER, &rows(&all)))?;
    if let Some(megabytes) = peak_memory() {
        say!("\npeak memory {megabytes:.0} MB (one thread)")?;
    }
    if runner::threads(None) > 1 && !interrupt::requested() {
        let ratio = scaling(&tasks, rounds, |task| bound(task, Method::Gains));
        say!("two threads do the samples {ratio:.2} times as fast as one (median of {rounds})")?;
    }
    Ok(())
}

/// The chosen samples that are classified correctly: others are never analysed, so never measured either.
fn correct_samples(args: &DataArgs, network: &Network) -> Result<(Images, Vec<usize>), Failure> {
    let (images, indices) = samples::load(args, network)?;
    let correct = indices
        .into_iter()
        .filter(|&i| {
            Inference::run(network, &images.image(i), Precision::Float64)
                .is_ok_and(|run| run.prediction() == images.label(i))
        })
        .collect();
    Ok((images, correct))
}

const METHODS: [Method; 4] = [Method::Box, Method::Linear, Method::Gains, Method::Tight];
const HEADER: [&str; 7] =
    ["method", "graph vertices", "samples", "median V/E", "ms median", "ms 90 %", "ms max"];

fn rows(all: &[Measured]) -> Vec<Vec<String>> {
    let mut rows = Vec::new();
    for method in METHODS {
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
