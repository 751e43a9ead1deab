//! What the store does when the disk is slow or broken, and when calls are synced.
#![allow(clippy::unwrap_used, reason = "in a test, a panic is the report")]

mod support;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use ff_backend_embedded::{EmbeddedConfig, EmbeddedHost, SyncMode, store};
use ff_core::backend_error::{BackendError, BackendErrorKind, Retry};
use ff_core::partition::Partition;
use ff_script::host::{Host, Topic, Wake};
use ff_script::value::Value;
use support::faulty::Faults;
use support::model::Survivors;
use support::{HOME, RUN, call, in_directory, in_directory_on, library, on_disk, outcome, run};

fn class(result: Result<Value, BackendError>) -> (BackendErrorKind, Retry) {
    let error = result.expect_err("the call is refused");
    (error.kind, error.retry)
}

async fn read(host: &EmbeddedHost, key: &str) -> Result<Value, BackendError> {
    call(host, "read", HOME, &[b"GET", key.as_bytes()]).await
}

#[tokio::test]
async fn a_failed_sync_is_never_retried_and_stops_the_store() {
    let root = tempfile::tempdir().unwrap();
    let faults = Faults::none();
    let host = in_directory_on(root.path(), faults.disk());
    run(&host, "SET ff:{fp:7}:a kept").await.unwrap();
    faults.sync_fails.store(true, Ordering::SeqCst);
    let failed = run(&host, "SET ff:{fp:7}:b unknown").await;
    assert_eq!(class(failed), (BackendErrorKind::Closed, Retry::IfReplaySafe));
    let tried = faults.syncs.load(Ordering::SeqCst);

    faults.sync_fails.store(false, Ordering::SeqCst);
    let later = run(&host, "SET ff:{fp:7}:c refused").await.unwrap_err();
    assert_eq!((later.kind, later.retry), (BackendErrorKind::Closed, Retry::Safe));
    assert!(later.message.contains("restart to recover"), "{later}");
    assert_eq!(class(read(&host, "ff:{fp:7}:a").await), (BackendErrorKind::Closed, Retry::Safe));
    host.close().await;
    assert_eq!(faults.syncs.load(Ordering::SeqCst), tried);

    let host = in_directory(root.path());
    assert_eq!(outcome(&read(&host, "ff:{fp:7}:a").await), "\"kept\"");
    assert_eq!(outcome(&read(&host, "ff:{fp:7}:c").await), "(nil)");
}

#[tokio::test]
async fn writes_that_take_one_byte_at_a_time_are_written_whole() {
    let root = tempfile::tempdir().unwrap();
    let faults = Faults::none();
    let host = in_directory_on(root.path(), faults.disk());
    faults.short_writes.store(true, Ordering::SeqCst);
    run(&host, "HSET ff:{fp:7}:h a 1 b 2").await.unwrap();
    let before = host.dump().await.unwrap();
    host.close().await;
    assert_eq!(in_directory(root.path()).dump().await.unwrap(), before);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_that_arrive_during_a_slow_sync_share_the_next_one() {
    let root = tempfile::tempdir().unwrap();
    let faults = Faults::none();
    let host = Arc::new(in_directory_on(root.path(), faults.disk()));
    run(&host, "SET ff:{fp:7}:warm up").await.unwrap();
    let syncs = host.stats().journal_syncs;
    faults.hold_syncs();
    let calls: Vec<_> = (0..40u16)
        .map(|n| {
            let host = Arc::clone(&host);
            tokio::spawn(async move {
                let partition = Partition::flow(n);
                let key = format!("{}:k", partition.key());
                call(&host, "run", partition, &[b"SET", key.as_bytes(), b"x"]).await
            })
        })
        .collect();
    faults.wait_for_held_sync();
    while host.stats().calls < 41 {
        tokio::task::yield_now().await;
    }
    assert!(calls.iter().all(|call| !call.is_finished()), "nothing is answered before its sync");
    faults.release_syncs();
    for call in calls {
        call.await.unwrap().unwrap();
    }
    let shared = host.stats().journal_syncs - syncs;
    assert!(shared <= 20, "40 calls took {shared} syncs");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_read_waits_for_the_write_it_saw_and_wake_ups_wait_for_the_sync() {
    let root = tempfile::tempdir().unwrap();
    let faults = Faults::none();
    let host = Arc::new(in_directory_on(root.path(), faults.disk()));
    let mut ready = host.subscribe(Topic::Ready).await.unwrap();
    faults.hold_syncs();
    let task = |name: &'static str, words: &'static str| {
        let host = Arc::clone(&host);
        tokio::spawn(async move {
            let words: Vec<&[u8]> = words.split(' ').map(str::as_bytes).collect();
            call(&host, name, HOME, &words).await
        })
    };
    let write = task("run", "SET ff:{fp:7}:k new ; SPUBLISH ff:{fp:7}:ready lane");
    faults.wait_for_held_sync();
    let dependent = task("read", "GET ff:{fp:7}:k");
    let elsewhere = Partition::flow(8);
    let served = call(&host, "read", elsewhere, &[b"GET", b"ff:{fp:8}:k"]).await.unwrap();
    assert_eq!(served, Value::Nil, "a shard with nothing unsynced answers at once");
    while host.stats().calls < 3 {
        tokio::task::yield_now().await;
    }
    assert!(!write.is_finished() && !dependent.is_finished());
    assert!(tokio::time::timeout(Duration::ZERO, ready.next()).await.is_err());
    faults.release_syncs();
    assert_eq!(dependent.await.unwrap().unwrap(), Value::Bytes(b"new".to_vec()));
    write.await.unwrap().unwrap();
    let wake = Wake::Message { partition: HOME, message: b"lane".to_vec() };
    assert_eq!(ready.next().await, Some(wake));
}

#[tokio::test]
async fn without_sync_a_call_is_answered_while_the_disk_is_busy() {
    let root = tempfile::tempdir().unwrap();
    let faults = Faults::none();
    let config = on_disk(root.path(), SyncMode::Off);
    let host = EmbeddedHost::open_on(config, &library(RUN), faults.disk()).unwrap();
    faults.hold_syncs();
    run(&host, "SET ff:{fp:7}:k v").await.unwrap();
    assert_eq!(host.stats().journal_syncs, 0);
    faults.release_syncs();
    host.close().await;
    assert_eq!(in_directory(root.path()).dump().await.unwrap().len(), 1);
}

#[tokio::test]
async fn every_second_means_answered_when_written_and_synced_soon_after() {
    let root = tempfile::tempdir().unwrap();
    let faults = Faults::none();
    let config = on_disk(root.path(), SyncMode::EverySec);
    let host = EmbeddedHost::open_on(config, &library(RUN), faults.disk()).unwrap();
    let before = faults.syncs.load(Ordering::SeqCst);
    run(&host, "SET ff:{fp:7}:k v").await.unwrap();
    faults.hold_syncs();
    tokio::task::spawn_blocking({
        let faults = Arc::clone(&faults);
        move || faults.wait_for_held_sync()
    })
    .await
    .unwrap();
    faults.release_syncs();
    assert!(faults.syncs.load(Ordering::SeqCst) > before);
}

/// A store that is answered without syncs, and synced all the time by a thread of its own.
fn background(root: &std::path::Path, faults: &Arc<Faults>) -> EmbeddedHost {
    let config = on_disk(root, SyncMode::Off);
    let config = EmbeddedConfig { background_sync: Duration::ZERO, ..config };
    EmbeddedHost::open_on(config, &library(RUN), faults.disk()).unwrap()
}

#[tokio::test]
async fn without_sync_damage_before_the_last_background_sync_is_no_torn_tail() {
    let root = tempfile::tempdir().unwrap();
    let faults = Faults::none();
    let host = background(root.path(), &faults);
    for n in 0..5 {
        faults.hold_syncs();
        run(&host, &format!("SET ff:{{fp:7}}:k{n} v")).await.unwrap();
        faults.wait_for_held_sync();
        let syncs = host.stats().journal_syncs;
        faults.release_syncs();
        while host.stats().journal_syncs == syncs {
            tokio::task::yield_now().await;
        }
    }
    run(&host, "SET ff:{fp:7}:last v").await.unwrap();
    // As a killed process leaves it, but for one bad byte in what was there long before.
    let copy = faults.after_power_cut(root.path(), &mut Survivors::Everything);
    let file = support::journal_files(copy.path(), "incr").remove(0);
    let mut bytes = std::fs::read(&file).unwrap();
    let place = bytes.windows(2).position(|window| window == b"k1").unwrap();
    bytes[place] ^= 1;
    std::fs::write(&file, bytes).unwrap();
    let error = store::check(copy.path()).unwrap_err().to_string();
    assert!(error.contains("does not match its checksum"), "{error}");
}

#[tokio::test]
async fn a_background_sync_that_fails_stops_the_store() {
    let root = tempfile::tempdir().unwrap();
    let faults = Faults::none();
    let host = background(root.path(), &faults);
    faults.sync_fails.store(true, Ordering::SeqCst);
    run(&host, "SET ff:{fp:7}:k v").await.unwrap();
    let error = loop {
        match run(&host, "SET ff:{fp:7}:l v").await {
            Ok(_) => tokio::task::yield_now().await,
            Err(error) => break error,
        }
    };
    assert!(error.message.contains("restart to recover"), "{error}");
}
