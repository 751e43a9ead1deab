//! Gates, as seen from an execution's partition: claims that are undone, what is parked, and what
//! is opened.

use ff_conformance::gates::Limits;
use ff_conformance::record::{events_of, listed_in, record};
use ff_conformance::{Deployment, Held, LANE, LEASE_MS, conformance};
use ff_core::contracts::TickRequest;
use ff_core::engine_backend::roles::*;
use ff_core::error::Code;
use ff_core::state::{BlockingReason, EligibilityState, PublicState};
use ff_core::types::{ExecutionId, QuotaPolicyId};
use ff_script::calls::gate::{
    BlockExecutionForAdmission, BlockExecutionForAdmissionReply, OpenGate, OpenGateReply,
    UnblockExecution,
};

use super::between::revoke;
use super::cancel::outside;
use super::flow::fillers;
use super::hold::{hold, let_go};

pub(crate) const QUOTA: &str = "waiting_for_quota";

/// A claim that a gate refused.
pub(crate) fn undo(held: &Held) -> BlockExecutionForAdmission {
    let [_, lease_id, lease_epoch, attempt_id] = held.fence();
    BlockExecutionForAdmission { lease_id, lease_epoch, attempt_id, ..block(held.id, QUOTA) }
}

/// Somebody without a lease blocks an execution.
pub(crate) fn block(execution_id: ExecutionId, reason: &str) -> BlockExecutionForAdmission {
    BlockExecutionForAdmission {
        execution_id,
        lease_id: String::new(),
        lease_epoch: String::new(),
        attempt_id: String::new(),
        blocking_reason: reason.to_owned(),
        blocking_detail: String::new(),
        opens_at: None,
        budget_id: None,
    }
}

pub(crate) fn unblock(execution_id: ExecutionId, reason: &str) -> UnblockExecution {
    UnblockExecution { execution_id, expected_reason: reason.to_owned() }
}

pub(crate) fn open(policy: QuotaPolicyId, count: u32) -> OpenGate {
    OpenGate { gate: format!("q:{policy}:k"), count }
}

fn blocked(public_state: PublicState) -> BlockExecutionForAdmissionReply {
    BlockExecutionForAdmissionReply::Blocked { public_state }
}

/// What a record holds, but for what only grows and where it waits.
async fn lasting(d: &Deployment, id: ExecutionId) -> Vec<(String, String)> {
    let dropped = ["ep", "st", "mt", "kr", "kn", "xm"];
    let stored = record(&d.dump().await, id);
    stored.into_iter().filter(|(field, _)| !dropped.contains(&field.as_str())).collect()
}

async fn attempts(d: &Deployment, id: ExecutionId) -> usize {
    d.attempts(id).await.len()
}

conformance! {
    async fn a_refused_claim_leaves_nothing_but_its_epoch(d: &Deployment) {
        let policy = d.quota(Limits::at_once(1)).await;
        let id = d.create_under(policy, "k").payload(b"input").send().await;
        let before = lasting(d, id).await;
        let held = d.claim(LANE).await;
        assert_eq!(d.call(undo(&held)).await, blocked(PublicState::RateLimited));
        assert_eq!(lasting(d, id).await, before);
        assert_eq!(attempts(d, id).await, 0);
        assert_eq!(listed_in(&d.dump().await, id), [format!("gate:q:{policy}:k")]);
        let told = ["created", "claimed 0 initial", "blocked waiting_for_quota"];
        assert_eq!(events_of(&d.dump().await, id), told);
        let again = BlockExecutionForAdmissionReply::BlockedBefore {
            public_state: PublicState::RateLimited,
        };
        assert_eq!(d.call(undo(&held)).await, again);
        assert_eq!(d.refused(held.complete(b"")).await, Code::ExecutionNotActive);
        d.call(open(policy, 1)).await;
        let next = d.claim(LANE).await;
        assert_eq!((next.id, next.lease_epoch.get(), next.row.attempt_index.get()), (id, 2, 0));
    }

    async fn a_hold_outlasts_a_claim_that_was_refused(d: &Deployment) {
        let policy = d.quota(Limits::at_once(1)).await;
        d.create_under(policy, "k").send().await;
        let held = d.claim(LANE).await;
        d.call(hold(held.id)).await;
        assert_eq!(d.call(undo(&held)).await, blocked(PublicState::Waiting));
        let described = d.describe(held.id).await;
        assert_eq!(described.state.blocking_reason, BlockingReason::PausedByOperator);
        assert_eq!(listed_in(&d.dump().await, held.id), ["parked"]);
        d.carry_out().await;
        d.call(let_go(held.id)).await;
        assert_eq!(d.take_one().await.expect("nobody holds it").id, held.id);
    }

    async fn a_refused_retry_keeps_what_came_before(d: &Deployment) {
        let policy = d.quota(Limits::at_once(1)).await;
        let rule = r#""retry_policy":{"max_retries":3,"backoff":{"type":"fixed","delay_ms":0}}"#;
        let text = format!(r#"{{"quota":{{"policy_id":"{policy}","key":"k"}},{rule}}}"#);
        let id = d.create().policy(&text).send().await;
        for round in 0..3 {
            let held = d.claim(LANE).await;
            let mut fail = held.fail("no", "transient");
            fail.failure_detail = b"why".to_vec();
            d.call(fail).await;
            d.tick().await;
            let before = lasting(d, id).await;
            let known = attempts(d, id).await;
            d.call(undo(&d.claim(LANE).await)).await;
            assert_eq!(lasting(d, id).await, before, "in round {round}");
            assert_eq!(attempts(d, id).await, known);
            d.call(open(policy, 1)).await;
        }
    }

    async fn a_refused_retry_keeps_the_detail_of_the_failure_before_it(d: &Deployment) {
        let policy = d.quota(Limits::at_once(1)).await;
        let rule = r#""retry_policy":{"max_retries":9,"backoff":{"type":"fixed","delay_ms":0}}"#;
        let text = format!(r#"{{"quota":{{"policy_id":"{policy}","key":"k"}},{rule}}}"#);
        let id = d.create().policy(&text).send().await;
        for size in [1, 64, 65, 256, 257, 5000, 0] {
            let mut fail = d.claim(LANE).await.fail("no", "transient");
            fail.failure_detail = vec![b'd'; size];
            d.call(fail).await;
            d.tick().await;
            let of_it = async || -> Vec<_> {
                let part = format!(":{}:detail", id.uuid()).into_bytes();
                d.dump().await.into_iter().filter(|(key, _)| key.ends_with(&part)).collect()
            };
            let (before, beside) = (lasting(d, id).await, of_it().await);
            assert_eq!(beside.len(), usize::from(size > 256));
            d.call(undo(&d.claim(LANE).await)).await;
            assert_eq!(lasting(d, id).await, before, "of {size} bytes");
            assert_eq!(of_it().await, beside, "of {size} bytes");
            d.call(open(policy, 1)).await;
        }
    }

    async fn a_refused_continuation_of_a_paused_attempt_stays_one(d: &Deployment) {
        let policy = d.quota(Limits::at_once(1)).await;
        let id = d.create_under(policy, "k").send().await;
        d.call(d.claim(LANE).await.delay(d.now().plus_millis(5))).await;
        d.advance(5).await;
        d.tick().await;
        let before = lasting(d, id).await;
        d.call(undo(&d.claim(LANE).await)).await;
        assert_eq!(lasting(d, id).await, before);
        d.call(open(policy, 1)).await;
        let resumed = d.claim(LANE).await;
        assert_eq!(resumed.row.attempt_index.get(), 0, "the same attempt goes on");
    }

    async fn a_refused_takeover_is_taken_over_later(d: &Deployment) {
        let policy = d.quota(Limits::at_once(1)).await;
        let id = d.create_under(policy, "k").send().await;
        d.claim(LANE).await;
        d.advance(LEASE_MS).await;
        d.tick().await;
        let before = lasting(d, id).await;
        d.call(undo(&d.claim(LANE).await)).await;
        assert_eq!(lasting(d, id).await, before);
        d.call(open(policy, 1)).await;
        let taken = d.claim(LANE).await;
        assert_eq!(taken.row.attempt_index.get(), 1);
        assert_eq!(attempts(d, id).await, 2);
    }

    async fn only_the_claim_that_was_refused_is_undone(d: &Deployment) {
        let policy = d.quota(Limits::at_once(1)).await;
        d.create_under(policy, "k").send().await;
        let old = d.claim(LANE).await;
        d.advance(LEASE_MS).await;
        assert_eq!(d.refused(undo(&old)).await, Code::LeaseExpired);
        d.tick().await;
        let new = d.claim(LANE).await;
        assert_eq!(d.refused(undo(&old)).await, Code::StaleLease);
        let part = BlockExecutionForAdmission { lease_id: String::new(), ..undo(&new) };
        assert_eq!(d.refused(part).await, Code::PartialFenceTriple);
        d.call(new.complete(b"")).await;
        assert_eq!(d.refused(undo(&new)).await, Code::ExecutionNotActive);
        let revoked = d.create_under(policy, "k").send().await;
        let held = d.claim(LANE).await;
        d.call(revoke(revoked, None)).await;
        assert_eq!(d.refused(undo(&held)).await, Code::LeaseRevoked);
        assert_eq!(d.refused(block(d.new_id(), QUOTA)).await, Code::ExecutionNotFound);
    }

    async fn b14_only_what_is_eligible_is_blocked(d: &Deployment) {
        let delayed = d.create().delayed_by(1000).send().await;
        let reason = "waiting_for_capable_worker";
        assert_eq!(d.refused(block(delayed, reason)).await, Code::ExecutionNotEligible);
        let flow = d.flow("a -> b").await;
        assert_eq!(d.refused(block(flow.id("b"), reason)).await, Code::ExecutionNotEligible);
        let granted = d.create().lane("other").send().await;
        d.call(d.claim_grant_call(granted)).await;
        assert_eq!(d.refused(block(granted, reason)).await, Code::ExecutionNotEligible);
        assert_eq!(d.refused(unblock(granted, "")).await, Code::ExecutionNotEligible);
        assert_eq!(d.refused(unblock(d.new_id(), "")).await, Code::ExecutionNotFound);
    }

    async fn b15_whatever_blocks_an_execution_can_be_unblocked(d: &Deployment) {
        for reason in ["paused_by_policy", "paused_by_operator", "waiting_for_capable_worker"] {
            let id = d.create_one().await;
            assert_eq!(d.call(block(id, reason)).await, blocked(PublicState::Waiting));
            assert!(d.try_claim(LANE).await.is_none());
            let other = "waiting_for_budget";
            assert_eq!(d.refused(unblock(id, other)).await, Code::ExecutionNotEligible);
            d.call(unblock(id, reason)).await;
            assert_eq!(d.refused(unblock(id, reason)).await, Code::ExecutionNotEligible);
            d.call(d.claim(LANE).await.complete(b"")).await;
        }
        let policy = d.quota(Limits::at_once(1)).await;
        let id = d.create_under(policy, "k").send().await;
        d.call(block(id, QUOTA)).await;
        d.call(unblock(id, "")).await;
        assert_eq!(d.claim(LANE).await.id, id, "although the gate is closed");
    }

    async fn b16_the_reason_decides_the_state_and_the_index(d: &Deployment) {
        use {BlockingReason as Reason, EligibilityState as Eligibility};
        for (reason, eligibility, word) in [
            ("paused_by_policy", Eligibility::BlockedByLaneState, Reason::PausedByPolicy),
            ("paused_by_operator", Eligibility::BlockedByOperator, Reason::PausedByOperator),
            (
                "waiting_for_capable_worker",
                Eligibility::BlockedByRoute,
                Reason::WaitingForCapableWorker,
            ),
        ] {
            let id = d.create_one().await;
            d.call(block(id, reason)).await;
            let state = d.describe(id).await.state;
            assert_eq!((state.eligibility_state, state.blocking_reason), (eligibility, word));
            assert_eq!(listed_in(&d.dump().await, id), ["parked"]);
        }
        let id = d.create_one().await;
        for reason in ["", "waiting_for_worker", QUOTA, "waiting_for_budget"] {
            let refused = d.refused(block(id, reason)).await;
            assert_eq!(refused, Code::InvalidBlockingReason, "{reason}");
        }
    }

    async fn b17_times_are_those_of_the_store(d: &Deployment) {
        let id = d.create_one().await;
        d.advance(77).await;
        d.call(block(id, "paused_by_policy")).await;
        assert_eq!(d.describe(id).await.last_transition_at, d.now());
    }

    async fn what_comes_to_a_closed_gate_waits_there(d: &Deployment) {
        let policy = d.quota(Limits::at_once(1)).await;
        let early = d.create_under(policy, "k").send().await;
        let delayed = d.create_under(policy, "k").delayed_by(100).send().await;
        let refused = d.create_under(policy, "k").priority(9).send().await;
        let held = d.claim(LANE).await;
        assert_eq!(held.id, refused);
        d.call(undo(&held)).await;
        let late = d.create_under(policy, "k").send().await;
        assert_eq!(d.describe(late).await.public_state, PublicState::RateLimited);
        assert_eq!(d.describe(early).await.public_state, PublicState::Waiting);
        assert!(d.try_claim(LANE).await.is_none(), "a claim parks what was queued before");
        d.advance(100).await;
        d.tick().await;
        for id in [early, delayed, late, refused] {
            assert_eq!(d.describe(id).await.public_state, PublicState::RateLimited);
        }
        let opened = |opened, left, best_score| OpenGateReply::Opened { opened, left, best_score };
        let best = i64::try_from(ff_conformance::START_MS).expect("small");
        assert_eq!(d.call(open(policy, 1)).await, opened(1, 3, Some(best)));
        assert_eq!(d.claim(LANE).await.id, refused, "the best one passes first");
        assert_eq!(d.call(open(policy, 256)).await, opened(3, 0, None));
        assert_eq!(d.call(open(policy, 1)).await, opened(0, 0, None));
        for id in [early, delayed, late] {
            assert_eq!(d.claim(LANE).await.id, id);
        }
    }

    async fn what_leaves_a_gate_otherwise_is_not_listed_there(d: &Deployment) {
        let policy = d.quota(Limits::at_once(1)).await;
        let ids = d.queue_under(policy, "k", 3).await;
        d.call(undo(&d.claim(LANE).await)).await;
        assert!(d.try_claim(LANE).await.is_none());
        d.call(outside(ids[0], "operator_override")).await;
        d.call(hold(ids[1])).await;
        assert_eq!(listed_in(&d.dump().await, ids[1]), ["parked"]);
        d.call(let_go(ids[1])).await;
        assert_eq!(listed_in(&d.dump().await, ids[1]), [format!("gate:q:{policy}:k")]);
        d.call(outside(ids[1], "operator_override")).await;
        d.call(outside(ids[2], "operator_override")).await;
        d.carry_out().await;
        assert!(!d.dump().await.keys().any(|key| key.ends_with(b":closed")), "nobody waits");
    }

    async fn a_late_acknowledgement_does_not_forget_who_waits_since(d: &Deployment) {
        let policy = d.quota(Limits::at_once(1)).await;
        d.create_under(policy, "k").send().await;
        d.call(undo(&d.claim(LANE).await)).await;
        let owed = async || {
            let tick = d.backend.tick(d.home(), TickRequest::once(10)).await;
            let waits = tick.expect("a tick is never refused").owed.into_iter();
            waits.map(|owed| owed.entry).filter(|it| it.starts_with(b"wait:")).collect::<Vec<_>>()
        };
        let settled = owed().await;
        assert_eq!(settled.len(), 1);
        d.call(open(policy, 1)).await;
        d.call(undo(&d.claim(LANE).await)).await;
        let request = TickRequest { settled, ..TickRequest::once(10) };
        let told = d.backend.tick(d.home(), request).await.expect("a tick is never refused");
        let still = told.owed.iter().any(|owed| owed.entry.starts_with(b"wait:"));
        assert!(still, "it waits again, which nobody has told yet");
    }

    async fn nobody_unblocks_what_its_flow_ends(d: &Deployment) {
        let flow = d.flow(&format!("{}, a", fillers())).await;
        d.call(block(flow.id("a"), "paused_by_policy")).await;
        d.call(d.cancelling(&flow, "cancel_all")).await;
        assert_eq!(d.refused(unblock(flow.id("a"), "")).await, Code::FlowCancelled);
        d.settle().await;
    }
}
