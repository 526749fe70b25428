//! How good a network is on samples that were held back, by proof: what the best network of a run is chosen by.

use gains_core::description::Task;
use gains_core::model_file::{Tensors, build};
use gains_core::{Description, Interval, Network};
use gains_train::config::{Bounds, By, Selection};
use gains_train::program::{Samples, Truth};
use gains_verify::{
    Budget, Method, Norm, Problem, Property, Region, Settings, Stage, StepForm, Verdict, Verifier,
};

use crate::failure::Failure;

/// Samples held back, and how they are looked at.
pub struct Jury {
    selection: Selection,
    eps: f64,
    inputs: Vec<Vec<f64>>,
    truth: Vec<usize>,
    radii: Vec<f64>,
    range: Interval,
}

impl Jury {
    /// The first samples behind those that are learned from; none where nothing is chosen by proof.
    pub fn new(selection: Option<Selection>, eps: Option<f64>, samples: &Samples) -> Option<Self> {
        let selection = selection.filter(|selection| selection.by == By::Certified)?;
        let Truth::Classes(labels) = &samples.truth else { return None };
        let length = samples.shape.len();
        let held = samples.training..samples.len().min(samples.training + selection.samples);
        let wide = |values: &[f32]| values.iter().map(|value| f64::from(*value)).collect::<Vec<f64>>();
        let range =
            samples.range.map_or((f64::NEG_INFINITY, f64::INFINITY), |[low, high]| (low.into(), high.into()));
        Some(Self {
            selection,
            eps: eps?,
            inputs: held.clone().map(|at| wide(&samples.inputs[at * length..][..length])).collect(),
            truth: held.map(|at| labels[at] as usize).collect(),
            radii: wide(&samples.radii),
            range: Interval::new(range.0, range.1),
        })
    }

    /// The part of the samples that a network is proved robust on.
    pub fn certified(&self, description: Description, tensors: &Tensors) -> Result<f64, Failure> {
        let network = build(description, tensors, String::new())
            .map_err(|error| Failure::new(format!("the network cannot be looked at: {error}")))?;
        let method = match self.selection.method {
            Bounds::Box => Method::Box,
            Bounds::Tight => Method::Tight,
        };
        let settings = Settings {
            stages: Stage::bounds(&[method]),
            step_form: StepForm::Difference,
            ..Settings::default()
        };
        let verifier = Verifier::new(settings);
        let problems = self.inputs.iter().zip(&self.truth);
        let proved = problems.filter(|(input, label)| {
            let problem = self.problem(&network, input, **label);
            // Not interrupted half way, or a run that is taken up again would choose otherwise.
            verifier.decide(&problem, Budget::default()).verdict == Verdict::Verified
        });
        Ok(proved.count() as f64 / self.inputs.len().max(1) as f64)
    }

    fn problem<'n>(&self, network: &'n Network, input: &[f64], label: usize) -> Problem<'n> {
        let radii: Vec<f64> = self.radii.iter().map(|radius| self.eps * radius).collect();
        let ranges = vec![self.range; input.len()];
        debug_assert!(matches!(network.description.task, Task::Classification { .. }));
        Problem {
            program: &network.body,
            region: Region::around(input, &radii, &ranges, Norm::Infinity),
            property: Property::classification(network.outputs(), label),
            nominal: vec![input.to_vec()],
            output: None,
        }
    }
}
