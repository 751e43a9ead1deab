//! The three hosts behind one type, with time in the hands of the test. Every reply is checked:
//! its outcome must be declared, and what was refused, repeated or only read must have changed
//! nothing.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ff_backend_embedded::{EmbeddedConfig, EmbeddedHost};
use ff_backend_valkey::ValkeyHost;
use ff_core::backend_error::{BackendError, BackendErrorKind, Retry};
use ff_core::partition::Partition;
use ff_script::args::Args;
use ff_script::calls;
use ff_script::dump::Dump;
use ff_script::host::{Function, Host, Subject, Subscription, Topic};
use ff_script::value::Value;
use futures_core::future::BoxFuture;

use crate::clock::ManualClock;
use crate::library::reachable_library;
use crate::{coverage, dump, servers};

/// Which host a test runs on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum HostKind {
    /// Inside this process, with the production library and a clock of ours.
    Embedded,
    /// One Valkey server.
    Valkey,
    /// A Valkey cluster of three masters.
    Cluster,
}

impl HostKind {
    /// Every host.
    pub const ALL: [Self; 3] = [Self::Embedded, Self::Valkey, Self::Cluster];

    /// The module that its tests appear in.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Embedded => "embedded",
            Self::Valkey => "valkey",
            Self::Cluster => "cluster",
        }
    }
}

impl fmt::Display for HostKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// What runs the library.
enum Store {
    Embedded { host: Box<EmbeddedHost>, clock: Arc<ManualClock> },
    Valkey { host: Arc<ValkeyHost> },
}

/// A host under test.
pub struct TestHost {
    kind: HostKind,
    store: Store,
    watching: AtomicBool,
    losing: AtomicU32,
    /// What a partition held after its last call, where that call changed nothing: reading it once
    /// is enough.
    seen: Mutex<BTreeMap<Partition, Dump>>,
}

impl TestHost {
    /// A new embedded store, or the shared server or cluster.
    pub async fn start(kind: HostKind, now_ms: u64) -> Self {
        let store = match kind {
            HostKind::Embedded => embedded(now_ms),
            HostKind::Valkey => Store::Valkey { host: servers::standalone().await },
            HostKind::Cluster => Store::Valkey { host: servers::cluster().await },
        };
        Self {
            kind,
            store,
            watching: AtomicBool::new(true),
            losing: AtomicU32::new(0),
            seen: Mutex::default(),
        }
    }

    /// Which host it is.
    pub fn kind(&self) -> HostKind {
        self.kind
    }

    /// Whether refusals are compared with the state before them, which reads the whole partition
    /// before each call. On by default; off for tests with thousands of calls.
    pub fn watch(&self, watching: bool) {
        self.watching.store(watching, Ordering::SeqCst);
    }

    /// The next so many calls are done, but their replies get lost on the way.
    pub fn lose_replies(&self, count: u32) {
        self.losing.store(count, Ordering::SeqCst);
    }

    /// How many replies are still to be lost.
    pub fn replies_to_lose(&self) -> u32 {
        self.losing.load(Ordering::SeqCst)
    }

    fn loses_reply(&self) -> bool {
        let one_less = |left: u32| left.checked_sub(1);
        self.losing.fetch_update(Ordering::SeqCst, Ordering::SeqCst, one_less).is_ok()
    }

    /// Sets the time of these partitions. (An embedded store has one clock for all.)
    pub async fn set_time(&self, partitions: &[Partition], ms: u64) {
        match &self.store {
            Store::Embedded { clock, .. } => clock.set(ms),
            Store::Valkey { host } => {
                for partition in partitions {
                    let (key, value) = (format!("{}:clock", partition.key()), ms.to_string());
                    let words: [&[u8]; 3] = [b"SET", key.as_bytes(), value.as_bytes()];
                    host.exec(*partition, &words).await.expect("the clock can be set");
                }
            }
        }
    }

    /// Everything these partitions hold.
    pub async fn dump(&self, partitions: &[Partition]) -> Dump {
        match &self.store {
            Store::Embedded { host, .. } => {
                let all = host.dump().await.expect("the store is open");
                dump::of_partitions(all, partitions)
            }
            Store::Valkey { host } => {
                let mut all = Dump::new();
                for partition in partitions {
                    all.extend(dump::read(host, *partition).await);
                }
                all
            }
        }
    }

    /// Removes everything these partitions hold: the shared servers stay small, and damage that a
    /// test planted is gone.
    pub async fn clear(&self, partitions: &[Partition]) {
        self.seen().clear();
        for partition in partitions {
            match &self.store {
                Store::Valkey { host } => dump::clear(host, *partition).await,
                Store::Embedded { .. } => {
                    for key in self.dump(&[*partition]).await.keys() {
                        self.exec(*partition, &[b"DEL", key]).await;
                    }
                }
            }
        }
    }

    /// Runs a raw command on the store of a partition, to look closer or to damage something. None
    /// if the embedded host has no such command: it has those that the library uses.
    pub async fn exec(&self, partition: Partition, words: &[&[u8]]) -> Option<Value> {
        self.seen().clear();
        match &self.store {
            Store::Embedded { host, .. } => {
                let name = String::from_utf8_lossy(words[0]);
                if !ff_backend_embedded::COMMANDS.contains(&&*name) {
                    return None;
                }
                let args = words.iter().copied().collect();
                Some(host.call(EXEC, partition, args).await.expect("the command is right"))
            }
            Store::Valkey { host } => {
                Some(host.exec(partition, words).await.expect("the command is right"))
            }
        }
    }

    async fn run(
        &self,
        function: Function,
        partition: Partition,
        args: Args,
    ) -> Result<Value, BackendError> {
        match &self.store {
            Store::Embedded { host, .. } => host.call(function, partition, args).await,
            Store::Valkey { host } => host.call(function, partition, args).await,
        }
    }

    async fn run_checked(
        &self,
        function: Function,
        partition: Partition,
        args: Args,
    ) -> Result<Value, BackendError> {
        let before = self.before(partition).await;
        let reply = self.run(function, partition, args).await?;
        let (done, word) = outcome(&reply);
        self.note(function, done, &word);
        let again = matches!(&*word, "DUPLICATE" | "ALREADY_SATISFIED");
        // A suspension that is not necessary is answered by that word, and closes its waitpoint.
        let suspends = function.wire_name == "ff_suspend_execution_v1" && word != "DUPLICATE";
        let changes_nothing = function.read_only || !done || again && !suspends;
        if let (Some(before), true) = (before, changes_nothing) {
            let after = self.dump(&[partition]).await;
            let difference = dump::difference(&before, &after);
            assert!(before == after, "{} {word} changed\n{difference}", function.wire_name);
            self.seen().insert(partition, after);
        }
        if self.loses_reply() { Err(lost()) } else { Ok(reply) }
    }

    /// What a partition holds before a call, if that is wanted.
    async fn before(&self, partition: Partition) -> Option<Dump> {
        let known = self.seen().remove(&partition);
        // Everybody writes what concerns the whole deployment, so that can change at any time.
        let watching = self.watching.load(Ordering::SeqCst) && partition != Partition::flow(0);
        match (watching, known) {
            (false, _) => None,
            (true, Some(dump)) => Some(dump),
            (true, None) => Some(self.dump(&[partition]).await),
        }
    }

    fn seen(&self) -> MutexGuard<'_, BTreeMap<Partition, Dump>> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn note(&self, function: Function, done: bool, word: &str) {
        let name = function.wire_name.strip_suffix("_v1").unwrap_or(function.wire_name);
        coverage::record(self.kind, name, word);
        let Some(contract) = calls::contracts().find(|contract| contract.name == name) else {
            return;
        };
        let common = matches!(word, "invalid_input" | "payload_too_large");
        let declared = coverage::declared(&contract).contains(word) || !done && common;
        assert!(declared, "{name} answered {word}, which it does not declare");
        let status = contract.statuses.iter().any(|(status, _)| *status == word);
        assert_eq!(done, status, "{name} answered {word} under the wrong first element");
    }
}

/// Runs a command as it is given: the only way to a key of an embedded store around the library.
const EXEC: Function = Function { wire_name: "ff_test_exec_v1", read_only: false };

fn embedded(now_ms: u64) -> Store {
    let clock = Arc::new(ManualClock::at(now_ms));
    let config = EmbeddedConfig {
        shards: 2,
        clock: Arc::clone(&clock) as Arc<dyn ff_core::clock::Clock>,
        ..EmbeddedConfig::in_memory()
    };
    let host = EmbeddedHost::open(config, &reachable_library()).expect("the library loads");
    Store::Embedded { host: Box::new(host), clock }
}

fn lost() -> BackendError {
    let message = "the reply got lost";
    BackendError::new(BackendErrorKind::Timeout, Retry::IfReplaySafe, message)
}

/// Whether a call was done, and its status or code.
fn outcome(reply: &Value) -> (bool, String) {
    let Value::Array(parts) = reply else { panic!("a reply is a list, not {reply:?}") };
    match parts.as_slice() {
        [Value::Int(done @ (0 | 1)), Value::Bytes(word), ..] => {
            (*done == 1, String::from_utf8(word.clone()).expect("outcomes are ASCII"))
        }
        _ => panic!("a reply begins with 0 or 1 and a word, not {reply:?}"),
    }
}

impl Host for TestHost {
    fn call(
        &self,
        function: Function,
        partition: Partition,
        args: Args,
    ) -> BoxFuture<'_, Result<Value, BackendError>> {
        Box::pin(self.run_checked(function, partition, args))
    }

    fn subscribe(&self, topic: Topic) -> BoxFuture<'_, Result<Subscription, BackendError>> {
        match &self.store {
            Store::Embedded { host, .. } => host.subscribe(topic),
            Store::Valkey { host } => host.subscribe(topic),
        }
    }

    fn follow(&self, subject: Subject) -> BoxFuture<'_, Result<Subscription, BackendError>> {
        match &self.store {
            Store::Embedded { host, .. } => host.follow(subject),
            Store::Valkey { host } => host.follow(subject),
        }
    }

    fn name(&self) -> &'static str {
        self.kind.as_str()
    }
}
