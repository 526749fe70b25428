//! Boxes as what travels through the trajectory graph.

use std::cell::RefCell;
use std::sync::Arc;

use gains_core::interval::{combine, sum_of_magnitudes};
use gains_core::{Arithmetic, BoxVec, Circuit, Interval};
use gains_ode::{Arrived, Carrier, Step, Tableau};

use super::sums::telescoped;
use super::{Reach, Room, Slopes, StepForm, StepTrace};
use crate::limits::{Clock, Reason};

/// Pushes boxes through solver steps.
pub struct BoxSteps<'a> {
    /// The right-hand side.
    pub dynamics: &'a Circuit,
    /// The method.
    pub tableau: &'static Tableau,
    /// τ.
    pub tolerance: f64,
    /// Whose arithmetic is enclosed.
    pub arithmetic: Arithmetic,
    /// How the stages are bounded.
    pub form: StepForm,
    /// Whether rows will be pulled back later.
    pub keep_traces: bool,
    /// Room around the states at vertices, the end included, and around error estimates.
    pub room: Room,
    /// Time and memory.
    pub clock: Clock<'a>,
    /// Memory held by the traces so far.
    pub bytes: usize,
    /// For every node of the dynamics, whether an entry was anything but zero in some stage; nothing if nobody asks.
    pub nonzero: RefCell<Vec<Vec<bool>>>,
}

impl BoxSteps<'_> {
    /// Takes note of what a node makes in some stage.
    pub(super) fn note(&self, node: usize, value: &BoxVec) {
        if let Some(nonzero) = self.nonzero.borrow_mut().get_mut(node) {
            for ((nonzero, l), u) in nonzero.iter_mut().zip(&value.lower).zip(&value.upper) {
                *nonzero |= *l != 0.0 || *u != 0.0;
            }
        }
    }

    /// What the rounding of a Runge-Kutta sum may cost a row: of the rows' own sums over the stages, and of
    /// the program's, which may underflow unless everything is exactly zero.
    pub(super) fn sum_owed(&self, magnitude: &[f64]) -> Vec<f64> {
        let short = self.arithmetic.short_sum(self.tableau.len() + 1);
        let tiny = self.arithmetic.program_underflow();
        magnitude.iter().map(|&m| if m == 0.0 { 0.0 } else { short * m + tiny }).collect()
    }
}

impl Carrier for BoxSteps<'_> {
    type State = Reach;
    type Record = Reach;
    type Trace = StepTrace;
    type Error = Reason;

    fn step(
        &mut self,
        reach: &Reach,
        time: f64,
        step: f64,
        with_error: bool,
    ) -> Result<Step<Reach, StepTrace>, Reason> {
        self.clock.check(self.bytes)?;
        let state = &reach.states;
        let n = state.len();
        let tableau = self.tableau;
        let stages = if with_error { tableau.len() } else { tableau.solution_stages() };
        let Slopes { slopes, differences, traces, last } = match self.form {
            StepForm::Independent => self.independent_slopes(state, time, step, stages)?,
            StepForm::Difference => self.difference_slopes(reach, time, step, stages)?,
        };
        // `base + h Σ w k`, with the differences between the slopes where they are known.
        let weigh = |base: Option<&BoxVec>, weights: &[f64]| {
            let coefficients: Vec<f64> = weights.iter().map(|w| step * w).take(stages).collect();
            let terms: Vec<(f64, &BoxVec)> = coefficients.iter().copied().zip(&slopes).collect();
            let (mut sum, magnitude) = combine(base, &terms, n, self.arithmetic);
            if differences.len() + 1 == stages {
                let rounding = (&magnitude[..], self.arithmetic);
                sum.meet(&telescoped(base, &coefficients, &slopes, &differences, rounding));
            }
            (sum, magnitude)
        };
        let mut trace = StepTrace { step, stages: traces, ..StepTrace::default() };
        let (next, output_magnitude) = weigh(Some(state), tableau.weights);
        if !next.is_sane() {
            return Err(Reason::Overflow { time: time + step });
        }
        let error = if with_error {
            let (error, _) = weigh(None, tableau.error);
            let norm = sum_of_magnitudes(&error, self.arithmetic);
            let slack = self.arithmetic.short_sum(2);
            let lower = norm.lower / self.tolerance * (1.0 - slack);
            let upper = norm.upper / self.tolerance * (1.0 + slack);
            if !(lower.is_finite() && upper.is_finite()) {
                return Err(Reason::Overflow { time: time + step });
            }
            Some(self.room.around_error(Interval::new(lower, upper)))
        } else {
            None
        };
        if self.keep_traces {
            trace.output_owed = self.sum_owed(&output_magnitude);
        }
        // The exact solver evaluates the next step's first stage where this one's last stage was. A program
        // may round the two places differently.
        let carries = with_error && tableau.first_same_as_last() && self.arithmetic == Arithmetic::Real;
        let inner = last.filter(|_| carries).map(Arc::new);
        let held = inner.as_ref().map_or(0, |inner| inner.iter().map(|b| 16 * b.len()).sum());
        self.bytes += trace.bytes() + 32 * n + held;
        // A program that evaluates the first stage once more may round differently.
        let rejected = match (self.arithmetic, &reach.inner) {
            (Arithmetic::Real, _) | (_, None) => None,
            (Arithmetic::Float32, Some(_)) => Some(reach.states.clone().into()),
        };
        Ok(Step { state: Reach { states: next, inner }, rejected, error, trace })
    }

    fn record(&self, reach: &Arc<Reach>) -> Arc<Reach> {
        reach.clone()
    }

    fn meet(&mut self, arrivals: Vec<Arrived<Reach>>) -> Vec<Arrived<Reach>> {
        let mut joined = Arrived::all_in_one(arrivals, |reaches| self.join(reaches));
        if self.room == Room::ForClaims {
            for arrived in &mut joined {
                let reach = Arc::make_mut(&mut arrived.state);
                reach.states = self.room.around(&reach.states);
            }
        }
        joined
    }

    fn hull(&self, ends: &[Arc<Reach>]) -> Reach {
        let mut all = self.join(ends);
        if self.room == Room::ForClaims {
            all.states = self.room.around(&all.states);
        }
        all
    }
}

impl BoxSteps<'_> {
    /// The box around several.
    pub fn join(&self, reaches: &[Arc<Reach>]) -> Reach {
        let mut all = reaches.first().map(|r| r.states.clone()).unwrap_or_default();
        let mut inner = reaches.first().and_then(|r| r.inner.as_deref().cloned());
        for reach in reaches.iter().skip(1) {
            all.join(&reach.states);
            inner = match (inner, &reach.inner) {
                (Some(mut mine), Some(theirs)) => {
                    mine.iter_mut().zip(theirs.iter()).for_each(|(mine, theirs)| mine.join(theirs));
                    Some(mine)
                }
                _ => None,
            };
        }
        Reach { states: all, inner: inner.map(Arc::new) }
    }
}
