//! The program as a user types it.
#![allow(clippy::unwrap_used, clippy::print_stderr)]

mod bad_input;
mod certificates;
mod certify;
mod commands;
mod damaged;
mod forecast;
mod forecast_train;
mod growth;
mod hostile;
mod import;
mod inputs;
mod output;
mod panics;
mod prepare;
mod properties;
mod report;
mod results;
mod series;
mod study;
mod support;
mod train;
mod tutorial;
