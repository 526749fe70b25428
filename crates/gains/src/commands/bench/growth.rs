//! `gains bench growth`: what verification costs as eps, the end time and the state grow.

mod picture;
mod plan;
mod summary;

use std::path::{Path, PathBuf};
use std::time::Instant;

use gains_core::Arithmetic;

use super::{budget, measured_samples};
use crate::campaign::watch;
use crate::cli::{Global, GrowthArgs, RegionArgs, SeriesArgs};
use crate::failure::{Failure, Outcome};
use crate::output::plain;
use crate::question::{Method, Question, Reason, StepForm, Task, Way};
use crate::subject::{Selection, Source, Subject};
use crate::table::{layout, median};
use crate::{files, interrupt, panics, progress, tell};
use plan::{GrowthPlan, Point};

/// Seconds that a sample may take to be chosen, where a measurement may take less.
const CHOOSING: f64 = 30.0;

/// The methods compared.
const METHODS: [Method; 2] = [Method::Gains, Method::Tight];

/// One sample at one point of the study.
struct Measured {
    method: Method,
    /// Index into [`GrowthPlan::points`].
    point: usize,
    sample: usize,
    result: Cost,
}

/// What a sample took.
#[derive(Clone, Debug, PartialEq)]
enum Cost {
    /// The analysis came to its end.
    Finished { seconds: f64, vertices: usize, edges: usize, verified: bool },
    /// It was given up; why. There is no time to report, the sample would have taken longer.
    Unfinished(Reason),
}

/// Runs the study.
pub fn run(args: &GrowthArgs, global: &Global) -> Outcome {
    let targets = args.svg.as_deref().map(targets).transpose()?;
    let plan = GrowthPlan::new(args)?;
    let mut data = args.data.clone();
    data.samples =
        Some(data.samples.map_or_else(|| "0..10".parse::<Selection>(), Ok).map_err(Failure::usage)?);
    let base = plan.base();
    if base.task() != Task::Classes {
        return Err(Failure::usage("bench growth is for models that classify images")
            .hint("`gains bench` measures forecasting models"));
    }
    if !data.own.boxes.is_empty() {
        return Err(
            Failure::usage("bench growth lets eps grow, so it takes no --box").hint("give the inputs alone")
        );
    }
    let (series, region) = (SeriesArgs::default(), RegionArgs::default());
    let source = Source::open(base, &data, &series, &region)?;
    let subject = source.subject(base, &data, &series, &region)?;
    // The limit is that of a measurement; choosing samples is none, and has one of its own where that is short.
    let samples = measured_samples(&*subject, budget(args.timeout.max(CHOOSING)));
    if interrupt::requested() {
        return Ok(());
    }
    if samples.is_empty() {
        return Err(Failure::usage(
            "none of the chosen samples is classified correctly, so none is measured",
        )
        .hint("choose others with --samples, e.g. --samples 0..20"));
    }
    let all = measure(args, &plan, &*subject, &samples, global);
    if interrupt::requested() {
        let asked = samples.len() * plan.points.len() * METHODS.len();
        tell::note(&format!(
            "interrupted after {} of {asked} measurements; this is what they say",
            all.len()
        ));
    }
    let name = plain(&base.network().description.name);
    let title = format!("{name}, {} correct samples, one thread", samples.len());
    let panels = summary::panels(&plan, &all);
    tell::print(&format!(
        "{title}, median of {} round(s), limit {} s a sample\n\n{}",
        args.rounds,
        args.timeout,
        layout(&summary::HEADER, &summary::rows(&panels))
    ))?;
    if let Some((svg, csv)) = targets.filter(|_| !all.is_empty()) {
        files::write_atomically(&svg, picture::draw(&title, &panels)?.as_bytes())?;
        files::write_atomically(&csv, &summary::csv(&plan, &all)?)?;
        if !global.quiet {
            tell::note(&format!("wrote {} and {}", svg.display(), csv.display()));
        }
    }
    Ok(())
}

/// The picture and the numbers beside it; checked before minutes are spent on measuring.
fn targets(svg: &Path) -> Result<(PathBuf, PathBuf), Failure> {
    if svg.extension().is_none_or(|e| !e.eq_ignore_ascii_case("svg")) {
        return Err(Failure::usage(format!("'{}' does not end in .svg", svg.display()))
            .hint("the picture goes to FILE.svg, the numbers to FILE.csv beside it"));
    }
    let folder = svg.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    if !folder.is_dir() {
        return Err(Failure::usage(format!("there is no folder '{}' to write to", folder.display()))
            .hint("make it first"));
    }
    Ok((svg.to_path_buf(), svg.with_extension("csv")))
}

/// Measures sample by sample, each at every point, so that an interrupted study has all its points.
fn measure(
    args: &GrowthArgs,
    plan: &GrowthPlan,
    subject: &dyn Subject,
    samples: &[usize],
    global: &Global,
) -> Vec<Measured> {
    let length = samples.len() * plan.points.len() * METHODS.len();
    let bar = progress::bar(length as u64, global.quiet, progress::ITEMS);
    bar.set_prefix("growth");
    let mut all = Vec::with_capacity(length);
    'samples: for &sample in samples {
        for (index, point) in plan.points.iter().enumerate() {
            for method in METHODS {
                bar.set_message(format!("{}, {}", method, plan.describe(point)));
                let result = cost(args, &ask(subject, plan, point, sample), method);
                if result == Cost::Unfinished(Reason::Interrupted) {
                    break 'samples;
                }
                all.push(Measured { method, point: index, sample, result });
                bar.inc(1);
            }
        }
    }
    bar.finish_and_clear();
    all
}

/// The question at a point: that the network keeps the answer it gives without a change. Another end time makes
/// another network, which need not find the label.
fn ask<'a>(
    subject: &dyn Subject,
    plan: &'a GrowthPlan,
    point: &Point,
    sample: usize,
) -> Result<Question<'a>, Reason> {
    let network = plan.model(point).network();
    let asked = subject.question(sample, point.eps).about_own_answer(network, &watch());
    asked.map_err(|why| if interrupt::requested() { Reason::Interrupted } else { Reason::Concrete(why) })
}

/// The median over the rounds; one round without an end makes the sample unfinished.
fn cost(args: &GrowthArgs, question: &Result<Question<'_>, Reason>, method: Method) -> Cost {
    let question = match question {
        Ok(question) => question,
        Err(reason) => return Cost::Unfinished(reason.clone()),
    };
    let mut last = Cost::Unfinished(Reason::Interrupted);
    let mut times = Vec::new();
    for _ in 0..args.rounds {
        last = panics::contain(|| once(args, question, method))
            .unwrap_or_else(|caught| Cost::Unfinished(Reason::Internal(caught.to_string())));
        match last {
            Cost::Finished { seconds, .. } => times.push(seconds),
            Cost::Unfinished(_) => return last,
        }
    }
    if let (Cost::Finished { seconds, .. }, Some(middle)) = (&mut last, median(times)) {
        *seconds = middle;
    }
    last
}

/// Bounds once.
fn once(args: &GrowthArgs, question: &Question<'_>, method: Method) -> Cost {
    let budget = budget(args.timeout);
    let way = Way { method, step_form: StepForm::Independent, arithmetic: Arithmetic::Real };
    let started = Instant::now();
    match question.bound(way, budget, |bounded| (bounded.size, bounded.margin > 0.0)) {
        Ok(((vertices, edges), verified)) => {
            Cost::Finished { seconds: started.elapsed().as_secs_f64(), vertices, edges, verified }
        }
        Err(reason) => Cost::Unfinished(reason),
    }
}
