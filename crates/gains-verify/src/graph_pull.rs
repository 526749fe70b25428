//! Pulling rows of linear bounds backwards through solver steps and the trajectory graph.
//!
//! Inside an ODE block rows only carry the coordinates that are not identically zero anywhere in the
//! graph, and pass through the dynamics only along neurons that are alive: a coefficient on something
//! that is always zero never matters. On networks trained to be certified that is a small part.

use std::cell::RefCell;
use std::sync::Arc;

use gains_core::dag::Node;
use gains_core::interval::Centred;
use gains_core::operator::curve::CurveKnown;
use gains_core::operator::{ChangeKnown, Elementwise, Known, Steering};
use gains_core::program::{Flight, Trace};
use gains_core::relaxation::Lines;
use gains_core::{
    Arithmetic, BoxVec, Interval, LowerSlope, OdeBlock, Operator, Relaxation, RowBlock, Rows, Support,
    kernels,
};
use gains_ode::{Action, Graph, Tableau};

use crate::curls;
use crate::ledger::{Entry, Fork, Ledger, Site};
use crate::limits::{Clock, Reason};
use crate::steps::{Passage, Reach, StepTrace};

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

/// Pulls rows at an ODE's end time back to rows at its start.
pub struct GraphPull<'a> {
    /// The block.
    pub block: &'a OdeBlock,
    /// The trajectories.
    pub graph: &'a Graph<Reach, StepTrace>,
    /// Whose arithmetic is enclosed.
    pub arithmetic: Arithmetic,
    /// Time and memory.
    pub clock: Clock<'a>,
    /// Memory that others hold meanwhile.
    held: usize,
    live: Arc<[u32]>,
    freedom: Option<&'a Freedom>,
    ledger: Option<RefCell<Ledger>>,
    notes: Notes,
}

/// What is noted of rows on their way back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Notes {
    /// What they met at every activation, and their shares.
    Everything,
    /// Their shares where trajectories meet.
    Shares,
}

/// Lower slopes of the dynamics' neurons, by value, the same in all steps and stages; only those of unstable
/// ReLUs matter.
pub type SlopeTable = Vec<Vec<f32>>;

/// What a row is free to choose inside an ODE block, the same in all steps. Every choice is sound.
#[derive(Clone, Debug, Default)]
pub struct Freedom {
    /// Lower slopes.
    pub slopes: SlopeTable,
    /// By stage, from the second on, and entry of the stage's slope: the part of a row in chain form that passes the stage
    /// directly instead. None, if all of it stays in the chain.
    pub direct: Vec<Vec<f32>>,
}

impl Freedom {
    /// The same slopes, and this part of every row out of the chain.
    pub fn divided(self, block: &OdeBlock, part: f32) -> Self {
        let later = Tableau::of(block.solver.method).len() - 1;
        Self { direct: vec![vec![part; block.state().len()]; later], ..self }
    }

    /// The parts of a stage that pass directly, at some entries.
    fn direct_at(&self, stage: usize, entries: &[u32]) -> Option<Vec<f64>> {
        let all = self.direct.get(stage.checked_sub(1)?)?;
        let part = |&i: &u32| f64::from(all[i as usize].clamp(0.0, 1.0));
        Some(entries.iter().map(part).collect())
    }
}

/// Lines for the rows of one stage of a step, and what is noted on the way.
struct StageSteering<'s> {
    slopes: &'s [LowerSlope],
    per_group: usize,
    freedom: Option<&'s Freedom>,
    arithmetic: Arithmetic,
    ledger: Option<&'s RefCell<Ledger>>,
    vertex: usize,
    stage: usize,
    change: bool,
    rows: &'s Arc<[usize]>,
}

impl StageSteering<'_> {
    fn note(&self, value: usize, rows: &Rows, lines: &[Lines]) {
        let Some(ledger) = self.ledger else { return };
        ledger.borrow_mut().entries.push(Entry {
            site: Site { vertex: self.vertex, stage: self.stage, value, change: self.change },
            neurons: rows.on().indices(),
            rows: self.rows.clone(),
            coefficients: rows.coefficients.clone(),
            lines: lines.to_vec(),
            per_group: self.per_group,
        });
    }
}

impl Steering for StageSteering<'_> {
    fn curve(&mut self, Elementwise { value, .. }: Elementwise, known: &CurveKnown, rows: &mut Rows) {
        let lines: Vec<Lines> = match self.freedom {
            Some(freedom) => vec![known.lines_with(&freedom.slopes[value], self.arithmetic)],
            None => self.slopes.iter().map(|&slope| known.lines(slope, self.arithmetic)).collect(),
        };
        self.note(value, rows, &lines);
        rows.relax_each(|row| &lines[row / self.per_group % lines.len()]);
    }

    fn change(&mut self, value: usize, known: &ChangeKnown, rows: &Rows) {
        self.note(value, rows, &known.lines[..1]);
    }
}

/// Which rows of a step's block pass a stage, and how.
#[derive(Clone, Copy)]
struct Passing<'s> {
    vertex: usize,
    rows: &'s Arc<[usize]>,
    slopes: &'s [LowerSlope],
    parts: usize,
}

impl<'a> GraphPull<'a> {
    /// Prepares to pull rows through a graph.
    pub fn new(
        block: &'a OdeBlock,
        graph: &'a Graph<Reach, StepTrace>,
        arithmetic: Arithmetic,
        clock: Clock<'a>,
    ) -> Self {
        let n = block.state().len();
        let mut used = vec![false; n];
        for vertex in &graph.vertices {
            for (i, used) in used.iter_mut().enumerate() {
                *used |= vertex.state.lower[i] != 0.0 || vertex.state.upper[i] != 0.0;
            }
            for stage in &vertex.trace.stages {
                for &i in stage.value.trace.alive.iter() {
                    used[i as usize] = true;
                }
            }
        }
        for (i, used) in used.iter_mut().enumerate() {
            *used |= graph.end.lower[i] != 0.0 || graph.end.upper[i] != 0.0;
        }
        let live = (0..n as u32).filter(|&i| used[i as usize]).collect();
        Self {
            block,
            graph,
            arithmetic,
            clock,
            held: 0,
            live,
            freedom: None,
            ledger: None,
            notes: Notes::Everything,
        }
    }

    /// Takes lower slopes by neuron instead of the rows' kinds, and divides rows in chain form.
    pub fn with_freedom(self, freedom: &'a Freedom) -> Self {
        Self { freedom: Some(freedom), ..self }
    }

    /// Counts memory that others hold meanwhile.
    pub fn beside(self, held: usize) -> Self {
        Self { held, ..self }
    }

    fn domain(&self, state: &BoxVec) -> Centred {
        let pick = |side: &[f64]| self.live.iter().map(|&i| side[i as usize]).collect();
        BoxVec::new(pick(&state.lower), pick(&state.upper)).centres()
    }

    /// Pulls rows from the end to the start. The rows are split into as many equal groups as there are
    /// `kinds`; each group goes its own way. Returns rows on the entries of the state that matter.
    pub fn pull(&self, rows: Rows, kinds: &[RowKind]) -> Result<Rows, Reason> {
        let end = RowBlock::clone(&rows.onto(&self.live));
        let start = self.pull_live(end, kinds)?;
        Ok(Rows::from_block(start, self.support()).widened())
    }

    fn support(&self) -> Support {
        Support::entries(self.block.state(), self.live.clone())
    }

    /// Like [`Self::pull`], and also tells what the rows met at every activation.
    pub fn pull_with_ledger(mut self, rows: Rows, kinds: &[RowKind]) -> Result<(Rows, Ledger), Reason> {
        self.ledger = Some(RefCell::default());
        let pulled = self.pull(rows, kinds)?;
        Ok((pulled, self.ledger.map(RefCell::into_inner).unwrap_or_default()))
    }

    /// Like [`Self::pull`], and also tells the shares of rows where trajectories meet.
    pub fn pull_with_shares(self, rows: Rows, kinds: &[RowKind]) -> Result<(Rows, Ledger), Reason> {
        Self { notes: Notes::Shares, ..self }.pull_with_ledger(rows, kinds)
    }

    /// A row on the initial state below `sign` times one entry of a value that the dynamics make, at the initial time. `None`
    /// if the entry does not matter there.
    pub fn entry_row(&self, value: usize, entry: usize, sign: f64) -> Option<RowBlock> {
        if value < self.block.dynamics.inputs().len() {
            return None;
        }
        self.entry_rows(value, &[entry as u32], &[sign], LowerSlope::MinArea)
    }

    /// The same for several entries, all of them for one sign after the other. `None` if one of them does not matter there:
    /// rows lose such entries on their way, which is no loss where what takes them is identically zero, but these rows
    /// begin with them and would say that the entry is.
    pub fn entry_rows(
        &self,
        value: usize,
        entries: &[u32],
        signs: &[f64],
        slope: LowerSlope,
    ) -> Option<RowBlock> {
        let passage = &self.graph.vertices.first()?.trace.stages.first()?.value;
        if !entries.iter().all(|&entry| matters(&passage.trace, value, entry)) {
            return None;
        }
        let dynamics = &self.block.dynamics;
        let on = Support::entries(dynamics.shape(value), entries.into());
        let n = entries.len();
        let mut coefficients = vec![0.0; signs.len() * n * n];
        for (row, of_row) in coefficients.chunks_mut(n).enumerate() {
            of_row[row % n] = signs[row / n];
        }
        let mut flight = Flight::new(dynamics.values(), value, Rows::new(on, coefficients));
        let mut steering = StageSteering {
            slopes: &[slope],
            per_group: 1,
            freedom: None,
            arithmetic: self.arithmetic,
            ledger: None,
            vertex: 0,
            stage: 0,
            change: false,
            rows: &Arc::from([]),
        };
        let way = passage.trace.way(self.block.matrices(), Some(&self.live), self.arithmetic);
        dynamics.pull(&mut flight, &way, &mut steering);
        let mut rows = flight.take(0)?.widened();
        rows.charge(&passage.input_owed);
        Some(rows.into_full())
    }

    /// The arguments of the dynamics' elementwise functions, each with its entries that matter at the initial state and time
    /// and may be on both sides of zero there.
    pub fn undecided(&self) -> Vec<(usize, Vec<u32>)> {
        let stage = self.graph.vertices.first().and_then(|vertex| vertex.trace.stages.first());
        let known = |index| match stage.map(|stage| stage.value.trace.known(index)) {
            Some(Known::Curve(curve)) => Some(curve),
            _ => None,
        };
        let of_node = |(index, (_, node)): (usize, (usize, &Node<Operator>))| {
            let curve = known(index)?;
            let open = |k: &usize| curve.before.lower[*k] < 0.0 && curve.before.upper[*k] > 0.0;
            let (argument, on) = (node.from[0], curve.on.indices());
            let open = (0..on.len()).filter(open).map(|k| on[k]);
            let trace = &stage?.value.trace;
            Some((argument, open.filter(|&entry| matters(trace, argument, entry)).collect()))
        };
        self.block.dynamics.nodes().enumerate().filter_map(of_node).collect()
    }

    /// What rows choose that take a policy's slopes at the initial state and time everywhere, and stay in the chain.
    pub fn freedom(&self, policy: LowerSlope) -> Freedom {
        Freedom { slopes: self.slope_table(policy), direct: Vec::new() }
    }

    fn slope_table(&self, policy: LowerSlope) -> SlopeTable {
        let dynamics = &self.block.dynamics;
        let stage = self.graph.vertices.first().and_then(|vertex| vertex.trace.stages.first());
        let mut table: SlopeTable = (0..dynamics.values())
            .map(|value| vec![if policy == LowerSlope::One { 1.0 } else { 0.0 }; dynamics.shape(value).len()])
            .collect();
        for (index, (value, _)) in dynamics.nodes().enumerate() {
            let Some(Known::Curve(curve)) = stage.map(|stage| stage.value.trace.known(index)) else {
                continue;
            };
            for (k, i) in curve.on.indices().into_iter().enumerate() {
                let line =
                    Relaxation::new(curve.activation, curve.before.get(k), policy, self.arithmetic).lower;
                table[value][i as usize] = line.slope as f32;
            }
        }
        table
    }

    /// The argument of an elementwise function of the dynamics at the initial state and time, in one entry, if that
    /// matters there.
    pub fn initially(&self, value: usize, entry: usize) -> Option<Interval> {
        let stage = self.graph.vertices.first()?.trace.stages.first()?;
        let index = value.checked_sub(self.block.dynamics.inputs().len())?;
        match stage.value.trace.known(index) {
            Known::Curve(curve) => {
                let at = curve.on.indices().binary_search(&(entry as u32)).ok()?;
                Some(curve.before.get(at))
            }
            _ => None,
        }
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
            self.clock.check(self.held + bytes)?;
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
                let pulled = self.pull_step(RowBlock::stack(&stepped), index, kinds, parts)?;
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
    fn pull_step(
        &self,
        rows: RowBlock,
        vertex: usize,
        kinds: &[RowKind],
        parts: usize,
    ) -> Result<RowBlock, Reason> {
        let chain: Vec<bool> = kinds.iter().map(|kind| kind.form == RowForm::Chain).collect();
        let slopes = |wanted: bool| -> Vec<LowerSlope> {
            kinds.iter().filter(|k| (k.form == RowForm::Chain) == wanted).map(|k| k.slope).collect()
        };
        let (direct_slopes, chain_slopes) = (slopes(false), slopes(true));
        if chain_slopes.is_empty() {
            let all = (0..rows.count).collect();
            return self.pull_direct(rows, Passing { vertex, rows: &all, slopes: &direct_slopes, parts });
        }
        let per_group = rows.count / (kinds.len() * parts);
        let is_chain = |row: usize| chain[row / per_group % kinds.len()];
        let (direct, chained): (Vec<usize>, Vec<usize>) = (0..rows.count).partition(|&row| !is_chain(row));
        let mut out = rows.clone();
        if !direct.is_empty() {
            let selected = rows.select(&direct);
            let which = direct[..].into();
            let passing = Passing { vertex, rows: &which, slopes: &direct_slopes, parts };
            let pulled = self.pull_direct(selected, passing)?;
            out.put(&direct, &pulled);
        }
        let selected = rows.select(&chained);
        let which = chained[..].into();
        let passing = Passing { vertex, rows: &which, slopes: &chain_slopes, parts };
        out.put(&chained, &self.pull_chain(selected, passing)?);
        Ok(out)
    }

    /// Writing `y = x + h Σ bᵢ kᵢ`, the coefficients on `kᵢ` go through the dynamics to the stage input
    /// `x + h Σ aᵢⱼ kⱼ`, last stage first, so what `x` and all `kⱼ` have in common stays together. The
    /// rounding of the stage sums (here and in the program) is charged to `|P|·(|x| + Σ|h aᵢⱼ||kⱼ|)`.
    fn pull_direct(&self, rows: RowBlock, passing: Passing<'_>) -> Result<RowBlock, Reason> {
        let trace = &self.graph.vertices[passing.vertex].trace;
        let tableau = Tableau::of(self.block.solver.method);
        let h = trace.step;
        let mut out = rows;
        let mut on_slopes = self.spread(&mut out, trace);
        for (i, stage) in trace.stages.iter().enumerate().rev() {
            let on_stage = std::mem::take(&mut on_slopes[i]);
            let Some(pulled) = self.pull_passage(on_stage, &stage.value, &mut out, passing, (i, false))?
            else {
                continue;
            };
            kernels::add_scaled(&mut out.coefficients, 1.0, &pulled);
            for (j, &a) in tableau.stages[i].iter().enumerate().filter(|(_, a)| **a != 0.0) {
                kernels::add_scaled(&mut on_slopes[j], h * a, &pulled);
            }
        }
        Ok(out)
    }

    /// The same in difference form: `kᵢ = kᵢ₋₁ + rᵢ`, so the coefficients on `kᵢ` go to `kᵢ₋₁` as they are,
    /// and through the change of the dynamics to the change of the stage input, `h Σ (aᵢⱼ − aᵢ₋₁ⱼ) kⱼ`. Only
    /// the first stage meets `x` and the dynamics themselves. Of each coefficient a part may leave the chain and pass
    /// its stage directly.
    fn pull_chain(&self, rows: RowBlock, passing: Passing<'_>) -> Result<RowBlock, Reason> {
        let trace = &self.graph.vertices[passing.vertex].trace;
        let tableau = Tableau::of(self.block.solver.method);
        let h = trace.step;
        let short = Arithmetic::Real.short_sum(tableau.len() + 1);
        let n = rows.length;
        let mut out = rows;
        let mut on_slopes = self.spread(&mut out, trace);
        for (i, stage) in trace.stages.iter().enumerate().rev() {
            let on_stage = std::mem::take(&mut on_slopes[i]);
            let Some(change) = &stage.change else {
                // The first stage.
                let pulled = self.pull_passage(on_stage, &stage.value, &mut out, passing, (i, false))?;
                if let Some(pulled) = pulled {
                    kernels::add_scaled(&mut out.coefficients, 1.0, &pulled);
                }
                continue;
            };
            let on_stage = match self.freedom.and_then(|freedom| freedom.direct_at(i, &self.live)) {
                Some(direct) => {
                    self.note_fork(passing, i, &on_stage, &direct);
                    let magnitude = self.pick_live(&stage.slope_magnitude);
                    let (leaving, staying) = divide(on_stage, &direct, &magnitude, &mut out);
                    let pulled = self.pull_passage(leaving, &stage.value, &mut out, passing, (i, false))?;
                    if let Some(pulled) = pulled {
                        kernels::add_scaled(&mut out.coefficients, 1.0, &pulled);
                        for (j, &a) in tableau.stages[i].iter().enumerate().filter(|(_, a)| **a != 0.0) {
                            kernels::add_scaled(&mut on_slopes[j], h * a, &pulled);
                        }
                    }
                    staying
                }
                None => on_stage,
            };
            let magnitude = self.pick_live(&trace.stages[i - 1].slope_magnitude);
            for row in 0..out.count {
                let owed = short * kernels::size(&on_stage[row * n..(row + 1) * n], &magnitude);
                out.absorb(row, 0.0, owed);
            }
            kernels::add_scaled(&mut on_slopes[i - 1], 1.0, &on_stage);
            let Some(pulled) = self.pull_passage(on_stage, change, &mut out, passing, (i, true))? else {
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
        Ok(out)
    }

    fn note_fork(&self, passing: Passing<'_>, stage: usize, coefficients: &[f64], direct: &[f64]) {
        let Some(ledger) = self.ledger.as_ref().filter(|_| self.notes == Notes::Everything) else { return };
        ledger.borrow_mut().forks.push(Fork {
            vertex: passing.vertex,
            stage,
            entries: self.live.clone(),
            direct: direct.to_vec(),
            rows: passing.rows.clone(),
            coefficients: coefficients.to_vec(),
        });
    }

    /// The coefficients on the slopes of a step: `h bᵢ` times those on its result. The rounding of the
    /// result's sum is charged here.
    fn spread(&self, out: &mut RowBlock, trace: &StepTrace) -> Vec<Vec<f64>> {
        let tableau = Tableau::of(self.block.solver.method);
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
        on_slope: Vec<f64>,
        passage: &Passage,
        book: &mut RowBlock,
        passing: Passing<'_>,
        (stage, change): (usize, bool),
    ) -> Result<Option<Vec<f64>>, Reason> {
        let trace = &passage.trace;
        if trace.alive.is_empty() || on_slope.iter().all(|a| *a == 0.0) {
            return Ok(None);
        }
        self.clock.check(self.held)?;
        let dynamics = &self.block.dynamics;
        // Only slopes that are not identically zero matter.
        let rows = Rows::new(self.support(), on_slope).onto(&trace.alive);
        let mut flight = Flight::new(dynamics.values(), dynamics.output(), rows);
        let mut steering = StageSteering {
            slopes: passing.slopes,
            per_group: book.count / (passing.slopes.len() * passing.parts),
            freedom: self.freedom,
            arithmetic: self.arithmetic,
            ledger: self.ledger.as_ref().filter(|_| self.notes == Notes::Everything),
            vertex: passing.vertex,
            stage,
            change,
            rows: passing.rows,
        };
        let way = trace.way(self.block.matrices(), Some(&self.live), self.arithmetic);
        dynamics.pull(&mut flight, &way, &mut steering);
        let Some(rows) = flight.take(0) else { return Ok(None) };
        let mut rows = rows.onto(&self.live);
        rows.charge(&passage.input_owed);
        for row in 0..book.count {
            book.absorb(row, rows.constant[row], rows.slack[row]);
        }
        Ok(Some(std::mem::take(&mut rows.coefficients)))
    }
}

/// Whether rows keep their coefficients on an entry of a value on their way back.
fn matters(trace: &Trace, value: usize, entry: u32) -> bool {
    trace.entries(value).is_none_or(|needed| needed.binary_search(&entry).is_ok())
}

/// Divides coefficients on a stage's slope into what leaves the chain and what stays. Together they are the coefficients,
/// but for one rounding of what stays, which matters in proportion to the slope's magnitude and is charged to `book`.
fn divide(all: Vec<f64>, direct: &[f64], magnitude: &[f64], book: &mut RowBlock) -> (Vec<f64>, Vec<f64>) {
    let n = direct.len();
    for row in 0..book.count {
        let owed = 2.0 * f64::EPSILON * kernels::size(&all[row * n..(row + 1) * n], magnitude);
        book.absorb(row, 0.0, owed);
    }
    let leaving: Vec<f64> = all.iter().enumerate().map(|(k, a)| direct[k % n] * a).collect();
    let mut staying = all;
    staying.iter_mut().zip(&leaving).for_each(|(a, leaves)| *a -= leaves);
    (leaving, staying)
}

#[cfg(test)]
mod tests {
    use gains_core::description::{LayerSpec, RungeKutta};
    use gains_core::{Precision, Shape};
    use gains_ode::Inference;
    use gains_testkit::{Model, controlled, random_tensors};

    use super::*;
    use crate::analysis::Analysis;
    use crate::limits::Budget;
    use crate::method::Method;
    use crate::steps::StepForm;

    fn model(random: &mut fastrand::Rng) -> Model {
        let linear = |name: &str, in_features, out_features| LayerSpec::Linear {
            name: name.into(),
            in_features,
            out_features,
            time: true,
        };
        let dynamics = vec![linear("a", 3, 5), LayerSpec::Relu {}, linear("b", 5, 3), LayerSpec::Relu {}];
        let method = [RungeKutta::Dopri5, RungeKutta::Bosh3, RungeKutta::Heun][random.usize(0..3)];
        let layers = vec![LayerSpec::Ode { dynamics, solver: controlled(method, 2, 0.05, 0.25, 2) }];
        let tensors = random_tensors(&layers, random);
        Model::new(Shape::flat(3), layers, tensors, 3)
    }

    /// Random slopes and parts out of the chain, sensible or not: no trajectory ends below a row.
    #[test]
    fn rows_hold_whatever_they_choose() {
        let mut random = fastrand::Rng::with_seed(77);
        let (mut checked, mut apart) = (0, 0);
        for _ in 0..120 {
            let network = model(&mut random).network();
            let lower: Vec<f64> = (0..3).map(|_| 2.0 * random.f64() - 1.0).collect();
            let upper: Vec<f64> = lower.iter().map(|l| l + random.f64()).collect();
            let clock = Clock::start(Budget::default());
            let (arithmetic, form) = (Arithmetic::Real, StepForm::Difference);
            let region = vec![BoxVec::new(lower.clone(), upper.clone())];
            let Ok(analysis) = Analysis::new(&network.body, region, Method::Tight, form, arithmetic, clock)
            else {
                continue;
            };
            let ode = analysis.first_ode().expect("there is one");
            let plain = ode.freedom(LowerSlope::MinArea);
            let mut wild = Freedom::clone(&plain).divided(ode.block, 0.0);
            wild.slopes.iter_mut().flatten().for_each(|s| *s = 2.0 * random.f32() - 0.5);
            wild.direct.iter_mut().flatten().for_each(|d| *d = 1.5 * random.f32() - 0.25);
            let kind = RowKind { slope: LowerSlope::MinArea, form: RowForm::Chain };
            let row =
                Rows::new(Support::full(Shape::flat(3)), (0..3).map(|_| 2.0 * random.f64() - 1.0).collect());
            let pulled: Vec<RowBlock> = [plain, wild]
                .iter()
                .map(|freedom| {
                    let pull = analysis.first_ode().expect("there is one").with_freedom(freedom);
                    pull.pull(row.clone(), &[kind]).expect("in time").into_full()
                })
                .collect();
            apart += usize::from(pulled[0].row(0) != pulled[1].row(0));
            for _ in 0..40 {
                let inside = |i: usize, random: &mut fastrand::Rng| {
                    let u = if random.bool() { random.f64() } else { f64::from(random.u8(0..2)) };
                    lower[i] + u * (upper[i] - lower[i])
                };
                let x: Vec<f64> = (0..3).map(|i| inside(i, &mut random)).collect();
                let Ok(run) = Inference::run(&network, &x, Precision::Float64) else { continue };
                let value: f64 = row.row(0).iter().zip(&run.output).map(|(a, y)| a * y).sum();
                for rows in &pulled {
                    let below: f64 = rows.row(0).iter().zip(&x).map(|(a, x)| a * x).sum();
                    let below = below + rows.constant[0] - rows.slack[0];
                    assert!(below <= value + 1e-11 * (1.0 + value.abs()), "{value} below {below}");
                    checked += 1;
                }
            }
        }
        assert!(checked > 5_000 && apart > 60, "{checked} {apart}");
    }

    /// At slopes of 1 a row is the sum of its coefficients: its slack pays for what dividing them loses.
    #[test]
    fn divided_rows_pay_for_their_rounding() {
        let mut random = fastrand::Rng::with_seed(78);
        for _ in 0..2000 {
            let (a, part) = (2.0 * random.f64() - 1.0, random.f64());
            let mut book = RowBlock::zeros(1, 1);
            let (leaving, staying) = divide(vec![a], &[part], &[1.0], &mut book);
            // What `a − leaving` loses, exactly.
            let negative = staying[0] - a;
            let lost = (a - (staying[0] - negative)) - (leaving[0] + negative);
            assert!(book.slack[0] >= lost.abs(), "{a} {part}: {:e} for {lost:e}", book.slack[0]);
        }
    }
}
