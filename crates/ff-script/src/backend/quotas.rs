//! Quota policies: each lives in a partition of its own family, and all partitions of executions
//! know that it exists.

use ff_core::contracts::{
    CreateQuota, PartitionFailure, QuotaCreated, QuotaDeleted, QuotaEntry, QuotaHolder,
    QuotaHolders, QuotaHoldersQuery, QuotaLimits, QuotaList, QuotaQuery, QuotaRecord, UpdateQuota,
};
use ff_core::engine_backend::{Answer, Quotas};
use ff_core::error::EngineError;
use ff_core::partition::{Partition, PartitionFamily};
use ff_core::types::{ExecutionId, QuotaPolicyId};

use super::facts::Decided;
use super::{FIRST, ScriptBackend};
use crate::calls::quota::{
    CreateQuotaPolicy, CreateQuotaPolicyReply, DeleteQuotaPolicy, DeleteQuotaPolicyReply,
    DescribeQuotaPolicy, DescribeQuotaPolicyReply, ListQuotaHolders, ListQuotaHoldersReply,
    NoteQuotaPolicy, NoteQuotaPolicyReply, UpdateQuotaPolicy, UpdateQuotaPolicyReply,
};
use crate::host::Host;
use crate::ids::{IdSource, SystemIds};

/// The word before the ids of policies in facts.
const FACT: &str = "quota";

/// A call that says what the limits of a policy are.
macro_rules! with_limits {
    ($call:ident, $id:expr, $limits:expr) => {
        $call {
            quota_policy_id: $id,
            window_seconds: $limits.window_seconds,
            max_requests_per_window: $limits.max_requests_per_window,
            max_concurrent: $limits.max_concurrent,
            jitter_ms: $limits.jitter_ms,
        }
    };
}

impl<H: Host + ?Sized> Quotas for ScriptBackend<H> {
    fn create_quota(&self, request: CreateQuota) -> Answer<'_, QuotaCreated> {
        Box::pin(async move {
            let CreateQuota { quota_policy_id, limits } = request;
            limits.validate()?;
            let minted = || QuotaPolicyId::from_uuid(SystemIds.ordered());
            let id = quota_policy_id.unwrap_or_else(minted);
            let call = with_limits!(CreateQuotaPolicy, id, limits);
            let changed = match self.call(self.quota_home(id), call).await? {
                CreateQuotaPolicyReply::Created { .. } => true,
                CreateQuotaPolicyReply::Known { .. } => false,
            };
            // Executions may name it when it is there, and not before.
            let failed = self.note_quota(id, limits).await?;
            Ok(QuotaCreated { quota_policy_id: id, changed, limits, failed })
        })
    }

    fn describe_quota(
        &self,
        quota_policy_id: QuotaPolicyId,
        query: QuotaQuery,
    ) -> Answer<'_, QuotaRecord> {
        Box::pin(async move {
            query.validate()?;
            let read = self.read_quota(quota_policy_id, query.key).await;
            read.map(|(record, _)| record)
        })
    }

    fn update_quota(
        &self,
        quota_policy_id: QuotaPolicyId,
        request: UpdateQuota,
    ) -> Answer<'_, QuotaCreated> {
        Box::pin(async move {
            let limits = request.limits;
            limits.validate()?;
            let call = with_limits!(UpdateQuotaPolicy, quota_policy_id, limits);
            let changed = match self.call(self.quota_home(quota_policy_id), call).await? {
                UpdateQuotaPolicyReply::Updated { .. } => true,
                UpdateQuotaPolicyReply::Known { .. } => false,
            };
            let failed = self.note_quota(quota_policy_id, limits).await?;
            Ok(QuotaCreated { quota_policy_id, changed, limits, failed })
        })
    }

    fn delete_quota(&self, quota_policy_id: QuotaPolicyId) -> Answer<'_, QuotaDeleted> {
        Box::pin(async move {
            // Nobody may name it any more when it is gone.
            let failed = self.note_quota(quota_policy_id, QuotaLimits::default()).await?;
            let call = DeleteQuotaPolicy { quota_policy_id };
            let deleted = match self.call(self.quota_home(quota_policy_id), call).await? {
                DeleteQuotaPolicyReply::Deleted {} => true,
                DeleteQuotaPolicyReply::Gone {} => false,
            };
            Ok(QuotaDeleted { deleted, failed })
        })
    }

    fn list_quotas(&self) -> Answer<'_, QuotaList> {
        Box::pin(async move {
            let facts = self.all_facts().await?;
            let quotas = facts.of(FACT).map(|(id, text)| entry(id, text));
            Ok(QuotaList { quotas: quotas.collect::<Result<_, _>>()? })
        })
    }

    fn list_quota_holders(
        &self,
        quota_policy_id: QuotaPolicyId,
        query: QuotaHoldersQuery,
    ) -> Answer<'_, QuotaHolders> {
        Box::pin(async move {
            let limit = query.checked_limit()?;
            QuotaQuery::of(query.key.clone()).validate()?;
            let call = ListQuotaHolders { quota_policy_id, quota_key: query.key, limit };
            let ListQuotaHoldersReply::Holders { holders, keys_awaited } =
                self.call(self.quota_home(quota_policy_id), call).await?;
            let holder = |(execution_id, since)| QuotaHolder { execution_id, since };
            Ok(QuotaHolders { holders: holders.into_iter().map(holder).collect(), keys_awaited })
        })
    }
}

impl<H: Host + ?Sized> ScriptBackend<H> {
    /// The partition of a policy.
    fn quota_home(&self, id: QuotaPolicyId) -> Partition {
        self.config.shared_partition_of(PartitionFamily::Quota, id.as_uuid())
    }

    /// How a key of a policy stands, and who has run under it for longest.
    pub(super) async fn read_quota(
        &self,
        quota_policy_id: QuotaPolicyId,
        key: String,
    ) -> Result<(QuotaRecord, Vec<ExecutionId>), EngineError> {
        let call = DescribeQuotaPolicy { quota_policy_id, quota_key: key.clone() };
        let DescribeQuotaPolicyReply::Described {
            policy,
            keys_awaited,
            running,
            in_window,
            partitions_waiting,
            opens_at,
            longest,
        } = self.call(self.quota_home(quota_policy_id), call).await?;
        let limits = QuotaLimits {
            window_seconds: policy.window_seconds,
            max_requests_per_window: policy.max_requests_per_window,
            max_concurrent: policy.max_concurrent,
            jitter_ms: policy.jitter_ms,
        };
        let record = QuotaRecord {
            quota_policy_id,
            limits,
            created_at: policy.created_at,
            changed_at: policy.changed_at,
            keys_awaited,
            key,
            running,
            in_window,
            partitions_waiting,
            opens_at,
        };
        Ok((record, longest.0))
    }

    /// Makes a policy known to all partitions, or, without limits, forgotten.
    async fn note_quota(
        &self,
        id: QuotaPolicyId,
        limits: QuotaLimits,
    ) -> Result<Vec<PartitionFailure>, EngineError> {
        let call = with_limits!(NoteQuotaPolicy, id, limits);
        let decided = match self.call(FIRST, call).await? {
            NoteQuotaPolicyReply::Changed { revision, before, name, value } => {
                Decided::Changed { revision, before, name, value }
            }
            NoteQuotaPolicyReply::Known { revision, installed, .. } => {
                Decided::Known { revision, installed }
            }
        };
        Ok(self.spread(decided).await)
    }
}

/// A policy as all partitions know it.
fn entry(id: &str, text: &str) -> Result<QuotaEntry, EngineError> {
    let corrupt = |what: String| EngineError::corrupt("fact", FACT, what);
    let quota_policy_id = id.parse().map_err(|_| corrupt(id.to_owned()))?;
    let limits = serde_json::from_str(text).map_err(|error| corrupt(error.to_string()))?;
    Ok(QuotaEntry { quota_policy_id, limits })
}
