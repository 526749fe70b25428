//! Classifiers with a region of their inputs.

use gains_core::{BoxVec, Interval, Shape};

use super::layers::{Author, Place, any_shape, shape_of};
use super::weights::{Mood, inputs};
use crate::choices::Choices;
use crate::model::Model;

/// A classifier, and inputs around one of them.
#[derive(Clone, Debug)]
pub struct ImageCase {
    /// The network.
    pub model: Model,
    /// The input in the middle, within the range.
    pub centre: Vec<f64>,
    /// How far entries may move.
    pub radius: f64,
    /// Which of them move at all.
    pub free: Vec<bool>,
    /// Values an entry can take.
    pub range: Interval,
    /// For points of the region.
    pub seed: u64,
}

/// Radii: ordinary, none, hardly any, far too large.
const RADII: [f64; 10] = [0.05, 0.3, 1e-3, 0.0, 0.1, 1.0, 0.02, 1e-12, 10.0, 1e5];

impl ImageCase {
    /// A case out of decisions.
    pub fn draw(choices: &mut Choices) -> Self {
        let input = any_shape(choices, 24);
        let mood = Mood::draw(choices);
        let odes = choices.pick(&[1, 1, 1, 1, 2, 2, 3, 0]);
        let mut author = Author::new(choices, input, Place::Network, mood);
        let mut layers = author.some(4, 50);
        for _ in 0..odes {
            layers.push(author.ode());
            layers.extend(author.some(4, 70));
        }
        let fits = (2..=4).contains(&author.shape.len());
        if !fits || author.choices.chance(60) {
            let outputs = author.choices.within(2..=4);
            let goal = shape_of(author.choices, outputs);
            layers.extend(author.lead_to(goal));
            if author.choices.chance(15) {
                layers.push(author.activation());
            }
        }
        let Author { choices, tensors, shape, .. } = author;
        let model = Model::new(input, layers, tensors, shape.len());
        Self::around(choices, mood, model, input)
    }

    /// A region for a network.
    fn around(choices: &mut Choices, mood: Mood, model: Model, input: Shape) -> Self {
        let radius = choices.pick(&RADII);
        let centre = inputs(choices, mood, input.len());
        let all = !choices.chance(25);
        let dead = mood == Mood::Sparse && choices.chance(75);
        let mut moves = |x: &f64| (all || choices.chance(50)) && !(dead && *x == 0.0);
        let free = centre.iter().map(&mut moves).collect();
        let range =
            choices.pick(&[Interval::new(-1e9, 1e9), Interval::new(0.0, 1.0), Interval::new(-1.0, 1.0)]);
        let centre = centre.iter().map(|x| x.clamp(range.lower, range.upper)).collect();
        Self { model, centre, radius, free, range, seed: choices.seed() }
    }

    /// The inputs considered: what is within the radius and the range, entries that do not move exact.
    pub fn region(&self) -> BoxVec {
        let mut region = BoxVec::ball(&self.centre, self.radius, self.range);
        for (i, x) in self.centre.iter().enumerate().filter(|(i, _)| !self.free[*i]) {
            (region.lower[i], region.upper[i]) = (*x, *x);
        }
        region
    }
}

impl std::fmt::Display for ImageCase {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { model, centre, radius, free, range, .. } = self;
        writeln!(f, "input {}", model.description.input)?;
        for layer in &model.description.layers {
            writeln!(f, "  {}", serde_json::to_string(layer).unwrap_or_default())?;
        }
        for (name, (shape, values)) in &model.tensors {
            writeln!(f, "  {name} {shape:?} = {values:?}")?;
        }
        writeln!(f, "around {centre:?} within {radius:e} and {range:?}, free {free:?}")
    }
}
