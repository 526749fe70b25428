//! Many samples at several radii: the one loop behind `certify` and `eval`, whatever the network is for.

mod summary;

use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use indicatif::ProgressBar;

use crate::cli::{Global, OutputArgs, TargetArgs, WorkArgs};
use crate::failure::{Failure, Outcome};
use crate::panics::{self, Panicked};
use crate::question::{Answer, Budget, Model, Plan, Reason, Verdict};
use crate::results::{Line, Results, Setting, VerdictWord};
use crate::subject::{Source, Subject};
use crate::{interrupt, progress, runner, tell};

/// No limit but the user's patience.
pub fn unlimited() -> Budget<'static> {
    Budget { interrupted: &interrupt::requested, memory: usize::MAX, ..Budget::default() }
}

/// The same for concrete runs.
pub fn watch() -> gains_ode::Watch<'static> {
    gains_ode::Watch { interrupted: &interrupt::requested, ..gains_ode::Watch::default() }
}

/// A sample at a radius.
pub type Item = (usize, f64);

/// Decides all samples at all radii, writes results as they come, prints the summary.
pub fn run(
    model: &Model,
    target: &TargetArgs,
    plan: &Plan,
    work: &WorkArgs,
    output: &OutputArgs,
    global: &Global,
) -> Outcome {
    let source = Source::open(model, &target.data, &target.series, &target.region)?;
    let subject = source.subject(model, &target.data, &target.series, &target.region)?;
    check_radii(&*subject, &target.eps)?;
    let setting = Setting::new(&*subject, plan, work);
    let campaign = Campaign {
        subject: &*subject,
        model: target.model.as_deref(),
        plan,
        setting,
        work,
        finished: AtomicUsize::new(0),
    };
    campaign.run(&target.eps, output, global)
}

/// What is done, and how.
struct Campaign<'a> {
    subject: &'a dyn Subject,
    model: Option<&'a Path>,
    plan: &'a Plan,
    setting: Setting,
    work: &'a WorkArgs,
    finished: AtomicUsize,
}

impl Campaign<'_> {
    /// Does what is not done yet.
    fn run(&self, radii: &[f64], output: &OutputArgs, global: &Global) -> Outcome {
        let mut results = Results::open(output, &self.setting, self.subject)?;
        let wanted = items(self.subject, radii);
        let tasks: Vec<Item> =
            wanted.iter().copied().filter(|(index, eps)| !results.has(*index, *eps)).collect();
        if !global.quiet && tasks.len() < wanted.len() {
            let there = wanted.len() - tasks.len();
            tell::note(&format!("{there} of {} results are there already", wanted.len()));
        }
        let threads = runner::threads(self.work.threads);
        let bar = progress::bar(tasks.len() as u64, global.quiet, progress::ITEMS);
        bar.set_prefix("certify");
        let is_wanted = |line: &&Line| wanted.contains(&(line.index, line.eps));
        let mut lines: Vec<Line> = results.earlier.iter().filter(is_wanted).cloned().collect();
        let mut verified = 0;
        let started = std::time::Instant::now();
        let outcome = runner::for_each(
            &tasks,
            threads,
            |&(index, eps)| self.one(index, eps, tasks.len(), threads),
            |&(index, eps), answer| {
                let answer = answer.unwrap_or_else(|panicked| {
                    report_panic(&bar, self.subject, (index, Some(eps)), &panicked);
                    Answer::internal(self.subject.task(), panicked.to_string(), panicked.elapsed)
                });
                match &answer.verdict {
                    // A sample that was cut short by Ctrl-C has no result; it is done again on resuming.
                    Verdict::Unknown(Reason::Interrupted) => return Ok(()),
                    Verdict::Unknown(Reason::Contradicted) => self.report_contradiction(&bar, index, eps),
                    _ => {}
                }
                let line = Line::new(index, eps, answer, self.subject, &self.setting);
                results.push(&line)?;
                verified += usize::from(line.verdict == VerdictWord::Verified);
                bar.inc(1);
                bar.set_message(format!("{verified} verified"));
                lines.push(line);
                Ok(())
            },
        );
        bar.finish_and_clear();
        outcome?;
        let text = self.summary(&lines, radii, started.elapsed(), threads);
        tell::summary(&text, results.to_stdout())?;
        if interrupt::requested() {
            let hint = if output.out.is_some() { "; go on with --resume" } else { "" };
            tell::note(&format!("interrupted after {} of {} results{hint}", lines.len(), wanted.len()));
        }
        Ok(())
    }

    fn one(&self, index: usize, eps: f64, tasks: usize, threads: usize) -> Answer {
        panics::provoke(index);
        // When fewer samples are left than threads, each may use several.
        let left = tasks.saturating_sub(self.finished.load(Ordering::Relaxed)).max(1);
        let workers = (threads / left).max(1);
        let question = self.subject.question(index, eps);
        let answer = question.decide(self.plan, index as u64, workers, budget(self.work));
        self.finished.fetch_add(1, Ordering::Relaxed);
        answer
    }

    fn report_contradiction(&self, bar: &ProgressBar, index: usize, eps: f64) {
        let network = self.subject.network();
        let text = format!(
            "{} at eps {eps}: a bound excludes what the network was seen to do, so it counts as unknown; please report \
             this with the model ({}) and the data (gains {})",
            self.subject.name(index),
            network.hash,
            env!("CARGO_PKG_VERSION"),
        );
        bar.suspend(|| tell::note(&text));
    }

    fn summary(&self, lines: &[Line], radii: &[f64], elapsed: Duration, threads: usize) -> String {
        let network = self.subject.network();
        let (samples, question) = self.subject.heading(self.subject.indices().len());
        let question = question.map_or(String::new(), |question| format!("{question}\n"));
        let plural = if threads == 1 { "" } else { "s" };
        format!(
            "\n{} ({}), {} on {samples}, method {}, {} arithmetic\n{question}\n{}\n{:.1} s on {threads} thread{plural}\n",
            network.description.name,
            short(self.model),
            network.hash,
            self.setting.method,
            self.setting.arithmetic,
            summary::table(self.subject.task(), self.plan, radii, lines),
            elapsed.as_secs_f64(),
        )
    }
}

/// All samples at all radii.
pub fn items(subject: &dyn Subject, radii: &[f64]) -> Vec<Item> {
    subject.indices().iter().flat_map(|&index| radii.iter().map(move |&eps| (index, eps))).collect()
}

/// Guards against radii that make no sense or are given twice.
pub fn check_radii(subject: &dyn Subject, radii: &[f64]) -> Result<(), Failure> {
    for (i, eps) in radii.iter().enumerate() {
        if radii[..i].contains(eps) {
            return Err(Failure::usage(format!("--eps lists {eps} twice")).hint("give every radius once"));
        }
        subject.check_radius(*eps)?;
    }
    Ok(())
}

/// What one sample may cost.
pub fn budget(work: &WorkArgs) -> Budget<'static> {
    Budget {
        timeout: Some(Duration::from_secs_f64(work.timeout)),
        vertices: work.max_vertices,
        memory: work.max_memory.saturating_mul(1 << 20),
        interrupted: &interrupt::requested,
    }
}

/// Tells of a panic: what, where, at which sample of which model, and what to do about it.
pub fn report_panic(
    bar: &ProgressBar,
    subject: &dyn Subject,
    (index, eps): (usize, Option<f64>),
    panicked: &Panicked,
) {
    let radius = eps.map_or(String::new(), |eps| format!(" at eps {eps}"));
    let text = format!(
        "{}{radius}: gains {} panicked: {panicked}; nothing is known about this sample, please report it with the model \
         ({})",
        subject.name(index),
        env!("CARGO_PKG_VERSION"),
        subject.network().hash,
    );
    bar.suspend(|| tell::note(&text));
}

/// The file name of a model, for titles.
fn short(path: Option<&Path>) -> String {
    path.and_then(Path::file_name)
        .map_or_else(|| "bundled model".into(), |name| name.to_string_lossy().into_owned())
}
