//! The stages of a solver step in difference form: each stage is the one before plus a small difference,
//! and the *difference* is bounded.
//!
//! Independent intervals lose the step: `h Σ eᵢ kᵢ` has `Σ eᵢ = 0`, but a neuron that is unstable is relaxed
//! anew in every stage and nothing cancels. Here, with `rᵢ = kᵢ − kᵢ₋₁` and `vᵢ` the value behind any layer
//! of the dynamics in stage `i`, an enclosure `d` of `vᵢ − vᵢ₋₁` is carried through the layers beside the
//! enclosure of `vᵢ`:
//!
//! * stage inputs: `sᵢ − sᵢ₋₁ = h Σⱼ (aᵢⱼ − aᵢ₋₁ⱼ) kⱼ`, enclosed with the `kⱼ` and again with `k₁` and the `rₘ`;
//! * affine layers: `d ↦ W d + (tᵢ − tᵢ₋₁) u`, the bias drops out;
//! * activations: `f(vᵢ) − f(vᵢ₋₁) = f'(ξ) (vᵢ − vᵢ₋₁)` for some ξ between the two (mean value theorem; for a
//!   kink, some slope between the one-sided ones), so `d ↦ f'(hull)·d`;
//! * and `vᵢ` also lies in the enclosure of `vᵢ₋₁` plus `d`.
//!
//! Every enclosure is intersected with what plain intervals give, so the result is never wider. In float32
//! mode the program rounds in both stages, so each difference is widened by the rounding of both.

use gains_core::arithmetic::{down, down_product, up, up_product};
use gains_core::interval::combine;
use gains_core::network::Layer;
use gains_core::{Activation, Arithmetic, BoxVec, Interval};

use crate::box_step::{BoxSteps, LayerTrace, StageTrace, alive, record_activation};
use crate::limits::Reason;

/// The enclosures of one stage.
struct Stage {
    /// Input and the value behind every layer.
    values: Vec<BoxVec>,
    /// For affine layers, `|W| m + |b|`.
    magnitudes: Vec<Vec<f64>>,
    /// What the rounding of the input is proportional to.
    input_magnitude: Vec<f64>,
}

/// The slopes of all stages and, in difference form, how each differs from the one before.
#[derive(Default)]
pub(crate) struct Slopes {
    /// `kᵢ`.
    pub slopes: Vec<BoxVec>,
    /// `rᵢ = kᵢ − kᵢ₋₁`, from the second stage on; empty if the stages were bounded independently.
    pub differences: Vec<BoxVec>,
    /// For rows.
    pub traces: Vec<StageTrace>,
}

/// Rounding of the analysed program alone, relative to the sum of magnitudes.
fn program(arithmetic: Arithmetic, error: impl Fn(Arithmetic) -> f64) -> f64 {
    match arithmetic {
        Arithmetic::Real => 0.0,
        Arithmetic::Float32 => error(Arithmetic::Float32),
    }
}

fn widen(b: &mut BoxVec, by: impl Fn(usize) -> f64) {
    for i in 0..b.len() {
        let by = by(i);
        if by > 0.0 {
            b.lower[i] = down(b.lower[i] - by);
            b.upper[i] = up(b.upper[i] + by);
        }
    }
}

/// `x + d`.
fn shifted(x: &BoxVec, d: &BoxVec) -> BoxVec {
    BoxVec::new(
        x.lower.iter().zip(&d.lower).map(|(x, d)| down(x + d)).collect(),
        x.upper.iter().zip(&d.upper).map(|(x, d)| up(x + d)).collect(),
    )
}

/// `y − x`.
fn apart(y: &BoxVec, x: &BoxVec) -> BoxVec {
    BoxVec::new(
        y.lower.iter().zip(&x.upper).map(|(y, x)| down(y - x)).collect(),
        y.upper.iter().zip(&x.lower).map(|(y, x)| up(y - x)).collect(),
    )
}

/// `f(after) − f(before)` where `after − before` lies in `d`.
fn activation_difference(activation: Activation, before: &BoxVec, after: &BoxVec, d: &BoxVec) -> BoxVec {
    let mut out = d.clone();
    for i in 0..d.len() {
        let hull = Interval::new(before.lower[i].min(after.lower[i]), before.upper[i].max(after.upper[i]));
        let slope = activation.derivative_range(hull);
        let (low, high) = (d.lower[i], d.upper[i]);
        let product = |factor: f64, x: f64, round: fn(f64) -> f64| match factor {
            0.0 => 0.0,
            1.0 => x,
            _ => round(factor * x),
        };
        out.lower[i] = product(if low >= 0.0 { slope.lower } else { slope.upper }, low, down_product);
        out.upper[i] = product(if high >= 0.0 { slope.upper } else { slope.lower }, high, up_product);
    }
    out
}

/// `base + Σⱼ cⱼ kⱼ` written with the first slope and the differences: `(Σⱼ cⱼ) k₁ + Σ_{m≥2} (Σ_{j≥m} cⱼ) rₘ`.
///
/// The tail sums are rounded; their error is at most a few ulp of `Σ |cⱼ|`, charged on every term. What the
/// program rounds when it forms `base + Σⱼ cⱼ kⱼ` is charged on `magnitude = |base| + Σⱼ |cⱼ||kⱼ|`.
pub(crate) fn telescoped(
    base: Option<&BoxVec>,
    coefficients: &[f64],
    slopes: &[BoxVec],
    differences: &[BoxVec],
    (magnitude, arithmetic): (&[f64], Arithmetic),
) -> BoxVec {
    let n = slopes[0].len();
    let mut tail = 0.0;
    let mut terms: Vec<(f64, &BoxVec)> = Vec::with_capacity(coefficients.len());
    for (m, c) in coefficients.iter().enumerate().rev() {
        tail += c;
        terms.push((tail, if m == 0 { &slopes[0] } else { &differences[m - 1] }));
    }
    let (mut sum, _) = combine(base, &terms, n, Arithmetic::Real);
    let total: f64 = coefficients.iter().map(|c| c.abs()).sum();
    let slack = (4.0 + coefficients.len() as f64) * f64::EPSILON * total;
    let mut size = vec![0.0; n];
    for (_, part) in &terms {
        for ((size, l), u) in size.iter_mut().zip(&part.lower).zip(&part.upper) {
            *size += l.abs().max(u.abs());
        }
    }
    let rounding = program(arithmetic, |a| a.short_sum(coefficients.len() + 1));
    let tiny = program(arithmetic, Arithmetic::underflow);
    widen(&mut sum, |i| {
        let owed = if magnitude[i] > 0.0 { rounding * magnitude[i] + tiny } else { 0.0 };
        slack * size[i] + owed
    });
    sum
}

impl BoxSteps<'_> {
    /// Encloses the slopes of the first `count` stages of a step.
    pub(crate) fn difference_slopes(
        &self,
        state: &BoxVec,
        time: f64,
        step: f64,
        count: usize,
    ) -> Result<Slopes, Reason> {
        let tableau = self.tableau;
        let n = state.len();
        let mut out = Slopes::default();
        let mut previous: Option<Stage> = None;
        for i in 0..count {
            let coefficients: Vec<f64> = tableau.stages[i].iter().map(|a| step * a).collect();
            let terms: Vec<(f64, &BoxVec)> = coefficients.iter().copied().zip(&out.slopes).collect();
            let (mut input, input_magnitude) = combine(Some(state), &terms, n, self.arithmetic);
            let at = time + tableau.nodes[i] * step;
            let mut entering = None;
            if let Some(before) = &previous {
                let earlier = tableau.stages[i - 1];
                let change: Vec<f64> = tableau.stages[i]
                    .iter()
                    .enumerate()
                    .map(|(j, a)| step * (a - earlier.get(j).copied().unwrap_or(0.0)))
                    .collect();
                let direct: Vec<(f64, &BoxVec)> = change.iter().copied().zip(&out.slopes).collect();
                let (mut d, exact) = combine(None, &direct, n, Arithmetic::Real);
                d.meet(&telescoped(None, &change, &out.slopes, &out.differences, (&exact, Arithmetic::Real)));
                let rounding = program(self.arithmetic, |a| a.short_sum(tableau.len() + 1));
                let tiny = program(self.arithmetic, Arithmetic::underflow);
                widen(&mut d, |e| {
                    let size = input_magnitude[e] + before.input_magnitude[e];
                    if size > 0.0 { rounding * size + 2.0 * tiny } else { 0.0 }
                });
                input.meet(&shifted(&before.values[0], &d));
                let elapsed = (tableau.nodes[i] - tableau.nodes[i - 1]) * step;
                entering = Some((before, d, elapsed));
            }
            let (stage, layers, difference) = self.stage(input, input_magnitude, at, entering)?;
            let slope = stage.values.last().cloned().unwrap_or_default();
            if self.keep_traces && i < tableau.solution_stages() {
                let slope_alive = alive(&slope).into();
                let input_magnitude = stage.input_magnitude.clone();
                out.traces.push(StageTrace { time: at, input_magnitude, layers, slope_alive });
            }
            out.slopes.push(slope);
            out.differences.extend(difference);
            previous = Some(stage);
        }
        Ok(out)
    }

    /// Encloses every layer of one stage, with the help of the stage before if there is one.
    fn stage(
        &self,
        input: BoxVec,
        input_magnitude: Vec<f64>,
        time: f64,
        entering: Option<(&Stage, BoxVec, f64)>,
    ) -> Result<(Stage, Vec<LayerTrace>, Option<BoxVec>), Reason> {
        let sane = |b: &BoxVec| if b.is_sane() { Ok(()) } else { Err(Reason::Overflow { time }) };
        sane(&input)?;
        let mut stage = Stage { values: vec![input], magnitudes: Vec::new(), input_magnitude };
        let mut layers = Vec::new();
        let (before, mut difference, elapsed) = match entering {
            Some((before, d, elapsed)) => (Some(before), Some(d), elapsed),
            None => (None, None, 0.0),
        };
        for (index, layer) in self.dynamics.layers.iter().enumerate() {
            let value = &stage.values[index];
            let mut magnitude = Vec::new();
            let mut next = match layer {
                Layer::Affine(map) => {
                    let (next, v) = map.apply_box_traced(value, &value.magnitudes(), time, self.arithmetic);
                    magnitude = v;
                    next
                }
                Layer::Activation(activation) => activation.image_box(value, self.arithmetic),
            };
            if let (Some(before), Some(d)) = (before, &mut difference) {
                *d = match layer {
                    Layer::Affine(map) => {
                        let mut moved = map.apply_difference(d, elapsed);
                        let rounding = program(self.arithmetic, |a| a.dot(map.terms()));
                        widen(&mut moved, |i| rounding * (magnitude[i] + before.magnitudes[index][i]));
                        moved
                    }
                    Layer::Activation(activation) => {
                        let mut moved = activation_difference(*activation, &before.values[index], value, d);
                        widen(&mut moved, |i| {
                            let error = |b: &BoxVec| {
                                activation.evaluation_error(b.get(i).magnitude(), self.arithmetic)
                            };
                            error(&next) + error(&before.values[index + 1])
                        });
                        moved
                    }
                };
                next.meet(&shifted(&before.values[index + 1], d));
                d.meet(&apart(&next, &before.values[index + 1]));
                sane(d)?;
            }
            sane(&next)?;
            if self.keep_traces {
                match layer {
                    Layer::Affine(_) => {
                        let outputs = (0..next.len() as u32).collect();
                        layers.push(LayerTrace::Affine { outputs, magnitude: magnitude.clone() });
                    }
                    Layer::Activation(activation) => {
                        record_activation(&mut layers, *activation, value, &next)
                    }
                }
            }
            stage.magnitudes.push(magnitude);
            stage.values.push(next);
        }
        Ok((stage, layers, difference))
    }
}
