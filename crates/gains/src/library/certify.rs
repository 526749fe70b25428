//! Verdicts, radii, attacks, trajectories and forecasts.

use std::path::PathBuf;
use std::time::Instant;

use gains_core::Precision;
use serde_json::Value;

use super::{Model, Options, Samples, options};
use crate::campaign::{self, Campaign, Observer, budget, check_radii, items};
use crate::cli::{BisectArg, ForecastArgs, Format, LossArg, OutputArgs, PropertyArgs};
use crate::commands::{forecast, radius, trajectory};
use crate::failure::Failure;
use crate::question::{AttackLoss, AttackPlan, Budget, Struck, micro};
use crate::results::{Line, RadiusSetting, Setting};
use crate::runner::{self, Stop};
use crate::subject::{Source, Subject};

/// Nobody follows.
pub struct Quiet;

impl Observer for Quiet {
    fn begin(&mut self, _there: usize, _wanted: usize) {}

    fn note(&mut self, _text: &str) {}

    fn done(&mut self, _line: &Line) {}
}

/// A result file, as the command line writes it.
#[derive(Clone, Debug)]
pub struct Out {
    /// Where.
    pub path: PathBuf,
    /// Whether to go on with one.
    pub resume: bool,
}

/// How an attack goes about it.
#[derive(Clone, Debug)]
pub struct Way {
    /// Gradient steps per start.
    pub steps: usize,
    /// Size of one step.
    pub step_size: f64,
    /// Random starts.
    pub restarts: usize,
    /// `cross-entropy` or `margin`.
    pub loss: Option<String>,
    /// Seed of the random starts.
    pub seed: u64,
}

/// One attacked sample.
#[derive(Clone, Debug)]
pub struct Attacked {
    /// Its number.
    pub index: usize,
    /// Radius.
    pub eps: f64,
    /// What came out; nothing if the attack panicked.
    pub struck: Option<Struck>,
    /// How long it took.
    pub seconds: f64,
}

/// How radii are looked for.
#[derive(Clone, Debug)]
pub struct Search {
    /// The largest.
    pub max: f64,
    /// How close they must come.
    pub gap: f64,
    /// `log` or `plain`.
    pub bisect: String,
}

impl Model {
    /// Decides samples at radii: all of them, or those that are chosen. The answers come in the order of the questions; an
    /// interrupted run has fewer.
    pub fn certify(
        &self,
        samples: &Samples,
        chosen: Option<&[usize]>,
        eps: &[f64],
        options: &Options,
        out: Option<&Out>,
        stop: Stop<'_>,
        observer: &mut dyn Observer,
    ) -> Result<Vec<Line>, Failure> {
        let model = options.asking(self)?;
        let (plan, work) = (options.plan(&model)?, options.work()?);
        let subject = samples.subject(&model, &options.region()?)?;
        let radii = radii(&*subject, eps)?;
        let wanted = items(choose(&*subject, chosen)?, &radii);
        let output = out.map_or_else(options::nowhere, |out| OutputArgs {
            out: Some(out.path.clone()),
            format: Format::Jsonl,
            resume: out.resume,
        });
        let mut lines = Campaign::new(&*subject, &plan, &work, stop).run(&wanted, &output, observer)?;
        in_order(&mut lines, &wanted);
        Ok(lines)
    }

    /// Looks for the largest certified and the smallest attacked radius of samples.
    pub fn radius(
        &self,
        samples: &Samples,
        chosen: Option<&[usize]>,
        search: &Search,
        options: &Options,
        stop: Stop<'_>,
        observer: &mut dyn Observer,
    ) -> Result<Vec<Line>, Failure> {
        let model = options.asking(self)?;
        let (plan, work) = (options.plan(&model)?, options.work()?);
        let subject = samples.subject(&model, &options.region()?)?;
        let max = options::positive("max", search.max)?;
        let gap = options::positive("gap", search.gap)?;
        let bisect: BisectArg = options::word("bisect", &search.bisect)?;
        radii(&*subject, &[max])?;
        let setting = Setting {
            radius: Some(RadiusSetting { gap, bisect: bisect.word().into() }),
            ..Setting::new(&*subject, &plan, &work)
        };
        let range = radius::Range { max, gap, bisect };
        let survey = radius::Survey::new(&*subject, plan, setting, range, &work, stop);
        let chosen = choose(&*subject, chosen)?;
        observer.begin(0, chosen.len());
        let mut lines = Vec::new();
        let take = |line: Line| {
            observer.done(&line);
            lines.push(line);
            Ok(())
        };
        survey.each(chosen, take, |_, _| ())?;
        in_order(&mut lines, &items(chosen, &[max]));
        Ok(lines)
    }

    /// Attacks samples at radii.
    pub fn attack(
        &self,
        samples: &Samples,
        eps: &[f64],
        way: &Way,
        precision: Precision,
        options: &Options,
        stop: Stop<'_>,
    ) -> Result<Vec<Attacked>, Failure> {
        let model = options.asking(self)?;
        let subject = samples.subject(&model, &options.region()?)?;
        let radii = radii(&*subject, eps)?;
        let loss: Option<LossArg> =
            way.loss.as_deref().map(|loss| options::word("loss", loss)).transpose()?;
        let plan = AttackPlan {
            steps: way.steps,
            step_size: options::positive("step_size", way.step_size)?,
            restarts: way.restarts,
            loss: loss.map_or(AttackLoss::CrossEntropy, Into::into),
            seed: way.seed,
        };
        let budget = Budget { interrupted: stop, ..campaign::unlimited() };
        let work = |&(index, eps): &(usize, f64)| {
            let started = Instant::now();
            let struck = subject.question(index, eps).attack(&plan.on(index as u64), precision, budget);
            (struck, micro(started.elapsed()))
        };
        let tasks = items(subject.indices(), &radii);
        let threads = runner::threads(options::threads(options.threads)?);
        let mut attacked = Vec::new();
        runner::for_each_until(stop, &tasks, threads, work, |&(index, eps), outcome| {
            let (struck, seconds) = match outcome {
                Ok((struck, seconds)) => (Some(struck), seconds),
                Err(panicked) => (None, micro(panicked.elapsed)),
            };
            attacked.push(Attacked { index, eps, struck, seconds });
            Ok(())
        })?;
        let place = |one: &Attacked| tasks.iter().position(|task| *task == (one.index, one.eps));
        attacked.sort_by_key(place);
        Ok(attacked)
    }

    /// The trajectory of a sample and the graph of all that its region can cause, as `gains trajectory --json` writes
    /// them, with a picture under `svg`.
    pub fn trajectory(
        &self,
        samples: &Samples,
        sample: usize,
        eps: f64,
        options: &Options,
        stop: Stop<'_>,
    ) -> Result<Value, Failure> {
        let model = options.asking(self)?;
        let plan = options.plan(&model)?;
        let subject = samples.subject(&model, &options.region()?)?;
        let radii = radii(&*subject, &[eps])?;
        trajectory::explore(&*subject, (sample, radii[0]), &plan, options.max_vertices, stop)
    }

    /// Everything about one forecast, as `gains forecast --json` writes it.
    pub fn forecast(
        &self,
        samples: &Samples,
        record: Option<&str>,
        eps: f64,
        options: &Options,
        stop: Stop<'_>,
    ) -> Result<Value, Failure> {
        let model = options.asking(self)?;
        let Source::Series(source) = &samples.source else {
            return Err(Failure::usage(format!("'{}' forecasts no series", self.network().description.name))
                .hint("for inputs of fixed size there are predict and bounds"));
        };
        let bounds = options.bounds()?;
        let args = ForecastArgs {
            model: PathBuf::new(),
            record: record.map(String::from),
            eps: options::size("eps", eps)?,
            data_dir: None,
            method: bounds.method,
            arithmetic: bounds.arithmetic,
            steps: options.attack_steps,
            plot: Vec::new(),
            svg: None,
            json: None,
            work: options.work()?,
            series: samples.series.clone(),
            region: options.region()?,
            property: PropertyArgs::default(),
        };
        forecast::explore(&args, &model, source, stop)
    }

    /// Certified intervals of the outputs over the boxes of samples, or over what is within a radius of them: lower and
    /// upper ends, sample by sample; why there are none where there are none.
    #[allow(clippy::type_complexity)]
    pub fn bounds(
        &self,
        samples: &Samples,
        eps: f64,
        options: &Options,
        stop: Stop<'_>,
    ) -> Result<Vec<Result<(Vec<f64>, Vec<f64>), String>>, Failure> {
        let model = options.asking(self)?;
        let (ways, work) = (options.ways(&model)?, options.work()?);
        let subject = samples.subject(&model, &options.region()?)?;
        let eps = radii(&*subject, &[eps])?[0];
        let indices = subject.indices();
        let tasks: Vec<usize> = (0..indices.len()).collect();
        let mut found: Vec<Result<(Vec<f64>, Vec<f64>), String>> =
            vec![Err("interrupted".into()); indices.len()];
        let one = |&at: &usize| {
            let question = subject.question(indices[at], eps);
            question.intervals(&ways, budget(&work, stop)).map_err(|reason| reason.to_string())
        };
        runner::for_each_until(stop, &tasks, runner::threads(work.threads), one, |&at, outcome| {
            found[at] = outcome
                .unwrap_or_else(|panicked| Err(format!("gains panicked: {panicked}")))
                .map(|all| (all.lower, all.upper));
            Ok(())
        })?;
        Ok(found)
    }
}

/// The radii that are asked about, all of which make sense.
fn radii(subject: &dyn Subject, eps: &[f64]) -> Result<Vec<f64>, Failure> {
    eps.iter().try_for_each(|eps| options::size("eps", *eps).map(drop))?;
    let radii = subject.radii(eps);
    if radii.is_empty() {
        return Err(Failure::usage("no radius is given").hint("give at least one as eps"));
    }
    check_radii(subject, &radii)?;
    Ok(radii)
}

/// The samples that are asked about.
fn choose<'a>(subject: &'a dyn Subject, chosen: Option<&'a [usize]>) -> Result<&'a [usize], Failure> {
    let Some(chosen) = chosen else { return Ok(subject.indices()) };
    let there: std::collections::HashSet<&usize> = subject.indices().iter().collect();
    match chosen.iter().find(|index| !there.contains(index)) {
        None => Ok(chosen),
        Some(index) => Err(Failure::usage(format!("there is no sample {index} among {}", there.len()))
            .hint("samples are numbers of the first axis, from 0 on")),
    }
}

/// Puts lines in the order of their questions.
fn in_order(lines: &mut [Line], wanted: &[(usize, f64)]) {
    let places: std::collections::HashMap<(usize, u64), usize> =
        wanted.iter().enumerate().map(|(at, (index, eps))| ((*index, eps.to_bits()), at)).collect();
    lines.sort_by_key(|line| places.get(&(line.index, line.eps.to_bits())).copied());
}
