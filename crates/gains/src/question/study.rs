//! What studies ask besides: other solvers, points of the region, attacks on decisions.

use gains_core::{Arithmetic, Network, Precision, Step};
use gains_ode::{Inference, Watch};
use gains_verify::decisions::Decisions;
use gains_verify::{Clock, Point};

pub use gains_verify::decisions::{DecisionAttack, Until};

use super::{AttackPlan, Budget, Question, Sample, Struck};

/// A point of a region.
pub struct Drawn(pub Point);

/// The first ODE block of a run.
pub struct States {
    /// Before it.
    pub start: Vec<f64>,
    /// Behind it.
    pub end: Vec<f64>,
    /// Trial steps in it.
    pub steps: usize,
}

/// Where an attack on step sizes made the solver take other steps.
pub struct Changed {
    /// At some iterate.
    pub anywhere: bool,
    /// At the end of a schedule.
    pub at_end: bool,
}

impl Question<'_> {
    /// The same sample, region and property asked of another network.
    pub fn asked_of<'b>(self, network: &'b Network) -> Question<'b> {
        Question { network, sample: self.sample }
    }

    /// The states before and behind the first ODE block.
    pub fn states(&self, watch: &Watch<'_>) -> Result<States, String> {
        let Sample::Values { values, .. } = &self.sample else { return Err("a series has no image".into()) };
        let run = Inference::run_within(&self.network.body, &[values], Precision::Float64, watch)
            .map_err(|error| error.to_string())?;
        let ode = self.network.body.nodes().find(|(_, node)| matches!(node.operator, Step::Ode(_)));
        let (value, node) = ode.ok_or("the network has no ODE block")?;
        let steps = run.solutions().next().map_or(0, |solution| solution.trajectory.len());
        Ok(States { start: run.values[node.from[0]].clone(), end: run.values[value].clone(), steps })
    }

    /// Points of the region, the first of them the sample itself.
    pub fn draw(&self, count: usize, seed: u64) -> Result<Vec<Drawn>, String> {
        let Sample::Values { values, region, .. } = &self.sample else {
            return Err("points are drawn for inputs of fixed size only".into());
        };
        let mut random = fastrand::Rng::with_seed(seed);
        let mut points = vec![Drawn(vec![values.clone()])];
        while points.len() < count {
            let inside = region.inner.iter();
            let mut point: Point = inside
                .map(|b| b.lower.iter().zip(&b.upper).map(|(l, u)| l + random.f64() * (u - l)).collect())
                .collect();
            region.settle(&mut point, Precision::Float64);
            points.push(Drawn(point));
        }
        Ok(points)
    }

    /// Whether an image keeps its class under the paper's attack.
    pub fn withstands(&self, sample: usize, budget: Budget<'_>) -> bool {
        let attack = AttackPlan::PAPER.on(sample as u64);
        match self.attack(&attack, Precision::Float64, budget) {
            Struck::Classes { broken, margin, .. } => broken.is_none() && margin > 0.0,
            Struck::Regression { .. } | Struck::Forecasts { .. } => false,
        }
    }

    /// Whether an attack makes the solver take other steps.
    pub fn change_trajectory(
        &self,
        attack: &DecisionAttack,
        precision: Precision,
        budget: Budget<'_>,
    ) -> Result<Changed, String> {
        let clock = Clock::start(budget);
        let run = self.run(precision, &clock.watch())?;
        let found = self.with_problem(Arithmetic::Real, clock, |problem| {
            Decisions::new(problem, precision, clock).map(|decisions| decisions.attack(attack))
        });
        match found.map_err(|reason| reason.to_string())? {
            Some(found) if !run.trajectory().is_empty() => {
                Ok(Changed { anywhere: found.anywhere.is_some(), at_end: found.at_end.is_some() })
            }
            _ => Err("the network has no ODE block whose steps are decided on a grid".into()),
        }
    }
}
