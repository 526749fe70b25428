//! Result files in, one offline HTML page out.
//!
//! The crate knows nothing of networks: it reads what the other commands write as plain text ([`read`]), takes a few
//! pictures and a description of the model as plain data ([`Input`], [`ModelCard`]), and draws a page that needs
//! nothing but itself ([`render`]). Every text from a file is escaped where it enters the page, and the page forbids
//! all scripts but its own.
//!
//! ```
//! let line = r#"{"index":0,"label":3,"prediction":3,"eps":0.1,"verdict":"verified","margin":0.4,"seconds":0.1}"#;
//! let document = gains_report::read("mine.jsonl", line, &|_| Ok(()))?;
//! let page = gains_report::render(&gains_report::Report::new(vec![document]));
//! assert!(page.starts_with("<!DOCTYPE html>"));
//! # Ok::<(), gains_report::ReadError>(())
//! ```

mod compare;
mod document;
mod input;
mod model;
mod number;
mod page;
mod plot;
mod read;
pub mod serve;

pub use document::{
    Attacks, Bounds, Document, Feature, Forecast, Graph, Line, Losses, Progress, Run, Seal, Stage, Study,
    StudyCase, Trajectory, Verdict, Verdicts, Witness,
};
pub use input::{Channels, Input};
pub use model::{Block, ModelCard};
pub use page::render;
pub use read::{Check, ReadError, read};

/// What a page is made of.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// The files, in the order given.
    pub documents: Vec<Document>,
    /// Networks that results are about.
    pub models: Vec<ModelCard>,
    /// What samples look like.
    pub inputs: Vec<Input>,
    /// Whatever a reader should know besides, such as why there are no pictures.
    pub notes: Vec<String>,
    /// The state of the files, if the page is to ask its server whether it has changed ([`serve::Site::state`]).
    pub live: Option<String>,
}

impl Report {
    /// A page of these files, without pictures.
    pub fn new(documents: Vec<Document>) -> Self {
        Self { documents, ..Self::default() }
    }
}
