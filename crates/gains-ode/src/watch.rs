//! How long and how large a concrete solve may become.

use std::time::Instant;

use crate::integrate::SolveError;

/// What a concrete run may cost. It is asked before every solver step, so a run ends within a step of the limit.
#[derive(Clone, Copy)]
pub struct Watch<'a> {
    /// `true` abandons the run.
    pub interrupted: &'a dyn Fn() -> bool,
    /// When to give up.
    pub deadline: Option<Instant>,
    /// Most bytes a run may hold: its trajectory and what it keeps for the gradient.
    pub memory: usize,
    /// Most bytes kept for the gradient. Beyond them the stages of all steps are forgotten and some states kept
    /// instead, from which the gradient takes the steps once more: slower, and the same to the last bit.
    pub tapes: usize,
}

impl Default for Watch<'_> {
    fn default() -> Self {
        Self { interrupted: &|| false, deadline: None, memory: usize::MAX, tapes: 64 << 20 }
    }
}

/// How far a run has come.
#[derive(Clone, Copy, Debug, PartialEq, Default)]
pub struct Progress {
    /// Time in the ODE.
    pub time: f64,
    /// Steps tried, or taken once more for the gradient.
    pub steps: usize,
    /// Memory held.
    pub bytes: usize,
}

impl Watch<'_> {
    /// Fails once a limit is reached.
    pub fn check(&self, progress: Progress) -> Result<(), SolveError> {
        let Progress { time, steps, bytes } = progress;
        if (self.interrupted)() {
            return Err(SolveError::Interrupted { time });
        }
        if bytes > self.memory {
            return Err(SolveError::OutOfMemory { bytes, limit: self.memory, steps, time });
        }
        match self.deadline {
            Some(deadline) if Instant::now() >= deadline => Err(SolveError::OutOfTime { time, steps }),
            _ => Ok(()),
        }
    }

    /// The same limits for what comes after something that goes on holding so many bytes.
    #[must_use]
    pub fn beside(&self, bytes: usize) -> Self {
        Self { memory: self.memory.saturating_sub(bytes), tapes: self.tapes.saturating_sub(bytes), ..*self }
    }
}
