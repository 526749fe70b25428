//! One solver step on an affine form.
//!
//! Everything flows forward over common symbols: the input's pixels, and one for every relaxation on the
//! way. Stage inputs `x + h Σ aᵢⱼ kⱼ`, the result and the error estimate `h Σ eᵢ kᵢ` are sums of forms, so what the stages
//! have in common cancels as it does for numbers. A neuron that may be on both sides of its kink is
//! relaxed either on its own or as a change from the stage before ([`crate::difference_step`] has the
//! argument), whichever leaves less open. The last stage of a step serves as the stage before the first one of
//! the next: both are evaluated at the same state, so there the change is next to nothing.

use std::sync::Arc;

use gains_core::affine::Matrix;
use gains_core::arithmetic::{TINY, up};
use gains_core::interval::sum_of_magnitudes;
use gains_core::network::Layer;
use gains_core::relaxation::Line;
use gains_core::{Activation, Arithmetic, BoxVec, Interval, LowerSlope, Relaxation, Stack};
use gains_ode::Tableau;

use crate::affine_form::{AffineForm, Passing, Symbols};
use crate::limits::Reason;

/// The forms of one evaluation of a stack of layers: its input and what is behind every layer.
#[derive(Clone, Debug)]
pub struct Evaluation {
    values: Vec<Arc<AffineForm>>,
}

impl Evaluation {
    /// What came out.
    pub fn output(&self) -> &Arc<AffineForm> {
        &self.values[self.values.len() - 1]
    }

    /// Memory held, roughly.
    pub fn bytes(&self) -> usize {
        self.values.iter().map(|v| v.bytes()).sum()
    }

    /// Gives what came out symbols for large remainders.
    fn name_remainders(&mut self, symbols: &mut Symbols) {
        if let Some(output) = self.values.last_mut() {
            Arc::make_mut(output).name_remainders(1e-3, symbols);
        }
    }

    /// Drops all symbols but the given ones.
    fn retain(&mut self, kept: &[u32]) {
        self.values.iter_mut().for_each(|v| Arc::make_mut(v).retain(kept));
    }
}

/// A set of states on its way through the solver.
#[derive(Clone, Debug)]
pub struct Travelling {
    /// Names the set: a step that is rejected leaves the very same states.
    pub origin: u32,
    /// The states.
    pub state: AffineForm,
    /// The dynamics at these states, or close to them, over the same symbols.
    pub near: Option<Arc<Evaluation>>,
}

impl Travelling {
    /// A set of states about which nothing else is known.
    pub fn new(state: AffineForm, symbols: &mut Symbols) -> Self {
        Self { origin: symbols.fresh(), state, near: None }
    }
}

/// The result of one step.
pub struct SymbolicStep {
    /// All states after the step.
    pub accepted: Travelling,
    /// All states before it, which are also those after a rejection.
    pub rejected: Travelling,
    /// All error estimates, if asked for.
    pub error: Option<Interval>,
}

/// How far `line` and `slope·x` may be apart at `x`, rounded down and up.
fn gap(line: Line, slope: f64, x: f64) -> (f64, f64) {
    let value = (line.slope - slope) * x + line.intercept;
    let owed =
        8.0 * f64::EPSILON * ((line.slope.abs() + slope.abs()) * x.abs() + line.intercept.abs()) + TINY;
    (value - owed, value + owed)
}

/// `slope·x + offset ± radius` around everything between two lines over an interval, and `error` more.
fn between(lines: Relaxation, x: Interval, error: f64) -> Passing {
    let slope = 0.5 * lines.lower.slope + 0.5 * lines.upper.slope;
    let low = gap(lines.lower, slope, x.lower).0.min(gap(lines.lower, slope, x.upper).0) - error;
    let high = gap(lines.upper, slope, x.lower).1.max(gap(lines.upper, slope, x.upper).1) + error;
    strip(slope, low, high)
}

/// `slope·x + [low, high]`.
fn strip(slope: f64, low: f64, high: f64) -> Passing {
    let offset = 0.5 * low + 0.5 * high;
    let radius = up(up((high - offset).max(offset - low)));
    Passing { slope, offset, radius, as_change: false }
}

/// One activation on its own: exact where a ReLU is stable; else the strip of smallest area, for ReLU and
/// LeakyReLU below the chord and above the parallel through the origin (convex, with derivatives on both sides
/// of the chord's slope).
fn alone(activation: Activation, x: Interval, arithmetic: Arithmetic) -> Passing {
    let relu = activation == Activation::Relu;
    if relu && x.upper <= 0.0 {
        return Passing::default();
    }
    if relu && x.lower >= 0.0 {
        return Passing { slope: 1.0, ..Passing::default() };
    }
    let lines = Relaxation::new(activation, x, LowerSlope::MinArea, arithmetic);
    match activation {
        Activation::Relu | Activation::LeakyRelu { .. } if x.lower < 0.0 && x.upper > 0.0 => {
            let error = activation.evaluation_error(x.magnitude(), arithmetic);
            strip(lines.upper.slope, -error, lines.upper.intercept)
        }
        _ => between(lines, x, 0.0),
    }
}

/// Passes a form through an activation, as a change from an earlier evaluation where that leaves less open.
fn activate(
    activation: Activation,
    x: &AffineForm,
    earlier: Option<(&AffineForm, &AffineForm)>,
    arithmetic: Arithmetic,
    symbols: &mut Symbols,
) -> AffineForm {
    let image = activation.image_box(&x.bounds, arithmetic);
    let mut passing: Vec<Passing> =
        (0..x.len()).map(|j| alone(activation, x.bounds.get(j), arithmetic)).collect();
    if let Some((input, output)) = earlier {
        let open: Vec<usize> = (0..x.len()).filter(|&j| passing[j].radius > 0.0).collect();
        for (&j, d) in open.iter().zip(x.apart(input, &open)) {
            let (now, then) = (x.bounds.get(j), input.bounds.get(j));
            let hull = Interval::new(now.lower.min(then.lower), now.upper.max(then.upper));
            let error = activation.evaluation_error(image.get(j).magnitude(), arithmetic)
                + activation.evaluation_error(output.bounds.get(j).magnitude(), arithmetic);
            let everything = Interval::new(f64::NEG_INFINITY, f64::INFINITY);
            let lines = Relaxation::of_difference(activation.derivative_range(hull), d, everything);
            let change = between(lines, d, error);
            let vague = x.remainder[j] + input.remainder[j];
            if change.radius + change.slope * vague + output.remainder[j] < passing[j].radius + x.remainder[j]
            {
                passing[j] = Passing { as_change: true, ..change };
            }
        }
    }
    x.pass(&passing, image, earlier, symbols)
}

/// Encloses every layer of a stack, with the help of an evaluation nearby if there is one. `matrices` are
/// its affine layers written out, where that pays.
pub fn evaluate(
    stack: &Stack,
    matrices: Option<&[Option<Matrix>]>,
    input: AffineForm,
    time: f64,
    near: Option<&Evaluation>,
    arithmetic: Arithmetic,
    symbols: &mut Symbols,
) -> Result<Evaluation, Reason> {
    let sane = |form: &AffineForm| if form.is_sane() { Ok(()) } else { Err(Reason::Overflow { time }) };
    sane(&input)?;
    let mut values = vec![Arc::new(input)];
    for (index, layer) in stack.layers.iter().enumerate() {
        let value = &values[index];
        let next = match layer {
            Layer::Affine(map) => {
                let positive =
                    matches!(stack.layers.get(index + 1), Some(Layer::Activation(Activation::Relu)));
                let matrix = matrices.and_then(|m| m[index].as_ref());
                value.affine(map, matrix, time, arithmetic, positive)
            }
            Layer::Activation(activation) => {
                let earlier = near.map(|n| (&*n.values[index], &*n.values[index + 1]));
                activate(*activation, value, earlier, arithmetic, symbols)
            }
        };
        sane(&next)?;
        values.push(Arc::new(next));
    }
    Ok(Evaluation { values })
}

/// Encloses `Σ |errorⱼ|` for a program that sums in any admitted order.
///
/// Entry by entry from the box, and jointly: `Σ |xⱼ| ≥ Σ sⱼ xⱼ` for any signs, and `|x| ≤ w x + β` with the chord
/// over the entry's interval, both linear, so that what entries have in common cancels.
fn joint_sum_of_magnitudes(error: &AffineForm, arithmetic: Arithmetic) -> Interval {
    let plain = sum_of_magnitudes(&error.bounds, arithmetic);
    let n = error.len();
    let signs: Vec<f64> = error.centre.iter().map(|c| if *c == 0.0 { 0.0 } else { c.signum() }).collect();
    let (mut stable, mut chords, mut above) = (vec![0.0; n], vec![0.0; n], 0.0);
    for j in 0..n {
        let Interval { lower: l, upper: u } = error.bounds.get(j);
        if l >= 0.0 || u <= 0.0 {
            stable[j] = signs[j];
            chords[j] = if u > 0.0 { 1.0 } else { -1.0 };
        } else {
            let w = ((u + l) / (u - l)).clamp(-1.0, 1.0);
            chords[j] = w;
            above += up(up((u - w * u).max(-l - w * l))) + 4.0 * f64::EPSILON * (u - l);
        }
    }
    let slack = arithmetic.dot(n);
    let tiny = arithmetic.underflow();
    let low = error.functional(&signs).lower.max(error.functional(&stable).lower);
    let high = (error.functional(&chords).upper + above * (1.0 + slack)) * (1.0 + slack) + tiny;
    Interval::new(plain.lower.max(low * (1.0 - slack) - tiny), plain.upper.min(high))
}

/// Pushes affine forms through solver steps.
pub struct SymbolicSteps<'a> {
    /// The right-hand side.
    pub dynamics: &'a Stack,
    /// Its affine layers written out.
    pub matrices: &'a [Option<Matrix>],
    /// The method.
    pub tableau: &'static Tableau,
    /// τ.
    pub tolerance: f64,
    /// Whose arithmetic is enclosed.
    pub arithmetic: Arithmetic,
    /// Most symbols a state may have.
    pub most_symbols: usize,
}

impl SymbolicSteps<'_> {
    /// All states reachable by one step, and all error estimates `δ` if `with_error`.
    pub fn step(
        &self,
        from: &Travelling,
        time: f64,
        step: f64,
        with_error: bool,
        symbols: &mut Symbols,
    ) -> Result<SymbolicStep, Reason> {
        let tableau = self.tableau;
        let x = &from.state;
        let count = if with_error { tableau.len() } else { tableau.solution_stages() };
        let mut near = from.near.clone();
        let mut first = None;
        let mut slopes: Vec<Arc<AffineForm>> = Vec::with_capacity(count);
        let weigh = |base: Option<&AffineForm>, weights: &[f64], slopes: &[Arc<AffineForm>]| {
            let terms: Vec<(f64, &AffineForm)> =
                weights.iter().map(|w| step * w).zip(slopes.iter().map(|k| &**k)).collect();
            AffineForm::combination(base, &terms, self.arithmetic)
        };
        let mut last_input = None;
        for i in 0..count {
            let mut input = if i == 0 { x.clone() } else { weigh(Some(x), tableau.stages[i], &slopes) };
            // Every stage knows the symbols of all before it, in the same order.
            if let Some(near) = &near {
                input.extend_to(near.output().symbols());
            }
            let at = time + tableau.nodes[i] * step;
            let stage = evaluate(
                self.dynamics,
                Some(self.matrices),
                input,
                at,
                near.as_deref(),
                self.arithmetic,
                symbols,
            )?;
            let mut stage = stage;
            stage.name_remainders(symbols);
            let stage = Arc::new(stage);
            slopes.push(stage.output().clone());
            first.get_or_insert_with(|| stage.clone());
            last_input = Some(stage.values[0].clone());
            near = Some(stage);
        }
        let same = tableau.first_same_as_last() && with_error;
        let mut next = match last_input {
            Some(input) if same => AffineForm::clone(&input),
            _ => weigh(Some(x), tableau.weights, &slopes),
        };
        let overflow = Reason::Overflow { time: time + step };
        if !next.is_sane() {
            return Err(overflow);
        }
        let error = if with_error {
            let norm = joint_sum_of_magnitudes(&weigh(None, tableau.error, &slopes), self.arithmetic);
            let slack = self.arithmetic.short_sum(2);
            let lower = norm.lower / self.tolerance * (1.0 - slack);
            let upper = norm.upper / self.tolerance * (1.0 + slack);
            if !(lower.is_finite() && upper.is_finite()) {
                return Err(overflow);
            }
            Some(Interval::new(lower, upper))
        } else {
            None
        };
        let mut before = x.clone();
        if let Some(first) = &first {
            before.extend_to(first.output().symbols());
        }
        let rejected = Travelling { origin: from.origin, state: before, near: first };
        if let Some(near) = &near {
            next.extend_to(near.output().symbols());
        }
        let mut accepted = Travelling { origin: symbols.fresh(), state: next, near };
        self.tidy(&mut accepted, symbols);
        Ok(SymbolicStep { accepted, rejected, error })
    }
}

impl SymbolicSteps<'_> {
    /// Gives remainders symbols of their own, since a step multiplies what has none by hundreds; keeps the
    /// number of symbols within limits by compressing the lightest.
    fn tidy(&self, states: &mut Travelling, symbols: &mut Symbols) {
        let state = &mut states.state;
        let unnamed = state.remainder.iter().filter(|r| **r > 0.0).count();
        if state.order() + unnamed <= self.most_symbols {
            state.name_remainders(1e-9, symbols);
            return;
        }
        let mut weights = state.weights();
        if let Some(near) = &states.near {
            for (weight, more) in weights.iter_mut().zip(near.output().weights()) {
                *weight += more;
            }
        }
        let mut order: Vec<usize> = (0..weights.len()).collect();
        order.sort_by(|a, b| weights[*b].total_cmp(&weights[*a]));
        order.truncate(self.most_symbols.saturating_sub(2 * unnamed));
        let mut kept: Vec<u32> = order.iter().map(|&s| state.symbols()[s]).collect();
        kept.sort_unstable();
        state.compress(&kept, symbols);
        if let Some(near) = states.near.take() {
            let mut near = Arc::unwrap_or_clone(near);
            near.retain(&kept);
            states.near = Some(Arc::new(near));
        }
    }
}

/// The smallest box around several.
pub fn hull<'a>(boxes: impl IntoIterator<Item = &'a BoxVec>) -> BoxVec {
    let mut boxes = boxes.into_iter();
    let mut all = boxes.next().cloned().unwrap_or_default();
    boxes.for_each(|b| all.join(b));
    all
}
