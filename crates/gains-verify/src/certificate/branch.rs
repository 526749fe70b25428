//! Proofs by case distinctions on the neurons in front of the first ODE block, and by better slopes.
//!
//! This is no record of what [`crate::branch`] did: that search stops at the first bound above zero and keeps what it
//! knows of a part in forms of its own. Here the same steps are made once more, in the order in which a checker makes
//! them: a cut for every split, boxes of the last layer over the region cut by all of them, a graph from the smaller box,
//! rows with slopes and multipliers of their own. A part that is not closed is split again.

use std::sync::Arc;

use gains_core::program::Flight;
use gains_core::{BoxVec, Interval, LowerSlope, Program, RowBlock, Rows, Support};

use super::claim::{
    BoxClaim, CutClaim, GraphClaim, LinesChoice, Node, RowClaim, SplitClaim, SplitPlace, UNCLAIMED, Way,
};
use super::prove::{DEEPEST, claimed_bound};
use crate::analysis::{Analysis, Steered, way};
use crate::branch::{TUNING, VARIANTS, half_space, joined, moved, shrunk};
use crate::front::{Constraint, Dual, Front, Solved, Split, Subject};
use crate::graph_pull::Freedom;
use crate::groups::Groups;
use crate::half_space::{Domain, HalfSpace};
use crate::ledger::Ledger;
use crate::limits::{Clock, Reason};
use crate::looseness::Journey;
use crate::method::{Method, Variant};
use crate::property::Property;
use crate::steps::{Room, Side, StepForm};

/// Rounds of gradient ascent for a row in a part.
const ROUNDS: usize = 30;

/// Improvements of the slopes inside the first ODE block, over the whole region.
const TUNINGS: usize = 12;

/// Slopes that are tried for rows on single neurons.
const POLICIES: [LowerSlope; 3] = [LowerSlope::Zero, LowerSlope::MinArea, LowerSlope::One];

/// Splits a region.
pub(super) struct Brancher<'b> {
    front: Front,
    /// The program from the front's output on, which is its only input.
    behind: &'b Program,
    rows: &'b Rows,
    property: &'b Property,
    domain: Domain,
    clock: Clock<'b>,
    room: Room,
}

/// A row of the property that is not shown yet.
#[derive(Clone)]
struct Target {
    row: usize,
    variant: Variant,
    /// Its slopes in the first ODE block, instead of the variant's; certificates know of no other freedom.
    freedom: Option<Arc<Freedom>>,
    /// What its last bound was attained with.
    dual: Dual,
}

/// What is known in a part of the region.
#[derive(Clone)]
struct Leaf<'b> {
    /// All values of the front.
    values: Vec<BoxVec>,
    /// Of these, the arguments of its layers.
    bounds: Vec<Arc<BoxVec>>,
    constraints: Vec<Constraint>,
    cuts: Vec<Arc<HalfSpace>>,
    /// The front's output that the analysis starts from.
    start: Arc<BoxVec>,
    /// Everything behind it.
    analysis: Arc<Analysis<'b>>,
}

/// A row on the front's output, on its way back.
struct Pulled {
    row: RowBlock,
    way: Way,
    /// The best bound on the way, and where the row was.
    early: Option<(f64, Vec<usize>)>,
    ledger: Ledger,
}

/// What came of a target in a part.
struct Tried {
    target: Target,
    solved: Solved,
    shown: Option<(f64, Way)>,
}

/// Claims at a node what was shown of a row; gives back what was not shown.
fn note(tried: Tried, node: &mut Node, known: &mut [f64]) -> Option<Tried> {
    let Some((bound, way)) = &tried.shown else { return Some(tried) };
    let row = tried.target.row;
    known[row] = *bound;
    node.rows.push(RowClaim { row, way: way.clone(), bound: *bound });
    None
}

impl<'b> Brancher<'b> {
    /// Prepares to split the region of an analysis; nothing if the network has nothing in front of its first ODE block
    /// that could be split.
    pub fn new(
        analysis: &Analysis<'_>,
        behind: &'b Program,
        rows: &'b Rows,
        property: &'b Property,
        clock: Clock<'b>,
    ) -> Option<Self> {
        let front = Front::new(&analysis.enclosed())?;
        let domain = Domain::new(&joined(front.region()));
        Some(Self { front, behind, rows, property, domain, clock, room: Room::ForClaims })
    }

    /// A proof over the whole region, without what is claimed of the front there.
    pub fn prove(&self) -> Result<Node, Reason> {
        let values = self.front.values().to_vec();
        let start = values[self.front.output].clone();
        let analysis = self.analyse(&start)?;
        let part = Leaf {
            values,
            bounds: self.front.whole_region(),
            constraints: Vec::new(),
            cuts: Vec::new(),
            start: Arc::new(start),
            analysis: Arc::new(analysis),
        };
        let mut node = Node { graphs: self.graphs(&part), ..Node::default() };
        node.boxes = self.boxes_behind(&part);
        let mut open = Vec::new();
        let mut known = vec![f64::NEG_INFINITY; self.rows.count];
        for row in 0..self.rows.count {
            if self.property.open_rows(&known).contains(&row) {
                open.extend(note(self.tuned(row, &part)?, &mut node, &mut known));
            }
        }
        node.split = self.rest(&part, open, &known)?;
        Ok(node)
    }

    /// What is left to do in a part where so much of the rows is known: nothing, or a split for those that still matter.
    fn rest(
        &self,
        part: &Leaf<'b>,
        mut open: Vec<Tried>,
        known: &[f64],
    ) -> Result<Option<Box<SplitClaim>>, Reason> {
        let matter = self.property.open_rows(known);
        open.retain(|tried| matter.contains(&tried.target.row));
        if matter.is_empty() { Ok(None) } else { Ok(Some(Box::new(self.split(part, &open, known)?))) }
    }

    fn analyse(&self, start: &BoxVec) -> Result<Analysis<'b>, Reason> {
        let (method, form) = (Method::Tight, StepForm::Difference);
        Analysis::for_claims(self.behind, vec![start.clone()], None, &[], method, form, self.clock)
    }

    /// The best of all variants for a row over the whole region, its slopes inside the ODE block improved.
    fn tuned(&self, row: usize, part: &Leaf<'b>) -> Result<Tried, Reason> {
        let dual = self.front.first_dual(LowerSlope::Zero);
        let mut best: Option<Tried> = None;
        let better = |tried: &Tried, best: &Option<Tried>| {
            best.as_ref().is_none_or(|best| tried.solved.bound > best.solved.bound)
        };
        for variant in VARIANTS {
            let target = Target { row, variant, freedom: None, dual: dual.clone() };
            let (tried, _) = self.attempt(target, part)?;
            if tried.shown.is_some() {
                return Ok(tried);
            }
            if better(&tried, &best) {
                best = Some(tried);
            }
        }
        let Some(mut best) = best else { return Err(Reason::Empty) };
        for tuning in 0..TUNINGS {
            let (_, pulled) = self.attempt(best.target.clone(), part)?;
            let rate = TUNING.0 * TUNING.1.powi(tuning as i32);
            let Some(freedom) = self.moved(&best, &pulled, part, rate) else { break };
            let target = Target { freedom: Some(Arc::new(freedom)), ..best.target.clone() };
            let (tried, _) = self.attempt(target, part)?;
            if tried.shown.is_some() {
                return Ok(tried);
            }
            if tried.solved.bound > best.solved.bound {
                best = tried;
            }
        }
        Ok(best)
    }

    fn moved(&self, tried: &Tried, pulled: &Pulled, part: &Leaf<'b>, rate: f64) -> Option<Freedom> {
        let ode = part.analysis.first_ode()?;
        let form = tried.target.variant.ode.form;
        let journey = Journey { block: ode.block, graph: ode.graph, ledger: &pulled.ledger, form };
        let losses = journey.follow(&tried.solved.output);
        let freedom = match &tried.target.freedom {
            Some(freedom) => Freedom::clone(freedom),
            None => ode.freedom(tried.target.variant.ode.slope),
        };
        moved(freedom, &losses, rate)
    }

    /// Bounds a target in a part.
    fn attempt(&self, mut target: Target, part: &Leaf<'b>) -> Result<(Tried, Pulled), Reason> {
        self.clock.check(0)?;
        let pulled = self.pull(&target, part)?;
        target.dual.multipliers.resize(part.constraints.len(), 0.0);
        let subject = Subject {
            row: Arc::new(pulled.row.clone()),
            bounds: &part.bounds,
            constraints: &part.constraints,
            dual: target.dual.clone(),
        };
        let solved =
            self.front.optimise(&[subject], ROUNDS, true, &self.clock)?.pop().ok_or(Reason::Empty)?;
        target.dual.clone_from(&solved.dual);
        let shown = self.shown(&pulled, &solved, &target, part);
        Ok((Tried { target, solved, shown }, pulled))
    }

    /// The way by which a row is positive, if there is one.
    fn shown(
        &self,
        pulled: &Pulled,
        solved: &Solved,
        target: &Target,
        part: &Leaf<'b>,
    ) -> Option<(f64, Way)> {
        if let Some((bound, stops)) = &pulled.early
            && let Some(bound) = claimed_bound(*bound)
        {
            return Some((bound, Way { stops: stops.clone(), ..pulled.way.clone() }));
        }
        let cuts: Vec<&HalfSpace> = part.cuts.iter().map(Arc::as_ref).collect();
        let RowBlock { coefficients, constant, slack, .. } = &solved.row;
        let (cut, by) = self.domain.lower_bound_by(coefficients, constant[0], slack[0], &cuts);
        let (bound, cuts) = if cut > solved.bound { (cut, by) } else { (solved.bound, Vec::new()) };
        let slopes = self.front.layers.iter().map(|l| l.value()).zip(solved.dual.slopes.clone()).collect();
        let multipliers = solved.dual.multipliers.iter().copied().enumerate().filter(|(_, b)| *b > 0.0);
        let way = Way {
            lines: LinesChoice { policy: target.variant.stack, slopes },
            multipliers: multipliers.collect(),
            cuts,
            ..pulled.way.clone()
        };
        Some((claimed_bound(bound)?, way))
    }

    /// Pulls a target's row through everything behind the front.
    fn pull(&self, target: &Target, part: &Leaf<'b>) -> Result<Pulled, Reason> {
        let analysis = &part.analysis;
        let mut early: Option<(f64, Vec<usize>)> = None;
        let visit = |flight: &Flight, _: &Groups| {
            let bound = flight.lower_bounds(|value| &analysis.values()[value])[0];
            if early.as_ref().is_none_or(|(best, _)| bound > *best) {
                let values = (0..self.behind.values()).filter(|&v| flight.on(v).is_some());
                early = Some((bound, values.map(|v| v + self.front.output).collect()));
            }
        };
        let (mut ledger, mut others) = (Ledger::default(), Vec::new());
        let steered = Steered {
            freedom: target.freedom.as_deref(),
            ledger: Some(&mut ledger),
            shares: Some(&mut others),
            ..Steered::default()
        };
        let (from, row) = (self.behind.output(), self.rows.select(&[target.row]));
        let (mut flight, _) = analysis.pull_steered(from, row, &[target.variant], visit, steered)?;
        let first = self.behind.odes().next().map(|(value, _)| value).unwrap_or_default();
        others.push((first, ledger));
        let mut way = self.shifted(way(&target.variant, &others, 0));
        if let (Some(freedom), Some(ode)) = (&target.freedom, way.odes.first_mut()) {
            ode.lines.slopes = freedom.slopes.iter().cloned().enumerate().skip(1).collect();
        }
        let ledger = others.pop().map(|(_, ledger)| ledger).unwrap_or_default();
        let rows = flight.take(0).unwrap_or_else(|| Rows::zeros(1, Support::full(self.behind.shape(0))));
        Ok(Pulled { row: rows.into_full(), way, early, ledger })
    }

    /// A way behind the front with the numbers that values have in the whole program.
    fn shifted(&self, mut way: Way) -> Way {
        let by = self.front.output;
        way.odes.iter_mut().for_each(|ode| ode.ode += by);
        way.stops.iter_mut().for_each(|stop| *stop += by);
        way.lines.slopes.iter_mut().for_each(|(value, _)| *value += by);
        way
    }

    fn graphs(&self, part: &Leaf<'b>) -> Vec<GraphClaim> {
        let mut graphs = part.analysis.graph_claims();
        graphs.iter_mut().for_each(|graph| graph.ode += self.front.output);
        graphs
    }

    /// What is claimed of values behind the first ODE block: rows that show it stay at the front's output.
    fn boxes_behind(&self, part: &Leaf<'b>) -> Vec<BoxClaim> {
        let stay = |way: &Way| {
            let mut way = self.shifted(way.clone());
            way.stops.push(self.front.output);
            way
        };
        let moved = |claim: &BoxClaim| BoxClaim {
            value: claim.value + self.front.output,
            ways: claim.ways.iter().map(stay).collect(),
            ..claim.clone()
        };
        part.analysis.box_claims().iter().map(moved).collect()
    }

    /// Splits a part across the neuron that costs most the row on which the property hangs, and proves both halves.
    fn split(&self, part: &Leaf<'b>, open: &[Tried], known: &[f64]) -> Result<SplitClaim, Reason> {
        let mut bounds = known.to_vec();
        open.iter().for_each(|tried| bounds[tried.target.row] = tried.solved.bound);
        let hanging = self.property.hanging_on(&bounds);
        let worst = open.iter().find(|tried| Some(tried.target.row) == hanging);
        let worst = worst.or_else(|| open.iter().max_by(|a, b| a.solved.bound.total_cmp(&b.solved.bound)));
        let loose = || Reason::Loose { margin: worst.map_or(f64::NEG_INFINITY, |worst| worst.solved.bound) };
        // Every half is a call inside another.
        if part.constraints.len() >= DEEPEST {
            return Err(loose());
        }
        let (layer, neuron, at) = worst.and_then(|worst| self.choose(part, worst)).ok_or_else(loose)?;
        let place = SplitPlace::Neuron(self.front.argument(layer));
        let mut parts = [Node::default(), Node::default()];
        for (side, node) in [Side::Below, Side::Above].into_iter().zip(&mut parts) {
            *node = self.half(part, Split { layer, neuron, at, side }, open, known)?;
        }
        Ok(SplitClaim { place, entry: neuron, at, parts })
    }

    /// The neuron whose relaxation costs a row most, among those that can be split.
    fn choose(&self, part: &Leaf<'b>, worst: &Tried) -> Option<(usize, usize, f64)> {
        let mut best: Option<(f64, (usize, usize, f64))> = None;
        for (layer, losses) in worst.solved.losses.iter().enumerate() {
            for (neuron, &loss) in losses.iter().enumerate() {
                let Interval { lower, upper } = part.bounds[layer].get(neuron);
                let at = if lower < 0.0 && upper > 0.0 { 0.0 } else { 0.5 * (lower + upper) };
                if lower < at && at < upper && loss > best.map_or(0.0, |(most, _)| most) {
                    best = Some((loss, (layer, neuron, at)));
                }
            }
        }
        best.map(|(_, choice)| choice)
    }

    /// One half of a part.
    fn half(&self, parent: &Leaf<'b>, split: Split, open: &[Tried], known: &[f64]) -> Result<Node, Reason> {
        let mut known = known.to_vec();
        let mut part = parent.clone();
        let mut node = Node::default();
        split.side.cut(&mut part.values[self.front.argument(split.layer)], split.neuron, split.at);
        let (cut, policy) = self.cut(&split, parent);
        let lines = LinesChoice { policy, slopes: Vec::new() };
        node.cuts.push(CutClaim { constraint: part.constraints.len(), way: Way { lines, ..Way::default() } });
        part.cuts.push(Arc::new(cut));
        part.constraints.push(Constraint::Neuron(split));
        self.propagate(&mut part);
        if let Some((claim, tighter)) = self.tightened(&part) {
            part.values[claim.value] = tighter;
            node.boxes.push(claim);
            self.propagate(&mut part);
        }
        if part.values.iter().any(|b| b.is_inside_out()) {
            return Ok(node);
        }
        let start = part.values[self.front.output].clone();
        if shrunk(&parent.start, &start)
            && let Ok(analysis) = self.analyse(&start)
        {
            part.analysis = Arc::new(analysis);
            part.start = Arc::new(start);
            node.graphs = self.graphs(&part);
            node.boxes.extend(self.boxes_behind(&part));
        }
        let mut left = Vec::new();
        for tried in open {
            if self.property.open_rows(&known).contains(&tried.target.row) {
                let (tried, _) = self.attempt(tried.target.clone(), &part)?;
                left.extend(note(tried, &mut node, &mut known));
            }
        }
        node.split = self.rest(&part, left, &known)?;
        Ok(node)
    }

    /// Works out all boxes of the front again, from the first to the last.
    fn propagate(&self, part: &mut Leaf<'b>) {
        part.values = self.front.propagated(&part.values);
        let argument = |layer: usize| Arc::new(part.values[self.front.argument(layer)].clone());
        part.bounds = (0..self.front.layers.len()).map(argument).collect();
    }

    /// The row on the inputs that is nowhere positive because of a split.
    fn cut(&self, split: &Split, part: &Leaf<'b>) -> (HalfSpace, LowerSlope) {
        let units = Rows::units(self.front.shape(split.layer), &[split.neuron]);
        let (row, threshold) = match split.side {
            Side::Below => (0, split.at),
            Side::Above => (1, -split.at),
        };
        let pulled = |policy| self.front.to_input(units.clone(), split.layer, &part.bounds, policy);
        let bound = |rows: &RowBlock| {
            self.domain.lower_bound(rows.row(row), rows.constant[row], rows.slack[row], &[])
        };
        let mut best = (pulled(POLICIES[0]), POLICIES[0]);
        for policy in &POLICIES[1..] {
            let rows = pulled(*policy);
            if bound(&rows) > bound(&best.0) {
                best = (rows, *policy);
            }
        }
        (half_space(&best.0, row, threshold), best.1)
    }

    /// Bounds the arguments of the last layer again, over the region cut by all splits.
    fn tightened(&self, part: &Leaf<'b>) -> Option<(BoxClaim, BoxVec)> {
        let last = self.front.layers.len() - 1;
        let layer = &self.front.layers[last];
        let plain = BoxVec::clone(&part.bounds[last]);
        let image = layer.activation.image_box(&plain, gains_core::Arithmetic::Real);
        let neurons: Vec<usize> = (0..image.len()).filter(|&i| image.lower[i] < image.upper[i]).collect();
        let cuts: Vec<&HalfSpace> = part.cuts.iter().map(Arc::as_ref).collect();
        let units = Rows::units(self.front.shape(last), &neurons);
        let mut best: Vec<Option<(f64, Way)>> = vec![None; 2 * plain.len()];
        for policy in POLICIES {
            let rows = self.front.to_input(units.clone(), last, &part.bounds, policy);
            for row in 0..rows.count {
                let (bound, by) =
                    self.domain.lower_bound_by(rows.row(row), rows.constant[row], rows.slack[row], &cuts);
                let side = row / neurons.len();
                let best = &mut best[side * plain.len() + neurons[row % neurons.len()]];
                if best.as_ref().is_none_or(|(known, _)| bound > *known) {
                    let lines = LinesChoice { policy, slopes: Vec::new() };
                    *best = Some((bound, Way { lines, cuts: by, ..Way::default() }));
                }
            }
        }
        let upper = best.split_off(plain.len());
        let claim = crate::analysis::claimed(self.front.argument(last), &plain, [best, upper], self.room);
        let counts = |by: &[u16]| by.iter().any(|by| *by != UNCLAIMED);
        let tighter = crate::analysis::kept(&plain, &claim);
        (counts(&claim.lower_by) || counts(&claim.upper_by)).then_some((claim, tighter))
    }
}
