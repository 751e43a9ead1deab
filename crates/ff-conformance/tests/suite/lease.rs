//! Extending, revoking and ending leases.

use ff_conformance::record::{events_of, listed_in, record, score};
use ff_conformance::{Deployment, Held, LANE, LEASE_MS, conformance};
use ff_core::error::Code;
use ff_core::state::{AttemptLifecycle, OwnershipState, PublicState};
use ff_core::types::{ExecutionId, LeaseId};
use ff_script::calls::lease::{
    BudgetsReached, MarkLeaseExpired, MarkLeaseExpiredReply, RenewLeaseReply, RevokeLease,
    RevokeLeaseReply,
};
use ff_script::host::Topic;

/// Takes a lease away.
pub(crate) fn revoke(held: &Held, reason: &str) -> RevokeLease {
    let expected_lease_id = Some(held.lease_id);
    RevokeLease {
        execution_id: held.id,
        expected_lease_id,
        reason: reason.to_owned(),
        request_id: None,
    }
}

async fn mark(d: &Deployment, execution_id: ExecutionId) -> MarkLeaseExpiredReply {
    d.call(MarkLeaseExpired { execution_id }).await
}

fn not_due(reason: &str) -> MarkLeaseExpiredReply {
    MarkLeaseExpiredReply::NotDue { reason: reason.to_owned() }
}

fn not_held(reason: &str) -> RevokeLeaseReply {
    RevokeLeaseReply::NotHeld { reason: reason.to_owned() }
}

async fn once_reclaimable(d: &Deployment) -> Held {
    d.create().policy(r#"{"max_reclaim_count":0}"#).send().await;
    d.claim(LANE).await
}

conformance! {
    async fn a_renewed_lease_lasts_longer(d: &Deployment) {
        let held = d.create_and_claim().await;
        let heard_at = d.describe(held.id).await.current_lease.expect("held").heard_at;
        assert_eq!(heard_at, Some(d.now()));
        d.advance(LEASE_MS - 1).await;
        let reply = d.call(held.renew(LEASE_MS)).await;
        let lease_expires_at = d.now().plus_millis(LEASE_MS);
        let lease_epoch = held.lease_epoch;
        let budgets_reached = BudgetsReached::default();
        let renewed =
            RenewLeaseReply::Renewed { lease_expires_at, lease_epoch, budgets_reached };
        assert_eq!(reply, renewed);
        let described = d.describe(held.id).await;
        let lease = described.current_lease.expect("held");
        assert_eq!((lease.expires_at, lease.heard_at), (lease_expires_at, Some(d.now())));
        assert_eq!(described.last_mutation_at, d.now());
        let dump = d.dump().await;
        assert_eq!(score(&dump, "leases", held.id), Some(lease_expires_at.get()));
        assert_eq!(events_of(&dump, held.id).len(), 2, "a renewal is no event");
        d.advance(LEASE_MS - 1).await;
        assert_eq!(d.tick().await.lapsed, 0);
        d.call(held.complete(b"")).await;
    }

    async fn a_renewal_can_be_repeated(d: &Deployment) {
        let held = d.create_and_claim().await;
        d.advance(10).await;
        let first = d.call(held.renew(LEASE_MS)).await;
        let before = d.dump().await;
        assert_eq!(d.call(held.renew(LEASE_MS)).await, first);
        assert_eq!(d.dump().await, before);
    }

    async fn the_time_limit_of_an_attempt_is_not_renewed(d: &Deployment) {
        let policy = r#"{"timeout_policy":{"attempt_timeout_ms":100}}"#;
        let id = d.create().policy(policy).send().await;
        let held = d.claim(LANE).await;
        let at = d.now().get() + 100;
        d.advance(50).await;
        d.call(held.renew(LEASE_MS)).await;
        assert_eq!(score(&d.dump().await, "leases", id), Some(at));
    }

    async fn a_revoked_lease_makes_the_execution_claimable(d: &Deployment) {
        let mut ready = d.listen(Topic::Ready).await;
        let held = d.create_and_claim().await;
        assert_eq!(ready.lane().await, LANE);
        d.advance(5).await;
        let reply = d.call(revoke(&held, "node drains")).await;
        let result = "revoked".to_owned();
        let (lease_id, lease_epoch) = (held.lease_id, held.lease_epoch);
        assert_eq!(reply, RevokeLeaseReply::Revoked { result, lease_id, lease_epoch });
        assert_eq!(ready.lane().await, LANE);
        let described = d.describe(held.id).await;
        assert_eq!(described.state.ownership_state, OwnershipState::LeaseRevoked);
        assert_eq!(described.public_state(), PublicState::Active);
        let why = described.blocking_detail.expect("it says why");
        assert_eq!(why, "the lease was revoked: node drains");
        assert_eq!(described.current_lease, None);
        let dump = d.dump().await;
        assert_eq!(listed_in(&dump, held.id), ["q:default:tests:work"]);
        let last = events_of(&dump, held.id).pop();
        assert_eq!(last.as_deref(), Some("lease_revoked 0 node drains"));
    }

    async fn an_execution_without_a_lease_cannot_be_revoked(d: &Deployment) {
        let call = RevokeLease {
            execution_id: d.new_id(),
            expected_lease_id: None,
            reason: String::new(),
            request_id: None,
        };
        assert_eq!(d.refused(call.clone()).await, Code::ExecutionNotFound);
        let id = d.create_one().await;
        let (code, details) = d.refusal(RevokeLease { execution_id: id, ..call }).await;
        assert_eq!(code, Code::ExecutionNotActive);
        assert_eq!(details, ["none", "0", "runnable", ""]);
        let held = d.claim(LANE).await;
        d.call(held.complete(b"")).await;
        let (code, details) = d.refusal(revoke(&held, "")).await;
        assert_eq!(code, Code::ExecutionNotActive);
        assert_eq!(details[..3], ["success", "1", "terminal"]);
    }

    async fn only_the_expected_lease_is_revoked(d: &Deployment) {
        let held = d.create_and_claim().await;
        let other = Some(LeaseId::from_uuid(d.new_uuid()));
        let call = RevokeLease { expected_lease_id: other, ..revoke(&held, "") };
        assert_eq!(d.refused(call).await, Code::StaleLease);
        let any = RevokeLease { expected_lease_id: None, ..revoke(&held, "") };
        d.call(any.clone()).await;
        assert_eq!(d.call(any).await, not_held("already_revoked"));
    }

    async fn a_lease_that_ran_out_needs_no_revocation(d: &Deployment) {
        let held = d.create_and_claim().await;
        d.advance(LEASE_MS).await;
        d.tick().await;
        assert_eq!(d.call(revoke(&held, "")).await, not_held("already_expired"));
    }

    async fn the_last_revocation_allowed_ends_the_execution(d: &Deployment) {
        let mut ended = d.listen(Topic::Ended).await;
        let held = once_reclaimable(d).await;
        let RevokeLeaseReply::Revoked { result, .. } = d.call(revoke(&held, "")).await else {
            panic!("the lease was held");
        };
        assert_eq!(result, "terminal_failed");
        assert_eq!(ended.next().await, held.id.uuid().to_string());
        assert_eq!(d.describe(held.id).await.public_state(), PublicState::Failed);
    }

    async fn a_lease_is_marked_as_expired_when_its_time_is_over(d: &Deployment) {
        let mut ready = d.listen(Topic::Ready).await;
        let held = d.create_and_claim().await;
        assert_eq!(ready.lane().await, LANE);
        d.advance(LEASE_MS - 1).await;
        assert_eq!(mark(d, held.id).await, not_due("not_yet_expired"));
        d.advance(1).await;
        let result = "marked_expired".to_owned();
        assert_eq!(mark(d, held.id).await, MarkLeaseExpiredReply::Ended { result });
        assert_eq!(ready.lane().await, LANE);
        assert_eq!(mark(d, held.id).await, not_due("already_expired"));
        let described = d.describe(held.id).await;
        assert_eq!(described.state.ownership_state, OwnershipState::LeaseExpiredReclaimable);
        assert_eq!(described.last_transition_at, d.now());
        let dump = d.dump().await;
        assert_eq!(listed_in(&dump, held.id), ["q:default:tests:work"]);
        assert_eq!(events_of(&dump, held.id).last().map(String::as_str), Some("lease_expired 0"));
        let attempts = d.attempts(held.id).await;
        assert_eq!(attempts[0].state, AttemptLifecycle::InterruptedReclaimed);
        assert_eq!(attempts[0].ended_at, Some(d.now()));
    }

    async fn what_holds_no_lease_is_not_marked(d: &Deployment) {
        assert_eq!(mark(d, d.new_id()).await, not_due("execution_not_found"));
        let id = d.create_one().await;
        assert_eq!(mark(d, id).await, not_due("not_active"));
        let held = d.claim(LANE).await;
        d.call(revoke(&held, "")).await;
        assert_eq!(mark(d, held.id).await, not_due("already_revoked"));
        d.call(d.claim(LANE).await.complete(b"")).await;
        assert_eq!(mark(d, held.id).await, not_due("not_active"));
    }

    async fn a_renewal_that_came_first_wins(d: &Deployment) {
        let held = d.create_and_claim().await;
        d.advance(LEASE_MS - 1).await;
        d.call(held.renew(LEASE_MS)).await;
        d.advance(1).await;
        assert_eq!(mark(d, held.id).await, not_due("not_yet_expired"));
    }

    async fn the_last_lapse_allowed_ends_the_execution(d: &Deployment) {
        let held = once_reclaimable(d).await;
        d.advance(LEASE_MS).await;
        let result = "terminal_failed".to_owned();
        assert_eq!(mark(d, held.id).await, MarkLeaseExpiredReply::Ended { result });
        let described = d.describe(held.id).await;
        assert_eq!(described.public_state(), PublicState::Failed);
        let failure = described.failure.expect("the cause is kept");
        assert_eq!((failure.reason.as_str(), failure.category.as_str()),
            ("max_reclaims_exceeded", "infra_crash"));
        assert_eq!(record(&d.dump().await, held.id)["st"], "failed");
    }
}
