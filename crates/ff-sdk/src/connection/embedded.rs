//! A store inside this process.

use std::sync::Arc;

use ff_backend_embedded::{EmbeddedConfig, EmbeddedHost, OpenError};
use ff_core::partition::PartitionConfig;
use ff_engine::{Engine, EngineConfig};
use ff_script::library::Library;
use futures_core::future::BoxFuture;

use super::Parts;
use super::hosted::{self, Closing};
use crate::error::SdkError;

pub(super) async fn open(
    store: EmbeddedConfig,
    partitions: Option<PartitionConfig>,
    run_engine: bool,
) -> Result<Parts, SdkError> {
    // Reading a data directory back blocks for as long as it takes.
    let opened = tokio::task::spawn_blocking(|| EmbeddedHost::open(store, &Library::current()));
    let opened = opened.await.expect("opening a store does not panic and is not cancelled");
    let host = Arc::new(opened.map_err(not_opened)?);
    let backend = hosted::open_deployment(&host, partitions).await;
    let backend = Arc::new(backend.map_err(|error| error.in_context("open"))?);
    let engine = match run_engine {
        false => None,
        true => {
            let started = Engine::start(Arc::clone(&backend), EngineConfig::default()).await;
            Some(started.map_err(|error| error.in_context("engine"))?)
        }
    };
    Ok(hosted::parts(backend, engine, None))
}

fn not_opened(error: OpenError) -> SdkError {
    let field = match &error {
        OpenError::Store(_) => "directory",
        _ => "embedded",
    };
    SdkError::config("backend_config", field, error)
}

impl Closing for EmbeddedHost {
    fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {
            // One that takes too long says so itself.
            let _in_time = EmbeddedHost::close(self).await;
        })
    }

    fn stopped(&self) -> BoxFuture<'_, String> {
        Box::pin(EmbeddedHost::stopped(self))
    }
}
