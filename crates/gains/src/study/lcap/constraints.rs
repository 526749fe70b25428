//! Random sets of similar linear bounds of one quantity over a box, drawn as in the paper's appendix.

use gains_core::BoxVec;

/// `coefficients·x + constant`.
#[derive(Clone, Debug, PartialEq)]
pub struct Affine {
    /// One per dimension.
    pub coefficients: Vec<f64>,
    /// The constant.
    pub constant: f64,
}

impl Affine {
    /// The value at a point.
    pub fn at(&self, x: &[f64]) -> f64 {
        self.coefficients.iter().zip(x).map(|(a, x)| a * x).sum::<f64>() + self.constant
    }

    /// The same with the other sign.
    pub fn negated(&self) -> Self {
        Self { coefficients: self.coefficients.iter().map(|a| -a).collect(), constant: -self.constant }
    }

    /// The corner of a box where this exceeds another most.
    pub fn worst_corner(&self, other: &Self, domain: &BoxVec) -> Vec<f64> {
        let differences = self.coefficients.iter().zip(&other.coefficients).map(|(a, b)| a - b);
        let ends = domain.lower.iter().zip(&domain.upper);
        differences.zip(ends).map(|(d, (low, high))| if d > 0.0 { *high } else { *low }).collect()
    }

    /// By how much it exceeds another somewhere in a box.
    pub fn largest_excess(&self, other: &Self, domain: &BoxVec) -> f64 {
        let corner = self.worst_corner(other, domain);
        self.at(&corner) - other.at(&corner)
    }
}

/// β of the appendix.
const SPREAD: f64 = 3.0;
/// Vectors that are drawn before a set is given up.
const MOST_DRAWS: usize = 35_000;
/// Sets that are given up before a problem is.
const MOST_SETS: usize = 200;

/// Boxes and quantities that are tried.
const MOST_PROBLEMS: usize = 20;

/// Bounds of one quantity over a box.
pub struct Bounds {
    /// The box.
    pub domain: BoxVec,
    /// Below the quantity.
    pub lower: Vec<Affine>,
    /// Above it.
    pub upper: Vec<Affine>,
}

/// Uniform in `[−size, size]`.
fn within(size: f64, random: &mut fastrand::Rng) -> f64 {
    size * (2.0 * random.f64() - 1.0)
}

fn vector(dimension: usize, size: f64, random: &mut fastrand::Rng) -> Affine {
    let coefficients = (0..dimension).map(|_| within(size, random)).collect();
    Affine { coefficients, constant: within(size, random) }
}

/// Cosine of the angle between two, the constants taken as one more entry.
fn cosine(a: &Affine, b: &Affine) -> f64 {
    let dot = |a: &Affine, b: &Affine| {
        a.coefficients.iter().zip(&b.coefficients).map(|(a, b)| a * b).sum::<f64>() + a.constant * b.constant
    };
    dot(a, b) / (dot(a, a) * dot(b, b)).sqrt()
}

impl Bounds {
    /// A problem of a dimension with `count` bounds on each side; some boxes and quantities have none of the kind that
    /// is looked for, and others are drawn.
    pub fn draw(dimension: usize, count: usize, random: &mut fastrand::Rng) -> Result<Self, String> {
        let mut drawn = Self::draw_once(dimension, count, random);
        for _ in 1..MOST_PROBLEMS {
            if drawn.is_ok() {
                break;
            }
            drawn = Self::draw_once(dimension, count, random);
        }
        drawn
    }

    fn draw_once(dimension: usize, count: usize, random: &mut fastrand::Rng) -> Result<Self, String> {
        let d = dimension as f64;
        let reach = 5.0 * (20.0 / (d + 1.0)).min(1.0).powi(2);
        let ends: Vec<(f64, f64)> =
            (0..dimension).map(|_| (within(reach, random), within(reach, random))).collect();
        let domain = BoxVec::new(
            ends.iter().map(|(a, b)| a.min(*b)).collect(),
            ends.iter().map(|(a, b)| a.max(*b)).collect(),
        );
        let quantity = vector(dimension, 0.5 * SPREAD, random);
        let upper = above(&quantity, &domain, count, random)?;
        let lower = above(&quantity.negated(), &domain, count, random)?;
        Ok(Self { domain, upper, lower: lower.iter().map(Affine::negated).collect() })
    }
}

/// Similar upper bounds of a quantity.
fn above(
    quantity: &Affine,
    domain: &BoxVec,
    count: usize,
    random: &mut fastrand::Rng,
) -> Result<Vec<Affine>, String> {
    let dimension = quantity.coefficients.len();
    let d = dimension as f64;
    let jitter = SPREAD * (5.0 / (d + 1.0) * ((d + 1.0) / 50.0).ceil()).min(1.0);
    for _ in 0..MOST_SETS {
        let mut draws = 0;
        let first = loop {
            draws += 1;
            if let Some(bound) = raised(vector(dimension, SPREAD, random), quantity, domain) {
                break bound;
            }
            if draws > MOST_DRAWS {
                return Err(format!("no bound of a quantity in {dimension} dimensions after {draws} draws"));
            }
        };
        let mut set: Vec<Affine> = Vec::new();
        while set.len() < count && draws <= MOST_DRAWS {
            draws += 1;
            let change = vector(dimension, jitter, random);
            let moved = Affine {
                coefficients: first
                    .coefficients
                    .iter()
                    .zip(&change.coefficients)
                    .map(|(w, c)| w + c)
                    .collect(),
                constant: first.constant + change.constant,
            };
            let Some(bound) = raised(moved, quantity, domain) else { continue };
            let similarity =
                set.iter().map(|other| cosine(&bound, other)).sum::<f64>() / set.len().max(1) as f64;
            if set.is_empty() || similarity >= 0.975 {
                set.push(bound);
            }
        }
        let pairs = (0..set.len()).flat_map(|i| (i + 1..set.len()).map(move |k| (i, k)));
        let cosines: Vec<f64> = pairs.map(|(i, k)| cosine(&set[i], &set[k])).collect();
        let average = cosines.iter().sum::<f64>() / cosines.len().max(1) as f64;
        if set.len() == count && average <= 0.99 {
            return Ok(set);
        }
    }
    Err(format!("no {count} similar bounds in {dimension} dimensions"))
}

/// Raises a bound until it is one; nothing if its constant gets too large.
fn raised(mut bound: Affine, quantity: &Affine, domain: &BoxVec) -> Option<Affine> {
    bound.constant += quantity.largest_excess(&bound, domain).max(0.0);
    (bound.constant.abs() <= 2.0 * SPREAD).then_some(bound)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drawn_bounds_are_bounds_and_similar() {
        let mut random = fastrand::Rng::with_seed(5);
        for dimension in [5, 20] {
            let problem = Bounds::draw(dimension, 4, &mut random).unwrap();
            for (upper, lower) in problem.upper.iter().zip(&problem.lower) {
                assert!(lower.largest_excess(upper, &problem.domain) <= 1e-9);
            }
            assert!(cosine(&problem.upper[0], &problem.upper[3]) > 0.9);
        }
    }
}
