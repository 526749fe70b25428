//! Random bits flipped: never a panic, and whatever is accepted holds at points of its region.

#![allow(clippy::unwrap_used, reason = "tests may fail")]

mod support;

use gains_check::fault::Deadline;
use gains_check::interval::Interval;
use gains_check::proof::Question;
use gains_check::value;
use gains_check::witness::{run, solve};
use gains_check::{Holds, Model, check, question, top};
use support::{Case, Item, forms_cases, kinds_cases, small_cases};

/// Flips `count` random bits, one at a time, in proofs that hold.
fn flip(cases: impl IntoIterator<Item = Case>, count: usize, seed: u64) {
    let cases: Vec<_> = cases.into_iter().filter(|case| case.holds).collect();
    let models: Vec<Model> = cases.iter().map(|case| Model::read(&case.model).unwrap()).collect();
    let mut random = fastrand::Rng::with_seed(seed);
    let mut accepted = 0;
    for _ in 0..count {
        let which = random.usize(..cases.len());
        let mut bytes = cases[which].certificate.clone();
        let byte = random.usize(..bytes.len());
        bytes[byte] ^= 1 << random.u8(..8);
        match check(&models[which], &bytes) {
            Ok(Holds::Verified(_)) => {
                accepted += 1;
                try_points(&models[which], &bytes, &mut random);
            }
            Ok(Holds::Falsified(_)) => panic!("{}: a proof became a witness", cases[which].name),
            Err(_) => {}
        }
    }
    assert!(accepted > count / 100, "only {accepted} of {count} were accepted: flips of slopes should be");
}

/// Points of the region of an accepted certificate, at random and in corners, must have the property.
fn try_points(model: &Model, bytes: &[u8], random: &mut fastrand::Rng) {
    let value = value::read(bytes).unwrap();
    let Question { network, inputs, ball, property, .. } =
        question(model, top(&value).unwrap(), Deadline::default()).unwrap();
    for _ in 0..4 {
        let corner = random.bool();
        let mut inside = |x: &Interval| match corner {
            true => [x.low, x.high][random.usize(..2)],
            false => x.low + (x.high - x.low) * random.f64(),
        };
        let points: Vec<Vec<f64>> =
            inputs.iter().map(|input| input.iter().map(&mut inside).collect()).collect();
        if ball.as_ref().is_some_and(|ball| !ball.holds(&points[0])) {
            continue;
        }
        let points =
            points.into_iter().map(|point| point.into_iter().map(Interval::point).collect()).collect();
        let result = run(&network, points, Deadline::default(), &mut |ode, state| {
            solve(ode, state, 10_000, Deadline::default()).map(|(end, _)| end)
        });
        let Ok(result) = result else { continue };
        let rows: Vec<bool> = property
            .rows
            .iter()
            .map(|row| {
                let start = Interval::point(row.constant.high);
                row.coefficients.iter().zip(&result).fold(start, |sum, (&a, &y)| sum + a * y).high > 0.0
            })
            .collect();
        assert!(property.condition.follows(&rows), "an accepted proof is false");
    }
}

#[test]
fn some_thousand_flipped_bits() {
    flip(small_cases().into_iter().chain(kinds_cases()), 3_000, 1);
}

#[test]
fn some_hundred_flipped_bits_in_proofs_by_forms() {
    flip(forms_cases(), 600, 5);
}

/// Takes minutes; run once for each change of the checker.
#[test]
#[ignore = "takes minutes"]
fn a_hundred_thousand_flipped_bits() {
    flip(small_cases().into_iter().chain(kinds_cases()).chain(forms_cases()), 100_000, 2);
}

#[test]
fn flipped_bits_in_packed_files() {
    let case = small_cases().into_iter().find(|case| case.holds).unwrap();
    let model = Model::read(&case.model).unwrap();
    let level = ruzstd::encoding::CompressionLevel::Fastest;
    let packed = ruzstd::encoding::compress_to_vec(&case.certificate[..], level);
    assert!(check(&model, &packed).is_ok());
    let mut random = fastrand::Rng::with_seed(4);
    for _ in 0..1_000 {
        let mut bytes = packed.clone();
        let byte = random.usize(..bytes.len());
        bytes[byte] ^= 1 << random.u8(..8);
        if let Err(fault) = check(&model, &bytes) {
            assert!(!fault.to_string().contains("please report"), "{fault}");
        }
    }
    assert!(check(&model, &[&packed[..], &[0]].concat()).is_err(), "bytes after the frame");
}

#[test]
fn damaged_files_are_unreadable_not_fatal() {
    let case = small_cases().into_iter().find(|case| case.holds).unwrap();
    let model = Model::read(&case.model).unwrap();
    for length in (0..case.certificate.len()).step_by(7) {
        assert!(check(&model, &case.certificate[..length]).is_err());
        assert!(Model::read(&case.model[..length.min(case.model.len() - 1)]).is_err());
    }
    let mut random = fastrand::Rng::with_seed(3);
    for _ in 0..300 {
        let mut bytes = case.model.clone();
        let byte = random.usize(..bytes.len());
        bytes[byte] ^= 1 << random.u8(..8);
        if let Ok(other) = Model::read(&bytes) {
            assert!(check(&other, &case.certificate).is_err(), "a certificate of another model was accepted");
        }
    }
}

#[test]
fn hostile_lengths_and_depths_are_refused_at_once() {
    let case = small_cases().into_iter().next().unwrap();
    let model = Model::read(&case.model).unwrap();
    let deep = vec![0x81; 10_000_000];
    let long = [&[0x9b][..], &[0x7f; 8], &[0; 100]].concat();
    let bytes = [&[0x5b][..], &[0xff; 8], &[0; 100]].concat();
    let many = vec![0x80; 8_000_000];
    let many = [&[0x9a, 0, 0x70, 0, 0][..], &many].concat();
    // A zstd frame that claims to unpack to 2^60 bytes.
    let frame = [&[0x28, 0xb5, 0x2f, 0xfd, 0xe0][..], &[0, 0, 0, 0, 0, 0, 0, 0x10], &[0xff; 40]].concat();
    for file in [deep, long, bytes, many, frame, vec![]] {
        assert!(check(&model, &file).is_err());
    }
}

/// A graph of a hundred thousand vertices that nothing leads to, and a tree three hundred splits deep: refused, or at least
/// answered, within bounds.
#[test]
fn hostile_graphs_and_trees_are_answered() {
    let case =
        small_cases().into_iter().find(|case| case.holds && case.name.ends_with("-0-holds.cert")).unwrap();
    let model = Model::read(&case.model).unwrap();
    let mut item = Item::read(&case.certificate);
    let vertices = item.at("proof").at("graphs").list()[0].at("vertices").list();
    let last = vertices.last().unwrap().clone();
    vertices.extend(std::iter::repeat_n(last, 200_000));
    assert!(check(&model, &item.write()).is_err());
    let mut item = Item::read(&case.certificate);
    let mut node = Item::Map(vec![]);
    for _ in 0..300 {
        let split = Item::Map(vec![
            ("kind".into(), Item::Text("input".into())),
            ("input".into(), Item::Integer(0)),
            ("entry".into(), Item::Integer(0)),
            ("at".into(), Item::Float(1e9)),
            ("parts".into(), Item::Array(vec![node, Item::Map(vec![])])),
        ]);
        node = Item::Map(vec![("split".into(), split)]);
    }
    *item.at("proof") = node;
    assert!(check(&model, &item.write()).is_err());
}
