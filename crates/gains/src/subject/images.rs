//! Images as a subject: `--data`, `--split`, `--samples`, and whether a model fits them.

use std::str::FromStr;

use gains_core::{Interval, Network, Shape};
use gains_data::{Dataset, Images, Split};

use super::classes::Collection;
use super::entries::Entries;
use super::{Selection, takes};
use crate::cli::{DataArgs, LayoutArg};
use crate::failure::Failure;
use crate::files::locate;
use crate::interrupt;

/// Values a pixel can take.
const PIXELS: Interval = Interval::new(0.0, 1.0);

/// Images that were read, and which of them were chosen.
pub struct ImageSource {
    images: Images,
    split: Split,
    indices: Vec<usize>,
    entries: Entries,
}

impl ImageSource {
    /// Loads the images a command works on and checks that the network can take them.
    pub fn open(args: &DataArgs, network: &Network) -> Result<Self, Failure> {
        let dataset = match (&args.data, &network.description.dataset) {
            (Some(name), _) => *name,
            (None, Some(name)) => Dataset::from_str(name).map_err(|_| {
                Failure::usage(format!(
                    "the model was made for '{name}', which this program has no reader for"
                ))
                .hint(
                    "give inputs with --inputs FILE (`gains data formats`), or choose a data set with --data",
                )
            })?,
            (None, None) => {
                return Err(Failure::usage("the model does not say which data set it was made for").hint(
                    "choose one with --data mnist, fashion-mnist or cifar10, or give your own with --inputs",
                ));
            }
        };
        let split = args.split.unwrap_or(Split::Test);
        let selection = args.samples.clone().unwrap_or_else(Selection::hundred);
        // The bundled images are the first of the Fashion-MNIST test set, so nothing else need be there.
        let bundled = args.data_dir.is_none()
            && dataset == Dataset::FashionMnist
            && split == Split::Test
            && selection.last() < Images::bundled().len();
        let images = if bundled {
            Images::bundled()
        } else {
            let dir = locate(args.data_dir.as_deref())?;
            interrupt::at_once(|| Images::load(dataset, split, &dir))?
        };
        let indices = selection.among(images.len()).map_err(|missing| {
            let there = images.len();
            Failure::usage(format!("--samples asks for image {missing}, {dataset} ({split}) has {there}"))
                .hint(format!("use --samples 0..{there}"))
        })?;
        check_shape(network, &images)?;
        let entries = Entries::new(network.input(), LayoutArg::Nchw, None);
        Ok(Self { images, split, indices, entries })
    }
}

fn check_shape(network: &Network, images: &Images) -> Result<(), Failure> {
    let input = network.input();
    let found = Shape::image(images.height(), images.width(), images.channels());
    if input != found || network.outputs() != images.classes() {
        return Err(Failure::usage(format!(
            "the model takes {} and tells {} classes apart, {} has {} and {}",
            takes(input),
            network.outputs(),
            images.dataset(),
            takes(found),
            images.classes()
        ))
        .hint("choose the data set the model was made for with --data, or give your own with --inputs"));
    }
    Ok(())
}

impl Collection for ImageSource {
    fn len(&self) -> usize {
        self.images.len()
    }

    fn indices(&self) -> &[usize] {
        &self.indices
    }

    fn values(&self, index: usize) -> Vec<f64> {
        self.images.image(index)
    }

    fn label(&self, index: usize) -> Option<usize> {
        Some(self.images.label(index))
    }

    fn class_name(&self, class: usize) -> Option<&str> {
        self.images.class_name(class)
    }

    fn entries(&self) -> &Entries {
        &self.entries
    }

    fn usual_range(&self) -> Option<Interval> {
        Some(PIXELS)
    }

    fn origin(&self) -> (String, String) {
        (self.images.dataset().to_string(), self.split.to_string())
    }

    fn noun(&self) -> &'static str {
        "images"
    }
}
