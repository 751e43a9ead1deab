//! A full disk: calls that may write are refused before they run, what ran can always be written,
//! and reads go on.
#![allow(clippy::unwrap_used, reason = "in a test, a panic is the report")]

mod support;

use std::sync::Arc;
use std::sync::atomic::Ordering;

use ff_backend_embedded::{CompactionConfig, EmbeddedConfig, EmbeddedHost, SyncMode, store};
use ff_core::backend_error::{BackendError, BackendErrorKind, Retry};
use ff_core::partition::Partition;
use ff_script::dump::Stored;
use ff_script::value::Value;
use support::faulty::{Faults, PLENTY};
use support::model::Survivors;
use support::{HOME, RUN, call, in_directory, in_directory_on, library, on_disk, outcome, run};

/// Large enough that few calls use up what is reserved.
static LARGE: [u8; 256 << 10] = [b'x'; 256 << 10];

async fn read(host: &EmbeddedHost, key: &str) -> Result<Value, BackendError> {
    call(host, "read", HOME, &[b"GET", key.as_bytes()]).await
}

/// Writes to a disk with no room beyond what is reserved, until a call is refused. Answers how many
/// were not, and the refusal.
async fn use_up(host: &EmbeddedHost) -> (u32, BackendError) {
    for n in 0.. {
        let key = format!("ff:{{fp:7}}:large{n}");
        if let Err(error) = call(host, "run", HOME, &[b"SET", key.as_bytes(), &LARGE]).await {
            return (n, error);
        }
    }
    unreachable!("a disk is full at some time")
}

#[tokio::test]
async fn a_full_disk_refuses_writes_before_they_run_serves_reads_and_recovers_by_itself() {
    let root = tempfile::tempdir().unwrap();
    let faults = Faults::none();
    let host = in_directory_on(root.path(), faults.disk());
    run(&host, "SET ff:{fp:7}:a before").await.unwrap();
    faults.room.store(0, Ordering::SeqCst);

    let (written, refused) = use_up(&host).await;
    assert_eq!((refused.kind, refused.retry), (BackendErrorKind::Resource, Retry::Safe));
    let again = run(&host, "SET ff:{fp:7}:b refused").await.unwrap_err();
    assert_eq!((again.kind, again.retry), (BackendErrorKind::Resource, Retry::Safe));
    assert_eq!(outcome(&read(&host, "ff:{fp:7}:a").await), "\"before\"");
    assert_eq!(outcome(&read(&host, "ff:{fp:7}:b").await), "(nil)");
    let key = format!("ff:{{fp:7}}:large{written}");
    assert_eq!(outcome(&read(&host, &key).await), "(nil)", "what was refused did not run");

    faults.room.store(PLENTY, Ordering::SeqCst);
    while run(&host, "SET ff:{fp:7}:c after").await.is_err() {
        tokio::task::yield_now().await;
    }
    let before = host.dump().await.unwrap();
    assert_eq!(before.len() as u32, written + 2, "a, c and the large ones, never b");
    host.close().await;
    let host = in_directory(root.path());
    assert_eq!(host.recovery().unwrap().torn, None);
    assert_eq!(host.dump().await.unwrap(), before);
}

/// Several clients add the same members while the disk fills: each is told that a member was added
/// or known, or sees it. Whatever one was told is there after a crash.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_is_told_of_what_a_crash_on_a_full_disk_would_undo() {
    let root = tempfile::tempdir().unwrap();
    let faults = Faults::none();
    let host = Arc::new(in_directory_on(root.path(), faults.disk()));
    run(&host, "SET ff:{fp:7}:a before").await.unwrap();
    faults.room.store(0, Ordering::SeqCst);
    let clients: Vec<_> = (0..6)
        .map(|client| {
            let host = Arc::clone(&host);
            tokio::spawn(async move { submit_until_refused(&host, client).await })
        })
        .collect();
    let mut told = 0;
    for client in clients {
        told = told.max(client.await.unwrap());
    }
    assert!(told > 0);
    // The process is killed now: what its files hold is what there is.
    let left = faults.after_power_cut(root.path(), &mut Survivors::Everything);
    let dump = store::check(left.path()).unwrap().dump;
    let Some(Stored::Set(members)) = dump.get(&b"ff:{fp:7}:s"[..]) else { panic!("{dump:?}") };
    assert!(members.len() as u32 >= told, "{told} were told of, {} are left", members.len());
}

/// Answers how many members this client was told of.
async fn submit_until_refused(host: &EmbeddedHost, client: u32) -> u32 {
    let member = |n: u32| [&n.to_be_bytes()[..], &LARGE].concat();
    let mut told = 0;
    for n in 0.. {
        let member = member(n);
        let command = if client == 0 { &b"SISMEMBER"[..] } else { b"SADD" };
        let function = if client == 0 { "read" } else { "run" };
        match call(host, function, HOME, &[command, b"ff:{fp:7}:s", &member]).await {
            // The one that only reads sees a member or waits until somebody has added it.
            Ok(Value::Int(0)) if client == 0 => {
                if call(host, "run", HOME, &[b"SET", b"ff:{fp:7}:a", b"x"]).await.is_err() {
                    return told;
                }
            }
            Ok(_) => told = told.max(n + 1),
            Err(_) => return told,
        }
    }
    told
}

#[tokio::test]
async fn what_ran_before_the_disk_filled_is_written_after_it() {
    let root = tempfile::tempdir().unwrap();
    let faults = Faults::none();
    let host = Arc::new(in_directory_on(root.path(), faults.disk()));
    run(&host, "SET ff:{fp:7}:a before").await.unwrap();
    faults.hold_syncs();
    let calls: Vec<_> = (0..10u16)
        .map(|n| {
            let host = Arc::clone(&host);
            tokio::spawn(async move {
                let partition = Partition::flow(n);
                let key = format!("{}:k", partition.key());
                call(&host, "run", partition, &[b"SET", key.as_bytes(), &LARGE]).await
            })
        })
        .collect();
    while host.stats().calls < 11 {
        tokio::task::yield_now().await;
    }
    faults.room.store(0, Ordering::SeqCst);
    faults.release_syncs();
    for call in calls {
        call.await.unwrap().expect("it ran, so there is room for it");
    }
    let left = faults.after_power_cut(root.path(), &mut Survivors::Nothing);
    assert_eq!(store::check(left.path()).unwrap().dump.len(), 11);
}

#[tokio::test]
async fn a_call_too_large_for_a_nearly_full_disk_is_refused_alone() {
    let root = tempfile::tempdir().unwrap();
    let faults = Faults::none();
    let host = in_directory_on(root.path(), faults.disk());
    run(&host, "SET ff:{fp:7}:a v").await.unwrap();
    faults.room.store(0, Ordering::SeqCst);
    let huge = vec![b'x'; 30 << 20];
    let refused = call(&host, "run", HOME, &[b"SET", b"ff:{fp:7}:b", &huge]).await.unwrap_err();
    assert_eq!((refused.kind, refused.retry), (BackendErrorKind::Resource, Retry::Safe));
    run(&host, "SET ff:{fp:7}:c small").await.unwrap();
    faults.room.store(PLENTY, Ordering::SeqCst);
    call(&host, "run", HOME, &[b"SET", b"ff:{fp:7}:b", &huge]).await.unwrap();
}

#[tokio::test]
async fn a_store_opens_on_a_full_disk_and_serves_reads() {
    let root = tempfile::tempdir().unwrap();
    let host = in_directory(root.path());
    run(&host, "SET ff:{fp:7}:a kept").await.unwrap();
    host.close().await;
    let faults = Faults::none();
    faults.room.store(1000, Ordering::SeqCst);
    let host = in_directory_on(root.path(), faults.disk());
    assert_eq!(outcome(&read(&host, "ff:{fp:7}:a").await), "\"kept\"");
    let refused = run(&host, "SET ff:{fp:7}:b v").await.unwrap_err();
    assert_eq!((refused.kind, refused.retry), (BackendErrorKind::Resource, Retry::Safe));
    host.close().await;
    let host = in_directory(root.path());
    assert_eq!(host.recovery().unwrap().torn, None);
    assert_eq!(host.dump().await.unwrap().len(), 1);
}

/// A file system may break its word. Then nobody is told anything any more.
#[tokio::test]
async fn a_write_that_fails_in_reserved_room_stops_the_store() {
    let root = tempfile::tempdir().unwrap();
    let faults = Faults::none();
    let host = in_directory_on(root.path(), faults.disk());
    run(&host, "SET ff:{fp:7}:a kept").await.unwrap();
    faults.fail_when(|operation, _| {
        (operation == "write").then(|| std::io::ErrorKind::StorageFull.into())
    });
    let failed = run(&host, "SET ff:{fp:7}:b lost").await.unwrap_err();
    assert_eq!((failed.kind, failed.retry), (BackendErrorKind::Closed, Retry::IfReplaySafe));
    assert_eq!(read(&host, "ff:{fp:7}:b").await.unwrap_err().kind, BackendErrorKind::Closed);
    drop(host);
    let host = in_directory(root.path());
    assert_eq!(outcome(&read(&host, "ff:{fp:7}:a").await), "\"kept\"");
    assert_eq!(outcome(&read(&host, "ff:{fp:7}:b").await), "(nil)");
}

/// A store that rewrites its journal after each large value.
fn restless(root: &std::path::Path) -> EmbeddedConfig {
    let compaction = CompactionConfig { min_bytes: LARGE.len() as u64, growth: 1, piece_bytes: 1 };
    EmbeddedConfig { compaction, ..on_disk(root, SyncMode::Always) }
}

/// Writes until a rewrite was tried and failed.
async fn until_a_rewrite_fails(host: &EmbeddedHost) {
    for n in 0.. {
        let key = format!("ff:{{fp:7}}:{n}");
        call(host, "run", HOME, &[b"SET", key.as_bytes(), &LARGE]).await.unwrap();
        if host.stats().compactions_failed > 0 {
            return;
        }
        assert!(n < 1000, "no rewrite failed");
    }
}

#[tokio::test]
async fn a_rewrite_that_fails_leaves_no_partial_file() {
    let root = tempfile::tempdir().unwrap();
    let faults = Faults::none();
    let host = EmbeddedHost::open_on(restless(root.path()), &library(RUN), faults.disk()).unwrap();
    faults.fail_when(|operation, path| {
        let base = path.to_string_lossy().ends_with(".base.aof");
        (operation == "sync" && base).then(|| std::io::ErrorKind::StorageFull.into())
    });
    until_a_rewrite_fails(&host).await;
    // The next request is taken when the last one was cleaned up after.
    let failed = host.stats().compactions_failed;
    while host.stats().compactions_failed == failed {
        call(&host, "run", HOME, &[b"SET", b"ff:{fp:7}:more", &LARGE]).await.unwrap();
    }
    // The disk stays as it is: another rewrite that is under way must not succeed either.
    let before = host.dump().await.unwrap();
    host.close().await;
    assert_eq!(support::journal_files(root.path(), "base"), Vec::<std::path::PathBuf>::new());
    assert_eq!(store::check(root.path()).unwrap().dump, before);
}

#[tokio::test]
async fn a_rewrite_that_would_fill_the_disk_is_not_begun() {
    let root = tempfile::tempdir().unwrap();
    let faults = Faults::none();
    let host = EmbeddedHost::open_on(restless(root.path()), &library(RUN), faults.disk()).unwrap();
    let made = Arc::new(std::sync::atomic::AtomicU32::new(0));
    let count = Arc::clone(&made);
    faults.fail_when(move |operation, _| {
        count.fetch_add(u32::from(operation == "create"), Ordering::SeqCst);
        None
    });
    faults.room.store(40 << 20, Ordering::SeqCst);
    until_a_rewrite_fails(&host).await;
    assert_eq!(made.load(Ordering::SeqCst), 0, "the space is looked at first");
    faults.room.store(PLENTY, Ordering::SeqCst);
    while host.stats().compactions == 0 {
        call(&host, "run", HOME, &[b"SET", b"ff:{fp:7}:more", &LARGE]).await.unwrap();
    }
}
