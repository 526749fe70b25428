//! The threads a run computes on: its own, or rayon's.

use crate::device::DeviceError;

/// Threads of an engine on the CPU.
pub(crate) struct Threads(Option<rayon::ThreadPool>);

impl Threads {
    /// So many of its own, or rayon's.
    pub(crate) fn new(count: Option<usize>) -> Result<Self, DeviceError> {
        let pool = count.map(|count| rayon::ThreadPoolBuilder::new().num_threads(count).build()).transpose();
        pool.map(Self).map_err(|error| DeviceError::Failed(format!("cannot start threads: {error}")))
    }

    /// The engine's name, for people.
    pub(crate) fn name(&self) -> String {
        match &self.0 {
            Some(pool) => format!("cpu ({} threads)", pool.current_num_threads()),
            None => "cpu".into(),
        }
    }

    /// Runs something on them.
    pub(crate) fn within<R: Send>(&self, work: impl FnOnce() -> R + Send) -> R {
        match &self.0 {
            Some(pool) => pool.install(work),
            None => work(),
        }
    }
}
