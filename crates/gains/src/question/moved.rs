//! What broke a property at one radius, tried at another.

use gains_core::Arithmetic;
use gains_core::operator::blend::Blend;
use gains_ode::{Inference, Observations, SeriesProgram};
use gains_verify::{Budget, Clock, Point};

use super::{Question, Sample, Witness, precision_of};

impl Question<'_> {
    /// A witness of another radius, moved into this region, if it breaks the property there. It is run by the concrete
    /// solver.
    pub fn broken_by(
        &self,
        witness: &Witness,
        arithmetic: Arithmetic,
        budget: Budget<'_>,
    ) -> Option<Witness> {
        let clock = Clock::start(budget);
        let mut point = self.point(witness)?;
        let precision = precision_of(arithmetic);
        let breaks = self.with_problem(arithmetic, clock, |problem| {
            problem.region.settle(&mut point, precision);
            let inputs: Vec<&[f64]> = point.iter().map(Vec::as_slice).collect();
            let run = Inference::run_within(problem.program, &inputs, precision, &clock.watch());
            let run = run.and_then(Inference::certain);
            problem.region.contains(&point) && run.is_ok_and(|run| problem.property.is_violated(&run.output))
        });
        breaks.is_ok_and(|breaks| breaks).then(|| self.witness(point))
    }

    /// A witness as inputs of the network.
    fn point(&self, witness: &Witness) -> Option<Point> {
        match (&self.sample, witness) {
            (Sample::Values { values, .. }, Witness::Values(found)) => {
                (found.len() == values.len()).then(|| vec![found.clone()])
            }
            (Sample::Series { observations, .. }, Witness::Series { statics, times, values }) => {
                let moved = Observations {
                    statics: statics.clone(),
                    times: times.clone(),
                    values: values.clone(),
                    ..observations.clone()
                };
                let fits = moved.times.len() == observations.times.len()
                    && moved.values.len() == observations.values.len()
                    && moved.statics.len() == observations.statics.len();
                let program = SeriesProgram::new(self.network, observations, Blend::Exact).ok()?;
                fits.then(|| program.inputs(&moved))
            }
            _ => None,
        }
    }
}
