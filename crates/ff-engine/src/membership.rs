//! Who else ticks: engines on one store make themselves known in its registry of workers and read
//! there who is alive. One that dies is missed when its registration lapses; one that cannot read
//! the list looks after everything, because a partition that is ticked twice is harmless and one
//! that nobody ticks is not.

use std::sync::Arc;
use std::time::Duration;

use ff_core::contracts::{Heartbeat, WorkerRegistration};
use ff_core::engine_backend::PartitionBackend;
use ff_core::error::{Code, EngineError};
use ff_core::partition::Partition;
use ff_core::types::{WorkerId, WorkerInstanceId, WorkerSession};
use ff_script::ids::IdSource;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

use crate::share::Share;

/// The worker id under which engines are registered. No worker may use it: it would be given
/// partitions that it does not tick.
pub const ENGINE_WORKER_ID: &str = "flowfabric-engine";

/// Where engines are registered, all of them: see `ff-script/src/backend/workers.rs`.
const FIRST: Partition = Partition::flow(0);

/// A registration outlives this many beats: a lost one is nothing.
const BEATS_PER_REGISTRATION: u32 = 4;

/// One that is alone beats so much slower: nobody waits for it. Until it knows of one that came,
/// both tick the partitions of that one.
const BEATS_ALONE: u32 = 4;

/// One engine among others.
pub(crate) struct Membership {
    backend: Arc<dyn PartitionBackend>,
    worker_id: WorkerId,
    instance: WorkerInstanceId,
    session: WorkerSession,
    beat: Duration,
}

impl Membership {
    pub(crate) fn new(
        backend: Arc<dyn PartitionBackend>,
        ids: &dyn IdSource,
        beat: Duration,
    ) -> Result<Self, EngineError> {
        let instance = format!("{ENGINE_WORKER_ID}-{}", ids.random());
        Ok(Self {
            backend,
            worker_id: WorkerId::try_new(ENGINE_WORKER_ID)?,
            instance: WorkerInstanceId::try_new(&instance)?,
            session: WorkerSession::from_uuid(ids.random()),
            beat,
        })
    }

    /// Says at every beat which partitions are this engine's, until it is told to stop.
    pub(crate) async fn run(self, share: watch::Sender<Share>, mut stopped: watch::Receiver<bool>) {
        let mut pause = self.beat;
        loop {
            let beating = timeout(self.beat, self.beat(pause));
            let known = tokio::select! {
                known = beating => known,
                _ = stopped.changed() => break,
            };
            pause = self.beat * if matches!(known, Ok(Ok(Share::All))) { BEATS_ALONE } else { 1 };
            let (part, trouble) = match known {
                Ok(Ok(part)) => (part, None),
                Ok(Err(error)) => (Share::All, Some(error.to_string())),
                Err(_) => (Share::All, Some("the store did not answer in time".to_owned())),
            };
            let changed = share.send_if_modified(|before| {
                let changed = *before != part;
                *before = part;
                changed
            });
            if let Some(trouble) = trouble.filter(|_| changed) {
                tracing::warn!(trouble, "unknown which engines are alive: ticking everything");
            }
            tokio::select! {
                () = sleep(pause) => {}
                _ = stopped.changed() => break,
            }
        }
        // The others need not wait until the registration lapses.
        let _ = timeout(self.beat, self.register(Duration::from_millis(1))).await;
    }

    /// Says that it is alive, and will again after this pause. Answers its share. Who finds that it
    /// is not alone any more says so at once: its death would be missed late otherwise.
    async fn beat(&self, pause: Duration) -> Result<Share, EngineError> {
        self.say_alive(pause).await?;
        let share = self.read_share().await?;
        if share != Share::All && pause > self.beat {
            self.register(self.beat * BEATS_PER_REGISTRATION).await?;
        }
        Ok(share)
    }

    async fn say_alive(&self, pause: Duration) -> Result<(), EngineError> {
        let ttl = pause * BEATS_PER_REGISTRATION;
        let heartbeat = Heartbeat { session: self.session, ttl_ms: millis(ttl), running: None };
        match self.backend.heartbeat_worker(self.instance.clone(), heartbeat).await {
            Err(error) if error.code() == Some(Code::WorkerNotFound) => self.register(ttl).await,
            beaten => beaten.map(drop),
        }
    }

    async fn read_share(&self) -> Result<Share, EngineError> {
        let workers = self.backend.workers_of(FIRST).await?.workers;
        let engines = workers.into_iter().filter(|worker| worker.worker_id == self.worker_id);
        let names = engines.map(|engine| engine.worker_instance_id.to_string());
        Ok(Share::among(self.instance.as_str(), names))
    }

    async fn register(&self, ttl: Duration) -> Result<(), EngineError> {
        let (id, instance) = (self.worker_id.clone(), self.instance.clone());
        let mut registration = WorkerRegistration::new(id, instance, millis(ttl));
        registration.session = Some(self.session);
        self.backend.register_worker(registration).await.map(drop)
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
