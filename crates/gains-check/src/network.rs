//! The network of a model file as a list of values, numbered as `docs/certificates.md` says.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::automaton::{Solver, SolverDescription};
use crate::curve::{Curve, Pieced};
use crate::interval::Interval;
use crate::matrix::Matrix;
use crate::safetensors::{self, Tensors};
use crate::series::{Encoder, Forecaster, Task};

/// Most entries of one value.
const MAX_ENTRIES: usize = 1 << 22;
/// Most entries of all values and matrices: 240 MB.
const MAX_SIZE: usize = 20_000_000;
/// Most values.
const MAX_VALUES: usize = 10_000;
/// Most branches of one layer.
const MAX_BRANCHES: usize = 16;

/// Rows, columns and channels; a vector has one pixel.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Shape {
    height: usize,
    width: usize,
    channels: usize,
}

impl Shape {
    fn new(height: usize, width: usize, channels: usize) -> Result<Self, String> {
        let count = height.checked_mul(width).and_then(|pixels| pixels.checked_mul(channels));
        match count {
            Some(1..=MAX_ENTRIES) => Ok(Self { height, width, channels }),
            _ => Err(format!("a value of {height} × {width} × {channels} entries")),
        }
    }

    fn of(sides: &Sides) -> Result<Self, String> {
        Self::new(sides.height, sides.width, sides.channels)
    }

    /// A vector.
    pub fn vector(length: usize) -> Result<Self, String> {
        Self::new(1, 1, length)
    }

    /// Number of entries.
    pub fn count(self) -> usize {
        self.height * self.width * self.channels
    }

    /// Whether it has one pixel.
    pub fn is_vector(self) -> bool {
        self.height == 1 && self.width == 1
    }

    /// Where an entry is: pixel by pixel, the channels of a pixel next to each other.
    fn entry(self, row: usize, column: usize, channel: usize) -> usize {
        (row * self.width + column) * self.channels + channel
    }

    /// All entries channel by channel, as `flatten` lists them.
    fn by_channel(self) -> Vec<usize> {
        let pixels = self.height * self.width;
        (0..self.count()).map(|i| (i % pixels) * self.channels + i / pixels).collect()
    }
}

/// What makes a value of its arguments.
#[derive(Debug)]
pub enum Operator {
    /// Nothing: the value is given.
    Input,
    /// An affine map with exact weights.
    Affine(Matrix),
    /// A factor and a summand for each entry, which are not exact.
    Scale(Vec<Interval>, Vec<Interval>),
    /// A function of each entry.
    Curve(Curve),
    /// The sum of all arguments, each times its factor.
    Sum(Vec<f64>),
    /// The product of two arguments, entry by entry.
    Product,
    /// The larger one of two arguments, entry by entry.
    Maximum,
    /// (1 − u) g + u y of three arguments u, g, y, entry by entry, where u is from 0 to 1.
    Blend,
    /// All arguments, one after the other.
    Concat,
    /// The solution of an ODE at its end, from the argument on.
    Ode(Box<Ode>),
}

/// dz/dt = dynamics(t, z).
#[derive(Debug)]
pub struct Ode {
    /// The right side.
    pub dynamics: Network,
    /// How it is solved.
    pub solver: Solver,
}

/// One value.
#[derive(Debug)]
pub struct Node {
    /// What makes it.
    pub operator: Operator,
    /// The numbers of what it is made of.
    pub arguments: Vec<usize>,
    /// Its shape.
    pub shape: Shape,
}

/// Values in order: the inputs (one, but for series), then what is made of them.
#[derive(Debug, Default)]
pub struct Network {
    /// The values.
    pub nodes: Vec<Node>,
    /// Number of the output: not the last if an empty branch ends it.
    pub output: usize,
}

impl Network {
    /// Number of inputs.
    pub fn inputs(&self) -> usize {
        self.nodes.iter().take_while(|node| matches!(node.operator, Operator::Input)).count()
    }

    /// Goes on from the outputs with how far they are from these numbers: the difference, and its absolute value.
    pub fn measure(&mut self, truth: &[f64]) {
        let shape = self.nodes[self.output].shape;
        let shifts = truth.iter().map(|&truth| Interval::point(-truth)).collect();
        let away = Operator::Scale(vec![Interval::ONE; truth.len()], shifts);
        for operator in [away, Operator::Curve(Curve::Leaky { slope: -1.0 })] {
            self.nodes.push(Node { operator, arguments: vec![self.output], shape });
            self.output = self.nodes.len() - 1;
        }
    }

    /// Entries of all values that functions made of pieces make.
    pub fn pieced(&self) -> usize {
        let made = |node: &&Node| matches!(node.operator, Operator::Curve(Curve::Pieced(_)));
        self.nodes.iter().filter(made).map(|node| node.shape.count()).sum()
    }
}

/// A model file, read.
pub struct Model {
    /// The network; one for series has no values before it is laid out for one.
    pub network: Arc<Network>,
    /// What is laid out for series.
    pub forecaster: Option<Forecaster>,
    /// SHA-256 of the file.
    pub hash: [u8; 32],
}

impl Model {
    /// Reads a file's bytes.
    pub fn read(bytes: &[u8]) -> Result<Self, String> {
        let tensors = safetensors::read(bytes)?;
        let malformed = |error: serde_json::Error| format!("the description: {error}");
        let description: Description = serde_json::from_str(&tensors.description).map_err(malformed)?;
        let written = serde_json::from_str(&tensors.description).map_err(malformed)?;
        if !in_kind(&written, &serde_json::to_value(&description).map_err(malformed)?) {
            return Err("the description has a number for a name or a list for an object".into());
        }
        if description.format != "gains-model" || !matches!(description.version, 1 | 2) {
            return Err("not a gains-model of version 1 or 2".into());
        }
        let (hash, shape) = (tensors.hash, Shape::of(&description.input)?);
        if let Some(encoder) = description.encoder {
            let forecaster = Forecaster {
                tensors,
                encoder,
                latent: shape,
                task: description.task,
                layers: description.layers,
            };
            return Ok(Self { network: Arc::default(), forecaster: Some(forecaster), hash });
        }
        let mut builder = Builder::new(&tensors, Places::Network);
        builder.push(Operator::Input, vec![], shape)?;
        builder.network.output = builder.layers(description.layers, 0, 0)?;
        Ok(Self { network: Arc::new(builder.network), forecaster: None, hash })
    }
}

/// Whether all that was read is of the kind it is written as. Serde takes numbers for names of types, and lists for objects, by the
/// order in which this program lists them; other programs have other orders.
fn in_kind(written: &Value, read: &Value) -> bool {
    match (written, read) {
        (Value::Object(written), Value::Object(read)) => {
            written.iter().all(|(key, value)| read.get(key).is_none_or(|read| in_kind(value, read)))
        }
        (Value::Array(written), Value::Array(read)) => {
            written.iter().zip(read).all(|(value, read)| in_kind(value, read))
        }
        _ => std::mem::discriminant(written) == std::mem::discriminant(read) || written.is_null(),
    }
}

/// What a model file says, as far as it counts here.
#[derive(Deserialize, Serialize)]
struct Description {
    format: String,
    version: u32,
    #[serde(default)]
    task: Task,
    input: Sides,
    layers: Vec<Layer>,
    encoder: Option<Encoder>,
}

#[derive(Deserialize, Serialize, Clone, Copy)]
#[serde(deny_unknown_fields)]
pub(crate) struct Sides {
    height: usize,
    width: usize,
    channels: usize,
}

type Pair = (usize, usize);

fn ones() -> Pair {
    (1, 1)
}

fn yes() -> bool {
    true
}

fn usual_eps() -> f64 {
    1e-5
}

fn one() -> f64 {
    1.0
}

fn minus_one() -> f64 {
    -1.0
}

#[derive(Deserialize, Serialize, Default, Clone, Copy)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Approximation {
    #[default]
    None,
    Tanh,
}

/// The layers that certificates know; others are refused by name.
#[derive(Deserialize, Serialize, Clone)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
pub(crate) enum Layer {
    Normalize {
        mean: Vec<f64>,
        std: Vec<f64>,
    },
    Conv2d {
        name: String,
        in_channels: usize,
        out_channels: usize,
        kernel: Pair,
        #[serde(default = "ones")]
        stride: Pair,
        #[serde(default)]
        padding: Pair,
        #[serde(default = "ones")]
        dilation: Pair,
        #[serde(default)]
        time: bool,
    },
    Linear {
        name: String,
        in_features: usize,
        out_features: usize,
        #[serde(default)]
        time: bool,
    },
    AvgPool2d {
        kernel: Pair,
        stride: Pair,
        #[serde(default)]
        padding: Pair,
    },
    GlobalAvgPool {},
    Flatten {},
    Relu {},
    LeakyRelu {
        slope: f64,
    },
    Absolute {},
    Sigmoid {},
    Tanh {},
    Softplus {},
    Silu {},
    Gelu {
        #[serde(default)]
        approximate: Approximation,
    },
    Elu {
        #[serde(default = "one")]
        alpha: f64,
    },
    Sin {},
    Cos {},
    Square {},
    Clamp {
        low: f64,
        high: f64,
    },
    Hardtanh {
        #[serde(default = "minus_one")]
        low: f64,
        #[serde(default = "one")]
        high: f64,
    },
    Relu6 {},
    MaxPool2d {
        kernel: Pair,
        stride: Pair,
        #[serde(default)]
        padding: Pair,
    },
    GroupNorm {
        name: String,
        groups: usize,
        channels: usize,
        #[serde(default = "usual_eps")]
        eps: f64,
        #[serde(default = "yes")]
        affine: bool,
    },
    #[serde(rename = "layer_norm")]
    NormOfAll {
        name: String,
        #[serde(default = "usual_eps")]
        eps: f64,
        #[serde(default = "yes")]
        affine: bool,
    },
    Slice {
        first: usize,
        length: usize,
    },
    Pad {
        #[serde(default)]
        before: usize,
        #[serde(default)]
        after: usize,
        #[serde(default)]
        rows: Pair,
        #[serde(default)]
        columns: Pair,
    },
    Reshape {
        to: Sides,
    },
    BatchNorm {
        name: String,
        channels: usize,
        #[serde(default = "usual_eps")]
        eps: f64,
        #[serde(default = "yes")]
        affine: bool,
    },
    Parallel {
        branches: Vec<Vec<Layer>>,
        join: Join,
    },
    Ode {
        dynamics: Vec<Layer>,
        solver: SolverDescription,
    },
}

#[derive(Deserialize, Serialize, Clone, PartialEq)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Join {
    Add,
    Product,
    Max,
    Concat,
}

/// Where layers stand: ODEs have no ODEs inside, and branches and encoders have none either.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Places {
    /// In the network itself.
    Network,
    /// In the network itself, whose ODE is read off at this time.
    ReadOff(f64),
    /// In the dynamics of an ODE.
    Dynamics,
    /// In the encoder of a network for series: nothing takes the time.
    Encoder,
}

/// A network that is being put together.
pub(crate) struct Builder<'a> {
    tensors: &'a Tensors,
    /// What there is so far.
    pub network: Network,
    /// Where the next layers stand.
    pub places: Places,
    /// Entries of all values and matrices so far.
    size: usize,
}

impl<'a> Builder<'a> {
    /// Nothing yet.
    pub fn new(tensors: &'a Tensors, places: Places) -> Self {
        Self { tensors, network: Network::default(), places, size: 0 }
    }

    /// One more value.
    pub fn push(&mut self, operator: Operator, arguments: Vec<usize>, shape: Shape) -> Result<usize, String> {
        let weights = if let Operator::Affine(matrix) = &operator { matrix.size() } else { 0 };
        self.size += shape.count() + weights + arguments.len();
        if self.network.nodes.len() >= MAX_VALUES || self.size > MAX_SIZE {
            return Err("the network is too large for this checker".into());
        }
        self.network.nodes.push(Node { operator, arguments, shape });
        Ok(self.network.nodes.len() - 1)
    }

    /// Layers one after the other, from value `input` on; the number of what comes out.
    pub fn layers(&mut self, layers: Vec<Layer>, input: usize, depth: usize) -> Result<usize, String> {
        let mut value = input;
        for (i, layer) in layers.into_iter().enumerate() {
            value = self.layer(layer, value, depth).map_err(|error| format!("layer {i}: {error}"))?;
        }
        Ok(value)
    }

    fn layer(&mut self, layer: Layer, input: usize, depth: usize) -> Result<usize, String> {
        let shape = self.network.nodes[input].shape;
        match layer {
            Layer::Conv2d { time: true, .. } | Layer::Linear { time: true, .. }
                if self.places == Places::Encoder =>
            {
                Err("a layer of an encoder takes the time".into())
            }
            Layer::Relu {} => self.curve(input, Curve::Leaky { slope: 0.0 }),
            Layer::Absolute {} => self.curve(input, Curve::Leaky { slope: -1.0 }),
            Layer::LeakyRelu { slope } if (0.0..=1.0).contains(&slope) => {
                self.curve(input, Curve::Leaky { slope })
            }
            Layer::LeakyRelu { slope } => Err(format!("a slope of {slope} is not between 0 and 1")),
            Layer::Sigmoid {} => self.curve(input, Curve::Sigmoid),
            Layer::Tanh {} => self.curve(input, Curve::Tanh),
            Layer::Softplus {} => self.pieced(input, Pieced::Softplus),
            Layer::Silu {} => self.pieced(input, Pieced::Silu),
            Layer::Gelu { approximate: Approximation::None } => self.pieced(input, Pieced::Gelu),
            Layer::Gelu { approximate: Approximation::Tanh } => self.pieced(input, Pieced::GeluTanh),
            Layer::Elu { alpha } if (0.0..=1000.0).contains(&alpha) => {
                self.pieced(input, Pieced::Elu { alpha })
            }
            Layer::Elu { alpha } => Err(format!("an alpha of {alpha}")),
            Layer::Sin {} => self.pieced(input, Pieced::Wave { cosine: false }),
            Layer::Cos {} => self.pieced(input, Pieced::Wave { cosine: true }),
            Layer::Square {} => self.pieced(input, Pieced::Square),
            Layer::Relu6 {} => self.pieced(input, Pieced::Clamp { low: 0.0, high: 6.0 }),
            Layer::Clamp { low, high } | Layer::Hardtanh { low, high } => match low <= high {
                true => self.pieced(input, Pieced::Clamp { low, high }),
                false => Err(format!("nothing is between {low} and {high}")),
            },
            Layer::MaxPool2d { kernel, stride, padding } => self.max_pool(input, kernel, stride, padding),
            Layer::GroupNorm { name, groups, channels, eps, affine } => {
                if channels != shape.channels {
                    return Err(format!("it gets {} channels", shape.channels));
                }
                let normal = self.group_norm(input, groups, eps)?;
                let of = affine.then_some((name.as_str(), vec![channels]));
                self.weighted(normal, of)
            }
            Layer::NormOfAll { name, eps, affine } => {
                let normal = self.group_norm(input, 1, eps)?;
                let sides = match shape.is_vector() {
                    true => vec![shape.channels],
                    false => vec![shape.channels, shape.height, shape.width],
                };
                self.weighted(normal, affine.then_some((name.as_str(), sides)))
            }
            Layer::Normalize { mean, std } => {
                if mean.len() != shape.channels || std.len() != mean.len() || std.iter().any(|x| *x <= 0.0) {
                    return Err("one mean and one positive std per channel are needed".into());
                }
                let divided = |x: f64, by: &f64| Interval::point(x) / Interval::point(*by);
                let factors: Vec<_> = std.iter().map(|by| divided(1.0, by)).collect();
                let shifts: Vec<_> = mean.iter().zip(&std).map(|(&mean, by)| divided(-mean, by)).collect();
                self.scale(input, &factors, &shifts)
            }
            Layer::BatchNorm { name, channels, eps, affine } => {
                self.batch_norm(&name, channels, eps, affine, input)
            }
            Layer::Conv2d { name, in_channels, out_channels, kernel, stride, padding, dilation, time } => {
                if in_channels != shape.channels {
                    return Err(format!("it gets {} channels", shape.channels));
                }
                let windows = Windows::new(shape, kernel, stride, padding, dilation)?;
                self.convolution(&name, out_channels, &windows, time, input)
            }
            Layer::Linear { name, in_features, out_features, time } => {
                if in_features != shape.count() || !shape.is_vector() {
                    return Err(format!(
                        "it gets {} × {} × {} entries",
                        shape.height, shape.width, shape.channels
                    ));
                }
                self.linear(&name, out_features, time, input)
            }
            Layer::AvgPool2d { kernel, stride, padding } => {
                self.pool(input, &Windows::new(shape, kernel, stride, padding, (1, 1))?)
            }
            Layer::GlobalAvgPool {} => {
                self.pool(input, &Windows::new(shape, (shape.height, shape.width), (1, 1), (0, 0), (1, 1))?)
            }
            Layer::Flatten {} if shape.is_vector() => Ok(input),
            Layer::Flatten {} => self.reshape(input, Shape::vector(shape.count())?),
            Layer::Reshape { to } if Shape::of(&to)? == shape => Ok(input),
            Layer::Reshape { to } => self.reshape(input, Shape::of(&to)?),
            Layer::Slice { first, length } => self.slice(input, first, length),
            Layer::Pad { before, after, rows, columns } => {
                if before.max(after).max(rows.0).max(rows.1).max(columns.0).max(columns.1) > MAX_ENTRIES {
                    return Err("so many zeros cannot be checked".into());
                }
                let (height, width) = (shape.height + rows.0 + rows.1, shape.width + columns.0 + columns.1);
                let to = Shape::new(height, width, shape.channels + before + after)?;
                self.moves(input, to, |i| {
                    let (pixel, channel) = (i / to.channels, (i % to.channels).checked_sub(before)?);
                    let row = (pixel / to.width).checked_sub(rows.0)?;
                    let column = (pixel % to.width).checked_sub(columns.0)?;
                    let inside = row < shape.height && column < shape.width && channel < shape.channels;
                    inside.then(|| shape.entry(row, column, channel))
                })
            }
            Layer::Parallel { branches, join } => self.parallel(branches, join, input, depth),
            Layer::Ode { dynamics, solver } => self.ode(dynamics, solver, input, depth),
        }
    }

    /// A function of each entry.
    pub fn curve(&mut self, input: usize, curve: Curve) -> Result<usize, String> {
        self.push(Operator::Curve(curve), vec![input], self.network.nodes[input].shape)
    }

    /// So many channels from one on.
    pub fn slice(&mut self, input: usize, first: usize, length: usize) -> Result<usize, String> {
        let shape = self.network.nodes[input].shape;
        if first.saturating_add(length) > shape.channels {
            return Err(format!("there are {} channels only", shape.channels));
        }
        let to = Shape::new(shape.height, shape.width, length)?;
        self.moves(input, to, |i| Some(i / length * shape.channels + first + i % length))
    }

    fn pieced(&mut self, input: usize, pieced: Pieced) -> Result<usize, String> {
        self.curve(input, Curve::Pieced(pieced))
    }

    /// The largest entries under a kernel, along columns and then along rows: one value for each tap, then maxima. A tap
    /// beside the image is the nearest one inside.
    fn max_pool(&mut self, input: usize, kernel: Pair, stride: Pair, padding: Pair) -> Result<usize, String> {
        let sides = [(kernel.0, stride.0, padding.0), (kernel.1, stride.1, padding.1)];
        if sides.iter().any(|&(kernel, stride, padding)| {
            !(1..=64).contains(&kernel) || stride == 0 || padding > kernel / 2
        }) {
            return Err("a kernel beyond 64, no stride, or too much padding".into());
        }
        let mut value = input;
        for (along, (kernel, stride, padding)) in sides.into_iter().enumerate() {
            let shape = self.network.nodes[value].shape;
            let side = if along == 0 { shape.height } else { shape.width };
            if (kernel, stride, padding) == (1, 1, 0) {
                continue;
            }
            let room = (side + 2 * padding).checked_sub(kernel).ok_or("the kernel does not fit")?;
            let places = room / stride + 1;
            let to = match along {
                0 => Shape::new(places, shape.width, shape.channels)?,
                _ => Shape::new(shape.height, places, shape.channels)?,
            };
            // All taps at a place are from `first` to `last`.
            let first = |place: usize| (place * stride).saturating_sub(padding);
            let last = |place: usize| (place * stride + kernel - 1).saturating_sub(padding).min(side - 1);
            if (0..places).any(|place| first(place) > last(place) || place * stride + kernel <= padding) {
                return Err("a kernel beside the image".into());
            }
            let taps = (0..kernel).map(|tap| {
                self.moves(value, to, |i| {
                    let (pixel, channel) = (i / to.channels, i % to.channels);
                    let (row, column) = (pixel / to.width, pixel % to.width);
                    let place = if along == 0 { row } else { column };
                    let from = (place * stride + tap).saturating_sub(padding);
                    let from = from.clamp(first(place), last(place));
                    let (row, column) = if along == 0 { (from, column) } else { (row, from) };
                    Some(shape.entry(row, column, channel))
                })
            });
            let taps = taps.collect::<Result<_, _>>()?;
            value = self.largest(taps)?;
        }
        Ok(value)
    }

    /// Maxima of pairs of values, and of pairs of those, until one is left.
    fn largest(&mut self, mut values: Vec<usize>) -> Result<usize, String> {
        while values.len() > 1 {
            let of = |pair: &[usize]| match pair {
                [_, _] => self.push(Operator::Maximum, pair.to_vec(), self.network.nodes[pair[0]].shape),
                _ => Ok(pair[0]),
            };
            values = values.chunks(2).map(of).collect::<Result<_, _>>()?;
        }
        values.first().copied().ok_or_else(|| "nothing to take the largest of".into())
    }

    /// y / √(mean of y² + ε) with y = x − mean, of groups of channels. The clamp at the end changes nothing: with n entries
    /// in a group no result is beyond √n.
    fn group_norm(&mut self, input: usize, groups: usize, eps: f64) -> Result<usize, String> {
        let shape = self.network.nodes[input].shape;
        if groups == 0 || !shape.channels.is_multiple_of(groups) || !(1e-12..=1.0).contains(&eps) {
            return Err(format!("{} channels in {groups} groups, eps {eps}", shape.channels));
        }
        let (size, per_group) = (shape.count() / groups, shape.channels / groups);
        // n x − Σ x for what is left beside the mean, Σ x for the mean, both divided by n.
        if shape.count().checked_mul(size).is_none_or(|work| work > MAX_SIZE) {
            return Err("the groups are too large for this checker".into());
        }
        let means = |rest: bool| -> Result<Operator, String> {
            let mut matrix = Matrix::new(shape.count());
            for i in 0..shape.count() {
                let first = i % shape.channels / per_group * per_group;
                let pixels = 0..shape.count() / shape.channels;
                for j in pixels
                    .flat_map(|pixel| (first..first + per_group).map(move |c| pixel * shape.channels + c))
                {
                    let own = if i == j { size as f64 } else { 0.0 };
                    matrix.push(j, if rest { own - 1.0 } else { 1.0 })?;
                }
                matrix.end_row(0.0)?;
            }
            matrix.divisor = Some(size as f64);
            Ok(Operator::Affine(matrix))
        };
        let rest = self.push(means(true)?, vec![input], shape)?;
        let square = self.pieced(rest, Pieced::Square)?;
        let variance = self.push(means(false)?, vec![square], shape)?;
        let factor = self.pieced(variance, Pieced::InverseRoot { eps })?;
        let scaled = self.push(Operator::Product, vec![rest, factor], shape)?;
        let most = f64::from((1.001 * (size as f64).sqrt()) as f32);
        self.pieced(scaled, Pieced::Clamp { low: -most, high: most })
    }

    /// A factor and a summand for each channel or, listed channel by channel, each entry; none if there are no weights.
    fn weighted(&mut self, input: usize, of: Option<(&str, Vec<usize>)>) -> Result<usize, String> {
        let Some((name, sides)) = of else { return Ok(input) };
        let shape = self.network.nodes[input].shape;
        let read = |part: &str| -> Result<Vec<Interval>, String> {
            let numbers = self.tensor(name, part, &sides)?;
            let place = shape.by_channel();
            let mut spread = vec![Interval::ZERO; shape.count()];
            for (i, &at) in place.iter().enumerate() {
                spread[at] =
                    Interval::point(if sides.len() == 1 { numbers[at % shape.channels] } else { numbers[i] });
            }
            Ok(spread)
        };
        let operator = Operator::Scale(read("weight")?, read("bias")?);
        self.push(operator, vec![input], shape)
    }

    /// A tensor that must have this shape.
    fn tensor(&self, name: &str, part: &str, shape: &[usize]) -> Result<&[f64], String> {
        let full = format!("{name}.{part}");
        let (found, numbers) =
            self.tensors.tensors.get(&full).ok_or_else(|| format!("no tensor {full:?}"))?;
        if found == shape { Ok(numbers) } else { Err(format!("tensor {full:?} is {found:?}, not {shape:?}")) }
    }

    /// A factor and a summand per channel.
    fn scale(&mut self, input: usize, factors: &[Interval], shifts: &[Interval]) -> Result<usize, String> {
        let shape = self.network.nodes[input].shape;
        let spread = |list: &[Interval]| (0..shape.count()).map(|i| list[i % shape.channels]).collect();
        self.push(Operator::Scale(spread(factors), spread(shifts)), vec![input], shape)
    }

    fn batch_norm(
        &mut self,
        name: &str,
        channels: usize,
        least: f64,
        affine: bool,
        input: usize,
    ) -> Result<usize, String> {
        if channels != self.network.nodes[input].shape.channels {
            return Err(format!("{channels} channels, but it gets others"));
        }
        let read = |part: &str| self.tensor(name, part, &[channels]).map(<[f64]>::to_vec);
        let (mean, variance) = (read("running_mean")?, read("running_var")?);
        let (weight, bias) = match affine {
            true => (read("weight")?, read("bias")?),
            false => (vec![1.0; channels], vec![0.0; channels]),
        };
        let (mut factors, mut shifts) = (Vec::new(), Vec::new());
        for i in 0..channels {
            let spread = (Interval::point(variance[i]) + Interval::point(least)).sqrt();
            if spread.low <= 0.0 || variance[i] < 0.0 {
                return Err("a variance that is not positive".into());
            }
            let factor = Interval::point(weight[i]) / spread;
            factors.push(factor);
            shifts.push(Interval::point(bias[i]) - mean[i] * factor);
        }
        self.scale(input, &factors, &shifts)
    }

    fn convolution(
        &mut self,
        name: &str,
        out: usize,
        windows: &Windows,
        timed: bool,
        input: usize,
    ) -> Result<usize, String> {
        let (shape, kernel) = (windows.shape, windows.kernel);
        let planes = shape.channels + usize::from(timed);
        let weights = self.tensor(name, "weight", &[out, planes, kernel.0, kernel.1])?;
        let biases = self.tensor(name, "bias", &[out])?;
        let weight =
            |o: usize, plane: usize, tap: usize| weights[(o * planes + plane) * kernel.0 * kernel.1 + tap];
        let result = Shape::new(windows.height, windows.width, out)?;
        let mut matrix = Matrix::new(shape.count());
        for pixel in 0..windows.height * windows.width {
            let taps = windows.taps(pixel);
            for o in 0..out {
                let mut unit = Interval::ZERO;
                for &(tap, row, column) in &taps {
                    for channel in 0..shape.channels {
                        let plane = channel + usize::from(timed);
                        matrix.push(shape.entry(row, column, channel), weight(o, plane, tap))?;
                    }
                    unit = if timed { unit + Interval::point(weight(o, 0, tap)) } else { unit };
                }
                matrix.end_row(biases[o])?;
                if timed {
                    matrix.time.push(unit);
                }
            }
        }
        self.push(Operator::Affine(matrix), vec![input], result)
    }

    fn linear(&mut self, name: &str, out: usize, timed: bool, input: usize) -> Result<usize, String> {
        let shape = self.network.nodes[input].shape;
        let columns = shape.count() + usize::from(timed);
        let weights = self.tensor(name, "weight", &[out, columns])?;
        let biases = self.tensor(name, "bias", &[out])?;
        let mut matrix = Matrix::new(shape.count());
        for (o, row) in weights.chunks_exact(columns).enumerate() {
            for (i, &weight) in row[usize::from(timed)..].iter().enumerate() {
                matrix.push(i, weight)?;
            }
            matrix.end_row(biases[o])?;
            if timed {
                matrix.time.push(Interval::point(row[0]));
            }
        }
        self.push(Operator::Affine(matrix), vec![input], Shape::vector(out)?)
    }

    /// Averages: sums divided by the size of the kernel.
    fn pool(&mut self, input: usize, windows: &Windows) -> Result<usize, String> {
        let shape = windows.shape;
        let result = Shape::new(windows.height, windows.width, shape.channels)?;
        let mut matrix = Matrix::new(shape.count());
        for pixel in 0..windows.height * windows.width {
            let taps = windows.taps(pixel);
            for channel in 0..shape.channels {
                for &(_, row, column) in &taps {
                    matrix.push(shape.entry(row, column, channel), 1.0)?;
                }
                matrix.end_row(0.0)?;
            }
        }
        matrix.divisor = Some((windows.kernel.0 * windows.kernel.1) as f64);
        self.push(Operator::Affine(matrix), vec![input], result)
    }

    /// The same entries, listed channel by channel, in another shape.
    fn reshape(&mut self, input: usize, to: Shape) -> Result<usize, String> {
        let shape = self.network.nodes[input].shape;
        if to.count() != shape.count() {
            return Err(format!("{} entries do not become {}", shape.count(), to.count()));
        }
        let mut from = vec![0; to.count()];
        for (old, new) in shape.by_channel().into_iter().zip(to.by_channel()) {
            from[new] = old;
        }
        self.moves(input, to, |i| Some(from[i]))
    }

    /// Entries from elsewhere; zero where there is none.
    fn moves(
        &mut self,
        input: usize,
        to: Shape,
        from: impl Fn(usize) -> Option<usize>,
    ) -> Result<usize, String> {
        let mut matrix = Matrix::new(self.network.nodes[input].shape.count());
        for i in 0..to.count() {
            if let Some(from) = from(i) {
                matrix.push(from, 1.0)?;
            }
            matrix.end_row(0.0)?;
        }
        self.push(Operator::Affine(matrix), vec![input], to)
    }

    fn parallel(
        &mut self,
        branches: Vec<Vec<Layer>>,
        join: Join,
        input: usize,
        depth: usize,
    ) -> Result<usize, String> {
        if branches.len() > MAX_BRANCHES {
            return Err(format!("more than {MAX_BRANCHES} branches"));
        }
        let ends = branches.into_iter().map(|branch| self.layers(branch, input, depth + 1));
        let ends: Vec<usize> = ends.collect::<Result<_, _>>()?;
        let shapes: Vec<Shape> = ends.iter().map(|&end| self.network.nodes[end].shape).collect();
        let first = *shapes.first().ok_or("no branches")?;
        let alike = match join {
            Join::Concat => shapes.iter().all(|s| (s.height, s.width) == (first.height, first.width)),
            _ => shapes.iter().all(|shape| *shape == first),
        };
        match join {
            _ if !alike => return Err("the branches have different shapes".into()),
            Join::Add => return self.push(Operator::Sum(vec![1.0; ends.len()]), ends, first),
            Join::Max => return self.largest(ends),
            Join::Product => {
                let times = |x: usize, y: &usize| self.push(Operator::Product, vec![x, *y], first);
                return ends[1..].iter().try_fold(ends[0], times);
            }
            Join::Concat => {}
        }
        let channels = shapes.iter().map(|shape| shape.channels).sum();
        let to = Shape::new(first.height, first.width, channels)?;
        let joined = self.push(Operator::Concat, ends, Shape::vector(to.count())?)?;
        if first.is_vector() {
            return Ok(joined);
        }
        let (mut from, mut start, mut channel) = (vec![0; to.count()], 0, 0);
        for shape in shapes {
            for i in 0..shape.count() {
                from[i / shape.channels * channels + channel + i % shape.channels] = start + i;
            }
            (start, channel) = (start + shape.count(), channel + shape.channels);
        }
        self.moves(joined, to, |i| Some(from[i]))
    }

    fn ode(
        &mut self,
        dynamics: Vec<Layer>,
        mut solver: SolverDescription,
        input: usize,
        depth: usize,
    ) -> Result<usize, String> {
        match self.places {
            Places::Dynamics | Places::Encoder => return Err("an ODE in dynamics or an encoder".into()),
            _ if depth > 0 => return Err("an ODE in a branch".into()),
            // There is nothing to solve.
            Places::ReadOff(0.0) => return Ok(input),
            Places::ReadOff(time) => solver.end_time = time,
            Places::Network => {}
        }
        let shape = self.network.nodes[input].shape;
        let mut inner = Builder { size: self.size, ..Builder::new(self.tensors, Places::Dynamics) };
        inner.push(Operator::Input, vec![], shape)?;
        inner.network.output = inner.layers(dynamics, 0, 0)?;
        if inner.network.nodes[inner.network.output].shape != shape {
            return Err("the dynamics do not keep the shape".into());
        }
        self.size = inner.size;
        let ode = Ode { dynamics: inner.network, solver: Solver::new(solver)? };
        self.push(Operator::Ode(Box::new(ode)), vec![input], shape)
    }
}

/// The windows that a kernel sees of an image.
struct Windows {
    shape: Shape,
    kernel: (usize, usize),
    stride: (usize, usize),
    padding: (usize, usize),
    dilation: (usize, usize),
    height: usize,
    width: usize,
}

impl Windows {
    fn new(
        shape: Shape,
        kernel: (usize, usize),
        stride: (usize, usize),
        padding: (usize, usize),
        dilation: (usize, usize),
    ) -> Result<Self, String> {
        let pairs = [kernel, stride, padding, dilation];
        if pairs.iter().any(|pair| pair.0.max(pair.1) > MAX_ENTRIES) {
            return Err("a kernel beyond all bounds".into());
        }
        let places = |side: usize, kernel: usize, stride: usize, padding: usize, dilation: usize| {
            let reach = dilation.checked_mul(kernel.checked_sub(1)?)?;
            let room = (side + 2 * padding).checked_sub(reach + 1)?;
            (dilation > 0).then(|| room.checked_div(stride).map(|steps| steps + 1)).flatten()
        };
        let height = places(shape.height, kernel.0, stride.0, padding.0, dilation.0);
        let width = places(shape.width, kernel.1, stride.1, padding.1, dilation.1);
        let (Some(height), Some(width)) = (height, width) else {
            return Err("the kernel does not fit".into());
        };
        let work =
            [height, width, kernel.0, kernel.1].iter().try_fold(1usize, |all, side| all.checked_mul(*side));
        if work.is_none_or(|work| work > MAX_SIZE) {
            return Err("the kernel is too large for this checker".into());
        }
        Ok(Self { shape, kernel, stride, padding, dilation, height, width })
    }

    /// What is seen at an output pixel: number of the tap, row and column; nothing beside the image.
    fn taps(&self, pixel: usize) -> Vec<(usize, usize, usize)> {
        let (row, column) = (pixel / self.width * self.stride.0, pixel % self.width * self.stride.1);
        let mut taps = Vec::new();
        for tap in 0..self.kernel.0 * self.kernel.1 {
            let row = (row + tap / self.kernel.1 * self.dilation.0).checked_sub(self.padding.0);
            let column = (column + tap % self.kernel.1 * self.dilation.1).checked_sub(self.padding.1);
            if let (Some(row), Some(column)) = (row, column)
                && row < self.shape.height
                && column < self.shape.width
            {
                taps.push((tap, row, column));
            }
        }
        taps
    }
}
