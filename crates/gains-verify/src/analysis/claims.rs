//! Analyses for certificates: the same rules, with room around everything that is claimed, and every choice noted.

use std::sync::Arc;

use gains_core::operator::Known;
use gains_core::program::Flight;
use gains_core::{
    Activation, Arithmetic, BoxVec, Interval, LowerSlope, Program, Relaxation, RowBlock, Rows, Window,
};

use super::{Analysis, Steered, Trajectories};
use crate::ball::Ball;
use crate::certificate::claim::{
    BoxClaim, GraphClaim, LinesChoice, OdeWay, PiecedLines, UNCLAIMED, VertexClaim, Way,
};
use crate::front::{Front, Subject};
use crate::ledger::Ledger;
use crate::limits::{Clock, Reason};
use crate::method::{Method, Variant};
use crate::steps::{Assumption, Room, StageTrace, StepForm};

/// A bound, and the way of the row that has it.
pub(crate) type Shown = (f64, Way);

/// Rounds of gradient ascent for a row that no way shows as it is.
const POLISH: usize = 60;

impl<'a> Analysis<'a> {
    /// Encloses every value over the inputs in `region` and `ball` for which the assumptions about the start of the first
    /// ODE block hold, as a certificate will claim it. In real arithmetic.
    pub(crate) fn for_claims(
        program: &'a Program,
        region: Vec<BoxVec>,
        ball: Option<Ball>,
        assumed: &[Assumption],
        method: Method,
        form: StepForm,
        clock: Clock<'a>,
    ) -> Result<Self, Reason> {
        let (arithmetic, room) = (Arithmetic::Real, Room::ForClaims);
        Self::enclose(program, region, ball, assumed, method, form, arithmetic, clock, room)
    }

    /// The boxes that rows have tightened.
    pub(crate) fn box_claims(&self) -> &[BoxClaim] {
        &self.claims
    }

    /// The trajectory graphs.
    pub(crate) fn graph_claims(&self) -> Vec<GraphClaim> {
        let inputs = self.program.inputs().len();
        let graph = |value: usize| self.graphs.get(value - inputs).and_then(|graph| graph.as_deref());
        let odes = self.program.odes().filter_map(|(value, ode)| Some((value, ode, graph(value)?)));
        odes.map(|(value, ode, graph)| {
            let nodes = ode.block.dynamics.nodes().count();
            graph_claim(value, nodes, graph, self.form)
        })
        .collect()
    }

    /// The lines beside functions made of pieces, outside ODE blocks.
    pub(crate) fn line_claims(&self) -> Vec<PiecedLines> {
        let inputs = self.program.inputs().len();
        let known = self.known.iter().enumerate();
        known.filter_map(|(node, known)| pieced_lines(node + inputs, known)).collect()
    }

    /// Tightens a value by rows, once, and notes how.
    pub(super) fn refine_claimed(&mut self, value: usize, before_relu: bool) -> Result<(), Reason> {
        if self.claims.iter().any(|claim| claim.value == value) {
            return Ok(());
        }
        let shape = self.program.shape(value);
        let plain = self.values[value].clone();
        let mut best: [Vec<Option<Shown>>; 2] = [vec![None; shape.len()], vec![None; shape.len()]];
        for position in 0..shape.positions() {
            self.clock.check(self.held)?;
            let window = Window::pixel(shape, position / shape.width, position % shape.width);
            let first = position * shape.channels;
            let channels: Vec<usize> = (0..shape.channels)
                .filter(|channel| !(before_relu && plain.upper[first + channel] <= 0.0))
                .collect();
            if channels.is_empty() {
                continue;
            }
            for variant in self.recipe.refining {
                let shown = self.followed(value, Rows::pixel(window, &channels), variant)?;
                for (row, new) in shown.into_iter().enumerate() {
                    let side = row / channels.len();
                    let best = &mut best[side][first + channels[row % channels.len()]];
                    if best.as_ref().is_none_or(|(bound, _)| new.0 > *bound) {
                        *best = Some(new);
                    }
                }
            }
        }
        let claim = claimed(value, &plain, best, self.room);
        self.values[value] = kept(&plain, &claim);
        self.claims.push(claim);
        if self.values[value].is_sane() { Ok(()) } else { Err(Reason::Overflow { time: 0.0 }) }
    }

    /// Rows on a value pulled back to the inputs by one variant.
    fn followed(&self, from: usize, rows: Rows, variant: &Variant) -> Result<Vec<Shown>, Reason> {
        let mut ledgers = Vec::new();
        let steered = Steered { shares: Some(&mut ledgers), ..Steered::default() };
        let (pulled, _) = self.pull_steered(from, rows, &[*variant], |_, _| {}, steered)?;
        let bounds = self.over_inputs(&pulled).into_iter().enumerate();
        Ok(bounds.map(|(row, bound)| (bound, way(variant, &ledgers, row))).collect())
    }

    /// Where the rows of a flight are, besides inputs.
    fn stops(&self, flight: &Flight) -> Vec<usize> {
        (self.program.inputs().len()..self.program.values()).filter(|&v| flight.on(v).is_some()).collect()
    }

    /// Bounds one row on the outputs, from short ways to long ones, until it is positive.
    pub(crate) fn show(&self, row: &Rows) -> Result<Shown, Reason> {
        let stay = |flight: &Flight| Way { stops: self.stops(flight), ..Way::default() };
        let output = self.program.output();
        let at_output = Flight::new(self.program.values(), output, row.clone());
        let mut best = (self.over_inputs(&at_output)[0], stay(&at_output));
        let better = |best: &mut Shown, bound: f64, way: &dyn Fn() -> Way| {
            if bound > best.0 || best.0.is_nan() {
                *best = (bound, way());
            }
            best.0 > 0.0
        };
        if self.has_boxes() {
            let folded = self.fold(row);
            if better(&mut best, self.over_inputs(&folded)[0], &|| stay(&folded)) {
                return Ok(best);
            }
        }
        let mut polishable: Option<(f64, Variant, Flight, Way)> = None;
        for variant in self.finals() {
            let mut ledgers = Vec::new();
            let mut visited: Vec<(f64, Vec<usize>)> = Vec::new();
            let mut at_start = None;
            let visit = |flight: &Flight, _: &crate::groups::Groups| {
                visited.push((self.over_inputs(flight)[0], self.stops(flight)));
                at_start = Some(flight.clone());
            };
            let steered = Steered { shares: Some(&mut ledgers), ..Steered::default() };
            let (pulled, _) = self.pull_steered(output, row.clone(), &[*variant], visit, steered)?;
            let whole = way(variant, &ledgers, 0);
            for (bound, stops) in visited {
                let part = || Way { stops: stops.clone(), ..whole.clone() };
                if better(&mut best, bound, &part) {
                    return Ok(best);
                }
            }
            let bound = self.over_inputs(&pulled)[0];
            if better(&mut best, bound, &|| whole.clone()) {
                return Ok(best);
            }
            if let Some(flight) = at_start.filter(|_| polishable.as_ref().is_none_or(|p| bound > p.0)) {
                polishable = Some((bound, *variant, flight, whole));
            }
        }
        if let Some((_, variant, flight, whole)) = polishable
            && let Some((bound, lines)) = self.polished(&flight, &variant)?
        {
            better(&mut best, bound, &|| Way { lines: lines.clone(), ..whole.clone() });
        }
        Ok(best)
    }

    /// The best slopes in front of the first ODE block for one row at its start.
    fn polished(&self, at_start: &Flight, variant: &Variant) -> Result<Option<(f64, LinesChoice)>, Reason> {
        let Some(front) = Front::new(&self.enclosed()) else { return Ok(None) };
        // What else is in flight beside the ODE block would be missing from the bound.
        let Some(rows) = at_start.only(front.output) else { return Ok(None) };
        let row: RowBlock = rows.select(&[0]).into_full();
        let bounds = front.whole_region();
        let dual = front.first_dual(variant.stack);
        let subject = Subject { row: Arc::new(row), bounds: &bounds, constraints: &[], dual };
        let solved = front.optimise(&[subject], POLISH, true, &self.clock)?.pop();
        Ok(solved.map(|solved| {
            let slopes = front.layers.iter().map(|l| l.value()).zip(solved.dual.slopes).collect();
            (solved.bound, LinesChoice { policy: variant.stack, slopes })
        }))
    }
}

/// `nodes`: those of the dynamics.
fn graph_claim(ode: usize, nodes: usize, graph: &Trajectories, form: StepForm) -> GraphClaim {
    let edge = |&e: &usize| (graph.edges[e].action, graph.edges[e].to);
    let lines = |(stage, trace): (usize, &StageTrace)| {
        let trace = &trace.value.trace;
        let known = (0..nodes).filter_map(|node| pieced_lines(node + 1, trace.known(node)));
        known.map(|lines| (stage, lines)).collect::<Vec<_>>()
    };
    let vertices = graph.vertices.iter().map(|vertex| VertexClaim {
        lines: vertex.trace.stages.iter().enumerate().flat_map(lines).collect(),
        at: vertex.place,
        state: vertex.state.states.clone(),
        error: vertex.error,
        out: vertex.outgoing.iter().map(edge).collect(),
    });
    GraphClaim { ode, form, vertices: vertices.collect(), end: graph.end.states.clone() }
}

/// The lines that rows take beside a function made of pieces: they have no choice.
fn pieced_lines(value: usize, known: &Known) -> Option<PiecedLines> {
    let Known::Curve(curve) = known else { return None };
    let Activation::Smooth(_) = curve.activation else { return None };
    let entries = curve.on.shape().len();
    let mut lines = PiecedLines { value, below: vec![0.0; entries], above: vec![0.0; entries] };
    for (k, entry) in curve.on.indices().into_iter().enumerate() {
        let Relaxation { lower, upper, .. } =
            Relaxation::new(curve.activation, curve.before.get(k), LowerSlope::MinArea, Arithmetic::Real);
        // Slopes that are none are not written; any other will do as badly.
        lines.below[entry as usize] = if lower.slope.is_finite() { lower.slope } else { 0.0 };
        lines.above[entry as usize] = if upper.slope.is_finite() { upper.slope } else { 0.0 };
    }
    Some(lines)
}

/// The way of one row by a variant, with its shares in every ODE block.
pub(crate) fn way(variant: &Variant, ledgers: &[(usize, Ledger)], row: usize) -> Way {
    let several = |shares: Option<&Vec<f64>>| shares.filter(|shares| shares.len() > 1).cloned();
    let ode = |(ode, ledger): &(usize, Ledger)| {
        let mut shares: Vec<(usize, Vec<f64>)> = ledger
            .shares
            .iter()
            .filter_map(|(&edge, by_row)| Some((edge, several(by_row.get(row))?)))
            .collect();
        shares.sort_unstable_by_key(|(edge, _)| *edge);
        OdeWay {
            ode: *ode,
            form: variant.ode.form,
            lines: LinesChoice { policy: variant.ode.slope, slopes: Vec::new() },
            start: several(ledger.start.get(row)).unwrap_or_default(),
            shares,
        }
    };
    let mut odes: Vec<OdeWay> = ledgers.iter().map(ode).collect();
    odes.sort_unstable_by_key(|ode| ode.ode);
    Way { lines: LinesChoice { policy: variant.stack, slopes: Vec::new() }, odes, ..Way::default() }
}

/// What is claimed of a value: the bounds of rows, with room, where these are better than the plain box.
pub(crate) fn claimed(value: usize, plain: &BoxVec, best: [Vec<Option<Shown>>; 2], room: Room) -> BoxClaim {
    let number = |shown: &Option<Shown>| shown.as_ref().map_or(f64::NEG_INFINITY, |(bound, _)| *bound);
    let wide = room.around(&BoxVec::collect(plain.len(), |i| {
        let (low, high) = (number(&best[0][i]), -number(&best[1][i]));
        Interval::new(low.max(plain.lower[i]), high.min(plain.upper[i]))
    }));
    let mut ways: Vec<Way> = Vec::new();
    let mut place = |shown: Option<Shown>, counts: bool| {
        let Some((_, way)) = shown.filter(|_| counts) else { return UNCLAIMED };
        let at = ways.iter().position(|known| *known == way).unwrap_or_else(|| {
            ways.push(way);
            ways.len() - 1
        });
        u16::try_from(at).unwrap_or(UNCLAIMED)
    };
    let [lower, upper] = best;
    let lower_by =
        lower.into_iter().enumerate().map(|(i, s)| place(s, wide.lower[i] > plain.lower[i])).collect();
    let upper_by =
        upper.into_iter().enumerate().map(|(i, s)| place(s, wide.upper[i] < plain.upper[i])).collect();
    BoxClaim { value, values: wide, lower_by, upper_by, ways }
}

/// A plain box cut down to what is claimed of it.
pub(crate) fn kept(plain: &BoxVec, claim: &BoxClaim) -> BoxVec {
    BoxVec::collect(plain.len(), |i| {
        let lower = if claim.lower_by[i] == UNCLAIMED { plain.lower[i] } else { claim.values.lower[i] };
        let upper = if claim.upper_by[i] == UNCLAIMED { plain.upper[i] } else { claim.values.upper[i] };
        Interval::new(lower, upper)
    })
}
