//! What comes out of a network against what is true.
//!
//! A machine says what a criterion looks at and takes slopes in that back; the criterion itself is a few numbers a sample, and
//! those are judged here.

use super::machine::Machine;
use super::ops::{Layer, Weights};
use crate::cpu::Real;
use crate::device::{Pull, Tally, WidthNorm};
use crate::gradients::Gradients;
use crate::loss::criterion::Measure;
use crate::matrix::Matrix;

/// What is true of a batch.
#[derive(Clone, Debug)]
pub enum Target {
    /// Classes.
    Classes(Vec<usize>),
    /// Numbers, row by row.
    Numbers(Vec<f64>),
}

/// How outputs become what a criterion looks at.
pub struct Outlook<'a, W> {
    /// The last layer, if it was taken off the network.
    pub head: Option<&'a Layer>,
    /// The parameters.
    pub weights: &'a W,
    /// What is true.
    pub target: Target,
    /// Outputs of the network.
    pub outputs: usize,
}

/// A criterion and all it needs to know of a batch.
pub struct Judge<'a, M: Machine> {
    /// Where the batch is.
    pub machine: &'a M,
    /// The criterion.
    pub criterion: &'a dyn Measure,
    /// What it looks at.
    pub outlook: Outlook<'a, M::Weights>,
    /// What samples weigh in the loss.
    pub shares: Vec<f64>,
    /// What the widths of their outputs weigh.
    pub width_weights: Vec<f32>,
    /// How widths are measured.
    pub norm: WidthNorm,
}

/// Differences of logits to the label's, or of outputs to what is true: middle and radius, row by row.
pub struct Seen {
    /// The middles; 0 for the label.
    pub centre: Vec<f64>,
    /// The radii; 0 for points.
    pub radius: Vec<f64>,
    /// Whether these are boxes.
    pub boxes: bool,
}

impl<W> Outlook<'_, W> {
    /// The right class of a sample.
    pub fn label(&self, sample: usize) -> usize {
        match &self.target {
            Target::Classes(labels) => labels[sample],
            Target::Numbers(_) => usize::MAX,
        }
    }
}

/// The same on this machine's processor.
impl<F: Real> Outlook<'_, Weights<F>> {
    /// Weight of class `c` less that of the label, for every entry of the features.
    fn row(&self, head: &Layer, class: usize, label: usize, entry: usize) -> f64 {
        let (depth, _) = head.sizes();
        let weights = &self.weights.values[head.weights()];
        weights[class * depth + entry].wide() - weights[label * depth + entry].wide()
    }

    /// What there is to look at.
    pub fn seen(&self, x: &Matrix<F>) -> Seen {
        let n = self.outputs;
        let mut seen =
            Seen { centre: vec![0.0; x.rows * n], radius: vec![0.0; x.rows * n], boxes: x.is_box() };
        for sample in 0..x.rows {
            let at = sample * x.columns;
            let centre = |entry: usize| x.centre[at + entry].wide();
            let radius = |entry: usize| x.radius.get(at + entry).map_or(0.0, |r| r.wide());
            for output in 0..n {
                let (c, r) = match (&self.target, self.head) {
                    (Target::Numbers(truth), _) => {
                        (centre(output) - truth[sample * n + output], radius(output))
                    }
                    (Target::Classes(labels), _) if labels[sample] == output => (0.0, 0.0),
                    (Target::Classes(labels), None) => {
                        let label = labels[sample];
                        (centre(output) - centre(label), radius(output) + radius(label))
                    }
                    (Target::Classes(labels), Some(head)) => {
                        let label = labels[sample];
                        let biases = &self.weights.values[head.biases()];
                        let mut sums = (biases[output].wide() - biases[label].wide(), 0.0);
                        for entry in 0..x.columns {
                            let weight = self.row(head, output, label, entry);
                            sums.0 += weight * centre(entry);
                            sums.1 += weight.abs() * radius(entry);
                        }
                        sums
                    }
                };
                (seen.centre[sample * n + output], seen.radius[sample * n + output]) = (c, r);
            }
        }
        seen
    }

    /// From slopes in what was seen to those in `x` and in the head.
    pub fn back(&self, x: &Matrix<F>, on: &Seen, into: &mut Gradients<F>) -> Matrix<F> {
        let n = self.outputs;
        let mut part = vec![[0.0; 2]; x.rows * x.columns];
        for sample in 0..x.rows {
            let at = sample * x.columns;
            for output in (0..n).filter(|output| *output != self.label(sample)) {
                let [c, r] = [on.centre[sample * n + output], on.radius[sample * n + output]];
                match (&self.target, self.head) {
                    (Target::Numbers(_), _) => part[at + output] = [c, r],
                    (Target::Classes(labels), None) => {
                        let ends = [(at + output, 1.0), (at + labels[sample], -1.0)];
                        for (place, sign) in ends {
                            part[place][0] += sign * c;
                            part[place][1] += r;
                        }
                    }
                    (Target::Classes(labels), Some(head)) => {
                        let pair = [output, labels[sample]];
                        self.through_head(
                            head,
                            x,
                            (sample, pair),
                            [c, r],
                            &mut part[at..at + x.columns],
                            into,
                        );
                    }
                }
            }
        }
        let lane = |index: usize| part.iter().map(|both| F::of(both[index])).collect();
        let radius = if x.is_box() { lane(1) } else { Vec::new() };
        Matrix { rows: x.rows, columns: x.columns, centre: lane(0), radius }
    }

    fn through_head(
        &self,
        head: &Layer,
        x: &Matrix<F>,
        (sample, [class, label]): (usize, [usize; 2]),
        [c, r]: [f64; 2],
        part: &mut [[f64; 2]],
        into: &mut Gradients<F>,
    ) {
        let (depth, _) = head.sizes();
        let (weights, biases) = (head.weights().start, head.biases().start);
        into.signed[biases + class] += F::of(c);
        into.signed[biases + label] -= F::of(c);
        for (entry, part) in part.iter_mut().enumerate() {
            let weight = self.row(head, class, label, entry);
            let at = sample * x.columns + entry;
            let radius = x.radius.get(at).map_or(0.0, |r| r.wide());
            let slope = F::of(c * x.centre[at].wide() + r * sign(weight) * radius);
            into.signed[weights + class * depth + entry] += slope;
            into.signed[weights + label * depth + entry] -= slope;
            part[0] += c * weight;
            part[1] += r * weight.abs();
        }
    }
}

impl<M: Machine> Judge<'_, M> {
    fn bounds(&self, seen: &Seen) -> Vec<f64> {
        let each = seen.centre.iter().zip(&seen.radius);
        match self.outlook.target {
            Target::Classes(_) => each.map(|(c, r)| c + r).collect(),
            Target::Numbers(_) => each.map(|(c, r)| c.abs() + r).collect(),
        }
    }

    /// What the criterion looks at: margins or absolute errors, of boxes their upper bounds.
    pub fn rows(&self, x: &M::Values) -> Vec<f64> {
        self.bounds(&self.machine.seen(&self.outlook, x))
    }

    /// Adds a batch to the tally, and what pulls at it to the gradients of the head; returns the gradient of `x`.
    pub fn judge(
        &self,
        x: &M::Values,
        pull: Pull<'_>,
        width: f64,
        tally: &mut Tally,
        into: &mut M::Gradients,
    ) -> M::Values {
        let n = self.outlook.outputs;
        let seen = self.machine.seen(&self.outlook, x);
        let bounds = self.bounds(&seen);
        // Slopes of the loss in the middles and radii of what was seen.
        let mut on =
            Seen { centre: vec![0.0; bounds.len()], radius: vec![0.0; bounds.len()], boxes: seen.boxes };
        for sample in 0..bounds.len() / n.max(1) {
            let range = sample * n..(sample + 1) * n;
            let (row, label) = (&bounds[range.clone()], self.outlook.label(sample));
            let (value, slopes) = self.criterion.of(row, label);
            tally.cross_entropy += self.shares[sample] * value;
            tally.samples += 1.0;
            match self.outlook.target {
                Target::Classes(_) => {
                    let leads = (0..n).all(|class| class == label || row[class] < 0.0);
                    tally.correct += f64::from(u8::from(leads));
                }
                Target::Numbers(_) => tally.error += row.iter().sum::<f64>() / n as f64,
            }
            let (share, given) = match pull {
                Pull::CrossEntropy(weight) => (weight * self.shares[sample], &slopes[..]),
                Pull::Margins(all) => (1.0, &all[range.clone()]),
            };
            for (output, at) in range.enumerate().filter(|(output, _)| *output != label) {
                let slope = share * given[output];
                on.centre[at] = match self.outlook.target {
                    Target::Classes(_) => slope,
                    Target::Numbers(_) => slope * sign(seen.centre[at]),
                };
                let (weight, spread) = (f64::from(self.width_weights[sample]), 2.0 * seen.radius[at]);
                let (size, steepness) = match self.norm {
                    WidthNorm::Squared => (spread * spread, 4.0 * spread),
                    WidthNorm::Absolute => (spread, 2.0),
                };
                if seen.boxes {
                    tally.width += weight * size;
                    on.radius[at] = slope + width * weight * steepness;
                }
            }
        }
        self.machine.seen_back(&self.outlook, x, &on, into)
    }
}

/// −1, 0 or 1.
fn sign(value: f64) -> f64 {
    if value == 0.0 { 0.0 } else { value.signum() }
}
