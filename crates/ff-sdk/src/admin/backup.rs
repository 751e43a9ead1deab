//! Copies of a running store.

use std::time::Duration;

use ff_api::backup::{Backup, MakeBackup};
use ff_core::operation::{Nothing, Operation, fill};

use super::{FlowFabricAdminClient, read};
use crate::error::SdkError;

/// Longer than copying any store takes.
const PATIENCE: Duration = Duration::from_secs(12 * 3600);

impl FlowFabricAdminClient {
    /// Copies the server's embedded store while it runs, and answers when the copy is whole and on
    /// the disk. Everything that was acknowledged before is in it.
    pub async fn backup(&self, name: &str) -> Result<Backup, SdkError> {
        let request = MakeBackup { name: name.to_owned() };
        let path = fill(MakeBackup::PATH, Nothing {});
        read(&self.answer_within::<MakeBackup>(path, &request, PATIENCE).await?)
    }
}
