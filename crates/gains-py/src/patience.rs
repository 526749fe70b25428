//! Ctrl-C while Rust works, and progress.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread::ThreadId;
use std::time::{Duration, Instant};

use gains::library::{Failure, Line, Observer, contain};
use pyo3::prelude::*;

use crate::errors::{Kind, raised};

/// How often Python is asked for signals.
const EVERY: Duration = Duration::from_millis(20);

/// One call: whether it is to be given up, and why.
pub struct Patience {
    caller: ThreadId,
    started: Instant,
    /// When Python was asked last, in nanoseconds after the start.
    asked: AtomicU64,
    stopped: AtomicBool,
    trouble: Mutex<Option<PyErr>>,
}

impl Patience {
    fn new() -> Self {
        Self {
            caller: std::thread::current().id(),
            started: Instant::now(),
            asked: AtomicU64::new(0),
            stopped: AtomicBool::new(false),
            trouble: Mutex::new(None),
        }
    }

    /// Whether to give up. Signals come to Python's main thread only, so other threads just look at what it has found.
    pub fn stop(&self) -> bool {
        if self.stopped.load(Ordering::Relaxed) {
            return true;
        }
        let now = self.started.elapsed();
        let since = now.saturating_sub(Duration::from_nanos(self.asked.load(Ordering::Relaxed)));
        if since >= EVERY && std::thread::current().id() == self.caller {
            self.asked.store(u64::try_from(now.as_nanos()).unwrap_or(u64::MAX), Ordering::Relaxed);
            if let Err(trouble) = Python::attach(|py| py.check_signals()) {
                self.give_up(trouble);
            }
        }
        self.stopped.load(Ordering::Relaxed)
    }

    fn give_up(&self, trouble: PyErr) {
        self.trouble.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(trouble);
        self.stopped.store(true, Ordering::Relaxed);
    }
}

/// Works without the interpreter's lock. A panic, Ctrl-C and whatever a callback raises are exceptions.
pub fn work<T: Send>(
    py: Python<'_>,
    kind: Kind,
    work: impl FnOnce(&Patience) -> Result<T, Failure> + Send,
) -> PyResult<T> {
    let patience = Patience::new();
    let outcome = py.detach(|| contain(|| work(&patience)));
    match patience.trouble.into_inner().unwrap_or_else(PoisonError::into_inner) {
        Some(trouble) => Err(trouble),
        None => outcome.map_err(|failure| raised(py, &failure, kind)),
    }
}

/// Hands progress to a Python function: `progress(done, wanted)`.
pub struct Follow<'a> {
    /// The call that is followed.
    pub patience: &'a Patience,
    /// The function, if there is one.
    pub progress: Option<Py<PyAny>>,
    /// How many are done, and how many are wanted.
    pub count: (usize, usize),
}

impl Follow<'_> {
    fn tell(&self) {
        let Some(progress) = &self.progress else { return };
        if let Err(trouble) = Python::attach(|py| progress.call1(py, self.count).map(drop)) {
            self.patience.give_up(trouble);
        }
    }
}

impl Observer for Follow<'_> {
    fn begin(&mut self, there: usize, wanted: usize) {
        self.count = (there, wanted);
        self.tell();
    }

    fn note(&mut self, _text: &str) {}

    fn done(&mut self, _line: &Line) {
        self.count.0 += 1;
        self.tell();
    }
}
