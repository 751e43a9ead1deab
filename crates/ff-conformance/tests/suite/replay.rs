//! Running a finished execution again.

use ff_conformance::record::{events_of, key_of, listed_in};
use ff_conformance::{Deployment, LANE, LEASE_MS, conformance};
use ff_core::engine_backend::roles::*;
use ff_core::error::Code;
use ff_core::state::{AttemptState, AttemptType, PublicState};
use ff_core::types::{ExecutionId, TimestampMs};
use ff_script::calls::claim::AttemptKind;
use ff_script::calls::replay::{ReplayExecution, ReplayExecutionReply};
use ff_script::host::Topic;

use super::cancel::outside;

/// A replay as anybody would ask for it.
pub(crate) fn replay(execution_id: ExecutionId) -> ReplayExecution {
    ReplayExecution {
        execution_id,
        reason: "fixed the bug".to_owned(),
        requested_by: "alice".to_owned(),
        deadline_at: None,
        expected_replay_count: None,
        request_id: None,
        downstream: false,
    }
}

fn replayed(replay_count: u32) -> ReplayExecutionReply {
    ReplayExecutionReply::Replayed { public_state: PublicState::Waiting, replay_count }
}

async fn failed(d: &Deployment, policy: &str) -> ExecutionId {
    let id = d.create().policy(policy).send().await;
    d.call(d.claim(LANE).await.fail("broken", "bug")).await;
    id
}

conformance! {
    async fn a_finished_execution_waits_again(d: &Deployment) {
        let mut ready = d.listen(Topic::Ready).await;
        let id = failed(d, "").await;
        assert_eq!(ready.lane().await, LANE);
        d.advance(50).await;
        assert_eq!(d.call(replay(id)).await, replayed(1));
        assert_eq!(ready.lane().await, LANE);
        let described = d.describe(id).await;
        assert_eq!(described.public_state(), PublicState::Waiting);
        assert_eq!(described.state.attempt_state, AttemptState::PendingReplayAttempt);
        assert_eq!((described.replay_count, described.completed_at), (1, None));
        assert_eq!(described.last_transition_at, d.now());
        let dump = d.dump().await;
        assert_eq!(listed_in(&dump, id), ["q:default:tests:work"]);
        assert_eq!(events_of(&dump, id).last().map(String::as_str), Some("replayed 0 alice"));
    }

    async fn its_next_attempt_is_a_replay_that_says_who_and_why(d: &Deployment) {
        let id = failed(d, "").await;
        d.call(replay(id)).await;
        let held = d.claim(LANE).await;
        assert_eq!(held.row.attempt_kind, AttemptKind::New(AttemptType::Replay));
        assert_eq!((held.row.attempt_index.get(), held.lease_epoch.get()), (1, 2));
        let attempts = d.attempts(id).await;
        assert_eq!(attempts[1].attempt_type, AttemptType::Replay);
        assert_eq!(attempts[1].cause.as_deref(), Some("alice fixed the bug"));
        d.call(held.complete(b"")).await;
    }

    async fn every_outcome_can_be_replayed(d: &Deployment) {
        let cancelled = d.create_one().await;
        d.call(outside(cancelled, "operator_override")).await;
        let expired = d.create().deadline_in(10).send().await;
        d.advance(10).await;
        d.tick().await;
        let succeeded = d.create_and_claim().await;
        d.call(succeeded.complete(&[1; 1000])).await;
        for id in [cancelled, expired, succeeded.id] {
            assert_eq!(d.call(replay(id)).await, replayed(1));
            d.describe(id).await;
            let held = d.claim(LANE).await;
            assert_eq!(held.row.attempt_kind, AttemptKind::New(AttemptType::Replay));
            d.call(held.complete(b"again")).await;
        }
        assert!(!d.dump().await.contains_key(&key_of(succeeded.id, ":result")));
    }

    async fn the_old_result_is_gone(d: &Deployment) {
        let held = d.create_and_claim().await;
        d.call(held.complete(&[1; 1000])).await;
        d.call(replay(held.id)).await;
        let result = d.backend.read_result(held.id).await.expect("it can be read");
        assert_eq!(result, None);
        assert!(!d.dump().await.contains_key(&key_of(held.id, ":result")));
        let held = d.claim(LANE).await;
        d.call(held.complete(b"")).await;
        let result = d.backend.read_result(held.id).await.expect("it can be read");
        assert_eq!(result.as_deref(), Some(b"".as_slice()));
    }

    async fn what_is_not_over_cannot_be_replayed(d: &Deployment) {
        assert_eq!(d.refused(replay(d.new_id())).await, Code::ExecutionNotFound);
        let id = d.create_one().await;
        assert_eq!(d.refused(replay(id)).await, Code::ExecutionNotTerminal);
        let held = d.claim(LANE).await;
        assert_eq!(d.refused(replay(id)).await, Code::ExecutionNotTerminal);
        d.advance(LEASE_MS).await;
        d.tick().await;
        assert_eq!(d.refused(replay(held.id)).await, Code::ExecutionNotTerminal);
    }

    async fn the_policy_bounds_the_replays(d: &Deployment) {
        let id = failed(d, r#"{"max_replay_count":1}"#).await;
        d.call(replay(id)).await;
        d.call(d.claim(LANE).await.fail("broken", "bug")).await;
        assert_eq!(d.refused(replay(id)).await, Code::MaxReplaysExhausted);
        let never = failed(d, r#"{"max_replay_count":0}"#).await;
        assert_eq!(d.refused(replay(never)).await, Code::MaxReplaysExhausted);
    }

    async fn ten_replays_are_allowed_by_default(d: &Deployment) {
        let id = failed(d, "").await;
        for count in 1..=10 {
            assert_eq!(d.call(replay(id)).await, replayed(count));
            d.call(d.claim(LANE).await.complete(b"")).await;
        }
        assert_eq!(d.refused(replay(id)).await, Code::MaxReplaysExhausted);
    }

    async fn a_lost_reply_is_answered_again_to_those_who_say_what_they_saw(d: &Deployment) {
        let id = failed(d, "").await;
        let call = ReplayExecution { expected_replay_count: Some(0), ..replay(id) };
        assert_eq!(d.call(call.clone()).await, replayed(1));
        let public_state = PublicState::Waiting;
        let before = ReplayExecutionReply::ReplayedBefore { public_state, replay_count: 1 };
        assert_eq!(d.call(call.clone()).await, before);
        d.call(d.claim(LANE).await.complete(b"")).await;
        let public_state = PublicState::Completed;
        let before = ReplayExecutionReply::ReplayedBefore { public_state, replay_count: 1 };
        assert_eq!(d.call(call).await, before, "a late repetition does not run it a third time");
    }

    async fn a_repetition_that_comes_late_is_recognised(d: &Deployment) {
        let id = failed(d, "").await;
        let call = ReplayExecution { expected_replay_count: Some(0), ..replay(id) };
        d.call(call.clone()).await;
        d.call(d.claim(LANE).await.complete(b"")).await;
        d.call(replay(id)).await;
        d.call(d.claim(LANE).await.complete(b"")).await;
        let public_state = PublicState::Completed;
        let before = ReplayExecutionReply::ReplayedBefore { public_state, replay_count: 2 };
        assert_eq!(d.call(call).await, before);
    }

    async fn a_replay_gets_as_much_time_as_the_first_run(d: &Deployment) {
        let policy = r#"{"timeout_policy":{"execution_deadline_ms":500}}"#;
        let id = failed(d, policy).await;
        d.advance(10_000).await;
        d.call(replay(id)).await;
        assert_eq!(d.describe(id).await.deadline_at, Some(d.now().plus_millis(500)));
        assert_eq!(listed_in(&d.dump().await, id), ["due", "q:default:tests:work"]);
        d.call(d.claim(LANE).await.complete(b"")).await;
        let none = ReplayExecution { deadline_at: Some(TimestampMs::new(0)), ..replay(id) };
        d.call(none).await;
        assert_eq!(d.describe(id).await.deadline_at, None);
        d.call(d.claim(LANE).await.complete(b"")).await;
        let at = d.now().plus_millis(77);
        d.call(ReplayExecution { deadline_at: Some(at), ..replay(id) }).await;
        assert_eq!(d.describe(id).await.deadline_at, Some(at));
    }
}
