//! A connection to a store: inside this process, or on Valkey.

use std::sync::Arc;

use ff_core::completion_backend::CompletionBackend;
use ff_core::engine_backend::{Answer, EngineBackend};
use ff_core::partition::PartitionConfig;
use ff_core::work_source::WorkSource;
use ff_engine::Engine;
use ff_script::backend::Completions;
use ff_script::ids::SystemIds;
use ff_store::{FirstSecrets, KeptFacts, OpenError, Store, StoreConfig, StoreHost};
use futures_core::future::BoxFuture;
use tokio::sync::{Mutex, OnceCell};

use super::{Another, Opener, Parts};
use crate::endings::Endings;
use crate::error::{Context as _, SdkError};
use crate::worker::SharedUpkeep;

pub(super) async fn open(
    config: StoreConfig,
    counts: Option<PartitionConfig>,
    run_engine: bool,
) -> Result<Parts, SdkError> {
    let store = Store::open(config, counts).await.map_err(not_opened)?;
    let engine = match run_engine {
        false => None,
        true => {
            let started = store.start_engine(&SystemIds).await;
            Some(started.context("engine")?)
        }
    };
    // Who runs the timers tells facts to partitions that were missed, too: a server, or a program
    // in its place.
    let facts = engine.as_ref().map(|_| store.keep_facts());
    let backend = store.backend();
    let completion: Arc<dyn CompletionBackend> = Arc::new(Completions(Arc::clone(backend)));
    Ok(Parts {
        endings: Endings::of_host(Arc::clone(backend.host())),
        engine: Arc::clone(backend) as Arc<dyn EngineBackend>,
        completion: Some(completion),
        work: OnceCell::new(),
        upkeep: SharedUpkeep::default(),
        opener: Box::new(Opened {
            kept: Mutex::new(Some((store.install_first_secrets(), facts))),
            engine: Mutex::new(engine),
            store,
        }),
    })
}

fn not_opened(error: OpenError) -> SdkError {
    match error {
        #[cfg(feature = "embedded")]
        OpenError::Embedded(error @ ff_backend_embedded::OpenError::Store(_)) => {
            SdkError::config("backend_config", "directory", error)
        }
        #[cfg(feature = "embedded")]
        OpenError::Embedded(error) => SdkError::config("backend_config", "embedded", error),
        OpenError::Deployment(error) => error.in_context("connect").into(),
    }
}

struct Opened {
    store: Store,
    engine: Mutex<Option<Engine>>,
    /// What is told to all partitions.
    kept: Mutex<Option<(FirstSecrets, Option<KeptFacts>)>>,
}

impl Opener for Opened {
    fn work(&self) -> Answer<'_, Arc<dyn WorkSource>> {
        Box::pin(async { Ok(scheduler(&self.store)) })
    }

    fn again(&self) -> Option<Answer<'static, Another>> {
        match self.store.host() {
            #[cfg(feature = "embedded")]
            StoreHost::Embedded(_) => None,
            #[cfg(feature = "valkey")]
            StoreHost::Valkey { .. } => {
                let store = self.store.clone();
                Some(Box::pin(async move {
                    let store = store.connect_again().await?;
                    Ok(Another {
                        engine: Arc::clone(store.backend()) as _,
                        work: scheduler(&store),
                    })
                }))
            }
        }
    }

    fn stopped(&self) -> BoxFuture<'_, String> {
        Box::pin(self.store.stopped())
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {
            drop(self.kept.lock().await.take());
            if let Some(engine) = self.engine.lock().await.take() {
                engine.shutdown().await;
            }
            self.store.close().await;
        })
    }
}

fn scheduler(store: &Store) -> Arc<dyn WorkSource> {
    Arc::new(store.scheduler(Arc::new(SystemIds)))
}
