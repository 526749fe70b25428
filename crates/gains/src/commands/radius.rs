//! `gains radius`: the largest certified and the smallest attacked radius of every sample.

mod search;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crate::campaign::{budget, counted, report_panic};
use crate::cli::{Global, RadiusArgs, RegionArgs, WorkArgs};
use crate::failure::{Failure, Outcome};
use crate::output::plain;
use crate::panics::Panicked;
use crate::question::{
    Answer, AttackPlan, Budget, Findings, Model, Plan, Purpose, Reason, Struck, Verdict, Witness,
    precision_of,
};
use crate::results::{Line, RadiusPart, RadiusSetting, Results, Setting, VerdictWord};
use crate::runner::Stop;
use crate::subject::{Source, Subject};
use crate::table::layout;
use crate::{files, interrupt, panics, progress, runner, tell};

pub use search::Range;
use search::{Found, Probe, Radii, search};

/// Runs the command.
pub fn run(args: &RadiusArgs, global: &Global) -> Outcome {
    let model = Model::asking(files::load_model(args.model.as_deref())?, &args.property)?;
    let attack =
        (args.attack_steps > 0).then_some(AttackPlan { steps: args.attack_steps, ..AttackPlan::PAPER });
    let plan = Plan::new(model.task(), &args.bounds, attack, Purpose::Certify)?;
    let mut region: RegionArgs = args.region.clone();
    region.features.extend(args.feature.clone());
    let source = Source::open(&model, &args.data, &args.series, &region)?;
    let subject = source.subject(&model, &args.data, &args.series, &region)?;
    if subject.radii(&[args.max]) != [args.max] {
        return Err(Failure::usage("--box says what may move, so there is no radius to look for")
            .hint("give inputs with --inputs, and leave --box out"));
    }
    subject.check_radius(args.max)?;
    let radius = Some(RadiusSetting { gap: args.gap, bisect: args.bisect.word().into() });
    let setting = Setting { radius, ..Setting::new(&*subject, &plan, &args.work) };
    let range = Range { max: args.max, gap: args.gap, bisect: args.bisect };
    let survey = Survey::new(&*subject, plan, setting, range, &args.work, &interrupt::requested);
    survey.run(args, global)
}

/// All samples, and how their radii are looked for.
pub struct Survey<'a> {
    subject: &'a dyn Subject,
    work: &'a WorkArgs,
    stop: Stop<'a>,
    plan: Plan,
    setting: Setting,
    range: Range,
    /// The certified radius of the sample that was done last: a good place to start.
    last: AtomicU64,
    finished: AtomicUsize,
    /// Why no more was certified of samples an attack broke: their lines do not say.
    stopped: Mutex<BTreeMap<usize, Reason>>,
}

/// What was found out about one sample.
struct Surveyed {
    radii: Radii,
    /// What was found out at the largest certified radius, or at the first that was looked at.
    findings: Option<Findings>,
    witness: Option<Witness>,
    elapsed: Duration,
}

impl<'a> Survey<'a> {
    /// Samples whose radii are looked for, until `stop` says so.
    pub fn new(
        subject: &'a dyn Subject,
        plan: Plan,
        setting: Setting,
        range: Range,
        work: &'a WorkArgs,
        stop: Stop<'a>,
    ) -> Self {
        let (last, finished) = (AtomicU64::new(0), AtomicUsize::new(0));
        let stopped = Mutex::default();
        Self { subject, work, stop, plan, setting, range, last, finished, stopped }
    }

    fn run(&self, args: &RadiusArgs, global: &Global) -> Outcome {
        let mut results = Results::open(&args.output, &self.setting, self.subject)?;
        let (wanted, max) = (self.subject.indices(), self.range.max);
        let tasks: Vec<usize> = wanted.iter().copied().filter(|index| !results.has(*index, max)).collect();
        if !global.quiet && tasks.len() < wanted.len() {
            let there = wanted.len() - tasks.len();
            tell::note(&format!("{there} of {} results are there already", wanted.len()));
        }
        let threads = runner::threads(self.work.threads);
        let bar = progress::bar(tasks.len() as u64, global.quiet, progress::ITEMS);
        bar.set_prefix("radius");
        let is_wanted = |line: &&Line| wanted.contains(&line.index) && line.eps == max;
        let mut lines: Vec<Line> = results.earlier.iter().filter(is_wanted).cloned().collect();
        let started = Instant::now();
        let outcome = self.each(
            &tasks,
            |line| {
                results.push(&line)?;
                bar.inc(1);
                lines.push(line);
                Ok(())
            },
            |index, panicked| report_panic(&bar, self.subject, (index, None), panicked),
        );
        bar.finish_and_clear();
        outcome?;
        let text = self.summary(args, &lines, started.elapsed(), threads);
        tell::summary(&text, results.to_stdout())?;
        if interrupt::requested() {
            let hint = if args.output.out.is_some() { "; go on with --resume" } else { "" };
            tell::note(&format!("interrupted after {} of {} results{hint}", lines.len(), wanted.len()));
        }
        Ok(())
    }

    /// Looks for the radii of samples and hands over their lines, and panics before them.
    pub fn each(
        &self,
        samples: &[usize],
        mut take: impl FnMut(Line) -> Outcome,
        panicking: impl Fn(usize, &Panicked),
    ) -> Outcome {
        let threads = runner::threads(self.work.threads);
        let work = |&index: &usize| self.one(index, samples.len(), threads);
        runner::for_each_until(self.stop, samples, threads, work, |&index, surveyed| {
            let surveyed = match surveyed {
                // A sample that was cut short by Ctrl-C has no result; it is done again on resuming.
                Ok(surveyed) if surveyed.radii.reason == Some(Reason::Interrupted) => return Ok(()),
                Ok(surveyed) => surveyed,
                Err(panicked) => {
                    panicking(index, &panicked);
                    let reason = Some(Reason::Internal(panicked.to_string()));
                    let radii = Radii { reason, ..Radii::default() };
                    Surveyed { radii, findings: None, witness: None, elapsed: panicked.elapsed }
                }
            };
            take(self.line(index, surveyed))
        })
    }

    fn one(&self, index: usize, tasks: usize, threads: usize) -> Surveyed {
        panics::provoke(index);
        let left = tasks.saturating_sub(self.finished.load(Ordering::Relaxed)).max(1);
        let last = f64::from_bits(self.last.load(Ordering::Relaxed));
        let mut looking = Looking {
            survey: self,
            index,
            workers: (threads / left).max(1),
            started: Instant::now(),
            witness: None,
            findings: None,
        };
        let mut radii = search(self.range, Some(last), &mut looking);
        if radii.certified > 0.0 {
            self.last.store(radii.certified.to_bits(), Ordering::Relaxed);
        }
        if (self.stop)() {
            radii.reason = Some(Reason::Interrupted);
        }
        // What breaks the property inside of what was certified is a fault of ours, and nothing is certified.
        let inside = |witness: &Witness| looking.tried(radii.certified, witness).is_some();
        if radii.certified > 0.0 && looking.witness.as_ref().is_some_and(inside) {
            radii = Radii { reason: Some(Reason::Contradicted), probes: radii.probes, ..Radii::default() };
            looking.witness = None;
        }
        self.finished.fetch_add(1, Ordering::Relaxed);
        let Looking { findings, witness, started, .. } = looking;
        Surveyed { radii, findings, witness, elapsed: started.elapsed() }
    }

    /// The line of a sample: what is known at the largest radius, and the two that were looked for.
    fn line(&self, index: usize, surveyed: Surveyed) -> Line {
        let Surveyed { radii, findings, witness, elapsed } = surveyed;
        if let (Some(reason), Ok(mut stopped)) = (&radii.reason, self.stopped.lock()) {
            stopped.insert(index, reason.clone());
        }
        let verdict = match (radii.wrong, witness) {
            (true, _) => Verdict::Misclassified,
            (false, _) if radii.certified >= self.range.max => Verdict::Verified,
            (false, Some(witness)) if radii.attacked.is_some() => Verdict::Falsified(witness),
            _ => Verdict::Unknown(radii.reason.unwrap_or(Reason::TimeLimit { seconds: self.work.timeout })),
        };
        let findings = findings.unwrap_or_else(|| Findings::nothing(self.subject.task()));
        let answer = Answer { verdict, findings, stages: Vec::new(), graph: None, bounds: None, elapsed };
        let radius = RadiusPart {
            certified_radius: radii.certified,
            attacked_radius: radii.attacked,
            probes: radii.probes,
        };
        let line = Line::new(index, self.range.max, answer, self.subject, &self.setting);
        Line { radius: Some(radius), ..line }
    }

    /// Why no more was certified, in a line.
    fn reasons(&self, lines: &[Line]) -> String {
        let stopped = self.stopped.lock().map(|stopped| stopped.clone()).unwrap_or_default();
        let why = |line: &Line| match (stopped.get(&line.index), &line.reason_code) {
            (Some(reason), _) => Some((reason.code().to_string(), Some(reason.to_string()))),
            (None, Some(code)) => Some((code.clone(), line.reason.clone())),
            (None, None) => None,
        };
        let right = lines.iter().filter(|line| line.verdict != VerdictWord::Misclassified);
        counted(right.filter_map(why))
            .map(|told| format!("nothing larger certified: {told}\n"))
            .unwrap_or_default()
    }

    fn timeout(&self) -> Duration {
        Duration::from_secs_f64(self.work.timeout)
    }

    fn summary(&self, args: &RadiusArgs, lines: &[Line], elapsed: Duration, threads: usize) -> String {
        let network = self.subject.network();
        let (samples, question) = self.subject.heading(self.subject.indices().len());
        let question = question.map_or(String::new(), |question| format!("{question}\n"));
        let model = args.model.as_deref().and_then(Path::file_name);
        let model = model.map_or("bundled model".into(), |name| plain(&name.to_string_lossy()).into_owned());
        let wrong = lines.iter().filter(|line| line.verdict == VerdictWord::Misclassified).count();
        format!(
            "\n{} ({model}), {} on {samples}, method {}, {} arithmetic, radii up to {}\n{question}\n{}\n\
             {} samples, {wrong} of them wrong without any change; {:.1} s on {threads} thread{}\n",
            plain(&network.description.name),
            network.hash,
            self.setting.method,
            self.setting.arithmetic,
            self.range.max,
            quantiles(lines) + &self.reasons(lines),
            lines.len(),
            elapsed.as_secs_f64(),
            if threads == 1 { "" } else { "s" },
        )
    }
}

/// Quantiles of both radii over the samples that are right without any change.
fn quantiles(lines: &[Line]) -> String {
    let right = || lines.iter().filter(|line| line.verdict != VerdictWord::Misclassified);
    let parts = || right().filter_map(|line| line.radius.as_ref());
    let row = |name: &str, mut values: Vec<f64>| {
        values.sort_by(f64::total_cmp);
        let at = |part: f64| {
            let place = (part * values.len().saturating_sub(1) as f64).round() as usize;
            values.get(place).map_or("–".into(), |value| format!("{value:.5}"))
        };
        let shares = [0.0, 0.1, 0.25, 0.5, 0.75, 0.9, 1.0].map(at);
        [name.to_string(), values.len().to_string()].into_iter().chain(shares).collect::<Vec<_>>()
    };
    let rows = [
        row("certified", parts().map(|radius| radius.certified_radius).collect()),
        row("attacked", parts().filter_map(|radius| radius.attacked_radius).collect()),
    ];
    layout(&["radius", "samples", "least", "10 %", "25 %", "median", "75 %", "90 %", "largest"], &rows)
}

/// One sample being looked at.
struct Looking<'a> {
    survey: &'a Survey<'a>,
    index: usize,
    workers: usize,
    started: Instant,
    witness: Option<Witness>,
    findings: Option<Findings>,
}

/// The part of a sample's time that is kept for attacks.
const KEPT: f64 = 0.15;

/// The part of a sample's time below which nothing is begun.
const LEAST: f64 = 0.01;

/// The part of what is left that one look may take: one hopeless radius must not take all.
const SHARE: f64 = 0.4;

impl Looking<'_> {
    /// Time left, without what is kept for attacks.
    fn left(&self, attacks: bool) -> Duration {
        let whole = self.survey.timeout();
        let allowed = if attacks { whole } else { whole.mul_f64(1.0 - KEPT) };
        allowed.saturating_sub(self.started.elapsed())
    }

    fn budget(&self, time: Duration) -> Budget<'_> {
        Budget { timeout: Some(time), ..budget(self.survey.work, self.survey.stop) }
    }

    fn tried(&self, radius: f64, witness: &Witness) -> Option<Witness> {
        let question = self.survey.subject.question(self.index, radius);
        question.broken_by(witness, self.survey.plan.arithmetic, self.budget(self.survey.timeout()))
    }
}

impl Probe for Looking<'_> {
    fn has_time(&self, attacks: bool) -> bool {
        // What is too short for anything is not begun.
        !(self.survey.stop)() && self.left(attacks) > self.survey.timeout().mul_f64(LEAST)
    }

    fn decide(&mut self, radius: f64) -> Found {
        let Survey { subject, plan, .. } = self.survey;
        let time = self.left(false).mul_f64(SHARE);
        let question = subject.question(self.index, radius);
        let answer = question.decide(plan, self.index as u64, self.workers, self.budget(time));
        let found = match answer.verdict {
            Verdict::Verified => Found::Verified { margin: answer.findings.margin() },
            Verdict::Falsified(witness) => {
                self.witness = Some(witness);
                Found::Falsified
            }
            Verdict::Unknown(reason) => Found::Unknown(reason),
            Verdict::Misclassified => Found::Wrong,
        };
        if self.findings.is_none() || matches!(found, Found::Verified { .. }) {
            self.findings = Some(answer.findings);
        }
        found
    }

    fn project(&mut self, radius: f64) -> bool {
        let moved = self.witness.as_ref().and_then(|witness| self.tried(radius, witness));
        let broken = moved.is_some();
        self.witness = moved.or(self.witness.take());
        broken
    }

    fn attack(&mut self, radius: f64) -> bool {
        let Survey { subject, plan, .. } = self.survey;
        let Some(attack) = plan.attack else { return false };
        // However few steps there are, they cross the region.
        let step_size = attack.step_size.max(4.0 * radius / attack.steps as f64);
        let attack = AttackPlan { step_size, ..attack.on(self.index as u64) };
        let question = subject.question(self.index, radius);
        let budget = self.budget(self.left(true));
        let witness = match question.attack(&attack, precision_of(plan.arithmetic), budget) {
            Struck::Classes { broken, .. } => broken.map(|broken| broken.0),
            Struck::Regression { broken, .. } => broken.map(|broken| broken.0),
            Struck::Forecasts { broken, .. } => broken,
        };
        let broken = witness.is_some();
        self.witness = witness.or(self.witness.take());
        broken
    }
}
