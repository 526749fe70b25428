//! One solver step on a box, with independent intervals for the stages (paper, section 5).
//!
//! Stage inputs are `x + h Σ aᵢⱼ kⱼ`, the result is `y = x + h Σ bᵢ kᵢ`, the error estimate
//! `δ = ‖h Σ eᵢ kᵢ‖₁ / τ`, each enclosed by interval arithmetic with the `kᵢ` taken as independent.

use std::sync::Arc;

use gains_core::interval::{combine, sum_of_magnitudes};
use gains_core::network::Layer;
use gains_core::{Activation, Arithmetic, BoxVec, Interval, Stack};
use gains_ode::{Carrier, Step, Tableau};

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
    /// Whether rows will be pulled back later.
    pub keep_traces: bool,
    /// Time and memory.
    pub clock: Clock<'a>,
    /// Memory held by the traces so far.
    pub bytes: usize,
}

fn alive(b: &BoxVec) -> Vec<u32> {
    (0..b.len()).filter(|&i| b.lower[i] != 0.0 || b.upper[i] != 0.0).map(|i| i as u32).collect()
}

fn pick(values: &[f64], at: &[u32]) -> Vec<f64> {
    at.iter().map(|&i| values[i as usize]).collect()
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
                        let alive: Arc<[u32]> = alive(&image).into();
                        if let Some(LayerTrace::Affine { outputs, magnitude }) = layers.last_mut() {
                            *magnitude = pick(magnitude, &alive);
                            *outputs = alive.clone();
                        }
                        let bounds = BoxVec::new(pick(&value.lower, &alive), pick(&value.upper, &alive));
                        layers.push(LayerTrace::Activation { activation: *activation, alive, bounds });
                    }
                    value = image;
                }
            }
        }
        if value.is_sane() { Ok((value, layers)) } else { Err(Reason::Overflow { time }) }
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
        let mut slopes: Vec<BoxVec> = Vec::with_capacity(stages);
        let mut trace = StepTrace { step, ..StepTrace::default() };
        for i in 0..stages {
            let terms: Vec<(f64, &BoxVec)> =
                tableau.stages[i].iter().map(|a| step * a).zip(&slopes).collect();
            let (input, input_magnitude) = combine(Some(state), &terms, n, self.arithmetic);
            let at = time + tableau.nodes[i] * step;
            let (slope, layers) = self.evaluate(&input, at)?;
            if self.keep_traces && i < tableau.solution_stages() {
                let slope_alive = alive(&slope).into();
                trace.stages.push(StageTrace { time: at, input_magnitude, layers, slope_alive });
            }
            slopes.push(slope);
        }
        let weigh = |weights: &[f64]| -> Vec<(f64, &BoxVec)> {
            weights.iter().map(|w| step * w).zip(&slopes).collect()
        };
        let (next, output_magnitude) = combine(Some(state), &weigh(tableau.weights), n, self.arithmetic);
        if !next.is_sane() {
            return Err(Reason::Overflow { time: time + step });
        }
        let error = if with_error {
            let (error, _) = combine(None, &weigh(tableau.error), n, self.arithmetic);
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
