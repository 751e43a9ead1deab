//! The parts of `room` that need a process of their own, because its memory is measured: this very
//! program, started once more, prints what it found as one line of JSON.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use clap::{Args, ValueEnum};
use ff_backend_embedded::store::Slices;
use ff_backend_embedded::{EmbeddedConfig, EmbeddedHost};
use ff_core::partition::Partition;
use ff_script::audit;
use ff_script::library::Library;
use serde_json::{Value, json};

use crate::Failure;
use crate::arguments::LoadOptions;
use crate::fill;
use crate::statistics::Latencies;
use crate::store::{Inside, Store};
use crate::threads;
use crate::worker::Worker;

/// What a process of its own is told.
#[derive(Clone, Debug, Args)]
pub(crate) struct Options {
    #[arg(long, value_enum)]
    pub(crate) part: Part,

    /// The data directory.
    #[arg(long)]
    pub(crate) directory: PathBuf,

    /// Executions that wait.
    #[arg(long, default_value_t = 0)]
    pub(crate) executions: u64,

    /// Bytes of each execution's input.
    #[arg(long, default_value_t = 0)]
    pub(crate) payload: u32,

    /// Number of flow partitions.
    #[arg(long, default_value_t = 256)]
    pub(crate) partitions: u16,
}

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Part {
    /// Fills a store, rewrites its journal with and without load, and waits to be killed.
    Rewrite,
    /// Opens a store.
    Start,
    /// Checks a data directory.
    Check,
}

/// Callers that do one call after the other.
const CALLERS: u32 = 8;
/// How long calls are measured while nothing is rewritten.
const QUIET: Duration = Duration::from_secs(10);
const RESULT_BYTES: u32 = 16;

/// Measures one part, and prints it.
pub(crate) async fn run(options: &Options) -> Result<(), Failure> {
    let found = match options.part {
        Part::Rewrite => rewrite(options).await?,
        Part::Start => start(&options.directory)?,
        Part::Check => check(&options.directory)?,
    };
    println!("{found}");
    if options.part == Part::Rewrite {
        // Only a kill ends it: the next part starts on what that leaves.
        std::future::pending::<()>().await;
    }
    Ok(())
}

async fn rewrite(options: &Options) -> Result<Value, Failure> {
    let store = Store::open_directory(&options.directory, options.partitions).await?;
    let Inside::Embedded(host) = &store.inside else { return Err("no embedded store".into()) };
    let load = LoadOptions {
        executions: options.executions,
        concurrency: CALLERS,
        payload: options.payload,
        result: RESULT_BYTES,
    };
    fill::fill(&store, &load, options.executions).await?;
    let mut quiet = calls_until(&store, &load, tokio::time::sleep(QUIET)).await?;
    // One while nothing else happens, for its memory.
    let before = threads::resident_bytes();
    threads::forget_peak();
    let begun = Instant::now();
    host.compact().await?;
    let took = begun.elapsed();
    let peak = threads::peak_bytes();
    // Others under load, for the calls.
    let rewriting = async {
        let begun = Instant::now();
        let mut outcome = host.compact().await;
        while outcome.is_ok() && begun.elapsed() < QUIET {
            outcome = host.compact().await;
        }
        outcome
    };
    let mut outcome = Ok(());
    let mut busy = calls_until(&store, &load, async { outcome = rewriting.await }).await?;
    outcome?;
    Ok(json!({
        "compaction_s": took.as_secs_f64(),
        "before_bytes": before,
        "peak_bytes": peak,
        "p99_us": quiet.percentile_us(0.99),
        "compacting_p99_us": busy.percentile_us(0.99),
        "calls": quiet.len(),
        "compacting_calls": busy.len(),
    }))
}

/// Lets callers create, claim and complete until something has happened: what each call took.
async fn calls_until(
    store: &Store,
    load: &LoadOptions,
    until: impl Future<Output = ()>,
) -> Result<Latencies, Failure> {
    let done = Arc::new(AtomicBool::new(false));
    let callers: Vec<_> = Worker::several(store, load, 1)?
        .into_iter()
        .map(|worker| tokio::spawn(call_until(worker, Arc::clone(&done))))
        .collect();
    until.await;
    done.store(true, Ordering::Relaxed);
    let mut all = Latencies::default();
    for caller in callers {
        all.merge(caller.await??);
    }
    Ok(all)
}

async fn call_until(mut worker: Worker, done: Arc<AtomicBool>) -> Result<Latencies, Failure> {
    let mut latencies = Latencies::default();
    while !done.load(Ordering::Relaxed) {
        let begun = Instant::now();
        let partition: Partition = worker.create_group().await?;
        latencies.add(begun.elapsed());
        let begun = Instant::now();
        let handles = worker.claim_group(partition).await?;
        latencies.add(begun.elapsed());
        for handle in handles {
            let begun = Instant::now();
            worker.complete(&handle).await?;
            latencies.add(begun.elapsed());
        }
    }
    Ok(latencies)
}

fn start(directory: &Path) -> Result<Value, Failure> {
    let begun = Instant::now();
    let host = EmbeddedHost::open(EmbeddedConfig::in_directory(directory), &Library::current())?;
    let took = begun.elapsed();
    let keys = host.recovery().map(|recovery| recovery.keys);
    Ok(json!({ "s": took.as_secs_f64(), "keys": keys, "peak_bytes": threads::peak_bytes() }))
}

/// As `flowfabric store check` does it.
fn check(directory: &Path) -> Result<Value, Failure> {
    let begun = Instant::now();
    let slices = Slices::open(directory)?;
    let looked_through = begun.elapsed();
    let config = audit::partition_config(&slices.first()?);
    let mut all = audit::Report::default();
    let reports = slices.for_each(|slice| audit::audit(&slice, &config))?;
    reports.into_iter().for_each(|report| all.add(report));
    if !all.is_clean() {
        return Err(format!("the store is not as it must be: {all}").into());
    }
    let (took, keys) = (begun.elapsed(), all.keys);
    let looked_through = looked_through.as_secs_f64();
    let peak = threads::peak_bytes();
    Ok(json!({
        "s": took.as_secs_f64(), "survey_s": looked_through, "keys": keys, "peak_bytes": peak
    }))
}
