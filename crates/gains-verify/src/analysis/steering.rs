//! Which lines rows take outside ODE blocks.

use gains_core::arithmetic::analysis_error;
use gains_core::operator::curve::CurveKnown;
use gains_core::operator::{Elementwise, Steering};
use gains_core::relaxation::Lines;
use gains_core::{Arithmetic, LowerSlope, Precision, Program, Rows, Step};

use super::PreparedLines;

/// One policy for each group of rows, its lines prepared.
pub(super) struct BySlope<'a> {
    pub lines: &'a [PreparedLines],
    pub inputs: usize,
    pub arithmetic: Arithmetic,
    /// For every group.
    pub slopes: Vec<LowerSlope>,
}

impl Steering for BySlope<'_> {
    fn curve(&mut self, node: Elementwise, known: &CurveKnown, rows: &mut Rows) {
        let prepared = &self.lines[node.value - self.inputs];
        let of = |slope: &LowerSlope| prepared.iter().find(|(kind, _)| kind == slope).map(|(_, lines)| lines);
        let lines: Vec<&Lines> = self.slopes.iter().filter_map(of).collect();
        if !lines.is_empty() && lines.len() == self.slopes.len() {
            rows.relax(&lines);
        } else {
            rows.relax(&[&known.lines(LowerSlope::MinArea, self.arithmetic)]);
        }
    }
}

/// What the operators in front of the first ODE block compute at one point of the region for each row.
///
/// Node after node, for all rows: weights stay at hand, and only what rows will ask for is kept, each value in one
/// piece. Only how good a bound becomes depends on it.
#[derive(Default)]
pub(crate) struct Points {
    rows: usize,
    /// For every value, row after row; empty where nobody asks.
    values: Vec<Vec<f64>>,
}

impl Points {
    /// Of all values up to `last`; `inputs` has one point for each row, row after row, of every input. Nothing if
    /// there is an ODE block among them.
    pub fn run(program: &Program, last: usize, rows: usize, inputs: Vec<Vec<f64>>) -> Option<Self> {
        let nodes = || program.nodes().take_while(|(value, _)| *value <= last);
        let mut uses = vec![0_usize; program.values()];
        let mut asked = vec![false; program.values()];
        for (_, node) in nodes() {
            let Step::Plain(operator) = &node.operator else { return None };
            for &v in &node.from {
                uses[v] += 1;
                asked[v] |= operator.asks_for_points();
            }
        }
        let mut values = inputs;
        for (value, node) in nodes() {
            let Step::Plain(operator) = &node.operator else { return None };
            let mut all = Vec::with_capacity(rows * program.shape(value).len());
            for row in 0..rows {
                let arguments: Vec<&[f64]> = node.from.iter().map(|&v| part(&values[v], rows, row)).collect();
                all.extend(operator.evaluate(&arguments, 0.0, Precision::Float64));
            }
            values.push(all);
            for &v in &node.from {
                uses[v] -= 1;
                if uses[v] == 0 && !asked[v] {
                    values[v] = Vec::new();
                }
            }
        }
        Some(Self { rows, values })
    }

    /// Memory held, roughly.
    pub fn bytes(&self) -> usize {
        self.values.iter().map(|all| 8 * all.len()).sum()
    }

    /// A value at the point of a row.
    fn at(&self, row: usize, value: usize) -> Option<&[f64]> {
        let all = self.values.get(value).filter(|all| row < self.rows && !all.is_empty())?;
        Some(part(all, self.rows, row))
    }
}

/// One of so many equal parts.
fn part(all: &[f64], parts: usize, index: usize) -> &[f64] {
    let length = all.len() / parts.max(1);
    &all[index * length..][..length]
}

/// Two choices of lines at every activation, for recurrent encoders. Rows that do not know better take the first; a
/// row that knows at which point its bound is attained takes the better one there, and planes of products likewise.
pub(crate) struct Pairs<'a> {
    pub prepared: &'a [Option<[Lines; 2]>],
    pub inputs: usize,
    pub arithmetic: Arithmetic,
    /// Where the bounds of the rows are attained, if that is known.
    pub points: &'a Points,
}

impl Steering for Pairs<'_> {
    fn curve(&mut self, node: Elementwise, known: &CurveKnown, rows: &mut Rows) {
        let own;
        let lines = match self.prepared.get(node.value - self.inputs).and_then(Option::as_ref) {
            Some(lines) => lines,
            None => {
                own = known.pair(self.arithmetic);
                &own
            }
        };
        if self.points.rows != rows.count || self.at(0, node.argument).is_none() {
            rows.relax(&[&lines[0]]);
            return;
        }
        let place = rows.on().clone();
        let part;
        let lines = if lines[0].len() == rows.length {
            lines
        } else {
            part = [lines[0].cut(&place), lines[1].cut(&place)];
            &part
        };
        for row in 0..rows.count {
            if let Some(point) = self.points.at(row, node.argument) {
                relax_at(rows, row, lines, &place.cut(point));
            }
        }
    }

    fn at(&self, row: usize, value: usize) -> Option<&[f64]> {
        self.points.at(row, value)
    }
}

/// Pulls one row back through the better of two lines at a point, entry by entry.
fn relax_at(rows: &mut Rows, row: usize, lines: &[Lines; 2], point: &[f64]) {
    let gamma = analysis_error(rows.length);
    let (mut constant, mut owed) = (0.0, 0.0);
    for (i, a) in rows.row_mut(row).iter_mut().enumerate() {
        let line = |k: usize| {
            if *a > 0.0 {
                (lines[k].lower_slope[i], lines[k].lower_intercept[i])
            } else {
                (lines[k].upper_slope[i], lines[k].upper_intercept[i])
            }
        };
        let (first, second) = (line(0), line(1));
        let value = |(slope, intercept): (f64, f64)| *a * (slope * point[i] + intercept);
        // Larger is tighter on either side: a row bounds from below.
        let (slope, intercept) = if value(second) > value(first) { second } else { first };
        let offset = *a * intercept;
        *a *= slope;
        constant += offset;
        owed += offset.abs() + a.abs() * lines[0].magnitude[i];
    }
    rows.absorb(row, constant, gamma * owed);
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use gains_core::relaxation::Line;
    use gains_core::{Activation, BoxVec, Relaxation, Shape, Support};

    use super::*;

    fn unit(coefficient: f64) -> Rows {
        Rows::new(Support::full(Shape::flat(1)), vec![coefficient])
    }

    /// At 1 a row is its coefficient: its slack pays for what rounding adds to that.
    #[test]
    fn the_better_of_two_lines_pays_for_its_rounding() {
        let mut random = fastrand::Rng::with_seed(81);
        for _ in 0..2000 {
            let (a, slope) = (random.f64(), random.f64());
            let line = Line { slope, intercept: 0.0 };
            let lines: Lines =
                [Relaxation { lower: line, upper: line, magnitude: 1.0 }].into_iter().collect();
            let mut rows = unit(a);
            relax_at(&mut rows, 0, &[lines.clone(), lines], &[1.0]);
            let lost = a.mul_add(slope, -rows.row(0)[0]);
            assert!(rows.slack[0] >= -lost, "{a} {slope}: {:e} for {lost:e}", rows.slack[0]);
        }
    }

    fn tanh() -> CurveKnown {
        CurveKnown {
            activation: Activation::Tanh,
            on: Support::entries(Shape::flat(1), Arc::new([0])),
            before: BoxVec::new(vec![-1.0], vec![2.0]),
        }
    }

    /// `tanh` is nowhere its argument: rows that pass it as it is would be wrong on one side.
    fn below_tanh(rows: &Rows) {
        for x in [-1.0, -0.5, 0.0, 1.0, 2.0_f64] {
            for (row, sign) in [1.0, -1.0].into_iter().enumerate() {
                let value = rows.row(row)[0] * x + rows.constant[row] - rows.slack[row];
                assert!(value <= sign * x.tanh(), "{sign} at {x}: {value}");
            }
        }
    }

    #[test]
    fn rows_are_relaxed_where_no_lines_are_prepared() {
        let arithmetic = Arithmetic::Real;
        let node = Elementwise { value: 1, argument: 0 };
        let both = || Rows::new(Support::full(Shape::flat(1)), vec![1.0, -1.0]);
        let nothing = [PreparedLines::new()];
        for slopes in [Vec::new(), vec![LowerSlope::Zero]] {
            let mut rows = both();
            BySlope { lines: &nothing, inputs: 1, arithmetic, slopes }.curve(node, &tanh(), &mut rows);
            below_tanh(&rows);
        }
        let mut rows = both();
        Pairs { prepared: &[None], inputs: 1, arithmetic, points: &Points::default() }.curve(
            node,
            &tanh(),
            &mut rows,
        );
        below_tanh(&rows);
    }
}
