//! Panics of one sample: kept apart from the rest of a campaign, and told with their place.
//!
//! A panic is a fault of this program. What the other samples showed is still true, so it must not end their
//! campaign; and it is never a verdict.

use std::any::Any;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, PanicHookInfo, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, Once, PoisonError};
use std::thread::ThreadId;
use std::time::{Duration, Instant};

/// Work that panicked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Panicked {
    /// What was said.
    pub message: String,
    /// File and line, where that is known.
    pub place: Option<String>,
    /// Time until then.
    pub elapsed: Duration,
}

impl std::fmt::Display for Panicked {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.place {
            Some(place) => write!(f, "{} ({place})", self.message),
            None => f.write_str(&self.message),
        }
    }
}

/// A panic the hook has seen.
struct Seen {
    thread: ThreadId,
    message: String,
    place: Option<String>,
}

/// How much work is being contained at the moment. While there is any, the hook keeps panics instead of printing them.
static CONTAINING: AtomicUsize = AtomicUsize::new(0);
/// Panics that nobody has asked for yet. Branch and bound has threads of its own, which hand theirs on.
static SEEN: Mutex<Vec<Seen>> = Mutex::new(Vec::new());
static INSTALL: Once = Once::new();

thread_local! {
    /// Whether this thread does contained work.
    static INSIDE: Cell<bool> = const { Cell::new(false) };
}

/// Does some work; a panic in it, or in a thread that hands its panic on to it, is an error. Nothing is printed.
///
/// What the work has changed outside of itself is the caller's to judge: samples share nothing but counters.
pub fn contain<R>(work: impl FnOnce() -> R) -> Result<R, Panicked> {
    INSTALL.call_once(install);
    CONTAINING.fetch_add(1, Ordering::SeqCst);
    let started = Instant::now();
    let outer = INSIDE.replace(true);
    let outcome = catch_unwind(AssertUnwindSafe(work));
    INSIDE.set(outer);
    CONTAINING.fetch_sub(1, Ordering::SeqCst);
    outcome.map_err(|payload| {
        let message = message_of(payload.as_ref());
        let place = take_place(&message);
        Panicked { message, place, elapsed: started.elapsed() }
    })
}

fn install() {
    let before = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        // The main thread handles what the others found; its own panics are nobody's.
        let handler = std::thread::current().name() == Some("main") && !INSIDE.get();
        if CONTAINING.load(Ordering::SeqCst) == 0 || handler {
            before(info);
        } else {
            keep(info);
        }
    }));
}

fn keep(info: &PanicHookInfo<'_>) {
    let seen = Seen {
        thread: std::thread::current().id(),
        message: message_of(info.payload()),
        place: info.location().map(ToString::to_string),
    };
    SEEN.lock().unwrap_or_else(PoisonError::into_inner).push(seen);
}

/// Where a panic happened: the last of this thread with that message, else the last of any.
fn take_place(message: &str) -> Option<String> {
    let mut seen = SEEN.lock().unwrap_or_else(PoisonError::into_inner);
    let here = std::thread::current().id();
    let mine = |s: &Seen| s.thread == here && s.message == message;
    let index = seen.iter().rposition(mine).or_else(|| seen.iter().rposition(|s| s.message == message))?;
    seen.remove(index).place
}

fn message_of(payload: &(dyn Any + Send)) -> String {
    let text = payload.downcast_ref::<&str>().map(ToString::to_string);
    text.or_else(|| payload.downcast_ref::<String>().cloned()).unwrap_or_else(|| "no message".into())
}

/// Panics if the environment asks for it at this sample, to show in tests what becomes of it. Nothing in release builds.
pub fn provoke(index: usize) {
    if cfg!(debug_assertions) {
        let asked = std::env::var("GAINS_TEST_PANIC_AT").ok().and_then(|text| text.parse::<usize>().ok());
        assert!(asked != Some(index), "provoked at sample {index}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_an_error_with_its_place() {
        assert_eq!(contain(|| 7), Ok(7));
        let caught = contain(|| -> u8 { panic!("number {}", 3) }).unwrap_err();
        assert_eq!(caught.message, "number 3");
        assert!(caught.place.as_deref().unwrap().contains("panics.rs"), "{caught}");
        assert!(contain(|| std::panic::resume_unwind(Box::new(5))).unwrap_err().message == "no message");
    }

    /// As branch and bound does it.
    #[test]
    fn a_panic_handed_on_by_another_thread_keeps_its_place() {
        let caught = contain(|| {
            std::thread::scope(|scope| {
                let worker = scope.spawn(|| panic!("far away"));
                worker.join().unwrap_or_else(|payload| std::panic::resume_unwind(payload));
            });
        });
        let caught = caught.unwrap_err();
        assert_eq!(caught.message, "far away");
        assert!(caught.place.unwrap().contains("panics.rs"));
    }
}
