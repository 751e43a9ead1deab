//! Who works on what.

use ff_core::contracts::WorkerRecord;

use super::Client;
use crate::error::{Context as _, SdkError};

impl Client {
    /// The connected workers, sorted by instance: what each takes, and how many tasks it runs of
    /// how many it may. One that died vanishes when its registration runs out.
    pub async fn workers(&self) -> Result<Vec<WorkerRecord>, SdkError> {
        Ok(self.engine().list_workers().await.context("list_workers")?.workers)
    }
}
