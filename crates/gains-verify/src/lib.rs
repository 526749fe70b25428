//! The verifier of `gains`: boxes, rows and affine forms through programs and their trajectory graphs, and the attacks
//! that show what cannot be verified.
//!
//! A [`Problem`] is a program, a region of its inputs, a property of its outputs and a point of the region. A
//! [`Verifier`] decides it: it tries its [`Stage`]s in order, each bounding the property over the whole region or looking
//! for a counterexample, and hands out a [`Report`] with a [`Verdict`].
//!
//! ```
//! use gains_core::description::{ControllerSpec, LayerSpec, RungeKutta, SolverSpec, Task};
//! use gains_core::{Description, Interval, Shape, model_file};
//! use gains_verify::{Budget, Problem, Settings, Verdict, Verifier};
//!
//! // z' = −z for one unit of time, then two outputs: z₁ and z₂.
//! let dynamics = vec![LayerSpec::Linear { name: "f".into(), in_features: 2, out_features: 2, time: false }];
//! let solver = SolverSpec { method: RungeKutta::Rk4, controller: ControllerSpec::Fixed { steps: 4 }, end_time: 1.0 };
//! let task = Task::Classification { classes: vec!["left".into(), "right".into()] };
//! let description = Description::new("decay", task, Shape::flat(2), vec![LayerSpec::Ode { dynamics, solver }]);
//! let weights = [("f.weight", vec![2, 2], vec![-1.0, 0.0, 0.0, -1.0]), ("f.bias", vec![2], vec![0.0, 0.0])];
//! let tensors = weights.into_iter().map(|(name, shape, values)| (name.to_string(), (shape, values))).collect();
//! let network = model_file::build(description, &tensors, String::new())?;
//!
//! let problem = Problem::classification(&network, &[0.7, 0.3], 0, 0.1, Interval::new(0.0, 1.0));
//! let verifier = Verifier::new(Settings::cascade(problem.program, 0.1, None));
//! assert_eq!(verifier.decide(&problem, Budget::default()).verdict, Verdict::Verified);
//! # Ok::<(), gains_core::ModelError>(())
//! ```
//!
//! Data flows one way: [`analysis`] encloses every value of a program and pulls rows back through it ([`graph_pull`]
//! through trajectory graphs, [`front`](self) in front of them), [`verifier`] turns bounds into verdicts.

pub mod analysis;
pub mod attack;
pub mod ball;
mod best_first;
mod bisect;
mod branch;
pub mod certificate;
pub mod curls;
pub mod decisions;
pub mod forms;
mod front;
pub mod graph_pull;
mod groups;
mod half_space;
mod ledger;
pub mod limits;
mod looseness;
mod method;
pub mod problem;
pub mod property;
pub mod series;
pub mod steps;
pub mod verifier;

pub use analysis::Analysis;
pub use attack::{Attack, AttackLoss, Hunt};
pub use ball::{Ball, Norm};
pub use limits::{Budget, Clock, Reason};
pub use looseness::Looseness;
pub use method::{Method, Variant};
pub use problem::{Point, Problem, Region};
pub use property::Property;
pub use steps::StepForm;
pub use verifier::{Report, Settings, Stage, StageReport, Verdict, Verifier};
