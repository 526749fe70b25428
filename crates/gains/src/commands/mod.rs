//! One file per command.

pub mod attack;
pub mod bench;
pub mod certify;
pub mod challenge;
pub mod completions;
pub mod data;
pub mod eval;
pub mod forecast;
pub mod model;
pub mod predict;
pub mod prepare;
pub mod radius;
pub mod report;
pub mod study;
pub mod train;
pub mod trajectory;
