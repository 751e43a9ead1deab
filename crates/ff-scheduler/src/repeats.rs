//! Claims whose answer was lost and that are asked for again, under the same lease ids: what the
//! first one took is found by them, and given once more.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ff_core::contracts::{ClaimRequest, Claimed, WorkRequest};
use ff_core::engine_backend::PartitionBackend;
use ff_core::error::EngineError;
use ff_core::partition::Partition;
use ff_core::types::LeaseId;
use ff_script::in_flight::{InFlight, InFlightGuard};
use ff_script::together::some_at_a_time;
use tokio::sync::watch;

use crate::hand_back::Claims;

/// The claims under way whose ids somebody else chose, by the first of them.
#[derive(Default)]
pub(crate) struct Named(Mutex<HashMap<LeaseId, Running>>);

struct Running {
    in_flight: InFlight,
    superseded: watch::Sender<bool>,
}

/// One of them, while its caller waits.
pub(crate) struct NamedClaim {
    pub(crate) in_flight: InFlight,
    superseded: watch::Receiver<bool>,
    _guard: InFlightGuard,
}

impl Named {
    /// Notes a claim. An earlier one under the same ids is ended first, with all that it began: its
    /// caller is gone, and must not have taken back what this one is given.
    pub(crate) async fn begin(&self, first: LeaseId, all: &InFlight) -> NamedClaim {
        let earlier = self.lock().remove(&first);
        if let Some(earlier) = earlier {
            earlier.superseded.send_replace(true);
            earlier.in_flight.none().await;
        }
        let (superseded, told) = watch::channel(false);
        let in_flight = InFlight::part_of(all);
        let claim = NamedClaim {
            in_flight: in_flight.clone(),
            superseded: told,
            _guard: in_flight.begin(),
        };
        let mut running = self.lock();
        running.retain(|_, running| !running.in_flight.is_none());
        running.insert(first, Running { in_flight, superseded });
        claim
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<LeaseId, Running>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl NamedClaim {
    /// Returns when the same claim was asked for again.
    pub(crate) async fn superseded(&self) {
        let mut told = self.superseded.clone();
        if told.wait_for(|superseded| *superseded).await.is_err() {
            std::future::pending().await
        }
    }
}

/// What an earlier send of this claim took, wherever that was: nobody here may have seen it.
pub(crate) async fn recall(
    backend: &Arc<dyn PartitionBackend>,
    in_flight: &InFlight,
    request: &WorkRequest,
) -> Result<Claims, EngineError> {
    let mut found = Claims::new(Arc::clone(backend), in_flight.clone(), Vec::new());
    let asked = backend.partition_config().flow_partitions().map(|partition| {
        let claim = ClaimRequest::of(request, request.lease_ids.clone());
        recall_from(Arc::clone(backend), partition, claim)
    });
    let recalled = some_at_a_time("claim", asked, |claimed| {
        found.add(Claims::new(Arc::clone(backend), in_flight.clone(), claimed));
        Ok(())
    });
    if let Err(error) = recalled.await {
        // It will be asked for once more: what was found must still be there then.
        found.keep();
        return Err(error);
    }
    Ok(found)
}

async fn recall_from(
    backend: Arc<dyn PartitionBackend>,
    partition: Partition,
    request: ClaimRequest,
) -> Result<Vec<Claimed>, EngineError> {
    backend.recall_claims(partition, request).await
}
