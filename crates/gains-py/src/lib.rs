//! The Rust half of the Python package `gains_ode`: the calls of `gains::library` with numpy arrays.
//!
//! Nothing is kept between calls. While Rust works, other Python threads run; Ctrl-C is noticed within a moment. A panic
//! is an exception like any other.

mod errors;
mod lines;
mod network;
mod options;
mod patience;
mod samples;

use std::ffi::OsString;
use std::path::PathBuf;

use pyo3::prelude::*;

/// Runs the command line; returns its exit code.
#[pyfunction]
fn main(py: Python<'_>, arguments: Vec<OsString>) -> u8 {
    py.detach(|| gains::run(arguments))
}

/// Names of the networks that come with the package, and a line about each.
#[pyfunction]
fn bundled() -> Vec<(&'static str, &'static str)> {
    gains::library::bundled().collect()
}

/// Reads a table of series and writes the prepared file: how many records it has, and which were left out.
#[pyfunction]
fn prepare_series(py: Python<'_>, table: PathBuf, out: PathBuf) -> PyResult<(usize, Vec<String>)> {
    patience::work(py, errors::Kind::Run, |_| gains::library::prepare_series(&table, &out))
}

/// The table of a method of Runge and Kutta: nodes, stages, weights, weights of the error estimate if it has one, order.
#[pyfunction]
#[allow(clippy::type_complexity)]
fn tableau(
    py: Python<'_>,
    method: &str,
) -> PyResult<(Vec<f64>, Vec<Vec<f64>>, Vec<f64>, Option<Vec<f64>>, u32)> {
    let table = gains::library::tableau(method).map_err(|failure| errors::raised(py, &failure, errors::Kind::Run))?;
    let stages = table.stages.iter().map(|row| row.to_vec()).collect();
    let error = (!table.error.is_empty()).then(|| table.error.to_vec());
    Ok((table.nodes.to_vec(), stages, table.weights.to_vec(), error, table.order))
}

/// The module `gains_ode._native`.
#[pymodule]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add_function(wrap_pyfunction!(main, module)?)?;
    module.add_function(wrap_pyfunction!(bundled, module)?)?;
    module.add_function(wrap_pyfunction!(tableau, module)?)?;
    module.add_function(wrap_pyfunction!(prepare_series, module)?)?;
    module.add_class::<network::Network>()?;
    module.add_class::<samples::Samples>()?;
    module.add_class::<lines::Lines>()
}
