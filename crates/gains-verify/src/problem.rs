//! A problem: does a property hold of a program for every input of a region?

use gains_core::arithmetic::{down, up};
use gains_core::{BoxVec, Interval, Network, Precision, Program};

use crate::property::Property;

/// One value for each input of a program.
pub type Point = Vec<Vec<f64>>;

/// A set of inputs: one box for each input of a program.
#[derive(Clone, Debug, PartialEq)]
pub struct Region {
    /// Holds all inputs considered, rounded outwards.
    pub outer: Vec<BoxVec>,
    /// Rounded inwards: what is in here is certainly considered.
    pub inner: Vec<BoxVec>,
    /// The size of the perturbations, for the steps of attacks.
    pub radius: f64,
}

impl Region {
    /// All points within `radius` of `centre` (max norm), entries kept inside `range`.
    pub fn ball(centre: &[f64], radius: f64, range: Interval) -> Self {
        let shrink = |x: f64, bound: f64| if bound.is_nan() { x } else { bound };
        let inner = BoxVec::new(
            centre.iter().map(|&x| shrink(x, up(x - radius).max(range.lower).min(x))).collect(),
            centre.iter().map(|&x| shrink(x, down(x + radius).min(range.upper).max(x))).collect(),
        );
        Self { outer: vec![BoxVec::ball(centre, radius, range)], inner: vec![inner], radius }
    }

    /// A box for each input, as given.
    pub fn boxes(boxes: Vec<BoxVec>) -> Self {
        let half = |b: &BoxVec| 0.5 * b.width();
        let radius = boxes.iter().map(half).fold(0.0, f64::max);
        Self { inner: boxes.clone(), outer: boxes, radius }
    }

    /// Whether a point is certainly inside.
    pub fn contains(&self, point: &Point) -> bool {
        point.len() == self.inner.len() && self.inner.iter().zip(point).all(|(b, x)| b.contains(x))
    }

    /// Rounds a point to the program's format without leaving the region.
    pub fn settle(&self, point: &mut Point, precision: Precision) {
        for (values, allowed) in point.iter_mut().zip(&self.inner) {
            for (i, x) in values.iter_mut().enumerate() {
                *x = x.clamp(allowed.lower[i], allowed.upper[i]);
                if precision == Precision::Float32 {
                    let mut rounded = *x as f32;
                    if f64::from(rounded) > allowed.upper[i] {
                        rounded = rounded.next_down();
                    }
                    if f64::from(rounded) < allowed.lower[i] {
                        rounded = rounded.next_up();
                    }
                    *x = f64::from(rounded);
                }
            }
        }
    }
}

/// A program, a region of its inputs, a property of its outputs, and a point of the region.
#[derive(Clone, Debug)]
pub struct Problem<'a> {
    /// The program.
    pub program: &'a Program,
    /// The inputs considered.
    pub region: Region,
    /// What must hold of the outputs.
    pub property: Property,
    /// The sample the region was made around.
    pub nominal: Point,
    /// The program's outputs there, if they have been computed in the arithmetic the problem is about.
    pub output: Option<Vec<f64>>,
}

impl<'a> Problem<'a> {
    /// Whether all images within `eps` of one, pixels kept inside `range`, are classified as `label`.
    pub fn classification(
        network: &'a Network,
        image: &[f64],
        label: usize,
        eps: f64,
        range: Interval,
    ) -> Self {
        Self {
            program: &network.body,
            region: Region::ball(image, eps, range),
            property: Property::classification(network.outputs(), label),
            nominal: vec![image.to_vec()],
            output: None,
        }
    }
}
