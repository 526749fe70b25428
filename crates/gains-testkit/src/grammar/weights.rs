//! Weights and biases: ordinary ones, and those that make entries dead, equal or large.

use crate::choices::Choices;

fn float32(x: f64) -> f64 {
    f64::from(x as f32)
}

/// A number of which a person can compute with: a multiple of ¼ of at most 1 in size.
fn plain(choices: &mut Choices) -> f64 {
    let drawn = choices.below(9);
    let size = drawn.div_ceil(2) as f64 / 4.0;
    if drawn % 2 == 0 { 0.0 - size } else { size }
}

/// Weights of a layer that sums so many terms.
pub fn weights(choices: &mut Choices, count: usize, terms: usize) -> Vec<f64> {
    let gain = 1.6 / (terms.max(1) as f64).sqrt();
    let style = choices.below(12);
    let scale = gain * choices.pick(&[1.0, 0.5, 2.0]);
    let mut draw = || match style {
        0..=3 => plain(choices),
        4 => 0.0,
        5 | 6 => {
            if choices.chance(60) {
                float32(scale * choices.signed())
            } else {
                0.0
            }
        }
        7 => float32(8.0 * scale * choices.signed()),
        _ => float32(scale * choices.signed()),
    };
    (0..count).map(|_| draw()).collect()
}

/// Biases; some leave channels without a live entry, some without a zero.
pub fn biases(choices: &mut Choices, count: usize) -> Vec<f64> {
    let style = choices.below(8);
    let mut draw = || match style {
        0 => 0.0,
        1 | 2 => plain(choices),
        3 => choices.pick(&[0.0, -10.0, 10.0]),
        4 => -10.0,
        _ => float32(0.8 * choices.signed()),
    };
    (0..count).map(|_| draw()).collect()
}

/// Inputs, centres of regions: plain or not, 0 now and then.
pub fn inputs(choices: &mut Choices, count: usize) -> Vec<f64> {
    let style = choices.below(4);
    let mut draw = || match style {
        0 => plain(choices),
        1 => float32(choices.unit()),
        _ => float32(choices.signed()),
    };
    (0..count).map(|_| draw()).collect()
}
