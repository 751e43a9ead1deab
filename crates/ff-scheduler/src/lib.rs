//! The scheduler: finds work for waiting workers.
//!
//! Work lies in partitions. For each lane the scheduler keeps the partitions that may have some: at
//! first all of them, later those a push told of, with the number of pushes. A claim asks them,
//! several at a time if it wants several executions; a partition that had less than was asked for
//! is forgotten until the next push. One that had all of what was announced is asked again only
//! when nothing better is left. Nothing is polled.

#![deny(missing_docs)]

mod ask;
mod hand_back;
mod lane;
mod lanes;
mod repeats;

use std::future::poll_fn;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;
use std::time::Duration;

use ff_core::contracts::{
    ClaimRequest, Claimed, LeaseRequest, NextGrant, NextGrantRequest, WorkRequest,
};
use ff_core::engine_backend::{Answer, PartitionBackend};
use ff_core::error::EngineError;
use ff_core::limits;
use ff_core::types::{LaneId, LeaseId, WorkerId};
use ff_core::work_source::WorkSource;
use ff_script::backend::ScriptBackend;
use ff_script::host::{Host, Subscription, Topic, Wake};
use ff_script::ids::IdSource;
use ff_script::in_flight::InFlight;
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout_at};

use ask::{Asked, Found};
use hand_back::{Claims, Detached};
use lane::Lane;
use lanes::{Eligibility, Lanes};
use repeats::{Named, recall};

/// Every lane's partitions are looked through this often although nothing was heard from them.
const SWEEP: Duration = Duration::from_secs(300);

/// How long nothing must be heard before a waiting claim asks partitions that are unconfirmed.
const SILENCE: Duration = Duration::from_millis(50);

/// How long a push may be on its way, in all but the worst case.
const PUSH_TIME: Duration = Duration::from_millis(100);

/// Partitions that one claim asks at the same time.
const ASKED_AT_ONCE_MAX: usize = 16;

/// Finds work for waiting workers. Cheap to share; one per process is enough.
pub struct Scheduler {
    shared: Arc<Shared>,
    listener: JoinHandle<()>,
}

struct Shared {
    backend: Arc<dyn PartitionBackend>,
    ids: Arc<dyn IdSource>,
    lanes: Mutex<Lanes>,
    in_flight: InFlight,
    named: Named,
}

impl Scheduler {
    /// A scheduler over a backend. It listens for work from now on.
    pub async fn start<H: Host + ?Sized>(
        backend: Arc<ScriptBackend<H>>,
        ids: Arc<dyn IdSource>,
    ) -> Result<Self, EngineError> {
        let wakes = backend.host().subscribe(Topic::Ready).await?;
        let shared = Arc::new(Shared {
            backend: backend as Arc<dyn PartitionBackend>,
            ids,
            lanes: Mutex::default(),
            in_flight: InFlight::default(),
            named: Named::default(),
        });
        let listener = tokio::spawn(listen(Arc::clone(&shared), wakes));
        Ok(Self { shared, listener })
    }

    /// Claims up to `count` executions; waits for the first one if there is none. Empty if the
    /// time passed. May be dropped at any time: what nobody takes is handed back. Who chose the
    /// lease ids may ask again under the same ones when the answer was lost, here or elsewhere, and
    /// is given what the first claim took.
    pub async fn claim(&self, mut request: WorkRequest) -> Result<Vec<Claimed>, EngineError> {
        request.validate()?;
        let shared = &self.shared;
        let Some(first) = request.lease_ids.first() else {
            let ids = (0..request.count).map(|_| LeaseId::from_uuid(shared.ids.random()));
            request.lease_ids = ids.collect();
            return shared.serve(request, &shared.in_flight).await;
        };
        let named = shared.named.begin(*first, &shared.in_flight).await;
        tokio::select! {
            claimed = shared.serve_named(request, &named.in_flight) => claimed,
            // Whoever waits for this answer is gone.
            () = named.superseded() => Ok(Vec::new()),
        }
    }

    /// Reserves the best execution of a partition that may have one. None if there is none: a push
    /// that is on its way, of a submission that was just answered, is waited for a moment.
    pub async fn grant_next(
        &self,
        worker_id: WorkerId,
        request: NextGrantRequest,
    ) -> Result<Option<NextGrant>, EngineError> {
        request.validate()?;
        let eligibility = Eligibility::new(request.capabilities.clone(), Vec::new());
        let lanes = [self.shared.lane(&request.lane, &eligibility)];
        let _leaving = Leaving(&lanes);
        let deadline = Instant::now() + PUSH_TIME;
        loop {
            let granted = self.shared.grant_from(&lanes[0], &worker_id, &request).await?;
            if granted.is_some() {
                return Ok(granted);
            }
            if !lanes[0].recheck() && !news(&lanes, deadline).await {
                return Ok(None);
            }
        }
    }

    /// Turns a grant into a lease: the grant says by which of the three calls. May be dropped at
    /// any time: what nobody takes is handed back.
    pub async fn claim_granted(
        &self,
        grant: NextGrant,
        lease: LeaseRequest,
    ) -> Result<Claimed, EngineError> {
        let Shared { backend, in_flight, .. } = &*self.shared;
        let (backend, in_flight) = (Arc::clone(backend), in_flight.clone());
        let guard = in_flight.begin();
        let claims = Detached::new(async move {
            let _guard = guard;
            let claimed = match &grant {
                NextGrant::Claim(grant) => backend.claim_from_grant(grant, lease).await,
                NextGrant::Resume(grant) => backend.claim_resumed(grant, lease).await,
                NextGrant::Reclaim(grant) => backend.claim_from_reclaim_grant(grant, lease).await,
            };
            Ok(Claims::new(backend, in_flight, vec![claimed?]))
        });
        let claimed = claims.await?.keep().pop();
        claimed.ok_or(EngineError::Unavailable { op: "claim" })
    }

    /// Returns when no call is under way and everything that nobody took is handed back.
    pub async fn settled(&self) {
        self.shared.in_flight.none().await;
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
    /// What was found for a caller that named the leases: what it was given before, if it asks
    /// again.
    async fn serve_named(
        &self,
        request: WorkRequest,
        in_flight: &InFlight,
    ) -> Result<Vec<Claimed>, EngineError> {
        if request.retry {
            let before = recall(&self.backend, in_flight, &request).await?;
            if !before.is_empty() {
                return Ok(before.keep());
            }
        }
        self.serve(request, in_flight).await
    }

    /// Asks for work, and waits for it as long as the request says.
    async fn serve(
        &self,
        mut request: WorkRequest,
        in_flight: &InFlight,
    ) -> Result<Vec<Claimed>, EngineError> {
        let ids = std::mem::take(&mut request.lease_ids);
        let deadline = Instant::now() + request.max_wait();
        let eligibility = Eligibility::new(request.capabilities.clone(), request.kinds.clone());
        let lanes: Vec<_> =
            request.lanes.iter().map(|name| self.lane(name, &eligibility)).collect();
        let search = Search { shared: self, in_flight, lanes: &lanes, request: &request, ids };
        let _leaving = Leaving(&lanes);
        Ok(search.until(deadline).await?.keep())
    }

    fn lane(&self, name: &LaneId, eligibility: &Eligibility) -> Arc<Lane> {
        self.lanes().lane(name, eligibility, self.backend.partition_config().flow_partitions())
    }

    fn lanes(&self) -> MutexGuard<'_, Lanes> {
        self.lanes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks the partitions of a lane that may have work for a grant, one after the other.
    async fn grant_from(
        &self,
        lane: &Arc<Lane>,
        worker_id: &WorkerId,
        request: &NextGrantRequest,
    ) -> Result<Option<NextGrant>, EngineError> {
        while let Some(candidate) = lane.take() {
            let mut asked = Asked::new(lane, candidate, &self.in_flight);
            let (partition, worker_id) = (candidate.partition, worker_id.clone());
            let granted = self.backend.grant_next(partition, worker_id, request.clone()).await?;
            asked.found(usize::from(granted.is_some()), 1);
            if granted.is_some() {
                return Ok(granted);
            }
        }
        Ok(None)
    }

    fn recheck_all(&self) {
        for lane in self.lanes().all() {
            lane.recheck_all(self.backend.partition_config().flow_partitions());
        }
    }

    fn hear(&self, wake: Wake) {
        let Wake::Message { partition, message } = wake else { return self.recheck_all() };
        let name = std::str::from_utf8(&message).ok().and_then(|text| LaneId::try_new(text).ok());
        let Some(name) = name else { return };
        // Each kind of worker: which of them it is for, only the store can tell.
        self.lanes().of_lane(&name).for_each(|lane| lane.announce(partition));
    }
}

/// A caller that was woken for one of these lanes. However it leaves, with work, with an error or
/// in the middle, it wakes the next one if it leaves something behind.
struct Leaving<'a>(&'a [Arc<Lane>]);

impl Drop for Leaving<'_> {
    fn drop(&mut self) {
        let likely = self.0.iter().filter(|lane| lane.is_likely());
        likely.for_each(|lane| lane.news.notify_one());
    }
}

/// One claim on its way through the partitions.
struct Search<'a> {
    shared: &'a Shared,
    in_flight: &'a InFlight,
    lanes: &'a [Arc<Lane>],
    request: &'a WorkRequest,
    /// The lease ids that no partition was given, or that it gave back.
    ids: Vec<LeaseId>,
}

impl Search<'_> {
    /// Asks for work, and waits for news of it, until there is some or the time has passed.
    async fn until(mut self, deadline: Instant) -> Result<Claims, EngineError> {
        loop {
            let claimed = self.ask_partitions().await?;
            if !claimed.is_empty() {
                return Ok(claimed);
            }
            let unconfirmed = self.lanes.iter().any(|lane| lane.has_unconfirmed());
            let silence = Instant::now() + SILENCE;
            let until = if unconfirmed { deadline.min(silence) } else { deadline };
            if news(self.lanes, until).await || recheck(self.lanes) {
                continue;
            }
            if Instant::now() >= deadline {
                return Ok(claimed);
            }
        }
    }

    /// Asks the partitions of the lanes that may have work, until enough is found or none is left.
    async fn ask_partitions(&mut self) -> Result<Claims, EngineError> {
        let backend = Arc::clone(&self.shared.backend);
        let mut claimed = Claims::new(backend, self.in_flight.clone(), Vec::new());
        loop {
            let asks = self.choose(claimed.bytes());
            if asks.is_empty() {
                return Ok(claimed);
            }
            let mut failed = None;
            for answer in ask::all(asks).await {
                match answer {
                    Ok((found, unused)) => {
                        claimed.add(found);
                        self.ids.extend(unused);
                    }
                    // The ids it was asked with may be in use.
                    Err(error) => failed = Some(error),
                }
            }
            claimed.hand_back_surplus();
            // What was already claimed must not be lost because another partition failed.
            match failed {
                Some(error) if claimed.is_empty() => return Err(error),
                Some(_) => return Ok(claimed),
                None => {}
            }
        }
    }

    /// Whom to ask next, all at once. Each call begins with another lane, so that a busy one cannot
    /// starve the others. No more are asked than together may bring what an answer can carry, as
    /// far as sizes are known.
    fn choose(&mut self, claimed_bytes: u64) -> Vec<Detached<Found>> {
        let mut bytes = claimed_bytes;
        let mut asks = Vec::new();
        let lanes = self.lanes;
        let first = lanes.first().map_or(0, |lane| lane.turn());
        for offset in 0..lanes.len() {
            let lane = &lanes[(first + offset) % lanes.len()];
            while bytes < limits::CLAIM_BYTES_MAX
                && !self.ids.is_empty()
                && asks.len() < ASKED_AT_ONCE_MAX
            {
                let Some(candidate) = lane.take() else { break };
                let fitting = (limits::CLAIM_BYTES_MAX - bytes).div_ceil(lane.expected_bytes());
                let fitting = usize::try_from(fitting).unwrap_or(usize::MAX);
                let share = candidate.share(self.ids.len(), ASKED_AT_ONCE_MAX - asks.len());
                let share = share.min(fitting);
                let ids = self.ids.split_off(self.ids.len() - share);
                let asked = Asked::new(lane, candidate, self.in_flight);
                let claim = claim_request(lane.name(), self.request, ids);
                asks.push(ask::ask(&self.shared.backend, self.in_flight, asked, claim));
                bytes = bytes.saturating_add(lane.expected_bytes().saturating_mul(share as u64));
            }
        }
        asks
    }
}

/// A claim from one lane under these leases.
fn claim_request(lane: &LaneId, request: &WorkRequest, lease_ids: Vec<LeaseId>) -> ClaimRequest {
    ClaimRequest {
        lane: lane.clone(),
        worker_id: request.worker_id.clone(),
        worker_instance_id: request.worker_instance_id.clone(),
        capabilities: request.capabilities.clone(),
        kinds: request.kinds.clone(),
        lease_ttl_ms: request.lease_ttl_ms,
        lease_ids,
        retry: false,
    }
}

/// Waits for news of any of the lanes. False if there were none in time.
async fn news(lanes: &[Arc<Lane>], until: Instant) -> bool {
    let mut waits: Vec<_> = lanes.iter().map(|lane| Box::pin(lane.news.notified())).collect();
    let news = poll_fn(|context| {
        let any = waits.iter_mut().any(|wait| wait.as_mut().poll(context).is_ready());
        if any { Poll::Ready(()) } else { Poll::Pending }
    });
    timeout_at(until, news).await.is_ok()
}

/// Asks partitions again that may have more than was announced, of one lane at a time. False if
/// there are none.
fn recheck(lanes: &[Arc<Lane>]) -> bool {
    lanes.iter().any(|lane| lane.recheck())
}

async fn listen(shared: Arc<Shared>, mut wakes: Subscription) {
    let mut sweep = tokio::time::interval_at(Instant::now() + SWEEP, SWEEP);
    loop {
        tokio::select! {
            _ = sweep.tick() => shared.recheck_all(),
            wake = wakes.next() => match wake {
                Some(wake) => shared.hear(wake),
                None => return,
            },
        }
    }
}
