//! What every request can reach.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ff_core::contracts::TickRequest;
use ff_core::engine_backend::PartitionBackend;
use ff_core::error::EngineError;
use ff_core::partition::{Partition, PartitionConfig};
use ff_core::types::TimestampMs;
use ff_engine::Engine;
use ff_scheduler::Scheduler;
use ff_script::endings::Endings;
use ff_script::ids::IdSource;
use ff_script::in_flight::InFlight;
use ff_store::Store;
use tokio::sync::watch;

use crate::access::Access;
use crate::config::{Limits, PublicUrl};
use crate::connection_limiter::ConnectionLimiter;
use crate::metrics::Metrics;
use crate::request_limiter::RequestLimiter;
use crate::routes::Readiness;

/// What every request can reach.
pub(crate) struct App {
    pub(crate) backend: Arc<dyn PartitionBackend>,
    pub(crate) work: Scheduler,
    pub(crate) endings: Endings,
    pub(crate) ids: Arc<dyn IdSource>,
    pub(crate) store: Store,
    pub(crate) engine: Mutex<Option<Engine>>,
    pub(crate) metrics: Metrics,
    pub(crate) readiness: Readiness,
    pub(crate) access: Access,
    /// Where links lead to.
    pub(crate) public_url: Option<PublicUrl>,
    pub(crate) open_metrics: bool,
    pub(crate) access_log: bool,
    /// How long a replaced key of links is accepted unless told otherwise.
    pub(crate) grace_ms: u64,
    pub(crate) requests: RequestLimiter,
    pub(crate) connections: Arc<ConnectionLimiter>,
    pub(crate) limits: Limits,
    pub(crate) drain: watch::Sender<bool>,
    /// Connections: a shutdown waits for them.
    pub(crate) in_flight: InFlight,
}

impl App {
    /// How many partitions the deployment has.
    pub(crate) fn partitions(&self) -> PartitionConfig {
        self.backend.partition_config()
    }

    /// Completes when the server begins to shut down.
    pub(crate) async fn draining(&self) {
        let mut drain = self.drain.subscribe();
        // The sender lives as long as the application does.
        let _ = drain.wait_for(|draining| *draining).await;
    }

    /// True once the server shuts down.
    pub(crate) fn is_draining(&self) -> bool {
        *self.drain.borrow()
    }

    /// The engine, while it runs.
    pub(crate) fn engine(&self) -> MutexGuard<'_, Option<Engine>> {
        self.engine.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The store's time. Nothing but a tick answers it; one that does nothing but what is due
    /// anyway is harmless.
    pub(crate) async fn store_time(
        &self,
        partition: Partition,
    ) -> Result<TimestampMs, EngineError> {
        self.backend.tick(partition, TickRequest::once(1)).await.map(|report| report.now)
    }
}
