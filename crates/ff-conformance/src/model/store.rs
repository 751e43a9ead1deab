//! What a plan is played on.

use std::sync::Arc;

use ff_backend_embedded::{EmbeddedConfig, EmbeddedHost, SyncMode};
use ff_core::backend_error::BackendError;
use ff_core::clock::Clock;
use ff_script::dump::Dump;
use ff_script::host::Host;
use ff_script::library::Library;
use ff_script::value::Value;

use super::dice::Dice;
use super::disk::OnDisk;
use super::sent::Sent;
use super::world::ALL;
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
    /// A store for this plan alone that crashes now and then.
    OnDisk(OnDisk),
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

    /// A new embedded store in a directory, which rewrites its journal all the time and is often
    /// opened anew from what a crash would leave.
    pub fn on_disk(library: &Library, sync: SyncMode) -> Self {
        Self { kind: Kind::OnDisk(OnDisk::new(library, sync)) }
    }

    /// The shared server or cluster. Each plays one plan at a time.
    pub async fn shared(kind: HostKind) -> Self {
        let host = TestHost::start(kind, START_MS).await;
        // The rules are checked on the embedded store; here only answers and contents count.
        host.watch(false);
        host.set_time(&ALL, START_MS).await;
        Self { kind: Kind::Shared(host) }
    }

    /// The name for messages.
    pub(super) fn name(&self) -> &'static str {
        match &self.kind {
            Kind::Own { host, .. } => host.name(),
            Kind::OnDisk(_) => "embedded on disk",
            Kind::Shared(host) => host.name(),
        }
    }

    pub(super) async fn call(&self, sent: &Sent) -> Result<Value, BackendError> {
        match &self.kind {
            Kind::Own { host, .. } => host.call(sent.function, sent.partition, sent.args()).await,
            Kind::OnDisk(disk) => {
                disk.host().call(sent.function, sent.partition, sent.args()).await
            }
            Kind::Shared(host) => host.call(sent.function, sent.partition, sent.args()).await,
        }
    }

    pub(super) async fn set_time(&self, ms: u64) {
        match &self.kind {
            Kind::Own { clock, .. } => clock.set(ms),
            Kind::OnDisk(disk) => disk.clock.set(ms),
            Kind::Shared(host) => host.set_time(&ALL, ms).await,
        }
    }

    pub(super) async fn dump(&self) -> Dump {
        match &self.kind {
            Kind::Own { host, .. } => host.dump().await.expect("the store is open"),
            Kind::OnDisk(disk) => disk.host().dump().await.expect("the store is open"),
            Kind::Shared(host) => host.dump(&ALL).await,
        }
    }

    /// Crashes now and then, if it is one that does. True if it did.
    pub(super) async fn crash(&self, dice: &mut Dice) -> bool {
        match &self.kind {
            Kind::OnDisk(disk) if dice.chance(10) => {
                disk.crash().await;
                true
            }
            _ => false,
        }
    }

    /// How often the journal was rewritten; zero without one.
    pub fn compactions(&self) -> u64 {
        match &self.kind {
            Kind::OnDisk(disk) => disk.compactions(),
            _ => 0,
        }
    }

    /// Makes room for others.
    pub async fn clear(&self) {
        if let Kind::Shared(host) = &self.kind {
            host.clear(&ALL).await;
        }
    }
}
