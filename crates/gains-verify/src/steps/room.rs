//! Room for the rounding of others.

use gains_core::{BoxVec, Interval};

/// Whether what is computed is handed on as it is, or as it can be claimed in a certificate: another program has to
/// find that its own bounds, which are rounded in another way, lie inside.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Room {
    /// As it is.
    #[default]
    None,
    /// Rounded outwards to float32, and a little more.
    ForClaims,
}

/// The part of the numbers involved that another program may lose by its own rounding.
const PART: f64 = 1e-10;

/// The same for error estimates, which are sums over all entries of what is left when much has cancelled.
const PART_OF_ERROR: f64 = 1e-7;

/// Entries much smaller than the largest of their box may be what is left when much has cancelled; they are counted as
/// this part of it at least.
const LEAST_SIZE: f64 = 1e-4;

impl Room {
    /// A box with room around it. Zeros stay where they are: those of neurons that are dead, which nobody's rounding moves.
    pub fn around(self, values: &BoxVec) -> BoxVec {
        if self == Self::None {
            return values.clone();
        }
        let largest = values.magnitudes().into_iter().filter(|m| m.is_finite()).fold(0.0, f64::max);
        let room = |i: usize| PART * values.get(i).magnitude().max(LEAST_SIZE * largest);
        BoxVec::collect(values.len(), |i| {
            let Interval { lower, upper } = values.get(i);
            Interval::new(below(lower, room(i)), -below(-upper, room(i)))
        })
    }

    /// An interval of error estimates with room around it.
    pub fn around_error(self, error: Interval) -> Interval {
        match self {
            Self::None => error,
            Self::ForClaims => {
                let room = PART_OF_ERROR * error.upper;
                Interval::new((error.lower - room).max(0.0), error.upper + room)
            }
        }
    }
}

/// The largest float32 number that leaves room below a number.
fn below(end: f64, room: f64) -> f64 {
    if !end.is_finite() || end == 0.0 {
        return end;
    }
    let wanted = end - room;
    let near = wanted as f32;
    let rounded = f64::from(if f64::from(near) > wanted { near.next_down() } else { near });
    // Beyond what float32 holds.
    if rounded.is_finite() { rounded } else { wanted }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn room_is_outside_and_small() {
        let mut random = fastrand::Rng::with_seed(5);
        let number =
            |random: &mut fastrand::Rng| (2.0 * random.f64() - 1.0) * 10_f64.powi(random.i32(-12..4));
        for _ in 0..500 {
            let (a, b): (Vec<f64>, Vec<f64>) =
                (0..6).map(|_| (number(&mut random), number(&mut random))).unzip();
            let values = BoxVec::collect(6, |i| Interval::new(a[i].min(b[i]), a[i].max(b[i])));
            let wide = Room::ForClaims.around(&values);
            let largest = values.magnitudes().into_iter().fold(0.0, f64::max);
            for i in 0..6 {
                let (own, wide) = (values.get(i), wide.get(i));
                let most = 3e-7 * own.magnitude() + 1e-13 * largest;
                assert!(wide.lower < own.lower && own.lower - wide.lower <= most, "{own:?} {wide:?}");
                assert!(own.upper < wide.upper && wide.upper - own.upper <= most, "{own:?} {wide:?}");
            }
            assert!((0..6).all(|i| f64::from(wide.lower[i] as f32) == wide.lower[i]));
            assert_eq!(Room::None.around(&values), values);
        }
    }

    #[test]
    fn zeros_stay_zeros() {
        let values = BoxVec::new(vec![0.0, -0.5, 0.0], vec![0.0, 0.0, 0.1]);
        let wide = Room::ForClaims.around(&values);
        assert_eq!((wide.lower[0], wide.upper[0], wide.upper[1], wide.lower[2]), (0.0, 0.0, 0.0, 0.0));
        assert!(wide.lower[1] < -0.5 && wide.upper[2] > 0.1);
    }

    #[test]
    fn errors_do_not_fall_below_zero() {
        let wide = Room::ForClaims.around_error(Interval::new(1e-12, 0.5));
        assert!(wide.lower == 0.0 && wide.upper > 0.5 && wide.upper < 0.500001);
    }
}
