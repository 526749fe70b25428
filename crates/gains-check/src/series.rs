//! Networks for series: an encoder is laid out along the points of one series, and its decoder is read off at one time.

use crate::builder::{Builder, Places};
use crate::curve::Curve;
use crate::fault::Fault;
use crate::interval::Interval;
use crate::model::Model;
use crate::network::{Network, Operator, Shape};
use crate::value::{Fields, Value, bad, read_json};

/// Points that are closer together are not stepped between.
const SAME_TIME: f64 = 1e-8;
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

/// A network for series, laid out for one, and where the series is observed, input by input from the second on.
pub struct Laid {
    /// The network.
    pub network: Network,
    observed: Vec<Vec<bool>>,
}

impl Series {
    /// Reads what a certificate says of a series with so many features.
    fn read(value: &Value, features: usize) -> Result<Self, Fault> {
        let fields = value.fields("times observed target")?;
        let times = fields.read("times", Value::floats)?;
        if times.len() > MAX_POINTS || times.windows(2).any(|pair| pair[0] > pair[1]) {
            return Err(bad("too many points, or times that fall"));
        }
        let entries = times.len().checked_mul(features).ok_or_else(|| bad("too many points"))?;
        let observed = fields.get("observed")?.flags(entries, "observed")?;
        let observed = observed.chunks(features.max(1)).map(<[bool]>::to_vec).collect();
        Ok(Self { times, observed, target: fields.read("target", Value::number)? })
    }

    fn sees(&self, point: usize) -> bool {
        self.observed[point].contains(&true)
    }
}

impl Laid {
    /// The network of a model for a series, with one input for what is known of it as a whole and one for every point on the
    /// way where something is observed.
    pub fn out(model: &Model, series: &Value) -> Result<Self, Fault> {
        let description = read_json(&model.description).map_err(bad)?;
        let description = description.open()?;
        let task = description.get("task")?.open()?;
        let names = |key: &str| task.each(key, Value::text).map(|names| names.len());
        let (features, statics) = (names("features")?, names("statics")?);
        let parts = "initial dynamics update reset candidate latent lead points";
        let encoder = description.get("encoder")?.fields(parts)?;
        let series = Series::read(series, features.max(1)).map_err(|fault| fault.within("series"))?;
        let all = match encoder.or("points", "observed", Value::text)? {
            "all" => true,
            "observed" => false,
            _ => return Err(bad("points that are neither all nor observed")),
        };
        // From the last point to the first.
        let stops: Vec<usize> = (0..series.times.len()).rev().filter(|&i| all || series.sees(i)).collect();
        let builder = Builder::new(&model.tensors, Places::Encoder);
        let mut layout = Layout { encoder, builder };
        layout.builder.input(Shape::vector(statics)?)?;
        let seen: Vec<usize> = stops.iter().copied().filter(|&point| series.sees(point)).collect();
        for _ in &seen {
            layout.builder.input(Shape::vector(features)?)?;
        }
        let start = layout.builder.layers(encoder.get("initial")?, 0, 0)?;
        let (mut mean, mut deviation) = layout.halves(start)?;
        let (width, mut inputs) = (layout.length(mean)?, 0);
        let lead = encoder.or("lead", 0.01, Value::decimal)?;
        let mut here = stops.first().map_or(0.0, |&last| series.times[last] + lead);
        for point in stops {
            let step = series.times[point] - here;
            if !step.is_finite() {
                return Err(bad("times that are too far apart"));
            }
            if step.abs() >= SAME_TIME {
                let slope = layout.part("dynamics", mean, width)?;
                mean = layout.builder.sum(&[mean, slope], &[1.0, step])?;
                here = series.times[point];
            }
            if series.sees(point) {
                inputs += 1;
                (mean, deviation) = layout.update(mean, deviation, inputs)?;
            }
        }
        let latent = description.read("input", Shape::read)?;
        let output = layout.decode(mean, deviation, latent, description.get("layers")?, series.target)?;
        let Builder { mut network, .. } = layout.builder;
        if network.nodes[output].shape != Shape::vector(features)? {
            return Err(bad("there is not one output for every feature"));
        }
        network.output = output;
        Ok(Self { network, observed: seen.into_iter().map(|point| series.observed[point].clone()).collect() })
    }

    /// Goes on from the output with how far it is from these numbers: the difference, and its absolute value.
    pub fn measure(&mut self, truth: &[f64]) -> Result<(), Fault> {
        let none = Default::default();
        let mut builder = Builder::new(&none, Places::Encoder);
        builder.network = std::mem::take(&mut self.network);
        let away = |entry: usize| (Interval::ONE, Interval::point(-truth[entry]));
        let away = builder.scale(builder.network.output, away)?;
        builder.network.output = builder.curve(away, Curve::Leaky { slope: -1.0 })?;
        self.network = builder.network;
        Ok(())
    }

    /// Refused unless what is not observed counts as zero.
    pub fn fits(&self, inputs: &[Vec<Interval>]) -> Result<(), Fault> {
        for (number, (observed, input)) in self.observed.iter().zip(&inputs[1..]).enumerate() {
            let zero = |(seen, x): (&bool, &Interval)| *seen || *x == Interval::ZERO;
            if !observed.iter().zip(input).all(zero) {
                return Err(bad(format!("input {}: what is not observed there is not 0", number + 1)));
            }
        }
        Ok(())
    }
}

/// A network that is being laid out.
struct Layout<'a> {
    encoder: Fields<'a, 'a>,
    builder: Builder<'a>,
}

impl Layout<'_> {
    fn length(&self, value: usize) -> Result<usize, Fault> {
        let shape = self.builder.shape(value);
        if shape.is_vector() { Ok(shape.count()) } else { Err(bad("an encoder has images inside")) }
    }

    /// Part of the encoder, from a value on to so many entries.
    fn part(&mut self, name: &str, from: usize, length: usize) -> Result<usize, Fault> {
        let end =
            self.builder.layers(self.encoder.get(name)?, from, 0).map_err(|fault| fault.within(name))?;
        match self.length(end)? == length {
            true => Ok(end),
            false => Err(bad(format!("`{name}` does not end with {length} entries"))),
        }
    }

    /// The same, with numbers from 0 to 1.
    fn gate(&mut self, name: &str, from: usize, length: usize) -> Result<usize, Fault> {
        let end = self.part(name, from, length)?;
        match self.builder.network.nodes[end].operator {
            Operator::Curve(Curve::Sigmoid) => Ok(end),
            _ => Err(bad("a gate does not end with a sigmoid")),
        }
    }

    /// The first half, and the absolute value of the second.
    fn halves(&mut self, value: usize) -> Result<(usize, usize), Fault> {
        let length = self.length(value)?;
        if length % 2 != 0 {
            return Err(bad("a mean and a deviation have the same size"));
        }
        let first = self.builder.slice(value, 0, length / 2)?;
        let second = self.builder.slice(value, length / 2, length / 2)?;
        Ok((first, self.builder.curve(second, Curve::Leaky { slope: -1.0 })?))
    }

    /// What an input makes of mean and deviation.
    fn update(&mut self, mean: usize, deviation: usize, input: usize) -> Result<(usize, usize), Fault> {
        let width = self.length(mean)?;
        let before = self.builder.list(&[mean, deviation, input])?;
        let (update, reset) = (self.gate("update", before, width)?, self.gate("reset", before, width)?);
        let shown_mean = self.builder.like(Operator::Product, &[reset, mean])?;
        let shown_deviation = self.builder.like(Operator::Product, &[reset, deviation])?;
        let shown = self.builder.list(&[shown_mean, shown_deviation, input])?;
        let candidate = self.part("candidate", shown, 2 * width)?;
        let (new_mean, new_deviation) = self.halves(candidate)?;
        Ok((
            self.builder.like(Operator::Blend, &[update, new_mean, mean])?,
            self.builder.like(Operator::Blend, &[update, new_deviation, deviation])?,
        ))
    }

    /// What the decoder makes of mean and deviation at the end.
    fn decode(
        &mut self,
        mean: usize,
        deviation: usize,
        latent: Shape,
        layers: &Value,
        target: f64,
    ) -> Result<usize, Fault> {
        let state = self.builder.list(&[mean, deviation])?;
        let both = self.part("latent", state, 2 * latent.count())?;
        let start = self.builder.slice(both, 0, latent.count())?;
        let is_ode = |layer: &&Value| layer.open().and_then(|layer| layer.text("type")) == Ok("ode");
        if !latent.is_vector() || layers.list()?.iter().filter(is_ode).count() != 1 {
            return Err(bad("a network for series has one ODE, of a vector"));
        }
        self.builder.places = Places::ReadOff(target);
        self.builder.layers(layers, start, 0)
    }
}
