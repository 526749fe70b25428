//! Elementwise activations: values, derivatives, interval images.

use crate::arithmetic::{Arithmetic, TINY};
use crate::interval::{BoxVec, Interval};

use crate::smooth::Smooth;

/// An elementwise function: monotone, the absolute value, or made of pieces.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Activation {
    /// `max(x, 0)`.
    Relu,
    /// `x` for positive `x`, `slope·x` otherwise, with `0 ≤ slope ≤ 1`.
    LeakyRelu {
        /// Slope on the negative side.
        slope: f64,
    },
    /// `1 / (1 + e⁻ˣ)`.
    Sigmoid,
    /// Hyperbolic tangent.
    Tanh,
    /// `|x|`.
    Absolute,
    /// One that is made of convex and concave pieces.
    Smooth(Smooth),
}

impl From<Smooth> for Activation {
    fn from(smooth: Smooth) -> Self {
        Self::Smooth(smooth)
    }
}

impl Activation {
    /// The numbers it is given.
    pub fn constants(self) -> Vec<f64> {
        match self {
            Self::LeakyRelu { slope } => vec![slope],
            Self::Smooth(f) => f.constants(),
            Self::Relu | Self::Sigmoid | Self::Tanh | Self::Absolute => Vec::new(),
        }
    }

    /// Value in float64.
    pub fn value(self, x: f64) -> f64 {
        match self {
            // Not `x.max(0.0)`, which turns NaN into 0 and so hides an overflow.
            Self::Relu => {
                if x < 0.0 {
                    0.0
                } else {
                    x
                }
            }
            Self::LeakyRelu { slope } => {
                if x > 0.0 {
                    x
                } else {
                    slope * x
                }
            }
            Self::Sigmoid => sigmoid(x),
            Self::Tanh => x.tanh(),
            Self::Absolute => x.abs(),
            Self::Smooth(f) => f.value(x),
        }
    }

    /// Derivative (the right one at a kink).
    pub fn derivative(self, x: f64) -> f64 {
        match self {
            Self::Relu => f64::from(u8::from(x > 0.0)),
            Self::LeakyRelu { slope } => {
                if x > 0.0 {
                    1.0
                } else {
                    slope
                }
            }
            Self::Sigmoid => {
                let s = sigmoid(-x.abs());
                s * (1.0 - s)
            }
            Self::Tanh => {
                let c = x.cosh();
                1.0 / (c * c)
            }
            Self::Absolute => {
                if x > 0.0 {
                    1.0
                } else {
                    -1.0
                }
            }
            Self::Smooth(f) => f.derivative(x),
        }
    }

    /// Encloses the derivative over an interval (at a kink: both one-sided ones). By the mean value
    /// theorem `f(b) − f(a)` lies in this range times `b − a` for all `a`, `b` in the interval.
    pub fn derivative_range(self, x: Interval) -> Interval {
        let steps = |left: f64| match (x.lower >= 0.0, x.upper <= 0.0) {
            (true, _) => Interval::point(1.0),
            (_, true) => Interval::point(left),
            _ => Interval::new(left.min(1.0), left.max(1.0)),
        };
        match self {
            Self::Relu => steps(0.0),
            Self::LeakyRelu { slope } => steps(slope),
            Self::Absolute => steps(-1.0),
            Self::Smooth(f) => f.derivative_range(x),
            Self::Sigmoid | Self::Tanh => {
                // Largest at zero, falling to both sides.
                let far = x.magnitude();
                let near = if x.contains(0.0) { 0.0 } else { x.lower.abs().min(x.upper.abs()) };
                let slack = 256.0 * f64::EPSILON;
                Interval::new(
                    (self.derivative(far) * (1.0 - slack) - TINY).max(0.0),
                    self.derivative(near) * (1.0 + slack) + TINY,
                )
            }
        }
    }

    /// Absolute error of evaluating the activation anywhere in `x`, where its values are at most about `size`: zero where
    /// it is exact.
    pub fn evaluation_error(self, x: Interval, size: f64, arithmetic: Arithmetic) -> f64 {
        match self {
            Self::Relu | Self::Absolute => 0.0,
            Self::Smooth(f) => f.evaluation_error(x, size, arithmetic),
            _ => arithmetic.function() * size.abs() + arithmetic.underflow().max(TINY),
        }
    }

    /// Encloses the image of an interval. A monotone function has it between the images of the ends, widened by
    /// the error of evaluating them and of the program.
    pub fn image(self, x: Interval, arithmetic: Arithmetic) -> Interval {
        if self == Self::Absolute {
            if x.lower.is_nan() || x.upper.is_nan() {
                return Interval::new(f64::NAN, f64::NAN);
            }
            return Interval::new(x.lower.max(-x.upper).max(0.0), x.magnitude());
        }
        if let Self::Smooth(f) = self {
            return f.image(x, arithmetic);
        }
        let (low, high) = (self.value(x.lower), self.value(x.upper));
        let lower = low - self.evaluation_error(x, low, arithmetic);
        let upper = high + self.evaluation_error(x, high, arithmetic);
        match self {
            Self::Sigmoid => Interval::new(lower.max(0.0), upper.min(1.0)),
            Self::Tanh => Interval::new(lower.max(-1.0), upper.min(1.0)),
            _ => Interval::new(lower, upper),
        }
    }

    /// Encloses the image of a box.
    pub fn image_box(self, x: &BoxVec, arithmetic: Arithmetic) -> BoxVec {
        if self == Self::Relu {
            let clamp = |side: &[f64]| side.iter().map(|x| self.value(*x)).collect();
            return BoxVec::new(clamp(&x.lower), clamp(&x.upper));
        }
        let mut image = x.clone();
        for i in 0..x.len() {
            let y = self.image(x.get(i), arithmetic);
            image.lower[i] = y.lower;
            image.upper[i] = y.upper;
        }
        image
    }
}

/// The logistic function without overflow.
fn sigmoid(x: f64) -> f64 {
    if x >= 0.0 {
        1.0 / (1.0 + (-x).exp())
    } else {
        let e = x.exp();
        e / (1.0 + e)
    }
}

impl std::fmt::Display for Activation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Relu => f.write_str("relu"),
            Self::LeakyRelu { slope } => write!(f, "leaky_relu({slope})"),
            Self::Sigmoid => f.write_str("sigmoid"),
            Self::Tanh => f.write_str("tanh"),
            Self::Absolute => f.write_str("absolute"),
            Self::Smooth(smooth) => write!(f, "{smooth}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [Activation; 17] = [
        Activation::Relu,
        Activation::LeakyRelu { slope: 0.01 },
        Activation::Sigmoid,
        Activation::Tanh,
        Activation::Absolute,
        Activation::Smooth(Smooth::Softplus),
        Activation::Smooth(Smooth::Silu),
        Activation::Smooth(Smooth::Gelu),
        Activation::Smooth(Smooth::GeluTanh),
        Activation::Smooth(Smooth::Elu { alpha: 1.0 }),
        Activation::Smooth(Smooth::Elu { alpha: 2.5 }),
        Activation::Smooth(Smooth::Sin),
        Activation::Smooth(Smooth::Cos),
        Activation::Smooth(Smooth::Square),
        Activation::Smooth(Smooth::Clamp { low: -1.0, high: 0.1 }),
        Activation::Smooth(Smooth::InverseRoot { eps: 1e-5 }),
        Activation::Smooth(Smooth::InverseRoot { eps: 1.0 }),
    ];

    #[test]
    fn derivative_agrees_with_differences() {
        for activation in ALL {
            for i in -40..40 {
                let x = f64::from(i) * 0.17 + 0.003;
                let slope = (activation.value(x + 1e-6) - activation.value(x - 1e-6)) / 2e-6;
                let near = 1e-8 * (1.0 + slope.abs());
                let curved = activation == Activation::Smooth(Smooth::InverseRoot { eps: 1e-5 });
                let near = if curved { 1e-4 * (1.0 + slope.abs()) } else { near };
                assert!((slope - activation.derivative(x)).abs() < near, "{activation} at {x}");
            }
        }
    }

    /// `inf − inf` in a layer before: no activation may turn it into a narrow, finite box.
    #[test]
    fn what_is_no_number_is_not_hidden() {
        let broken = BoxVec::new(vec![f64::NAN], vec![f64::NAN]);
        for activation in ALL {
            let image = activation.image_box(&broken, Arithmetic::Real).get(0);
            let whole_range = image.upper - image.lower >= 1.0;
            assert!(image.upper.is_nan() || whole_range, "{activation}: {image:?}");
        }
        assert!(Activation::Relu.value(f64::NAN).is_nan());
    }

    #[test]
    fn extreme_arguments_stay_finite() {
        for activation in ALL {
            for x in [-1e150, -750.0, -5e-324, 0.0, 5e-324, 750.0, 1e150] {
                let image = activation.image(Interval::point(x), Arithmetic::Real);
                assert!(image.lower.is_finite() && image.upper.is_finite(), "{activation} at {x}");
                assert!(image.contains(activation.value(x)));
                assert!(activation.derivative(x).is_finite(), "{activation} at {x}");
            }
        }
    }
}
