//! The hosts that the scheduler is tested on, each opened for one test: inside this process, on a
//! Valkey server, and on a cluster.
#![allow(dead_code, reason = "every test file uses its own part")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use ff_backend_embedded::{EmbeddedConfig, EmbeddedHost};
use ff_backend_valkey::{ValkeyConfig, ValkeyHost};
use ff_core::backend_error::BackendError;
use ff_core::clock::Clock;
use ff_core::partition::{Partition, PartitionConfig};
use ff_script::args::Args;
use ff_script::backend::ScriptBackend;
use ff_script::host::{Function, Host, Subject, Subscription, Topic};
use ff_script::library::Library;
use ff_script::value::Value;
use ff_test_valkey::{Valkey, ValkeyCluster, ValkeyOptions};
use futures_core::future::BoxFuture;

/// Which host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HostKind {
    /// Inside this process; time passes only when a test says so.
    Embedded,
    /// One Valkey server.
    Valkey,
    /// A Valkey cluster of three masters.
    Cluster,
}

/// Runs tests that take the kind of host on each of them.
macro_rules! on_every_host {
    ($($test:ident)*) => {
        on_host! { embedded Embedded $($test)* }
        on_host! { valkey Valkey $($test)* }
        on_host! { cluster Cluster $($test)* }
    };
}

/// Runs tests on one of them.
macro_rules! on_host {
    ($name:ident $kind:ident $($test:ident)*) => {
        mod $name {$(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $test() {
                super::$test($crate::hosts::HostKind::$kind).await;
            }
        )*}
    };
}

/// A host that counts the calls which it has answered.
pub(crate) struct TestHost {
    host: Arc<dyn Host>,
    calls: AtomicU64,
    place: Place,
}

/// What was started for it.
enum Place {
    Embedded(Arc<Time>),
    Valkey(Valkey),
    Cluster(ValkeyCluster),
}

/// The time of an embedded store, in milliseconds.
struct Time(AtomicU64);

impl Clock for Time {
    fn now_us(&self) -> u64 {
        self.0.load(Ordering::SeqCst) * 1000
    }
}

impl TestHost {
    /// One with so many partitions.
    pub(crate) async fn open(kind: HostKind, partitions: u16) -> Arc<Self> {
        let (host, place) = match kind {
            HostKind::Embedded => embedded(),
            HostKind::Valkey => {
                let valkey = Valkey::start(ValkeyOptions::default()).expect("a Valkey server");
                (connect(&valkey.url(), partitions).await, Place::Valkey(valkey))
            }
            HostKind::Cluster => {
                let cluster = ValkeyCluster::start(3, 0).expect("a Valkey cluster");
                (connect(&cluster.url(), partitions).await, Place::Cluster(cluster))
            }
        };
        Arc::new(Self { host, calls: AtomicU64::new(0), place })
    }

    /// How many calls it has answered.
    pub(crate) fn calls(&self) -> u64 {
        self.calls.load(Ordering::SeqCst)
    }

    /// Every connection that hears of work breaks; inside a process there is none.
    pub(crate) fn lose_listeners(&self) {
        let kill = |server: &Valkey| {
            server.command(&["CLIENT", "KILL", "TYPE", "pubsub"]).expect("answers");
        };
        match &self.place {
            Place::Embedded(_) => {}
            Place::Valkey(server) => kill(server),
            Place::Cluster(cluster) => cluster.nodes().iter().for_each(kill),
        }
    }

    /// So much time passes for the store.
    pub(crate) async fn pass(&self, ms: u64) {
        match &self.place {
            Place::Embedded(time) => {
                time.0.fetch_add(ms, Ordering::SeqCst);
            }
            // Theirs is everybody's.
            Place::Valkey(_) | Place::Cluster(_) => {
                tokio::time::sleep(Duration::from_millis(ms)).await;
            }
        }
    }
}

fn embedded() -> (Arc<dyn Host>, Place) {
    let time = Arc::new(Time(AtomicU64::new(1_800_000_000_000)));
    let clock = Arc::clone(&time) as Arc<dyn Clock>;
    let config = EmbeddedConfig { clock, ..EmbeddedConfig::in_memory() };
    let host = EmbeddedHost::open(config, &Library::current()).expect("an embedded host");
    (Arc::new(host), Place::Embedded(time))
}

async fn connect(url: &str, partitions: u16) -> Arc<dyn Host> {
    let config = ValkeyConfig::parse(url).expect("a URL").with_flow_partitions(partitions);
    Arc::new(ValkeyHost::connect(config, Library::current()).await.expect("connects"))
}

/// A backend over a host.
pub(crate) async fn backend<H: Host>(host: Arc<H>, partitions: u16) -> Arc<ScriptBackend<H>> {
    let config = PartitionConfig { num_flow_partitions: partitions, ..PartitionConfig::default() };
    Arc::new(ScriptBackend::open(host, config).await.expect("opens"))
}

impl Host for TestHost {
    fn call(
        &self,
        function: Function,
        partition: Partition,
        args: Args,
    ) -> BoxFuture<'_, Result<Value, BackendError>> {
        Box::pin(async move {
            let answer = self.host.call(function, partition, args).await;
            self.calls.fetch_add(1, Ordering::SeqCst);
            answer
        })
    }

    fn subscribe(&self, topic: Topic) -> BoxFuture<'_, Result<Subscription, BackendError>> {
        self.host.subscribe(topic)
    }

    fn follow(&self, subject: Subject) -> BoxFuture<'_, Result<Subscription, BackendError>> {
        self.host.follow(subject)
    }

    fn name(&self) -> &'static str {
        self.host.name()
    }
}
