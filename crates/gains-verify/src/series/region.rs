//! Which series are considered: all that differ from a given one by little, in the entries that may differ.

use gains_core::arithmetic::{down, up};
use gains_core::description::Task;
use gains_core::{Arithmetic, BoxVec, Interval, SeriesEncoder};
use gains_ode::{Observations, SeriesProgram};

use crate::limits::Reason;
use crate::problem::Region;

/// How far one entry may move, in the units of the network.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Allowance {
    /// At most this far to either side; 0 for an entry that is exact.
    pub radius: f64,
    /// Where it stays. A given value beyond may move towards the range, not further away.
    pub range: Interval,
}

impl Allowance {
    /// An entry that does not move.
    pub const EXACT: Self = Self::within(0.0);

    /// An entry that moves freely within a radius.
    pub const fn within(radius: f64) -> Self {
        Self { radius, range: Interval::new(f64::NEG_INFINITY, f64::INFINITY) }
    }

    /// The interval around a value, rounded outwards before the clipping.
    fn around(&self, value: f64, arithmetic: Arithmetic) -> Interval {
        let mut interval = if self.radius.is_finite() {
            let reach = self.radius.max(0.0);
            let (low, high) =
                if reach == 0.0 { (value, value) } else { (down(value - reach), up(value + reach)) };
            Interval::new(low.max(self.range.lower).min(value), high.min(self.range.upper).max(value))
        } else {
            Interval::new(f64::NEG_INFINITY, f64::INFINITY)
        };
        if arithmetic == Arithmetic::Float32 {
            // A program that computes in float32 rounds what it is given first; rounding keeps the order.
            let rounded = |x: f64| f64::from(x as f32);
            interval = Interval::new(
                interval.lower.min(rounded(interval.lower)).min(rounded(value)),
                interval.upper.max(rounded(interval.upper)).max(rounded(value)),
            );
        }
        interval
    }

    /// What of the interval around a value is certainly allowed.
    fn inside(&self, value: f64) -> Interval {
        let reach = if self.radius.is_finite() { self.radius.max(0.0) } else { 0.0 };
        let low = up(value - reach).max(self.range.lower).min(value);
        let high = down(value + reach).min(self.range.upper).max(value);
        Interval::new(low, high)
    }
}

/// Which entries of a series may move, and how far. Only what is observed moves.
#[derive(Clone, Debug, PartialEq)]
pub struct Perturbation {
    /// By feature.
    pub features: Vec<Allowance>,
    /// By static entry.
    pub statics: Vec<Allowance>,
}

impl Perturbation {
    /// All features within `eps`, the statics exact.
    pub fn of_features(encoder: &SeriesEncoder, eps: f64) -> Self {
        Self {
            features: vec![Allowance::within(eps); encoder.features()],
            statics: vec![Allowance::EXACT; encoder.statics()],
        }
    }

    /// What a model file says of its task: the features and statics that are perturbed, within `eps`, each inside its
    /// range.
    pub fn of_task(task: &Task, eps: f64) -> Self {
        let Task::Forecasting { features, statics, ranges, perturbed, .. } = task else {
            return Self { features: Vec::new(), statics: Vec::new() };
        };
        let of = |name: &String, moves: bool| {
            let anywhere = [f64::NEG_INFINITY, f64::INFINITY];
            let [low, high] = ranges.get(name).copied().unwrap_or(anywhere);
            Allowance { radius: if moves { eps } else { 0.0 }, range: Interval::new(low, high) }
        };
        let listed = |name: &String| perturbed.as_ref().map(|all| all.contains(name));
        Self {
            features: features.iter().map(|name| of(name, listed(name).unwrap_or(true))).collect(),
            statics: statics.iter().map(|name| of(name, listed(name).unwrap_or(false))).collect(),
        }
    }

    /// The largest finite radius.
    pub fn reach(&self) -> f64 {
        let radii = self.features.iter().chain(&self.statics).map(|a| a.radius);
        radii.filter(|r| r.is_finite()).fold(0.0, f64::max)
    }

    /// All series considered, as inputs of a program. The lists must have the sizes of the network's.
    pub fn region(
        &self,
        program: &SeriesProgram,
        series: &Observations,
        arithmetic: Arithmetic,
    ) -> Result<Region, Reason> {
        let inputs = program.program().inputs();
        for (found, expected) in [
            (self.statics.len(), inputs.first().map_or(0, |input| input.shape.len())),
            (self.features.len(), series.values.len() / series.times.len().max(1)),
        ] {
            if found != expected && !(series.times.is_empty() && expected == 0) {
                return Err(Reason::InputSize { found, expected });
            }
        }
        let build = |interval: &dyn Fn(&Allowance, f64) -> Interval| -> Vec<BoxVec> {
            let statics =
                BoxVec::collect(series.statics.len(), |i| interval(&self.statics[i], series.statics[i]));
            let width = self.features.len();
            let seen = program.points().iter().map(|&point| {
                BoxVec::collect(width, |i| match series.mask[point * width + i] {
                    true => interval(&self.features[i], series.values[point * width + i]),
                    false => Interval::point(0.0),
                })
            });
            std::iter::once(statics).chain(seen).collect()
        };
        Ok(Region {
            outer: build(&|allowance, value| allowance.around(value, arithmetic)),
            inner: build(&Allowance::inside),
            radius: self.reach(),
            ball: None,
            paces: Vec::new(),
        })
    }
}

#[cfg(test)]
mod tests {
    use gains_core::LatentOde;
    use gains_core::description::{Points, RungeKutta};
    use gains_core::latent_ode::tensor_shapes;
    use gains_core::operator::blend::Blend;
    use gains_testkit::{Model, fixed, names};

    use super::*;

    fn series() -> Observations {
        Observations {
            statics: vec![1.0, -2.0],
            times: vec![0.0, 0.5],
            values: vec![0.25, 0.95, 7.0, 1.5],
            mask: vec![true, true, false, true],
            target_time: 1.0,
        }
    }

    /// Any network for that series, laid out; the weights do not matter.
    fn program(series: &Observations) -> SeriesProgram {
        let sizes =
            LatentOde { state: 1, dynamics: (1, 1), gates: 1, transform: 1, latent: 1, decoder: (1, 1) };
        let description = sizes.description(
            names(2),
            vec!["s".into(), "t".into()],
            Points::All,
            fixed(RungeKutta::Euler, 1),
        );
        let zeros = |shape: Vec<usize>| (shape.clone(), vec![0.0; shape.iter().product()]);
        let tensors =
            tensor_shapes(&description).into_iter().map(|(name, shape)| (name, zeros(shape))).collect();
        let network = Model { description, tensors }.network();
        SeriesProgram::new(&network, series, Blend::Exact).unwrap()
    }

    /// The interval of an entry of a series.
    fn entry(boxes: &[BoxVec], program: &SeriesProgram, point: usize, feature: usize) -> Interval {
        let at = program.points().iter().position(|p| *p == point).expect("all points are stops");
        boxes[1 + at].get(feature)
    }

    #[test]
    fn only_what_is_allowed_moves() {
        let ratio = Allowance { radius: 0.125, range: Interval::new(0.0, 1.0) };
        let perturbation = Perturbation {
            features: vec![Allowance::within(0.5), ratio],
            statics: vec![Allowance::EXACT, Allowance::within(1.0)],
        };
        let series = series();
        let program = program(&series);
        let region = perturbation.region(&program, &series, Arithmetic::Real).unwrap();
        let statics = &region.outer[0];
        assert_eq!(statics.get(0), Interval::point(1.0));
        assert!(statics.lower[1] <= -3.0 && statics.upper[1] >= -1.0);
        let value = |point, feature| entry(&region.outer, &program, point, feature);
        assert!(value(0, 0).lower <= -0.25 && value(0, 0).lower > -0.2500001);
        assert_eq!(value(0, 1).upper, 1.0, "clipped");
        assert_eq!(value(1, 0), Interval::point(0.0), "not observed");
        assert_eq!(value(1, 1).upper, 1.5, "the given value stays, even out of range");
        assert!(region.contains(&program.inputs(&series)));
        for (outer, inner) in region.outer.iter().zip(&region.inner) {
            for i in 0..outer.len() {
                assert!(outer.lower[i] <= inner.lower[i] && inner.upper[i] <= outer.upper[i]);
            }
        }
    }

    #[test]
    fn float32_programs_round_what_they_are_given() {
        let mut series = series();
        series.values[0] = 0.1;
        series.statics[0] = -0.7;
        let exact = Perturbation { features: vec![Allowance::EXACT; 2], statics: vec![Allowance::EXACT; 2] };
        let mut rounded = series.clone();
        rounded.values[0] = f64::from(0.1_f32);
        rounded.statics[0] = f64::from(-0.7_f32);
        let program = program(&series);
        let holds = |arithmetic, series: &Observations, given: &Observations| {
            let region = exact.region(&program, series, arithmetic).unwrap();
            region.outer.iter().zip(&program.inputs(given)).all(|(b, x)| b.contains(x))
        };
        assert!(!holds(Arithmetic::Real, &series, &rounded));
        assert!(
            holds(Arithmetic::Float32, &series, &series) && holds(Arithmetic::Float32, &series, &rounded)
        );
    }

    #[test]
    fn a_radius_that_is_nan_allows_everything() {
        let perturbation = Perturbation {
            features: vec![Allowance::within(f64::NAN); 2],
            statics: vec![Allowance::within(f64::INFINITY); 2],
        };
        let series = series();
        let region = perturbation.region(&program(&series), &series, Arithmetic::Real).unwrap();
        assert!(region.outer.iter().all(|b| !b.is_sane()));
    }

    #[test]
    fn allowances_fit_the_series() {
        let series = series();
        let program = program(&series);
        for (features, statics) in [(1, 2), (2, 1), (3, 2), (0, 0)] {
            let wrong = Perturbation {
                features: vec![Allowance::EXACT; features],
                statics: vec![Allowance::EXACT; statics],
            };
            let refused = wrong.region(&program, &series, Arithmetic::Real);
            assert!(matches!(refused, Err(Reason::InputSize { .. })), "{features} {statics}");
        }
    }

    #[test]
    fn what_the_model_file_says_of_ranges_and_moves_holds() {
        let task = |perturbed: Option<Vec<&str>>| Task::Forecasting {
            features: vec!["a".into(), "b".into()],
            statics: vec!["s".into(), "t".into()],
            horizon: None,
            ranges: [("b".to_string(), [0.0, 1.0]), ("t".to_string(), [-2.0, 2.0])].into(),
            perturbed: perturbed.map(|names| names.into_iter().map(String::from).collect()),
        };
        let all = |p: &Perturbation| -> Vec<(f64, f64, f64)> {
            let one = |a: &Allowance| (a.radius, a.range.lower, a.range.upper);
            p.features.iter().chain(&p.statics).map(one).collect()
        };
        let (low, high) = (f64::NEG_INFINITY, f64::INFINITY);
        let usual = Perturbation::of_task(&task(None), 0.5);
        assert_eq!(all(&usual), [(0.5, low, high), (0.5, 0.0, 1.0), (0.0, low, high), (0.0, -2.0, 2.0)]);
        let listed = Perturbation::of_task(&task(Some(vec!["b", "t"])), 0.5);
        assert_eq!(all(&listed), [(0.0, low, high), (0.5, 0.0, 1.0), (0.0, low, high), (0.5, -2.0, 2.0)]);
    }
}
