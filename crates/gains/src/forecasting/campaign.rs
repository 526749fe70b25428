//! Many records at several radii: what `certify` and `eval` do with forecasting models.

use std::path::Path;
use std::time::Duration;

use gains_core::Network;
use gains_verify::series::ForecastVerdict;
use gains_verify::{Budget, Reason};

use crate::cli::{Global, OutputArgs, TargetArgs, WorkArgs};
use crate::commands::certify::distinct;
use crate::failure::{Failure, Outcome};
use crate::forecasting::decide::{Attacked, Decided, Decider, Question};
use crate::forecasting::line::ForecastLine;
use crate::forecasting::refuse_image_flag;
use crate::forecasting::region::Region;
use crate::forecasting::source::{SeriesSet, Source};
use crate::output::{note, plain, print, remark};
use crate::results::{Results, RunIdentity};
use crate::table::{layout, median, percent};
use crate::{interrupt, progress, runner, samples};

/// Decides all records at all radii.
pub fn run(
    network: &Network,
    target: &TargetArgs,
    decider: &Decider,
    method: String,
    work: &WorkArgs,
    output: &OutputArgs,
    global: &Global,
) -> Outcome {
    distinct(&target.eps)?;
    refuse_image_flag(target.data.given(), network)?;
    let source = Source::open(&target.series, target.data.data_dir.as_deref())?;
    let set = source.set(network, &target.series)?;
    let indices = set.indices(target.data.samples.as_ref())?;
    let region = Region::new(&target.region, &set.names, set.kind())?;
    let identity = RunIdentity {
        method,
        arithmetic: decider.arithmetic,
        model: network.hash.clone(),
        question: format!("{}, {}", set.describe(), region.words()),
    };
    let model = target.model.as_deref();
    Campaign { network, model, set, region, decider, identity, work, output }.run(
        &indices,
        &target.eps,
        global,
    )
}

struct Campaign<'a> {
    network: &'a Network,
    model: Option<&'a Path>,
    set: SeriesSet<'a>,
    region: Region,
    decider: &'a Decider,
    identity: RunIdentity,
    work: &'a WorkArgs,
    output: &'a OutputArgs,
}

impl Campaign<'_> {
    /// Does what is not done yet, writes results as they come, prints the summary.
    fn run(&self, indices: &[usize], radii: &[f64], global: &Global) -> Outcome {
        let mut results: Results<ForecastLine> = Results::open(self.output, &self.identity)?;
        let wanted: Vec<(usize, f64)> =
            indices.iter().flat_map(|&index| radii.iter().map(move |&eps| (index, eps))).collect();
        let tasks: Vec<(usize, f64)> =
            wanted.iter().copied().filter(|(index, eps)| !results.has(*index, *eps)).collect();
        if !global.quiet && tasks.len() < wanted.len() {
            note!("{} of {} results are there already", wanted.len() - tasks.len(), wanted.len());
        }
        let threads = runner::threads(self.work.threads);
        let bar = progress::bar(tasks.len() as u64, global.quiet, progress::ITEMS);
        bar.set_prefix("certify");
        let is_wanted = |line: &&ForecastLine| wanted.contains(&(line.index, line.eps));
        let mut lines: Vec<ForecastLine> = results.earlier.iter().filter(is_wanted).cloned().collect();
        let mut verified = 0;
        let started = std::time::Instant::now();
        let outcome = runner::for_each(
            &tasks,
            threads,
            |&(index, eps)| self.one(index, eps),
            |&(index, eps), (record, decided)| {
                // A record that was cut short by Ctrl-C has no result; it is done again on resuming.
                if decided.report.verdict == ForecastVerdict::Unknown(Reason::Interrupted)
                    || (interrupt::requested() && decided.report.verdict != ForecastVerdict::Verified)
                {
                    return Ok(());
                }
                if decided.contradicts {
                    return Err(Failure::new(format!(
                        "record {record} at eps {eps} is verified and broken by the attack"
                    ))
                    .hint("one of the two is wrong; please report it with the model and the record"));
                }
                let line = ForecastLine::new(index, record, eps, &decided, &self.identity);
                results.push(&line)?;
                verified += usize::from(line.verdict == "verified");
                bar.inc(1);
                bar.set_message(format!("{verified} verified"));
                lines.push(line);
                Ok(())
            },
        );
        bar.finish_and_clear();
        outcome?;
        let text = self.summary(&lines, radii, indices.len(), started.elapsed(), threads);
        if results.to_stdout() {
            remark(&text);
        } else {
            print(&text)?;
        }
        if interrupt::requested() {
            let hint = if self.output.out.is_some() { "; go on with --resume" } else { "" };
            note!("interrupted after {} of {} results{hint}", lines.len(), wanted.len());
        }
        Ok(())
    }

    fn one(&self, index: usize, eps: f64) -> (String, Decided) {
        let budget = Budget {
            timeout: Some(Duration::from_secs_f64(self.work.timeout)),
            vertices: self.work.max_vertices,
            memory: self.work.max_memory.saturating_mul(1 << 20),
            interrupted: &interrupt::requested,
        };
        let item = self.set.item(self.set.part, index);
        let perturbation = self.region.at(self.network, eps);
        let (network, tolerance) = (self.network, self.region.tolerance);
        let question = Question { network, item: &item, perturbation: &perturbation, tolerance };
        let decided = self.decider.decide(question, index as u64, budget);
        (item.series.id, decided)
    }

    fn summary(
        &self,
        lines: &[ForecastLine],
        radii: &[f64],
        records: usize,
        elapsed: Duration,
        threads: usize,
    ) -> String {
        let mut text = format!(
            "\n{} ({}), {} on {records} records, method {}, {} arithmetic\n{}\n\n",
            plain(&self.network.description.name),
            samples::short(self.model),
            self.network.hash,
            self.identity.method,
            self.identity.arithmetic,
            self.identity.question,
        );
        let (adversarial, always) = match (self.decider.attack, self.decider.attacked) {
            (None, _) => ("adversarial % (no attack)", false),
            (Some(_), attacked) => ("adversarial %", attacked == Attacked::Always),
        };
        let mut header = vec!["eps", "records", "mae"];
        header.extend(always.then_some("attacked mae"));
        header.extend([
            "certified mae",
            adversarial,
            "certified %",
            "unknown",
            "falsified",
            "s median",
            "s max",
            "graph V/E median",
        ]);
        let rows: Vec<Vec<String>> = radii.iter().map(|eps| summary_row(*eps, lines, always)).collect();
        text.push_str(&layout(&header, &rows));
        let plural = if threads == 1 { "" } else { "s" };
        text.push_str(&format!("\n{:.1} s on {threads} thread{plural}\n", elapsed.as_secs_f64()));
        text
    }
}

/// One line of the summary. Errors are means over records, on the scale of the network; adversarial: not falsified;
/// certified: verified.
fn summary_row(eps: f64, lines: &[ForecastLine], attacked: bool) -> Vec<String> {
    let mine: Vec<&ForecastLine> = lines.iter().filter(|line| line.eps == eps).collect();
    let count = |verdict: &str| mine.iter().filter(|line| line.verdict == verdict).count();
    let number = |value: Option<f64>| value.map_or("–".into(), |v| format!("{v:.3}"));
    let mean = |get: fn(&ForecastLine) -> Option<f64>| {
        let values: Option<Vec<f64>> = mine.iter().map(|line| get(line)).collect();
        let values = values.filter(|values| !values.is_empty())?;
        Some(values.iter().sum::<f64>() / values.len() as f64)
    };
    let error = |value: Option<f64>| value.map_or("–".into(), |v| format!("{v:.4}"));
    let seconds: Vec<f64> = mine.iter().map(|line| line.seconds).collect();
    let largest = seconds.iter().copied().reduce(f64::max);
    let sizes = |get: fn(&ForecastLine) -> Option<usize>| {
        median(mine.iter().filter_map(|line| get(line)).map(|n| n as f64).collect())
    };
    let graph = match (sizes(|line| line.vertices), sizes(|line| line.edges)) {
        (Some(vertices), Some(edges)) => format!("{vertices}/{edges}"),
        _ => "–".into(),
    };
    let total = mine.len();
    let mut row = vec![eps.to_string(), total.to_string(), error(mean(|line| line.mae))];
    row.extend(attacked.then(|| error(mean(|line| line.attacked_mae))));
    row.extend([
        error(mean(|line| line.certified_mae)),
        percent(total - count("falsified"), total),
        percent(count("verified"), total),
        count("unknown").to_string(),
        count("falsified").to_string(),
        number(median(seconds)),
        number(largest),
        graph,
    ]);
    row
}
