//! Classifiers over balls of other norms: bounds and verdicts against points of the ball.

use gains_core::model_file::write_model;
use gains_core::{Arithmetic, Precision};
use gains_ode::Inference;
use gains_testkit::Choices;
use gains_testkit::grammar::ImageCase;
use gains_verify::{Norm, Region};

use crate::adapter::{self, Decision, WAYS};
use crate::failure::{Failure, Kind, Subject, Tally};
use crate::images::{patience, rows, slack};
use crate::points::{points, value};

/// A classifier and a ball of its inputs.
#[derive(Clone, Debug)]
pub struct BallCase {
    case: ImageCase,
}

impl std::fmt::Display for BallCase {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "norm {}: {}", self.norm(), self.case)
    }
}

impl BallCase {
    fn norm(&self) -> Norm {
        if self.case.seed.is_multiple_of(2) { Norm::Two } else { Norm::One }
    }

    /// The ball, with scales that differ now and then, cut by the range.
    fn region(&self) -> Region {
        let ImageCase { centre, radius, free, range, seed, .. } = &self.case;
        let scale = |i: usize| match (free[i], seed % 3) {
            (false, _) => 0.0,
            (true, 0) => radius * (1.0 + i as f64) / centre.len() as f64,
            (true, _) => *radius,
        };
        let scales: Vec<f64> = (0..centre.len()).map(scale).collect();
        Region::around(centre, &scales, &vec![*range; centre.len()], self.norm())
    }

    /// Points of the ball as a program of some precision takes them: those of the box drawn into it, and where each row
    /// is least to first order.
    fn points(&self, network: &gains_core::Network, region: &Region, rows: &[Vec<f64>]) -> Vec<Vec<f64>> {
        let ImageCase { centre, seed, .. } = &self.case;
        let mut all = points(network, &region.outer[0], rows, centre, *seed);
        let ball = region.ball.as_ref().expect("a ball");
        if let Ok(run) = Inference::run(network, centre, Precision::Float64) {
            all.extend(rows.iter().map(|row| ball.least(&run.pull_back(row))));
        }
        all
    }
}

impl Subject for BallCase {
    const NAME: &'static str = "ball";

    fn draw(choices: &mut Choices) -> Self {
        Self { case: ImageCase::draw(choices) }
    }

    fn check(&self) -> Result<Tally, Failure> {
        let network = self.case.model.network();
        let nominal =
            Inference::run(&network, &self.case.centre, Precision::Float64).map(|run| run.prediction());
        let rows = rows(network.outputs(), nominal.as_ref().ok().copied());
        let region = self.region();
        let tried = self.points(&network, &region, &rows);
        let subject = adapter::Subject::new(network);
        let mut tally = Tally { cases: 1, ..Tally::default() };
        for arithmetic in [Arithmetic::Real, Arithmetic::Float32] {
            let precision = adapter::precision(arithmetic);
            let mut reached = Vec::new();
            for point in &tried {
                let mut inside = vec![point.clone()];
                region.settle(&mut inside, precision);
                let run = Inference::run(subject.network(), &inside[0], precision);
                if let (true, Ok(run)) = (region.contains(&inside), run) {
                    let rough = Inference::run(subject.network(), &inside[0], Precision::Float32);
                    reached.push((inside.remove(0), run.output, rough.ok().map(|run| run.output)));
                }
            }
            let below = |row: &[f64], bound: f64| {
                reached.iter().find_map(|(point, output, rough)| {
                    let (found, size) =
                        (value(row, output), output.iter().fold(0.0, |m: f64, y| m.max(y.abs())));
                    let other = || rough.as_ref().map(|output| value(row, output));
                    (found < bound - slack(arithmetic, found, size, other))
                        .then(|| format!("{row:?} reaches {found}, below {bound}, at {point:?}"))
                })
            };
            for way in WAYS {
                let name = format!("{:?} {:?}, {arithmetic}", way.0, way.1);
                let found = subject.bound_region(&region, &rows, way, arithmetic, &[]);
                let Some(bounded) =
                    found.map_err(|what| Failure::new(Kind::Odd, format!("{name}: {what}")))?
                else {
                    tally.gave_up += 1;
                    continue;
                };
                tally.bounded += 1;
                tally.compared += rows.len() * reached.len();
                for (row, bound) in rows.iter().zip(&bounded.lower) {
                    if let Some(what) = below(row, *bound) {
                        return Err(Failure::new(Kind::FalseBound, format!("{name}: {what}")));
                    }
                }
            }
            let Ok(label) = nominal else { continue };
            let seconds = patience(self.case.seed);
            let decided = subject.decide_region(&self.case, region.clone(), label, arithmetic, seconds);
            let (decision, margin) = decided.map_err(|what| Failure::new(Kind::Odd, what))?;
            let claimed = match decision {
                Decision::Verified => Some(margin.unwrap_or(0.0).max(0.0)),
                _ => margin,
            };
            for row in rows.iter().take(subject.network().outputs() - 1) {
                if let Some(what) = claimed.and_then(|claimed| below(row, claimed)) {
                    return Err(Failure::new(Kind::FalseVerdict, format!("auto, {arithmetic}: {what}")));
                }
            }
            match decision {
                Decision::Verified => tally.verified += 1,
                Decision::Falsified(witness) => {
                    tally.falsified += 1;
                    let run = Inference::run(subject.network(), &witness, precision);
                    let inside = region.contains(&vec![witness.clone()]);
                    if !inside || !run.is_ok_and(|run| run.prediction() != label) {
                        let what = format!("auto, {arithmetic}: {witness:?} is no witness");
                        return Err(Failure::new(Kind::FalseVerdict, what));
                    }
                }
                Decision::Open => {}
            }
        }
        Ok(tally)
    }

    fn file(&self) -> Option<Vec<u8>> {
        write_model(&self.case.model.description, &self.case.model.tensors).ok()
    }
}
