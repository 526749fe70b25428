//! Why a certificate does not pass.

use std::fmt;
use std::time::{Duration, Instant};

/// Why a certificate does not pass, or (inside) that there is nothing to show.
#[derive(Debug, Clone, PartialEq)]
pub enum Fault {
    /// It says something that could not be shown.
    Refused {
        /// Where, from the outside in.
        place: Vec<String>,
        /// What was expected.
        what: String,
        /// By how much it is missed, where that is a number.
        amount: Option<f64>,
    },
    /// It is no certificate, or not one of this kind.
    Malformed(String),
    /// No input is left: a box came out empty.
    Empty,
    /// The time was up before it was decided.
    Late,
}

/// When to stop.
#[derive(Debug, Clone, Copy, Default)]
pub struct Deadline(Option<Instant>);

impl Deadline {
    /// So much time from now on; no end if none is given.
    pub fn after(limit: Option<Duration>) -> Self {
        Self(limit.and_then(|limit| Instant::now().checked_add(limit)))
    }

    /// Refused once the time is up.
    pub fn check(self) -> Result<(), Fault> {
        if self.is_past() { Err(Fault::Late) } else { Ok(()) }
    }

    /// Whether the time is up. From then on functions that take long are not bounded any more, which is no falsehood; what is
    /// refused for that is not decided.
    pub fn is_past(self) -> bool {
        self.0.is_some_and(|end| Instant::now() >= end)
    }
}

impl Fault {
    /// A claim that is missed by some amount.
    pub fn refused(what: impl Into<String>, amount: f64) -> Self {
        Self::Refused { place: vec![], what: what.into(), amount: Some(amount) }
    }

    /// A claim that does not hold at all.
    pub fn wrong(what: impl Into<String>) -> Self {
        Self::Refused { place: vec![], what: what.into(), amount: None }
    }

    /// The same, known to have happened in `outer`.
    pub fn within(self, outer: impl Into<String>) -> Self {
        match self {
            Self::Refused { mut place, what, amount } => {
                place.insert(0, outer.into());
                Self::Refused { place, what, amount }
            }
            Self::Malformed(what) => Self::Malformed(format!("{}: {what}", outer.into())),
            Self::Empty | Self::Late => self,
        }
    }
}

impl From<String> for Fault {
    fn from(what: String) -> Self {
        Self::Malformed(what)
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused { place, what, amount } => {
                for place in place {
                    write!(f, "{place}: ")?;
                }
                f.write_str(what)?;
                amount.map_or(Ok(()), |amount| write!(f, " by {amount:e}"))
            }
            Self::Malformed(what) => f.write_str(what),
            Self::Empty => f.write_str("a box is empty"),
            Self::Late => f.write_str("the time was up"),
        }
    }
}
