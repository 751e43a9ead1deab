//! What the embedded store and Valkey have in common: a host that runs the function library.

use std::sync::Arc;

use ff_core::completion_backend::CompletionBackend;
use ff_core::engine_backend::{Answer, EngineBackend};
use ff_core::error::{Code, EngineError};
use ff_core::partition::PartitionConfig;
use ff_core::work_source::WorkSource;
use ff_engine::Engine;
use ff_scheduler::Scheduler;
use ff_script::backend::{Completions, ScriptBackend};
use ff_script::host::Host;
use ff_script::ids::SystemIds;
use futures_core::future::BoxFuture;
use tokio::sync::{Mutex, OnceCell};

use super::{Another, Opener, Parts};
use crate::endings::Endings;

/// Everything over a host whose deployment is open.
pub(super) fn parts<H: Host + Closing>(
    backend: Arc<ScriptBackend<H>>,
    engine: Option<Engine>,
    again: Option<Again>,
) -> Parts {
    let completion: Arc<dyn CompletionBackend> = Arc::new(Completions(Arc::clone(&backend)));
    Parts {
        endings: Endings::from_host(Arc::clone(backend.host())),
        engine: Arc::clone(&backend) as Arc<dyn EngineBackend>,
        completion: Some(completion),
        listing: None,
        work: OnceCell::new(),
        opener: Box::new(Hosted { backend, engine: Mutex::new(engine), again }),
    }
}

/// Opens the deployment that is there, or a new one, unless the counts are prescribed.
pub(super) async fn open_deployment<H: Host>(
    host: &Arc<H>,
    wanted: Option<PartitionConfig>,
) -> Result<ScriptBackend<H>, EngineError> {
    let first = ScriptBackend::open(Arc::clone(host), wanted.unwrap_or_default()).await;
    match (wanted, first) {
        (None, Err(error)) => match existing(&error) {
            Some(counts) => ScriptBackend::open(Arc::clone(host), counts).await,
            None => Err(error),
        },
        (_, first) => first,
    }
}

/// The counts of a deployment that refused others.
pub(super) fn existing(error: &EngineError) -> Option<PartitionConfig> {
    let [flow, budget, quota] = error.details() else { return None };
    (error.code() == Some(Code::DeploymentMismatch)).then_some(())?;
    Some(PartitionConfig {
        num_flow_partitions: flow.parse().ok()?,
        num_budget_partitions: budget.parse().ok()?,
        num_quota_partitions: quota.parse().ok()?,
    })
}

/// Starts to listen for work.
pub(super) async fn look_for_work<H: Host>(
    backend: &Arc<ScriptBackend<H>>,
) -> Result<Arc<dyn WorkSource>, EngineError> {
    let scheduler = Scheduler::start(Arc::clone(backend), Arc::new(SystemIds)).await?;
    Ok(Arc::new(scheduler))
}

/// A host that may have something to finish.
pub(super) trait Closing {
    fn close(&self) -> BoxFuture<'_, ()>;

    /// Waits until it stops by itself, and answers why.
    fn stopped(&self) -> BoxFuture<'_, String> {
        Box::pin(std::future::pending())
    }
}

/// Connects once more.
pub(super) type Again = Box<dyn Fn() -> Answer<'static, Another> + Send + Sync>;

struct Hosted<H> {
    backend: Arc<ScriptBackend<H>>,
    engine: Mutex<Option<Engine>>,
    again: Option<Again>,
}

impl<H: Host + Closing> Opener for Hosted<H> {
    fn work(&self) -> Answer<'_, Arc<dyn WorkSource>> {
        Box::pin(look_for_work(&self.backend))
    }

    fn again(&self) -> Option<Answer<'static, Another>> {
        self.again.as_ref().map(|again| again())
    }

    fn stopped(&self) -> BoxFuture<'_, String> {
        self.backend.host().stopped()
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {
            if let Some(engine) = self.engine.lock().await.take() {
                engine.shutdown().await;
            }
            self.backend.host().close().await;
        })
    }
}
