//! Enclosing every layer of a network over a region of inputs, and bounding properties of its outputs.

use std::sync::Arc;

use gains_core::arithmetic::keeps_subnormal_numbers;
use gains_core::interval::Interval;
use gains_core::network::Layer;
use gains_core::relaxation::Lines;
use gains_core::{
    Activation, AffineMap, Arithmetic, Block, BoxVec, LowerSlope, Network, OdeBlock, RowBlock, Rows, Window,
};
use gains_ode::graph::build;
use gains_ode::{Graph, Grid, Limits, Tableau};
use serde::{Deserialize, Serialize};

use crate::backward::{GraphPull, Ledger, OdeMatrices, RowForm, RowKind, SlopeTable};
use crate::box_step::{Assumption, BoxSteps, Reach, StepForm, StepTrace};
use crate::front::{Front, Problem};
use crate::limits::{Clock, Reason};
use crate::property::Property;
use crate::symbolic::Symbolic;

/// How bounds are computed (paper, appendix on bound calculation).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Method {
    /// Intervals only.
    Box,
    /// Linear bounds with the min-area slope only.
    Linear,
    /// Both, with several slopes; the tightest of everything wins.
    Gains,
    /// Like `Gains`, with solver steps in difference form: for the graph, and for the final rows beside the
    /// direct form.
    Tight,
    /// Affine forms over the input, pushed forward ([`crate::symbolic`]).
    Symbolic,
}

impl std::fmt::Display for Method {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Box => "box",
            Self::Linear => "linear",
            Self::Gains => "gains",
            Self::Tight => "tight",
            Self::Symbolic => "symbolic",
        })
    }
}

/// How a group of rows is relaxed: lower slopes of unstable ReLUs, chosen apart for ODE blocks and for
/// everything else, and the form of solver steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Variant {
    /// Slopes outside ODE blocks.
    pub stack: LowerSlope,
    /// Slopes and form inside ODE blocks.
    pub ode: RowKind,
}

impl Variant {
    /// Slopes outside and inside ODE blocks, and the form of the steps.
    pub const fn new(stack: LowerSlope, slope: LowerSlope, form: RowForm) -> Self {
        Self { stack, ode: RowKind { slope, form } }
    }

    /// One slope everywhere.
    pub const fn uniform(slope: LowerSlope) -> Self {
        Self::new(slope, slope, RowForm::Direct)
    }

    /// The three slopes, each everywhere.
    pub const UNIFORM: [Self; 3] =
        [Self::uniform(LowerSlope::MinArea), Self::uniform(LowerSlope::Zero), Self::uniform(LowerSlope::One)];

    /// What the final rows use. First the uniform ones and slope 0 outside with min-area inside ODE blocks,
    /// which is often the tightest; then, where the graph allows, the best of these in chain form.
    pub const FINAL: [Self; 7] = [
        Self::UNIFORM[0],
        Self::UNIFORM[1],
        Self::UNIFORM[2],
        Self::new(LowerSlope::Zero, LowerSlope::MinArea, RowForm::Direct),
        Self::new(LowerSlope::MinArea, LowerSlope::MinArea, RowForm::Chain),
        Self::new(LowerSlope::Zero, LowerSlope::MinArea, RowForm::Chain),
        Self::new(LowerSlope::Zero, LowerSlope::Zero, RowForm::Chain),
    ];

    /// The variants a method uses for the final rows.
    pub fn of(method: Method) -> &'static [Self] {
        match method {
            Method::Box | Method::Symbolic => &[],
            Method::Linear => &Self::FINAL[..1],
            Method::Gains => &Self::FINAL[..4],
            Method::Tight => &Self::FINAL,
        }
    }
}

/// A network with everything that does not depend on the region worked out once.
pub struct Prepared {
    /// The network.
    pub network: Network,
    matrices: Vec<Option<OdeMatrices>>,
}

impl Prepared {
    /// Works it out.
    pub fn new(network: Network) -> Self {
        let matrices = network
            .blocks
            .iter()
            .map(|block| match block {
                Block::Ode(ode) => Some(OdeMatrices::new(ode)),
                Block::Stack(_) => None,
            })
            .collect();
        Self { network, matrices }
    }

    /// The affine layers of an ODE block as dense matrices.
    pub(crate) fn ode_matrices(&self, block: usize) -> &[Option<gains_core::affine::Matrix>] {
        self.matrices[block].as_ref().map_or(&[], |m| &m.0)
    }
}

/// One layer or block with what is known about it.
pub(crate) enum Element<'a> {
    Affine { map: &'a AffineMap, magnitude: Vec<f64> },
    Activation { activation: Activation, before: BoxVec, lines: Vec<(LowerSlope, Lines)> },
    Ode { ode: &'a OdeBlock, matrices: &'a OdeMatrices, graph: Box<Graph<Reach, StepTrace>> },
}

/// The enclosures of all layers over one region.
pub struct Analysis<'a> {
    method: Method,
    form: StepForm,
    arithmetic: Arithmetic,
    clock: Clock<'a>,
    input: BoxVec,
    elements: Vec<Element<'a>>,
    symbolic: Option<Symbolic>,
    /// All outputs.
    pub output: BoxVec,
}

/// Certified lower bounds of the rows of a property.
#[derive(Clone, Debug)]
pub struct Bounds {
    /// The best bound of each row.
    pub lower: Vec<f64>,
    /// Bounds by slope variant, rows pulled all the way to the input.
    pub variants: Vec<(Variant, Vec<f64>)>,
    /// Bounds from the rows at the end of the last ODE block, over its final box.
    pub at_end: Option<Vec<f64>>,
}

impl Bounds {
    /// The smallest bound.
    pub fn margin(&self) -> f64 {
        self.lower
            .iter()
            .copied()
            .fold(f64::INFINITY, |a, b| if b.is_nan() { f64::NEG_INFINITY } else { a.min(b) })
    }
}

/// Rounds of gradient ascent for the row with the lowest bound.
const POLISH: usize = 20;

/// Rows of which parts stand for several variants at once, until their slopes differ.
#[derive(Clone)]
pub(crate) struct Grouped {
    /// All of them, group by group.
    pub rows: Rows,
    /// For each group, the variants it stands for.
    members: Vec<Vec<usize>>,
}

impl Grouped {
    pub fn new(rows: Rows, variants: usize) -> Self {
        Self { rows, members: vec![(0..variants).collect()] }
    }

    fn per_group(&self) -> usize {
        self.rows.count / self.members.len()
    }

    /// Splits groups whose variants disagree about `key`; returns the key of each group.
    fn split<K: PartialEq>(&mut self, key: impl Fn(usize) -> K) -> Vec<K> {
        let per = self.per_group();
        let mut chosen: Vec<usize> = Vec::new();
        let mut members: Vec<Vec<usize>> = Vec::new();
        let mut keys: Vec<K> = Vec::new();
        for (group, variants) in self.members.iter().enumerate() {
            let first = members.len();
            for &variant in variants {
                match keys[first..].iter().position(|k| *k == key(variant)) {
                    Some(at) => members[first + at].push(variant),
                    None => {
                        keys.push(key(variant));
                        members.push(vec![variant]);
                        chosen.extend(group * per..(group + 1) * per);
                    }
                }
            }
        }
        let rows = Rows::from_block(self.rows.select(&chosen), self.rows.window);
        *self = Self { rows, members };
        keys
    }

    /// One row as a variant has it.
    pub(crate) fn row_of(&self, row: usize, variant: usize) -> RowBlock {
        let group = self.members.iter().position(|m| m.contains(&variant)).unwrap_or(0);
        self.rows.select(&[group * self.per_group() + row])
    }

    /// Lower bounds by variant.
    pub fn by_variant(&self, domain: &BoxVec, variants: usize) -> Vec<Vec<f64>> {
        let bounds = self.rows.lower_bounds(domain);
        let per = self.per_group();
        let mut all = vec![Vec::new(); variants];
        for (group, members) in self.members.iter().enumerate() {
            for &variant in members {
                all[variant] = bounds[group * per..(group + 1) * per].to_vec();
            }
        }
        all
    }
}

fn lift(best: &mut [f64], candidate: &[f64]) {
    for (best, new) in best.iter_mut().zip(candidate) {
        *best = best.max(*new);
    }
}

impl<'a> Analysis<'a> {
    /// Encloses every layer over the inputs in `input`.
    pub fn new(
        prepared: &'a Prepared,
        input: BoxVec,
        method: Method,
        form: StepForm,
        arithmetic: Arithmetic,
        clock: Clock<'a>,
    ) -> Result<Self, Reason> {
        Self::from_block(prepared, 0, input, &[], method, form, arithmetic, clock)
    }

    /// Encloses every layer from block `first` on, over the inputs of that block in `input` for which the
    /// assumptions about the start of the first ODE block hold.
    pub fn from_block(
        prepared: &'a Prepared,
        first: usize,
        input: BoxVec,
        assumed: &[Assumption],
        method: Method,
        form: StepForm,
        arithmetic: Arithmetic,
        clock: Clock<'a>,
    ) -> Result<Self, Reason> {
        if !keeps_subnormal_numbers() {
            return Err(Reason::FlushToZero);
        }
        let before = first.checked_sub(1).and_then(|block| prepared.network.blocks.get(block));
        let expected = before.map_or(prepared.network.input(), Block::output).len();
        if input.len() != expected {
            return Err(Reason::InputSize { found: input.len(), expected });
        }
        let form = if method == Method::Tight { StepForm::Difference } else { form };
        let output = input.clone();
        let mut analysis =
            Self { method, form, arithmetic, clock, output, input, elements: Vec::new(), symbolic: None };
        if !analysis.input.is_sane() {
            return Err(Reason::Overflow { time: 0.0 });
        }
        if method == Method::Symbolic {
            let symbolic = Symbolic::new(prepared, &analysis.input, arithmetic, clock)?;
            analysis.output.clone_from(&symbolic.output);
            analysis.symbolic = Some(symbolic);
            return Ok(analysis);
        }
        let mut assumed = assumed;
        // Layers since the input after which plain intervals may lose precision.
        let mut mixing = 0;
        for (block, matrices) in prepared.network.blocks.iter().zip(&prepared.matrices).skip(first) {
            match (block, matrices) {
                (Block::Ode(ode), Some(matrices)) => {
                    analysis.refine(mixing, false)?;
                    analysis.push_ode(ode, matrices, std::mem::take(&mut assumed))?;
                    mixing += 2;
                }
                (Block::Stack(stack), _) => {
                    for layer in &stack.layers {
                        match layer {
                            Layer::Affine(map) => {
                                analysis.push_affine(map);
                                mixing += usize::from(matches!(map, AffineMap::Conv(_) | AffineMap::Pool(_)));
                            }
                            Layer::Activation(activation) => {
                                analysis.refine(mixing, *activation == Activation::Relu)?;
                                analysis.push_activation(*activation);
                                mixing += 1;
                            }
                        }
                        if !analysis.output.is_sane() {
                            return Err(Reason::Overflow { time: 0.0 });
                        }
                    }
                }
                (Block::Ode(_), None) => unreachable!("every ODE block is prepared"),
            }
        }
        Ok(analysis)
    }

    fn push_affine(&mut self, map: &'a AffineMap) {
        let (next, magnitude) = if self.method == Method::Box {
            (map.apply_box(&self.output, 0.0, self.arithmetic), Vec::new())
        } else {
            map.apply_box_traced(&self.output, &self.output.magnitudes(), 0.0, self.arithmetic)
        };
        self.output = next;
        self.elements.push(Element::Affine { map, magnitude });
    }

    fn push_activation(&mut self, activation: Activation) {
        let slopes: &[LowerSlope] = match self.method {
            Method::Box => &[],
            Method::Linear => &[LowerSlope::MinArea],
            Method::Gains | Method::Tight | Method::Symbolic => {
                &[LowerSlope::MinArea, LowerSlope::Zero, LowerSlope::One]
            }
        };
        let lines: Vec<_> = slopes
            .iter()
            .map(|&slope| (slope, Lines::for_box(activation, &self.output, slope, self.arithmetic)))
            .collect();
        let image = match (self.method, lines.first()) {
            (Method::Linear, Some((_, lines))) => lines.image(&self.output),
            _ => activation.image_box(&self.output, self.arithmetic),
        };
        let before = std::mem::replace(&mut self.output, image);
        self.elements.push(Element::Activation { activation, before, lines });
    }

    fn push_ode(
        &mut self,
        ode: &'a OdeBlock,
        matrices: &'a OdeMatrices,
        assumed: &[Assumption],
    ) -> Result<(), Reason> {
        let grid = Grid::new(&ode.solver)?;
        let mut carrier = BoxSteps {
            dynamics: &ode.dynamics,
            tableau: Tableau::of(ode.solver.method),
            tolerance: grid.tolerance,
            arithmetic: self.arithmetic,
            form: self.form,
            keep_traces: self.method != Method::Box,
            clock: self.clock,
            bytes: 0,
        };
        let limits = Limits { vertices: self.clock.budget().vertices, stop: &|| false };
        let graph = build(&mut carrier, &grid, Reach::assuming(self.output.clone(), ode, assumed), &limits)?;
        self.output = graph.end.states.clone();
        self.elements.push(Element::Ode { ode, matrices, graph: Box::new(graph) });
        Ok(())
    }

    /// Tightens the box in front of a non-linear layer by pulling the identity back to the input, if it
    /// follows an affine map and enough lies in between for that to help.
    fn refine(&mut self, mixing: usize, before_relu: bool) -> Result<(), Reason> {
        let map = match self.elements.last() {
            Some(Element::Affine { map, .. }) if self.method != Method::Box && mixing >= 2 => *map,
            _ => return Ok(()),
        };
        let variants: &[Variant] =
            if self.method == Method::Linear { &Variant::UNIFORM[..1] } else { &Variant::UNIFORM };
        let shape = map.output();
        if self.method == Method::Linear {
            self.output = BoxVec::new(vec![f64::NEG_INFINITY; shape.len()], vec![f64::INFINITY; shape.len()]);
        }
        for position in 0..shape.positions() {
            self.clock.check(0)?;
            let window = Window::pixel(shape, position / shape.width, position % shape.width);
            let first = position * shape.channels;
            // A ReLU that intervals already show to be dead needs no better bounds.
            let channels: Vec<usize> = (0..shape.channels)
                .filter(|channel| !(before_relu && self.output.upper[first + channel] <= 0.0))
                .collect();
            let rows = Grouped::new(Rows::pixel(window, &channels), variants.len());
            let pulled = self.pull(rows, variants, |_, _| {})?;
            for bounds in pulled.by_variant(&self.input, variants.len()) {
                let (low, high) = bounds.split_at(channels.len());
                for ((channel, low), high) in channels.iter().zip(low).zip(high) {
                    let at = first + channel;
                    self.output.lower[at] = self.output.lower[at].max(*low);
                    self.output.upper[at] = self.output.upper[at].min(-high);
                }
            }
        }
        if self.output.is_sane() { Ok(()) } else { Err(Reason::Overflow { time: 0.0 }) }
    }

    /// Pulls rows at the current output back to the input. `visit` sees the rows at the end of every ODE
    /// block, with the box they live on.
    pub(crate) fn pull(
        &self,
        grouped: Grouped,
        variants: &[Variant],
        visit: impl FnMut(&Grouped, &BoxVec),
    ) -> Result<Grouped, Reason> {
        self.pull_steered(grouped, variants, visit, None, None)
    }

    /// Like [`Self::pull`]; also takes slopes for the first ODE block, and tells what the rows met in it.
    pub(crate) fn pull_steered(
        &self,
        mut grouped: Grouped,
        variants: &[Variant],
        mut visit: impl FnMut(&Grouped, &BoxVec),
        slopes: Option<&SlopeTable>,
        mut ledger: Option<&mut Ledger>,
    ) -> Result<Grouped, Reason> {
        let first = self.elements.iter().position(|e| matches!(e, Element::Ode { .. }));
        for (index, element) in self.elements.iter().enumerate().rev() {
            match element {
                Element::Affine { map, magnitude } => {
                    grouped.rows = map.pull_back(&grouped.rows, 0.0, magnitude, self.arithmetic);
                }
                Element::Activation { lines, .. } => {
                    let slopes = grouped.split(|v| variants[v].stack);
                    let lines: Vec<&Lines> = slopes
                        .iter()
                        .filter_map(|slope| lines.iter().find(|(kind, _)| kind == slope).map(|(_, l)| l))
                        .collect();
                    grouped.rows.relax(&lines);
                }
                Element::Ode { ode, matrices, graph } => {
                    visit(&grouped, &graph.end);
                    let kinds = grouped.split(|v| variants[v].ode);
                    let mut pull = GraphPull::new(ode, matrices, graph, self.arithmetic, self.clock);
                    if let Some(slopes) = slopes.filter(|_| first == Some(index)) {
                        pull = pull.with_slopes(slopes);
                    }
                    grouped.rows = match &mut ledger {
                        Some(ledger) if first == Some(index) => {
                            let (rows, entries) = pull.pull_with_ledger(&grouped.rows, &kinds)?;
                            **ledger = entries;
                            rows
                        }
                        _ => pull.pull(&grouped.rows, &kinds)?,
                    };
                    visit(&grouped, &graph.vertices[0].state);
                }
            }
        }
        Ok(grouped)
    }

    /// Certified lower bounds of the rows of a property over the whole region.
    pub fn bound(&self, property: &Property) -> Result<Bounds, Reason> {
        if let Some(symbolic) = &self.symbolic {
            return Ok(symbolic.bound(property));
        }
        let window = Window::full(gains_core::Shape::flat(property.outputs));
        let rows = Rows::new(window, property.rows.concat());
        let mut lower = rows.lower_bounds(&self.output);
        if self.method == Method::Box {
            return Ok(Bounds { lower, variants: Vec::new(), at_end: None });
        }
        let kinds = Variant::of(self.method);
        let mut at_end: Option<Vec<f64>> = None;
        let count = property.rows.len();
        let mut on_the_way = vec![f64::NEG_INFINITY; count];
        // Rows at the start of the first ODE block: the last that are seen.
        let mut at_start: Option<Grouped> = None;
        let pulled = self.pull(Grouped::new(rows, kinds.len()), kinds, |grouped, domain| {
            if self.method == Method::Tight {
                at_start = Some(grouped.clone());
            }
            let bounds = grouped.by_variant(domain, kinds.len());
            at_end.get_or_insert_with(|| bounds[0].clone());
            for bounds in &bounds {
                lift(&mut on_the_way, bounds);
            }
        })?;
        let variants: Vec<_> =
            kinds.iter().copied().zip(pulled.by_variant(&self.input, kinds.len())).collect();
        if self.method == Method::Linear {
            lower.fill(f64::NEG_INFINITY);
        } else {
            lift(&mut lower, &on_the_way);
        }
        for (_, bounds) in &variants {
            lift(&mut lower, bounds);
        }
        if let Some(at_start) = at_start {
            self.polish(&at_start, &variants, &mut lower)?;
        }
        Ok(Bounds { lower, variants, at_end })
    }

    /// Improves the slopes in front of the first ODE block for the row with the lowest bound, until it is no
    /// longer the lowest or nothing more comes of it.
    fn polish(
        &self,
        at_start: &Grouped,
        variants: &[(Variant, Vec<f64>)],
        lower: &mut [f64],
    ) -> Result<(), Reason> {
        let Some(front) = Front::new(self, self.arithmetic) else { return Ok(()) };
        let bounds: Vec<Arc<BoxVec>> = front.layers.iter().map(|layer| layer.before.clone()).collect();
        let lowest = |lower: &[f64]| (0..lower.len()).min_by(|a, b| lower[*a].total_cmp(&lower[*b]));
        let Some(row) = lowest(lower) else { return Ok(()) };
        let best = (0..variants.len()).max_by(|a, b| variants[*a].1[row].total_cmp(&variants[*b].1[row]));
        let Some(best) = best else { return Ok(()) };
        let problem = Problem {
            row: Arc::new(at_start.row_of(row, best)),
            bounds: &bounds,
            constraints: &[],
            dual: front.first_dual(variants[best].0.stack),
        };
        for solved in front.optimise(&[problem], POLISH, false, &self.clock)? {
            lower[row] = lower[row].max(solved.bound);
        }
        Ok(())
    }

    /// The first ODE block's graph, and the means to pull rows through it.
    pub(crate) fn first_ode(&self) -> Option<GraphPull<'_>> {
        self.elements.iter().find_map(|element| match element {
            Element::Ode { ode, matrices, graph } => {
                Some(GraphPull::new(ode, matrices, graph, self.arithmetic, self.clock))
            }
            _ => None,
        })
    }

    /// The layers and blocks, in order.
    pub(crate) fn elements(&self) -> &[Element<'a>] {
        &self.elements
    }

    /// The region.
    pub(crate) fn input(&self) -> &BoxVec {
        &self.input
    }

    /// The trajectory graphs of the network's ODE blocks.
    pub fn graphs(&self) -> impl Iterator<Item = &Graph<Reach, StepTrace>> {
        let boxes = self.elements.iter().filter_map(|element| match element {
            Element::Ode { graph, .. } => Some(graph.as_ref()),
            _ => None,
        });
        boxes.chain(self.symbolic.iter().flat_map(|s| &s.graphs))
    }

    /// Vertices and edges of all graphs together.
    pub fn graph_size(&self) -> (usize, usize) {
        self.graphs().fold((0, 0), |(v, e), graph| (v + graph.vertex_count(), e + graph.edges.len()))
    }
}

/// The region of an image classifier: all images within `eps` of `image`, pixels kept inside `pixels`.
pub fn image_region(image: &[f64], eps: f64, pixels: Interval) -> BoxVec {
    BoxVec::ball(image, eps, pixels)
}
