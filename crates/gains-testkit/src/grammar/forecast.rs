//! Latent ODEs with a series and how far its entries may move.

use gains_core::Shape;
use gains_core::description::{Description, EncoderSpec, LayerSpec, Points, Task};
use gains_ode::Observations;

use super::layers::{Author, Place, any_shape, does_nothing};
use super::weights::{Mood, inputs};
use crate::choices::Choices;
use crate::model::{Model, names};

/// A forecasting network, a series, and what is allowed to move in it.
#[derive(Clone, Debug)]
pub struct ForecastCase {
    /// The network.
    pub model: Model,
    /// The series.
    pub series: Observations,
    /// How far an observation may move, by feature.
    pub features: Vec<f64>,
    /// How far a static entry may move.
    pub statics: Vec<f64>,
    /// What is observed at the target.
    pub truth: Vec<f64>,
    /// For points of the region.
    pub seed: u64,
}

/// Layers of one part of an encoder, from a vector to a shape, and a sigmoid behind a gate.
fn part(author: &mut Author<'_>, name: &str, from: usize, to: Shape, gate: bool) -> Vec<LayerSpec> {
    author.turn_to(Shape::flat(from), Place::Encoder, name);
    let mut layers = author.some(4, 50);
    layers.extend(author.lead_to(to));
    if gate {
        layers.push(LayerSpec::Sigmoid {});
    }
    // What keeps no layer when it is loaded is refused.
    if layers.iter().all(does_nothing) {
        layers.push(author.activation());
    }
    layers
}

impl ForecastCase {
    /// A case out of decisions.
    pub fn draw(choices: &mut Choices) -> Self {
        let (width, features, statics) =
            (choices.within(1..=3), choices.within(1..=3), choices.within(1..=2));
        let latent = any_shape(choices, 6);
        let mood = Mood::draw(choices);
        let points = choices.pick(&[Points::Observed, Points::All]);
        let lead = choices.pick(&[0.0, 0.01, 0.5]);
        let (state, seen) = (2 * width, 2 * width + features);
        let mut author = Author::new(choices, latent, Place::Encoder, mood);
        let encoder = EncoderSpec {
            initial: part(&mut author, "initial", statics, Shape::flat(2 * width), false),
            dynamics: part(&mut author, "dynamics", width, Shape::flat(width), false),
            update: part(&mut author, "update", seen, Shape::flat(width), true),
            reset: part(&mut author, "reset", seen, Shape::flat(width), true),
            candidate: part(&mut author, "candidate", seen, Shape::flat(state), false),
            latent: part(&mut author, "latent", state, Shape::flat(2 * latent.len()), false),
            lead,
            points,
        };
        author.turn_to(latent, Place::Network, "decoder");
        let mut layers = author.some(2, 40);
        layers.push(author.ode());
        layers.extend(author.some(3, 50));
        layers.extend(author.lead_to(Shape::flat(features)));
        let Author { choices, tensors, .. } = author;
        let task = Task::forecasting(names(features), names(statics));
        let description =
            Description { encoder: Some(encoder), ..Description::new("test", task, latent, layers) };
        Self::around(choices, Model { description, tensors }, features, statics)
    }

    fn around(choices: &mut Choices, model: Model, features: usize, statics: usize) -> Self {
        let points = choices.within(1..=3);
        let mut times: Vec<f64> = (0..points).map(|_| f64::from(choices.unit() as f32)).collect();
        times.sort_by(f64::total_cmp);
        let values = inputs(choices, Mood::Any, points * features);
        let mask = (0..points * features).map(|_| !choices.chance(25)).collect();
        let target_time = choices.pick(&[1.0, 0.4, 0.0, f64::from(0.7_f32)]);
        let series =
            Observations { statics: inputs(choices, Mood::Any, statics), times, values, mask, target_time };
        let radius = choices.pick(&[0.05, 0.3, 1e-3, 0.0, 1.0, 10.0, 1e-12]);
        let mut radii =
            |count: usize| (0..count).map(|_| radius * choices.pick(&[1.0, 0.0, 0.5])).collect::<Vec<f64>>();
        let (by_feature, by_static) = (radii(features), radii(statics));
        let truth = inputs(choices, Mood::Any, features);
        Self { model, series, features: by_feature, statics: by_static, truth, seed: choices.seed() }
    }
}

impl std::fmt::Display for ForecastCase {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { model, series, features, statics, truth, .. } = self;
        writeln!(f, "{}", serde_json::to_string(&model.description).unwrap_or_default())?;
        for (name, (shape, values)) in &model.tensors {
            writeln!(f, "  {name} {shape:?} = {values:?}")?;
        }
        writeln!(f, "{series:?}\nradii of features {features:?}, of statics {statics:?}, truth {truth:?}")
    }
}
