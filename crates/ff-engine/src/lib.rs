//! The engine: runs what is due in every partition, when it is due.
//!
//! It sleeps until the nearest timer of any partition. A timer that is set in the meantime is
//! announced by a push; what a lost push missed, the sweep finds. Nothing here decides what a
//! timer does: that is `ff_tick`'s.

#![deny(missing_docs)]

mod agenda;
mod stats;

use std::sync::Arc;
use std::time::Duration;

use ff_core::engine_backend::EngineBackend;
use ff_core::error::EngineError;
use ff_core::limits;
use ff_core::partition::Partition;
use ff_core::types::TimestampMs;
use ff_script::backend::ScriptBackend;
use ff_script::host::{Host, Subscription, Topic, Wake};
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::Instant;

use agenda::Agenda;
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
}

impl Default for EngineConfig {
    fn default() -> Self {
        Self { sweep: Duration::from_millis(limits::TICK_SWEEP_MS), concurrency: 16, batch: 128 }
    }
}

/// How long a partition whose tick failed is left alone.
const PAUSE: Duration = Duration::from_millis(500);

/// A running engine. Dropping it stops it; `shutdown` also waits for what is under way.
pub struct Engine {
    stop: watch::Sender<bool>,
    task: JoinHandle<()>,
    stats: Arc<EngineStats>,
}

impl Engine {
    /// Starts ticking all partitions of a backend.
    pub async fn start<H: Host>(
        backend: Arc<ScriptBackend<H>>,
        config: EngineConfig,
    ) -> Result<Self, EngineError> {
        let wakes = backend.host().subscribe(Topic::Due).await?;
        let (stop, stopped) = watch::channel(false);
        let stats = Arc::new(EngineStats::default());
        let ticker = Ticker {
            agenda: Agenda::all_now(backend.partition_config().flow_partitions(), Instant::now()),
            backend: backend as Arc<dyn EngineBackend>,
            config,
            stats: Arc::clone(&stats),
            running: JoinSet::new(),
        };
        Ok(Self { stop, task: tokio::spawn(ticker.run(wakes, stopped)), stats })
    }

    /// What the engine has done so far.
    pub fn stats(&self) -> &EngineStats {
        &self.stats
    }

    /// Stops, after the ticks under way have ended. Answers what was done altogether.
    pub async fn shutdown(self) -> Arc<EngineStats> {
        let _ = self.stop.send(true);
        let _ = self.task.await;
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
    backend: Arc<dyn EngineBackend>,
    config: EngineConfig,
    agenda: Agenda,
    stats: Arc<EngineStats>,
    running: JoinSet<Ticked>,
}

impl Ticker {
    async fn run(mut self, mut wakes: Subscription, mut stopped: watch::Receiver<bool>) {
        loop {
            self.start_due();
            let next = self.agenda.next();
            tokio::select! {
                _ = stopped.changed() => break,
                Some(ticked) = self.running.join_next() => self.note(ticked),
                wake = wakes.next() => match wake {
                    Some(wake) => self.hear(wake),
                    None => break,
                },
                () = sleep_until(next), if self.running.len() < self.config.concurrency => {}
            }
        }
        while let Some(ticked) = self.running.join_next().await {
            self.note(ticked);
        }
    }

    fn start_due(&mut self) {
        while self.running.len() < self.config.concurrency {
            let Some(partition) = self.agenda.take_due(Instant::now()) else { return };
            let (backend, batch) = (Arc::clone(&self.backend), self.config.batch);
            self.running.spawn(async move {
                let started = Instant::now();
                Ticked { partition, started, result: backend.tick(partition, batch).await }
            });
        }
    }

    fn hear(&mut self, wake: Wake) {
        let now = Instant::now();
        match wake {
            Wake::Message { partition, message } => {
                let at = std::str::from_utf8(&message).ok().and_then(|text| text.parse().ok());
                self.agenda.announce(partition, at.map(TimestampMs::new), now);
            }
            Wake::Missed => {
                let partitions = self.backend.partition_config().flow_partitions();
                partitions.for_each(|partition| self.agenda.schedule(partition, now));
            }
        }
    }

    fn note(&mut self, ticked: Result<Ticked, tokio::task::JoinError>) {
        let Ok(Ticked { partition, started, result }) = ticked else { return };
        match result {
            Ok(report) => {
                self.stats.count(&report);
                self.agenda.ticked(partition, &report, started, self.config.sweep);
            }
            Err(error) => {
                tracing::warn!(%partition, %error, "tick failed, trying again");
                self.stats.count_failure();
                self.agenda.schedule(partition, Instant::now() + PAUSE);
            }
        }
    }
}

async fn sleep_until(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at).await,
        None => std::future::pending().await,
    }
}
