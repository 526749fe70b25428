//! The library against the concrete solver and against itself.

use std::sync::atomic::{AtomicUsize, Ordering};

use gains_core::Precision;

use super::*;

fn images(model: &Model, count: usize) -> Samples {
    Samples::usual(model, Usual { samples: Some((0..count).collect()), ..Usual::default() }).unwrap()
}

fn arrays(model: &Model, count: usize) -> Samples {
    let (values, labels) = images(model, count).values();
    let arrays = Arrays::new("array", vec![count, 1, 28, 28], values).unwrap();
    Samples::arrays(model, arrays.labelled(labels.iter().map(|label| label.unwrap() as f64))).unwrap()
}

/// Points of boxes, at random and at corners, stay inside of the bounds of their outputs.
#[test]
fn bounds_enclose_what_the_network_does() {
    let model = Model::open(None).unwrap();
    let (values, _) = images(&model, 2).values();
    let mut random = fastrand::Rng::with_seed(5);
    for (method, radius) in [("auto", 0.02), ("box", 0.01), ("gains", 0.02)] {
        let upper: Vec<f64> = values.iter().map(|value| value + radius).collect();
        let boxes = Arrays::boxes("boxes", &[2, 784], values.clone(), upper.clone()).unwrap();
        let samples = Samples::arrays(&model, boxes).unwrap();
        let options = Options { method: method.into(), timeout: 600.0, ..Options::default() };
        let mut found = model.bounds(&samples, 0.0, &options, &never).unwrap();
        // The same boxes, around their middles.
        let middle = values.iter().map(|value| value + 0.5 * radius).collect();
        let around = Samples::arrays(&model, Arrays::new("x", vec![2, 784], middle).unwrap()).unwrap();
        found.extend(model.bounds(&around, 0.5 * radius * 1.000_001, &options, &never).unwrap());
        for _ in 0..20 {
            let corner = random.bool();
            let point: Vec<f64> = values
                .iter()
                .zip(&upper)
                .map(|(l, u)| {
                    let part = random.f64();
                    l + (if corner { part.round() } else { part }) * (u - l)
                })
                .collect();
            let given = Samples::arrays(&model, Arrays::new("x", vec![2, 784], point).unwrap()).unwrap();
            let seen = model.predict(&given, Precision::Float64, Some(1), &never).unwrap();
            for (one, seen) in found.iter().zip(seen.chunks(10).cycle()) {
                let (lower, upper) = one.as_ref().unwrap();
                assert!((0..10).all(|i| lower[i] <= seen[i] && seen[i] <= upper[i]), "{method}");
            }
        }
    }
}

#[test]
fn arrays_are_asked_about_as_files_are() {
    let model = Model::open(None).unwrap();
    let samples = arrays(&model, 3);
    let options = Options { threads: Some(2), range: vec![Range::All(0.0, 1.0)], ..Options::default() };
    let lines =
        model.certify(&samples, Some(&[2, 1]), &[0.01, 0.02], &options, None, &never, &mut Quiet).unwrap();
    let asked: Vec<(usize, f64)> = lines.iter().map(|line| (line.index, line.eps)).collect();
    assert_eq!(asked, [(2, 0.01), (2, 0.02), (1, 0.01), (1, 0.02)]);
    assert!(lines.iter().all(|line| line.verdict == VerdictWord::Verified));
    assert!(jsonl(&lines).unwrap().lines().count() == 4);
}

/// Whoever gives up gets what was finished, and no verdict about the rest.
#[test]
fn stopping_leaves_out_what_is_not_done() {
    let model = Model::open(None).unwrap();
    let samples = arrays(&model, 8);
    for threads in [1, 2] {
        let asked = AtomicUsize::new(0);
        let stop = || asked.fetch_add(1, Ordering::Relaxed) > 200;
        let options = Options { threads: Some(threads), timeout: 600.0, ..Options::default() };
        let lines = model.certify(&samples, None, &[0.1], &options, None, &stop, &mut Quiet).unwrap();
        assert!(lines.len() < 8);
        assert!(lines.iter().all(|line| line.reason_code.as_deref() != Some("interrupted")));
    }
}

#[test]
fn what_makes_no_sense_is_refused() {
    let model = Model::open(None).unwrap();
    let samples = arrays(&model, 1);
    let ask = |eps: &[f64], options: &Options| {
        model.certify(&samples, None, eps, options, None, &never, &mut Quiet).unwrap_err()
    };
    let plain = Options::default();
    for eps in [&[-1.0][..], &[f64::NAN], &[], &[0.1, 0.1]] {
        assert!(ask(eps, &plain).hint.is_some());
    }
    let options = [
        Options { timeout: 0.0, ..plain.clone() },
        Options { timeout: f64::INFINITY, ..plain.clone() },
        Options { threads: Some(0), ..plain.clone() },
        Options { method: "magic".into(), ..plain.clone() },
        Options { range: vec![Range::All(1.0, 0.0)], ..plain.clone() },
        Options { asked: Asked::Text("{".into()), ..plain.clone() },
        Options { nu: Some(0.1), ..plain.clone() },
    ];
    options.iter().for_each(|options| assert!(ask(&[0.1], options).hint.is_some(), "{options:?}"));
    assert!(Arrays::new("x", vec![1, 2], vec![0.0, f64::NAN]).unwrap_err().message.contains("entry 1"));
    assert!(Arrays::new("x", vec![0, 2], vec![]).is_err() && Arrays::new("x", vec![], vec![1.0]).is_err());
    let caught = contain(|| -> Result<(), Failure> { panic!("broken") }).unwrap_err();
    assert!(caught.message.contains("panicked: broken"));
}
