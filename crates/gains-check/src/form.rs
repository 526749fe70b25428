//! Affine forms: sets of vectors that keep what their entries, and those of other forms, have in common.
//!
//! A form stands for all vectors `c + Σ Gₛ eₛ + w` whose symbols eₛ are anywhere in [−1, 1] and with |wⱼ| ≤ rⱼ, as far as they
//! lie in its box. Forms that mention one symbol mean the same unknown number, so that sums of forms cancel where what they
//! stand for does. Every operation keeps this promise: whatever vectors its arguments stand for with some values of all
//! symbols, the result stands for what the operation makes of them with the same values (and some of the fresh symbols).
//!
//! Centres and generators are rounded to nearest. A sum of n products is off by less than n·2⁻⁵³ / (1 − n·2⁻⁵³) times the sum of
//! their magnitudes, and `Σₛ` of these magnitudes is the spread: so what all generators of an entry lose is charged to its
//! remainder at once, as `loss` times its size.

use std::collections::BTreeMap;

use crate::affine::Affine;
use crate::fault::{Deadline, Fault};
use crate::interval::{Dot, Interval, add_up, mul_up};
use crate::rules::{Region, each};

/// Covers whatever underflows.
const TINY: f64 = 1e-290;

/// At least twice what n operations lose, relative to what they are made of: charges are sums that are rounded to nearest themselves.
fn loss(operations: usize) -> f64 {
    (operations + 8) as f64 * f64::EPSILON
}

/// Hands out symbols, and sees to it that forms do not take more room and time than there is.
pub struct Work {
    symbols: u64,
    /// How many numbers all forms hold.
    pub held: usize,
    /// How many they may hold.
    pub room: usize,
    /// When to stop.
    pub deadline: Deadline,
}

impl Work {
    /// No symbols yet.
    pub fn new(room: usize, deadline: Deadline) -> Self {
        Self { symbols: 0, held: 0, room, deadline }
    }

    /// A symbol that nobody has used: larger than all before.
    pub fn fresh(&mut self) -> u64 {
        self.symbols += 1;
        self.symbols
    }

    /// Refused unless a form of so many symbols and entries may still be made.
    pub fn admit(&self, symbols: usize, entries: usize) -> Result<(), Fault> {
        self.deadline.check()?;
        match self.held.saturating_add(numbers(symbols, entries)) <= self.room {
            true => Ok(()),
            false => Err(Fault::Malformed("more memory is needed than this checker takes".into())),
        }
    }

    /// Counts a form that was made.
    pub fn keep(&mut self, form: &Form) {
        self.held = self.held.saturating_add(form.numbers());
    }
}

/// What a form of so many symbols and entries takes, in numbers.
fn numbers(symbols: usize, entries: usize) -> usize {
    symbols.saturating_mul(entries + 16).saturating_add(5 * entries)
}

/// How an entry passes a function: `slope · x + rest`, or, as a change, what came out before plus `slope` times the change of x plus `rest`.
#[derive(Clone, Copy, Debug)]
pub struct Strip {
    /// The slope.
    pub slope: f64,
    /// What is left open.
    pub rest: Interval,
    /// Whether it is about the change since an earlier evaluation.
    pub change: bool,
}

/// A set of vectors.
#[derive(Clone, Debug)]
pub struct Form {
    centre: Vec<f64>,
    /// By symbol.
    generators: BTreeMap<u64, Vec<f64>>,
    remainder: Vec<f64>,
    /// Σₛ |Gₛ|, or a little more.
    spread: Vec<f64>,
    /// A box that holds the same vectors.
    pub bounds: Region,
}

impl Form {
    /// One that is being put together, without generators yet.
    fn of(centre: Vec<f64>) -> Self {
        let (remainder, spread, bounds) = (vec![0.0; centre.len()], vec![], vec![]);
        Self { centre, generators: BTreeMap::new(), remainder, spread, bounds }
    }

    /// More of what is left open of an entry: each amount was worked out by about so many operations, rounded to nearest.
    fn charge(&mut self, entry: usize, operations: usize, amounts: &[f64]) {
        for amount in amounts {
            let amount = mul_up(*amount, 1.0 + loss(operations));
            self.remainder[entry] = add_up(self.remainder[entry], amount);
        }
    }

    /// The form, put together, with a box that is known to hold its vectors, cut to where it reaches itself.
    fn settle(mut self, bounds: Region) -> Result<Self, Fault> {
        self.generators.retain(|_, row| row.iter().any(|g| *g != 0.0));
        self.spread = vec![0.0; self.centre.len()];
        for row in self.generators.values() {
            self.spread.iter_mut().zip(row).for_each(|(sum, g)| *sum += g.abs());
        }
        let more = 1.0 + loss(self.generators.len());
        self.spread.iter_mut().for_each(|sum| *sum = mul_up(*sum, more));
        let own = |entry: usize| {
            let reach = self.reach(entry);
            Interval::point(self.centre[entry]) + Interval::new(-reach, reach)
        };
        let own: Region = (0..self.centre.len()).map(own).collect();
        if !own.iter().all(|x| x.low.is_finite() && x.high.is_finite()) {
            return Err(Fault::wrong("a form has numbers beyond all bounds"));
        }
        self.bounds = meet(&bounds, &own)?;
        Ok(self)
    }

    /// Number of symbols.
    pub fn order(&self) -> usize {
        self.generators.len()
    }

    /// Its symbols, increasing.
    pub fn symbols(&self) -> impl Iterator<Item = u64> + '_ {
        self.generators.keys().copied()
    }

    /// What it takes.
    pub fn numbers(&self) -> usize {
        numbers(self.order(), self.centre.len())
    }

    /// A box: one symbol for each entry that is not a single number.
    pub fn of_box(bounds: &Region, work: &mut Work) -> Result<Self, Fault> {
        let mut map = Affine::default();
        for &x in bounds {
            map.end_row(x, None)?;
        }
        Self::list(&[])?.mapped(&map, Interval::ZERO, bounds.clone(), true, work)
    }

    /// |c| + Σₛ |Gₛ|: what rounding is proportional to.
    fn sizes(&self) -> Vec<f64> {
        self.centre.iter().zip(&self.spread).map(|(c, spread)| add_up(c.abs(), *spread)).collect()
    }

    /// How far an entry may be from its centre.
    fn reach(&self, entry: usize) -> f64 {
        add_up(self.spread[entry], self.remainder[entry])
    }

    /// An affine map of all entries.
    pub fn affine(&self, map: &Affine, time: Interval, work: &mut Work) -> Result<Self, Fault> {
        self.mapped(map, time, map.apply(&self.bounds, time), false, work)
    }

    /// The same where more is known of what comes out. What summands leave open goes into remainders, or is
    /// `named`: it becomes symbols.
    fn mapped(
        &self,
        map: &Affine,
        time: Interval,
        bounds: Region,
        named: bool,
        work: &mut Work,
    ) -> Result<Self, Fault> {
        work.admit(self.order() + if named { map.rows() } else { 0 }, map.rows())?;
        let times = |x: &Vec<f64>| -> Vec<f64> {
            let sum = |row: usize| map.row(row).map(|(column, weight, _)| weight * x[column]).sum::<f64>();
            (0..map.rows()).map(sum).collect()
        };
        let sizes = self.sizes();
        let mut parts = Self::of(times(&self.centre));
        for (symbol, row) in &self.generators {
            work.deadline.check()?;
            parts.generators.insert(*symbol, times(row));
        }
        for row in 0..map.rows() {
            let (mut count, mut size, mut rest, mut open, mut moved) = (0, 0.0, 0.0, 0.0, true);
            for (column, weight, off) in map.row(row) {
                // Nothing is lost of what is nothing but zero.
                if sizes[column] > 0.0 || self.remainder[column] > 0.0 {
                    count += 1;
                    size += weight.abs() * sizes[column];
                    rest += weight.abs() * self.remainder[column];
                    open += off * (sizes[column] + self.remainder[column]);
                    moved &= weight == 1.0 && off == 0.0;
                }
            }
            let moved = count == 0 || (count == 1 && moved);
            let (shift, off) = map.shift(row, time, true).around();
            let sum = parts.centre[row] + shift;
            let mut lost = if moved { 0.0 } else { loss(count) * (size + rest) + TINY };
            lost += if shift == 0.0 { 0.0 } else { loss(1) * (sum.abs() + shift.abs()) };
            parts.centre[row] = sum;
            parts.charge(row, count, &[rest, open, lost]);
            if named && off > 0.0 {
                parts.generators.extend([alone(row, off, map.rows(), work)]);
            } else {
                parts.charge(row, 0, &[off]);
            }
        }
        parts.settle(bounds)
    }

    /// A sum of forms with factors that are known to lie in intervals.
    pub fn sum(terms: &[(Interval, &Self)], work: &mut Work) -> Result<Self, Fault> {
        let (factors, forms): (Vec<Interval>, Vec<&Self>) = terms.iter().copied().unzip();
        let map = Affine::sum(&factors, forms.first().map_or(0, |form| form.centre.len()))?;
        Self::list(&forms)?.affine(&map, Interval::ZERO, work)
    }

    /// This form plus another one times a factor.
    pub fn plus(&self, factor: Interval, other: &Self, work: &mut Work) -> Result<Self, Fault> {
        Self::sum(&[(Interval::ONE, self), (factor, other)], work)
    }

    /// Products of entries: with x = c + p and y = d + q, x y is d x + c y − c d, and p q, which becomes a symbol.
    pub fn product(&self, other: &Self, work: &mut Work) -> Result<Self, Fault> {
        let (mut map, entries) = (Affine::default(), self.centre.len());
        for entry in 0..entries {
            let (c, d) = (self.centre[entry], other.centre[entry]);
            map.push(entry, Interval::point(d))?;
            map.push(entries + entry, Interval::point(c))?;
            let both = mul_up(self.reach(entry), other.reach(entry));
            map.end_row(Interval::new(-both, both) - c * Interval::point(d), None)?;
        }
        let bounds = each(&self.bounds, &other.bounds, |x, y| x * y);
        Self::list(&[self, other])?.mapped(&map, Interval::ZERO, bounds, true, work)
    }

    /// One form after the other.
    pub fn list(of: &[&Self]) -> Result<Self, Fault> {
        let entries: usize = of.iter().map(|form| form.centre.len()).sum();
        let mut parts = Self::of(vec![0.0; entries]);
        let (mut bounds, mut first) = (Vec::new(), 0);
        for form in of {
            let place = first..first + form.centre.len();
            parts.centre[place.clone()].copy_from_slice(&form.centre);
            parts.remainder[place.clone()].copy_from_slice(&form.remainder);
            for (symbol, row) in &form.generators {
                let all = parts.generators.entry(*symbol).or_insert_with(|| vec![0.0; entries]);
                all[place.clone()].copy_from_slice(row);
            }
            bounds.extend_from_slice(&form.bounds);
            first = place.end;
        }
        parts.settle(bounds)
    }

    /// Entries as strips say; what they leave open becomes symbols. `image` holds what comes out. Changes are since an earlier
    /// evaluation, of which argument and result are given.
    pub fn pass(
        &self,
        strips: &[Strip],
        image: Region,
        before: Option<(&Self, &Self)>,
        work: &mut Work,
    ) -> Result<Self, Fault> {
        let (mut map, entries) = (Affine::default(), strips.len());
        for (entry, strip) in strips.iter().enumerate() {
            map.push(entry, Interval::point(strip.slope))?;
            if strip.change {
                map.push(entries + entry, Interval::point(-strip.slope))?;
                map.push(2 * entries + entry, Interval::ONE)?;
            }
            map.end_row(strip.rest, None)?;
        }
        let all = match before {
            Some((argument, result)) => &Self::list(&[self, argument, result])?,
            None => self,
        };
        all.mapped(&map, Interval::ZERO, image, true, work)
    }

    /// Two sets in one: `side` tells them apart, and `alone` are symbols that only one of them, with all it is seen with, knows.
    ///
    /// A vector A(e) of the first is (A + B)/2 (e) + (A − B)/2 (e), one of the second the same with a minus. Of the half
    /// difference the centre is kept, times side = ±1; what symbols add to it is at most Σₛ |Aₛ − Bₛ|/2 and goes into the remainder. A
    /// symbol that is known to one of them only may as well be 0 for the other, so its generator stays as it is.
    pub fn beside(
        &self,
        other: &Self,
        side: u64,
        alone: &dyn Fn(u64) -> bool,
        work: &Work,
    ) -> Result<Self, Fault> {
        work.admit(self.order() + other.order() + 1, self.centre.len())?;
        let half = |a: &[f64], b: &[f64], sign: f64| -> Vec<f64> {
            a.iter().zip(b).map(|(a, b)| 0.5 * a + sign * 0.5 * b).collect()
        };
        let (zeros, entries) = (vec![0.0; self.centre.len()], self.centre.len());
        let mut parts = Self::of(half(&self.centre, &other.centre, 1.0));
        let mut apart = vec![0.0; entries];
        let symbols: Vec<u64> = self.symbols().chain(other.symbols()).collect();
        for symbol in symbols {
            let a = self.generators.get(&symbol).unwrap_or(&zeros);
            let b = other.generators.get(&symbol).unwrap_or(&zeros);
            let row = match alone(symbol) {
                true => a.iter().zip(b).map(|(a, b)| a + b).collect(),
                false => half(a, b, 1.0),
            };
            if parts.generators.insert(symbol, row).is_none() && !alone(symbol) {
                half(a, b, -1.0).iter().zip(&mut apart).for_each(|(d, sum)| *sum += d.abs());
            }
        }
        parts.generators.insert(side, half(&self.centre, &other.centre, -1.0));
        let (sizes, others) = (self.sizes(), other.sizes());
        for entry in 0..entries {
            let rest = self.remainder[entry].max(other.remainder[entry]);
            let size = sizes[entry] + others[entry];
            let lost = if size > 0.0 {
                loss(self.order() + other.order()) * apart[entry] + loss(4) * size + TINY
            } else {
                0.0
            };
            parts.charge(entry, 4, &[rest, apart[entry], lost]);
        }
        parts.settle(self.bounds.iter().zip(&other.bounds).map(|(a, b)| a.hull(*b)).collect())
    }

    /// Gives remainders that are more than a share of the spread symbols of their own.
    pub fn name(&mut self, share: f64, work: &mut Work) -> Result<(), Fault> {
        let large = |entry: &usize| self.remainder[*entry] > share * self.spread[*entry];
        let entries: Vec<usize> = (0..self.centre.len()).filter(large).collect();
        work.admit(self.order() + entries.len(), self.centre.len())?;
        for entry in entries {
            let rest = std::mem::take(&mut self.remainder[entry]);
            self.spread[entry] = add_up(self.spread[entry], rest);
            self.generators.extend([alone(entry, rest, self.centre.len(), work)]);
        }
        Ok(())
    }

    /// The vectors of both that are in a box.
    pub fn within(mut self, bounds: &Region) -> Result<Self, Fault> {
        self.bounds = meet(&self.bounds, bounds)?;
        Ok(self)
    }

    /// All values of Σ wⱼ xⱼ.
    pub fn along(&self, weights: &[f64]) -> Interval {
        let dot = |row: &[f64]| {
            let mut dot = Dot::default();
            row.iter().zip(weights).for_each(|(g, w)| dot.add(*g, *w));
            dot.interval()
        };
        let far = self.generators.values().fold(0.0, |sum, row| add_up(sum, dot(row).size()));
        let rests = self.remainder.iter().zip(weights);
        let far = rests.fold(far, |sum, (rest, w)| add_up(sum, mul_up(*rest, w.abs())));
        dot(&self.centre) + Interval::new(-far, far)
    }

    /// All values of Σ |xⱼ|: entry by entry, and jointly, since |x| ≥ w x for weights in [−1, 1], and |x| is above v x by as much as it
    /// is at an end of its box, being convex.
    pub fn magnitudes(&self, lower: Option<&[f64]>, upper: Option<&[f64]>) -> Interval {
        let mut sum = self.bounds.iter().fold(Interval::ZERO, |sum, x| sum + x.abs());
        if let Some(weights) = lower {
            sum.low = sum.low.max(self.along(weights).low);
        }
        if let Some(weights) = upper {
            let beyond = |(x, v): (&Interval, &f64)| {
                let at = |end: f64| (Interval::point(end.abs()) - *v * Interval::point(end)).high;
                at(x.low).max(at(x.high))
            };
            let beyond = self.bounds.iter().zip(weights).map(beyond).fold(0.0, add_up);
            sum.high = sum.high.min(add_up(self.along(weights).high, beyond));
        }
        sum
    }
}

/// A fresh symbol that moves one of so many entries by so much.
fn alone(entry: usize, radius: f64, entries: usize, work: &mut Work) -> (u64, Vec<f64>) {
    let mut row = vec![0.0; entries];
    row[entry] = radius;
    (work.fresh(), row)
}

/// What two boxes have in common. Forms stand for some vector at least: what comes out empty is an error.
fn meet(a: &Region, b: &Region) -> Result<Region, Fault> {
    let meet = |(a, b): (&Interval, &Interval)| a.meet(*b);
    let both: Option<Region> = a.iter().zip(b).map(meet).collect();
    both.ok_or_else(|| Fault::wrong("the box of a form came out empty"))
}

#[cfg(test)]
mod tests;
