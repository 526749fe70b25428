//! Can the solver be made to take other steps? Attacks on its decisions, and proofs that it cannot (paper, Table 3).

use std::time::Duration;

use gains_core::{Arithmetic, Precision};

use super::{
    Axis, Case, Chart, Curve, Done, Entry, Figures, Given, Networks, Panel, Report, Study, Table, Takes,
    mean, shown,
};
use crate::campaign::unlimited;
use crate::failure::Failure;
use crate::question::{Budget, DecisionAttack, Method, Question, StepForm, Until, Way};

/// As the command line knows it.
pub const ENTRY: Entry = Entry {
    name: "trajectory-attack",
    about: "how often the step sizes can be changed within eps, and how often it is proved that they cannot",
    paper: "Table 3",
    takes: Takes::Classifiers,
    open: |given| Ok(Box::new(TrajectoryAttack::new(given)?)),
};

const RADII: [f64; 3] = [0.1, 0.15, 0.2];
/// Mean and deviation.
type Measured = (f64, f64);
/// Attack success in the paper, in percent, for networks whose names contain all these words: mean and deviation.
const PAPER: [(&[&str], [Measured; 3]); 4] = [
    (&["standard"], [(98.9, 0.3), (100.0, 0.1), (100.0, 0.0)]),
    (&["adversarial"], [(99.3, 0.1), (100.0, 0.0), (100.0, 0.0)]),
    (&["provable", "0.11"], [(73.4, 3.5), (86.3, 3.5), (95.5, 1.8)]),
    (&["provable", "0.22"], [(65.2, 7.5), (75.3, 6.2), (82.2, 5.0)]),
];
/// The attack of the paper's program; its text says a step of 1/40, ten times as long.
const STEPS: usize = 100;
const STEP_SIZE: f64 = 0.0025;
/// Every so many samples are tried to be proved even where an attack changed them.
const CROSS_CHECK: usize = 10;
/// Seconds for a proof.
const PATIENCE: u64 = 30;

struct TrajectoryAttack {
    networks: Networks,
    grid: Vec<(usize, usize)>,
    steps: usize,
}

impl TrajectoryAttack {
    fn new(given: &Given) -> Result<Self, Failure> {
        let networks = Networks::open(given, "fashion-mnist", given.size(20, 1000))?;
        let grid = networks.pairs();
        Ok(Self { networks, grid, steps: STEPS })
    }

    /// Whether no step size can change within a radius: the graph has one way through it.
    fn is_proved(question: &Question<'_>) -> bool {
        let budget = Budget { timeout: Some(Duration::from_secs(PATIENCE)), ..unlimited() };
        let way =
            Way { method: Method::Tight, step_form: StepForm::Difference, arithmetic: Arithmetic::Real };
        question.bound(way, budget, |bounded| bounded.size.1 + 1 == bounded.size.0).unwrap_or(false)
    }
}

/// What the paper found for a network of a name.
fn published(name: &str, radius: usize) -> Option<(f64, f64)> {
    let fits = |words: &[&str]| words.iter().all(|word| name.to_lowercase().contains(word));
    PAPER.iter().find(|(words, _)| fits(words)).map(|(_, figures)| figures[radius])
}

/// How many deviations a share of some samples is away from the paper's mean: those between the paper's networks, and
/// those that so few samples have themselves.
fn apart(share: f64, samples: usize, (middle, deviation): (f64, f64)) -> f64 {
    let sampled = middle * (100.0 - middle) / samples.max(1) as f64;
    // A tenth of a percent is what the paper's rounding allows.
    (share - middle) / (deviation.powi(2) + sampled).sqrt().max(0.1)
}

impl Study for TrajectoryAttack {
    fn setting(&self) -> String {
        format!(
            "seven schedules of {} steps of {STEP_SIZE}; proofs by tight, {PATIENCE} s; {}",
            self.steps,
            self.networks.setting()
        )
    }

    fn cases(&self) -> Vec<Case> {
        let case = |(network, sample): &(usize, usize)| {
            let name = self.networks.name(*network).to_string();
            Case(vec![("network", name), ("sample", sample.to_string())])
        };
        self.grid.iter().map(case).collect()
    }

    /// What is changed within a radius is changed within every larger one, so it is not attacked again there.
    fn work(&self, case: usize) -> Result<Figures, String> {
        let (network, sample) = self.grid[case];
        let subject = self.networks.subject(network).map_err(|failure| failure.message)?;
        let attack = DecisionAttack {
            steps: self.steps,
            step_size: STEP_SIZE,
            seed: sample as u64,
            until: Until::AtEnd,
        };
        let word = |is: bool| if is { 1.0 } else { 0.0 };
        let (mut anywhere, mut at_end) = (false, false);
        let mut figures = Figures::default();
        for eps in RADII {
            let question = subject.question(sample, eps);
            if !at_end {
                let changed = question.change_trajectory(&attack, Precision::Float64, unlimited())?;
                anywhere |= changed.anywhere;
                at_end = changed.at_end;
            }
            // There is nothing to prove behind a change, but now and then it is tried, to be sure.
            let proved = (!anywhere || sample.is_multiple_of(CROSS_CHECK)) && Self::is_proved(&question);
            if anywhere && proved {
                return Err(format!(
                    "sample {sample} at {eps}: a proof that the trajectory stays is contradicted"
                ));
            }
            figures = figures
                .with(&format!("changed {eps}"), word(anywhere))
                .with(&format!("changed at end {eps}"), word(at_end))
                .with(&format!("proved {eps}"), word(proved));
        }
        Ok(figures)
    }

    fn report(&self, done: &Done<'_>) -> Report {
        let mut rows = Vec::new();
        let mut curves = [Vec::new(), Vec::new(), Vec::new()];
        for network in 0..self.networks.len() {
            let name = self.networks.name(network);
            let mine = |case: usize| self.grid[case].0 == network;
            let mut points = [Vec::new(), Vec::new(), Vec::new()];
            for (radius, eps) in RADII.into_iter().enumerate() {
                let found = |figure: &str| done.values(&format!("{figure} {eps}"), mine);
                let share = |figure: &str| mean(&found(figure)).map(|share| 100.0 * share);
                let samples = found("changed").len();
                let [changed, at_end, proved] = ["changed", "changed at end", "proved"].map(share);
                let paper = published(name, radius);
                points[0].extend(at_end.map(|share| (eps, share)));
                points[1].extend(paper.map(|(middle, _)| (eps, middle)));
                points[2].extend(proved.map(|share| (eps, share)));
                let apart = paper.zip(at_end).map(|(paper, share)| apart(share, samples, paper));
                rows.push(vec![
                    name.into(),
                    eps.to_string(),
                    samples.to_string(),
                    shown(at_end, 1),
                    paper.map_or("–".into(), |(middle, deviation)| format!("{middle:.1} ± {deviation:.1}")),
                    apart.map_or("–".into(), |apart| format!("{apart:+.1}")),
                    shown(changed, 1),
                    shown(proved, 1),
                    shown(changed.zip(proved).map(|(changed, proved)| 100.0 - changed - proved), 1),
                ]);
            }
            for (curve, points) in curves.iter_mut().zip(points) {
                curve.push(Curve::line(name, points));
            }
        }
        let header = vec![
            "network",
            "eps",
            "samples",
            "changed %",
            "paper %",
            "deviations apart",
            "changed on the way %",
            "proved to stay %",
            "open %",
        ];
        let [changed, theirs, proved] = curves;
        let panel = |title: &str, y: fn(&str) -> Axis, curves| Panel {
            title: title.into(),
            x: Axis::linear("ε"),
            y: y("percent of images"),
            curves,
        };
        let mut panels = vec![
            panel("trajectory changed by an attack", Axis::percent, changed),
            panel("the same in the paper", Axis::percent, theirs),
            panel("proved that it cannot be changed", Axis::linear, proved),
        ];
        // The paper says nothing of networks of other names.
        panels.retain(|panel| panel.curves.iter().any(|curve| !curve.points.is_empty()));
        let title = "Step sizes under attack".to_string();
        Report {
            tables: vec![Table::of(title.clone(), header, rows)],
            charts: vec![("trajectory-attack", Chart { title, panels })],
            remarks: vec![
                format!("The paper's text says steps of 1/40; its program takes {STEP_SIZE}, and so does this study."),
                "'changed' looks at what a schedule ends with, as the paper's program does, 'on the way' at every iterate. \
                 Deviations are those between the paper's three networks and those of as many samples."
                    .into(),
            ],
        }
    }
}

#[cfg(test)]
mod tests {
    use gains_core::model_file::{read_parts, write_model};

    use super::super::NamedModel;
    use super::*;

    #[test]
    fn a_sample_of_the_bundled_network_is_changed_or_proved_but_not_both() {
        let given = Given::for_tests();
        let study = TrajectoryAttack { steps: 3, ..TrajectoryAttack::new(&given).unwrap() };
        let figures = study.work(0).unwrap();
        for eps in RADII {
            let get = |name: &str| figures.get(&format!("{name} {eps}")).unwrap();
            assert!(get("changed") + get("proved") <= 1.0);
            assert!(get("changed at end") <= get("changed"));
        }
        // Its graph at the largest radius has branches, so nothing is proved there.
        assert_eq!(figures.get("proved 0.2"), Some(0.0));
    }

    /// Without dynamics no step has an error, so there is one trajectory, whatever the image.
    #[test]
    fn a_network_that_stands_still_cannot_be_made_to_take_other_steps() {
        let (description, mut tensors) = read_parts(crate::bundled::MODELS[0].bytes).unwrap();
        let dynamics = tensors.iter_mut().filter(|(name, _)| name.starts_with("ode"));
        let stilled = dynamics.map(|(_, (_, values))| values.fill(0.0)).count();
        assert_eq!(stilled, 4, "weights and biases of two layers");
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("still.safetensors");
        std::fs::write(&path, write_model(&description, &tensors).unwrap()).unwrap();
        let given = Given { networks: vec![NamedModel { name: "still".into(), path }], ..Given::for_tests() };
        let study = TrajectoryAttack { steps: 3, ..TrajectoryAttack::new(&given).unwrap() };
        let figures = study.work(0).unwrap();
        for eps in RADII {
            let get = |name: &str| figures.get(&format!("{name} {eps}")).unwrap();
            assert_eq!((get("changed"), get("changed at end"), get("proved")), (0.0, 0.0, 1.0));
        }
    }

    #[test]
    fn figures_of_the_paper_are_found_by_name() {
        assert_eq!(published("mnist provable 0.22", 0), Some((65.2, 7.5)));
        assert_eq!(published("fashion-mnist", 0), None);
        assert_eq!(apart(99.9, 1000, (100.0, 0.0)).round(), -1.0);
        assert!((apart(65.0, 100, (50.0, 0.0)) - 3.0).abs() < 1e-12);
        assert!((apart(80.2, 1_000_000_000, (65.2, 7.5)) - 2.0).abs() < 1e-6);
    }
}
