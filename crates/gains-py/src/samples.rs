//! Samples that were read, and are asked about.

use std::sync::Arc;

use numpy::{PyArray1, PyArrayDyn, PyArrayMethods, PyUntypedArrayMethods};
use pyo3::prelude::*;

/// Samples a network can take.
#[pyclass(frozen, module = "gains_ode._native")]
pub struct Samples {
    /// They.
    pub inner: Arc<gains::library::Samples>,
}

#[pymethods]
impl Samples {
    /// Values one after the other in the order they were given in, and classes, -1 where none is known.
    fn values<'py>(&self, py: Python<'py>) -> (Bound<'py, PyArray1<f64>>, Bound<'py, PyArray1<i64>>) {
        let (values, labels) = py.detach(|| self.inner.values());
        let labels = labels.into_iter().map(|label| label.map_or(-1, |label| label as i64)).collect();
        (PyArray1::from_vec(py, values), PyArray1::from_vec(py, labels))
    }

    /// Numbers in the order the network takes them, in the order the samples were given in.
    fn restore<'py>(&self, py: Python<'py>, values: Vec<f64>) -> Bound<'py, PyArray1<f64>> {
        PyArray1::from_vec(py, self.inner.restore(&values))
    }
}

/// The axes and numbers of an array; Python hands over contiguous ones.
pub fn numbers(array: &Bound<'_, PyArrayDyn<f64>>) -> PyResult<(Vec<usize>, Vec<f64>)> {
    Ok((array.shape().to_vec(), array.readonly().as_slice()?.to_vec()))
}
