//! Fetching from a server in this test, good and bad.

use std::fs;
use std::io;
use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use gains_data::{DataError, Dataset, Fetch, FetchEvent, Fetched, Images, Split};

use crate::files::{TRAIN_IMAGES, TRAIN_LABELS, idx_labels, put};
use crate::scene::{Files, Scene, md5, mnist_files, names, source};
use crate::server::{Fault, Server};

const ALL_FOUR: Fetched = Fetched::Complete { downloaded: 4, kept: 0 };

#[test]
fn a_whole_data_set_is_fetched_once() {
    let scene = Scene::mnist(vec![]);
    let (name, bytes) = scene.first();
    let mut seen = Vec::new();
    let outcome = scene.fetch.run(scene.dir.path(), &mut |event| {
        if let FetchEvent::Progress { name: of, received, total } = event
            && of == name
        {
            assert_eq!(total, bytes.len() as u64);
            seen.push(received);
        }
        ControlFlow::Continue(())
    });
    assert_eq!(outcome.unwrap(), ALL_FOUR);
    scene.assert_complete();
    assert!(seen.is_sorted() && seen.len() > 3, "{seen:?}");
    assert_eq!((seen[0], seen[seen.len() - 1]), (0, bytes.len() as u64));

    let again = scene.run().unwrap();
    let kept = Fetched::Complete { downloaded: 0, kept: 4 };
    assert_eq!(again, kept);
    assert_eq!(scene.server.log().len(), 4);
}

#[test]
fn uncompressed_files_are_kept_and_damaged_ones_replaced() {
    let scene = Scene::mnist(vec![]);
    put(scene.dir.path(), &format!("mnist/{TRAIN_LABELS}"), &idx_labels(300));
    put(scene.dir.path(), &format!("mnist/{TRAIN_IMAGES}.gz"), b"damaged");
    let outcome = scene.run().unwrap();
    let some = Fetched::Complete { downloaded: 3, kept: 1 };
    assert_eq!(outcome, some);
    let log = scene.server.log();
    assert!(log.iter().all(|entry| !entry.contains(TRAIN_LABELS)), "{log:?}");
    assert!(Images::load(Dataset::Mnist, Split::Train, scene.dir.path()).is_ok());
}

#[test]
fn a_dropped_connection_is_resumed_where_it_broke_off() {
    let scene = Scene::mnist(vec![Fault::DropAfter(100_000)]);
    let mut reasons = Vec::new();
    let outcome = scene.fetch.run(scene.dir.path(), &mut |event| {
        if let FetchEvent::Retrying { reason, .. } = event {
            reasons.push(reason.to_string());
        }
        ControlFlow::Continue(())
    });
    assert_eq!(outcome.unwrap(), ALL_FOUR);
    scene.assert_complete();
    let (name, _) = scene.first();
    assert_eq!(scene.server.log()[..2], [name.clone(), format!("{name} bytes=100000-")]);
    assert_eq!(reasons.len(), 1);
    assert!(reasons[0].contains("after 100000 of"), "{reasons:?}");
}

#[test]
fn a_server_that_never_gets_further_is_given_up() {
    let scene =
        Scene::mnist(vec![Fault::DropAfter(70_000), Fault::DropAfter(70_000), Fault::DropAfter(70_000)]);
    let error = scene.run().unwrap_err();
    assert!(matches!(error, DataError::Interrupted { received: 70_000, .. }), "{error}");
    assert!(error.hint().contains("fetch again"));
    assert_eq!(scene.server.log().len(), 3);
    // The next fetch goes on from there.
    assert_eq!(scene.run().unwrap(), ALL_FOUR);
    assert!(scene.server.log()[3].ends_with("bytes=70000-"));
    scene.assert_complete();
}

#[test]
fn a_server_that_cannot_resume_starts_over() {
    for fault in [Fault::IgnoreRange, Fault::WrongRange, Fault::Status(416), Fault::NoLength] {
        let scene = Scene::mnist(vec![fault]);
        // What an earlier fetch left need not even be right.
        put(scene.dir.path(), &format!("mnist/{TRAIN_IMAGES}.gz.partial"), &[7; 5000]);
        assert_eq!(scene.run().unwrap(), ALL_FOUR);
        assert!(scene.server.log()[0].ends_with("bytes=5000-"));
        scene.assert_complete();
    }
}

#[test]
fn a_partial_file_longer_than_the_whole_starts_over() {
    let scene = Scene::mnist(vec![]);
    let (_, bytes) = scene.first();
    put(scene.dir.path(), &format!("mnist/{TRAIN_IMAGES}.gz.partial"), &vec![0; bytes.len() + 1]);
    assert_eq!(scene.run().unwrap(), ALL_FOUR);
    scene.assert_complete();
}

#[test]
fn a_wrong_checksum_names_both_and_leaves_nothing() {
    let files = mnist_files();
    let mut changed = files[&format!("{TRAIN_IMAGES}.gz")].clone();
    changed[1000] ^= 1;
    let wrong = md5(&changed);
    let scene = Scene::mnist(vec![Fault::Content(changed)]);
    let right = source(Dataset::Mnist, &files, "").files[0].md5.clone();

    let error = scene.run().unwrap_err();
    assert!(matches!(error, DataError::WrongChecksum { .. }), "{error}");
    let message = error.to_string();
    assert!(message.contains(&wrong) && message.contains(&right));
    assert!(names(&scene.dir.path().join("mnist")).is_empty());
    assert_eq!(scene.run().unwrap(), ALL_FOUR);
}

#[test]
fn content_of_another_size_is_refused_at_once() {
    let scene = Scene::mnist(vec![Fault::Content(b"<html>please log in</html>".to_vec())]);
    let error = scene.run().unwrap_err();
    assert!(matches!(error, DataError::WrongSize { found: 26, .. }), "{error}");
    assert!(names(&scene.dir.path().join("mnist")).is_empty());
}

#[test]
fn a_refusal_is_final_and_a_server_error_is_not() {
    let scene = Scene::mnist(vec![Fault::Status(404)]);
    let error = scene.run().unwrap_err();
    assert!(matches!(error, DataError::Status { status: 404, .. }), "{error}");
    assert_eq!(scene.server.log().len(), 1);
    assert!(!scene.first_partial().exists());

    let scene = Scene::mnist(vec![Fault::Status(503), Fault::Status(429)]);
    assert_eq!(scene.run().unwrap(), ALL_FOUR);
    assert_eq!(scene.server.log().len(), 6);
}

#[test]
fn a_silent_server_is_asked_again() {
    let scene = Scene::mnist(vec![Fault::Silence(Duration::from_millis(600))]);
    // The server answers one request after the other, so the second attempt may
    // have to wait out the silence of the first.
    let fetch =
        scene.fetch.clone().silence(Duration::from_millis(200)).attempts(9, Duration::from_millis(100));
    let mut retries = 0;
    let outcome = fetch.run(scene.dir.path(), &mut |event| {
        retries += u32::from(matches!(event, FetchEvent::Retrying { .. }));
        ControlFlow::Continue(())
    });
    assert_eq!(outcome.unwrap(), ALL_FOUR);
    assert!(retries >= 1);
    scene.assert_complete();
}

#[test]
fn a_fallback_takes_over_from_a_place_that_fails() {
    let scene = Scene::mnist(vec![]);
    let empty = Server::start(Files::new(), vec![]);
    let mut source = source(Dataset::Mnist, &scene.files, &empty.base());
    source.fallbacks = vec![scene.server.base()];
    let outcome = Fetch::new(source).run(scene.dir.path(), &mut |_| ControlFlow::Continue(()));
    assert_eq!(outcome.unwrap(), ALL_FOUR);
    assert_eq!(empty.log().len(), 4);
    scene.assert_complete();
}

#[test]
fn an_unreachable_server_is_an_error_with_its_address() {
    let scene = Scene::mnist(vec![]);
    let gone = Server::start(Files::new(), vec![]).base();
    let error = Fetch::new(source(Dataset::Mnist, &scene.files, &gone))
        .attempts(2, Duration::from_millis(1))
        .run(scene.dir.path(), &mut |_| ControlFlow::Continue(()))
        .unwrap_err();
    assert!(matches!(error, DataError::Connection { .. }), "{error}");
    assert!(error.to_string().contains(&gone) && error.hint().contains("--mirror"));
}

#[test]
fn a_fetch_stopped_by_the_callback_is_resumed_by_the_next() {
    let scene = Scene::mnist(vec![]);
    let mut last = 0;
    let outcome = scene.fetch.run(scene.dir.path(), &mut |event| {
        if let FetchEvent::Progress { received, .. } = event {
            last = received;
        }
        if last > 60_000 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    assert_eq!(outcome.unwrap(), Fetched::Stopped);
    assert_eq!(fs::metadata(scene.first_partial()).unwrap().len(), last);

    assert_eq!(scene.run().unwrap(), ALL_FOUR);
    assert!(scene.server.log()[1].ends_with(&format!("bytes={last}-")));
    scene.assert_complete();
}

#[test]
fn a_place_that_cannot_be_written_is_named() {
    let scene = Scene::mnist(vec![]);
    let file = scene.dir.path().join("a-file");
    fs::write(&file, "").unwrap();
    let error = scene.fetch.run(&file, &mut |_| ControlFlow::Continue(())).unwrap_err();
    assert!(matches!(error, DataError::Write { .. }), "{error}");
    assert!(error.to_string().contains("a-file") && error.hint().contains("--data-dir"));
    assert!(scene.server.log().is_empty());
}

#[test]
#[cfg(target_os = "linux")]
fn a_full_disk_ends_the_fetch_with_a_hint() {
    let scene = Scene::mnist(vec![]);
    fs::create_dir(scene.dir.path().join("mnist")).unwrap();
    std::os::unix::fs::symlink("/dev/full", scene.first_partial()).unwrap();
    let error = scene.run().unwrap_err();
    match &error {
        DataError::Write { source, .. } => assert_eq!(source.kind(), io::ErrorKind::StorageFull),
        other => panic!("not a write error: {other}"),
    }
    assert!(error.hint().contains("make room"));
    assert_eq!(scene.server.log().len(), 1);
}

/// Runs until the fetch has waited for a moment, then stops it; says how long that took after asking to.
fn stop_while_waiting(fetch: &Fetch, scene: &Scene) -> Duration {
    let mut asked = None;
    let outcome = fetch.run(scene.dir.path(), &mut |event| match event {
        FetchEvent::Waiting { .. } => {
            asked.get_or_insert_with(Instant::now);
            ControlFlow::Break(())
        }
        _ => ControlFlow::Continue(()),
    });
    assert_eq!(outcome.unwrap(), Fetched::Stopped);
    asked.expect("it waited").elapsed()
}

#[test]
fn a_fetch_can_be_stopped_while_the_server_is_silent() {
    let scene = Scene::mnist(vec![Fault::Silence(Duration::from_millis(1500))]);
    // With the usual patience, thirty seconds of silence.
    let taken = stop_while_waiting(&scene.fetch.clone().silence(Duration::from_secs(30)), &scene);
    assert!(taken < Duration::from_millis(300), "{taken:?}");
}

#[test]
fn a_fetch_can_be_stopped_between_attempts() {
    let scene = Scene::mnist(vec![Fault::Status(503)]);
    let taken = stop_while_waiting(&scene.fetch.clone().attempts(3, Duration::from_secs(30)), &scene);
    assert!(taken < Duration::from_millis(300), "{taken:?}");
    assert_eq!(scene.server.log().len(), 1);
}
