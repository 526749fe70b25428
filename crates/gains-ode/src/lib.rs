//! Runge-Kutta methods as data, step-size controllers, concrete integration and the trajectory graph.
//!
//! The controlled adaptive solver is a small automaton over exact integers ([`timeline`]): an interval of
//! error estimates allows a *set* of actions, and a concrete run is the case of a one-point interval. Whoever
//! follows it, concretely or through the trajectory graph, asks the same [`grid`], so they cannot disagree about time.

pub mod controller;
pub mod forecast;
pub mod free;
pub mod graph;
pub mod grid;
pub mod inference;
pub mod integrate;
pub mod observations;
mod solution;
pub mod system;
pub mod tableau;
pub mod timeline;
pub mod watch;

pub use controller::{Action, ActionSet};
pub use forecast::{Forecast, Forecaster, SeriesGradient, SeriesProgram, mean_absolute_error};
pub use free::{FreeRule, FreeWalk, Stuck};
pub use graph::{Arrived, Carrier, Edge, Graph, Halt, Limits, Step, Vertex};
pub use grid::{Attempt, Grid, NoGrid, Walk};
pub use inference::Inference;
pub use integrate::{Solution, SolveError, StopReason, Visit, solve, solve_within};
pub use observations::{ForecastError, Observations};
pub use system::System;
pub use tableau::Tableau;
pub use timeline::{Moment, Place, Timeline};
pub use watch::{Progress, Watch};
