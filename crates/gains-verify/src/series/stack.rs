//! A stack of layers over a box, and rows pulled back through it.
//!
//! Every activation keeps two pairs of lines. Rows that do not know better take the first; a row that knows at
//! which point its bound is attained takes the better one there.

use gains_core::arithmetic::analysis_error;
use gains_core::network::Layer;
use gains_core::relaxation::Lines;
use gains_core::{Activation, AffineMap, Arithmetic, BoxVec, LowerSlope, Relaxation, Rows, Stack};

use crate::limits::Reason;

/// Two choices of lines for the same neurons.
pub(crate) type LinePair = [Lines; 2];

/// A layer over a box.
enum LayerPass<'a> {
    Affine { map: &'a AffineMap, magnitude: Vec<f64> },
    Activation { lines: LinePair },
}

/// A stack over a box.
pub(crate) struct StackPass<'a> {
    layers: Vec<LayerPass<'a>>,
    /// What goes in.
    pub input: BoxVec,
    /// All outputs.
    pub output: BoxVec,
}

/// What a row takes for the point at which its bound is attained: the inputs of a stack's activations.
pub(crate) type At<'r> = Option<&'r [Vec<f64>]>;

/// Fails where an enclosure is too large or no number.
pub(crate) fn sane(b: &BoxVec) -> Result<(), Reason> {
    if b.is_sane() { Ok(()) } else { Err(Reason::Overflow { time: 0.0 }) }
}

impl<'a> StackPass<'a> {
    /// Encloses every layer. Without `rows`, only boxes are kept.
    pub fn new(stack: &'a Stack, input: BoxVec, arithmetic: Arithmetic, rows: bool) -> Result<Self, Reason> {
        let mut layers = Vec::new();
        let mut value = input.clone();
        sane(&value)?;
        for layer in &stack.layers {
            value = match layer {
                Layer::Affine(map) if rows => {
                    let (next, magnitude) =
                        map.apply_box_traced(&value, &value.magnitudes(), 0.0, arithmetic);
                    layers.push(LayerPass::Affine { map, magnitude });
                    next
                }
                Layer::Affine(map) => map.apply_box(&value, 0.0, arithmetic),
                Layer::Activation(activation) => {
                    if rows {
                        layers.push(LayerPass::Activation { lines: lines(*activation, &value, arithmetic) });
                    }
                    activation.image_box(&value, arithmetic)
                }
            };
            sane(&value)?;
        }
        Ok(Self { layers, input, output: value })
    }

    /// Pulls rows on the output back to rows on the input. `at` has, for every row, the inputs of the activations
    /// at its point.
    pub fn pull(&self, mut rows: Rows, at: &[At<'_>], arithmetic: Arithmetic) -> Rows {
        let mut activation = self.layers.iter().filter(|l| matches!(l, LayerPass::Activation { .. })).count();
        for layer in self.layers.iter().rev() {
            match layer {
                LayerPass::Affine { map, magnitude } => {
                    // Lines and points are of whole images.
                    rows = map.pull_back(&rows, 0.0, magnitude, arithmetic).widened();
                }
                LayerPass::Activation { lines } => {
                    activation -= 1;
                    relax(&mut rows, lines, at, activation);
                }
            }
        }
        rows
    }
}

/// Both pairs of lines of an activation: for a ReLU the two extreme lower slopes, the one with less area first;
/// for sigmoid and tanh tangents in the middle and at the ends.
fn lines(activation: Activation, before: &BoxVec, arithmetic: Arithmetic) -> LinePair {
    let all = |choose: &dyn Fn(usize) -> Relaxation| (0..before.len()).map(choose).collect::<Lines>();
    match activation {
        Activation::Relu | Activation::LeakyRelu { .. } => {
            let first =
                |i: usize| Relaxation::new(activation, before.get(i), LowerSlope::MinArea, arithmetic);
            let second = |i: usize| {
                let x = before.get(i);
                let other = if x.upper >= -x.lower { LowerSlope::Zero } else { LowerSlope::One };
                Relaxation::new(activation, x, other, arithmetic)
            };
            [all(&first), all(&second)]
        }
        Activation::Sigmoid | Activation::Tanh => [
            all(&|i| Relaxation::tangent(activation, before.get(i), arithmetic)),
            all(&|i| Relaxation::new(activation, before.get(i), LowerSlope::MinArea, arithmetic)),
        ],
    }
}

/// Pulls rows back through lines, each row through the better one at its point.
pub(crate) fn relax(rows: &mut Rows, lines: &LinePair, at: &[At<'_>], activation: usize) {
    if at.is_empty() {
        rows.relax(&[&lines[0]]);
        return;
    }
    let gamma = analysis_error(rows.length);
    debug_assert!(at.len() == rows.count && rows.length == lines[0].lower_slope.len());
    for (row, at) in at.iter().enumerate() {
        let Some(point) = at.and_then(|inputs| inputs.get(activation)) else {
            let (constant, owed) = gains_core::kernels::relax_row(rows.row_mut(row), &lines[0]);
            rows.absorb(row, constant, gamma * owed);
            continue;
        };
        let (mut constant, mut owed) = (0.0, 0.0);
        for (i, a) in rows.row_mut(row).iter_mut().enumerate() {
            let line = |k: usize| {
                if *a > 0.0 {
                    (lines[k].lower_slope[i], lines[k].lower_intercept[i])
                } else {
                    (lines[k].upper_slope[i], lines[k].upper_intercept[i])
                }
            };
            let (first, second) = (line(0), line(1));
            let value = |(slope, intercept): (f64, f64)| *a * (slope * point[i] + intercept);
            // Larger is tighter on either side: a row bounds from below.
            let (slope, intercept) = if value(second) > value(first) { second } else { first };
            let offset = *a * intercept;
            *a *= slope;
            constant += offset;
            owed += offset.abs() + a.abs() * lines[0].magnitude[i];
        }
        rows.absorb(row, constant, gamma * owed);
    }
}
