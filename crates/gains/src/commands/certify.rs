//! `gains certify`, and the campaign it shares with `gains eval`.

use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use gains_core::Network;
use gains_data::Images;
use gains_verify::series::SeriesAttack;
use gains_verify::{Attack, Budget, Report, Verifier};

use crate::cli::{BoundArgs, CertifyArgs, Global, MethodArg, OutputArgs, TargetArgs, WorkArgs};
use crate::failure::{Failure, Outcome};
use crate::forecasting::decide::{Attacked, Decider};
use crate::output::{note, plain, print, remark};
use crate::results::{Record, Results, RunIdentity};
use crate::table::{layout, median, percent};
use crate::{files, forecasting, interrupt, progress, runner, samples};

/// Runs the command.
pub fn run(args: &CertifyArgs, global: &Global) -> Outcome {
    let network = files::load_model(args.target.model.as_deref())?;
    if files::forecasts(&network) {
        let steps = args.attack_steps;
        let attack = (steps > 0).then(|| SeriesAttack { steps, ..SeriesAttack::default() });
        let decider = Decider::new(&args.bounds, attack, Attacked::IfOpen)?;
        let name = decider.name();
        return forecasting::campaign::run(
            &network,
            &args.target,
            &decider,
            name,
            &args.work,
            &args.output,
            global,
        );
    }
    let attack = (args.attack_steps > 0).then(|| Attack { steps: args.attack_steps, ..Attack::default() });
    let plan = Plan { bounds: args.bounds.clone(), attack, attack_first: false };
    campaign(network, &args.target, &plan, args.bounds.name(), &args.work, &args.output, global)
}

/// How every sample is verified.
pub struct Plan {
    /// The bounds.
    pub bounds: BoundArgs,
    /// The attack.
    pub attack: Option<Attack>,
    /// Whether the attack comes before the expensive bounds.
    pub attack_first: bool,
}

/// Verifies all samples at all radii: what `certify` and `eval` do.
pub fn campaign(
    network: Network,
    target: &TargetArgs,
    plan: &Plan,
    method: String,
    work: &WorkArgs,
    output: &OutputArgs,
    global: &Global,
) -> Outcome {
    check_target(target, &network)?;
    plan.bounds.check_for_images()?;
    let verifier = Verifier::new(network);
    let (images, indices) = samples::load(&target.data, verifier.network())?;
    let model = verifier.network().hash.clone();
    let arithmetic = plan.bounds.arithmetic.into();
    let identity = RunIdentity { method, arithmetic, model, question: String::new() };
    Campaign {
        verifier: &verifier,
        model: target.model.as_deref(),
        images: &images,
        indices: &indices,
        eps: &target.eps,
        plan,
        finished: AtomicUsize::new(0),
        identity,
        work,
        output,
    }
    .run(global)
}

/// Many samples at several radii.
struct Campaign<'a> {
    verifier: &'a Verifier,
    model: Option<&'a Path>,
    images: &'a Images,
    indices: &'a [usize],
    eps: &'a [f64],
    plan: &'a Plan,
    finished: AtomicUsize,
    identity: RunIdentity,
    work: &'a WorkArgs,
    output: &'a OutputArgs,
}

impl Campaign<'_> {
    /// Does what is not done yet, writes results as they come, prints the summary.
    fn run(&self, global: &Global) -> Outcome {
        let mut results: Results<Record> = Results::open(self.output, &self.identity)?;
        let wanted: Vec<(usize, f64)> =
            self.indices.iter().flat_map(|&index| self.eps.iter().map(move |&eps| (index, eps))).collect();
        let tasks: Vec<(usize, f64)> =
            wanted.iter().copied().filter(|(index, eps)| !results.has(*index, *eps)).collect();
        if !global.quiet && tasks.len() < wanted.len() {
            note!("{} of {} results are there already", wanted.len() - tasks.len(), wanted.len());
        }
        let threads = runner::threads(self.work.threads);
        let bar = progress::bar(tasks.len() as u64, global.quiet, progress::ITEMS);
        bar.set_prefix("certify");
        let mut records: Vec<Record> = results
            .earlier
            .iter()
            .filter(|r| wanted.iter().any(|(index, eps)| r.index == *index && r.eps == *eps))
            .cloned()
            .collect();
        let mut verified = 0;
        let started = std::time::Instant::now();
        let outcome = runner::for_each(
            &tasks,
            threads,
            |&(index, eps)| self.one(index, eps, tasks.len(), threads),
            |&(index, eps), report| {
                // A sample that was cut short by Ctrl-C has no result; it is done again on resuming.
                if let gains_verify::Verdict::Unknown(gains_verify::Reason::Interrupted) = report.verdict {
                    return Ok(());
                }
                let record = Record::new(index, self.images.label(index), eps, &report, &self.identity);
                results.push(&record)?;
                verified += usize::from(record.verdict == "verified");
                bar.inc(1);
                bar.set_message(format!("{verified} verified"));
                records.push(record);
                Ok(())
            },
        );
        bar.finish_and_clear();
        outcome?;
        self.summarise(&records, results.to_stdout(), started.elapsed(), threads)?;
        if interrupt::requested() {
            let hint = if self.output.out.is_some() { "; go on with --resume" } else { "" };
            note!("interrupted after {} of {} results{hint}", records.len(), wanted.len());
        }
        Ok(())
    }

    fn one(&self, index: usize, eps: f64, tasks: usize, threads: usize) -> Report {
        let budget = Budget {
            timeout: Some(Duration::from_secs_f64(self.work.timeout)),
            vertices: self.work.max_vertices,
            memory: self.work.max_memory.saturating_mul(1 << 20),
            interrupted: &interrupt::requested,
        };
        let attack = self.plan.attack.map(|a| Attack { seed: a.seed ^ index as u64, ..a });
        let mut settings = self.plan.bounds.settings(eps, attack, self.plan.attack_first);
        // When fewer samples are left than threads, each may use several.
        let left = tasks.saturating_sub(self.finished.load(Ordering::Relaxed)).max(1);
        settings.workers = (threads / left).max(1);
        let (image, label) = (self.images.image(index), self.images.label(index));
        let report = self.verifier.certify(&image, label, eps, &settings, budget);
        self.finished.fetch_add(1, Ordering::Relaxed);
        report
    }

    fn summarise(&self, records: &[Record], to_stderr: bool, elapsed: Duration, threads: usize) -> Outcome {
        let network = self.verifier.network();
        let mut text = format!(
            "\n{} ({}), {} on {} ({} images), method {}, {} arithmetic\n\n",
            plain(&network.description.name),
            samples::short(self.model),
            network.hash,
            self.images.dataset(),
            self.indices.len(),
            self.identity.method,
            self.identity.arithmetic,
        );
        let attacked = if self.plan.attack.is_some() || self.plan.bounds.method == MethodArg::Auto {
            "attacked %"
        } else {
            "attacked % (no attack)"
        };
        let header = [
            "eps",
            "samples",
            "standard %",
            attacked,
            "certified %",
            "unknown",
            "falsified",
            "s mean",
            "s median",
            "s max",
            "graph V/E median",
            "max",
        ];
        let rows: Vec<Vec<String>> = self.eps.iter().map(|eps| summary_row(*eps, records)).collect();
        text.push_str(&layout(&header, &rows));
        text.push_str(&format!(
            "\n{:.1} s on {threads} thread{}\n",
            elapsed.as_secs_f64(),
            if threads == 1 { "" } else { "s" }
        ));
        if to_stderr {
            remark(&text);
            Ok(())
        } else {
            print(&text)
        }
    }
}

/// One line of the summary. Standard: correct without perturbation; attacked: correct and not falsified;
/// certified: verified. Times and graph sizes are over the samples that were analysed.
fn summary_row(eps: f64, records: &[Record]) -> Vec<String> {
    let mine: Vec<&Record> = records.iter().filter(|r| r.eps == eps).collect();
    let count = |verdict: &str| mine.iter().filter(|r| r.verdict == verdict).count();
    let total = mine.len();
    let correct = mine.iter().filter(|r| r.prediction == Some(r.label)).count();
    let seconds: Vec<f64> = mine.iter().filter(|r| r.verdict != "misclassified").map(|r| r.seconds).collect();
    let number = |value: Option<f64>| value.map_or("–".into(), |v| format!("{v:.3}"));
    let mean = (!seconds.is_empty()).then(|| seconds.iter().sum::<f64>() / seconds.len() as f64);
    let largest = seconds.iter().copied().reduce(f64::max);
    let sizes = |get: fn(&Record) -> Option<usize>| -> Vec<f64> {
        mine.iter().filter_map(|r| get(r)).map(|n| n as f64).collect()
    };
    let (vertices, edges) = (sizes(|r| r.vertices), sizes(|r| r.edges));
    let pair = |v: Option<f64>, e: Option<f64>| match (v, e) {
        (Some(v), Some(e)) => format!("{v}/{e}"),
        _ => "–".into(),
    };
    vec![
        eps.to_string(),
        total.to_string(),
        percent(correct, total),
        percent(correct.saturating_sub(count("falsified")), total),
        percent(count("verified"), total),
        count("unknown").to_string(),
        count("falsified").to_string(),
        number(mean),
        number(median(seconds)),
        number(largest),
        pair(median(vertices.clone()), median(edges.clone())),
        pair(vertices.into_iter().reduce(f64::max), edges.into_iter().reduce(f64::max)),
    ]
}

/// Guards against flags and radii that make no sense for images.
pub fn check_target(target: &TargetArgs, network: &Network) -> Result<(), Failure> {
    forecasting::refuse_series_flag(target.given_for_series(), network)?;
    distinct(&target.eps)?;
    match target.eps.iter().find(|eps| **eps > 1.0) {
        Some(eps) => Err(Failure::usage(format!("--eps {eps} is not between 0 and 1, the range of a pixel"))
            .hint("pixels go from 0 to 1, so a radius of 1 is all of them")),
        None => Ok(()),
    }
}

/// Guards against radii given twice.
pub fn distinct(eps: &[f64]) -> Result<(), Failure> {
    for (i, a) in eps.iter().enumerate() {
        if eps[..i].contains(a) {
            return Err(Failure::usage(format!("--eps lists {a} twice")).hint("give every radius once"));
        }
    }
    Ok(())
}
