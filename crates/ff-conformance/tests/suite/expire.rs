//! One execution's timer, on demand.

use ff_conformance::record::{events_of, listed_in};
use ff_conformance::{Deployment, LANE, conformance};
use ff_core::state::{AttemptLifecycle, PublicState};
use ff_core::types::ExecutionId;
use ff_script::calls::expire::{
    ExpireExecution, ExpireExecutionReply, PromoteDelayed, PromoteDelayedReply,
};
use ff_script::host::Topic;

const TIMEOUT: &str = r#"{"timeout_policy":{"attempt_timeout_ms":100}}"#;
const TIMEOUT_AND_RETRY: &str = r#"{"timeout_policy":{"attempt_timeout_ms":100},
    "retry_policy":{"max_retries":1,"backoff":{"type":"fixed","delay_ms":50}}}"#;

async fn expire(d: &Deployment, id: ExecutionId, reason: &str) -> ExpireExecutionReply {
    d.call(ExpireExecution { execution_id: id, expire_reason: reason.to_owned() }).await
}

fn expired(result: &str, previous_phase: &str) -> ExpireExecutionReply {
    ExpireExecutionReply::Expired {
        result: result.to_owned(),
        previous_phase: previous_phase.to_owned(),
    }
}

fn not_due(reason: &str) -> ExpireExecutionReply {
    ExpireExecutionReply::NotDue { reason: reason.to_owned() }
}

async fn promote(d: &Deployment, execution_id: ExecutionId) -> Result<String, String> {
    match d.call(PromoteDelayed { execution_id }).await {
        PromoteDelayedReply::Promoted { result } => Ok(result),
        PromoteDelayedReply::NotDue { reason } => Err(reason),
    }
}

conformance! {
    async fn an_execution_past_its_deadline_expires_whatever_it_does(d: &Deployment) {
        let mut ended = d.listen(Topic::Ended).await;
        let waiting = d.create().lane("w").deadline_in(100).send().await;
        let delayed = d.create().delayed_by(1000).deadline_in(100).send().await;
        let running = d.create().deadline_in(100).send().await;
        d.claim(LANE).await;
        d.advance(99).await;
        for (id, phase) in [(waiting, "runnable"), (delayed, "runnable"), (running, "active")] {
            assert_eq!(expire(d, id, "execution_deadline").await, not_due("not_due"));
            d.advance(1).await;
            assert_eq!(expire(d, id, "execution_deadline").await, expired("expired", phase));
            assert_eq!(ended.next().await, id.uuid().to_string());
            d.set_time(d.now().get() - 1).await;
            assert_eq!(expire(d, id, "execution_deadline").await, not_due("already_terminal"));
            let described = d.describe(id).await;
            assert_eq!(described.public_state(), PublicState::Expired);
            let failure = described.failure.expect("the cause is kept");
            assert_eq!(failure.reason, "execution_deadline");
            let dump = d.dump().await;
            assert_eq!(listed_in(&dump, id), ["ended:expired"]);
            let last = events_of(&dump, id).pop().expect("a log");
            assert!(last.ends_with("expired:execution_deadline:tests"), "{last}");
        }
        assert_eq!(d.attempts(running).await[0].state, AttemptLifecycle::EndedFailure);
    }

    async fn an_attempt_past_its_time_without_retries_expires_the_execution(d: &Deployment) {
        let id = d.create().policy(TIMEOUT).send().await;
        assert_eq!(expire(d, id, "attempt_timeout").await, not_due("not_applicable"));
        d.claim(LANE).await;
        d.advance(99).await;
        assert_eq!(expire(d, id, "attempt_timeout").await, not_due("not_due"));
        d.advance(1).await;
        assert_eq!(expire(d, id, "attempt_timeout").await, expired("expired", "active"));
        assert_eq!(expire(d, id, "attempt_timeout").await, not_due("already_terminal"));
        let described = d.describe(id).await;
        assert_eq!(described.public_state(), PublicState::Expired);
        let failure = described.failure.expect("the cause is kept");
        assert_eq!((failure.reason.as_str(), failure.category.as_str()),
            ("attempt_timeout", "timeout"));
        let last = events_of(&d.dump().await, id).pop();
        assert_eq!(last.as_deref(), Some("ended 0 expired:attempt_timeout:tests"));
    }

    async fn an_attempt_past_its_time_is_retried_if_the_policy_says_so(d: &Deployment) {
        let id = d.create().policy(TIMEOUT_AND_RETRY).send().await;
        d.claim(LANE).await;
        d.advance(100).await;
        assert_eq!(expire(d, id, "attempt_timeout").await, expired("retry_scheduled", "active"));
        assert_eq!(expire(d, id, "attempt_timeout").await, not_due("not_applicable"));
        let described = d.describe(id).await;
        assert_eq!((described.public_state(), described.retry_count), (PublicState::Delayed, 1));
        assert_eq!(d.attempts(id).await[0].state, AttemptLifecycle::EndedFailure);
    }

    async fn what_does_not_exist_needs_no_expiry(d: &Deployment) {
        for reason in ["attempt_timeout", "execution_deadline"] {
            assert_eq!(expire(d, d.new_id(), reason).await, not_due("execution_not_found"));
        }
    }

    async fn an_execution_without_a_deadline_is_never_due(d: &Deployment) {
        let held = d.create_and_claim().await;
        d.advance(1_000_000_000).await;
        assert_eq!(expire(d, held.id, "execution_deadline").await, not_due("not_due"));
        assert_eq!(expire(d, held.id, "attempt_timeout").await, not_due("not_due"));
    }

    async fn a_delay_that_is_over_makes_an_execution_claimable(d: &Deployment) {
        let mut ready = d.listen(Topic::Ready).await;
        let id = d.create().delayed_by(100).send().await;
        assert_eq!(promote(d, id).await, Err("not_yet_due".to_owned()));
        d.advance(100).await;
        assert_eq!(promote(d, id).await, Ok("promoted".to_owned()));
        assert_eq!(ready.lane().await, LANE);
        assert_eq!(promote(d, id).await, Err("not_delayed".to_owned()));
        let described = d.describe(id).await;
        assert_eq!((described.public_state(), described.delay_until), (PublicState::Waiting, None));
        assert_eq!(described.last_transition_at, d.now());
        let dump = d.dump().await;
        assert_eq!(listed_in(&dump, id), ["q:default:tests:work"]);
        assert_eq!(events_of(&dump, id), ["created delayed", "promoted"]);
        assert_eq!(promote(d, d.new_id()).await, Err("execution_not_found".to_owned()));
    }
}
