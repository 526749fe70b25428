//! Loading and fetching as a program does it, on generated files and against a
//! server in the test itself.

// The helpers of tests are tests too, which the lint does not see.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod archives;
mod fetching;
mod files;
mod loading;
mod scene;
mod series;
mod series_reference;
mod server;
