//! Networks that results are about, and what a page says of them.

use std::collections::BTreeSet;
use std::path::PathBuf;

use gains_core::description::Task as Purpose;
use gains_report::{Block, Document, ModelCard};

use super::shared;
use crate::commands::model::show;
use crate::failure::Failure;
use crate::question::Model;
use crate::{bundled, files};

/// Networks by their content hash.
pub struct Models {
    /// What `--model` named, then those of training runs that are shown, then the bundled ones.
    known: Vec<Entry>,
    /// How many were named.
    given: usize,
    /// How many have a card in any case.
    shown: usize,
}

struct Entry {
    file: String,
    model: Model,
}

impl Models {
    /// Reads what was named, what lies in the folders of finished runs, and the bundled ones.
    pub fn open(paths: &[PathBuf], runs: &[PathBuf]) -> Result<Self, Failure> {
        let mut known = Vec::new();
        for path in paths {
            let model = Model::new(files::load_model(Some(path))?);
            known.push(Entry { file: path.display().to_string(), model });
        }
        for path in runs.iter().map(|run| run.join("model.safetensors")).filter(|path| path.is_file()) {
            // A run can be shown without its network.
            if let Ok(network) = files::load_model(Some(&path)) {
                known.push(Entry { file: path.display().to_string(), model: Model::new(network) });
            }
        }
        let shown = known.len();
        for entry in &bundled::MODELS {
            known.push(Entry { file: entry.name.into(), model: Model::new(entry.network()?) });
        }
        Ok(Self { known, given: paths.len(), shown })
    }

    /// Every network that was named must be one that results are about.
    pub fn check(&self, documents: &[Document]) -> Result<(), Failure> {
        let hashes: BTreeSet<&str> =
            documents.iter().filter_map(|document| shared(document, "model")).collect();
        let runs: Vec<&str> = self.known[self.given..self.shown]
            .iter()
            .map(|entry| entry.model.network().hash.as_str())
            .collect();
        let stranger = self.known[..self.given].iter().find(|entry| {
            let hash = entry.model.network().hash.as_str();
            !hashes.contains(hash) && !runs.contains(&hash)
        });
        match stranger {
            // Figures of a training run do not name their network.
            Some(entry) if !hashes.is_empty() => Err(Failure::usage(format!(
                "--model {} has the content hash {}, the results are about {}",
                entry.file,
                entry.model.network().hash,
                hashes.iter().copied().collect::<Vec<_>>().join(", ")
            ))
            .hint("give the network the results were made with; `gains model show` tells a network's hash")),
            _ => Ok(()),
        }
    }

    /// The network with this hash.
    pub fn find(&self, hash: &str) -> Option<&Model> {
        self.known.iter().map(|entry| &entry.model).find(|model| model.network().hash == hash)
    }

    /// Cards of the networks that were named, and of bundled ones that results are about.
    pub fn cards(&self, documents: &[Document]) -> Vec<ModelCard> {
        let about = |entry: &Entry| {
            documents.iter().any(|d| shared(d, "model") == Some(entry.model.network().hash.as_str()))
        };
        let mut cards: Vec<ModelCard> = Vec::new();
        for (place, entry) in self.known.iter().enumerate() {
            let new = cards.iter().all(|card| card.hash != entry.model.network().hash);
            if new && (place < self.shown || about(entry)) {
                cards.push(card(entry));
            }
        }
        cards
    }
}

fn card(entry: &Entry) -> ModelCard {
    let network = entry.model.network();
    let d = &network.description;
    let fact = |name: &str, value: String| (name.to_owned(), value);
    ModelCard {
        name: d.name.clone(),
        file: entry.file.clone(),
        hash: network.hash.clone(),
        facts: vec![
            fact("task", show::task(&d.task)),
            fact("data set", d.dataset.clone().unwrap_or_else(|| "not said".into())),
            fact("input", d.input.to_string()),
            fact("parameters", network.parameters().to_string()),
        ],
        blocks: blocks(&show::layers(network)),
        classes: match &d.task {
            Purpose::Classification { classes } => classes.clone(),
            Purpose::Forecasting { .. } | Purpose::Regression { .. } => Vec::new(),
        },
        training: show::training(network),
    }
}

/// Indented layers are inside the one before them.
fn blocks(layers: &[Vec<String>]) -> Vec<Block> {
    let mut blocks: Vec<Block> = Vec::new();
    for layer in layers {
        let [title, shape, parameters] = &layer[..] else { continue };
        match blocks.last_mut() {
            Some(block) if title.starts_with(' ') => block.inside.push(title.trim().into()),
            _ => blocks.push(Block {
                title: title.trim().into(),
                shape: shape.clone(),
                parameters: parameters.parse().unwrap_or(0),
                inside: Vec::new(),
            }),
        }
    }
    blocks
}
