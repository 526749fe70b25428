//! Ctrl-C: the first asks running work to stop and keep what is done, the second ends the program. Where nothing
//! would be kept, the first ends it.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use crate::failure::INTERRUPTED;
use crate::output::note;

static REQUESTED: AtomicBool = AtomicBool::new(false);
/// How many pieces of work are under way of which nothing would be kept.
static NOTHING_TO_KEEP: AtomicUsize = AtomicUsize::new(0);

/// Work that has not stopped by then is said to go on for a moment.
const SOON: Duration = Duration::from_millis(300);

/// Starts listening.
pub fn install() {
    // Failing to install a handler leaves the default one, which ends the program: good enough.
    let _ = ctrlc::set_handler(|| {
        let again = REQUESTED.swap(true, Ordering::SeqCst);
        if again || NOTHING_TO_KEEP.load(Ordering::SeqCst) > 0 {
            std::process::exit(i32::from(INTERRUPTED));
        }
        std::thread::spawn(|| {
            std::thread::sleep(SOON);
            note!("\nstopping, to keep what is done; Ctrl-C again ends at once");
        });
    });
}

/// Whether the user has asked to stop.
pub fn requested() -> bool {
    REQUESTED.load(Ordering::SeqCst)
}

/// Does work of which nothing would be kept, such as reading a file: Ctrl-C ends the program at once.
///
/// Work on other threads must not have anything to keep either.
pub fn at_once<T>(work: impl FnOnce() -> T) -> T {
    NOTHING_TO_KEEP.fetch_add(1, Ordering::SeqCst);
    if requested() {
        std::process::exit(i32::from(INTERRUPTED));
    }
    let done = work();
    NOTHING_TO_KEEP.fetch_sub(1, Ordering::SeqCst);
    done
}
