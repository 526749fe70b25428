//! What a run learns from: samples, and the network that is made for them.

use std::ops::Range;
use std::path::Path;
use std::str::FromStr;

use gains_core::description::{LayerSpec, Task};
use gains_core::model_file::{Tensors, read_parts};
use gains_core::{Description, Shape};
use gains_data::{Dataset, Images, Split};
use gains_train::config::{ClassWeights, DataConfig, Encoder};
use gains_train::program::{Samples, Truth};
use gains_train::solve::inference_step;
use gains_train::{Config, loss};

use super::own::Own;
use super::select::Jury;
use crate::failure::Failure;
use crate::{files, interrupt};

/// Everything a run needs before it begins.
pub struct Material {
    /// What is trained, without weights.
    pub description: Description,
    /// The weights it starts from, if they are not drawn.
    pub start: Option<Tensors>,
    /// What it learns from.
    pub lessons: Lessons,
    /// Samples of one's own: what is written down about them.
    pub own: Option<Own>,
}

/// Samples to learn from and to look at.
pub enum Lessons {
    /// Images of a known set.
    Images {
        /// To learn from.
        training: Bytes,
        /// To look at on the way.
        test: Bytes,
    },
    /// Anything as numbers.
    Samples(Samples),
}

/// Images with the channels of a pixel side by side.
#[derive(Default)]
pub struct Bytes {
    pixels: Vec<u8>,
    labels: Vec<u8>,
}

impl Bytes {
    /// The images in a range, as far as there are any.
    fn new(images: &Images, range: Range<usize>) -> Self {
        let plane = images.height() * images.width();
        let mut bytes = Self::default();
        for index in range.start..images.len().min(range.end) {
            let planes = images.planes(index);
            bytes.pixels.extend((0..plane).flat_map(|pixel| planes.iter().skip(pixel).step_by(plane)));
            // There are at most 256 classes in any set of labels that are bytes.
            bytes.labels.push(images.label(index) as u8);
        }
        bytes
    }

    /// As the trainer takes them.
    pub fn view(&self) -> gains_train::Images<'_> {
        gains_train::Images { pixels: &self.pixels, labels: &self.labels }
    }
}

impl Lessons {
    /// Nothing.
    pub fn none() -> Self {
        Self::Images { training: Bytes::default(), test: Bytes::default() }
    }

    /// As numbers between 0 and 1, for engines that take any network.
    pub fn into_samples(self, shape: Shape) -> Samples {
        match self {
            Self::Samples(samples) => samples,
            Self::Images { training, test } => {
                let pixels = training.pixels.iter().chain(&test.pixels);
                let labels = training.labels.iter().chain(&test.labels);
                Samples {
                    shape,
                    inputs: pixels.map(|byte| f32::from(*byte) / 255.0).collect(),
                    truth: Truth::Classes(labels.map(|label| u32::from(*label)).collect()),
                    training: training.labels.len(),
                    radii: vec![1.0; shape.len()],
                    range: Some([0.0, 1.0]),
                }
            }
        }
    }
}

impl Material {
    /// What a configuration asks for.
    pub fn load(config: &Config, data_dir: Option<&Path>) -> Result<Self, Failure> {
        let base = config.model.as_deref().map(read_model).transpose()?;
        match (&config.data, config.own_inputs()) {
            (Some(data), Some(inputs)) => Self::own(config, data, Path::new(inputs), base),
            _ => Self::known(config, data_dir, base),
        }
    }

    /// Samples of one's own.
    fn own(config: &Config, data: &DataConfig, inputs: &Path, base: Option<Base>) -> Result<Self, Failure> {
        let shape = config.input.or(base.as_ref().map(|base| base.description.input));
        let (own, samples) = interrupt::at_once(|| Own::read(config, data, inputs, shape))?;
        let (task, shape) = (own.task.clone(), samples.shape);
        check_augment(data, shape)?;
        if !config.is_described() {
            let description = family(config, &own, shape)?;
            return Ok(Self { description, start: None, lessons: Lessons::Samples(samples), own: Some(own) });
        }
        let (mut layers, start) = layers_of(config, base, &task)?;
        if let Some((mean, std)) = &own.standard {
            if matches!(layers.first(), Some(LayerSpec::Normalize { .. })) || config.model.is_some() {
                return Err(Failure::usage(
                    "data.standardise: the network already begins with its own numbers",
                )
                .hint("leave out data.standardise, or the normalize layer"));
            }
            layers.insert(0, LayerSpec::Normalize { mean: mean.clone(), std: std.clone() });
        }
        let description = Description::new(config.name.clone(), task, shape, layers);
        Ok(Self { description, start, lessons: Lessons::Samples(samples), own: Some(own) })
    }

    /// One of the known sets.
    fn known(config: &Config, data_dir: Option<&Path>, base: Option<Base>) -> Result<Self, Failure> {
        let dataset = Dataset::from_str(&config.dataset)?;
        let dir = gains_data::locate(data_dir, |name| std::env::var_os(name))?;
        let images = interrupt::at_once(|| Images::load(dataset, Split::Train, &dir))?;
        let shape = Shape::image(images.height(), images.width(), images.channels());
        if !config.is_described() && shape != config.network.image {
            return Err(Failure::new(format!(
                "network.image: is {}, {dataset} has {shape} images",
                config.network.image
            ))
            .hint(format!(
                "set network.image = {{ height = {}, width = {}, channels = {} }} and mean and std to match",
                shape.height, shape.width, shape.channels
            )));
        }
        config.data.as_ref().map_or(Ok(()), |data| check_augment(data, shape))?;
        let (training, test) = divide(config, dataset, &images, &dir)?;
        let name = |class| images.class_name(class).map_or_else(|| class.to_string(), String::from);
        let classes: Vec<String> = (0..images.classes()).map(name).collect();
        let lessons = Lessons::Images { training, test };
        if !config.is_described() {
            let description = config.description(inference_step(&config.solver, 0.0), &classes);
            return Ok(Self { description, start: None, lessons, own: None });
        }
        let task = Task::Classification { classes };
        let (layers, start) = layers_of(config, base, &task)?;
        let description = Description {
            dataset: Some(config.dataset.clone()),
            ..Description::new(config.name.clone(), task, shape, layers)
        };
        Ok(Self { description, start, lessons, own: None })
    }

    /// Whether the large operations of devices do for this run; what stands in the way, if not.
    pub fn obstacle(&self, config: &Config) -> Option<&'static str> {
        let plain_data = config.data.as_ref().is_none_or(|data| {
            data.class_weights == ClassWeights::Equal && data.augment == Default::default()
        });
        let obstacles = [
            (matches!(self.lessons, Lessons::Samples(_)), "samples of your own"),
            (!plain_data, "class weights and augmentation"),
            (config.optimiser.method != Default::default(), "optimisers other than adam"),
            (config.criterion != loss::Criterion::default(), "criteria other than cross_entropy"),
            (config.model.is_some() || !config.freeze.is_empty(), "networks to start from"),
            (
                config.phases.iter().any(|phase| phase.loss.watches_boxes()),
                "losses with tightness, balance or decisions",
            ),
        ];
        obstacles.into_iter().find(|(there, _)| *there).map(|(_, what)| what)
    }

    /// What networks are chosen by, where it is proof.
    pub fn jury(&self, config: &Config) -> Option<Jury> {
        let target = config.target();
        match &self.lessons {
            Lessons::Samples(samples) => Jury::new(config.selection, target, samples),
            Lessons::Images { test, .. } => {
                let held = Bytes { pixels: test.pixels.clone(), labels: test.labels.clone() };
                let lessons = Lessons::Images { training: Bytes::default(), test: held };
                Jury::new(config.selection, target, &lessons.into_samples(self.description.input))
            }
        }
    }
}

/// The network that `network` asks for, made for images of one's own: of their size, for their classes, and beginning with
/// their mean and deviation.
fn family(config: &Config, own: &Own, shape: Shape) -> Result<Description, Failure> {
    let Encoder { channels, kernel, stride, padding } = &config.network.encoder;
    let behind = |mut side: usize| {
        for _ in channels {
            side = (side + 2 * padding).checked_sub(*kernel)? / stride + 1;
        }
        Some(side)
    };
    let (Some(_), Some(_), Task::Classification { classes }) =
        (behind(shape.height), behind(shape.width), &own.task)
    else {
        return Err(Failure::usage(format!(
            "the network of this configuration takes larger images, the samples are {shape}"
        ))
        .hint("describe one for them with layers, or change network.encoder"));
    };
    let mut fitted = config.clone();
    fitted.network.image = shape;
    if let Some((mean, std)) = &own.standard {
        (fitted.network.mean, fitted.network.std) = (mean.clone(), std.clone());
    }
    Ok(Description { dataset: None, ..fitted.description(inference_step(&config.solver, 0.0), classes) })
}

/// A network to start from.
struct Base {
    path: String,
    description: Description,
    tensors: Tensors,
}

fn read_model(path: &str) -> Result<Base, Failure> {
    let file = Path::new(path);
    let bytes = files::read_model_file(file)?;
    let (description, tensors) = read_parts(&bytes).map_err(|error| {
        Failure::new(format!("'{path}': {error}"))
            .hint("model takes a file that `gains train` or `gains model import` wrote")
    })?;
    Ok(Base { path: path.into(), description, tensors })
}

/// The layers a configuration asks for, with the weights they start from.
fn layers_of(
    config: &Config,
    base: Option<Base>,
    task: &Task,
) -> Result<(Vec<LayerSpec>, Option<Tensors>), Failure> {
    let Some(base) = base else {
        return Ok((config.layers.clone().unwrap_or_default(), None));
    };
    let kind = std::mem::discriminant::<Task>;
    let fits = match (&base.description.task, task) {
        (Task::Classification { classes: old }, Task::Classification { classes: new }) => {
            old.len() == new.len()
        }
        (old, new) => kind(old) == kind(new),
    };
    if !fits {
        return Err(Failure::usage(format!(
            "'{}' was made for other outputs than the samples have",
            base.path
        ))
        .hint("a network to start from has as many classes as the samples"));
    }
    Ok((base.description.layers, Some(base.tensors)))
}

/// Refuses to move what is no image, or to move images out of sight.
fn check_augment(data: &DataConfig, shape: Shape) -> Result<(), Failure> {
    let side = shape.height.min(shape.width);
    if data.augment == Default::default() {
        return Ok(());
    }
    if shape.positions() == 1 {
        return Err(
            Failure::usage("data.augment: moves images, and the samples are none").hint("leave it out")
        );
    }
    if data.augment.shift >= side {
        let shift = data.augment.shift;
        return Err(Failure::usage(format!("data.augment.shift: {shift} pixels, the images are {shape}"))
            .hint(format!("at most {}; 2 is usual", side - 1)));
    }
    Ok(())
}

/// Images to learn from, and those to look at on the way: test images, or those held back for validation.
fn divide(config: &Config, dataset: Dataset, images: &Images, dir: &Path) -> Result<(Bytes, Bytes), Failure> {
    let held = config.validation;
    if held > 0 && held >= images.len() {
        return Err(Failure::new(format!(
            "validation: is {held}, and {dataset} has {} training images",
            images.len()
        ))
        .hint("keep some to train on, e.g. validation = 5000"));
    }
    let first = images.len() - held;
    let training = Bytes::new(images, 0..first.min(config.images.unwrap_or(usize::MAX)));
    if training.labels.is_empty() {
        return Err(Failure::new(format!("{dataset} holds no training images"))
            .hint(format!("fetch it again with `gains data fetch {dataset}`")));
    }
    let looks = config.rhythm.evaluation > 0 && config.rhythm.test_images > 0;
    let most = config.rhythm.test_images;
    let test = match (looks, held) {
        (false, _) => Bytes::default(),
        (true, 0) => Bytes::new(&Images::load(dataset, Split::Test, dir)?, 0..most),
        (true, _) => Bytes::new(images, first..first.saturating_add(most)),
    };
    Ok((training, test))
}
