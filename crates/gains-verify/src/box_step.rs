//! One solver step on a box, by default with independent intervals for the stages (paper, section 5).
//!
//! Stage inputs are `x + h Σ aᵢⱼ kⱼ`, the result is `y = x + h Σ bᵢ kᵢ`, the error estimate
//! `δ = ‖h Σ eᵢ kᵢ‖₁ / τ`, each enclosed by interval arithmetic with the `kᵢ` taken as independent. In difference
//! form ([`crate::difference_step`]) the same sums are enclosed a second time, through the differences
//! between consecutive stages, and intersected.

use std::sync::Arc;

use gains_core::interval::{combine, sum_of_magnitudes};
use gains_core::network::Layer;
use gains_core::{Activation, Arithmetic, BoxVec, Interval, Stack};
use gains_ode::{Carrier, Step, Tableau};
use serde::{Deserialize, Serialize};

use crate::difference_step::{Slopes, telescoped};
use crate::limits::{Clock, Reason};

/// What rows need to know about one layer of one stage.
#[derive(Clone, Debug)]
pub enum LayerTrace {
    /// An affine map.
    Affine {
        /// Its outputs that matter to anything after it.
        outputs: Arc<[u32]>,
        /// `|W| m + |b|` at those outputs.
        magnitude: Vec<f64>,
    },
    /// An activation.
    Activation {
        /// Which one.
        activation: Activation,
        /// Neurons whose output is not identically zero.
        alive: Arc<[u32]>,
        /// Their pre-activations.
        bounds: BoxVec,
    },
}

/// One stage of one step.
#[derive(Clone, Debug)]
pub struct StageTrace {
    /// Time of the evaluation.
    pub time: f64,
    /// `|x| + Σ |h aᵢⱼ| |kⱼ|`: what the rounding of the stage input is proportional to.
    pub input_magnitude: Vec<f64>,
    /// The layers of the dynamics.
    pub layers: Vec<LayerTrace>,
    /// Entries of `kᵢ` that are not identically zero.
    pub slope_alive: Arc<[u32]>,
}

/// One step.
#[derive(Clone, Debug, Default)]
pub struct StepTrace {
    /// Step size.
    pub step: f64,
    /// The stages the solution needs.
    pub stages: Vec<StageTrace>,
    /// `|x| + Σ |h bᵢ| |kᵢ|`.
    pub output_magnitude: Vec<f64>,
}

impl StepTrace {
    /// Memory held, roughly.
    pub fn bytes(&self) -> usize {
        let stage = |s: &StageTrace| {
            8 * s.input_magnitude.len()
                + s.layers
                    .iter()
                    .map(|layer| match layer {
                        LayerTrace::Affine { outputs, magnitude } => 4 * outputs.len() + 8 * magnitude.len(),
                        LayerTrace::Activation { bounds, .. } => 16 * bounds.len(),
                    })
                    .sum::<usize>()
        };
        8 * self.output_magnitude.len() + self.stages.iter().map(stage).sum::<usize>()
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

/// Notes an activation for rows, and that its affine map need only feed the neurons that are alive.
pub(crate) fn record_activation(
    layers: &mut Vec<LayerTrace>,
    activation: Activation,
    before: &BoxVec,
    image: &BoxVec,
) {
    let alive: Arc<[u32]> = alive(image).into();
    if let Some(LayerTrace::Affine { outputs, magnitude }) = layers.last_mut() {
        *magnitude = pick(magnitude, &alive);
        *outputs = alive.clone();
    }
    let bounds = BoxVec::new(pick(&before.lower, &alive), pick(&before.upper, &alive));
    layers.push(LayerTrace::Activation { activation, alive, bounds });
}

impl BoxSteps<'_> {
    /// Encloses `g(time, x)`. Every layer is checked: what overflows may look harmless again behind the
    /// next activation.
    fn evaluate(&self, x: &BoxVec, time: f64) -> Result<(BoxVec, Vec<LayerTrace>), Reason> {
        let mut value = x.clone();
        let mut layers: Vec<LayerTrace> = Vec::new();
        for layer in &self.dynamics.layers {
            if !value.is_sane() {
                return Err(Reason::Overflow { time });
            }
            match layer {
                Layer::Affine(map) if self.keep_traces => {
                    let (next, v) = map.apply_box_traced(&value, &value.magnitudes(), time, self.arithmetic);
                    value = next;
                    let outputs = (0..value.len() as u32).collect();
                    layers.push(LayerTrace::Affine { outputs, magnitude: v });
                }
                Layer::Affine(map) => value = map.apply_box(&value, time, self.arithmetic),
                Layer::Activation(activation) => {
                    let image = activation.image_box(&value, self.arithmetic);
                    if self.keep_traces {
                        record_activation(&mut layers, *activation, &value, &image);
                    }
                    value = image;
                }
            }
        }
        if value.is_sane() { Ok((value, layers)) } else { Err(Reason::Overflow { time }) }
    }
}

impl BoxSteps<'_> {
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
            let (slope, layers) = self.evaluate(&input, at)?;
            if self.keep_traces && i < tableau.solution_stages() {
                let slope_alive = alive(&slope).into();
                out.traces.push(StageTrace { time: at, input_magnitude, layers, slope_alive });
            }
            out.slopes.push(slope);
        }
        Ok(out)
    }
}

impl Carrier for BoxSteps<'_> {
    type State = BoxVec;
    type Trace = StepTrace;
    type Error = Reason;

    fn step(
        &mut self,
        state: &BoxVec,
        time: f64,
        step: f64,
        with_error: bool,
    ) -> Result<Step<BoxVec, StepTrace>, Reason> {
        self.clock.check(self.bytes)?;
        let n = state.len();
        let tableau = self.tableau;
        let stages = if with_error { tableau.len() } else { tableau.solution_stages() };
        let Slopes { slopes, differences, traces } = match self.form {
            StepForm::Independent => self.independent_slopes(state, time, step, stages)?,
            StepForm::Difference => self.difference_slopes(state, time, step, stages)?,
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
            trace.output_magnitude = output_magnitude;
        }
        self.bytes += trace.bytes() + 32 * n;
        Ok(Step { state: next, error, trace })
    }

    fn join(&self, states: &[Arc<BoxVec>]) -> BoxVec {
        let mut all = states.first().map(|s| BoxVec::clone(s)).unwrap_or_default();
        for state in states.iter().skip(1) {
            all.join(state);
        }
        all
    }
}
