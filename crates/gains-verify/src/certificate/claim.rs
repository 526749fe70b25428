//! What certificates are made of, as `docs/certificates.md` names it.

use gains_core::{BoxVec, Interval, LowerSlope};
use gains_ode::Action;
use gains_ode::timeline::Place;

use crate::forms::FormGraph;
use crate::graph_pull::RowForm;
use crate::steps::StepForm;

/// All of a series but its numbers: what a network for series is laid out for.
#[derive(Clone, Debug)]
pub struct SeriesClaim {
    /// When there is a point.
    pub times: Vec<f64>,
    /// Point by point, what of its features is observed.
    pub observed: Vec<bool>,
    /// The time that is forecast.
    pub target: f64,
}

/// What is shown of a part of the region.
#[derive(Clone, Debug, Default)]
pub struct Node {
    /// Boxes that rows have tightened, by increasing value.
    pub boxes: Vec<BoxClaim>,
    /// Trajectory graphs, by increasing value.
    pub graphs: Vec<GraphClaim>,
    /// Slopes beside functions made of pieces, outside ODE blocks.
    pub lines: Vec<PiecedLines>,
    /// Rows on the inputs that are nowhere positive here.
    pub cuts: Vec<CutClaim>,
    /// Rows of the property that are shown.
    pub rows: Vec<RowClaim>,
    /// The trajectories of affine forms, of which all that is left of the property follows.
    pub forms: Option<Vec<FormGraph>>,
    /// A case distinction.
    pub split: Option<Box<SplitClaim>>,
}

/// Nothing is claimed of an end.
pub const UNCLAIMED: u16 = u16::MAX;

/// A value's box, tightened by rows.
#[derive(Clone, Debug)]
pub struct BoxClaim {
    /// The value.
    pub value: usize,
    /// The box; ends of which nothing is claimed do not count.
    pub values: BoxVec,
    /// For every entry, the way by which its lower end is shown.
    pub lower_by: Vec<u16>,
    /// The same for upper ends.
    pub upper_by: Vec<u16>,
    /// The ways.
    pub ways: Vec<Way>,
}

/// A way back for rows.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Way {
    /// Outside ODE blocks.
    pub lines: LinesChoice,
    /// For every ODE block on the way.
    pub odes: Vec<OdeWay>,
    /// Values at which rows stay.
    pub stops: Vec<usize>,
    /// Multiples of constraints: their numbers on the way from the root.
    pub multipliers: Vec<(usize, f64)>,
    /// Multiples of cuts.
    pub cuts: Vec<(usize, f64)>,
}

/// Which lines rows take.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LinesChoice {
    /// Lower slopes that are not given.
    pub policy: LowerSlope,
    /// Lower slopes by value.
    pub slopes: Vec<(usize, Vec<f32>)>,
}

/// Slopes of the lines beside a function made of pieces, for all entries of the value it makes.
#[derive(Clone, Debug, PartialEq)]
pub struct PiecedLines {
    /// The value.
    pub value: usize,
    /// Of the lines below.
    pub below: Vec<f64>,
    /// Of the lines above.
    pub above: Vec<f64>,
}

/// The way through an ODE block.
#[derive(Clone, Debug, PartialEq)]
pub struct OdeWay {
    /// Its value.
    pub ode: usize,
    /// How steps are passed.
    pub form: RowForm,
    /// Lines in its dynamics.
    pub lines: LinesChoice,
    /// Shares of the edges out of the first vertex.
    pub start: Vec<f64>,
    /// For edges into a vertex with several edges out, the shares of these.
    pub shares: Vec<(usize, Vec<f64>)>,
}

/// A trajectory graph.
#[derive(Clone, Debug)]
pub struct GraphClaim {
    /// The value of the ODE block.
    pub ode: usize,
    /// How steps are bounded.
    pub form: StepForm,
    /// In topological order.
    pub vertices: Vec<VertexClaim>,
    /// All states at the end.
    pub end: BoxVec,
}

/// A place that can be reached.
#[derive(Clone, Debug)]
pub struct VertexClaim {
    /// Where in the automaton.
    pub at: Place,
    /// All states there.
    pub state: BoxVec,
    /// All error estimates, where the solver looks at them.
    pub error: Option<Interval>,
    /// Actions and the vertices they lead to; none for the end.
    pub out: Vec<(Action, Option<usize>)>,
    /// Slopes beside functions made of pieces, by stage.
    pub lines: Vec<(usize, PiecedLines)>,
}

/// A row on the inputs that is nowhere positive.
#[derive(Clone, Debug)]
pub struct CutClaim {
    /// Of which constraint.
    pub constraint: usize,
    /// How it got to the inputs.
    pub way: Way,
}

/// A row of the property that is shown.
#[derive(Clone, Debug)]
pub struct RowClaim {
    /// Which row.
    pub row: usize,
    /// The way.
    pub way: Way,
    /// What it is at least, above zero.
    pub bound: f64,
}

/// What is split.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SplitPlace {
    /// An entry of an input.
    Input(usize),
    /// An entry of a value.
    Neuron(usize),
    /// An entry of a value of the dynamics, at the start of an ODE block.
    Start {
        /// The value of the block.
        ode: usize,
        /// The value of the dynamics.
        value: usize,
    },
}

/// A case distinction.
#[derive(Clone, Debug)]
pub struct SplitClaim {
    /// What is split.
    pub place: SplitPlace,
    /// Which entry.
    pub entry: usize,
    /// Where.
    pub at: f64,
    /// At most, and at least, the threshold.
    pub parts: [Node; 2],
}
