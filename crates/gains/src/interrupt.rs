//! Ctrl-C: the first asks running work to stop and keep what is done, the second ends the program.

use std::sync::atomic::{AtomicBool, Ordering};

static REQUESTED: AtomicBool = AtomicBool::new(false);

/// Starts listening.
pub fn install() {
    // Failing to install a handler leaves the default one, which ends the program: good enough.
    let _ = ctrlc::set_handler(|| {
        if REQUESTED.swap(true, Ordering::SeqCst) {
            std::process::exit(i32::from(crate::failure::INTERRUPTED));
        }
    });
}

/// Whether the user has asked to stop.
pub fn requested() -> bool {
    REQUESTED.load(Ordering::SeqCst)
}
