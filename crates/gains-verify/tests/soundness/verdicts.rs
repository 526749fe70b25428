//! What a verdict is decided over, and the second line of defence: a bound that excludes what was seen is none.

use gains_core::model_file::Tensors;
use gains_core::{BoxVec, Interval, Network, Shape};
use gains_testkit::{Model, linear};
use gains_verify::{
    Attack, AttackLoss, Budget, Method, Problem, Reason, Region, Report, Settings, Stage, Verdict, Verifier,
};

use crate::region::METHODS;

/// Outputs `(2 − x, 0)`: class 0 wins by `2 − x`.
fn network() -> Network {
    let mut tensors = Tensors::new();
    let layers = vec![linear(&mut tensors, "out", &[&[-1.0], &[0.0]], &[2.0, 0.0], false)];
    Model::new(Shape::flat(1), layers, tensors, 2).network()
}

fn interval(lower: f64, upper: f64) -> Vec<BoxVec> {
    vec![BoxVec::new(vec![lower], vec![upper])]
}

fn problem(network: &Network, outer: Vec<BoxVec>, inner: Vec<BoxVec>) -> Problem<'_> {
    let whole = Interval::new(-10.0, 10.0);
    let region = Region { outer, inner, radius: 1.0, ball: None, paces: Vec::new() };
    Problem { region, ..Problem::classification(network, &[0.0], 0, 1.0, whole) }
}

fn decide(problem: &Problem<'_>, method: Method) -> Report {
    let settings = Settings { stages: vec![Stage::Bound(method)], intervals: true, ..Settings::default() };
    Verifier::new(settings).decide(problem, Budget::default())
}

#[test]
fn what_is_proved_holds_on_the_outer_region_and_witnesses_are_of_the_inner_one() {
    let network = network();
    for method in METHODS {
        // Wrong beyond 2, which only the outer region reaches.
        let wide = problem(&network, interval(-1.0, 3.0), interval(-1.0, 1.0));
        let report = decide(&wide, method);
        assert!(matches!(report.verdict, Verdict::Unknown(Reason::Loose { .. })), "{method}: {report:?}");
        let narrow = problem(&network, interval(-1.0, 1.0), interval(-1.0, 1.0));
        assert_eq!(decide(&narrow, method).verdict, Verdict::Verified, "{method}");
    }
    let region = problem(&network, interval(-1.0, 3.0), interval(-1.0, 1.0)).region;
    assert!(region.contains(&vec![vec![1.0]]) && !region.contains(&vec![vec![2.5]]));
}

#[test]
fn margins_above_what_is_seen_are_no_proof() {
    let network = network();
    for method in METHODS {
        // The program is said to win by less than it does anywhere.
        let mut lie = problem(&network, interval(-1.0, 1.0), interval(-1.0, 1.0));
        lie.output = Some(vec![0.5, 0.0]);
        let report = decide(&lie, method);
        assert_eq!(report.verdict, Verdict::Unknown(Reason::Contradicted), "{method}");
        lie.output = Some(vec![2.0, 0.0]);
        assert_eq!(decide(&lie, method).verdict, Verdict::Verified, "{method}");
    }
}

#[test]
fn intervals_that_exclude_what_is_seen_are_no_proof() {
    let network = network();
    for method in METHODS {
        // The margin is right, the outputs are not.
        let mut lie = problem(&network, interval(-1.0, 1.0), interval(-1.0, 1.0));
        lie.output = Some(vec![12.0, 10.0]);
        let report = decide(&lie, method);
        assert_eq!(report.verdict, Verdict::Unknown(Reason::Contradicted), "{method}");
    }
}

#[test]
fn margins_above_what_an_attack_finds_are_no_proof() {
    let network = network();
    let attack = Attack { steps: 20, step_size: 0.5, loss: AttackLoss::Margin, ..Attack::default() };
    for method in METHODS {
        // The attack may go where nothing was proved, and wins by less there, if not wrongly.
        let apart = problem(&network, interval(-1.0, 0.0), interval(-1.0, 1.5));
        let settings =
            Settings { stages: vec![Stage::Attack(attack), Stage::Bound(method)], ..Settings::default() };
        let report = Verifier::new(settings).decide(&apart, Budget::default());
        assert!(report.attacked_margin.is_some_and(|margin| margin < 1.0), "{report:?}");
        assert_eq!(report.verdict, Verdict::Unknown(Reason::Contradicted), "{method}");
    }
}

#[test]
fn a_sample_that_violates_its_property_is_not_looked_at() {
    let network = network();
    for method in METHODS {
        let mut wrong = problem(&network, interval(-1.0, 1.0), interval(-1.0, 1.0));
        wrong.nominal = vec![vec![3.0]];
        let report = decide(&wrong, method);
        assert_eq!(report.verdict, Verdict::Misclassified, "{method}");
        assert!(report.stages.is_empty() && report.margin.is_none());
    }
}
