//! Accuracies of classifiers: standard, under attack, and certified by every method (paper, Table 1 and its ablation of
//! verifiers), and how much of the gap between the paper's verifier and its attack is closed.

use std::time::{Duration, Instant};

use gains_core::Arithmetic;

use super::chart::Look;
use super::{
    Axis, Case, Chart, Curve, Done, Entry, Figures, Given, Networks, Panel, Report, Study, Table, Takes,
    middle, shown,
};
use crate::campaign::unlimited;
use crate::failure::Failure;
use crate::question::{AttackPlan, Budget, Method, Plan, StepForm, Verdict, Way};
use crate::table::{median, percent};

/// As the command line knows it.
pub const ENTRY: Entry = Entry {
    name: "classification",
    about: "accuracies of classifiers: standard, attacked, and certified by every method",
    paper: "Table 1 and the ablation of verifiers",
    takes: Takes::Classifiers,
    open: |given| Ok(Box::new(Classification::new(given)?)),
};

/// Seconds for `auto`, and for each bound.
const PATIENCE: u64 = 10;
const BOUND_PATIENCE: u64 = 60;
/// The methods that bound once.
const METHODS: [(&str, Method, StepForm); 4] = [
    ("box", Method::Box, StepForm::Independent),
    ("linear", Method::Linear, StepForm::Independent),
    ("gains", Method::Gains, StepForm::Independent),
    ("tight", Method::Tight, StepForm::Difference),
];

/// What the paper has for a radius: attacked, certified by GAINS, by GAINS-Linear, by GAINS-Box.
type Columns = [&'static str; 4];

/// A row of the paper: data set, a word of the network's name, standard accuracy, columns by radius.
type Row = (&'static str, &'static str, &'static str, &'static [(f64, Columns)]);

const PAPER: [Row; 9] = [
    (
        "mnist",
        "0.11",
        "95.5 ± 0.1",
        &[
            (0.1, ["91.5 ± 0.6", "89.0 ± 1.1", "", ""]),
            (0.15, ["84.0 ± 2.7", "47.2 ± 7.9", "", ""]),
            (0.2, ["21.4 ± 1.8", "0.2 ± 0.2", "", ""]),
        ],
    ),
    (
        "mnist",
        "0.22",
        "91.8 ± 1.3",
        &[
            (0.1, ["88.5 ± 1.8", "86.8 ± 2.0", "", ""]),
            (0.15, ["86.8 ± 2.1", "83.7 ± 2.3", "", ""]),
            (0.2, ["84.5 ± 3.2", "79.7 ± 3.4", "", ""]),
        ],
    ),
    (
        "fashion-mnist",
        "0.11",
        "75.1 ± 1.2",
        &[
            (0.1, ["65.7 ± 1.0", "62.5 ± 1.1", "56.3 ± 1.4", "44.2 ± 5.5"]),
            (0.15, ["21.1 ± 5.9", "13.3 ± 3.1", "8.4 ± 2.3", "3.5 ± 1.4"]),
        ],
    ),
    (
        "fashion-mnist",
        "0.16",
        "71.5 ± 1.7",
        &[
            (0.1, ["64.0 ± 2.7", "61.3 ± 2.7", "54.7 ± 2.5", "47.0 ± 5.7"]),
            (0.15, ["60.1 ± 3.5", "55.0 ± 4.3", "42.7 ± 1.4", "36.8 ± 5.2"]),
        ],
    ),
    (
        "mnist",
        "standard",
        "98.8 ± 0.4",
        &[
            (0.1, ["23.2 ± 3.5", "0.0", "", ""]),
            (0.15, ["2.5 ± 1.6", "0.0", "", ""]),
            (0.2, ["0.3 ± 0.2", "0.0", "", ""]),
        ],
    ),
    (
        "mnist",
        "adversarial",
        "99.2 ± 0.1",
        &[
            (0.1, ["95.4 ± 0.4", "0.0", "", ""]),
            (0.15, ["88.3 ± 0.6", "0.0", "", ""]),
            (0.2, ["59.4 ± 3.2", "0.0", "", ""]),
        ],
    ),
    (
        "fashion-mnist",
        "standard",
        "88.6 ± 1.2",
        &[(0.1, ["0.1 ± 0.1", "0.0", "", ""]), (0.15, ["0.0", "0.0", "", ""])],
    ),
    (
        "fashion-mnist",
        "adversarial",
        "80.9 ± 0.7",
        &[(0.1, ["70.2 ± 0.5", "0.0", "", ""]), (0.15, ["47.1 ± 3.7", "0.0", "", ""])],
    ),
    ("cifar10", "0.001", "60.8", &[(0.001, ["57.6", "57.1", "", ""])]),
];

/// What the paper has of a network.
fn published(data_set: &str, name: &str) -> Option<&'static Row> {
    PAPER.iter().find(|(set, word, ..)| *set == data_set && name.to_lowercase().contains(word))
}

/// The radii of the paper for a data set.
fn radii(data_set: &str) -> &'static [f64] {
    match data_set {
        "mnist" => &[0.1, 0.15, 0.2],
        "cifar10" => &[0.001],
        _ => &[0.1, 0.15],
    }
}

struct Classification {
    networks: Networks,
    grid: Vec<(usize, usize, f64)>,
}

impl Classification {
    fn new(given: &Given) -> Result<Self, Failure> {
        let networks = Networks::open(given, "fashion-mnist", given.size(20, 1000))?;
        let of = |(network, sample): (usize, usize)| {
            radii(networks.data_set(network)).iter().map(move |eps| (network, sample, *eps))
        };
        let grid = networks.pairs().into_iter().flat_map(of).collect();
        Ok(Self { networks, grid })
    }

    /// Standard against certified accuracy, a panel for each data set and radius: every network by `auto`, joined with
    /// what the paper has of one trained that way.
    fn pareto(&self, done: &Done<'_>) -> Chart {
        let mut questions: Vec<(&str, f64)> = Vec::new();
        for network in 0..self.networks.len() {
            let set = self.networks.data_set(network);
            let new = radii(set).iter().map(|eps| (set, *eps)).filter(|new| !questions.contains(new));
            questions.extend(new.collect::<Vec<_>>());
        }
        let panel = |(set, eps): (&str, f64)| {
            let (mut ours, mut joins, mut theirs) = (Vec::new(), Vec::new(), Vec::new());
            for network in (0..self.networks.len()).filter(|n| self.networks.data_set(*n) == set) {
                let mine = |case: usize| self.grid[case].0 == network && self.grid[case].2 == eps;
                let all = done.values("standard", mine).len();
                let share =
                    |figure: &str| 100.0 * done.values(figure, mine).iter().sum::<f64>() / all.max(1) as f64;
                if all == 0 {
                    continue;
                }
                let (name, here) = (self.networks.name(network), (share("auto"), share("standard")));
                ours.push(Curve::dots(name, vec![here]));
                let row = published(set, name);
                let columns = row.and_then(|row| row.3.iter().find(|(radius, _)| *radius == eps));
                let there = row
                    .zip(columns)
                    .and_then(|(row, (_, columns))| Some((middle(columns[1])?, middle(row.2)?)));
                if let Some(there) = there {
                    joins.push(Curve { name: name.into(), look: Look::Plain, points: vec![here, there] });
                    theirs.push(there);
                }
            }
            let paper = Curve::dots("the paper's mean, certified by GAINS", theirs);
            Panel {
                title: format!("{set}, ε {eps}"),
                x: Axis::linear("percent certified"),
                y: Axis::linear("percent right"),
                curves: joins.into_iter().chain(ours).chain([paper]).collect(),
            }
        };
        let panels = questions.into_iter().map(panel).collect();
        Chart { title: "Standard and certified accuracy: up and to the right is better".into(), panels }
    }

    fn row(&self, done: &Done<'_>, network: usize, eps: f64) -> [Vec<String>; 2] {
        let mine = |case: usize| self.grid[case].0 == network && self.grid[case].2 == eps;
        let all = done.values("standard", mine).len();
        let count = |name: &str| done.values(name, mine).iter().filter(|value| **value > 0.0).count();
        let name = self.networks.name(network);
        let paper = published(self.networks.data_set(network), name);
        let columns =
            paper.and_then(|row| row.3.iter().find(|(radius, _)| *radius == eps)).map(|(_, columns)| columns);
        let beside = |ours: String, theirs: Option<&str>| match theirs {
            None | Some("") => ours,
            Some(theirs) => format!("{ours} ({theirs})"),
        };
        let with = |figure: &str, column: usize| {
            beside(percent(count(figure), all), columns.map(|columns| columns[column]))
        };
        let times = METHODS.map(|(method, ..)| shown(median(done.values(&format!("{method} ms"), mine)), 0));
        let sizes = ["gains", "tight"].map(|m| shown(median(done.values(&format!("{m} vertices"), mine)), 0));
        let accuracies = vec![
            name.into(),
            eps.to_string(),
            all.to_string(),
            beside(percent(count("standard"), all), paper.map(|row| row.2)),
            with("attacked", 0),
            format!("{} / {} / {}", percent(count("auto"), all), count("falsified"), count("unknown")),
            percent(count("tight"), all),
            with("gains", 1),
            with("linear", 2),
            with("box", 3),
            sizes.join(", "),
            times.join(" / "),
        ];
        // An image that only `auto` falsified is not robust either.
        let robust = (0..self.grid.len()).filter(|case| mine(*case)).filter(|case| {
            let figure = |name: &str| done.figures[*case].as_ref().and_then(|f| f.get(name));
            figure("attacked") == Some(1.0) && figure("falsified") == Some(0.0)
        });
        let (gains, attacked, auto, most) =
            (count("gains"), count("attacked"), count("auto"), robust.count());
        let closed = |top: usize| match top.checked_sub(gains) {
            None | Some(0) => "–".into(),
            Some(gap) => format!("{:.0} %", 100.0 * (auto as f64 - gains as f64) / gap as f64),
        };
        let gap = vec![
            name.into(),
            eps.to_string(),
            percent(gains, all),
            percent(attacked, all),
            percent(auto, all),
            count("unknown").to_string(),
            closed(attacked),
            percent(most, all),
            closed(most),
        ];
        [accuracies, gap]
    }
}

impl Study for Classification {
    fn setting(&self) -> String {
        format!("PGD of 200 steps of 0.0025, auto {PATIENCE} s; {}", self.networks.setting())
    }

    fn cases(&self) -> Vec<Case> {
        let case = |(network, sample, eps): &(usize, usize, f64)| {
            Case(vec![
                ("network", self.networks.name(*network).into()),
                ("sample", sample.to_string()),
                ("eps", eps.to_string()),
            ])
        };
        self.grid.iter().map(case).collect()
    }

    fn work(&self, case: usize) -> Result<Figures, String> {
        let (network, sample, eps) = self.grid[case];
        let subject = self.networks.subject(network).map_err(|failure| failure.message)?;
        let question = subject.question(sample, eps);
        let word = |is: bool| if is { 1.0 } else { 0.0 };
        let mut figures = Figures::default().with("standard", word(question.is_answered(unlimited())));
        if figures.get("standard") == Some(0.0) {
            return Ok(figures);
        }
        let mut certified = false;
        for (name, method, step_form) in METHODS {
            let way = Way { method, step_form, arithmetic: Arithmetic::Real };
            let budget = Budget { timeout: Some(Duration::from_secs(BOUND_PATIENCE)), ..unlimited() };
            let started = Instant::now();
            let bounded = question.bound(way, budget, |bounded| (bounded.margin, bounded.size.0)).ok();
            let proved = bounded.is_some_and(|(margin, _)| margin > 0.0);
            certified |= proved;
            figures = figures
                .with(name, word(proved))
                .with(&format!("{name} ms"), 1e3 * started.elapsed().as_secs_f64())
                .with_some(&format!("{name} vertices"), bounded.map(|(_, vertices)| vertices as f64));
        }
        // What is proved needs no attack.
        let withstands = certified || question.withstands(sample, unlimited());
        let budget = Budget { timeout: Some(Duration::from_secs(PATIENCE)), ..unlimited() };
        let answer = question.decide(&Plan::auto(AttackPlan::PAPER), sample as u64, 1, budget);
        let falsified = matches!(answer.verdict, Verdict::Falsified(_));
        if certified && falsified {
            return Err(format!("sample {sample} at {eps}: a proof is contradicted by a witness"));
        }
        Ok(figures
            .with("attacked", word(withstands))
            .with("auto", word(answer.verdict == Verdict::Verified))
            .with("falsified", word(falsified))
            .with("unknown", word(matches!(answer.verdict, Verdict::Unknown(_)))))
    }

    fn report(&self, done: &Done<'_>) -> Report {
        let (mut accuracies, mut gaps, mut panels) = (Vec::new(), Vec::new(), Vec::new());
        for network in 0..self.networks.len() {
            let all = radii(self.networks.data_set(network));
            for eps in all {
                let [accuracy, gap] = self.row(done, network, *eps);
                accuracies.push(accuracy);
                gaps.push(gap);
            }
            let curve = |name: &str| {
                let at = |eps: &f64| {
                    let found =
                        done.values("standard", |c| self.grid[c].0 == network && self.grid[c].2 == *eps);
                    let part = done.values(name, |c| self.grid[c].0 == network && self.grid[c].2 == *eps);
                    (*eps, 100.0 * part.iter().sum::<f64>() / found.len().max(1) as f64)
                };
                Curve::line(name, all.iter().map(at).collect())
            };
            panels.push(Panel {
                title: self.networks.name(network).into(),
                x: Axis::linear("ε"),
                y: Axis::percent("percent of images"),
                curves: ["attacked", "auto", "tight", "gains", "linear", "box"].map(curve).to_vec(),
            });
        }
        let header = vec![
            "network",
            "eps",
            "images",
            "standard % (paper)",
            "attacked % (paper)",
            "auto: certified % / falsified / unknown",
            "tight %",
            "gains % (paper)",
            "linear % (paper)",
            "box % (paper)",
            "vertices: gains, tight",
            "ms: box / linear / gains / tight",
        ];
        let gap_header = vec![
            "network",
            "eps",
            "gains %",
            "attacked %",
            "auto %",
            "unknown",
            "closed of the gap",
            "robust at most %",
            "closed of what can be",
        ];
        let title = "Accuracies, with the paper's means and deviations over three seeds".to_string();
        let gap_title = "The gap between the paper's verifier and its attack".to_string();
        Report {
            tables: vec![Table::of(title, header, accuracies), Table::of(gap_title, gap_header, gaps)],
            charts: vec![
                ("classification", Chart { title: "Accuracies of classifiers".into(), panels }),
                ("pareto", self.pareto(done)),
            ],
            remarks: vec![
                "Times are medians, on as many threads as were asked for. An image that some method certifies is not attacked.".into(),
            ],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::NamedModel;
    use super::*;

    #[test]
    fn an_image_of_the_bundled_network_is_certified_as_its_methods_are_ordered() {
        let study = Classification::new(&Given::for_tests()).unwrap();
        // Image 1 at the smaller radius.
        let figures = study.work(2).unwrap();
        let get = |name: &str| figures.get(name).unwrap();
        assert_eq!((get("standard"), get("auto"), get("falsified"), get("unknown")), (1.0, 1.0, 0.0, 0.0));
        assert!(get("box") <= get("gains") && get("gains") <= get("attacked"));
        let done = Done { cases: &study.cases(), figures: vec![Some(figures); study.grid.len()] };
        let [accuracies, gap] = study.row(&done, 0, 0.1);
        assert_eq!((accuracies[3].as_str(), gap[7].as_str()), ("100.0", "100.0"));
        let chart = study.pareto(&done);
        let [panel, _] = &chart.panels[..] else { panic!("a panel for each radius") };
        assert_eq!(
            (panel.title.as_str(), panel.curves[0].points[0]),
            ("fashion-mnist, ε 0.1", (100.0, 100.0))
        );
    }

    #[test]
    fn a_network_of_the_paper_is_joined_with_what_the_paper_has_of_it() {
        let named = NamedModel { name: "provable 0.16".into(), path: "fashion-mnist".into() };
        let study = Classification::new(&Given { networks: vec![named], ..Given::for_tests() }).unwrap();
        let figures = Figures::default().with("standard", 1.0).with("auto", 0.0);
        let done = Done { cases: &study.cases(), figures: vec![Some(figures); study.grid.len()] };
        let chart = study.pareto(&done);
        let points =
            |panel: usize| chart.panels[panel].curves.iter().map(|c| c.points.clone()).collect::<Vec<_>>();
        assert_eq!(points(0), [vec![(0.0, 100.0), (61.3, 71.5)], vec![(0.0, 100.0)], vec![(61.3, 71.5)]]);
        assert_eq!(points(1)[2], [(55.0, 71.5)]);
    }

    #[test]
    fn figures_of_the_paper_are_found_by_name() {
        assert_eq!(published("mnist", "mnist-provable-0.22-seed12345").unwrap().2, "91.8 ± 1.3");
        assert!(published("fashion-mnist", "0.22").is_none());
    }
}
