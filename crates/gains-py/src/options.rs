//! Keywords as options.

use std::collections::BTreeMap;

use gains::library::{Asked, Options, Range};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};

use crate::errors::wrong;

/// Words of all options, for whoever misspells one.
const WORDS: &str = "method, step_form, arithmetic, attack_steps, timeout, max_vertices, max_memory, threads, norm, range, \
features, feature_eps, nu, delta, property, target, allow, top, tolerance, between";

/// Options out of keywords; what is `None` was not said.
pub fn options(given: Option<&Bound<'_, PyDict>>) -> PyResult<Options> {
    let mut options = Options::default();
    let Some(given) = given else { return Ok(options) };
    for (key, value) in given.iter() {
        if value.is_none() {
            continue;
        }
        let key: String = key.extract()?;
        set(&mut options, &key, &value).map_err(|error| {
            let py = value.py();
            match error.is_instance_of::<pyo3::exceptions::PyTypeError>(py)
                || error.is_instance_of::<pyo3::exceptions::PyOverflowError>(py)
            {
                true => wrong(py, format!("{key} is {value}: {}", error.value(py)), format!("options are {WORDS}")),
                false => error,
            }
        })?;
    }
    Ok(options)
}

fn set(options: &mut Options, key: &str, value: &Bound<'_, PyAny>) -> PyResult<()> {
    match key {
        "method" => options.method = value.extract()?,
        "step_form" => options.step_form = Some(value.extract()?),
        "arithmetic" => options.arithmetic = value.extract()?,
        "attack_steps" => options.attack_steps = value.extract()?,
        "timeout" => options.timeout = value.extract()?,
        "max_vertices" => options.max_vertices = value.extract()?,
        "max_memory" => options.max_memory = value.extract()?,
        "threads" => options.threads = Some(value.extract()?),
        "norm" => options.norm = Some(norm(value)?),
        "range" => options.range = ranges(value)?,
        "features" => options.features = names(value)?,
        "feature_eps" => {
            options.feature_eps = value.extract::<BTreeMap<Name, f64>>()?.into_iter().map(|(n, e)| (n.0, e)).collect();
        }
        "nu" => options.nu = Some(value.extract()?),
        "delta" => options.delta = Some(value.extract()?),
        "property" => ask(options, value, Asked::Text(value.extract()?))?,
        "target" => ask(options, value, Asked::Never(names(value)?))?,
        "allow" => ask(options, value, Asked::Allowed(names(value)?))?,
        "top" => ask(options, value, Asked::Top(value.extract()?))?,
        "tolerance" => ask(options, value, Asked::Within(value.extract()?))?,
        "between" => {
            let limits: BTreeMap<Name, (Option<f64>, Option<f64>)> = value.extract()?;
            let limits = limits.into_iter().map(|(name, (low, high))| (name.0, [low, high])).collect();
            ask(options, value, Asked::Between(limits))?;
        }
        _ => return Err(wrong(value.py(), format!("there is no option '{key}'"), format!("there are {WORDS}"))),
    }
    Ok(())
}

fn ask(options: &mut Options, value: &Bound<'_, PyAny>, asked: Asked) -> PyResult<()> {
    if options.asked != Asked::Usual {
        return Err(wrong(
            value.py(),
            "two properties are asked for",
            "give one of property, target, allow, top, tolerance and between",
        ));
    }
    options.asked = asked;
    Ok(())
}

/// A name, or a number that stands for one.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Name(String);

impl<'py> FromPyObject<'_, 'py> for Name {
    type Error = PyErr;

    fn extract(value: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        match value.extract::<String>() {
            Ok(name) => Ok(Self(name)),
            Err(_) => Ok(Self(value.extract::<usize>()?.to_string())),
        }
    }
}

/// One name or several.
fn names(value: &Bound<'_, PyAny>) -> PyResult<Vec<String>> {
    if value.is_instance_of::<PyString>() || !value.hasattr("__iter__")? {
        return Ok(vec![value.extract::<Name>()?.0]);
    }
    value.try_iter()?.map(|one| Ok(one?.extract::<Name>()?.0)).collect()
}

/// `"inf"`, `2`, `float("inf")`.
fn norm(value: &Bound<'_, PyAny>) -> PyResult<String> {
    if let Ok(word) = value.extract::<String>() {
        return Ok(word);
    }
    let number: f64 = value.extract()?;
    Ok(if number == f64::INFINITY { "inf".into() } else { number.to_string() })
}

/// `(low, high)` for all, or `{name: (low, high)}`.
fn ranges(value: &Bound<'_, PyAny>) -> PyResult<Vec<Range>> {
    if let Ok((low, high)) = value.extract::<(f64, f64)>() {
        return Ok(vec![Range::All(low, high)]);
    }
    let each: BTreeMap<Name, (f64, f64)> = value.extract()?;
    Ok(each.into_iter().map(|(name, (low, high))| Range::One(name.0, low, high)).collect())
}
