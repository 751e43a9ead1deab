//! A process that is killed at any moment loses nothing that it acknowledged.
//!
//! The test starts itself again as the process that is killed.
#![allow(clippy::unwrap_used, reason = "in a test, a panic is the report")]

mod support;

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use ff_backend_embedded::{CompactionConfig, EmbeddedConfig, EmbeddedHost, StoreError, SyncMode};
use ff_backend_embedded::{OpenError, store};
use ff_core::partition::Partition;
use support::valkey::{Resp, Valkey};
use support::{RUN, Random, call, library, on_disk};

const DIRECTORY: &str = "FF_CRASH_DIRECTORY";
const START: &str = "FF_CRASH_START";
const CALLERS: u32 = 8;

fn config(root: &Path) -> EmbeddedConfig {
    let compaction = CompactionConfig { min_bytes: 40_000, growth: 1, piece_bytes: 1 };
    EmbeddedConfig { compaction, ..on_disk(root, SyncMode::Always) }
}

/// The process that is killed: writes as fast as it can, and says what was acknowledged. Does
/// nothing when it is run as a test.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn child_process() {
    let (Ok(root), Ok(start)) = (std::env::var(DIRECTORY), std::env::var(START)) else { return };
    let start: u32 = start.parse().unwrap();
    let host = Arc::new(EmbeddedHost::open(config(Path::new(&root)), &library(RUN)).unwrap());
    say("ready");
    let callers = (0..CALLERS).map(|caller| {
        let host = Arc::clone(&host);
        tokio::spawn(async move {
            let partition = Partition::flow(caller as u16);
            let key = format!("{}:h", partition.key());
            for n in start.. {
                let value = n.to_string();
                let field = format!("f{}", n % 40);
                let words: [&[u8]; 6] = [
                    b"HSET",
                    key.as_bytes(),
                    b"last",
                    value.as_bytes(),
                    field.as_bytes(),
                    &[7; 200],
                ];
                call(&host, "run", partition, &words).await.unwrap();
                say(&format!("done {caller} {n}"));
            }
        })
    });
    for caller in callers.collect::<Vec<_>>() {
        caller.await.unwrap();
    }
}

fn say(line: &str) {
    let mut out = std::io::stdout().lock();
    // The line is written at once and whole, so that what was said was acknowledged.
    writeln!(out, "@{line}").and_then(|()| out.flush()).expect("the parent reads");
}

fn start_child(root: &Path, start: u32) -> (Child, impl Iterator<Item = String>) {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "child_process", "--nocapture", "--test-threads", "1"])
        .env(DIRECTORY, root)
        .env(START, start.to_string())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
    // The test harness writes to the same place, without a line's end before our first one.
    let said = lines.filter_map(|line| line.split_once('@').map(|(_, said)| said.to_owned()));
    (child, said)
}

/// What each caller was told last.
type Told = BTreeMap<u32, u32>;

/// Starts a process, and kills it after it has said so many lines.
fn kill_after(root: &Path, lines: usize, told: &mut Told) {
    let start = told.values().max().map_or(0, |last| last + 1);
    let (mut child, mut said) = start_child(root, start);
    assert_eq!(said.next().as_deref(), Some("ready"));
    let mut note = |line: String| {
        let mut words = line.split(' ').skip(1).map(|word| word.parse::<u32>().unwrap());
        told.insert(words.next().unwrap(), words.next().unwrap());
    };
    said.by_ref().take(lines).for_each(&mut note);
    child.kill().unwrap();
    // Whatever it had said by then was acknowledged too. The last line may be cut.
    said.filter(|line| line.split(' ').count() == 3).for_each(&mut note);
    child.wait().unwrap();
}

#[tokio::test]
async fn a_killed_process_loses_nothing_that_it_acknowledged() {
    let mut random = Random::new(ff_test_seed::random_test!().seed());
    let root = tempfile::tempdir().unwrap();
    let mut told = Told::new();
    for round in 0..8 {
        kill_after(root.path(), 20 + random.below(1500) as usize, &mut told);
        verify(root.path(), &told, round).await;
    }
}

/// Room that is reserved in the journal does not make it longer, so Valkey need not know of it.
#[test]
fn valkey_starts_from_what_a_killed_process_left() {
    let root = tempfile::tempdir().unwrap();
    let mut told = Told::new();
    kill_after(root.path(), 700, &mut told);
    let mut server = Valkey::start(root.path(), &["--appendonly", "yes"]);
    let mut client = server.connect();
    for (caller, n) in told {
        let key = format!("{}:h", Partition::flow(caller as u16).key());
        let Resp::Bytes(last) = client.call(&[b"HGET", key.as_bytes(), b"last"]) else {
            panic!("caller {caller} was told {n}, nothing is there");
        };
        let last: u32 = String::from_utf8(last).unwrap().parse().unwrap();
        assert!(last >= n, "caller {caller} was told {n}, {last} is there");
    }
}

async fn verify(root: &Path, told: &Told, round: u32) {
    store::check(root).unwrap_or_else(|error| panic!("round {round}: {error}"));
    let host = EmbeddedHost::open(config(root), &library(RUN)).unwrap();
    for (caller, n) in told {
        let partition = Partition::flow(*caller as u16);
        let key = format!("{}:h", partition.key());
        let last = call(&host, "read", partition, &[b"HGET", key.as_bytes(), b"last"]).await;
        let last = String::from_utf8(last.unwrap().as_bytes().unwrap().to_vec()).unwrap();
        let last: u32 = last.parse().unwrap();
        assert!(last >= *n, "round {round}: caller {caller} was told {n}, {last} is there");
    }
    host.close().await;
}

#[test]
fn a_second_process_is_kept_out_while_the_first_lives() {
    let root = tempfile::tempdir().unwrap();
    let (mut child, mut said) = start_child(root.path(), 0);
    assert_eq!(said.next().as_deref(), Some("ready"));
    let refused = EmbeddedHost::open(config(root.path()), &library(RUN));
    let Err(OpenError::Store(StoreError::Locked { pid, directory })) = refused else {
        panic!("it must not open");
    };
    assert_eq!((pid, &*directory), (Some(child.id()), root.path()));
    child.kill().unwrap();
    child.wait().unwrap();
    EmbeddedHost::open(config(root.path()), &library(RUN)).unwrap();
}
