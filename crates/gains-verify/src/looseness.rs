//! Where a bound loses: what every relaxation inside the steps of an ODE block costs a row.
//!
//! A certified row is exact for one *relaxed* trajectory: the one that takes, at every activation, the very line
//! the row took, and where trajectories were merged (CURLS) goes every way with the share it has in the row.
//! Following it from the state where the row is smallest gives the input of every neuron at which the bound is
//! attained. There the fall at a neuron is its coefficient times the distance between the activation and the
//! line, and the slope of a lower line is worth its coefficient times that input: the gradient of the bound.

use std::collections::HashMap;

use gains_core::{OdeBlock, Operator, Precision, kernels};
use gains_ode::{Action, Graph, Tableau};

use crate::graph_pull::RowForm;
use crate::ledger::{Entry, Fork, Ledger, Site};
use crate::steps::{Reach, StepTrace};

/// Where a bound that was not enough loses.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Looseness {
    /// The true value of the row at the input where its bound is attained; all losses lead from there down to the bound.
    pub truth: f64,
    /// In the layers in front of the first ODE block, by activation.
    pub front: Vec<f64>,
    /// In the steps of the first ODE block: time and cost, by time.
    pub steps: Vec<(f64, f64)>,
    /// What is left of the distance to the true value at the input where the bound is attained: merged
    /// trajectories, everything behind the first ODE block, and the difference between its relaxed and its true
    /// trajectory.
    pub rest: f64,
}

impl Looseness {
    /// All steps together.
    pub fn in_steps(&self) -> f64 {
        self.steps.iter().map(|(_, cost)| cost).sum()
    }
}

impl std::fmt::Display for Looseness {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let front: Vec<String> = self.front.iter().map(|cost| format!("{cost:.3}")).collect();
        write!(f, "encoder {:.3} (by layer {})", self.front.iter().sum::<f64>(), front.join(", "))?;
        write!(f, ", steps {:.3}", self.in_steps())?;
        if let Some((time, cost)) = self.steps.iter().max_by(|a, b| a.1.total_cmp(&b.1)) {
            write!(f, " (most at time {time:.3}: {cost:.3})")?;
        }
        write!(f, ", rest {:.3}", self.rest)
    }
}

/// What one neuron of the dynamics means to a row.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct NeuronLoss {
    /// What it costs in all steps and stages.
    pub total: f64,
    largest: f64,
    start: Option<f64>,
    /// How far the neuron's input has moved since the initial time where it costs most.
    pub drift: f64,
    /// How much the row would rise with the neuron's lower slope, taken for the same in all steps and stages.
    pub slope_gain: f64,
    /// The sum of the row's positive coefficients behind the neuron, and the part of that which its lower
    /// slopes let through.
    pub weight: (f64, f64),
}

/// What the steps of an ODE block cost a row.
#[derive(Clone, Debug, Default)]
pub(crate) struct StepLosses {
    /// By value of the dynamics' activations and neuron.
    pub by_neuron: HashMap<(usize, usize), NeuronLoss>,
    /// By stage and entry of its slope: how much the row would rise with the part that leaves the chain there, taken for the
    /// same in all steps.
    pub direct_gain: HashMap<(usize, usize), f64>,
    /// By step: time, size and cost.
    pub by_step: Vec<(f64, f64, f64)>,
    /// All steps together.
    pub total: f64,
}

/// One row on its way through the first ODE block.
pub(crate) struct Journey<'a> {
    pub block: &'a OdeBlock,
    pub graph: &'a Graph<Reach, StepTrace>,
    /// What a single row met on its way back.
    pub ledger: &'a Ledger,
    /// How it passed the steps.
    pub form: RowForm,
}

/// A stage of one step.
#[derive(Clone, Copy)]
struct StageShare {
    vertex: usize,
    /// The row of the step's block.
    row: usize,
    index: usize,
    /// The share of the trajectory in the row.
    share: f64,
    /// The time, or how much it has moved on since the stage before.
    time: f64,
    change: bool,
}

/// Some share of a state: of everything that is linear in it, the same share.
#[derive(Clone)]
struct Shared {
    share: f64,
    state: Vec<f64>,
}

impl Shared {
    fn none(length: usize) -> Self {
        Self { share: 0.0, state: vec![0.0; length] }
    }

    fn add(&mut self, factor: f64, other: &Self) {
        self.share += factor * other.share;
        kernels::add_scaled(&mut self.state, factor, &other.state);
    }
}

impl Journey<'_> {
    /// Follows the relaxed trajectories from a state, each with its share in the row.
    pub fn follow(&self, start: &[f64]) -> StepLosses {
        let graph = self.graph;
        let mut losses = StepLosses::default();
        let mut on_edge: Vec<Option<Shared>> = vec![None; graph.edges.len()];
        let start = Shared { share: 1.0, state: start.to_vec() };
        for (index, vertex) in graph.vertices.iter().enumerate() {
            let edges = |rejecting: bool| {
                let kind = move |e: &&usize| (graph.edges[**e].action == Action::Reject) == rejecting;
                vertex.outgoing.iter().filter(kind).copied()
            };
            // The blocks kept at a vertex: rejecting edges first.
            let blocks: Vec<usize> = edges(true).chain(edges(false)).collect();
            let mut arriving = vec![Shared::none(start.state.len()); blocks.len()];
            let mut arrive = |shared: &Shared, shares: Option<&Vec<Vec<f64>>>| {
                let shares = shares.and_then(|by_row| by_row.first()).map_or(&[][..], Vec::as_slice);
                for (block, &share) in arriving.iter_mut().zip(shares).filter(|(_, share)| **share != 0.0) {
                    block.add(share, shared);
                }
            };
            if index == 0 {
                arrive(&start, Some(&self.ledger.start));
            }
            for e in &vertex.incoming {
                if let Some(shared) = &on_edge[*e] {
                    arrive(shared, self.ledger.shares.get(e));
                }
            }
            let rejecting = edges(true).count();
            for (number, (edge, shared)) in blocks.iter().zip(arriving).enumerate() {
                if shared.share == 0.0 {
                    continue;
                }
                on_edge[*edge] = Some(match number.checked_sub(rejecting) {
                    None => shared,
                    Some(row) => {
                        let before = losses.total;
                        let next = self.step(index, row, &shared, &mut losses);
                        losses.by_step.push((vertex.time, vertex.step, losses.total - before));
                        next
                    }
                });
            }
        }
        losses
    }

    fn step(&self, vertex: usize, row: usize, shared: &Shared, losses: &mut StepLosses) -> Shared {
        let tableau = Tableau::of(self.block.solver.method);
        let from = &self.graph.vertices[vertex];
        let (time, h) = (from.time, from.trace.step);
        let (share, state) = (shared.share, &shared.state);
        let mut slopes: Vec<Vec<f64>> = Vec::new();
        let combine = |base: &[f64], weights: &[f64], slopes: &[Vec<f64>]| {
            let mut sum = base.to_vec();
            for (w, slope) in weights.iter().zip(slopes).filter(|(w, _)| **w != 0.0) {
                kernels::add_scaled(&mut sum, h * w, slope);
            }
            sum
        };
        for i in 0..from.trace.stages.len() {
            let stage =
                StageShare { vertex, row, index: i, share, time: time + tableau.nodes[i] * h, change: false };
            let slope = match slopes.last() {
                Some(previous) if self.form == RowForm::Chain => {
                    let earlier = tableau.stages[i - 1];
                    let moved = |(j, a): (usize, &f64)| a - earlier.get(j).copied().unwrap_or(0.0);
                    let weights: Vec<f64> = tableau.stages[i].iter().enumerate().map(moved).collect();
                    let input = combine(&vec![0.0; state.len()], &weights, &slopes);
                    let elapsed = (tableau.nodes[i] - tableau.nodes[i - 1]) * h;
                    let changing = StageShare { time: elapsed, change: true, ..stage };
                    let mut slope = self.pass(&input, changing, losses);
                    kernels::add_scaled(&mut slope, 1.0, previous);
                    let direct = || combine(state, tableau.stages[i], &slopes);
                    self.fork(stage, &mut slope, direct, losses);
                    slope
                }
                _ => self.pass(&combine(state, tableau.stages[i], &slopes), stage, losses),
            };
            slopes.push(slope);
        }
        Shared { share, state: combine(state, tableau.weights, &slopes) }
    }

    /// What a row that was divided at a stage makes of its slope, given what its chain makes of it; `input` is the stage's.
    fn fork(
        &self,
        stage: StageShare,
        slope: &mut [f64],
        input: impl Fn() -> Vec<f64>,
        losses: &mut StepLosses,
    ) {
        let here = |fork: &&Fork| (fork.vertex, fork.stage) == (stage.vertex, stage.index);
        let Some(fork) = self.ledger.forks.iter().find(here) else { return };
        let Some(coefficients) = fork.of_row(stage.row) else { return };
        let direct = self.pass(&input(), stage, losses);
        for (k, &entry) in fork.entries.iter().enumerate() {
            let i = entry as usize;
            let apart = direct[i] - slope[i];
            slope[i] += fork.direct[k] * apart;
            *losses.direct_gain.entry((stage.index, i)).or_default() += coefficients[k] * apart;
        }
    }

    /// Pushes the input of a stage (or its change) through the dynamics, along the lines the row took.
    fn pass(&self, input: &[f64], stage: StageShare, losses: &mut StepLosses) -> Vec<f64> {
        let dynamics = &self.block.dynamics;
        let mut values = vec![input.to_vec()];
        for (value, node) in dynamics.nodes() {
            let next = match &node.operator {
                Operator::Affine(map) => {
                    let shift =
                        if stage.change { map.time_shift(stage.time).0 } else { map.bias(stage.time) };
                    let mut next = map.apply_linear(&values[node.from[0]]);
                    kernels::add_scaled(&mut next, stage.share, &shift);
                    next
                }
                Operator::Curve(activation) => {
                    self.along_lines(value, &values[node.from[0]], stage, losses, |x| activation.value(x))
                }
                // Of everything that is linear, the same share; of products only about that.
                operator => {
                    let scaled = |v: &usize| values[*v].iter().map(|x| x / stage.share).collect();
                    let arguments: Vec<Vec<f64>> = node.from.iter().map(scaled).collect();
                    let arguments: Vec<&[f64]> = arguments.iter().map(Vec::as_slice).collect();
                    let mut next = operator.evaluate(&arguments, 0.0, Precision::Float64);
                    next.iter_mut().for_each(|x| *x *= stage.share);
                    next
                }
            };
            values.push(next);
        }
        values.swap_remove(dynamics.output())
    }

    /// What the lines that the row took at an activation make of its argument; what they cost goes to `losses`.
    fn along_lines(
        &self,
        node: usize,
        before: &[f64],
        stage: StageShare,
        losses: &mut StepLosses,
        activation: impl Fn(f64) -> f64,
    ) -> Vec<f64> {
        let StageShare { vertex, share, .. } = stage;
        let mut value = vec![0.0; before.len()];
        let site = Site { vertex, stage: stage.index, value: node, change: stage.change };
        let here = |e: &&Entry| e.site == site;
        let Some(entry) = self.ledger.entries.iter().find(here) else { return value };
        let Some((coefficients, lines)) = entry.of_row(stage.row) else { return value };
        for (k, &neuron) in entry.neurons.iter().enumerate() {
            let i = neuron as usize;
            let (a, x) = (coefficients[k], before[i]);
            let (slope, intercept) = if a > 0.0 {
                (lines.lower_slope[k], lines.lower_intercept[k])
            } else {
                (lines.upper_slope[k], lines.upper_intercept[k])
            };
            value[i] = slope * x + share * intercept;
            if stage.change || lines.lower_slope[k] == lines.upper_slope[k] {
                continue;
            }
            let loss = (a * (share * activation(x / share) - value[i])).max(0.0);
            losses.total += loss;
            let own = losses.by_neuron.entry((node, i)).or_default();
            let start = *own.start.get_or_insert(x / share);
            own.total += loss;
            if loss > own.largest {
                own.largest = loss;
                own.drift = x / share - start;
            }
            if a > 0.0 {
                own.slope_gain += a * x;
                own.weight.0 += share * a;
                own.weight.1 += share * a * lines.lower_slope[k];
            }
        }
        value
    }
}
