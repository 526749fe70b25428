//! The one place that writes to standard output and standard error.
//!
//! Nothing here panics. A reader that has gone away or a disk that is full is a [`Failure`] of the command; on
//! standard error, where failures are told, it is silence.
//!
//! Names out of files must not steer the terminal: whatever could (escape sequences, marks that reverse the order of
//! the text) is shown as JSON writes it, `\u001b`. Only the ends of lines and tabs pass. Where a name stands within
//! a line, [`plain`] shows those too.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::io::{IsTerminal, Write};

use crate::failure::{Failure, Outcome};

/// Prints a line to standard output: `say!("{count} done")?`.
macro_rules! say {
    () => { $crate::output::print("\n") };
    ($($text:tt)*) => { $crate::output::print(&(format!($($text)*) + "\n")) };
}
pub(crate) use say;

/// Prints a line to standard error: `note!("{count} done")`.
macro_rules! note {
    ($($text:tt)*) => { $crate::output::remark(&(format!($($text)*) + "\n")) };
}
pub(crate) use note;

/// Prints text to standard output.
pub fn print(text: &str) -> Outcome {
    deliver(visible(text, Breaks::Kept).as_bytes())
}

/// Writes what a command was asked for to standard output: as it is, unless a person is looking.
pub fn hand_over(bytes: &[u8]) -> Outcome {
    match std::str::from_utf8(bytes) {
        Ok(text) if std::io::stdout().is_terminal() => print(text),
        _ => deliver(bytes),
    }
}

/// What is buffered would be lost at the end of the program, and the error with it.
fn deliver(bytes: &[u8]) -> Outcome {
    let mut out = std::io::stdout().lock();
    out.write_all(bytes).and_then(|()| out.flush()).map_err(|e| Failure::printing(&e))
}

/// Prints text to standard error, if anything still listens there.
pub fn remark(text: &str) {
    let _ = std::io::stderr().lock().write_all(visible(text, Breaks::Kept).as_bytes());
}

/// The colour of a [`complain`] line's first word.
#[derive(Clone, Copy)]
pub enum Tone {
    /// Red.
    Error,
    /// Cyan.
    Hint,
}

/// Prints one line to standard error after a word, which is in colour if a person is looking.
pub fn complain(word: &str, tone: Tone, text: &str) {
    let colour = std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    let (on, off) = match tone {
        _ if !colour => ("", ""),
        Tone::Error => ("\x1b[1;31m", "\x1b[0m"),
        Tone::Hint => ("\x1b[1;36m", "\x1b[0m"),
    };
    let _ = writeln!(std::io::stderr().lock(), "{on}{word}{off} {}", plain(text));
}

/// A name out of a file, in one line.
pub fn plain(text: &str) -> Cow<'_, str> {
    visible(text, Breaks::Shown)
}

/// What becomes of the ends of lines and of tabs.
#[derive(Clone, Copy, PartialEq)]
enum Breaks {
    Kept,
    Shown,
}

fn visible(text: &str, breaks: Breaks) -> Cow<'_, str> {
    let steers = |c: char| match c {
        '\n' | '\t' => breaks == Breaks::Shown,
        c => steers(c),
    };
    if !text.contains(steers) {
        return text.into();
    }
    let mut shown = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        match c {
            '\n' if steers(c) => shown.push_str("\\n"),
            '\t' if steers(c) => shown.push_str("\\t"),
            c if steers(c) => {
                let _ = write!(shown, "\\u{:04x}", u32::from(c));
            }
            c => shown.push(c),
        }
    }
    shown.into()
}

/// Control characters, separators that some take for ends of lines, and marks that change the order of text.
fn steers(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_steers_a_terminal_is_shown() {
        let kept = |text| visible(text, Breaks::Kept).into_owned();
        assert_eq!(kept("a → b\n\tc"), "a → b\n\tc");
        assert_eq!(kept("\x1b[2J\r\u{9b}1m\x7f"), "\\u001b[2J\\u000d\\u009b1m\\u007f");
        assert_eq!(kept("a\u{202e}b\u{2028}"), "a\\u202eb\\u2028");
        assert_eq!(plain("x\nverified: all\t1"), "x\\nverified: all\\t1");
        assert!(matches!(plain("t-shirt/top"), Cow::Borrowed(_)));
    }

    #[test]
    fn json_means_the_same_afterwards() {
        let name = "a\u{9b}b\u{202e}\x7f\x1b";
        let text = serde_json::to_string(name).unwrap();
        let shown = visible(&text, Breaks::Kept);
        assert_ne!(shown, text);
        assert_eq!(serde_json::from_str::<String>(&shown).unwrap(), name);
    }
}
