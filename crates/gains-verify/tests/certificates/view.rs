//! What the checker says of proofs whose verifier may be broken (`scripts/sabotage.sh --checker`).
//!
//! All that the verifier shows of some networks is claimed, but for a little, and written down whatever else is known: the
//! second line of defence, which holds bounds against points that were seen, is left out on purpose. With a verifier that is
//! right, all of it is accepted. With a broken one, the checker has to refuse what is false.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

use gains_check::check;
use gains_core::{Arithmetic, BoxVec, Interval, Precision, Program, Rows};
use gains_ode::{Inference, Observations, Watch};
use gains_testkit::grammar::ImageCase;
use gains_testkit::{Choices, Kinds, random_model};
use gains_verify::certificate::encode;
use gains_verify::certificate::prove::certificate;
use gains_verify::property::LinearRow;
use gains_verify::{
    Analysis, Budget, Clock, Method, Problem, Property, Region, Settings, Stage, StepForm, Verdict, Verifier,
};

use crate::{Both, parts, series};

const WAYS: [(Method, StepForm); 4] = [
    (Method::Box, StepForm::Independent),
    (Method::Gains, StepForm::Independent),
    (Method::Tight, StepForm::Difference),
    (Method::Symbolic, StepForm::Independent),
];

/// Of the grammar: together they have products, maxima, pooling, normalisation and functions made of pieces.
const DRAWN: [u64; 14] = [8, 11, 38, 76, 84, 91, 135, 157, 166, 176, 180, 190, 219, 243];

/// What came of all claims.
#[derive(Default)]
struct Said {
    accepted: usize,
    refused: Vec<String>,
    silent: usize,
    /// Claims that were accepted and are false at a point.
    false_ones: Vec<String>,
    print: DefaultHasher,
}

fn budget() -> Budget<'static> {
    Budget { timeout: Some(Duration::from_secs(5)), vertices: 200, ..Budget::default() }
}

impl Said {
    /// Claims all that a method shows of the outputs.
    fn claim(&mut self, name: &str, both: &Both, region: &BoxVec, way: (Method, StepForm)) {
        self.claim_of(name, both, &both.network.body, (vec![region.clone()], None), way);
    }

    /// The same of a program with several inputs: a network that is laid out for a series.
    fn claim_of(
        &mut self,
        name: &str,
        both: &Both,
        program: &Program,
        (boxes, series): (Vec<BoxVec>, Option<&Observations>),
        (method, form): (Method, StepForm),
    ) {
        let count = program.output_shape().len();
        let rows = Rows::units(program.output_shape(), &(0..count).collect::<Vec<_>>());
        let clock = Clock::start(budget());
        let analysis = Analysis::new(program, boxes.clone(), method, form, Arithmetic::Real, clock);
        let Ok(lower) = analysis.and_then(|analysis| analysis.bound(&rows)).map(|bounds| bounds.lower) else {
            self.silent += 1;
            return;
        };
        let widths = (0..count).map(|i| (-lower[i] - lower[i + count]).abs());
        // The walk of affine forms that is written down has fewer choices than the one that bounds.
        let part = if method == Method::Symbolic { 0.2 } else { 0.01 };
        let little = part * widths.fold(0.0, f64::max) + 1e-6;
        let row = |(i, bound): (usize, &f64)| LinearRow::new(rows.row(i).to_vec(), little - bound);
        let property = Property::all(count, lower.iter().enumerate().map(row).collect());
        let middle = |b: &BoxVec| b.lower.iter().zip(&b.upper).map(|(l, u)| 0.5 * l + 0.5 * u).collect();
        let nominal = boxes.iter().map(middle).collect();
        let problem = Problem { program, region: Region::boxes(boxes), property, nominal, output: None };
        let stages = Stage::bounds(&[method]);
        let verifier = Verifier::new(Settings { stages, step_form: form, ..Settings::default() });
        let mut report = verifier.decide(&problem, budget());
        report.verdict = Verdict::Verified;
        let clock = Clock::start(budget());
        let Ok(written) = certificate(&problem, series, &verifier.settings, &report, clock) else {
            self.silent += 1;
            return;
        };
        let bytes = encode::to_cbor(&written, &both.hash, &[]);
        bytes.hash(&mut self.print);
        match check(&both.checked, &bytes) {
            Err(fault) => self.refused.push(format!("{name} {method:?}: {fault}")),
            Ok(_) => {
                self.accepted += 1;
                if is_false(&problem) {
                    self.false_ones.push(format!("{name} {method:?}"));
                }
            }
        }
    }
}

/// Whether some point of the region breaks the property, beyond rounding.
fn is_false(problem: &Problem<'_>) -> bool {
    let mut random = fastrand::Rng::with_seed(1);
    (0..40).any(|k| {
        let mut point = |b: &BoxVec| -> Vec<f64> {
            let mut entry = |(low, high): (&f64, &f64)| {
                let part = if k < 20 { f64::from(u8::from(random.bool())) } else { random.f64() };
                low + part * (high - low)
            };
            b.lower.iter().zip(&b.upper).map(&mut entry).collect()
        };
        let point: Vec<Vec<f64>> = problem.region.outer.iter().map(&mut point).collect();
        let point: Vec<&[f64]> = point.iter().map(Vec::as_slice).collect();
        let run = Inference::run_within(problem.program, &point, Precision::Float64, &Watch::default());
        run.is_ok_and(|run| problem.property.margin_at(&run.output) < -1e-7)
    })
}

/// Asks about all networks.
fn ask() -> Said {
    let mut said = Said::default();
    for seed in DRAWN {
        let case = ImageCase::draw(&mut Choices::from_seed(seed));
        if serde_json::to_string(&case.model.description).unwrap().contains("\"adaptive\"") {
            continue;
        }
        let both = Both::new(&case.model);
        let region = BoxVec::ball(&case.centre, case.radius.min(0.1), case.range);
        WAYS.iter().for_each(|&way| said.claim(&format!("drawn {seed}"), &both, &region, way));
    }
    for seed in 0..8 {
        let mut random = fastrand::Rng::with_seed(seed);
        let model = random_model(&mut random, Kinds::All);
        let both = Both::new(&model);
        let centre: Vec<f64> = (0..model.inputs()).map(|_| random.f64()).collect();
        let region = BoxVec::ball(&centre, 0.05, Interval::new(-10.0, 10.0));
        WAYS.iter().for_each(|&way| said.claim(&format!("random {seed}"), &both, &region, way));
    }
    for seed in 0..3 {
        let both = Both::new(&parts::model(seed, 4));
        let region = BoxVec::ball(&[0.4, 0.6, 0.5, 0.3], 0.2, Interval::new(-10.0, 10.0));
        WAYS.iter().for_each(|&way| said.claim(&format!("part {seed}"), &both, &region, way));
    }
    for seed in 0..6 {
        series::drawn(seed, |both, observations, problem, _| {
            let asked = || (problem.region.outer.clone(), Some(observations));
            let name = format!("series {seed}");
            WAYS.iter().for_each(|&way| said.claim_of(&name, both, problem.program, asked(), way));
        });
    }
    for (name, bytes, radius) in [
        ("unsound", &include_bytes!("../data/unsound.safetensors")[..], 0.02),
        ("unsound2", &include_bytes!("../data/unsound2.safetensors")[..], 0.05),
    ] {
        let both = Both::read(bytes);
        for (left, right) in [(0.5, 0.0), (0.0, 0.5), (0.9, 0.3)] {
            let image: Vec<f64> = (0..28 * 28).map(|i| if i % 28 < 14 { left } else { right }).collect();
            let region = BoxVec::ball(&image, radius, Interval::new(0.0, 1.0));
            WAYS[1..3].iter().for_each(|&way| said.claim(name, &both, &region, way));
        }
    }
    said
}

/// Healthy, everything is accepted. `scripts/sabotage.sh --checker` reads what is printed.
#[test]
fn all_that_is_shown_is_accepted_and_nothing_false_is() {
    let said = ask();
    println!(
        "checker: {} accepted, {} refused, {} not written, print {:016x}",
        said.accepted,
        said.refused.len(),
        said.silent,
        said.print.finish()
    );
    said.refused.iter().for_each(|refusal| println!("checker refuses: {refusal}"));
    said.false_ones.iter().for_each(|name| println!("checker is wrong: {name}"));
    assert!(said.false_ones.is_empty(), "false claims are accepted: {:?}", said.false_ones);
    assert!(said.refused.is_empty(), "{:?}", said.refused);
    assert!(said.accepted > 100 && said.silent < 20, "{} and {}", said.accepted, said.silent);
}
