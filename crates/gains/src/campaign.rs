//! Many samples at several radii: the one loop behind `certify` and `eval`, whatever the network is for.

mod summary;

use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use indicatif::ProgressBar;

use crate::certificates::{Certificates, Sealed};
use crate::cli::{Global, OutputArgs, TargetArgs, WorkArgs};
use crate::failure::{Failure, Outcome};
use crate::output::plain;
use crate::panics::{self, Panicked};
use crate::question::{Answer, Budget, Model, Plan, Reason, Verdict};
use crate::results::{Line, Results, Setting, VerdictWord};
use crate::runner::{self, Stop};
use crate::subject::{Source, Subject};
use crate::{files, interrupt, progress, tell};

pub use summary::counted;

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
    certificates: Option<&Certificates>,
    global: &Global,
) -> Outcome {
    let source = Source::open(model, &target.data, &target.series, &target.region)?;
    let subject = source.subject(model, &target.data, &target.series, &target.region)?;
    let radii = subject.radii(&target.eps);
    check_radii(&*subject, &radii)?;
    let campaign = Campaign::new(&*subject, plan, work, &interrupt::requested).certifying(certificates);
    campaign.tell(target.model.as_deref(), &radii, output, global)
}

/// Follows a campaign.
pub trait Observer {
    /// So many of the results that are wanted are there already.
    fn begin(&mut self, there: usize, wanted: usize);

    /// Something the user should know.
    fn note(&mut self, text: &str);

    /// A result.
    fn done(&mut self, line: &Line);
}

/// What is done, and how.
pub struct Campaign<'a> {
    subject: &'a dyn Subject,
    plan: &'a Plan,
    setting: Setting,
    work: &'a WorkArgs,
    stop: Stop<'a>,
    certificates: Option<&'a Certificates>,
    finished: AtomicUsize,
}

/// Shows a campaign to somebody at a terminal.
struct Shown {
    bar: ProgressBar,
    quiet: bool,
    verified: usize,
}

impl Observer for Shown {
    fn begin(&mut self, there: usize, wanted: usize) {
        if !self.quiet && there > 0 {
            tell::note(&format!("{there} of {wanted} results are there already"));
        }
        self.bar.set_length((wanted - there) as u64);
    }

    fn note(&mut self, text: &str) {
        self.bar.suspend(|| tell::note(text));
    }

    fn done(&mut self, line: &Line) {
        self.verified += usize::from(line.verdict == VerdictWord::Verified);
        self.bar.inc(1);
        self.bar.set_message(format!("{} verified", self.verified));
    }
}

impl<'a> Campaign<'a> {
    /// A campaign on a collection, until `stop` says so.
    pub fn new(subject: &'a dyn Subject, plan: &'a Plan, work: &'a WorkArgs, stop: Stop<'a>) -> Self {
        let setting = Setting::new(subject, plan, work);
        Self { subject, plan, setting, work, stop, certificates: None, finished: AtomicUsize::new(0) }
    }

    /// The same, with certificates of all verdicts.
    #[must_use]
    pub fn certifying(mut self, certificates: Option<&'a Certificates>) -> Self {
        self.setting.certificates = certificates.is_some();
        Self { certificates, ..self }
    }

    /// Does what is not done yet; all results that are wanted, in the order in which they came.
    pub fn run(
        &self,
        wanted: &[Item],
        output: &OutputArgs,
        observer: &mut dyn Observer,
    ) -> Result<Vec<Line>, Failure> {
        let mut results = Results::open(output, &self.setting, self.subject)?;
        let tasks: Vec<Item> =
            wanted.iter().copied().filter(|(index, eps)| !results.has(*index, *eps)).collect();
        observer.begin(wanted.len() - tasks.len(), wanted.len());
        let threads = runner::threads(self.work.threads);
        let is_wanted = |line: &&Line| wanted.contains(&(line.index, line.eps));
        let mut lines: Vec<Line> = results.earlier.iter().filter(is_wanted).cloned().collect();
        runner::for_each_until(
            self.stop,
            &tasks,
            threads,
            |&(index, eps)| self.one(index, eps, tasks.len(), threads),
            |&(index, eps), answer| {
                let (answer, sealed) = answer.unwrap_or_else(|panicked| {
                    observer.note(&panic_text(self.subject, (index, Some(eps)), &panicked));
                    let answer =
                        Answer::internal(self.subject.task(), panicked.to_string(), panicked.elapsed);
                    (answer, self.certificates.map(|_| Sealed::NOTHING))
                });
                match &answer.verdict {
                    // A sample that was cut short by Ctrl-C has no result; it is done again on resuming.
                    Verdict::Unknown(Reason::Interrupted) => return Ok(()),
                    Verdict::Unknown(Reason::Contradicted) => observer.note(&self.contradiction(index, eps)),
                    _ => {}
                }
                let mut line = Line::new(index, eps, answer, self.subject, &self.setting);
                if let Some((certificates, sealed)) = self.certificates.zip(sealed) {
                    if let Some(complaint) = &sealed.complaint {
                        let name = self.subject.name(index);
                        let what = "the checker refuses the certificate";
                        observer.note(&format!("{name} at eps {eps}: {what}: {complaint}"));
                    }
                    line.certificate = Some(certificates.keep(sealed)?);
                }
                results.push(&line)?;
                observer.done(&line);
                lines.push(line);
                Ok(())
            },
        )?;
        Ok(lines)
    }

    /// Does it before somebody's eyes, and prints the summary.
    fn tell(&self, model: Option<&Path>, radii: &[f64], output: &OutputArgs, global: &Global) -> Outcome {
        let wanted = items(self.subject.indices(), radii);
        let bar = progress::bar(wanted.len() as u64, global.quiet, progress::ITEMS);
        bar.set_prefix("certify");
        let mut shown = Shown { bar, quiet: global.quiet, verified: 0 };
        let started = std::time::Instant::now();
        let outcome = self.run(&wanted, output, &mut shown);
        shown.bar.finish_and_clear();
        let lines = outcome?;
        let threads = runner::threads(self.work.threads);
        let mut text = self.summary(model, &lines, radii, started.elapsed(), threads);
        text.extend(self.certificates.map(|certificates| certificates.summary(&lines)));
        tell::summary(&text, files::is_stdout(output.out.as_deref()))?;
        if interrupt::requested() {
            let hint = if output.out.is_some() { "; go on with --resume" } else { "" };
            tell::note(&format!("interrupted after {} of {} results{hint}", lines.len(), wanted.len()));
        }
        Ok(())
    }

    fn one(&self, index: usize, eps: f64, tasks: usize, threads: usize) -> (Answer, Option<Sealed>) {
        panics::provoke(index);
        // When fewer samples are left than threads, each may use several.
        let left = tasks.saturating_sub(self.finished.load(Ordering::Relaxed)).max(1);
        let workers = (threads / left).max(1);
        let question = self.subject.question(index, eps);
        let (seed, budget) = (index as u64, budget(self.work, self.stop));
        let done = match self.certificates {
            None => (question.decide(self.plan, seed, workers, budget), None),
            Some(certificates) => {
                let (answer, certificate) = question.decide_and_certify(self.plan, seed, workers, budget);
                let sealed = certificates.seal(self.subject.network(), index, eps, certificate);
                (answer, Some(sealed))
            }
        };
        self.finished.fetch_add(1, Ordering::Relaxed);
        done
    }

    fn contradiction(&self, index: usize, eps: f64) -> String {
        let network = self.subject.network();
        format!(
            "{} at eps {eps}: a bound excludes what the network was seen to do, so it counts as unknown; please report \
             this with the model ({}) and the data (gains {})",
            self.subject.name(index),
            network.hash,
            env!("CARGO_PKG_VERSION"),
        )
    }

    fn summary(
        &self,
        model: Option<&Path>,
        lines: &[Line],
        radii: &[f64],
        elapsed: Duration,
        threads: usize,
    ) -> String {
        let network = self.subject.network();
        let (samples, question) = self.subject.heading(self.subject.indices().len());
        let question = question.map_or(String::new(), |question| format!("{question}\n"));
        let plural = if threads == 1 { "" } else { "s" };
        format!(
            "\n{} ({}), {} on {samples}, method {}, {} arithmetic\n{question}\n{}\n{:.1} s on {threads} thread{plural}\n",
            plain(&network.description.name),
            plain(&short(model)),
            network.hash,
            self.setting.method,
            self.setting.arithmetic,
            summary::table(self.subject.task(), self.plan, radii, lines),
            elapsed.as_secs_f64(),
        )
    }
}

/// Samples at all radii.
pub fn items(indices: &[usize], radii: &[f64]) -> Vec<Item> {
    indices.iter().flat_map(|&index| radii.iter().map(move |&eps| (index, eps))).collect()
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
pub fn budget<'a>(work: &WorkArgs, interrupted: Stop<'a>) -> Budget<'a> {
    Budget {
        timeout: Some(Duration::from_secs_f64(work.timeout)),
        vertices: work.max_vertices,
        memory: work.max_memory.saturating_mul(1 << 20),
        interrupted,
    }
}

/// Tells of a panic.
pub fn report_panic(
    bar: &ProgressBar,
    subject: &dyn Subject,
    item: (usize, Option<f64>),
    panicked: &Panicked,
) {
    bar.suspend(|| tell::note(&panic_text(subject, item, panicked)));
}

/// A panic in words: what, where, at which sample of which model, and what to do about it.
pub fn panic_text(subject: &dyn Subject, (index, eps): (usize, Option<f64>), panicked: &Panicked) -> String {
    let radius = eps.map_or(String::new(), |eps| format!(" at eps {eps}"));
    format!(
        "{}{radius}: gains {} panicked: {panicked}; nothing is known about this sample, please report it with the model \
         ({})",
        subject.name(index),
        env!("CARGO_PKG_VERSION"),
        subject.network().hash,
    )
}

/// The file name of a model, for titles.
fn short(path: Option<&Path>) -> String {
    path.and_then(Path::file_name)
        .map_or_else(|| "bundled model".into(), |name| name.to_string_lossy().into_owned())
}
