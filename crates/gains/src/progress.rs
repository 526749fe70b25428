//! Progress bars on standard error, only when a person is looking.

use std::io::IsTerminal;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// A bar over `length` items with time left; hidden when quiet or not on a terminal.
pub fn bar(length: u64, quiet: bool, template: &str) -> ProgressBar {
    let target = if quiet || !std::io::stderr().is_terminal() {
        ProgressDrawTarget::hidden()
    } else {
        ProgressDrawTarget::stderr()
    };
    let bar = ProgressBar::with_draw_target(Some(length), target);
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style.progress_chars("━╸ "));
    }
    bar.enable_steady_tick(Duration::from_millis(200));
    bar
}

/// Template for work counted in items.
pub const ITEMS: &str = "{prefix} {bar:30} {pos}/{len}  {msg}  {elapsed} gone, {eta} left";
/// Template for downloads.
pub const BYTES: &str = "{prefix} {bar:30} {bytes}/{total_bytes}  {bytes_per_sec}, {eta} left";
