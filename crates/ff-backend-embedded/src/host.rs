//! The host: routes calls to shards, and opens and closes them.

use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread::JoinHandle;

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
use crate::keyspace::Keyspace;
use crate::moment::Moment;
use crate::refusal;
use crate::session::Session;
use crate::shard::{CommitToMemory, Job, Shard};
use crate::stats::{Counters, Stats};
use crate::vm::Machine;
use crate::wake::WakeHub;

/// A store inside this process.
pub struct EmbeddedHost {
    shards: Vec<mpsc::Sender<Job>>,
    threads: Mutex<Vec<JoinHandle<()>>>,
    hub: Mutex<Option<Arc<WakeHub>>>,
    counters: Arc<Counters>,
}

impl EmbeddedHost {
    /// Opens a store and loads the library into it.
    pub fn open(config: EmbeddedConfig, library: &Library) -> Result<Self, OpenError> {
        if config.shards == 0 {
            return Err(OpenError::Config("there must be at least one shard"));
        }
        let hub = Arc::new(WakeHub::new());
        let mut host = Self {
            shards: Vec::new(),
            threads: Mutex::default(),
            hub: Mutex::new(Some(Arc::clone(&hub))),
            counters: Arc::default(),
        };
        for _ in 0..config.shards {
            host.start_shard(&config, library, &hub)?;
        }
        Ok(host)
    }

    fn start_shard(
        &mut self,
        config: &EmbeddedConfig,
        library: &Library,
        hub: &Arc<WakeHub>,
    ) -> Result<(), OpenError> {
        let (jobs, received) = mpsc::channel();
        let (started, start) = mpsc::channel();
        let source = library.source.clone();
        let clock = Arc::clone(&config.clock);
        let commit = CommitToMemory { hub: Arc::clone(hub), answers: Vec::new() };
        let counters = Arc::clone(&self.counters);
        let name = format!("ff-shard-{}", self.shards.len());
        let thread = std::thread::Builder::new().name(name).spawn(move || {
            let session = Session::new(Keyspace::default(), Moment::new(clock), false);
            match Machine::new(&source, session) {
                Err(error) => drop(started.send(Err(error))),
                Ok(machine) => {
                    drop(started.send(Ok(())));
                    Shard { machine, commit, counters, broken: false }.run(&received);
                }
            }
        })?;
        self.shards.push(jobs);
        lock(&self.threads).push(thread);
        let outcome = start.recv().unwrap_or_else(|_| Err("the shard ended early".to_owned()));
        outcome.map_err(OpenError::Library)
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

    /// Finishes what is under way, and closes. Later calls are refused; later closes do nothing.
    pub async fn close(&self) {
        let threads = self.stop();
        let (done, closed) = oneshot::channel();
        // Joining blocks, which this thread may not.
        std::thread::spawn(move || {
            join(threads);
            let _ = done.send(());
        });
        let _ = closed.await;
    }

    /// Tells every thread to end, and answers those that have not ended yet.
    fn stop(&self) -> Vec<JoinHandle<()>> {
        for shard in &self.shards {
            // A shard that has ended needs no telling.
            let _ = shard.send(Job::Stop);
        }
        lock(&self.hub).take();
        std::mem::take(&mut *lock(&self.threads))
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
        join(self.stop());
    }
}

fn join(threads: Vec<JoinHandle<()>>) {
    for thread in threads {
        // A thread that panicked has said so on its own.
        let _ = thread.join();
    }
}

/// Locks a mutex whose content is never left half-changed.
fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
