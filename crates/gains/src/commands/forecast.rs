//! `gains forecast`: one record's prediction, its certified band, and the worst an attack finds.

mod picture;

use gains_core::BoxVec;
use gains_ode::Watch;
use serde_json::{Value, json};

use crate::campaign::budget;
use crate::cli::{BoundArgs, ForecastArgs, Global};
use crate::failure::{Failure, Outcome};
use crate::question::{
    AttackPlan, Findings, Forecasted, Model, Plan, Purpose, Reason, Sample, Task, Verdict, precision_of,
};
use crate::runner::Stop;
use crate::subject::{Item, SeriesSource, SeriesSubject};
use crate::table::layout;
use crate::{files, interrupt, panics, tell};

/// Runs the command.
pub fn run(args: &ForecastArgs, global: &Global) -> Outcome {
    let network = files::load_model(Some(&args.model))?;
    if Task::of(&network) != Task::Forecasts {
        let name = args.model.display();
        return Err(Failure::usage(format!("'{name}' takes single inputs, it does not forecast series"))
            .hint("choose a forecasting model; for others there is `gains predict`"));
    }
    let model = Model::asking(network, &args.property)?;
    let plan = plan(args, &model)?;
    let source = SeriesSource::open(&args.series, args.data_dir.as_deref(), model.network())?;
    let subject = SeriesSubject::new(&source, &model, None, &args.series, &args.region)?;
    let plotted = subject.set().names.features_of(&args.plot)?;
    let record = record(args, &subject)?;
    let forecast =
        panics::contain(|| Forecast::make(args, &record, &plan, &subject, &model, &interrupt::requested));
    let forecast = forecast.map_err(|caught| {
        Failure::new(format!("record {record}: gains panicked: {caught}"))
            .hint("please report it with the model and the record")
    })??;
    if interrupt::requested() {
        tell::note("interrupted; nothing was written");
        return Ok(());
    }
    let view = View { subject: &subject, forecast: &forecast };
    let json = args.json.as_deref();
    tell::summary(&view.text(), files::is_stdout(json))?;
    if json.is_some() {
        let value = view.json(&model.network().hash, args.eps);
        files::deliver(json, (value.to_string() + "\n").as_bytes())?;
    }
    if let Some(path) = &args.svg {
        files::write_atomically(path, picture::draw(&view, &plotted)?.as_bytes())?;
    }
    tell::written(args.json.iter().chain(&args.svg), global.quiet);
    Ok(())
}

fn plan(args: &ForecastArgs, model: &Model) -> Result<Plan, Failure> {
    let attack = AttackPlan { steps: args.steps, ..AttackPlan::PAPER };
    let bounds = BoundArgs { method: args.method, step_form: None, arithmetic: args.arithmetic };
    Plan::new(model.task(), &bounds, Some(attack), Purpose::Evaluate)
}

/// What the file of `--json` says.
pub fn explore(
    args: &ForecastArgs,
    model: &Model,
    source: &SeriesSource,
    stop: Stop<'_>,
) -> Result<Value, Failure> {
    let plan = plan(args, model)?;
    let subject = SeriesSubject::new(source, model, None, &args.series, &args.region)?;
    let record = record(args, &subject)?;
    let forecast = Forecast::make(args, &record, &plan, &subject, model, stop)?;
    Ok(View { subject: &subject, forecast: &forecast }.json(&model.network().hash, args.eps))
}

/// The record that is asked for, or the first there is.
fn record(args: &ForecastArgs, subject: &SeriesSubject<'_>) -> Result<String, Failure> {
    let set = subject.set();
    match &args.record {
        Some(record) => Ok(record.clone()),
        None if set.forecasts.len(set.part) > 0 => Ok(set.forecasts.id(set.part, 0).to_string()),
        None => Err(Failure::usage(format!("the {} part has no records", set.part))
            .hint("choose another --part, or name a record with --record")),
    }
}

/// Everything that is known about one record.
struct Forecast {
    item: Item,
    title: String,
    /// How far each feature may move.
    radii: Vec<f64>,
    prediction: Vec<f64>,
    mae: f64,
    /// The error not to be reached; nothing if something else is asked.
    limit: Option<f64>,
    verdict: Verdict,
    /// Proved: the error stays at or below this.
    certified: Option<f64>,
    /// The worst error that was seen.
    worst: Option<f64>,
    /// Smallest certified distance to breaking another property.
    margin: Option<f64>,
    /// On the scale of the network.
    band: Result<BoxVec, Reason>,
    /// What made it.
    method: String,
    /// Predictions for the worst series found.
    attacked: Option<Vec<f64>>,
}

impl Forecast {
    /// Everything from one look of the verifier: the band, the verdict, and the worst an attack finds.
    fn make(
        args: &ForecastArgs,
        record: &str,
        plan: &Plan,
        subject: &SeriesSubject<'_>,
        model: &Model,
        stop: Stop<'_>,
    ) -> Result<Self, Failure> {
        let (part, index) = subject.set().find(record)?;
        panics::provoke(index);
        let (item, question) = subject.ask(part, index, args.eps);
        let radii = match &question.sample {
            Sample::Series { perturbation, .. } => perturbation.features.iter().map(|a| a.radius).collect(),
            Sample::Values { .. } => Vec::new(),
        };
        let fail = |what: String| {
            Failure::new(format!("record {record}: {what}")).hint("`gains model show` tells how it is solved")
        };
        let precision = precision_of(args.arithmetic.into());
        let run =
            question.run(precision, &Watch { interrupted: &|| stop(), ..Watch::default() }).map_err(fail)?;
        let Forecasted { answer, band, attacked } =
            question.forecast(plan, budget(&args.work, stop)).map_err(|reason| fail(reason.to_string()))?;
        let Findings::Forecasts { mae: Some(mae), limit, certified, attacked: worst, margin } =
            answer.findings
        else {
            return Err(fail("the prediction is NaN or infinite".into()));
        };
        let (certified, margin) = (certified.filter(|_| band.is_ok()), margin.filter(|_| band.is_ok()));
        let name = &model.network().description.name;
        let title = format!("{name}, record {record} ({part}), eps {}", args.eps);
        // The method that made the band: the last that bounded.
        let bounds = answer.stages.iter().rev().find(|stage| stage.name != "attack");
        let method = bounds.map_or_else(String::new, |stage| stage.name.clone());
        let prediction = run.output;
        let verdict = answer.verdict;
        Ok(Self {
            item,
            title,
            radii,
            prediction,
            mae,
            limit,
            verdict,
            certified,
            worst,
            margin,
            band,
            method,
            attacked,
        })
    }
}

/// What is shown.
struct View<'a> {
    subject: &'a SeriesSubject<'a>,
    forecast: &'a Forecast,
}

impl View<'_> {
    fn observed(&self, feature: usize) -> usize {
        let width = self.subject.set().names.features.len();
        self.forecast.item.series.mask.iter().skip(feature).step_by(width).filter(|seen| **seen).count()
    }

    /// Times and values of a feature's observations, in the units of the data.
    fn points(&self, feature: usize) -> Vec<[f64; 2]> {
        let (set, series) = (self.subject.set(), &self.forecast.item.series);
        let width = set.names.features.len();
        let at = |(point, time): (usize, &f64)| {
            let entry = point * width + feature;
            series.mask[entry].then(|| [set.raw_time(*time), set.raw(feature, series.values[entry])])
        };
        series.times.iter().enumerate().filter_map(at).collect()
    }

    fn verdict(&self) -> String {
        match &self.forecast.verdict {
            Verdict::Verified => "verified".into(),
            Verdict::Falsified(_) => "falsified".into(),
            Verdict::Unknown(Reason::Loose { .. }) => "unknown: bounds too loose".into(),
            Verdict::Unknown(reason) => format!("unknown: {reason}"),
            Verdict::Misclassified => "misclassified".into(),
        }
    }

    fn text(&self) -> String {
        let mut rows = Vec::new();
        for (i, name) in self.subject.set().names.features.iter().enumerate() {
            let raw = |value: f64| self.subject.set().raw(i, value);
            let (low, high) = match &self.forecast.band {
                Ok(b) => (shown(raw(b.lower[i]), f64::floor), shown(raw(b.upper[i]), f64::ceil)),
                Err(_) => ("–".into(), "–".into()),
            };
            let attacked = self.forecast.attacked.as_ref().map(|output| shown(raw(output[i]), f64::round));
            let series = &self.forecast.item.series;
            let truth = series.target_mask[i].then(|| shown(raw(series.target[i]), f64::round));
            let dash = || "–".to_string();
            rows.push(vec![
                name.clone(),
                self.observed(i).to_string(),
                shown(raw(self.forecast.prediction[i]), f64::round),
                low,
                high,
                attacked.unwrap_or_else(dash),
                truth.unwrap_or_else(dash),
            ]);
        }
        let header = ["feature", "observed", "prediction", "band low", "band high", "attacked", "truth"];
        let mut text =
            format!("{}\n{}\n\n{}", self.forecast.title, self.subject.words(), layout(&header, &rows));
        let time = self.subject.set().raw_time(self.forecast.item.series.target_time);
        text.push_str(&format!("\npredicted for time {time:.2}\n"));
        let Forecast { mae, limit, certified, worst, margin, method, .. } = self.forecast;
        text.push_str(&format!("mean absolute error {mae:.4}"));
        if let Some(limit) = limit {
            text.push_str(&format!(", limit {limit:.4}"));
        }
        if let Some(certified) = certified {
            text.push_str(&format!(", certified {certified:.4} ({method})"));
        }
        if let Some(margin) = margin {
            text.push_str(&format!(", certified margin of the property {margin:.4} ({method})"));
        }
        if let Some(error) = worst {
            text.push_str(&format!(", attacked {error:.4}"));
        }
        text.push_str(&format!("\n{}\n", self.verdict()));
        text
    }

    fn json(&self, model: &str, eps: f64) -> Value {
        let series = &self.forecast.item.series;
        let feature = |(i, name): (usize, &String)| {
            let raw = |value: f64| self.subject.set().raw(i, value);
            let band = self.forecast.band.as_ref().ok().map(|b| (b.lower[i], b.upper[i]));
            let attacked = self.forecast.attacked.as_ref().map(|output| output[i]);
            json!({
                "name": name, "observed": self.observed(i), "points": self.points(i), "eps": self.forecast.radii[i],
                "prediction": raw(self.forecast.prediction[i]), "low": band.map(|b| raw(b.0)), "high": band.map(|b| raw(b.1)),
                "attacked": attacked.map(raw), "truth": series.target_mask[i].then(|| raw(series.target[i])),
                "normalised": {
                    "prediction": self.forecast.prediction[i], "low": band.map(|b| b.0), "high": band.map(|b| b.1),
                    "attacked": attacked, "truth": series.target_mask[i].then_some(series.target[i]),
                },
            })
        };
        let features: Vec<Value> =
            self.subject.set().names.features.iter().enumerate().map(feature).collect();
        let band = self.forecast.band.as_ref().ok();
        json!({
            "model": model, "record": series.id, "eps": eps, "question": self.subject.words(),
            "time": self.subject.set().raw_time(series.target_time), "verdict": self.verdict(),
            "mae": self.forecast.mae, "limit": self.forecast.limit, "certified_mae": self.forecast.certified,
            "margin": self.forecast.margin,
            "method": band.map(|_| &self.forecast.method),
            "attacked_mae": self.forecast.worst, "features": features,
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
