//! `gains forecast`: one record's prediction, its certified band, and the worst an attack finds.

mod picture;

use std::time::Duration;

use gains_core::BoxVec;
use gains_ode::mean_absolute_error;
use gains_verify::limits::Clock;
use gains_verify::series::enclosure::Way;
use gains_verify::series::{
    Enclosure, ForecastProperty, MixForm, Perturbation, SeriesAttack, SeriesMethod, Target,
};
use gains_verify::{Budget, Reason, StepForm};
use serde_json::{Value, json};

use crate::cli::{ForecastArgs, Global, MethodArg};
use crate::failure::{Failure, Outcome};
use crate::forecasting::decide::{Question, check_method, precision_of};
use crate::forecasting::region::Region;
use crate::forecasting::source::{Item, SeriesSet, Source};
use crate::output::{note, plain, print};
use crate::table::layout;
use crate::{files, interrupt};

/// Runs the command.
pub fn run(args: &ForecastArgs, global: &Global) -> Outcome {
    check_method(args.method)?;
    let network = files::load_model(Some(&args.model))?;
    if !files::forecasts(&network) {
        let name = args.model.display();
        return Err(Failure::usage(format!("'{name}' classifies images, it does not forecast"))
            .hint("choose a forecasting model; for images there is `gains predict`"));
    }
    let source = Source::open(&args.series, args.data_dir.as_deref())?;
    let set = source.set(&network, &args.series)?;
    let region = Region::new(&args.region, &set.names, set.kind())?;
    let plotted = set.names.features_of(&args.plot)?;
    let (part, index) = set.find(&args.record)?;
    let item = set.item(part, index);
    let broken = |e: gains_ode::ForecastError| {
        Failure::new(format!("record {}: {e}", args.record)).hint("`gains model show` tells how it is solved")
    };
    let target = Target::new(&network, item.observations.target_time).map_err(broken)?;
    let precision = precision_of(args.arithmetic.into());
    let run = target.forecaster.run(&item.observations, precision).map_err(broken)?;
    let (truth, mask) = (&item.series.target, &item.series.target_mask);
    let property = ForecastProperty::new(truth, mask, run.output(), region.tolerance)
        .ok_or_else(|| Failure::new(format!("record {}: the prediction is no number", args.record)))?;
    let perturbation = region.at(&network, args.eps);
    let bounds = bound(args, &target, &item, &perturbation, &property);
    let question =
        Question { network: &network, item: &item, perturbation: &perturbation, tolerance: region.tolerance };
    let attack = SeriesAttack { steps: args.steps, ..SeriesAttack::default() };
    let attacked = question.attack(attack, precision, &interrupt::requested).and_then(|found| {
        let run = target.forecaster.run(found.worst.as_ref()?, precision).ok()?;
        Some((run.output().to_vec(), found.error))
    });
    if interrupt::requested() {
        note!("interrupted; nothing was written");
        return Ok(());
    }
    let view = View {
        set: &set,
        item: &item,
        radii: perturbation.features.iter().map(|a| a.radius).collect(),
        prediction: run.output(),
        bounds,
        attacked,
        mae: mean_absolute_error(run.output(), truth, mask),
        limit: property.limit,
        title: format!(
            "{}, record {} ({part}), eps {}",
            plain(&network.description.name),
            args.record,
            args.eps
        ),
        question: format!("{}, {}", set.describe(), region.words()),
    };
    print(&view.text())?;
    if let Some(path) = &args.json {
        let value = view.json(&network.hash, args.eps);
        files::write_atomically(path, (value.to_string() + "\n").as_bytes())?;
    }
    if let Some(path) = &args.svg {
        files::write_atomically(path, picture::draw(&view, &plotted)?.as_bytes())?;
    }
    if !global.quiet {
        for path in args.json.iter().chain(&args.svg) {
            note!("wrote {}", path.display());
        }
    }
    Ok(())
}

/// Bounds of all features and of the error. `auto` goes on step by step where boxes grew beyond use.
fn bound(
    args: &ForecastArgs,
    target: &Target<'_>,
    item: &Item,
    perturbation: &Perturbation,
    property: &ForecastProperty,
) -> Result<Bounds, Reason> {
    let clock = Clock::start(Budget {
        timeout: Some(Duration::from_secs_f64(args.work.timeout)),
        vertices: args.work.max_vertices,
        memory: args.work.max_memory.saturating_mul(1 << 20),
        interrupted: &interrupt::requested,
    });
    let by = |method: SeriesMethod| {
        let arithmetic = args.arithmetic.into();
        let way = Way { method, mix: MixForm::Exact, step_form: StepForm::Difference, arithmetic };
        let enclosure = Enclosure::new(target, &item.observations, perturbation, way, clock)?;
        let all: Vec<usize> = (0..property.truth.len()).collect();
        let band = enclosure.intervals(&all)?;
        let pick = |side: &[f64]| property.observed.iter().map(|&i| side[i]).collect();
        let seen = BoxVec::new(pick(&band.lower), pick(&band.upper));
        let worst = property.worst(&seen).min(property.worst_together(&enclosure, &seen)?);
        Ok(Bounds { band, worst, method })
    };
    match args.method {
        MethodArg::Box => by(SeriesMethod::Box),
        MethodArg::Linear => by(SeriesMethod::Linear),
        MethodArg::Stepwise => by(SeriesMethod::Stepwise),
        MethodArg::Tight | MethodArg::Gains | MethodArg::Symbolic => by(SeriesMethod::Tight),
        MethodArg::Auto => match by(SeriesMethod::Tight) {
            Err(Reason::Overflow { .. }) => by(SeriesMethod::Stepwise),
            bounds => bounds,
        },
    }
}

/// What is proved.
struct Bounds {
    /// Of all features, on the scale of the network.
    band: BoxVec,
    /// Of the error.
    worst: f64,
    method: SeriesMethod,
}

/// What is shown.
struct View<'a> {
    set: &'a SeriesSet<'a>,
    item: &'a Item,
    /// How far each feature may move.
    radii: Vec<f64>,
    prediction: &'a [f64],
    bounds: Result<Bounds, Reason>,
    /// Predictions for the worst series found, and their error.
    attacked: Option<(Vec<f64>, f64)>,
    mae: f64,
    limit: f64,
    title: String,
    question: String,
}

impl View<'_> {
    fn observed(&self, feature: usize) -> usize {
        let width = self.set.names.features.len();
        self.item.series.mask.iter().skip(feature).step_by(width).filter(|seen| **seen).count()
    }

    fn verdict(&self) -> String {
        let broken = self.attacked.as_ref().is_some_and(|(_, error)| *error >= self.limit);
        match &self.bounds {
            _ if broken => "falsified".into(),
            Ok(bounds) if bounds.worst < self.limit => "verified".into(),
            Ok(_) => "unknown: bounds too loose".into(),
            Err(reason) => format!("unknown: {reason}"),
        }
    }

    fn text(&self) -> String {
        let mut rows = Vec::new();
        for (i, name) in self.set.names.features.iter().enumerate() {
            let raw = |value: f64| self.set.raw(i, value);
            let (low, high) = match &self.bounds {
                Ok(b) => (shown(raw(b.band.lower[i]), f64::floor), shown(raw(b.band.upper[i]), f64::ceil)),
                Err(_) => ("–".into(), "–".into()),
            };
            let attacked = self.attacked.as_ref().map(|(output, _)| shown(raw(output[i]), f64::round));
            let series = &self.item.series;
            let truth = series.target_mask[i].then(|| shown(raw(series.target[i]), f64::round));
            let dash = || "–".to_string();
            rows.push(vec![
                name.clone(),
                self.observed(i).to_string(),
                shown(raw(self.prediction[i]), f64::round),
                low,
                high,
                attacked.unwrap_or_else(dash),
                truth.unwrap_or_else(dash),
            ]);
        }
        let header = ["feature", "observed", "prediction", "band low", "band high", "attacked", "truth"];
        let mut text = format!("{}\n{}\n\n{}", self.title, self.question, layout(&header, &rows));
        let time = self.set.raw_time(self.item.series.target_time);
        text.push_str(&format!("\npredicted for time {time:.2}\n"));
        text.push_str(&format!("mean absolute error {:.4}, limit {:.4}", self.mae, self.limit));
        if let Ok(bounds) = &self.bounds {
            text.push_str(&format!(", certified {:.4} ({})", bounds.worst, bounds.method));
        }
        if let Some((_, error)) = &self.attacked {
            text.push_str(&format!(", attacked {error:.4}"));
        }
        text.push_str(&format!("\n{}\n", self.verdict()));
        text
    }

    fn json(&self, model: &str, eps: f64) -> Value {
        let series = &self.item.series;
        let feature = |(i, name): (usize, &String)| {
            let raw = |value: f64| self.set.raw(i, value);
            let band = self.bounds.as_ref().ok().map(|b| (b.band.lower[i], b.band.upper[i]));
            let attacked = self.attacked.as_ref().map(|(output, _)| output[i]);
            json!({
                "name": name, "observed": self.observed(i), "eps": self.radii[i],
                "prediction": raw(self.prediction[i]), "low": band.map(|b| raw(b.0)), "high": band.map(|b| raw(b.1)),
                "attacked": attacked.map(raw), "truth": series.target_mask[i].then(|| raw(series.target[i])),
                "normalised": {
                    "prediction": self.prediction[i], "low": band.map(|b| b.0), "high": band.map(|b| b.1),
                    "attacked": attacked, "truth": series.target_mask[i].then_some(series.target[i]),
                },
            })
        };
        let features: Vec<Value> = self.set.names.features.iter().enumerate().map(feature).collect();
        let bounds = self.bounds.as_ref().ok();
        json!({
            "model": model, "record": series.id, "eps": eps, "question": self.question,
            "time": self.set.raw_time(series.target_time), "verdict": self.verdict(),
            "mae": self.mae, "limit": self.limit, "certified_mae": bounds.map(|b| b.worst),
            "method": bounds.map(|b| b.method.to_string()),
            "attacked_mae": self.attacked.as_ref().map(|a| a.1), "features": features,
        })
    }
}

/// A number with about five digits; `rounding` says in which direction the last one goes.
fn shown(value: f64, rounding: fn(f64) -> f64) -> String {
    if !value.is_finite() {
        return value.to_string();
    }
    let size = if value == 0.0 { 0.0 } else { value.abs().log10().floor() };
    let digits = (4.0 - size).clamp(0.0, 6.0);
    let scale = 10_f64.powf(digits);
    format!("{:.*}", digits as usize, rounding(value * scale) / scale)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bands_are_rounded_outwards() {
        assert_eq!(shown(81.234_56, f64::floor), "81.234");
        assert_eq!(shown(81.234_56, f64::ceil), "81.235");
        assert_eq!(shown(-0.5, f64::floor), "-0.50000");
        assert_eq!(shown(0.0, f64::ceil), "0.0000");
        assert_eq!(shown(123_456.7, f64::ceil), "123457");
        assert_eq!(shown(f64::INFINITY, f64::ceil), "inf");
    }
}
