//! What becomes of an execution: renewals, outcomes, and interventions from outside.

use ff_core::backend::{FailOutcome, FailureClass, FailureReason, Handle, LeaseRenewal};
use ff_core::contracts::{
    CancelSource, PriorityChange, RevokeOutcome, Tags, TickReport, check_tags,
};
use ff_core::error::EngineError;
use ff_core::limits;
use ff_core::partition::{Partition, PartitionConfig};
use ff_core::state::PublicState;
use ff_core::types::{ExecutionId, LeaseId, Moment, RequestId};

use super::ScriptBackend;
use crate::calls::cancel::CancelExecution;
use crate::calls::change::{ChangePriority, ChangePriorityReply, SetExecutionTags};
use crate::calls::complete::CompleteExecution;
use crate::calls::fail::{FailExecution, FailExecutionReply};
use crate::calls::lease::{RenewLease, RenewLeaseReply, RevokeLease, RevokeLeaseReply};
use crate::calls::pause::{DelayExecution, MoveToWaitingChildren};
use crate::calls::progress::UpdateProgress;
use crate::calls::replay::{ReplayExecution, ReplayExecutionReply};
use crate::calls::tick::{Tick, TickReply};
use crate::host::Host;
use crate::ids::{IdSource, SystemIds};
use crate::wire::Rest;

/// The id of a change from outside: every one has one, so that its repetition is recognised.
fn named(request_id: Option<RequestId>) -> Option<RequestId> {
    Some(request_id.unwrap_or_else(|| RequestId::from_uuid(SystemIds.random())))
}

/// How many events a partition's log keeps: its share of what all logs may keep together.
fn log_length_max(config: &PartitionConfig) -> u64 {
    let share = limits::EVENT_LOG_TOTAL / u64::from(config.num_flow_partitions);
    share.clamp(1, limits::EVENT_LOG_LENGTH)
}

impl<H: Host> ScriptBackend<H> {
    pub(super) async fn renew_lease(&self, handle: &Handle) -> Result<LeaseRenewal, EngineError> {
        let call = RenewLease {
            execution_id: handle.execution_id,
            lease_id: handle.fence.lease_id,
            lease_epoch: handle.fence.lease_epoch,
            attempt_id: handle.fence.attempt_id,
            lease_ttl_ms: handle.lease_ttl_ms,
        };
        let RenewLeaseReply::Renewed { lease_expires_at, lease_epoch } =
            self.call_on(handle.execution_id, call).await?;
        Ok(LeaseRenewal { expires_at: lease_expires_at, lease_epoch })
    }

    pub(super) async fn report_progress(
        &self,
        handle: &Handle,
        percent: Option<u8>,
        message: Option<String>,
    ) -> Result<(), EngineError> {
        let call = UpdateProgress {
            execution_id: handle.execution_id,
            lease_id: handle.fence.lease_id,
            lease_epoch: handle.fence.lease_epoch,
            attempt_id: handle.fence.attempt_id,
            progress_pct: percent.map(|percent| percent.to_string()).unwrap_or_default(),
            progress_message: message.unwrap_or_default(),
        };
        self.call_on(handle.execution_id, call).await.map(drop)
    }

    pub(super) async fn complete_attempt(
        &self,
        handle: &Handle,
        result: Vec<u8>,
    ) -> Result<(), EngineError> {
        let call = CompleteExecution {
            execution_id: handle.execution_id,
            lease_id: handle.fence.lease_id,
            lease_epoch: handle.fence.lease_epoch,
            attempt_id: handle.fence.attempt_id,
            result,
        };
        self.call_on(handle.execution_id, call).await.map(drop)
    }

    pub(super) async fn fail_attempt(
        &self,
        handle: &Handle,
        reason: FailureReason,
        class: FailureClass,
    ) -> Result<FailOutcome, EngineError> {
        reason.validate()?;
        class.validate()?;
        let call = FailExecution {
            execution_id: handle.execution_id,
            lease_id: handle.fence.lease_id,
            lease_epoch: handle.fence.lease_epoch,
            attempt_id: handle.fence.attempt_id,
            failure_reason: reason.message,
            failure_category: class.category().to_owned(),
            failure_detail: reason.detail.unwrap_or_default(),
            is_final: class.is_final(),
        };
        let (FailExecutionReply::Failed { delay_until, .. }
        | FailExecutionReply::FailedBefore { delay_until, .. }) =
            self.call_on(handle.execution_id, call).await?;
        Ok(match delay_until {
            Some(delay_until) => FailOutcome::RetryScheduled { delay_until },
            None => FailOutcome::TerminalFailed,
        })
    }

    pub(super) async fn cancel_attempt(
        &self,
        handle: &Handle,
        reason: &str,
    ) -> Result<(), EngineError> {
        let call = CancelExecution {
            execution_id: handle.execution_id,
            lease_id: Some(handle.fence.lease_id),
            lease_epoch: Some(handle.fence.lease_epoch),
            attempt_id: Some(handle.fence.attempt_id),
            reason: reason.to_owned(),
            source: "lease_holder".to_owned(),
            request_id: None,
        };
        self.call_on(handle.execution_id, call).await.map(drop)
    }

    pub(super) async fn delay_attempt(
        &self,
        handle: &Handle,
        delay_until: Moment,
    ) -> Result<(), EngineError> {
        let call = DelayExecution {
            execution_id: handle.execution_id,
            lease_id: handle.fence.lease_id,
            lease_epoch: handle.fence.lease_epoch,
            attempt_id: handle.fence.attempt_id,
            delay_until,
        };
        self.call_on(handle.execution_id, call).await.map(drop)
    }

    pub(super) async fn wait_for_children(&self, handle: &Handle) -> Result<(), EngineError> {
        let call = MoveToWaitingChildren {
            execution_id: handle.execution_id,
            lease_id: handle.fence.lease_id,
            lease_epoch: handle.fence.lease_epoch,
            attempt_id: handle.fence.attempt_id,
        };
        self.call_on(handle.execution_id, call).await.map(drop)
    }

    pub(super) async fn cancel_from_outside(
        &self,
        execution_id: ExecutionId,
        reason: &str,
        source: CancelSource,
        request_id: Option<RequestId>,
    ) -> Result<(), EngineError> {
        let call = CancelExecution {
            execution_id,
            lease_id: None,
            lease_epoch: None,
            attempt_id: None,
            reason: reason.to_owned(),
            source: source.as_str().to_owned(),
            request_id: named(request_id),
        };
        self.call_on(execution_id, call).await.map(drop)
    }

    pub(super) async fn revoke(
        &self,
        execution_id: ExecutionId,
        expected_lease_id: Option<LeaseId>,
        reason: &str,
        request_id: Option<RequestId>,
    ) -> Result<RevokeOutcome, EngineError> {
        let (reason, request_id) = (reason.to_owned(), named(request_id));
        let call = RevokeLease { execution_id, expected_lease_id, reason, request_id };
        match self.call_on(execution_id, call).await? {
            RevokeLeaseReply::Revoked { lease_id, lease_epoch, .. } => {
                Ok(RevokeOutcome::Revoked { lease_id, lease_epoch })
            }
            RevokeLeaseReply::NotHeld { reason } if reason == "already_revoked" => {
                Ok(RevokeOutcome::AlreadyRevoked)
            }
            RevokeLeaseReply::NotHeld { .. } => Ok(RevokeOutcome::AlreadyExpired),
        }
    }

    pub(super) async fn set_priority(
        &self,
        execution_id: ExecutionId,
        priority: u16,
        request_id: Option<RequestId>,
    ) -> Result<PriorityChange, EngineError> {
        let call = ChangePriority { execution_id, priority, request_id: named(request_id) };
        let (ChangePriorityReply::Changed { old_priority, new_priority }
        | ChangePriorityReply::ChangedBefore { old_priority, new_priority }) =
            self.call_on(execution_id, call).await?;
        Ok(PriorityChange { old: old_priority, new: new_priority })
    }

    pub(super) async fn replay_ended(
        &self,
        execution_id: ExecutionId,
        reason: &str,
        requested_by: &str,
        request_id: Option<RequestId>,
    ) -> Result<PublicState, EngineError> {
        let call = ReplayExecution {
            execution_id,
            reason: reason.to_owned(),
            requested_by: requested_by.to_owned(),
            deadline_at: None,
            expected_replay_count: None,
            request_id: named(request_id),
        };
        let (ReplayExecutionReply::Replayed { public_state, .. }
        | ReplayExecutionReply::ReplayedBefore { public_state, .. }) =
            self.call_on(execution_id, call).await?;
        Ok(public_state)
    }

    pub(super) async fn tag(
        &self,
        execution_id: ExecutionId,
        tags: Tags,
        request_id: Option<RequestId>,
    ) -> Result<(), EngineError> {
        check_tags(&tags)?;
        let tags = Rest(tags.into_iter().flat_map(|(name, value)| [name, value]).collect());
        let call = SetExecutionTags { execution_id, request_id: named(request_id), tags };
        self.call_on(execution_id, call).await.map(drop)
    }

    pub(super) async fn tick_partition(
        &self,
        partition: Partition,
        max: u32,
    ) -> Result<TickReport, EngineError> {
        let log_length_max = Some(log_length_max(&self.config));
        let call = Tick { items_max: max, log_length_max };
        let TickReply::Ticked {
            now,
            next_due_at,
            late_ms,
            promoted,
            lapsed,
            timed_out,
            expired,
            ungranted,
            purged,
            forgotten,
            corrected,
        } = self.call(partition, call).await?;
        Ok(TickReport {
            promoted,
            lapsed,
            timed_out,
            expired,
            purged,
            granted_back: ungranted,
            forgotten,
            corrected,
            next_due_at,
            late_ms,
            now,
            more: next_due_at.is_some_and(|at| at <= now),
        })
    }
}
