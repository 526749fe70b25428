//! Affine maps beside the dense matrices they stand for, written down from the definition of each layer.

use gains_core::affine::{AveragePool, ChannelScale, Conv2d, ConvGeometry, Permutation};
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
        let map = AffineMap::Scale(ChannelScale::normalise(shape, &mean, &std));
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
            Self::blank(format!("flatten {shape:?}"), AffineMap::Permute(Permutation::flatten(shape)));
        for (y, x, c) in places(shape) {
            this.matrix[(c * shape.height + y) * shape.width + x][at(shape, y, x, c)] = 1.0.into();
        }
        this
    }

    /// One of everything, drawn anew.
    pub fn all(random: &mut fastrand::Rng, scale: f64) -> Vec<Self> {
        let mut maps = vec![Self::normalise(random), Self::flatten(random)];
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
