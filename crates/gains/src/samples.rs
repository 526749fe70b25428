//! Choosing samples: `--data`, `--samples`, and whether a model fits them.

use std::path::Path;
use std::str::FromStr;

use gains_core::Network;
use gains_data::{Dataset, Images, Split};

use crate::cli::DataArgs;
use crate::failure::Failure;
use crate::interrupt;

/// A list of indices: `0..1000`, `7`, `0..10,20,30..40`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selection(Vec<std::ops::Range<usize>>);

impl FromStr for Selection {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let number = |t: &str| t.trim().parse::<usize>().map_err(|_| format!("'{t}' is not an index"));
        let mut ranges = Vec::new();
        for part in text.split(',') {
            let range = match part.split_once("..") {
                Some((first, last)) => number(first)?..number(last)?,
                None => {
                    let index = number(part)?;
                    index..index.checked_add(1).ok_or("index too large")?
                }
            };
            if range.is_empty() {
                return Err(format!("'{part}' selects nothing (the end is not included)"));
            }
            ranges.push(range);
        }
        Ok(Self(ranges))
    }
}

impl Selection {
    /// The indices in the order given, each once.
    pub fn indices(&self) -> Vec<usize> {
        let mut seen = std::collections::HashSet::new();
        self.0.iter().cloned().flatten().filter(|i| seen.insert(*i)).collect()
    }

    /// The first hundred.
    pub fn hundred() -> Self {
        Self(std::iter::once(0..100).collect())
    }

    /// The largest index.
    pub fn last(&self) -> usize {
        self.0.iter().map(|r| r.end - 1).max().unwrap_or(0)
    }
}

/// Loads the images a command works on and checks that the network can take them.
pub fn load(args: &DataArgs, network: &Network) -> Result<(Images, Vec<usize>), Failure> {
    let dataset = match (&args.data, &network.description.dataset) {
        (Some(name), _) => *name,
        (None, Some(name)) => Dataset::from_str(name).map_err(|_| {
            Failure::usage(format!("the model was made for '{name}', which this program has no reader for"))
                .hint("choose a data set with --data")
        })?,
        (None, None) => {
            return Err(Failure::usage("the model does not say which data set it was made for")
                .hint("choose one with --data mnist, fashion-mnist or cifar10"));
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
        let dir = gains_data::locate(args.data_dir.as_deref(), |name| std::env::var_os(name))?;
        interrupt::at_once(|| Images::load(dataset, split, &dir))?
    };
    if selection.last() >= images.len() {
        return Err(Failure::usage(format!(
            "--samples asks for image {}, {dataset} ({}) has {}",
            selection.last(),
            split,
            images.len()
        ))
        .hint(format!("use --samples 0..{}", images.len())));
    }
    check_shape(network, &images)?;
    Ok((images, selection.indices()))
}

fn check_shape(network: &Network, images: &Images) -> Result<(), Failure> {
    let input = network.input();
    let found = gains_core::Shape::image(images.height(), images.width(), images.channels());
    if input != found || network.outputs() != images.classes() {
        return Err(Failure::usage(format!(
            "the model takes {input} images and tells {} classes apart, {} has {found} and {}",
            network.outputs(),
            images.dataset(),
            images.classes()
        ))
        .hint("choose the data set the model was made for with --data"));
    }
    Ok(())
}

/// The file name of a path, for messages.
pub fn short(path: Option<&Path>) -> String {
    path.and_then(Path::file_name)
        .map_or_else(|| "bundled model".into(), |n| n.to_string_lossy().into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn selections_parse_and_keep_their_order() {
        let indices = |text: &str| Selection::from_str(text).unwrap().indices();
        assert_eq!(indices("3"), [3]);
        assert_eq!(indices("0..3,10,2..4"), [0, 1, 2, 10, 3]);
        for bad in ["", "a", "5..5", "9..3", "-1", "1..", "0..3,", "99999999999999999999"] {
            assert!(Selection::from_str(bad).is_err(), "{bad}");
        }
    }
}
