//! Branch and bound: case distinctions on the neurons in front of the first ODE block, and on those of its
//! dynamics at the start.
//!
//! A leaf is a part of the region, described by [`Split`]s and [`Assumption`]s. In each part
//!
//! 1. the pre-activations of the front's last layer are bounded again, over the region cut by what the splits
//!    imply for the input (each implies a half-space, see [`HalfSpace`]);
//! 2. the network behind the front is analysed again, from the smaller box: solver steps that only the wide
//!    box could cause disappear;
//! 3. the rows that are still open are pulled to the input with slopes and multipliers improved by gradient
//!    ascent ([`Front::optimise`]), the open rows of all new parts as one block.
//!
//! A part whose rows are all positive is closed; the part with the lowest bound is split next. What is proven
//! for a part also holds for its children, so bounds never get worse, and the smallest bound of all leaves is
//! proven for the whole region at any time.

use std::collections::{BTreeMap, BinaryHeap, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};

use gains_core::arithmetic::down;
use gains_core::{Arithmetic, Block, BoxVec, LowerSlope, Precision, RowBlock, Rows, Shape, Window};
use gains_ode::Inference;

use crate::analysis::{Analysis, Grouped, Method, Prepared, Variant};
use crate::backward::{GraphPull, Ledger, RowForm, SlopeTable};
use crate::best_first::{Leaf, Lowest, proven_everywhere};
use crate::box_step::{Assumption, Side, StepForm};
use crate::front::{Constraint, Dual, Front, Problem, Solved, Split};
use crate::half_space::{Domain, HalfSpace};
use crate::limits::{Clock, Reason};
use crate::looseness::{Journey, Looseness, NeuronLoss, StepLosses};
use crate::property::Property;

/// How rows may pass the network behind the front; each row settles on the best for the whole region.
const VARIANTS: [Variant; 4] = [
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

/// Step size of the first tuning, and by how much it shrinks from one to the next.
const TUNING: (f64, f64) = (0.3, 0.8);

/// Splits tried at once.
const MOST_TRIED: usize = 8;

/// Neurons of the dynamics considered for splitting, for every open row.
const MOST_INNER: usize = 6;

/// Where a neuron is that can be split.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Place {
    /// In front of the first ODE block: layer of the front, neuron.
    Front(usize, usize),
    /// In the dynamics, at the initial state and time: layer, neuron.
    Dynamics(usize, usize),
}

/// A neuron of the dynamics, what it costs a row, and rows on the front's output below its input and below
/// the negative of that.
#[derive(Clone)]
struct Inner {
    layer: usize,
    neuron: usize,
    loss: f64,
    /// Where to split it: what leads to the kink where the neuron costs most.
    at: f64,
    /// The row's coefficient on its value, and the part of that which its lower slope lets through.
    weight: (f64, f64),
    below: [Arc<RowBlock>; 2],
}

/// A row of the property that is not proven yet in some part.
#[derive(Clone)]
struct Target {
    /// Which row.
    property: usize,
    /// How it passes what is behind the front.
    variant: Variant,
    /// Its slopes in the first ODE block, instead of the variant's.
    table: Option<Arc<SlopeTable>>,
    /// The best row on the front's output.
    row: Arc<RowBlock>,
    /// What is proven.
    bound: f64,
    /// The part of that which the row and the dual give.
    reached: f64,
    dual: Dual,
    /// The same for the row that was pulled last, whether it was the best or not.
    fresh: Dual,
    minimiser: Vec<f64>,
    /// The front's output there, along the lines the row took.
    output: Vec<f64>,
    /// What the front's neurons cost, by layer.
    losses: Vec<Vec<f64>>,
    /// Coefficients behind the front's neurons, by layer.
    behind: Vec<Vec<f32>>,
    /// The neurons of the dynamics that cost most.
    inner: Vec<Inner>,
    /// What the steps of the first ODE block cost: time, size, cost.
    steps: Arc<[(f64, f64, f64)]>,
}

/// A part of the region.
struct Part {
    bounds: Vec<Arc<BoxVec>>,
    constraints: Vec<Constraint>,
    assumed: Vec<Assumption>,
    cuts: Vec<Arc<HalfSpace>>,
    /// The box behind the front that the targets' rows were made for.
    start: Arc<BoxVec>,
    targets: Vec<Target>,
    /// The smallest bound of rows that are proven here.
    closed: f64,
}

impl Target {
    /// A multiplier for a new constraint with which the row is at least about as good as without the split. A
    /// positive coefficient `a` on an unstable neuron was taken through a lower slope `s`; above the
    /// threshold the slope is now one, below it zero, and `a(1 − s)` or `a·s` times the constraint restores `s`.
    fn first_multiplier(&self, choice: &Choice, side: Side) -> f64 {
        let (coefficient, through) = match choice.place {
            Place::Front(layer, neuron) => {
                let a = f64::from(self.behind[layer][neuron]).max(0.0);
                (a, a * f64::from(self.dual.slopes[layer][neuron]))
            }
            Place::Dynamics(layer, neuron) => {
                let own = self.inner.iter().find(|i| (i.layer, i.neuron) == (layer, neuron));
                own.map_or((0.0, 0.0), |inner| inner.weight)
            }
        };
        match side {
            Side::Below => through,
            Side::Above => coefficient - through,
        }
    }

    /// Takes over what was found for its row.
    fn take(&mut self, solved: &Solved) {
        self.bound = self.bound.max(solved.bound);
        self.reached = solved.bound;
        self.dual.clone_from(&solved.dual);
        self.minimiser.clone_from(&solved.minimiser);
        self.output.clone_from(&solved.output);
        self.losses.clone_from(&solved.losses);
        self.behind.clone_from(&solved.behind);
    }
}

impl Leaf for Part {
    fn bound(&self) -> f64 {
        self.targets.iter().map(|t| t.bound).fold(self.closed, f64::min)
    }
}

impl Part {
    fn worst(&self) -> Option<&Target> {
        self.targets.iter().min_by(|a, b| a.bound.total_cmp(&b.bound))
    }

    fn bytes(&self) -> usize {
        let target = |t: &Target| {
            let losses = t.losses.iter().map(Vec::len).sum::<usize>();
            let inner = t.inner.iter().map(|i| i.below[0].bytes() + i.below[1].bytes()).sum::<usize>();
            t.dual.bytes() + t.fresh.bytes() + 8 * (t.minimiser.len() + losses) + inner
        };
        self.targets.iter().map(target).sum::<usize>() + 32 * self.start.len() + 512
    }
}

/// What branch and bound found.
#[derive(Clone, Debug)]
pub struct Branched {
    /// Proven lower bound of every row over the whole region, at least what it started from.
    pub margin: f64,
    /// An input that the network gets wrong, if one turned up.
    pub witness: Option<Vec<f64>>,
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
    /// Nothing but what was known before.
    pub(crate) fn new(known: &[f64]) -> Self {
        let margin = known.iter().copied().fold(f64::INFINITY, f64::min);
        Self { margin, witness: None, parts: 0, stopped: None, root: None, looseness: None }
    }
}

/// Looks at an input and returns a counterexample if it is one, or is next to one.
pub(crate) type Judge<'a> = &'a (dyn Fn(&[f64]) -> Option<Vec<f64>> + Sync);

/// What is to be proved, and by which means.
#[derive(Clone, Copy)]
pub(crate) struct Task<'a> {
    pub prepared: &'a Prepared,
    pub property: &'a Property,
    pub arithmetic: Arithmetic,
    pub clock: Clock<'a>,
    pub judge: Judge<'a>,
    /// Threads to use.
    pub workers: usize,
}

/// Splits a region.
pub(crate) struct Brancher<'a, 't> {
    task: &'t Task<'a>,
    front: Front<'a>,
    /// The first block behind the front.
    first: usize,
    domain: Domain,
    /// For the last layer: neurons that may matter, and rows below them and below their negatives.
    neurons: Vec<usize>,
    rows: Rows,
}

/// How much of what was expected splitting a neuron has brought so far.
#[derive(Clone, Copy, Default)]
struct Experience {
    share: f64,
    count: f64,
}

/// A row pulled through everything behind the front.
struct Trial {
    /// On the front's output.
    row: Arc<RowBlock>,
    /// Its bound from boxes behind the front.
    bound: f64,
    /// What it met in the first ODE block.
    ledger: Ledger,
    table: Option<Arc<SlopeTable>>,
}

/// A part of the region before its rows are bounded.
struct Draft<'a> {
    part: Part,
    /// Everything behind the front, if it was worked out anew.
    analysis: Option<Analysis<'a>>,
    /// For every target, rows pulled through that.
    trials: Vec<Vec<Trial>>,
}

impl Draft<'_> {
    /// The rows to choose from for a target: the trials, and last what the parent had.
    fn candidates(&self, target: usize) -> Vec<Arc<RowBlock>> {
        let trials = self.trials.get(target).into_iter().flatten();
        trials.map(|trial| &trial.row).chain([&self.part.targets[target].row]).cloned().collect()
    }
}

/// A part that was split: its halves, what was learnt about neurons, and how many parts that took.
struct Expansion {
    children: Vec<Part>,
    learnt: Vec<(Place, f64)>,
    parts: usize,
}

impl<'a, 't> Brancher<'a, 't> {
    /// Prepares to split the region of an analysis; `None` if the network has nothing in front of its first
    /// ODE block that could be split.
    pub fn new(task: &'t Task<'a>, analysis: &Analysis<'a>) -> Option<Self> {
        let front = Front::new(analysis, task.arithmetic)?;
        let first = task.prepared.network.blocks.iter().position(|b| matches!(b, Block::Ode(_)))?;
        let domain = Domain::new(&front.input);
        let last = front.layers.len() - 1;
        let bounds: Vec<Arc<BoxVec>> = front.layers.iter().map(|l| l.before.clone()).collect();
        let image = front.layers[last].activation.image_box(&bounds[last], task.arithmetic);
        let neurons: Vec<usize> = (0..image.len()).filter(|&i| image.lower[i] < image.upper[i]).collect();
        let rows = neuron_rows(&front, last, &neurons, &bounds);
        Some(Self { task, front, first, domain, neurons, rows })
    }

    /// Splits until everything is proven, a counterexample turns up or the budget is spent. `known` are bounds
    /// that are proven already.
    pub fn run(&self, known: &[f64]) -> Branched {
        let started = Instant::now();
        let mut outcome = Branched::new(known);
        let mut open: BinaryHeap<Lowest<Part>> = BinaryHeap::new();
        let mut experience: HashMap<Place, Experience> = HashMap::new();
        let mut proven = f64::INFINITY;
        match self.root(known) {
            Ok(root) => {
                outcome.witness = self.counterexample(&root);
                outcome.looseness = self.looseness(&root);
                open.push(Lowest(root));
            }
            Err(reason) => {
                outcome.stopped = Some(reason);
                return outcome;
            }
        }
        outcome.parts = 1;
        outcome.root = Some(started.elapsed());
        let mut bytes = 0;
        while outcome.witness.is_none() && outcome.stopped.is_none() {
            let mut batch: Vec<Part> = Vec::new();
            while batch.len() < self.task.workers
                && let Some(Lowest(part)) = open.pop()
            {
                if part.targets.is_empty() {
                    proven = proven.min(part.bound());
                } else {
                    bytes -= part.bytes().min(bytes);
                    batch.push(part);
                }
            }
            if batch.is_empty() {
                break;
            }
            let expansions = match self.task.clock.check(bytes) {
                Ok(()) => self.expand_all(&batch, &experience),
                Err(reason) => batch.iter().map(|_| Err(reason.clone())).collect(),
            };
            for (part, expansion) in batch.into_iter().zip(expansions) {
                match expansion {
                    Ok(Expansion { children, learnt, parts }) => {
                        outcome.parts += parts;
                        for (place, share) in learnt {
                            let seen = experience.entry(place).or_default();
                            seen.share += share;
                            seen.count += 1.0;
                        }
                        for child in children {
                            outcome.witness = outcome.witness.or_else(|| self.counterexample(&child));
                            bytes += child.bytes();
                            open.push(Lowest(child));
                        }
                    }
                    Err(reason) => {
                        outcome.stopped = Some(reason);
                        open.push(Lowest(part));
                    }
                }
            }
        }
        outcome.margin = outcome.margin.max(proven_everywhere(proven, &open));
        if outcome.stopped.is_none() {
            outcome.looseness = None;
        }
        outcome
    }

    /// Expands several parts, each on its own thread.
    fn expand_all(
        &self,
        batch: &[Part],
        experience: &HashMap<Place, Experience>,
    ) -> Vec<Result<Expansion, Reason>> {
        if let [only] = batch {
            return vec![self.expand(only, experience)];
        }
        std::thread::scope(|scope| {
            let spawn = |part| scope.spawn(move || self.expand(part, experience));
            let workers: Vec<_> = batch.iter().map(spawn).collect();
            let done = workers.into_iter().map(|w| w.join().unwrap_or_else(|e| std::panic::resume_unwind(e)));
            done.collect()
        })
    }

    fn counterexample(&self, part: &Part) -> Option<Vec<f64>> {
        part.targets.iter().find_map(|target| (self.task.judge)(&target.minimiser))
    }

    /// Where the worst row of a part loses.
    fn looseness(&self, part: &Part) -> Option<Looseness> {
        let worst = part.worst()?;
        let front: Vec<f64> = worst.losses.iter().map(|layer| layer.iter().sum()).collect();
        let mut steps: Vec<(f64, f64)> = Vec::new();
        for &(time, _, cost) in worst.steps.iter() {
            match steps.iter_mut().find(|(t, _)| *t == time) {
                Some((_, sum)) => *sum += cost,
                None => steps.push((time, cost)),
            }
        }
        let run = Inference::run(&self.task.prepared.network, &worst.minimiser, Precision::Float64).ok()?;
        let row = &self.task.property.rows[worst.property];
        let truth: f64 = row.iter().zip(&run.output).map(|(a, b)| a * b).sum();
        let mut looseness = Looseness { front, steps, rest: 0.0 };
        let found = looseness.front.iter().sum::<f64>() + looseness.in_steps();
        looseness.rest = (truth - worst.reached - found).max(0.0);
        Some(looseness)
    }

    /// The whole region as the first part.
    fn root(&self, known: &[f64]) -> Result<Part, Reason> {
        let bounds: Vec<Arc<BoxVec>> = self.front.layers.iter().map(|l| l.before.clone()).collect();
        let start = self.front.output_box(&bounds[bounds.len() - 1]);
        let open: Vec<usize> = (0..known.len()).filter(|&i| known[i] <= 0.0).collect();
        let closed = known.iter().copied().filter(|k| *k > 0.0).fold(f64::INFINITY, f64::min);
        let analysis = self.analyse(start.clone(), &[])?;
        let mut targets = Vec::new();
        let mut trials: Vec<Vec<Trial>> = Vec::new();
        for &property in &open {
            let pull = |variant: &Variant| self.pull(&analysis, property, variant, None);
            let all = VARIANTS.iter().map(pull).collect::<Result<Vec<_>, _>>()?;
            targets.push(Target {
                property,
                variant: VARIANTS[0],
                table: None,
                row: all[0].row.clone(),
                bound: all.iter().map(|trial| trial.bound).fold(known[property], f64::max),
                reached: f64::NEG_INFINITY,
                dual: self.front.first_dual(LowerSlope::Zero),
                fresh: self.front.first_dual(LowerSlope::Zero),
                minimiser: Vec::new(),
                output: Vec::new(),
                losses: Vec::new(),
                behind: Vec::new(),
                inner: Vec::new(),
                steps: Arc::new([]),
            });
            trials.push(all);
        }
        let (constraints, assumed, cuts) = (Vec::new(), Vec::new(), Vec::new());
        let part = Part { bounds, constraints, assumed, cuts, start: Arc::new(start), targets, closed };
        let draft = Draft { part, analysis: Some(analysis), trials };
        self.finish(vec![draft], ROOT)?.pop().ok_or(Reason::Empty)
    }

    /// The halves of a part for the best split. Neurons that were never split are tried, a few at a time; what
    /// that brings is remembered.
    fn expand(&self, part: &Part, experience: &HashMap<Place, Experience>) -> Result<Expansion, Reason> {
        let mut best: Option<(f64, Vec<Part>)> = None;
        let (mut learnt, mut parts) = (Vec::new(), 0);
        for choice in self.ranked(part, experience).into_iter().take(MOST_TRIED) {
            let children = self.children(part, &choice)?;
            parts += children.len();
            let gains: Vec<f64> = children.iter().map(|c| c.bound().min(0.0) - part.bound()).collect();
            let least = gains.iter().copied().fold(f64::INFINITY, f64::min);
            learnt.push((choice.place, (least / choice.loss).clamp(0.0, 1.0)));
            let worth = least + 0.1 * gains.iter().sum::<f64>();
            if best.as_ref().is_none_or(|(known, _)| worth > *known) {
                best = Some((worth, children));
            }
            if experience.contains_key(&choice.place) {
                break;
            }
        }
        let (_, children) = best.ok_or(Reason::Loose { margin: part.bound() })?;
        Ok(Expansion { children, learnt, parts })
    }

    /// Both halves of a part.
    fn children(&self, part: &Part, choice: &Choice) -> Result<Vec<Part>, Reason> {
        let drafts = [Side::Below, Side::Above]
            .into_iter()
            .map(|side| self.draft(part, choice, side))
            .collect::<Result<Vec<_>, _>>()?;
        self.finish(drafts, PART)
    }

    /// Neurons to split, by what their relaxation costs the worst row, weighed by how much of that splitting
    /// them has brought before.
    fn ranked(&self, part: &Part, experience: &HashMap<Place, Experience>) -> Vec<Choice> {
        let Some(worst) = part.worst() else { return Vec::new() };
        let mut all: Vec<(f64, Choice)> = Vec::new();
        let mut consider = |place: Place, loss: f64, at: f64, below: Option<[Arc<RowBlock>; 2]>| {
            let seen = experience.get(&place).copied().unwrap_or_default();
            let score = loss * (seen.share + 0.5) / (seen.count + 1.0);
            if score > 0.0 {
                all.push((score, Choice { place, at, loss, below }));
            }
        };
        for (layer, losses) in worst.losses.iter().enumerate() {
            for (neuron, &loss) in losses.iter().enumerate() {
                let bounds = part.bounds[layer].get(neuron);
                let kink = bounds.lower < 0.0 && bounds.upper > 0.0;
                let at = if kink { 0.0 } else { 0.5 * (bounds.lower + bounds.upper) };
                if bounds.lower < at && at < bounds.upper {
                    consider(Place::Front(layer, neuron), loss, at, None);
                }
            }
        }
        for inner in &worst.inner {
            let place = Place::Dynamics(inner.layer, inner.neuron);
            consider(place, inner.loss, inner.at, Some(inner.below.clone()));
        }
        all.sort_by(|a, b| b.0.total_cmp(&a.0));
        all.into_iter().map(|(_, choice)| choice).collect()
    }

    /// One half of a part, with the box behind the front and everything after it worked out anew.
    fn draft(&self, parent: &Part, choice: &Choice, side: Side) -> Result<Draft<'a>, Reason> {
        self.task.clock.check(0)?;
        let last = self.front.layers.len() - 1;
        let mut part = Part {
            bounds: parent.bounds.clone(),
            constraints: parent.constraints.clone(),
            assumed: parent.assumed.clone(),
            cuts: parent.cuts.clone(),
            start: parent.start.clone(),
            targets: parent.targets.clone(),
            closed: parent.closed,
        };
        let mut behind_changes = false;
        match choice.place {
            Place::Front(layer, neuron) => {
                let split = Split { layer, neuron, at: choice.at, side };
                let own = Arc::make_mut(&mut part.bounds[layer]);
                match side {
                    Side::Below => own.upper[neuron] = own.upper[neuron].min(choice.at),
                    Side::Above => own.lower[neuron] = own.lower[neuron].max(choice.at),
                }
                part.cuts.push(Arc::new(self.half_space(&split, parent)));
                part.constraints.push(Constraint::Neuron(split));
            }
            Place::Dynamics(layer, neuron) => {
                behind_changes = true;
                // The neuron will stay about where it starts.
                for table in part.targets.iter_mut().filter_map(|target| target.table.as_mut()) {
                    Arc::make_mut(table)[layer][neuron] = if side == Side::Above { 1.0 } else { 0.0 };
                }
                part.assumed.push(Assumption { layer, neuron, at: choice.at, side });
                if let Some([below, above]) = &choice.below {
                    let mut face = match side {
                        Side::Below => RowBlock::clone(below),
                        Side::Above => RowBlock::clone(above),
                    };
                    face.absorb(0, if side == Side::Below { -choice.at } else { choice.at }, 0.0);
                    let rows = Rows::from_block(face.clone(), Window::full(self.front.output));
                    let rows = best_to_input(&self.front, &rows, self.front.layers.len(), &part.bounds);
                    part.cuts.push(Arc::new(half_space(&rows, 0, 0.0)));
                    part.constraints.push(Constraint::Output(Arc::new(face)));
                }
            }
        }
        for target in &mut part.targets {
            let multiplier = target.first_multiplier(choice, side);
            target.fresh.multipliers.resize(part.constraints.len(), multiplier);
            // What the parent's row met behind the front has not changed.
            let multiplier = if behind_changes { 0.0 } else { multiplier };
            target.dual.multipliers.resize(part.constraints.len(), multiplier);
        }
        self.tighten(Arc::make_mut(&mut part.bounds[last]), &part.cuts);
        if part.bounds.iter().any(|b| b.lower.iter().zip(&b.upper).any(|(l, u)| l > u)) {
            return Ok(Draft { part: emptied(part), analysis: None, trials: Vec::new() });
        }
        let start = self.front.output_box(&part.bounds[last]);
        if !behind_changes && !shrunk(&part.start, &start) {
            return Ok(Draft { part, analysis: None, trials: Vec::new() });
        }
        let behind = self.analyse(start.clone(), &part.assumed).and_then(|analysis| {
            let pull =
                |t: &Target| Ok(vec![self.pull(&analysis, t.property, &t.variant, t.table.as_ref())?]);
            let trials = part.targets.iter().map(pull).collect::<Result<Vec<_>, Reason>>()?;
            Ok((analysis, trials))
        });
        match behind {
            Ok((analysis, trials)) => {
                for (target, trial) in part.targets.iter_mut().zip(&trials) {
                    target.bound = target.bound.max(trial[0].bound);
                }
                part.start = Arc::new(start);
                Ok(Draft { part, analysis: Some(analysis), trials })
            }
            Err(Reason::Empty) => Ok(Draft { part: emptied(part), analysis: None, trials: Vec::new() }),
            Err(reason @ (Reason::TimeLimit { .. } | Reason::Interrupted | Reason::MemoryLimit { .. })) => {
                Err(reason)
            }
            // The parent's rows hold here too.
            Err(_) => Ok(Draft { part, analysis: None, trials: Vec::new() }),
        }
    }

    /// Bounds the open rows of several parts, all as one block, first with every candidate row, then the best
    /// of them with better slopes inside the ODE block.
    fn finish(&self, mut drafts: Vec<Draft<'a>>, effort: Effort) -> Result<Vec<Part>, Reason> {
        // Draft, target, and number among the candidates.
        let mut all: Vec<(usize, usize, usize)> = Vec::new();
        for (d, draft) in drafts.iter().enumerate() {
            for (t, _) in draft.part.targets.iter().enumerate().filter(|(_, t)| t.bound <= 0.0) {
                all.extend((0..draft.candidates(t).len()).map(|c| (d, t, c)));
            }
        }
        let rows: Vec<Arc<RowBlock>> =
            all.iter().map(|&(d, t, c)| drafts[d].candidates(t)[c].clone()).collect();
        let solved = self.solve(&drafts, &all, &rows, effort.rounds)?;
        // For every target, the candidate with the best bound.
        let mut best: BTreeMap<(usize, usize), (usize, Solved)> = BTreeMap::new();
        for (&(d, t, c), solved) in all.iter().zip(solved) {
            let fresh = drafts[d].trials.get(t).is_some_and(|own| own.len() == 1 && c == 0);
            if fresh {
                drafts[d].part.targets[t].fresh = solved.dual.clone();
            }
            if best.get(&(d, t)).is_none_or(|(_, known)| solved.bound > known.bound) {
                best.insert((d, t), (c, solved));
            }
        }
        for (&(d, t), (c, solved)) in &best {
            let Draft { part, trials, analysis } = &mut drafts[d];
            let target = &mut part.targets[t];
            if let Some(own) = trials.get(t).filter(|own| *c < own.len()) {
                target.row = own[*c].row.clone();
                if own.len() == VARIANTS.len() {
                    target.variant = VARIANTS[*c];
                    let ode = analysis.as_ref().and_then(Analysis::first_ode);
                    target.fresh.clone_from(&solved.dual);
                    target.table = ode.map(|ode| Arc::new(ode.slope_table(target.variant.ode.slope)));
                }
            }
            target.take(solved);
        }
        let mut current: Vec<((usize, usize), Trial)> = Vec::new();
        for (&(d, t), (c, _)) in &best {
            if drafts[d].trials.get(t).is_some_and(|own| *c < own.len()) {
                current.push(((d, t), drafts[d].trials[t].swap_remove(*c)));
            }
        }
        for tuning in 0..effort.tunings {
            current.retain(|((d, t), _)| drafts[*d].part.targets[*t].bound <= 0.0);
            let rate = TUNING.0 * TUNING.1.powi(tuning as i32);
            let mut next = Vec::new();
            for ((d, t), trial) in &current {
                let Draft { part, analysis: Some(analysis), .. } = &drafts[*d] else { continue };
                let target = &part.targets[*t];
                let Some(table) = self.tuned(analysis, trial, target, rate) else {
                    continue;
                };
                let trial = self.pull(analysis, target.property, &target.variant, Some(&Arc::new(table)))?;
                next.push(((*d, *t), trial));
            }
            // Not the parent's row: number 0.
            let keys: Vec<(usize, usize, usize)> = next.iter().map(|((d, t), _)| (*d, *t, 0)).collect();
            let rows: Vec<Arc<RowBlock>> = next.iter().map(|(_, trial)| trial.row.clone()).collect();
            let solved = self.solve(&drafts, &keys, &rows, effort.rounds / 2)?;
            for (((d, t), trial), solved) in next.into_iter().zip(solved) {
                let target = &mut drafts[d].part.targets[t];
                target.bound = target.bound.max(trial.bound);
                if solved.bound > target.reached {
                    target.row = trial.row.clone();
                    target.table = trial.table.clone();
                    target.fresh.clone_from(&solved.dual);
                    target.take(&solved);
                    if let Some((_, own)) = current.iter_mut().find(|(key, _)| *key == (d, t)) {
                        *own = trial;
                    }
                }
            }
        }
        for ((d, t), trial) in &current {
            let Draft { part, analysis: Some(analysis), .. } = &mut drafts[*d] else { continue };
            let (inner, steps) = self.inner(analysis, trial, &part.targets[*t]);
            part.targets[*t].inner = inner;
            part.targets[*t].steps = steps.into();
        }
        let mut parts: Vec<Part> = drafts.into_iter().map(|draft| draft.part).collect();
        for part in &mut parts {
            let proven = part.targets.iter().map(|t| t.bound).filter(|b| *b > 0.0);
            part.closed = proven.fold(part.closed, f64::min);
            part.targets.retain(|t| t.bound <= 0.0);
        }
        Ok(parts)
    }

    /// Bounds rows of targets of drafts, as one block.
    fn solve(
        &self,
        drafts: &[Draft<'a>],
        keys: &[(usize, usize, usize)],
        rows: &[Arc<RowBlock>],
        rounds: usize,
    ) -> Result<Vec<Solved>, Reason> {
        let problem = |(&(d, t, c), row): (&(usize, usize, usize), &Arc<RowBlock>)| {
            let Part { bounds, constraints, targets, .. } = &drafts[d].part;
            let own = drafts[d].trials.get(t).is_some_and(|own| c < own.len());
            let dual = if own { &targets[t].fresh } else { &targets[t].dual }.clone();
            Problem { row: row.clone(), bounds, constraints, dual }
        };
        let problems: Vec<Problem<'_>> = keys.iter().zip(rows).map(problem).collect();
        let mut solved = self.front.optimise(&problems, rounds, true, &self.task.clock)?;
        for (&(d, _, _), solved) in keys.iter().zip(&mut solved) {
            if solved.bound <= 0.0 {
                let cuts: Vec<&HalfSpace> = drafts[d].part.cuts.iter().map(Arc::as_ref).collect();
                let RowBlock { coefficients, constant, slack, .. } = &solved.row;
                let cut = self.domain.lower_bound(coefficients, constant[0], slack[0], &cuts);
                solved.bound = solved.bound.max(cut);
            }
        }
        Ok(solved)
    }

    /// What the steps of the first ODE block cost a target's row where it is smallest.
    fn step_losses(&self, pull: &GraphPull<'_>, trial: &Trial, target: &Target) -> StepLosses {
        let form = target.variant.ode.form;
        let journey = Journey { ode: pull.ode, graph: pull.graph, ledger: &trial.ledger, form };
        journey.follow(&target.output)
    }

    /// Slopes inside the first ODE block that should serve a row better.
    fn tuned(
        &self,
        analysis: &Analysis<'a>,
        trial: &Trial,
        target: &Target,
        rate: f64,
    ) -> Option<SlopeTable> {
        let pull = analysis.first_ode()?;
        let losses = self.step_losses(&pull, trial, target).by_neuron;
        let largest = losses.values().map(|n| n.slope_gain.abs()).fold(0.0, f64::max);
        if largest.is_nan() || largest <= 0.0 {
            return None;
        }
        let mut table = match &trial.table {
            Some(table) => SlopeTable::clone(table),
            None => pull.slope_table(target.variant.ode.slope),
        };
        for ((layer, neuron), NeuronLoss { slope_gain: gain, .. }) in losses {
            let slope = &mut table[layer][neuron];
            // Large gains decide; small ones still count.
            let step = rate * (gain / largest).abs().sqrt().copysign(gain);
            *slope = (f64::from(*slope) + step).clamp(0.0, 1.0) as f32;
        }
        Some(table)
    }

    /// The neurons of the dynamics that cost a target's row most, among those that can be split, and what the
    /// steps cost it.
    fn inner(
        &self,
        analysis: &Analysis<'a>,
        trial: &Trial,
        target: &Target,
    ) -> (Vec<Inner>, Vec<(f64, f64, f64)>) {
        let Some(pull) = analysis.first_ode() else { return Default::default() };
        let losses = self.step_losses(&pull, trial, target);
        let mut found: Vec<((usize, usize), f64, f64)> = losses
            .by_neuron
            .iter()
            .filter_map(|(&(layer, neuron), loss)| {
                let initially = pull.initially(layer, neuron)?;
                let inside = |at: f64| initially.lower < at && at < initially.upper;
                let middle = 0.5 * (initially.lower + initially.upper);
                let at = if inside(-loss.drift) { -loss.drift } else { middle };
                inside(at).then_some(((layer, neuron), loss.total, at))
            })
            .collect();
        found.sort_unstable_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
        let inner = found.into_iter().take(MOST_INNER).filter_map(|((layer, neuron), loss, at)| {
            let row = |sign: f64| pull.neuron_row(layer, neuron, sign).map(Arc::new);
            let weight = losses.by_neuron.get(&(layer, neuron)).map_or((0.0, 0.0), |n| n.weight);
            Some(Inner { layer, neuron, loss, at, weight, below: [row(1.0)?, row(-1.0)?] })
        });
        (inner.collect(), losses.by_step)
    }

    /// Analyses everything behind the front from a box.
    fn analyse(&self, start: BoxVec, assumed: &[Assumption]) -> Result<Analysis<'a>, Reason> {
        let (method, form) = (Method::Tight, StepForm::Difference);
        let Task { prepared, arithmetic, clock, .. } = *self.task;
        Analysis::from_block(prepared, self.first, start, assumed, method, form, arithmetic, clock)
    }

    /// Pulls a row of the property through everything behind the front.
    fn pull(
        &self,
        analysis: &Analysis<'a>,
        property: usize,
        variant: &Variant,
        table: Option<&Arc<SlopeTable>>,
    ) -> Result<Trial, Reason> {
        let window = Window::full(Shape::flat(self.task.property.outputs));
        let grouped = Grouped::new(Rows::new(window, self.task.property.rows[property].clone()), 1);
        let (mut bound, mut ledger) = (f64::NEG_INFINITY, Ledger::default());
        let visit = |grouped: &Grouped, domain: &BoxVec| {
            bound = grouped.rows.lower_bounds(domain).into_iter().fold(bound, f64::max);
        };
        let slopes = table.map(Arc::as_ref);
        let pulled = analysis.pull_steered(grouped, &[*variant], visit, slopes, Some(&mut ledger))?;
        Ok(Trial { row: Arc::new(pulled.rows.into_block()), bound, ledger, table: table.cloned() })
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
    fn tighten(&self, bounds: &mut BoxVec, cuts: &[Arc<HalfSpace>]) {
        let cuts: Vec<&HalfSpace> = cuts.iter().map(Arc::as_ref).collect();
        let (rows, count) = (&self.rows, self.neurons.len());
        for (at, &i) in self.neurons.iter().enumerate() {
            let bound = |row: usize| {
                self.domain.lower_bound(rows.row(row), rows.constant[row], rows.slack[row], &cuts)
            };
            bounds.lower[i] = bounds.lower[i].max(bound(at));
            bounds.upper[i] = bounds.upper[i].min(-bound(count + at));
        }
    }
}

/// A neuron to split.
struct Choice {
    place: Place,
    at: f64,
    loss: f64,
    /// For neurons of the dynamics, see [`Inner`].
    below: Option<[Arc<RowBlock>; 2]>,
}

/// A part in which there is no input.
fn emptied(mut part: Part) -> Part {
    part.targets.clear();
    part.closed = f64::INFINITY;
    part
}

/// Where a row is at most `threshold`.
fn half_space(rows: &Rows, row: usize, threshold: f64) -> HalfSpace {
    let constant = down(down(rows.constant[row] - rows.slack[row]) - threshold);
    HalfSpace { coefficients: rows.row(row).to_vec(), constant }
}

/// Whether a box is enough smaller than another for a new analysis to pay.
fn shrunk(from: &BoxVec, to: &BoxVec) -> bool {
    let total = |b: &BoxVec| b.lower.iter().zip(&b.upper).map(|(l, u)| u - l).sum::<f64>();
    total(to) < 0.995 * total(from)
}

/// Rows on the input below the given neurons and below their negatives.
fn neuron_rows(front: &Front<'_>, layer: usize, neurons: &[usize], bounds: &[Arc<BoxVec>]) -> Rows {
    let mut rows = Rows::zeros(2 * neurons.len(), Window::full(front.shape(layer)));
    for (row, &neuron) in neurons.iter().enumerate() {
        rows.row_mut(row)[neuron] = 1.0;
        rows.row_mut(neurons.len() + row)[neuron] = -1.0;
    }
    best_to_input(front, &rows, layer, bounds)
}

/// Pulls rows on a layer to the input with several slopes, and keeps for each the one with the best bound.
fn best_to_input(front: &Front<'_>, rows: &Rows, layer: usize, bounds: &[Arc<BoxVec>]) -> Rows {
    let slopes = [LowerSlope::Zero, LowerSlope::MinArea, LowerSlope::One];
    let mut all = slopes.into_iter().map(|slope| front.to_input(rows.clone(), layer, bounds, slope));
    let mut best = all.next().unwrap_or_else(|| rows.clone());
    let mut known = best.lower_bounds(&front.input);
    for other in all {
        let bounds = other.lower_bounds(&front.input);
        let better: Vec<usize> = (0..best.count).filter(|&i| bounds[i] > known[i]).collect();
        best.put(&better, &other.select(&better));
        better.iter().for_each(|&i| known[i] = bounds[i]);
    }
    best
}
