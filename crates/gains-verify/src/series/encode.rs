//! Boxes through the encoder of a latent ODE.

use gains_core::arithmetic::analysis_error;
use gains_core::interval::combine;
use gains_core::relaxation::{Line, Lines};
use gains_core::series_encoder::Stop;
use gains_core::{Arithmetic, BoxVec, Relaxation, Rows, SeriesEncoder, Shape, Window};

use crate::limits::{Clock, Reason};
use crate::series::product::{absolute, absolute_lines, mix, mix_products, product};
use crate::series::region::SeriesRegion;
use crate::series::stack::{LinePair, StackPass, sane};

/// How the gated update of a box is enclosed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum MixForm {
    /// By its exact range: `u` is the same in both terms.
    #[default]
    Exact,
    /// By two independent products, as the authors do.
    Products,
}

/// A gated update over a box.
pub(crate) struct UpdatePass<'a> {
    /// Mean and deviation before.
    pub before: BoxVec,
    /// What is observed.
    pub seen: BoxVec,
    pub update: StackPass<'a>,
    pub reset: StackPass<'a>,
    pub candidate: StackPass<'a>,
    /// Of the candidate's deviation.
    pub absolute: LinePair,
    /// The candidate, with the absolute value of its deviation.
    pub new: BoxVec,
    /// What rounding costs a row at the state after the update, for a coefficient of one.
    pub mixed_owed: Vec<f64>,
    /// The same at the state the candidate is shown.
    pub shown_owed: Vec<f64>,
}

/// An Euler step over a box.
pub(crate) struct EulerPass<'a> {
    pub step: f64,
    pub dynamics: StackPass<'a>,
    /// What rounding costs a row at the state after the step, for a coefficient of one.
    pub owed: Vec<f64>,
}

/// One stop of the walk.
pub(crate) struct StopPass<'a> {
    pub stop: Stop,
    pub euler: Option<EulerPass<'a>>,
    pub update: Option<UpdatePass<'a>>,
}

/// The walk through a region of series, as far as it has come.
pub(crate) struct WalkPass<'a> {
    pub encoder: &'a SeriesEncoder,
    pub arithmetic: Arithmetic,
    pub initial: StackPass<'a>,
    /// Of the first state's deviation.
    pub absolute: LinePair,
    pub stops: Vec<StopPass<'a>>,
}

/// The whole encoder over a region of series.
pub(crate) struct EncoderPass<'a> {
    pub walk: WalkPass<'a>,
    pub latent: StackPass<'a>,
}

/// What does not change on the way.
#[derive(Clone, Copy)]
pub(crate) struct Rules<'a> {
    pub encoder: &'a SeriesEncoder,
    pub arithmetic: Arithmetic,
    pub form: MixForm,
    /// Whether rows will be pulled back later.
    pub rows: bool,
    /// Whether every state of the walk is tightened by rows before the walk goes on. The time this takes grows with
    /// the square of the stops.
    pub stepwise: bool,
}

fn joined(a: &BoxVec, b: &BoxVec) -> BoxVec {
    BoxVec::new([&a.lower[..], &b.lower].concat(), [&a.upper[..], &b.upper].concat())
}

fn part(b: &BoxVec, range: std::ops::Range<usize>) -> BoxVec {
    BoxVec::new(b.lower[range.clone()].to_vec(), b.upper[range].to_vec())
}

/// Encloses a state whose deviation, the second half, becomes its absolute value; and the lines of that.
fn absolute_deviation(state: &BoxVec) -> (BoxVec, LinePair) {
    let half = state.len() / 2;
    let mut after = state.clone();
    let mut lines = [Lines::default(), Lines::default()];
    for i in half..state.len() {
        let x = state.get(i);
        let image = absolute(x);
        after.lower[i] = image.lower;
        after.upper[i] = image.upper;
        let (below, upper) = absolute_lines(x);
        for (lines, lower) in lines.iter_mut().zip(below) {
            push(lines, Relaxation { lower, upper, magnitude: x.magnitude() });
        }
    }
    (after, lines)
}

fn push(lines: &mut Lines, r: Relaxation) {
    let Relaxation { lower: Line { slope, intercept }, upper, magnitude } = r;
    lines.lower_slope.push(slope);
    lines.lower_intercept.push(intercept);
    lines.upper_slope.push(upper.slope);
    lines.upper_intercept.push(upper.intercept);
    lines.magnitude.push(magnitude);
}

impl<'a> Rules<'a> {
    fn stack(&self, stack: &'a gains_core::Stack, input: BoxVec) -> Result<StackPass<'a>, Reason> {
        StackPass::new(stack, input, self.arithmetic, self.rows)
    }

    /// `mean + step·dynamics(mean)`, the two terms taken as independent.
    fn euler(&self, state: &mut BoxVec, step: f64) -> Result<EulerPass<'a>, Reason> {
        let width = self.encoder.width();
        let mean = part(state, 0..width);
        let dynamics = self.stack(&self.encoder.dynamics, mean.clone())?;
        let (next, magnitude) = combine(Some(&mean), &[(step, &dynamics.output)], width, self.arithmetic);
        sane(&next)?;
        state.lower[..width].copy_from_slice(&next.lower);
        state.upper[..width].copy_from_slice(&next.upper);
        let error = analysis_error(4) + self.arithmetic.program_short_sum(2);
        let tiny = self.arithmetic.program_underflow();
        let owed = magnitude.iter().map(|m| error * m + tiny).collect();
        Ok(EulerPass { step, dynamics, owed })
    }

    fn update(&self, state: &mut BoxVec, seen: BoxVec) -> Result<UpdatePass<'a>, Reason> {
        let width = self.encoder.width();
        let before = state.clone();
        let all = joined(&before, &seen);
        let update = self.stack(&self.encoder.update, all.clone())?;
        let reset = self.stack(&self.encoder.reset, all)?;
        let mut shown = before.clone();
        for i in 0..2 * width {
            let p = product(reset.output.get(i % width), before.get(i), self.arithmetic);
            shown.lower[i] = p.lower;
            shown.upper[i] = p.upper;
        }
        let candidate = self.stack(&self.encoder.candidate, joined(&shown, &seen))?;
        let (new, absolute) = absolute_deviation(&candidate.output);
        for i in 0..2 * width {
            let (u, g, y) = (update.output.get(i % width), new.get(i), before.get(i));
            let next = match self.form {
                MixForm::Exact => mix(u, g, y, self.arithmetic),
                MixForm::Products => mix_products(u, g, y, self.arithmetic),
            };
            state.lower[i] = next.lower;
            state.upper[i] = next.upper;
        }
        sane(state)?;
        let (mixed_owed, shown_owed) = self.owed(&before, &new, &update.output, &reset.output);
        Ok(UpdatePass { before, seen, update, reset, candidate, absolute, new, mixed_owed, shown_owed })
    }

    /// What rounding costs rows on the way through an update: of planes and sums in the analysis, where slopes in
    /// `y` and `g` are at most 1 and those in the gates at most `|y| + |g|`; and of the program's operations.
    fn owed(&self, before: &BoxVec, new: &BoxVec, update: &BoxVec, reset: &BoxVec) -> (Vec<f64>, Vec<f64>) {
        let width = self.encoder.width();
        let analysis = 4.0 * analysis_error(2 * width + 8);
        let program = self.arithmetic.program_short_sum(4);
        let tiny = self.arithmetic.program_underflow();
        let (y, g) = (before.magnitudes(), new.magnitudes());
        let mixed = (0..2 * width).map(|i| {
            let u = update.get(i % width);
            analysis * (y[i] + g[i]) + program * ((1.0 - u.lower) * g[i] + u.upper * y[i]) + tiny
        });
        let shown = (0..2 * width).map(|i| analysis * y[i] + program * reset.upper[i % width] * y[i] + tiny);
        (mixed.collect(), shown.collect())
    }
}

impl<'a> EncoderPass<'a> {
    /// Pushes a region through the encoder, stop by stop.
    pub fn new(
        rules: Rules<'a>,
        region: &SeriesRegion,
        walk: &[Stop],
        clock: &Clock<'_>,
    ) -> Result<Self, Reason> {
        let Rules { encoder, arithmetic, .. } = rules;
        let initial = rules.stack(&encoder.initial, region.statics.clone())?;
        let (mut state, absolute) = absolute_deviation(&initial.output);
        let stops = Vec::with_capacity(walk.len());
        let mut pass = WalkPass { encoder, arithmetic, initial, absolute, stops };
        for stop in walk {
            clock.check(0)?;
            let euler = if stop.step == 0.0 { None } else { Some(rules.euler(&mut state, stop.step)?) };
            let moved = euler.is_some();
            pass.stops.push(StopPass { stop: *stop, euler, update: None });
            if rules.stepwise && moved {
                pass.tighten(&mut state, encoder.width(), clock)?;
            }
            if stop.observed {
                let update = rules.update(&mut state, region.row(stop.point, encoder.features()))?;
                if let Some(last) = pass.stops.last_mut() {
                    last.update = Some(update);
                }
                if rules.stepwise {
                    pass.tighten(&mut state, 2 * encoder.width(), clock)?;
                }
            }
        }
        let latent = rules.stack(&encoder.latent, state)?;
        Ok(Self { walk: pass, latent })
    }

    /// All latent states.
    pub fn latent(&self) -> BoxVec {
        part(&self.latent.output, 0..self.walk.encoder.latent_width())
    }
}

impl WalkPass<'_> {
    /// Cuts the first entries of the state down to what rows from there prove.
    fn tighten(&self, state: &mut BoxVec, entries: usize, clock: &Clock<'_>) -> Result<(), Reason> {
        let mut rows = Rows::zeros(2 * entries, Window::full(Shape::flat(state.len())));
        for i in 0..entries {
            rows.row_mut(i)[i] = 1.0;
            rows.row_mut(entries + i)[i] = -1.0;
        }
        let lower = self.pull(rows, &[], false, clock)?.lower;
        for i in 0..entries {
            state.lower[i] = state.lower[i].max(lower[i]);
            state.upper[i] = state.upper[i].min(-lower[entries + i]);
        }
        sane(state)
    }
}
