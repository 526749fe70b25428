//! How long and how large an analysis may become, and why it gave up.

use std::time::{Duration, Instant};

use gains_ode::{Halt, NoGrid, SolveError, Watch};
use thiserror::Error;

/// What a margin that proves nothing says.
fn loose(margin: f64) -> String {
    match margin == f64::NEG_INFINITY {
        true => "they say nothing about some output".into(),
        false => format!("the smallest certified margin is {margin:.6}"),
    }
}

/// Why there is no verdict.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum Reason {
    /// The analysis finished; its bound does not prove the property.
    #[error("bounds too loose: {}", loose(*.margin))]
    Loose {
        /// The smallest certified lower bound.
        margin: f64,
    },
    /// Intervals grew beyond what floating point can hold.
    #[error("intervals overflow (beyond 1e20) at time {time:.4}")]
    Overflow {
        /// Where in the ODE, or 0 in other layers.
        time: f64,
    },
    /// Too many solver states are reachable.
    #[error("more than {limit} reachable solver states")]
    TooManyVertices {
        /// The limit.
        limit: usize,
    },
    /// Out of time.
    #[error("time limit of {seconds} s reached")]
    TimeLimit {
        /// The limit.
        seconds: f64,
    },
    /// Out of memory.
    #[error("memory limit of {megabytes} MB reached")]
    MemoryLimit {
        /// The limit.
        megabytes: usize,
    },
    /// What was assumed of the region excludes all of it.
    #[error("no input is left in this part of the region")]
    Empty,
    /// A bound excludes a run of the network, so it cannot be right.
    #[error("a bound excludes the network's own output: a fault of this program, please report it")]
    Contradicted,
    /// Interrupted by the user.
    #[error("interrupted")]
    Interrupted,
    /// The solver's step sizes are not on a grid.
    #[error("the network uses a continuous adaptive solver, whose trajectories do not form a finite graph")]
    NotControlled,
    /// The method has no error estimate for its controller.
    #[error("the solver's method has no error estimate, which its controller needs")]
    NoErrorEstimate,
    /// The region is not made of inputs of the network.
    #[error("the region has {found} entries, the network takes {expected}")]
    InputSize {
        /// Entries of the region.
        found: usize,
        /// Entries of an input.
        expected: usize,
    },
    /// The rounding argument does not hold for a float32 program with such a number in it.
    #[error(
        "float32 cannot hold {number:e} to its usual accuracy, so what a float32 program does with it is not known"
    )]
    BeyondFloat32 {
        /// A number of the network or its solver.
        number: f64,
    },
    /// The rounding argument does not hold in this process.
    #[error("this process flushes subnormal numbers to zero, so rounding cannot be accounted for")]
    FlushToZero,
    /// The program has a fault: something panicked while the sample was looked at.
    #[error("a fault of this program, please report it: {0}")]
    Internal(String),
    /// The property does not fit the network.
    #[error("the property does not fit: {0}")]
    Property(String),
    /// The concrete solver failed on the sample itself.
    #[error("the concrete solver fails: {0}")]
    Concrete(String),
}

impl Reason {
    /// A word for tables and files.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Loose { .. } => "loose",
            Self::Overflow { .. } => "overflow",
            Self::TooManyVertices { .. } => "vertices",
            Self::TimeLimit { .. } => "time",
            Self::MemoryLimit { .. } => "memory",
            Self::Empty => "empty",
            Self::Contradicted => "contradicted",
            Self::Interrupted => "interrupted",
            Self::NotControlled => "not-controlled",
            Self::NoErrorEstimate => "no-error-estimate",
            Self::InputSize { .. } => "input-size",
            Self::BeyondFloat32 { .. } => "beyond-float32",
            Self::FlushToZero => "flush-to-zero",
            Self::Internal(_) => "internal",
            Self::Property(_) => "property",
            Self::Concrete(_) => "concrete",
        }
    }
}

impl From<Halt<Self>> for Reason {
    fn from(halt: Halt<Self>) -> Self {
        match halt {
            Halt::Carrier(reason) => reason,
            Halt::TooManyVertices { limit } => Self::TooManyVertices { limit },
            Halt::Stopped => Self::Interrupted,
            Halt::NotControlled => Self::NotControlled,
            Halt::NoErrorEstimate => Self::NoErrorEstimate,
        }
    }
}

impl From<NoGrid> for Reason {
    fn from(problem: NoGrid) -> Self {
        match problem {
            NoGrid::NotControlled => Self::NotControlled,
            NoGrid::NoErrorEstimate { .. } => Self::NoErrorEstimate,
        }
    }
}

/// What one sample may cost.
#[derive(Clone, Copy)]
pub struct Budget<'a> {
    /// Wall-clock limit.
    pub timeout: Option<Duration>,
    /// Most vertices of a trajectory graph.
    pub vertices: usize,
    /// Most memory for graphs and rows, in bytes.
    pub memory: usize,
    /// Asked now and then; `true` abandons the sample.
    pub interrupted: &'a (dyn Fn() -> bool + Sync),
}

impl Default for Budget<'_> {
    fn default() -> Self {
        Self { timeout: None, vertices: 20_000, memory: 4 << 30, interrupted: &|| false }
    }
}

/// A budget being spent.
#[derive(Clone, Copy)]
pub struct Clock<'a> {
    budget: Budget<'a>,
    started: Instant,
    /// Memory somebody else holds meanwhile.
    reserved: usize,
}

impl<'a> Clock<'a> {
    /// Starts the clock.
    pub fn start(budget: Budget<'a>) -> Self {
        Self { budget, started: Instant::now(), reserved: 0 }
    }

    /// Time spent so far.
    pub fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }

    /// Time left, where it is limited.
    pub fn left(&self) -> Option<Duration> {
        self.budget.timeout.map(|limit| limit.saturating_sub(self.elapsed()))
    }

    /// A share of what is left: at most so much more time, and only the memory that others do not hold.
    pub fn share(&self, more: Duration, held_by_others: usize) -> Self {
        let until = self.elapsed().saturating_add(more);
        let timeout = Some(self.budget.timeout.map_or(until, |limit| limit.min(until)));
        let reserved = self.reserved.saturating_add(held_by_others);
        Self { budget: Budget { timeout, ..self.budget }, reserved, ..*self }
    }

    /// The budget.
    pub fn budget(&self) -> &Budget<'a> {
        &self.budget
    }

    /// The same limits for concrete runs.
    pub fn watch(&self) -> Watch<'a> {
        let deadline = self.budget.timeout.and_then(|limit| self.started.checked_add(limit));
        Watch {
            interrupted: self.budget.interrupted,
            deadline,
            memory: self.budget.memory,
            ..Watch::default()
        }
    }

    /// Why a concrete run failed.
    pub fn reason(&self, error: &SolveError) -> Reason {
        match error {
            SolveError::Interrupted { .. } => Reason::Interrupted,
            SolveError::OutOfMemory { .. } => Reason::MemoryLimit { megabytes: self.budget.memory >> 20 },
            SolveError::OutOfTime { .. } => {
                Reason::TimeLimit { seconds: self.budget.timeout.unwrap_or_default().as_secs_f64() }
            }
            other => Reason::Concrete(other.to_string()),
        }
    }

    /// Whether the user has interrupted.
    pub fn interrupted(&self) -> bool {
        (self.budget.interrupted)()
    }

    /// Fails when time is up, `bytes` are too many, or the user has interrupted.
    pub fn check(&self, bytes: usize) -> Result<(), Reason> {
        if self.interrupted() {
            return Err(Reason::Interrupted);
        }
        // What is held costs about a third more: copies that live for a moment, and what the allocator rounds up.
        let bytes = bytes.saturating_add(bytes / 3);
        if bytes.saturating_add(self.reserved) > self.budget.memory {
            return Err(Reason::MemoryLimit { megabytes: self.budget.memory >> 20 });
        }
        match self.budget.timeout {
            Some(limit) if self.elapsed() >= limit => Err(Reason::TimeLimit { seconds: limit.as_secs_f64() }),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loose_bounds_have_a_number_only_if_there_is_one() {
        let said = |margin| Reason::Loose { margin }.to_string();
        assert_eq!(said(-0.25), "bounds too loose: the smallest certified margin is -0.250000");
        assert_eq!(said(f64::NEG_INFINITY), "bounds too loose: they say nothing about some output");
    }
}
