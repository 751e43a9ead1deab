//! What a plan is played on.

use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};

use ff_backend_embedded::{EmbeddedConfig, EmbeddedHost};
use ff_core::backend_error::BackendError;
use ff_core::clock::Clock;
use ff_core::partition::Partition;
use ff_script::dump::Dump;
use ff_script::host::Host;
use ff_script::library::Library;
use ff_script::value::Value;

use super::sent::Sent;
use crate::clock::ManualClock;
use crate::deployment::{FLOW_PARTITIONS, START_MS};
use crate::host::{HostKind, TestHost};

/// A store with four partitions and a time of its own.
pub struct Store {
    partitions: [Partition; 4],
    kind: Kind,
}

enum Kind {
    /// A store for this plan alone.
    Own { host: Box<EmbeddedHost>, clock: Arc<ManualClock> },
    /// Some partitions of a shared server.
    Shared(TestHost),
}

impl Store {
    /// A new embedded store that runs this library.
    pub fn embedded(library: &Library, partitions: [Partition; 4]) -> Self {
        let clock = Arc::new(ManualClock::at(START_MS));
        let config = EmbeddedConfig {
            shards: 1,
            clock: Arc::clone(&clock) as Arc<dyn Clock>,
            ..EmbeddedConfig::in_memory()
        };
        let host = EmbeddedHost::open(config, library).expect("the library loads");
        Self { partitions, kind: Kind::Own { host: Box::new(host), clock } }
    }

    /// Partitions of the shared server or cluster, which nobody else may use.
    pub async fn shared(kind: HostKind, partitions: [Partition; 4]) -> Self {
        let host = TestHost::start(kind, START_MS).await;
        // The rules are checked on the embedded store; here only answers and contents count.
        host.watch(false);
        host.set_time(&partitions, START_MS).await;
        Self { partitions, kind: Kind::Shared(host) }
    }

    pub(super) fn partitions(&self) -> [Partition; 4] {
        self.partitions
    }

    /// The name for messages.
    pub(super) fn name(&self) -> &'static str {
        match &self.kind {
            Kind::Own { host, .. } => host.name(),
            Kind::Shared(host) => host.name(),
        }
    }

    pub(super) async fn call(&self, sent: &Sent) -> Result<Value, BackendError> {
        match &self.kind {
            Kind::Own { host, .. } => host.call(sent.function, sent.partition, sent.args()).await,
            Kind::Shared(host) => host.call(sent.function, sent.partition, sent.args()).await,
        }
    }

    pub(super) async fn set_time(&self, ms: u64) {
        match &self.kind {
            Kind::Own { clock, .. } => clock.set(ms),
            Kind::Shared(host) => host.set_time(&self.partitions, ms).await,
        }
    }

    pub(super) async fn dump(&self) -> Dump {
        match &self.kind {
            Kind::Own { host, .. } => host.dump().await.expect("the store is open"),
            Kind::Shared(host) => host.dump(&self.partitions).await,
        }
    }

    /// Makes room for others.
    pub async fn clear(&self) {
        if let Kind::Shared(host) = &self.kind {
            host.clear(&self.partitions).await;
        }
    }
}

/// Partitions that no other plan of this process uses.
pub fn free_partitions() -> [Partition; 4] {
    static NEXT: AtomicU16 = AtomicU16::new(4);
    // Plans clean up after themselves, so that partitions can be used again when all were.
    let first = NEXT.fetch_add(4, Ordering::SeqCst) % (FLOW_PARTITIONS - 4) / 4 * 4;
    [0, 1, 2, 3].map(|offset| Partition::flow(4 + first + offset))
}
