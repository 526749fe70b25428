//! The verifiers of `gains`: boxes and linear bounds through the trajectory graph, and the attacks that
//! show what cannot be verified.
//!
//! Data flows one way: a network and a region of inputs go into [`analysis`], which encloses every layer;
//! [`backward`] pulls the rows of a property back through all of it; [`verifier`] turns bounds into
//! verdicts.

pub mod affine_form;
pub mod analysis;
pub mod attack;
pub mod backward;
mod best_first;
mod bisect;
pub mod box_step;
pub mod branch;
pub mod curls;
pub mod difference_step;
pub mod front;
mod half_space;
pub mod limits;
pub mod looseness;
pub mod property;
pub mod series;
pub mod symbolic;
pub mod symbolic_step;
pub mod verifier;

pub use analysis::{Analysis, Method};
pub use attack::{Attack, AttackLoss, Ball};
pub use box_step::StepForm;
pub use limits::{Budget, Reason};
pub use property::Property;
pub use verifier::{Report, Stage, Verdict, Verifier};
