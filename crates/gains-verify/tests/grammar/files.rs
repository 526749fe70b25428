//! Networks that were once proved falsely, or ended the program. Behind their ODE block stands a convolution, so rows
//! enter the block's graph on a window of its state.

use gains_core::Interval;
use gains_core::description::LayerSpec;
use gains_core::model_file::read_parts;
use gains_testkit::grammar::ImageCase;
use gains_testkit::{Choices, Model};

use crate::failure::Subject;

fn model(bytes: &[u8]) -> Model {
    let (description, tensors) = read_parts(bytes).unwrap();
    Model { description, tensors }
}

/// Images that are dark in their right half: only the first pixels of the state are alive.
fn half_dark(bytes: &[u8], radius: f64) -> ImageCase {
    let centre: Vec<f64> = (0..28 * 28).map(|i| if i % 28 < 14 { 0.5 } else { 0.0 }).collect();
    let free = vec![true; centre.len()];
    ImageCase { model: model(bytes), centre, radius, free, range: Interval::new(0.0, 1.0), seed: 1 }
}

fn check(bytes: &[u8], radius: f64) {
    let tally = half_dark(bytes, radius).check().unwrap_or_else(|failure| panic!("{failure}"));
    assert!(tally.bounded > 0, "{tally:?}");
}

const UNSOUND: &[u8] = include_bytes!("../data/unsound.safetensors");
const UNSOUND2: &[u8] = include_bytes!("../data/unsound2.safetensors");
const ODE_CONV_RELU: &[u8] = include_bytes!("../data/ode_conv_relu.safetensors");
const ODE_CONV_ODE: &[u8] = include_bytes!("../data/ode_conv_ode.safetensors");

#[test]
fn rows_of_one_pixel_behind_an_ode_are_not_those_of_another() {
    check(UNSOUND, 0.02);
}

#[test]
fn rows_of_two_pixels_behind_an_ode_are_not_those_of_others() {
    check(UNSOUND2, 0.05);
}

#[test]
fn a_convolution_may_follow_an_ode() {
    check(ODE_CONV_RELU, 0.01);
}

#[test]
fn a_convolution_may_stand_between_odes() {
    check(ODE_CONV_ODE, 0.01);
}

/// The order of operators, dynamics included.
fn skeleton(layers: &[LayerSpec]) -> String {
    let word = |layer: &LayerSpec| match layer {
        LayerSpec::Ode { dynamics, .. } => format!("ode({})", skeleton(dynamics)),
        LayerSpec::Conv2d { .. } => "conv".into(),
        LayerSpec::Linear { .. } => "linear".into(),
        LayerSpec::Flatten {} => "flatten".into(),
        LayerSpec::GlobalAvgPool {} => "mean".into(),
        LayerSpec::AvgPool2d { .. } => "pool".into(),
        LayerSpec::Normalize { .. } => "normalize".into(),
        LayerSpec::Slice { .. } => "slice".into(),
        LayerSpec::Parallel { branches, .. } => {
            let branches: Vec<String> = branches.iter().map(|branch| skeleton(branch)).collect();
            format!("parallel({})", branches.join(" | "))
        }
        LayerSpec::Relu {}
        | LayerSpec::LeakyRelu { .. }
        | LayerSpec::Sigmoid {}
        | LayerSpec::Tanh {}
        | LayerSpec::Absolute {} => "activation".into(),
        other => serde_json::to_value(other).unwrap()["type"].to_string(),
    };
    layers.iter().map(word).collect::<Vec<String>>().join(" ")
}

/// The generator draws networks built like these from their ODE block on, only smaller.
#[test]
fn networks_like_these_are_drawn() {
    let from_ode = |bytes: &&[u8]| {
        let all = skeleton(&model(bytes).description.layers);
        let ode = all.find("ode").unwrap();
        all[ode..].trim_end_matches(" flatten linear").to_string()
    };
    let mut wanted: Vec<String> =
        [UNSOUND, UNSOUND2, ODE_CONV_RELU, ODE_CONV_ODE].iter().map(from_ode).collect();
    let mut drawn = 0;
    while !wanted.is_empty() && drawn < 2000 {
        let case = ImageCase::draw(&mut Choices::from_seed(drawn));
        let found = skeleton(&case.model.description.layers);
        wanted.retain(|skeleton| !found.contains(skeleton));
        drawn += 1;
    }
    println!("all drawn after {drawn} networks");
    assert!(wanted.is_empty(), "never drawn: {wanted:?}");
}
