//! Keeps every partition up to date with the facts that the first one has decided, beside whatever
//! else goes on: whoever changes a fact tells all partitions, and this tells those that were missed.

use std::sync::Arc;
use std::time::Duration;

use ff_core::error::EngineError;
use ff_script::backend::{FactsInstalled, ScriptBackend};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::patience::Patience;

/// How often the first partition is asked whether all were seen at its revision.
const LOOKED_AT_EVERY: Duration = Duration::from_secs(30);

/// How often all partitions are looked at, whatever the first one says of them.
const CHECKED_EVERY: Duration = Duration::from_secs(60 * 60);

/// The facts of a store being kept, until this is dropped.
#[derive(Debug)]
pub struct KeptFacts(JoinHandle<()>);

impl KeptFacts {
    pub(crate) fn start(backend: Arc<ScriptBackend>) -> Self {
        Self(tokio::spawn(keep(backend)))
    }
}

impl Drop for KeptFacts {
    fn drop(&mut self) {
        self.0.abort();
    }
}

async fn keep(backend: Arc<ScriptBackend>) {
    loop {
        let losses = backend.host().losses();
        let mut patience = Patience::new();
        while !is_everywhere(backend.install_facts().await) {
            patience.wait().await;
        }
        let checked_at = Instant::now();
        while losses == backend.host().losses()
            && checked_at.elapsed() < CHECKED_EVERY
            && backend.facts_are_installed().await.unwrap_or(true)
        {
            tokio::time::sleep(LOOKED_AT_EVERY).await;
        }
    }
}

/// Tells the log, and answers whether nothing is left to do.
fn is_everywhere(answer: Result<FactsInstalled, EngineError>) -> bool {
    let installed = match answer {
        Ok(installed) => installed,
        Err(error) => {
            tracing::warn!(%error, "facts cannot be read: it is tried again");
            return false;
        }
    };
    if installed.changed > 0 {
        tracing::info!(partitions = installed.changed, "partitions were brought up to date");
    }
    for (partition, error) in &installed.failed {
        let index = partition.index;
        tracing::warn!(partition = index, %error, "facts are not up to date: it is tried again");
    }
    installed.failed.is_empty()
}
