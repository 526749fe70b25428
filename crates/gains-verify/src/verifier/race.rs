//! Several ways to decide a problem share the time that is left.
//!
//! Which of them gets there cannot be told in advance: case distinctions close what rows nearly prove, affine forms prove at once
//! what boxes never will, halving the region decides everything where inputs are few, and attacks end what is false. So
//! each gets a turn, how far it came is watched ([`Runner`]), and who goes on is decided by estimates: [`Runner::needs`]
//! extrapolates the last turn. Best-first searches slow down as they go on, so that a straight line promises too much
//! rather than too little: whoever would not arrive even by that is left for the others, and taken up again only when
//! nobody else is hopeful.

mod turns;

use std::time::{Duration, Instant};

use gains_core::{BoxVec, Ode, Operator, Program};
use gains_ode::Tableau;

use super::{Report, StageReport, Verdict, Verifier};
use crate::analysis::Analysis;
use crate::attack::{Hunt, Siege};
use crate::bisect::Bisection;
use crate::branch::{Branched, Brancher, Search, Task};
use crate::limits::{Clock, Reason};
use crate::method::Method;
use crate::problem::{Point, Problem};
use turns::{Kind, PATIENCE, Runner, next};

/// Most inputs that vary for their region to be halved, where there is another way.
const FEW_INPUTS: usize = 64;

/// Most inputs that vary for halving their region to decide everything in the end.
const VERY_FEW_INPUTS: usize = 6;

/// How many times the largest lead seen at the sample a bound may fall short for case distinctions to come first.
const CLOSE_ENOUGH: f64 = 10.0;

/// Where a contender stands.
struct Standing {
    /// What it has proved of the whole region.
    margin: f64,
    witness: Option<Point>,
    progress: f64,
    /// Why it ended without a verdict.
    over: Option<Reason>,
}

impl Standing {
    fn of(found: &Branched, progress: f64, over: bool) -> Self {
        let ended = || Reason::Loose { margin: found.margin };
        let reason = found.stopped.clone().or_else(|| over.then(ended));
        Self { margin: found.margin, witness: found.witness.clone(), progress, over: reason }
    }
}

/// What all contenders share.
struct Shared<'s, 'a> {
    verifier: &'s Verifier,
    problem: &'s Problem<'a>,
    hunt: &'s Hunt<'a>,
    task: &'s Task<'a>,
    clock: Clock<'a>,
    /// What is proven of every row over the whole region.
    known: Vec<f64>,
}

impl Shared<'_, '_> {
    /// The margin all rows together prove.
    fn margin(&self) -> f64 {
        self.problem.property.margin(&self.known)
    }
}

/// One way to decide a problem.
enum Contender<'s, 'a> {
    Siege(Siege),
    Branch(&'s Brancher<'a, 's>, Option<Search<'s, 'a, 's>>, f64),
    /// And how long they take at least, and at most in all.
    Forms(Duration, Duration),
    /// And whether it gets everywhere in the end: parts outside a ball can never be closed.
    Bisect(Option<Bisection<'s, 'a>>, bool),
}

impl<'s, 'a> Contender<'s, 'a> {
    fn runner(&self) -> Runner {
        match self {
            Self::Siege(_) => Runner::new(Kind::Raid, false),
            Self::Forms(least, most) => {
                Runner { least: *least, most: *most, ..Runner::new(Kind::AtOnce, false) }
            }
            Self::Branch(..) => Runner::new(Kind::Steady, false),
            Self::Bisect(_, complete) => Runner::new(Kind::Steady, *complete),
        }
    }

    fn bytes(&self) -> usize {
        match self {
            Self::Branch(_, Some(search), _) => search.bytes(),
            Self::Bisect(Some(search), _) => search.bytes(),
            _ => 0,
        }
    }

    /// Goes on for about so long. `others` is the memory the others hold meanwhile.
    fn go_on(
        &mut self,
        time: Duration,
        others: usize,
        shared: &mut Shared<'s, 'a>,
        report: &mut Report,
    ) -> Standing {
        match self {
            Self::Siege(siege) => besiege(siege, time, shared, report),
            Self::Forms(..) => forms(time, others, shared, report),
            Self::Branch(brancher, search, start) => {
                let search = search.get_or_insert_with(|| {
                    let search = Search::new(brancher, &shared.known);
                    *start = search.found().margin;
                    search
                });
                search.go_on(Instant::now().checked_add(time));
                let found = search.found();
                let progress = if *start < 0.0 { 1.0 - (found.margin / *start).min(1.0) } else { 0.0 };
                Standing::of(&found, progress, search.is_over())
            }
            Self::Bisect(search, _) => {
                let search = search.get_or_insert_with(|| {
                    let region = shared.problem.region.outer.clone();
                    Bisection::new(shared.task, shared.hunt, region, &shared.known)
                });
                search.go_on(Instant::now().checked_add(time));
                report.volume = Some(search.volume());
                Standing::of(&search.found(), search.volume(), search.is_over())
            }
        }
    }
}

/// Rounds of descents, at least one.
fn besiege(siege: &mut Siege, time: Duration, shared: &Shared<'_, '_>, report: &mut Report) -> Standing {
    let started = Instant::now();
    let mut witness = None;
    for bout in 0.. {
        let enough = bout >= siege.round() || started.elapsed() >= time;
        if witness.is_some() || enough || shared.clock.check(0).is_err() {
            break;
        }
        let found = siege.bout(shared.hunt);
        report.saw(found.margin, found.worst);
        witness = found.witness;
    }
    Standing { margin: f64::NEG_INFINITY, witness, progress: 0.0, over: None }
}

/// Affine forms over the whole region; what they prove of single rows counts beside what others have proved.
fn forms(time: Duration, others: usize, shared: &mut Shared<'_, '_>, report: &mut Report) -> Standing {
    let clock = shared.clock.share(time, others);
    let mut scratch = Report::new();
    let bound = shared.verifier.bound(shared.problem, Method::Symbolic, true, clock, &mut scratch);
    let mut standing = Standing { margin: f64::NEG_INFINITY, witness: None, progress: 0.0, over: None };
    match bound {
        Ok((margin, rows, _)) => {
            report.graph = scratch.graph;
            for (known, new) in shared.known.iter_mut().zip(&rows) {
                *known = known.max(*new);
            }
            standing.margin = margin.max(shared.margin());
            standing.over = Some(Reason::Loose { margin: standing.margin });
        }
        Err(Reason::TimeLimit { .. }) => {}
        Err(reason) => standing.over = Some(reason),
    }
    standing
}

impl Verifier {
    /// Decides what cheap stages have left open. `tight` is what rows prove, where they could be bounded at all.
    pub(super) fn race(
        &self,
        problem: &Problem<'_>,
        hunt: &Hunt<'_>,
        tight: Option<(Vec<f64>, Analysis<'_>)>,
        clock: Clock<'_>,
        report: &mut Report,
    ) -> Result<Verdict, Reason> {
        let judge = |point: &Point| hunt.near(point);
        let program = problem.program;
        let rows = problem.property.rows(program.output_shape());
        if rows.count == 0 {
            return Err(Reason::Loose { margin: f64::NEG_INFINITY });
        }
        let start = program.odes().next().and_then(|(value, _)| program.node(value)).map(|node| node.from[0]);
        let behind = start.and_then(|start| program.behind(start));
        let lean = match (start, &behind, &tight) {
            (Some(start), Some(behind), Some((_, analysis))) => {
                self.lean(behind, &analysis.values()[start], clock)
            }
            _ => None,
        };
        let held = tight.as_ref().map_or(0, |(_, analysis)| analysis.bytes());
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
            held,
        };
        // NaN is not proven.
        let number = |bound: &f64| if bound.is_nan() { f64::NEG_INFINITY } else { *bound };
        let known: Vec<f64> = match &tight {
            Some((lower, _)) => lower.iter().map(number).collect(),
            None => vec![f64::NEG_INFINITY; rows.count],
        };
        // Without the memory or the time to prepare it there are the others.
        let brancher = tight.as_ref().and_then(|(_, analysis)| Brancher::new(&task, analysis).ok().flatten());
        let scale = report.output.as_ref().map_or(0.0, |output| problem.property.scale_at(output));
        let close = problem.property.margin(&known) >= -CLOSE_ENOUGH * scale;
        let mut contenders = vec![Contender::Siege(Siege::new(problem, &known, self.settings.seed()))];
        let branch = brancher.as_ref().map(|b| Contender::Branch(b, None, f64::NEG_INFINITY));
        let (early, late) = if close { (branch, None) } else { (None, branch) };
        contenders.extend(early);
        let inputs = varying(problem);
        // Where rows come close, forms over many inputs are the less likely way.
        let most = match (close && brancher.is_some() && inputs > FEW_INPUTS, clock.left()) {
            (true, Some(left)) => left / 24,
            _ => Duration::MAX,
        };
        contenders.push(Contender::Forms(least_time(program, inputs), most));
        contenders.extend(late);
        if inputs <= FEW_INPUTS || (tight.is_some() && brancher.is_none()) {
            let complete = inputs <= VERY_FEW_INPUTS && problem.region.ball.is_none();
            contenders.push(Contender::Bisect(None, complete));
        }
        let shared = Shared { verifier: self, problem, hunt, task: &task, clock, known };
        run(contenders, shared, held, report)
    }
}

/// How many inputs vary.
fn varying(problem: &Problem<'_>) -> usize {
    let vary = |b: &BoxVec| b.lower.iter().zip(&b.upper).filter(|(l, u)| l < u).count();
    problem.region.outer.iter().map(vary).sum()
}

/// What rows may take before the race begins: they must not eat the time of ways that get there without them. Where halving the
/// region decides everything in the end they may take little.
pub(super) fn before_it<'a>(problem: &Problem<'_>, clock: Clock<'a>) -> Clock<'a> {
    let part = if varying(problem) <= VERY_FEW_INPUTS { 12 } else { 4 };
    clock.left().map_or(clock, |left| clock.share(left / part, 0))
}

/// A small part of the time, if affine forms may well be done in it.
pub(super) fn short_try(problem: &Problem<'_>, clock: Clock<'_>) -> Option<Duration> {
    let time = clock.left().unwrap_or(PATIENCE) / 12;
    (20 * least_time(problem.program, varying(problem)) <= time).then_some(time)
}

/// What affine forms over so many inputs take at least: three steps of every solver, without symbols of relaxations, by a fast
/// machine.
fn least_time(program: &Program, inputs: usize) -> Duration {
    const PRODUCTS_A_SECOND: f64 = 1e10;
    let of_one = |ode: &Ode| {
        let dynamics = &ode.block.dynamics;
        let of_node = |value: usize, operator: &Operator| match operator {
            Operator::Affine(map) => map.terms() * dynamics.shape(value).len(),
            _ => 0,
        };
        let nodes = dynamics.nodes().map(|(value, node)| of_node(value, &node.operator));
        3 * Tableau::of(ode.solver().method).len() * nodes.sum::<usize>()
    };
    let products: usize = program.odes().map(|(_, ode)| of_one(ode)).sum();
    Duration::from_secs_f64(inputs as f64 * products as f64 / PRODUCTS_A_SECOND)
}

/// Lets the contenders run until one of them decides.
fn run<'s, 'a>(
    mut contenders: Vec<Contender<'s, 'a>>,
    mut shared: Shared<'s, 'a>,
    held: usize,
    report: &mut Report,
) -> Result<Verdict, Reason> {
    let mut runners: Vec<Runner> = contenders.iter().map(Contender::runner).collect();
    let mut unknown = Reason::Loose { margin: shared.margin() };
    let mut decided = None;
    while let Some((at, time)) = next(&runners, shared.clock.left()) {
        if let Err(reason) = shared.clock.check(0) {
            unknown = reason;
            break;
        }
        let others = held
            + contenders.iter().enumerate().filter(|(i, _)| *i != at).map(|(_, c)| c.bytes()).sum::<usize>();
        let started = Instant::now();
        let standing = contenders[at].go_on(time, others, &mut shared, report);
        let runner = &mut runners[at];
        runner.turns += 1;
        runner.last = started.elapsed();
        runner.spent += runner.last;
        runner.progress = (standing.progress, runner.progress.0);
        report.proved(standing.margin);
        decided = match standing.witness {
            Some(witness) => Some((at, Verdict::Falsified { witness })),
            None => (standing.margin > 0.0).then_some((at, Verdict::Verified)),
        };
        if decided.is_some() {
            break;
        }
        if let Some(reason) = standing.over {
            runner.over = true;
            unknown = reason;
        }
        // Attacks alone prove nothing.
        if runners.iter().all(|r| r.over || r.kind == Kind::Raid) {
            break;
        }
    }
    note(&contenders, &runners, decided.as_ref().map(|d| d.0), report);
    match decided {
        Some((_, verdict)) => Ok(verdict),
        None => Err(shared.clock.check(0).err().unwrap_or(unknown)),
    }
}

/// Takes note of who took how long, the one that decided last.
fn note(contenders: &[Contender<'_, '_>], runners: &[Runner], decider: Option<usize>, report: &mut Report) {
    let order = (0..runners.len()).filter(|&i| Some(i) != decider).chain(decider);
    for i in order.filter(|&i| runners[i].turns > 0) {
        let elapsed = runners[i].spent;
        let name = match &contenders[i] {
            Contender::Siege(_) => "attack",
            Contender::Forms(..) => "symbolic",
            Contender::Bisect(..) => "bisect",
            Contender::Branch(_, search, _) => {
                if let Some(search) = search {
                    let found = search.found();
                    report.note_branching(&found, elapsed);
                    report.looseness = found.looseness.filter(|_| decider.is_none());
                }
                continue;
            }
        };
        report.stages.push(StageReport { name: name.into(), elapsed });
    }
}
