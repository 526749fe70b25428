//! Networks for series: an encoder is laid out along the points of one series, and its decoder is read off at one time.

use serde::{Deserialize, Serialize};

use crate::cbor::Value;
use crate::certificate::{Fields, bad, flags, floats};
use crate::curve::Curve;
use crate::fault::Fault;
use crate::interval::Interval;
use crate::network::{Builder, Layer, Network, Operator, Places, Shape};
use crate::rows::fits;
use crate::rules::Region;
use crate::safetensors::Tensors;

/// Points that are closer together are not stepped between.
const SAME_TIME: f64 = 1e-8;

/// What a model file says of an encoder.
#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Encoder {
    initial: Vec<Layer>,
    dynamics: Vec<Layer>,
    update: Vec<Layer>,
    reset: Vec<Layer>,
    candidate: Vec<Layer>,
    latent: Vec<Layer>,
    #[serde(default = "usual_lead")]
    lead: f64,
    #[serde(default)]
    points: Points,
}

fn usual_lead() -> f64 {
    0.01
}

#[derive(Deserialize, Serialize, Default, PartialEq)]
#[serde(rename_all = "snake_case")]
enum Points {
    #[default]
    Observed,
    All,
}

/// The names of what a series consists of; networks for other inputs have none, or others.
#[derive(Deserialize, Serialize, Default)]
pub(crate) struct Task {
    #[serde(default)]
    features: Vec<String>,
    #[serde(default)]
    statics: Vec<String>,
}

/// A network for series, not laid out yet.
pub struct Forecaster {
    /// All weights.
    pub(crate) tensors: Tensors,
    /// What makes a latent state of a series.
    pub(crate) encoder: Encoder,
    /// The shape of that state.
    pub(crate) latent: Shape,
    /// How many features and statics there are.
    pub(crate) task: Task,
    /// What makes a forecast of the latent state.
    pub(crate) layers: Vec<Layer>,
}

/// Most points of a series.
const MAX_POINTS: usize = 100_000;

/// What a network is laid out for: all of a series but its numbers.
pub struct Series {
    /// When there is a point.
    times: Vec<f64>,
    /// For every point, what of its features is observed.
    observed: Vec<Vec<bool>>,
    /// The time that is forecast.
    target: f64,
}

impl Series {
    /// Points of the series in the order in which an encoder comes by: from the last to the first.
    fn stops(&self, encoder: &Encoder) -> Vec<usize> {
        let stops = (0..self.times.len()).rev();
        stops.filter(|&point| encoder.points == Points::All || self.sees(point)).collect()
    }

    fn sees(&self, point: usize) -> bool {
        self.observed[point].contains(&true)
    }
}

impl Forecaster {
    /// Reads what a certificate says of a series.
    pub fn series(&self, value: &Value) -> Result<Series, Fault> {
        let fields = Fields::of(value, &["times", "observed", "target"])?;
        let times = floats(fields.get("times")?)?;
        if times.len() > MAX_POINTS {
            return Err(bad("too many points"));
        }
        if times.windows(2).any(|pair| pair[0] > pair[1]) {
            return Err(bad("times that fall"));
        }
        let features = self.task.features.len().max(1);
        let observed = flags(fields.get("observed")?)?;
        let entries = times.len().checked_mul(features).ok_or_else(|| bad("too many points"))?;
        fits(&observed, entries, "observed")?;
        let observed = observed.chunks(features).map(<[bool]>::to_vec).collect();
        Ok(Series { times, observed, target: fields.number("target")? })
    }

    /// The network for a series, with one input for what is known of it as a whole and one for every point on the way
    /// where something is observed.
    pub fn lay_out(&self, series: &Series) -> Result<Network, String> {
        let (encoder, features) = (&self.encoder, self.task.features.len());
        let stops = series.stops(encoder);
        let mut layout = Layout { encoder, builder: Builder::new(&self.tensors, Places::Encoder) };
        layout.builder.push(Operator::Input, vec![], Shape::vector(self.task.statics.len())?)?;
        for _ in stops.iter().filter(|&&point| series.sees(point)) {
            layout.builder.push(Operator::Input, vec![], Shape::vector(features)?)?;
        }
        let (mut mean, mut deviation) = layout.initial()?;
        let (width, mut seen) = (layout.length(mean)?, 0);
        let mut here = stops.first().map_or(0.0, |&last| series.times[last] + encoder.lead);
        for point in stops {
            let step = series.times[point] - here;
            if !step.is_finite() {
                return Err("times that are too far apart".into());
            }
            if step.abs() >= SAME_TIME {
                mean = layout.euler(mean, step)?;
                here = series.times[point];
            }
            if series.sees(point) {
                seen += 1;
                (mean, deviation) = layout.update(mean, deviation, seen)?;
            }
        }
        let Layout { mut builder, .. } = layout;
        let state = builder.push(Operator::Concat, vec![mean, deviation], Shape::vector(2 * width)?)?;
        let both = builder.layers(encoder.latent.clone(), state, 0)?;
        let latent = builder.slice(both, 0, self.latent.count())?;
        let alike = [(both, Shape::vector(2 * self.latent.count())?), (latent, self.latent)];
        if alike.iter().any(|(value, shape)| builder.network.nodes[*value].shape != *shape) {
            return Err("the latent state has another shape than the decoder takes".into());
        }
        if self.layers.iter().filter(|layer| matches!(layer, Layer::Ode { .. })).count() != 1 {
            return Err("a network for series has one ODE".into());
        }
        builder.places = Places::ReadOff(series.target);
        let output = builder.layers(self.layers.clone(), latent, 0)?;
        if builder.network.nodes[output].shape != Shape::vector(features)? {
            return Err("there is not one output for every feature".into());
        }
        builder.network.output = output;
        Ok(builder.network)
    }

    /// Refused unless what is not observed counts as zero.
    pub fn fits(&self, series: &Series, inputs: &[Region]) -> Result<(), Fault> {
        let points = series.stops(&self.encoder).into_iter().filter(|&point| series.sees(point));
        for (point, input) in points.zip(inputs.iter().skip(1)) {
            let zero = |(seen, x): (&bool, &Interval)| *seen || *x == Interval::ZERO;
            if !series.observed[point].iter().zip(input).all(zero) {
                return Err(bad(format!("point {point}: what is not observed there is not 0")));
            }
        }
        Ok(())
    }
}

/// An encoder that is being laid out.
struct Layout<'a> {
    encoder: &'a Encoder,
    builder: Builder<'a>,
}

impl Layout<'_> {
    fn length(&self, value: usize) -> Result<usize, String> {
        let shape = self.builder.network.nodes[value].shape;
        if shape.is_vector() { Ok(shape.count()) } else { Err("an encoder has images inside".into()) }
    }

    /// One value more, which is a vector.
    fn push(&mut self, operator: Operator, arguments: Vec<usize>, length: usize) -> Result<usize, String> {
        self.builder.push(operator, arguments, Shape::vector(length)?)
    }

    /// Part of the encoder, from a value on to so many entries.
    fn part(&mut self, layers: &[Layer], from: usize, length: usize) -> Result<usize, String> {
        let end = self.builder.layers(layers.to_vec(), from, 0)?;
        match self.length(end)? == length {
            true => Ok(end),
            false => Err(format!("a part of the encoder does not end with {length} entries")),
        }
    }

    /// The same, with numbers from 0 to 1.
    fn gate(&mut self, layers: &[Layer], from: usize, length: usize) -> Result<usize, String> {
        let end = self.part(layers, from, length)?;
        match self.builder.network.nodes[end].operator {
            Operator::Curve(Curve::Sigmoid) => Ok(end),
            _ => Err("a gate does not end with a sigmoid".into()),
        }
    }

    /// The first half, and the absolute value of the second.
    fn halves(&mut self, value: usize) -> Result<(usize, usize), String> {
        let length = self.length(value)?;
        if length % 2 != 0 {
            return Err("a mean and a deviation have the same size".into());
        }
        let first = self.builder.slice(value, 0, length / 2)?;
        let second = self.builder.slice(value, length / 2, length / 2)?;
        Ok((first, self.builder.curve(second, Curve::Leaky { slope: -1.0 })?))
    }

    /// Mean and deviation at the start.
    fn initial(&mut self) -> Result<(usize, usize), String> {
        let start = self.builder.layers(self.encoder.initial.clone(), 0, 0)?;
        self.halves(start)
    }

    /// A step of the mean.
    fn euler(&mut self, mean: usize, step: f64) -> Result<usize, String> {
        let width = self.length(mean)?;
        let slope = self.part(&self.encoder.dynamics, mean, width)?;
        self.push(Operator::Sum(vec![1.0, step]), vec![mean, slope], width)
    }

    /// What input `seen` makes of mean and deviation.
    fn update(&mut self, mean: usize, deviation: usize, seen: usize) -> Result<(usize, usize), String> {
        let (width, features) = (self.length(mean)?, self.length(seen)?);
        let all = 2 * width + features;
        let before = self.push(Operator::Concat, vec![mean, deviation, seen], all)?;
        let update = self.gate(&self.encoder.update, before, width)?;
        let reset = self.gate(&self.encoder.reset, before, width)?;
        let shown_mean = self.push(Operator::Product, vec![reset, mean], width)?;
        let shown_deviation = self.push(Operator::Product, vec![reset, deviation], width)?;
        let shown = self.push(Operator::Concat, vec![shown_mean, shown_deviation, seen], all)?;
        let candidate = self.part(&self.encoder.candidate, shown, 2 * width)?;
        let (new_mean, new_deviation) = self.halves(candidate)?;
        Ok((
            self.push(Operator::Blend, vec![update, new_mean, mean], width)?,
            self.push(Operator::Blend, vec![update, new_deviation, deviation], width)?,
        ))
    }
}
