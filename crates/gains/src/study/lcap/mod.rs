//! Merging linear bounds: CURLS against linear programs (paper, section 6.3 and appendix).
//!
//! Four upper and four lower bounds of the same quantity over a box are merged into one of each, by CURLS and by a
//! linear program over sampled corners. Compared are the volumes between the merged bounds and the times; every result
//! is checked to be sound, exactly: over a box the largest excess of one linear function over another is at a corner
//! that their signs give.

mod constraints;
mod program;
mod simplex;

use std::hint::black_box;
use std::time::Instant;

use gains_core::{BoxVec, RowBlock};
use gains_verify::curls;

use super::{
    Axis, Case, Chart, Curve, Done, Entry, Figures, Given, Panel, Report, Study, Table, Takes, mean, shown,
};
use crate::table::median;
use constraints::{Affine, Bounds};

/// As the command line knows it.
pub const ENTRY: Entry = Entry {
    name: "lcap",
    about: "merging linear bounds: CURLS against a linear program over sampled corners",
    paper: "section 6.3, figure of volumes and times",
    takes: Takes::Nothing,
    open: |given| Ok(Box::new(Lcap::new(given))),
};

/// Bounds that are merged.
const BOUNDS: usize = 4;
/// How often CURLS is timed.
const ROUNDS: usize = 101;

/// Mean volumes that the authors recorded with their program, in 5, 10, … 100 dimensions: LP and CURLS.
const PAPER: [(f64, f64); 20] = [
    (40.04, 40.30),
    (63.26, 64.01),
    (84.42, 85.53),
    (101.81, 103.42),
    (79.61, 80.91),
    (63.87, 64.94),
    (54.63, 55.46),
    (46.78, 47.31),
    (40.51, 40.91),
    (39.79, 40.18),
    (36.14, 36.50),
    (33.26, 33.52),
    (30.85, 30.97),
    (29.08, 29.13),
    (27.10, 27.03),
    (25.20, 25.08),
    (23.52, 23.36),
    (22.45, 22.23),
    (21.15, 20.89),
    (22.07, 21.65),
];

/// The paper's volume of the linear program, as a part of that of CURLS.
fn published(dimension: usize) -> Option<f64> {
    let place = (dimension / 5).checked_sub(1).filter(|_| dimension.is_multiple_of(5))?;
    PAPER.get(place).map(|(program, curls)| program / curls)
}

struct Lcap {
    dimensions: Vec<usize>,
    instances: usize,
}

impl Lcap {
    fn new(given: &Given) -> Self {
        let dimensions =
            if given.quick { vec![5, 10, 20, 30, 50, 75, 100] } else { (5..=100).step_by(5).collect() };
        Self { dimensions, instances: given.size(10, 100) }
    }

    fn of(&self, case: usize) -> (usize, usize) {
        (self.dimensions[case % self.dimensions.len()], case / self.dimensions.len())
    }
}

/// Bounds as the verifier has them.
fn blocks(bounds: &[Affine]) -> Vec<RowBlock> {
    let one = |bound: &Affine| {
        let mut block = RowBlock::zeros(1, bound.coefficients.len());
        block.row_mut(0).copy_from_slice(&bound.coefficients);
        block.constant[0] = bound.constant;
        block
    };
    bounds.iter().map(one).collect()
}

/// One merged lower bound by CURLS.
fn by_curls(bounds: &[Affine], domain: &BoxVec) -> Affine {
    let blocks = blocks(bounds);
    let (merged, _) = curls::merge(&blocks, &domain.centres());
    Affine { coefficients: merged.row(0).to_vec(), constant: merged.constant[0] - merged.slack[0] }
}

/// Microseconds of one merger by CURLS, median, without what it takes to hand the bounds over.
fn curls_time(bounds: &[Affine], domain: &BoxVec) -> f64 {
    let blocks = blocks(bounds);
    let centred = domain.centres();
    let once = |_| {
        let started = Instant::now();
        black_box(curls::merge(black_box(&blocks), black_box(&centred)));
        1e6 * started.elapsed().as_secs_f64()
    };
    median((0..ROUNDS).map(once).collect()).unwrap_or(f64::NAN)
}

/// Time of this thread on a processor, where the system tells it, else time that passed: a linear program may take so
/// long that others want the processor meanwhile. What the system tells is some milliseconds old.
struct Stopwatch {
    started: Instant,
    worked: Option<f64>,
}

impl Stopwatch {
    fn start() -> Self {
        Self { started: Instant::now(), worked: worked() }
    }

    fn seconds(&self) -> f64 {
        let passed = self.started.elapsed().as_secs_f64();
        let both = self.worked.zip(worked()).filter(|_| passed > 0.05);
        both.map_or(passed, |(before, now)| now - before)
    }
}

/// Seconds this thread has been running; only Linux tells.
fn worked() -> Option<f64> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    text.split_whitespace().next()?.parse::<f64>().ok().map(|nanoseconds| 1e-9 * nanoseconds)
}

impl Study for Lcap {
    fn setting(&self) -> String {
        format!("{BOUNDS} bounds, LP(8, 50, 40), seed 1, times on the processor")
    }

    fn cases(&self) -> Vec<Case> {
        let all = 0..self.dimensions.len() * self.instances;
        all.map(|case| {
            let (dimension, instance) = self.of(case);
            Case(vec![("dimension", dimension.to_string()), ("instance", instance.to_string())])
        })
        .collect()
    }

    fn work(&self, case: usize) -> Result<Figures, String> {
        let (dimension, instance) = self.of(case);
        let mut random = fastrand::Rng::with_seed(1 + 1000 * dimension as u64 + instance as u64);
        let problem = Bounds::draw(dimension, BOUNDS, &mut random)?;
        let domain = &problem.domain;
        let curls_micros = curls_time(&problem.lower, domain);
        // An upper bound is a lower bound of the negated quantity.
        let negated: Vec<Affine> = problem.upper.iter().map(Affine::negated).collect();
        let curls = [by_curls(&problem.lower, domain), by_curls(&negated, domain)];
        let stopwatch = Stopwatch::start();
        let lower = program::merge(&problem.lower, domain, &mut random)?;
        let lp_micros = 1e6 * stopwatch.seconds();
        let lp = [lower, program::merge(&negated, domain, &mut random)?];
        for (merged, parts) in
            curls.iter().chain(&lp).zip([&problem.lower, &negated, &problem.lower, &negated])
        {
            let excess =
                parts.iter().map(|part| merged.largest_excess(part, domain)).fold(f64::MIN, f64::max);
            if excess > 1e-9 {
                return Err(format!("a merged bound exceeds a part by {excess:e}"));
            }
        }
        let centre = domain.centres().centre;
        // Between an upper and a lower plane over a box lies the box times their distance at its centre.
        let volume = |pair: &[Affine; 2]| -pair[0].at(&centre) - pair[1].at(&centre);
        Ok(Figures::default()
            .with("volume LP / CURLS", volume(&lp) / volume(&curls))
            .with("CURLS µs", curls_micros)
            .with("LP µs", lp_micros))
    }

    fn report(&self, done: &Done<'_>) -> Report {
        let mut rows = Vec::new();
        let (mut volumes, mut theirs) = (Vec::new(), Vec::new());
        let (mut quick, mut slow) = (Vec::new(), Vec::new());
        for (index, &dimension) in self.dimensions.iter().enumerate() {
            let mine = |case: usize| case % self.dimensions.len() == index;
            let volume = mean(&done.values("volume LP / CURLS", mine));
            let [curls, lp] = ["CURLS µs", "LP µs"].map(|name| median(done.values(name, mine)));
            let d = dimension as f64;
            volumes.extend(volume.map(|v| (d, v)));
            theirs.extend(published(dimension).map(|v| (d, v)));
            quick.extend(curls.map(|t| (d, t)));
            slow.extend(lp.map(|t| (d, t)));
            let ratio = curls.zip(lp).map(|(curls, lp)| lp / curls);
            rows.push(vec![
                dimension.to_string(),
                done.values("CURLS µs", mine).len().to_string(),
                shown(volume, 3),
                shown(published(dimension), 3),
                shown(curls, 1),
                shown(lp, 0),
                shown(ratio, 0),
            ]);
        }
        let header = vec![
            "dimension",
            "instances",
            "volume LP / CURLS",
            "paper",
            "CURLS µs",
            "LP µs",
            "LP time / CURLS time",
        ];
        let title =
            "Merging four bounds; below 1 the linear program is tighter. Medians of times on the processor."
                .to_string();
        let panel =
            |title: &str, y, curves| Panel { title: title.into(), x: Axis::linear("dimension"), y, curves };
        let panels = vec![
            panel(
                "normalised volume",
                Axis::linear("LP / CURLS"),
                vec![Curve::line("LP", volumes), Curve::line("LP, paper", theirs)],
            ),
            panel(
                "time of one merger",
                Axis::log("µs"),
                vec![Curve::line("LP", slow), Curve::line("CURLS", quick)],
            ),
        ];
        Report {
            tables: vec![Table::of(title, header, rows)],
            charts: vec![("lcap", Chart { title: "Merging linear bounds".into(), panels })],
            remarks: vec![
                "Paper: the linear program (Gurobi) is tighter up to about 75 dimensions and 10⁵ times slower; the seconds its authors recorded \
                 differ by factors of 80 (5 dimensions) to 2.3e4 (100 dimensions)."
                    .into(),
                "Every merged bound was checked against all parts over the whole box.".into(),
            ],
        }
    }

    fn is_timed(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// In one dimension both mergers must find the chord of two crossing lines.
    #[test]
    fn both_mergers_find_the_chord_of_two_crossing_lines() {
        let domain = BoxVec::new(vec![-1.0], vec![1.0]);
        let parts = [
            Affine { coefficients: vec![1.0], constant: 0.0 },
            Affine { coefficients: vec![-1.0], constant: 0.0 },
        ];
        let mut random = fastrand::Rng::with_seed(3);
        for merged in [by_curls(&parts, &domain), program::merge(&parts, &domain, &mut random).unwrap()] {
            assert!(
                merged.coefficients[0].abs() < 1e-6 && (merged.constant + 1.0).abs() < 1e-6,
                "{merged:?}"
            );
        }
    }

    #[test]
    fn a_case_is_sound_and_the_program_is_not_looser() {
        let given = Given::for_tests();
        let study = Lcap::new(&given);
        let figures = study.work(0).unwrap();
        let ratio = figures.get("volume LP / CURLS").unwrap();
        assert!(ratio > 0.3 && ratio <= 1.0 + 1e-6, "{ratio}");
    }

    #[test]
    fn the_paper_says_where_the_program_stops_being_tighter() {
        assert!(published(70).unwrap() < 1.0 && published(75).unwrap() > 1.0);
        assert_eq!((published(0), published(7), published(105)), (None, None, None));
    }
}
