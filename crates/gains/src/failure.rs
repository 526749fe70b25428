//! Errors as the user sees them: one line, a hint, an exit code.

use std::path::Path;

/// Bad input, unreadable or unwritable files, anything that went wrong while running.
pub const FAILED: u8 = 1;
/// The command line does not make sense.
pub const USAGE: u8 = 2;
/// Stopped by Ctrl-C; what was finished has been kept.
pub const INTERRUPTED: u8 = 130;

/// Why a command failed.
#[derive(Debug)]
pub struct Failure {
    /// What and where, in one line.
    pub message: String,
    /// What to do about it.
    pub hint: Option<String>,
    /// Exit code.
    pub code: u8,
    closed_pipe: bool,
}

impl Failure {
    /// Something went wrong.
    pub fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), hint: None, code: FAILED, closed_pipe: false }
    }

    /// The flags contradict each other or make no sense.
    pub fn usage(message: impl Into<String>) -> Self {
        Self { code: USAGE, ..Self::new(message) }
    }

    /// Adds a remedy.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// A file could not be read.
    pub fn reading(path: &Path, error: &std::io::Error) -> Self {
        Self::new(format!("cannot read '{}': {error}", path.display()))
            .hint("check the path and its permissions")
    }

    /// A file could not be written.
    pub fn writing(path: &Path, error: &std::io::Error) -> Self {
        Self {
            closed_pipe: error.kind() == std::io::ErrorKind::BrokenPipe,
            ..Self::new(format!("cannot write '{}': {error}", path.display()))
                .hint("check that the folder exists, is writable and has space left")
        }
    }

    /// Standard output could not be written.
    pub fn printing(error: &std::io::Error) -> Self {
        Self {
            closed_pipe: error.kind() == std::io::ErrorKind::BrokenPipe,
            ..Self::new(format!("cannot write to standard output: {error}"))
        }
    }

    /// Whether the reader of our output has gone away, which is no error.
    pub fn is_closed_pipe(&self) -> bool {
        self.closed_pipe
    }
}

impl From<gains_data::DataError> for Failure {
    fn from(error: gains_data::DataError) -> Self {
        Self::new(error.to_string()).hint(error.hint())
    }
}

impl From<gains_data::own::OwnError> for Failure {
    fn from(error: gains_data::own::OwnError) -> Self {
        Self::new(error.to_string()).hint(error.hint())
    }
}

/// The result of a command.
pub type Outcome = Result<(), Failure>;
