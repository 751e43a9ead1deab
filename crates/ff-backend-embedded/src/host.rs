//! The host: routes calls to shards, and opens and closes them.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};

use ff_core::backend_error::BackendError;
use ff_core::partition::Partition;
use ff_script::args::Args;
use ff_script::dump::Dump;
use ff_script::host::{Function, Host, Subscription, Topic};
use ff_script::library::Library;
use ff_script::value::Value;
use futures_core::future::BoxFuture;
use tokio::sync::oneshot;

use crate::config::EmbeddedConfig;
use crate::error::OpenError;
use crate::journal::disk::{Disk, RealDisk};
use crate::journal::load::RecoveryReport;
use crate::open::{self, Running};
use crate::refusal;
use crate::shard::Job;
use crate::stats::{Counters, Stats};
use crate::wake::WakeHub;

/// A store inside this process.
pub struct EmbeddedHost {
    shards: Vec<mpsc::Sender<Job>>,
    running: Mutex<Option<Running>>,
    hub: Mutex<Option<Arc<WakeHub>>>,
    counters: Arc<Counters>,
    recovery: Option<RecoveryReport>,
}

impl EmbeddedHost {
    /// Opens a store and loads the library into it. Reads a data directory back if there is one.
    pub fn open(config: EmbeddedConfig, library: &Library) -> Result<Self, OpenError> {
        Self::open_on(config, library, Arc::new(RealDisk))
    }

    /// As [`Self::open`], on a disk that may be made to fail.
    pub fn open_on(
        config: EmbeddedConfig,
        library: &Library,
        disk: Arc<dyn Disk>,
    ) -> Result<Self, OpenError> {
        if config.shards == 0 {
            return Err(OpenError::Config("there must be at least one shard"));
        }
        let opened = open::open(&config, library, &disk)?;
        Ok(Self {
            shards: opened.shards,
            running: Mutex::new(Some(opened.running)),
            hub: Mutex::new(Some(opened.hub)),
            counters: opened.counters,
            recovery: opened.recovery,
        })
    }

    /// What was found in the data directory. `None` for a store in memory.
    pub fn recovery(&self) -> Option<&RecoveryReport> {
        self.recovery.as_ref()
    }

    /// What the store did since it was opened.
    pub fn stats(&self) -> Stats {
        self.counters.read()
    }

    /// A copy of every key. Each shard's part is of one moment; different shards' may not be.
    pub async fn dump(&self) -> Result<Dump, BackendError> {
        let mut dump = Dump::new();
        for shard in &self.shards {
            let (reply, part) = oneshot::channel();
            shard.send(Job::Dump(reply)).map_err(|_| refusal::closed())?;
            dump.extend(part.await.map_err(|_| refusal::closed())?);
        }
        Ok(dump)
    }

    /// Finishes what is under way, syncs and unlocks. Later calls are refused; closing again does
    /// nothing.
    pub async fn close(&self) {
        let Some(running) = self.stop() else { return };
        let (done, closed) = oneshot::channel();
        // Waiting for threads blocks, which this thread may not.
        std::thread::spawn(move || {
            running.wait();
            let _ = done.send(());
        });
        let _ = closed.await;
    }

    /// Tells every shard to end.
    fn stop(&self) -> Option<Running> {
        let running = lock(&self.running).take()?;
        for shard in &self.shards {
            // A shard that has ended needs no telling.
            let _ = shard.send(Job::Stop);
        }
        lock(&self.hub).take();
        Some(running)
    }

    fn shard_of(&self, partition: Partition) -> &mpsc::Sender<Job> {
        &self.shards[usize::from(partition.index) % self.shards.len()]
    }

    async fn run(
        &self,
        function: Function,
        partition: Partition,
        args: Args,
    ) -> Result<Value, BackendError> {
        let (reply, answer) = oneshot::channel();
        self.shard_of(partition)
            .send(Job::Call { function, partition, args, reply })
            .map_err(|_| refusal::closed())?;
        answer.await.unwrap_or_else(|_| Err(refusal::lost()))
    }
}

impl Host for EmbeddedHost {
    fn call(
        &self,
        function: Function,
        partition: Partition,
        args: Args,
    ) -> BoxFuture<'_, Result<Value, BackendError>> {
        Box::pin(self.run(function, partition, args))
    }

    fn subscribe(&self, topic: Topic) -> BoxFuture<'_, Result<Subscription, BackendError>> {
        let subscription =
            lock(&self.hub).as_ref().map(|hub| hub.subscribe(topic)).ok_or_else(refusal::closed);
        Box::pin(std::future::ready(subscription))
    }

    fn name(&self) -> &'static str {
        "embedded"
    }
}

impl Drop for EmbeddedHost {
    /// Closes as [`EmbeddedHost::close`] does, but blocks until it is done.
    fn drop(&mut self) {
        if let Some(running) = self.stop() {
            running.wait();
        }
    }
}

/// Locks a mutex whose content is never left half-changed.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
