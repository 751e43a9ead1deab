//! The engine: runs what is due in every partition, when it is due.
//!
//! It sleeps until the nearest timer of any partition. A timer that is set in the meantime, before
//! the time at which it said that it would look again, is announced by a push; what a lost push
//! missed, the sweep finds. Nothing here decides what a timer does: that is `ff_tick`'s.
//!
//! A sweep also has those told who wait for work what lies in the queues, so that they need not
//! look for what they may have missed.
//!
//! Engines on one store can share the partitions: each looks after its own, and after the others'
//! now and then, in case that somebody does not do its part.

#![deny(missing_docs)]

mod agenda;
mod debts;
mod membership;
mod share;
mod stats;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use ff_core::contracts::TickRequest;
use ff_core::engine_backend::{EngineBackend as _, PartitionBackend};
use ff_core::error::EngineError;
use ff_core::limits;
use ff_core::partition::{Partition, PartitionFamily};
use ff_core::types::TimestampMs;
use ff_script::backend::ScriptBackend;
use ff_script::host::{Host, Subscription, Topic, Wake};
use ff_script::ids::IdSource;
use tokio::sync::watch;
use tokio::task::{Id, JoinError, JoinHandle, JoinSet};
use tokio::time::Instant;

use agenda::Agenda;
use debts::Debts;
pub use membership::ENGINE_WORKER_ID;
use membership::Membership;
use share::Share;
pub use stats::EngineStats;

/// How the engine runs.
#[derive(Clone, Copy, Debug)]
pub struct EngineConfig {
    /// Each partition is looked at least this often.
    pub sweep: Duration,
    /// Partitions that are ticked at the same time.
    pub concurrency: usize,
    /// Things one tick may do; more are left to the next one, which follows at once.
    pub batch: u32,
    /// How often engines that share a store say that they are alive. One that died is missed after
    /// four times that, and its partitions are then ticked by others. One that is alone does so
    /// four times less often, so that one that has just come may miss it later.
    pub beat: Duration,
}

impl Default for EngineConfig {
    fn default() -> Self {
        Self {
            sweep: Duration::from_millis(limits::TICK_SWEEP_MS),
            concurrency: 16,
            batch: 128,
            beat: Duration::from_secs(1),
        }
    }
}

/// Another engine's partition is looked at after this many sweeps all the same.
const SWEEPS_OF_OTHERS: u32 = 2;

/// How long a partition whose tick failed is left alone.
const PAUSE: Duration = Duration::from_millis(500);

/// A running engine. Dropping it stops it; `shutdown` also waits for what is under way.
pub struct Engine {
    stop: watch::Sender<bool>,
    task: JoinHandle<()>,
    membership: Option<JoinHandle<()>>,
    stats: Arc<EngineStats>,
}

impl Engine {
    /// Starts ticking all partitions of a backend.
    pub async fn start<H: Host + ?Sized>(
        backend: Arc<ScriptBackend<H>>,
        config: EngineConfig,
    ) -> Result<Self, EngineError> {
        let (_, share) = watch::channel(Share::All);
        Self::start_with(backend, config, share).await
    }

    /// Starts ticking a backend that other processes tick too: the partitions are shared with those
    /// that are alive. Until it is known who they are, all of them are ticked.
    pub async fn start_sharing<H: Host + ?Sized>(
        backend: Arc<ScriptBackend<H>>,
        config: EngineConfig,
        ids: &dyn IdSource,
    ) -> Result<Self, EngineError> {
        let shared = Arc::clone(&backend) as Arc<dyn PartitionBackend>;
        let membership = Membership::new(shared, ids, config.beat)?;
        let (say, share) = watch::channel(Share::All);
        let mut engine = Self::start_with(backend, config, share).await?;
        engine.membership = Some(tokio::spawn(membership.run(say, engine.stop.subscribe())));
        Ok(engine)
    }

    async fn start_with<H: Host + ?Sized>(
        backend: Arc<ScriptBackend<H>>,
        config: EngineConfig,
        share: watch::Receiver<Share>,
    ) -> Result<Self, EngineError> {
        let wakes = backend.host().subscribe(Topic::Due).await?;
        let (stop, stopped) = watch::channel(false);
        let stats = Arc::new(EngineStats::default());
        let ticker = Ticker {
            agenda: Agenda::all_now(
                backend.partition_config().partitions().collect::<Vec<_>>().into_iter(),
                config.sweep,
                Instant::now(),
            ),
            announced: HashMap::new(),
            backend: backend as Arc<dyn PartitionBackend>,
            config,
            share: Share::All,
            stats: Arc::clone(&stats),
            running: JoinSet::new(),
            ticking: HashMap::new(),
            owing: HashMap::new(),
            debts: Debts::default(),
        };
        ticker.count_share();
        let task = tokio::spawn(ticker.run(wakes, share, stopped));
        Ok(Self { stop, task, membership: None, stats })
    }

    /// What the engine has done so far.
    pub fn stats(&self) -> &EngineStats {
        &self.stats
    }

    /// Stops, after the ticks under way have ended. Answers what was done altogether.
    pub async fn shutdown(self) -> Arc<EngineStats> {
        let _ = self.stop.send(true);
        let _ = self.task.await;
        if let Some(membership) = self.membership {
            let _ = membership.await;
        }
        self.stats
    }
}

/// What a tick left behind: which partition, and how it went.
struct Ticked {
    partition: Partition,
    started: Instant,
    result: Result<ff_core::contracts::TickReport, EngineError>,
}

struct Ticker {
    backend: Arc<dyn PartitionBackend>,
    config: EngineConfig,
    agenda: Agenda,
    /// The round of sweeps in which the queues of a partition were told of.
    announced: HashMap<Partition, u32>,
    share: Share,
    stats: Arc<EngineStats>,
    running: JoinSet<Ticked>,
    /// The partition that each running task looks at.
    ticking: HashMap<Id, Partition>,
    /// How many flows owe an end to members, by partition, where some do.
    owing: HashMap<Partition, u32>,
    debts: Debts,
}

impl Ticker {
    async fn run(
        mut self,
        mut wakes: Subscription,
        mut share: watch::Receiver<Share>,
        mut stopped: watch::Receiver<bool>,
    ) {
        loop {
            self.start_due();
            let next = self.agenda.next();
            tokio::select! {
                _ = stopped.changed() => break,
                // An error means that nobody will ever say anything else.
                Ok(()) = share.changed() => self.take(share.borrow_and_update().clone()),
                Some(ended) = self.running.join_next_with_id() => self.note(ended),
                Some(partition) = self.debts.next() => {
                    self.agenda.schedule(partition, Instant::now() + debts::SETTLE_WITHIN);
                }
                wake = wakes.next() => match wake {
                    Some(wake) => self.hear(wake),
                    None => break,
                },
                () = sleep_until(next), if self.running.len() < self.config.concurrency => {}
            }
        }
        while let Some(ended) = self.running.join_next_with_id().await {
            self.note(ended);
        }
        while self.debts.next().await.is_some() {}
    }

    fn start_due(&mut self) {
        while self.running.len() < self.config.concurrency {
            let Some(partition) = self.agenda.take_due(Instant::now()) else { return };
            let (backend, started) = (Arc::clone(&self.backend), Instant::now());
            let request = self.request(partition, started);
            let task = self.running.spawn(async move {
                Ticked { partition, started, result: backend.tick(partition, request).await }
            });
            self.ticking.insert(task.id(), partition);
        }
    }

    /// What a tick of a partition asks for. Only whoever looks after it says when it comes back.
    fn request(&mut self, partition: Partition, now: Instant) -> TickRequest {
        let settled = self.debts.done(partition);
        let request = TickRequest { settled, ..TickRequest::once(self.config.batch) };
        if !self.share.has(partition) {
            return request;
        }
        let next_look = self.agenda.next_sweep(partition, now) - now;
        let round = self.agenda.round(partition, now);
        // Only executions are waited for.
        let announce = self.announced.insert(partition, round) != Some(round)
            && partition.family == PartitionFamily::Flow;
        // Rounded up: what lies in between is told by a push.
        let next_look_ms = u64::try_from(next_look.as_millis()).unwrap_or(u64::MAX) + 1;
        let next_look_ms = Some(next_look_ms.min(limits::TICK_LOOK_MS_MAX));
        TickRequest { next_look_ms, announce, ..request }
    }

    /// Looks at once at what was another's, and leaves to others what is no longer its own.
    fn take(&mut self, share: Share) {
        let now = Instant::now();
        for partition in self.backend.partition_config().partitions() {
            match (self.share.has(partition), share.has(partition)) {
                (false, true) => self.agenda.schedule(partition, now),
                (true, false) => self.agenda.postpone(partition, now + self.sweep_of_others()),
                _ => {}
            }
        }
        self.share = share;
        self.count_share();
    }

    fn count_share(&self) {
        let all = self.backend.partition_config().flow_partitions();
        self.stats.set_partitions(all.filter(|partition| self.share.has(*partition)).count());
    }

    /// Every server tells of its own partitions, so that the sum of them is right.
    fn count_owing(&mut self, partition: Partition, owing: u32) {
        if owing > 0 {
            self.owing.insert(partition, owing);
        } else {
            self.owing.remove(&partition);
        }
        let own = self.owing.iter().filter(|(partition, _)| self.share.has(**partition));
        self.stats.set_owing(own.map(|(_, count)| u64::from(*count)).sum());
    }

    fn sweep_of_others(&self) -> Duration {
        self.config.sweep * SWEEPS_OF_OTHERS
    }

    fn hear(&mut self, wake: Wake) {
        let now = Instant::now();
        match wake {
            Wake::Message { partition, .. } if !self.share.has(partition) => {}
            Wake::Message { partition, message } => {
                let at = std::str::from_utf8(&message).ok().and_then(|text| text.parse().ok());
                self.agenda.announce(partition, at.map(TimestampMs::new), now);
            }
            Wake::Missed => {
                let all = self.backend.partition_config().partitions();
                all.filter(|partition| self.share.has(*partition))
                    .for_each(|partition| self.agenda.schedule(partition, now));
            }
        }
    }

    fn note(&mut self, ended: Result<(Id, Ticked), JoinError>) {
        match ended {
            Ok((task, ticked)) => {
                self.ticking.remove(&task);
                self.note_ticked(ticked);
            }
            Err(error) => {
                let partition = self.ticking.remove(&error.id());
                self.try_again(partition.expect("every task has a partition"), &error);
            }
        }
    }

    fn note_ticked(&mut self, Ticked { partition, started, result }: Ticked) {
        match result {
            Ok(mut report) => {
                self.stats.count(&report);
                self.debts.carry_out(&self.backend, partition, std::mem::take(&mut report.owed));
                self.count_owing(partition, report.owing);
                if self.share.has(partition) {
                    self.agenda.ticked(partition, &report, started);
                } else {
                    self.agenda.schedule(partition, started + self.sweep_of_others());
                }
            }
            Err(error) => self.try_again(partition, &error),
        }
    }

    fn try_again(&mut self, partition: Partition, error: &dyn std::error::Error) {
        tracing::warn!(%partition, %error, "tick failed, trying again");
        self.stats.count_failure();
        self.announced.remove(&partition);
        self.agenda.schedule(partition, Instant::now() + PAUSE);
    }
}

async fn sleep_until(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at).await,
        None => std::future::pending().await,
    }
}
