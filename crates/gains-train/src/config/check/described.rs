//! Layers, samples and choices that make no sense.

use gains_core::description::LayerSpec;

use super::{ensure, within};
use crate::config::{
    By, ClassWeights, Config, DataConfig, Initial, Problem, Selection, SolverConfig, Training,
};
use crate::loss::criterion::Kind;

impl Config {
    pub(super) fn check_described(&self) -> Result<(), Problem> {
        ensure(
            !(self.layers.is_some() && self.model.is_some()),
            "model",
            "a network comes from a file or from layers, not both",
            "leave one of them out",
        )?;
        ensure(
            self.layers.as_ref().is_none_or(|layers| !layers.is_empty()),
            "layers",
            "is empty",
            "list the layers as in a model file, see docs/model-format.md",
        )?;
        ensure(
            self.model.is_none() || self.initial == Initial::default(),
            "initial",
            "weights come from the model",
            "leave one of them out",
        )?;
        let odes = self.layers.iter().flatten().filter_map(|layer| match layer {
            LayerSpec::Ode { solver, .. } => SolverConfig::of(solver),
            _ => None,
        });
        odes.map(|solver| solver.control).try_for_each(|control| self.check_control("layers", control))
    }

    pub(super) fn check_data(&self, data: &DataConfig) -> Result<(), Problem> {
        let numbers = self.criterion.kind() == Kind::Numbers;
        for (key, part) in [("data.validation", data.validation), ("data.test", data.test)] {
            within(key.into(), part, 0.0, 0.9, "a part of the samples, e.g. 0.15")?;
        }
        ensure(
            data.validation + data.test <= 0.9,
            "data.validation",
            "with data.test leaves less than a tenth of the samples to learn from",
            "0.15 each is usual",
        )?;
        ensure(
            data.inputs.is_some() || (data.labels.is_none() && data.label_column.is_none()),
            "data.inputs",
            "is missing: there is nothing that labels belong to",
            "name the file with the inputs, or a known set with dataset",
        )?;
        ensure(
            data.labels.is_none() || data.label_column.is_none(),
            "data.labels",
            "classes come from a file or from a column, not both",
            "leave one of them out",
        )?;
        if let Some(scale) = data.scale {
            within("data.scale".into(), scale, f64::MIN_POSITIVE, f64::MAX, "values are divided by it")?;
        }
        if let Some([low, high]) = data.range {
            ensure(
                low < high && low.is_finite() && high.is_finite(),
                "data.range",
                format!("goes from {low} to {high}"),
                "give the smallest and the largest value, e.g. [0, 1]",
            )?;
        }
        ensure(
            !numbers || data.class_weights == ClassWeights::Equal,
            "data.class_weights",
            "there are no classes where numbers are predicted",
            "leave it out, or choose another criterion",
        )?;
        if let ClassWeights::Each(weights) = &data.class_weights {
            ensure(
                weights.iter().all(|weight| weight.is_finite() && *weight >= 0.0)
                    && weights.iter().any(|weight| *weight > 0.0),
                "data.class_weights",
                format!("is {weights:?}, must be numbers from 0 on, not all 0"),
                "\"balanced\" weighs every class the same",
            )?;
        }
        ensure(
            data.inputs.is_none() || self.is_described() || !numbers,
            "layers",
            "are missing: network tells classes apart, and numbers are to be predicted",
            "list the layers as in a model file, or start from one with model = \"FILE\"",
        )
    }

    pub(super) fn check_selection(&self, selection: &Selection) -> Result<(), Problem> {
        let held = match &self.data {
            Some(data) if data.inputs.is_some() => data.validation > 0.0,
            _ => self.validation > 0 && self.rhythm.test_images > 0 && self.rhythm.evaluation > 0,
        };
        ensure(
            held,
            "selection",
            "there are no samples to choose by: test samples are not looked at",
            "hold some back, with data.validation = 0.15 or validation = 5000",
        )?;
        ensure(
            selection.samples > 0 && selection.every > 0,
            "selection.samples",
            "samples and every must be at least 1",
            "64 samples after every epoch is the default",
        )?;
        ensure(
            selection.by != By::Certified || self.method == Training::Provable,
            "selection.by",
            "only provable training has a perturbation to certify at",
            "choose by = \"accuracy\"",
        )
    }
}
