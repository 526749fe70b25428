//! Layers that are activations, moves of entries, or several operators at once.

use std::sync::Arc;

use super::{Builder, ModelError, check_size, geometry};
use crate::activation::Activation;
use crate::affine::{AffineMap, BatchStatistics, ConvGeometry, GroupMean, GroupPart, Scale, Selection};
use crate::dag::{Dag, Value};
use crate::description::{Approximation, LayerSpec};
use crate::operator::Operator;
use crate::shape::Shape;
use crate::smooth::Smooth;

/// Largest kernel of a pooling by maximum, on either side.
const LARGEST_POOL: usize = 64;
/// Smallest number that may be added to a variance; far smaller ones would leave float32 without a digit.
const LEAST_EPS: f64 = 1e-12;
/// Largest factor of the left branch of an ELU.
const MOST_ALPHA: f64 = 1000.0;
/// Largest end of a clamp.
const FURTHEST_CLAMP: f64 = 1e15;

/// The elementwise function that a layer is, if it is one.
pub(super) fn activation(spec: &LayerSpec) -> Result<Option<Activation>, String> {
    let smooth = |f: Smooth| Ok(Some(Activation::Smooth(f)));
    match spec {
        LayerSpec::Relu {} => Ok(Some(Activation::Relu)),
        LayerSpec::LeakyRelu { slope } => match (0.0..=1.0).contains(slope) {
            true => Ok(Some(Activation::LeakyRelu { slope: *slope })),
            false => Err(format!("slope is {slope}, must be between 0 and 1")),
        },
        LayerSpec::Sigmoid {} => Ok(Some(Activation::Sigmoid)),
        LayerSpec::Tanh {} => Ok(Some(Activation::Tanh)),
        LayerSpec::Absolute {} => Ok(Some(Activation::Absolute)),
        LayerSpec::Softplus {} => smooth(Smooth::Softplus),
        LayerSpec::Silu {} => smooth(Smooth::Silu),
        LayerSpec::Gelu { approximate: Approximation::None } => smooth(Smooth::Gelu),
        LayerSpec::Gelu { approximate: Approximation::Tanh } => smooth(Smooth::GeluTanh),
        LayerSpec::Elu { alpha } => match (0.0..=MOST_ALPHA).contains(alpha) {
            true => smooth(Smooth::Elu { alpha: *alpha }),
            false => Err(format!("alpha is {alpha}, must be between 0 and {MOST_ALPHA}")),
        },
        LayerSpec::Sin {} => smooth(Smooth::Sin),
        LayerSpec::Cos {} => smooth(Smooth::Cos),
        LayerSpec::Square {} => smooth(Smooth::Square),
        LayerSpec::Clamp { low, high } | LayerSpec::Hardtanh { low, high } => {
            let usable = |end: &f64| end.abs() <= FURTHEST_CLAMP;
            match usable(low) && usable(high) && low <= high {
                true => smooth(Smooth::Clamp { low: *low, high: *high }),
                false => Err(format!(
                    "low is {low} and high {high}, must be in order and at most {FURTHEST_CLAMP:e} from zero"
                )),
            }
        }
        LayerSpec::Relu6 {} => smooth(Smooth::Clamp { low: 0.0, high: 6.0 }),
        _ => Ok(None),
    }
}

/// What is wrong with a number that is added to variances.
fn eps_problem(eps: f64) -> Option<String> {
    (!(LEAST_EPS..=1.0).contains(&eps))
        .then(|| format!("eps is {eps:e}, must be between {LEAST_EPS:e} and 1"))
}

impl Builder<'_> {
    /// A layer that moves entries, or scales them by channel; none if it does nothing.
    pub(super) fn moved(
        &mut self,
        shape: Shape,
        spec: &LayerSpec,
        label: &str,
    ) -> Result<Option<AffineMap>, ModelError> {
        let fail = |problem: String| ModelError::Layer { layer: label.to_string(), problem };
        let selection = match spec {
            LayerSpec::Slice { first, length } => {
                let end = first.checked_add(*length).unwrap_or(usize::MAX);
                let missing = || fail(format!("takes channels {first} to {end} of {shape}"));
                self.reserve_selection(shape.len(), label)?;
                Selection::channels(shape, *first..end).ok_or_else(missing)?
            }
            LayerSpec::Pad { before, after, rows, columns } => {
                let total = |size: usize, by: [usize; 2]| size.checked_add(by[0])?.checked_add(by[1]);
                let side = |size: usize, by: [usize; 2]| total(size, by).unwrap_or(usize::MAX);
                let padded = Shape::image(
                    side(shape.height, *rows),
                    side(shape.width, *columns),
                    side(shape.channels, [*before, *after]),
                );
                check_size(padded, label)?;
                self.reserve_selection(padded.len(), label)?;
                let map = Selection::pad(shape, [*before, *after], *rows, *columns);
                map.ok_or_else(|| fail(format!("does not fit {shape}")))?
            }
            LayerSpec::Reshape { to } => {
                check_size(*to, label)?;
                if to.len() != shape.len() {
                    return Err(fail(format!(
                        "makes {to} out of {shape}, which has another number of entries"
                    )));
                }
                if *to == shape {
                    return Ok(None);
                }
                self.reserve_selection(shape.len(), label)?;
                Selection::reshape(shape, *to)
            }
            LayerSpec::BatchNorm { name, channels, eps, affine } => {
                return self.batch_norm(shape, (name, *channels, *eps, *affine), label).map(Some);
            }
            _ => return Err(fail("is no affine layer".into())),
        };
        Ok(Some(AffineMap::Select(selection)))
    }

    pub(super) fn reserve_selection(&mut self, entries: usize, label: &str) -> Result<(), ModelError> {
        self.reserve(1, [entries, 1], size_of::<Option<u32>>(), label)
    }

    fn batch_norm(
        &mut self,
        shape: Shape,
        (name, channels, eps, affine): (&str, usize, f64, bool),
        label: &str,
    ) -> Result<AffineMap, ModelError> {
        let fail = |problem: String| ModelError::Layer { layer: label.to_string(), problem };
        if channels != shape.channels {
            return Err(fail(format!("expects {channels} channels, gets {shape}")));
        }
        if let Some(problem) = eps_problem(eps) {
            return Err(fail(problem));
        }
        let part = |part: &str| self.tensor(format!("{name}.{part}"), vec![channels]);
        let (mean, variance) = (part("running_mean")?, part("running_var")?);
        if let Some(v) = variance.iter().find(|v| **v < 0.0) {
            return Err(fail(format!("the variance in '{name}.running_var' is {v}, must not be negative")));
        }
        let affine = if affine { Some((part("weight")?, part("bias")?)) } else { None };
        let scale = Scale::batch_norm(shape, BatchStatistics { mean, variance, eps, affine });
        if !scale.is_finite() {
            return Err(fail(format!("the factors or summands of '{name}' are not finite")));
        }
        Ok(AffineMap::Scale(scale))
    }

    /// Appends the largest value under a kernel: along one side, then along the other.
    pub(super) fn max_pool<O: From<Operator>>(
        &mut self,
        graph: &mut Dag<O>,
        at: Value,
        (kernel, stride, padding): ([usize; 2], [usize; 2], [usize; 2]),
        label: &str,
    ) -> Result<Value, ModelError> {
        let fail = |problem: String| ModelError::Layer { layer: label.to_string(), problem };
        if kernel.iter().any(|k| !(1..=LARGEST_POOL).contains(k)) || stride.contains(&0) {
            return Err(fail(format!("kernel must be 1 to {LARGEST_POOL} and stride positive")));
        }
        if (0..2).any(|i| padding[i] > kernel[i] / 2) {
            return Err(fail("padding must be at most half of the kernel".into()));
        }
        let along = |side: usize| {
            let one = |of: [usize; 2], plain: usize| if side == 0 { [of[0], plain] } else { [plain, of[1]] };
            (geometry(one(kernel, 1), one(stride, 1), one(padding, 0), [1, 1]), kernel[side])
        };
        let mut at = at;
        for side in [0, 1] {
            let (geometry, taps) = along(side);
            if geometry != ConvGeometry::POINT {
                at = self.largest_tap(graph, at, geometry, (side, taps), label)?;
            }
        }
        graph.set_output(at);
        Ok(at)
    }

    fn largest_tap<O: From<Operator>>(
        &mut self,
        graph: &mut Dag<O>,
        at: Value,
        geometry: ConvGeometry,
        (side, taps): (usize, usize),
        label: &str,
    ) -> Result<Value, ModelError> {
        let shape = graph.shape(at);
        let misfit = || ModelError::Layer {
            layer: label.to_string(),
            problem: format!("the kernel does not fit {shape}"),
        };
        let mut values = Vec::with_capacity(taps);
        for tap in 0..taps {
            let (height, width) = geometry.output(shape).ok_or_else(misfit)?;
            let output = Shape { height, width, ..shape };
            check_size(output, label)?;
            self.reserve_selection(output.len(), label)?;
            let place = if side == 0 { (tap, 0) } else { (0, tap) };
            let map = Selection::tap(shape, geometry, place).ok_or_else(misfit)?;
            values.push(graph.push(
                Operator::Affine(Arc::new(AffineMap::Select(map))).into(),
                vec![at],
                output,
            ));
        }
        Ok(largest(graph, values))
    }

    /// Appends the normalisation of groups of channels by mean and variance.
    ///
    /// With `y = x − mean` and `r = 1/√(mean of y² + eps)` the result is `y·r`, which is at most `√n` for a group of `n`:
    /// a clamp there changes nothing (not even in float32, for which it leaves a thousandth), but lets boxes know it.
    pub(super) fn group_norm<O: From<Operator>>(
        &mut self,
        graph: &mut Dag<O>,
        at: Value,
        (groups, eps): (usize, f64),
        label: &str,
    ) -> Result<Value, ModelError> {
        let fail = |problem: String| ModelError::Layer { layer: label.to_string(), problem };
        let shape = graph.shape(at);
        if let Some(problem) = eps_problem(eps) {
            return Err(fail(problem));
        }
        let part = |part: GroupPart| {
            let map = GroupMean::new(shape, groups, part);
            let map = map
                .ok_or_else(|| fail(format!("{shape} cannot be divided into {groups} groups of channels")));
            map.map(|map| Operator::Affine(Arc::new(AffineMap::Group(map))))
        };
        let curve = |f: Smooth| Operator::Curve(Activation::Smooth(f));
        let mut push = |operator: Operator, from: Vec<Value>| graph.push(operator.into(), from, shape);
        let rest = push(part(GroupPart::Rest)?, vec![at]);
        let square = push(curve(Smooth::Square), vec![rest]);
        let variance = push(part(GroupPart::Mean)?, vec![square]);
        let factor = push(curve(Smooth::InverseRoot { eps }), vec![variance]);
        let scaled = push(Operator::Product, vec![rest, factor]);
        let most = f64::from((1.001 * ((shape.len() / groups) as f64).sqrt()) as f32);
        Ok(push(curve(Smooth::Clamp { low: -most, high: most }), vec![scaled]))
    }

    /// Appends [`LayerSpec::GroupNorm`] or [`LayerSpec::LayerNorm`] with its weights.
    pub(super) fn norm<O: From<Operator>>(
        &mut self,
        graph: &mut Dag<O>,
        at: Value,
        spec: &LayerSpec,
        label: &str,
    ) -> Result<Value, ModelError> {
        let fail = |problem: String| ModelError::Layer { layer: label.to_string(), problem };
        let shape = graph.shape(at);
        let (name, affine, groups, eps, tensor) = match spec {
            LayerSpec::GroupNorm { name, groups, channels, eps, affine } => {
                if *channels != shape.channels {
                    return Err(fail(format!("expects {channels} channels, gets {shape}")));
                }
                (name, *affine, *groups, *eps, vec![*channels])
            }
            LayerSpec::LayerNorm { name, eps, affine } => {
                let image = vec![shape.channels, shape.height, shape.width];
                let tensor = if shape.positions() == 1 { vec![shape.channels] } else { image };
                (name, *affine, 1, *eps, tensor)
            }
            _ => return Err(fail("is no normalisation of groups".into())),
        };
        let normal = self.group_norm(graph, at, (groups, eps), label)?;
        if !affine {
            return Ok(normal);
        }
        let by_entry = tensor.len() > 1;
        let part = |part: &str| -> Result<Vec<f64>, ModelError> {
            let values = self.tensor(format!("{name}.{part}"), tensor.clone())?;
            // From channel by channel to pixel by pixel.
            let order = |i: usize| i % shape.channels * shape.positions() + i / shape.channels;
            Ok(if by_entry { (0..shape.len()).map(|i| values[order(i)]).collect() } else { values.to_vec() })
        };
        let (weight, bias) = (part("weight")?, part("bias")?);
        let scale = AffineMap::Scale(Scale::affine(shape, weight, bias));
        Ok(graph.push(Operator::Affine(Arc::new(scale)).into(), vec![normal], shape))
    }
}

/// The largest of some values of one shape, by pairs of pairs.
pub(super) fn largest<O: From<Operator>>(graph: &mut Dag<O>, mut values: Vec<Value>) -> Value {
    let shape = graph.shape(values[0]);
    while values.len() > 1 {
        let of = |graph: &mut Dag<O>, pair: &[Value]| match pair {
            [x, y] => graph.push(Operator::Maximum.into(), vec![*x, *y], shape),
            _ => pair[0],
        };
        values = values.chunks(2).map(|pair| of(graph, pair)).collect();
    }
    values[0]
}
