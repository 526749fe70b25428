//! The images a run learns from and is tested on.

use std::path::Path;
use std::str::FromStr;

use gains_core::Shape;
use gains_data::{Dataset, Images, Split};
use gains_train::Config;

use crate::failure::Failure;
use crate::interrupt;

/// Training and test images as the trainer takes them.
pub struct Material {
    /// Names of the classes.
    pub classes: Vec<String>,
    training: Bytes,
    test: Bytes,
}

/// Images with the channels of a pixel side by side.
#[derive(Default)]
struct Bytes {
    pixels: Vec<u8>,
    labels: Vec<u8>,
}

impl Bytes {
    /// The first images, at most so many.
    fn new(images: &Images, most: usize) -> Self {
        let plane = images.height() * images.width();
        let mut bytes = Self::default();
        for index in 0..images.len().min(most) {
            let planes = images.planes(index);
            bytes.pixels.extend((0..plane).flat_map(|pixel| planes.iter().skip(pixel).step_by(plane)));
            // There are at most 256 classes in any set of labels that are bytes.
            bytes.labels.push(images.label(index) as u8);
        }
        bytes
    }

    fn view(&self) -> gains_train::Images<'_> {
        gains_train::Images { pixels: &self.pixels, labels: &self.labels }
    }
}

impl Material {
    /// What a configuration asks for.
    pub fn load(config: &Config, data_dir: Option<&Path>) -> Result<Self, Failure> {
        let dataset = Dataset::from_str(&config.dataset)?;
        let dir = gains_data::locate(data_dir, |name| std::env::var_os(name))?;
        let images = interrupt::at_once(|| Images::load(dataset, Split::Train, &dir))?;
        let shape = Shape::image(images.height(), images.width(), images.channels());
        if shape != config.network.image {
            return Err(Failure::new(format!(
                "network.image: is {}, {dataset} has {shape} images",
                config.network.image
            ))
            .hint(format!(
                "set network.image = {{ height = {}, width = {}, channels = {} }} and mean and std to match",
                shape.height, shape.width, shape.channels
            )));
        }
        let training = Bytes::new(&images, config.images.unwrap_or(usize::MAX));
        if training.labels.is_empty() {
            return Err(Failure::new(format!("{dataset} holds no training images"))
                .hint(format!("fetch it again with `gains data fetch {dataset}`")));
        }
        let looks = config.rhythm.evaluation > 0 && config.rhythm.test_images > 0;
        let test = match looks {
            true => Bytes::new(&Images::load(dataset, Split::Test, &dir)?, config.rhythm.test_images),
            false => Bytes::default(),
        };
        let name = |class| images.class_name(class).map_or_else(|| class.to_string(), String::from);
        let classes = (0..images.classes()).map(name).collect();
        Ok(Self { classes, training, test })
    }

    /// Images to learn from.
    pub fn training(&self) -> gains_train::Images<'_> {
        self.training.view()
    }

    /// Images to test on.
    pub fn test(&self) -> gains_train::Images<'_> {
        self.test.view()
    }
}
