//! From a problem to a verdict.

mod bounding;
mod race;

use std::time::{Duration, Instant};

use gains_core::{Arithmetic, BoxVec, Operator, Precision, Program, Step};
use gains_ode::Inference;

use crate::analysis::{Analysis, Bounds};
use crate::attack::{Attack, AttackLoss, Hunt};
use crate::bisect::Bisection;
use crate::branch::{Branched, Brancher, Lean, Task};
use crate::limits::{Budget, Clock, Reason};
use crate::looseness::Looseness;
use crate::method::Method;
use crate::problem::{Point, Problem};
use crate::property::largest;
use crate::steps::StepForm;

/// What is known about one problem.
#[derive(Clone, Debug, PartialEq)]
pub enum Verdict {
    /// The property holds for every input in the region.
    Verified,
    /// An input in the region violates it; it has been run by the concrete solver.
    Falsified {
        /// One value for each input of the program.
        witness: Point,
    },
    /// Neither could be shown.
    Unknown(Reason),
    /// The sample itself violates it.
    Misclassified,
}

impl Verdict {
    /// The word used in result files.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Verified => "verified",
            Self::Falsified { .. } => "falsified",
            Self::Unknown(_) => "unknown",
            Self::Misclassified => "misclassified",
        }
    }
}

/// One thing to try on a problem.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Stage {
    /// Look for a counterexample.
    Attack(Attack),
    /// Bound the margin with one method.
    Bound(Method),
    /// The same, only if no stage before could bound it at all.
    Rescue(Method),
    /// The same in a small part of the time, and only where it may be enough.
    Try(Method),
    /// Slopes improved by gradient, then case distinctions, starting from what [`Method::Tight`] proves.
    Branch,
    /// What is left of the time, shared between case distinctions, affine forms, halves of the region and attacks, by how
    /// far each of them comes.
    Race,
}

impl Stage {
    /// A stage for each of the methods.
    pub fn bounds(methods: &[Method]) -> Vec<Self> {
        methods.iter().map(|&method| Self::Bound(method)).collect()
    }
}

/// How to verify.
#[derive(Clone, Debug)]
pub struct Settings {
    /// What to try, in order; the first that decides wins.
    pub stages: Vec<Stage>,
    /// How solver steps are bounded, where the method leaves a choice.
    pub step_form: StepForm,
    /// Whose arithmetic the verdict is about.
    pub arithmetic: Arithmetic,
    /// Threads one problem may use.
    pub workers: usize,
    /// Whether intervals of all outputs are wanted, and not only a verdict.
    pub intervals: bool,
    /// An attack that is made in any case, whatever the stages have decided: for the worst that can be found.
    pub finally: Option<Attack>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            stages: vec![Stage::Bound(Method::Gains)],
            step_form: StepForm::Independent,
            arithmetic: Arithmetic::Real,
            workers: 1,
            intervals: false,
            finally: None,
        }
    }
}

/// How many times the largest lead at the sample boxes may fall short for rows to be tried.
const FAR_OFF: f64 = 1e5;

/// Whether a program has a recurrent encoder.
fn is_recurrent(program: &Program) -> bool {
    program.nodes().any(|(_, node)| matches!(node.operator, Step::Plain(Operator::Blend(_))))
}

impl Settings {
    /// The seed of all attacks that nobody has asked for.
    fn seed(&self) -> u64 {
        let seeds =
            self.stages.iter().map(|stage| if let Stage::Attack(attack) = stage { attack.seed } else { 0 });
        seeds.fold(0, u64::max)
    }

    /// The cascade `auto`: a short attack, so that no time goes into proving falsehoods, and ever more expensive
    /// bounds, each on what is left. `attack` comes before the expensive part, in which several ways share the time;
    /// for recurrent encoders, states are tightened one by one where boxes cannot enclose the trajectories.
    pub fn cascade(program: &Program, radius: f64, attack: Option<Attack>) -> Self {
        let seed = attack.map_or(0, |a| a.seed);
        let margin = Attack { loss: AttackLoss::Margin, seed, ..Attack::default() };
        let attack = attack.map(Stage::Attack);
        let stages = if is_recurrent(program) {
            let short = Attack { steps: 15, ..margin }.crossing(radius);
            let mut stages = vec![
                Stage::Bound(Method::Box),
                Stage::Bound(Method::Gains),
                Stage::Attack(short),
                Stage::Bound(Method::Tight),
                Stage::Rescue(Method::Stepwise),
            ];
            stages.extend(attack);
            stages
        } else {
            let short = Attack { steps: 20, step_size: radius / 6.0, ..margin };
            let mut stages = vec![
                Stage::Attack(short),
                Stage::Bound(Method::Box),
                Stage::Try(Method::Symbolic),
                Stage::Bound(Method::Tight),
            ];
            stages.extend(attack);
            stages.push(Stage::Race);
            stages
        };
        Self { stages, step_form: StepForm::Difference, ..Self::default() }
    }
}

/// What one stage did.
#[derive(Clone, Debug, PartialEq)]
pub struct StageReport {
    /// Its name: `attack`, the name of a method, `slopes`, `branch` or `bisect`.
    pub name: String,
    /// Time it took.
    pub elapsed: Duration,
}

/// The outcome for one problem.
#[derive(Clone, Debug)]
pub struct Report {
    /// Outputs of the concrete solver at the sample; `None` if it failed.
    pub output: Option<Vec<f64>>,
    /// The verdict.
    pub verdict: Verdict,
    /// Largest proved lower bound of the margin, if a method finished: of the smallest difference of logits, or of the
    /// distance of an error from its limit.
    pub margin: Option<f64>,
    /// Proved lower bounds of all rows of a linear property, of each the best that any method found; empty if none did.
    pub rows: Vec<f64>,
    /// Smallest margin an attack saw.
    pub attacked_margin: Option<f64>,
    /// The inputs that had it.
    pub attacked: Option<Point>,
    /// Intervals of the outputs, as far as they were asked for or came up: all, or those whose errors count.
    pub intervals: Option<BoxVec>,
    /// What was tried, in order; if the problem was decided, the last did it.
    pub stages: Vec<StageReport>,
    /// Where the best bound loses, if it was not enough and that was looked into.
    pub looseness: Option<Looseness>,
    /// The share of the region's volume in which the property is proven, where the region was halved.
    pub volume: Option<f64>,
    /// Size of the trajectory graph of the last method that finished: vertices and edges.
    pub graph: Option<(usize, usize)>,
    /// Time for the verdict.
    pub elapsed: Duration,
}

impl Report {
    fn new() -> Self {
        Self {
            output: None,
            verdict: Verdict::Misclassified,
            margin: None,
            rows: Vec::new(),
            attacked_margin: None,
            attacked: None,
            intervals: None,
            stages: Vec::new(),
            looseness: None,
            volume: None,
            graph: None,
            elapsed: Duration::ZERO,
        }
    }

    /// A report of a problem that could not be looked at.
    pub fn unknown(reason: Reason) -> Self {
        Self { verdict: Verdict::Unknown(reason), ..Self::new() }
    }

    /// The class predicted at the sample.
    pub fn prediction(&self) -> Option<usize> {
        self.output.as_deref().map(largest)
    }

    fn proved(&mut self, margin: f64) {
        self.margin = Some(self.margin.map_or(margin, |best| best.max(margin)));
    }

    /// Takes note of lower bounds of all rows and of the box that holds all outputs: both hold together with what was known.
    fn bounded(&mut self, rows: &[f64], outputs: &BoxVec) {
        self.rows.resize(rows.len(), f64::NEG_INFINITY);
        self.rows.iter_mut().zip(rows).for_each(|(best, row)| *best = best.max(*row));
        match &mut self.intervals {
            Some(known) if known.len() == outputs.len() => known.meet(outputs),
            known => *known = Some(outputs.clone()),
        }
    }

    /// Tells apart the time for better slopes over the whole region and that for its parts.
    fn note_branching(&mut self, found: &Branched, elapsed: Duration) {
        let slopes = if found.parts == 0 { Some(elapsed) } else { found.root };
        let mut note = |name: &str, elapsed| self.stages.push(StageReport { name: name.into(), elapsed });
        if let Some(slopes) = slopes {
            note("slopes", slopes);
        }
        if found.parts > 1 || slopes.is_none() {
            note("branch", elapsed.saturating_sub(slopes.unwrap_or_default()));
        }
    }

    /// Attacks, and takes note of what comes out.
    fn attack(&mut self, hunt: &Hunt<'_>, attack: &Attack) -> Option<Point> {
        let started = Instant::now();
        let found = hunt.run(attack);
        self.stages.push(StageReport { name: "attack".into(), elapsed: started.elapsed() });
        self.saw(found.margin, found.worst);
        found.witness
    }

    /// Takes note of the margin some inputs have.
    fn saw(&mut self, margin: f64, at: Option<Point>) {
        if self.attacked_margin.is_none_or(|m| margin < m) {
            self.attacked_margin = Some(margin);
            self.attacked = at;
        }
    }

    /// Whether boxes have gone so far beyond anything seen that rows over them cannot make up for it.
    fn is_far_off(&self, problem: &Problem<'_>) -> bool {
        let scale = self.output.as_ref().map_or(0.0, |output| problem.property.scale_at(output));
        self.margin.is_some_and(|margin| margin < -FAR_OFF * scale)
    }

    /// Whether intervals of all outputs leave out those of the sample itself. That cannot be, but for rounding.
    fn excludes_the_sample(&self) -> bool {
        let (Some(output), Some(all)) = (&self.output, &self.intervals) else { return false };
        let outside = |i: usize| {
            let (x, bounds) = (output[i], all.get(i));
            let slack = 1e-6 * (1.0 + x.abs());
            x < bounds.lower - slack || x > bounds.upper + slack
        };
        output.len() == all.len() && (0..output.len()).any(outside)
    }

    /// Whether more was proved than the sample itself, or an attacked one, has been seen to have. That cannot be,
    /// but for rounding.
    fn contradicts(&self, problem: &Problem<'_>, seen: f64) -> bool {
        let least = self.attacked_margin.map_or(seen, |margin| margin.min(seen));
        self.margin.is_some_and(|proved| proved > least + problem.property.rounding(least))
    }
}

/// Decides problems.
#[derive(Clone, Debug, Default)]
pub struct Verifier {
    /// How.
    pub settings: Settings,
}

/// How a program of some arithmetic is run.
pub fn precision_of(arithmetic: Arithmetic) -> Precision {
    match arithmetic {
        Arithmetic::Real => Precision::Float64,
        Arithmetic::Float32 => Precision::Float32,
    }
}

impl Verifier {
    /// A verifier with the given settings.
    pub fn new(settings: Settings) -> Self {
        Self { settings }
    }

    /// Encloses all values over the region of a problem and bounds its property by one method.
    pub fn bounds<'a>(
        &self,
        problem: &Problem<'a>,
        method: Method,
        clock: Clock<'a>,
    ) -> Result<(Bounds, Analysis<'a>), Reason> {
        let Settings { step_form, arithmetic, .. } = self.settings;
        let region = &problem.region;
        let analysis = Analysis::over(problem.program, region, method, step_form, arithmetic, clock)?;
        let bounds = analysis.bound(&problem.property.rows(problem.program.output_shape()))?;
        Ok((bounds, analysis))
    }

    /// The margin one method proves, and what it was proved on.
    pub fn bound_by<'a>(
        &self,
        problem: &Problem<'a>,
        method: Method,
        clock: Clock<'a>,
    ) -> Result<(f64, Analysis<'a>), Reason> {
        let (margin, _, analysis) = self.bound(problem, method, true, clock, &mut Report::new())?;
        Ok((margin, analysis))
    }

    /// Decides a problem. Never panics on odd numbers, never runs past its budget by more than a moment, and says why
    /// when it does not know. A bound that excludes what was seen is no verdict.
    pub fn decide(&self, problem: &Problem<'_>, budget: Budget<'_>) -> Report {
        let clock = Clock::start(budget);
        let mut report = Report::new();
        report.verdict = self.look(problem, clock, &mut report).unwrap_or_else(Verdict::Unknown);
        report.elapsed = clock.elapsed();
        report
    }

    fn look(&self, problem: &Problem<'_>, clock: Clock<'_>, report: &mut Report) -> Result<Verdict, Reason> {
        let outputs = problem.program.output_shape().len();
        if problem.property.outputs() != outputs {
            return Err(Reason::InputSize { found: problem.property.outputs(), expected: outputs });
        }
        if let Some(wrong) = problem.property.problem() {
            return Err(Reason::Property(wrong));
        }
        clock.check(problem.property.bytes())?;
        let precision = precision_of(self.settings.arithmetic);
        let output = match &problem.output {
            Some(output) => output.clone(),
            None => {
                let inputs: Vec<&[f64]> = problem.nominal.iter().map(Vec::as_slice).collect();
                let run = Inference::run_within(problem.program, &inputs, precision, &clock.watch());
                run.and_then(Inference::certain).map_err(|error| clock.reason(&error))?.output
            }
        };
        let seen = problem.property.margin_at(&output);
        let missed = problem.property.is_missed(&output);
        report.output = Some(output);
        if missed {
            return Ok(Verdict::Misclassified);
        }
        let mut verdict = self.try_stages(problem, precision, clock, report);
        if let Some(attack) = &self.settings.finally {
            let found = report.attack(&Hunt::new(problem, precision, clock), attack);
            if let (Some(witness), Verdict::Unknown(_)) = (found, &verdict) {
                verdict = Verdict::Falsified { witness };
            }
        }
        // A counterexample is one, whatever the bounds say.
        let falsified = matches!(verdict, Verdict::Falsified { .. });
        if !falsified && (report.contradicts(problem, seen) || report.excludes_the_sample()) {
            return Err(Reason::Contradicted);
        }
        Ok(verdict)
    }

    fn try_stages(
        &self,
        problem: &Problem<'_>,
        precision: Precision,
        clock: Clock<'_>,
        report: &mut Report,
    ) -> Verdict {
        let hunt = Hunt::new(problem, precision, clock);
        let mut unknown = Reason::Interrupted;
        let mut tight: Option<(Vec<f64>, Analysis<'_>)> = None;
        let is_bound = |stage: &Stage| matches!(stage, Stage::Bound(_) | Stage::Rescue(_));
        let last = self.settings.stages.iter().rposition(is_bound);
        for (index, stage) in self.settings.stages.iter().enumerate() {
            let started = Instant::now();
            match stage {
                Stage::Attack(attack) => {
                    if let Some(witness) = report.attack(&hunt, attack) {
                        return Verdict::Falsified { witness };
                    }
                }
                Stage::Rescue(_) if report.margin.is_some() => {}
                Stage::Bound(Method::Tight) if self.races() && report.is_far_off(problem) => {}
                Stage::Bound(method) | Stage::Rescue(method) => {
                    tight = None;
                    let thorough = last == Some(index);
                    let clock = match *method == Method::Tight && self.races() {
                        true => race::before_it(problem, clock),
                        false => clock,
                    };
                    let outcome = self.bound(problem, *method, thorough, clock, report);
                    report.stages.push(StageReport { name: method.to_string(), elapsed: started.elapsed() });
                    match outcome {
                        Ok((margin, rows, analysis)) => {
                            report.proved(margin);
                            if margin > 0.0 {
                                return Verdict::Verified;
                            }
                            unknown = Reason::Loose { margin: report.margin.unwrap_or(f64::NEG_INFINITY) };
                            if *method == Method::Tight {
                                tight = Some((rows, analysis));
                            }
                        }
                        Err(reason) => unknown = reason,
                    }
                }
                Stage::Try(method) => {
                    let Some(time) = race::short_try(problem, clock) else { continue };
                    let outcome = self.bound(problem, *method, false, clock.share(time, 0), report);
                    report.stages.push(StageReport { name: method.to_string(), elapsed: started.elapsed() });
                    if let Ok((margin, ..)) = outcome {
                        report.proved(margin);
                        if margin > 0.0 {
                            return Verdict::Verified;
                        }
                    }
                }
                Stage::Branch => {
                    if let Some((rows, analysis)) = tight.take().filter(|(rows, _)| !rows.is_empty()) {
                        match self.branch(problem, &hunt, &rows, &analysis, clock, report) {
                            Ok(verdict) => return verdict,
                            Err(reason) => unknown = reason,
                        }
                    }
                }
                Stage::Race => match self.race(problem, &hunt, tight.take(), clock, report) {
                    Ok(verdict) => return verdict,
                    Err(reason) => unknown = reason,
                },
            }
        }
        // What was cut short has not decided anything.
        Verdict::Unknown(if clock.interrupted() { Reason::Interrupted } else { unknown })
    }

    /// Whether several ways share the time in the end, so that others may be left out.
    fn races(&self) -> bool {
        self.settings.stages.contains(&Stage::Race)
    }

    /// What is behind the front, without what is zero over the whole region; nothing where that does not pay, or takes too long.
    fn lean(&self, behind: &Program, region: &BoxVec, clock: Clock<'_>) -> Option<Lean> {
        if self.settings.arithmetic != Arithmetic::Real {
            return None;
        }
        Lean::new(behind, region, clock).ok().flatten()
    }

    /// Case distinctions on what is left open by an analysis.
    fn branch(
        &self,
        problem: &Problem<'_>,
        hunt: &Hunt<'_>,
        lower: &[f64],
        analysis: &Analysis<'_>,
        clock: Clock<'_>,
        report: &mut Report,
    ) -> Result<Verdict, Reason> {
        let started = Instant::now();
        let judge = |point: &Point| hunt.near(point);
        let program = problem.program;
        let rows = problem.property.rows(program.output_shape());
        let start = program.odes().next().and_then(|(value, _)| program.node(value)).map(|node| node.from[0]);
        let behind = start.and_then(|start| program.behind(start));
        let lean = match (start, &behind) {
            (Some(start), Some(behind)) => self.lean(behind, &analysis.values()[start], clock),
            _ => None,
        };
        let task = Task {
            program,
            behind: lean.as_ref().map(|lean| &lean.program).or(behind.as_ref()),
            taken: lean.as_ref().map(|lean| &lean.entries),
            property: &problem.property,
            rows: &rows,
            arithmetic: self.settings.arithmetic,
            clock,
            judge: &judge,
            workers: self.settings.workers.max(1),
            held: analysis.bytes(),
        };
        // NaN is not proven.
        let number = |bound: &f64| if bound.is_nan() { f64::NEG_INFINITY } else { *bound };
        let known: Vec<f64> = lower.iter().map(number).collect();
        let found = match Brancher::new(&task, analysis)? {
            Some(brancher) => brancher.run(&known),
            None => {
                let region = problem.region.outer.clone();
                let mut search = Bisection::new(&task, hunt, region, &known);
                search.go_on(None);
                search.found()
            }
        };
        report.note_branching(&found, started.elapsed());
        report.proved(found.margin);
        report.looseness = found.looseness;
        if let Some(witness) = found.witness {
            return Ok(Verdict::Falsified { witness });
        }
        if found.margin > 0.0 {
            return Ok(Verdict::Verified);
        }
        Err(found.stopped.unwrap_or(Reason::Loose { margin: found.margin }))
    }
}
