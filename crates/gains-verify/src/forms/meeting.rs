//! Sets of states that meet at one place of the solver.

use std::collections::HashMap;
use std::sync::Arc;

use gains_core::affine_form::{AffineForm, Symbol};
use gains_ode::Arrived;

use super::steps::{FormSteps, Travelling, tidying};
use super::{APART, CLOSE, SAME};

impl FormSteps<'_> {
    /// Joins sets of states that are nearly the same, the closest first: those that hardly widen by it, and others while
    /// there are more than a few.
    pub(super) fn join_close(&mut self, arrivals: &mut Vec<Arrived<Travelling>>) {
        let mut known: HashMap<(Symbol, Symbol), f64> = HashMap::new();
        while arrivals.len() > 1 && self.over.is_none() {
            let allowed = if arrivals.len() <= APART { SAME } else { CLOSE };
            let mut best: Option<(usize, usize, f64)> = None;
            for (i, j) in (1..arrivals.len()).flat_map(|j| (0..j).map(move |i| (i, j))) {
                let (a, b) = (&arrivals[i].state, &arrivals[j].state);
                let excess = *known.entry((a.origin, b.origin)).or_insert_with(|| self.excess(a, b));
                if best.is_none_or(|(.., least)| excess < least) {
                    best = Some((i, j, excess));
                }
            }
            let Some((i, j, _)) = best.filter(|(.., excess)| *excess < allowed) else { return };
            self.join(arrivals, i, j);
        }
    }

    /// By how much the sets widen if they are joined, at most; as a share of what they are.
    fn excess(&mut self, a: &Travelling, b: &Travelling) -> f64 {
        let side = self.symbols.fresh();
        let joined = a.state.join_beside(&b.state, side, &self.apart(a, b));
        joined.excess(&a.state).max(joined.excess(&b.state))
    }

    /// Joins two of the arrivals; where there is no room or no time for that, nothing will be admitted any more.
    pub(super) fn join(&mut self, arrivals: &mut Vec<Arrived<Travelling>>, i: usize, j: usize) {
        let larger = arrivals[i].state.bytes().max(arrivals[j].state.bytes());
        let most = self.outside + self.held + larger + tidying(&arrivals[i].state);
        if let Err(reason) = self.clock.check(most) {
            self.over = Some(reason);
            return;
        }
        let other = arrivals.swap_remove(j);
        arrivals[i].state = Arc::new(self.join_beside(&arrivals[i].state, &other.state));
        arrivals[i].edges.extend(other.edges);
    }

    /// Symbols that one of two sets, with everything near it, knows nothing of, and that nothing outside this block knows.
    fn apart(&self, a: &Travelling, b: &Travelling) -> Vec<Symbol> {
        let known = |states: &Travelling| {
            let near = states.near.iter().flat_map(|near| near.values.iter().map(|v| &**v));
            AffineForm::all_symbols(std::iter::once(&states.state).chain(near))
        };
        let (a, b) = (known(a), known(b));
        let alone = |one: &[Symbol], other: &[Symbol]| -> Vec<Symbol> {
            one.iter().copied().filter(|s| *s > self.outer && other.binary_search(s).is_err()).collect()
        };
        let mut apart = alone(&a, &b);
        apart.extend(alone(&b, &a));
        apart.sort_unstable();
        apart
    }

    /// Both sets in one, with what is known near them.
    ///
    /// One symbol tells the sets apart in the states and in everything near them, so that a vector of either set and what
    /// was evaluated near it are still given by the same values of all symbols.
    fn join_beside(&mut self, a: &Travelling, b: &Travelling) -> Travelling {
        let side = self.symbols.fresh();
        let apart = self.apart(a, b);
        let state = a.state.join_beside(&b.state, side, &apart);
        let near = a.near.as_ref().zip(b.near.as_ref());
        let near = near.map(|(a, b)| {
            let mut near = a.join_beside(b, side, &apart);
            near.name_remainders(self.symbols);
            Arc::new(near)
        });
        let mut states = Travelling { origin: self.symbols.fresh(), state, near };
        self.notes.iter_mut().for_each(|notes| notes.join(a.origin, b.origin, states.origin));
        self.tidy(&mut states);
        states
    }
}
