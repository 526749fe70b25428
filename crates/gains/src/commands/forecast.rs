//! `gains forecast`: one record's prediction, its certified band, and the worst an attack finds.

mod picture;

use gains_core::BoxVec;
use serde_json::{Value, json};

use crate::campaign::{budget, watch};
use crate::cli::{BoundArgs, ForecastArgs, Global};
use crate::failure::{Failure, Outcome};
use crate::question::{
    AttackPlan, Findings, Forecasted, Model, Plan, Purpose, Reason, Sample, Task, Verdict, precision_of,
};
use crate::subject::{Item, SeriesSource, SeriesSubject};
use crate::table::layout;
use crate::{files, interrupt, panics, tell};

/// Runs the command.
pub fn run(args: &ForecastArgs, global: &Global) -> Outcome {
    let model = Model::new(files::load_model(Some(&args.model))?);
    if model.task() == Task::Classes {
        let name = args.model.display();
        return Err(Failure::usage(format!("'{name}' classifies images, it does not forecast"))
            .hint("choose a forecasting model; for images there is `gains predict`"));
    }
    let attack = AttackPlan { steps: args.steps, ..AttackPlan::PAPER };
    let bounds = BoundArgs { method: args.method, step_form: None, arithmetic: args.arithmetic };
    let plan = Plan::new(model.task(), &bounds, Some(attack), Purpose::Evaluate)?;
    let source = SeriesSource::open(&args.series, args.data_dir.as_deref())?;
    let subject = SeriesSubject::new(&source, &model, None, &args.series, &args.region)?;
    let plotted = subject.set().names.features_of(&args.plot)?;
    let forecast = panics::contain(|| Forecast::make(args, &plan, &subject, &model));
    let forecast = forecast.map_err(|caught| {
        Failure::new(format!("record {}: gains panicked: {caught}", args.record))
            .hint("please report it with the model and the record")
    })??;
    if interrupt::requested() {
        tell::note("interrupted; nothing was written");
        return Ok(());
    }
    let view = View { subject: &subject, forecast: &forecast };
    tell::print(&view.text())?;
    if let Some(path) = &args.json {
        let value = view.json(&model.network().hash, args.eps);
        files::write_atomically(path, (value.to_string() + "\n").as_bytes())?;
    }
    if let Some(path) = &args.svg {
        files::write_atomically(path, picture::draw(&view, &plotted)?.as_bytes())?;
    }
    tell::written(args.json.iter().chain(&args.svg), global.quiet);
    Ok(())
}

/// Everything that is known about one record.
struct Forecast {
    item: Item,
    title: String,
    /// How far each feature may move.
    radii: Vec<f64>,
    prediction: Vec<f64>,
    mae: f64,
    limit: f64,
    verdict: Verdict,
    /// Proved: the error stays at or below this.
    certified: Option<f64>,
    /// On the scale of the network.
    band: Result<BoxVec, Reason>,
    /// What made it.
    method: String,
    /// Predictions for the worst series found, and their error.
    attacked: Option<(Vec<f64>, f64)>,
}

impl Forecast {
    /// Everything from one look of the verifier: the band, the verdict, and the worst an attack finds.
    fn make(
        args: &ForecastArgs,
        plan: &Plan,
        subject: &SeriesSubject<'_>,
        model: &Model,
    ) -> Result<Self, Failure> {
        let (part, index) = subject.set().find(&args.record)?;
        panics::provoke(index);
        let (item, question) = subject.ask(part, index, args.eps);
        let radii = match &question.sample {
            Sample::Series { perturbation, .. } => perturbation.features.iter().map(|a| a.radius).collect(),
            Sample::Image { .. } => Vec::new(),
        };
        let fail = |what: String| {
            Failure::new(format!("record {}: {what}", args.record))
                .hint("`gains model show` tells how it is solved")
        };
        let precision = precision_of(args.arithmetic.into());
        let run = question.run(precision, &watch()).map_err(fail)?;
        let Forecasted { answer, band, attacked } =
            question.forecast(plan, budget(&args.work)).map_err(|reason| fail(reason.to_string()))?;
        let Findings::Forecasts { mae: Some(mae), limit: Some(limit), certified, .. } = answer.findings
        else {
            return Err(fail("the prediction is NaN or infinite".into()));
        };
        let certified = certified.filter(|_| band.is_ok());
        let name = &model.network().description.name;
        let title = format!("{name}, record {} ({part}), eps {}", args.record, args.eps);
        // The method that made the band: the last that bounded.
        let bounds = answer.stages.iter().rev().find(|stage| stage.name != "attack");
        let method = bounds.map_or_else(String::new, |stage| stage.name.clone());
        let prediction = run.output;
        let verdict = answer.verdict;
        Ok(Self { item, title, radii, prediction, mae, limit, verdict, certified, band, method, attacked })
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
            let attacked =
                self.forecast.attacked.as_ref().map(|(output, _)| shown(raw(output[i]), f64::round));
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
        text.push_str(&format!(
            "mean absolute error {:.4}, limit {:.4}",
            self.forecast.mae, self.forecast.limit
        ));
        if let (Some(certified), Ok(_)) = (self.forecast.certified, &self.forecast.band) {
            text.push_str(&format!(", certified {certified:.4} ({})", self.forecast.method));
        }
        if let Some((_, error)) = &self.forecast.attacked {
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
            let attacked = self.forecast.attacked.as_ref().map(|(output, _)| output[i]);
            json!({
                "name": name, "observed": self.observed(i), "eps": self.forecast.radii[i],
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
            "method": band.map(|_| &self.forecast.method),
            "attacked_mae": self.forecast.attacked.as_ref().map(|a| a.1), "features": features,
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
