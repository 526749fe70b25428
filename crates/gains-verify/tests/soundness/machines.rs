//! Arithmetics for [`crate::direct`]: exact numbers, and float32 in all the orders it may be summed.

use gains_core::Arithmetic;
use gains_core::description::LayerSpec;

use crate::direct::Machine;
use crate::exact::Exact;

/// No rounding at all; only networks whose activations are piecewise linear.
pub struct ExactMachine;

impl Machine for ExactMachine {
    type Value = Exact;

    fn load(&mut self, x: f64) -> Exact {
        x.into()
    }

    fn dot(&mut self, terms: &[(f64, Exact)], bias: f64, _: usize) -> Exact {
        terms.iter().fold(bias.into(), |sum: Exact, (w, x)| &sum + &(&Exact::from(*w) * x)).trim()
    }

    fn normalise(&mut self, x: &Exact, mean: f64, std: f64) -> Exact {
        (x - &mean.into()).over(&std.into())
    }

    fn mean(&mut self, values: &[Exact], count: usize) -> Exact {
        values.iter().fold(Exact::zero(), |sum, x| &sum + x).over(&(count as f64).into())
    }

    fn activate(&mut self, layer: &LayerSpec, x: &Exact) -> Exact {
        match layer {
            _ if !x.is_negative() => x.clone(),
            LayerSpec::Relu {} => Exact::zero(),
            LayerSpec::LeakyRelu { slope } => x * &Exact::from(*slope),
            other => unreachable!("{other:?} has no exact value"),
        }
    }

    fn advance(&mut self, base: Option<&Exact>, step: f64, slopes: &[(f64, Exact)]) -> Exact {
        let sum = slopes.iter().fold(Exact::zero(), |sum, (w, k)| &sum + &(&Exact::from(*w) * k));
        (&base.cloned().unwrap_or_else(Exact::zero) + &(&sum * &step.into())).trim()
    }

    fn estimate(&mut self, errors: &[Exact], tolerance: f64) -> Exact {
        errors.iter().fold(Exact::zero(), |sum, e| &sum + &e.abs()).over(&tolerance.into())
    }

    fn at_most(&self, value: &Exact, threshold: f64) -> bool {
        *value <= threshold.into()
    }
}

/// Float32 operations only, every sum in another random order within the promised depth.
pub struct Float32Machine<'a> {
    pub random: &'a mut fastrand::Rng,
}

/// A term of a sum: a product yet to be rounded, or a number.
#[derive(Clone, Copy)]
enum Leaf {
    Product(f32, f32),
    Number(f32),
}

impl Leaf {
    fn value(self) -> f32 {
        match self {
            Self::Product(a, b) => a * b,
            Self::Number(x) => x,
        }
    }
}

impl Float32Machine<'_> {
    /// Sums the leaves by a random binary tree in which nothing passes more than `depth` additions.
    fn tree(&mut self, leaves: &[Leaf], depth: usize) -> f32 {
        let n = leaves.len();
        if n <= 1 {
            return leaves.first().map_or(0.0, |leaf| leaf.value());
        }
        let room = 1_usize << (depth - 1).min(20);
        let (least, most) = (n.saturating_sub(room).max(1), room.min(n - 1));
        let left = if self.random.bool() { least } else { self.random.usize(least..=most) };
        let (a, b) = leaves.split_at(left);
        if let ([Leaf::Product(w, x)], true) = (a, self.random.bool()) {
            return w.mul_add(*x, self.tree(b, depth - 1));
        }
        self.tree(a, depth - 1) + self.tree(b, depth - 1)
    }

    fn sum(&mut self, mut leaves: Vec<Leaf>, roundings: usize) -> f32 {
        self.random.shuffle(&mut leaves);
        self.tree(&leaves, roundings - 1)
    }
}

/// A float32 number within 4 ulp, now and then exactly that far off.
fn nudged(random: &mut fastrand::Rng, exact: f64, range: (f32, f32)) -> f32 {
    let mut value = exact as f32;
    for _ in 0..random.usize(0..4) {
        value = if random.bool() { value.next_up() } else { value.next_down() };
    }
    value.clamp(range.0, range.1)
}

impl Machine for Float32Machine<'_> {
    type Value = f32;

    fn load(&mut self, x: f64) -> f32 {
        x as f32
    }

    fn dot(&mut self, terms: &[(f64, f32)], bias: f64, nominal: usize) -> f32 {
        let mut leaves: Vec<Leaf> = terms.iter().map(|(w, x)| Leaf::Product(*w as f32, *x)).collect();
        leaves.push(Leaf::Number(bias as f32));
        self.sum(leaves, Arithmetic::depth(nominal))
    }

    fn normalise(&mut self, x: &f32, mean: f64, std: f64) -> f32 {
        if self.random.bool() {
            (x - mean as f32) / std as f32
        } else {
            let scale = 1.0 / std as f32;
            x.mul_add(scale, -(mean as f32) * scale)
        }
    }

    fn mean(&mut self, values: &[f32], count: usize) -> f32 {
        let depth = Arithmetic::depth(count + 1);
        if self.random.bool() {
            self.sum(values.iter().map(|x| Leaf::Number(*x)).collect(), depth) / count as f32
        } else {
            self.sum(values.iter().map(|x| Leaf::Product(*x, 1.0 / count as f32)).collect(), depth - 1)
        }
    }

    fn activate(&mut self, layer: &LayerSpec, x: &f32) -> f32 {
        let wide = f64::from(*x);
        match layer {
            LayerSpec::Relu {} => x.max(0.0),
            LayerSpec::LeakyRelu { slope } => {
                if *x > 0.0 {
                    *x
                } else {
                    *slope as f32 * x
                }
            }
            LayerSpec::Sigmoid {} => nudged(self.random, 1.0 / (1.0 + (-wide).exp()), (0.0, 1.0)),
            LayerSpec::Tanh {} => nudged(self.random, wide.tanh(), (-1.0, 1.0)),
            other => unreachable!("{other:?} is no activation"),
        }
    }

    fn advance(&mut self, base: Option<&f32>, step: f64, slopes: &[(f64, f32)]) -> f32 {
        let step = step as f32;
        // Either every weight is scaled by the step first, or the sum is scaled at the end.
        if base.is_some() && self.random.bool() {
            let mut sum = 0.0;
            let mut order = slopes.to_vec();
            self.random.shuffle(&mut order);
            for (w, k) in order {
                sum += w as f32 * k;
            }
            return base.map_or(0.0, |x| x + step * sum);
        }
        let mut leaves: Vec<Leaf> = slopes.iter().map(|(w, k)| Leaf::Product(step * *w as f32, *k)).collect();
        leaves.extend(base.map(|x| Leaf::Number(*x)));
        let depth = leaves.len().max(2);
        self.sum(leaves, depth)
    }

    fn estimate(&mut self, errors: &[f32], tolerance: f64) -> f32 {
        let leaves = errors.iter().map(|e| Leaf::Number(e.abs())).collect();
        self.sum(leaves, Arithmetic::depth(errors.len())) / tolerance as f32
    }

    fn at_most(&self, value: &f32, threshold: f64) -> bool {
        *value <= threshold as f32
    }
}
