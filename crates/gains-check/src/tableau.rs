//! Runge-Kutta methods as tables of fractions.
//!
//! Stage i evaluates the dynamics at t + cᵢ h and x + h Σⱼ aᵢⱼ kⱼ; the result is x + h Σ bᵢ kᵢ, the estimate of its
//! error h Σ eᵢ kᵢ. The coefficients are those of Hairer, Nørsett and Wanner, *Solving Ordinary Differential
//! Equations I*, and Fehlberg (1969) for `fehlberg2`; the error weights of `dopri5` are Shampine's. They are used as
//! the smallest intervals around the fractions, which hold the float64 numbers nearest to them, too. The error weights of
//! `dopri8` are differences of such numbers, rounded once more.

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
const METHODS: [(&str, u32, &str, &str, &str, &str); 9] = [
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
    (
        "dopri8",
        8,
        "0 1/18 1/12 1/8 5/16 3/8 59/400 93/200 5490023248/9719169821 13/20 1201146811/1299019798 1 1",
        "1/18; 1/48 1/16; 1/32 0 3/32; 5/16 0 -75/64 75/64; 3/80 0 0 3/16 3/20; \
         29443841/614563906 0 0 77736538/692538347 -28693883/1125000000 23124283/1800000000; \
         16016141/946692911 0 0 61564180/158732637 22789713/633445777 545815736/2771057229 -180193667/1043307555; \
         39632708/573591083 0 0 -433636366/683701615 -421739975/2616292301 100302831/723423059 790204164/839813087 \
         800635310/3783071287; \
         246121993/1340847787 0 0 -37695042795/15268766246 -309121744/1061227803 -12992083/490766935 \
         6005943493/2108947869 393006217/1396673457 123872331/1001029789; \
         -1028468189/846180014 0 0 8478235783/508512852 1311729495/1432422823 -10304129995/1701304382 \
         -48777925059/3047939560 15336726248/1032824649 -45442868181/3398467696 3065993473/597172653; \
         185892177/718116043 0 0 -3185094517/667107341 -477755414/1098053517 -703635378/230739211 \
         5731566787/1027545527 5232866602/850066563 -4093664535/808688257 3962137247/1805957418 65686358/487910083; \
         403863854/491063109 0 0 -5068492393/434740067 -411421997/543043805 652783627/914296604 \
         11173962825/925320556 -13158990841/6184727034 3936647629/1978049680 -160528059/685178525 \
         248638103/1413531060 0",
        "14005451/335480064 0 0 0 0 -59238493/1068277825 181606767/758867731 561292985/797845732 \
         -1041891430/1371343529 760417239/1151165299 118820643/751138087 -528747749/2220607170 1/4",
        "14005451/335480064+-13451932/455176623 0 0 0 0 -59238493/1068277825+808719846/976000145 \
         181606767/758867731+-1757004468/5645159321 561292985/797845732+-656045339/265891186 \
         -1041891430/1371343529+3867574721/1518517206 760417239/1151165299+-465885868/322736535 \
         118820643/751138087+-53011238/667516719 -528747749/2220607170+-2/45 1/4",
    ),
];

/// Intervals around fractions, and sums of two of them.
fn fractions(text: &str) -> Vec<Interval> {
    let number = |text: &str| text.parse().map_or(Interval::ALL, Interval::point);
    let fraction =
        |word: &str| word.split_once('/').map_or_else(|| number(word), |(n, d)| number(n) / number(d));
    let sum = |word: &str| word.split('+').map(fraction).reduce(|a, b| a + b).unwrap_or(Interval::ALL);
    text.split_whitespace().map(sum).collect()
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

    /// Stages of a step: all of them if its error is wanted.
    pub fn stages_for(&self, error: bool) -> usize {
        if error { self.count() } else { self.needed() }
    }

    /// Whether the last stage is taken at the end of the step, and so is the first of the next one.
    pub fn ends_where_the_next_begins(&self) -> bool {
        let last = &self.stages[self.count() - 1];
        self.needed() < self.count()
            && self.times[self.count() - 1] == Interval::ONE
            && self.result.starts_with(last)
    }
}
