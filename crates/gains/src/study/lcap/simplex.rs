//! A linear program with few unknowns and many constraints that keep being added: a bound as high as possible at one
//! point and below given values at corners.
//!
//! `max c·v` subject to `aⱼ·v ≤ yⱼ` and `|vᵢ| ≤ M` has the dual `min y·λ + M·μ` subject to `Σ λⱼ aⱼ + μ⁺ − μ⁻ = c`, nothing
//! negative. The revised simplex method on the dual has a basis of as many columns as there are unknowns, however many
//! corners there are, and a new corner is a new column: the basis stays feasible, and few steps lead to the new optimum.
//! The prices of the rows are `v`.

/// By how much a constraint may be violated.
const ALLOWED: f64 = 1e-7;
/// What can be told apart from zero.
const TINY: f64 = 1e-9;
/// Steps between two fresh inverses.
const FRESH: usize = 100;
/// Steps in place, after which the levels are shaken, so that the method does not go round in circles.
const PATIENCE: usize = 60;
/// By how much, in parts of the largest level.
const SHAKE: f64 = 1e-8;

/// A column of the dual.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Column {
    /// `vᵢ ≤ M`, or `−vᵢ ≤ M`.
    Bound { unknown: usize, sign: f64 },
    /// A constraint.
    Row(usize),
}

/// A constraint `coefficients·v ≤ limit`.
pub struct Row {
    /// The coefficients.
    pub coefficients: Vec<f64>,
    /// The limit.
    pub limit: f64,
}

/// The program, at a feasible basis.
pub struct Simplex {
    objective: Vec<f64>,
    /// M.
    largest: f64,
    rows: Vec<Row>,
    basis: Vec<Column>,
    /// How much of each basic column.
    levels: Vec<f64>,
    /// The inverse of the basis, row by row.
    inverse: Vec<f64>,
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

impl Simplex {
    /// Nothing but the bounds of the unknowns.
    pub fn new(objective: Vec<f64>, largest: f64) -> Self {
        let count = objective.len();
        let sign = |unknown: usize| if objective[unknown] < 0.0 { -1.0 } else { 1.0 };
        let basis = (0..count).map(|unknown| Column::Bound { unknown, sign: sign(unknown) }).collect();
        let mut inverse = vec![0.0; count * count];
        (0..count).for_each(|i| inverse[i * count + i] = sign(i));
        let levels = objective.iter().map(|c| c.abs()).collect();
        Self { objective, largest, rows: Vec::new(), basis, levels, inverse }
    }

    /// Adds a constraint.
    pub fn push(&mut self, row: Row) {
        self.rows.push(row);
    }

    fn cost(&self, column: Column) -> f64 {
        match column {
            Column::Bound { .. } => self.largest,
            Column::Row(row) => self.rows[row].limit,
        }
    }

    /// How far `v` is below what a column asks.
    fn slack(&self, column: Column, prices: &[f64]) -> f64 {
        match column {
            Column::Bound { unknown, sign } => self.largest - sign * prices[unknown],
            Column::Row(row) => self.rows[row].limit - dot(&self.rows[row].coefficients, prices),
        }
    }

    /// `v`: the costs of the basis times its inverse.
    fn prices(&self) -> Vec<f64> {
        let count = self.basis.len();
        let mut prices = vec![0.0; count];
        for (column, row) in self.basis.iter().zip(self.inverse.chunks(count)) {
            let cost = self.cost(*column);
            prices.iter_mut().zip(row).for_each(|(price, entry)| *price += cost * entry);
        }
        prices
    }

    /// The column that is violated most.
    fn entering(&self, prices: &[f64]) -> Option<Column> {
        let bounds =
            (0..self.basis.len()).flat_map(|unknown| [1.0, -1.0].map(|sign| Column::Bound { unknown, sign }));
        let all = (0..self.rows.len()).map(Column::Row).chain(bounds);
        let slacks = all.map(|column| (self.slack(column, prices), column));
        let violated = slacks.filter(|(slack, _)| *slack < -ALLOWED);
        violated.min_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, column)| column)
    }

    /// The optimum; nothing if it is not reached in a reasonable number of steps.
    pub fn solve(&mut self) -> Option<Vec<f64>> {
        let most = 10_000 + 200 * self.basis.len();
        let mut in_place = 0;
        for step in 1..=most {
            let prices = self.prices();
            let Some(column) = self.entering(&prices) else { return Some(prices) };
            let moved = self.enter(column)?;
            in_place = if moved > TINY { 0 } else { in_place + 1 };
            if in_place > PATIENCE {
                self.shake(step);
                in_place = 0;
            }
            if step.is_multiple_of(FRESH) {
                self.invert()?;
            }
        }
        None
    }

    /// Moves the levels apart a little, each by another amount: as if the objective were a slightly different one, of
    /// which a fresh inverse knows nothing.
    fn shake(&mut self, step: usize) {
        let size = SHAKE * self.levels.iter().copied().fold(1.0, f64::max);
        for (place, level) in self.levels.iter_mut().enumerate() {
            // Multiples of the golden ratio fill an interval evenly.
            *level += size * (1.0 + ((place + 1) as f64 * step as f64 * 0.618_033_988_749_895).fract());
        }
    }

    fn entry(&self, column: Column, place: usize) -> f64 {
        match column {
            Column::Bound { unknown, sign } => {
                if unknown == place {
                    sign
                } else {
                    0.0
                }
            }
            Column::Row(row) => self.rows[row].coefficients[place],
        }
    }

    /// Takes a column into the basis, and the one out that reaches zero first. How far it went; nothing if none does.
    fn enter(&mut self, column: Column) -> Option<f64> {
        let count = self.basis.len();
        let entries: Vec<f64> = (0..count).map(|place| self.entry(column, place)).collect();
        let along: Vec<f64> = self.inverse.chunks(count).map(|row| dot(row, &entries)).collect();
        let falling = || (0..count).filter(|place| along[*place] > TINY);
        let until = |place: usize| self.levels[place].max(0.0) / along[place];
        let nearest = falling().map(until).min_by(f64::total_cmp)?;
        // Of those that reach zero together the one that is divided by best.
        let together = falling().filter(|place| until(*place) <= nearest + TINY);
        let leaving = together.max_by(|a, b| along[*a].total_cmp(&along[*b]))?;
        let far = (self.levels[leaving] / along[leaving]).max(0.0);
        let pivot: Vec<f64> =
            self.inverse[leaving * count..][..count].iter().map(|e| e / along[leaving]).collect();
        for (place, row) in self.inverse.chunks_mut(count).enumerate() {
            if place == leaving {
                row.copy_from_slice(&pivot);
            } else if along[place] != 0.0 {
                row.iter_mut().zip(&pivot).for_each(|(entry, p)| *entry -= along[place] * p);
                self.levels[place] -= far * along[place];
            }
        }
        self.levels[leaving] = far;
        self.basis[leaving] = column;
        Some(far)
    }

    /// A fresh inverse of the basis, by elimination; nothing if there is none.
    fn invert(&mut self) -> Option<()> {
        let count = self.basis.len();
        let mut left = vec![vec![0.0; 2 * count]; count];
        for (place, row) in left.iter_mut().enumerate() {
            for (entry, column) in row.iter_mut().zip(&self.basis) {
                *entry = self.entry(*column, place);
            }
            row[count + place] = 1.0;
        }
        for place in 0..count {
            let best =
                (place..count).max_by(|a, b| left[*a][place].abs().total_cmp(&left[*b][place].abs()))?;
            left.swap(place, best);
            let pivot = left[place][place];
            if pivot.abs() < 1e-14 {
                return None;
            }
            left[place].iter_mut().for_each(|entry| *entry /= pivot);
            let chosen = left[place].clone();
            for (_, row) in left.iter_mut().enumerate().filter(|(other, _)| *other != place) {
                let factor = row[place];
                if factor != 0.0 {
                    row.iter_mut().zip(&chosen).for_each(|(entry, c)| *entry -= factor * c);
                }
            }
        }
        self.inverse = left.iter().flat_map(|row| row[count..].to_vec()).collect();
        self.levels = self.inverse.chunks(count).map(|row| dot(row, &self.objective).max(0.0)).collect();
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A feasible `v` and a feasible `λ` of the same value prove each other optimal.
    #[test]
    fn solutions_are_feasible_and_have_the_value_of_their_duals() {
        let mut random = fastrand::Rng::with_seed(9);
        for count in [1, 2, 5, 30] {
            let mut draw = |size: f64| size * (2.0 * random.f64() - 1.0);
            let mut program = Simplex::new((0..count).map(|_| draw(1.0)).collect(), 100.0);
            for round in 0..4 {
                for _ in 0..20 * count {
                    let coefficients: Vec<f64> = (0..count).map(|_| draw(3.0)).collect();
                    program.push(Row { coefficients, limit: 1.0 + draw(0.9) });
                }
                let found = program.solve().unwrap();
                assert!(found.iter().all(|v| v.abs() <= 100.0 + 1e-6));
                for row in &program.rows {
                    assert!(dot(&row.coefficients, &found) <= row.limit + 1e-6, "{count} {round}");
                }
                assert!(program.levels.iter().all(|level| *level >= -1e-6));
                for place in 0..count {
                    let columns = program.basis.iter().zip(&program.levels);
                    let sum: f64 = columns.map(|(c, level)| level * program.entry(*c, place)).sum();
                    assert!((sum - program.objective[place]).abs() < 1e-6, "{count} {round}");
                }
                let costs: Vec<f64> = program.basis.iter().map(|c| program.cost(*c)).collect();
                let (ours, dual) = (dot(&program.objective, &found), dot(&costs, &program.levels));
                assert!((ours - dual).abs() < 1e-6 * (1.0 + dual.abs()), "{count} {round}: {ours} {dual}");
            }
        }
    }

    #[test]
    fn without_constraints_the_bounds_hold() {
        let mut program = Simplex::new(vec![1.0, -2.0], 7.0);
        assert_eq!(program.solve(), Some(vec![7.0, -7.0]));
        program.push(Row { coefficients: vec![1.0, 0.0], limit: 3.0 });
        let found = program.solve().unwrap();
        assert!((found[0] - 3.0).abs() < 1e-12 && (found[1] + 7.0).abs() < 1e-12);
    }
}
