//! The layers of descriptions: what they are called, what they say, and what they are made of.

use crate::automaton::Solver;
use crate::builder::{Builder, MAX_SIZE, Places, Term};
use crate::curve::Curve;
use crate::fault::Fault;
use crate::interval::Interval;
use crate::network::{MAX_ENTRIES, Ode, Operator, Shape};
use crate::value::{Fields, Value, bad, shown};

/// Most branches of one layer.
const MAX_BRANCHES: usize = 16;

type Pair = (usize, usize);

fn count(value: &Value) -> Result<usize, Fault> {
    value.index(usize::MAX)
}

fn pair(value: &Value) -> Result<Pair, Fault> {
    let [first, second] = value.items()?;
    Ok((count(first)?, count(second)?))
}

fn point(x: f64) -> Interval {
    Interval::point(x)
}

/// Functions of each entry; `None` of other layers. `of` gives the fields of the layer, of which these are all.
fn activation<'v, 'a: 'v>(
    kind: &str,
    of: impl Fn(&str) -> Result<Fields<'v, 'a>, Fault>,
) -> Result<Option<Curve>, Fault> {
    let plain = [
        ("relu", Curve::Leaky { slope: 0.0 }),
        ("absolute", Curve::Leaky { slope: -1.0 }),
        ("sigmoid", Curve::Sigmoid),
        ("tanh", Curve::Tanh),
        ("softplus", Curve::Softplus),
        ("silu", Curve::Silu),
        ("sin", Curve::Wave { cosine: false }),
        ("cos", Curve::Wave { cosine: true }),
        ("square", Curve::Square),
        ("relu6", Curve::Clamp { low: 0.0, high: 6.0 }),
    ];
    if let Some((_, curve)) = plain.into_iter().find(|(name, _)| *name == kind) {
        return of("").map(|_| Some(curve));
    }
    let curve = match kind {
        "leaky_relu" => Curve::Leaky { slope: of("slope")?.read("slope", Value::decimal)? },
        "gelu" => match of("approximate")?.or("approximate", "none", Value::text)? {
            "none" => Curve::Gelu,
            "tanh" => Curve::GeluTanh,
            other => return Err(bad(format!("the approximation `{}`", shown(other)))),
        },
        "elu" => Curve::Elu { alpha: of("alpha")?.or("alpha", 1.0, Value::decimal)? },
        "clamp" => {
            let fields = of("low high")?;
            Curve::Clamp {
                low: fields.read("low", Value::decimal)?,
                high: fields.read("high", Value::decimal)?,
            }
        }
        "hardtanh" => {
            let fields = of("low high")?;
            let end = |key, usual| fields.or(key, usual, Value::decimal);
            Curve::Clamp { low: end("low", -1.0)?, high: end("high", 1.0)? }
        }
        _ => return Ok(None),
    };
    match curve {
        Curve::Leaky { slope: 0.0..=1.0 }
        | Curve::Elu { alpha: 0.0..=1000.0 }
        | Curve::Gelu
        | Curve::GeluTanh => {}
        Curve::Clamp { low, high } if low <= high => {}
        _ => return Err(bad(format!("{curve:?} cannot be checked"))),
    }
    Ok(Some(curve))
}

impl Builder<'_> {
    /// One layer, from value `input` on.
    pub(crate) fn layer(&mut self, layer: &Value, input: usize, depth: usize) -> Result<usize, Fault> {
        let kind = layer.open()?.text("type")?;
        let of = |keys: &str| layer.fields(&format!("type {keys}"));
        if let Some(curve) = activation(kind, of)? {
            return self.curve(input, curve);
        }
        let shape = self.shape(input);
        match kind {
            "normalize" => {
                let fields = of("mean std")?;
                let (mean, std) = (fields.each("mean", Value::decimal)?, fields.each("std", Value::decimal)?);
                if mean.len() != shape.channels || std.len() != mean.len() || std.iter().any(|x| *x <= 0.0) {
                    return Err(bad("one mean and one positive std per channel are needed"));
                }
                let divided = |x: f64, i: usize| point(x) / point(std[i % shape.channels]);
                self.scale(input, |i| (divided(1.0, i), divided(-mean[i % shape.channels], i)))
            }
            "batch_norm" => self.batch_norm(of("name channels eps affine")?, input),
            "group_norm" => {
                let fields = of("name groups channels eps affine")?;
                let normal = self.group_norm(fields, fields.read("groups", count)?, input)?;
                self.weighted(fields, vec![fields.read("channels", count)?], normal)
            }
            "layer_norm" => {
                let fields = of("name eps affine")?;
                let normal = self.group_norm(fields, 1, input)?;
                let sides = match shape.is_vector() {
                    true => vec![shape.channels],
                    false => vec![shape.channels, shape.height, shape.width],
                };
                self.weighted(fields, sides, normal)
            }
            "linear" => {
                let fields = of("name in_features out_features time")?;
                if !shape.is_vector() {
                    return Err(bad("it gets an image"));
                }
                self.convolution(fields, ["in_features", "out_features"], input)
            }
            "conv2d" => {
                let fields = of("name in_channels out_channels kernel stride padding dilation time")?;
                self.convolution(fields, ["in_channels", "out_channels"], input)
            }
            "avg_pool2d" => {
                let fields = of("kernel stride padding")?;
                let stride = fields.read("stride", pair)?;
                self.average(input, &Windows::read(fields, stride, shape, shape.channels)?)
            }
            "global_avg_pool" => {
                of("")?;
                let kernel = (shape.height, shape.width);
                self.average(input, &Windows::new(shape, [kernel, (1, 1), (0, 0), (1, 1)], shape.channels)?)
            }
            "max_pool2d" => self.max_pool(of("kernel stride padding")?, input),
            "flatten" => {
                of("")?;
                self.reshape(input, Shape::vector(shape.count())?)
            }
            "reshape" => self.reshape(input, of("to")?.read("to", Shape::read)?),
            "slice" => {
                let fields = of("first length")?;
                self.slice(input, fields.read("first", count)?, fields.read("length", count)?)
            }
            "pad" => {
                let fields = of("before after rows columns")?;
                let (before, after) = (fields.or("before", 0, count)?, fields.or("after", 0, count)?);
                let (rows, columns) = (fields.or("rows", (0, 0), pair)?, fields.or("columns", (0, 0), pair)?);
                if [before, after, rows.0, rows.1, columns.0, columns.1].into_iter().any(|n| n > MAX_ENTRIES)
                {
                    return Err(bad("so many zeros cannot be checked"));
                }
                let (height, width) = (shape.height + rows.0 + rows.1, shape.width + columns.0 + columns.1);
                let to = Shape::new(height, width, shape.channels + before + after)?;
                self.moves(input, to, |i| {
                    let (row, column, channel) = to.place(i);
                    shape.inside(
                        row.checked_sub(rows.0)?,
                        column.checked_sub(columns.0)?,
                        channel.checked_sub(before)?,
                    )
                })
            }
            "parallel" => self.parallel(of("branches join")?, input, depth),
            "ode" => self.ode(of("dynamics solver")?, input, depth),
            other => Err(bad(format!("layers of the type `{}` cannot be checked", shown(other)))),
        }
    }

    /// A tensor that must have this shape.
    fn tensor(&self, fields: Fields, part: &str, shape: &[usize]) -> Result<&[f64], Fault> {
        let full = format!("{}.{part}", fields.text("name")?);
        let (found, numbers) = self.tensors.get(&full).ok_or_else(|| bad(format!("no tensor {full:?}")))?;
        match found == shape {
            true => Ok(numbers),
            false => Err(bad(format!("tensor {full:?} is {found:?}, not {shape:?}"))),
        }
    }

    /// A factor and a summand for each channel or, listed channel by channel, each entry; none if there are no weights.
    fn weighted(&mut self, fields: Fields, sides: Vec<usize>, input: usize) -> Result<usize, Fault> {
        if !fields.or("affine", true, Value::bool)? {
            return Ok(input);
        }
        let shape = self.shape(input);
        let (weight, bias) =
            (self.tensor(fields, "weight", &sides)?.to_vec(), self.tensor(fields, "bias", &sides)?.to_vec());
        let number = |i: usize| if sides.len() == 1 { i % shape.channels } else { shape.by_channel(i) };
        self.scale(input, |i| (point(weight[number(i)]), point(bias[number(i)])))
    }

    fn batch_norm(&mut self, fields: Fields, input: usize) -> Result<usize, Fault> {
        let channels = fields.read("channels", count)?;
        if channels != self.shape(input).channels {
            return Err(bad(format!("{channels} channels, but it gets others")));
        }
        let (eps, affine) =
            (fields.or("eps", 1e-5, Value::decimal)?, fields.or("affine", true, Value::bool)?);
        let read = |part: &str| self.tensor(fields, part, &[channels]);
        let (mean, variance) = (read("running_mean")?, read("running_var")?);
        let (ones, zeros) = (vec![1.0; channels], vec![0.0; channels]);
        let (weight, bias) = if affine { (read("weight")?, read("bias")?) } else { (&ones[..], &zeros[..]) };
        let mut of = Vec::new();
        for i in 0..channels {
            let spread = (point(variance[i]) + point(eps)).sqrt();
            if spread.low <= 0.0 || variance[i] < 0.0 {
                return Err(bad("a variance that is not positive"));
            }
            let factor = point(weight[i]) / spread;
            of.push((factor, point(bias[i]) - mean[i] * factor));
        }
        self.scale(input, |i| of[i % channels])
    }

    /// y / √(mean of y² + ε) with y = x − mean, of groups of channels. The clamp at the end changes nothing: with n entries
    /// in a group no result is beyond √n.
    fn group_norm(&mut self, fields: Fields, groups: usize, input: usize) -> Result<usize, Fault> {
        let (shape, eps) = (self.shape(input), fields.or("eps", 1e-5, Value::decimal)?);
        if fields.or("channels", shape.channels, count)? != shape.channels
            || groups == 0
            || !shape.channels.is_multiple_of(groups)
            || !(1e-12..=1.0).contains(&eps)
        {
            return Err(bad(format!("{} channels in {groups} groups, eps {eps}", shape.channels)));
        }
        let (size, per_group) = (shape.count() / groups, shape.channels / groups);
        if shape.count().checked_mul(size).is_none_or(|work| work > MAX_SIZE) {
            return Err(bad("the groups are too large for this checker"));
        }
        // (n xᵢ − Σ x) / n for what is left beside the mean, Σ x / n for the mean.
        let means = |i: usize, own: f64, others: f64| {
            let first = i % shape.channels / per_group * per_group;
            let weight = move |j: usize| if i == j { own } else { others };
            (0..size).map(move |n| {
                let j = n / per_group * shape.channels + first + n % per_group;
                (j, point(weight(j)) / point(size as f64))
            })
        };
        let rest = self.sums(input, shape, |i| means(i, size as f64 - 1.0, -1.0))?;
        let square = self.curve(rest, Curve::Square)?;
        let variance = self.sums(square, shape, |i| means(i, 1.0, 1.0))?;
        let factor = self.curve(variance, Curve::InverseRoot { eps })?;
        let scaled = self.like(Operator::Product, &[rest, factor])?;
        let most = f64::from((1.001 * (size as f64).sqrt()) as f32);
        self.curve(scaled, Curve::Clamp { low: -most, high: most })
    }

    /// Convolutions, and linear layers: convolutions of a pixel.
    fn convolution(&mut self, fields: Fields, [ins, outs]: [&str; 2], input: usize) -> Result<usize, Fault> {
        let (shape, out) = (self.shape(input), fields.read(outs, count)?);
        let timed = fields.or("time", false, Value::bool)?;
        if timed && self.places == Places::Encoder {
            return Err(bad("a layer of an encoder takes the time"));
        }
        if fields.read(ins, count)? != shape.channels {
            return Err(bad(format!("it gets {} channels", shape.channels)));
        }
        let planes = shape.channels + usize::from(timed);
        let (windows, sides) = match ins {
            "in_features" => (Windows::new(shape, [(1, 1), (1, 1), (0, 0), (1, 1)], out)?, vec![out, planes]),
            _ => {
                let windows = Windows::read(fields, fields.or("stride", (1, 1), pair)?, shape, out)?;
                (windows, vec![out, planes, windows.kernel.0, windows.kernel.1])
            }
        };
        let (weights, biases) =
            (self.tensor(fields, "weight", &sides)?.to_vec(), self.tensor(fields, "bias", &[out])?.to_vec());
        let weight = |o: usize, plane: usize, tap: usize| {
            point(weights[(o * planes + plane) * windows.kernel.0 * windows.kernel.1 + tap])
        };
        let to = Shape::new(windows.places.0, windows.places.1, out)?;
        self.map(vec![input], to, |entry| {
            let (row, column, o) = to.place(entry);
            let (mut terms, mut time) = (Vec::new(), timed.then_some(Interval::ZERO));
            for (tap, first) in windows.taps(row, column) {
                let plane = |channel: usize| channel + usize::from(timed);
                terms.extend((0..shape.channels).map(|c| (first + c, weight(o, plane(c), tap))));
                time = time.map(|time| time + weight(o, 0, tap));
            }
            (terms, point(biases[o]), time)
        })
    }

    /// Averages under a kernel.
    fn average(&mut self, input: usize, windows: &Windows) -> Result<usize, Fault> {
        let to = Shape::new(windows.places.0, windows.places.1, self.shape(input).channels)?;
        let part = Interval::ONE / point((windows.kernel.0 * windows.kernel.1) as f64);
        self.sums(input, to, |entry| -> Vec<Term> {
            let (row, column, channel) = to.place(entry);
            windows.taps(row, column).map(|(_, first)| (first + channel, part)).collect()
        })
    }

    /// The largest entries under a kernel, along columns and then along rows: one value for each tap, then maxima. A tap
    /// beside the image is the nearest one inside.
    fn max_pool(&mut self, fields: Fields, input: usize) -> Result<usize, Fault> {
        let (kernel, stride) = (fields.read("kernel", pair)?, fields.read("stride", pair)?);
        let padding = fields.or("padding", (0, 0), pair)?;
        let sides = [(kernel.0, stride.0, padding.0), (kernel.1, stride.1, padding.1)];
        let known = |&(kernel, stride, padding): &(usize, usize, usize)| {
            (1..=64).contains(&kernel) && stride > 0 && padding <= kernel / 2
        };
        if !sides.iter().all(known) {
            return Err(bad("a kernel beyond 64, no stride, or too much padding"));
        }
        let mut value = input;
        for (along, (kernel, stride, padding)) in sides.into_iter().enumerate() {
            let shape = self.shape(value);
            let side = [shape.height, shape.width][along];
            if (kernel, stride, padding) == (1, 1, 0) {
                continue;
            }
            let room =
                (side + 2 * padding).checked_sub(kernel).ok_or_else(|| bad("the kernel does not fit"))?;
            let places = room / stride + 1;
            let to = match along {
                0 => Shape::new(places, shape.width, shape.channels)?,
                _ => Shape::new(shape.height, places, shape.channels)?,
            };
            // All taps at a place are from `first` to `last`.
            let first = |place: usize| (place * stride).saturating_sub(padding);
            let last = |place: usize| (place * stride + kernel - 1).saturating_sub(padding).min(side - 1);
            if (0..places).any(|place| first(place) > last(place) || place * stride + kernel <= padding) {
                return Err(bad("a kernel beside the image"));
            }
            let taps = (0..kernel).map(|tap| {
                self.moves(value, to, |i| {
                    let (row, column, channel) = to.place(i);
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
    fn largest(&mut self, mut values: Vec<usize>) -> Result<usize, Fault> {
        while values.len() > 1 {
            let of = |pair: &[usize]| match pair {
                [_, _] => self.like(Operator::Maximum, pair),
                _ => Ok(pair[0]),
            };
            values = values.chunks(2).map(of).collect::<Result<_, _>>()?;
        }
        values.first().copied().ok_or_else(|| bad("nothing to take the largest of"))
    }

    /// The same entries, listed channel by channel, in another shape.
    fn reshape(&mut self, input: usize, to: Shape) -> Result<usize, Fault> {
        let shape = self.shape(input);
        if to.count() != shape.count() {
            return Err(bad(format!("{} entries do not become {}", shape.count(), to.count())));
        }
        match to == shape {
            true => Ok(input),
            false => self.moves(input, to, |i| Some(shape.of_channels(to.by_channel(i)))),
        }
    }

    fn parallel(&mut self, fields: Fields, input: usize, depth: usize) -> Result<usize, Fault> {
        let branches = fields.get("branches")?.list()?;
        if !(1..=MAX_BRANCHES).contains(&branches.len()) {
            return Err(bad(format!("{} branches are not 1 to {MAX_BRANCHES}", branches.len())));
        }
        let mut ends = Vec::new();
        for branch in branches {
            ends.push(self.layers(branch, input, depth + 1)?);
        }
        let shapes: Vec<Shape> = ends.iter().map(|&end| self.shape(end)).collect();
        let (first, join) = (shapes[0], fields.text("join")?);
        let alike = |shape: &Shape| match join {
            "concat" => (shape.height, shape.width) == (first.height, first.width),
            _ => *shape == first,
        };
        match join {
            _ if !shapes.iter().all(alike) => return Err(bad("the branches have different shapes")),
            "add" => return self.sum(&ends, &vec![1.0; ends.len()]),
            "max" => return self.largest(ends),
            "product" => {
                return ends[1..].iter().try_fold(ends[0], |x, &y| self.like(Operator::Product, &[x, y]));
            }
            "concat" => {}
            other => return Err(bad(format!("branches are not joined by `{}`", shown(other)))),
        }
        let channels = shapes.iter().map(|shape| shape.channels).sum();
        let to = Shape::new(first.height, first.width, channels)?;
        let joined = self.list(&ends)?;
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

    fn ode(&mut self, fields: Fields, input: usize, depth: usize) -> Result<usize, Fault> {
        let read_off = match self.places {
            Places::Dynamics | Places::Encoder => return Err(bad("an ODE in dynamics or an encoder")),
            _ if depth > 0 => return Err(bad("an ODE in a branch")),
            // There is nothing to solve.
            Places::ReadOff(0.0) => return Ok(input),
            Places::ReadOff(time) => Some(time),
            Places::Network => None,
        };
        let shape = self.shape(input);
        let mut inner = Builder { size: self.size, ..Builder::new(self.tensors, Places::Dynamics) };
        inner.input(shape)?;
        inner.network.output = inner.layers(fields.get("dynamics")?, 0, 0)?;
        if inner.shape(inner.network.output) != shape {
            return Err(bad("the dynamics do not keep the shape"));
        }
        self.size = inner.size;
        let solver = fields.read("solver", |solver| Solver::read(solver, read_off))?;
        self.like(Operator::Ode(Box::new(Ode { dynamics: inner.network, solver })), &[input])
    }
}

/// The windows that a kernel sees of an image.
#[derive(Clone, Copy)]
struct Windows {
    shape: Shape,
    kernel: Pair,
    stride: Pair,
    padding: Pair,
    dilation: Pair,
    /// Rows and columns of what comes out.
    places: Pair,
}

impl Windows {
    fn read(fields: Fields, stride: Pair, shape: Shape, out: usize) -> Result<Self, Fault> {
        let (padding, dilation) = (fields.or("padding", (0, 0), pair)?, fields.or("dilation", (1, 1), pair)?);
        Self::new(shape, [fields.read("kernel", pair)?, stride, padding, dilation], out)
    }

    /// With `out` entries of every pixel that comes out.
    fn new(shape: Shape, [kernel, stride, padding, dilation]: [Pair; 4], out: usize) -> Result<Self, Fault> {
        if [kernel, stride, padding, dilation].iter().any(|pair| pair.0.max(pair.1) > MAX_ENTRIES) {
            return Err(bad("a kernel beyond all bounds"));
        }
        let places = |side: usize, kernel: usize, stride: usize, padding: usize, dilation: usize| {
            let reach = dilation.checked_mul(kernel.checked_sub(1)?)?;
            let room = (side + 2 * padding).checked_sub(reach + 1)?;
            (dilation > 0).then(|| room.checked_div(stride).map(|steps| steps + 1)).flatten()
        };
        let height = places(shape.height, kernel.0, stride.0, padding.0, dilation.0);
        let width = places(shape.width, kernel.1, stride.1, padding.1, dilation.1);
        let (Some(height), Some(width)) = (height, width) else { return Err(bad("the kernel does not fit")) };
        let work = [height, width, kernel.0, kernel.1, out];
        match work.iter().try_fold(1usize, |all, side| all.checked_mul(*side)) {
            Some(0..=MAX_SIZE) => {
                Ok(Self { shape, kernel, stride, padding, dilation, places: (height, width) })
            }
            _ => Err(bad("the kernel is too large for this checker")),
        }
    }

    /// What is seen at a place: number of the tap, and first entry of the pixel; nothing beside the image.
    fn taps(&self, row: usize, column: usize) -> impl Iterator<Item = (usize, usize)> + '_ {
        (0..self.kernel.0 * self.kernel.1).filter_map(move |tap| {
            let (down, right) =
                (tap / self.kernel.1 * self.dilation.0, tap % self.kernel.1 * self.dilation.1);
            let row = (row * self.stride.0 + down).checked_sub(self.padding.0)?;
            let column = (column * self.stride.1 + right).checked_sub(self.padding.1)?;
            Some((tap, self.shape.inside(row, column, 0)?))
        })
    }
}
