//! Doing many samples in parallel, in any order, with results handled as they come.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use crate::failure::Failure;
use crate::interrupt;
use crate::panics::{self, Panicked};

/// Whether the work is to be given up; asked on any thread.
pub type Stop<'a> = &'a (dyn Fn() -> bool + Sync);

/// How often whoever waits for results asks whether to give up.
const PATIENCE: Duration = Duration::from_millis(50);

/// Number of workers to use.
pub fn threads(asked: Option<u16>) -> usize {
    // Asking the system takes longer than a small question.
    static CORES: OnceLock<usize> = OnceLock::new();
    let cores = || *CORES.get_or_init(|| std::thread::available_parallelism().map_or(1, usize::from));
    asked.map_or_else(cores, usize::from)
}

/// Applies `work` to every task on several threads and hands each result to `handle` on this one; a task that
/// panicked is handed over as such, and the others go on. Stops early when the user interrupts or `handle` fails;
/// results that were finished by then are handled.
pub fn for_each<T: Sync, R: Send>(
    tasks: &[T],
    threads: usize,
    work: impl Fn(&T) -> R + Sync,
    handle: impl FnMut(&T, Result<R, Panicked>) -> Result<(), Failure>,
) -> Result<(), Failure> {
    for_each_until(&interrupt::requested, tasks, threads, work, handle)
}

/// The same, until `stop` says so. It is asked on this thread, too, every now and then. One thread is this one.
pub fn for_each_until<T: Sync, R: Send>(
    stopped: Stop<'_>,
    tasks: &[T],
    threads: usize,
    work: impl Fn(&T) -> R + Sync,
    mut handle: impl FnMut(&T, Result<R, Panicked>) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let threads = threads.clamp(1, tasks.len().max(1));
    if threads == 1 {
        return tasks
            .iter()
            .take_while(|_| !stopped())
            .try_for_each(|task| handle(task, panics::contain(|| work(task))));
    }
    let next = AtomicUsize::new(0);
    let stop = AtomicBool::new(false);
    let (sender, receiver) = mpsc::channel();
    std::thread::scope(|scope| {
        for _ in 0..threads {
            let sender = sender.clone();
            let (next, stop, work) = (&next, &stop, &work);
            scope.spawn(move || {
                while !stop.load(Ordering::Relaxed) && !stopped() {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    let Some(task) = tasks.get(index) else { break };
                    if sender.send((index, panics::contain(|| work(task)))).is_err() {
                        break;
                    }
                }
            });
        }
        drop(sender);
        let mut outcome = Ok(());
        loop {
            match receiver.recv_timeout(PATIENCE) {
                Ok((index, result)) if outcome.is_ok() => {
                    outcome = handle(&tasks[index], result);
                    stop.store(outcome.is_err(), Ordering::Relaxed);
                }
                Ok(_) => {}
                Err(RecvTimeoutError::Timeout) => {
                    stop.store(stopped() || outcome.is_err(), Ordering::Relaxed)
                }
                Err(RecvTimeoutError::Disconnected) => return outcome,
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_task_is_handled_once() {
        let tasks: Vec<usize> = (0..100).collect();
        let mut seen = vec![0; 100];
        for_each(
            &tasks,
            3,
            |t| t * 2,
            |task, result| {
                assert_eq!(result, Ok(task * 2));
                seen[*task] += 1;
                Ok(())
            },
        )
        .unwrap();
        assert!(seen.iter().all(|n| *n == 1));
    }

    #[test]
    fn a_task_that_panics_does_not_stop_the_others() {
        let tasks: Vec<usize> = (0..50).collect();
        let work = |task: &usize| {
            assert!(task % 10 != 3, "task {task}");
            *task
        };
        let (mut done, mut broken) = (0, Vec::new());
        for_each(&tasks, 3, work, |task, result| {
            match result {
                Ok(_) => done += 1,
                Err(panicked) => {
                    assert_eq!(panicked.message, format!("task {task}"));
                    assert!(panicked.place.unwrap().contains("runner.rs"));
                    broken.push(*task);
                }
            }
            Ok(())
        })
        .unwrap();
        broken.sort_unstable();
        assert_eq!((done, broken), (45, vec![3, 13, 23, 33, 43]));
    }

    #[test]
    fn a_failing_handler_stops_the_work() {
        let tasks: Vec<usize> = (0..10_000).collect();
        let done = AtomicUsize::new(0);
        let outcome = for_each(
            &tasks,
            2,
            |_| {
                done.fetch_add(1, Ordering::Relaxed);
                std::thread::sleep(Duration::from_micros(100));
            },
            |_, _| Err(Failure::new("full")),
        );
        assert!(outcome.is_err());
        assert!(done.load(Ordering::Relaxed) < 1000);
    }
}
