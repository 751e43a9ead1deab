//! Ending as cancelled.

use ff_conformance::record::{events_of, listed_in};
use ff_conformance::{Deployment, LANE, conformance};
use ff_core::error::Code;
use ff_core::state::{AttemptLifecycle, LifecyclePhase, PublicState};
use ff_core::types::ExecutionId;
use ff_script::calls::cancel::{CancelExecution, CancelExecutionReply};
use ff_script::calls::lease::RevokeLease;
use ff_script::host::Topic;

const OUTSIDE: [&str; 3] = ["operator_override", "flow_cascade", "system_timeout"];

/// A cancellation by somebody who holds no lease.
pub(crate) fn outside(execution_id: ExecutionId, source: &str) -> CancelExecution {
    CancelExecution {
        execution_id,
        lease_id: None,
        lease_epoch: None,
        attempt_id: None,
        reason: "not wanted".to_owned(),
        source: source.to_owned(),
        request_id: None,
    }
}

async fn assert_cancelled(d: &Deployment, id: ExecutionId, from: LifecyclePhase) {
    let reply = d.call(outside(id, "operator_override")).await;
    let public_state = PublicState::Cancelled;
    assert_eq!(reply, CancelExecutionReply::Cancelled { public_state, previous_phase: from });
    let described = d.describe(id).await;
    assert_eq!(described.public_state(), PublicState::Cancelled);
    assert_eq!(described.completed_at, Some(d.now()));
    let cancel = described.cancel.expect("who and why is kept");
    assert_eq!(
        (cancel.reason.as_str(), cancel.cancelled_by.as_str()),
        ("not wanted", "operator_override")
    );
    let dump = d.dump().await;
    assert_eq!(listed_in(&dump, id), ["ended:cancelled"]);
    let last = events_of(&dump, id).pop().expect("a log");
    assert!(last.ends_with("cancelled:cancelled:tests"), "{last}");
    assert!(d.attempts(id).await.iter().all(|attempt| attempt.ended_at.is_some()));
}

conformance! {
    async fn a_waiting_execution_can_be_cancelled(d: &Deployment) {
        let mut ended = d.listen(Topic::Ended).await;
        let id = d.create_one().await;
        assert_cancelled(d, id, LifecyclePhase::Runnable).await;
        assert_eq!(ended.next().await, id.uuid().to_string());
        assert!(d.try_claim(LANE).await.is_none());
    }

    async fn a_delayed_execution_can_be_cancelled(d: &Deployment) {
        let id = d.create().delayed_by(1000).send().await;
        assert_cancelled(d, id, LifecyclePhase::Runnable).await;
        d.advance(5000).await;
        assert_eq!(d.tick().await.total(), 0, "no timer is left");
    }

    async fn a_running_execution_can_be_cancelled_from_outside(d: &Deployment) {
        let held = d.create_and_claim().await;
        assert_cancelled(d, held.id, LifecyclePhase::Active).await;
        let (code, details) = d.refusal(held.complete(b"late")).await;
        assert_eq!(code, Code::ExecutionNotActive);
        assert_eq!(details[..2], ["cancelled", "1"]);
        let attempts = d.attempts(held.id).await;
        assert_eq!(attempts[0].state, AttemptLifecycle::EndedCancelled);
    }

    async fn a_paused_execution_can_be_cancelled(d: &Deployment) {
        let held = d.create_and_claim().await;
        d.call(held.delay(d.now().plus_millis(1000))).await;
        assert_cancelled(d, held.id, LifecyclePhase::Runnable).await;
    }

    async fn a_granted_execution_can_be_cancelled(d: &Deployment) {
        let id = d.create_one().await;
        d.call(d.claim_grant_call(id)).await;
        assert_cancelled(d, id, LifecyclePhase::Runnable).await;
    }

    async fn an_execution_that_lost_its_lease_can_be_cancelled(d: &Deployment) {
        let held = d.create_and_claim().await;
        let revoke = RevokeLease {
            execution_id: held.id,
            expected_lease_id: None,
            reason: String::new(),
            request_id: None,
        };
        d.call(revoke).await;
        assert_cancelled(d, held.id, LifecyclePhase::Active).await;
        let attempts = d.attempts(held.id).await;
        assert_eq!(attempts[0].state, AttemptLifecycle::InterruptedReclaimed);
    }

    async fn an_execution_that_waits_for_its_retry_can_be_cancelled(d: &Deployment) {
        let id = d.create().policy(r#"{"retry_policy":{}}"#).send().await;
        let held = d.claim(LANE).await;
        d.call(held.fail("no", "transient")).await;
        assert_cancelled(d, id, LifecyclePhase::Runnable).await;
        let failure = d.describe(id).await.failure.expect("the attempt's failure is kept");
        assert_eq!(failure.reason, "no");
    }

    async fn the_holder_can_cancel(d: &Deployment) {
        let held = d.create_and_claim().await;
        d.call(held.cancel("changed my mind")).await;
        let cancel = d.describe(held.id).await.cancel.expect("who and why is kept");
        assert_eq!((cancel.reason.as_str(), cancel.cancelled_by.as_str()),
            ("changed my mind", "lease_holder"));
    }

    async fn a_repeated_cancellation_is_satisfied_already(d: &Deployment) {
        let held = d.create_and_claim().await;
        d.call(held.cancel("once")).await;
        let reason = "already_cancelled".to_owned();
        let before = CancelExecutionReply::CancelledBefore { reason };
        assert_eq!(d.call(held.cancel("twice")).await, before);
        for source in OUTSIDE {
            assert_eq!(d.call(outside(held.id, source)).await, before, "{source}");
        }
        let cancel = d.describe(held.id).await.cancel.expect("who and why is kept");
        assert_eq!(cancel.reason, "once");
    }

    async fn an_execution_that_ended_otherwise_cannot_be_cancelled(d: &Deployment) {
        let held = d.create_and_claim().await;
        d.call(held.complete(b"")).await;
        for source in OUTSIDE {
            let (code, details) = d.refusal(outside(held.id, source)).await;
            assert_eq!((code, details[0].as_str()), (Code::ExecutionNotActive, "success"));
        }
    }
}
