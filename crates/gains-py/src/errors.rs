//! Failures as exceptions of `gains_ode.errors`.

use gains::library::Failure;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyType;

/// The exit code of the command line for wrong usage.
const USAGE: u8 = 2;

/// Which exception a failure becomes, unless it is one of usage.
#[derive(Clone, Copy)]
pub enum Kind {
    /// A model file that is none.
    Model,
    /// Anything else.
    Run,
}

/// The exception for a failure.
pub fn raised(py: Python<'_>, failure: &Failure, kind: Kind) -> PyErr {
    let name = match kind {
        _ if failure.message.contains("panicked: ") => "InternalError",
        _ if failure.code == USAGE => "InputError",
        Kind::Model => "ModelError",
        Kind::Run => "RunError",
    };
    let (message, hint) = (keywords(&failure.message), failure.hint.as_deref().map(keywords));
    match class(py, name).and_then(|class| class.call1((message, hint))) {
        Ok(exception) => PyErr::from_value(exception),
        Err(trouble) => trouble,
    }
}

/// Text of the command line with its flags as keywords: `feature_eps` for `--feature-eps`.
fn keywords(text: &str) -> String {
    let mut parts = text.split("--");
    let mut written = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let end = part.find(|c: char| !c.is_ascii_lowercase() && c != '-').unwrap_or(part.len());
        let flag = part[..end].trim_end_matches('-');
        if flag.is_empty() {
            written.push_str("--");
        }
        written.push_str(&flag.replace('-', "_"));
        written.push_str(&part[flag.len()..]);
    }
    written
}

/// Wrong usage that was found here.
pub fn wrong(py: Python<'_>, message: impl Into<String>, hint: impl Into<String>) -> PyErr {
    raised(py, &Failure::usage(message).hint(hint), Kind::Run)
}

fn class<'py>(py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyType>> {
    static MODULE: PyOnceLock<Py<PyModule>> = PyOnceLock::new();
    let module = MODULE.get_or_try_init(py, || Ok::<_, PyErr>(py.import("gains_ode.errors")?.unbind()))?;
    Ok(module.bind(py).getattr(name)?.cast_into::<PyType>()?)
}
