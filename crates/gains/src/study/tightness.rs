//! How much is left between what is proved and what attacks find, method by method (paper, appendix).

use std::time::Duration;

use gains_core::{Arithmetic, Precision};

use super::chart::Look;
use super::{
    Axis, Case, Chart, Curve, Done, Entry, Figures, Given, Networks, Panel, Report, Study, Table, Takes,
    mean, shown,
};
use crate::campaign::unlimited;
use crate::failure::Failure;
use crate::question::{AttackLoss, AttackPlan, Budget, Findings, Method, Plan, StepForm, Struck, Way};
use crate::table::percent;

/// As the command line knows it.
pub const ENTRY: Entry = Entry {
    name: "tightness",
    about: "certified against attacked margins of each image, for every method",
    paper: "figure of appendix F",
    takes: Takes::Classifiers,
    open: |given| Ok(Box::new(Tightness::new(given)?)),
};

const EPS: f64 = 0.15;
/// Seconds for `auto`.
const PATIENCE: u64 = 10;
/// The methods that bound once.
const METHODS: [(&str, Method, StepForm); 4] = [
    ("box", Method::Box, StepForm::Independent),
    ("linear", Method::Linear, StepForm::Independent),
    ("gains", Method::Gains, StepForm::Independent),
    ("tight", Method::Tight, StepForm::Difference),
];

struct Tightness {
    networks: Networks,
    grid: Vec<(usize, usize)>,
}

impl Tightness {
    fn new(given: &Given) -> Result<Self, Failure> {
        let networks = Networks::open(given, "fashion-mnist", given.size(20, 1000))?;
        let grid = networks.pairs();
        Ok(Self { networks, grid })
    }
}

impl Study for Tightness {
    fn setting(&self) -> String {
        format!("eps {EPS}, PGD of 300 steps of eps/40, auto {PATIENCE} s; {}", self.networks.setting())
    }

    fn cases(&self) -> Vec<Case> {
        let case = |(network, sample): &(usize, usize)| {
            Case(vec![("network", self.networks.name(*network).into()), ("sample", sample.to_string())])
        };
        self.grid.iter().map(case).collect()
    }

    fn work(&self, case: usize) -> Result<Figures, String> {
        let (network, sample) = self.grid[case];
        let subject = self.networks.subject(network).map_err(|failure| failure.message)?;
        let question = subject.question(sample, EPS);
        let attack = AttackPlan {
            steps: 300,
            step_size: EPS / 40.0,
            restarts: 1,
            loss: AttackLoss::Margin,
            seed: sample as u64,
        };
        let attacked = match question.attack(&attack, Precision::Float64, unlimited()) {
            Struck::Classes { margin, .. } => margin,
            Struck::Regression { .. } | Struck::Forecasts { .. } => f64::NAN,
        };
        let mut figures = Figures::default().with("attacked", attacked);
        // Of an image that is misclassified nothing can be proved.
        if attacked.is_nan() {
            return Ok(figures.with("misclassified", 1.0));
        }
        for (name, method, step_form) in METHODS {
            let way = Way { method, step_form, arithmetic: Arithmetic::Real };
            figures =
                figures.with_some(name, question.bound(way, unlimited(), |bounded| bounded.margin).ok());
        }
        let plan = Plan::auto(attack);
        let budget = Budget { timeout: Some(Duration::from_secs(PATIENCE)), ..unlimited() };
        let answer = question.decide(&plan, sample as u64, 1, budget);
        if let Findings::Classes { margin, .. } = answer.findings {
            figures = figures.with_some("auto", margin);
        }
        Ok(figures)
    }

    fn report(&self, done: &Done<'_>) -> Report {
        let names: Vec<&str> = METHODS.iter().map(|(name, ..)| *name).chain(["auto"]).collect();
        let mut rows = Vec::new();
        let mut panels = Vec::new();
        for network in 0..self.networks.len() {
            let mine = |case: usize| self.grid[case].0 == network;
            let all =
                (0..self.grid.len()).filter(|case| mine(*case) && done.figures[*case].is_some()).count();
            let robust = done.values("attacked", mine).iter().filter(|margin| **margin > 0.0).count();
            let mut curves = [Vec::new(), Vec::new(), Vec::new()];
            for name in &names {
                let gaps = self.gaps(done, network, name);
                let certified = done.values(name, mine).iter().filter(|margin| **margin > 0.0).count();
                rows.push(vec![
                    self.networks.name(network).into(),
                    (*name).into(),
                    percent(certified, all),
                    percent(robust, all),
                    shown(mean(&gaps), 3),
                    shown(crate::table::median(gaps.clone()), 3),
                    shown(gaps.iter().copied().reduce(f64::max), 3),
                ]);
                curves[0].push(Curve::dots(name, self.margins(done, network, name)));
                curves[1].push(Curve { name: (*name).into(), look: Look::Bars, points: frequencies(&gaps) });
                curves[2].push(Curve { name: (*name).into(), look: Look::Plain, points: shares(&gaps) });
            }
            panels.extend(self.panels(network, curves));
        }
        let header =
            vec!["network", "method", "certified %", "attacked %", "mean gap", "median gap", "largest gap"];
        let title = format!("Between proof and attack at ε {EPS}");
        Report {
            tables: vec![Table::of(title.clone(), header, rows)],
            charts: vec![("tightness", Chart { title, panels })],
            remarks: vec![
                "Paper (Fashion-MNIST, ε_t 0.16, ε 0.15, one seed of the authors' network): margins above zero: box 31.9 %, \
                 linear 41.5 %, GAINS 51.9 %, PGD 57.7 %."
                    .into(),
            ],
        }
    }
}

/// Certified margins are shown down to this.
const LOWEST: f64 = -4.0;
/// Gaps of this width are counted together, up to so many; larger ones with the last.
const BIN: f64 = 0.1;
const BINS: usize = 16;

impl Tightness {
    /// Margins against each other, how often gaps occur, and how many are at most how large.
    fn panels(&self, network: usize, curves: [Vec<Curve>; 3]) -> [Panel; 3] {
        let name = self.networks.name(network);
        let [margins, frequencies, shares] = curves;
        let last = BIN * BINS as f64;
        [
            Panel {
                title: format!("{name}: margins, at least {LOWEST}"),
                x: Axis::linear("attacked margin"),
                y: Axis::linear("certified margin"),
                curves: margins,
            },
            Panel {
                title: format!("how often, {BIN} wide; the last from {last:.1}"),
                x: Axis::linear("attacked − certified margin"),
                y: Axis::linear("percent of images"),
                curves: frequencies,
            },
            Panel {
                title: "how many".into(),
                x: Axis::log("attacked − certified margin"),
                y: Axis::linear("percent of images with at most this gap"),
                curves: shares,
            },
        ]
    }

    /// Attacked and certified margin of every image that has both.
    fn margins(&self, done: &Done<'_>, network: usize, name: &str) -> Vec<(f64, f64)> {
        let both = |case: usize| {
            let figures = done.figures[case].as_ref()?;
            Some((figures.get("attacked")?, figures.get(name)?.max(LOWEST)))
        };
        (0..self.grid.len()).filter(|case| self.grid[*case].0 == network).filter_map(both).collect()
    }

    /// Attacked minus certified margin of every image that has both.
    fn gaps(&self, done: &Done<'_>, network: usize, name: &str) -> Vec<f64> {
        let both = |case: usize| {
            let figures = done.figures[case].as_ref()?;
            Some(figures.get("attacked")? - figures.get(name)?)
        };
        (0..self.grid.len()).filter(|case| self.grid[*case].0 == network).filter_map(both).collect()
    }
}

/// How many of the values lie in each bin, in percent, at the middle of the bin.
fn frequencies(values: &[f64]) -> Vec<(f64, f64)> {
    let mut counts = [0; BINS + 1];
    for value in values {
        counts[((value / BIN).max(0.0) as usize).min(BINS)] += 1;
    }
    let share = |count: usize| 100.0 * count as f64 / values.len().max(1) as f64;
    counts.into_iter().enumerate().map(|(bin, count)| (BIN * (bin as f64 + 0.5), share(count))).collect()
}

/// The share of values that are at most each of them, in percent.
fn shares(values: &[f64]) -> Vec<(f64, f64)> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let count = sorted.len() as f64;
    sorted.into_iter().enumerate().map(|(i, v)| (v.max(1e-6), 100.0 * (i + 1) as f64 / count)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn proofs_stay_below_attacks_and_methods_in_their_order() {
        let given = Given::for_tests();
        let study = Tightness::new(&given).unwrap();
        let figures = study.work(1).unwrap();
        let get = |name: &str| figures.get(name).unwrap();
        for (name, ..) in METHODS {
            assert!(get(name) <= get("attacked") + 1e-9, "{name}");
        }
        assert!(get("box") <= get("gains") + 1e-9);
        assert_eq!(shares(&[3.0, 1.0]), [(1.0, 50.0), (3.0, 100.0)]);
        let counted = frequencies(&[0.05, 0.06, 0.12, 99.0]);
        assert_eq!((counted[0].1, counted[1].1, counted[2].1, counted[BINS].1), (50.0, 25.0, 0.0, 25.0));
    }
}
