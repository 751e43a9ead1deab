//! The store of `full`, in a process of its own that is killed.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use clap::Args;
use ff_backend_embedded::{EmbeddedHost, MemoryLimit};
use ff_core::backend_error::BackendErrorKind;
use ff_core::error::EngineError;
use ff_core::limits::{CREATE_BATCH_MAX, TICK_BATCH_MAX};
use ff_core::partition::Partition;
use serde_json::json;

use crate::Failure;
use crate::arguments::LoadOptions;
use crate::store::{Inside, Store};
use crate::worker::Worker;

/// What the process is told.
#[derive(Clone, Debug, Args)]
pub(crate) struct Options {
    /// The data directory.
    #[arg(long)]
    pub(crate) directory: PathBuf,

    /// How much memory keys and values may take.
    #[arg(long)]
    pub(crate) memory_limit: MemoryLimit,

    /// Bytes of each execution's input.
    #[arg(long)]
    pub(crate) payload: u32,

    /// Number of flow partitions.
    #[arg(long)]
    pub(crate) partitions: u16,
}

/// Executions taken by one claim.
const GROUP: u16 = 64;
const CALLERS: u32 = 4;
/// Callers that drain the store: each waits for its own call, and all of them share a sync.
const DRAINERS: u16 = 64;
const RESULT_BYTES: u32 = 16;
/// What is left of the limit when the store counts as drained.
const DRAINED: f64 = 0.8;

/// Fills a store until it refuses, drains it, and goes on under load until it is killed. Says how
/// far it is, a line of JSON each time.
pub(crate) async fn run(options: &Options) -> Result<(), Failure> {
    let limit = options.memory_limit;
    let store = Store::open_directory_within(&options.directory, options.partitions, limit).await?;
    let Inside::Embedded(host) = &store.inside else { return Err("no embedded store".into()) };
    let run = Run { store: &store, host, options };
    let filled = run.fill().await?;
    println!("{}", json!({ "executions": filled, "used_bytes": host.stats().memory_used }));
    let completed = run.drain(&limit).await?;
    run.create_again().await?;
    println!("{}", json!({ "completed": completed, "used_bytes": host.stats().memory_used }));
    run.go_on().await
}

struct Run<'a> {
    store: &'a Store,
    host: &'a Arc<EmbeddedHost>,
    options: &'a Options,
}

impl Run<'_> {
    fn worker(&self) -> Result<Worker, Failure> {
        let (payload, result) = (self.options.payload, RESULT_BYTES);
        let load = LoadOptions { executions: 0, concurrency: CALLERS, payload, result };
        // What has ended goes at once, so that room comes back.
        Ok(Worker::new(self.store, &load, GROUP)?.with_retention(0))
    }

    /// Creates executions until all callers are refused; answers how many there are.
    async fn fill(&self) -> Result<u64, Failure> {
        let created = Arc::new(AtomicU64::new(0));
        let mut callers = Vec::new();
        for caller in 0..CALLERS {
            let (worker, created) = (self.worker()?, Arc::clone(&created));
            let partitions = self.options.partitions;
            callers.push(tokio::spawn(fill(worker, caller, partitions, created)));
        }
        for caller in callers {
            caller.await??;
        }
        Ok(created.load(Ordering::Relaxed))
    }

    /// Claims, completes and lets time do its work, all of which must go on, until there is room.
    /// Rewrites the journal meanwhile. Answers how many were completed.
    async fn drain(&self, limit: &MemoryLimit) -> Result<u64, Failure> {
        let limit = limit.as_bytes().ok_or("a limit is needed")? as f64;
        let host = Arc::clone(self.host);
        let rewriting = tokio::spawn(async move { host.compact().await });
        let mut callers = Vec::new();
        for caller in 0..DRAINERS.min(self.options.partitions) {
            let (worker, host) = (self.worker()?, Arc::clone(self.host));
            let partitions = self.options.partitions;
            let is_drained = move || host.stats().memory_used as f64 <= limit * DRAINED;
            callers.push(tokio::spawn(drain(worker, caller, partitions, is_drained)));
        }
        let mut completed = 0;
        for caller in callers {
            completed += caller.await??;
        }
        rewriting.await??;
        Ok(completed)
    }

    /// Room came back by itself.
    async fn create_again(&self) -> Result<(), Failure> {
        self.worker()?.create_many(Partition::flow(0), CREATE_BATCH_MAX).await
    }

    /// Works, makes a copy, and goes on rewriting until it is killed.
    async fn go_on(&self) -> Result<(), Failure> {
        let failed = Arc::new(AtomicBool::new(false));
        for caller in 0..CALLERS {
            let (mut worker, failed) = (self.worker()?, Arc::clone(&failed));
            let partitions = self.options.partitions;
            tokio::spawn(async move {
                let mine = (caller as u16..partitions).step_by(CALLERS as usize).cycle();
                for partition in mine.map(Partition::flow) {
                    if let Err(error) = work(&mut worker, partition).await {
                        eprintln!("ff-bench: {error}");
                        failed.store(true, Ordering::Relaxed);
                        return;
                    }
                }
            });
        }
        let made = self.host.backup("under-load").await?;
        println!("{}", json!({ "backup": made.directory, "bytes": made.bytes }));
        while !failed.load(Ordering::Relaxed) {
            self.host.compact().await?;
        }
        Err("a call failed although there was room".into())
    }
}

/// One caller's part of filling, each on partitions of its own.
async fn fill(
    mut worker: Worker,
    caller: u32,
    partitions: u16,
    created: Arc<AtomicU64>,
) -> Result<(), Failure> {
    let mine = (caller as u16..partitions).step_by(CALLERS as usize).cycle();
    for partition in mine.map(Partition::flow) {
        match worker.create_many(partition, CREATE_BATCH_MAX).await {
            Ok(()) => created.fetch_add(CREATE_BATCH_MAX, Ordering::Relaxed),
            Err(error) if is_full(&error) => return Ok(()),
            Err(error) => return Err(error),
        };
    }
    Ok(())
}

/// One caller's part of draining, each on partitions of its own.
async fn drain(
    mut worker: Worker,
    caller: u16,
    partitions: u16,
    is_drained: impl Fn() -> bool,
) -> Result<u64, Failure> {
    let mine = (caller..partitions).step_by(usize::from(DRAINERS)).cycle();
    let mut completed = 0;
    for partition in mine.map(Partition::flow) {
        if is_drained() {
            break;
        }
        completed += step(&mut worker, partition).await?;
    }
    Ok(completed)
}

fn is_full(failure: &Failure) -> bool {
    matches!(
        failure.downcast_ref::<EngineError>().map(EngineError::through),
        Some(EngineError::Backend(error)) if error.kind == BackendErrorKind::StoreFull
    )
}

/// Completes some of a partition, and removes what has ended; answers how many were completed.
async fn step(worker: &mut Worker, partition: Partition) -> Result<u64, Failure> {
    let handles = worker.claim_some(partition).await?;
    for handle in &handles {
        worker.complete(handle).await?;
    }
    worker.tick(partition, TICK_BATCH_MAX as u32).await?;
    Ok(handles.len() as u64)
}

/// As many are added as are completed, so that there is always room.
async fn work(worker: &mut Worker, partition: Partition) -> Result<(), Failure> {
    let completed = step(worker, partition).await?;
    if completed > 0 {
        worker.create_many(partition, completed).await?;
    }
    Ok(())
}
