//! Linear constraints put together by *all*, *any* and *so many of*.
//!
//! Such a condition is monotone: what holds of it still holds when a constraint more is met. So its margin is the tree with
//! *all* read as the least, *any* as the greatest and *n of* as the n-th greatest of its parts, and lower bounds of the
//! constraints put into the tree give a lower bound of the margin. Nothing has to be multiplied out.

use super::linear::LinearRow;

/// Something that is asked of the outputs.
#[derive(Clone, Debug, PartialEq)]
pub enum Condition {
    /// One linear constraint.
    Row(LinearRow),
    /// All of these hold.
    All(Vec<Condition>),
    /// One of these holds.
    Any(Vec<Condition>),
    /// So many of these hold.
    AtLeast {
        /// How many, at least one.
        needed: usize,
        /// Of which.
        of: Vec<Condition>,
    },
}

/// More linear constraints than this are refused.
pub const MOST_ROWS: usize = 10_000;

impl Condition {
    /// The class that is predicted is one of some: no other output is above all of theirs.
    pub fn among(outputs: usize, allowed: &[usize]) -> Self {
        let is_ahead = |other: usize| {
            Self::Any(allowed.iter().map(|&a| Self::Row(LinearRow::lead(outputs, a, other))).collect())
        };
        Self::All((0..outputs).filter(|j| !allowed.contains(j)).map(is_ahead).collect())
    }

    /// A class is never predicted: some other output is above it.
    pub fn never(outputs: usize, class: usize) -> Self {
        let others = (0..outputs).filter(|j| *j != class);
        Self::Any(others.map(|j| Self::Row(LinearRow::lead(outputs, j, class))).collect())
    }

    /// An output is among the `kept` largest: of the others, at least `outputs − kept` are below it.
    pub fn top(outputs: usize, label: usize, kept: usize) -> Self {
        let others = (0..outputs).filter(|j| *j != label);
        let of = others.map(|j| Self::Row(LinearRow::lead(outputs, label, j))).collect();
        Self::AtLeast { needed: outputs.saturating_sub(kept), of }
    }

    /// What holds where this does not.
    #[must_use]
    pub fn negated(self) -> Self {
        let each = |parts: Vec<Self>| parts.into_iter().map(Self::negated).collect::<Vec<_>>();
        match self {
            Self::Row(row) => Self::Row(row.negated()),
            Self::All(parts) => Self::Any(each(parts)),
            Self::Any(parts) => Self::All(each(parts)),
            Self::AtLeast { needed, of } => {
                Self::AtLeast { needed: (of.len() + 1).saturating_sub(needed), of: each(of) }
            }
        }
    }

    /// How many of its parts must hold, and the parts; none of a single constraint.
    fn parts(&self) -> (usize, &[Self]) {
        match self {
            Self::Row(_) => (0, &[]),
            Self::All(parts) => (parts.len(), parts),
            Self::Any(parts) => (1, parts),
            Self::AtLeast { needed, of } => (*needed, of),
        }
    }

    /// What is wrong with it, if anything: a part that says nothing, or a constraint that is not made of so many numbers.
    pub(super) fn problem(&self, outputs: usize) -> Option<String> {
        let rows = self.rows();
        if rows.len() > MOST_ROWS {
            return Some(format!("{} linear constraints are more than {MOST_ROWS}", rows.len()));
        }
        let finite = |row: &LinearRow| {
            row.coefficients.iter().all(|a| a.is_finite())
                && row.constant.is_finite()
                && row.slack.is_finite()
        };
        if let Some(row) = rows.iter().find(|row| row.coefficients.len() != outputs || !finite(row)) {
            return Some(format!(
                "a row has {} coefficients for {outputs} outputs, or one is not finite",
                row.coefficients.len()
            ));
        }
        self.is_empty().then(|| "a part of it lists nothing, or asks for more than it lists".into())
    }

    fn is_empty(&self) -> bool {
        let (needed, parts) = self.parts();
        match self {
            Self::Row(_) => false,
            _ => !(1..=parts.len()).contains(&needed) || parts.iter().any(Self::is_empty),
        }
    }

    /// All constraints, depth first.
    pub fn rows(&self) -> Vec<&LinearRow> {
        match self {
            Self::Row(row) => vec![row],
            _ => self.parts().1.iter().flat_map(Self::rows).collect(),
        }
    }

    /// Whether all constraints must hold, so that each can be proved on its own.
    pub fn is_conjunction(&self) -> bool {
        let (needed, parts) = self.parts();
        needed == parts.len() && parts.iter().all(Self::is_conjunction)
    }

    /// The margin, given lower bounds of all constraints depth first, of which those of this part are taken. NaN, and what
    /// is not given, proves nothing.
    pub(super) fn margin(&self, lower: &mut impl Iterator<Item = f64>) -> f64 {
        match self {
            Self::Row(_) => lower.next().filter(|bound| !bound.is_nan()).unwrap_or(f64::NEG_INFINITY),
            _ => {
                let (needed, parts) = self.parts();
                counting(parts.iter().map(|part| part.margin(lower)).collect(), needed)
            }
        }
    }

    /// The constraints that still matter, given lower bounds of all of them depth first: those that are not shown to hold,
    /// in parts none of which is shown to hold as a whole. Nothing is left exactly where the margin is positive.
    pub(super) fn open(&self, lower: &[f64]) -> Vec<usize> {
        let mut found = Vec::new();
        self.gather_open(lower, &mut 0, &mut found);
        found
    }

    /// The margin of this part, whose first constraint is number `next`; what is open in it is added to a list.
    fn gather_open(&self, lower: &[f64], next: &mut usize, found: &mut Vec<usize>) -> f64 {
        if let Self::Row(_) = self {
            let (row, bound) = (*next, self.margin(&mut lower.iter().skip(*next).copied()));
            *next += 1;
            if bound <= 0.0 {
                found.push(row);
            }
            return bound;
        }
        let (needed, parts) = self.parts();
        let before = found.len();
        let all = parts.iter().map(|part| part.gather_open(lower, next, found)).collect();
        let margin = counting(all, needed);
        if margin > 0.0 {
            found.truncate(before);
        }
        margin
    }

    /// The constraint that lower bounds of all of them, depth first, make the margin hang on: its number, and its bound.
    pub(super) fn hanging_on(&self, lower: &[f64]) -> Option<usize> {
        self.hanging(lower, &mut 0).map(|(_, row)| row)
    }

    fn hanging(&self, lower: &[f64], next: &mut usize) -> Option<(f64, usize)> {
        if let Self::Row(_) = self {
            let row = *next;
            *next += 1;
            return Some((self.margin(&mut lower.iter().skip(row).copied()), row));
        }
        let (needed, parts) = self.parts();
        // All parts, so that those behind are numbered rightly.
        let found: Vec<_> = parts.iter().map(|part| part.hanging(lower, next)).collect();
        let mut all: Vec<(f64, usize)> = found.into_iter().collect::<Option<_>>()?;
        all.sort_by(|a, b| b.0.total_cmp(&a.0));
        nth(&all, needed).copied()
    }

    /// The margin at some outputs and the constraint that decides it; none if a part lists nothing.
    pub(super) fn decisive(&self, outputs: &[f64]) -> Option<(f64, &LinearRow)> {
        match self {
            Self::Row(row) => {
                let value = row.at(outputs);
                Some((if value.is_nan() { f64::NEG_INFINITY } else { value }, row))
            }
            _ => {
                let (needed, parts) = self.parts();
                let mut all: Vec<_> =
                    parts.iter().map(|part| part.decisive(outputs)).collect::<Option<_>>()?;
                all.sort_by(|a, b| b.0.total_cmp(&a.0));
                nth(&all, needed).copied()
            }
        }
    }

    /// Whether some outputs certainly break it: fewer parts are left unbroken than must hold.
    pub(super) fn is_broken_at(&self, outputs: &[f64]) -> bool {
        match self {
            Self::Row(row) => row.is_broken_at(outputs),
            _ => {
                let (needed, parts) = self.parts();
                parts.iter().filter(|part| !part.is_broken_at(outputs)).count() < needed
            }
        }
    }
}

/// The margin where so many parts with these margins must hold.
fn counting(mut all: Vec<f64>, needed: usize) -> f64 {
    all.sort_by(|a, b| b.total_cmp(a));
    nth(&all, needed).copied().unwrap_or(f64::NEG_INFINITY)
}

/// The n-th of a sorted list, counted from one.
fn nth<T>(sorted: &[T], n: usize) -> Option<&T> {
    sorted.get(n.checked_sub(1)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(coefficients: &[f64], constant: f64) -> Condition {
        Condition::Row(LinearRow::new(coefficients.to_vec(), constant))
    }

    /// Whether a condition holds, by its words.
    fn holds(condition: &Condition, outputs: &[f64]) -> bool {
        match condition {
            Condition::Row(row) => row.at(outputs) > 0.0,
            Condition::All(parts) => parts.iter().all(|part| holds(part, outputs)),
            Condition::Any(parts) => parts.iter().any(|part| holds(part, outputs)),
            Condition::AtLeast { needed, of } => {
                of.iter().filter(|part| holds(part, outputs)).count() >= *needed
            }
        }
    }

    fn margin(condition: &Condition, lower: &[f64]) -> f64 {
        condition.margin(&mut lower.iter().copied())
    }

    /// A condition of some depth over two outputs.
    fn random(random: &mut fastrand::Rng, depth: usize) -> Condition {
        let number = |random: &mut fastrand::Rng| f64::from(random.i8(-8..=8)) / 4.0;
        if depth == 0 || random.u8(0..4) == 0 {
            let coefficients = [number(random), number(random)];
            return row(&coefficients, number(random) + 0.1);
        }
        let parts: Vec<Condition> =
            (0..random.usize(1..4)).map(|_| self::random(random, depth - 1)).collect();
        match random.u8(0..4) {
            0 => Condition::All(parts),
            1 => Condition::Any(parts),
            2 => Condition::AtLeast { needed: random.usize(1..=parts.len()), of: parts },
            _ => Condition::All(parts).negated(),
        }
    }

    #[test]
    fn margins_are_positive_exactly_where_conditions_hold() {
        let mut draw = fastrand::Rng::with_seed(5);
        let (mut held, mut broken) = (0, 0);
        for _ in 0..400 {
            let condition = random(&mut draw, 3);
            assert_eq!(condition.problem(2), None);
            let opposite = condition.clone().negated();
            let (mut lowest, mut least) = (f64::INFINITY, vec![f64::INFINITY; condition.rows().len()]);
            for i in -6..=6 {
                for j in -6..=6 {
                    let outputs = [f64::from(i) / 3.0, f64::from(j) / 3.0];
                    let seen = condition.decisive(&outputs).unwrap().0;
                    assert_eq!(seen > 0.0, holds(&condition, &outputs), "{condition:?} at {outputs:?}");
                    assert_eq!(-seen, opposite.decisive(&outputs).unwrap().0, "{condition:?} at {outputs:?}");
                    assert!(!(condition.is_broken_at(&outputs) && opposite.is_broken_at(&outputs)));
                    assert!(seen > -1e-9 || condition.is_broken_at(&outputs), "{condition:?} at {outputs:?}");
                    assert!(seen < 1e-9 || !condition.is_broken_at(&outputs), "{condition:?} at {outputs:?}");
                    held += usize::from(seen > 0.0);
                    broken += usize::from(condition.is_broken_at(&outputs));
                    lowest = lowest.min(seen);
                    for (least, row) in least.iter_mut().zip(condition.rows()) {
                        *least = least.min(row.at(&outputs));
                    }
                }
            }
            assert!(margin(&condition, &least) <= lowest, "{condition:?}");
        }
        assert!(held > 10_000 && broken > 10_000, "{held} {broken}");
    }

    /// Raising everything that is open to above zero makes a condition hold, raising nothing of it leaves it as it is, and
    /// what the margin hangs on has it.
    #[test]
    fn what_is_open_is_all_that_is_missing() {
        let mut draw = fastrand::Rng::with_seed(6);
        let (mut shown, mut open) = (0, 0);
        for _ in 0..2000 {
            let condition = random(&mut draw, 3);
            let rows = condition.rows().len();
            let lower: Vec<f64> = (0..rows)
                .map(|_| match draw.u8(0..8) {
                    0 => f64::NAN,
                    1 => f64::NEG_INFINITY,
                    _ => 2.0 * draw.f64() - 1.0,
                })
                .collect();
            let (before, left) = (margin(&condition, &lower), condition.open(&lower));
            assert_eq!(before > 0.0, left.is_empty(), "{condition:?} {lower:?}");
            assert!(left.is_sorted() && left.iter().all(|&row| lower[row].is_nan() || lower[row] <= 0.0));
            let row = condition.hanging_on(&lower).unwrap();
            assert!(lower[row] == before || (lower[row].is_nan() && before == f64::NEG_INFINITY));
            assert!(before > 0.0 || left.contains(&row), "{condition:?} {lower:?}");
            let mut raised = lower.clone();
            left.iter().for_each(|&row| raised[row] = 0.5);
            assert!(margin(&condition, &raised) > 0.0, "{condition:?} {lower:?}");
            let others = (0..rows).map(|row| if left.contains(&row) { lower[row] } else { 9.0 });
            let others: Vec<f64> = others.collect();
            assert!(before > 0.0 || margin(&condition, &others) <= 0.0, "{condition:?} {lower:?}");
            shown += usize::from(left.is_empty());
            open += left.len();
        }
        assert!(shown > 200 && open > 1000, "{shown} {open}");
    }

    #[test]
    fn the_n_th_greatest_counts() {
        let of = || (0..3).map(|_| row(&[0.0], 1.0)).collect::<Vec<_>>();
        let at_least = |needed: usize| Condition::AtLeast { needed, of: of() };
        assert_eq!(margin(&at_least(1), &[-1.0, 0.5, 0.25]), 0.5);
        assert_eq!(margin(&at_least(2), &[-1.0, 0.5, 0.25]), 0.25);
        assert_eq!(margin(&at_least(3), &[-1.0, 0.5, 0.25]), -1.0);
        assert_eq!(margin(&at_least(2), &[f64::NAN, 0.5, f64::NAN]), f64::NEG_INFINITY, "NaN proves nothing");
        assert_eq!(
            margin(&Condition::All(of()), &[1.0, 1.0]),
            f64::NEG_INFINITY,
            "what is not given proves nothing"
        );
        assert!(at_least(3).is_conjunction() && !at_least(2).is_conjunction());
        assert!(at_least(0).problem(1).is_some() && at_least(4).problem(1).is_some());
        assert!(Condition::All(Vec::new()).problem(1).is_some());
        assert!(Condition::Any(vec![row(&[1.0], f64::NAN)]).problem(1).is_some());
        assert!(Condition::All(vec![row(&[1.0], 0.0); MOST_ROWS + 1]).problem(1).is_some());
    }

    #[test]
    fn classes_are_kept_by_their_outputs() {
        let outputs = [3.0, 2.0, 1.0, 0.0];
        let margin_of = |condition: &Condition| condition.decisive(&outputs).unwrap().0;
        assert_eq!(margin_of(&Condition::among(4, &[0])), 1.0);
        assert_eq!(margin_of(&Condition::among(4, &[1, 0])), 2.0);
        assert_eq!(margin_of(&Condition::among(4, &[2, 3])), -2.0);
        assert_eq!(margin_of(&Condition::never(4, 0)), -1.0);
        assert_eq!(margin_of(&Condition::never(4, 2)), 2.0);
        assert_eq!(margin_of(&Condition::top(4, 1, 1)), -1.0);
        assert_eq!(margin_of(&Condition::top(4, 1, 2)), 1.0);
        assert_eq!(margin_of(&Condition::top(4, 3, 3)), -1.0);
        assert_eq!(Condition::top(4, 1, 1).is_conjunction(), Condition::among(4, &[1]).is_conjunction());
        // Who is taken where two are equal is not for us to say.
        let equal = [1.0, 1.0, 0.0, 0.0];
        for class in [0, 1] {
            assert!(!Condition::among(4, &[class]).is_broken_at(&equal));
            assert!(!Condition::never(4, class).is_broken_at(&equal));
            assert!(!Condition::top(4, class, 1).is_broken_at(&equal));
        }
        assert!(
            Condition::top(4, 2, 2).is_broken_at(&equal) && !Condition::top(4, 2, 3).is_broken_at(&equal)
        );
    }
}
