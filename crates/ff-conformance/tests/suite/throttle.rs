//! Submissions that are held together, or apart, by a key.

use ff_conformance::record::{events_of, hash, listed_in, record};
use ff_conformance::{Deployment, LANE, conformance};
use ff_core::contracts::{IfTaken, Why};
use ff_core::engine_backend::roles::*;
use ff_core::error::{Code, EngineError};
use ff_core::state::{BlockingReason, EligibilityState, PublicState};
use ff_core::types::ExecutionId;
use ff_script::calls::create::{CreateExecutionReply, CreateExecutions, CreateExecutionsReply};

use super::cancel::outside;
use super::hold::{hold, let_go};
use super::replay::replay;

type Reply = Result<CreateExecutionReply, EngineError>;

fn known(execution_id: ExecutionId, public_state: PublicState) -> Reply {
    Ok(CreateExecutionReply::Duplicate { execution_id, public_state })
}

fn debounced(execution_id: ExecutionId, public_state: PublicState) -> Reply {
    Ok(CreateExecutionReply::Debounced { execution_id, public_state })
}

/// Who has which keys.
async fn holders(d: &Deployment) -> Vec<(String, String)> {
    let key = format!("{}:throttles", d.home().key());
    hash(&d.dump().await, key.as_bytes()).into_iter().collect()
}

async fn payload(d: &Deployment, id: ExecutionId) -> Vec<u8> {
    d.backend.read_payload(id).await.expect("a read").unwrap_or_default()
}

async fn state(d: &Deployment, id: ExecutionId) -> String {
    record(&d.dump().await, id)["st"].clone()
}

conformance! {
    async fn a_repeat_replaces_the_payload_and_restarts_the_delay(d: &Deployment) {
        let first = d.create().debounced("doc-7", 100, 1000).payload(b"one").send().await;
        assert_eq!(d.describe(first).await.delay_until, Some(d.now().plus_millis(100)));
        d.advance(90).await;
        let again = || d.create().debounced("doc-7", 100, 1000);
        let long = again().payload(&[7; 300]).reply().await;
        assert_eq!(long, debounced(first, PublicState::Delayed));
        assert_eq!(payload(d, first).await, [7; 300]);
        d.advance(10).await;
        d.tick().await;
        assert!(d.try_claim(LANE).await.is_none(), "the delay began anew");
        assert_eq!(again().payload(b"three").reply().await, debounced(first, PublicState::Delayed));
        assert_eq!(d.describe(first).await.delay_until, Some(d.now().plus_millis(100)));
        d.advance(100).await;
        d.tick().await;
        assert_eq!(d.claim(LANE).await.id, first);
        assert_eq!(payload(d, first).await, b"three");
        let told = ["created delayed", "debounced", "debounced", "promoted", "claimed"];
        assert_eq!(events_of(&d.dump().await, first)[..4], told[..4]);
    }

    async fn a_debounced_execution_runs_after_its_maximum_wait_whatever_comes(d: &Deployment) {
        let latest = d.now().plus_millis(250);
        let first = d.create().debounced("k", 100, 250).send().await;
        for _ in 0..2 {
            d.advance(90).await;
            d.create().debounced("k", 100, 250).reply().await.expect("taken");
        }
        assert_eq!(d.describe(first).await.delay_until, Some(latest));
        d.advance(70).await;
        d.tick().await;
        assert_eq!(d.claim(LANE).await.id, first);
    }

    async fn what_comes_when_the_wait_is_over_is_a_new_execution(d: &Deployment) {
        let new = || d.create().debounced("k", 100, 500);
        let first = new().payload(b"one").send().await;
        d.advance(100).await;
        let second = new().payload(b"two").send().await;
        assert_ne!(first, second, "it is due, although nobody has moved it yet");
        assert_eq!(payload(d, first).await, b"one");
        d.tick().await;
        d.call(d.claim(LANE).await.complete(b"")).await;
        let held = vec![("d:tests:work:k".to_owned(), second.uuid().to_string())];
        assert_eq!(holders(d).await, held, "the key is the second one's");
        d.advance(100).await;
        d.tick().await;
        d.call(d.claim(LANE).await.complete(b"")).await;
        assert_eq!(holders(d).await, []);
    }

    async fn a_held_debounced_execution_still_gathers(d: &Deployment) {
        let first = d.create().debounced("k", 100, 500).payload(b"one").send().await;
        d.call(hold(first)).await;
        let reply = d.create().debounced("k", 100, 500).payload(b"two").reply().await;
        assert_eq!(reply, debounced(first, PublicState::Waiting));
        assert_eq!(payload(d, first).await, b"two");
        d.call(let_go(first)).await;
        assert_eq!(state(d, first).await, "delayed");
    }

    async fn a_cancelled_debounced_execution_gives_its_key_away(d: &Deployment) {
        let first = d.create().debounced("k", 100, 500).send().await;
        d.call(outside(first, "operator_override")).await;
        assert_eq!(holders(d).await, []);
        assert_ne!(d.create().debounced("k", 100, 500).send().await, first);
    }

    async fn of_a_singleton_there_is_one_from_creation_to_outcome(d: &Deployment) {
        let new = || d.create().singleton("site-1", IfTaken::Skip);
        let first = new().send().await;
        assert_eq!(new().reply().await, known(first, PublicState::Waiting));
        let task = d.claim(LANE).await;
        assert_eq!(new().reply().await, known(first, PublicState::Active));
        d.call(task.complete(b"")).await;
        let second = new().send().await;
        assert_ne!(first, second);
        assert_eq!(listed_in(&d.dump().await, second), ["q:default:tests:work"]);
    }

    async fn a_key_counts_within_its_namespace_and_kind_and_for_its_throttle(d: &Deployment) {
        let ids = [
            d.create().singleton("k", IfTaken::Skip).send().await,
            d.create().namespace("else").singleton("k", IfTaken::Skip).send().await,
            d.create().kind("other").singleton("k", IfTaken::Skip).send().await,
            d.create().singleton("l", IfTaken::Skip).send().await,
            d.create().debounced("k", 100, 100).send().await,
        ];
        assert_eq!(holders(d).await.len(), ids.len());
    }

    async fn what_queues_behind_a_singleton_runs_one_after_the_other(d: &Deployment) {
        let new = || d.create().singleton("k", IfTaken::Queue);
        let mut ids = Vec::new();
        for _ in 0..3 {
            ids.push(new().send().await);
            d.advance(1).await;
        }
        let waiting = d.describe(ids[1]).await;
        assert_eq!(waiting.state.blocking_reason, BlockingReason::PausedByPolicy);
        assert_eq!(waiting.state.eligibility_state, EligibilityState::BlockedByLaneState);
        assert!(waiting.state.is_legal());
        let why = d.backend.explain_execution(ids[1]).await.expect("there").why;
        assert_eq!(why, Why::Singleton { execution_id: ids[0] });
        for id in ids {
            let task = d.claim(LANE).await;
            assert_eq!(task.id, id);
            assert!(d.try_claim(LANE).await.is_none(), "one at a time");
            d.call(task.complete(b"")).await;
        }
        assert_eq!(holders(d).await, []);
    }

    async fn who_gives_up_waiting_leaves_the_line(d: &Deployment) {
        let new = || d.create().singleton("k", IfTaken::Queue);
        let (first, second) = (new().send().await, new().send().await);
        d.advance(1).await;
        let third = new().deadline_in(50).send().await;
        d.advance(1).await;
        let fourth = new().send().await;
        d.call(outside(second, "operator_override")).await;
        d.advance(60).await;
        d.tick().await;
        assert_eq!(d.describe(third).await.public_state(), PublicState::Expired);
        let task = d.claim(LANE).await;
        assert_eq!(task.id, first);
        d.call(task.complete(b"")).await;
        assert_eq!(d.claim(LANE).await.id, fourth);
    }

    async fn those_whose_time_is_over_at_once_pass_the_key_on(d: &Deployment) {
        let new = || d.create().singleton("k", IfTaken::Queue);
        for _ in 0..40 {
            new().deadline_in(50).send().await;
        }
        d.advance(1).await;
        let last = new().send().await;
        d.advance(100).await;
        d.tick().await;
        assert_eq!(d.claim(LANE).await.id, last);
    }

    async fn a_hold_and_a_turn_are_both_waited_for(d: &Deployment) {
        let new = || d.create().singleton("k", IfTaken::Queue);
        let (first, second) = (new().send().await, new().send().await);
        d.call(hold(second)).await;
        d.call(let_go(second)).await;
        assert_eq!(state(d, second).await, "parked", "it is not its turn");
        d.call(hold(second)).await;
        let task = d.claim(LANE).await;
        assert_eq!(task.id, first);
        d.call(task.complete(b"")).await;
        assert_eq!(state(d, second).await, "parked", "it is held");
        d.call(let_go(second)).await;
        assert_eq!(d.claim(LANE).await.id, second);
    }

    async fn a_replayed_singleton_takes_its_key_again_or_waits_for_it(d: &Deployment) {
        let new = || d.create().singleton("k", IfTaken::Skip);
        let first = new().send().await;
        d.call(d.claim(LANE).await.complete(b"")).await;
        d.call(replay(first)).await;
        assert_eq!(new().reply().await, known(first, PublicState::Waiting));
        d.call(d.claim(LANE).await.complete(b"")).await;
        let second = new().send().await;
        d.call(replay(first)).await;
        assert_eq!(state(d, first).await, "parked");
        let task = d.claim(LANE).await;
        assert_eq!(task.id, second);
        d.call(task.complete(b"")).await;
        assert_eq!(d.claim(LANE).await.id, first);
    }

    async fn a_throttled_creation_that_is_sent_again_finds_what_it_created(d: &Deployment) {
        for throttled in [
            d.create().singleton("s", IfTaken::Skip).call(),
            d.create().singleton("q", IfTaken::Queue).call(),
            d.create().debounced("d", 100, 500).call(),
        ] {
            d.call(throttled.clone()).await;
            let before = d.dump().await;
            let mut again = throttled;
            again.sent_ms_ago = Some(1);
            assert!(matches!(d.call(again).await, CreateExecutionReply::Created { .. }));
            assert_eq!(d.dump().await, before);
        }
    }

    async fn several_in_one_call_see_each_other(d: &Deployment) {
        let new = || d.create().singleton("k", IfTaken::Skip).call();
        let calls = [new(), new()];
        let CreateExecutionsReply::Answers { answers } = d.call(CreateExecutions::of(&calls)).await;
        assert_eq!(answers.0.len(), 2);
        assert_eq!(d.try_describe(calls[1].execution_id).await, None);
        assert_eq!(holders(d).await[0].1, calls[0].execution_id.uuid().to_string());
    }

    async fn a_throttle_that_breaks_a_rule_is_refused_before_anything_is_written(d: &Deployment) {
        let keyed = d.create().singleton("k", IfTaken::Skip).idempotency("key", "digest");
        assert_eq!(d.refused(keyed.call()).await, Code::InvalidInput);
        let delayed = d.create().debounced("k", 100, 500).delayed_by(5);
        assert_eq!(d.refused(delayed.call()).await, Code::InvalidInput);
        for (delay_ms, max_wait_ms) in [(0, 5), (5, 0), (6, 5), (1, u64::MAX)] {
            let new = d.create().debounced("k", delay_ms, max_wait_ms);
            assert_eq!(d.refused(new.call()).await, Code::InvalidInput, "{delay_ms} {max_wait_ms}");
        }
        assert!(d.dump().await.keys().all(|key| !key.ends_with(b":throttles")));
    }
}
