//! Two files of verdicts side by side.

use std::collections::HashMap;

use crate::document::{Line, Verdict, Verdicts};

/// A sample and radius that both files answer.
pub struct Pair<'a> {
    /// What the first says.
    pub first: &'a Line,
    /// What the second says.
    pub second: &'a Line,
}

impl Pair<'_> {
    /// Whether their verdicts differ.
    pub fn changed(&self) -> bool {
        self.first.verdict != self.second.verdict
    }

    /// Whether one proves what the other refutes. Of the same network, one of them must then be wrong.
    pub fn contradicts(&self) -> bool {
        let pair = (self.first.verdict, self.second.verdict);
        matches!(pair, (Verdict::Verified, Verdict::Falsified) | (Verdict::Falsified, Verdict::Verified))
    }
}

/// What two files have in common.
pub struct Comparison<'a> {
    /// Pairs, by sample and radius.
    pub pairs: Vec<Pair<'a>>,
    /// Whether both are about the same network on the same data in the same arithmetic.
    pub same_question: bool,
}

/// Compares two files on what both answer; nothing if they are about different data.
pub fn compare<'a>(first: &'a Verdicts, second: &'a Verdicts) -> Option<Comparison<'a>> {
    let agree = |keys: &[&str]| keys.iter().all(|key| first.setting.get(*key) == second.setting.get(*key));
    if !agree(&["data", "split", "data_hash", "order", "inputs_hash"]) {
        return None;
    }
    let key = |line: &Line| (line.index, line.eps.to_bits());
    let theirs: HashMap<_, _> = second.lines.iter().map(|line| (key(line), line)).collect();
    let pair = |line: &'a Line| Some(Pair { first: line, second: theirs.get(&key(line)).copied()? });
    let pairs = first.lines.iter().filter_map(pair).collect();
    let same_question = agree(&[
        "model",
        "arithmetic",
        "nu",
        "delta",
        "features",
        "feature_eps",
        "horizon",
        "grid",
        "property",
        "norm",
        "range",
        "box_hash",
    ]);
    Some(Comparison { pairs, same_question })
}

impl Comparison<'_> {
    /// How many pairs have these verdicts, the first file's first.
    pub fn count(&self, first: Verdict, second: Verdict) -> usize {
        self.pairs.iter().filter(|pair| pair.first.verdict == first && pair.second.verdict == second).count()
    }
}
