//! Samples as numbers, the boxes around them and the attacks on them.

use gains_core::Shape;

use crate::config::{Augment, ClassWeights};
use crate::cpu::Real;
use crate::device::uniform;
use crate::matrix::Matrix;
use crate::trainer::TrainError;

/// What is true of samples.
#[derive(Clone, Debug, PartialEq)]
pub enum Truth {
    /// Their classes.
    Classes(Vec<u32>),
    /// So many numbers of each.
    Numbers {
        /// How many.
        each: usize,
        /// All of them, sample by sample.
        values: Vec<f32>,
    },
}

/// Samples to learn from and, behind them, samples to look at.
#[derive(Clone, Debug)]
pub struct Samples {
    /// Shape of an input.
    pub shape: Shape,
    /// All inputs, as the network takes them.
    pub inputs: Vec<f32>,
    /// What is true of them.
    pub truth: Truth,
    /// How many are learned from.
    pub training: usize,
    /// What eps is multiplied with, for every entry of an input.
    pub radii: Vec<f32>,
    /// Where entries stay when they are perturbed.
    pub range: Option<[f32; 2]>,
}

impl Samples {
    /// How many there are.
    pub fn len(&self) -> usize {
        self.inputs.len() / self.shape.len().max(1)
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.inputs.is_empty()
    }

    /// Refuses samples that do not fit a network with so many outputs.
    pub fn check(&self, outputs: usize) -> Result<(), TrainError> {
        let count = self.len();
        let known = match &self.truth {
            Truth::Classes(labels) => labels.len(),
            Truth::Numbers { each, values } if *each == outputs => values.len() / each,
            Truth::Numbers { each, .. } => {
                let message =
                    format!("{each} numbers are known of each sample, the network predicts {outputs}");
                return Err(TrainError::Data(message));
            }
        };
        if self.training == 0 || self.training > count {
            return Err(TrainError::Data("there are no training samples".into()));
        }
        if known != count || self.radii.len() != self.shape.len() {
            return Err(TrainError::Data(format!("{known} labels are known of {count} samples")));
        }
        if let Truth::Classes(labels) = &self.truth
            && let Some(label) = labels.iter().find(|label| **label as usize >= outputs)
        {
            let message = format!("a sample has the label {label}, and there are {outputs} classes");
            return Err(TrainError::Data(message));
        }
        Ok(())
    }

    /// What samples of every class weigh, so that the mean over the training samples is 1.
    pub fn weights(&self, wanted: &ClassWeights, classes: usize) -> Result<Vec<f64>, TrainError> {
        let Truth::Classes(labels) = &self.truth else { return Ok(Vec::new()) };
        let mut counts = vec![0.0_f64; classes];
        labels[..self.training].iter().for_each(|label| counts[*label as usize] += 1.0);
        let weights: Vec<f64> = match wanted {
            ClassWeights::Equal => return Ok(vec![1.0; classes]),
            ClassWeights::Balanced => counts.iter().map(|count| 1.0 / count.max(1.0)).collect(),
            ClassWeights::Each(weights) if weights.len() == classes => weights.clone(),
            ClassWeights::Each(weights) => {
                return Err(TrainError::Data(format!(
                    "data.class_weights has {} numbers for {classes} classes",
                    weights.len()
                )));
            }
        };
        let total: f64 = weights.iter().zip(&counts).map(|(weight, count)| weight * count).sum();
        if total <= 0.0 {
            return Err(TrainError::Data("data.class_weights leave no sample any weight".into()));
        }
        Ok(weights.iter().map(|weight| weight * self.training as f64 / total).collect())
    }

    /// The inputs at these indices; moved, if a seed is given and they are to be.
    pub fn gather<F: Real>(&self, indices: &[u32], augment: Augment, seed: Option<u64>) -> Matrix<F> {
        let length = self.shape.len();
        let mut values = Vec::with_capacity(indices.len() * length);
        for (row, index) in indices.iter().enumerate() {
            let input = &self.inputs[*index as usize * length..][..length];
            match seed.filter(|_| augment != Augment::default()) {
                Some(seed) => self.augment(input, augment, seed, row, &mut values),
                None => values.extend(input.iter().map(|value| F::of(f64::from(*value)))),
            }
        }
        Matrix::points(indices.len(), length, values)
    }

    fn augment<F: Real>(&self, input: &[f32], augment: Augment, seed: u64, row: usize, out: &mut Vec<F>) {
        let Shape { height, width, channels } = self.shape;
        let draw = |number: usize| f64::from(uniform(seed, (3 * row + number) as u32));
        let reach = augment.shift as i64;
        let shift = |number: usize| (draw(number) * (2 * reach + 1) as f64) as i64 - reach;
        let (down, right, mirrored) = (shift(0), shift(1), augment.flip && draw(2) < 0.5);
        for at in 0..height * width {
            let (row, column) = ((at / width) as i64 - down, (at % width) as i64 - right);
            let column = if mirrored { width as i64 - 1 - column } else { column };
            let inside = (0..height as i64).contains(&row) && (0..width as i64).contains(&column);
            let from = (row * width as i64 + column) as usize * channels;
            let value = |channel| if inside { f64::from(input[from + channel]) } else { 0.0 };
            out.extend((0..channels).map(|channel| F::of(value(channel))));
        }
    }

    fn clamp<F: Real>(&self, value: F) -> F {
        match self.range {
            Some([low, _]) if value < F::of(f64::from(low)) => F::of(f64::from(low)),
            Some([_, high]) if value > F::of(f64::from(high)) => F::of(f64::from(high)),
            _ => value,
        }
    }

    fn radius<F: Real>(&self, at: usize, eps: f64) -> F {
        F::of(eps * f64::from(self.radii[at % self.radii.len()]))
    }

    /// The boxes of a radius around inputs, within the range.
    pub fn region<F: Real>(&self, inputs: &Matrix<F>, eps: f64) -> Matrix<F> {
        let mut boxes = Matrix::zeros(inputs.rows, inputs.columns, true);
        for (at, value) in inputs.centre.iter().enumerate() {
            let reach = self.radius(at, eps);
            let (low, high) = (self.clamp(*value - reach), self.clamp(*value + reach));
            boxes.centre[at] = F::HALF * (low + high);
            boxes.radius[at] = F::HALF * (high - low);
        }
        boxes
    }

    /// Inputs plus noise of at most eps.
    pub fn scatter<F: Real>(&self, inputs: &Matrix<F>, eps: f64, seed: u64) -> Matrix<F> {
        let moved = inputs.centre.iter().enumerate().map(|(at, value)| {
            let draw = F::of(f64::from(uniform(seed, at as u32)));
            self.clamp(*value + self.radius::<F>(at, eps) * ((draw + draw) - F::ONE))
        });
        Matrix::points(inputs.rows, inputs.columns, moved.collect())
    }

    /// One sign step of an attack, by `part` of the radius, back to within eps of the inputs.
    pub fn ascend<F: Real>(
        &self,
        attacked: &mut Matrix<F>,
        gradient: &Matrix<F>,
        inputs: &Matrix<F>,
        (part, eps): (f64, f64),
    ) {
        for (at, value) in attacked.centre.iter_mut().enumerate() {
            let (reach, centre) = (self.radius::<F>(at, eps), inputs.centre[at]);
            let moved = *value + self.radius::<F>(at, part * eps) * gradient.centre[at].sign();
            let (low, high) = (centre - reach, centre + reach);
            let moved = if moved < low {
                low
            } else if moved > high {
                high
            } else {
                moved
            };
            *value = self.clamp(moved);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn samples(shape: Shape, inputs: Vec<f32>, labels: Vec<u32>) -> Samples {
        let training = labels.len();
        let radii = vec![1.0; shape.len()];
        Samples { shape, inputs, truth: Truth::Classes(labels), training, radii, range: Some([0.0, 1.0]) }
    }

    #[test]
    fn images_are_shifted_and_mirrored_and_nothing_else() {
        let pixels: Vec<f32> = (1..=12).map(|value| value as f32 / 12.0).collect();
        let all = samples(Shape::image(3, 4, 1), pixels.clone(), vec![0]);
        let plain = all.gather::<f64>(&[0], Augment::default(), Some(3));
        assert_eq!(plain.centre, pixels.iter().map(|v| f64::from(*v)).collect::<Vec<_>>());
        let mut seen = std::collections::HashSet::new();
        for seed in 0..200 {
            let moved = all.gather::<f64>(&[0], Augment { shift: 1, flip: true }, Some(seed)).centre;
            let again = all.gather::<f64>(&[0], Augment { shift: 1, flip: true }, Some(seed)).centre;
            assert_eq!(moved, again);
            // Neighbours stay neighbours, in one direction or the other.
            let steps: Vec<f64> =
                moved.windows(2).filter(|w| w[0] > 0.0 && w[1] > 0.0).map(|w| 12.0 * (w[1] - w[0])).collect();
            assert!(steps.iter().all(|step| step.abs() < 9.0), "{moved:?}");
            seen.insert(moved.iter().map(|v| (12.0 * v).round() as i64).collect::<Vec<_>>());
        }
        assert_eq!(seen.len(), 18, "3 × 3 shifts, mirrored or not");
        let still = all.gather::<f64>(&[0], Augment { shift: 1, flip: true }, None);
        assert_eq!(still.centre, plain.centre, "only what is learned from is moved");
    }

    #[test]
    fn boxes_and_attacks_stay_in_the_region() {
        let mut all = samples(Shape::flat(3), vec![0.05, 0.5, 0.98], vec![0]);
        all.radii = vec![1.0, 0.5, 2.0];
        let inputs = all.gather::<f64>(&[0], Augment::default(), None);
        let boxes = all.region(&inputs, 0.1);
        let ends: Vec<(f64, f64)> =
            boxes.centre.iter().zip(&boxes.radius).map(|(c, r)| (c - r, c + r)).collect();
        for ((low, high), (a, b)) in ends.iter().zip([(0.0, 0.15), (0.45, 0.55), (0.78, 1.0)]) {
            assert!((low - a).abs() < 1e-7 && (high - b).abs() < 1e-7, "{ends:?}");
        }
        for seed in 0..50 {
            let mut attacked = all.scatter(&inputs, 0.1, seed);
            let gradient = Matrix::points(1, 3, vec![-1.0, 1.0, 0.5]);
            for round in 0..4 {
                for (value, (low, high)) in attacked.centre.iter().zip(&ends) {
                    assert!((low - 1e-9..=high + 1e-9).contains(value), "{round}");
                }
                all.ascend(&mut attacked, &gradient, &inputs, (0.7, 0.1));
            }
            for (value, end) in attacked.centre.iter().zip([ends[0].0, ends[1].1, ends[2].1]) {
                assert!((value - end).abs() < 1e-7);
            }
        }
    }

    #[test]
    fn class_weights_leave_the_mean_of_the_samples_as_it_is() {
        let all = samples(Shape::flat(1), vec![0.0; 4], vec![0, 1, 1, 1]);
        let balanced = all.weights(&ClassWeights::Balanced, 2).unwrap();
        assert!((balanced[0] - 2.0).abs() < 1e-12 && (balanced[1] - 2.0 / 3.0).abs() < 1e-12);
        let given = all.weights(&ClassWeights::Each(vec![1.0, 0.0]), 2).unwrap();
        assert_eq!(given, [4.0, 0.0]);
        assert!(all.weights(&ClassWeights::Each(vec![1.0]), 2).is_err());
    }
}
