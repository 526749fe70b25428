//! Writing layers that fit each other.

use gains_core::Shape;
use gains_core::description::{Approximation, Join, LayerSpec};
use gains_core::model_file::Tensors;

use super::MOST_ENTRIES;
use super::solver::solver;
use super::weights::{Mood, biases, weights};
use crate::choices::Choices;

/// Where layers stand, which decides what the loader accepts there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// In the network itself, outside ODE blocks.
    Network,
    /// In the dynamics of an ODE block.
    Dynamics,
    /// In the encoder of a series: no time, no ODE.
    Encoder,
}

/// How a kernel lies on an image, both axes.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Geometry {
    kernel: [usize; 2],
    stride: [usize; 2],
    padding: [usize; 2],
    dilation: [usize; 2],
}

/// Positions of a kernel along one axis, if there are any.
fn positions(size: usize, [kernel, stride, padding, dilation]: [usize; 4]) -> Option<usize> {
    let free = (size + 2 * padding).checked_sub(dilation * (kernel - 1) + 1)?;
    Some(free / stride + 1)
}

/// The ways of a kernel to make an axis of one size out of one of another: never none.
fn axes(from: usize, to: usize) -> Vec<[usize; 4]> {
    let reach = to.saturating_sub(from).div_ceil(2);
    let mut found = Vec::new();
    for padding in reach..=reach + 2 {
        for [stride, dilation] in [[1, 1], [2, 1], [3, 1], [1, 2]] {
            for kernel in 1..=from + 2 * padding {
                let axis = [kernel, stride, padding, dilation];
                if positions(from, axis) == Some(to) {
                    found.push(axis);
                }
            }
        }
    }
    found.sort_by_key(|[kernel, stride, padding, dilation]| kernel + stride + padding + dilation);
    found.truncate(8);
    found
}

/// Writes layers one after the other.
pub struct Author<'a> {
    /// Where decisions come from.
    pub choices: &'a mut Choices,
    /// The weights so far.
    pub tensors: Tensors,
    /// What the layers so far give.
    pub shape: Shape,
    place: Place,
    mood: Mood,
    prefix: String,
    /// How many branches this stands in.
    depth: usize,
}

/// Branches inside branches.
const MOST_NESTED: usize = 2;

impl<'a> Author<'a> {
    /// Nothing written yet.
    pub fn new(choices: &'a mut Choices, shape: Shape, place: Place, mood: Mood) -> Self {
        Self { choices, tensors: Tensors::new(), shape, place, mood, prefix: "l".into(), depth: 0 }
    }

    /// Starts again at a shape, in another place; names begin with a prefix from here on.
    pub fn turn_to(&mut self, shape: Shape, place: Place, prefix: &str) {
        (self.shape, self.place, self.prefix) = (shape, place, prefix.into());
    }

    /// Tensors of a layer.
    fn fill(&mut self, shape: Vec<usize>) -> String {
        let name = format!("{}{}", self.prefix, self.tensors.len() / 2);
        let (outputs, terms) = (shape[0], shape[1..].iter().product());
        let weights = weights(self.choices, self.mood, outputs * terms, terms);
        let biases = biases(self.choices, self.mood, outputs);
        self.tensors.insert(format!("{name}.weight"), (shape, weights));
        self.tensors.insert(format!("{name}.bias"), (vec![outputs], biases));
        name
    }

    fn takes_time(&mut self) -> bool {
        match self.place {
            Place::Network => self.choices.chance(10),
            Place::Dynamics if self.mood == Mood::Sparse => self.choices.chance(10),
            Place::Dynamics => self.choices.chance(40),
            Place::Encoder => false,
        }
    }

    fn linear(&mut self, outputs: usize) -> LayerSpec {
        let (inputs, time) = (self.shape.channels, self.takes_time());
        let name = self.fill(vec![outputs, inputs + usize::from(time)]);
        self.shape = Shape::flat(outputs);
        LayerSpec::Linear { name, in_features: inputs, out_features: outputs, time }
    }

    /// What a kernel makes of the current shape, if it fits and what comes out is not too large.
    fn under(&self, g: Geometry, channels: usize) -> Option<Shape> {
        let side = |size, i: usize| positions(size, [g.kernel[i], g.stride[i], g.padding[i], g.dilation[i]]);
        let shape = Shape::image(side(self.shape.height, 0)?, side(self.shape.width, 1)?, channels);
        (shape.len() <= MOST_ENTRIES).then_some(shape)
    }

    /// Any geometry that fits; a single tap if none is found.
    fn geometry(&mut self, channels: usize, most_dilation: usize) -> (Geometry, Shape) {
        if self.mood == Mood::Sparse && !self.choices.chance(40) {
            // Patches that do not overlap keep what is sparse.
            let kernel = [self.choices.pick(&[1, 2, 3]), self.choices.pick(&[1, 2, 3])];
            let patches = Geometry { kernel, stride: kernel, padding: [0, 0], dilation: [1, 1] };
            if let Some(shape) = self.under(patches, channels) {
                return (patches, shape);
            }
        }
        for _ in 0..6 {
            let mut pair = |options: &[usize]| [self.choices.pick(options), self.choices.pick(options)];
            let kernel = pair(&[1, 2, 3, 2, 3, 4]);
            let stride = pair(&[1, 1, 2, 3]);
            let padding = pair(&[0, 0, 1, 1, 2, 4]);
            let dilation = if most_dilation > 1 { pair(&[1, 1, 2, 3]) } else { [1, 1] };
            let geometry = Geometry { kernel, stride, padding, dilation };
            if let Some(shape) = self.under(geometry, channels) {
                return (geometry, shape);
            }
        }
        let tap = Geometry { kernel: [1, 1], stride: [1, 1], padding: [0, 0], dilation: [1, 1] };
        (tap, Shape { channels, ..self.shape })
    }

    fn conv(&mut self, g: Geometry, after: Shape) -> LayerSpec {
        let (in_channels, time) = (self.shape.channels, self.takes_time());
        let columns = in_channels + usize::from(time);
        let name = self.fill(vec![after.channels, columns, g.kernel[0], g.kernel[1]]);
        self.shape = after;
        LayerSpec::Conv2d {
            name,
            in_channels,
            out_channels: after.channels,
            kernel: g.kernel,
            stride: g.stride,
            padding: g.padding,
            dilation: g.dilation,
            time,
        }
    }

    fn any_conv(&mut self) -> LayerSpec {
        let room = (MOST_ENTRIES / self.shape.positions()).clamp(1, 4);
        let channels = self.choices.within(1..=room);
        let (geometry, after) = self.geometry(channels, 3);
        self.conv(geometry, after)
    }

    fn any_pool(&mut self) -> LayerSpec {
        let (g, after) = self.geometry(self.shape.channels, 1);
        self.shape = after;
        LayerSpec::AvgPool2d { kernel: g.kernel, stride: g.stride, padding: g.padding }
    }

    /// Any activation.
    pub fn activation(&mut self) -> LayerSpec {
        if self.mood == Mood::Sparse && !self.choices.chance(15) {
            return LayerSpec::Relu {};
        }
        match self.choices.below(19) {
            0..=3 => LayerSpec::Relu {},
            4 => LayerSpec::LeakyRelu { slope: self.choices.pick(&[0.125, 0.0, 1.0, 0.1]) },
            5 | 6 => LayerSpec::Tanh {},
            7 => LayerSpec::Sigmoid {},
            8 => LayerSpec::Absolute {},
            9 => LayerSpec::Softplus {},
            10 => LayerSpec::Silu {},
            11 => LayerSpec::Gelu { approximate: Approximation::None },
            12 => LayerSpec::Gelu { approximate: Approximation::Tanh },
            13 => LayerSpec::Elu { alpha: self.choices.pick(&[1.0, 0.5, 0.0, 3.0, 0.1]) },
            14 => LayerSpec::Sin {},
            15 => LayerSpec::Cos {},
            16 => self.clamp(),
            17 => LayerSpec::Relu6 {},
            _ if self.choices.chance(30) => LayerSpec::Square {},
            _ => LayerSpec::Softplus {},
        }
    }

    fn clamp(&mut self) -> LayerSpec {
        let (low, high) = self.choices.pick(&[
            (-1.0, 1.0),
            (-0.1, 0.3),
            (0.5, 2.0),
            (0.25, 0.25),
            (0.0, 0.0),
            (-1e15, 0.0),
        ]);
        if self.choices.chance(50) {
            LayerSpec::Clamp { low, high }
        } else {
            LayerSpec::Hardtanh { low, high }
        }
    }

    fn channel_norm(&mut self) -> LayerSpec {
        let (channels, affine) = (self.shape.channels, self.choices.chance(70));
        let name = format!("{}{}", self.prefix, self.tensors.len() / 2);
        let eps = self.choices.pick(&[1e-5, 0.125, 1e-3]);
        let variance = (0..channels).map(|_| self.choices.pick(&[1.0, 0.25, 0.0, 4.0, 1e-6])).collect();
        let mut part = |part: &str, values: Vec<f64>| {
            self.tensors.insert(format!("{name}.{part}"), (vec![channels], values));
        };
        part("running_var", variance);
        part("running_mean", biases(self.choices, self.mood, channels));
        if affine {
            part("weight", weights(self.choices, self.mood, channels, 1));
            part("bias", biases(self.choices, self.mood, channels));
        }
        LayerSpec::BatchNorm { name, channels, eps, affine }
    }

    /// Of groups of channels, or of everything.
    fn group_norm(&mut self) -> LayerSpec {
        let (channels, affine) = (self.shape.channels, self.choices.chance(60));
        let name = format!("{}{}", self.prefix, self.tensors.len() / 2);
        let eps = self.choices.pick(&[1e-5, 0.125, 1e-3]);
        let all = self.choices.chance(30);
        if affine {
            let image = vec![channels, self.shape.height, self.shape.width];
            let shape = if all && self.shape.positions() > 1 { image } else { vec![channels] };
            let count = shape.iter().product();
            let (factors, summands) =
                (weights(self.choices, self.mood, count, 1), biases(self.choices, self.mood, count));
            self.tensors.insert(format!("{name}.weight"), (shape.clone(), factors));
            self.tensors.insert(format!("{name}.bias"), (shape, summands));
        }
        if all {
            return LayerSpec::LayerNorm { name, eps, affine };
        }
        let fitting: Vec<usize> = (1..=channels).filter(|groups| channels.is_multiple_of(*groups)).collect();
        let groups = self.choices.pick(&fitting);
        LayerSpec::GroupNorm { name, groups, channels, eps, affine }
    }

    /// Zeros around, as far as there is room for them.
    fn pad(&mut self) -> LayerSpec {
        let by: [usize; 6] = [0; 6].map(|_: usize| self.choices.pick(&[0, 1, 0, 0, 2]));
        let [before, after, above, below, left, right] = by;
        let s = self.shape;
        let mut grown =
            Shape::image(s.height + above + below, s.width + left + right, s.channels + before + after);
        let (mut rows, mut columns) = ([above, below], [left, right]);
        // Vectors stay vectors now and then.
        if grown.len() > MOST_ENTRIES || s.positions() == 1 && self.choices.chance(60) {
            (rows, columns) = ([0, 0], [0, 0]);
            grown = Shape { channels: grown.channels, ..s };
        }
        if grown.len() > MOST_ENTRIES {
            return self.activation();
        }
        self.shape = grown;
        LayerSpec::Pad { before, after, rows, columns }
    }

    fn reshape(&mut self) -> LayerSpec {
        let to = shape_of(self.choices, self.shape.len());
        if to == self.shape {
            return self.activation();
        }
        self.shape = to;
        LayerSpec::Reshape { to }
    }

    fn max_pool(&mut self) -> LayerSpec {
        let (mut g, mut after) = self.geometry(self.shape.channels, 1);
        if (0..2).any(|i| g.padding[i] > g.kernel[i] / 2) {
            g.padding = [0, 1].map(|i| g.padding[i].min(g.kernel[i] / 2));
            match self.under(g, self.shape.channels) {
                Some(shape) => after = shape,
                None => return self.activation(),
            }
        }
        self.shape = after;
        LayerSpec::MaxPool2d { kernel: g.kernel, stride: g.stride, padding: g.padding }
    }

    fn normalize(&mut self) -> LayerSpec {
        let channels = self.shape.channels;
        if self.mood == Mood::Extreme {
            let (mean, std) =
                self.choices.pick(&[(1e20, 1e-20), (0.0, 1e-100), (1e100, 1e100), (-1.0, 1e30)]);
            return LayerSpec::Normalize { mean: vec![mean; channels], std: vec![std; channels] };
        }
        let mean = (0..channels).map(|_| self.choices.pick(&[0.0, 0.5, -1.0, 0.1307])).collect();
        let std = (0..channels).map(|_| self.choices.pick(&[1.0, 0.5, 3.0, 0.3081])).collect();
        LayerSpec::Normalize { mean, std }
    }

    /// Any layer that fits here, but an ODE block.
    pub fn any(&mut self) -> LayerSpec {
        let flat = self.shape.positions() == 1;
        // Sparse networks are mostly ReLUs and convolutions.
        let choice = match self.mood {
            Mood::Any | Mood::Extreme => self.choices.below(25),
            Mood::Sparse => self.choices.pick(&[6, 0, 6, 1, 7, 0, 6, 4, 7, 8, 10, 11, 12, 14, 15, 17]),
        };
        match choice {
            0..=3 => self.activation(),
            4 | 5 if flat => {
                let outputs = self.choices.within(1..=5);
                self.linear(outputs)
            }
            4..=7 => self.any_conv(),
            8 => self.any_pool(),
            9 => self.normalize(),
            10 => {
                self.shape = Shape::flat(self.shape.len());
                LayerSpec::Flatten {}
            }
            11 if !flat => {
                self.shape = Shape::flat(self.shape.channels);
                LayerSpec::GlobalAvgPool {}
            }
            12 | 13 if self.depth < MOST_NESTED => self.parallel(),
            14 => self.slice(),
            15 => self.pad(),
            16 => self.reshape(),
            17 => self.max_pool(),
            18 => self.channel_norm(),
            19 => self.group_norm(),
            _ => self.any_conv(),
        }
    }

    fn slice(&mut self) -> LayerSpec {
        let first = self.choices.below(self.shape.channels);
        let length = self.choices.within(1..=self.shape.channels - first);
        self.shape.channels = length;
        LayerSpec::Slice { first, length }
    }

    /// Branches from here, joined; what is put side by side are vectors, or images of one size, everything else has one
    /// shape.
    fn parallel(&mut self) -> LayerSpec {
        let from = self.shape;
        self.depth += 1;
        let join = self.choices.pick(&[Join::Add, Join::Product, Join::Concat, Join::Max]);
        let count = self.choices.within(2..=3);
        let mut branches = Vec::with_capacity(count);
        let mut goal = None;
        let mut channels = 0;
        for _ in 0..count {
            self.shape = from;
            let mut layers = Vec::new();
            // A branch that does nothing makes the others a change.
            let size = |shape: Shape| (shape.height, shape.width);
            let passes = match join {
                Join::Concat => goal.is_none_or(|goal| size(goal) == size(from)),
                Join::Add | Join::Product | Join::Max => goal.is_none_or(|goal| goal == from),
            };
            if !passes || !self.choices.chance(35) {
                layers = self.some(2, 60);
                let end = match (join, goal) {
                    (Join::Concat, None) if self.choices.chance(50) => {
                        Shape::flat(self.choices.within(1..=3))
                    }
                    (Join::Concat, goal) => {
                        Shape { channels: self.choices.within(1..=3), ..goal.unwrap_or(self.shape) }
                    }
                    _ => goal.unwrap_or(self.shape),
                };
                if self.shape != end {
                    layers.extend(self.lead_to(end));
                }
            }
            goal.get_or_insert(self.shape);
            channels += self.shape.channels;
            branches.push(layers);
        }
        self.depth -= 1;
        if join == Join::Concat {
            self.shape.channels = channels;
        }
        LayerSpec::Parallel { branches, join }
    }

    /// Up to so many layers of any kind.
    pub fn some(&mut self, most: usize, percent: usize) -> Vec<LayerSpec> {
        let mut layers: Vec<LayerSpec> = Vec::new();
        while layers.len() < most && self.choices.chance(percent) {
            // As a rule an activation follows what mixes entries.
            let mixed = matches!(layers.last(), Some(LayerSpec::Conv2d { .. } | LayerSpec::Linear { .. }));
            let next = if mixed && self.choices.chance(50) { self.activation() } else { self.any() };
            layers.push(next);
        }
        layers
    }

    /// An ODE block on the current shape.
    pub fn ode(&mut self) -> LayerSpec {
        let (shape, outside) = (self.shape, self.place);
        self.place = Place::Dynamics;
        let (more, end) = match self.mood {
            Mood::Any | Mood::Extreme => (55, 30),
            Mood::Sparse => (20, 80),
        };
        let mut dynamics = self.some(4, more);
        dynamics.extend(self.lead_to(shape));
        if dynamics.is_empty() || self.choices.chance(end) {
            dynamics.push(self.activation());
        }
        // What keeps no layer when it is loaded is refused.
        if dynamics.iter().all(does_nothing) {
            dynamics.push(LayerSpec::Tanh {});
        }
        self.place = outside;
        LayerSpec::Ode { dynamics, solver: solver(self.choices) }
    }

    /// A way of a kernel from one size to another; what is sparse stays so if it is a simple one.
    fn axis(&mut self, from: usize, to: usize) -> [usize; 4] {
        let mut ways = axes(from, to);
        if self.mood == Mood::Sparse && !self.choices.chance(40) {
            ways.truncate(1);
        }
        self.choices.pick(&ways)
    }

    /// Layers that end with a given shape; none if that is the shape already and nothing else is wanted.
    pub fn lead_to(&mut self, goal: Shape) -> Vec<LayerSpec> {
        if self.shape == goal && self.choices.chance(30) {
            return Vec::new();
        }
        let mut layers = Vec::new();
        if goal.positions() == 1 && self.shape.positions() > 1 {
            match self.choices.below(4) {
                0 | 1 => {
                    self.shape = Shape::flat(self.shape.len());
                    layers.push(LayerSpec::Flatten {});
                }
                2 => {
                    self.shape = Shape::flat(self.shape.channels);
                    layers.push(LayerSpec::GlobalAvgPool {});
                }
                _ => {}
            }
        }
        if goal.positions() == 1 && self.shape.positions() == 1 && self.choices.chance(80) {
            layers.push(self.linear(goal.channels));
            return layers;
        }
        let vertical = self.axis(self.shape.height, goal.height);
        let horizontal = self.axis(self.shape.width, goal.width);
        let both = |i: usize| [vertical[i], horizontal[i]];
        let g = Geometry { kernel: both(0), stride: both(1), padding: both(2), dilation: both(3) };
        let pools = self.shape.channels == goal.channels && g.dilation == [1, 1];
        layers.push(if pools && self.choices.chance(20) {
            self.shape = goal;
            LayerSpec::AvgPool2d { kernel: g.kernel, stride: g.stride, padding: g.padding }
        } else {
            self.conv(g, goal)
        });
        layers
    }
}

/// Whether a layer may leave nothing behind when it is loaded.
pub fn does_nothing(layer: &LayerSpec) -> bool {
    match layer {
        LayerSpec::Flatten {} | LayerSpec::Reshape { .. } => true,
        LayerSpec::MaxPool2d { kernel, stride, .. } => *kernel == [1, 1] && *stride == [1, 1],
        _ => false,
    }
}

/// A shape of at most so many entries: a vector, a row, a column or a small image.
pub fn any_shape(choices: &mut Choices, most: usize) -> Shape {
    let channels = |choices: &mut Choices| choices.pick(&[1, 2, 1, 3]).min(most);
    let (height, width, channels) = match choices.below(5) {
        0 => return Shape::flat(choices.within(1..=most.min(5))),
        1 => (1, choices.within(2..=6), channels(choices)),
        2 => (choices.within(2..=6), 1, channels(choices)),
        3 => (choices.within(2..=3), choices.within(2..=3), channels(choices)),
        _ => (choices.within(2..=5), choices.within(2..=5), 1),
    };
    let height = height.min(most / channels).max(1);
    Shape::image(height, width.min(most / channels / height).max(1), channels)
}

/// A shape of exactly so many entries.
pub fn shape_of(choices: &mut Choices, entries: usize) -> Shape {
    match choices.below(5) {
        0..=2 => Shape::flat(entries),
        3 => Shape::image(1, entries, 1),
        _ if entries.is_multiple_of(2) => Shape::image(entries / 2, 1, 2),
        _ => Shape::image(entries, 1, 1),
    }
}
