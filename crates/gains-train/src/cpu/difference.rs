//! One Runge-Kutta step of a tile of boxes in difference form: each stage is the one before plus a bounded
//! difference, and every box is the intersection of the ordinary one with that sum (`docs/difference-form.md`).
//!
//! Notation of a stage: s its input; p before and a behind a layer's ReLU; Δs, d and ρ the differences of s, p and a
//! to the stage before; k = a and r = ρ of the last layer.

use super::kernel::{CENTRE, RADIUS};
use super::meet::{self, Pair};
use super::real::{Real, flag};
use super::step::{NEGATIVE, POSITIVE, Step, measure};
use super::tile::resize;

/// A sum of slopes that is smaller than this is a rounded 0.
const ROUNDING: f64 = 1e-12;

/// What one evaluation of a layer leaves for its gradient.
#[derive(Clone, Debug, Default)]
pub(crate) struct Evaluation<F> {
    /// Centres and radii the layer was applied to.
    pub input: Pair<F>,
    /// The same of the difference (not in the first stage).
    pub difference: Pair<F>,
    pub bits: Vec<u16>,
}

/// What a step leaves for its gradient.
#[derive(Clone, Debug, Default)]
pub(crate) struct DifferenceMemory<F> {
    /// `[stage][layer]`.
    pub evaluations: Vec<Evaluation<F>>,
    /// By stage: where the ends of s and Δs come from.
    pub inputs: Vec<Vec<u8>>,
    pub end: Vec<u8>,
    pub error: Vec<u8>,
    pub signs: Vec<u8>,
}

/// Room to work in, reused from tile to tile.
#[derive(Debug, Default)]
pub(crate) struct DifferenceScratch<F> {
    pub columns: Vec<F>,
    /// kᵢ by stage, as ends.
    slopes: Vec<Pair<F>>,
    /// rᵢ by stage, as ends.
    changes: Vec<Pair<F>>,
    /// p and a of the last stage, by layer.
    before: Vec<Pair<F>>,
    after: Vec<Pair<F>>,
    state: Pair<F>,
    ordinary: Pair<F>,
    other: Pair<F>,
    shift: Pair<F>,
    p: Pair<F>,
    d: Pair<F>,
}

pub(crate) fn reserve<F: Real>(pair: &mut Pair<F>, length: usize) {
    resize(&mut pair[0], length);
    resize(&mut pair[1], length);
}

/// `h Σ wⱼ kⱼ` written twice: with the slopes, and with the first slope and the changes from stage to stage.
pub(crate) struct TwoForms<F> {
    pub slopes: Vec<(usize, F)>,
    /// Coefficient of the first slope.
    pub first: F,
    pub changes: Vec<(usize, F)>,
}

impl<F: Real> TwoForms<F> {
    pub fn new(step: f64, weights: &[f64]) -> Self {
        let mut tails = weights.to_vec();
        for j in (1..tails.len()).rev() {
            tails[j - 1] += tails[j];
        }
        for tail in &mut tails {
            if tail.abs() < ROUNDING {
                *tail = 0.0;
            }
        }
        let scaled = |weights: &[f64], skip: usize| {
            let kept = weights.iter().enumerate().skip(skip).filter(|(_, w)| **w != 0.0);
            kept.map(|(j, w)| (j, F::of(step * w))).collect()
        };
        Self {
            slopes: scaled(weights, 0),
            first: F::of(step * tails.first().copied().unwrap_or(0.0)),
            changes: scaled(&tails, 1),
        }
    }

    /// The weights of Δs: those of a stage less those of the stage before.
    pub fn of_stage(step: f64, rows: &[&[f64]], stage: usize) -> Self {
        let mut weights = rows[stage].to_vec();
        for (w, last) in weights.iter_mut().zip(rows[stage - 1]) {
            *w -= last;
        }
        Self::new(step, &weights)
    }

    /// Both enclosures, on top of `base`.
    fn enclose(
        &self,
        base: Option<&Pair<F>>,
        slopes: &[Pair<F>],
        changes: &[Pair<F>],
        plain: &mut Pair<F>,
        chain: &mut Pair<F>,
    ) {
        let terms: Vec<_> = self.slopes.iter().map(|(j, w)| (*w, &slopes[*j])).collect();
        sum(base, &terms, plain);
        let first = (self.first != F::ZERO).then(|| (self.first, &slopes[0]));
        let terms: Vec<_> =
            first.into_iter().chain(self.changes.iter().map(|(j, w)| (*w, &changes[*j]))).collect();
        sum(base, &terms, chain);
    }
}

/// `base + Σ weight·box`: a negative weight swaps the ends.
fn sum<F: Real>(base: Option<&Pair<F>>, terms: &[(F, &Pair<F>)], out: &mut Pair<F>) {
    for end in 0..2 {
        let terms: Vec<_> =
            terms.iter().map(|(w, pair)| (*w, &pair[if *w < F::ZERO { 1 - end } else { end }][..])).collect();
        if base.is_none() {
            out[end].fill(F::ZERO);
        }
        super::entries::combine(&mut out[end], base.map(|base| &base[end][..]), &terms);
    }
}

/// Takes the step from `x` (centres and radii of a tile) to `end` and writes four statistics for each sample.
pub(crate) fn forward<F: Real>(
    step: &Step<'_, F>,
    samples: usize,
    x: &[Vec<F>],
    memory: &mut DifferenceMemory<F>,
    scratch: &mut DifferenceScratch<F>,
    end: &mut [Vec<F>],
    statistics: &mut [F],
) {
    let (stages, layers, entries) = (step.stages(), step.kernels.len(), x[0].len());
    let s = scratch;
    memory.evaluations.resize_with(stages * layers, Evaluation::default);
    memory.inputs.resize_with(stages, Vec::new);
    s.slopes.resize_with(stages, Pair::default);
    s.changes.resize_with(stages, Pair::default);
    s.before.resize_with(layers, Pair::default);
    s.after.resize_with(layers, Pair::default);
    for pair in [&mut s.ordinary, &mut s.other, &mut s.shift, &mut s.state] {
        reserve(pair, entries);
    }
    let mut start = Pair::default();
    reserve(&mut start, entries);
    for i in 0..entries {
        (start[0][i], start[1][i]) = (x[CENTRE][i] - x[RADIUS][i], x[CENTRE][i] + x[RADIUS][i]);
    }
    for stage in 0..stages {
        let evaluation = &mut memory.evaluations[stage * layers];
        reserve(&mut evaluation.input, entries);
        if stage == 0 {
            evaluation.input.clone_from_slice(x);
            s.state.clone_from(&start);
        } else {
            let terms: Vec<_> = (step.tableau.stages[stage].iter().zip(&s.slopes))
                .filter(|(a, _)| **a != 0.0)
                .map(|(a, slope)| (F::of(step.step * a), slope))
                .collect();
            sum(Some(&start), &terms, &mut s.ordinary);
            let forms = TwoForms::of_stage(step.step, step.tableau.stages, stage);
            forms.enclose(None, &s.slopes, &s.changes, &mut s.shift, &mut s.other);
            let bits = &mut memory.inputs[stage];
            resize(bits, entries);
            meet::stage_input(&s.ordinary, &mut s.state, &mut s.shift, &s.other, bits);
            meet::centres(&s.state, &mut evaluation.input);
            reserve(&mut evaluation.difference, entries);
            meet::centres(&s.shift, &mut evaluation.difference);
        }
        evaluate(step, samples, stage, memory, s);
    }
    let forms = TwoForms::new(step.step, step.tableau.weights);
    forms.enclose(Some(&start), &s.slopes, &s.changes, &mut s.ordinary, &mut s.other);
    resize(&mut memory.end, entries);
    meet::meet_into(&mut s.ordinary, &s.other, &mut memory.end);
    end.iter_mut().for_each(|lane| resize(lane, entries));
    meet::centres(&s.ordinary, end);
    let forms = TwoForms::new(step.step, step.tableau.error);
    forms.enclose(None, &s.slopes, &s.changes, &mut s.ordinary, &mut s.other);
    resize(&mut memory.error, entries);
    meet::meet_into(&mut s.ordinary, &s.other, &mut memory.error);
    meet::centres(&s.ordinary, &mut s.other);
    resize(&mut memory.signs, entries);
    for (sign, e) in memory.signs.iter_mut().zip(&s.other[CENTRE]) {
        *sign = flag(*e > F::ZERO, POSITIVE) | flag(*e < F::ZERO, NEGATIVE);
    }
    meet::centres(&s.slopes[0], &mut s.shift);
    let parts = [&s.other[CENTRE][..], &s.other[RADIUS], &x[CENTRE], &s.shift[CENTRE]];
    measure(step.state(), samples, parts, statistics);
}

/// All layers of one stage; the input of the first is in the memory already.
fn evaluate<F: Real>(
    step: &Step<'_, F>,
    samples: usize,
    stage: usize,
    memory: &mut DifferenceMemory<F>,
    s: &mut DifferenceScratch<F>,
) {
    let layers = step.kernels.len();
    let moment = step.moment(stage);
    for (layer, kernel) in step.kernels.iter().enumerate() {
        let (here, above) = memory.evaluations[stage * layers..].split_at_mut(layer + 1);
        let here = &mut here[layer];
        let entries = samples * kernel.plan.output.len();
        resize(&mut here.bits, entries);
        for pair in [&mut s.before[layer], &mut s.after[layer], &mut s.d] {
            reserve(pair, entries);
        }
        for lane in [CENTRE, RADIUS] {
            kernel.fill(samples, lane == CENTRE, F::when(lane == CENTRE, moment), &mut s.p[lane]);
            kernel.apply(lane, samples, &here.input[lane], &mut s.p[lane], &mut s.columns);
            if stage > 0 {
                let elapsed = F::when(lane == CENTRE, elapsed(step, stage));
                kernel.fill(samples, false, elapsed, &mut s.d[lane]);
                kernel.apply(lane, samples, &here.difference[lane], &mut s.d[lane], &mut s.columns);
            }
        }
        let (before, after) = (&mut s.before[layer], &mut s.after[layer]);
        match (stage, kernel.plan.relu) {
            (0, relu) => meet::first_stage(&s.p, before, after, &mut here.bits, relu),
            (_, true) => meet::relu_stage(&s.p, &mut s.d, before, after, &mut here.bits),
            (_, false) => meet::linear_stage(&s.p, &mut s.d, before, after, &mut here.bits),
        }
        match above.first_mut().filter(|_| layer + 1 < layers) {
            Some(above) => {
                reserve(&mut above.input, entries);
                meet::centres(after, &mut above.input);
                if stage > 0 {
                    reserve(&mut above.difference, entries);
                    meet::centres(&s.d, &mut above.difference);
                }
            }
            None => {
                s.slopes[stage].clone_from(after);
                std::mem::swap(&mut s.changes[stage], &mut s.d);
            }
        }
    }
}

/// Time from the stage before.
pub(crate) fn elapsed<F: Real>(step: &Step<'_, F>, stage: usize) -> F {
    F::of((step.tableau.nodes[stage] - step.tableau.nodes[stage - 1]) * step.step)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_form_drops_a_first_slope_whose_weight_is_rounding() {
        let error = gains_ode::tableau::DOPRI5.error;
        let forms = TwoForms::<f64>::new(1.0, error);
        assert_eq!(forms.first, 0.0);
        assert_eq!(forms.changes.last(), Some(&(6, error[6])));
        let forms = TwoForms::<f64>::of_stage(0.5, gains_ode::tableau::DOPRI5.stages, 1);
        assert_eq!((forms.first, forms.changes.len()), (0.1, 0));
    }
}
