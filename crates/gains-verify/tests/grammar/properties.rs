//! Properties out of decisions: any combination of classes, intervals and linear rows.

use gains_verify::Property;
use gains_verify::property::{Condition, LinearRow, Relation, largest};

/// A property of a network whose outputs at the centre are `near`: true there more often than not.
pub fn property(seed: u64, near: &[f64]) -> Property {
    let mut random = fastrand::Rng::with_seed(seed ^ 0x0070_726F_7065_7274);
    Property::Linear { outputs: near.len(), condition: condition(&mut random, near, 2) }
}

fn condition(random: &mut fastrand::Rng, near: &[f64], depth: usize) -> Condition {
    if depth > 0 && random.u8(0..depth as u8 + 2) > 0 {
        let parts: Vec<Condition> =
            (0..random.usize(1..4)).map(|_| condition(random, near, depth - 1)).collect();
        return match random.u8(0..6) {
            0 => Condition::All(parts),
            1..=3 => Condition::Any(parts),
            4 => Condition::AtLeast { needed: random.usize(1..=parts.len()), of: parts },
            _ => Condition::Any(parts.into_iter().map(Condition::negated).collect()).negated(),
        };
    }
    let (outputs, label) = (near.len(), largest(near));
    let size = near.iter().fold(1e-3, |m: f64, y| m.max(y.abs()));
    match random.u8(0..6) {
        0 => Condition::top(outputs, label, random.usize(1..outputs)),
        1 => Condition::never(outputs, random.usize(0..outputs)),
        2 => Condition::among(outputs, &[label]),
        3 => {
            let Property::Linear { condition, .. } = Property::within(near, 0.3 * size * random.f64()) else {
                unreachable!("a tolerance is linear")
            };
            condition
        }
        _ => {
            let coefficients: Vec<f64> = near.iter().map(|_| 2.0 * random.f64() - 1.0).collect();
            let room = [(size, 0.4 * random.f64() - 0.05)];
            let value = coefficients.iter().zip(near).map(|(a, y)| (-a, *y));
            let products: Vec<(f64, f64)> = room.into_iter().chain(value).collect();
            let relation = if random.bool() { Relation::Above } else { Relation::NotBelow };
            Condition::Row(LinearRow::with_products(coefficients, &products, relation))
        }
    }
}
