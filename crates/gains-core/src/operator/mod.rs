//! The operators that networks are made of, one folder or file each, all with the same rules:
//!
//! | rule | what it does |
//! |---|---|
//! | `evaluate` | the value at a point |
//! | `gradient` | cotangents of the arguments |
//! | `image` | a box around all values over boxes of the arguments |
//! | `change` | how far two values are apart whose arguments are close: the difference form of solver steps |
//! | `known`, `known_change` | what rows will need on their way back |
//! | `pull` | rows on the value back to rows on the arguments |
//! | `form` | affine forms of the arguments to one of the value |
//!
//! Nothing outside this folder tells operators apart, but for the ODE, which is no [`Operator`]: it takes a solver.

mod affine;
pub mod blend;
pub mod concat;
pub mod curve;
pub mod maximum;
pub mod product;
pub mod slice;
pub mod sum;

use std::sync::Arc;

use crate::activation::Activation;
use crate::affine::{AffineMap, Matrix};
use crate::affine_form::{AffineForm, Symbols};
use crate::arithmetic::{Arithmetic, Precision, beyond_float32};
use crate::dag::Value;
use crate::interval::BoxVec;
use crate::rows::Rows;
use crate::shape::Shape;
use crate::support::Support;

pub use affine::AffineKnown;
use blend::{Blend, BlendKnown};
use concat::Concat;
use curve::CurveKnown;
use product::PlanesKnown;
use slice::Slice;
use sum::Sum;

/// An operator without a solver in it.
#[derive(Clone, Debug)]
pub enum Operator {
    /// `W x + b + t·u`.
    Affine(Arc<AffineMap>),
    /// An elementwise function.
    Curve(Activation),
    /// `Σ coefficient·argument`.
    Sum(Sum),
    /// `x·y`, entry by entry.
    Product,
    /// `max(x, y)`, entry by entry.
    Maximum,
    /// `(1 − u)·g + u·y`, entry by entry, for `u` inside [0, 1].
    Blend(Blend),
    /// One after the other.
    Concat(Concat),
    /// Consecutive entries.
    Slice(Slice),
}

/// What rows need to know about a node on their way back, over the region it was worked out for.
#[derive(Clone, Debug)]
pub enum Known {
    /// Nothing: boxes only, or an operator that moves entries about.
    Nothing,
    /// An affine map, or how it changes.
    Affine(AffineKnown),
    /// An elementwise function of known arguments.
    Curve(CurveKnown),
    /// A sum: what rounding costs, for a coefficient of one.
    Sum(Vec<f64>),
    /// A product or a maximum of known arguments.
    Planes(PlanesKnown),
    /// A blend of known arguments.
    Blend(BlendKnown),
    /// The change of a non-linear operator, as lines in the change of each of its arguments.
    Change(ChangeKnown),
}

/// The change of a non-linear operator between two evaluations: at most (at least) the sum of the upper (lower) lines
/// in the changes of its arguments.
#[derive(Clone, Debug)]
pub struct ChangeKnown {
    /// The entries that may change.
    pub on: Support,
    /// For every argument.
    pub lines: Vec<crate::relaxation::Lines>,
}

impl Known {
    /// Memory held, roughly.
    pub fn bytes(&self) -> usize {
        match self {
            Self::Nothing => 0,
            Self::Affine(known) => known.bytes(),
            Self::Curve(known) => known.bytes(),
            Self::Sum(owed) => 8 * owed.len(),
            Self::Planes(known) => known.bytes(),
            Self::Blend(known) => known.bytes(),
            Self::Change(known) => {
                known.lines.iter().map(|lines| 40 * lines.len() + 4 * known.on.len()).sum()
            }
        }
    }
}

/// A box around the values of an operator, and what the rounding of the value is proportional to, where rows will
/// need it.
pub struct Image {
    /// All values.
    pub value: BoxVec,
    /// `|W| m + |b|` of affine maps, `Σ |c| m` of sums; else empty.
    pub magnitude: Vec<f64>,
}

/// Two evaluations of the same operator, of which the arguments are close.
pub struct Changing<'a> {
    /// Arguments and value of the first.
    pub before: (&'a [&'a BoxVec], &'a BoxVec),
    /// Arguments and value of the second.
    pub after: (&'a [&'a BoxVec], &'a BoxVec),
    /// How far the arguments are apart.
    pub apart: &'a [&'a BoxVec],
    /// How far the times are apart.
    pub elapsed: f64,
    /// [`Image::magnitude`] of both.
    pub magnitudes: (&'a [f64], &'a [f64]),
    /// Whose rounding counts.
    pub arithmetic: Arithmetic,
}

/// The choices rows have on their way back. How tight a bound becomes depends on them, whether it holds does not.
pub trait Steering {
    /// Takes rows behind an elementwise function to its argument, in place. Every row must go through lines of the
    /// function, whichever.
    fn curve(&mut self, node: Elementwise, known: &CurveKnown, rows: &mut Rows);

    /// Looks at rows behind the change of a non-linear operator before they pass it.
    fn change(&mut self, _value: Value, _known: &ChangeKnown, _rows: &Rows) {}

    /// A value at the point where a row's bound is thought to be attained.
    fn at(&self, _row: usize, _value: Value) -> Option<&[f64]> {
        None
    }
}

/// An elementwise function in its graph.
#[derive(Clone, Copy, Debug)]
pub struct Elementwise {
    /// The value it makes.
    pub value: Value,
    /// The value it takes.
    pub argument: Value,
}

/// Where rows are on their way back.
#[derive(Clone, Copy)]
pub struct Spot<'a> {
    /// The value they are on.
    pub value: Value,
    /// The arguments they go to.
    pub from: &'a [Value],
    /// Shapes of the arguments.
    pub shapes: &'a [Shape],
    /// Entries of the arguments that matter; all if there are none.
    pub entries: &'a [Option<&'a Arc<[u32]>>],
    /// The linear part written out, where that pays.
    pub matrix: Option<&'a Matrix>,
    /// Whose arithmetic is enclosed.
    pub arithmetic: Arithmetic,
}

impl Operator {
    /// Shape of the value; `None` if the arguments do not fit.
    pub fn shape(&self, arguments: &[Shape]) -> Option<Shape> {
        match (self, arguments) {
            (Self::Affine(map), [x]) => (map.input() == *x).then(|| map.output()),
            (Self::Curve(_), [x]) => Some(*x),
            (Self::Sum(sum), [first, ..]) => (sum.coefficients.len() == arguments.len()
                && arguments.iter().all(|s| s == first))
            .then_some(*first),
            (Self::Product | Self::Maximum, [x, y]) => (x == y).then_some(*x),
            (Self::Blend(_), [u, g, y]) => (u == g && g == y).then_some(*u),
            (Self::Concat(_), [_, ..]) => Some(Concat::shape(arguments)),
            (Self::Slice(slice), [x]) => slice.shape(*x),
            _ => None,
        }
    }

    /// A number of the operator that float32 cannot store.
    pub fn beyond_float32(&self) -> Option<f64> {
        match self {
            Self::Affine(map) => map.beyond_float32(),
            Self::Curve(f) => beyond_float32(f.constants()),
            Self::Sum(sum) => beyond_float32(sum.coefficients.iter().copied()),
            Self::Product | Self::Maximum | Self::Blend(_) | Self::Concat(_) | Self::Slice(_) => None,
        }
    }

    /// The value at a point, in float64 and rounded once to the given precision.
    pub fn evaluate(&self, arguments: &[&[f64]], time: f64, precision: Precision) -> Vec<f64> {
        let mut value = match self {
            Self::Affine(map) => map.apply(arguments[0], time),
            Self::Curve(f) => arguments[0].iter().map(|&x| f.value(x)).collect(),
            Self::Sum(sum) => sum.evaluate(arguments, precision),
            Self::Product => product::evaluate(arguments),
            Self::Maximum => return maximum::evaluate(arguments),
            Self::Blend(_) => blend::evaluate(arguments),
            Self::Concat(_) => return arguments.concat(),
            Self::Slice(slice) => return arguments[0][slice.range()].to_vec(),
        };
        precision.round(&mut value);
        value
    }

    /// Cotangents of the arguments, given that of the value.
    pub fn gradient(&self, arguments: &[&[f64]], cotangent: &[f64]) -> Vec<Vec<f64>> {
        match self {
            Self::Affine(map) => vec![map.apply_transposed(cotangent)],
            Self::Curve(f) => {
                vec![cotangent.iter().zip(arguments[0]).map(|(g, &x)| g * f.derivative(x)).collect()]
            }
            Self::Sum(sum) => sum.gradient(cotangent),
            Self::Product => product::gradient(arguments, cotangent),
            Self::Maximum => maximum::gradient(arguments, cotangent),
            Self::Blend(_) => blend::gradient(arguments, cotangent),
            Self::Concat(_) => Concat::gradient(arguments, cotangent),
            Self::Slice(slice) => vec![slice.gradient(arguments[0].len(), cotangent)],
        }
    }

    /// Encloses all values over boxes of the arguments, as the given arithmetic may compute them. `traced` asks for
    /// the magnitude.
    pub fn image(&self, arguments: &[&BoxVec], time: f64, arithmetic: Arithmetic, traced: bool) -> Image {
        let plain = |value| Image { value, magnitude: Vec::new() };
        match self {
            Self::Affine(map) if traced => {
                let x = arguments[0];
                let (value, magnitude) = map.apply_box_traced(x, &x.magnitudes(), time, arithmetic);
                Image { value, magnitude }
            }
            Self::Affine(map) => plain(map.apply_box(arguments[0], time, arithmetic)),
            Self::Curve(f) => plain(f.image_box(arguments[0], arithmetic)),
            Self::Sum(sum) => sum.image(arguments, arithmetic),
            Self::Product => plain(product::image(arguments, arithmetic)),
            Self::Maximum => plain(maximum::image(arguments)),
            Self::Blend(blend) => plain(blend.image(arguments, arithmetic)),
            Self::Concat(_) => plain(Concat::image(arguments)),
            Self::Slice(slice) => plain(slice.image(arguments[0])),
        }
    }

    /// Encloses how far two values are apart; the magnitude is what the rounding of rows on that is proportional to.
    pub fn change(&self, c: &Changing<'_>) -> Image {
        let plain = |value| Image { value, magnitude: Vec::new() };
        match self {
            Self::Affine(map) => map.change(c),
            Self::Curve(f) => plain(curve::change(*f, c)),
            Self::Sum(sum) => sum.change(c),
            Self::Product => plain(product::change(c)),
            Self::Maximum => plain(maximum::change(c)),
            Self::Blend(_) => plain(blend::change(c)),
            Self::Concat(_) => plain(Concat::image(c.apart)),
            Self::Slice(slice) => plain(slice.image(c.apart[0])),
        }
    }

    /// What rows on the entries `on` of the value need to know.
    pub fn known(
        &self,
        arguments: &[&BoxVec],
        magnitude: &[f64],
        on: Support,
        time: f64,
        arithmetic: Arithmetic,
    ) -> Known {
        match self {
            Self::Affine(map) => Known::Affine(AffineKnown::of_value(map, magnitude, on, time)),
            Self::Curve(f) => Known::Curve(CurveKnown::new(*f, arguments[0], on)),
            Self::Sum(sum) => Known::Sum(sum.owed(magnitude, arithmetic)),
            Self::Product => Known::Planes(PlanesKnown::of_product(arguments, arithmetic)),
            Self::Maximum => Known::Planes(PlanesKnown::of_maximum(arguments)),
            Self::Blend(_) => Known::Blend(BlendKnown::new(arguments, arithmetic)),
            Self::Concat(_) | Self::Slice(_) => Known::Nothing,
        }
    }

    /// What rows on the entries `on` of the change of the value need to know; `moved` is the change, `magnitude` that of
    /// [`Self::change`].
    pub fn known_change(&self, c: &Changing<'_>, moved: &BoxVec, magnitude: &[f64], on: Support) -> Known {
        match self {
            Self::Affine(map) => Known::Affine(AffineKnown::of_change(map, c, magnitude, on)),
            Self::Curve(f) => Known::Change(curve::known_change(*f, c, moved, on)),
            Self::Sum(sum) => Known::Sum(sum.owed_by_change(c, magnitude)),
            Self::Product => Known::Change(product::known_change(c, on)),
            Self::Maximum => Known::Change(maximum::known_change(c, on)),
            Self::Blend(_) => Known::Change(blend::known_change(c, on)),
            Self::Concat(_) | Self::Slice(_) => Known::Nothing,
        }
    }

    /// Whether a zero of the argument is a zero of the value wherever it matters: rows behind the operator then need
    /// only the entries of the argument that are not identically zero, else those of the value.
    pub fn keeps_zeros(&self) -> bool {
        !matches!(self, Self::Curve(_))
    }

    /// Whether rows on their way back may ask where their bound is attained ([`Steering::at`]).
    pub fn asks_for_points(&self) -> bool {
        !matches!(self, Self::Affine(_) | Self::Sum(_) | Self::Concat(_) | Self::Slice(_))
    }

    /// Pulls rows on the value back to rows on the arguments, whose sum is nowhere above them.
    pub fn pull<S: Steering + ?Sized>(
        &self,
        known: &Known,
        mut rows: Rows,
        spot: Spot<'_>,
        steering: &mut S,
    ) -> Vec<Rows> {
        match (self, known) {
            (Self::Affine(map), Known::Affine(known)) => vec![map.pull(known, rows, spot)],
            (Self::Curve(_), Known::Curve(known)) => {
                rows = known.placed(rows);
                let node = Elementwise { value: spot.value, argument: spot.from[0] };
                steering.curve(node, known, &mut rows);
                vec![rows]
            }
            (Self::Sum(sum), Known::Sum(owed)) => sum.pull(owed, rows),
            (Self::Product | Self::Maximum, Known::Planes(known)) => known.pull(rows, spot, steering),
            (Self::Blend(_), Known::Blend(known)) => known.pull(rows, spot, steering),
            (_, Known::Change(known)) => {
                rows = known.placed(rows);
                steering.change(spot.value, known, &rows);
                known.pull(rows)
            }
            (Self::Concat(_), _) => Concat::pull(rows, spot.shapes),
            (Self::Slice(slice), _) => vec![slice.pull(rows, spot.shapes[0])],
            // Nothing is known: a row that bounds nothing.
            _ => spot.shapes.iter().map(|shape| nothing(&rows, *shape)).collect(),
        }
    }

    /// Encloses the values as an affine form. `earlier` has arguments and value of an evaluation nearby, over the same
    /// symbols; `then_relu` says that a ReLU follows, so that what is certainly negative need not be kept apart.
    pub fn form(
        &self,
        arguments: &[&AffineForm],
        earlier: Option<(&[&AffineForm], &AffineForm)>,
        formed: Forming<'_>,
        symbols: &mut Symbols,
    ) -> AffineForm {
        let Forming { time, arithmetic, then_relu, matrix, stop } = formed;
        match self {
            Self::Affine(map) => arguments[0].affine_unless(map, matrix, time, arithmetic, then_relu, stop),
            Self::Curve(f) => {
                let earlier = earlier.map(|(inputs, output)| (inputs[0], output));
                curve::form(*f, arguments[0], earlier, arithmetic, symbols)
            }
            Self::Sum(sum) => sum.form(arguments, arithmetic),
            Self::Product => product::form(arguments[0], arguments[1], arithmetic, symbols),
            Self::Maximum => maximum::form(arguments[0], arguments[1], symbols),
            Self::Blend(_) => blend::form(arguments, arithmetic, symbols),
            Self::Concat(_) => AffineForm::concat(arguments),
            Self::Slice(slice) => arguments[0].part(slice.range()),
        }
    }
}

impl Operator {
    /// The same in exact arithmetic by the rules of certificates: activations beside their chords. Of an activation also which
    /// entries passed as changes.
    pub fn form_by_chords(
        &self,
        arguments: &[&AffineForm],
        earlier: Option<(&[&AffineForm], &AffineForm)>,
        formed: Forming<'_>,
        symbols: &mut Symbols,
    ) -> (AffineForm, Vec<bool>) {
        match self {
            Self::Curve(f) => {
                let earlier = earlier.map(|(inputs, output)| (inputs[0], output));
                curve::form_by_chords(*f, arguments[0], earlier, symbols)
            }
            _ => (self.form(arguments, earlier, formed, symbols), Vec::new()),
        }
    }
}

/// How a form is made.
#[derive(Clone, Copy)]
pub struct Forming<'a> {
    /// The time.
    pub time: f64,
    /// Whose arithmetic is enclosed.
    pub arithmetic: Arithmetic,
    /// Whether nothing but a ReLU takes the value.
    pub then_relu: bool,
    /// The linear part written out, where that pays.
    pub matrix: Option<&'a Matrix>,
    /// Asked now and then; `true` gives a form that is not sane.
    pub stop: &'a dyn Fn() -> bool,
}

/// Rows that bound nothing.
fn nothing(rows: &Rows, shape: Shape) -> Rows {
    let mut none = Rows::zeros(rows.count, Support::full(shape));
    none.constant.fill(f64::NEG_INFINITY);
    none
}

impl ChangeKnown {
    /// The same rows on the entries that may change.
    fn placed(&self, rows: Rows) -> Rows {
        match &self.on {
            Support::Entries { entries, .. } => rows.onto(entries),
            Support::Window(_) => rows.widened(),
        }
    }

    /// Through the lines in the change of each argument; the constants go with the first.
    fn pull(&self, rows: Rows) -> Vec<Rows> {
        let mut parts: Vec<Rows> = (1..self.lines.len())
            .map(|_| Rows::of_count(rows.count, rows.on().clone(), rows.coefficients.clone()))
            .collect();
        parts.insert(0, rows);
        parts.iter_mut().zip(&self.lines).for_each(|(part, lines)| part.relax(&[lines]));
        parts
    }
}
