//! The scheduler: finds work for waiting workers.
//!
//! Work lies in partitions, queued by lane and need. For each lane that somebody asked for, the
//! scheduler keeps what it heard of the heads of these queues: by a look through all partitions at
//! first, later by pushes and by the answers to claims. A claim asks the queue with the best head
//! that its worker may take, and tells it the best one elsewhere, so that nothing worse is taken.
//! One push calls as many of those who wait and may take it as joined the queue. Nothing is polled.

#![deny(missing_docs)]

mod ask;
mod board;
mod completing;
mod grant;
mod hand_back;
mod heads;
mod lane;
mod look;
mod next_task;
mod preference;
mod repeats;
mod silence;
mod turns;
mod worker;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ff_core::backend::Handle;
use ff_core::contracts::{
    Claimed, Finished, LeaseRequest, NextGrant, NextGrantRequest, NextTask, TaskEnd, WorkRequest,
};
use ff_core::engine_backend::{Answer, PartitionBackend};
use ff_core::error::EngineError;
use ff_core::types::{LaneId, LeaseId, WorkerId};
use ff_core::work_source::WorkSource;
use ff_script::backend::ScriptBackend;
use ff_script::host::{Host, Subscription, Topic, Wake};
use ff_script::ids::IdSource;
use ff_script::in_flight::InFlight;
use tokio::runtime::Handle as Runtime;
use tokio::sync::{Notify, OnceCell};
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout_at};

use ask::{Asked, Found};
use board::{Board, News};
use completing::AllCompleting;
pub use grant::{SchedulerConfig, SchedulerError};
use hand_back::{Claims, Detached};
use preference::Preference;
use repeats::{Named, recall};
use silence::Silence;
use turns::Weight;
use worker::{Ability, Waiter};

/// The push that comes behind those about all queues of a partition.
const ALL_TOLD: &[u8] = b"told";

/// How long a claim pauses when a queue gives nothing of what it has.
const HELD_BACK: Duration = Duration::from_millis(10);

/// How long a push may be on its way, in all but the worst case.
const PUSH_TIME: Duration = Duration::from_millis(100);

/// Finds work for waiting workers. Cheap to share; one per process is enough.
pub struct Scheduler {
    shared: Arc<Shared>,
    subscribe: Subscribe,
    listener: OnceCell<JoinHandle<()>>,
    /// Where the listener runs: whoever looks for work first may be gone first, with a runtime.
    runtime: Runtime,
}

type Subscribe = Box<dyn Fn() -> Answer<'static, Subscription> + Send + Sync>;

struct Shared {
    backend: Arc<dyn PartitionBackend>,
    ids: Arc<dyn IdSource>,
    board: Mutex<Board>,
    /// Somebody has looked through all partitions.
    looked: Notify,
    in_flight: InFlight,
    named: Named,
    completing: AllCompleting,
}

impl Scheduler {
    /// A scheduler over a backend. It listens for work from the first time that somebody looks for
    /// some: where nobody does, pushes would cost the store and this process for nothing. It does
    /// so on the runtime that it was made on.
    pub fn new<H: Host + ?Sized>(backend: Arc<ScriptBackend<H>>, ids: Arc<dyn IdSource>) -> Self {
        Self::on(backend, ids, SchedulerConfig::default())
    }

    /// The same, set up as somebody says.
    pub fn with_config<H: Host + ?Sized>(
        backend: Arc<ScriptBackend<H>>,
        ids: Arc<dyn IdSource>,
        config: SchedulerConfig,
    ) -> Result<Self, SchedulerError> {
        config.validate()?;
        Ok(Self::on(backend, ids, config))
    }

    fn on<H: Host + ?Sized>(
        backend: Arc<ScriptBackend<H>>,
        ids: Arc<dyn IdSource>,
        config: SchedulerConfig,
    ) -> Self {
        let host = Arc::clone(backend.host());
        let preference = Preference::new(ids.random().as_u64_pair().1);
        let shared = Arc::new(Shared {
            backend: backend as Arc<dyn PartitionBackend>,
            ids,
            board: Mutex::new(Board::new(preference, config)),
            looked: Notify::new(),
            in_flight: InFlight::default(),
            named: Named::default(),
            completing: completing::gathering(),
        });
        let subscribe = move || -> Answer<'static, Subscription> {
            let host = Arc::clone(&host);
            Box::pin(async move { Ok(host.subscribe(Topic::Ready).await?) })
        };
        let (listener, runtime) = (OnceCell::new(), Runtime::current());
        Self { shared, subscribe: Box::new(subscribe), listener, runtime }
    }

    async fn listen(&self) -> Result<(), EngineError> {
        let start = || async {
            let subscribing = self.runtime.spawn((self.subscribe)());
            let gone = |_| EngineError::Unavailable { op: "claim" };
            let wakes = subscribing.await.map_err(gone)??;
            Ok(self.runtime.spawn(listen(Arc::clone(&self.shared), wakes)))
        };
        self.listener.get_or_try_init(start).await.map(|_| ())
    }

    /// Claims up to `count` executions; waits for the first one if there is none. Empty if the
    /// time passed. May be dropped at any time: what nobody takes is handed back. Who chose the
    /// lease ids may ask again under the same ones when the answer was lost, here or elsewhere, and
    /// is given what the first claim took.
    pub async fn claim(&self, mut request: WorkRequest) -> Result<Vec<Claimed>, EngineError> {
        request.validate()?;
        self.listen().await?;
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

    /// Ends a task and takes the next one of the same worker, in one call, if the task's partition
    /// has one that comes next, or if the end itself makes one claimable there. May be dropped at
    /// any time: the task ends, and what nobody takes is handed back. Whoever lost the answer asks
    /// again under the same lease id.
    pub async fn finish(
        &self,
        handle: &Handle,
        end: TaskEnd,
        next: NextTask,
    ) -> Result<Finished, EngineError> {
        self.shared.finish(handle, end, next).await
    }

    /// Reserves the best execution of a partition that may have one. None if there is none: a push
    /// that is on its way, of a submission that was just answered, is waited for a moment.
    pub async fn grant_next(
        &self,
        worker_id: WorkerId,
        request: NextGrantRequest,
    ) -> Result<Option<NextGrant>, EngineError> {
        request.validate()?;
        self.listen().await?;
        let ability = Ability::new(request.capabilities.clone(), &[], &[]);
        let user = User::new(&self.shared, vec![request.lane.clone()], ability);
        let deadline = Instant::now() + PUSH_TIME;
        loop {
            let Some(ask) = user.choose(1, u64::MAX).pop() else {
                if user.called(deadline).await? {
                    continue;
                }
                return Ok(None);
            };
            let asked = Asked::new(&self.shared, ask, &self.shared.in_flight);
            let (partition, from) = (asked.partition(), asked.from());
            let backend = &self.shared.backend;
            let found =
                backend.grant_next(partition, worker_id.clone(), request.clone(), from).await?;
            let ask = asked.answered(found.grant.as_ref().map(|_| 1), found.next_score);
            if found.grant.is_some() {
                return Ok(found.grant);
            }
            if ask.reaches(found.next_score) {
                if Instant::now() >= deadline {
                    return Ok(None);
                }
                tokio::time::sleep(HELD_BACK).await;
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

    fn finish<'a>(
        &'a self,
        handle: &'a Handle,
        end: TaskEnd,
        next: NextTask,
    ) -> Answer<'a, Finished> {
        Box::pin(Scheduler::finish(self, handle, end, next))
    }
}

impl Drop for Scheduler {
    fn drop(&mut self) {
        self.listener.get().into_iter().for_each(JoinHandle::abort);
    }
}

impl Shared {
    /// What was found for a caller that named the leases: what it was given before, if it asks
    /// again.
    async fn serve_named(
        self: &Arc<Self>,
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
        self: &Arc<Self>,
        mut request: WorkRequest,
        in_flight: &InFlight,
    ) -> Result<Vec<Claimed>, EngineError> {
        let ids = std::mem::take(&mut request.lease_ids);
        let deadline = Instant::now() + request.max_wait();
        let ability =
            Ability::new(request.capabilities.clone(), &request.kinds, &request.namespaces);
        let user = User::new(self, request.lanes.clone(), ability);
        let search = Search { user: &user, in_flight, request: &request, ids };
        Ok(search.until(deadline).await?.keep())
    }

    fn board(&self) -> MutexGuard<'_, Board> {
        self.board.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Somebody who looks for work.
struct User {
    shared: Arc<Shared>,
    waiter: Arc<Waiter>,
}

impl User {
    fn new(shared: &Arc<Shared>, lanes: Vec<LaneId>, ability: Ability) -> Self {
        let waiter = shared.board().enter(lanes.into(), ability);
        Self { shared: Arc::clone(shared), waiter }
    }

    fn choose(&self, most: usize, bytes: u64) -> Vec<board::Ask> {
        self.shared.board().choose_or_wait(&self.waiter, most, bytes)
    }

    /// Waits until there may be something. False if the time has passed. Lanes of which nothing is
    /// known are looked through, whatever the time.
    async fn called(&self, deadline: Instant) -> Result<bool, EngineError> {
        let looked = self.shared.looked.notified();
        let unknown = self.shared.board().begin_looking(&self.waiter.lanes);
        if !unknown.is_empty() {
            look::look(&self.shared, &unknown).await?;
            return Ok(true);
        }
        if self.shared.board().are_known(&self.waiter.lanes) {
            return Ok(timeout_at(deadline, self.waiter.call.notified()).await.is_ok());
        }
        tokio::select! {
            () = looked => {}
            () = self.waiter.call.notified() => {}
        }
        Ok(true)
    }
}

impl Drop for User {
    fn drop(&mut self) {
        self.shared.board().exit(&self.waiter);
    }
}

/// One claim on its way through the partitions.
struct Search<'a> {
    user: &'a User,
    in_flight: &'a InFlight,
    request: &'a WorkRequest,
    /// The lease ids that no partition was given, or that it gave back.
    ids: Vec<LeaseId>,
}

impl Search<'_> {
    /// Asks for work, and waits to be called, until there is some or the time has passed.
    async fn until(mut self, deadline: Instant) -> Result<Claims, EngineError> {
        let backend = Arc::clone(&self.user.shared.backend);
        let mut claimed = Claims::new(backend, self.in_flight.clone(), Vec::new());
        loop {
            let left = board::bytes_left(claimed.bytes());
            let asks = if left == 0 { Vec::new() } else { self.user.choose(self.ids.len(), left) };
            if asks.is_empty() {
                if !claimed.is_empty() || !self.user.called(deadline).await? {
                    return Ok(claimed);
                }
                continue;
            }
            let held_back = self.ask(asks, &mut claimed).await?;
            if Instant::now() >= deadline && (held_back || !claimed.is_empty()) {
                return Ok(claimed);
            }
            if held_back && claimed.is_empty() {
                tokio::time::sleep(HELD_BACK).await;
            }
        }
    }

    /// Asks some queues. True if one of them holds back what it has. What was already claimed must
    /// not be lost because a partition failed.
    async fn ask(
        &mut self,
        asks: Vec<board::Ask>,
        claimed: &mut Claims,
    ) -> Result<bool, EngineError> {
        let (mut held_back, mut failed) = (false, None);
        let calls = asks.into_iter().map(|ask| self.begin(ask)).collect();
        for answer in ask::all(calls).await {
            match answer {
                Ok(Found { claims, unused, holds_back }) => {
                    claimed.add(claims);
                    self.ids.extend(unused);
                    held_back |= holds_back;
                }
                // The ids it was asked with may be in use.
                Err(error) => failed = Some(error),
            }
        }
        claimed.hand_back_surplus();
        match failed {
            Some(error) if claimed.is_empty() => Err(error),
            Some(_) => {
                self.ids.clear();
                Ok(held_back)
            }
            None => Ok(held_back),
        }
    }

    fn begin(&mut self, ask: board::Ask) -> Detached<Found> {
        let ids = self.ids.split_off(self.ids.len() - ask.count());
        let asked = Asked::new(&self.user.shared, ask, self.in_flight);
        ask::ask(asked, self.in_flight, self.request, ids)
    }
}

async fn listen(shared: Arc<Shared>, mut wakes: Subscription) {
    let partitions = shared.backend.partition_config().flow_partitions();
    let mut silence = Silence::new(partitions, Instant::now());
    loop {
        tokio::select! {
            () = tokio::time::sleep_until(silence.next()) => {
                look_at_silent(&shared, &mut silence).await;
            }
            wake = wakes.next() => match wake {
                Some(Wake::Message { partition, message }) if *message == *ALL_TOLD => {
                    silence.heard_of(partition, Instant::now());
                }
                Some(Wake::Message { partition, message }) => {
                    hear(&shared, partition.index, &message);
                }
                Some(Wake::Missed) => look_everywhere(&shared, &mut silence).await,
                None => return,
            },
        }
    }
}

/// What a push tells of a lane that is weighed anew: `weight:number:lane`.
fn parse_weight(message: &[u8]) -> Option<(LaneId, Weight)> {
    let text = std::str::from_utf8(message).ok()?.strip_prefix("weight:")?;
    let (weight, lane) = text.split_once(':')?;
    Some((LaneId::try_new(lane).ok()?, Weight::new(weight.parse().ok()?)?))
}

fn hear(shared: &Arc<Shared>, partition: u16, message: &[u8]) {
    if let Some((lane, weight)) = parse_weight(message) {
        shared.board().weigh(&lane, weight);
        return;
    }
    let Some(news) = News::parse(message) else { return };
    let later = shared.board().hear(partition, &news, Instant::now());
    // Others have heard it too: whoever prefers the partition asks first, and the push that tells
    // what is left comes before the next one would ask.
    if let Some((delay, news)) = later {
        let shared = Arc::clone(shared);
        tokio::spawn(async move {
            tokio::time::sleep(delay).await;
            shared.board().call_for(partition, &news);
        });
    }
}

/// Looks through all partitions for work of the lanes in use.
async fn look_everywhere(shared: &Arc<Shared>, silence: &mut Silence) {
    let lanes = {
        let mut board = shared.board();
        let used = board.forget_all_heads();
        board.begin_looking(&used)
    };
    let looked = lanes.is_empty() || look::look(shared, &lanes).await.is_ok();
    let partitions: Vec<_> = shared.backend.partition_config().flow_partitions().collect();
    silence.looked(&partitions, looked, Instant::now());
}

/// Looks through the partitions that have told nothing for long: somebody sweeps them, and whoever
/// does has them tell what waits there.
async fn look_at_silent(shared: &Arc<Shared>, silence: &mut Silence) {
    let partitions = silence.silent(Instant::now());
    let lanes =
        if partitions.is_empty() { Vec::new() } else { shared.board().forget_unused_heads() };
    let looked = lanes.is_empty() || look::look_at(shared, &lanes, &partitions).await.is_ok();
    silence.looked(&partitions, looked, Instant::now());
}
