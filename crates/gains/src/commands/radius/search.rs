//! Looking for the largest radius that can be certified and the smallest that can be attacked.
//!
//! Regions grow with their radius: what holds at one radius holds at every smaller one, and an input that breaks the
//! property at one does so at every larger one. So both are found by bisection, and what an attack finds at one radius is
//! tried at smaller ones, moved into their regions, before anything else is.

use crate::cli::BisectArg;
use crate::question::Reason;

/// What came of one radius.
#[derive(Clone, Debug, PartialEq)]
pub enum Found {
    /// The property holds there.
    Verified {
        /// Smallest certified margin.
        margin: Option<f64>,
    },
    /// It does not.
    Falsified,
    /// Neither could be shown.
    Unknown(Reason),
    /// The sample itself breaks it.
    Wrong,
}

/// Looks at radii of one sample.
pub trait Probe {
    /// Whether there is time for another look; some of it is kept for attacks.
    fn has_time(&self, attacks: bool) -> bool;
    /// All that can be said about a radius.
    fn decide(&mut self, radius: f64) -> Found;
    /// Whether the last input that was found to break the property does so moved into the region of a smaller radius.
    fn project(&mut self, radius: f64) -> bool;
    /// Whether an attack finds an input that breaks the property.
    fn attack(&mut self, radius: f64) -> bool;
}

/// Which radii are looked at.
#[derive(Clone, Copy, Debug)]
pub struct Range {
    /// The largest.
    pub max: f64,
    /// How close bounds must come.
    pub gap: f64,
    /// Where intervals are divided.
    pub bisect: BisectArg,
}

/// Below this part of the largest radius nothing is looked for.
const SMALLEST: f64 = 1e-9;

impl Range {
    /// A radius between two others; none if they are close.
    fn between(&self, low: f64, high: f64) -> Option<f64> {
        let (close, middle) = match self.bisect {
            BisectArg::Plain => (high - low <= self.gap * self.max, 0.5 * (low + high)),
            BisectArg::Log if low == 0.0 => (false, high / 8.0),
            BisectArg::Log => (high <= low * (1.0 + self.gap), (low * high).sqrt()),
        };
        let inside = low < middle && middle < high && high > SMALLEST * self.max;
        (!close && inside).then_some(middle)
    }
}

/// What is known of the radii of a sample.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Radii {
    /// The property holds for all changes of at most this size.
    pub certified: f64,
    /// Its smallest certified margin there.
    pub margin: Option<f64>,
    /// A change of this size breaks it.
    pub attacked: Option<f64>,
    /// Whether the sample itself breaks it.
    pub wrong: bool,
    /// Why the smallest radius that is not certified is not.
    pub reason: Option<Reason>,
    /// Radii that were looked at by everything there is.
    pub probes: usize,
}

/// Finds both radii. `start` is where to look first.
pub fn search(range: Range, start: Option<f64>, probe: &mut impl Probe) -> Radii {
    let mut radii = Radii::default();
    let mut open = certify(range, start, probe, &mut radii);
    if radii.wrong || radii.certified >= range.max {
        return radii;
    }
    // Attacks between what could not be certified and what is known to be broken.
    while probe.has_time(true) {
        let radius = match radii.attacked {
            None => range.max,
            Some(attacked) => match range.between(open, attacked) {
                Some(radius) => radius,
                None => break,
            },
        };
        if probe.attack(radius) {
            radii.attacked = Some(shrink(range, radii.certified, radius, probe));
        } else if radii.attacked.is_none() {
            break;
        } else {
            open = radius;
        }
    }
    radii
}

/// Raises the certified radius as far as it goes; the smallest radius that could not be certified.
fn certify(range: Range, start: Option<f64>, probe: &mut impl Probe, radii: &mut Radii) -> f64 {
    let usual = range.between(0.0, range.max).unwrap_or(range.max);
    let mut radius = start.filter(|start| *start > 0.0).unwrap_or(usual).min(range.max);
    let mut open: Option<f64> = None;
    while probe.has_time(false) {
        radii.probes += 1;
        let broken = radii.attacked.is_some() && probe.project(radius);
        match if broken { Found::Falsified } else { probe.decide(radius) } {
            Found::Verified { margin } => (radii.certified, radii.margin) = (radius, margin),
            Found::Falsified => {
                let attacked = shrink(range, radii.certified, radius, probe);
                (radii.attacked, radii.reason, open) = (Some(attacked), None, Some(attacked));
            }
            // No radius is small enough for that.
            Found::Unknown(Reason::NotControlled) => {
                (radii.reason, open) = (Some(Reason::NotControlled), Some(radius));
                break;
            }
            Found::Unknown(reason) => (radii.reason, open) = (Some(reason), Some(radius)),
            Found::Wrong => {
                radii.wrong = true;
                break;
            }
        }
        let next = match open {
            Some(open) => range.between(radii.certified, open),
            None if radii.certified >= range.max => None,
            None => Some((2.0 * radii.certified).min(range.max)),
        };
        match next {
            Some(next) => radius = next,
            None => break,
        }
    }
    open.unwrap_or(radii.certified)
}

/// The smallest radius into whose region the last witness can be moved, above one that is known to hold.
fn shrink(range: Range, low: f64, broken: f64, probe: &mut impl Probe) -> f64 {
    let (mut low, mut broken) = (low, broken);
    let finer = Range { gap: 0.1 * range.gap, ..range };
    while let Some(radius) = finer.between(low, broken).filter(|_| probe.has_time(true)) {
        if probe.project(radius) {
            broken = radius;
        } else {
            low = radius;
        }
    }
    broken
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A sample whose radii are known: certified up to one, attacks find what is beyond another, and witnesses can be moved
    /// down to a third.
    struct Known {
        holds: f64,
        found: f64,
        witness: f64,
        wrong: bool,
        time: usize,
    }

    impl Probe for Known {
        fn has_time(&self, attacks: bool) -> bool {
            self.time > if attacks { 0 } else { 3 }
        }

        fn decide(&mut self, radius: f64) -> Found {
            self.time = self.time.saturating_sub(1);
            match radius {
                _ if self.wrong => Found::Wrong,
                _ if radius <= self.holds => Found::Verified { margin: Some(self.holds - radius) },
                _ if radius >= self.found => Found::Falsified,
                _ => Found::Unknown(Reason::Interrupted),
            }
        }

        fn project(&mut self, radius: f64) -> bool {
            radius >= self.witness
        }

        fn attack(&mut self, radius: f64) -> bool {
            self.time = self.time.saturating_sub(1);
            radius >= self.found
        }
    }

    const PLENTY: usize = 1000;

    #[test]
    fn both_radii_are_found_within_the_gap() {
        let mut random = fastrand::Rng::with_seed(3);
        for case in 0..2000 {
            let holds = 10_f64.powf(-6.0 * random.f64());
            let found = (holds * (1.0 + random.f64())).min(1.0);
            let witness = holds + random.f64() * (found - holds);
            let bisect = if case % 2 == 0 { BisectArg::Log } else { BisectArg::Plain };
            let range = Range { max: 1.0, gap: 0.05, bisect };
            let start = (case % 3 == 0).then(|| random.f64());
            let mut probe = Known { holds, found, witness, wrong: false, time: PLENTY };
            let radii = search(range, start, &mut probe);
            assert!(radii.certified <= holds, "{radii:?} beyond {holds}");
            let attacked = radii.attacked.unwrap();
            assert!(
                attacked >= witness && radii.certified < attacked,
                "{radii:?} for {holds} {found} {witness}"
            );
            match bisect {
                BisectArg::Log => {
                    assert!(radii.certified * 1.1 >= holds.min(attacked), "{radii:?} for {holds}");
                    assert!(
                        attacked <= witness.max(radii.certified) * 1.2,
                        "{radii:?} for {found} {witness}"
                    );
                }
                BisectArg::Plain => {
                    assert!(radii.certified + 0.051 >= holds.min(attacked), "{radii:?} for {holds}");
                    assert!(attacked <= witness + 0.11, "{radii:?} for {found} {witness}");
                }
            }
        }
    }

    #[test]
    fn the_ends_of_the_range_are_told() {
        let range = Range { max: 0.5, gap: 0.05, bisect: BisectArg::Log };
        let known =
            |holds: f64, found: f64| Known { holds, found, witness: found, wrong: false, time: PLENTY };
        let all = search(range, None, &mut known(2.0, 3.0));
        assert_eq!((all.certified, all.attacked), (0.5, None));
        let none = search(range, None, &mut known(-1.0, 0.0));
        assert!(none.certified == 0.0 && none.attacked.is_some_and(|a| a < 1e-6), "{none:?}");
        let never = search(range, Some(7.0), &mut known(0.1, 9.0));
        assert!(never.attacked.is_none() && never.reason.is_some() && never.certified > 0.09);
        let wrong = search(range, None, &mut Known { wrong: true, ..known(1.0, 2.0) });
        assert!(wrong.wrong && wrong.certified == 0.0 && wrong.probes == 1);
    }

    #[test]
    fn time_is_kept_for_attacks() {
        let range = Range { max: 1.0, gap: 1e-6, bisect: BisectArg::Log };
        let mut probe = Known { holds: 0.3, found: 0.5, witness: 0.5, wrong: false, time: 6 };
        let radii = search(range, Some(0.25), &mut probe);
        assert!(radii.probes <= 3 && radii.certified >= 0.25 && radii.certified <= 0.3, "{radii:?}");
        assert!(radii.attacked.is_some_and(|a| a >= 0.5), "{radii:?}");
    }
}
