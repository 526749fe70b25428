//! The stages of a solver step in difference form: each stage is the one before plus a small difference,
//! and the *difference* is bounded.
//!
//! Independent intervals lose the step: `h Σ eᵢ kᵢ` has `Σ eᵢ = 0`, but a neuron that is unstable is relaxed
//! anew in every stage and nothing cancels. Here, with `rᵢ = kᵢ − kᵢ₋₁` and `vᵢ` any value of the dynamics in stage `i`,
//! an enclosure `d` of `vᵢ − vᵢ₋₁` is carried through the nodes beside the enclosure of `vᵢ`:
//!
//! * stage inputs: `sᵢ − sᵢ₋₁ = h Σⱼ (aᵢⱼ − aᵢ₋₁ⱼ) kⱼ`, enclosed with the `kⱼ` and again with `k₁` and the `rₘ`;
//! * every operator by its own rule for changes ([`gains_core::operator`]): affine layers without their bias,
//!   activations by the mean value theorem;
//! * and `vᵢ` also lies in the enclosure of `vᵢ₋₁` plus `d`.
//!
//! Every enclosure is intersected with what plain intervals give, so the result is never wider. In float32
//! mode the program rounds in both stages, so each difference is widened by the rounding of both.

use gains_core::interval::combine;
use gains_core::operator::Changing;
use gains_core::program::Trace;
use gains_core::{Arithmetic, BoxVec};

use super::sums::telescoped;
use super::{BoxSteps, Passage, Reach, Slopes, StageTrace};
use crate::limits::Reason;

/// The enclosures of one stage.
struct StageBoxes {
    /// All values of the dynamics.
    values: Vec<BoxVec>,
    /// For every node, what its rounding is proportional to.
    magnitudes: Vec<Vec<f64>>,
    /// What the rounding of the input is proportional to.
    input_magnitude: Vec<f64>,
}

/// What the stage before hands to the next one.
struct Entering<'a> {
    before: &'a StageBoxes,
    /// Change of the stage's input.
    difference: BoxVec,
    /// Change of the time.
    elapsed: f64,
    /// What the rounding of the change may cost, for a coefficient of one.
    input_owed: Vec<f64>,
}

/// A stage that has been enclosed.
struct Enclosed {
    stage: StageBoxes,
    value: Passage,
    /// How the slope differs from the one before, and the way of rows back through that.
    change: Option<(BoxVec, Passage)>,
}

impl BoxSteps<'_> {
    /// Encloses the slopes of the first `count` stages of a step.
    pub(super) fn difference_slopes(
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
        let mut previous: Option<StageBoxes> = None;
        for i in 0..count {
            self.clock.check(self.bytes)?;
            let coefficients: Vec<f64> = tableau.stages[i].iter().map(|a| step * a).collect();
            let terms: Vec<(f64, &BoxVec)> = coefficients.iter().copied().zip(&out.slopes).collect();
            let (mut input, input_magnitude) = combine(Some(state), &terms, n, self.arithmetic);
            let at = time + tableau.nodes[i] * step;
            let entering =
                previous.as_ref().map(|before| self.entering(before, &input_magnitude, &out, i, step));
            if let Some(entering) = &entering {
                input.meet(&entering.before.values[0].shifted(&entering.difference));
            }
            let known = reach.inner.as_deref().filter(|_| i == 0);
            let traced = self.keep_traces && i < tableau.solution_stages();
            let known = known.map(Vec::as_slice);
            let enclosed = self.stage(input, input_magnitude, at, known, entering, traced)?;
            let Enclosed { stage, mut value, change } = enclosed;
            let slope = stage.values[self.dynamics.output()].clone();
            let (difference, change) = change.unzip();
            if traced {
                value.input_owed = self.sum_owed(&stage.input_magnitude);
                let slope_magnitude = slope.magnitudes();
                out.traces.push(StageTrace { value, change, slope_magnitude });
            }
            out.slopes.push(slope);
            out.differences.extend(difference);
            previous = Some(stage);
        }
        let inputs = self.dynamics.inputs().len();
        out.last = previous.map(|stage| stage.values.into_iter().skip(inputs).collect());
        Ok(out)
    }

    /// How the input of a stage differs from that of the one before.
    fn entering<'s>(
        &self,
        before: &'s StageBoxes,
        input_magnitude: &[f64],
        out: &Slopes,
        i: usize,
        step: f64,
    ) -> Entering<'s> {
        let tableau = self.tableau;
        let n = input_magnitude.len();
        let earlier = tableau.stages[i - 1];
        let change: Vec<f64> = tableau.stages[i]
            .iter()
            .enumerate()
            .map(|(j, a)| step * (a - earlier.get(j).copied().unwrap_or(0.0)))
            .collect();
        let direct: Vec<(f64, &BoxVec)> = change.iter().copied().zip(&out.slopes).collect();
        let (mut difference, exact) = combine(None, &direct, n, Arithmetic::Real);
        let rounding = (&exact[..], Arithmetic::Real);
        difference.meet(&telescoped(None, &change, &out.slopes, &out.differences, rounding));
        let rounding = self.arithmetic.program_short_sum(tableau.len() + 1);
        let tiny = self.arithmetic.program_underflow();
        difference.widen(|e| {
            let size = input_magnitude[e] + before.input_magnitude[e];
            if size > 0.0 { rounding * size + 2.0 * tiny } else { 0.0 }
        });
        let elapsed = (tableau.nodes[i] - tableau.nodes[i - 1]) * step;
        let short = Arithmetic::Real.short_sum(tableau.len() + 1);
        let both = input_magnitude.iter().zip(&before.input_magnitude);
        let input_owed =
            exact.iter().zip(both).map(|(e, (m, b))| short * e + rounding * (m + b) + 2.0 * tiny).collect();
        Entering { before, difference, elapsed, input_owed }
    }

    /// Encloses every value of one stage, with the help of the stage before if there is one and of what is
    /// `known` of the values that nodes make; `traced` if rows will come back through it.
    fn stage(
        &self,
        input: BoxVec,
        input_magnitude: Vec<f64>,
        time: f64,
        known: Option<&[BoxVec]>,
        entering: Option<Entering<'_>>,
        traced: bool,
    ) -> Result<Enclosed, Reason> {
        let sane = |b: &BoxVec| if b.is_sane() { Ok(()) } else { Err(Reason::Overflow { time }) };
        sane(&input)?;
        let mut stage = StageBoxes { values: vec![input], magnitudes: Vec::new(), input_magnitude };
        let mut moved: Vec<BoxVec> = entering.iter().map(|e| e.difference.clone()).collect();
        let mut moved_sizes: Vec<Vec<f64>> = Vec::new();
        for (index, (value, node)) in self.dynamics.nodes().enumerate() {
            let arguments: Vec<&BoxVec> = node.from.iter().map(|&v| &stage.values[v]).collect();
            let image = node.operator.image(&arguments, time, self.arithmetic, true);
            let mut next = image.value;
            if let Some(known) = known {
                next.meet(&known[index]);
                if next.is_inside_out() {
                    return Err(Reason::Empty);
                }
            }
            if let Some(entering) = &entering {
                let before = &entering.before.values[value];
                let earlier: Vec<&BoxVec> = node.from.iter().map(|&v| &entering.before.values[v]).collect();
                let apart: Vec<&BoxVec> = node.from.iter().map(|&v| &moved[v]).collect();
                let change = node.operator.change(&Changing {
                    before: (&earlier, before),
                    after: (&arguments, &next),
                    apart: &apart,
                    elapsed: entering.elapsed,
                    magnitudes: (&entering.before.magnitudes[index], &image.magnitude),
                    arithmetic: self.arithmetic,
                });
                let mut d = change.value;
                next.meet(&before.shifted(&d));
                d.meet(&next.apart(before));
                sane(&d)?;
                moved.push(d);
                moved_sizes.push(change.magnitude);
            }
            sane(&next)?;
            self.note(index, &next);
            stage.magnitudes.push(image.magnitude);
            stage.values.push(next);
        }
        if !traced {
            let change = entering.map(|_| (moved.swap_remove(self.dynamics.output()), Passage::default()));
            return Ok(Enclosed { stage, value: Passage::default(), change });
        }
        let trace = Trace::of_values(self.dynamics, &stage.values, &stage.magnitudes, time, self.arithmetic);
        let value = Passage { trace, input_owed: Vec::new() };
        let change = entering.map(|entering| {
            let trace = self.change_trace(&stage, &entering, &moved, &moved_sizes);
            let passage = Passage { trace, input_owed: entering.input_owed };
            (moved.swap_remove(self.dynamics.output()), passage)
        });
        Ok(Enclosed { stage, value, change })
    }

    /// The way of rows back through the change since the stage before.
    fn change_trace(
        &self,
        stage: &StageBoxes,
        entering: &Entering<'_>,
        moved: &[BoxVec],
        sizes: &[Vec<f64>],
    ) -> Trace {
        let inputs = self.dynamics.inputs().len();
        Trace::of_change(self.dynamics, moved, |value, operator, on| {
            let index = value - inputs;
            let from = self.dynamics.node(value).map_or(&[][..], |node| &node.from);
            let earlier: Vec<&BoxVec> = from.iter().map(|&v| &entering.before.values[v]).collect();
            let now: Vec<&BoxVec> = from.iter().map(|&v| &stage.values[v]).collect();
            let apart: Vec<&BoxVec> = from.iter().map(|&v| &moved[v]).collect();
            let c = Changing {
                before: (&earlier, &entering.before.values[value]),
                after: (&now, &stage.values[value]),
                apart: &apart,
                elapsed: entering.elapsed,
                magnitudes: (&entering.before.magnitudes[index], &stage.magnitudes[index]),
                arithmetic: self.arithmetic,
            };
            operator.known_change(&c, &moved[value], &sizes[index], on)
        })
    }
}
