//! Classifiers: every way to bound them against points that try to leave the bounds.

use gains_core::model_file::write_model;
use gains_core::{Arithmetic, Precision};
use gains_ode::{Inference, Visit};
use gains_testkit::Choices;
use gains_testkit::grammar::ImageCase;

use crate::adapter::{self, Bounded, Decision, WAYS};
use crate::failure::{Failure, Kind, Subject, Tally};
use crate::points::{points, to_float32, value};
use crate::properties::property;

/// What a run in float64 may differ from the real number that a bound in real arithmetic is about: a little, and
/// more where the same run in float32 shows that rounding matters. A run in float32 *is* what its bound is about.
pub fn slack(arithmetic: Arithmetic, value: f64, size: f64, in_float32: impl Fn() -> Option<f64>) -> f64 {
    match arithmetic {
        Arithmetic::Real => {
            let rounding = in_float32().map_or(0.0, |other| (other - value).abs());
            1e-9 * (1.0 + size) + 1e-7 * rounding
        }
        Arithmetic::Float32 => 1e-15 * size,
    }
}

/// All margins of a label, every output from both sides, and a mixture.
pub fn rows(outputs: usize, label: Option<usize>) -> Vec<Vec<f64>> {
    let row = |entries: &[(usize, f64)]| {
        let mut row = vec![0.0; outputs];
        entries.iter().for_each(|&(i, x)| row[i] += x);
        row
    };
    let margins = label.into_iter().flat_map(|l| (0..outputs).filter(move |j| *j != l).map(move |j| (l, j)));
    let mut rows: Vec<Vec<f64>> = margins.map(|(l, j)| row(&[(l, 1.0), (j, -1.0)])).collect();
    rows.extend((0..outputs).flat_map(|i| [row(&[(i, 1.0)]), row(&[(i, -1.0)])]));
    rows.push((0..outputs).map(|i| 0.75 - 0.6 * i as f64).collect());
    rows
}

/// Whether a trajectory decides within rounding of a threshold: exact numbers may decide differently.
pub fn is_tie(trajectory: &[Visit]) -> bool {
    let close = |e: f64, t: f64| (e - t).abs() <= 1e-9 * t;
    trajectory.iter().any(|visit| {
        // Increases are allowed below α⁻ᵖ, a power of a whole number.
        let inverse = 1.0 / visit.error;
        close(visit.error, 1.0) || inverse < 1e9 && close(inverse, inverse.round())
    })
}

struct Shot<'a> {
    case: &'a ImageCase,
    subject: &'a adapter::Subject,
    rows: &'a [Vec<f64>],
    points: &'a [Vec<f64>],
    tally: Tally,
}

impl Shot<'_> {
    fn runs(&self, arithmetic: Arithmetic) -> (Vec<Vec<f64>>, Vec<Inference<'_>>) {
        let region = self.case.region();
        let precision = adapter::precision(arithmetic);
        let mut kept = Vec::new();
        let mut runs = Vec::new();
        for point in self.points {
            let point = match precision {
                Precision::Float64 => Some(point.clone()),
                Precision::Float32 => to_float32(point, &region),
            };
            let Some(point) = point else { continue };
            if let Ok(run) = Inference::run(self.subject.network(), &point, precision) {
                kept.push(point);
                runs.push(run);
            }
        }
        (kept, runs)
    }

    /// `row · output` of a point in float32.
    fn in_float32(&self, row: &[f64], point: &[f64]) -> Option<f64> {
        let run = Inference::run(self.subject.network(), point, Precision::Float32).ok()?;
        Some(value(row, &run.output))
    }

    fn compare(
        &mut self,
        way: &str,
        arithmetic: Arithmetic,
        bounded: &Bounded,
        (points, runs): &(Vec<Vec<f64>>, Vec<Inference<'_>>),
    ) -> Result<(), Failure> {
        for (point, run) in points.iter().zip(runs) {
            let size = run.output.iter().fold(0.0, |m: f64, y| m.max(y.abs()));
            self.tally.compared += self.rows.len();
            for (row, bound) in self.rows.iter().zip(&bounded.lower) {
                let reached = value(row, &run.output);
                if reached < bound - slack(arithmetic, reached, size, || None)
                    && reached < bound - slack(arithmetic, reached, size, || self.in_float32(row, point))
                {
                    let what = format!("{way}: {row:?} reaches {reached}, below {bound}, at {point:?}");
                    return Err(Failure::new(Kind::FalseBound, what));
                }
            }
            for (i, y) in run.output.iter().enumerate() {
                let mut row = vec![0.0; run.output.len()];
                row[i] = 1.0;
                let outside =
                    |slack: f64| *y < bounded.output.lower[i] - slack || *y > bounded.output.upper[i] + slack;
                if outside(slack(arithmetic, *y, size, || None))
                    && outside(slack(arithmetic, *y, size, || self.in_float32(&row, point)))
                {
                    let what = format!("{way}: output {i} is {y}, not in {:?}", bounded.output.get(i));
                    return Err(Failure::new(Kind::FalseBound, what));
                }
            }
        }
        for &run in &bounded.astray {
            if arithmetic == Arithmetic::Float32 || !runs[run].solutions().any(|s| is_tie(&s.trajectory)) {
                let what = format!("{way}: the run at {:?} is no path of its graph", points[run]);
                return Err(Failure::new(Kind::Astray, what));
            }
        }
        Ok(())
    }

    fn decide(
        &mut self,
        label: usize,
        arithmetic: Arithmetic,
        (points, runs): &(Vec<Vec<f64>>, Vec<Inference<'_>>),
    ) -> Result<(), Failure> {
        let odd = |what| Failure::new(Kind::Odd, what);
        let false_verdict = |what| Failure::new(Kind::FalseVerdict, what);
        let found = self.subject.decide(self.case, label, arithmetic, patience(self.case.seed));
        let (decision, margin) = found.map_err(odd)?;
        let margins = || self.rows.iter().take(self.subject.network().outputs() - 1);
        let claimed = match decision {
            Decision::Verified => Some(margin.unwrap_or(0.0).max(0.0)),
            Decision::Falsified(_) | Decision::Open => margin,
        };
        if let Some(claimed) = claimed {
            for (point, run) in points.iter().zip(runs) {
                let size = run.output.iter().fold(0.0, |m: f64, y| m.max(y.abs()));
                for row in margins() {
                    let reached = value(row, &run.output);
                    if reached < claimed - slack(arithmetic, reached, size, || self.in_float32(row, point)) {
                        let what = format!(
                            "auto, {arithmetic}: {row:?} reaches {reached}, claimed {claimed}, at {point:?}"
                        );
                        return Err(false_verdict(what));
                    }
                }
            }
        }
        match decision {
            Decision::Verified => self.tally.verified += 1,
            Decision::Falsified(witness) => {
                self.tally.falsified += 1;
                let region = gains_core::BoxVec::ball(&self.case.centre, self.case.radius, self.case.range);
                let run = Inference::run(self.subject.network(), &witness, adapter::precision(arithmetic));
                if !region.contains(&witness) || !run.is_ok_and(|run| run.prediction() != label) {
                    return Err(false_verdict(format!("auto, {arithmetic}: {witness:?} is no witness")));
                }
            }
            Decision::Open => {}
        }
        Ok(())
    }
}

impl Shot<'_> {
    /// The same for a property that is not about classes alone.
    fn decide_property(
        &mut self,
        nominal: &[f64],
        arithmetic: Arithmetic,
        (points, runs): &(Vec<Vec<f64>>, Vec<Inference<'_>>),
    ) -> Result<(), Failure> {
        let false_verdict = |what| Failure::new(Kind::FalseVerdict, what);
        let property = property(self.case.seed, nominal);
        let region = gains_verify::Region::ball(&self.case.centre, self.case.radius, self.case.range);
        let found =
            self.subject.decide_property(self.case, region, property.clone(), arithmetic, patience(1));
        let (decision, margin) = found.map_err(|what| Failure::new(Kind::Odd, what))?;
        let claimed = match decision {
            Decision::Verified => Some(margin.unwrap_or(0.0).max(0.0)),
            Decision::Falsified(_) | Decision::Open => margin,
        };
        for (point, run) in points.iter().zip(runs).filter(|_| claimed.is_some()) {
            let claimed = claimed.unwrap_or(f64::NEG_INFINITY);
            let reached = property.margin_at(&run.output);
            let sizes = property.rows(gains_core::Shape::flat(nominal.len()));
            let size = sizes.constant.iter().chain(&run.output).fold(0.0, |m: f64, y| m.max(y.abs()));
            let in_float32 = || {
                let run = Inference::run(self.subject.network(), point, Precision::Float32).ok()?;
                Some(property.margin_at(&run.output))
            };
            // Sums of a row are rounded here, too.
            let rounding = 1e-14 * size * nominal.len() as f64;
            if reached < claimed - rounding - slack(arithmetic, reached, size, in_float32) {
                let what = format!(
                    "auto, {arithmetic}: {property:?} has {reached}, claimed {claimed}, at {point:?}"
                );
                return Err(false_verdict(what));
            }
        }
        match decision {
            Decision::Verified => self.tally.verified += 1,
            Decision::Falsified(witness) => {
                self.tally.falsified += 1;
                let region = gains_core::BoxVec::ball(&self.case.centre, self.case.radius, self.case.range);
                let run = Inference::run(self.subject.network(), &witness, adapter::precision(arithmetic));
                if !region.contains(&witness) || !run.is_ok_and(|run| property.is_violated(&run.output)) {
                    return Err(false_verdict(format!(
                        "auto, {arithmetic}: {witness:?} breaks no {property:?}"
                    )));
                }
            }
            Decision::Open => {}
        }
        Ok(())
    }
}

/// Time for one verdict; now and then enough to distinguish many cases.
pub fn patience(seed: u64) -> f64 {
    if seed.is_multiple_of(16) { 0.3 } else { 0.02 }
}

impl Subject for ImageCase {
    const NAME: &'static str = "image";

    fn draw(choices: &mut Choices) -> Self {
        Self::draw(choices)
    }

    fn check(&self) -> Result<Tally, Failure> {
        let network = self.model.network();
        let nominal = Inference::run(&network, &self.centre, Precision::Float64).map(|run| run.output).ok();
        let label = nominal.as_deref().map(gains_verify::property::largest);
        let rows = rows(network.outputs(), label);
        let region = self.region();
        let points = points(&network, &region, &rows, &self.centre, self.seed);
        let subject = adapter::Subject::new(network);
        let tally = Tally { cases: 1, ..Tally::default() };
        let mut shot = Shot { case: self, subject: &subject, rows: &rows, points: &points, tally };
        for arithmetic in [Arithmetic::Real, Arithmetic::Float32] {
            let shooting = Shot { tally: Tally::default(), ..shot };
            let runs = shooting.runs(arithmetic);
            for way in WAYS {
                let name = format!("{:?} {:?}, {arithmetic}", way.0, way.1);
                let found = subject.bound(&region, &rows, way, arithmetic, &runs.1);
                match found.map_err(|what| Failure::new(Kind::Odd, format!("{name}: {what}")))? {
                    Some(bounded) => {
                        shot.tally.bounded += 1;
                        shot.compare(&name, arithmetic, &bounded, &runs)?;
                    }
                    None => shot.tally.gave_up += 1,
                }
            }
            if let (Some(label), Some(nominal)) = (label, &nominal) {
                shot.decide(label, arithmetic, &runs)?;
                if (self.seed.is_multiple_of(2)) == (arithmetic == Arithmetic::Real) {
                    shot.decide_property(nominal, arithmetic, &runs)?;
                }
            }
        }
        Ok(shot.tally)
    }

    fn file(&self) -> Option<Vec<u8>> {
        write_model(&self.model.description, &self.model.tensors).ok()
    }
}
