//! Damage is found whatever file it is in, refused with a reason, and never made worse: no file
//! that may hold somebody's data is removed.
#![allow(clippy::unwrap_used, reason = "in a test, a panic is the report")]

mod support;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use ff_backend_embedded::{EmbeddedHost, OpenError, StoreError, SyncMode, store};
use ff_script::dump::Dump;
use ff_test_seed::random_test;
use support::faulty::Faults;
use support::load::{restless, write_until_it_fails};
use support::{RUN, in_directory, journal_files, library, on_disk, run};

const HEADER: u64 = "#ff v1=0123456789abcdef crc=01234567\r\n".len() as u64;

fn manifest(root: &Path) -> PathBuf {
    root.join("appendonlydir/appendonly.aof.manifest")
}

/// Every file below a data directory, but for the lock.
fn files(root: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    [root.to_owned(), root.join("appendonlydir")]
        .iter()
        .filter_map(|directory| std::fs::read_dir(directory).ok())
        .flatten()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.is_file() && !path.ends_with("flowfabric.lock"))
        .map(|path| (path.clone(), std::fs::read(&path).unwrap()))
        .collect()
}

/// Neither a check nor an opening accepts the directory, both say why, and both leave it as it is.
fn assert_damaged(root: &Path, expected: &str) {
    let before = files(root);
    let checked = store::check(root).map(|report| report.recovery);
    let error = checked.expect_err("a check must find it").to_string();
    assert!(error.contains(expected), "{error}");
    match EmbeddedHost::open(on_disk(root, SyncMode::Always), &library(RUN)) {
        Ok(_) => panic!("it must not open"),
        Err(OpenError::Store(StoreError::Damaged { reason, .. })) => {
            assert!(reason.contains(expected), "{reason}");
        }
        Err(other) => panic!("damage expected, not {other}"),
    }
    assert_eq!(files(root), before, "refusing changes nothing");
}

/// A closed store with some keys.
async fn filled(root: &Path) {
    let host = in_directory(root);
    for n in 0..20 {
        run(&host, &format!("HSET ff:{{fp:7}}:h f{n} v ; RPUSH ff:{{fp:7}}:l {n}")).await.unwrap();
    }
    host.close().await;
}

fn cut(path: &Path, length: u64) {
    std::fs::OpenOptions::new().write(true).open(path).unwrap().set_len(length).unwrap();
}

#[tokio::test]
async fn a_last_increment_shorter_than_its_first_line_is_damage() {
    let root = tempfile::tempdir().unwrap();
    filled(root.path()).await;
    let file = journal_files(root.path(), "incr").remove(0);
    for length in [HEADER - 1, 20, 1, 0] {
        cut(&file, length);
        assert_damaged(root.path(), "ends within its first line");
    }
}

#[tokio::test]
async fn a_manifest_without_its_last_line_is_damage() {
    let root = tempfile::tempdir().unwrap();
    filled(root.path()).await;
    let whole = std::fs::read_to_string(manifest(root.path())).unwrap();
    for (end, _) in whole.match_indices('\n') {
        let end = if end + 1 == whole.len() { end } else { end + 1 };
        std::fs::write(manifest(root.path()), &whole[..end]).unwrap();
        assert_damaged(root.path(), "manifest");
    }
}

#[tokio::test]
async fn a_later_increment_that_is_not_listed_and_holds_a_transaction_is_damage() {
    let root = tempfile::tempdir().unwrap();
    filled(root.path()).await;
    let elsewhere = tempfile::tempdir().unwrap();
    filled(elsewhere.path()).await;
    let theirs = journal_files(elsewhere.path(), "incr").remove(0);
    let later = root.path().join("appendonlydir/appendonly.aof.2.incr.aof");
    std::fs::copy(&theirs, &later).unwrap();
    assert_damaged(root.path(), "not listed");
    cut(&later, HEADER);
    in_directory(root.path()).close().await;
    assert!(!later.exists(), "one without a transaction was never in use");
}

#[tokio::test]
async fn files_of_the_operator_stay() {
    let root = tempfile::tempdir().unwrap();
    filled(root.path()).await;
    let names = [
        "appendonly.aof.bak",
        "appendonly.aof.1.incr.aof.bak",
        "appendonly.aof.manifest.bak",
        "appendonly.aof.1.incr.aof.2026-01-01",
        "appendonly.aof.01.incr.aof",
        "appendonly.aof.x.base.aof",
        "appendonly.aof.9.base.aof",
        "notes.txt",
    ];
    let paths = names.map(|name| root.path().join("appendonlydir").join(name));
    for path in &paths {
        std::fs::write(path, "mine").unwrap();
    }
    in_directory(root.path()).close().await;
    for path in &paths {
        assert_eq!(std::fs::read(path).unwrap(), b"mine", "{}", path.display());
    }
}

#[tokio::test]
async fn an_empty_or_missing_journal_beside_our_marker_is_no_new_store() {
    let root = tempfile::tempdir().unwrap();
    filled(root.path()).await;
    let journal = root.path().join("appendonlydir");
    for path in files(root.path()).keys().filter(|path| path.starts_with(&journal)) {
        std::fs::remove_file(path).unwrap();
    }
    assert_damaged(root.path(), "remove flowfabric.store");
    std::fs::remove_dir(&journal).unwrap();
    assert_damaged(root.path(), "remove flowfabric.store");
    assert!(!journal.exists());
    std::fs::remove_file(root.path().join("flowfabric.store")).unwrap();
    assert_eq!(in_directory(root.path()).dump().await.unwrap().len(), 0);
}

#[tokio::test]
async fn what_is_cut_off_is_kept_beside_and_said() {
    let root = tempfile::tempdir().unwrap();
    filled(root.path()).await;
    std::fs::remove_file(root.path().join("flowfabric.store")).unwrap();
    let file = journal_files(root.path(), "incr").remove(0);
    let whole = std::fs::metadata(&file).unwrap().len();
    for torn in [&b"*1\r\n$5\r\nMULTI\r\n*3\r\n"[..], b"nonsense"] {
        let mut bytes = std::fs::read(&file).unwrap();
        bytes.truncate(whole as usize);
        bytes.extend_from_slice(torn);
        std::fs::write(&file, &bytes).unwrap();
        let host = in_directory(root.path());
        let said = format!("{:?}", host.recovery().unwrap());
        host.close().await;
        let kept: Vec<PathBuf> = files(root.path())
            .into_iter()
            .filter(|(path, bytes)| path.to_string_lossy().contains("torn") && bytes == torn)
            .map(|(path, _)| path)
            .collect();
        assert_eq!(kept.len(), 1, "{said}");
        assert!(said.contains(kept[0].to_str().unwrap()), "{said}");
    }
}

/// A closed store with one file of each kind: a rewritten journal, a sealed part and a last part.
async fn of_every_kind(root: &Path) -> Dump {
    let faults = Faults::none();
    let config = restless(root);
    let host = EmbeddedHost::open_on(config, &library(RUN), faults.disk()).unwrap();
    while host.stats().compactions == 0 {
        write_until_it_fails(&host, 0..5).await;
    }
    faults.fail_when(|operation, path| {
        let base = path.to_string_lossy().ends_with(".base.aof");
        (operation == "create" && base).then(|| std::io::Error::other("no"))
    });
    while host.stats().compactions_failed == 0 {
        write_until_it_fails(&host, 0..5).await;
    }
    write_until_it_fails(&host, 0..5).await;
    let dump = host.dump().await.unwrap();
    host.close().await;
    dump
}

/// Every so many bytes a file is cut or changed; the first place is by chance.
const STRIDE: usize = 3;

/// A check of a store in which one file is changed finds that, or nothing is missing.
fn assert_nothing_is_lost_in_silence(root: &Path, before: &Dump, what: &str) {
    if let Ok(report) = store::check(root) {
        assert!(report.dump == *before, "{what} lost something in silence");
    }
}

#[tokio::test]
async fn a_cut_or_flip_in_any_kind_of_file_of_a_closed_store_loses_nothing_in_silence() {
    let root = tempfile::tempdir().unwrap();
    let before = of_every_kind(root.path()).await;
    let first = random_test!().seed() as usize % STRIDE;
    let files = files(root.path());
    let count =
        |end: &str| files.keys().filter(|path| path.to_string_lossy().ends_with(end)).count();
    assert!(count(".base.aof") == 1 && count(".incr.aof") >= 2, "{:?}", files.keys());
    assert!(count(".manifest") == 1 && count("flowfabric.store") == 1, "{:?}", files.keys());
    assert_eq!(store::check(root.path()).unwrap().dump, before);
    for (path, bytes) in &files {
        let name = path.file_name().unwrap().to_string_lossy();
        for length in (first..bytes.len()).step_by(STRIDE) {
            std::fs::write(path, &bytes[..length]).unwrap();
            assert_nothing_is_lost_in_silence(
                root.path(),
                &before,
                &format!("{name} cut at {length}"),
            );
        }
        for at in (first..bytes.len()).step_by(STRIDE) {
            let mut flipped = bytes.clone();
            flipped[at] ^= 1 << (at % 8);
            std::fs::write(path, &flipped).unwrap();
            assert_nothing_is_lost_in_silence(
                root.path(),
                &before,
                &format!("{name} flip at {at}"),
            );
        }
        std::fs::remove_file(path).unwrap();
        assert_nothing_is_lost_in_silence(root.path(), &before, &format!("{name} removed"));
        std::fs::write(path, bytes).unwrap();
    }
    assert_eq!(in_directory(root.path()).dump().await.unwrap(), before);
}

#[tokio::test]
async fn a_sealed_last_increment_without_its_successor_is_damage() {
    let root = tempfile::tempdir().unwrap();
    let host = EmbeddedHost::open(restless(root.path()), &library(RUN)).unwrap();
    let first = std::fs::read(manifest(root.path())).unwrap();
    host.close().await;
    std::fs::remove_dir_all(root.path().join("appendonlydir")).unwrap();
    std::fs::remove_file(root.path().join("flowfabric.store")).unwrap();
    // The first manifest again, after the first file was sealed and the rewrite failed.
    let faults = Faults::none();
    let host = EmbeddedHost::open_on(restless(root.path()), &library(RUN), faults.disk()).unwrap();
    faults.fail_when(|operation, path| {
        let base = path.to_string_lossy().ends_with(".base.aof");
        (operation == "create" && base).then(|| std::io::Error::other("no"))
    });
    while host.stats().compactions_failed == 0 {
        write_until_it_fails(&host, 0..5).await;
    }
    host.close().await;
    std::fs::write(manifest(root.path()), first).unwrap();
    assert_damaged(root.path(), "not listed");
    for later in &journal_files(root.path(), "incr")[1..] {
        std::fs::remove_file(later).unwrap();
    }
    assert_damaged(root.path(), "is complete");
}

#[tokio::test]
async fn a_closed_store_that_lost_its_last_transactions_is_damaged() {
    let root = tempfile::tempdir().unwrap();
    filled(root.path()).await;
    let file = journal_files(root.path(), "incr").remove(0);
    let bytes = std::fs::read(&file).unwrap();
    let last = bytes.windows(5).rposition(|window| window == b"MULTI").unwrap() - 8;
    cut(&file, last as u64);
    assert_damaged(root.path(), "there were 20, and 19 are left");
}

#[tokio::test]
async fn room_that_was_reserved_by_writing_zeros_is_no_torn_tail() {
    let root = tempfile::tempdir().unwrap();
    filled(root.path()).await;
    let file = journal_files(root.path(), "incr").remove(0);
    let mut whole = std::fs::read(&file).unwrap();
    for zeros in [1, 4096, 1 << 20] {
        cut(&file, (whole.len() + zeros) as u64);
        let recovery = store::check(root.path()).unwrap().recovery;
        assert_eq!((recovery.torn, recovery.unused), (None, zeros as u64));
        let host = in_directory(root.path());
        assert_eq!(host.recovery().unwrap().torn, None);
        host.close().await;
        // A line may follow that says up to where it was synced.
        let after = std::fs::read(&file).unwrap();
        assert!(after.starts_with(&whole) && !after.contains(&0), "the zeros were cut");
        whole = after;
    }
    let mut wrong = whole.clone();
    wrong.extend_from_slice(&[0, 0, 0, 1]);
    std::fs::write(&file, &wrong).unwrap();
    assert!(store::check(root.path()).unwrap().recovery.torn.is_some());
}
