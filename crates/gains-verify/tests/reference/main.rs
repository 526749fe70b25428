//! Agreement with the authors' implementation, on their networks and results.
//!
//! Needs `GAINS_REFERENCE` to point at a folder with `weights/` and `golden/`; the tests say so and pass
//! when it is not set. Images come from `GAINS_DATA`, else from `data/` beside that folder, else (the
//! first 100 of Fashion-MNIST) from the bundled sample.

#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod accuracy;
mod golden;
mod series;
mod support;
