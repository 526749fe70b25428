//! Parts of the region, and what is known in each.

use std::sync::Arc;

use gains_core::{BoxVec, RowBlock};

use crate::best_first::Leaf;
use crate::front::{Constraint, Dual, Solved};
use crate::graph_pull::Freedom;
use crate::half_space::HalfSpace;
use crate::method::Variant;
use crate::problem::Point;
use crate::property::Property;
use crate::steps::{Assumption, Side};

/// Where a neuron is that can be split.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Place {
    /// In front of the first ODE block: layer of the front, neuron.
    Front(usize, usize),
    /// In the dynamics, at the initial state and time: the value of an activation, neuron.
    Dynamics(usize, usize),
}

/// A neuron of the dynamics, what it costs a row, and rows on the front's output below its input and below
/// the negative of that.
#[derive(Clone)]
pub(super) struct Inner {
    /// The value its activation makes.
    pub(super) value: usize,
    pub(super) neuron: usize,
    pub(super) loss: f64,
    /// Where to split it: what leads to the kink where the neuron costs most.
    pub(super) at: f64,
    /// The row's coefficient on its value, and the part of that which its lower slope lets through.
    pub(super) weight: (f64, f64),
    pub(super) below: [Arc<RowBlock>; 2],
}

/// A row of the property that is not proven yet in some part.
#[derive(Clone)]
pub(super) struct Target {
    /// Which row.
    pub(super) property: usize,
    /// How it passes what is behind the front.
    pub(super) variant: Variant,
    /// What it chooses in the first ODE block, instead of the variant's slopes.
    pub(super) freedom: Option<Arc<Freedom>>,
    /// The best row on the front's output.
    pub(super) row: Arc<RowBlock>,
    /// What is proven.
    pub(super) bound: f64,
    /// The part of that which the row and the dual give.
    pub(super) reached: f64,
    pub(super) dual: Dual,
    /// The same for the row that was pulled last, whether it was the best or not.
    pub(super) fresh: Dual,
    /// The inputs where the row is smallest.
    pub(super) minimiser: Vec<Vec<f64>>,
    /// The front's output there, along the lines the row took.
    pub(super) output: Vec<f64>,
    /// What the front's neurons cost, by layer.
    pub(super) losses: Vec<Vec<f64>>,
    /// Coefficients behind the front's neurons, by layer.
    pub(super) behind: Vec<Vec<f32>>,
    /// The row on the inputs.
    pub(super) at_input: Arc<RowBlock>,
    /// The neurons of the dynamics that cost most.
    pub(super) inner: Vec<Inner>,
    /// What the steps of the first ODE block cost: time, size, cost.
    pub(super) steps: Arc<[(f64, f64, f64)]>,
}

/// Where a part is pursued, only inputs matter at which its last open row is at most `beyond`, a positive number: whatever bound
/// of the row holds there, the lesser of it and `beyond` holds in the whole part.
#[derive(Clone)]
pub(super) struct Pursuit {
    pub(super) beyond: f64,
    /// These inputs lie here.
    pub(super) cut: Arc<HalfSpace>,
}

impl Pursuit {
    /// What a bound over the inputs that matter proves of the whole part.
    pub(super) fn everywhere(&self, bound: f64) -> f64 {
        bound.min(self.beyond)
    }
}

/// Rows on the input below entries of a value of the dynamics at the start, then below their negatives.
pub(super) struct StartRows {
    pub(super) value: usize,
    pub(super) entries: Vec<u32>,
    pub(super) rows: RowBlock,
}

/// A part of the region.
#[derive(Clone)]
pub(super) struct Part {
    pub(super) bounds: Vec<Arc<BoxVec>>,
    pub(super) constraints: Vec<Constraint>,
    pub(super) assumed: Vec<Assumption>,
    pub(super) cuts: Vec<Arc<HalfSpace>>,
    /// Whether only counterexamples matter any more.
    pub(super) pursuit: Option<Pursuit>,
    /// What rows tell of the dynamics at the start, over the whole region.
    pub(super) at_start: Arc<Vec<StartRows>>,
    /// What these prove here: the lower end of an entry, then the upper.
    pub(super) started: Vec<Assumption>,
    /// The box behind the front that the targets' rows were made for.
    pub(super) start: Arc<BoxVec>,
    /// The rows that still matter here.
    pub(super) targets: Vec<Target>,
    /// What is proven of every row here.
    pub(super) known: Vec<f64>,
    /// What that proves of the property.
    pub(super) margin: f64,
    /// A counterexample, if rows on their way to better ones have led to one.
    pub(super) witness: Option<Point>,
}

impl Target {
    /// A multiplier for a new constraint with which the row is at least about as good as without the split. A
    /// positive coefficient `a` on an unstable neuron was taken through a lower slope `s`; above the
    /// threshold the slope is now one, below it zero, and `a(1 − s)` or `a·s` times the constraint restores `s`.
    pub(super) fn first_multiplier(&self, choice: &Choice, side: Side) -> f64 {
        let (coefficient, through) = match choice.place {
            Place::Front(layer, neuron) => {
                let a = f64::from(self.behind[layer][neuron]).max(0.0);
                (a, a * f64::from(self.dual.slopes[layer][neuron]))
            }
            Place::Dynamics(value, neuron) => {
                let own = self.inner.iter().find(|i| (i.value, i.neuron) == (value, neuron));
                own.map_or((0.0, 0.0), |inner| inner.weight)
            }
        };
        match side {
            Side::Below => through,
            Side::Above => coefficient - through,
        }
    }

    /// Takes over what was found for its row.
    pub(super) fn take(&mut self, solved: &Solved) {
        self.bound = self.bound.max(solved.bound);
        self.reached = solved.bound;
        self.dual.clone_from(&solved.dual);
        self.minimiser.clone_from(&solved.minimiser);
        self.output.clone_from(&solved.output);
        self.losses.clone_from(&solved.losses);
        self.behind.clone_from(&solved.behind);
        self.at_input = Arc::new(solved.row.clone());
    }
}

impl Leaf for Part {
    fn bound(&self) -> f64 {
        self.margin
    }
}

impl Part {
    /// The row that the margin hangs on, and where that is not one of the targets the lowest of these.
    pub(super) fn worst(&self, property: &Property) -> Option<&Target> {
        let row = property.hanging_on(&self.known);
        let hanging = self.targets.iter().find(|target| Some(target.property) == row);
        hanging.or_else(|| self.targets.iter().min_by(|a, b| a.bound.total_cmp(&b.bound)))
    }

    /// Takes over what is proven of the targets. NaN proves nothing.
    pub(super) fn learn(&mut self, property: &Property) {
        for target in &self.targets {
            let bound =
                self.pursuit.as_ref().map_or(target.bound, |pursuit| pursuit.everywhere(target.bound));
            self.known[target.property] = self.known[target.property].max(bound);
        }
        self.margin = self.margin.max(property.margin(&self.known));
    }

    /// For every target, whether it still matters.
    pub(super) fn open(&self, property: &Property) -> Vec<bool> {
        let open = property.open_rows(&self.known);
        self.targets.iter().map(|target| open.binary_search(&target.property).is_ok()).collect()
    }

    /// All half-spaces that the inputs that matter lie in.
    pub(super) fn all_cuts(&self) -> Vec<&HalfSpace> {
        self.latest_cuts(usize::MAX)
    }

    /// The one of the pursuit, and the latest others.
    pub(super) fn latest_cuts(&self, most: usize) -> Vec<&HalfSpace> {
        let pursued = self.pursuit.iter().map(|pursuit| pursuit.cut.as_ref());
        pursued.chain(self.cuts.iter().rev().take(most).map(Arc::as_ref)).collect()
    }

    /// Memory that all parts share.
    pub(super) fn bytes_of_all(&self) -> usize {
        self.at_start.iter().map(|rows| rows.rows.bytes() + 4 * rows.entries.len()).sum()
    }

    pub(super) fn bytes(&self) -> usize {
        let target = |t: &Target| {
            let losses = t.losses.iter().map(Vec::len).sum::<usize>();
            let inner = t.inner.iter().map(|i| i.below[0].bytes() + i.below[1].bytes()).sum::<usize>();
            let inputs = t.minimiser.iter().map(Vec::len).sum::<usize>();
            t.dual.bytes()
                + t.fresh.bytes()
                + 8 * (inputs + losses)
                + inner
                + t.row.bytes()
                + 2 * t.at_input.bytes()
        };
        let rows = 8 * self.known.len() + self.started.len() * size_of::<Assumption>();
        self.targets.iter().map(target).sum::<usize>() + rows + 32 * self.start.len() + 512
    }
}

/// A neuron to split.
pub(super) struct Choice {
    pub(super) place: Place,
    pub(super) at: f64,
    pub(super) loss: f64,
    /// For neurons of the dynamics, see [`Inner`].
    pub(super) below: Option<[Arc<RowBlock>; 2]>,
}

/// A part in which there is no input that matters.
pub(super) fn emptied(mut part: Part, property: &Property) -> Part {
    match &part.pursuit {
        None => part.margin = f64::INFINITY,
        Some(_) => {
            part.targets.iter_mut().for_each(|target| target.bound = f64::INFINITY);
            part.learn(property);
        }
    }
    part.targets.clear();
    part
}

/// A part that was split: its halves, what was learnt about neurons, and how many parts that took.
pub(super) struct Expansion {
    pub(super) children: Vec<Part>,
    pub(super) learnt: Vec<(Place, f64)>,
    pub(super) parts: usize,
}

/// How much of what was expected splitting a neuron has brought so far.
#[derive(Clone, Copy, Default)]
pub(super) struct Experience {
    pub(super) share: f64,
    pub(super) count: f64,
}
