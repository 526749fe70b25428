//! Finding and reading the reference material.

use std::path::PathBuf;

use gains_core::Network;
use gains_core::import::import_checkpoint;
use gains_core::model_file::read_model;
use gains_data::{Dataset, Images, Split};

/// The reference folder, or `None` after saying that the test is skipped.
pub fn folder(test: &str) -> Option<PathBuf> {
    match std::env::var_os("GAINS_REFERENCE") {
        Some(path) => Some(PathBuf::from(path)),
        None => {
            println!("SKIPPED {test}: GAINS_REFERENCE is not set");
            None
        }
    }
}

/// One of the authors' networks, e.g. `mnist`, `prov_eps0.11_seed12345`.
pub fn network(folder: &std::path::Path, dataset: &str, name: &str) -> Network {
    let base = folder.join("weights").join(dataset).join(name);
    let weights = std::fs::read(base.with_file_name(format!("{name}.safetensors"))).expect("weights");
    let sidecar = std::fs::read_to_string(base.with_file_name(format!("{name}.json"))).expect("sidecar");
    let model = import_checkpoint(&weights, &sidecar).expect("the importer reads the authors' files");
    read_model(&model).expect("and what it writes can be read")
}

/// Test images, at least `count` of them.
pub fn images(folder: &std::path::Path, dataset: Dataset, count: usize) -> Option<Images> {
    let beside = folder.parent().map(|p| p.join("data"));
    let places = std::env::var_os("GAINS_DATA").map(PathBuf::from).into_iter().chain(beside);
    let found = places.filter_map(|dir| Images::load(dataset, Split::Test, &dir).ok()).next();
    match found {
        Some(images) => Some(images),
        None if dataset == Dataset::FashionMnist && count <= 100 => Some(Images::bundled()),
        None => {
            println!("SKIPPED a part: {dataset} is not in GAINS_DATA");
            None
        }
    }
}
