//! The program as a user types it.
#![allow(clippy::unwrap_used)]

mod bad_input;
mod certify;
mod commands;
mod forecast;
mod forecast_train;
mod growth;
mod hostile;
mod output;
mod panics;
mod prepare;
mod results;
mod series;
mod support;
mod train;
