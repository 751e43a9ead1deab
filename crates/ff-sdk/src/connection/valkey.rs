//! A Valkey server or cluster.

use std::sync::Arc;

use ff_backend_valkey::{ValkeyConfig, ValkeyHost};
use ff_core::engine_backend::EngineBackend;
use ff_core::error::EngineError;
use ff_core::partition::PartitionConfig;
use ff_engine::{Engine, EngineConfig};
use ff_script::backend::ScriptBackend;
use ff_script::ids::SystemIds;
use ff_script::library::Library;
use futures_core::future::BoxFuture;

use super::hosted::{self, Again, Closing};
use super::{Another, Parts};
use crate::error::SdkError;

pub(super) async fn open(
    config: ValkeyConfig,
    partitions: Option<PartitionConfig>,
    run_engine: bool,
) -> Result<Parts, SdkError> {
    let backend = connect(config.clone(), partitions).await;
    let backend = Arc::new(backend.map_err(|error| error.in_context("connect"))?);
    let counts = backend.partition_config();
    let again: Again = Box::new(move || Box::pin(connect_again(config.clone(), counts)));
    let engine = match run_engine {
        false => None,
        true => {
            // Servers and other processes on this Valkey may tick too.
            let config = EngineConfig::default();
            let started = Engine::start_sharing(Arc::clone(&backend), config, &SystemIds).await;
            Some(started.map_err(|error| error.in_context("engine"))?)
        }
    };
    Ok(hosted::parts(backend, engine, Some(again)))
}

/// The host must know how many partitions to listen to, which only the deployment can say: one with
/// another number than the default is connected to a second time.
async fn connect(
    config: ValkeyConfig,
    partitions: Option<PartitionConfig>,
) -> Result<ScriptBackend<ValkeyHost>, EngineError> {
    let wanted = partitions.unwrap_or_default();
    let host = connect_host(&config, wanted).await?;
    match (partitions, ScriptBackend::open(host, wanted).await) {
        (None, Err(error)) => match hosted::existing(&error) {
            Some(counts) => ScriptBackend::open(connect_host(&config, counts).await?, counts).await,
            None => Err(error),
        },
        (_, opened) => opened,
    }
}

async fn connect_again(
    config: ValkeyConfig,
    counts: PartitionConfig,
) -> Result<Another, EngineError> {
    let host = connect_host(&config, counts).await?;
    let backend = Arc::new(ScriptBackend::open(host, counts).await?);
    let work = hosted::look_for_work(&backend).await?;
    Ok(Another { engine: backend, work })
}

async fn connect_host(
    config: &ValkeyConfig,
    partitions: PartitionConfig,
) -> Result<Arc<ValkeyHost>, EngineError> {
    let config = config.clone().with_flow_partitions(partitions.num_flow_partitions);
    Ok(Arc::new(ValkeyHost::connect(config, Library::current()).await?))
}

impl Closing for ValkeyHost {
    /// The connections end with the host.
    fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(std::future::ready(()))
    }
}
