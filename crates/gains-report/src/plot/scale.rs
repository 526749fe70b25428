//! From values to places between 0 and 1, and which values are written beside an axis.

use crate::number::short;

/// An axis.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scale {
    low: f64,
    high: f64,
    kind: Kind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Linear,
    /// Linear, with whole numbers beside it.
    Counting,
    Logarithmic,
}

impl Scale {
    /// From `low` to `high`.
    pub fn linear(low: f64, high: f64) -> Self {
        let spread = if high > low { high - low } else { low.abs().max(1.0) };
        Self { low, high: if high > low { high } else { low + spread }, kind: Kind::Linear }
    }

    /// From 0 to a number of things.
    pub fn counts(most: usize) -> Self {
        Self { low: 0.0, high: most.max(1) as f64, kind: Kind::Counting }
    }

    /// All of the values, with a little room.
    pub fn around(values: impl Iterator<Item = f64>) -> Self {
        let (low, high) = extremes(values);
        let room = if high > low { 0.05 * (high - low) } else { 0.5 * low.abs() };
        Self::linear(low - room, high + room)
    }

    /// All of the values; in powers of ten if they are positive and lie far apart.
    pub fn fitting(values: impl Iterator<Item = f64> + Clone) -> Self {
        let (low, high) = extremes(values.clone());
        if low > 0.0 && high / low > 1e3 { Self::decades(values) } else { Self::around(values) }
    }

    /// Powers of ten that hold all positive values.
    pub fn decades(values: impl Iterator<Item = f64>) -> Self {
        let (low, high) = extremes(values.filter(|value| *value > 0.0));
        let low = if low > 0.0 { 10_f64.powf(low.log10().floor().max(-300.0)) } else { 1e-3 };
        let high = 10_f64.powf(high.max(low).log10().ceil().min(300.0));
        Self { low, high: if high > low { high } else { low * 10.0 }, kind: Kind::Logarithmic }
    }

    /// Both ends.
    pub fn ends(&self) -> (f64, f64) {
        (self.low, self.high)
    }

    /// 0 at the lower end, 1 at the upper; values beyond are put at the ends.
    pub fn place(&self, value: f64) -> f64 {
        let at = match self.kind {
            Kind::Linear | Kind::Counting => (value - self.low) / (self.high - self.low),
            Kind::Logarithmic => (value / self.low).ln() / (self.high / self.low).ln(),
        };
        if at.is_nan() { 0.0 } else { at.clamp(0.0, 1.0) }
    }

    /// Values to write beside the axis.
    pub fn ticks(&self) -> Vec<(f64, String)> {
        match self.kind {
            Kind::Linear => self.round_values(),
            Kind::Counting => {
                self.round_values().into_iter().filter(|(value, _)| value.fract() == 0.0).collect()
            }
            Kind::Logarithmic => {
                let (first, last) = (self.low.log10().round() as i32, self.high.log10().round() as i32);
                let stride = ((last - first) / 6 + 1).max(1) as usize;
                let value = |power: i32| (10_f64.powi(power), short(10_f64.powi(power)));
                (first..=last).step_by(stride).map(value).collect()
            }
        }
    }

    fn round_values(&self) -> Vec<(f64, String)> {
        let rough = (self.high - self.low) / 5.0;
        let size = 10_f64.powf(rough.log10().floor());
        let step =
            [1.0, 2.0, 2.5, 5.0, 10.0].map(|m| m * size).into_iter().find(|s| *s >= rough).unwrap_or(rough);
        if !step.is_finite() || step <= 0.0 {
            return Vec::new();
        }
        let first = (self.low / step).ceil();
        let value = |i: usize| (first + i as f64) * step;
        let inside = |value: &f64| *value <= self.high + 1e-9 * step;
        // Zero is zero, not what is left of a sum.
        let clean = |value: f64| if value.abs() < 1e-9 * step { 0.0 } else { value };
        (0..12).map(value).take_while(inside).map(|value| (value, short(clean(value)))).collect()
    }
}

fn extremes(values: impl Iterator<Item = f64>) -> (f64, f64) {
    let widen = |(low, high): (f64, f64), value: f64| (low.min(value), high.max(value));
    let (low, high) = values.filter(|v| v.is_finite()).fold((f64::INFINITY, f64::NEG_INFINITY), widen);
    if low <= high { (low, high) } else { (0.0, 1.0) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_inside() {
        let words = |scale: Scale| scale.ticks().into_iter().map(|t| t.1).collect::<Vec<_>>().join(" ");
        assert_eq!(words(Scale::linear(0.0, 1.0)), "0 0.2 0.4 0.6 0.8 1");
        assert_eq!(words(Scale::counts(3)), "0 1 2 3");
        assert_eq!(words(Scale::counts(0)), "0 1");
        assert_eq!(words(Scale::linear(-0.3, 0.3)), "-0.2 0 0.2");
        assert_eq!(words(Scale::decades([0.02, 3.0].into_iter())), "0.01 0.1 1 10");
    }

    #[test]
    fn no_values_and_strange_values_still_make_a_scale() {
        for scale in [
            Scale::around(std::iter::empty()),
            Scale::around([2.0].into_iter()),
            Scale::around([f64::NAN, f64::INFINITY].into_iter()),
            Scale::decades([0.0, -1.0].into_iter()),
            Scale::decades([1e-320, 1e300].into_iter()),
            Scale::linear(-1e308, 1e308),
        ] {
            for value in [0.0, 1.0, -1.0, f64::NAN, f64::INFINITY, 1e-300] {
                assert!((0.0..=1.0).contains(&scale.place(value)), "{scale:?} {value}");
            }
            assert!(scale.ticks().len() < 120);
        }
    }
}
