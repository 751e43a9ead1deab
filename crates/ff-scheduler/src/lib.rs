//! The scheduler: finds work for waiting workers.
//!
//! Work lies in partitions. For each lane the scheduler keeps the partitions that may have some: at
//! first all of them, later those a push told of, with the number of pushes. A claim asks them,
//! several at a time if it wants several executions; a partition that had less than was asked for
//! is forgotten until the next push. One that had all of what was heard of is asked again only when
//! nothing better is left. Nothing is polled.

#![deny(missing_docs)]

mod ask;
mod hand_back;
mod known;
mod lane;

use std::future::poll_fn;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;
use std::time::Duration;

use ff_core::contracts::{ClaimRequest, Claimed, NextGrant, NextGrantRequest, WorkRequest};
use ff_core::engine_backend::{Answer, EngineBackend};
use ff_core::error::EngineError;
use ff_core::types::{LaneId, LeaseId};
use ff_core::work_source::WorkSource;
use ff_script::backend::ScriptBackend;
use ff_script::host::{Host, Subscription, Topic, Wake};
use ff_script::ids::IdSource;
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout_at};

use ask::{Ask, Asked};
use hand_back::{Claims, UnderWay};
use known::{Known, Suits};
use lane::Lane;

/// Every lane's partitions are looked through this often although nothing was heard from them.
const SWEEP: Duration = Duration::from_secs(300);

/// How long nothing must be heard before a waiting claim asks partitions that it doubts.
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
    backend: Arc<dyn EngineBackend>,
    ids: Arc<dyn IdSource>,
    known: Mutex<Known>,
    under_way: UnderWay,
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
            known: Mutex::default(),
            under_way: UnderWay::default(),
        });
        let listener = tokio::spawn(listen(Arc::clone(&shared), wakes));
        Ok(Self { shared, listener })
    }

    /// Claims up to `count` executions; waits for the first one if there is none. Empty if the
    /// time passed. May be dropped at any time: what nobody takes is handed back.
    pub async fn claim(&self, request: WorkRequest) -> Result<Vec<Claimed>, EngineError> {
        request.validate()?;
        let deadline = Instant::now() + request.max_wait;
        let suits = Suits::new(request.capabilities.clone(), request.kinds.clone());
        let lanes: Vec<_> =
            request.lanes.iter().map(|name| self.shared.lane(name, &suits)).collect();
        let _leaving = Leaving(&lanes);
        Ok(self.shared.claim_until(deadline, &lanes, &request).await?.keep())
    }

    /// Reserves the best execution of a partition that may have one. None if there is none: a push
    /// that is on its way, of a submission that was just answered, is waited for a moment.
    pub async fn grant_next(
        &self,
        request: NextGrantRequest,
    ) -> Result<Option<NextGrant>, EngineError> {
        request.validate()?;
        let suits = Suits::new(request.capabilities.clone(), Vec::new());
        let lanes = [self.shared.lane(&request.lane, &suits)];
        let _leaving = Leaving(&lanes);
        let deadline = Instant::now() + PUSH_TIME;
        loop {
            let granted = self.shared.grant_from(&lanes[0], &request).await?;
            if granted.is_some() {
                return Ok(granted);
            }
            if !lanes[0].look_again() && !news(&lanes, deadline).await {
                return Ok(None);
            }
        }
    }

    /// Returns when no call is under way and everything that nobody took is handed back.
    pub async fn settled(&self) {
        self.shared.under_way.none().await;
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
    fn lane(&self, name: &LaneId, suits: &Suits) -> Arc<Lane> {
        self.known().lane(name, suits, self.backend.partition_config().flow_partitions())
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks for work, and waits for news of it, until there is some or the time has passed.
    async fn claim_until(
        &self,
        deadline: Instant,
        lanes: &[Arc<Lane>],
        request: &WorkRequest,
    ) -> Result<Claims, EngineError> {
        loop {
            let claimed = self.claim_from(lanes, request).await?;
            if !claimed.is_empty() {
                return Ok(claimed);
            }
            let doubts = lanes.iter().any(|lane| lane.is_doubtful());
            let silence = Instant::now() + SILENCE;
            let patience = if doubts { deadline.min(silence) } else { deadline };
            if news(lanes, patience).await || look_again(lanes) {
                continue;
            }
            if Instant::now() >= deadline {
                return Ok(claimed);
            }
        }
    }

    /// Asks the partitions of the lanes that may have work, until enough is found or none is left.
    async fn claim_from(
        &self,
        lanes: &[Arc<Lane>],
        request: &WorkRequest,
    ) -> Result<Claims, EngineError> {
        let mut claimed =
            Claims::new(Arc::clone(&self.backend), self.under_way.clone(), Vec::new());
        loop {
            let asks = self.choose(lanes, request, claimed.len());
            if asks.is_empty() {
                return Ok(claimed);
            }
            let mut failed = None;
            for answer in ask::all(asks).await {
                match answer {
                    Ok(found) => claimed.add(found),
                    Err(error) => failed = Some(error),
                }
            }
            // What was already claimed must not be lost because another partition failed.
            match failed {
                Some(error) if claimed.is_empty() => return Err(error),
                Some(_) => return Ok(claimed),
                None => {}
            }
        }
    }

    /// Whom to ask next, all at once. Each call begins with another lane, so that a busy one cannot
    /// starve the others.
    fn choose(&self, lanes: &[Arc<Lane>], request: &WorkRequest, claimed: usize) -> Vec<Ask> {
        let mut wanted = (request.count as usize).saturating_sub(claimed);
        let mut asks = Vec::new();
        let first = lanes.first().map_or(0, |lane| lane.turn());
        for offset in 0..lanes.len() {
            let lane = &lanes[(first + offset) % lanes.len()];
            while wanted > 0 && asks.len() < ASKED_AT_ONCE_MAX {
                let Some(candidate) = lane.take() else { break };
                let share = candidate.share(wanted, ASKED_AT_ONCE_MAX - asks.len());
                let asked = Asked::new(lane, candidate, &self.under_way);
                let claim = self.claim_request(lane, request, share);
                asks.push(Ask::new(&self.backend, &self.under_way, asked, claim));
                wanted -= share;
            }
        }
        asks
    }

    /// Asks the partitions of a lane that may have work for a grant, one after the other.
    async fn grant_from(
        &self,
        lane: &Arc<Lane>,
        request: &NextGrantRequest,
    ) -> Result<Option<NextGrant>, EngineError> {
        while let Some(candidate) = lane.take() {
            let mut asked = Asked::new(lane, candidate, &self.under_way);
            let granted = self.backend.grant_next(candidate.partition, request.clone()).await?;
            asked.found(usize::from(granted.is_some()), 1);
            if granted.is_some() {
                return Ok(granted);
            }
        }
        Ok(None)
    }

    fn claim_request(&self, lane: &Lane, request: &WorkRequest, wanted: usize) -> ClaimRequest {
        ClaimRequest {
            lane: lane.name().clone(),
            worker_id: request.worker_id.clone(),
            worker_instance_id: request.worker_instance_id.clone(),
            capabilities: request.capabilities.clone(),
            kinds: request.kinds.clone(),
            lease_ttl_ms: request.lease_ttl_ms,
            lease_ids: (0..wanted).map(|_| LeaseId::from_uuid(self.ids.random())).collect(),
            retry: false,
        }
    }

    fn look_everywhere(&self) {
        for lane in self.known().all() {
            lane.look_everywhere(self.backend.partition_config().flow_partitions());
        }
    }

    fn hear(&self, wake: Wake) {
        let Wake::Message { partition, message } = wake else { return self.look_everywhere() };
        let name = std::str::from_utf8(&message).ok().and_then(|text| LaneId::try_new(text).ok());
        let Some(name) = name else { return };
        // Each kind of worker: whom it suits, only the store can tell.
        self.known().of_lane(&name).for_each(|lane| lane.hear(partition));
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

/// Waits for news of any of the lanes. False if there were none in time.
async fn news(lanes: &[Arc<Lane>], until: Instant) -> bool {
    let mut waits: Vec<_> = lanes.iter().map(|lane| Box::pin(lane.news.notified())).collect();
    let any = poll_fn(|context| {
        let heard = waits.iter_mut().any(|wait| wait.as_mut().poll(context).is_ready());
        if heard { Poll::Ready(()) } else { Poll::Pending }
    });
    timeout_at(until, any).await.is_ok()
}

/// Asks partitions again that may have more than was heard of, of one lane at a time. False if
/// there are none.
fn look_again(lanes: &[Arc<Lane>]) -> bool {
    lanes.iter().any(|lane| lane.look_again())
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
