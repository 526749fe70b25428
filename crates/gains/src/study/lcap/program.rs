//! The paper's baseline LP(8, 50, 40): a linear program over sampled corners of the box, repaired until it is sound.
//!
//! The corners that repair adds are new columns of the dual, which goes on from where it was ([`Simplex`]).

use gains_core::BoxVec;

use super::constraints::Affine;
use super::simplex::{Row, Simplex};
use crate::interrupt;

/// Corners per dimension at first.
const FIRST: usize = 8;
/// Rounds of repair.
const ROUNDS: usize = 50;
/// Corners that are added for a violated bound.
const MORE: usize = 40;
/// No coefficient is larger, as in the authors' program.
const LARGEST: f64 = 100.0;
/// Where the authors' program stops: no bound is violated by more.
const STOP: f64 = 1e-3;
/// A bound that is violated by less gets no more corners.
const TOLERANCE: f64 = 1e-4;
/// One lower bound below all parts, as high as possible at the centre of the box. What is still above a part in the
/// end is lowered.
pub fn merge(parts: &[Affine], domain: &BoxVec, random: &mut fastrand::Rng) -> Result<Affine, String> {
    let centre = domain.centres().centre;
    let mut program = Simplex::new(centre.into_iter().chain([1.0]).collect(), LARGEST);
    for _ in 0..FIRST * domain.len() {
        program.push(row(&corner(domain, random), parts));
    }
    let mut merged = solve(&mut program)?;
    for _ in 0..ROUNDS {
        let excess: Vec<f64> = parts.iter().map(|part| merged.largest_excess(part, domain)).collect();
        if excess.iter().all(|excess| *excess <= STOP) {
            break;
        }
        if interrupt::requested() {
            return Err("interrupted".into());
        }
        for (part, _) in parts.iter().zip(&excess).filter(|(_, excess)| **excess > TOLERANCE) {
            let worst = merged.worst_corner(part, domain);
            program.push(row(&worst, parts));
            for _ in 1..MORE {
                program.push(row(&near(&worst, domain, random), parts));
            }
        }
        merged = solve(&mut program)?;
    }
    let excess = parts.iter().map(|part| merged.largest_excess(part, domain)).fold(0.0, f64::max);
    merged.constant -= excess;
    Ok(merged)
}

fn corner(domain: &BoxVec, random: &mut fastrand::Rng) -> Vec<f64> {
    domain.lower.iter().zip(&domain.upper).map(|(l, u)| if random.bool() { *l } else { *u }).collect()
}

/// A corner that agrees with another in three of four entries.
fn near(worst: &[f64], domain: &BoxVec, random: &mut fastrand::Rng) -> Vec<f64> {
    let ends = domain.lower.iter().zip(&domain.upper);
    worst.iter().zip(ends).map(|(z, (l, u))| if random.f64() < 0.75 { *z } else { l + u - z }).collect()
}

/// At a corner the bound is below all parts. The constant stands behind the coefficients.
fn row(corner: &[f64], parts: &[Affine]) -> Row {
    let limit = parts.iter().map(|part| part.at(corner)).fold(f64::INFINITY, f64::min);
    Row { coefficients: corner.iter().copied().chain([1.0]).collect(), limit }
}

/// The bound that is highest at the centre among those below all parts at the corners.
fn solve(program: &mut Simplex) -> Result<Affine, String> {
    let mut coefficients = program.solve().ok_or("the linear program does not come to an end")?;
    let constant = coefficients.pop().unwrap_or_default();
    Ok(Affine { coefficients, constant })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::study::lcap::constraints::Bounds;

    /// Many of its corners bind together, so that the simplex method stands still for long: it went round in circles here.
    #[test]
    fn a_degenerate_program_comes_to_an_end() {
        let mut random = fastrand::Rng::with_seed(1 + 1000 * 30 + 8);
        let Bounds { domain, lower, upper } = Bounds::draw(30, 4, &mut random).unwrap();
        let negated: Vec<Affine> = upper.iter().map(Affine::negated).collect();
        for parts in [lower, negated] {
            let merged = merge(&parts, &domain, &mut random).unwrap();
            assert!(parts.iter().all(|part| merged.largest_excess(part, &domain) <= 1e-9));
        }
    }

    /// With few dimensions all corners can be looked at.
    #[test]
    fn sampled_corners_come_to_the_optimum_of_all_corners() {
        let mut random = fastrand::Rng::with_seed(11);
        for _ in 0..5 {
            let Bounds { domain, lower, .. } = Bounds::draw(4, 4, &mut random).unwrap();
            let centre = domain.centres().centre;
            let mut program = Simplex::new(centre.iter().copied().chain([1.0]).collect(), LARGEST);
            for bits in 0..16_u32 {
                let end = |i: usize| if bits >> i & 1 == 1 { domain.upper[i] } else { domain.lower[i] };
                program.push(row(&(0..4).map(end).collect::<Vec<_>>(), &lower));
            }
            let best = solve(&mut program).unwrap().at(&centre);
            let found = merge(&lower, &domain, &mut random).unwrap().at(&centre);
            assert!((best - 2.0 * STOP..=best + 1e-6).contains(&found), "{found} of {best}");
        }
    }
}
