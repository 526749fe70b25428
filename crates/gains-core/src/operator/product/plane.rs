//! Planes below and above a product over a rectangle.

use crate::arithmetic::{TINY, down_product, up_product};
use crate::interval::Interval;

/// `x_slope·x + y_slope·y + constant`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Plane {
    /// Slope in the first factor.
    pub x: f64,
    /// Slope in the second factor.
    pub y: f64,
    /// Value at the origin.
    pub constant: f64,
}

/// Which side of a product a plane is on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bound {
    /// Nowhere above.
    Below,
    /// Nowhere below.
    Above,
}

/// A plane on one side of `x·y` over a rectangle (McCormick).
///
/// `(x − a)(y − b)` has a known sign at every corner `(a, b)` of the rectangle, so below lie
/// `a·y + b·x − a·b` for the corners (x̲, y̲) and (x̄, ȳ), and above for the other two. Both planes of one side agree
/// in the centre. Where it is known at which point the plane matters, `at`, the one closer there is taken;
/// otherwise their mean, whose slopes are those of the product itself in the centre.
pub fn plane(x: Interval, y: Interval, side: Bound, at: Option<(f64, f64)>) -> Plane {
    let corners = match side {
        Bound::Below => [(x.lower, y.lower), (x.upper, y.upper)],
        Bound::Above => [(x.upper, y.lower), (x.lower, y.upper)],
    };
    let through = |(a, b): (f64, f64)| Plane {
        x: b,
        y: a,
        constant: match side {
            Bound::Below => -up_product(a * b),
            Bound::Above => -down_product(a * b),
        },
    };
    let [first, second] = corners.map(through);
    let Some((p, q)) = at else {
        let half = |a: f64, b: f64| 0.5 * a + 0.5 * b;
        let slack = 4.0 * f64::EPSILON * (first.constant.abs() + second.constant.abs()) + TINY;
        let constant = half(first.constant, second.constant)
            + match side {
                Bound::Below => -slack,
                Bound::Above => slack,
            };
        return Plane { x: half(first.x, second.x), y: half(first.y, second.y), constant };
    };
    let value = |plane: &Plane| plane.x * p + plane.y * q + plane.constant;
    let first_is_higher = value(&first) >= value(&second);
    if first_is_higher == (side == Bound::Below) { first } else { second }
}
