//! Enclosing every value of a program over a region of inputs, and bounding linear functions of its outputs.

mod bound;
mod claims;
mod steering;

use std::cell::RefCell;

use gains_core::affine_form::{AffineForm, Symbols};
use gains_core::arithmetic::keeps_subnormal_numbers;
use gains_core::program::{Flight, Way};
use gains_core::relaxation::Lines;
use gains_core::{
    Activation, AffineMap, Arithmetic, BoxVec, Known, LowerSlope, Ode, Operator, Program, Rows, Step,
    Support, Window,
};
use gains_ode::graph::build;
use gains_ode::{Graph, Grid, Limits, Tableau};

pub use bound::Bounds;
pub(crate) use claims::{claimed, kept, way};
use steering::{Pairs, Points};

use crate::ball::Ball;
use crate::certificate::claim::BoxClaim;
use crate::forms::Symbolic;
use crate::front::Enclosed;
use crate::graph_pull::{Freedom, GraphPull};
use crate::groups::Groups;
use crate::ledger::Ledger;
use crate::limits::{Clock, Reason};
use crate::method::{Method, Recipe, Variant};
use crate::problem::Region;
use crate::steps::{Assumption, BoxSteps, Reach, Room, StepForm, StepTrace};
use steering::BySlope;

/// The trajectory graph of an ODE block.
pub(crate) type Trajectories = Graph<Reach, StepTrace>;

/// Lines of one activation, by the policy of their lower slopes.
type PreparedLines = Vec<(LowerSlope, Lines)>;

/// The enclosures of all values over one region.
pub struct Analysis<'a> {
    program: &'a Program,
    recipe: Recipe,
    form: StepForm,
    arithmetic: Arithmetic,
    clock: Clock<'a>,
    /// Only inputs of this ball are considered, where there is one.
    ball: Option<Ball>,
    /// The last value behind affine maps alone, as a form over the ball, where no rows will be pulled back to it.
    over_ball: Option<(usize, AffineForm)>,
    /// All values so far.
    values: Vec<BoxVec>,
    /// For every node so far.
    known: Vec<Known>,
    lines: Vec<PreparedLines>,
    /// The same for recurrent encoders.
    pairs: Vec<Option<[Lines; 2]>>,
    graphs: Vec<Option<Box<Trajectories>>>,
    /// For values that are taken several times.
    magnitudes: Vec<Vec<f64>>,
    uses: Vec<usize>,
    /// For every value, how much lies between it and the input for which plain intervals may lose precision.
    mixing: Vec<usize>,
    /// Whether the program has a recurrent encoder.
    recurrent: bool,
    symbolic: Option<Symbolic>,
    /// Room around what a certificate claims, if one is to be written.
    room: Room,
    /// Boxes tightened by rows, with the ways of these, where there is room for claims.
    claims: Vec<BoxClaim>,
    /// Memory held by all of this.
    held: usize,
}

/// Guards against regions that are not made of a program's inputs, or not of numbers, and against arithmetic that the
/// rounding model does not know.
fn check_region(program: &Program, region: &[BoxVec], arithmetic: Arithmetic) -> Result<(), Reason> {
    if !keeps_subnormal_numbers() {
        return Err(Reason::FlushToZero);
    }
    if arithmetic == Arithmetic::Float32
        && let Some(number) = program.beyond_float32()
    {
        return Err(Reason::BeyondFloat32 { number });
    }
    if region.len() != program.inputs().len() {
        return Err(Reason::InputSize { found: region.len(), expected: program.inputs().len() });
    }
    for (input, given) in program.inputs().iter().zip(region) {
        if given.len() != input.shape.len() {
            return Err(Reason::InputSize { found: given.len(), expected: input.shape.len() });
        }
    }
    if region.iter().all(BoxVec::is_sane) { Ok(()) } else { Err(Reason::Overflow { time: 0.0 }) }
}

impl<'a> Analysis<'a> {
    /// Encloses every value over the inputs in `region`, one box for each.
    pub fn new(
        program: &'a Program,
        region: Vec<BoxVec>,
        method: Method,
        form: StepForm,
        arithmetic: Arithmetic,
        clock: Clock<'a>,
    ) -> Result<Self, Reason> {
        Self::assuming(program, region, &[], method, form, arithmetic, clock)
    }

    /// The same over a region that may be a ball.
    pub fn over(
        program: &'a Program,
        region: &Region,
        method: Method,
        form: StepForm,
        arithmetic: Arithmetic,
        clock: Clock<'a>,
    ) -> Result<Self, Reason> {
        let (boxes, ball) = (region.outer.clone(), region.ball.clone());
        Self::enclose(program, boxes, ball, &[], method, form, arithmetic, clock, Room::None)
    }

    /// The same over those inputs for which the assumptions about the start of the first ODE block hold.
    pub fn assuming(
        program: &'a Program,
        region: Vec<BoxVec>,
        assumed: &[Assumption],
        method: Method,
        form: StepForm,
        arithmetic: Arithmetic,
        clock: Clock<'a>,
    ) -> Result<Self, Reason> {
        Self::enclose(program, region, None, assumed, method, form, arithmetic, clock, Room::None)
    }

    fn enclose(
        program: &'a Program,
        region: Vec<BoxVec>,
        ball: Option<Ball>,
        assumed: &[Assumption],
        method: Method,
        form: StepForm,
        arithmetic: Arithmetic,
        clock: Clock<'a>,
        room: Room,
    ) -> Result<Self, Reason> {
        check_region(program, &region, arithmetic)?;
        let ball = ball.filter(|ball| region.len() == 1 && region[0].len() == ball.len());
        let recipe = method.recipe();
        let is_blend = |step: &Step| matches!(step, Step::Plain(Operator::Blend(_)));
        let mut analysis = Self {
            program,
            recipe,
            form: recipe.form.unwrap_or(form),
            arithmetic,
            clock,
            ball,
            over_ball: None,
            known: Vec::new(),
            lines: Vec::new(),
            pairs: Vec::new(),
            graphs: Vec::new(),
            magnitudes: Vec::new(),
            uses: program.uses(),
            mixing: vec![0; region.len()],
            recurrent: program.nodes().any(|(_, node)| is_blend(&node.operator)),
            symbolic: None,
            room,
            claims: Vec::new(),
            held: region.iter().map(|b| 16 * b.len()).sum(),
            values: region,
        };
        if method == Method::Symbolic {
            let ball = analysis.ball.as_ref();
            let symbolic = Symbolic::new(program, &analysis.values, ball, arithmetic, clock)?;
            analysis.values.resize(program.values(), BoxVec::default());
            analysis.values[program.output()] = symbolic.output.clone();
            analysis.symbolic = Some(symbolic);
            return Ok(analysis);
        }
        for value in 0..analysis.values.len() {
            analysis.note_magnitude(value);
        }
        // Certificates claim of boxes what intervals show.
        if let (Some(ball), false, Room::None) = (&analysis.ball, analysis.has_rows(), room) {
            analysis.over_ball = Some((0, ball.form(&analysis.values[0], &mut Symbols::default())));
        }
        let mut assumed = assumed;
        for (value, node) in program.nodes() {
            clock.check(analysis.held)?;
            match &node.operator {
                Step::Plain(operator) => analysis.push_plain(value, operator, &node.from)?,
                Step::Ode(ode) => analysis.push_ode(ode, node.from[0], std::mem::take(&mut assumed))?,
            }
            analysis.note_magnitude(value);
            analysis.tighten_state(value)?;
        }
        if recipe.stepwise {
            analysis.symbolic = analysis.forms_of_the_rest();
        }
        Ok(analysis)
    }

    fn note_magnitude(&mut self, value: usize) {
        let several = self.uses[value] > 1 && !self.recipe.slopes.is_empty();
        self.magnitudes.push(if several { self.values[value].magnitudes() } else { Vec::new() });
        self.held += 8 * self.magnitudes[value].len();
    }

    /// Whether rows will be pulled back.
    fn has_rows(&self) -> bool {
        !self.recipe.slopes.is_empty()
    }

    fn push_plain(&mut self, value: usize, operator: &Operator, from: &[usize]) -> Result<(), Reason> {
        // Behind an ODE block there is nothing recurrent any more.
        let early = self.recurrent && (self.room == Room::None || self.graphs.iter().all(Option::is_none));
        if let Operator::Curve(activation) = operator
            && !early
        {
            self.refine(from[0], *activation == Activation::Relu)?;
        }
        let arguments: Vec<&BoxVec> = from.iter().map(|&v| &self.values[v]).collect();
        let image = operator.image(&arguments, 0.0, self.arithmetic, self.has_rows());
        let mut next = image.value;
        let known = match self.has_rows() {
            true => {
                let on = Support::full(self.program.shape(value));
                operator.known(&arguments, &image.magnitude, on, 0.0, self.arithmetic)
            }
            false => Known::Nothing,
        };
        let pair = match &known {
            Known::Curve(curve) if self.recurrent => Some(curve.pair(self.arithmetic)),
            _ => None,
        };
        let mut lines = PreparedLines::new();
        if let (Known::Curve(curve), false) = (&known, self.recurrent && self.room == Room::None) {
            lines = self
                .recipe
                .slopes
                .iter()
                .map(|&slope| (slope, curve.lines(slope, self.arithmetic)))
                .collect();
            if let (false, Some((_, lines))) = (self.recipe.boxes, lines.first()) {
                next = lines.image(&self.values[from[0]]);
            }
        }
        self.meet_over_ball(value, operator, from, &mut next);
        if !next.is_sane() {
            return Err(Reason::Overflow { time: 0.0 });
        }
        let mixes = match operator {
            Operator::Affine(map) => {
                usize::from(matches!(**map, AffineMap::Conv(_) | AffineMap::Pool(_) | AffineMap::Group(_)))
            }
            Operator::Concat(_) | Operator::Slice(_) => 0,
            _ => 1,
        };
        self.mixing.push(self.mixed(from) + mixes);
        let prepared = lines.iter().map(|(_, lines)| lines).chain(pair.iter().flatten());
        self.held += 16 * next.len() + known.bytes() + prepared.map(|lines| 40 * lines.len()).sum::<usize>();
        self.values.push(next);
        self.known.push(known);
        self.lines.push(lines);
        self.pairs.push(pair);
        self.graphs.push(None);
        Ok(())
    }

    /// Cuts the box of a value that affine maps alone make of a ball down to what the dual norm leaves of it. Boxes behind
    /// the first activation know the ball by that.
    fn meet_over_ball(&mut self, value: usize, operator: &Operator, from: &[usize], next: &mut BoxVec) {
        let Some((argument, form)) = self.over_ball.take() else { return };
        let Operator::Affine(map) = operator else { return };
        let needed = AffineForm::bytes_of(form.order(), next.len());
        if from[0] != argument || self.clock.check(self.held + needed).is_err() {
            return;
        }
        let form = form.affine(map, None, 0.0, self.arithmetic, false);
        if form.is_sane() {
            next.meet(&form.bounds);
            self.over_ball = Some((value, form));
        }
    }

    fn mixed(&self, from: &[usize]) -> usize {
        from.iter().map(|&v| self.mixing[v]).max().unwrap_or(0)
    }

    fn push_ode(&mut self, ode: &'a Ode, from: usize, assumed: &[Assumption]) -> Result<(), Reason> {
        match self.recurrent {
            true if self.recipe.polish && self.room == Room::ForClaims => self.refine(from, false)?,
            true if self.recipe.polish => self.refine_by_pairs(from)?,
            true => {}
            false => self.refine(from, false)?,
        }
        let spec = ode.solver();
        let grid = Grid::new(&spec).map_err(gains_ode::Halt::<Reason>::from)?;
        let mut carrier = BoxSteps {
            dynamics: &ode.block.dynamics,
            tableau: Tableau::of(spec.method),
            tolerance: grid.tolerance,
            arithmetic: self.arithmetic,
            form: self.form,
            keep_traces: self.has_rows(),
            room: self.room,
            clock: self.clock,
            bytes: self.held,
            nonzero: RefCell::default(),
        };
        let limits = Limits { vertices: self.clock.budget().vertices, stop: &|| false };
        let start = Reach::assuming(self.values[from].clone(), &ode.block, assumed);
        let graph = build(&mut carrier, &grid, start, &limits)?;
        self.held = carrier.bytes;
        self.mixing.push(self.mixing[from] + 2);
        self.values.push(graph.end.states.clone());
        self.known.push(Known::Nothing);
        self.lines.push(PreparedLines::new());
        self.pairs.push(None);
        self.graphs.push(Some(Box::new(graph)));
        Ok(())
    }

    /// Tightens a value in front of a non-linear node by pulling the identity back to the inputs, if an operator that
    /// is none made it and enough lies in between for that to help.
    fn refine(&mut self, value: usize, before_relu: bool) -> Result<(), Reason> {
        let made = self.program.node(value).map(|node| &node.operator);
        let linear = matches!(made, Some(Step::Plain(operator)) if !matches!(operator, Operator::Curve(_)));
        let variants = self.recipe.refining;
        // Over a box the first linear map loses nothing; over a ball, rows know more of it than intervals.
        let enough = if self.ball.is_some() { 1 } else { 2 };
        if !linear || variants.is_empty() || self.mixing[value] < enough {
            return Ok(());
        }
        if self.room == Room::ForClaims {
            return self.refine_claimed(value, before_relu);
        }
        let shape = self.program.shape(value);
        let mut better = match self.recipe.boxes {
            true => self.values[value].clone(),
            false => BoxVec::new(vec![f64::NEG_INFINITY; shape.len()], vec![f64::INFINITY; shape.len()]),
        };
        for position in 0..shape.positions() {
            self.clock.check(self.held)?;
            let window = Window::pixel(shape, position / shape.width, position % shape.width);
            let first = position * shape.channels;
            // A ReLU that intervals already show to be dead needs no better bounds.
            let channels: Vec<usize> = (0..shape.channels)
                .filter(|channel| !(before_relu && better.upper[first + channel] <= 0.0))
                .collect();
            if channels.is_empty() {
                continue;
            }
            let (pulled, groups) = self.pull(value, Rows::pixel(window, &channels), variants, |_, _| {})?;
            let bounds = self.over_inputs(&pulled);
            for bounds in groups.by_variant(&pulled, &bounds, variants.len()) {
                let (low, high) = bounds.split_at(channels.len());
                for ((channel, low), high) in channels.iter().zip(low).zip(high) {
                    let at = first + channel;
                    better.lower[at] = better.lower[at].max(*low);
                    better.upper[at] = better.upper[at].min(-high);
                }
            }
        }
        self.values[value] = better;
        if self.values[value].is_sane() { Ok(()) } else { Err(Reason::Overflow { time: 0.0 }) }
    }

    /// Tightens a value of a recurrent encoder by the identity pulled back to the inputs.
    fn refine_by_pairs(&mut self, value: usize) -> Result<(), Reason> {
        let shape = self.program.shape(value);
        let entries: Vec<usize> = (0..shape.len()).collect();
        let mut flight = Flight::new(self.program.values(), value, Rows::units(shape, &entries));
        self.pull_front(&mut flight, value, &Points::default())?;
        let bounds = self.over_inputs(&flight);
        let (lower, upper) = bounds.split_at(shape.len());
        self.values[value].meet(&BoxVec::new(lower.to_vec(), upper.iter().map(|u| -u).collect()));
        if self.values[value].is_sane() { Ok(()) } else { Err(Reason::Overflow { time: 0.0 }) }
    }

    /// Step by step, the states of a recurrent encoder: what sums and blends make.
    fn tighten_state(&mut self, value: usize) -> Result<(), Reason> {
        let made = self.program.node(value).map(|node| &node.operator);
        let state = matches!(made, Some(Step::Plain(Operator::Sum(_) | Operator::Blend(_))));
        if self.recipe.stepwise && self.recurrent && state {
            self.refine_by_pairs(value)?;
            if self.uses[value] > 1 {
                self.magnitudes[value] = self.values[value].magnitudes();
            }
        }
        Ok(())
    }

    /// Affine forms from the first ODE block's input on, which do not suffer from many trajectories.
    fn forms_of_the_rest(&self) -> Option<Symbolic> {
        let (value, _) = self.program.odes().next()?;
        let start = self.program.node(value)?.from[0];
        let rest = self.program.behind(start)?;
        let start = std::slice::from_ref(&self.values[start]);
        Symbolic::new(&rest, start, None, self.arithmetic, self.clock).ok()
    }

    fn way(&self) -> Way<'_> {
        Way {
            known: &self.known,
            entries: &[],
            inputs: None,
            magnitudes: &self.magnitudes,
            matrices: &[],
            arithmetic: self.arithmetic,
        }
    }

    /// Lower bounds of rows that have arrived at the inputs.
    fn over_inputs(&self, flight: &Flight) -> Vec<f64> {
        flight.bounded_by(|value, rows| {
            let lower = rows.lower_bounds(&self.values[value]);
            match &self.ball {
                Some(ball) if value == 0 => ball.raise(rows, lower),
                _ => lower,
            }
        })
    }

    /// Takes rows in front of all ODE blocks back to the inputs.
    fn pull_front(&self, flight: &mut Flight, from: usize, points: &Points) -> Result<(), Reason> {
        let way = self.way();
        let held = self.held + points.bytes();
        let inputs = self.program.inputs().len();
        let mut steering = Pairs { prepared: &self.pairs, inputs, arithmetic: self.arithmetic, points };
        for (value, node) in self.program.nodes().rev().filter(|(value, _)| *value <= from) {
            // Rows are on a few of many values; they are counted now and then.
            if value % 16 == 0 {
                self.clock.check(held + flight.bytes())?;
            }
            if let Step::Plain(operator) = &node.operator {
                flight.pass(self.program, value, operator, &way, &mut steering);
            }
        }
        Ok(())
    }

    /// Pulls rows on a value back to the inputs. `visit` sees the rows at the end of every ODE block, and at its
    /// start.
    fn pull(
        &self,
        from: usize,
        rows: Rows,
        variants: &[Variant],
        visit: impl FnMut(&Flight, &Groups),
    ) -> Result<(Flight, Groups), Reason> {
        self.pull_steered(from, rows, variants, visit, Steered::default())
    }

    /// Like [`Self::pull`]; also takes choices for the first ODE block, tells what the rows met in it, and may stop in
    /// front of it.
    pub(crate) fn pull_steered(
        &self,
        from: usize,
        rows: Rows,
        variants: &[Variant],
        mut visit: impl FnMut(&Flight, &Groups),
        mut steered: Steered<'_>,
    ) -> Result<(Flight, Groups), Reason> {
        let mut flight = Flight::new(self.program.values(), from, rows);
        let mut groups = Groups::new(variants.len());
        let way = self.way();
        let inputs = self.program.inputs().len();
        let first = self.program.odes().next().map(|(value, _)| value);
        for (value, node) in self.program.nodes().rev().filter(|(value, _)| *value <= from) {
            match &node.operator {
                Step::Plain(operator) => {
                    let arithmetic = self.arithmetic;
                    let mut steering = BySlope { lines: &self.lines, inputs, arithmetic, slopes: Vec::new() };
                    if matches!(operator, Operator::Curve(_)) && flight.on(value).is_some() {
                        steering.slopes = groups.split(&mut flight, |v| variants[v].stack);
                    }
                    flight.pass(self.program, value, operator, &way, &mut steering);
                    let bytes = if value % 16 == 0 || !self.recurrent { flight.bytes() } else { 0 };
                    self.clock.check(self.held + bytes)?;
                }
                Step::Ode(ode) => {
                    let Some(graph) = &self.graphs[value - inputs] else { continue };
                    if flight.on(value).is_none() {
                        continue;
                    }
                    visit(&flight, &groups);
                    let kinds = groups.split(&mut flight, |v| variants[v].ode);
                    let Some(rows) = flight.take(value) else { continue };
                    let is_first = first == Some(value);
                    let mut pull = GraphPull::new(&ode.block, graph, self.arithmetic, self.clock)
                        .beside(self.held + flight.bytes());
                    if let Some(freedom) = steered.freedom.filter(|_| is_first) {
                        pull = pull.with_freedom(freedom);
                    }
                    let pulled = match (&mut steered.ledger, &mut steered.shares) {
                        (Some(ledger), _) if is_first => {
                            let (rows, entries) = pull.pull_with_ledger(rows, &kinds)?;
                            **ledger = entries;
                            rows
                        }
                        (_, Some(shares)) => {
                            let (rows, ledger) = pull.pull_with_shares(rows, &kinds)?;
                            shares.push((value, ledger));
                            rows
                        }
                        _ => pull.pull(rows, &kinds)?,
                    };
                    let start = node.from[0];
                    flight.add(start, pulled, &self.magnitudes[start]);
                    visit(&flight, &groups);
                    if is_first && steered.stop_there {
                        break;
                    }
                }
            }
        }
        Ok((flight, groups))
    }

    /// The first ODE block's graph, and the means to pull rows through it.
    pub(crate) fn first_ode(&self) -> Option<GraphPull<'_>> {
        let (value, ode) = self.program.odes().next()?;
        let graph = self.graphs.get(value - self.program.inputs().len())?.as_deref()?;
        Some(GraphPull::new(&ode.block, graph, self.arithmetic, self.clock).beside(self.held))
    }

    /// The enclosures of all values.
    pub fn values(&self) -> &[BoxVec] {
        &self.values
    }

    /// All outputs.
    pub fn output(&self) -> &BoxVec {
        &self.values[self.program.output()]
    }

    /// All of it, for what goes on from here.
    pub(crate) fn enclosed(&self) -> Enclosed<'_> {
        Enclosed {
            ball: self.ball.as_ref(),
            program: self.program,
            values: &self.values,
            known: &self.known,
            magnitudes: &self.magnitudes,
            arithmetic: self.arithmetic,
        }
    }

    /// The region: one box for each input.
    pub fn region(&self) -> &[BoxVec] {
        &self.values[..self.program.inputs().len()]
    }

    /// The program.
    pub fn program(&self) -> &'a Program {
        self.program
    }

    /// Memory held, roughly.
    pub(crate) fn bytes(&self) -> usize {
        self.held
    }

    /// The trajectory graphs of the program's ODE blocks.
    pub fn graphs(&self) -> impl Iterator<Item = &Trajectories> {
        let boxes = self.graphs.iter().filter_map(Option::as_deref);
        let only_forms = self.symbolic.iter().filter(|_| self.graphs.is_empty());
        boxes.chain(only_forms.flat_map(|s| &s.graphs))
    }

    /// Vertices and edges of all graphs together.
    pub fn graph_size(&self) -> (usize, usize) {
        self.graphs().fold((0, 0), |(v, e), graph| (v + graph.vertex_count(), e + graph.edges.len()))
    }
}

/// What a caller may ask of rows besides their variants.
#[derive(Default)]
pub(crate) struct Steered<'s> {
    /// What they choose in the first ODE block.
    pub freedom: Option<&'s Freedom>,
    /// Where to tell what the rows met in it.
    pub ledger: Option<&'s mut Ledger>,
    /// Where to tell the shares of rows in every ODE block, by its value.
    pub shares: Option<&'s mut Vec<(usize, Ledger)>>,
    /// Whether to stop in front of it.
    pub stop_there: bool,
}
