//! Pulling rows of linear bounds backwards through solver steps and the trajectory graph.
//!
//! Inside an ODE block rows only carry the coordinates that are not identically zero anywhere in the
//! graph, and pass through the dynamics only along neurons that are alive: a coefficient on something
//! that is always zero never matters. On networks trained to be certified that is a small part.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;

use gains_core::affine::{Matrix, multiply};
use gains_core::arithmetic::analysis_error;
use gains_core::interval::Centred;
use gains_core::network::Layer;
use gains_core::relaxation::Lines;
use gains_core::{
    AffineMap, Arithmetic, BoxVec, Interval, LowerSlope, OdeBlock, Relaxation, Rows, Window, kernels,
};
use gains_ode::{Action, Graph, Tableau};

use crate::box_step::{LayerTrace, Passage, Reach, StepTrace};
use crate::curls;
use crate::limits::{Clock, Reason};
use gains_core::RowBlock;

/// How rows pass through a solver step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RowForm {
    /// Every stage through the dynamics.
    Direct,
    /// The first stage through the dynamics, the others as changes from stage to stage; needs a graph made
    /// in difference form.
    Chain,
}

/// How a group of rows passes through an ODE block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RowKind {
    /// Lower slope of unstable ReLUs.
    pub slope: LowerSlope,
    /// Form of the steps.
    pub form: RowForm,
}

/// Everything about an ODE block that pulling rows through it needs and that does not depend on the
/// region: its affine layers as dense matrices.
#[derive(Clone, Debug)]
pub struct OdeMatrices(pub(crate) Vec<Option<Matrix>>);

impl OdeMatrices {
    /// Writes out the affine layers of the dynamics.
    pub fn new(ode: &OdeBlock) -> Self {
        Self(
            ode.dynamics
                .layers
                .iter()
                .map(|layer| match layer {
                    Layer::Affine(map) => Some(map.to_matrix()),
                    Layer::Activation(_) => None,
                })
                .collect(),
        )
    }
}

/// Pulls rows at an ODE's end time back to rows at its start.
pub struct GraphPull<'a> {
    /// The block.
    pub ode: &'a OdeBlock,
    /// Its matrices.
    pub matrices: &'a OdeMatrices,
    /// The trajectories.
    pub graph: &'a Graph<Reach, StepTrace>,
    /// Whose arithmetic is enclosed.
    pub arithmetic: Arithmetic,
    /// Time and memory.
    pub clock: Clock<'a>,
    live: Vec<u32>,
    slopes: Option<&'a SlopeTable>,
    ledger: Option<RefCell<Ledger>>,
}

/// Lower slopes of the dynamics' neurons, by layer, the same in all steps and stages; only those of unstable
/// ReLUs matter.
pub type SlopeTable = Vec<Vec<f32>>;

/// What rows met on their way back through a graph.
#[derive(Clone, Debug, Default)]
pub struct Ledger {
    /// At every activation.
    pub entries: Vec<Entry>,
    /// For every edge that does not lead to the end, by row: the shares of the blocks kept at the vertex it
    /// enters, in the order of [`Graph`]'s rejecting edges there, then of the others.
    pub shares: HashMap<usize, Vec<Vec<f64>>>,
    /// The same for the start.
    pub start: Vec<Vec<f64>>,
}

/// What a block of rows met at one activation on its way back.
#[derive(Clone, Debug)]
pub struct Entry {
    /// The step, by the vertex it starts from.
    pub vertex: usize,
    /// The stage.
    pub stage: usize,
    /// The layer of the dynamics.
    pub layer: usize,
    /// Whether it is the change since the stage before rather than the value.
    pub change: bool,
    /// Neurons the coefficients are on.
    pub neurons: Arc<[u32]>,
    /// Which rows of the step's block these are: those of the first edge, group by group, then those of the
    /// next edge.
    rows: Arc<[usize]>,
    coefficients: Vec<f64>,
    lines: Vec<Lines>,
    per_group: usize,
}

impl Entry {
    /// What one row of the step's block met: its coefficients behind the neurons, and the lines it took.
    pub fn of_row(&self, row: usize) -> Option<(&[f64], &Lines)> {
        let at = self.rows.binary_search(&row).ok()?;
        let width = self.neurons.len();
        let lines = &self.lines[at / self.per_group % self.lines.len()];
        Some((&self.coefficients[at * width..(at + 1) * width], lines))
    }
}

/// A stage of a step on the way back, and which rows of the step's block are on it.
#[derive(Clone)]
struct Spot {
    vertex: usize,
    stage: usize,
    change: bool,
    rows: Arc<[usize]>,
}

impl<'a> GraphPull<'a> {
    /// Prepares to pull rows through a graph.
    pub fn new(
        ode: &'a OdeBlock,
        matrices: &'a OdeMatrices,
        graph: &'a Graph<Reach, StepTrace>,
        arithmetic: Arithmetic,
        clock: Clock<'a>,
    ) -> Self {
        let n = ode.dynamics.input.len();
        let mut used = vec![false; n];
        for vertex in &graph.vertices {
            for (i, used) in used.iter_mut().enumerate() {
                *used |= vertex.state.lower[i] != 0.0 || vertex.state.upper[i] != 0.0;
            }
            for stage in &vertex.trace.stages {
                for &i in stage.value.alive.iter() {
                    used[i as usize] = true;
                }
            }
        }
        for (i, used) in used.iter_mut().enumerate() {
            *used |= graph.end.lower[i] != 0.0 || graph.end.upper[i] != 0.0;
        }
        let live: Vec<u32> = (0..n as u32).filter(|&i| used[i as usize]).collect();
        Self { ode, matrices, graph, arithmetic, clock, live, slopes: None, ledger: None }
    }

    /// Takes the lower slopes from a table instead of the rows' kinds.
    pub fn with_slopes(self, slopes: &'a SlopeTable) -> Self {
        Self { slopes: Some(slopes), ..self }
    }

    fn domain(&self, state: &BoxVec) -> Centred {
        let pick = |side: &[f64]| self.live.iter().map(|&i| side[i as usize]).collect();
        BoxVec::new(pick(&state.lower), pick(&state.upper)).centres()
    }

    /// Pulls rows from the end to the start. The rows are split into as many equal groups as there are
    /// `kinds`; each group goes its own way. Returns rows over the full state.
    pub fn pull(&self, rows: &Rows, kinds: &[RowKind]) -> Result<Rows, Reason> {
        Ok(self.over_full_state(self.pull_live(self.restrict(rows), kinds)?))
    }

    fn over_full_state(&self, start: RowBlock) -> Rows {
        let mut out = Rows::zeros(start.count, Window::full(self.ode.dynamics.input));
        for row in 0..start.count {
            for (&i, a) in self.live.iter().zip(start.row(row)) {
                out.row_mut(row)[i as usize] = *a;
            }
        }
        out.constant = start.constant;
        out.slack = start.slack;
        out
    }

    /// Like [`Self::pull`], and also tells what the rows met at every activation.
    pub fn pull_with_ledger(mut self, rows: &Rows, kinds: &[RowKind]) -> Result<(Rows, Ledger), Reason> {
        self.ledger = Some(RefCell::default());
        let pulled = self.pull(rows, kinds)?;
        Ok((pulled, self.ledger.map(RefCell::into_inner).unwrap_or_default()))
    }

    /// A row on the initial state below `sign` times the input of an activation of the dynamics, at the
    /// initial time. `None` if the neuron is dead there.
    pub fn neuron_row(&self, layer: usize, neuron: usize, sign: f64) -> Option<RowBlock> {
        let passage = &self.graph.vertices.first()?.trace.stages.first()?.value;
        let neuron = neuron as u32;
        let affine = layer.checked_sub(1)?;
        passage.layers[affine].neurons().binary_search(&neuron).ok()?;
        let mut book = RowBlock::zeros(1, self.live.len());
        let spot = Spot { vertex: 0, stage: 0, change: false, rows: Arc::new([]) };
        let slopes = [LowerSlope::MinArea];
        let pulled = self.descend(vec![sign], &[neuron], affine + 1, passage, &mut book, &slopes, 1, &spot);
        book.coefficients = pulled;
        Some(self.over_full_state(book).into_block())
    }

    /// The slopes a policy takes at the initial state and time.
    pub fn slope_table(&self, policy: LowerSlope) -> SlopeTable {
        let mut width = self.ode.dynamics.input.len();
        let stage = self.graph.vertices.first().and_then(|vertex| vertex.trace.stages.first());
        let layers = self.ode.dynamics.layers.iter().enumerate().map(|(index, layer)| {
            if let Layer::Affine(map) = layer {
                width = map.output().len();
            }
            let mut slopes = vec![if policy == LowerSlope::One { 1.0 } else { 0.0 }; width];
            if let Some(LayerTrace::Activation { activation, alive, bounds }) =
                stage.map(|stage| &stage.value.layers[index])
            {
                for (k, &i) in alive.iter().enumerate() {
                    let line = Relaxation::new(*activation, bounds.get(k), policy, self.arithmetic).lower;
                    slopes[i as usize] = line.slope as f32;
                }
            }
            slopes
        });
        layers.collect()
    }

    /// The input of an activation of the dynamics at the initial state and time, if the neuron is alive there.
    pub fn initially(&self, layer: usize, neuron: usize) -> Option<Interval> {
        let stage = self.graph.vertices.first().and_then(|vertex| vertex.trace.stages.first());
        match stage.map(|stage| &stage.value.layers[layer]) {
            Some(LayerTrace::Activation { alive, bounds, .. }) => {
                alive.binary_search(&(neuron as u32)).ok().map(|k| bounds.get(k))
            }
            _ => None,
        }
    }

    fn restrict(&self, rows: &Rows) -> RowBlock {
        let mut end = RowBlock::zeros(rows.count, self.live.len());
        // Behind a layer, rows may live on a window of the state.
        let rows = rows.clone().widened();
        for row in 0..rows.count {
            let full = rows.row(row);
            for (to, &i) in end.row_mut(row).iter_mut().zip(&self.live) {
                *to = full[i as usize];
            }
        }
        end.constant.copy_from_slice(&rows.constant);
        end.slack.copy_from_slice(&rows.slack);
        end
    }

    /// Walks the vertices in reverse order. Every vertex keeps one block per outgoing edge; whoever enters
    /// the vertex merges them over the box of its own edge, which is tighter than the vertex's.
    fn pull_live(&self, end: RowBlock, kinds: &[RowKind]) -> Result<RowBlock, Reason> {
        let graph = self.graph;
        let end = [end];
        let mut at: Vec<Vec<RowBlock>> = vec![Vec::new(); graph.vertices.len()];
        let mut waiting: Vec<usize> = graph.vertices.iter().map(|v| v.incoming.len()).collect();
        let mut bytes = 0;
        for (index, vertex) in graph.vertices.iter().enumerate().rev() {
            self.clock.check(bytes)?;
            let mut unchanged = Vec::new();
            let mut stepped = Vec::new();
            for (number, edge) in vertex.outgoing.iter().map(|&e| (e, &graph.edges[e])) {
                let blocks = edge.to.map_or(&end[..], |to| &at[to]);
                let (merged, shares) = curls::merge(blocks, &self.domain(&edge.state));
                if let Some(ledger) = &self.ledger {
                    ledger.borrow_mut().shares.insert(number, shares);
                }
                if edge.action == Action::Reject { &mut unchanged } else { &mut stepped }.push(merged);
                if let Some(to) = edge.to {
                    waiting[to] -= 1;
                    if waiting[to] == 0 {
                        bytes -= at[to].iter().map(RowBlock::bytes).sum::<usize>();
                        at[to] = Vec::new();
                    }
                }
            }
            if !stepped.is_empty() {
                let parts = stepped.len();
                let pulled = self.pull_step(RowBlock::stack(&stepped), index, kinds, parts);
                unchanged.extend(pulled.unstack(parts));
            }
            bytes += unchanged.iter().map(RowBlock::bytes).sum::<usize>();
            at[index] = unchanged;
        }
        let (merged, shares) = curls::merge(&at[0], &self.domain(&graph.vertices[0].state));
        if let Some(ledger) = &self.ledger {
            ledger.borrow_mut().start = shares;
        }
        Ok(merged)
    }

    /// Pulls rows on the state after a step back to rows on the state before it, each group in its form.
    fn pull_step(&self, rows: RowBlock, vertex: usize, kinds: &[RowKind], parts: usize) -> RowBlock {
        let chain: Vec<bool> = kinds.iter().map(|kind| kind.form == RowForm::Chain).collect();
        let slopes = |wanted: bool| -> Vec<LowerSlope> {
            kinds.iter().filter(|k| (k.form == RowForm::Chain) == wanted).map(|k| k.slope).collect()
        };
        let (direct_slopes, chain_slopes) = (slopes(false), slopes(true));
        if chain_slopes.is_empty() {
            let all = (0..rows.count).collect();
            return self.pull_direct(rows, vertex, all, &direct_slopes, parts);
        }
        let per_group = rows.count / (kinds.len() * parts);
        let is_chain = |row: usize| chain[row / per_group % kinds.len()];
        let (direct, chained): (Vec<usize>, Vec<usize>) = (0..rows.count).partition(|&row| !is_chain(row));
        let mut out = rows.clone();
        if !direct.is_empty() {
            let selected = rows.select(&direct);
            let pulled = self.pull_direct(selected, vertex, direct[..].into(), &direct_slopes, parts);
            out.put(&direct, &pulled);
        }
        let selected = rows.select(&chained);
        let pulled = self.pull_chain(selected, vertex, chained[..].into(), &chain_slopes, parts);
        out.put(&chained, &pulled);
        out
    }

    /// Writing `y = x + h Σ bᵢ kᵢ`, the coefficients on `kᵢ` go through the dynamics to the stage input
    /// `x + h Σ aᵢⱼ kⱼ`, last stage first, so what `x` and all `kⱼ` have in common stays together. The
    /// rounding of the stage sums (here and in the program) is charged to `|P|·(|x| + Σ|h aᵢⱼ||kⱼ|)`.
    fn pull_direct(
        &self,
        rows: RowBlock,
        vertex: usize,
        which: Arc<[usize]>,
        slopes: &[LowerSlope],
        parts: usize,
    ) -> RowBlock {
        let trace = &self.graph.vertices[vertex].trace;
        let tableau = Tableau::of(self.ode.solver.method);
        let h = trace.step;
        let mut out = rows;
        let mut on_slopes = self.spread(&mut out, trace);
        for (i, stage) in trace.stages.iter().enumerate().rev() {
            let on_stage = std::mem::take(&mut on_slopes[i]);
            let spot = Spot { vertex, stage: i, change: false, rows: which.clone() };
            let Some(pulled) = self.pull_passage(&on_stage, &stage.value, &mut out, slopes, parts, &spot)
            else {
                continue;
            };
            kernels::add_scaled(&mut out.coefficients, 1.0, &pulled);
            for (j, &a) in tableau.stages[i].iter().enumerate().filter(|(_, a)| **a != 0.0) {
                kernels::add_scaled(&mut on_slopes[j], h * a, &pulled);
            }
        }
        out
    }

    /// The same in difference form: `kᵢ = kᵢ₋₁ + rᵢ`, so the coefficients on `kᵢ` go to `kᵢ₋₁` as they are,
    /// and through the change of the dynamics to the change of the stage input, `h Σ (aᵢⱼ − aᵢ₋₁ⱼ) kⱼ`. Only
    /// the first stage meets `x` and the dynamics themselves.
    fn pull_chain(
        &self,
        rows: RowBlock,
        vertex: usize,
        which: Arc<[usize]>,
        slopes: &[LowerSlope],
        parts: usize,
    ) -> RowBlock {
        let trace = &self.graph.vertices[vertex].trace;
        let tableau = Tableau::of(self.ode.solver.method);
        let h = trace.step;
        let short = Arithmetic::Real.short_sum(tableau.len() + 1);
        let n = rows.length;
        let mut out = rows;
        let mut on_slopes = self.spread(&mut out, trace);
        for (i, stage) in trace.stages.iter().enumerate().rev() {
            let on_stage = std::mem::take(&mut on_slopes[i]);
            let Some(change) = &stage.change else {
                // The first stage.
                let spot = Spot { vertex, stage: i, change: false, rows: which.clone() };
                let pulled = self.pull_passage(&on_stage, &stage.value, &mut out, slopes, parts, &spot);
                if let Some(pulled) = pulled {
                    kernels::add_scaled(&mut out.coefficients, 1.0, &pulled);
                }
                continue;
            };
            let magnitude = self.pick_live(&trace.stages[i - 1].slope_magnitude);
            for row in 0..out.count {
                let owed = short * kernels::size(&on_stage[row * n..(row + 1) * n], &magnitude);
                out.absorb(row, 0.0, owed);
            }
            kernels::add_scaled(&mut on_slopes[i - 1], 1.0, &on_stage);
            let spot = Spot { vertex, stage: i, change: true, rows: which.clone() };
            let Some(pulled) = self.pull_passage(&on_stage, change, &mut out, slopes, parts, &spot) else {
                continue;
            };
            let earlier = tableau.stages[i - 1];
            for (j, a) in tableau.stages[i].iter().enumerate() {
                let moved = a - earlier.get(j).copied().unwrap_or(0.0);
                if moved != 0.0 {
                    kernels::add_scaled(&mut on_slopes[j], h * moved, &pulled);
                }
            }
        }
        out
    }

    /// The coefficients on the slopes of a step: `h bᵢ` times those on its result. The rounding of the
    /// result's sum is charged here.
    fn spread(&self, out: &mut RowBlock, trace: &StepTrace) -> Vec<Vec<f64>> {
        let tableau = Tableau::of(self.ode.solver.method);
        let owed = self.pick_live(&trace.output_owed);
        for row in 0..out.count {
            let owed = kernels::size(out.row(row), &owed);
            out.absorb(row, 0.0, owed);
        }
        (0..trace.stages.len())
            .map(|i| match trace.step * tableau.weights[i] {
                0.0 => vec![0.0; out.coefficients.len()],
                factor => out.coefficients.iter().map(|e| factor * e).collect(),
            })
            .collect()
    }

    fn pick_live(&self, values: &[f64]) -> Vec<f64> {
        self.live.iter().map(|&i| values[i as usize]).collect()
    }

    /// Pulls coefficients on a stage's slope (or its change) back to coefficients on the stage's input (or
    /// its change); constants and slack go to `book`. `None` if nothing arrives.
    fn pull_passage(
        &self,
        on_slope: &[f64],
        passage: &Passage,
        book: &mut RowBlock,
        slopes: &[LowerSlope],
        parts: usize,
        spot: &Spot,
    ) -> Option<Vec<f64>> {
        if passage.alive.is_empty() || on_slope.iter().all(|a| *a == 0.0) {
            return None;
        }
        // Only slopes that are not identically zero matter.
        let current = regather(on_slope, book.count, &self.live, &passage.alive);
        let layers = self.ode.dynamics.layers.len();
        Some(self.descend(current, &passage.alive, layers, passage, book, slopes, parts, spot))
    }

    /// Pulls coefficients on some of the values behind the first `layers` layers of the dynamics back to the
    /// stage's input.
    fn descend<'s>(
        &'s self,
        mut current: Vec<f64>,
        // The neurons `current` has coefficients on.
        mut have: &'s [u32],
        layers: usize,
        passage: &'s Passage,
        book: &mut RowBlock,
        slopes: &[LowerSlope],
        parts: usize,
        spot: &Spot,
    ) -> Vec<f64> {
        let count = book.count;
        let mut scratch = Vec::new();
        let per_group = count / (slopes.len() * parts);
        for (index, layer) in self.ode.dynamics.layers[..layers].iter().enumerate().rev() {
            let want: &[u32] = passage.layers[index].neurons();
            if have != want {
                current = regather(&current, count, have, want);
            }
            have = want;
            let width = have.len();
            match (layer, &passage.layers[index]) {
                (_, LayerTrace::Activation { activation, alive, bounds }) => {
                    let lines: Vec<Lines> = match self.slopes {
                        Some(table) => {
                            let given: Vec<f32> = alive.iter().map(|&i| table[index][i as usize]).collect();
                            vec![Lines::with_slopes(*activation, bounds, &given, self.arithmetic)]
                        }
                        None => slopes
                            .iter()
                            .map(|&slope| Lines::for_box(*activation, bounds, slope, self.arithmetic))
                            .collect(),
                    };
                    self.note(spot, index, passage.layers[index].neurons(), &current, per_group, &lines);
                    relax(&mut current, width, book, |row| &lines[row / per_group % lines.len()]);
                }
                (_, LayerTrace::Change { lines, .. }) => {
                    let neurons = passage.layers[index].neurons();
                    self.note(spot, index, neurons, &current, per_group, std::slice::from_ref(lines));
                    relax(&mut current, width, book, |_| lines);
                }
                (Layer::Affine(map), LayerTrace::Affine { outputs, bias, owed }) => {
                    let Some(matrix) = &self.matrices.0[index] else { continue };
                    let inputs: &[u32] = match index.checked_sub(1) {
                        Some(before) => passage.layers[before].neurons(),
                        None => &self.live,
                    };
                    for row in 0..count {
                        let a = &current[row * width..(row + 1) * width];
                        let (constant, size) = kernels::dot_and_size(a, bias, owed);
                        book.absorb(row, constant, size);
                    }
                    // Few neurons alive: a small dense product. Many: the convolution's own way, which
                    // touches fewer weights. The extra rows stand for gathering and packing.
                    let dense = outputs.len() * inputs.len() * (count + 16);
                    current = if dense < map.pull_cost() * (count + count / 3) {
                        matrix.gather(outputs, inputs, &mut scratch);
                        let mut next = vec![0.0; count * inputs.len()];
                        multiply(count, width, inputs.len(), &current, &scratch, &mut next);
                        next
                    } else {
                        pull_full(map, &current, outputs, inputs)
                    };
                    have = inputs;
                }
                (Layer::Activation(_), LayerTrace::Affine { .. }) => {
                    unreachable!("a trace follows the layers it was made from")
                }
            }
        }
        let pulled = if have == self.live { current } else { regather(&current, count, have, &self.live) };
        let owed = self.pick_live(&passage.input_owed);
        for row in 0..count {
            let owed = kernels::size(&pulled[row * book.length..(row + 1) * book.length], &owed);
            book.absorb(row, 0.0, owed);
        }
        pulled
    }

    /// Notes what the rows met, if anyone wants to know.
    fn note(
        &self,
        spot: &Spot,
        layer: usize,
        neurons: &Arc<[u32]>,
        coefficients: &[f64],
        per_group: usize,
        lines: &[Lines],
    ) {
        if let Some(ledger) = &self.ledger {
            ledger.borrow_mut().entries.push(Entry {
                vertex: spot.vertex,
                stage: spot.stage,
                layer,
                change: spot.change,
                neurons: neurons.clone(),
                rows: spot.rows.clone(),
                coefficients: coefficients.to_vec(),
                lines: lines.to_vec(),
                per_group,
            });
        }
    }
}

/// Pulls coefficients on `width` neurons back through lines; constants and slack go to `book`.
fn relax<'l>(current: &mut [f64], width: usize, book: &mut RowBlock, lines: impl Fn(usize) -> &'l Lines) {
    let gamma = analysis_error(width);
    for row in 0..book.count {
        let (constant, owed) = kernels::relax_row(&mut current[row * width..(row + 1) * width], lines(row));
        book.absorb(row, constant, gamma * owed);
    }
}

/// Moves coefficients from the neurons they are on to another selection of the same neurons. What is left
/// out is identically zero in its place, so its coefficients do not matter; what is new has none.
fn regather(coefficients: &[f64], count: usize, have: &[u32], want: &[u32]) -> Vec<f64> {
    let from: Vec<Option<usize>> = want.iter().map(|i| have.binary_search(i).ok()).collect();
    let width = have.len();
    (0..count)
        .flat_map(|row| from.iter().map(move |at| at.map(|at| row * width + at)))
        .map(|at| at.map_or(0.0, |at| coefficients[at]))
        .collect()
}

/// Pulls coefficients on some outputs of a map back to coefficients on some of its inputs.
fn pull_full(map: &AffineMap, coefficients: &[f64], outputs: &[u32], inputs: &[u32]) -> Vec<f64> {
    let count = coefficients.len() / outputs.len().max(1);
    let mut rows = Rows::zeros(count, Window::full(map.output()));
    for row in 0..count {
        let part = &coefficients[row * outputs.len()..(row + 1) * outputs.len()];
        let full = rows.row_mut(row);
        for (&at, a) in outputs.iter().zip(part) {
            full[at as usize] = *a;
        }
    }
    let pulled = map.pull_linear(&rows);
    // A strided convolution may not see the far edge of its input: there the coefficients are zero.
    let mut full = vec![0.0; map.input().len()];
    let mut picked = Vec::with_capacity(count * inputs.len());
    for row in 0..count {
        let mut part = pulled.row(row);
        for run in pulled.window.runs() {
            let (head, tail) = part.split_at(run.len());
            full[run].copy_from_slice(head);
            part = tail;
        }
        picked.extend(inputs.iter().map(|&i| full[i as usize]));
    }
    picked
}
