//! `gains bench growth`: what verification costs as eps, the end time and the state grow.

mod picture;
mod plan;
mod summary;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use gains_core::Precision;
use gains_data::Images;
use gains_ode::Inference;
use gains_verify::limits::{Clock, Reason};
use gains_verify::verifier::Settings;
use gains_verify::{Budget, Method, Verifier};

use super::correct_samples;
use crate::cli::{Global, GrowthArgs};
use crate::failure::{Failure, Outcome};
use crate::output::{note, plain, print, say};
use crate::samples::Selection;
use crate::table::{layout, median};
use crate::{files, interrupt, progress};
use plan::{Plan, Point};

/// The methods compared.
const METHODS: [Method; 2] = [Method::Gains, Method::Tight];

/// One sample at one point of the study.
struct Measured {
    method: Method,
    /// Index into [`Plan::points`].
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
    let plan = Plan::new(args)?;
    let mut data = args.data.clone();
    data.samples =
        Some(data.samples.map_or_else(|| "0..10".parse::<Selection>(), Ok).map_err(Failure::usage)?);
    let base = plan.base().network();
    let (images, samples) = correct_samples(&data, base)?;
    if samples.is_empty() {
        return Err(Failure::usage(
            "none of the chosen samples is classified correctly, so none is measured",
        )
        .hint("choose others with --samples, e.g. --samples 0..20"));
    }
    let all = measure(args, &plan, &images, &samples, global);
    if interrupt::requested() {
        let asked = samples.len() * plan.points.len() * METHODS.len();
        note!("interrupted after {} of {asked} measurements; this is what they say", all.len());
    }
    let title = format!("{}, {} correct samples, one thread", plain(&base.description.name), samples.len());
    say!("{title}, median of {} round(s), limit {} s a sample\n", args.rounds, args.timeout)?;
    let panels = summary::panels(&plan, &all);
    print(&layout(&summary::HEADER, &summary::rows(&panels)))?;
    if let Some((svg, csv)) = targets.filter(|_| !all.is_empty()) {
        files::write_atomically(&svg, picture::draw(&title, &panels)?.as_bytes())?;
        files::write_atomically(&csv, &summary::csv(&plan, &all)?)?;
        if !global.quiet {
            note!("wrote {} and {}", svg.display(), csv.display());
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
    plan: &Plan,
    images: &Images,
    samples: &[usize],
    global: &Global,
) -> Vec<Measured> {
    let length = samples.len() * plan.points.len() * METHODS.len();
    let bar = progress::bar(length as u64, global.quiet, progress::ITEMS);
    bar.set_prefix("growth");
    let mut all = Vec::with_capacity(length);
    'samples: for &sample in samples {
        let image = images.image(sample);
        for (index, point) in plan.points.iter().enumerate() {
            for method in METHODS {
                bar.set_message(format!("{method}, {}", plan.describe(point)));
                let result = cost(args, plan.verifier(point), point, &image, method);
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

/// The median over the rounds; one round without an end makes the sample unfinished.
fn cost(args: &GrowthArgs, verifier: &Verifier, point: &Point, image: &[f64], method: Method) -> Cost {
    let mut last = Cost::Unfinished(Reason::Interrupted);
    let mut times = Vec::new();
    for _ in 0..args.rounds {
        last = once(args, verifier, point.eps, image, method);
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

/// Bounds once. The property is that the network keeps the answer it gives without a change: another end time
/// makes another network, which need not find the label.
fn once(args: &GrowthArgs, verifier: &Verifier, eps: f64, image: &[f64], method: Method) -> Cost {
    let answer = match Inference::run(verifier.network(), image, Precision::Float64) {
        Ok(run) => run.prediction(),
        Err(error) => return Cost::Unfinished(Reason::Concrete(error.to_string())),
    };
    let clock = Clock::start(Budget {
        timeout: Some(Duration::from_secs_f64(args.timeout)),
        interrupted: &interrupt::requested,
        ..Budget::default()
    });
    let started = Instant::now();
    let outcome = verifier.bounds(image, answer, eps, method, &Settings::default(), clock);
    match outcome {
        Ok((bounds, analysis)) => {
            let (vertices, edges) = analysis.graph_size();
            let verified = bounds.margin() > 0.0;
            drop(analysis);
            Cost::Finished { seconds: started.elapsed().as_secs_f64(), vertices, edges, verified }
        }
        Err(reason) => Cost::Unfinished(reason),
    }
}
