//! Branch and bound: case distinctions on the neurons in front of the first ODE block, and on those of its
//! dynamics at the start.
//!
//! A leaf is a part of the region, described by [`crate::front::Split`]s and [`Assumption`]s. In each part
//!
//! 1. the pre-activations of the front's last layer are bounded again, over the region cut by what the splits
//!    imply for the input (each implies a half-space, see [`HalfSpace`]);
//! 2. the network behind the front is analysed again, from the smaller box: solver steps that only the wide
//!    box could cause disappear;
//! 3. the rows that are still open are pulled to the input with slopes and multipliers improved by gradient
//!    ascent ([`Front::optimise`]), the open rows of all new parts as one block.
//!
//! The margin of a part is what the property makes of the lower bounds of its rows there: *all*, *any* and *n of* are
//! monotone, so whatever combination of rows is asked for, that margin is proven for the part, and different parts may
//! meet *any* by different rows. A part whose margin is positive is closed; the part with the lowest one is split next.
//! What is proven for a part also holds for its children, so margins never get worse, and the smallest margin of all
//! leaves is proven for the whole region at any time.

mod choose;
mod draft;
mod lean;
mod part;
mod search;
mod tune;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use gains_core::arithmetic::down;
use gains_core::program::Flight;
use gains_core::{Arithmetic, BoxVec, LowerSlope, Program, RowBlock, Rows, Shape, Support};

use crate::analysis::{Analysis, Steered};
use crate::front::{Front, Split};
use crate::graph_pull::{Freedom, GraphPull, RowForm};
use crate::groups::Groups;
use crate::half_space::{Domain, HalfSpace};
use crate::ledger::Ledger;
use crate::limits::{Clock, Reason};
use crate::looseness::Looseness;
use crate::method::{Method, Variant};
use crate::property::Property;
use crate::steps::{Assumption, Side, StepForm};
use draft::{Draft, Trial};
pub(crate) use lean::Lean;
use part::{Expansion, Experience, Part, Place, Pursuit, StartRows, Target};
pub(crate) use search::Search;
pub(crate) use tune::moved;

/// How rows may pass the network behind the front; each row settles on the best for the whole region.
pub(crate) const VARIANTS: [Variant; 4] = [
    Variant::new(LowerSlope::Zero, LowerSlope::Zero, RowForm::Chain),
    Variant::new(LowerSlope::Zero, LowerSlope::Zero, RowForm::Direct),
    Variant::new(LowerSlope::Zero, LowerSlope::MinArea, RowForm::Chain),
    Variant::new(LowerSlope::Zero, LowerSlope::MinArea, RowForm::Direct),
];

/// How hard to try.
#[derive(Clone, Copy)]
struct Effort {
    /// Rounds of gradient ascent on slopes and multipliers of the front.
    rounds: usize,
    /// Improvements of the slopes inside the first ODE block, each with half as many rounds.
    tunings: usize,
}

/// For the whole region.
const ROOT: Effort = Effort { rounds: 40, tunings: 12 };
/// For every part of it.
const PART: Effort = Effort { rounds: 30, tunings: 0 };

/// Slopes that are tried for rows on single neurons.
const POLICIES: [LowerSlope; 3] = [LowerSlope::Zero, LowerSlope::MinArea, LowerSlope::One];

/// The part of the time that is left in which rows are asked about the dynamics at the start, one over this.
const START_SHARE: u32 = 8;

/// Numbers of the widest value of the front that rows on neurons of the dynamics have at a time: few enough for the time to
/// be looked at now and then.
const AT_ONCE: usize = 1 << 17;

/// Where parts are pursued, how large a row may be at inputs that matter: so much of what its bound over the whole region is
/// below zero.
const BEYOND: f64 = 1e-3;

/// Of the half-spaces of a part, so many that came last bound neurons again; what the others tell of them is known.
const LATEST: usize = 3;

/// Step size of the first tuning, and by how much it shrinks from one to the next.
pub(crate) const TUNING: (f64, f64) = (1.0, 0.8);

/// Splits tried at once.
const MOST_TRIED: usize = 8;

/// What a part of a row's range counts for that a neuron moves it by, beside what its relaxation costs, where parts may be
/// met by different rows.
const APART: f64 = 0.1;

/// Neurons of the dynamics considered for splitting, for every open row.
const MOST_INNER: usize = 6;

/// What branch and bound found.
#[derive(Clone, Debug)]
pub struct Branched {
    /// Proven margin of the property over the whole region, at least what it started from.
    pub margin: f64,
    /// Inputs that violate the property, if some turned up.
    pub witness: Option<Point>,
    /// Parts that were bounded.
    pub parts: usize,
    /// Why it stopped before everything was closed.
    pub stopped: Option<Reason>,
    /// Time spent on the whole region before it was split, where that is told apart.
    pub root: Option<Duration>,
    /// Where the bound of the whole region loses, if splitting it was not enough.
    pub looseness: Option<Looseness>,
}

impl Branched {
    /// Nothing but the margin that was known before.
    pub(crate) fn new(margin: f64) -> Self {
        Self { margin, witness: None, parts: 0, stopped: None, root: None, looseness: None }
    }
}

/// One value for each input of a program.
pub(crate) type Point = Vec<Vec<f64>>;

/// Looks at inputs and returns a counterexample if they are one, or are next to one.
pub(crate) type Judge<'a> = &'a (dyn Fn(&Point) -> Option<Point> + Sync);

/// What is to be proved, and by which means.
#[derive(Clone, Copy)]
pub(crate) struct Task<'a> {
    pub program: &'a Program,
    /// The program from the first ODE block on, if nothing behind it takes anything in front.
    pub behind: Option<&'a Program>,
    /// The entries of the front's output that the first ODE block of that takes; nothing if it takes all.
    pub taken: Option<&'a Arc<[u32]>>,
    /// What is asked of the outputs.
    pub property: &'a Property,
    /// Its rows.
    pub rows: &'a Rows,
    pub arithmetic: Arithmetic,
    pub clock: Clock<'a>,
    pub judge: Judge<'a>,
    /// Threads to use.
    pub workers: usize,
    /// Memory held meanwhile.
    pub held: usize,
}

/// Splits a region.
pub(crate) struct Brancher<'a, 't> {
    task: &'t Task<'a>,
    front: Front,
    behind: &'a Program,
    domain: Domain,
    /// For the last layer: neurons that may matter, and rows below them and below their negatives.
    neurons: Vec<usize>,
    rows: RowBlock,
}

impl<'a, 't> Brancher<'a, 't> {
    /// Prepares to split the region of an analysis; `None` if the network has nothing in front of its first
    /// ODE block that could be split.
    pub fn new(task: &'t Task<'a>, analysis: &Analysis<'a>) -> Result<Option<Self>, Reason> {
        let (Some(front), Some(behind)) = (Front::new(&analysis.enclosed()), task.behind) else {
            return Ok(None);
        };
        let domain = Domain::new(&joined(front.region()));
        let last = front.layers.len() - 1;
        let bounds = front.whole_region();
        let image = front.layers[last].activation.image_box(&bounds[last], task.arithmetic);
        let neurons: Vec<usize> = (0..image.len()).filter(|&i| image.lower[i] < image.upper[i]).collect();
        let rows = all_neuron_rows(&front, last, &neurons, &bounds, task)?;
        Ok(Some(Self { task, front, behind, domain, neurons, rows }))
    }

    /// Splits until everything is proven, a counterexample turns up or the budget is spent. `known` are bounds
    /// that are proven already.
    pub fn run(&self, known: &[f64]) -> Branched {
        let mut search = Search::new(self, known);
        search.go_on(None);
        search.found()
    }

    /// Expands several parts, each on its own thread.
    fn expand_all(
        &self,
        batch: &[Part],
        experience: &HashMap<Place, Experience>,
        turn: Option<Duration>,
    ) -> Vec<Result<Expansion, Reason>> {
        if let [only] = batch {
            return vec![self.expand(only, experience, turn)];
        }
        std::thread::scope(|scope| {
            let spawn = |part| scope.spawn(move || self.expand(part, experience, turn));
            let workers: Vec<_> = batch.iter().map(spawn).collect();
            let done = workers.into_iter().map(|w| w.join().unwrap_or_else(|e| std::panic::resume_unwind(e)));
            done.collect()
        })
    }

    fn counterexample(&self, part: &Part) -> Option<Point> {
        let by_rows = || part.targets.iter().find_map(|target| (self.task.judge)(&target.minimiser));
        part.witness.clone().or_else(by_rows)
    }

    /// The whole region as the first part.
    fn root(&self, known: &[f64]) -> Result<Part, Reason> {
        let bounds = self.front.whole_region();
        let start = self.front.output_box(&bounds[bounds.len() - 1]);
        let open = self.task.property.open_rows(known);
        let (analysis, assumed, at_start) = self.start_by_rows(&start, &bounds)?;
        let mut targets = Vec::new();
        let mut trials: Vec<Vec<Trial>> = Vec::new();
        for &property in &open {
            let pull = |variant: &Variant| self.pull(&analysis, property, variant, None);
            let all = VARIANTS.iter().map(pull).collect::<Result<Vec<_>, _>>()?;
            targets.push(Target {
                property,
                variant: VARIANTS[0],
                freedom: None,
                row: all[0].row.clone(),
                bound: all.iter().map(|trial| trial.bound).fold(known[property], f64::max),
                reached: f64::NEG_INFINITY,
                dual: self.front.first_dual(LowerSlope::Zero),
                fresh: self.front.first_dual(LowerSlope::Zero),
                minimiser: Vec::new(),
                output: Vec::new(),
                losses: Vec::new(),
                behind: Vec::new(),
                at_input: Arc::default(),
                inner: Vec::new(),
                steps: Arc::new([]),
            });
            trials.push(all);
        }
        let (constraints, cuts) = (Vec::new(), Vec::new());
        let (known, margin) = (known.to_vec(), self.task.property.margin(known));
        let mut part = Part {
            bounds,
            constraints,
            assumed,
            cuts,
            pursuit: None,
            at_start: Arc::new(at_start),
            started: Vec::new(),
            start: Arc::new(start),
            targets,
            known,
            margin,
            witness: None,
        };
        part.learn(self.task.property);
        let draft = Draft { part, analysis: Some(analysis), trials };
        self.finish(vec![draft], ROOT)?.pop().ok_or(Reason::Empty)
    }

    /// Analyses everything behind the front from a box.
    fn analyse(&self, start: BoxVec, assumed: &[Assumption]) -> Result<Analysis<'a>, Reason> {
        let (method, form) = (Method::Tight, StepForm::Difference);
        let Task { arithmetic, clock, .. } = *self.task;
        Analysis::assuming(self.behind, vec![start], assumed, method, form, arithmetic, clock)
    }

    /// Analyses everything behind the front over the whole region, and finds out what rows tell of the dynamics' values at
    /// the initial state and time: there a box has forgotten what the entries of the front's output have in common. One
    /// layer after the other, each behind what has been found of those in front of it.
    fn start_by_rows(
        &self,
        start: &BoxVec,
        bounds: &[Arc<BoxVec>],
    ) -> Result<(Analysis<'a>, Vec<Assumption>, Vec<StartRows>), Reason> {
        let clock = &self.task.clock;
        let until = clock.left().map(|left| clock.elapsed() + left / START_SHARE);
        let late = || until.is_some_and(|until| clock.elapsed() >= until);
        let mut analysis = self.analyse(start.clone(), &[])?;
        let mut found: Vec<Assumption> = Vec::new();
        let (mut at_start, mut held) = (Vec::new(), 0);
        let undecided =
            |analysis: &Analysis<'_>| analysis.first_ode().map_or(Vec::new(), |ode| ode.undecided());
        for layer in 0..undecided(&analysis).len() {
            let Some((value, entries)) = undecided(&analysis).into_iter().nth(layer) else { break };
            let Some(ode) = analysis.first_ode() else { break };
            let before = found.len();
            for some in entries.chunks(self.at_a_time()) {
                if late() {
                    break;
                }
                clock.check(self.task.held + size_of::<f64>() * held)?;
                let ([low, high], rows) = self.initial_ends(&ode, value, some, bounds);
                if held + rows.coefficients.len() <= AT_A_TIME {
                    held += rows.coefficients.len();
                    at_start.push(StartRows { value, entries: some.to_vec(), rows });
                }
                for ((entry, low), high) in some.iter().zip(low).zip(high) {
                    let entry = *entry as usize;
                    found.push(Assumption { value, entry, at: low, side: Side::Above });
                    found.push(Assumption { value, entry, at: high, side: Side::Below });
                }
            }
            if found.len() > before {
                analysis = self.analyse(start.clone(), &found)?;
            }
        }
        Ok((analysis, found, at_start))
    }

    /// How many neurons are asked for by rows at a time.
    fn at_a_time(&self) -> usize {
        let inputs: usize = self.front.region().iter().map(BoxVec::len).sum();
        let layers = (0..=self.front.layers.len()).map(|layer| self.front.shape(layer).len());
        (AT_ONCE / layers.fold(inputs, usize::max)).max(1)
    }

    /// Certified ends of some entries of a value of the dynamics at the initial state and time.
    fn initial_ends(
        &self,
        ode: &GraphPull<'_>,
        value: usize,
        entries: &[u32],
        bounds: &[Arc<BoxVec>],
    ) -> ([Vec<f64>; 2], RowBlock) {
        let n = entries.len();
        let mut all = RowBlock::zeros(2 * n, self.front.region().iter().map(BoxVec::len).sum());
        all.constant.fill(f64::NEG_INFINITY);
        let mut best = vec![f64::NEG_INFINITY; 2 * n];
        for slope in POLICIES {
            let Some(rows) = ode.entry_rows(value, entries, &[1.0, -1.0], slope) else { continue };
            let rows = Rows::from_block(self.widened(rows), Support::full(self.front.output_shape()));
            let rows = best_to_input(&self.front, &rows, self.front.layers.len(), bounds);
            for (row, best) in best.iter_mut().enumerate() {
                let bound = self.domain.lower_bound(rows.row(row), rows.constant[row], rows.slack[row], &[]);
                if bound > *best {
                    *best = bound;
                    all.put(&[row], &rows.select(&[row]));
                }
            }
        }
        let high = best.split_off(n).into_iter().map(|negative| -negative).collect();
        ([best, high], all)
    }

    /// Bounds the dynamics' values at the start again, over the region cut by half-spaces.
    fn tighten_start(&self, part: &mut Part) {
        let cuts = part.latest_cuts(LATEST);
        let mut ends = Vec::with_capacity(part.started.len());
        for StartRows { value, entries, rows } in part.at_start.iter() {
            let bound = |row: usize| {
                self.domain.lower_bound(rows.row(row), rows.constant[row], rows.slack[row], &cuts)
            };
            for (k, &entry) in entries.iter().enumerate() {
                let entry = entry as usize;
                let (low, high) = (bound(k), -bound(entries.len() + k));
                ends.push(Assumption { value: *value, entry, at: low, side: Side::Above });
                ends.push(Assumption { value: *value, entry, at: high, side: Side::Below });
            }
        }
        for (end, known) in ends.iter_mut().zip(&part.started) {
            end.at = if end.side == Side::Above { end.at.max(known.at) } else { end.at.min(known.at) };
        }
        part.started = ends;
    }

    /// From now on only counterexamples matter in a part where one row is open: inputs at which that row is at most a small
    /// positive number. So is what lies below the row.
    fn pursue(&self, part: &mut Part) {
        let [target] = &part.targets[..] else { return };
        let open = target.bound < 0.0 && target.bound.is_finite();
        if !open || target.at_input.count == 0 {
            return;
        }
        let beyond = part.pursuit.as_ref().map_or(BEYOND * -target.bound, |pursuit| pursuit.beyond);
        if beyond > 0.0 {
            let cut = Arc::new(half_space(&target.at_input, 0, beyond));
            part.pursuit = Some(Pursuit { beyond, cut });
        }
    }

    /// The same part once for each open row, where all rows must hold: proving each somewhere else is proving all of them.
    fn apart(&self, part: Part) -> Vec<Part> {
        if part.targets.len() < 2 || !self.task.property.is_conjunction() {
            return vec![part];
        }
        let of_one = |target: &Target| {
            let mut own = Part { targets: vec![target.clone()], ..part.clone() };
            for other in part.targets.iter().filter(|other| other.property != target.property) {
                own.known[other.property] = f64::INFINITY;
            }
            own.learn(self.task.property);
            self.pursue(&mut own);
            own
        };
        part.targets.iter().map(of_one).collect()
    }

    /// Pulls a row of the property through everything behind the front.
    fn pull(
        &self,
        analysis: &Analysis<'a>,
        property: usize,
        variant: &Variant,
        freedom: Option<&Arc<Freedom>>,
    ) -> Result<Trial, Reason> {
        let row = self.task.rows.select(&[property]);
        let (mut bound, mut ledger) = (f64::NEG_INFINITY, Ledger::default());
        let visit = |flight: &Flight, _: &Groups| {
            let over_boxes = flight.lower_bounds(|value| &analysis.values()[value]);
            bound = over_boxes.into_iter().fold(bound, f64::max);
        };
        let steered =
            Steered { freedom: freedom.map(Arc::as_ref), ledger: Some(&mut ledger), ..Steered::default() };
        let from = self.behind.output();
        let (mut pulled, _) = analysis.pull_steered(from, row, &[*variant], visit, steered)?;
        // The only input of what is behind the front.
        let rows = pulled.take(0).unwrap_or_else(|| Rows::zeros(1, Support::full(self.behind.shape(0))));
        Ok(Trial { row: Arc::new(rows.into_full()), bound, ledger, freedom: freedom.cloned() })
    }

    /// Rows on the front's output, of rows on what the first ODE block takes.
    fn widened(&self, rows: RowBlock) -> RowBlock {
        match self.task.taken {
            Some(taken) => {
                let on = Support::entries(self.front.output_shape(), taken.clone());
                Rows::from_block(rows, on).widened().into_full()
            }
            None => rows,
        }
    }

    /// What the first ODE block takes of an output of the front.
    fn taken(&self, output: &[f64]) -> Vec<f64> {
        match self.task.taken {
            Some(taken) => taken.iter().map(|&i| output[i as usize]).collect(),
            None => output.to_vec(),
        }
    }

    /// The argument of an activation of the first ODE block's dynamics.
    fn argument(&self, value: usize) -> Option<usize> {
        let (_, ode) = self.behind.odes().next()?;
        ode.block.dynamics.node(value).map(|node| node.from[0])
    }

    /// What a split of a neuron of the front implies for the input.
    fn half_space(&self, split: &Split, part: &Part) -> HalfSpace {
        let last = self.front.layers.len() - 1;
        let known = self.neurons.binary_search(&split.neuron).ok().filter(|_| split.layer == last);
        let own;
        let (rows, count, at) = match known {
            Some(at) => (&self.rows, self.neurons.len(), at),
            None => {
                own = neuron_rows(&self.front, split.layer, &[split.neuron], &part.bounds);
                (&own, 1, 0)
            }
        };
        // At most the threshold: so is whatever lies below. At least: its negative is at most `−at`.
        match split.side {
            Side::Below => half_space(rows, at, split.at),
            Side::Above => half_space(rows, count + at, -split.at),
        }
    }

    /// Bounds the pre-activations of the last layer again, over the region cut by half-spaces.
    fn tighten(&self, bounds: &mut BoxVec, cuts: &[&HalfSpace]) {
        let (rows, count) = (&self.rows, self.neurons.len());
        for (at, &i) in self.neurons.iter().enumerate() {
            let bound = |row: usize| {
                self.domain.lower_bound(rows.row(row), rows.constant[row], rows.slack[row], cuts)
            };
            bounds.lower[i] = bounds.lower[i].max(bound(at));
            bounds.upper[i] = bounds.upper[i].min(-bound(count + at));
        }
    }
}

/// Where a row is at most `threshold`.
pub(crate) fn half_space(rows: &RowBlock, row: usize, threshold: f64) -> HalfSpace {
    let constant = down(down(rows.constant[row] - rows.slack[row]) - threshold);
    HalfSpace { coefficients: rows.row(row).to_vec(), constant }
}

/// Whether a box is enough smaller than another for a new analysis to pay.
pub(crate) fn shrunk(from: &BoxVec, to: &BoxVec) -> bool {
    let total = |b: &BoxVec| b.lower.iter().zip(&b.upper).map(|(l, u)| u - l).sum::<f64>();
    total(to) < 0.995 * total(from)
}

/// Coefficients of the rows that are pulled to the input at a time: 32 MB.
const AT_A_TIME: usize = 4 << 20;

/// Rows on the input below the given neurons, then below their negatives, however many these are: within the memory and
/// time of the task.
fn all_neuron_rows(
    front: &Front,
    layer: usize,
    neurons: &[usize],
    bounds: &[Arc<BoxVec>],
    task: &Task<'_>,
) -> Result<RowBlock, Reason> {
    let (count, length) = (neurons.len(), front.region().iter().map(BoxVec::len).sum::<usize>());
    let widest = front.shape(layer).len().max(length);
    let at_a_time = (AT_A_TIME / (2 * widest)).clamp(1, count.max(1));
    // The rows, and a few copies of those that are being pulled.
    let held = task.held + 8 * 2 * (count * (length + 2) + 8 * at_a_time * (widest + 2));
    task.clock.check(held)?;
    let mut all = RowBlock::zeros(2 * count, length);
    for (part, neurons) in neurons.chunks(at_a_time).enumerate() {
        task.clock.check(held)?;
        let first = part * at_a_time;
        let below = first..first + neurons.len();
        let places: Vec<usize> = below.clone().chain(below.map(|i| count + i)).collect();
        all.put(&places, &neuron_rows(front, layer, neurons, bounds));
    }
    Ok(all)
}

/// Rows on the input below the given neurons and below their negatives.
fn neuron_rows(front: &Front, layer: usize, neurons: &[usize], bounds: &[Arc<BoxVec>]) -> RowBlock {
    best_to_input(front, &Rows::units(front.shape(layer), neurons), layer, bounds)
}

/// Pulls rows on a layer to the input with several slopes, and keeps for each the one with the best bound.
fn best_to_input(front: &Front, rows: &Rows, layer: usize, bounds: &[Arc<BoxVec>]) -> RowBlock {
    let mut all = POLICIES.into_iter().map(|slope| front.to_input(rows.clone(), layer, bounds, slope));
    let region = joined(front.region());
    let lower_bounds = |rows: &RowBlock| {
        Rows::from_block(rows.clone(), Support::full(Shape::flat(region.len()))).lower_bounds(&region)
    };
    let mut best = all.next().unwrap_or_default();
    let mut known = lower_bounds(&best);
    for other in all {
        let bounds = lower_bounds(&other);
        let better: Vec<usize> = (0..best.count).filter(|&i| bounds[i] > known[i]).collect();
        best.put(&better, &other.select(&better));
        better.iter().for_each(|&i| known[i] = bounds[i]);
    }
    best
}

/// The boxes of all inputs, one after the other.
pub(crate) fn joined(region: &[BoxVec]) -> BoxVec {
    let side = |get: fn(&BoxVec) -> &Vec<f64>| region.iter().flat_map(get).copied().collect();
    BoxVec::new(side(|b| &b.lower), side(|b| &b.upper))
}
