//! Affine maps beside the dense matrices they stand for, written down from the definition of each layer.

use gains_core::affine::{
    AveragePool, BatchStatistics, Conv2d, ConvGeometry, GroupMean, GroupPart, Scale, Selection,
};
use gains_core::{AffineMap, BoxVec, Shape};

use crate::exact::Exact;

/// A map and its definition: `output = matrix·input + bias + time·clock`.
pub struct Defined {
    pub what: String,
    pub map: AffineMap,
    pub matrix: Vec<Vec<Exact>>,
    pub bias: Vec<Exact>,
    pub clock: Vec<Exact>,
}

fn at(shape: Shape, y: usize, x: usize, channel: usize) -> usize {
    (y * shape.width + x) * shape.channels + channel
}

/// A number with a full mantissa, of either sign, sometimes zero.
pub fn number(random: &mut fastrand::Rng, scale: f64) -> f64 {
    if random.u8(..) < 20 { 0.0 } else { (2.0 * random.f64() - 1.0) * scale }
}

pub fn numbers(random: &mut fastrand::Rng, count: usize, scale: f64) -> Vec<f64> {
    (0..count).map(|_| number(random, scale)).collect()
}

/// A box around random centres whose sides are about `width`.
pub fn random_box(random: &mut fastrand::Rng, count: usize, scale: f64, width: f64) -> BoxVec {
    let lower = numbers(random, count, scale);
    let upper = lower.iter().map(|l| l + width * random.f64()).collect();
    BoxVec::new(lower, upper)
}

impl Defined {
    fn blank(what: String, map: AffineMap) -> Self {
        let (inputs, outputs) = (map.input().len(), map.output().len());
        Self {
            what,
            map,
            matrix: vec![vec![Exact::zero(); inputs]; outputs],
            bias: vec![Exact::zero(); outputs],
            clock: vec![Exact::zero(); outputs],
        }
    }

    pub fn conv(random: &mut fastrand::Rng, scale: f64) -> Option<Self> {
        let side = |random: &mut fastrand::Rng| random.usize(1..6);
        let input = Shape::image(side(random), side(random), random.usize(1..4));
        let pair = |random: &mut fastrand::Rng, range: std::ops::Range<usize>| {
            (random.usize(range.clone()), random.usize(range))
        };
        let g = ConvGeometry {
            kernel: pair(random, 1..4),
            stride: pair(random, 1..3),
            padding: pair(random, 0..3),
            dilation: pair(random, 1..3),
        };
        let time = random.bool();
        let outputs = if random.u8(..) < 40 { random.usize(8..20) } else { random.usize(1..4) };
        let (kh, kw) = g.kernel;
        let channels = input.channels + usize::from(time);
        let weights = numbers(random, outputs * channels * kh * kw, scale);
        let bias = numbers(random, outputs, scale);
        let map = AffineMap::Conv(Conv2d::new(input, g, &weights, &bias, time)?);
        let mut this = Self::blank(format!("conv {input:?} {g:?} time {time}"), map);
        let output = this.map.output();
        for (y, x, co) in places(output) {
            let row = at(output, y, x, co);
            this.bias[row] = bias[co].into();
            for ky in 0..kh {
                for kx in 0..kw {
                    let iy = (y * g.stride.0 + ky * g.dilation.0) as isize - g.padding.0 as isize;
                    let ix = (x * g.stride.1 + kx * g.dilation.1) as isize - g.padding.1 as isize;
                    let inside =
                        (0..input.height as isize).contains(&iy) && (0..input.width as isize).contains(&ix);
                    if !inside {
                        continue;
                    }
                    let weight = |ci: usize| weights[((co * channels + ci) * kh + ky) * kw + kx];
                    if time {
                        this.clock[row] = &this.clock[row] + &weight(0).into();
                    }
                    for ci in 0..input.channels {
                        let column = at(input, iy as usize, ix as usize, ci);
                        this.matrix[row][column] = weight(ci + usize::from(time)).into();
                    }
                }
            }
        }
        Some(this)
    }

    pub fn linear(random: &mut fastrand::Rng, scale: f64) -> Option<Self> {
        let (inputs, outputs) = (random.usize(1..40), random.usize(1..20));
        let time = random.bool();
        let columns = inputs + usize::from(time);
        let weights = numbers(random, outputs * columns, scale);
        let bias = numbers(random, outputs, scale);
        let map = AffineMap::Conv(Conv2d::linear_layer(inputs, &weights, &bias, time)?);
        let mut this = Self::blank(format!("linear {inputs} to {outputs} time {time}"), map);
        for (o, &b) in bias.iter().enumerate() {
            let row = &weights[o * columns..][..columns];
            this.bias[o] = b.into();
            if time {
                this.clock[o] = row[0].into();
            }
            this.matrix[o] = row[columns - inputs..].iter().map(|&w| w.into()).collect();
        }
        Some(this)
    }

    /// A convolution between some of its entries.
    pub fn restricted(random: &mut fastrand::Rng, scale: f64) -> Option<Self> {
        let whole = Self::conv(random, scale)?;
        let mut some =
            |count: usize| -> Vec<u32> { (0..count as u32).filter(|_| random.u8(..) < 150).collect() };
        let (outputs, inputs) = (some(whole.map.output().len()), some(whole.map.input().len()));
        if outputs.is_empty() || inputs.is_empty() {
            return None;
        }
        let map = whole.map.restricted(&outputs, &inputs)?;
        let cut = |all: &[Exact], at: &[u32]| at.iter().map(|&i| all[i as usize].clone()).collect::<Vec<_>>();
        Some(Self {
            what: format!("{} from {inputs:?} to {outputs:?}", whole.what),
            map,
            matrix: outputs.iter().map(|&o| cut(&whole.matrix[o as usize], &inputs)).collect(),
            bias: cut(&whole.bias, &outputs),
            clock: cut(&whole.clock, &outputs),
        })
    }

    pub fn pool(random: &mut fastrand::Rng) -> Option<Self> {
        let input = Shape::image(random.usize(1..7), random.usize(1..7), random.usize(1..4));
        let global = random.bool();
        let g = if global {
            ConvGeometry { kernel: (input.height, input.width), ..ConvGeometry::POINT }
        } else {
            ConvGeometry {
                kernel: (random.usize(1..4), random.usize(1..4)),
                stride: (random.usize(1..4), random.usize(1..4)),
                padding: (random.usize(0..2), random.usize(0..2)),
                dilation: (1, 1),
            }
        };
        let map = if global { AveragePool::global(input)? } else { AveragePool::new(input, g)? };
        let mut this = Self::blank(format!("pool {input:?} {g:?}"), AffineMap::Pool(map));
        let output = this.map.output();
        let share = Exact::from(1.0).over(&Exact::from((g.kernel.0 * g.kernel.1) as f64));
        for (y, x, c) in places(output) {
            for (iy, ix, ci) in places(input) {
                let near = |out: usize, stride: usize, kernel: usize, padding: usize, at: usize| {
                    (out * stride..out * stride + kernel).contains(&(at + padding))
                };
                if ci == c
                    && near(y, g.stride.0, g.kernel.0, g.padding.0, iy)
                    && near(x, g.stride.1, g.kernel.1, g.padding.1, ix)
                {
                    this.matrix[at(output, y, x, c)][at(input, iy, ix, c)] = share.clone();
                }
            }
        }
        Some(this)
    }

    pub fn normalise(random: &mut fastrand::Rng) -> Self {
        let shape = Shape::image(random.usize(1..4), random.usize(1..4), random.usize(1..4));
        let mean = numbers(random, shape.channels, 1.0);
        let std: Vec<f64> = (0..shape.channels).map(|_| 0.05 + random.f64()).collect();
        let map = AffineMap::Scale(Scale::normalise(shape, &mean, &std));
        let mut this = Self::blank(format!("normalise {shape:?}"), map);
        for i in 0..shape.len() {
            let c = i % shape.channels;
            let std = Exact::from(std[c]);
            this.matrix[i][i] = Exact::from(1.0).over(&std);
            this.bias[i] = -&Exact::from(mean[c]).over(&std);
        }
        this
    }

    pub fn flatten(random: &mut fastrand::Rng) -> Self {
        let shape = Shape::image(random.usize(1..4), random.usize(2..4), random.usize(1..4));
        let mut this =
            Self::blank(format!("flatten {shape:?}"), AffineMap::Select(Selection::flatten(shape)));
        for (y, x, c) in places(shape) {
            this.matrix[(c * shape.height + y) * shape.width + x][at(shape, y, x, c)] = 1.0.into();
        }
        this
    }

    /// Statistics whose square roots are exact; bias and mean have the same sign in what is added, so that they do not cancel.
    pub fn batch_norm(random: &mut fastrand::Rng) -> Self {
        let shape = Shape::image(random.usize(1..4), random.usize(1..4), random.usize(1..4));
        let eps = 0.5_f64.powi(10);
        let roots: Vec<f64> = (0..shape.channels).map(|_| f64::from(random.u8(1..9)) / 4.0).collect();
        let variance: Vec<f64> = roots.iter().map(|r| r * r - eps).collect();
        let (mean, weight) = (numbers(random, shape.channels, 1.0), numbers(random, shape.channels, 2.0));
        let bias: Vec<f64> =
            mean.iter().zip(&weight).map(|(m, w)| -(m * w).signum() * random.f64()).collect();
        let affine = Some((&weight[..], &bias[..]));
        let map = Scale::batch_norm(shape, BatchStatistics { mean: &mean, variance: &variance, eps, affine });
        let mut this = Self::blank(format!("batch norm {shape:?}"), AffineMap::Scale(map));
        for i in 0..shape.len() {
            let c = i % shape.channels;
            let factor = Exact::from(weight[c]).over(&Exact::from(roots[c]));
            this.bias[i] = &Exact::from(bias[c]) - &(&Exact::from(mean[c]) * &factor);
            this.matrix[i][i] = factor;
        }
        this
    }

    /// Factors and summands of every entry.
    pub fn scale(random: &mut fastrand::Rng) -> Self {
        let shape = Shape::image(random.usize(1..4), random.usize(1..4), random.usize(1..4));
        let (weight, bias) = (numbers(random, shape.len(), 1.0), numbers(random, shape.len(), 1.0));
        let map = AffineMap::Scale(Scale::affine(shape, weight.clone(), bias.clone()));
        let mut this = Self::blank(format!("scale {shape:?}"), map);
        for i in 0..shape.len() {
            this.matrix[i][i] = weight[i].into();
            this.bias[i] = bias[i].into();
        }
        this
    }

    pub fn group(random: &mut fastrand::Rng) -> Option<Self> {
        let (groups, each) = (random.usize(1..4), random.usize(1..3));
        let shape = Shape::image(random.usize(1..4), random.usize(1..4), groups * each);
        let part = if random.bool() { GroupPart::Mean } else { GroupPart::Rest };
        let map = AffineMap::Group(GroupMean::new(shape, groups, part)?);
        let mut this = Self::blank(format!("{part:?} of {groups} groups {shape:?}"), map);
        let share = Exact::from(1.0).over(&Exact::from((shape.positions() * each) as f64));
        for i in 0..shape.len() {
            for j in 0..shape.len() {
                let together = i % shape.channels / each == j % shape.channels / each;
                let mean = if together { share.clone() } else { Exact::zero() };
                this.matrix[i][j] = match part {
                    GroupPart::Mean => mean,
                    GroupPart::Rest => &Exact::from(f64::from(u8::from(i == j))) - &mean,
                };
            }
        }
        Some(this)
    }

    /// Zeros around; the same entries otherwise.
    pub fn pad(random: &mut fastrand::Rng) -> Option<Self> {
        let input = Shape::image(random.usize(1..4), random.usize(1..4), random.usize(1..4));
        let mut by = || [random.usize(0..3), random.usize(0..3)];
        let (channels, rows, columns) = (by(), by(), by());
        let map = Selection::pad(input, channels, rows, columns)?;
        let mut this =
            Self::blank(format!("pad {input:?} {channels:?} {rows:?} {columns:?}"), AffineMap::Select(map));
        let output = this.map.output();
        for (y, x, c) in places(input) {
            let to = at(output, y + rows[0], x + columns[0], c + channels[0]);
            this.matrix[to][at(input, y, x, c)] = 1.0.into();
        }
        Some(this)
    }

    /// Some channels of an image.
    pub fn channels(random: &mut fastrand::Rng) -> Option<Self> {
        let input = Shape::image(random.usize(1..4), random.usize(1..4), random.usize(1..6));
        let first = random.usize(0..input.channels);
        let end = random.usize(first + 1..=input.channels);
        let map = AffineMap::Select(Selection::channels(input, first..end)?);
        let mut this = Self::blank(format!("channels {first}..{end} of {input:?}"), map);
        let output = this.map.output();
        for (y, x, c) in places(output) {
            this.matrix[at(output, y, x, c)][at(input, y, x, c + first)] = 1.0.into();
        }
        Some(this)
    }

    /// Images whose channels come together; before they lie one after the other.
    pub fn interleave(random: &mut fastrand::Rng) -> Option<Self> {
        let (height, width) = (random.usize(1..4), random.usize(1..4));
        let images: Vec<Shape> =
            (0..random.usize(1..4)).map(|_| Shape::image(height, width, random.usize(1..4))).collect();
        let map = AffineMap::Select(Selection::interleave(&images)?);
        let mut this = Self::blank(format!("interleave {images:?}"), map);
        let output = this.map.output();
        let (mut start, mut channel) = (0, 0);
        for image in images {
            for (y, x, c) in places(image) {
                this.matrix[at(output, y, x, channel + c)][start + at(image, y, x, c)] = 1.0.into();
            }
            start += image.len();
            channel += image.channels;
        }
        Some(this)
    }

    /// Another shape of the same entries, listed channel by channel.
    pub fn reshape(random: &mut fastrand::Rng) -> Self {
        let (a, b, c) = (random.usize(1..4), random.usize(1..4), random.usize(1..4));
        let (input, output) = (Shape::image(a, b, c), Shape::image(c, a, b));
        let map = AffineMap::Select(Selection::reshape(input, output));
        let mut this = Self::blank(format!("reshape {input:?} to {output:?}"), map);
        let number = |s: Shape, y: usize, x: usize, c: usize| (c * s.height + y) * s.width + x;
        for (y, x, c) in places(input) {
            let found = places(output).find(|&(v, w, d)| number(output, v, w, d) == number(input, y, x, c));
            let (v, w, d) = found.expect("as many entries");
            this.matrix[at(output, v, w, d)][at(input, y, x, c)] = 1.0.into();
        }
        this
    }

    /// One tap of a kernel; where it is beside the image, another one that is not.
    pub fn tap(random: &mut fastrand::Rng) -> Option<Self> {
        let input = Shape::image(random.usize(1..6), random.usize(1..6), random.usize(1..3));
        let pair = |random: &mut fastrand::Rng, most: usize| (random.usize(1..=most), random.usize(1..=most));
        let (kernel, stride) = (pair(random, 3), pair(random, 3));
        let padding = (random.usize(0..=kernel.0 / 2), random.usize(0..=kernel.1 / 2));
        let g = ConvGeometry { kernel, stride, padding, dilation: (1, 1) };
        let tap = (random.usize(0..kernel.0), random.usize(0..kernel.1));
        let map = AffineMap::Select(Selection::tap(input, g, tap)?);
        let mut this = Self::blank(format!("tap {tap:?} of {g:?} on {input:?}"), map);
        let output = this.map.output();
        let along = |at: usize, tap: usize, stride: usize, padding: usize, kernel: usize, size: usize| {
            let wanted = (at * stride + tap) as isize - padding as isize;
            let taps = (0..kernel).map(|k| (at * stride + k) as isize - padding as isize);
            let inside = taps.filter(|p| (0..size as isize).contains(p));
            inside.min_by_key(|p| (p - wanted).abs()).expect("a kernel touches the image") as usize
        };
        for (y, x, c) in places(output) {
            let row = along(y, tap.0, stride.0, padding.0, kernel.0, input.height);
            let column = along(x, tap.1, stride.1, padding.1, kernel.1, input.width);
            this.matrix[at(output, y, x, c)][at(input, row, column, c)] = 1.0.into();
        }
        Some(this)
    }

    /// One of everything, drawn anew.
    pub fn all(random: &mut fastrand::Rng, scale: f64) -> Vec<Self> {
        let mut maps = vec![Self::normalise(random), Self::flatten(random)];
        // Drawn from numbers of their own, so that the others stay what they were.
        let own = &mut random.clone();
        maps.extend([Self::batch_norm(own), Self::scale(own), Self::reshape(own)]);
        maps.extend(Self::group(own));
        maps.extend(Self::pad(own));
        maps.extend(Self::channels(own));
        maps.extend(Self::interleave(own));
        maps.extend(Self::tap(own));
        maps.extend(Self::restricted(own, scale));
        maps.extend(Self::conv(random, scale));
        maps.extend(Self::conv(random, scale));
        maps.extend(Self::linear(random, scale));
        maps.extend(Self::pool(random));
        maps
    }

    /// `bias + time·clock`.
    pub fn shift(&self, output: usize, time: f64) -> Exact {
        &self.bias[output] + &(&self.clock[output] * &time.into())
    }

    /// `|matrix|·magnitude + |bias| + |time|·|clock|`, with cancellation inside the clock left out.
    pub fn size(&self, output: usize, x: &BoxVec, time: f64) -> Exact {
        let magnitudes = x.magnitudes();
        let mut sum = &self.bias[output].abs() + &(&self.clock[output] * &time.into()).abs();
        for (w, &m) in self.matrix[output].iter().zip(&magnitudes) {
            sum = &sum + &(&w.abs() * &m.into());
        }
        sum
    }
}

/// All (row, column, channel) of a shape.
pub fn places(shape: Shape) -> impl Iterator<Item = (usize, usize, usize)> {
    (0..shape.len()).map(move |i| {
        (i / shape.channels / shape.width, i / shape.channels % shape.width, i % shape.channels)
    })
}
