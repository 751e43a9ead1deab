//! Claiming by grant.

use ff_conformance::record::{events_of, listed_in, record};
use ff_conformance::{
    Deployment, GRANT_MS, Held, INSTANCE, LANE, LEASE_MS, WORKER, conformance, instance, lane,
    worker,
};
use ff_core::error::Code;
use ff_core::state::{AttemptLifecycle, AttemptType, PublicState};
use ff_core::types::{AttemptId, ExecutionId, GrantId, LeaseId};
use ff_script::calls::claim::{
    AttemptKind, ClaimExecution, ClaimExecutionReply, ClaimResumedExecution,
    ClaimResumedExecutionReply, ClaimRow, ReclaimExecution, ReclaimExecutionReply,
};

/// Reserves a waiting execution and prepares the claim.
pub(crate) async fn granted(d: &Deployment, execution_id: ExecutionId) -> ClaimExecution {
    let grant = d.claim_grant_call(execution_id);
    d.call(grant.clone()).await;
    claim(d, execution_id, grant.grant_id)
}

fn claim(d: &Deployment, execution_id: ExecutionId, grant_id: GrantId) -> ClaimExecution {
    ClaimExecution {
        execution_id,
        worker_id: worker(WORKER),
        worker_instance_id: instance(INSTANCE),
        lane: None,
        grant_id,
        lease_id: LeaseId::from_uuid(d.new_uuid()),
        lease_ttl_ms: LEASE_MS,
        attempt_id: AttemptId::from_uuid(d.new_uuid()),
    }
}

/// The claim that goes on with a paused attempt.
pub(crate) fn resumed(claim: ClaimExecution) -> ClaimResumedExecution {
    ClaimResumedExecution {
        execution_id: claim.execution_id,
        worker_id: claim.worker_id,
        worker_instance_id: claim.worker_instance_id,
        lane: claim.lane,
        grant_id: claim.grant_id,
        lease_id: claim.lease_id,
        lease_ttl_ms: claim.lease_ttl_ms,
    }
}

fn reclaimed(claim: ClaimExecution) -> ReclaimExecution {
    ReclaimExecution {
        execution_id: claim.execution_id,
        worker_id: claim.worker_id,
        worker_instance_id: claim.worker_instance_id,
        lane: claim.lane,
        grant_id: claim.grant_id,
        lease_id: claim.lease_id,
        lease_ttl_ms: claim.lease_ttl_ms,
        attempt_id: claim.attempt_id,
    }
}

/// An execution that lost its lease, reserved for the usual worker, and the claim for it.
pub(crate) async fn lost(d: &Deployment) -> (Held, ReclaimExecution) {
    let held = d.create_and_claim().await;
    d.advance(LEASE_MS).await;
    d.tick().await;
    let grant = d.reclaim_grant_call(held.id);
    d.call(grant.clone()).await;
    let call = reclaimed(claim(d, held.id, grant.0.grant_id));
    (held, call)
}

async fn take(d: &Deployment, call: ClaimExecution) -> ClaimRow {
    match d.call(call).await {
        ClaimExecutionReply::Claimed { claim } => claim,
        ClaimExecutionReply::ClaimedBefore { claim } => panic!("claimed before: {claim:?}"),
    }
}

conformance! {
    async fn a_grant_becomes_a_lease(d: &Deployment) {
        let id = d.create().payload(b"input").send().await;
        let call = granted(d, id).await;
        let row = take(d, call.clone()).await;
        assert_eq!((row.execution_id, row.lease_id), (id, call.lease_id));
        assert_eq!(row.attempt_id, call.attempt_id);
        assert_eq!((row.lease_epoch.get(), row.attempt_index.get()), (1, 0));
        assert_eq!(row.lease_expires_at, d.now().plus_millis(LEASE_MS));
        assert_eq!(row.attempt_kind, AttemptKind::New(AttemptType::Initial));
        assert_eq!(row.payload, b"input");
        let dump = d.dump().await;
        assert_eq!(listed_in(&dump, id), ["leases"]);
        assert_eq!(events_of(&dump, id), ["created", "granted claim", "claimed 0 initial"]);
        let left = record(&dump, id).into_keys().any(|field| field.starts_with('g'));
        assert!(!left, "a grant works once");
        d.call(Held::from(row).complete(b"")).await;
    }

    async fn a_lost_reply_is_answered_again(d: &Deployment) {
        let id = d.create_one().await;
        let call = granted(d, id).await;
        let row = take(d, call.clone()).await;
        d.advance(1000).await;
        let again = d.call(call).await;
        assert_eq!(again, ClaimExecutionReply::ClaimedBefore { claim: row });
    }

    async fn a_grant_is_bound_to_its_worker_process_id_and_lane(d: &Deployment) {
        let id = d.create_one().await;
        let right = granted(d, id).await;
        let wrong = [
            ClaimExecution { worker_id: worker("another"), ..right.clone() },
            ClaimExecution { worker_instance_id: instance("worker-2"), ..right.clone() },
            ClaimExecution { grant_id: GrantId::from_uuid(d.new_uuid()), ..right.clone() },
            ClaimExecution { lane: Some(lane("other")), ..right.clone() },
        ];
        for call in wrong {
            assert_eq!(d.refused(call).await, Code::InvalidClaimGrant);
        }
        take(d, ClaimExecution { lane: Some(lane(LANE)), ..right }).await;
    }

    async fn without_a_grant_nothing_is_claimed(d: &Deployment) {
        let id = d.create_one().await;
        let call = claim(d, id, GrantId::from_uuid(d.new_uuid()));
        assert_eq!(d.refused(call).await, Code::InvalidClaimGrant);
    }

    async fn a_grant_counts_until_its_last_millisecond(d: &Deployment) {
        let id = d.create_one().await;
        let call = granted(d, id).await;
        d.advance(GRANT_MS).await;
        assert_eq!(d.refused(call).await, Code::ClaimGrantExpired);
        let call = granted(d, id).await;
        d.advance(GRANT_MS - 1).await;
        take(d, call).await;
    }

    async fn what_cannot_be_leased_is_refused(d: &Deployment) {
        let unknown = claim(d, d.new_id(), GrantId::from_uuid(d.new_uuid()));
        assert_eq!(d.refused(unknown.clone()).await, Code::ExecutionNotFound);
        assert_eq!(d.refused(resumed(unknown.clone())).await, Code::ExecutionNotFound);
        assert_eq!(d.refused(reclaimed(unknown)).await, Code::ExecutionNotFound);
        let id = d.create().deadline_in(10).send().await;
        let call = granted(d, id).await;
        d.advance(10).await;
        assert_eq!(d.refused(call.clone()).await, Code::ExecutionNotLeaseable);
        assert_eq!(d.refused(resumed(call.clone())).await, Code::ExecutionNotLeaseable);
        d.tick().await;
        assert_eq!(d.refused(call.clone()).await, Code::ExecutionNotLeaseable);
        let held = d.create_and_claim().await;
        let call = ClaimExecution { execution_id: held.id, ..call };
        assert_eq!(d.refused(call.clone()).await, Code::LeaseConflict);
        assert_eq!(d.refused(resumed(call)).await, Code::LeaseConflict);
    }

    async fn a_paused_attempt_is_claimed_as_a_resumed_one(d: &Deployment) {
        let old = d.create_and_claim().await;
        d.call(old.wait_for_children()).await;
        let call = granted(d, old.id).await;
        assert_eq!(d.refused(call.clone()).await, Code::UseClaimResumedExecution);
        let call = resumed(call);
        let reply = d.call(call.clone()).await;
        let ClaimResumedExecutionReply::Claimed { claim } = reply else { panic!("{reply:?}") };
        assert_eq!((claim.attempt_kind, claim.attempt_id), (AttemptKind::Resumed, old.attempt_id));
        assert_eq!((claim.lease_epoch.get(), claim.attempt_index.get()), (2, 0));
        let again = d.call(call).await;
        assert_eq!(again, ClaimResumedExecutionReply::ClaimedBefore { claim: claim.clone() });
        let events = events_of(&d.dump().await, old.id);
        assert_eq!(events.last().map(String::as_str), Some("claimed 0 resumed"));
        d.call(Held::from(claim).complete(b"")).await;
        assert_eq!(d.attempts(old.id).await.len(), 1);
    }

    async fn a_fresh_execution_is_not_claimed_as_a_resumed_one(d: &Deployment) {
        let id = d.create_one().await;
        let call = granted(d, id).await;
        assert_eq!(d.refused(resumed(call)).await, Code::NotAResumedExecution);
    }

    async fn a_resumed_claim_needs_the_right_and_living_grant(d: &Deployment) {
        let old = d.create_and_claim().await;
        d.call(old.wait_for_children()).await;
        let call = resumed(granted(d, old.id).await);
        let wrong = ClaimResumedExecution { worker_id: worker("another"), ..call.clone() };
        assert_eq!(d.refused(wrong).await, Code::InvalidClaimGrant);
        d.advance(GRANT_MS).await;
        assert_eq!(d.refused(call).await, Code::ClaimGrantExpired);
    }

    async fn a_lost_attempt_is_replaced_by_a_new_one(d: &Deployment) {
        let (old, call) = lost(d).await;
        let reply = d.call(call.clone()).await;
        let ReclaimExecutionReply::Claimed { claim } = reply else { panic!("{reply:?}") };
        assert_eq!(claim.attempt_kind, AttemptKind::New(AttemptType::Reclaim));
        assert_eq!((claim.lease_epoch.get(), claim.attempt_index.get()), (2, 1));
        assert_eq!(claim.attempt_id, call.attempt_id);
        let again = d.call(call).await;
        assert_eq!(again, ReclaimExecutionReply::ClaimedBefore { claim: claim.clone() });
        let attempts = d.attempts(old.id).await;
        assert_eq!(attempts.len(), 2);
        assert_eq!(attempts[0].state, AttemptLifecycle::InterruptedReclaimed);
        assert_eq!(attempts[0].id, old.attempt_id);
        assert_eq!(attempts[1].cause.as_deref(), Some("lease_expired"));
        let described = d.describe(old.id).await;
        assert_eq!(described.public_state(), PublicState::Active);
        assert_eq!((described.reclaim_count, described.total_attempt_count), (1, 2));
    }

    async fn a_reclaim_needs_the_right_and_living_grant(d: &Deployment) {
        let (_, call) = lost(d).await;
        for wrong in [
            ReclaimExecution { worker_id: worker("another"), ..call.clone() },
            ReclaimExecution { worker_instance_id: instance("another-1"), ..call.clone() },
            ReclaimExecution { grant_id: GrantId::from_uuid(d.new_uuid()), ..call.clone() },
            ReclaimExecution { lane: Some(lane("other")), ..call.clone() },
        ] {
            assert_eq!(d.refused(wrong).await, Code::InvalidClaimGrant);
        }
        d.advance(GRANT_MS).await;
        assert_eq!(d.refused(call).await, Code::ClaimGrantExpired);
    }

    async fn what_was_not_lost_is_not_reclaimed(d: &Deployment) {
        let id = d.create_one().await;
        let call = reclaimed(granted(d, id).await);
        assert_eq!(d.refused(call).await, Code::ExecutionNotReclaimable);
    }

    async fn what_was_lost_too_often_is_not_reclaimed(d: &Deployment) {
        d.create().policy(r#"{"max_reclaim_count":0}"#).send().await;
        let held = d.claim(LANE).await;
        d.advance(LEASE_MS).await;
        d.tick().await;
        let call = reclaimed(claim(d, held.id, GrantId::from_uuid(d.new_uuid())));
        assert_eq!(d.refused(call).await, Code::MaxRetriesExhausted);
    }
}
