//! What the store answers about an execution, as callers read it.

use ff_core::contracts::{
    AttemptSummary, CancelSummary, ExecutionSnapshot, FailureSummary, HoldSummary, LeaseSummary,
    ProgressSummary, SuspensionRecord,
};
use ff_core::state::StateVector;
use ff_core::types::{AttemptIndex, ExecutionId, WaitpointId};

use crate::calls::describe::DescribeExecutionReply::{self as Described, Execution};

/// Everything about an execution.
pub(super) fn snapshot(execution_id: ExecutionId, of: Described) -> ExecutionSnapshot {
    let (state, current_attempt) = (state(&of), current_attempt(&of));
    let (current_lease, failure) = (current_lease(&of), failure(&of));
    let (cancel, progress, hold) = (cancel(&of), progress(&of), hold(&of));
    let Execution {
        namespace,
        lane,
        kind,
        priority,
        creator,
        blocking_detail,
        created_at,
        started_at,
        ended_at: completed_at,
        last_transition_at,
        last_mutation_at,
        delay_until,
        deadline_at,
        attempt_count: total_attempt_count,
        attempt_timeout_at,
        retry_count,
        reclaim_count,
        replay_count,
        required_capabilities,
        flow_id,
        purge_at,
        policy_json,
        effective_policy: effective_policy_json,
        tags,
        correlation_id,
        suspensions,
        ..
    } = of;
    ExecutionSnapshot {
        execution_id,
        flow_id,
        namespace,
        lane,
        kind,
        creator,
        correlation_id,
        priority,
        public_state: state.public_state,
        state,
        blocking_detail,
        current_attempt,
        current_lease,
        current_waitpoint: suspensions.0.iter().rev().find_map(open_waitpoint),
        suspensions: suspensions.0,
        total_attempt_count,
        retry_count,
        reclaim_count,
        replay_count,
        created_at,
        started_at,
        completed_at,
        last_transition_at,
        last_mutation_at,
        delay_until,
        attempt_timeout_at,
        deadline_at,
        purge_at,
        failure,
        cancel,
        progress,
        hold,
        policy_json,
        effective_policy_json,
        required_capabilities,
        tags,
    }
}

fn state(of: &Described) -> StateVector {
    let Execution {
        lifecycle_phase,
        ownership_state,
        eligibility_state,
        blocking_reason,
        terminal_outcome,
        attempt_state,
        public_state,
        ..
    } = *of;
    StateVector {
        lifecycle_phase,
        ownership_state,
        eligibility_state,
        blocking_reason,
        terminal_outcome,
        attempt_state,
        public_state,
    }
}

fn current_attempt(of: &Described) -> Option<AttemptSummary> {
    let Execution { attempt_id, attempt_type, attempt_count, .. } = *of;
    let attempt_index = AttemptIndex::new(attempt_count.saturating_sub(1));
    Some(AttemptSummary { attempt_id: attempt_id?, attempt_index, attempt_type: attempt_type? })
}

fn current_lease(of: &Described) -> Option<LeaseSummary> {
    let Execution { lease_id, lease_epoch, lease_expires_at, lease_heard_at, .. } = *of;
    let Execution { worker_id, worker_instance_id, .. } = of;
    Some(LeaseSummary {
        lease_id: lease_id?,
        lease_epoch,
        worker_id: worker_id.clone()?,
        worker_instance_id: worker_instance_id.clone()?,
        expires_at: lease_expires_at?,
        heard_at: lease_heard_at,
    })
}

fn failure(of: &Described) -> Option<FailureSummary> {
    let Execution { failure_reason, failure_category, failure_detail, .. } = of;
    Some(FailureSummary {
        reason: failure_reason.clone()?,
        category: failure_category.clone().unwrap_or_default(),
        detail: failure_detail.clone(),
    })
}

fn cancel(of: &Described) -> Option<CancelSummary> {
    let Execution { cancel_reason, cancelled_by, .. } = of;
    Some(CancelSummary {
        reason: cancel_reason.clone().unwrap_or_default(),
        cancelled_by: cancelled_by.clone()?,
    })
}

fn progress(of: &Described) -> Option<ProgressSummary> {
    let Execution { progress_pct, progress_message, progress_at, .. } = of;
    Some(ProgressSummary {
        percent: *progress_pct,
        message: progress_message.clone(),
        updated_at: (*progress_at)?,
    })
}

fn hold(of: &Described) -> Option<HoldSummary> {
    let Execution { hold_reason, held_at, held_by, hold_note, .. } = of;
    Some(HoldSummary {
        blocking_reason: (*hold_reason)?,
        held_at: (*held_at)?,
        requested_by: held_by.clone(),
        reason: hold_note.clone(),
    })
}

/// What an execution is suspended on, if its latest suspension lasts.
fn open_waitpoint(one: &SuspensionRecord) -> Option<WaitpointId> {
    one.closed_at.is_none().then_some(one.waitpoint_id)
}
