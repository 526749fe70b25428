//! The gradient of a step in difference form. Stages go in reverse; at every level each hands the gradient of
//! "the stage before" on to that stage.

use super::difference::{DifferenceMemory, TwoForms, elapsed, reserve};
use super::entries::{add, combine};
use super::gradient::LayerGradient;
use super::kernel::{CENTRE, Kernel, RADIUS};
use super::meet::{self, Pair};
use super::real::Real;
use super::step::{NEGATIVE, POSITIVE, Step};

/// Room to work in, reused from tile to tile; gradients of what the names say.
#[derive(Debug, Default)]
pub(crate) struct BackScratch<F> {
    columns: Vec<F>,
    slopes: Vec<Pair<F>>,
    changes: Vec<Pair<F>>,
    /// Of p, a (by layer) and s of the stage at work, as far as later stages depend on them.
    before: Vec<Pair<F>>,
    after: Vec<Pair<F>>,
    state: Pair<F>,
    start: Pair<F>,
    ordinary: Pair<F>,
    other: Pair<F>,
    p: Pair<F>,
    d: Pair<F>,
    below: Pair<F>,
    change_below: Pair<F>,
}

fn zero<F: Real>(pair: &mut Pair<F>, length: usize) {
    reserve(pair, length);
    for end in pair {
        end.fill(F::ZERO);
    }
}

/// Adds the gradient of `weight·box` to that of the box.
fn spread<F: Real>(weight: F, source: &Pair<F>, target: &mut Pair<F>) {
    for end in 0..2 {
        let to = if weight < F::ZERO { 1 - end } else { end };
        combine(&mut target[to], None, &[(weight, &source[end][..])]);
    }
}

impl<F: Real> BackScratch<F> {
    /// Adds the gradients of the two forms of a sum (in `plain` and `other`) to those of slopes and changes.
    fn spread_forms(&mut self, forms: &TwoForms<F>, plain: &Pair<F>) {
        for (j, weight) in &forms.slopes {
            spread(*weight, plain, &mut self.slopes[*j]);
        }
        if forms.first != F::ZERO {
            spread(forms.first, &self.other, &mut self.slopes[0]);
        }
        for (j, weight) in &forms.changes {
            spread(*weight, &self.other, &mut self.changes[*j]);
        }
    }
}

/// The gradient of [`super::difference::forward`]: `gradient` comes in as that of the end (centres, radii) and leaves
/// as that of the start.
pub(crate) fn backward<F: Real>(
    step: &Step<'_, F>,
    samples: usize,
    memory: &DifferenceMemory<F>,
    s: &mut BackScratch<F>,
    gradient: &mut [Vec<F>],
    error_weight: F,
    parameters: &mut [LayerGradient<F>],
) {
    let entries = gradient[0].len();
    let with_error = error_weight != F::ZERO && step.tableau.estimates_error();
    let stages = if with_error { step.stages() } else { step.tableau.solution_stages() };
    for list in [&mut s.slopes, &mut s.changes] {
        list.resize_with(step.stages(), Pair::default);
        list.iter_mut().for_each(|pair| zero(pair, entries));
    }
    for list in [&mut s.before, &mut s.after] {
        list.resize_with(step.kernels.len(), Pair::default);
        for (pair, kernel) in list.iter_mut().zip(&step.kernels) {
            zero(pair, samples * kernel.plan.output.len());
        }
    }
    for pair in [&mut s.state, &mut s.start, &mut s.ordinary, &mut s.other] {
        zero(pair, entries);
    }

    meet::centres_back(gradient, &mut s.ordinary);
    let mut plain = std::mem::take(&mut s.ordinary);
    meet::meet_into_back(&mut plain, &mut s.other, &memory.end);
    for end in 0..2 {
        add(&mut s.start[end], &plain[end]);
        add(&mut s.start[end], &s.other[end]);
    }
    s.spread_forms(&TwoForms::new(step.step, step.tableau.weights), &plain);
    if with_error {
        for (i, sign) in memory.signs.iter().enumerate() {
            let up = F::when(sign & POSITIVE != 0, F::HALF) - F::when(sign & NEGATIVE != 0, F::HALF);
            (plain[0][i], plain[1][i]) = (error_weight * (up - F::HALF), error_weight * (up + F::HALF));
        }
        meet::meet_into_back(&mut plain, &mut s.other, &memory.error);
        s.spread_forms(&TwoForms::new(step.step, step.tableau.error), &plain);
    }
    s.ordinary = plain;

    for stage in (0..stages).rev() {
        layers_back(step, samples, stage, memory, s, parameters);
        meet::centres_back(&s.below, &mut s.state);
        if stage == 0 {
            for end in 0..2 {
                add(&mut s.start[end], &s.state[end]);
            }
            break;
        }
        let mut shift = std::mem::take(&mut s.d);
        zero(&mut shift, entries);
        meet::centres_back(&s.change_below, &mut shift);
        meet::stage_input_back(
            &mut s.state,
            &mut shift,
            &mut s.ordinary,
            &mut s.other,
            &memory.inputs[stage],
        );
        for end in 0..2 {
            add(&mut s.start[end], &s.ordinary[end]);
        }
        for (j, a) in step.tableau.stages[stage].iter().enumerate().filter(|(_, a)| **a != 0.0) {
            spread(F::of(step.step * a), &s.ordinary, &mut s.slopes[j]);
        }
        s.spread_forms(&TwoForms::of_stage(step.step, step.tableau.stages, stage), &shift);
        s.d = shift;
    }
    // The start's ends are centre ∓ radius.
    for i in 0..entries {
        let (lower, upper) = (s.start[0][i], s.start[1][i]);
        (gradient[CENTRE][i], gradient[RADIUS][i]) = (upper + lower, upper - lower);
    }
}

/// All layers of one stage, last to first; leaves the gradients of s and Δs in `below` and `change_below` (centres
/// and radii).
fn layers_back<F: Real>(
    step: &Step<'_, F>,
    samples: usize,
    stage: usize,
    memory: &DifferenceMemory<F>,
    s: &mut BackScratch<F>,
    parameters: &mut [LayerGradient<F>],
) {
    let layers = step.kernels.len();
    for (layer, kernel) in step.kernels.iter().enumerate().rev() {
        let evaluation = &memory.evaluations[stage * layers + layer];
        let entries = samples * kernel.plan.output.len();
        let (before, after) = (&mut s.before[layer], &mut s.after[layer]);
        zero(&mut s.d, entries);
        reserve(&mut s.p, entries);
        if layer + 1 == layers {
            for end in 0..2 {
                add(&mut after[end], &s.slopes[stage][end]);
                add(&mut s.d[end], &s.changes[stage][end]);
            }
        } else {
            meet::centres_back(&s.below, after);
            if stage > 0 {
                meet::centres_back(&s.change_below, &mut s.d);
            }
        }
        if stage == 0 {
            meet::first_stage_back(before, after, &mut s.p, &evaluation.bits, kernel.plan.relu);
        } else if kernel.plan.relu {
            let last = &memory.evaluations[(stage - 1) * layers + layer].bits;
            meet::relu_stage_back(&mut s.p, &mut s.d, before, after, &evaluation.bits, last);
        } else {
            meet::linear_stage_back(&mut s.p, &mut s.d, before, after, &evaluation.bits);
        }
        let (moment, columns) = (step.moment(stage), &mut s.columns);
        parameters[layer].add(kernel, samples, &evaluation.input, &s.p, true, moment, columns);
        pull_back(kernel, samples, &s.p, &mut s.below, columns);
        if stage > 0 {
            let elapsed = elapsed(step, stage);
            parameters[layer].add(kernel, samples, &evaluation.difference, &s.d, false, elapsed, columns);
            pull_back(kernel, samples, &s.d, &mut s.change_below, columns);
        }
    }
}

fn pull_back<F: Real>(
    kernel: &Kernel<F>,
    samples: usize,
    gradient: &Pair<F>,
    below: &mut Pair<F>,
    columns: &mut Vec<F>,
) {
    for lane in [CENTRE, RADIUS] {
        kernel.input_gradient(lane, samples, &gradient[lane], &mut below[lane], columns);
    }
}
