//! All predictions for a region of series: boxes and rows through encoder, decoder and outputs.

use gains_core::Precision;
use gains_core::arithmetic::keeps_subnormal_numbers;
use gains_core::{Arithmetic, BoxVec, Network, RowBlock, Rows, Shape, Window};
use gains_ode::{Encoding, ForecastError, Forecaster, Observations};
use serde::{Deserialize, Serialize};

use crate::analysis::{Analysis, Grouped, Method, Prepared, Variant};
use crate::box_step::StepForm;
use crate::limits::{Clock, Reason};
use crate::property::Property;
use crate::series::encode::{EncoderPass, MixForm, Rules};
use crate::series::pull::Corner;
use crate::series::region::{Perturbation, SeriesRegion};

/// How predictions are bounded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SeriesMethod {
    /// Intervals only.
    Box,
    /// Those, and rows pulled back from the outputs to all observations.
    Linear,
    /// Also rows from the latent state, which tighten the decoder's graph, solver steps in difference form, and
    /// rows made once more with the planes and lines that are best where their bounds are attained.
    Tight,
    /// The same, with every state of the walk tightened by rows before the walk goes on, and affine forms through
    /// the decoder: for networks that were not trained with boxes. Takes about a hundred times as long.
    Stepwise,
}

impl std::fmt::Display for SeriesMethod {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Box => "box",
            Self::Linear => "linear",
            Self::Tight => "tight",
            Self::Stepwise => "stepwise",
        })
    }
}

/// A forecasting network set to one target time, with everything that does not depend on the series worked out.
pub struct Target<'a> {
    /// For concrete predictions.
    pub forecaster: Forecaster<'a>,
    decoder: Prepared,
}

impl<'a> Target<'a> {
    /// Sets a network to a target time.
    pub fn new(network: &'a Network, time: f64) -> Result<Self, ForecastError> {
        let forecaster = Forecaster::new(network, time)?;
        let decoder = Prepared::new(forecaster.decoder.clone());
        Ok(Self { forecaster, decoder })
    }
}

/// What is enclosed, and how.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Way {
    /// How predictions are bounded.
    pub method: SeriesMethod,
    /// How gated updates of boxes are enclosed.
    pub mix: MixForm,
    /// How the stages of the decoder's steps are bounded; from [`SeriesMethod::Tight`] on always by differences.
    pub step_form: StepForm,
    /// Whose arithmetic is enclosed.
    pub arithmetic: Arithmetic,
}

impl Way {
    /// A method with our tightest boxes, in real arithmetic.
    pub const fn of(method: SeriesMethod) -> Self {
        Self { method, mix: MixForm::Exact, step_form: StepForm::Difference, arithmetic: Arithmetic::Real }
    }

    fn is_thorough(&self) -> bool {
        matches!(self.method, SeriesMethod::Tight | SeriesMethod::Stepwise)
    }
}

/// All predictions for one region.
pub struct Enclosure<'a> {
    way: Way,
    clock: Clock<'a>,
    series: &'a Observations,
    pass: EncoderPass<'a>,
    latent: BoxVec,
    decoder: Analysis<'a>,
    /// The decoder by affine forms, whose bounds do not suffer from many trajectories.
    forms: Option<Analysis<'a>>,
}

impl<'a> Enclosure<'a> {
    /// Encloses everything over the series that a perturbation allows.
    pub fn new(
        target: &'a Target<'a>,
        series: &'a Observations,
        perturbation: &Perturbation,
        way: Way,
        clock: Clock<'a>,
    ) -> Result<Self, Reason> {
        if !keeps_subnormal_numbers() {
            return Err(Reason::FlushToZero);
        }
        let encoder = target.forecaster.encoder;
        series.check(encoder).map_err(|e| Reason::Concrete(e.to_string()))?;
        for (found, expected) in [
            (perturbation.features.len(), encoder.features()),
            (perturbation.statics.len(), encoder.statics()),
        ] {
            if found != expected {
                return Err(Reason::InputSize { found, expected });
            }
        }
        let region: SeriesRegion = perturbation.region(series, way.arithmetic);
        if !(region.values.is_sane() && region.statics.is_sane()) {
            return Err(Reason::Overflow { time: 0.0 });
        }
        let rows = way.method != SeriesMethod::Box;
        let stepwise = way.method == SeriesMethod::Stepwise;
        let rules = Rules { encoder, arithmetic: way.arithmetic, form: way.mix, rows, stepwise };
        let pass = EncoderPass::new(rules, &region, &series.walk(encoder), &clock)?;
        let mut latent = pass.latent();
        if way.is_thorough() {
            refine(&pass, &mut latent, &clock)?;
        }
        let (method, form) = match way.method {
            SeriesMethod::Box => (Method::Box, way.step_form),
            SeriesMethod::Linear => (Method::Gains, way.step_form),
            SeriesMethod::Tight | SeriesMethod::Stepwise => (Method::Gains, StepForm::Difference),
        };
        let decode =
            |method| Analysis::new(&target.decoder, latent.clone(), method, form, way.arithmetic, clock);
        let decoder = decode(method)?;
        let forms = if stepwise { decode(Method::Symbolic).ok() } else { None };
        Ok(Self { way, clock, series, pass, latent, decoder, forms })
    }

    /// The box of all predictions, as far as intervals tell.
    pub fn boxes(&self) -> &BoxVec {
        &self.decoder.output
    }

    /// All latent states.
    pub fn latent(&self) -> &BoxVec {
        &self.latent
    }

    /// Vertices and edges of the decoder's trajectory graph.
    pub fn graph_size(&self) -> (usize, usize) {
        self.decoder.graph_size()
    }

    /// The decoder's trajectory graph; `None` at time 0.
    pub fn graph(&self) -> Option<&gains_ode::Graph<crate::box_step::Reach, crate::box_step::StepTrace>> {
        self.decoder.graphs().next()
    }

    /// Whether the decoder's graph has a concrete trajectory as a path.
    pub fn admits(&self, trajectory: &[gains_ode::integrate::Visit]) -> bool {
        self.decoder.graphs().next().is_none_or(|graph| graph.admits(trajectory))
    }

    /// Certified lower bounds of linear functions of the outputs, one per row of coefficients.
    pub fn lower_bounds(&self, rows: &[Vec<f64>]) -> Result<Vec<f64>, Reason> {
        let outputs = self.boxes().len();
        let property = Property { outputs, rows: rows.to_vec() };
        let rows = Rows::new(Window::full(Shape::flat(outputs)), rows.concat());
        let mut best = rows.lower_bounds(self.boxes());
        if self.way.method == SeriesMethod::Box || rows.count == 0 {
            return Ok(best);
        }
        if let Some(forms) = &self.forms {
            raise(&mut best, &forms.bound(&property)?.lower);
        }
        let variants = Variant::of(Method::Gains);
        let mut on_the_way = vec![f64::NEG_INFINITY; rows.count];
        let count = rows.count;
        let grouped =
            self.decoder.pull(Grouped::new(rows, variants.len()), variants, |grouped, domain| {
                for bounds in grouped.by_variant(domain, variants.len()) {
                    raise(&mut on_the_way, &bounds);
                }
            })?;
        raise(&mut best, &on_the_way);
        let at_latent = grouped.by_variant(&self.latent, variants.len());
        let choose = |row: usize| {
            (0..variants.len()).max_by(|a, b| at_latent[*a][row].total_cmp(&at_latent[*b][row])).unwrap_or(0)
        };
        let chosen: Vec<RowBlock> = (0..count).map(|row| grouped.row_of(row, choose(row))).collect();
        for bounds in &at_latent {
            raise(&mut best, bounds);
        }
        let chosen = RowBlock::stack(&chosen);
        let again = self.way.is_thorough();
        let pulled = self.pass.pull(&chosen, &[], again, &self.clock)?;
        raise(&mut best, &pulled.lower);
        if again {
            let at = self.runs(&pulled.corners);
            raise(&mut best, &self.pass.pull(&chosen, &at, false, &self.clock)?.lower);
        }
        Ok(best)
    }

    /// The encoder at the corners that rows point at.
    fn runs(&self, corners: &[Corner]) -> Vec<Encoding> {
        corners.iter().map(|corner| run_at(&self.pass, self.series, corner)).collect()
    }

    /// Certified intervals of the given outputs.
    pub fn intervals(&self, outputs: &[usize]) -> Result<BoxVec, Reason> {
        let row = |sign: f64| {
            move |&output: &usize| {
                let mut row = vec![0.0; self.boxes().len()];
                row[output] = sign;
                row
            }
        };
        let rows: Vec<Vec<f64>> = outputs.iter().map(row(1.0)).chain(outputs.iter().map(row(-1.0))).collect();
        let bounds = self.lower_bounds(&rows)?;
        let (lower, upper) = bounds.split_at(outputs.len());
        let mut intervals = BoxVec::new(lower.to_vec(), upper.iter().map(|u| -u).collect());
        for (i, &output) in outputs.iter().enumerate() {
            intervals.lower[i] = intervals.lower[i].max(self.boxes().lower[output]);
            intervals.upper[i] = intervals.upper[i].min(self.boxes().upper[output]);
        }
        Ok(intervals)
    }
}

/// The encoder at one series of the region; only how good a bound becomes depends on it.
fn run_at(pass: &EncoderPass<'_>, series: &Observations, corner: &Corner) -> Encoding {
    let mut moved = series.clone();
    moved.statics.clone_from(&corner.statics);
    for (value, new) in moved.values.iter_mut().zip(&corner.values) {
        *value = *new;
    }
    Encoding::run(pass.walk.encoder, &moved, Precision::Float64)
}

/// Tightens the box of latent states by rows from there.
fn refine(pass: &EncoderPass<'_>, latent: &mut BoxVec, clock: &Clock<'_>) -> Result<(), Reason> {
    let width = latent.len();
    let mut rows = RowBlock::zeros(2 * width, width);
    for i in 0..width {
        rows.row_mut(i)[i] = 1.0;
        rows.row_mut(width + i)[i] = -1.0;
    }
    let bounds = pass.pull(&rows, &[], false, clock)?.lower;
    let (lower, upper) = bounds.split_at(width);
    latent.meet(&BoxVec::new(lower.to_vec(), upper.iter().map(|u| -u).collect()));
    if latent.is_sane() { Ok(()) } else { Err(Reason::Overflow { time: 0.0 }) }
}

fn raise(best: &mut [f64], candidate: &[f64]) {
    for (best, new) in best.iter_mut().zip(candidate) {
        *best = best.max(*new);
    }
}
