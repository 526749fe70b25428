//! Networks that a study wants trained.

use std::path::PathBuf;
use std::sync::Arc;

use crate::failure::Outcome;

/// A network to be trained.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Order {
    /// The preset.
    pub preset: &'static str,
    /// What `--set` changes in it.
    pub changes: Vec<String>,
    /// Its seed.
    pub seed: u64,
    /// The folder of the run.
    pub folder: PathBuf,
}

impl Order {
    /// Where the network is once it is trained.
    pub fn model(&self) -> PathBuf {
        self.folder.join("model.safetensors")
    }

    /// What to type behind `gains`.
    pub fn words(&self) -> Vec<String> {
        let mut words: Vec<String> = vec![
            "train".into(),
            "--preset".into(),
            self.preset.into(),
            "--seed".into(),
            self.seed.to_string(),
        ];
        words.extend(self.changes.iter().flat_map(|change| ["--set".into(), change.clone()]));
        words.extend(["--out".into(), self.folder.display().to_string()]);
        words
    }

    /// The whole command, for people to copy.
    pub fn command(&self) -> String {
        let quoted = |word: &String| match word.chars().all(|c| c.is_alphanumeric() || "/._-+,=".contains(c))
        {
            true => word.clone(),
            false => format!("'{}'", word.replace('\'', r"'\''")),
        };
        format!("gains {}", self.words().iter().map(quoted).collect::<Vec<_>>().join(" "))
    }
}

/// Trains a network, or goes on training it.
pub type Train = Arc<dyn Fn(&Order) -> Outcome + Send + Sync>;

/// A name as folders have it.
pub fn slug(name: &str) -> String {
    let name = name.to_lowercase();
    let words = name.split(|c: char| !c.is_alphanumeric() && c != '.').filter(|word| !word.is_empty());
    words.collect::<Vec<_>>().join("-")
}
