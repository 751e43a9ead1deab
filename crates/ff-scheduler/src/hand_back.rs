//! Claims that nobody takes any more are handed back, so that no lease has to lapse because a
//! caller went away.

use std::sync::Arc;

use ff_core::contracts::{ClaimRequest, Claimed};
use ff_core::engine_backend::EngineBackend;
use ff_core::error::EngineError;
use ff_core::partition::Partition;
use ff_core::types::TimestampMs;

/// Executions on their way to a caller.
pub(crate) struct Claims {
    backend: Arc<dyn EngineBackend>,
    claimed: Vec<Claimed>,
}

impl Claims {
    pub(crate) fn none(backend: &Arc<dyn EngineBackend>) -> Self {
        Self { backend: Arc::clone(backend), claimed: Vec::new() }
    }

    pub(crate) fn len(&self) -> usize {
        self.claimed.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.claimed.is_empty()
    }

    pub(crate) fn add(&mut self, mut found: Self) {
        self.claimed.append(&mut found.claimed);
    }

    /// The caller has them now.
    pub(crate) fn keep(mut self) -> Vec<Claimed> {
        std::mem::take(&mut self.claimed)
    }
}

impl Drop for Claims {
    fn drop(&mut self) {
        let claimed = std::mem::take(&mut self.claimed);
        if !claimed.is_empty() {
            tokio::spawn(hand_back(Arc::clone(&self.backend), claimed));
        }
    }
}

/// A time that has come gives the execution back at once; its attempt goes on with another worker.
async fn hand_back(backend: Arc<dyn EngineBackend>, claimed: Vec<Claimed>) {
    for task in claimed {
        let given = backend.delay(&task.handle, TimestampMs::new(1)).await;
        if let Err(error) = given {
            let id = task.handle.execution_id;
            tracing::warn!(%id, %error, "could not hand back what nobody took; its lease will lapse");
        }
    }
}

/// Claims in a task of its own: a caller that goes away while the store answers loses nothing.
pub(crate) async fn claim_next(
    backend: &Arc<dyn EngineBackend>,
    partition: Partition,
    request: ClaimRequest,
) -> Result<Claims, EngineError> {
    let backend = Arc::clone(backend);
    let claim = tokio::spawn(async move {
        let claimed = backend.claim_next(partition, request).await?;
        Ok(Claims { backend, claimed })
    });
    claim.await.unwrap_or_else(|stopped| {
        Err(EngineError::Unavailable { op: "claim" }.in_context(stopped.to_string()))
    })
}
