//! Printing that cannot panic: standard output may be closed or full, standard error may be gone.

use std::io::Write;

use crate::failure::{Failure, Outcome};

/// Prints results.
pub fn print(text: &str) -> Outcome {
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).map_err(|e| Failure::printing(&e))
}

/// Prints a line of chatter; where nobody listens, nothing is lost.
pub fn note(line: &str) {
    let _ = writeln!(std::io::stderr().lock(), "{line}");
}

/// Prints a summary: to standard output, unless that holds the results themselves.
pub fn summary(text: &str, results_on_stdout: bool) -> Outcome {
    if results_on_stdout {
        let _ = std::io::stderr().lock().write_all(text.as_bytes());
        Ok(())
    } else {
        print(text)
    }
}

/// Says which files were written, unless asked to be quiet.
pub fn written<'a>(paths: impl IntoIterator<Item = &'a std::path::PathBuf>, quiet: bool) {
    if !quiet {
        paths.into_iter().for_each(|path| note(&format!("wrote {}", path.display())));
    }
}
