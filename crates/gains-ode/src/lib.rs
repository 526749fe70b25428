//! Runge-Kutta methods as data, step-size controllers, concrete integration and the trajectory graph.
//!
//! The controlled adaptive solver is a small automaton over exact integers ([`timeline`]): an interval of
//! error estimates allows a *set* of actions, and a concrete run is the case of a one-point interval. The
//! concrete solver and the trajectory graph share that automaton, so they cannot disagree about time.

pub mod controller;
pub mod forecast;
pub mod graph;
pub mod inference;
pub mod integrate;
pub mod observations;
pub mod ode_rnn;
pub mod system;
pub mod tableau;
pub mod timeline;

pub use controller::{Action, ActionSet};
pub use forecast::{Forecast, Forecaster, mean_absolute_error};
pub use graph::{Carrier, Edge, Graph, Halt, Limits, Step, Vertex};
pub use inference::Inference;
pub use integrate::{Solution, StopReason, solve};
pub use observations::{ForecastError, Observations};
pub use ode_rnn::{Encoding, SeriesGradient};
pub use system::System;
pub use tableau::Tableau;
pub use timeline::{Moment, Place, Timeline};
