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
pub struct StageTape<T> {
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
    pub stages: Vec<StageTape<T>>,
}

/// `base + step Σ weight·slope` in float64, rounded once to the system's format.
pub(crate) fn advance<T>(
    base: &[f64],
    step: f64,
    weights: &[f64],
    stages: &[StageTape<T>],
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
    first: Option<StageTape<S::Tape>>,
) -> Vec<StageTape<S::Tape>> {
    let mut stages = Vec::with_capacity(count);
    stages.extend(first);
    while stages.len() < count {
        let i = stages.len();
        let at = advance(state, step, tableau.stages[i], &stages, system.precision());
        let (slope, tape) = system.evaluate(time + tableau.nodes[i] * step, &at);
        stages.push(StageTape { slope, tape });
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
    first: Option<StageTape<S::Tape>>,
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
    stages: &[StageTape<S::Tape>],
    cotangent: &[f64],
) -> Vec<f64> {
    let slopes = weighted(tableau.weights, step, cotangent);
    pull_back_slopes(system, tableau, step, stages, slopes, cotangent.to_vec())
}

/// The gradient at the start of a step of its error estimate `Σ |err|`, step size held fixed.
pub fn pull_back_error<S: System>(
    system: &S,
    tableau: &Tableau,
    step: f64,
    stages: &[StageTape<S::Tape>],
) -> Vec<f64> {
    let entries = stages.first().map_or(0, |stage| stage.slope.len());
    let errors = advance(&vec![0.0; entries], step, tableau.error, stages, Precision::Float64);
    let signs: Vec<f64> = errors.iter().map(|e| if *e == 0.0 { 0.0 } else { e.signum() }).collect();
    let slopes = weighted(tableau.error, step, &signs);
    pull_back_slopes(system, tableau, step, stages, slopes, vec![0.0; entries])
}

/// What `step Σ weight·slope` passes on to the slopes.
fn weighted(weights: &[f64], step: f64, cotangent: &[f64]) -> Vec<Vec<f64>> {
    weights.iter().map(|weight| cotangent.iter().map(|g| step * weight * g).collect()).collect()
}

/// Pulls cotangents of the slopes back to the start of the step, and adds them to `gradient`.
fn pull_back_slopes<S: System>(
    system: &S,
    tableau: &Tableau,
    step: f64,
    stages: &[StageTape<S::Tape>],
    mut slopes: Vec<Vec<f64>>,
    mut gradient: Vec<f64>,
) -> Vec<f64> {
    for i in (0..slopes.len().min(stages.len())).rev() {
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

#[cfg(test)]
mod tests {
    use gains_core::description::RungeKutta;

    use super::*;

    /// `z₀' = sin z₁`, `z₁' = −z₀ z₁`, with its derivative.
    struct Bent;

    impl System for Bent {
        type Tape = Vec<f64>;

        fn evaluate(&self, _: f64, z: &[f64]) -> (Vec<f64>, Vec<f64>) {
            (vec![z[1].sin(), -z[0] * z[1]], z.to_vec())
        }

        fn pull_back(&self, z: &Vec<f64>, g: &[f64]) -> Vec<f64> {
            vec![-g[1] * z[1], g[0] * z[1].cos() - g[1] * z[0]]
        }
    }

    #[test]
    fn the_gradient_of_the_error_estimate_agrees_with_differences() {
        for method in [RungeKutta::Dopri5, RungeKutta::Bosh3, RungeKutta::Fehlberg2] {
            let tableau = Tableau::of(method);
            let (start, step, by) = ([0.7, -1.1], 0.8, 1e-6);
            let error = |z: &[f64]| trial_step(&Bent, tableau, 0.0, step, z, None).error;
            let trial = trial_step(&Bent, tableau, 0.0, step, &start, None);
            let gradient = pull_back_error(&Bent, tableau, step, &trial.stages);
            assert!(trial.error > 1e-6, "{}: nothing to compare", tableau.name);
            for i in 0..2 {
                let moved = |by: f64| {
                    let mut z = start;
                    z[i] += by;
                    error(&z)
                };
                let slope = (moved(by) - moved(-by)) / (2.0 * by);
                assert!((slope - gradient[i]).abs() < 1e-6 * (1.0 + slope.abs()), "{} {i}", tableau.name);
            }
        }
    }
}
