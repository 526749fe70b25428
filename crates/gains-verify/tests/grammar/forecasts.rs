//! Latent ODEs: every way to bound forecasts against series that try to leave the bounds.

use gains_core::model_file::write_model;
use gains_core::{Arithmetic, Precision};
use gains_ode::{Forecast, Observations, mean_absolute_error};
use gains_testkit::Choices;
use gains_testkit::grammar::ForecastCase;
use gains_verify::{Point, Region};

use crate::adapter::{self, Bounded, Decision, SERIES_WAYS, SeriesSubject};
use crate::failure::{Failure, Kind, Subject, Tally};
use crate::images::{is_tie, patience, rows, slack};
use crate::points::{descend, scatter, to_float32, value};

/// Series that do not follow a gradient.
const BLIND: usize = 16;

/// Inputs of a region, those of the given series first.
fn points(
    subject: &SeriesSubject<'_>,
    region: &Region,
    case: &ForecastCase,
    rows: &[Vec<f64>],
) -> Vec<Point> {
    let mut random = fastrand::Rng::with_seed(case.seed);
    let mut scattered = || -> Point { region.inner.iter().map(|b| scatter(&mut random, b)).collect() };
    let mut points = vec![subject.given()];
    points.extend((0..BLIND).map(|_| scattered()));
    for (row, start) in rows.iter().flat_map(|row| [(row, false), (row, true)]) {
        let mut point = if start { scattered() } else { subject.given() };
        for step in 0..if start { 4 } else { 2 } {
            let Some(gradients) = subject.gradients(&point, row) else { break };
            let part = if start { 0.5_f64.powi(step + 1) } else { 1.0 };
            for ((x, gradient), allowed) in point.iter_mut().zip(&gradients).zip(&region.inner) {
                descend(x, gradient, allowed, part);
            }
            points.push(point.clone());
        }
    }
    points
}

struct Shot<'a> {
    case: &'a ForecastCase,
    subject: &'a SeriesSubject<'a>,
    rows: &'a [Vec<f64>],
    arithmetic: Arithmetic,
    runs: Vec<(Observations, Forecast)>,
}

impl<'a> Shot<'a> {
    fn new(
        case: &'a ForecastCase,
        subject: &'a SeriesSubject<'a>,
        rows: &'a [Vec<f64>],
        arithmetic: Arithmetic,
        (region, points): (&Region, &[Point]),
    ) -> Self {
        let precision = adapter::precision(arithmetic);
        let rounded = |point: &Point| -> Option<Point> {
            point.iter().zip(&region.inner).map(|(x, allowed)| to_float32(x, allowed)).collect()
        };
        let settle = |point: &Point| match precision {
            Precision::Float64 => Some(subject.series(point)),
            Precision::Float32 => rounded(point).map(|point| subject.series(&point)),
        };
        let inside = |point: &Observations| subject.contains(point, arithmetic);
        let run =
            |point: Observations| subject.forecaster.run(&point, precision).ok().map(|run| (point, run));
        let runs = points.iter().filter_map(settle).filter(inside).filter_map(run).collect();
        Self { case, subject, rows, arithmetic, runs }
    }

    /// What rounding may have to do with a number that a run has given.
    fn slack(&self, number: f64, size: f64, point: &Observations, of: impl Fn(&[f64]) -> f64) -> f64 {
        slack(self.arithmetic, number, size, || {
            let run = self.subject.forecaster.run(point, Precision::Float32).ok()?;
            Some(of(run.output()))
        })
    }

    fn error(&self, output: &[f64]) -> f64 {
        mean_absolute_error(output, &self.case.truth, &vec![true; output.len()])
    }

    fn compare(&self, way: &str, bounded: &Bounded, worst: f64) -> Result<usize, Failure> {
        let fail = |what: String| Err(Failure::new(Kind::FalseBound, format!("{way}: {what}")));
        for (point, run) in &self.runs {
            let output = run.output();
            let size = output.iter().fold(0.0, |m: f64, y| m.max(y.abs()));
            for (row, bound) in self.rows.iter().zip(&bounded.lower) {
                let reached = value(row, output);
                if reached < *bound && reached < bound - self.slack(reached, size, point, |y| value(row, y)) {
                    return fail(format!("{row:?} reaches {reached}, below {bound}, at {point:?}"));
                }
            }
            for (i, y) in output.iter().enumerate() {
                let x = bounded.output.get(i);
                let out = (x.lower - y).max(y - x.upper);
                if out > 0.0 && out > self.slack(*y, size, point, |y| y[i]) {
                    return fail(format!("output {i} is {y}, not in {x:?}, at {point:?}"));
                }
            }
            let error = self.error(output);
            if error > worst
                && error > worst + self.slack(error, size, point, |y| self.error(y)) + 1e-15 * error
            {
                return fail(format!("the error reaches {error}, above {worst}, at {point:?}"));
            }
        }
        for &run in &bounded.astray {
            let (point, run) = &self.runs[run];
            if self.arithmetic == Arithmetic::Float32 || !run.trajectory().is_some_and(is_tie) {
                return Err(Failure::new(Kind::Astray, format!("{way}: {point:?} is no path of its graph")));
            }
        }
        Ok(self.runs.len() * (self.rows.len() + 1))
    }

    fn decide(&self, tally: &mut Tally) -> Result<(), Failure> {
        let odd = |what| Failure::new(Kind::Odd, what);
        let (decision, limit) =
            self.subject.decide(self.arithmetic, patience(self.case.seed)).map_err(odd)?;
        match decision {
            Decision::Verified => {
                tally.verified += 1;
                let limit = limit.unwrap_or(f64::NEG_INFINITY);
                for (point, run) in &self.runs {
                    let error = self.error(run.output());
                    if error >= limit && error >= limit + self.slack(error, error, point, |y| self.error(y)) {
                        let what = format!("auto: the error reaches {error}, claimed {limit}, at {point:?}");
                        return Err(Failure::new(Kind::FalseVerdict, what));
                    }
                }
            }
            Decision::Falsified(witness) => {
                tally.falsified += 1;
                let run = self.subject.forecaster.run(&witness, adapter::precision(self.arithmetic));
                let error = run.map_or(f64::NEG_INFINITY, |run| self.error(run.output()));
                let inside = self.subject.contains(&witness, self.arithmetic);
                if !inside || error < limit.unwrap_or(f64::INFINITY) {
                    return Err(Failure::new(Kind::FalseVerdict, format!("auto: {witness:?} is no witness")));
                }
            }
            Decision::Open => {}
        }
        Ok(())
    }
}

impl Subject for ForecastCase {
    const NAME: &'static str = "forecast";

    fn draw(choices: &mut Choices) -> Self {
        Self::draw(choices)
    }

    fn check(&self) -> Result<Tally, Failure> {
        let network = self.model.network();
        let mut tally = Tally { cases: 1, ..Tally::default() };
        let odd = |what| Failure::new(Kind::Odd, what);
        let subject = SeriesSubject::new(&network, self).map_err(odd)?;
        let rows = rows(network.outputs(), None);
        let region = subject.region(Arithmetic::Real).map_err(odd)?;
        let points = points(&subject, &region, self, &rows);
        for arithmetic in [Arithmetic::Real, Arithmetic::Float32] {
            let shot = Shot::new(self, &subject, &rows, arithmetic, (&region, &points));
            for way in SERIES_WAYS {
                let name = format!("{way:?}, {arithmetic}");
                let runs: Vec<&Forecast> = shot.runs.iter().map(|(_, run)| run).collect();
                let found = subject.bound(&rows, way, arithmetic, &runs);
                match found.map_err(|what| odd(format!("{name}: {what}")))? {
                    Some((bounded, worst)) => {
                        tally.bounded += 1;
                        tally.compared += shot.compare(&name, &bounded, worst)?;
                    }
                    None => tally.gave_up += 1,
                }
            }
            shot.decide(&mut tally)?;
        }
        Ok(tally)
    }

    fn file(&self) -> Option<Vec<u8>> {
        write_model(&self.model.description, &self.model.tensors).ok()
    }
}
