//! One solver step on a box, by default with independent intervals for the stages (paper, section 5).
//!
//! Stage inputs are `x + h Σ aᵢⱼ kⱼ`, the result is `y = x + h Σ bᵢ kᵢ`, the error estimate
//! `δ = ‖h Σ eᵢ kᵢ‖₁ / τ`, each enclosed by interval arithmetic with the `kᵢ` taken as independent. In difference
//! form ([`crate::difference_step`]) the same sums are enclosed a second time, through the differences
//! between consecutive stages, and intersected.

use std::ops::Deref;
use std::sync::Arc;

use gains_core::arithmetic::analysis_error;
use gains_core::interval::{combine, sum_of_magnitudes};
use gains_core::network::Layer;
use gains_core::relaxation::Lines;
use gains_core::{Activation, AffineMap, Arithmetic, BoxVec, Interval, OdeBlock, Stack};
use gains_ode::{Arrived, Carrier, Step, Tableau};
use serde::{Deserialize, Serialize};

use crate::difference_step::{Slopes, telescoped};
use crate::limits::{Clock, Reason};

/// What rows need to know about one layer on their way back through the dynamics.
#[derive(Clone, Debug)]
pub enum LayerTrace {
    /// An affine map.
    Affine {
        /// Its outputs that matter to anything after it.
        outputs: Arc<[u32]>,
        /// What it adds at those outputs.
        bias: Vec<f64>,
        /// What rounding may cost there, for a coefficient of one.
        owed: Vec<f64>,
    },
    /// An activation of known pre-activations.
    Activation {
        /// Which one.
        activation: Activation,
        /// Neurons whose output is not identically zero.
        alive: Arc<[u32]>,
        /// Their pre-activations.
        bounds: BoxVec,
    },
    /// The change of an activation's output between two stages, as lines in the change of its input.
    Change {
        /// Neurons whose output may change.
        alive: Arc<[u32]>,
        /// The lines.
        lines: Lines,
    },
}

impl LayerTrace {
    /// The neurons rows have coefficients on behind this layer.
    pub fn neurons(&self) -> &Arc<[u32]> {
        match self {
            Self::Affine { outputs, .. } => outputs,
            Self::Activation { alive, .. } | Self::Change { alive, .. } => alive,
        }
    }

    fn bytes(&self) -> usize {
        let per_neuron = match self {
            Self::Affine { .. } | Self::Activation { .. } => 16,
            Self::Change { .. } => 40,
        };
        (per_neuron + 4) * self.neurons().len()
    }
}

/// The way of rows back through the dynamics, for the value of a stage or for its change.
#[derive(Clone, Debug, Default)]
pub struct Passage {
    /// The layers of the dynamics.
    pub layers: Vec<LayerTrace>,
    /// Entries of the result that are not identically zero.
    pub alive: Arc<[u32]>,
    /// What the rounding of the sum that enters the dynamics may cost, for a coefficient of one.
    pub input_owed: Vec<f64>,
}

impl Passage {
    fn bytes(&self) -> usize {
        8 * self.input_owed.len() + self.layers.iter().map(LayerTrace::bytes).sum::<usize>()
    }

    /// Notes an affine map.
    pub(crate) fn affine(&mut self, bias: Vec<f64>, owed: Vec<f64>) {
        let outputs = (0..bias.len() as u32).collect();
        self.layers.push(LayerTrace::Affine { outputs, bias, owed });
    }

    /// Notes an activation or its change; an affine map in front of it need only feed the neurons that
    /// are alive.
    pub(crate) fn nonlinear(&mut self, image: &BoxVec, note: impl FnOnce(Arc<[u32]>) -> LayerTrace) {
        let alive: Arc<[u32]> = alive(image).into();
        if let Some(LayerTrace::Affine { outputs, bias, owed }) = self.layers.last_mut() {
            *bias = pick(bias, &alive);
            *owed = pick(owed, &alive);
            *outputs = alive.clone();
        }
        self.layers.push(note(alive));
    }

    /// Notes an activation.
    pub(crate) fn activation(&mut self, activation: Activation, before: &BoxVec, image: &BoxVec) {
        self.nonlinear(image, |alive| {
            let bounds = BoxVec::new(pick(&before.lower, &alive), pick(&before.upper, &alive));
            LayerTrace::Activation { activation, alive, bounds }
        });
    }
}

/// What rounding costs a row at the outputs of an affine map: `magnitude` is `|W| m + |b|` there. The
/// product of the row with the weights sums over the outputs, so they count as terms of the analysis.
pub(crate) fn owed(map: &AffineMap, magnitude: &[f64], arithmetic: Arithmetic) -> Vec<f64> {
    let gamma = analysis_error(map.terms() + magnitude.len()) + arithmetic.program_dot(map.terms());
    magnitude.iter().map(|v| gamma * v).collect()
}

/// One stage of one step.
#[derive(Clone, Debug)]
pub struct StageTrace {
    /// From the slope back to the stage's input.
    pub value: Passage,
    /// From the change of the slope since the stage before back to the change of the input; only in
    /// difference form, from the second stage on.
    pub change: Option<Passage>,
    /// Largest absolute slopes.
    pub slope_magnitude: Vec<f64>,
}

/// One step.
#[derive(Clone, Debug, Default)]
pub struct StepTrace {
    /// Step size.
    pub step: f64,
    /// The stages the solution needs.
    pub stages: Vec<StageTrace>,
    /// What the rounding of `x + Σ h bᵢ kᵢ` may cost, for a coefficient of one.
    pub output_owed: Vec<f64>,
}

impl StepTrace {
    /// Memory held, roughly.
    pub fn bytes(&self) -> usize {
        let stage = |s: &StageTrace| {
            s.value.bytes() + s.change.as_ref().map_or(0, Passage::bytes) + 8 * s.slope_magnitude.len()
        };
        8 * self.output_owed.len() + self.stages.iter().map(stage).sum::<usize>()
    }
}

/// The states that can be at a vertex, and what is known of the dynamics there.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Reach {
    /// The states.
    pub states: BoxVec,
    /// Enclosures of what each layer of the dynamics makes of those states at that time, where more is known
    /// than the box tells: the last stage of the step that led here was taken at the same place, or some
    /// values are excluded by assumption.
    pub inner: Option<Arc<Vec<BoxVec>>>,
}

/// Which side of a threshold a value is on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Side {
    /// At most the threshold.
    Below,
    /// At least the threshold.
    Above,
}

/// Something assumed of the start of an ODE block: the input of an activation of the dynamics, at the initial
/// state and time, is on one side of a threshold.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Assumption {
    /// The activation, as a layer of the dynamics; not the first.
    pub layer: usize,
    /// Which of its neurons.
    pub neuron: usize,
    /// The threshold.
    pub at: f64,
    /// The side.
    pub side: Side,
}

impl Reach {
    /// The states of an ODE block's input for which all assumptions hold.
    pub fn assuming(states: BoxVec, ode: &OdeBlock, assumed: &[Assumption]) -> Self {
        if assumed.is_empty() {
            return Self::from(states);
        }
        let mut length = states.len();
        let mut inner: Vec<BoxVec> = Vec::new();
        for layer in &ode.dynamics.layers {
            if let Layer::Affine(map) = layer {
                length = map.output().len();
            }
            inner.push(BoxVec::new(vec![f64::NEG_INFINITY; length], vec![f64::INFINITY; length]));
        }
        for a in assumed {
            let Some(values) = a.layer.checked_sub(1).and_then(|before| inner.get_mut(before)) else {
                continue;
            };
            match a.side {
                Side::Below => values.upper[a.neuron] = values.upper[a.neuron].min(a.at),
                Side::Above => values.lower[a.neuron] = values.lower[a.neuron].max(a.at),
            }
        }
        Self { states, inner: Some(Arc::new(inner)) }
    }
}

impl From<BoxVec> for Reach {
    fn from(states: BoxVec) -> Self {
        Self { states, inner: None }
    }
}

impl Deref for Reach {
    type Target = BoxVec;

    fn deref(&self) -> &BoxVec {
        &self.states
    }
}

/// How the stages of a step are bounded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum StepForm {
    /// Each on its own, as in the paper.
    #[default]
    Independent,
    /// Each as the one before plus a difference: two to three times the work, far tighter.
    Difference,
}

/// Pushes boxes through solver steps.
pub struct BoxSteps<'a> {
    /// The right-hand side.
    pub dynamics: &'a Stack,
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
    /// Time and memory.
    pub clock: Clock<'a>,
    /// Memory held by the traces so far.
    pub bytes: usize,
}

pub(crate) fn alive(b: &BoxVec) -> Vec<u32> {
    (0..b.len()).filter(|&i| b.lower[i] != 0.0 || b.upper[i] != 0.0).map(|i| i as u32).collect()
}

fn pick(values: &[f64], at: &[u32]) -> Vec<f64> {
    at.iter().map(|&i| values[i as usize]).collect()
}

impl BoxSteps<'_> {
    /// Encloses `g(time, x)`. Every layer is checked: what overflows may look harmless again behind the
    /// next activation.
    fn evaluate(&self, x: &BoxVec, time: f64) -> Result<(BoxVec, Passage), Reason> {
        let mut value = x.clone();
        let mut passage = Passage::default();
        for layer in &self.dynamics.layers {
            if !value.is_sane() {
                return Err(Reason::Overflow { time });
            }
            match layer {
                Layer::Affine(map) if self.keep_traces => {
                    let (next, v) = map.apply_box_traced(&value, &value.magnitudes(), time, self.arithmetic);
                    value = next;
                    passage.affine(map.bias(time), owed(map, &v, self.arithmetic));
                }
                Layer::Affine(map) => value = map.apply_box(&value, time, self.arithmetic),
                Layer::Activation(activation) => {
                    let image = activation.image_box(&value, self.arithmetic);
                    if self.keep_traces {
                        passage.activation(*activation, &value, &image);
                    }
                    value = image;
                }
            }
        }
        passage.alive = alive(&value).into();
        if value.is_sane() { Ok((value, passage)) } else { Err(Reason::Overflow { time }) }
    }
}

impl BoxSteps<'_> {
    /// What the rounding of a Runge-Kutta sum may cost a row: of the rows' own sums over the stages, and of
    /// the program's.
    pub(crate) fn sum_owed(&self, magnitude: &[f64]) -> Vec<f64> {
        let short = self.arithmetic.short_sum(self.tableau.len() + 1);
        magnitude.iter().map(|m| short * m).collect()
    }

    /// Encloses the slopes of the first `count` stages of a step, each on its own.
    fn independent_slopes(
        &self,
        state: &BoxVec,
        time: f64,
        step: f64,
        count: usize,
    ) -> Result<Slopes, Reason> {
        let tableau = self.tableau;
        let mut out = Slopes::default();
        for i in 0..count {
            let terms: Vec<(f64, &BoxVec)> =
                tableau.stages[i].iter().map(|a| step * a).zip(&out.slopes).collect();
            let (input, input_magnitude) = combine(Some(state), &terms, state.len(), self.arithmetic);
            let at = time + tableau.nodes[i] * step;
            let (slope, mut value) = self.evaluate(&input, at)?;
            if self.keep_traces && i < tableau.solution_stages() {
                value.input_owed = self.sum_owed(&input_magnitude);
                let slope_magnitude = slope.magnitudes();
                out.traces.push(StageTrace { value, change: None, slope_magnitude });
            }
            out.slopes.push(slope);
        }
        Ok(out)
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
            Some(Interval::new(lower, upper))
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
        Arrived::all_in_one(arrivals, |reaches| self.join(reaches))
    }

    fn hull(&self, ends: &[Arc<Reach>]) -> Reach {
        self.join(ends)
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
