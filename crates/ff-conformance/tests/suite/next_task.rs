//! Ending an execution and taking the next one in one call.

use ff_conformance::record::{events_of, listed_in};
use ff_conformance::{
    Deployment, Held, INSTANCE, LANE, LEASE_MS, WORKER, capabilities, conformance, lane,
};
use ff_core::error::Code;
use ff_core::state::PublicState;
use ff_core::types::ExecutionKind;
use ff_script::calls::complete::{CompleteAndClaimNext, CompleteAndClaimNextReply};
use ff_script::calls::fail::FailAndClaimNextReply;
use ff_script::calls::lane::SetLane;
use ff_script::host::Topic;
use ff_script::wire::Joined;

use super::fact::unset;

const RETRIED: &str =
    r#"{"retry_policy":{"max_retries":1,"backoff":{"type":"fixed","delay_ms":1000}}}"#;
/// The queue of what names nothing of its own.
const NEED: &str = "tests:work";

/// Takes the next one of that queue.
fn naming(call: CompleteAndClaimNext) -> CompleteAndClaimNext {
    CompleteAndClaimNext { need: Some(NEED.parse().expect("a need")), ..call }
}

/// What such a call took, and the score of the best that is left.
async fn taken(d: &Deployment, call: CompleteAndClaimNext) -> (Vec<Held>, Option<i64>) {
    let (CompleteAndClaimNextReply::CompletedAndClaimed { claims, next_score, public_state }
    | CompleteAndClaimNextReply::CompletedAndClaimedBefore { claims, next_score, public_state }) =
        d.call(call).await;
    assert_eq!(public_state, PublicState::Completed);
    (claims.0.into_iter().map(Held::from).collect(), next_score)
}

conformance! {
    async fn an_end_brings_the_best_of_the_queue_that_is_named(d: &Deployment) {
        let held = d.create_and_claim().await;
        let low = d.create().payload(b"low").send().await;
        let high = d.create().priority(5).payload(b"high").send().await;
        d.advance(20).await;
        let call = naming(held.complete_and_claim(d, LANE));
        let lease_id = call.next_lease_id;
        let (taken, next_score) = taken(d, call).await;
        assert_eq!(taken.len(), 1);
        let row = &taken[0].row;
        assert_eq!((row.execution_id, row.payload.as_slice()), (high, b"high".as_slice()));
        assert_eq!((row.lease_id, row.lease_epoch.get()), (lease_id, 1));
        assert_eq!(row.attempt_id.as_uuid(), lease_id.as_uuid(), "an attempt of its own");
        assert_eq!(row.lease_expires_at, d.now().plus_millis(LEASE_MS));
        assert_eq!(next_score, Some(d.now().get() as i64 - 20), "that of the other");
        let described = d.describe(high).await;
        let lease = described.current_lease.expect("a lease is held");
        assert_eq!(lease.worker_id.as_str(), WORKER, "of the one who ended the other");
        assert_eq!(lease.worker_instance_id.as_str(), INSTANCE);
        assert_eq!(d.describe(held.id).await.public_state(), PublicState::Completed);
        let dump = d.dump().await;
        assert_eq!(listed_in(&dump, held.id), ["ended:success"]);
        assert_eq!(listed_in(&dump, high), ["leases"]);
        assert_eq!(listed_in(&dump, low), [format!("q:{LANE}:{NEED}")]);
        assert_eq!(events_of(&dump, high), ["created", "claimed 0 initial"]);
        d.call(taken[0].complete(b"")).await;
    }

    async fn without_a_queue_only_what_the_end_frees_is_taken(d: &Deployment) {
        let flow = d.flow("a -> b").await;
        let other = d.create_one().await;
        let held = d.take(&flow, "a").await;
        let (taken, _) = taken(d, held.complete_and_claim(d, LANE)).await;
        assert_eq!(taken.iter().map(|held| held.id).collect::<Vec<_>>(), [flow.id("b")]);
        let (none, _) = self::taken(d, taken[0].complete_and_claim(d, LANE)).await;
        assert!(none.is_empty(), "nothing is freed, and no queue is named");
        assert_eq!(d.flow_state(&flow).await, "completed: 2 completed");
        assert_eq!(d.claim(LANE).await.id, other);
    }

    async fn nobody_is_told_of_what_is_taken_in_the_call_that_frees_it(d: &Deployment) {
        let flow = d.flow("a -> b, a -> c").await;
        let held = d.take(&flow, "a").await;
        let mut ready = d.listen(Topic::Ready).await;
        let (taken, _) = taken(d, held.complete_and_claim(d, LANE)).await;
        assert_eq!(taken.len(), 1);
        let score = d.describe(flow.id("c")).await.created_at.get();
        assert_eq!(ready.next().await, format!("1:{score}:{LANE}:{NEED}"), "one of the two is left");
        let chain = d.flow("a -> b").await;
        let held = d.take(&chain, "a").await;
        self::taken(d, held.complete_and_claim(d, LANE)).await;
        d.create().lane("marker").send().await;
        let mut told = Vec::new();
        while told.last().is_none_or(|lane| lane != "marker") {
            told.push(ready.lane().await);
        }
        assert_eq!(told, [LANE, "marker"], "the beginning of the chain, but not what follows");
    }

    async fn nothing_behind_the_greatest_score_is_taken(d: &Deployment) {
        let held = d.create_and_claim().await;
        let id = d.create_one().await;
        let score = d.now().get() as i64;
        let most = |call, score_max| CompleteAndClaimNext { score_max: Some(score_max), ..call };
        let call = most(naming(held.complete_and_claim(d, LANE)), score - 1);
        assert!(taken(d, call).await.0.is_empty());
        let held = d.claim(LANE).await;
        assert_eq!(held.id, id);
        let next = d.create_one().await;
        let call = most(naming(held.complete_and_claim(d, LANE)), score);
        assert_eq!(taken(d, call).await.0[0].id, next);
    }

    async fn a_paused_lane_gives_nothing_and_the_end_counts(d: &Deployment) {
        let held = d.create_and_claim().await;
        d.create_one().await;
        d.call(SetLane { paused: Some(true), ..unset(LANE) }).await;
        let (taken, next_score) = taken(d, naming(held.complete_and_claim(d, LANE))).await;
        assert!(taken.is_empty() && next_score.is_none());
        assert_eq!(d.describe(held.id).await.public_state(), PublicState::Completed);
    }

    async fn who_asks_again_is_given_what_the_first_call_took(d: &Deployment) {
        let held = d.create_and_claim().await;
        let next = d.create_one().await;
        let behind = d.create_one().await;
        let call = naming(held.complete_and_claim(d, LANE));
        let (first, _) = taken(d, call.clone()).await;
        let before = d.dump().await;
        let (again, _) = taken(d, call.clone()).await;
        assert_eq!((first[0].row.clone(), first[0].id), (again[0].row.clone(), next));
        assert_eq!(d.dump().await, before);
        d.call(again[0].complete(b"")).await;
        let reply = d.call(call).await;
        let CompleteAndClaimNextReply::CompletedAndClaimedBefore { claims, .. } = reply else {
            panic!("{reply:?}");
        };
        assert!(claims.0.is_empty(), "its lease is over");
        assert_eq!(d.claim(LANE).await.id, behind);
    }

    async fn a_stale_holder_takes_nothing(d: &Deployment) {
        let stale = d.create_and_claim().await;
        d.advance(LEASE_MS).await;
        let next = d.create_one().await;
        let before = d.dump().await;
        let call = naming(stale.complete_and_claim(d, LANE));
        assert_eq!(d.refused(call).await, Code::LeaseExpired);
        assert_eq!(d.dump().await, before);
        let call = stale.fail_and_claim(d, LANE);
        assert_eq!(d.refused(call).await, Code::LeaseExpired);
        let claimed = d.claimed(d.claim_call(LANE, 2)).await;
        assert_eq!(claimed.iter().map(|held| held.id).collect::<Vec<_>>(), [next]);
    }

    async fn what_the_worker_cannot_do_is_refused_before_anything_is_written(d: &Deployment) {
        let held = d.create_and_claim().await;
        let before = d.dump().await;
        let need = Some("tests:work:gpu".parse().expect("a need"));
        let call = CompleteAndClaimNext { need, ..held.complete_and_claim(d, LANE) };
        assert_eq!(d.refused(call.clone()).await, Code::CapabilityMismatch);
        assert_eq!(d.dump().await, before);
        let call = CompleteAndClaimNext { capabilities: capabilities(&["gpu"]), ..call };
        taken(d, call).await;
        let held = d.create_and_claim().await;
        let mut call = held.fail_and_claim(d, LANE);
        call.need = Some("tests:work:gpu".parse().expect("a need"));
        assert_eq!(d.refused(call).await, Code::CapabilityMismatch);
        for name in ["ff_complete_and_claim_next", "ff_fail_and_claim_next"] {
            let fence = held.fence();
            let own: &[&str] = match name {
                "ff_complete_and_claim_next" => &["result"],
                _ => &["reason", "transient", "", "0"],
            };
            let id = held.lease_id.to_string();
            let next = [LANE, "a b", "1000", id.as_str()];
            let args = fence.iter().map(String::as_str).chain(own.iter().copied()).chain(next);
            let args: Vec<&[u8]> = args.map(str::as_bytes).collect();
            assert_eq!(d.raw(name, &args).await.code(), "invalid_capabilities", "{name}");
        }
        assert_eq!(d.describe(held.id).await.public_state(), PublicState::Active);
    }

    async fn a_result_that_is_too_large_ends_nothing_and_takes_nothing(d: &Deployment) {
        let held = d.create_and_claim().await;
        d.create_one().await;
        let before = d.dump().await;
        let result = vec![0; ff_core::limits::RESULT_BYTES_MAX as usize + 1];
        let call = CompleteAndClaimNext { result, ..naming(held.complete_and_claim(d, LANE)) };
        assert_eq!(d.refused(call).await, Code::PayloadTooLarge);
        assert_eq!(d.dump().await, before);
    }

    async fn freed_steps_are_taken_only_by_workers_that_may(d: &Deployment) {
        let mut graph = d.graph("a -> b, a -> c");
        graph.create("b").kind = ExecutionKind::try_new("render").expect("a name");
        graph.create("c").lane = lane("other");
        let flow = d.submit(&graph).await;
        let held = d.take(&flow, "a").await;
        let kinds = Joined(vec![ExecutionKind::try_new("work").expect("a name")]);
        let call = CompleteAndClaimNext { kinds, ..held.complete_and_claim(d, LANE) };
        assert!(taken(d, call).await.0.is_empty(), "another kind, and another lane");
        assert_eq!(d.claim(LANE).await.id, flow.id("b"));
        assert_eq!(d.claim("other").await.id, flow.id("c"));
    }

    async fn a_failure_brings_the_next_too(d: &Deployment) {
        let retried = d.create().policy(RETRIED);
        let retried = retried.send().await;
        let held = d.claim(LANE).await;
        let next = d.create_one().await;
        let mut call = held.fail_and_claim(d, LANE);
        call.need = Some(NEED.parse().expect("a need"));
        let reply = d.call(call.clone()).await;
        let FailAndClaimNextReply::FailedAndClaimed { delay_until, claims, .. } = reply else {
            panic!("{reply:?}");
        };
        assert!(delay_until.is_some_and(|at| at > d.now()));
        assert_eq!(claims.0[0].execution_id, next);
        assert_eq!(d.describe(retried).await.public_state(), PublicState::Delayed);
        let reply = d.call(call).await;
        let FailAndClaimNextReply::FailedAndClaimedBefore { claims, .. } = reply else {
            panic!("{reply:?}");
        };
        assert_eq!(claims.0[0].execution_id, next);
        let last = Held::from(claims.0[0].clone());
        let mut call = last.fail_and_claim(d, LANE);
        call.is_final = true;
        let reply = d.call(call).await;
        let FailAndClaimNextReply::FailedAndClaimed { delay_until, claims, .. } = reply else {
            panic!("{reply:?}");
        };
        assert_eq!((delay_until, claims.0.len()), (None, 0));
    }

    async fn both_calls_make_of_an_execution_what_two_would(d: &Deployment) {
        let in_two = d.create_and_claim().await;
        let second = d.create_one().await;
        d.advance(3).await;
        d.call(in_two.complete(b"result")).await;
        let then = d.claim(LANE).await;
        assert_eq!(then.id, second);
        let (two, next_of_two) = (d.describe(in_two.id).await, d.describe(second).await);
        d.call(then.complete(b"")).await;
        let in_one = d.create_and_claim().await;
        let third = d.create_one().await;
        d.advance(3).await;
        taken(d, naming(in_one.complete_and_claim(d, LANE))).await;
        let (one, next_of_one) = (d.describe(in_one.id).await, d.describe(third).await);
        assert_eq!(one.state, two.state);
        assert_eq!(next_of_one.state, next_of_two.state);
        let dump = d.dump().await;
        assert_eq!(events_of(&dump, in_one.id), events_of(&dump, in_two.id));
        assert_eq!(listed_in(&dump, in_one.id), listed_in(&dump, in_two.id));
        assert_eq!(events_of(&dump, third), ["created", "claimed 0 initial"]);
    }
}
