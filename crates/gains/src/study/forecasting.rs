//! Errors and robustness of forecasts (paper, Table 2).

use std::cmp::Ordering;
use std::time::Duration;

use gains_core::description::Task;

use super::{
    Axis, Case, Chart, Curve, Done, Entry, Figures, Given, Networks, Panel, Report, Study, Table, Takes,
    mean, middle, shown,
};
use crate::campaign::unlimited;
use crate::cli::{ArithmeticArg, BoundArgs, MethodArg};
use crate::failure::Failure;
use crate::question::{self, AttackPlan, Budget, Findings, Plan, Purpose, Verdict, micro};
use crate::table::{median, percent};

/// As the command line knows it.
pub const ENTRY: Entry = Entry {
    name: "forecasting",
    about: "errors of forecasts, and how many records are certified",
    paper: "Table 2",
    takes: Takes::Forecasters,
    open: |given| Ok(Box::new(Forecasting::new(given)?)),
};

const RADII: [f64; 3] = [0.05, 0.1, 0.2];
/// Seconds a record may take.
const PATIENCE: u64 = 60;

/// What the paper has: a word for the horizon and one for the training, the error × 100, and attacked and certified
/// robustness for each radius.
type Row = (&'static str, &'static str, &'static str, [(&'static str, &'static str); 3]);

const PAPER: [Row; 9] = [
    ("6h", "standard", "47.4 ± 0.3", [("54.3 ± 3.8", "0.0"), ("13.7 ± 2.9", "0.0"), ("2.3 ± 1.2", "0.0")]),
    (
        "6h",
        "0.1",
        "51.1 ± 2.0",
        [("97.7 ± 0.7", "93.0 ± 2.7"), ("77.0 ± 7.3", "60.4 ± 10.9"), ("42.0 ± 11.0", "24.2 ± 7.7")],
    ),
    (
        "6h",
        "0.2",
        "57.6 ± 2.5",
        [("100.0 ± 0.0", "99.8 ± 0.1"), ("96.4 ± 2.1", "93.1 ± 4.5"), ("80.1 ± 11.7", "70.5 ± 18.9")],
    ),
    ("12h", "standard", "49.9 ± 0.2", [("65.2 ± 2.0", "0.0"), ("16.6 ± 2.3", "0.0"), ("2.0 ± 0.4", "0.0")]),
    (
        "12h",
        "0.1",
        "50.9 ± 0.4",
        [("98.0 ± 0.2", "94.5 ± 0.7"), ("74.3 ± 3.5", "55.8 ± 1.5"), ("28.9 ± 3.6", "17.2 ± 0.1")],
    ),
    (
        "12h",
        "0.2",
        "52.9 ± 0.1",
        [("99.1 ± 0.1", "98.3 ± 0.2"), ("87.8 ± 0.8", "80.3 ± 0.8"), ("52.3 ± 0.8", "38.5 ± 1.7")],
    ),
    ("24h", "standard", "51.2 ± 0.3", [("69.7 ± 1.9", "0.0"), ("23.6 ± 2.8", "0.0"), ("3.7 ± 1.0", "0.0")]),
    (
        "24h",
        "0.1",
        "51.5 ± 0.1",
        [("97.9 ± 0.2", "96.2 ± 0.4"), ("78.3 ± 2.3", "68.0 ± 1.6"), ("32.6 ± 0.6", "22.7 ± 1.0")],
    ),
    (
        "24h",
        "0.2",
        "53.7 ± 0.7",
        [("99.7 ± 0.1", "99.1 ± 0.3"), ("92.3 ± 1.7", "89.4 ± 2.4"), ("59.8 ± 7.7", "50.5 ± 5.1")],
    ),
];

/// What the paper has of a network whose name has a word for its horizon and one for its training.
fn published(name: &str) -> Option<&'static Row> {
    let words: Vec<String> = name
        .to_lowercase()
        .split([' ', '-', '_'])
        .map(|word| word.trim_start_matches("eps").into())
        .collect();
    let has = |word: &str| words.iter().any(|other| other == word);
    PAPER.iter().find(|(horizon, training, ..)| has(horizon) && has(training))
}

struct Forecasting {
    networks: Networks,
    grid: Vec<(usize, usize, f64)>,
}

impl Forecasting {
    fn new(given: &Given) -> Result<Self, Failure> {
        let networks = Networks::of_series(given, crate::bundled::FORECASTING, given.size(10, 400))?;
        let of = |(network, sample): (usize, usize)| RADII.map(|eps| (network, sample, eps));
        let grid = networks.pairs().into_iter().flat_map(of).collect();
        Ok(Self { networks, grid })
    }

    /// How far ahead a network predicts, as its file says.
    fn horizon(&self, network: usize) -> Option<f64> {
        match self.networks.model(network).network().description.task {
            Task::Forecasting { horizon, .. } => horizon,
            _ => None,
        }
    }

    /// Errors against certified shares, a panel for each horizon and radius: every network, and the paper's three.
    fn pareto(&self, done: &Done<'_>) -> Chart {
        let mut horizons: Vec<Option<f64>> = (0..self.networks.len()).map(|n| self.horizon(n)).collect();
        horizons.sort_by(|a, b| a.partial_cmp(b).unwrap_or(Ordering::Equal));
        horizons.dedup();
        let all = |horizon| (0..self.networks.len()).filter(move |n| self.horizon(*n) == horizon);
        let panel = |horizon: Option<f64>, radius: usize| {
            let eps = RADII[radius];
            let ours =
                (0..self.networks.len()).filter(|n| self.horizon(*n) == horizon).filter_map(|network| {
                    let mine = |case: usize| self.grid[case].0 == network && self.grid[case].2 == eps;
                    Some((
                        100.0 * mean(&done.values("error", mine))?,
                        100.0 * mean(&done.values("certified", mine))?,
                    ))
                });
            let word = horizon.map(|horizon| format!("{horizon}h"));
            let published = all(horizon).any(|network| self.networks.data_set(network) == "physionet2012");
            let rows = PAPER.iter().filter(|row| published && word.as_deref() == Some(row.0));
            let theirs = rows.filter_map(|row| Some((middle(row.2)?, middle(row.3[radius].1)?)));
            Panel {
                title: word.iter().cloned().chain([format!("ε {eps}")]).collect::<Vec<_>>().join(", "),
                x: Axis::linear("mean absolute error × 100"),
                y: Axis::percent("percent certified"),
                curves: vec![
                    Curve::dots("ours", ours.collect()),
                    Curve::line("the paper's means", theirs.collect()),
                ],
            }
        };
        let panels = horizons.into_iter().flat_map(|h| [0, 1, 2].map(|radius| panel(h, radius))).collect();
        Chart { title: "Errors and certified forecasts: up and to the left is better".into(), panels }
    }
}

impl Study for Forecasting {
    fn setting(&self) -> String {
        format!("attack of 200 steps, {PATIENCE} s a record; {}", self.networks.setting())
    }

    fn cases(&self) -> Vec<Case> {
        let case = |(network, record, eps): &(usize, usize, f64)| {
            Case(vec![
                ("network", self.networks.name(*network).into()),
                ("record", record.to_string()),
                ("eps", eps.to_string()),
            ])
        };
        self.grid.iter().map(case).collect()
    }

    fn work(&self, case: usize) -> Result<Figures, String> {
        let (network, record, eps) = self.grid[case];
        let subject = self.networks.subject(network).map_err(|failure| failure.message)?;
        let question = subject.question(record, eps);
        // Standard networks are bounded by boxes only: they overflow on them, and nothing else would do better.
        let standard = self.networks.name(network).to_lowercase().contains("standard");
        let method = if standard { MethodArg::Box } else { MethodArg::Auto };
        let bounds = BoundArgs { method, step_form: None, arithmetic: ArithmeticArg::Real };
        let plan = Plan::new(question::Task::Forecasts, &bounds, Some(AttackPlan::PAPER), Purpose::Certify)
            .map_err(|failure| failure.message)?;
        let budget = Budget { timeout: Some(Duration::from_secs(PATIENCE)), ..unlimited() };
        let answer = question.decide(&plan, record as u64, 1, budget);
        let word = |is: bool| if is { 1.0 } else { 0.0 };
        let figures = match answer.findings {
            Findings::Forecasts { mae, .. } => Figures::default().with_some("error", mae),
            Findings::Classes { .. } | Findings::Regression { .. } => Figures::default(),
        };
        Ok(figures
            .with("certified", word(answer.verdict == Verdict::Verified))
            .with("unknown", word(matches!(answer.verdict, Verdict::Unknown(_))))
            .with("seconds", micro(answer.elapsed)))
    }

    fn report(&self, done: &Done<'_>) -> Report {
        let (mut rows, mut panels) = (Vec::new(), Vec::new());
        for network in 0..self.networks.len() {
            let name = self.networks.name(network);
            let paper = published(name);
            let beside = |ours: String, theirs: Option<&str>| match theirs {
                None => ours,
                Some(theirs) => format!("{ours} ({theirs})"),
            };
            let (mut attacked, mut proved) = (Vec::new(), Vec::new());
            for (radius, eps) in RADII.into_iter().enumerate() {
                let mine = |case: usize| self.grid[case].0 == network && self.grid[case].2 == eps;
                let all = done.values("certified", mine).len();
                let sum = |name: &str| done.values(name, mine).iter().sum::<f64>() as usize;
                let (certified, unknown) = (sum("certified"), sum("unknown"));
                let share = |count: usize| 100.0 * count as f64 / all.max(1) as f64;
                attacked.push((eps, share(certified + unknown)));
                proved.push((eps, share(certified)));
                let error = mean(&done.values("error", mine)).map(|error| 100.0 * error);
                rows.push(vec![
                    name.into(),
                    eps.to_string(),
                    all.to_string(),
                    beside(shown(error, 1), paper.map(|row| row.2)),
                    beside(percent(certified + unknown, all), paper.map(|row| row.3[radius].0)),
                    beside(percent(certified, all), paper.map(|row| row.3[radius].1)),
                    unknown.to_string(),
                    shown(median(done.values("seconds", mine)), 3),
                ]);
            }
            panels.push(Panel {
                title: name.into(),
                x: Axis::linear("ε"),
                y: Axis::percent("percent of records"),
                curves: vec![Curve::line("attacked", attacked), Curve::line("certified", proved)],
            });
        }
        let header = vec![
            "network",
            "eps",
            "records",
            "error × 100 (paper)",
            "attacked % (paper)",
            "certified % (paper)",
            "unknown",
            "s, median",
        ];
        let title = "Forecasts: ν-δ-robustness with ν 0.1, δ 0.01".to_string();
        Report {
            tables: vec![Table::of(title.clone(), header, rows)],
            charts: vec![("forecasting", Chart { title, panels }), ("pareto", self.pareto(done))],
            remarks: vec![
                "The paper: means and deviations over three seeds, another division of the records.".into(),
            ],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bundled_forecaster_is_certified_on_its_first_record_and_attacked_on_the_second() {
        let study = Forecasting::new(&Given::for_tests()).unwrap();
        // Each at the smallest radius, with the error of the second so small that little may be added to it.
        for (case, error, certified) in [(0, 0.6263, 1.0), (RADII.len(), 0.0554, 0.0)] {
            let figures = study.work(case).unwrap();
            let get = |name: &str| figures.get(name).unwrap();
            assert_eq!((get("certified"), get("unknown")), (certified, 0.0), "{case}");
            assert!((get("error") - error).abs() < 1e-4, "{case}: {}", get("error"));
        }
    }

    #[test]
    fn errors_are_drawn_against_certified_shares_by_horizon() {
        let study = Forecasting::new(&Given::for_tests()).unwrap();
        let figures = |certified: f64| Figures::default().with("error", 0.5).with("certified", certified);
        let all = study.grid.iter().map(|(_, record, _)| Some(figures(if *record == 0 { 1.0 } else { 0.0 })));
        let done = Done { cases: &study.cases(), figures: all.collect() };
        let chart = study.pareto(&done);
        let records = study.grid.len() as f64 / RADII.len() as f64;
        assert_eq!(chart.panels.len(), RADII.len());
        for panel in &chart.panels {
            assert_eq!(panel.curves[0].points, [(50.0, 100.0 / records)]);
            assert!(panel.curves[1].points.is_empty(), "the paper knows nothing of the bundled network");
        }
    }

    #[test]
    fn figures_of_the_paper_are_found_by_name() {
        assert_eq!(published("24h-0.2").unwrap().2, "53.7 ± 0.7");
        assert_eq!(published("physionet 6h standard").unwrap().2, "47.4 ± 0.3");
        assert!(published("pond").is_none());
    }
}
