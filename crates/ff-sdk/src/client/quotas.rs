//! Quotas: how many executions with the same key begin within a window, and run at a time.

use ff_core::contracts::{
    CreateQuota, QuotaCreated, QuotaDeleted, QuotaEntry, QuotaHolders, QuotaHoldersQuery,
    QuotaLimits, QuotaQuery, QuotaRecord, UpdateQuota,
};
use ff_core::types::QuotaPolicyId;

use super::Client;
use crate::error::{Context as _, SdkError};

impl Client {
    /// Makes a quota policy. Executions run under it whose policy names it.
    ///
    /// ```
    /// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
    /// # use ff_sdk::{BackendConfig, Client};
    /// use ff_sdk::{CreateQuota, QuotaLimits, QuotaQuery};
    ///
    /// # let client = Client::connect(BackendConfig::embedded_in_memory()).await?;
    /// let ten_at_a_time = CreateQuota { limits: QuotaLimits::at_once(10), ..Default::default() };
    /// let id = client.create_quota(ten_at_a_time).await?.quota_policy_id;
    /// assert_eq!(client.describe_quota(id, QuotaQuery::of("customer-7")).await?.running, 0);
    /// # Ok(())
    /// # }
    /// # tokio::runtime::Runtime::new().unwrap().block_on(example()).unwrap();
    /// ```
    pub async fn create_quota(&self, quota: CreateQuota) -> Result<QuotaCreated, SdkError> {
        self.engine().create_quota(quota).await.context("create_quota")
    }

    /// A quota policy, and how one of its keys stands.
    pub async fn describe_quota(
        &self,
        id: QuotaPolicyId,
        key: QuotaQuery,
    ) -> Result<QuotaRecord, SdkError> {
        self.engine().describe_quota(id, key).await.context("describe_quota")
    }

    /// Gives a quota policy other limits. Who may run under them is let run at once.
    pub async fn update_quota(
        &self,
        id: QuotaPolicyId,
        limits: QuotaLimits,
    ) -> Result<QuotaCreated, SdkError> {
        self.engine().update_quota(id, UpdateQuota { limits }).await.context("update_quota")
    }

    /// Removes a quota policy: its limits do not hold any more.
    pub async fn delete_quota(&self, id: QuotaPolicyId) -> Result<QuotaDeleted, SdkError> {
        self.engine().delete_quota(id).await.context("delete_quota")
    }

    /// All quota policies, by id.
    pub async fn list_quotas(&self) -> Result<Vec<QuotaEntry>, SdkError> {
        Ok(self.engine().list_quotas().await.context("list_quotas")?.quotas)
    }

    /// Who runs under a key of a quota policy, and which of its keys somebody waits for.
    pub async fn list_quota_holders(
        &self,
        id: QuotaPolicyId,
        query: QuotaHoldersQuery,
    ) -> Result<QuotaHolders, SdkError> {
        self.engine().list_quota_holders(id, query).await.context("list_quota_holders")
    }
}
