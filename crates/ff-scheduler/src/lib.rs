//! The scheduler: finds work for waiting workers.
//!
//! Work lies in partitions. For each lane the scheduler keeps the partitions that may have some: at
//! first all of them, later those a push told of. A claim asks one after the other; a partition
//! that had less than was asked for is forgotten until the next push. Nothing is polled.

#![deny(missing_docs)]

mod hand_back;
mod lane;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use ff_core::capability::CapabilitySet;
use ff_core::contracts::{ClaimRequest, Claimed, WorkRequest};
use ff_core::engine_backend::{Answer, EngineBackend};
use ff_core::error::EngineError;
use ff_core::types::{LaneId, LeaseId};
use ff_core::work_source::WorkSource;
use ff_script::backend::ScriptBackend;
use ff_script::host::{Host, Subscription, Topic, Wake};
use ff_script::ids::IdSource;
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use hand_back::Claims;
use lane::Lane;

/// Every lane's partitions are looked through this often although nothing was heard from them.
const SWEEP: Duration = Duration::from_secs(300);

/// Finds work for waiting workers. Cheap to share; one per process is enough.
pub struct Scheduler {
    shared: Arc<Shared>,
    listener: JoinHandle<()>,
}

/// What is known of a lane depends on what the asking worker can do: a partition that had nothing
/// for one may have something for another.
type Lanes = HashMap<LaneId, HashMap<CapabilitySet, Arc<Lane>>>;

/// Sets of capabilities remembered per lane; beyond that all are forgotten and learnt anew.
const CAPABILITY_SETS_MAX: usize = 256;

struct Shared {
    backend: Arc<dyn EngineBackend>,
    ids: Arc<dyn IdSource>,
    lanes: Mutex<Lanes>,
    /// Wakes those who wait for any lane; which one, they find out themselves.
    news: Notify,
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
            news: Notify::new(),
        });
        let listener = tokio::spawn(listen(Arc::clone(&shared), wakes));
        Ok(Self { shared, listener })
    }

    /// Claims up to `count` executions; waits for the first one if there is none. Empty if the
    /// time passed. May be dropped at any time: what nobody takes is handed back.
    pub async fn claim(&self, request: WorkRequest) -> Result<Vec<Claimed>, EngineError> {
        request.validate()?;
        let deadline = Instant::now() + request.max_wait;
        let capabilities = &request.capabilities;
        let lanes: Vec<_> =
            request.lanes.iter().map(|name| self.shared.lane(name, capabilities)).collect();
        loop {
            let news = self.shared.news.notified();
            let claimed = self.shared.claim_from(&lanes, &request).await?;
            if !claimed.is_empty() {
                return Ok(claimed.keep());
            }
            tokio::select! {
                () = news => {}
                () = tokio::time::sleep_until(deadline) => return Ok(Vec::new()),
            }
        }
    }
}

impl WorkSource for Scheduler {
    fn claim(&self, request: WorkRequest) -> Answer<'_, Vec<Claimed>> {
        Box::pin(Scheduler::claim(self, request))
    }
}

impl Drop for Scheduler {
    fn drop(&mut self) {
        self.listener.abort();
    }
}

impl Shared {
    fn lane(&self, name: &LaneId, capabilities: &CapabilitySet) -> Arc<Lane> {
        let mut lanes = self.lanes.lock().unwrap_or_else(PoisonError::into_inner);
        let sets = lanes.entry(name.clone()).or_default();
        if sets.len() >= CAPABILITY_SETS_MAX && !sets.contains_key(capabilities) {
            sets.clear();
        }
        let known = sets.entry(capabilities.clone()).or_insert_with(|| {
            let partitions = self.backend.partition_config().flow_partitions().collect();
            Arc::new(Lane::new(name.clone(), partitions))
        });
        Arc::clone(known)
    }

    /// Asks the lanes in turn until enough is found. Each call begins with another lane, so that
    /// a busy one cannot starve the others.
    async fn claim_from(
        &self,
        lanes: &[Arc<Lane>],
        request: &WorkRequest,
    ) -> Result<Claims, EngineError> {
        let mut claimed = Claims::none(&self.backend);
        let first = lanes.first().map_or(0, |lane| lane.turn());
        for offset in 0..lanes.len() {
            let lane = &lanes[(first + offset) % lanes.len()];
            if let Err(error) = self.claim_now(lane, request, &mut claimed).await {
                // What was already claimed must not be lost because of a later partition.
                return if claimed.is_empty() { Err(error) } else { Ok(claimed) };
            }
        }
        Ok(claimed)
    }

    /// Asks the partitions of a lane that may have work, until enough is found or none is left.
    async fn claim_now(
        &self,
        lane: &Lane,
        request: &WorkRequest,
        claimed: &mut Claims,
    ) -> Result<(), EngineError> {
        while claimed.len() < request.count as usize {
            let Some(partition) = lane.take() else { return Ok(()) };
            let wanted = request.count as usize - claimed.len();
            let claim = self.claim_request(lane, request, wanted);
            match hand_back::claim_next(&self.backend, partition, claim).await {
                Ok(found) => {
                    if found.len() == wanted {
                        lane.add(partition);
                        self.news.notify_one();
                    }
                    claimed.add(found);
                }
                Err(error) => {
                    lane.add(partition);
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    fn claim_request(&self, lane: &Lane, request: &WorkRequest, wanted: usize) -> ClaimRequest {
        ClaimRequest {
            lane: lane.name().clone(),
            worker_id: request.worker_id.clone(),
            worker_instance_id: request.worker_instance_id.clone(),
            capabilities: request.capabilities.clone(),
            lease_ttl_ms: request.lease_ttl_ms,
            lease_ids: (0..wanted).map(|_| LeaseId::from_uuid(self.ids.random())).collect(),
            retry: false,
        }
    }

    fn look_everywhere(&self) {
        let partitions: Vec<_> = self.backend.partition_config().flow_partitions().collect();
        let lanes = self.lanes.lock().unwrap_or_else(PoisonError::into_inner);
        for lane in lanes.values().flat_map(HashMap::values) {
            partitions.iter().for_each(|partition| lane.add(*partition));
        }
        drop(lanes);
        self.news.notify_waiters();
    }

    fn hear(&self, wake: Wake) {
        let Wake::Message { partition, message } = wake else { return self.look_everywhere() };
        let name = std::str::from_utf8(&message).ok().and_then(|text| LaneId::try_new(text).ok());
        let lanes = self.lanes.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(sets) = name.and_then(|name| lanes.get(&name)) {
            sets.values().for_each(|lane| lane.add(partition));
            drop(lanes);
            // Everybody: whoever wakes first may be waiting for other lanes or lack what it takes.
            self.news.notify_waiters();
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
