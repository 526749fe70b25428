//! Numbers as people read them. What was proved is rounded so that the page never says more than the file does.

/// Which way the last digit goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rounding {
    /// To the nearest.
    Nearest,
    /// Towards minus infinity: lower bounds.
    Down,
    /// Towards plus infinity: upper bounds.
    Up,
}

impl Rounding {
    fn apply(self, value: f64) -> f64 {
        match self {
            Self::Nearest => value.round(),
            Self::Down => value.floor(),
            Self::Up => value.ceil(),
        }
    }
}

/// About four digits.
pub fn short(value: f64) -> String {
    rounded(value, Rounding::Nearest)
}

/// About four digits, rounded as told; whole numbers stay whole.
pub fn rounded(value: f64, rounding: Rounding) -> String {
    if !value.is_finite() || value == 0.0 {
        return value.to_string();
    }
    if value.fract() == 0.0 && value.abs() < 1e7 {
        return format!("{value:.0}");
    }
    let size = value.abs().log10().floor();
    if !(-5.0..7.0).contains(&size) {
        return exponential(value, rounding, size);
    }
    let digits = (3.0 - size).clamp(0.0, 9.0);
    let scale = 10_f64.powf(digits);
    let text = format!("{:.*}", digits as usize, rounding.apply(value * scale) / scale);
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').into() } else { text }
}

fn exponential(value: f64, rounding: Rounding, size: f64) -> String {
    // Two divisions, since 10^-size is infinite for the smallest numbers.
    let mantissa = value / 10_f64.powf(size / 2.0) / 10_f64.powf(size / 2.0);
    format!("{}e{size:.0}", rounding.apply(mantissa * 1e3) / 1e3)
}

/// A share in percent with one digit, rounded as told: 999 of 1000 is never 100 %.
pub fn percent(part: usize, whole: usize, rounding: Rounding) -> String {
    if whole == 0 {
        return "–".into();
    }
    format!("{:.1}", rounding.apply(part as f64 * 1000.0 / whole as f64) / 10.0)
}

/// Seconds in a unit that fits.
pub fn duration(seconds: f64) -> String {
    match seconds {
        s if !s.is_finite() => "–".into(),
        s if s < 1e-3 => format!("{:.0} µs", s * 1e6),
        s if s < 1.0 => format!("{} ms", short((s * 1e4).round() / 10.0)),
        s if s < 120.0 => format!("{} s", short((s * 100.0).round() / 100.0)),
        s if s < 7200.0 => format!("{:.0} min", s / 60.0),
        s => format!("{:.1} h", s / 3600.0),
    }
}

/// The value below which a share of the values is.
pub fn quantile(values: &[f64], share: f64) -> Option<f64> {
    let mut sorted: Vec<f64> = values.iter().copied().filter(|v| v.is_finite()).collect();
    sorted.sort_by(f64::total_cmp);
    let last = sorted.len().checked_sub(1)?;
    sorted.get((last as f64 * share).round() as usize).copied()
}

/// The middle of the values, and the value below which nine tenths of them are.
pub fn middle_and_tail(values: &[f64]) -> Option<(f64, f64)> {
    quantile(values, 0.5).zip(quantile(values, 0.9))
}

/// Numbers in lists of whole numbers, `0..40,43`.
pub fn ranges(indices: &[usize]) -> String {
    let mut sorted = indices.to_vec();
    sorted.sort_unstable();
    sorted.dedup();
    let mut parts: Vec<(usize, usize)> = Vec::new();
    for index in sorted {
        match parts.last_mut() {
            Some((_, end)) if *end == index => *end = index.saturating_add(1),
            _ => parts.push((index, index.saturating_add(1))),
        }
    }
    let part = |&(start, end): &(usize, usize)| {
        if end - start == 1 { start.to_string() } else { format!("{start}..{end}") }
    };
    parts.iter().map(part).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lower_bounds_are_never_shown_larger() {
        assert_eq!(rounded(0.999_99, Rounding::Down), "0.9999");
        assert_eq!(rounded(-0.123_41, Rounding::Down), "-0.1235");
        assert_eq!(rounded(0.123_41, Rounding::Up), "0.1235");
        assert_eq!(rounded(1e-9, Rounding::Down), "1e-9");
        assert_eq!(rounded(-1.234_56e-300, Rounding::Down), "-1.235e-300");
        assert_eq!(percent(999, 1000, Rounding::Down), "99.9");
        assert_eq!(percent(9_999, 10_000, Rounding::Down), "99.9");
        assert_eq!(percent(0, 0, Rounding::Down), "–");
    }

    #[test]
    fn numbers_are_short() {
        let cases =
            [(0.0, "0"), (3.0, "3"), (0.1, "0.1"), (1234.56, "1235"), (f64::NAN, "NaN"), (2.5e-7, "2.5e-7")];
        for (value, text) in cases {
            assert_eq!(short(value), text);
        }
        assert_eq!(duration(0.000_25), "250 µs");
        assert_eq!(duration(0.0234), "23.4 ms");
        assert_eq!(duration(75.0), "75 s");
    }

    #[test]
    fn whole_numbers_are_listed_as_they_are_typed() {
        assert_eq!(ranges(&[3, 0, 1, 2, 7, 9, 8, 7]), "0..4,7..10");
        assert_eq!(ranges(&[5]), "5");
        assert_eq!(ranges(&[]), "");
    }
}
