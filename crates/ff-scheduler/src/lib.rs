//! The scheduler: finds work for waiting workers.
//!
//! Work lies in partitions. For each lane the scheduler keeps the partitions that may have some: at
//! first all of them, later those a push told of. A claim asks one after the other; a partition
//! that had less than was asked for is forgotten until the next push. Nothing is polled.

#![deny(missing_docs)]

mod lane;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use ff_core::contracts::{ClaimRequest, Claimed};
use ff_core::engine_backend::EngineBackend;
use ff_core::error::EngineError;
use ff_core::types::{LaneId, LeaseId};
use ff_script::backend::ScriptBackend;
use ff_script::host::{Host, Subscription, Topic, Wake};
use ff_script::ids::IdSource;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use lane::Lane;

/// Every lane's partitions are looked through this often although nothing was heard from them.
const SWEEP: Duration = Duration::from_secs(300);

/// Who wants work, and how much.
#[derive(Clone, Debug)]
pub struct WorkRequest {
    /// The claim; its lease ids are filled in by the scheduler.
    pub claim: ClaimRequest,
    /// How many executions at most.
    pub count: usize,
    /// How long to wait for the first one.
    pub max_wait: Duration,
}

/// Finds work for waiting workers. Cheap to share; one per process is enough.
pub struct Scheduler {
    shared: Arc<Shared>,
    listener: JoinHandle<()>,
}

struct Shared {
    backend: Arc<dyn EngineBackend>,
    ids: Arc<dyn IdSource>,
    lanes: Mutex<HashMap<LaneId, Arc<Lane>>>,
}

impl Scheduler {
    /// A scheduler over a backend. It listens for work from now on.
    pub async fn start<H: Host>(
        backend: Arc<ScriptBackend<H>>,
        ids: Arc<dyn IdSource>,
    ) -> Result<Self, EngineError> {
        let wakes = backend.host().subscribe(Topic::Ready).await?;
        let shared = Arc::new(Shared {
            backend: backend as Arc<dyn EngineBackend>,
            ids,
            lanes: Mutex::default(),
        });
        let listener = tokio::spawn(listen(Arc::clone(&shared), wakes));
        Ok(Self { shared, listener })
    }

    /// Claims up to `count` executions; waits for the first one if there is none. Empty if the
    /// time passed.
    pub async fn claim(&self, request: WorkRequest) -> Result<Vec<Claimed>, EngineError> {
        let deadline = Instant::now() + request.max_wait;
        let lane = self.shared.lane(&request.claim.lane);
        loop {
            let ready = lane.ready();
            let claimed = self.shared.claim_now(&lane, &request).await?;
            if !claimed.is_empty() {
                return Ok(claimed);
            }
            tokio::select! {
                () = ready => {}
                () = tokio::time::sleep_until(deadline) => return Ok(Vec::new()),
            }
        }
    }
}

impl Drop for Scheduler {
    fn drop(&mut self) {
        self.listener.abort();
    }
}

impl Shared {
    fn lane(&self, name: &LaneId) -> Arc<Lane> {
        let mut lanes = self.lanes.lock().unwrap_or_else(PoisonError::into_inner);
        let known = lanes.entry(name.clone()).or_insert_with(|| {
            Arc::new(Lane::new(self.backend.partition_config().flow_partitions().collect()))
        });
        Arc::clone(known)
    }

    /// Asks the partitions that may have work, until enough is found or none is left.
    async fn claim_now(
        &self,
        lane: &Lane,
        request: &WorkRequest,
    ) -> Result<Vec<Claimed>, EngineError> {
        let mut claimed = Vec::new();
        while claimed.len() < request.count {
            let Some(partition) = lane.take() else { break };
            let wanted = request.count - claimed.len();
            let claim = self.with_lease_ids(request, wanted);
            match self.backend.claim_next(partition, claim).await {
                Ok(found) => {
                    if found.len() == wanted {
                        lane.put_back(partition);
                    }
                    claimed.extend(found);
                }
                Err(error) => {
                    lane.put_back(partition);
                    // What was already claimed must not be lost because of a later partition.
                    return if claimed.is_empty() { Err(error) } else { Ok(claimed) };
                }
            }
        }
        Ok(claimed)
    }

    fn with_lease_ids(&self, request: &WorkRequest, wanted: usize) -> ClaimRequest {
        let lease_ids = (0..wanted).map(|_| LeaseId::from_uuid(self.ids.random())).collect();
        ClaimRequest { lease_ids, ..request.claim.clone() }
    }

    fn look_everywhere(&self) {
        let partitions: Vec<_> = self.backend.partition_config().flow_partitions().collect();
        let lanes = self.lanes.lock().unwrap_or_else(PoisonError::into_inner);
        lanes.values().for_each(|lane| lane.add_all(&partitions));
    }

    fn hear(&self, wake: Wake) {
        let Wake::Message { partition, message } = wake else { return self.look_everywhere() };
        let name = std::str::from_utf8(&message).ok().and_then(|text| LaneId::try_new(text).ok());
        let lanes = self.lanes.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(lane) = name.and_then(|name| lanes.get(&name)) {
            lane.add(partition);
        }
    }
}

async fn listen(shared: Arc<Shared>, mut wakes: Subscription) {
    let mut sweep = tokio::time::interval_at(Instant::now() + SWEEP, SWEEP);
    loop {
        tokio::select! {
            _ = sweep.tick() => shared.look_everywhere(),
            wake = wakes.next() => match wake {
                Some(wake) => shared.hear(wake),
                None => return,
            },
        }
    }
}
