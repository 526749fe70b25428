//! What commands say besides their results, through [`crate::output`].

use crate::failure::Outcome;
use crate::files::is_stdout;
pub use crate::output::print;
use crate::output::remark;

/// Prints a line of chatter; where nobody listens, nothing is lost.
pub fn note(line: &str) {
    remark(&format!("{line}\n"));
}

/// Prints a summary: to standard output, unless that holds the results themselves.
pub fn summary(text: &str, results_on_stdout: bool) -> Outcome {
    if results_on_stdout {
        remark(text);
        Ok(())
    } else {
        print(text)
    }
}

/// Says which files were written, unless asked to be quiet.
pub fn written<'a>(paths: impl IntoIterator<Item = &'a std::path::PathBuf>, quiet: bool) {
    if !quiet {
        let files = paths.into_iter().filter(|path| !is_stdout(Some(path)));
        files.for_each(|path| note(&format!("wrote {}", path.display())));
    }
}
