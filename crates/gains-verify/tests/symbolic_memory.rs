//! Affine forms keep to the memory they are given: the whole process is watched, so that nothing else may run in it.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used)]

use gains_core::model_file::read_model;
use gains_core::{Arithmetic, BoxVec};
use gains_verify::forms::Symbolic;
use gains_verify::{Budget, Clock, Reason};

const MEGABYTE: usize = 1 << 20;

/// Most memory the process has held so far.
fn peak() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    let kilobytes: usize = line.trim().trim_end_matches(" kB").parse().unwrap();
    kilobytes << 10
}

/// A stroke on an empty picture, of which every pixel may vary.
fn region() -> BoxVec {
    let stroke = |i: usize| (4..24).contains(&(i / 28)) && (13..16).contains(&(i % 28));
    let pixel = |i: usize| if stroke(i) { 0.9 } else { 0.1 };
    let side = |by: f64| (0..784).map(|i| pixel(i) + by).collect();
    BoxVec::new(side(-0.1), side(0.1))
}

#[test]
fn affine_forms_hold_a_fifth_more_than_they_may_at_most() {
    let network = read_model(include_bytes!("../../gains/assets/mnist.safetensors")).unwrap();
    let before = peak();
    let mut ended = 0;
    // The most the process ever held is what is told, so that larger limits come later.
    for limit in [40, 80, 160] {
        let clock = Clock::start(Budget { memory: limit * MEGABYTE, ..Budget::default() });
        let outcome = Symbolic::new(&network.body, &[region()], None, Arithmetic::Real, clock);
        ended += usize::from(matches!(outcome, Err(Reason::MemoryLimit { .. })));
        let held = peak() - before;
        println!("{} MB of {limit}", held / MEGABYTE);
        assert!(held < limit * MEGABYTE / 5 * 6, "{} MB where {limit} are allowed", held / MEGABYTE);
    }
    assert!(ended >= 2, "these limits are hardly reached");
}
