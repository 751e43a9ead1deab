//! Whatever a crash or a power cut leaves, the directory opens and nothing acknowledged is lost.
#![allow(clippy::unwrap_used, reason = "in a test, a panic is the report")]

mod support;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use ff_backend_embedded::{EmbeddedHost, SyncMode, store};
use ff_test_seed::random_test;
use support::faulty::Faults;
use support::load::{Acknowledged, missing, restless, write_until_it_fails};
use support::model::{LeftOut, Survivors};
use support::{RUN, Random, in_directory, journal_files, library, on_disk, run};

/// The data directory of these tests is made by the store, together with the one above it.
const BELOW: &str = "made/by/the/store";

/// Looks for what was acknowledged in everything that a power cut may leave now. One of these, by
/// turns, is also opened.
async fn look_after_power_cuts(
    faults: &Faults,
    root: &Path,
    acknowledged: &Acknowledged,
    turn: u64,
) -> Result<(), String> {
    let chance = Survivors::Chance(Random::new(turn));
    let all = [Survivors::Nothing, Survivors::Everything, Survivors::LastChange, chance];
    for (index, mut survivors) in all.into_iter().enumerate() {
        let copy = faults.after_power_cut(root, &mut survivors);
        let data = copy.path().join(BELOW);
        let checked = check(&data, acknowledged);
        let opened =
            if turn % 4 == index as u64 { open(&data, acknowledged).await } else { Ok(()) };
        checked.and(opened).map_err(|error| format!("after power cut {index}: {error}"))?;
    }
    Ok(())
}

fn check(data: &Path, acknowledged: &Acknowledged) -> Result<(), String> {
    if acknowledged.is_empty() {
        return Ok(());
    }
    let checked = store::check(data).map_err(|error| error.to_string())?;
    missing(&checked.dump, acknowledged).map_or(Ok(()), Err)?;
    let marked = data.join("flowfabric.store").exists();
    if marked { Ok(()) } else { Err("the marker is gone".to_owned()) }
}

async fn open(data: &Path, acknowledged: &Acknowledged) -> Result<(), String> {
    let host = EmbeddedHost::open(on_disk(data, SyncMode::Always), &library(RUN))
        .map_err(|error| error.to_string())?;
    missing(&host.dump().await.unwrap(), acknowledged).map_or(Ok(()), Err)
}

/// Writes to a new store on this disk. Answers what was acknowledged, and the rewrites.
async fn write(faults: &Arc<Faults>, data: &Path, count: u32) -> (Acknowledged, u64) {
    match EmbeddedHost::open_on(restless(data), &library(RUN), faults.disk()) {
        Err(_) => (Acknowledged::new(), 0),
        Ok(host) => {
            let acknowledged = write_until_it_fails(&host, 0..count).await;
            host.close().await;
            (acknowledged, host.stats().compactions)
        }
    }
}

/// The machine stops after each possible number of operations of its disk.
async fn stop_everywhere(seed: u64, left_out: Option<LeftOut>) -> Result<(), String> {
    for operations in 1.. {
        let root = tempfile::tempdir().unwrap();
        let faults = Faults::none();
        left_out.into_iter().for_each(|syncs| faults.leave_out(syncs));
        faults.operations.store(operations, Ordering::SeqCst);
        let (acknowledged, compactions) = write(&faults, &root.path().join(BELOW), 40).await;
        let turn = seed.wrapping_add(operations as u64);
        look_after_power_cuts(&faults, root.path(), &acknowledged, turn)
            .await
            .map_err(|error| format!("stopped after {operations} operations, {error}"))?;
        if faults.operations.load(Ordering::SeqCst) > 0 && compactions > 1 {
            break;
        }
        assert!(operations < 5000, "the run never came to its end");
    }
    Ok(())
}

#[tokio::test]
async fn whenever_the_machine_stops_the_directory_opens_and_nothing_acknowledged_is_lost() {
    stop_everywhere(random_test!().seed(), None).await.unwrap();
}

/// Each slice of a rewrite is a step of its own, after which the machine of these tests may stop.
#[tokio::test]
async fn a_rewrite_is_written_and_synced_slice_by_slice() {
    let root = tempfile::tempdir().unwrap();
    let faults = Faults::none();
    let host = EmbeddedHost::open_on(restless(root.path()), &library(RUN), faults.disk()).unwrap();
    write_until_it_fails(&host, 0..10).await;
    let steps = Arc::new(AtomicI64::new(0));
    let count = Arc::clone(&steps);
    faults.fail_when(move |operation, path| {
        let base = path.to_string_lossy().ends_with(".base.aof");
        count.fetch_add(i64::from(base && operation == "sync"), Ordering::SeqCst);
        None
    });
    host.compact().await.unwrap();
    assert!(steps.load(Ordering::SeqCst) > 5, "five slices and the seal");
}

/// The first test here would notice if one of the syncs of directories were not there.
#[tokio::test]
async fn every_sync_of_a_directory_is_needed() {
    for left_out in [LeftOut::DirectoryMade, LeftOut::FileMade, LeftOut::Renamed] {
        let found = stop_everywhere(random_test!().seed(), Some(left_out)).await;
        println!("{left_out:?}: {found:?}");
        assert!(found.is_err(), "nothing was lost without the sync {left_out:?}");
    }
}

/// A process is killed at any time; the next one goes on, and then the power fails.
#[tokio::test]
async fn what_a_killed_process_did_not_sync_is_synced_by_the_next() {
    let seed = random_test!().seed();
    for operations in 1.. {
        let root = tempfile::tempdir().unwrap();
        let data = root.path().join(BELOW);
        let faults = Faults::none();
        faults.operations.store(operations, Ordering::SeqCst);
        let (mut acknowledged, compactions) = write(&faults, &data, 20).await;
        let ended = faults.operations.load(Ordering::SeqCst) > 0 && compactions > 0;
        faults.work_again();
        let config = on_disk(&data, SyncMode::Always);
        let host = EmbeddedHost::open_on(config, &library(RUN), faults.disk()).unwrap();
        acknowledged.extend(write_until_it_fails(&host, 20..23).await);
        let turn = seed.wrapping_add(operations as u64);
        let looked = look_after_power_cuts(&faults, root.path(), &acknowledged, turn).await;
        looked.unwrap_or_else(|error| panic!("killed after {operations} operations, {error}"));
        if ended {
            break;
        }
        assert!(operations < 5000, "the run never came to its end");
    }
}

/// One operation of the disk fails, with a full disk or an error, and then all is well again.
#[tokio::test]
async fn a_single_failure_in_writing_sealing_listing_or_rewriting_loses_nothing() {
    let seed = random_test!().seed();
    for kind in [std::io::ErrorKind::StorageFull, std::io::ErrorKind::Other] {
        for failing in 1.. {
            let root = tempfile::tempdir().unwrap();
            let faults = Faults::none();
            let left = Arc::new(AtomicI64::new(failing));
            let countdown = Arc::clone(&left);
            faults.fail_when(move |_, _| {
                (countdown.fetch_sub(1, Ordering::SeqCst) == 1).then(|| kind.into())
            });
            let (acknowledged, compactions) = write(&faults, &root.path().join(BELOW), 40).await;
            let turn = seed.wrapping_add(failing as u64);
            let looked = look_after_power_cuts(&faults, root.path(), &acknowledged, turn).await;
            looked.unwrap_or_else(|error| panic!("{kind:?} at operation {failing}, {error}"));
            if left.load(Ordering::SeqCst) > 0 && compactions > 1 {
                break;
            }
            assert!(failing < 5000, "the run never came to its end");
        }
    }
}

#[tokio::test]
async fn what_was_cut_off_is_still_there_after_a_power_cut() {
    let root = tempfile::tempdir().unwrap();
    let host = in_directory(root.path());
    run(&host, "SET ff:{fp:7}:k v").await.unwrap();
    host.close().await;
    let file = journal_files(root.path(), "incr").remove(0);
    let mut bytes = std::fs::read(&file).unwrap();
    bytes.extend_from_slice(b"torn");
    std::fs::write(&file, bytes).unwrap();
    let faults = Faults::none();
    let host =
        EmbeddedHost::open_on(on_disk(root.path(), SyncMode::Always), &library(RUN), faults.disk())
            .unwrap();
    let kept = host.recovery().unwrap().kept.clone().unwrap();
    let copy = faults.after_power_cut(root.path(), &mut Survivors::Nothing);
    let kept = copy.path().join(kept.strip_prefix(root.path()).unwrap());
    assert_eq!(std::fs::read(kept).unwrap(), b"torn");
}

#[tokio::test]
async fn compaction_under_load_keeps_everything_and_shrinks_the_journal() {
    let root = tempfile::tempdir().unwrap();
    let host = EmbeddedHost::open(restless(root.path()), &library(RUN)).unwrap();
    let mut rounds = 0;
    while host.stats().compactions < 3 {
        write_until_it_fails(&host, 0..50).await;
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
