//! What result files ask of the collection that their lines are about.

use gains_core::Network;

use super::line::{Line, SamplePart, SubjectSetting};
use crate::question::{Answer, Task};

/// Samples of which lines tell.
pub trait Samples {
    /// The network that is asked.
    fn network(&self) -> &Network;

    /// What is asked.
    fn task(&self) -> Task;

    /// What a sample is called in messages.
    fn name(&self, index: usize) -> String;

    /// What all lines of a result file say about the collection.
    fn setting(&self) -> SubjectSetting;

    /// What a line says about its sample.
    fn sample_part(&self, index: usize, answer: &Answer) -> SamplePart;

    /// What is asked of the outputs, in one line of JSON; nothing if it is the usual.
    fn property(&self) -> Option<&str>;

    /// What is wrong with a line that claims to be about this collection.
    fn fault(&self, line: &Line) -> Option<String>;
}
