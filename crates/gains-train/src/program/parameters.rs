//! The parameters of a network: named tensors in one list.

use std::ops::Range;

use gains_core::model_file::Tensors;

use crate::config::Initial;
use crate::plan::PlanError;

/// What a tensor holds, which decides how it begins and who changes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Weights of a layer.
    Weight,
    /// Biases behind the weights before.
    Bias,
    /// Factors, which begin at 1.
    Factor,
    /// Summands, which begin at 0.
    Zero,
    /// Running means; no gradient changes them.
    Mean,
    /// Running variances; no gradient changes them.
    Variance,
}

impl Kind {
    /// Whether gradients change it.
    fn is_learned(self) -> bool {
        !matches!(self, Self::Mean | Self::Variance)
    }
}

/// One tensor.
#[derive(Clone, Debug)]
struct Tensor {
    name: String,
    shape: Vec<usize>,
    range: Range<usize>,
    kind: Kind,
}

/// All of them, by layer.
#[derive(Clone, Debug)]
pub struct Parameters {
    tensors: Vec<Tensor>,
    /// Name of a layer and its tensors.
    groups: Vec<(String, Range<usize>)>,
    count: usize,
}

/// Name of a layer, and its tensors: name, shape.
pub type Layer = (String, Vec<(String, Vec<usize>)>);

impl Parameters {
    /// The tensors of layers, by name and shape, one after the other.
    pub fn new(layers: Vec<Layer>) -> Self {
        let mut all = Self { tensors: Vec::new(), groups: Vec::new(), count: 0 };
        for (layer, tensors) in layers {
            let first = all.tensors.len();
            for (name, shape) in tensors {
                let range = all.count..all.count + shape.iter().product::<usize>();
                all.count = range.end;
                all.tensors.push(Tensor { name, shape, range, kind: Kind::Weight });
            }
            all.groups.push((layer, first..all.tensors.len()));
        }
        all
    }

    /// How many numbers there are.
    pub fn count(&self) -> usize {
        self.count
    }

    /// Name of a layer.
    pub fn group_name(&self, index: usize) -> &str {
        self.groups.get(index).map_or("?", |(name, _)| name)
    }

    /// Says what the tensors of a layer are; where they are, if there are as many.
    pub fn set_kinds(&mut self, index: usize, kinds: &[Kind]) -> Option<Vec<Range<usize>>> {
        let tensors = &mut self.tensors[self.groups.get(index)?.1.clone()];
        if tensors.len() != kinds.len() {
            return None;
        }
        let each = tensors.iter_mut().zip(kinds);
        Some(
            each.map(|(tensor, kind)| {
                tensor.kind = *kind;
                tensor.range.clone()
            })
            .collect(),
        )
    }

    /// For every number, whether gradients change it: not where a name of `frozen`, or what it begins with, names it.
    ///
    /// # Errors
    /// If a name stands for nothing.
    pub fn learned(&self, frozen: &[String]) -> Result<Vec<bool>, PlanError> {
        let names = |prefix: &str, name: &str| {
            name.strip_prefix(prefix).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        };
        for prefix in frozen {
            if !self.tensors.iter().any(|tensor| names(prefix, &tensor.name)) {
                let there: Vec<&str> = self.groups.iter().map(|(name, _)| name.as_str()).collect();
                let problem = format!("freeze names no layer; there are {}", there.join(", "));
                return Err(PlanError::Layer { layer: format!("'{prefix}'"), problem });
            }
        }
        let mut learned = vec![true; self.count];
        for tensor in &self.tensors {
            let held = frozen.iter().any(|prefix| names(prefix, &tensor.name));
            learned[tensor.range.clone()].fill(tensor.kind.is_learned() && !held);
        }
        Ok(learned)
    }

    /// Where running statistics are: averages of weights do not apply to them.
    pub fn statistics(&self) -> impl Iterator<Item = Range<usize>> + '_ {
        self.tensors.iter().filter(|tensor| !tensor.kind.is_learned()).map(|tensor| tensor.range.clone())
    }

    /// Fresh parameters.
    pub fn initial(&self, seed: u64, how: Initial) -> Vec<f64> {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut all = vec![0.0; self.count];
        let mut inputs = 1;
        for tensor in &self.tensors {
            if tensor.kind == Kind::Weight {
                inputs = tensor.shape.iter().skip(1).product();
            }
            for value in &mut all[tensor.range.clone()] {
                *value = match tensor.kind {
                    Kind::Weight => how.weight(inputs, &mut random),
                    Kind::Bias => how.bias(inputs, &mut random),
                    Kind::Factor | Kind::Variance => 1.0,
                    Kind::Zero | Kind::Mean => 0.0,
                };
            }
        }
        all
    }

    /// Parameters out of named tensors.
    pub fn gather(&self, tensors: &Tensors) -> Result<Vec<f64>, PlanError> {
        let mut all = vec![0.0; self.count];
        for tensor in &self.tensors {
            match tensors.get(&tensor.name) {
                Some((shape, values)) if *shape == tensor.shape => {
                    all[tensor.range.clone()].copy_from_slice(values);
                }
                _ => return Err(PlanError::Tensor(tensor.name.clone())),
            }
        }
        Ok(all)
    }

    /// Parameters as named tensors, as model files hold them.
    pub fn scatter(&self, parameters: &[f64]) -> Tensors {
        let each = self.tensors.iter();
        each.map(|tensor| {
            (tensor.name.clone(), (tensor.shape.clone(), parameters[tensor.range.clone()].to_vec()))
        })
        .collect()
    }
}
