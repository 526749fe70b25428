//! Samples of one's own, and what is done with samples before they are learned from.

use serde::{Deserialize, Serialize};

use super::is_default;

/// Which samples, how they are divided, and what becomes of them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct DataConfig {
    /// File or folder with inputs of one's own; without it, the samples are those of `dataset`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub inputs: Option<String>,
    /// File with what is true of them: classes, or numbers to predict.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub labels: Option<String>,
    /// The column of a table that holds what is true.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label_column: Option<String>,
    /// How pictures lie in arrays.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub layout: Option<Layout>,
    /// What all values are divided by; 255 for pictures if left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scale: Option<f64>,
    /// Where values stay when they are perturbed; anywhere if left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub range: Option<[f64; 2]>,
    /// What eps counts.
    pub unit: Unit,
    /// Whether the network begins by taking off the mean of the training samples and dividing by their deviation.
    pub standardise: bool,
    /// Part of the samples that is held back to choose networks by.
    pub validation: f64,
    /// Part of the samples that is held back to the end.
    pub test: f64,
    /// What classes weigh in the loss.
    pub class_weights: ClassWeights,
    /// How images are moved before they are learned from.
    pub augment: Augment,
}

impl Default for DataConfig {
    fn default() -> Self {
        Self {
            inputs: None,
            labels: None,
            label_column: None,
            layout: None,
            scale: None,
            range: None,
            unit: Unit::Value,
            standardise: false,
            validation: 0.15,
            test: 0.15,
            class_weights: ClassWeights::Equal,
            augment: Augment::default(),
        }
    }
}

/// How pictures lie in arrays.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Layout {
    /// Channel by channel.
    Nchw,
    /// Pixel by pixel.
    Nhwc,
}

/// What eps counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    /// The values as they are.
    #[default]
    Value,
    /// Deviations of each entry over the training samples.
    Deviation,
}

/// What classes weigh in the loss.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", from = "Said")]
pub enum ClassWeights {
    /// Every sample the same.
    #[default]
    Equal,
    /// Every class the same.
    Balanced,
    /// These numbers, one for each class.
    #[serde(untagged)]
    Each(Vec<f64>),
}

/// [`ClassWeights`] as they are written, so that what is none of them is answered with what there is.
#[derive(Deserialize)]
#[serde(untagged, expecting = "must be \"equal\", \"balanced\" or a number for each class, e.g. [1, 2.5]")]
enum Said {
    Word(Word),
    Each(Vec<f64>),
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum Word {
    Equal,
    Balanced,
}

impl From<Said> for ClassWeights {
    fn from(said: Said) -> Self {
        match said {
            Said::Word(Word::Equal) => Self::Equal,
            Said::Word(Word::Balanced) => Self::Balanced,
            Said::Each(weights) => Self::Each(weights),
        }
    }
}

/// How images are moved before they are learned from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Augment {
    /// Pixels by which they are shifted at most, in both directions; what comes in from outside is 0.
    pub shift: usize,
    /// Whether half of them are mirrored, left to right.
    pub flip: bool,
}

/// Which network of a run is kept.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Selection {
    /// What decides.
    pub by: By,
    /// How bounds are computed to choose by.
    pub method: Bounds,
    /// How many of the samples held back are looked at, from the first.
    pub samples: usize,
    /// Epochs between two looks.
    pub every: u32,
    /// First epoch of the whole run, from 0, whose network counts. None counts before eps is reached.
    #[serde(skip_serializing_if = "is_default")]
    pub from: u32,
    /// The run ends after more epochs than this without a better network.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub patience: Option<u32>,
}

impl Default for Selection {
    fn default() -> Self {
        Self { by: By::Certified, method: Bounds::Box, samples: 64, every: 1, from: 0, patience: None }
    }
}

/// What decides which network is kept. All look at samples held back, never at those of the test.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum By {
    /// The part proved robust at the perturbation trained for (of those that predict numbers: the bound of the error).
    Certified,
    /// The part that is right (the error, of networks that predict numbers).
    Accuracy,
}

/// Bounds to choose networks by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Bounds {
    /// Boxes: fast.
    Box,
    /// Linear bounds and steps in difference form: slow.
    Tight,
}
