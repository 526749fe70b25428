//! What it costs to prove things about the float32 arithmetic that networks are deployed in.

use std::time::Duration;

use gains_core::Arithmetic;

use super::{
    Axis, Case, Chart, Curve, Done, Entry, Figures, Given, Networks, Panel, Report, Study, Table, Takes,
    mean, shown,
};
use crate::campaign::unlimited;
use crate::failure::Failure;
use crate::question::{Budget, Method, StepForm, Way};
use crate::table::{median, percent};

/// As the command line knows it.
pub const ENTRY: Entry = Entry {
    name: "float32",
    about: "certified margins of the float32 program against those of exact arithmetic",
    paper: "–",
    takes: Takes::Classifiers,
    open: |given| Ok(Box::new(Float32::new(given)?)),
};

const RADII: [f64; 3] = [0.05, 0.1, 0.15];
const METHODS: [(&str, Method, StepForm); 2] =
    [("gains", Method::Gains, StepForm::Independent), ("tight", Method::Tight, StepForm::Difference)];

struct Float32 {
    networks: Networks,
    grid: Vec<(usize, usize, f64, usize)>,
}

impl Float32 {
    fn new(given: &Given) -> Result<Self, Failure> {
        let networks = Networks::open(given, "fashion-mnist", given.size(20, 100))?;
        let grid = networks
            .pairs()
            .into_iter()
            .flat_map(|(network, sample)| RADII.map(|eps| (network, sample, eps)))
            .flat_map(|(network, sample, eps)| [0, 1].map(|method| (network, sample, eps, method)))
            .collect();
        Ok(Self { networks, grid })
    }
}

impl Study for Float32 {
    fn setting(&self) -> String {
        format!("60 s a bound; {}", self.networks.setting())
    }

    fn cases(&self) -> Vec<Case> {
        let case = |(network, sample, eps, method): &(usize, usize, f64, usize)| {
            Case(vec![
                ("network", self.networks.name(*network).into()),
                ("sample", sample.to_string()),
                ("eps", eps.to_string()),
                ("method", METHODS[*method].0.into()),
            ])
        };
        self.grid.iter().map(case).collect()
    }

    fn work(&self, case: usize) -> Result<Figures, String> {
        let (network, sample, eps, method) = self.grid[case];
        let subject = self.networks.subject(network).map_err(|failure| failure.message)?;
        let question = subject.question(sample, eps);
        let (_, method, step_form) = METHODS[method];
        let mut figures = Figures::default();
        if !question.is_answered(unlimited()) {
            return Ok(figures.with("misclassified", 1.0));
        }
        for (name, arithmetic) in [("real", Arithmetic::Real), ("float32", Arithmetic::Float32)] {
            let budget = Budget { timeout: Some(Duration::from_secs(60)), ..unlimited() };
            let started = std::time::Instant::now();
            let way = Way { method, step_form, arithmetic };
            let margin = question.bound(way, budget, |bounded| bounded.margin);
            figures = figures
                .with_some(&format!("{name} margin"), margin.ok())
                .with(&format!("{name} ms"), 1e3 * started.elapsed().as_secs_f64());
        }
        let lost =
            figures.get("real margin").zip(figures.get("float32 margin")).map(|(real, short)| real - short);
        Ok(figures.with_some("lost", lost))
    }

    fn report(&self, done: &Done<'_>) -> Report {
        let mut rows = Vec::new();
        let mut panels = Vec::new();
        for network in 0..self.networks.len() {
            let mut curves = Vec::new();
            for (which, (name, ..)) in METHODS.iter().enumerate() {
                let mut points = Vec::new();
                for eps in RADII {
                    let mine = |case: usize| {
                        let (n, _, e, m) = self.grid[case];
                        n == network && e == eps && m == which
                    };
                    let certified = |arithmetic: &str| {
                        let margins = done.values(&format!("{arithmetic} margin"), mine);
                        margins.iter().filter(|margin| **margin > 0.0).count()
                    };
                    let all = (0..self.grid.len()).filter(|c| mine(*c) && done.figures[*c].is_some()).count();
                    let lost = done.values("lost", mine);
                    points.extend(mean(&lost).map(|lost| (eps, lost)));
                    let [real, short] = ["real ms", "float32 ms"].map(|name| median(done.values(name, mine)));
                    rows.push(vec![
                        self.networks.name(network).into(),
                        (*name).into(),
                        eps.to_string(),
                        percent(certified("real"), all),
                        percent(certified("float32"), all),
                        mean(&lost).map_or("–".into(), |lost| format!("{lost:.1e}")),
                        shown(real.zip(short).map(|(real, short)| short / real), 2),
                    ]);
                }
                curves.push(Curve::line(name, points));
            }
            panels.push(Panel {
                title: self.networks.name(network).into(),
                x: Axis::linear("ε"),
                y: Axis::log("mean margin lost"),
                curves,
            });
        }
        let header = vec![
            "network",
            "method",
            "eps",
            "certified % (real)",
            "certified % (float32)",
            "mean margin lost",
            "time ratio",
        ];
        let title = "Proofs about float32 against proofs about exact arithmetic".to_string();
        Report {
            tables: vec![Table::of(title.clone(), header, rows)],
            charts: vec![("float32", Chart { title, panels })],
            remarks: vec![],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_proof_about_float32_is_never_above_one_about_exact_arithmetic() {
        let given = Given::for_tests();
        let study = Float32::new(&given).unwrap();
        let lost: Vec<f64> = (6..8).filter_map(|case| study.work(case).unwrap().get("lost")).collect();
        assert!(lost.iter().all(|lost| *lost >= 0.0) && !lost.is_empty(), "{lost:?}");
    }
}
