//! A copy of a running store: whole, of one moment, and started on like any other directory.
#![allow(clippy::unwrap_used, reason = "in a test, a panic is the report")]

mod support;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use ff_backend_embedded::{BackupError, EmbeddedConfig, EmbeddedHost, SyncMode, store};
use ff_core::partition::Partition;
use support::faulty::Faults;
use support::load::{missing, restless, write_until_it_fails};
use support::valkey::{Resp, Valkey};
use support::{RUN, in_directory, in_directory_on, in_memory, library, on_disk, run};

/// Writes these numbers and higher ones until it is told to stop; answers the last.
fn under_load(
    host: &Arc<EmbeddedHost>,
    done: &Arc<AtomicBool>,
    mut n: u32,
) -> tokio::task::JoinHandle<u32> {
    let (host, done) = (Arc::clone(host), Arc::clone(done));
    tokio::spawn(async move {
        while !done.load(Ordering::SeqCst) {
            write_until_it_fails(&host, n..n + 10).await;
            n += 10;
        }
        n
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_copy_made_under_load_holds_what_was_acknowledged_before_it_and_can_be_started_on() {
    let root = tempfile::tempdir().unwrap();
    let host = Arc::new(EmbeddedHost::open(restless(root.path()), &library(RUN)).unwrap());
    let mut n = 0;
    for round in 0..5 {
        let acknowledged = write_until_it_fails(&host, n..n + 20).await;
        let done = Arc::new(AtomicBool::new(false));
        let load = under_load(&host, &done, n + 20);
        let made = host.backup(&format!("round-{round}")).await.unwrap();
        done.store(true, Ordering::SeqCst);
        n = load.await.unwrap();
        assert_eq!(made.directory, root.path().join(format!("backups/round-{round}")));
        let checked = store::check(&made.directory).unwrap();
        assert_eq!(missing(&checked.dump, &acknowledged), None);
        let copy = in_directory(&made.directory);
        assert_eq!(copy.dump().await.unwrap(), checked.dump);
        run(&copy, "SET ff:{fp:7}:more v").await.unwrap();
        copy.close().await;
    }
    let before = host.dump().await.unwrap();
    host.close().await;
    assert_eq!(store::check(root.path()).unwrap().dump, before, "the store itself goes on");
}

#[tokio::test]
async fn a_copy_is_of_the_moment_it_was_asked_for_and_valkey_starts_on_it() {
    let root = tempfile::tempdir().unwrap();
    let host = in_directory(root.path());
    let acknowledged = write_until_it_fails(&host, 0..30).await;
    let before = host.dump().await.unwrap();
    let made = host.backup("first").await.unwrap();
    write_until_it_fails(&host, 30..60).await;
    assert_eq!(store::check(&made.directory).unwrap().dump, before);
    let mut server = Valkey::start(&made.directory, &["--appendonly", "yes"]);
    let mut client = server.connect();
    for (partition, n) in acknowledged {
        let key = format!("{}:h", partition.key());
        let answer = client.call(&[b"HGET", key.as_bytes(), b"last"]);
        assert!(matches!(answer, Resp::Bytes(last) if last == n.to_string().into_bytes()));
    }
}

fn left_of(root: &std::path::Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(root.join("backups")).into_iter().flatten();
    entries.map(|entry| entry.unwrap().path()).collect()
}

#[tokio::test]
async fn a_copy_that_fails_at_any_step_leaves_nothing_and_the_store_goes_on() {
    let steps = [("create", "incr.aof"), ("sync", "incr.aof"), ("rename", "manifest")];
    let more = [("create", "flowfabric.store"), ("create_directory", "appendonlydir")];
    for (operation, file) in steps.into_iter().chain(more) {
        let root = tempfile::tempdir().unwrap();
        let faults = Faults::none();
        let host = in_directory_on(root.path(), faults.disk());
        let acknowledged = write_until_it_fails(&host, 0..20).await;
        faults.fail_when(move |now, path| {
            let path = path.to_string_lossy();
            let hit = now == operation && path.contains("backups") && path.ends_with(file);
            hit.then(|| std::io::ErrorKind::StorageFull.into())
        });
        let failed = host.backup("first").await;
        assert!(matches!(failed, Err(BackupError::Store(_))), "{operation} {file}: {failed:?}");
        assert_eq!(left_of(root.path()), Vec::<PathBuf>::new(), "{operation} {file}");
        write_until_it_fails(&host, 20..25).await;
        faults.work_again();
        let made = host.backup("first").await.unwrap();
        let dump = store::check(&made.directory).unwrap().dump;
        assert_eq!(missing(&dump, &acknowledged), None);
    }
}

#[tokio::test]
async fn a_copy_that_would_fill_the_disk_is_not_made() {
    let root = tempfile::tempdir().unwrap();
    let faults = Faults::none();
    let host = in_directory_on(root.path(), faults.disk());
    write_until_it_fails(&host, 0..20).await;
    faults.room.store(40 << 20, Ordering::SeqCst);
    let refused = host.backup("first").await.unwrap_err().to_string();
    assert!(refused.contains("are free"), "{refused}");
    assert_eq!(left_of(root.path()), Vec::<PathBuf>::new());
}

#[tokio::test]
async fn a_copy_needs_a_name_of_its_own_that_leads_nowhere_else() {
    let root = tempfile::tempdir().unwrap();
    let host = in_directory(root.path());
    run(&host, "SET ff:{fp:7}:a v").await.unwrap();
    let long = "x".repeat(65);
    for name in ["", ".", "..", ".a", "a/b", "../a", "a b", "-a", "a\0", "a.partial", &long] {
        assert!(matches!(host.backup(name).await, Err(BackupError::Name)), "{name:?}");
    }
    host.backup("2026-11-18_01.a").await.unwrap();
    let again = host.backup("2026-11-18_01.a").await;
    assert!(matches!(again, Err(BackupError::Exists { .. })));
    host.close().await;
    assert!(matches!(host.backup("late").await, Err(BackupError::Closed)));
    assert!(matches!(in_memory(RUN).backup("none").await, Err(BackupError::NoFiles)));
}

#[tokio::test]
async fn copies_go_where_they_are_told_to() {
    let (root, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let backup_directory = Some(elsewhere.path().join("made/for/this"));
    let config = EmbeddedConfig { backup_directory, ..on_disk(root.path(), SyncMode::Always) };
    let host = EmbeddedHost::open(config, &library(RUN)).unwrap();
    run(&host, "SET ff:{fp:7}:a v").await.unwrap();
    let made = host.backup("a").await.unwrap();
    assert_eq!(made.directory, elsewhere.path().join("made/for/this/a"));
    assert_eq!(store::check(&made.directory).unwrap().dump.len(), 1);
}

/// What is sealed for a copy is still to be rewritten, and many small files are, too.
#[tokio::test]
async fn copies_do_not_put_off_the_rewriting_of_the_journal() {
    let root = tempfile::tempdir().unwrap();
    let host = in_directory(root.path());
    for n in 0..40 {
        run(&host, "SET ff:{fp:7}:a v").await.unwrap();
        host.backup(&format!("n{n}")).await.unwrap();
    }
    let files = support::journal_files(root.path(), "incr").len();
    assert!(host.stats().compactions >= 2 && files <= 18, "{files} files");
    let key = Partition::flow(7).key();
    let dump = host.dump().await.unwrap();
    assert!(dump.contains_key(format!("{key}:a").as_bytes()));
}
