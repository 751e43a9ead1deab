//! What is under way in a store is bounded, and so are its memory and the time that closing it
//! takes.
#![allow(clippy::unwrap_used, reason = "in a test, a panic is the report")]

mod support;

use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use ff_backend_embedded::{EmbeddedConfig, EmbeddedHost, MemoryLimit, SyncMode};
use ff_core::backend_error::{BackendError, BackendErrorKind, Retry};
use ff_core::clock::Clock;
use ff_core::partition::Partition;
use ff_script::value::Value;
use support::faulty::Faults;
use support::{HOME, RUN, call, library, on_disk, run};

/// A clock that holds up whoever asks for the time, which is the shard in the middle of a call.
#[derive(Default)]
struct HeldClock {
    state: Mutex<Held>,
    changed: Condvar,
}

#[derive(Default)]
struct Held {
    hold: bool,
    waiting: bool,
}

impl HeldClock {
    fn hold(&self, hold: bool) {
        self.state.lock().unwrap().hold = hold;
        self.changed.notify_all();
    }

    fn wait_for_call(&self) {
        let state = self.state.lock().unwrap();
        drop(self.changed.wait_while(state, |state| !state.waiting).unwrap());
    }
}

impl Clock for HeldClock {
    fn now_us(&self) -> u64 {
        let mut state = self.state.lock().unwrap();
        state.waiting = true;
        self.changed.notify_all();
        let mut state = self.changed.wait_while(state, |state| state.hold).unwrap();
        state.waiting = false;
        1
    }
}

/// A store that is in the middle of a call, until the clock lets go. It has one shard unless told
/// otherwise.
struct Busy {
    host: Arc<EmbeddedHost>,
    clock: Arc<HeldClock>,
    first: Call,
}

type Call = tokio::task::JoinHandle<Result<Value, BackendError>>;

impl Busy {
    fn open(change: impl FnOnce(&mut EmbeddedConfig)) -> Self {
        let clock = Arc::new(HeldClock::default());
        let mut config = EmbeddedConfig::in_memory();
        (config.shards, config.clock) = (1, Arc::clone(&clock) as Arc<dyn Clock>);
        change(&mut config);
        let host = Arc::new(EmbeddedHost::open(config, &library(RUN)).unwrap());
        clock.hold(true);
        let first = spawn(&host, "TIME");
        clock.wait_for_call();
        Self { host, clock, first }
    }
}

fn spawn(host: &Arc<EmbeddedHost>, commands: &'static str) -> Call {
    let host = Arc::clone(host);
    tokio::spawn(async move { run(&host, commands).await })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_whose_caller_is_gone_is_not_run() {
    let Busy { host, clock, first } = Busy::open(|_| {});
    let gone = run(&host, "SET ff:{fp:7}:gone v");
    assert!(tokio::time::timeout(Duration::ZERO, gone).await.is_err(), "it waits for its turn");
    let waiting = spawn(&host, "SET ff:{fp:7}:kept v");
    clock.hold(false);
    first.await.unwrap().unwrap();
    waiting.await.unwrap().unwrap();
    let keys: Vec<_> = host.dump().await.unwrap().into_keys().collect();
    assert_eq!(keys, [b"ff:{fp:7}:kept".to_vec()]);
    assert_eq!(host.stats().calls, 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_is_ready_only_if_every_shard_answers() {
    let Busy { host, clock, first } = Busy::open(|config| config.shards = 3);
    let elsewhere = Partition::flow(HOME.index + 1);
    call(&host, "read", elsewhere, &[b"GET", b"ff:{fp:8}:k"]).await.unwrap();
    assert!(tokio::time::timeout(Duration::from_millis(20), host.ready()).await.is_err());
    clock.hold(false);
    host.ready().await.unwrap();
    first.await.unwrap().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn when_too_much_waits_for_a_shard_more_is_refused_at_once() {
    let Busy { host, clock, first } = Busy::open(|config| config.backlog_bytes_max = 10 << 10);
    let large = vec![b'x'; 5 << 10];
    let words: [&[u8]; 3] = [b"SET", b"ff:{fp:7}:k", &large];
    let mut waiting = Box::pin(call(&host, "run", HOME, &words));
    assert!(tokio::time::timeout(Duration::ZERO, &mut waiting).await.is_err());
    let refused = call(&host, "run", HOME, &words).await.unwrap_err();
    assert_eq!((refused.kind, refused.retry), (BackendErrorKind::Resource, Retry::Safe));
    clock.hold(false);
    first.await.unwrap().unwrap();
    waiting.await.unwrap();
    call(&host, "run", HOME, &words).await.unwrap();
    let huge = vec![b'x'; 50 << 10];
    call(&host, "run", HOME, &[b"SET", b"ff:{fp:7}:k", &huge]).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_run_counts_until_the_disk_has_it() {
    let root = tempfile::tempdir().unwrap();
    let faults = Faults::none();
    let backlog_bytes_max = 4 << 10;
    let config = EmbeddedConfig { backlog_bytes_max, ..on_disk(root.path(), SyncMode::Always) };
    let host = Arc::new(EmbeddedHost::open_on(config, &library(RUN), faults.disk()).unwrap());
    faults.hold_syncs();
    let calls: Vec<_> = (0..3).map(|_| spawn(&host, "RPUSH ff:{fp:7}:l v")).collect();
    while host.stats().calls < 3 {
        tokio::task::yield_now().await;
    }
    let refused = run(&host, "RPUSH ff:{fp:7}:l v").await.unwrap_err();
    assert_eq!(refused.kind, BackendErrorKind::Resource);
    faults.release_syncs();
    for call in calls {
        call.await.unwrap().unwrap();
    }
    run(&host, "RPUSH ff:{fp:7}:l v").await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn closing_does_not_wait_for_ever_for_a_call() {
    let Busy { host, clock, first } =
        Busy::open(|config| config.close_within = Duration::from_millis(50));
    assert!(!host.close().await, "a call is under way");
    assert_eq!(run(&host, "TIME").await.unwrap_err().kind, BackendErrorKind::Closed);
    clock.hold(false);
    first.await.unwrap().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn closing_does_not_wait_for_ever_for_the_disk() {
    let root = tempfile::tempdir().unwrap();
    let faults = Faults::none();
    let close_within = Duration::from_millis(50);
    let config = EmbeddedConfig { close_within, ..on_disk(root.path(), SyncMode::Always) };
    let host = Arc::new(EmbeddedHost::open_on(config, &library(RUN), faults.disk()).unwrap());
    faults.hold_syncs();
    let write = spawn(&host, "SET ff:{fp:7}:k v");
    faults.wait_for_held_sync();
    assert!(!host.close().await, "a sync is under way");
    faults.release_syncs();
    write.await.unwrap().unwrap();
}

/// Also a function that may run in a full store.
const FREEING: &str = "redis.register_function{function_name = 'free', callback = run,
  flags = {'allow-oom'}}
";

fn open_freeing(config: EmbeddedConfig) -> EmbeddedHost {
    EmbeddedHost::open(config, &library(&format!("{RUN}{FREEING}"))).unwrap()
}

#[tokio::test]
async fn a_full_store_refuses_what_adds_and_takes_it_when_there_is_room() {
    let root = tempfile::tempdir().unwrap();
    let limit = MemoryLimit::bytes(1 << 20);
    let config = EmbeddedConfig { memory_limit: limit, ..on_disk(root.path(), SyncMode::Off) };
    let host = open_freeing(config.clone());
    let value = "v".repeat(10_000);
    let mut taken = 0;
    let refused = loop {
        match run(&host, &format!("SET ff:{{fp:7}}:{taken} {value}")).await {
            Ok(_) => taken += 1,
            Err(error) => break error,
        }
    };
    assert_eq!((refused.kind, refused.retry), (BackendErrorKind::StoreFull, Retry::Safe));
    assert!((90..=110).contains(&taken), "{taken} of 10,000 bytes");
    call(&host, "read", HOME, &[b"GET", b"ff:{fp:7}:0"]).await.unwrap();
    host.close().await;
    // It is full again when it is opened again.
    let host = open_freeing(config);
    run(&host, "SET ff:{fp:7}:x 1").await.unwrap_err();
    call(&host, "free", HOME, &[b"DEL", b"ff:{fp:7}:0", b"ff:{fp:7}:1"]).await.unwrap();
    run(&host, "SET ff:{fp:7}:x 1").await.unwrap();
    assert_eq!(host.stats().memory_limit, Some(1 << 20));
}
