//! Starts a store's threads, and ends them in the right order.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;

use ff_core::clock::Clock;
use ff_script::library::Library;

use crate::config::{EmbeddedConfig, Storage, SyncMode};
use crate::error::OpenError;
use crate::journal::commit::{CommitToJournal, JournalState, Shared};
use crate::journal::compaction::{Compaction, Request};
use crate::journal::disk::Disk;
use crate::journal::layout::Layout;
use crate::journal::load::RecoveryReport;
use crate::journal::lock::DirectoryLock;
use crate::journal::marker::Marker;
use crate::journal::start::{self, Started};
use crate::journal::writer::{Policy, Writer};
use crate::keyspace::Keyspace;
use crate::memory::{Memory, Portion};
use crate::moment::Moment;
use crate::session::Session;
use crate::shard::{Commit, CommitToMemory, Job, Shard};
use crate::stats::Counters;
use crate::stop::Stop;
use crate::vm::Machine;
use crate::wake::WakeHub;
use crate::watchdog::{Post, Watchdog};

/// A store that runs.
pub(crate) struct Opened {
    pub(crate) shards: Vec<mpsc::Sender<Job>>,
    pub(crate) running: Running,
    pub(crate) hub: Arc<WakeHub>,
    pub(crate) counters: Arc<Counters>,
    pub(crate) memory: Arc<Memory>,
    pub(crate) stop: Arc<Stop>,
    /// What every shard runs now.
    posts: Vec<Arc<Post>>,
    pub(crate) recovery: Option<RecoveryReport>,
}

/// The threads of a store.
#[derive(Default)]
pub(crate) struct Running {
    shards: Vec<JoinHandle<()>>,
    journal: Option<JournalThreads>,
    /// The watchdog ends when this is dropped.
    watchdog: Option<mpsc::Sender<()>>,
}

struct JournalThreads {
    shared: Arc<Shared>,
    /// Answers the last transaction, if it is known to be on the disk.
    writer: JoinHandle<Option<u64>>,
    compaction: JoinHandle<()>,
    /// Asks the compaction's thread for a copy.
    requests: mpsc::Sender<Request>,
    cancelled: Arc<AtomicBool>,
    layout: Layout,
    disk: Arc<dyn Disk>,
    /// Dropped last: the directory is free when everything is written.
    lock: DirectoryLock,
}

impl Running {
    /// Waits until the shards, which were told to stop, have ended, and then the journal.
    pub(crate) fn wait(self) {
        for shard in self.shards {
            join(shard);
        }
        if let Some(journal) = self.journal {
            journal.cancelled.store(true, Ordering::Relaxed);
            journal.shared.close();
            let written = join(journal.writer).flatten();
            drop(journal.requests);
            join(journal.compaction);
            if let Some(transactions) = written {
                mark(&journal.layout, &*journal.disk, transactions);
            }
            drop(journal.lock);
        }
        drop(self.watchdog);
    }

    /// The way to the thread that makes copies.
    pub(crate) fn requests(&self) -> Option<mpsc::Sender<Request>> {
        self.journal.as_ref().map(|journal| journal.requests.clone())
    }

    /// True if the journal takes what writes.
    pub(crate) fn takes_writes(&self) -> bool {
        self.journal.as_ref().is_none_or(|journal| journal.shared.state() == JournalState::Writable)
    }
}

/// What a thread answered. One that panicked has said so on its own.
fn join<T>(thread: JoinHandle<T>) -> Option<T> {
    thread.join().ok()
}

/// Leaves word of how much is there, so that less is not mistaken for a torn tail.
fn mark(layout: &Layout, disk: &dyn Disk, transactions: u64) {
    if let Err(error) = (Marker { transactions }).store(layout, disk) {
        tracing::warn!("the store was closed, but could not be marked as such: {error}");
    }
}

/// Starts everything that the configuration asks for.
pub(crate) fn open(
    config: &EmbeddedConfig,
    library: &Library,
    disk: &Arc<dyn Disk>,
) -> Result<Opened, OpenError> {
    let mut opened = Opened {
        shards: Vec::new(),
        running: Running::default(),
        hub: Arc::new(WakeHub::new()),
        counters: Arc::default(),
        memory: Arc::new(Memory::new(config.memory_limit)),
        stop: Arc::default(),
        posts: Vec::new(),
        recovery: None,
    };
    let outcome = match &config.storage {
        Storage::Memory => opened.start_in_memory(config, library),
        Storage::Directory { path, sync } => {
            let started = start::start(path, disk, config.shards)?;
            opened.start_on_disk(config, library, disk, started, *sync)
        }
    };
    match outcome.and_then(|()| opened.start_watchdog(config)) {
        Ok(()) => Ok(opened),
        Err(error) => {
            opened.shards.clear();
            opened.running.wait();
            Err(error)
        }
    }
}

impl Opened {
    fn start_in_memory(
        &mut self,
        config: &EmbeddedConfig,
        library: &Library,
    ) -> Result<(), OpenError> {
        for _ in 0..config.shards {
            let commit = CommitToMemory { hub: Arc::clone(&self.hub), answers: Vec::new() };
            self.start_shard(config, library, Keyspace::default(), commit, false)?;
        }
        Ok(())
    }

    fn start_on_disk(
        &mut self,
        config: &EmbeddedConfig,
        library: &Library,
        disk: &Arc<dyn Disk>,
        mut started: Started,
        sync: SyncMode,
    ) -> Result<(), OpenError> {
        report(&started.report);
        self.recovery = Some(started.report.clone());
        let shared = Arc::new(Shared::new(Arc::clone(&self.stop)));
        shared.base_bytes.store(started.base_bytes, Ordering::Relaxed);
        let keyspaces = std::mem::take(&mut started.keyspaces);
        let policy = Policy {
            sync,
            compaction: config.compaction,
            full_disk_retry: config.full_disk_retry,
            background_sync: config.background_sync,
        };
        self.running.journal = Some(self.start_journal(&shared, disk, started, policy)?);
        for keyspace in keyspaces {
            let commit = CommitToJournal::new(Arc::clone(&shared), Arc::clone(&self.hub));
            self.start_shard(config, library, keyspace, commit, true)?;
        }
        Ok(())
    }

    fn start_journal(
        &self,
        shared: &Arc<Shared>,
        disk: &Arc<dyn Disk>,
        started: Started,
        policy: Policy,
    ) -> Result<JournalThreads, OpenError> {
        let (background, requests) = mpsc::channel();
        let cancelled = Arc::new(AtomicBool::new(false));
        let counters = Arc::clone(&self.counters);
        let compaction = Compaction {
            layout: started.layout.clone(),
            disk: Arc::clone(disk),
            manifest: started.manifest,
            is_stored: true,
            shared: Arc::clone(shared),
            counters: Arc::clone(&counters),
            memory: Arc::clone(&self.memory),
            piece_bytes: policy.compaction.piece_bytes,
            cancelled: Arc::clone(&cancelled),
        };
        let hub = Arc::clone(&self.hub);
        let requester = background.clone();
        let writer =
            Writer::new(Arc::clone(shared), hub, counters, policy, started.writer, background);
        let left = Arc::clone(shared);
        let writer = self.spawn("ff-journal".to_owned(), move || {
            let run = catch_unwind(AssertUnwindSafe(|| writer.run()));
            run.unwrap_or_else(|panic| {
                left.abandon();
                resume_unwind(panic)
            })
        })?;
        let compact = move || compaction.run(&requests);
        let compaction = self.spawn("ff-compaction".to_owned(), compact)?;
        Ok(JournalThreads {
            shared: Arc::clone(shared),
            writer,
            compaction,
            requests: requester,
            cancelled,
            layout: started.layout,
            disk: Arc::clone(disk),
            lock: started.lock,
        })
    }

    fn start_shard<C: Commit + Send + 'static>(
        &mut self,
        config: &EmbeddedConfig,
        library: &Library,
        keyspace: Keyspace,
        commit: C,
        journaled: bool,
    ) -> Result<(), OpenError> {
        let (jobs, received) = mpsc::channel();
        let (started, start) = mpsc::channel();
        let source = library.source.clone();
        let clock: Arc<dyn Clock> = Arc::clone(&config.clock);
        let (counters, memory) = (Arc::clone(&self.counters), Arc::clone(&self.memory));
        let (stop, post) = (Arc::clone(&self.stop), Arc::new(Post::default()));
        self.posts.push(Arc::clone(&post));
        let thread = self.spawn(format!("ff-shard-{}", self.shards.len()), move || {
            let portion = Portion::new(memory, keyspace.bytes());
            let session = Session::new(keyspace, Moment::new(clock), journaled);
            // A machine belongs to the thread that made it.
            match Machine::new(&source, session) {
                Err(error) => drop(started.send(Err(error))),
                Ok(machine) => {
                    drop(started.send(Ok(())));
                    Shard::new(machine, commit, portion, counters, stop, post).run(&received);
                }
            }
        })?;
        self.shards.push(jobs);
        self.running.shards.push(thread);
        let outcome = start.recv().unwrap_or_else(|_| Err("the shard ended early".to_owned()));
        outcome.map_err(OpenError::Library)
    }

    fn start_watchdog(&mut self, config: &EmbeddedConfig) -> Result<(), OpenError> {
        let watchdog = Watchdog::new(config.watchdog, &self.posts);
        let (open, closed) = mpsc::channel();
        self.spawn("ff-watchdog".to_owned(), move || watchdog.run(&closed))?;
        self.running.watchdog = Some(open);
        Ok(())
    }

    /// Starts a thread. The store stops if it panics.
    fn spawn<T: Send + 'static>(
        &self,
        name: String,
        body: impl FnOnce() -> T + Send + 'static,
    ) -> Result<JoinHandle<T>, OpenError> {
        let stop = Arc::clone(&self.stop);
        let thread = std::thread::Builder::new().name(name.clone());
        let body = move || {
            catch_unwind(AssertUnwindSafe(body)).unwrap_or_else(|panic| {
                stop.because(format!("its thread {name} panicked"));
                resume_unwind(panic)
            })
        };
        thread.spawn(body).map_err(OpenError::Thread)
    }
}

fn report(recovery: &RecoveryReport) {
    if let (Some(torn), Some(kept)) = (&recovery.torn, &recovery.kept) {
        tracing::warn!(
            "{}: the last {} bytes were not written to the end ({}) and were cut at byte {}; they \
             are kept in {}",
            torn.file.display(),
            torn.bytes,
            torn.reason,
            torn.offset,
            kept.display()
        );
    }
    if recovery.unused > 0 {
        tracing::info!("{} zeros at the end of the journal were cut", recovery.unused);
    }
}
