//! Ending a task and taking the next one, in one call.

use ff_core::backend::{FailOutcome, FailureClass, FailureReason, Handle};
use ff_core::contracts::{ClaimRequest, Finished, FinishedNext, TaskEnd, TaskEnded};
use ff_core::error::EngineError;
use ff_core::types::{LeaseId, TimestampMs};

use super::partition::Holder;
use super::{ScriptBackend, held};
use crate::calls::claim::ClaimRow;
use crate::calls::complete::{CompleteAndClaimNext, CompleteAndClaimNextReply};
use crate::calls::fail::{FailAndClaimNext, FailAndClaimNextReply};
use crate::host::Host;
use crate::wire::{Joined, Rows};

/// What a call answered: how the task ended, what was taken, what is left, and whether it is told
/// again.
type Told = (TaskEnded, Rows<ClaimRow>, Option<i64>, bool);

/// A call of who holds a task, and asks for the next one.
macro_rules! held_and_next {
    ($handle:ident, $next:ident, $call:ident { $($field:ident $(: $value:expr)?),* $(,)? }) => {
        held!($handle, $call {
            $($field $(: $value)?,)*
            lane: $next.lane.clone(),
            capabilities: $next.capabilities.clone(),
            lease_ttl_ms: $next.lease_ttl_ms,
            next_lease_id: only(&$next.lease_ids)?,
            need: $next.from.need.clone(),
            score_max: $next.from.score_max,
            kinds: Joined($next.kinds.clone()),
            namespaces: Joined($next.namespaces.clone()),
        })
    };
}

impl<H: Host + ?Sized> ScriptBackend<H> {
    pub(super) async fn finish(
        &self,
        handle: &Handle,
        end: TaskEnd,
        next: ClaimRequest,
    ) -> Result<FinishedNext, EngineError> {
        end.validate()?;
        next.validate()?;
        let (ended, claims, next_score, is_repetition) = match end {
            TaskEnd::Complete(result) => {
                self.complete_and_claim(handle, result.unwrap_or_default(), &next).await?
            }
            TaskEnd::Fail(reason, class) => {
                self.fail_and_claim(handle, reason, &class, &next).await?
            }
        };
        let claims = self.admit(claims.0).await;
        let next = Holder::of(&next).all_claimed(claims).pop();
        let finished = Finished { ended, next };
        Ok(FinishedNext { finished, next_score, is_repetition })
    }

    async fn complete_and_claim(
        &self,
        handle: &Handle,
        result: Vec<u8>,
        next: &ClaimRequest,
    ) -> Result<Told, EngineError> {
        let call = held_and_next!(handle, next, CompleteAndClaimNext { result });
        Ok(match self.call_on(handle.execution_id, call).await? {
            CompleteAndClaimNextReply::CompletedAndClaimed { claims, next_score, .. } => {
                (TaskEnded::Completed, claims, next_score, false)
            }
            CompleteAndClaimNextReply::CompletedAndClaimedBefore { claims, .. } => {
                (TaskEnded::Completed, claims, None, true)
            }
        })
    }

    async fn fail_and_claim(
        &self,
        handle: &Handle,
        reason: FailureReason,
        class: &FailureClass,
        next: &ClaimRequest,
    ) -> Result<Told, EngineError> {
        let call = held_and_next!(
            handle,
            next,
            FailAndClaimNext {
                failure_reason: reason.message,
                failure_category: class.category().to_owned(),
                failure_detail: reason.detail.unwrap_or_default(),
                is_final: class.is_final(),
            }
        );
        Ok(match self.call_on(handle.execution_id, call).await? {
            FailAndClaimNextReply::FailedAndClaimed { delay_until, claims, next_score, .. } => {
                (TaskEnded::Failed(fail_outcome(delay_until)), claims, next_score, false)
            }
            FailAndClaimNextReply::FailedAndClaimedBefore { delay_until, claims, .. } => {
                (TaskEnded::Failed(fail_outcome(delay_until)), claims, None, true)
            }
        })
    }
}

/// What follows from a failure: a retry at this time, or none.
pub(super) fn fail_outcome(delay_until: Option<TimestampMs>) -> FailOutcome {
    match delay_until {
        Some(delay_until) => FailOutcome::RetryScheduled { delay_until },
        None => FailOutcome::TerminalFailed,
    }
}

fn only(lease_ids: &[LeaseId]) -> Result<LeaseId, EngineError> {
    match lease_ids {
        [lease_id] => Ok(*lease_id),
        _ => Err(EngineError::invalid("lease_ids", "must be one, for the next task")),
    }
}
