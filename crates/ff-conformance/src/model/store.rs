//! What a plan is played on.

use std::sync::Arc;

use ff_backend_embedded::{EmbeddedConfig, EmbeddedHost};
use ff_core::backend_error::BackendError;
use ff_core::clock::Clock;
use ff_script::dump::Dump;
use ff_script::host::Host;
use ff_script::library::Library;
use ff_script::value::Value;

use super::sent::Sent;
use super::world::PARTITIONS;
use crate::clock::ManualClock;
use crate::deployment::START_MS;
use crate::host::{HostKind, TestHost};

/// A store with a time of its own.
pub struct Store {
    kind: Kind,
}

enum Kind {
    /// A store for this plan alone.
    Own { host: Box<EmbeddedHost>, clock: Arc<ManualClock> },
    /// Partitions of a shared server, which nobody else may use meanwhile.
    Shared(TestHost),
}

impl Store {
    /// A new embedded store that runs this library.
    pub fn embedded(library: &Library) -> Self {
        let clock = Arc::new(ManualClock::at(START_MS));
        let config = EmbeddedConfig {
            shards: 1,
            clock: Arc::clone(&clock) as Arc<dyn Clock>,
            ..EmbeddedConfig::in_memory()
        };
        let host = EmbeddedHost::open(config, library).expect("the library loads");
        Self { kind: Kind::Own { host: Box::new(host), clock } }
    }

    /// The shared server or cluster. Each plays one plan at a time.
    pub async fn shared(kind: HostKind) -> Self {
        let host = TestHost::start(kind, START_MS).await;
        // The rules are checked on the embedded store; here only answers and contents count.
        host.watch(false);
        host.set_time(&PARTITIONS, START_MS).await;
        Self { kind: Kind::Shared(host) }
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
            Kind::Shared(host) => host.set_time(&PARTITIONS, ms).await,
        }
    }

    pub(super) async fn dump(&self) -> Dump {
        match &self.kind {
            Kind::Own { host, .. } => host.dump().await.expect("the store is open"),
            Kind::Shared(host) => host.dump(&PARTITIONS).await,
        }
    }

    /// Makes room for others.
    pub async fn clear(&self) {
        if let Kind::Shared(host) = &self.kind {
            host.clear(&PARTITIONS).await;
        }
    }
}
