//! One evaluation of a circuit over a box, as far as rows need it on their way back.

use std::sync::Arc;

use crate::arithmetic::Arithmetic;
use crate::interval::BoxVec;
use crate::operator::{Known, Operator};
use crate::support::Support;

use super::{Circuit, Way};
use crate::affine::Matrix;

/// What rows meet on their way back through one evaluation of a circuit, or through the change between two.
#[derive(Clone, Debug, Default)]
pub struct Trace {
    known: Vec<Known>,
    /// For every value, the entries that matter.
    entries: Vec<Option<Arc<[u32]>>>,
    /// For every value that is taken several times, its largest absolute entries.
    magnitudes: Vec<Vec<f64>>,
    /// Entries of the output that are not identically zero.
    pub alive: Arc<[u32]>,
}

/// For every value, the entries that rows may have coefficients on: where a following elementwise function is not
/// identically zero, where anything else takes an entry that is not.
fn supports(circuit: &Circuit, values: &[BoxVec]) -> Vec<Arc<[u32]>> {
    let mut needed: Vec<Option<Arc<[u32]>>> = vec![None; circuit.values()];
    let mut need = |value: usize, entries: Arc<[u32]>| {
        needed[value] = Some(match &needed[value] {
            None => entries,
            Some(known) if *known == entries => entries,
            Some(known) => {
                let mut all: Vec<u32> = known.iter().chain(entries.iter()).copied().collect();
                all.sort_unstable();
                all.dedup();
                all.into()
            }
        });
    };
    for (value, node) in circuit.nodes() {
        for &v in &node.from {
            let of = if node.operator.keeps_zeros() { v } else { value };
            need(v, values[of].alive().into());
        }
    }
    let output = circuit.output();
    need(output, values[output].alive().into());
    needed.into_iter().map(Option::unwrap_or_default).collect()
}

impl Trace {
    /// Of an evaluation with these enclosures of all values, and of what the rounding of each node is proportional to.
    pub fn of_values(
        circuit: &Circuit,
        values: &[BoxVec],
        magnitudes: &[Vec<f64>],
        time: f64,
        arithmetic: Arithmetic,
    ) -> Self {
        let supports = supports(circuit, values);
        let known = circuit.nodes().zip(magnitudes).map(|((value, node), magnitude)| {
            let arguments: Vec<&BoxVec> = node.from.iter().map(|&v| &values[v]).collect();
            let on = Support::entries(node.shape, supports[value].clone());
            node.operator.known(&arguments, magnitude, on, time, arithmetic)
        });
        let known = known.collect();
        Self::assemble(circuit, values, supports, known)
    }

    /// Of the change since another evaluation; `change` tells what is known of a node.
    pub fn of_change(
        circuit: &Circuit,
        moved: &[BoxVec],
        change: impl Fn(usize, &Operator, Support) -> Known,
    ) -> Self {
        // A change that is identically zero is one of the value and of the argument alike.
        let supports = supports(circuit, moved);
        let known = circuit.nodes().map(|(value, node)| {
            let on = Support::entries(node.shape, supports[value].clone());
            change(value, &node.operator, on)
        });
        let known = known.collect();
        Self::assemble(circuit, moved, supports, known)
    }

    fn assemble(circuit: &Circuit, values: &[BoxVec], supports: Vec<Arc<[u32]>>, known: Vec<Known>) -> Self {
        let inputs = circuit.inputs().len();
        let alive = values[circuit.output()].alive().into();
        // At the inputs it is the caller who says which entries matter.
        let entries = supports.into_iter().enumerate().map(|(v, s)| (v >= inputs).then_some(s)).collect();
        let uses = circuit.uses();
        let magnitudes = values
            .iter()
            .zip(uses)
            .map(|(b, uses)| if uses > 1 { b.magnitudes() } else { Vec::new() })
            .collect();
        Self { known, entries, magnitudes, alive }
    }

    /// Memory held, roughly.
    pub fn bytes(&self) -> usize {
        let entries: usize = self.entries.iter().flatten().map(|e| 4 * e.len()).sum();
        let magnitudes: usize = self.magnitudes.iter().map(|m| 8 * m.len()).sum();
        entries + magnitudes + self.known.iter().map(Known::bytes).sum::<usize>()
    }

    /// What rows meet.
    pub fn way<'a>(
        &'a self,
        matrices: &'a [Option<Matrix>],
        inputs: Option<&'a Arc<[u32]>>,
        arithmetic: Arithmetic,
    ) -> Way<'a> {
        let Self { known, entries, magnitudes, .. } = self;
        Way { known, entries, inputs, magnitudes, matrices, arithmetic }
    }

    /// What is known of a node.
    pub fn known(&self, index: usize) -> &Known {
        &self.known[index]
    }

    /// The entries that matter of the value a node makes.
    pub fn entries(&self, value: usize) -> Option<&Arc<[u32]>> {
        self.entries[value].as_ref()
    }
}
