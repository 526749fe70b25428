//! Pulling rows of linear bounds backwards through solver steps and the trajectory graph.
//!
//! Inside an ODE block rows only carry the coordinates that are not identically zero anywhere in the
//! graph, and pass through the dynamics only along neurons that are alive: a coefficient on something
//! that is always zero never matters. On networks trained to be certified that is a small part.

use gains_core::affine::{Matrix, multiply};
use gains_core::arithmetic::analysis_error;
use gains_core::interval::Centred;
use gains_core::network::Layer;
use gains_core::relaxation::Lines;
use gains_core::{AffineMap, Arithmetic, BoxVec, LowerSlope, OdeBlock, Rows, Window, kernels};
use gains_ode::{Action, Graph, Tableau};

use crate::box_step::{LayerTrace, Passage, StepTrace};
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
    pub graph: &'a Graph<BoxVec, StepTrace>,
    /// Whose arithmetic is enclosed.
    pub arithmetic: Arithmetic,
    /// Time and memory.
    pub clock: Clock<'a>,
    live: Vec<u32>,
}

impl<'a> GraphPull<'a> {
    /// Prepares to pull rows through a graph.
    pub fn new(
        ode: &'a OdeBlock,
        matrices: &'a OdeMatrices,
        graph: &'a Graph<BoxVec, StepTrace>,
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
        Self { ode, matrices, graph, arithmetic, clock, live }
    }

    fn domain(&self, state: &BoxVec) -> Centred {
        let pick = |side: &[f64]| self.live.iter().map(|&i| side[i as usize]).collect();
        BoxVec::new(pick(&state.lower), pick(&state.upper)).centres()
    }

    /// Pulls rows from the end to the start. The rows are split into as many equal groups as there are
    /// `kinds`; each group goes its own way. Returns rows over the full state.
    pub fn pull(&self, rows: &Rows, kinds: &[RowKind]) -> Result<Rows, Reason> {
        let start = self.pull_live(self.restrict(rows), kinds)?;
        let mut out = Rows::zeros(start.count, Window::full(self.ode.dynamics.input));
        for row in 0..start.count {
            for (&i, a) in self.live.iter().zip(start.row(row)) {
                out.row_mut(row)[i as usize] = *a;
            }
        }
        out.constant = start.constant;
        out.slack = start.slack;
        Ok(out)
    }

    fn restrict(&self, rows: &Rows) -> RowBlock {
        let mut end = RowBlock::zeros(rows.count, self.live.len());
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
            for edge in vertex.outgoing.iter().map(|&e| &graph.edges[e]) {
                let blocks = edge.to.map_or(&end[..], |to| &at[to]);
                let merged = curls::merge(blocks, &self.domain(&edge.state));
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
                let pulled = self.pull_step(RowBlock::stack(&stepped), &vertex.trace, kinds, parts);
                unchanged.extend(pulled.unstack(parts));
            }
            bytes += unchanged.iter().map(RowBlock::bytes).sum::<usize>();
            at[index] = unchanged;
        }
        Ok(curls::merge(&at[0], &self.domain(&graph.vertices[0].state)))
    }

    /// Pulls rows on the state after a step back to rows on the state before it, each group in its form.
    fn pull_step(&self, rows: RowBlock, trace: &StepTrace, kinds: &[RowKind], parts: usize) -> RowBlock {
        let chain: Vec<bool> = kinds.iter().map(|kind| kind.form == RowForm::Chain).collect();
        let slopes = |wanted: bool| -> Vec<LowerSlope> {
            kinds.iter().filter(|k| (k.form == RowForm::Chain) == wanted).map(|k| k.slope).collect()
        };
        let (direct_slopes, chain_slopes) = (slopes(false), slopes(true));
        if chain_slopes.is_empty() {
            return self.pull_direct(rows, trace, &direct_slopes, parts);
        }
        let per_group = rows.count / (kinds.len() * parts);
        let is_chain = |row: usize| chain[row / per_group % kinds.len()];
        let (direct, chained): (Vec<usize>, Vec<usize>) = (0..rows.count).partition(|&row| !is_chain(row));
        let mut out = rows.clone();
        if !direct.is_empty() {
            out.put(&direct, &self.pull_direct(rows.select(&direct), trace, &direct_slopes, parts));
        }
        out.put(&chained, &self.pull_chain(rows.select(&chained), trace, &chain_slopes, parts));
        out
    }

    /// Writing `y = x + h Σ bᵢ kᵢ`, the coefficients on `kᵢ` go through the dynamics to the stage input
    /// `x + h Σ aᵢⱼ kⱼ`, last stage first, so what `x` and all `kⱼ` have in common stays together. The
    /// rounding of the stage sums (here and in the program) is charged to `|P|·(|x| + Σ|h aᵢⱼ||kⱼ|)`.
    fn pull_direct(
        &self,
        rows: RowBlock,
        trace: &StepTrace,
        slopes: &[LowerSlope],
        parts: usize,
    ) -> RowBlock {
        let tableau = Tableau::of(self.ode.solver.method);
        let h = trace.step;
        let mut out = rows;
        let mut on_slopes = self.spread(&mut out, trace);
        for (i, stage) in trace.stages.iter().enumerate().rev() {
            let on_stage = std::mem::take(&mut on_slopes[i]);
            let Some(pulled) = self.pull_passage(&on_stage, &stage.value, &mut out, slopes, parts) else {
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
    fn pull_chain(&self, rows: RowBlock, trace: &StepTrace, slopes: &[LowerSlope], parts: usize) -> RowBlock {
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
                if let Some(pulled) = self.pull_passage(&on_stage, &stage.value, &mut out, slopes, parts) {
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
            let Some(pulled) = self.pull_passage(&on_stage, change, &mut out, slopes, parts) else {
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
    ) -> Option<Vec<f64>> {
        let count = book.count;
        if passage.alive.is_empty() || on_slope.iter().all(|a| *a == 0.0) {
            return None;
        }
        // Only slopes that are not identically zero matter.
        let mut current = regather(on_slope, count, &self.live, &passage.alive);
        // The neurons `current` has coefficients on.
        let mut have: &[u32] = &passage.alive;
        let mut scratch = Vec::new();
        let per_group = count / (slopes.len() * parts);
        for (index, layer) in self.ode.dynamics.layers.iter().enumerate().rev() {
            let want: &[u32] = passage.layers[index].neurons();
            if have != want {
                current = regather(&current, count, have, want);
            }
            have = want;
            let width = have.len();
            match (layer, &passage.layers[index]) {
                (_, LayerTrace::Activation { activation, bounds, .. }) => {
                    let lines: Vec<Lines> = slopes
                        .iter()
                        .map(|&slope| Lines::for_box(*activation, bounds, slope, self.arithmetic))
                        .collect();
                    relax(&mut current, width, book, |row| &lines[row / per_group % slopes.len()]);
                }
                (_, LayerTrace::Change { lines, .. }) => relax(&mut current, width, book, |_| lines),
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
        Some(pulled)
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
