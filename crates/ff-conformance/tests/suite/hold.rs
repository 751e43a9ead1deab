//! An operator keeps single executions from being claimed, and lets them go again.

use ff_conformance::record::{events_of, listed_in, record};
use ff_conformance::{Deployment, LANE, LEASE_MS, conformance};
use ff_core::contracts::{Condition, ListFilter};
use ff_core::error::Code;
use ff_core::state::{BlockingReason, EligibilityState, PublicState};
use ff_core::types::ExecutionId;
use ff_script::calls::fail::FailExecutionReply;
use ff_script::calls::hold::{
    HoldExecution, HoldExecutionReply, ListHeld, ListHeldReply, ReleaseExecution,
    ReleaseExecutionReply,
};
use ff_script::calls::lease::{RevokeLease, RevokeLeaseReply};

use super::flow::fillers;
use super::replay::replay;

pub(crate) fn hold(execution_id: ExecutionId) -> HoldExecution {
    HoldExecution {
        execution_id,
        requested_by: "mia".to_owned(),
        reason: "looks wrong".to_owned(),
        request_id: None,
    }
}

pub(crate) fn let_go(execution_id: ExecutionId) -> ReleaseExecution {
    ReleaseExecution { execution_id, requested_by: "mia".to_owned(), request_id: None }
}

fn held(public_state: PublicState) -> HoldExecutionReply {
    HoldExecutionReply::Held { public_state }
}

fn released(public_state: PublicState) -> ReleaseExecutionReply {
    ReleaseExecutionReply::Released { public_state }
}

async fn state(d: &Deployment, id: ExecutionId) -> String {
    record(&d.dump().await, id)["st"].clone()
}

/// The ids of what is held, longest first, in pages of two.
async fn listed(d: &Deployment) -> Vec<ExecutionId> {
    let (mut cursor, mut ids) = (String::new(), Vec::new());
    loop {
        let ListHeldReply::Page { held, next_cursor } = d.call(ListHeld { cursor, limit: 2 }).await;
        ids.extend(held.0.into_iter().map(|entry| entry.execution_id));
        match next_cursor {
            Some(next) => cursor = next,
            None => return ids,
        }
    }
}

const RETRY: &str =
    r#"{"retry_policy":{"max_retries":9,"backoff":{"type":"fixed","delay_ms":500}}}"#;

conformance! {
    async fn what_is_held_is_not_claimed_until_it_is_released(d: &Deployment) {
        let id = d.create_one().await;
        d.advance(10).await;
        assert_eq!(d.call(hold(id)).await, held(PublicState::Waiting));
        let at = d.now();
        assert!(d.try_claim(LANE).await.is_none());
        assert_eq!(d.refused(d.claim_grant_call(id)).await, Code::ExecutionNotEligible);
        let described = d.describe(id).await;
        assert_eq!(described.state.blocking_reason, BlockingReason::PausedByOperator);
        assert_eq!(described.state.eligibility_state, EligibilityState::BlockedByOperator);
        assert!(described.state.is_legal());
        assert_eq!(described.blocking_detail.as_deref(), Some("held by mia: looks wrong"));
        let told = described.hold.expect("it is held");
        assert_eq!((told.held_at, described.last_transition_at), (at, at));
        assert_eq!((told.requested_by.as_str(), told.reason.as_str()), ("mia", "looks wrong"));
        assert_eq!(listed_in(&d.dump().await, id), ["parked"]);
        d.advance(10).await;
        assert_eq!(d.call(let_go(id)).await, released(PublicState::Waiting));
        assert_eq!(d.describe(id).await.hold, None);
        let told = ["created", "parked paused_by_operator:mia", "unparked paused_by_operator:mia"];
        assert_eq!(events_of(&d.dump().await, id), told);
        assert_eq!(d.claim(LANE).await.id, id);
    }

    async fn holding_again_and_releasing_what_is_not_held_change_nothing(d: &Deployment) {
        let id = d.create_one().await;
        d.call(hold(id)).await;
        let before = d.dump().await;
        let again = HoldExecution { reason: "another".to_owned(), ..hold(id) };
        let public_state = PublicState::Waiting;
        assert_eq!(d.call(again).await, HoldExecutionReply::HeldBefore { public_state });
        assert_eq!(d.dump().await, before);
        d.call(let_go(id)).await;
        let before = d.dump().await;
        assert_eq!(d.call(let_go(id)).await, ReleaseExecutionReply::NotHeld { public_state });
        assert_eq!(d.dump().await, before);
    }

    async fn what_is_over_or_unknown_is_not_held(d: &Deployment) {
        assert_eq!(d.refused(hold(d.new_id())).await, Code::ExecutionNotFound);
        assert_eq!(d.refused(let_go(d.new_id())).await, Code::ExecutionNotFound);
        let over = d.create_and_claim().await;
        d.call(over.complete(b"")).await;
        assert_eq!(d.refused(hold(over.id)).await, Code::ExecutionNotActive);
        let public_state = PublicState::Completed;
        assert_eq!(d.call(let_go(over.id)).await, ReleaseExecutionReply::NotHeld { public_state });
    }

    async fn what_runs_goes_on_to_the_end_of_its_attempt(d: &Deployment) {
        let ends = d.create_and_claim().await;
        assert_eq!(d.call(hold(ends.id)).await, held(PublicState::Active));
        assert!(d.describe(ends.id).await.hold.is_some());
        d.call(ends.renew(LEASE_MS)).await;
        d.call(ends.complete(b"done")).await;
        let described = d.describe(ends.id).await;
        assert_eq!((described.public_state, described.hold), (PublicState::Completed, None));
        assert!(listed(d).await.is_empty());
    }

    async fn a_retry_of_what_is_held_waits_for_the_release(d: &Deployment) {
        let id = d.create().policy(RETRY).send().await;
        let first = d.claim(LANE).await;
        d.call(hold(id)).await;
        let reply = d.call(first.fail("no", "x")).await;
        assert!(matches!(reply, FailExecutionReply::Failed { .. }), "{reply:?}");
        assert_eq!(state(d, id).await, "parked");
        d.advance(1000).await;
        d.tick().await;
        assert!(d.try_claim(LANE).await.is_none());
        assert_eq!(d.call(let_go(id)).await, released(PublicState::Waiting));
        assert_eq!(d.claim(LANE).await.row.attempt_index.get(), 1);
    }

    async fn a_delay_counts_on_while_it_is_held(d: &Deployment) {
        let id = d.create().delayed_by(100).send().await;
        d.call(hold(id)).await;
        assert_eq!(listed_in(&d.dump().await, id), ["parked"]);
        d.advance(40).await;
        assert_eq!(d.call(let_go(id)).await, released(PublicState::Delayed));
        d.call(hold(id)).await;
        d.advance(60).await;
        assert_eq!(d.call(let_go(id)).await, released(PublicState::Waiting));
    }

    async fn a_lost_lease_is_taken_over_after_the_release(d: &Deployment) {
        let lapsing = d.create_and_claim().await;
        d.call(hold(lapsing.id)).await;
        d.advance(LEASE_MS).await;
        d.tick().await;
        assert_eq!(state(d, lapsing.id).await, "parked");
        assert!(d.describe(lapsing.id).await.state.is_legal());
        assert_eq!(d.refused(lapsing.complete(b"")).await, Code::ExecutionNotActive);
        assert_eq!(d.call(let_go(lapsing.id)).await, released(PublicState::Active));
        assert_eq!(state(d, lapsing.id).await, "lapsed");
        let next = d.claim(LANE).await;
        assert_eq!((next.id, next.row.attempt_index.get()), (lapsing.id, 1));
        d.call(next.complete(b"")).await;
        let revoked = d.create_and_claim().await;
        d.call(hold(revoked.id)).await;
        let revoke = RevokeLease {
            execution_id: revoked.id,
            expected_lease_id: None,
            reason: String::new(),
            request_id: None,
        };
        d.call(revoke.clone()).await;
        assert_eq!(state(d, revoked.id).await, "parked");
        let reason = "already_revoked".to_owned();
        assert_eq!(d.call(revoke).await, RevokeLeaseReply::NotHeld { reason });
        d.call(let_go(revoked.id)).await;
        assert_eq!(state(d, revoked.id).await, "revoked");
        assert_eq!(d.claim(LANE).await.id, revoked.id);
    }

    async fn what_lost_its_lease_before_can_be_held_too(d: &Deployment) {
        let lost = d.create_and_claim().await;
        d.advance(LEASE_MS).await;
        d.tick().await;
        d.call(d.reclaim_grant_call(lost.id)).await;
        assert_eq!(d.call(hold(lost.id)).await, held(PublicState::Waiting));
        assert_eq!(
            d.refused(d.reclaim_grant_call(lost.id)).await,
            Code::ExecutionNotReclaimable
        );
        d.call(let_go(lost.id)).await;
        d.claim(LANE).await;
        assert_eq!(d.describe(lost.id).await.reclaim_count, 1);
    }

    async fn a_reservation_ends_when_its_execution_is_held(d: &Deployment) {
        let id = d.create_one().await;
        let grant = d.claim_grant_call(id);
        d.call(grant.clone()).await;
        d.call(hold(id)).await;
        let claim = d.member_claim(id, grant.grant_id);
        assert_eq!(d.refused(claim).await, Code::ExecutionNotLeaseable);
        d.call(let_go(id)).await;
        assert_eq!(d.claim(LANE).await.id, id);
    }

    async fn what_is_suspended_is_held_when_its_wait_is_over(d: &Deployment) {
        let it = d.suspend(&Condition::any(["go"])).await;
        let id = it.held.id;
        assert_eq!(d.call(hold(id)).await, held(PublicState::Suspended));
        assert_eq!(listed_in(&d.dump().await, id), ["parked", "suspended"]);
        d.deliver(&it.on, "go").await;
        assert_eq!(state(d, id).await, "parked");
        assert!(d.try_claim(LANE).await.is_none());
        d.call(let_go(id)).await;
        let resumed = d.claim_resumed(&it.held).await;
        assert_eq!(resumed.signal_names(), ["go"]);
    }

    async fn a_deadline_ends_what_is_held(d: &Deployment) {
        let id = d.create().deadline_in(100).send().await;
        d.call(hold(id)).await;
        assert_eq!(listed_in(&d.dump().await, id), ["due", "parked"]);
        d.advance(100).await;
        assert_eq!(d.tick().await.expired, 1);
        assert_eq!(d.describe(id).await.public_state, PublicState::Expired);
        assert!(listed(d).await.is_empty());
    }

    async fn a_replay_does_not_remember_the_hold(d: &Deployment) {
        let first = d.create_and_claim().await;
        d.call(hold(first.id)).await;
        d.call(first.complete(b"")).await;
        d.call(replay(first.id)).await;
        assert_eq!(d.describe(first.id).await.hold, None);
        assert_eq!(d.claim(LANE).await.id, first.id);
    }

    async fn a_lost_lease_that_was_cancelled_begins_anew_by_a_replay(d: &Deployment) {
        let lost = d.create_and_claim().await;
        d.advance(LEASE_MS).await;
        d.tick().await;
        d.call(super::cancel::outside(lost.id, "operator_override")).await;
        d.call(replay(lost.id)).await;
        assert_eq!(state(d, lost.id).await, "waiting");
    }

    async fn a_member_that_is_held_waits_for_its_upstreams_first(d: &Deployment) {
        let flow = d.flow("a -> b").await;
        let (a, b) = (flow.id("a"), flow.id("b"));
        assert_eq!(d.call(hold(b)).await, held(PublicState::WaitingChildren));
        assert_eq!(listed(d).await, [b]);
        d.complete(&flow, "a").await;
        assert_eq!(state(d, b).await, "parked");
        assert_eq!(d.flow_state(&flow).await, "blocked: 1 completed, 1 waiting");
        // What it waited for runs again, so it waits again; and it is still held.
        d.call(replay(a)).await;
        assert_eq!(state(d, b).await, "blocked");
        d.complete(&flow, "a").await;
        assert_eq!(state(d, b).await, "parked");
        d.call(let_go(b)).await;
        d.complete(&flow, "b").await;
        assert_eq!(d.flow_state(&flow).await, "completed: 2 completed");
    }

    async fn a_cancelled_flow_ends_what_is_held(d: &Deployment) {
        let flow = d.flow("a, b").await;
        d.call(hold(flow.id("a"))).await;
        d.call(d.cancelling(&flow, "cancel_pending")).await;
        d.settle().await;
        assert_eq!(d.describe(flow.id("a")).await.public_state, PublicState::Cancelled);
        assert!(listed(d).await.is_empty());
    }

    async fn what_its_flow_ends_is_not_released(d: &Deployment) {
        let flow = d.flow(&format!("{}, a", fillers())).await;
        d.call(hold(flow.id("a"))).await;
        d.call(d.cancelling(&flow, "cancel_all")).await;
        assert_eq!(d.refused(let_go(flow.id("a"))).await, Code::FlowCancelled);
        d.settle().await;
        assert!(listed(d).await.is_empty());
    }

    async fn what_is_held_is_listed_longest_first_and_among_what_waits(d: &Deployment) {
        let mut ids = Vec::new();
        for number in 0..5 {
            let id = d.create().deadline_in(5000).send().await;
            d.advance(number).await;
            d.call(hold(id)).await;
            ids.push(id);
        }
        assert_eq!(listed(d).await, ids);
        let wrong = d.raw("ff_list_held", &[b"7|x", b"2"]).await;
        assert_eq!(wrong.code(), "invalid_input");
        let filter = ListFilter { state: Some(PublicState::Waiting), ..ListFilter::default() };
        let page = d.list_page(&filter, None, 10).await.expect("a page");
        let mut found: Vec<_> = page.items.iter().map(|row| row.execution_id).collect();
        found.sort_unstable();
        ids.sort_unstable();
        assert_eq!(found, ids);
    }
}
