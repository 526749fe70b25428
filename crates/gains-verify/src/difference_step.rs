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
use gains_core::{Activation, AffineMap, Arithmetic, BoxVec, Interval, Relaxation};

use crate::box_step::{BoxSteps, LayerTrace, Passage, Reach, StageTrace, alive, owed};
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
    /// In difference form, what every layer of the dynamics makes of the last stage's input.
    pub last: Option<Vec<BoxVec>>,
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

/// The smallest interval around both.
fn hull(a: &BoxVec, b: &BoxVec, i: usize) -> Interval {
    Interval::new(a.lower[i].min(b.lower[i]), a.upper[i].max(b.upper[i]))
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
    let rounding = arithmetic.program_short_sum(coefficients.len() + 1);
    let tiny = arithmetic.program_underflow();
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
        reach: &Reach,
        time: f64,
        step: f64,
        count: usize,
    ) -> Result<Slopes, Reason> {
        let tableau = self.tableau;
        let state = &reach.states;
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
                let rounding = self.arithmetic.program_short_sum(tableau.len() + 1);
                let tiny = self.arithmetic.program_underflow();
                widen(&mut d, |e| {
                    let size = input_magnitude[e] + before.input_magnitude[e];
                    if size > 0.0 { rounding * size + 2.0 * tiny } else { 0.0 }
                });
                input.meet(&shifted(&before.values[0], &d));
                let elapsed = (tableau.nodes[i] - tableau.nodes[i - 1]) * step;
                let short = Arithmetic::Real.short_sum(tableau.len() + 1);
                let both = input_magnitude.iter().zip(&before.input_magnitude);
                let input_owed = exact
                    .iter()
                    .zip(both)
                    .map(|(e, (m, b))| short * e + rounding * (m + b) + 2.0 * tiny)
                    .collect();
                entering = Some(Entering { before, difference: d, elapsed, input_owed });
            }
            let known = reach.inner.as_deref().filter(|_| i == 0);
            let (stage, mut value, difference, change) =
                self.stage(input, input_magnitude, at, known.map(Vec::as_slice), entering)?;
            let slope = stage.values.last().cloned().unwrap_or_default();
            if self.keep_traces && i < tableau.solution_stages() {
                value.input_owed = self.sum_owed(&stage.input_magnitude);
                let slope_magnitude = slope.magnitudes();
                out.traces.push(StageTrace { value, change, slope_magnitude });
            }
            out.slopes.push(slope);
            out.differences.extend(difference);
            previous = Some(stage);
        }
        out.last = previous.map(|stage| stage.values.into_iter().skip(1).collect());
        Ok(out)
    }

    /// Encloses every layer of one stage, with the help of the stage before if there is one and of what is
    /// `known` of the values behind the layers. Returns the
    /// stage, the way of rows back through it, how its slope differs from the one before, and the way of
    /// rows back through that difference.
    #[allow(clippy::type_complexity)]
    fn stage(
        &self,
        input: BoxVec,
        input_magnitude: Vec<f64>,
        time: f64,
        known: Option<&[BoxVec]>,
        entering: Option<Entering<'_>>,
    ) -> Result<(Stage, Passage, Option<BoxVec>, Option<Passage>), Reason> {
        let sane = |b: &BoxVec| if b.is_sane() { Ok(()) } else { Err(Reason::Overflow { time }) };
        sane(&input)?;
        let mut stage = Stage { values: vec![input], magnitudes: Vec::new(), input_magnitude };
        let mut value_passage = Passage::default();
        let mut change = entering.map(|e| {
            let passage = Passage { input_owed: e.input_owed, ..Passage::default() };
            Change { before: e.before, d: e.difference, elapsed: e.elapsed, passage }
        });
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
            if let Some(known) = known {
                next.meet(&known[index]);
                if next.lower.iter().zip(&next.upper).any(|(l, u)| l > u) {
                    return Err(Reason::Empty);
                }
            }
            if let Some(change) = &mut change {
                match layer {
                    Layer::Affine(map) => change.affine(map, &magnitude, index, self),
                    Layer::Activation(activation) => {
                        change.activation(*activation, value, &next, index, self)
                    }
                }
                let before = &change.before.values[index + 1];
                next.meet(&shifted(before, &change.d));
                change.d.meet(&apart(&next, before));
                sane(&change.d)?;
            }
            sane(&next)?;
            if self.keep_traces {
                match layer {
                    Layer::Affine(map) => {
                        value_passage.affine(map.bias(time), owed(map, &magnitude, self.arithmetic));
                    }
                    Layer::Activation(activation) => value_passage.activation(*activation, value, &next),
                }
            }
            stage.magnitudes.push(magnitude);
            stage.values.push(next);
        }
        value_passage.alive = alive(&stage.values[self.dynamics.layers.len()]).into();
        let (difference, passage) = match change {
            Some(mut change) => {
                change.passage.alive = alive(&change.d).into();
                (Some(change.d), Some(change.passage))
            }
            None => (None, None),
        };
        Ok((stage, value_passage, difference, passage))
    }
}

/// What the stage before hands to the next one.
struct Entering<'a> {
    before: &'a Stage,
    /// Change of the stage's input.
    difference: BoxVec,
    /// Change of the time.
    elapsed: f64,
    /// What the rounding of the change may cost, for a coefficient of one.
    input_owed: Vec<f64>,
}

/// The change since the stage before, on its way through the layers.
struct Change<'a> {
    before: &'a Stage,
    d: BoxVec,
    elapsed: f64,
    passage: Passage,
}

impl Change<'_> {
    /// Through an affine map; `magnitude` is `|W| m + |b|` in this stage.
    fn affine(&mut self, map: &AffineMap, magnitude: &[f64], index: usize, steps: &BoxSteps<'_>) {
        let (mut moved, size) = map.apply_difference(&self.d, self.elapsed);
        let rounding = steps.arithmetic.program_dot(map.terms());
        let program: Vec<f64> =
            magnitude.iter().zip(&self.before.magnitudes[index]).map(|(a, b)| rounding * (a + b)).collect();
        widen(&mut moved, |i| program[i]);
        self.d = moved;
        if steps.keep_traces {
            let mut owed = owed(map, &size, Arithmetic::Real);
            for (owed, program) in owed.iter_mut().zip(&program) {
                *owed += program;
            }
            self.passage.affine(map.time_shift(self.elapsed).0, owed);
        }
    }

    /// Through an activation whose input is in `value` and whose output in `next`.
    fn activation(
        &mut self,
        activation: Activation,
        value: &BoxVec,
        next: &BoxVec,
        index: usize,
        steps: &BoxSteps<'_>,
    ) {
        let (inputs, outputs) = (&self.before.values[index], &self.before.values[index + 1]);
        let error = |i: usize| {
            let one = |b: &BoxVec| activation.evaluation_error(b.get(i).magnitude(), steps.arithmetic);
            one(next) + one(outputs)
        };
        let entering = self.d.clone();
        self.d = activation_difference(activation, inputs, value, &entering);
        widen(&mut self.d, error);
        self.d.meet(&apart(next, outputs));
        if !steps.keep_traces {
            return;
        }
        let d = &self.d;
        self.passage.nonlinear(d, |alive| {
            let lines = alive
                .iter()
                .map(|&i| {
                    let i = i as usize;
                    let slopes = activation.derivative_range(hull(inputs, value, i));
                    let mut line = Relaxation::of_difference(slopes, entering.get(i), d.get(i));
                    line.lower.intercept = down(line.lower.intercept - error(i));
                    line.upper.intercept = up(line.upper.intercept + error(i));
                    line
                })
                .collect();
            LayerTrace::Change { alive, lines }
        });
    }
}
