//! `flowfabric demo`: a store, an engine and a few workers in one process, told as a story.

mod cast;
mod story;
mod worker;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use ff_backend_embedded::{EmbeddedConfig, EmbeddedHost};
use ff_core::contracts::{ExecutionSnapshot, NewExecution};
use ff_core::engine_backend::EngineBackend;
use ff_core::error::EngineError;
use ff_core::partition::PartitionConfig;
use ff_core::types::ExecutionId;
use ff_engine::{Engine, EngineConfig};
use ff_scheduler::Scheduler;
use ff_script::backend::ScriptBackend;
use ff_script::ids::SystemIds;
use ff_script::library::Library;

use crate::failure::Failure;
use story::Story;

/// Options of the demo.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Keep the data in this directory instead of a temporary one that is removed at the end.
    #[arg(long)]
    dir: Option<PathBuf>,
}

type Backend = ScriptBackend<EmbeddedHost>;

pub(crate) fn run(options: &Options) -> Result<(), Failure> {
    let temporary = std::env::temp_dir().join(format!("flowfabric-demo-{}", std::process::id()));
    let dir = options.dir.clone().unwrap_or_else(|| temporary.clone());
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let told = runtime.block_on(tell(dir.clone()));
    if options.dir.is_none() {
        std::fs::remove_dir_all(&temporary)?;
    } else {
        println!("\nThe data is in {}; look at it with", dir.display());
        println!("  flowfabric store check {}", dir.display());
    }
    told
}

async fn tell(dir: PathBuf) -> Result<(), Failure> {
    let host = EmbeddedHost::open(EmbeddedConfig::in_directory(&dir), &Library::current())?;
    let host = Arc::new(host);
    let backend =
        Arc::new(ScriptBackend::open(Arc::clone(&host), PartitionConfig::default()).await?);
    let engine = Engine::start(Arc::clone(&backend), EngineConfig::default()).await?;
    let scheduler = Arc::new(Scheduler::start(Arc::clone(&backend), Arc::new(SystemIds)).await?);
    let story = Story::begin();

    let mut ids = submit(&backend, vec![cast::orphan(&backend.partition_config())]).await?;
    worker::vanish(&scheduler, &story).await?;
    ids.extend(submit(&backend, cast::others(&backend.partition_config())).await?);
    story.tell(&format!("{} more executions are submitted; three workers start", ids.len() - 1));
    let workers: Vec<_> = ["ada", "grace", "linus"]
        .map(|name| {
            tokio::spawn(worker::run(name, backend.clone(), scheduler.clone(), story.clone()))
        })
        .into();
    let ended = wait_for_all(&backend, &ids).await?;
    story.conclude(&ended, engine.stats());

    workers.iter().for_each(tokio::task::JoinHandle::abort);
    engine.shutdown().await;
    host.close().await;
    Ok(())
}

async fn submit(
    backend: &Backend,
    cast: Vec<NewExecution>,
) -> Result<Vec<ExecutionId>, EngineError> {
    let answers = backend.create_many(cast).await;
    answers.into_iter().map(|answer| answer.map(|created| created.execution_id())).collect()
}

/// Watches until every execution has ended. The engine and the workers do the rest.
async fn wait_for_all(
    backend: &Backend,
    ids: &[ExecutionId],
) -> Result<Vec<ExecutionSnapshot>, EngineError> {
    let mut ended = Vec::new();
    for id in ids {
        loop {
            let snapshot = backend.describe_execution(*id).await?;
            match snapshot {
                Some(snapshot) if snapshot.completed_at.is_some() => break ended.push(snapshot),
                _ => tokio::time::sleep(Duration::from_millis(20)).await,
            }
        }
    }
    Ok(ended)
}
