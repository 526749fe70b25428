//! Weights and biases: ordinary ones, and those that make entries dead, equal or large.

use crate::choices::Choices;

/// What kind of numbers a case is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mood {
    /// All kinds.
    Any,
    /// Mostly zeros behind ReLUs: inputs with nothing in their far part, biases that are not positive. States then
    /// have entries that are certainly 0 in places, which the verifier leaves out.
    Sparse,
    /// Numbers at the ends of the range of float32.
    Extreme,
}

/// Sizes that [`Mood::Extreme`] adds to the ordinary ones.
const SIZES: [f64; 10] = [1.0, 1e3, 1e-3, 1e8, 1e-8, 1e20, 1e-20, 1e37, 1e-38, 1e-44];

impl Mood {
    /// One of them.
    pub fn draw(choices: &mut Choices) -> Self {
        match choices.below(100) {
            0..60 => Self::Any,
            60..95 => Self::Sparse,
            _ => Self::Extreme,
        }
    }

    /// What all numbers of a tensor are multiplied by.
    fn size(self, choices: &mut Choices) -> f64 {
        match self {
            Self::Any | Self::Sparse => 1.0,
            Self::Extreme => choices.pick(&SIZES),
        }
    }
}

fn float32(x: f64) -> f64 {
    f64::from(x as f32)
}

/// A number that a person can compute with: a multiple of ¼ of at most 1 in size.
fn plain(choices: &mut Choices) -> f64 {
    let drawn = choices.below(9);
    let size = drawn.div_ceil(2) as f64 / 4.0;
    if drawn.is_multiple_of(2) { 0.0 - size } else { size }
}

/// Weights of a layer that sums so many terms.
pub fn weights(choices: &mut Choices, mood: Mood, count: usize, terms: usize) -> Vec<f64> {
    if mood == Mood::Sparse && !choices.chance(15) {
        return (0..count).map(|_| plain(choices).abs()).collect();
    }
    let gain = 1.6 / (terms.max(1) as f64).sqrt();
    let style = choices.below(12);
    let scale = gain * choices.pick(&[1.0, 0.5, 2.0]) * mood.size(choices);
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
        7 => float32((8.0 * scale).min(1e38) * choices.signed()),
        // Files of float64 numbers are read too.
        8 => scale * choices.signed() / 3.0,
        _ => float32(scale * choices.signed()),
    };
    (0..count).map(|_| draw()).collect()
}

/// Biases; some leave channels without a live entry, some without a zero.
pub fn biases(choices: &mut Choices, mood: Mood, count: usize) -> Vec<f64> {
    if mood == Mood::Sparse && !choices.chance(10) {
        let least = choices.pick(&[0.0, -0.125, -0.5]);
        return (0..count).map(|_| if choices.chance(80) { least } else { 0.0 }).collect();
    }
    let style = choices.below(8);
    let size = mood.size(choices);
    let mut draw = || match style {
        0 => 0.0,
        1 | 2 => plain(choices),
        3 => choices.pick(&[0.0, -10.0, 10.0]),
        4 => -10.0,
        _ => float32(0.8 * size * choices.signed()),
    };
    (0..count).map(|_| draw()).collect()
}

/// Inputs, centres of regions: plain or not, 0 now and then.
pub fn inputs(choices: &mut Choices, mood: Mood, count: usize) -> Vec<f64> {
    if mood == Mood::Sparse {
        let most = choices.pick(&[1, count.div_ceil(3), count]);
        let filled = choices.within(1..=most);
        let turned = choices.chance(30);
        let mut values: Vec<f64> = (0..filled).map(|_| float32(0.5 + choices.unit())).collect();
        values.resize(count, 0.0);
        if turned {
            values.reverse();
        }
        return values;
    }
    let style = choices.below(4);
    let size = mood.size(choices);
    let mut draw = || match style {
        0 => plain(choices),
        1 => float32(choices.unit()),
        _ => float32(size * choices.signed()),
    };
    (0..count).map(|_| draw()).collect()
}
