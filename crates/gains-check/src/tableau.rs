//! Runge-Kutta methods as tables of fractions.
//!
//! Stage i evaluates the dynamics at t + cᵢ h and x + h Σⱼ aᵢⱼ kⱼ; the result is x + h Σ bᵢ kᵢ, the estimate of its
//! error h Σ eᵢ kᵢ. The coefficients are those of Hairer, Nørsett and Wanner, *Solving Ordinary Differential
//! Equations I*, and Fehlberg (1969) for `fehlberg2`; the error weights of `dopri5` are Shampine's. They are used as
//! the smallest intervals around the fractions, which hold the float64 numbers nearest to them, too.

use crate::interval::Interval;

/// One method.
#[derive(Debug, Clone)]
pub struct Tableau {
    /// p, the order of the result.
    pub order: u32,
    /// cᵢ.
    pub times: Vec<Interval>,
    /// aᵢⱼ; the first row is empty.
    pub stages: Vec<Vec<Interval>>,
    /// bᵢ.
    pub result: Vec<Interval>,
    /// eᵢ; empty if errors are not estimated.
    pub errors: Vec<Interval>,
}

/// Name, order, c, a (from the second stage on), b and e of all methods.
const METHODS: [(&str, u32, &str, &str, &str, &str); 8] = [
    ("euler", 1, "0", "", "1", ""),
    ("midpoint", 2, "0 1/2", "1/2", "0 1", ""),
    ("heun", 2, "0 1", "1", "1/2 1/2", "-1/2 1/2"),
    ("rk4", 4, "0 1/2 1/2 1", "1/2; 0 1/2; 0 0 1", "1/6 1/3 1/3 1/6", ""),
    ("rk38", 4, "0 1/3 2/3 1", "1/3; -1/3 1; 1 -1 1", "1/8 3/8 3/8 1/8", ""),
    ("bosh3", 3, "0 1/2 3/4 1", "1/2; 0 3/4; 2/9 1/3 4/9", "2/9 1/3 4/9 0", "-5/72 1/12 1/9 -1/8"),
    ("fehlberg2", 2, "0 1/2 1", "1/2; 1/256 255/256", "1/512 255/256 1/512", "-1/512 0 1/512"),
    (
        "dopri5",
        5,
        "0 1/5 3/10 4/5 8/9 1 1",
        "1/5; 3/40 9/40; 44/45 -56/15 32/9; 19372/6561 -25360/2187 64448/6561 -212/729; \
         9017/3168 -355/33 46732/5247 49/176 -5103/18656; 35/384 0 500/1113 125/192 -2187/6784 11/84",
        "35/384 0 500/1113 125/192 -2187/6784 11/84 0",
        "71/86400 0 -142/50085 71/2880 -5751/169600 44/1575 -1/60",
    ),
];

/// Intervals around fractions.
fn fractions(text: &str) -> Vec<Interval> {
    let number = |text: &str| text.parse().map_or(Interval::ALL, Interval::point);
    let fraction =
        |word: &str| word.split_once('/').map_or_else(|| number(word), |(n, d)| number(n) / number(d));
    text.split_whitespace().map(fraction).collect()
}

impl Tableau {
    /// A method by the name it has in descriptions.
    pub fn named(name: &str) -> Option<Self> {
        let &(_, order, c, a, b, e) = METHODS.iter().find(|method| method.0 == name)?;
        let rows = a.split(';').map(fractions).filter(|row| !row.is_empty());
        let stages = std::iter::once(vec![]).chain(rows).collect();
        Some(Self { order, times: fractions(c), stages, result: fractions(b), errors: fractions(e) })
    }

    /// Number of stages.
    pub fn count(&self) -> usize {
        self.times.len()
    }

    /// aᵢⱼ.
    pub fn stage(&self, i: usize, j: usize) -> Interval {
        self.stages[i].get(j).copied().unwrap_or(Interval::ZERO)
    }

    /// Stages that the result needs: up to the last with a weight.
    pub fn needed(&self) -> usize {
        self.result.iter().rposition(|b| *b != Interval::ZERO).map_or(0, |last| last + 1)
    }

    /// Whether the last stage is taken at the end of the step, and so is the first of the next one.
    pub fn ends_where_the_next_begins(&self) -> bool {
        let last = &self.stages[self.count() - 1];
        self.needed() < self.count()
            && self.times[self.count() - 1] == Interval::ONE
            && self.result.starts_with(last)
    }
}
