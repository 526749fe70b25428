//! Networks, and what they are asked.

use std::path::PathBuf;
use std::sync::Arc;

use gains::library::{self, Arrays, Attacked, Model, Out, Search, Struck, Usual, Way, Witness};
use numpy::{PyArray1, PyArray2, PyArrayDyn, PyArrayMethods};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};

use crate::errors::{Kind, wrong};
use crate::lines::Lines;
use crate::options::options;
use crate::patience::{Follow, work};
use crate::samples::{Samples, numbers};

/// A matrix, row by row.
type Matrix<'py> = Bound<'py, PyArray2<f64>>;

/// A network to ask.
#[pyclass(frozen, module = "gains_ode._native")]
pub struct Network {
    model: Model,
}

#[pymethods]
impl Network {
    /// Reads a model file, a bundled network by its name, or the default one.
    #[staticmethod]
    #[pyo3(signature = (path=None))]
    fn load(py: Python<'_>, path: Option<PathBuf>) -> PyResult<Self> {
        let model = work(py, Kind::Model, |_| Model::open(path.as_deref()))?;
        Ok(Self { model })
    }

    /// Takes the content of a model file.
    #[staticmethod]
    fn from_bytes(py: Python<'_>, content: &[u8]) -> PyResult<Self> {
        let content = content.to_vec();
        let model = work(py, Kind::Model, |_| Model::from_bytes(content))?;
        Ok(Self { model })
    }

    /// Binds the weights of a safetensors file to a description in JSON.
    #[staticmethod]
    fn from_weights(py: Python<'_>, weights: &[u8], description: &str) -> PyResult<Self> {
        let model = work(py, Kind::Model, |_| Model::import(weights, description))?;
        Ok(Self { model })
    }

    /// The content of its model file.
    fn to_bytes<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, self.model.bytes())
    }

    /// Writes its model file.
    fn save(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        work(py, Kind::Run, |_| self.model.save(&path))
    }

    /// Its name.
    #[getter]
    fn name(&self) -> &str {
        &self.model.network().description.name
    }

    /// Content hash of its model file.
    #[getter]
    fn hash(&self) -> &str {
        &self.model.network().hash
    }

    /// Height, width and channels of its input.
    #[getter]
    fn input(&self) -> (usize, usize, usize) {
        let shape = self.model.network().input();
        (shape.height, shape.width, shape.channels)
    }

    /// Names of its outputs.
    #[getter]
    fn outputs(&self) -> Vec<String> {
        self.model.output_names()
    }

    /// What it is for.
    #[getter]
    fn task(&self) -> &'static str {
        self.model.task()
    }

    /// Number of trained parameters.
    #[getter]
    fn parameters(&self) -> usize {
        self.model.network().parameters()
    }

    /// Its description, in JSON.
    fn description(&self, py: Python<'_>) -> PyResult<String> {
        serde_json::to_string(&self.model.network().description)
            .map_err(|error| wrong(py, error.to_string(), "please report this"))
    }

    /// Arrays to ask about; the first axis counts the samples.
    #[pyo3(signature = (x, *, labels=None, names=None, truth=None, truth_columns=None, columns=None, layout=None,
                        scale=None, bytes=false, name="array"))]
    fn samples(
        &self,
        py: Python<'_>,
        x: &Bound<'_, PyArrayDyn<f64>>,
        labels: Option<&Bound<'_, PyArray1<f64>>>,
        names: Option<Vec<String>>,
        truth: Option<&Bound<'_, PyArrayDyn<f64>>>,
        truth_columns: Option<Vec<String>>,
        columns: Option<Vec<String>>,
        layout: Option<&str>,
        scale: Option<f64>,
        bytes: bool,
        name: &str,
    ) -> PyResult<Samples> {
        let (shape, values) = numbers(x)?;
        let labels = labels.map(|labels| labels.readonly().as_slice().map(<[f64]>::to_vec)).transpose()?;
        let truth = truth.map(numbers).transpose()?;
        let inner = work(py, Kind::Run, |_| {
            let mut arrays = Arrays::new(name, shape, values)?;
            if let Some(labels) = labels {
                arrays = arrays.labelled(labels);
            }
            if let Some(names) = names {
                arrays = arrays.named(names);
            }
            if let Some((shape, values)) = truth {
                arrays = arrays.with_truth(shape, values)?;
            }
            if let Some(names) = truth_columns {
                arrays = arrays.with_truth_columns(names);
            }
            if let Some(columns) = columns {
                arrays = arrays.with_columns(columns);
            }
            if bytes {
                arrays = arrays.of_bytes();
            }
            library::Samples::arrays(&self.model, arrays.ordered(layout, scale)?)
        })?;
        Ok(Samples { inner: Arc::new(inner) })
    }

    /// Boxes to ask about, from one array to another.
    #[pyo3(signature = (lower, upper, *, labels=None, layout=None, bytes=false, name="array"))]
    fn boxes(
        &self,
        py: Python<'_>,
        lower: &Bound<'_, PyArrayDyn<f64>>,
        upper: &Bound<'_, PyArrayDyn<f64>>,
        labels: Option<&Bound<'_, PyArray1<f64>>>,
        layout: Option<&str>,
        bytes: bool,
        name: &str,
    ) -> PyResult<Samples> {
        let ((shape, lower), (other, upper)) = (numbers(lower)?, numbers(upper)?);
        if shape != other {
            let message = format!("lower has the axes {shape:?}, upper has {other:?}");
            return Err(wrong(py, message, "both have the same axes"));
        }
        let labels = labels.map(|labels| labels.readonly().as_slice().map(<[f64]>::to_vec)).transpose()?;
        let inner = work(py, Kind::Run, |_| {
            let mut arrays = Arrays::boxes(name, &shape, lower, upper)?;
            if let Some(labels) = labels {
                arrays = arrays.labelled(labels);
            }
            if bytes {
                arrays = arrays.of_bytes();
            }
            library::Samples::arrays(&self.model, arrays.ordered(layout, None)?)
        })?;
        Ok(Samples { inner: Arc::new(inner) })
    }

    /// The data the network was made for, or others it can take.
    #[pyo3(signature = (*, data=None, split=None, data_dir=None, series=None, part=None, horizon=None, samples=None))]
    fn usual(
        &self,
        py: Python<'_>,
        data: Option<String>,
        split: Option<String>,
        data_dir: Option<PathBuf>,
        series: Option<PathBuf>,
        part: Option<String>,
        horizon: Option<String>,
        samples: Option<Vec<usize>>,
    ) -> PyResult<Samples> {
        let usual = Usual { data, split, data_dir, series, part, horizon, samples };
        let inner = work(py, Kind::Run, |_| library::Samples::usual(&self.model, usual))?;
        Ok(Samples { inner: Arc::new(inner) })
    }

    /// Outputs, sample by sample.
    #[pyo3(signature = (samples, precision="float64", threads=None))]
    fn predict<'py>(
        &self,
        py: Python<'py>,
        samples: &Samples,
        precision: &str,
        threads: Option<usize>,
    ) -> PyResult<Matrix<'py>> {
        let all = work(py, Kind::Run, |patience| {
            let precision = Model::precision(precision)?;
            self.model.predict(&samples.inner, precision, threads, &|| patience.stop())
        })?;
        matrix(py, all, self.model.network().outputs())
    }

    /// Gradients of `cotangents · outputs` with respect to the inputs, sample by sample.
    #[pyo3(signature = (samples, cotangents, precision="float64", threads=None))]
    fn gradients<'py>(
        &self,
        py: Python<'py>,
        samples: &Samples,
        cotangents: &Bound<'py, PyArrayDyn<f64>>,
        precision: &str,
        threads: Option<usize>,
    ) -> PyResult<Matrix<'py>> {
        let (_, cotangents) = numbers(cotangents)?;
        let all = work(py, Kind::Run, |patience| {
            let precision = Model::precision(precision)?;
            self.model.gradients(&samples.inner, &cotangents, precision, threads, &|| patience.stop())
        })?;
        matrix(py, all, self.model.network().input().len())
    }

    /// Verdicts.
    #[pyo3(signature = (samples, eps, chosen=None, given=None, out=None, resume=false, progress=None))]
    fn certify(
        &self,
        py: Python<'_>,
        samples: &Samples,
        eps: Vec<f64>,
        chosen: Option<Vec<usize>>,
        given: Option<&Bound<'_, PyDict>>,
        out: Option<PathBuf>,
        resume: bool,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<Lines> {
        let options = options(given)?;
        let out = out.map(|path| Out { path, resume });
        let lines = work(py, Kind::Run, |patience| {
            let mut follow = Follow { patience, progress, count: (0, 0) };
            let stop = || patience.stop();
            let (chosen, out) = (chosen.as_deref(), out.as_ref());
            self.model.certify(&samples.inner, chosen, &eps, &options, out, &stop, &mut follow)
        })?;
        Ok(Lines { lines, samples: Arc::clone(&samples.inner) })
    }

    /// The largest certified and the smallest attacked radius of samples.
    #[pyo3(signature = (samples, max, gap, bisect, chosen=None, given=None, progress=None))]
    fn radius(
        &self,
        py: Python<'_>,
        samples: &Samples,
        max: f64,
        gap: f64,
        bisect: String,
        chosen: Option<Vec<usize>>,
        given: Option<&Bound<'_, PyDict>>,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<Lines> {
        let (options, search) = (options(given)?, Search { max, gap, bisect });
        let lines = work(py, Kind::Run, |patience| {
            let mut follow = Follow { patience, progress, count: (0, 0) };
            let stop = || patience.stop();
            self.model.radius(&samples.inner, chosen.as_deref(), &search, &options, &stop, &mut follow)
        })?;
        Ok(Lines { lines, samples: Arc::clone(&samples.inner) })
    }

    /// Attacks: for each sample and radius its number, the radius, whether an input was found, the smallest margin seen, the
    /// seconds, and the worst input that breaks the property.
    #[pyo3(signature = (samples, eps, steps, step_size, restarts, loss=None, seed=0, precision="float64", given=None))]
    #[allow(clippy::type_complexity)]
    fn attack<'py>(
        &self,
        py: Python<'py>,
        samples: &Samples,
        eps: Vec<f64>,
        steps: usize,
        step_size: f64,
        restarts: usize,
        loss: Option<String>,
        seed: u64,
        precision: &str,
        given: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Vec<(usize, f64, bool, f64, f64, Option<Bound<'py, PyArray1<f64>>>)>> {
        let (options, way) = (options(given)?, Way { steps, step_size, restarts, loss, seed });
        let attacked = work(py, Kind::Run, |patience| {
            let precision = Model::precision(precision)?;
            self.model.attack(&samples.inner, &eps, &way, precision, &options, &|| patience.stop())
        })?;
        let row = |Attacked { index, eps, struck, seconds }: Attacked| {
            let (witness, margin) = match struck {
                Some(Struck::Classes { broken, margin, .. }) => (broken.map(|b| b.0), margin),
                Some(Struck::Regression { broken, margin, .. }) => (broken.map(|b| b.0), margin),
                Some(Struck::Forecasts { broken, margin, .. }) => (broken, margin.unwrap_or(f64::NAN)),
                None => (None, f64::NAN),
            };
            let found = witness.is_some();
            let witness = witness.map(|witness| match witness {
                Witness::Values(values) => PyArray1::from_vec(py, samples.inner.restore(&values)),
                Witness::Series { values, .. } => PyArray1::from_vec(py, values),
            });
            (index, eps, found, margin, seconds, witness)
        };
        Ok(attacked.into_iter().map(row).collect())
    }

    /// Certified intervals of the outputs, and why there are none where there are none.
    #[pyo3(signature = (samples, eps, given=None))]
    #[allow(clippy::type_complexity)]
    fn bounds<'py>(
        &self,
        py: Python<'py>,
        samples: &Samples,
        eps: f64,
        given: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<(Matrix<'py>, Matrix<'py>, Vec<Option<String>>)> {
        let options = options(given)?;
        let found = work(py, Kind::Run, |patience| {
            self.model.bounds(&samples.inner, eps, &options, &|| patience.stop())
        })?;
        let outputs = self.model.network().outputs();
        let (mut lower, mut upper, mut reasons) = (Vec::new(), Vec::new(), Vec::new());
        for one in found {
            let (low, high, reason) = match one {
                Ok((low, high)) => (low, high, None),
                Err(reason) => (vec![f64::NEG_INFINITY; outputs], vec![f64::INFINITY; outputs], Some(reason)),
            };
            lower.extend(low);
            upper.extend(high);
            reasons.push(reason);
        }
        Ok((matrix(py, lower, outputs)?, matrix(py, upper, outputs)?, reasons))
    }

    /// The trajectory of a sample and the graph of all that its region can cause, in JSON.
    #[pyo3(signature = (samples, sample, eps, given=None))]
    fn trajectory(
        &self,
        py: Python<'_>,
        samples: &Samples,
        sample: usize,
        eps: f64,
        given: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<String> {
        let options = options(given)?;
        work(py, Kind::Run, |patience| {
            let stop = || patience.stop();
            Ok(self.model.trajectory(&samples.inner, sample, eps, &options, &stop)?.to_string())
        })
    }

    /// Everything about one forecast, in JSON.
    #[pyo3(signature = (samples, record, eps, given=None))]
    fn forecast(
        &self,
        py: Python<'_>,
        samples: &Samples,
        record: Option<&str>,
        eps: f64,
        given: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<String> {
        let options = options(given)?;
        work(py, Kind::Run, |patience| {
            let stop = || patience.stop();
            Ok(self.model.forecast(&samples.inner, record, eps, &options, &stop)?.to_string())
        })
    }
}

/// Numbers as rows of so many columns.
fn matrix(py: Python<'_>, values: Vec<f64>, columns: usize) -> PyResult<Matrix<'_>> {
    let rows = values.len() / columns.max(1);
    PyArray1::from_vec(py, values).reshape([rows, columns])
}
