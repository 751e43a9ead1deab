//! What is read back after a close, a crash, a cut and a flipped bit.
#![allow(clippy::unwrap_used, reason = "in a test, a panic is the report")]

mod support;

use std::path::Path;

use ff_backend_embedded::{EmbeddedConfig, EmbeddedHost, OpenError, StoreError, SyncMode, store};
use ff_core::partition::{Partition, PartitionFamily};
use ff_script::dump::{Dump, Stored};
use support::{HOME, RUN, call, in_directory, journal_files, library, on_disk, run};

/// Calls whose effects differ in kind and size.
const CALLS: [&str; 6] = [
    "HSET ff:{fp:7}:h a 1 b 2 ; XADD ff:{fp:7}:x 1-1 e created",
    "ZADD ff:{fp:7}:z 1.5 m 2 n ; RPUSH ff:{fp:7}:l a b",
    "SADD ff:{fp:7}:s x y ; HSET ff:{fp:7}:h a 42",
    "SET ff:{fp:7}:t  ; HDEL ff:{fp:7}:h b",
    "ZREM ff:{fp:7}:z m ; XADD ff:{fp:7}:x MAXLEN = 1 2-1 e ended",
    "DEL ff:{fp:7}:s ; LTRIM ff:{fp:7}:l 1 -1",
];

/// A journal of the calls above, as a crash right after the last answer leaves it.
struct Journal {
    bytes: Vec<u8>,
    manifest: Vec<u8>,
    /// Where each transaction ends, after its line.
    ends: Vec<usize>,
    /// What was there after as many calls.
    states: Vec<Dump>,
}

impl Journal {
    async fn record() -> Self {
        Self::record_with(SyncMode::Always).await
    }

    async fn record_with(sync: SyncMode) -> Self {
        let root = tempfile::tempdir().unwrap();
        let config = on_disk(root.path(), sync);
        let host = EmbeddedHost::open(config, &library(RUN)).unwrap();
        let mut states = vec![host.dump().await.unwrap()];
        for commands in CALLS {
            run(&host, commands).await.unwrap();
            states.push(host.dump().await.unwrap());
        }
        let file = journal_files(root.path(), "incr").remove(0);
        let mut bytes = std::fs::read(&file).unwrap();
        let manifest =
            std::fs::read(root.path().join("appendonlydir/appendonly.aof.manifest")).unwrap();
        let ends: Vec<usize> = line_ends(&bytes, b"#ff tx=");
        bytes.truncate(*ends.last().unwrap());
        assert_eq!(ends.len(), CALLS.len());
        Self { bytes, manifest, ends, states }
    }

    /// A data directory with these bytes as its journal.
    fn directory(&self, bytes: &[u8]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        let journal = root.path().join("appendonlydir");
        std::fs::create_dir(&journal).unwrap();
        std::fs::write(journal.join("appendonly.aof.manifest"), &self.manifest).unwrap();
        std::fs::write(journal.join("appendonly.aof.1.incr.aof"), bytes).unwrap();
        root
    }
}

fn line_ends(bytes: &[u8], start: &[u8]) -> Vec<usize> {
    bytes
        .windows(start.len())
        .enumerate()
        .filter(|(_, window)| *window == start)
        .map(|(at, _)| at + bytes[at..].iter().position(|byte| *byte == b'\n').unwrap() + 1)
        .collect()
}

#[tokio::test]
async fn a_closed_store_comes_back_as_it_was_with_any_number_of_shards() {
    let root = tempfile::tempdir().unwrap();
    let partitions = [
        HOME,
        Partition::flow(8),
        Partition { family: PartitionFamily::Budget, index: 3 },
        Partition { family: PartitionFamily::Quota, index: 31 },
    ];
    let mut expected = None;
    for shards in [2, 1, 3, 4] {
        let config = EmbeddedConfig { shards, ..on_disk(root.path(), SyncMode::Always) };
        let host = EmbeddedHost::open(config, &library(RUN)).unwrap();
        assert_eq!(host.recovery().unwrap().torn, None);
        if let Some(expected) = &expected {
            assert_eq!(host.dump().await.unwrap(), *expected);
        }
        for partition in partitions {
            let key = format!("{}:k", partition.key());
            let value = shards.to_string();
            let words: [&[u8]; 3] = [b"RPUSH", key.as_bytes(), value.as_bytes()];
            call(&host, "run", partition, &words).await.unwrap();
        }
        expected = Some(host.dump().await.unwrap());
        host.close().await;
    }
    let list = Stored::List([b"2", b"1", b"3", b"4"].map(|v| v.to_vec()).to_vec());
    assert_eq!(expected.unwrap()[&b"ff:{q:31}:k"[..]], list);
}

#[tokio::test]
async fn bytes_of_every_kind_and_size_survive() {
    let root = tempfile::tempdir().unwrap();
    let every: Vec<u8> = (0..=255).collect();
    let large: Vec<u8> = (0..4u32 << 20).map(|n| (n % 251) as u8).collect();
    let tricky = b"*1\r\n$4\r\nEXEC\r\n#ff tx=0000000000000002 crc=00000000\r\n".to_vec();
    let host = in_directory(root.path());
    for value in [&every, &Vec::new(), &large, &tricky] {
        let field = value.len().to_string();
        let words: [&[u8]; 4] = [b"HSET", b"ff:{fp:7}:h", field.as_bytes(), value];
        call(&host, "run", HOME, &words).await.unwrap();
        call(&host, "run", HOME, &[b"SADD", b"ff:{fp:7}:s", value]).await.unwrap();
        call(&host, "run", HOME, &[b"ZADD", b"ff:{fp:7}:z", b"1", value]).await.unwrap();
    }
    let before = host.dump().await.unwrap();
    host.close().await;
    let host = in_directory(root.path());
    assert_eq!(host.dump().await.unwrap(), before);
}

#[tokio::test]
async fn a_journal_cut_at_any_byte_of_its_last_three_transactions_loses_only_what_was_cut() {
    let journal = Journal::record().await;
    let from = journal.ends[CALLS.len() - 4];
    for cut in from..=journal.bytes.len() {
        let whole = journal.ends.iter().filter(|end| **end <= cut).count();
        let root = journal.directory(&journal.bytes[..cut]);
        let report = store::check(root.path()).unwrap();
        assert_eq!(report.dump, journal.states[whole], "cut at {cut}");
        let host = in_directory(root.path());
        assert_eq!(host.dump().await.unwrap(), journal.states[whole], "cut at {cut}");
        let torn = host.recovery().unwrap().torn.clone();
        assert_eq!(report.recovery.torn, torn);
        if let Some(torn) = torn {
            assert!(torn.offset + torn.bytes == cut as u64 && torn.bytes > 0, "cut at {cut}");
        } else {
            let at_line = line_ends(&journal.bytes[..cut], b"#ff ").contains(&cut);
            assert!(at_line, "a cut at {cut} was not reported");
        }
    }
}

#[tokio::test]
async fn a_store_goes_on_after_a_torn_tail_was_cut() {
    let journal = Journal::record().await;
    let root = journal.directory(&journal.bytes[..journal.bytes.len() - 1]);
    let host = in_directory(root.path());
    run(&host, CALLS[5]).await.unwrap();
    assert_eq!(host.dump().await.unwrap(), journal.states[6]);
    host.close().await;
    let host = in_directory(root.path());
    assert_eq!(host.recovery().unwrap().torn, None);
    assert_eq!(host.dump().await.unwrap(), journal.states[6]);
}

/// Flips each bit of each byte; `verdict` sees where, and what a check then says.
fn flip_every_bit(
    journal: &Journal,
    bytes: &[u8],
    verdict: impl Fn(usize, Result<store::CheckReport, StoreError>),
) {
    let root = journal.directory(bytes);
    let file = journal_files(root.path(), "incr").remove(0);
    let mut flipped = bytes.to_vec();
    for at in 0..bytes.len() {
        for bit in 0..8 {
            flipped[at] ^= 1 << bit;
            std::fs::write(&file, &flipped).unwrap();
            verdict(at, store::check(root.path()));
            flipped[at] ^= 1 << bit;
        }
    }
}

fn assert_damaged(at: usize, file: &str, result: Result<store::CheckReport, StoreError>) {
    match result {
        Err(StoreError::Damaged { file: named, offset, .. }) => {
            assert!(named.ends_with(file), "{}", named.display());
            assert!(offset <= at as u64, "flip at {at} was found at {offset}");
        }
        other => panic!("flip at {at} gave {other:?}"),
    }
}

#[tokio::test]
async fn a_flipped_bit_is_always_found_and_only_a_bad_tail_is_dropped() {
    let journal = Journal::record().await;
    // Everything up to here is known to have been on the disk, by the line that follows it.
    let tail = journal.ends[CALLS.len() - 2];
    flip_every_bit(&journal, &journal.bytes, |at, result| {
        if at < tail {
            assert_damaged(at, "appendonly.aof.1.incr.aof", result);
        } else {
            let report = result.unwrap_or_else(|error| panic!("flip at {at}: {error}"));
            let torn = report.recovery.torn.expect("it is reported");
            assert!(torn.offset as usize >= tail && torn.offset as usize <= at);
            assert_eq!(report.dump, journal.states[CALLS.len() - 1], "flip at {at}");
        }
    });
}

#[tokio::test]
async fn a_flipped_bit_in_a_store_that_was_closed_is_damage_wherever_it_is() {
    let journal = Journal::record().await;
    let root = journal.directory(&journal.bytes);
    in_directory(root.path()).close().await;
    let bytes = std::fs::read(journal_files(root.path(), "incr").remove(0)).unwrap();
    let last_line = *line_ends(&bytes, b"#ff tx=").last().unwrap();
    assert!(bytes.len() > last_line, "a closed journal ends with a line of its own");
    flip_every_bit(&journal, &bytes, |at, result| {
        if at < last_line {
            assert_damaged(at, "appendonly.aof.1.incr.aof", result);
        } else {
            let report = result.unwrap_or_else(|error| panic!("flip at {at}: {error}"));
            assert!(report.recovery.torn.is_some(), "flip at {at}");
            assert_eq!(report.dump, journal.states[CALLS.len()]);
        }
    });
}

/// Pages of one unsynced write may reach the disk in any order, so a hole in it is no damage.
#[tokio::test]
async fn a_hole_in_what_was_never_synced_is_a_torn_tail() {
    let journal = Journal::record_with(SyncMode::Off).await;
    for at in journal.ends[1]..journal.ends[2] {
        let mut bytes = journal.bytes.clone();
        bytes[at] = 0;
        let root = journal.directory(&bytes);
        let report = store::check(root.path()).unwrap();
        assert_eq!(report.dump, journal.states[2], "hole at {at}");
        let torn = report.recovery.torn.expect("it is reported");
        assert_eq!(
            (torn.offset, torn.offset + torn.bytes),
            (journal.ends[1] as u64, bytes.len() as u64)
        );
    }
}

#[tokio::test]
async fn damage_in_the_middle_is_refused_and_left_as_it_is() {
    let journal = Journal::record().await;
    let mut bytes = journal.bytes.clone();
    bytes[journal.ends[1] + 60] ^= 1;
    let root = journal.directory(&bytes);
    let refused = EmbeddedHost::open(on_disk(root.path(), SyncMode::Always), &library(RUN));
    let Err(OpenError::Store(StoreError::Damaged { offset, .. })) = refused else {
        panic!("it must not open");
    };
    assert!((offset as usize) >= journal.ends[1] && (offset as usize) < journal.ends[2]);
    let after = std::fs::read(journal_files(root.path(), "incr").remove(0)).unwrap();
    assert_eq!(after, bytes);
}

#[tokio::test]
async fn a_missing_transaction_is_noticed() {
    let journal = Journal::record().await;
    let mut bytes = journal.bytes[..journal.ends[1]].to_vec();
    bytes.extend_from_slice(&journal.bytes[journal.ends[2]..]);
    let root = journal.directory(&bytes);
    let error = store::check(root.path()).unwrap_err().to_string();
    assert!(error.contains("transaction 4 follows 2"), "{error}");
}

fn assert_refused(root: &Path, expected: &str) {
    match EmbeddedHost::open(on_disk(root, SyncMode::Always), &library(RUN)) {
        Ok(_) => panic!("it must not open"),
        Err(error) => assert!(error.to_string().contains(expected), "{error}"),
    }
}

#[tokio::test]
async fn what_is_not_our_data_is_refused_with_a_reason() {
    let journal = Journal::record().await;
    let manifest = |root: &Path| root.join("appendonlydir/appendonly.aof.manifest");

    let root = journal.directory(&journal.bytes);
    std::fs::remove_file(manifest(root.path())).unwrap();
    assert_refused(root.path(), "no manifest");

    let root = journal.directory(&journal.bytes);
    let rdb = "file appendonly.aof.1.base.rdb seq 1 type b\n\
               file appendonly.aof.1.incr.aof seq 1 type i\n";
    std::fs::write(manifest(root.path()), rdb).unwrap();
    assert_refused(root.path(), "snapshot that Valkey wrote");

    let mut bytes = journal.bytes.clone();
    bytes.extend_from_slice(
        b"*2\r\n$6\r\nSELECT\r\n$1\r\n0\r\n*3\r\n$3\r\nSET\r\n$1\r\na\r\n$1\r\nb\r\n",
    );
    let root = journal.directory(&bytes);
    assert_refused(root.path(), "Valkey has appended");

    let root = journal.directory(&journal.bytes);
    std::fs::remove_file(journal_files(root.path(), "incr").remove(0)).unwrap();
    assert_refused(root.path(), "No such file");
}

#[tokio::test]
async fn a_second_store_is_kept_out_and_told_by_whom() {
    let root = tempfile::tempdir().unwrap();
    let host = in_directory(root.path());
    let me = std::process::id();
    assert_refused(root.path(), &format!("in use by process {me}"));
    let Err(StoreError::Locked { pid, .. }) = store::check(root.path()) else {
        panic!("a check must not read what is being written");
    };
    assert_eq!(pid, Some(me));
    host.close().await;
    drop(in_directory(root.path()));
    drop(in_directory(root.path()));
}

#[tokio::test]
async fn a_library_that_does_not_load_leaves_the_directory_free() {
    let root = tempfile::tempdir().unwrap();
    let config = on_disk(root.path(), SyncMode::Always);
    assert!(EmbeddedHost::open(config, &library("#!lua name=x\nnonsense")).is_err());
    drop(in_directory(root.path()));
}
