//! Networks that were once proved falsely: rows on a window of an ODE block's state were read as rows on the whole state.
//! Here all that is proved of their outputs is claimed, and checked. With that fault put back
//! (`scripts/sabotage.sh certificate-window`) rows contradict boxes, nothing is proved any more, and these tests fail.

use gains_core::{Arithmetic, BoxVec, Interval, Rows};
use gains_verify::property::LinearRow;
use gains_verify::{Analysis, Budget, Clock, Method, Problem, Property, Region, Settings, Stage, StepForm};

use crate::{Both, Outcome};

/// Claims all that is proved of the outputs, but for a little, of images with halves of different brightness: of the states
/// behind the encoder some are dead in each, and others in each other.
fn all_that_is_proved(bytes: &[u8], radius: f64) {
    let both = Both::read(bytes);
    let mut undecided = 0;
    for (left, right) in [(0.5, 0.0), (0.0, 0.5), (0.5, 0.5), (0.9, 0.3), (0.3, 0.9)] {
        let image: Vec<f64> = (0..28 * 28).map(|i| if i % 28 < 14 { left } else { right }).collect();
        undecided += usize::from(!all_that_is_proved_of(&both, image, radius));
    }
    assert_eq!(undecided, 0, "images of which nothing is proved");
}

/// Whether anything is proved.
fn all_that_is_proved_of(both: &Both, centre: Vec<f64>, radius: f64) -> bool {
    let program = &both.network.body;
    let region = Region::ball(&centre, radius, Interval::new(0.0, 1.0));
    let outputs: Vec<usize> = (0..both.network.outputs()).collect();
    let rows = Rows::units(program.output_shape(), &outputs);
    let (clock, arithmetic) = (Clock::start(Budget::default()), Arithmetic::Real);
    let boxes: Vec<BoxVec> = region.outer.clone();
    let analysis = Analysis::new(program, boxes, Method::Tight, StepForm::Difference, arithmetic, clock);
    let Ok(bounds) = analysis.and_then(|analysis| analysis.bound(&rows)) else { return false };
    let lower = bounds.lower;
    let width = 0.01 * (0..outputs.len()).map(|i| -lower[i] - lower[i + outputs.len()]).fold(0.0, f64::max);
    let row = |(i, bound): (usize, &f64)| LinearRow::new(rows.row(i).to_vec(), width - bound);
    let property = Property::all(outputs.len(), lower.iter().enumerate().map(row).collect());
    let problem = Problem { program, region, property, nominal: vec![centre], output: None };
    let settings = Settings { stages: Stage::bounds(&[Method::Tight]), ..Settings::default() };
    let outcome = both.ask(&problem, settings, Budget::default());
    matches!(outcome, Outcome::Verified(_))
}

#[test]
fn rows_of_one_pixel_behind_an_ode_are_checked() {
    all_that_is_proved(include_bytes!("../data/unsound.safetensors"), 0.02);
}

#[test]
fn rows_of_two_pixels_behind_an_ode_are_checked() {
    all_that_is_proved(include_bytes!("../data/unsound2.safetensors"), 0.05);
}
