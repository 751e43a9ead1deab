//! What the store does when the disk is full, slow, broken or unplugged.
#![allow(clippy::unwrap_used, reason = "in a test, a panic is the report")]

mod support;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use ff_backend_embedded::{CompactionConfig, EmbeddedConfig, EmbeddedHost, SyncMode};
use ff_core::backend_error::{BackendError, BackendErrorKind, Retry};
use ff_core::partition::Partition;
use ff_script::host::{Host, Topic, Wake};
use ff_script::value::Value;
use support::faulty::Faults;
use support::{HOME, RUN, call, in_directory, in_directory_on, library, on_disk, outcome, run};

fn class(result: Result<Value, BackendError>) -> (BackendErrorKind, Retry) {
    let error = result.expect_err("the call is refused");
    (error.kind, error.retry)
}

async fn read(host: &EmbeddedHost, key: &str) -> Result<Value, BackendError> {
    call(host, "read", HOME, &[b"GET", key.as_bytes()]).await
}

#[tokio::test]
async fn a_full_disk_refuses_writes_serves_reads_and_recovers_by_itself() {
    let root = tempfile::tempdir().unwrap();
    let faults = Faults::none();
    let host = in_directory_on(root.path(), faults.disk());
    run(&host, "SET ff:{fp:7}:a before").await.unwrap();
    faults.room.store(50, Ordering::SeqCst);

    let first = run(&host, "SET ff:{fp:7}:b unwritten").await;
    assert_eq!(class(first), (BackendErrorKind::Resource, Retry::IfReplaySafe));
    let second = run(&host, "SET ff:{fp:7}:c refused").await;
    assert_eq!(class(second), (BackendErrorKind::Resource, Retry::Safe));
    assert_eq!(outcome(&read(&host, "ff:{fp:7}:a").await), "\"before\"");
    assert_eq!(outcome(&read(&host, "ff:{fp:7}:b").await), "\"unwritten\"");
    assert_eq!(outcome(&read(&host, "ff:{fp:7}:c").await), "(nil)");

    faults.room.store(i64::MAX, Ordering::SeqCst);
    while run(&host, "SET ff:{fp:7}:d after").await.is_err() {
        tokio::task::yield_now().await;
    }
    let before = host.dump().await.unwrap();
    assert_eq!(before.len(), 3, "a, b and d, never c");
    host.close().await;
    let host = in_directory(root.path());
    assert_eq!(host.recovery().unwrap().torn, None);
    assert_eq!(host.dump().await.unwrap(), before);
}

#[tokio::test]
async fn a_crash_on_a_full_disk_loses_nothing_that_was_acknowledged() {
    let root = tempfile::tempdir().unwrap();
    let faults = Faults::none();
    let host = in_directory_on(root.path(), faults.disk());
    run(&host, "SET ff:{fp:7}:a kept").await.unwrap();
    faults.room.store(50, Ordering::SeqCst);
    run(&host, "SET ff:{fp:7}:b lost").await.unwrap_err();
    drop(host);
    let host = in_directory(root.path());
    assert_eq!(outcome(&read(&host, "ff:{fp:7}:a").await), "\"kept\"");
    assert_eq!(outcome(&read(&host, "ff:{fp:7}:b").await), "(nil)");
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

/// A store that rewrites its journal all the time.
fn restless(root: &std::path::Path) -> EmbeddedConfig {
    let compaction = CompactionConfig { min_bytes: 1500, growth: 1 };
    EmbeddedConfig { compaction, ..on_disk(root, SyncMode::Always) }
}

/// Writes numbered keys, many over the same ones, until the disk fails or `count` is reached.
/// Answers the last acknowledged value of each key.
async fn write_until_it_fails(host: &EmbeddedHost, count: u32) -> Vec<(Partition, u32)> {
    let mut acknowledged = std::collections::BTreeMap::new();
    for n in 0..count {
        let partition = Partition::flow((n % 5) as u16);
        let (list, value) = (format!("{}:l", partition.key()), n.to_string());
        let hash = format!("{}:h", partition.key());
        let words: [&[u8]; 12] = [
            b"RPUSH",
            list.as_bytes(),
            value.as_bytes(),
            b";",
            b"LTRIM",
            list.as_bytes(),
            b"-3",
            b"-1",
            b";",
            b"HSET",
            hash.as_bytes(),
            b"last",
        ];
        let words: Vec<&[u8]> = words.into_iter().chain([value.as_bytes()]).collect();
        match call(host, "run", partition, &words).await {
            Ok(_) => acknowledged.insert(partition, n),
            Err(_) => break,
        };
    }
    acknowledged.into_iter().collect()
}

async fn assert_acknowledged(host: &EmbeddedHost, acknowledged: &[(Partition, u32)], when: &str) {
    for (partition, n) in acknowledged {
        let hash = format!("{}:h", partition.key());
        let value = call(host, "read", *partition, &[b"HGET", hash.as_bytes(), b"last"]).await;
        let value = value.unwrap();
        let text = value.as_bytes().map(|text| String::from_utf8_lossy(text).into_owned());
        let found: u32 = text.unwrap_or_else(|| panic!("{when}: {n} is gone")).parse().unwrap();
        assert!(found >= *n, "{when}: {n} was acknowledged, {found} is there");
    }
}

#[tokio::test]
async fn compaction_under_load_keeps_everything_and_shrinks_the_journal() {
    let root = tempfile::tempdir().unwrap();
    let host = EmbeddedHost::open(restless(root.path()), &library(RUN)).unwrap();
    let mut rounds = 0;
    while host.stats().compactions < 3 {
        write_until_it_fails(&host, 50).await;
        rounds += 1;
        assert!(rounds < 10_000, "no compaction took place");
    }
    assert_eq!(host.stats().compactions_failed, 0);
    let before = host.dump().await.unwrap();
    host.close().await;
    let host = in_directory(root.path());
    assert_eq!(host.dump().await.unwrap(), before);
    let transactions = host.recovery().unwrap().transactions;
    assert!(transactions < rounds * 50, "{transactions} of {} are left", rounds * 50);
}

/// The disk is unplugged after each possible number of operations, with and without power.
#[tokio::test]
async fn whenever_the_machine_stops_the_directory_loads_and_nothing_acknowledged_is_lost() {
    for power_cut in [false, true] {
        for operations in 1.. {
            let root = tempfile::tempdir().unwrap();
            let faults = Faults::none();
            faults.operations.store(operations, Ordering::SeqCst);
            let opened = EmbeddedHost::open_on(restless(root.path()), &library(RUN), faults.disk());
            let mut acknowledged = Vec::new();
            let mut compactions = 0;
            if let Ok(host) = opened {
                acknowledged = write_until_it_fails(&host, 60).await;
                compactions = host.stats().compactions;
                host.close().await;
            }
            if power_cut {
                faults.cut_power();
            }
            let when = format!("after {operations} operations, power cut {power_cut}");
            let host = EmbeddedHost::open(on_disk(root.path(), SyncMode::Always), &library(RUN))
                .unwrap_or_else(|error| panic!("{when}: {error}"));
            assert_acknowledged(&host, &acknowledged, &when).await;
            if faults.operations.load(Ordering::SeqCst) > 0 && compactions > 1 {
                break;
            }
            assert!(operations < 5000, "the run never came to its end");
        }
    }
}
