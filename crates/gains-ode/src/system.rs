//! What a solver integrates, and one Runge-Kutta step of it.

use gains_core::program::Evaluation;
use gains_core::{Circuit, Precision};

use crate::solution::heap;
use crate::tableau::Tableau;

/// The right-hand side of `z' = g(t, z)`.
pub trait System {
    /// What an evaluation remembers for [`System::pull_back`].
    type Tape;

    /// `g(t, z)` and the tape of its evaluation.
    fn evaluate(&self, time: f64, state: &[f64]) -> (Vec<f64>, Self::Tape);

    /// `cotangent · ∂g/∂z` at the taped evaluation.
    fn pull_back(&self, tape: &Self::Tape, cotangent: &[f64]) -> Vec<f64>;

    /// The format states are kept in.
    fn precision(&self) -> Precision {
        Precision::Float64
    }

    /// Memory held by a tape, roughly.
    fn tape_bytes(&self, tape: &Self::Tape) -> usize {
        size_of_val(tape)
    }
}

/// A plain function as a system, for test problems.
impl<F: Fn(f64, &[f64]) -> Vec<f64>> System for F {
    type Tape = ();

    fn evaluate(&self, time: f64, state: &[f64]) -> (Vec<f64>, ()) {
        (self(time, state), ())
    }

    /// A plain function has no derivative to offer.
    fn pull_back(&self, (): &(), cotangent: &[f64]) -> Vec<f64> {
        vec![f64::NAN; cotangent.len()]
    }
}

/// The dynamics of a neural ODE in a given precision.
#[derive(Clone, Copy, Debug)]
pub struct NeuralDynamics<'a> {
    /// The right-hand side.
    pub circuit: &'a Circuit,
    /// The format of every intermediate result.
    pub precision: Precision,
}

impl System for NeuralDynamics<'_> {
    type Tape = Evaluation;

    fn evaluate(&self, time: f64, state: &[f64]) -> (Vec<f64>, Evaluation) {
        let mut all = self.circuit.evaluate(&[state], time, self.precision);
        let output = self.circuit.output();
        // The gradient needs what nodes take, so not the output, unless one takes that as well.
        let slope = match output + 1 == all.values.len() {
            true => std::mem::take(&mut all.values[output]),
            false => all.values[output].clone(),
        };
        (slope, all)
    }

    fn pull_back(&self, tape: &Evaluation, cotangent: &[f64]) -> Vec<f64> {
        self.circuit.gradient(tape, cotangent).swap_remove(0)
    }

    fn precision(&self) -> Precision {
        self.precision
    }

    fn tape_bytes(&self, tape: &Evaluation) -> usize {
        size_of_val(tape) + tape.values.iter().map(|v| heap(v.len())).sum::<usize>()
    }
}

/// One evaluated stage: its derivative and how to differentiate it.
pub struct Stage<T> {
    /// `kᵢ`.
    pub slope: Vec<f64>,
    /// Tape of the evaluation.
    pub tape: T,
}

/// One trial step.
pub struct TrialStep<T> {
    /// State at the end of the step.
    pub state: Vec<f64>,
    /// `Σ |err|`, the L1 norm of the error estimate; 0 for methods without one.
    pub error: f64,
    /// The stages.
    pub stages: Vec<Stage<T>>,
}

/// `base + step Σ weight·slope` in float64, rounded once to the system's format.
pub(crate) fn advance<T>(
    base: &[f64],
    step: f64,
    weights: &[f64],
    stages: &[Stage<T>],
    precision: Precision,
) -> Vec<f64> {
    let mut sum = base.to_vec();
    for (&weight, stage) in weights.iter().zip(stages).filter(|(w, _)| **w != 0.0) {
        let factor = step * weight;
        for (s, k) in sum.iter_mut().zip(&stage.slope) {
            *s += factor * k;
        }
    }
    precision.round(&mut sum);
    sum
}

/// The first `count` stages of a step of size `step` from `(time, state)`; `first` is the first of them if it is known
/// already.
pub(crate) fn stages<S: System>(
    system: &S,
    tableau: &Tableau,
    count: usize,
    time: f64,
    step: f64,
    state: &[f64],
    first: Option<Stage<S::Tape>>,
) -> Vec<Stage<S::Tape>> {
    let mut stages = Vec::with_capacity(count);
    stages.extend(first);
    while stages.len() < count {
        let i = stages.len();
        let at = advance(state, step, tableau.stages[i], &stages, system.precision());
        let (slope, tape) = system.evaluate(time + tableau.nodes[i] * step, &at);
        stages.push(Stage { slope, tape });
    }
    stages
}

/// Takes one step of size `step` from `(time, state)`; `first` is the first stage if it is known already
/// (from a rejected attempt, or from the last stage of the step before).
pub fn trial_step<S: System>(
    system: &S,
    tableau: &Tableau,
    time: f64,
    step: f64,
    state: &[f64],
    first: Option<Stage<S::Tape>>,
) -> TrialStep<S::Tape> {
    let precision = system.precision();
    let stages = stages(system, tableau, tableau.len(), time, step, state, first);
    let next = advance(state, step, tableau.weights, &stages, precision);
    let error = if tableau.estimates_error() {
        advance(&vec![0.0; state.len()], step, tableau.error, &stages, precision)
            .iter()
            .map(|e| e.abs())
            .sum()
    } else {
        0.0
    };
    TrialStep { state: next, error: precision.rounded(error), stages }
}

/// The gradient at the start of a step of `cotangent · (state at its end)`, step size held fixed.
pub fn pull_back_step<S: System>(
    system: &S,
    tableau: &Tableau,
    step: f64,
    stages: &[Stage<S::Tape>],
    cotangent: &[f64],
) -> Vec<f64> {
    let mut gradient = cotangent.to_vec();
    let mut slopes: Vec<Vec<f64>> =
        tableau.weights.iter().map(|b| cotangent.iter().map(|g| step * b * g).collect()).collect();
    for i in (0..tableau.solution_stages()).rev() {
        if slopes[i].iter().all(|g| *g == 0.0) {
            continue;
        }
        let at = system.pull_back(&stages[i].tape, &slopes[i]);
        for (g, a) in gradient.iter_mut().zip(&at) {
            *g += a;
        }
        for (j, &weight) in tableau.stages[i].iter().enumerate().filter(|(_, w)| **w != 0.0) {
            for (s, a) in slopes[j].iter_mut().zip(&at) {
                *s += step * weight * a;
            }
        }
    }
    gradient
}
