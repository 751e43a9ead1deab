//! What every request can reach.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ff_core::engine_backend::EngineBackend;
use ff_core::error::EngineError;
use ff_core::partition::{Partition, PartitionConfig};
use ff_core::types::TimestampMs;
use ff_engine::Engine;
use ff_scheduler::Scheduler;
use ff_script::ids::IdSource;
use tokio::sync::{mpsc, watch};

use crate::access::Access;
use crate::config::Limits;
use crate::ended::Ended;
use crate::gate::Gates;
use crate::metrics::Metrics;
use crate::places::Places;
use crate::routes::Readiness;
use crate::store::Place;

/// What every request can reach.
pub(crate) struct App {
    pub(crate) backend: Arc<dyn EngineBackend>,
    pub(crate) work: Arc<Scheduler>,
    pub(crate) ended: Arc<Ended>,
    pub(crate) ids: Arc<dyn IdSource>,
    pub(crate) place: Place,
    pub(crate) engine: Mutex<Option<Engine>>,
    pub(crate) metrics: Metrics,
    pub(crate) readiness: Readiness,
    pub(crate) access: Access,
    pub(crate) open_metrics: bool,
    pub(crate) gates: Gates,
    pub(crate) places: Arc<Places>,
    pub(crate) limits: Limits,
    pub(crate) drain: watch::Sender<bool>,
    /// Cloned by every task that may outlive its request: closed when all of them have ended.
    pub(crate) background: Mutex<Option<mpsc::Sender<()>>>,
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

    /// To be held by a task that the shutdown must wait for.
    pub(crate) fn background(&self) -> Option<mpsc::Sender<()>> {
        self.background.lock().unwrap_or_else(PoisonError::into_inner).clone()
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
        self.backend.tick(partition, 1).await.map(|report| report.now)
    }
}
