//! What makes a store stop, who is told, and what is left of the call that did it: nothing.
//!
//! The test starts itself again where a process must run out of memory or be aborted.
#![allow(clippy::unwrap_used, reason = "in a test, a panic is the report")]

mod support;

use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use ff_backend_embedded::{EmbeddedConfig, EmbeddedHost, SyncMode, WatchdogConfig};
use ff_core::backend_error::{BackendErrorKind, Retry};
use ff_core::partition::Partition;
use ff_script::host::{Host, Topic};
use support::faulty::Faults;
use support::{HOME, call, in_directory, in_directory_on, in_memory, library, on_disk, run};

/// Functions that fail in every way, before and after their first write.
const FAILING: &str = "#!lua name=failing
local function set(key, value) return redis.call('SET', key, value) end
local function fill()
  local all = {}
  while true do all[#all + 1] = string.rep('x', 8 * 2^20) .. #all end
end
redis.register_function('set', function(keys, args)
  return set(keys[1] .. ':' .. args[1], args[2])
end)
redis.register_function('raise_first', function(keys, args)
  redis.call('SPUBLISH', keys[1] .. ':ready', 'lane')
  error('raised')
end)
redis.register_function('raise_midway', function(keys, args)
  set(keys[1] .. ':half', 'a transition')
  redis.call('SPUBLISH', keys[1] .. ':ready', 'lane')
  error('raised')
end)
redis.register_function('answer_midway', function(keys, args)
  set(keys[1] .. ':half', 'a transition')
  return redis.pcall('GET')
end)
redis.register_function('fill_first', function(keys, args) fill() end)
redis.register_function('fill_midway', function(keys, args)
  set(keys[1] .. ':half', 'a transition')
  fill()
end)
redis.register_function('loop', function(keys, args)
  local n = 0
  while true do n = n + 1 end
end)
redis.register_function{
  function_name = 'read',
  callback = function(keys, args) return redis.call('GET', args[1]) end,
  flags = {'no-writes'},
}
";

/// Another shard's partition than the home's.
const ELSEWHERE: Partition = Partition::flow(8);

fn failing_in(root: &Path) -> EmbeddedHost {
    EmbeddedHost::open(on_disk(root, SyncMode::Always), &library(FAILING)).unwrap()
}

#[tokio::test]
async fn a_call_that_raised_before_its_first_write_has_no_effect() {
    let host = in_memory(FAILING);
    let mut ready = host.subscribe(Topic::Ready).await.unwrap();
    let error = call(&host, "raise_first", HOME, &[]).await.unwrap_err();
    assert_eq!((error.kind, error.retry), (BackendErrorKind::Protocol, Retry::Never));
    call(&host, "set", HOME, &[b"k", b"v"]).await.unwrap();
    assert_eq!(host.stop_reason(), None);
    host.ready().await.unwrap();
    let woken = tokio::time::timeout(Duration::ZERO, ready.next()).await;
    assert!(woken.is_err(), "nobody is woken by what did not happen");
}

#[tokio::test]
async fn a_call_that_failed_after_its_first_write_is_dropped_and_stops_the_store() {
    for failing in ["raise_midway", "answer_midway"] {
        let root = tempfile::tempdir().unwrap();
        let host = failing_in(root.path());
        let mut ready = host.subscribe(Topic::Ready).await.unwrap();
        call(&host, "set", HOME, &[b"k", b"v"]).await.unwrap();
        let error = call(&host, failing, HOME, &[]).await.unwrap_err();
        assert_eq!((error.kind, error.retry), (BackendErrorKind::Closed, Retry::Safe));
        let reason = host.stopped().await;
        assert!(reason.contains(failing) && reason.contains("{fp:7}"), "{reason}");
        for partition in [HOME, ELSEWHERE] {
            let refused = call(&host, "set", partition, &[b"k", b"v"]).await.unwrap_err();
            assert!(refused.message.contains(&reason), "{refused}");
            let refused = call(&host, "read", partition, &[b"ff:{fp:7}:half"]).await.unwrap_err();
            assert_eq!(refused.kind, BackendErrorKind::Closed);
        }
        assert!(host.dump().await.is_err() && host.ready().await.is_err());
        let woken = tokio::time::timeout(Duration::ZERO, ready.next()).await;
        assert!(woken.is_err(), "nobody is woken by what did not happen");
        host.close().await;
        let host = failing_in(root.path());
        let keys: Vec<_> = host.dump().await.unwrap().into_keys().collect();
        assert_eq!(keys, [b"ff:{fp:7}:k".to_vec()], "{failing}");
    }
}

#[tokio::test]
async fn a_store_in_memory_stops_too_when_a_call_failed_halfway() {
    let host = in_memory(FAILING);
    call(&host, "raise_midway", HOME, &[]).await.unwrap_err();
    let refused = call(&host, "set", ELSEWHERE, &[b"k", b"v"]).await.unwrap_err();
    assert_eq!(refused.kind, BackendErrorKind::Closed);
}

/// Acknowledged calls of the same batch are kept: only the failed one is dropped.
#[tokio::test]
async fn what_came_before_the_failed_call_in_the_same_batch_is_kept() {
    let root = tempfile::tempdir().unwrap();
    let host = Arc::new(failing_in(root.path()));
    let mut calls = tokio::task::JoinSet::new();
    for n in 0..200_u32 {
        let host = Arc::clone(&host);
        calls.spawn(async move {
            let name = if n == 100 { "raise_midway" } else { "set" };
            let told = call(&host, name, HOME, &[n.to_string().as_bytes(), b"v"]).await;
            told.ok().map(|_| format!("ff:{{fp:7}}:{n}").into_bytes())
        });
    }
    let acknowledged: Vec<_> = calls.join_all().await.into_iter().flatten().collect();
    host.close().await;
    drop(host);
    let dump = failing_in(root.path()).dump().await.unwrap();
    assert!(acknowledged.iter().all(|key| dump.contains_key(key)));
    assert!(!dump.contains_key(b"ff:{fp:7}:half".as_slice()));
}

#[tokio::test]
async fn when_a_sync_fails_the_program_is_told_why_and_every_call_fails() {
    let root = tempfile::tempdir().unwrap();
    let faults = Faults::none();
    let host = in_directory_on(root.path(), faults.disk());
    host.ready().await.unwrap();
    faults.sync_fails.store(true, Ordering::SeqCst);
    run(&host, "SET ff:{fp:7}:k v").await.unwrap_err();
    let reason = host.stopped().await;
    assert!(reason.contains("input/output error"), "{reason}");
    for partition in [HOME, ELSEWHERE] {
        let refused = call(&host, "read", partition, &[b"GET", b"k"]).await.unwrap_err();
        assert!(refused.message.contains(&reason), "{refused}");
    }
    assert!(host.ready().await.unwrap_err().message.contains(&reason));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_panic_of_the_journal_reaches_every_caller() {
    let root = tempfile::tempdir().unwrap();
    let faults = Faults::none();
    let host = Arc::new(in_directory_on(root.path(), faults.disk()));
    run(&host, "SET ff:{fp:7}:kept v").await.unwrap();
    faults.hold_syncs();
    let write = |n: u16| {
        let host = Arc::clone(&host);
        let partition = Partition::flow(n);
        let key = format!("{}:k", partition.key());
        tokio::spawn(
            async move { call(&host, "run", partition, &[b"SET", key.as_bytes(), b"v"]).await },
        )
    };
    let first = write(1);
    faults.wait_for_held_sync();
    let others: Vec<_> = (2..20).map(write).collect();
    while host.stats().calls < 20 {
        tokio::task::yield_now().await;
    }
    faults.panics.store(true, Ordering::SeqCst);
    faults.release_syncs();
    first.await.unwrap().unwrap();
    for other in others {
        other.await.unwrap().unwrap_err();
    }
    let reason = host.stopped().await;
    assert!(reason.contains("ff-journal panicked"), "{reason}");
    assert!(run(&host, "SET ff:{fp:7}:k v").await.unwrap_err().message.contains(&reason));
    assert!(host.close().await, "closing does not wait for a thread that is gone");
    faults.panics.store(false, Ordering::SeqCst);
    drop(host);
    assert_eq!(in_directory(root.path()).dump().await.unwrap().len(), 2);
}

#[tokio::test]
async fn a_store_on_a_full_disk_is_not_ready_until_there_is_room() {
    let root = tempfile::tempdir().unwrap();
    let faults = Faults::none();
    drop(in_directory_on(root.path(), faults.disk()));
    // Enough to open the store, not to reserve room in its journal.
    faults.room.store(1000, Ordering::SeqCst);
    let host = in_directory_on(root.path(), faults.disk());
    run(&host, "SET ff:{fp:7}:k v").await.unwrap_err();
    assert_eq!(host.ready().await.unwrap_err().kind, BackendErrorKind::Resource);
    assert_eq!(host.stop_reason(), None);
    faults.room.store(i64::MAX, Ordering::SeqCst);
    while host.ready().await.is_err() {
        tokio::task::yield_now().await;
    }
    run(&host, "SET ff:{fp:7}:k v").await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_whose_disk_hangs_is_not_ready() {
    let root = tempfile::tempdir().unwrap();
    let faults = Faults::none();
    let host = Arc::new(in_directory_on(root.path(), faults.disk()));
    faults.hold_syncs();
    let held = Arc::clone(&host);
    let write = tokio::spawn(async move { run(&held, "SET ff:{fp:7}:k v").await });
    faults.wait_for_held_sync();
    assert!(tokio::time::timeout(Duration::from_millis(20), host.ready()).await.is_err());
    faults.release_syncs();
    write.await.unwrap().unwrap();
    host.ready().await.unwrap();
}

const CHILD: &str = "FF_STOP_FUNCTION";
const DIRECTORY: &str = "FF_STOP_DIRECTORY";

/// The process that runs out of memory or is aborted: calls the function that it is told, and says
/// how that went. Does nothing when it is run as a test.
#[tokio::test]
async fn child_process() {
    let (Ok(name), Ok(root)) = (std::env::var(CHILD), std::env::var(DIRECTORY)) else { return };
    let (report_after, end_after) = (Duration::from_millis(100), Duration::from_millis(400));
    let watchdog = match &*name {
        "loop" => WatchdogConfig { report_after, end_after },
        _ => WatchdogConfig::default(),
    };
    let config = EmbeddedConfig { watchdog, ..on_disk(Path::new(&root), SyncMode::Always) };
    let host = EmbeddedHost::open(config, &library(FAILING)).unwrap();
    call(&host, "set", HOME, &[b"before", b"v"]).await.unwrap();
    let error = call(&host, name.leak(), HOME, &[]).await.unwrap_err();
    println!("@{:?}: {}", error.kind, error.message);
    let large = vec![b'v'; 32 << 20];
    match call(&host, "set", HOME, &[b"after", &large]).await {
        Ok(_) => println!("@goes on"),
        Err(error) => println!("@{:?}", error.kind),
    }
}

/// Runs the child with this many bytes of address space.
fn child(root: &Path, function: &str, memory_kib: Option<u64>) -> Output {
    let program = std::env::current_exe().unwrap();
    let limit = memory_kib.map_or(String::new(), |kib| format!("ulimit -v {kib} && "));
    let line = format!("{limit}ulimit -c 0 && exec \"$0\" --exact child_process --nocapture");
    let mut command = Command::new("sh");
    command.args(["-c", &line]).arg(program).env(CHILD, function).env(DIRECTORY, root);
    command.stdin(Stdio::null()).output().unwrap()
}

fn said(output: &Output) -> Vec<String> {
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.lines().filter_map(|line| line.split_once('@')).map(|(_, said)| said.to_owned()).collect()
}

async fn keys_in(root: &Path) -> Vec<String> {
    let dump = failing_in(root).dump().await.unwrap();
    dump.into_keys().map(|key| String::from_utf8(key).unwrap()).collect()
}

const MEMORY_KIB: u64 = 700_000;

#[tokio::test]
async fn half_a_transition_is_not_kept_when_lua_runs_out_of_memory() {
    let root = tempfile::tempdir().unwrap();
    let output = child(root.path(), "fill_midway", Some(MEMORY_KIB));
    let said = said(&output);
    assert!(said[0].contains("fill_midway: there is not enough memory"), "{output:?}");
    assert_eq!(said[1], "Closed");
    assert_eq!(keys_in(root.path()).await, ["ff:{fp:7}:before"]);
}

#[tokio::test]
async fn a_call_without_memory_that_wrote_nothing_is_refused_and_the_store_goes_on() {
    let root = tempfile::tempdir().unwrap();
    let output = child(root.path(), "fill_first", Some(MEMORY_KIB));
    let expected = ["Resource: fill_first: there is not enough memory", "goes on"];
    assert_eq!(said(&output), expected, "{output:?}");
    assert_eq!(keys_in(root.path()).await, ["ff:{fp:7}:after", "ff:{fp:7}:before"]);
}

#[tokio::test]
async fn a_function_that_loops_ends_the_process_and_is_named() {
    let root = tempfile::tempdir().unwrap();
    let output = child(root.path(), "loop", None);
    assert!(!output.status.success(), "{output:?}");
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(told.contains("loop has run on {fp:7} for 400ms"), "{told}");
    assert_eq!(keys_in(root.path()).await, ["ff:{fp:7}:before"]);
}
