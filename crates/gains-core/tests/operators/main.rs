//! Operators beside what they do to points: forms, rows, changes and gradients.

#![allow(clippy::unwrap_used)]

mod changes;
mod flights;
mod forms;
mod gradients;
mod rows;
mod support;
