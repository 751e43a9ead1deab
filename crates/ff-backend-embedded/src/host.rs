//! The host: routes calls to shards, and opens and closes them.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::time::Duration;

use ff_core::backend_error::BackendError;
use ff_core::partition::Partition;
use ff_script::args::Args;
use ff_script::dump::Dump;
use ff_script::host::{Function, Host, Subject, Subscription, Topic};
use ff_script::library::Library;
use ff_script::value::Value;
use futures_core::future::BoxFuture;
use tokio::sync::oneshot;

use crate::backlog::Backlog;
use crate::config::EmbeddedConfig;
use crate::error::backend as errors;
use crate::error::{BACKUP_NAME_BYTES_MAX, BackupError, OpenError};
use crate::journal::backup::BackupReport;
use crate::journal::compaction::Request;
use crate::journal::disk::{Disk, RealDisk};
use crate::journal::load::RecoveryReport;
use crate::memory::Memory;
use crate::open::{self, Running};
use crate::shard::{Caller, Job};
use crate::stats::{Counters, Stats};
use crate::stop::Stop;
use crate::wake::WakeHub;

/// A store inside this process.
pub struct EmbeddedHost {
    shards: Vec<ShardSender>,
    running: Mutex<Option<Running>>,
    closed: AtomicBool,
    hub: Mutex<Option<Arc<WakeHub>>>,
    counters: Arc<Counters>,
    memory: Arc<Memory>,
    stop: Arc<Stop>,
    close_within: Duration,
    backups: Option<PathBuf>,
    recovery: Option<RecoveryReport>,
}

/// The way into a shard.
struct ShardSender {
    jobs: mpsc::Sender<Job>,
    backlog: Arc<Backlog>,
}

impl ShardSender {
    fn new(jobs: mpsc::Sender<Job>, bytes_max: usize) -> Self {
        Self { jobs, backlog: Arc::new(Backlog::new(bytes_max)) }
    }

    fn send(&self, job: Job) -> Result<(), BackendError> {
        self.jobs.send(job).map_err(|_| errors::closed())
    }
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
        let sender = |jobs| ShardSender::new(jobs, config.backlog_bytes_max);
        Ok(Self {
            shards: opened.shards.into_iter().map(sender).collect(),
            running: Mutex::new(Some(opened.running)),
            closed: AtomicBool::new(false),
            hub: Mutex::new(Some(opened.hub)),
            counters: opened.counters,
            memory: opened.memory,
            stop: opened.stop,
            close_within: config.close_within,
            backups: config.backups(),
            recovery: opened.recovery,
        })
    }

    /// What was found in the data directory. `None` for a store in memory.
    pub fn recovery(&self) -> Option<&RecoveryReport> {
        self.recovery.as_ref()
    }

    /// What the store did since it was opened.
    pub fn stats(&self) -> Stats {
        self.counters.read(&self.memory)
    }

    /// A copy of every key. Each shard's part is of one moment; different shards' may not be.
    pub async fn dump(&self) -> Result<Dump, BackendError> {
        let mut dump = Dump::new();
        for shard in &self.shards {
            let (reply, part) = oneshot::channel();
            shard.send(Job::Dump(reply))?;
            dump.extend(part.await.map_err(|_| self.ended())?);
        }
        Ok(dump)
    }

    /// Rewrites the journal now, however little has been appended to it. A store in memory has none.
    pub async fn compact(&self) -> Result<(), BackupError> {
        let (reply, outcome) = oneshot::channel();
        self.request(Request::CompactNow(reply))?;
        Ok(outcome.await.map_err(|_| BackupError::Closed)??)
    }

    /// Copies the store while it runs, under a name of its own. Everything that was acknowledged
    /// before is in the copy, which is a data directory: starting on it is restoring it.
    pub async fn backup(&self, name: &str) -> Result<BackupReport, BackupError> {
        let directory = self.backups.as_ref().ok_or(BackupError::NoFiles)?.join(checked(name)?);
        let (reply, outcome) = oneshot::channel();
        self.request(Request::Backup { directory, reply })?;
        outcome.await.unwrap_or(Err(BackupError::Closed))
    }

    /// Asks the thread that rewrites and copies.
    fn request(&self, request: Request) -> Result<(), BackupError> {
        self.backups.as_ref().ok_or(BackupError::NoFiles)?;
        let requests = lock(&self.running).as_ref().and_then(Running::requests);
        let sent = requests.and_then(|requests| requests.send(request).ok());
        sent.ok_or(BackupError::Closed)
    }

    /// Waits until the store stops itself, and answers why: its disk failed, or a call failed
    /// halfway. It then runs no call any more, and what it holds is what a restart finds. A store
    /// that is closed has not stopped.
    pub async fn stopped(&self) -> String {
        self.stop.wait().await.to_owned()
    }

    /// Why the store has stopped itself, if it has.
    pub fn stop_reason(&self) -> Option<&str> {
        self.stop.reason()
    }

    /// Asks whether the store takes work: every shard answers, what was done before is as durable
    /// as configured, and writes are not refused.
    pub async fn ready(&self) -> Result<(), BackendError> {
        if let Some(reason) = self.stop.reason() {
            return Err(errors::stopped(reason));
        }
        if !lock(&self.running).as_ref().ok_or_else(errors::closed)?.takes_writes() {
            return Err(errors::disk_full());
        }
        for shard in &self.shards {
            let (reply, answer) = oneshot::channel();
            shard.send(Job::Settle(Caller::new(reply, None)))?;
            answer.await.unwrap_or_else(|_| Err(self.ended()))?;
        }
        Ok(())
    }

    /// Finishes what is under way, syncs and unlocks. Later calls are refused; closing again does
    /// nothing. Waits no longer than configured: false if something was still under way then, which
    /// keeps the directory locked until it is done or the process ends.
    pub async fn close(&self) -> bool {
        let Some(running) = self.end() else { return true };
        let (done, closed) = oneshot::channel();
        let within = self.close_within;
        // Waiting for threads blocks, which this thread may not.
        std::thread::spawn(move || done.send(wait_within(running, within)));
        closed.await.unwrap_or(false)
    }

    /// The error of a call that a shard did not answer.
    fn ended(&self) -> BackendError {
        self.stop.reason().map_or_else(errors::closed_midway, errors::stopped_midway)
    }

    /// Tells every shard to end.
    fn end(&self) -> Option<Running> {
        let running = lock(&self.running).take()?;
        self.closed.store(true, Ordering::Release);
        for shard in &self.shards {
            // A shard that has ended needs no telling.
            let _ = shard.send(Job::Stop);
        }
        lock(&self.hub).take();
        Some(running)
    }

    fn shard_of(&self, partition: Partition) -> &ShardSender {
        &self.shards[usize::from(partition.index) % self.shards.len()]
    }

    fn listen(
        &self,
        start: impl FnOnce(&WakeHub) -> Subscription,
    ) -> Result<Subscription, BackendError> {
        lock(&self.hub).as_deref().map(start).ok_or_else(errors::closed)
    }

    async fn run(
        &self,
        function: Function,
        partition: Partition,
        args: Args,
    ) -> Result<Value, BackendError> {
        // A shard that hangs would not answer a call that comes after the end.
        if self.closed.load(Ordering::Acquire) {
            return Err(errors::closed());
        }
        let (reply, answer) = oneshot::channel();
        let shard = self.shard_of(partition);
        let permit = shard.backlog.enter(args.byte_len()).ok_or_else(errors::too_many_calls)?;
        let caller = Caller::new(reply, Some(permit));
        shard.send(Job::Call { function, partition, args, caller })?;
        answer.await.unwrap_or_else(|_| Err(self.ended()))
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
        Box::pin(std::future::ready(self.listen(|hub| hub.subscribe(topic))))
    }

    fn follow(&self, subject: Subject) -> BoxFuture<'_, Result<Subscription, BackendError>> {
        Box::pin(std::future::ready(self.listen(|hub| hub.follow(subject))))
    }

    fn name(&self) -> &'static str {
        "embedded"
    }
}

impl Drop for EmbeddedHost {
    /// Closes as [`EmbeddedHost::close`] does, but blocks until it is done.
    fn drop(&mut self) {
        if let Some(running) = self.end() {
            wait_within(running, self.close_within);
        }
    }
}

/// Waits until all threads have ended, but no longer than this. True if they have.
fn wait_within(running: Running, within: Duration) -> bool {
    let (done, closed) = mpsc::channel();
    std::thread::spawn(move || {
        running.wait();
        let _ = done.send(());
    });
    let in_time = closed.recv_timeout(within).is_ok();
    if !in_time {
        tracing::error!(
            "the store was not closed within {within:?}: calls or the disk take longer"
        );
    }
    in_time
}

/// A name that can be a directory's, and leads nowhere else.
fn checked(name: &str) -> Result<&str, BackupError> {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    let fits = (1..=BACKUP_NAME_BYTES_MAX).contains(&name.len())
        && name.bytes().all(allowed)
        && name.as_bytes()[0].is_ascii_alphanumeric()
        && !name.ends_with(".partial");
    fits.then_some(name).ok_or(BackupError::Name)
}

/// Locks a mutex whose content is never left half-changed.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
