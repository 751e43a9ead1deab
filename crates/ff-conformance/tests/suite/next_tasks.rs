//! Ending several executions and taking the next ones in one call.

use ff_conformance::record::{events_of, listed_in};
use ff_conformance::{Deployment, Held, INSTANCE, LANE, capabilities, conformance};
use ff_core::contracts::{ClaimRequest, TakeFrom};
use ff_core::engine_backend::roles::*;
use ff_core::error::Code;
use ff_core::limits;
use ff_core::state::PublicState;
use ff_core::types::{ExecutionId, LeaseId, WorkerInstanceId};
use ff_script::calls::complete::{
    CompleteExecution, CompleteExecutionsAndClaimNext, CompleteExecutionsAndClaimNextReply,
};
use ff_script::calls::lane::SetLane;
use ff_script::host::Topic;

use super::complete::word;
use super::fact::unset;

/// The queue of what names nothing of its own.
const NEED: &str = "tests:work";

/// What workers that end so many tasks of the usual queue ask for.
fn next(d: &Deployment, count: usize) -> ClaimRequest {
    let from = TakeFrom { need: NEED.parse().ok(), score_max: None };
    ClaimRequest { from, ..d.claim_request(count) }
}

fn completions(held: &[Held]) -> Vec<CompleteExecution> {
    held.iter().map(|held| held.complete(b"result")).collect()
}

/// What such a call answered: a word for each, what was taken, and the score of the best one left.
struct Told {
    words: Vec<String>,
    taken: Vec<Held>,
    next_score: Option<i64>,
}

impl Told {
    fn taken(&self) -> Vec<(ExecutionId, LeaseId)> {
        self.taken.iter().map(|held| (held.id, held.lease_id)).collect()
    }
}

async fn end(d: &Deployment, call: CompleteExecutionsAndClaimNext) -> Told {
    let CompleteExecutionsAndClaimNextReply::Answers { answers, claims, next_score } =
        d.call(call).await;
    let words = answers.0.into_iter().map(word).collect();
    Told { words, taken: claims.0.into_iter().map(Held::from).collect(), next_score }
}

/// So many that run.
async fn running(d: &Deployment, count: usize) -> Vec<Held> {
    for _ in 0..count {
        d.create_one().await;
        d.advance(1).await;
    }
    d.claimed(d.claim_call(LANE, count)).await
}

conformance! {
    async fn several_end_and_each_brings_the_next_of_the_queue(d: &Deployment) {
        let held = running(d, 3).await;
        let mut waiting = Vec::new();
        for _ in 0..4 {
            d.advance(1).await;
            waiting.push(d.create_one().await);
        }
        let mut ended = d.listen(Topic::Ended).await;
        let next = next(d, 3);
        let told = end(d, CompleteExecutionsAndClaimNext::of(&completions(&held), &next)).await;
        assert_eq!(told.words, ["OK", "OK", "OK"]);
        let expected: Vec<_> =
            waiting.iter().copied().zip(next.lease_ids.iter().copied()).take(3).collect();
        assert_eq!(told.taken(), expected, "the oldest ones, in the order of the leases");
        assert_eq!(told.next_score, Some(d.now().get() as i64), "that of the fourth");
        let uuids: Vec<String> = held.iter().map(|held| held.id.uuid().to_string()).collect();
        assert_eq!(ended.next().await, uuids.join(" "), "one push for all");
        let dump = d.dump().await;
        for (held, taken) in held.iter().zip(&told.taken) {
            assert_eq!(listed_in(&dump, held.id), ["ended:success"]);
            assert_eq!(events_of(&dump, held.id).len(), 3, "created, claimed, ended");
            assert_eq!(listed_in(&dump, taken.id), ["leases"]);
            assert_eq!(events_of(&dump, taken.id), ["created", "claimed 0 initial"]);
            let result = d.backend.read_result(held.id).await.expect("the result can be read");
            assert_eq!(result.as_deref(), Some(b"result".as_slice()));
        }
        assert_eq!(listed_in(&dump, waiting[3]), [format!("q:{LANE}:{NEED}")]);
    }

    async fn a_stale_one_takes_nothing_and_keeps_nobody_from_it(d: &Deployment) {
        let held = running(d, 2).await;
        let (first, second) = (d.create_one().await, d.create_one().await);
        let mut stale = held[0].complete(b"stale");
        stale.lease_id = LeaseId::from_uuid(d.new_uuid());
        let calls = [stale, held[0].complete(b""), held[1].complete(b"")];
        let next = next(d, 3);
        let told = end(d, CompleteExecutionsAndClaimNext::of(&calls, &next)).await;
        assert_eq!(told.words, ["stale_lease", "OK", "OK"]);
        let mut taken = told.taken();
        taken.sort_unstable_by_key(|(_, lease_id)| *lease_id != next.lease_ids[1]);
        assert_eq!(taken.iter().map(|(_, lease_id)| *lease_id).collect::<Vec<_>>(),
            next.lease_ids[1..]);
        let mut ids: Vec<_> = taken.iter().map(|(id, _)| *id).collect();
        ids.sort_unstable();
        let mut expected = vec![first, second];
        expected.sort_unstable();
        assert_eq!(ids, expected);
    }

    async fn who_ask_again_are_given_what_the_first_call_took(d: &Deployment) {
        let held = running(d, 2).await;
        waiting_behind(d, 3).await;
        let call = CompleteExecutionsAndClaimNext::of(&completions(&held), &next(d, 2));
        let first = end(d, call.clone()).await;
        assert_eq!(first.taken.len(), 2);
        let before = d.dump().await;
        let again = end(d, call).await;
        assert_eq!(again.words, ["DUPLICATE", "DUPLICATE"]);
        let sorted = |told: &Told| {
            let mut taken = told.taken();
            taken.sort_unstable();
            taken
        };
        assert_eq!((sorted(&again), again.next_score), (sorted(&first), None));
        assert_eq!(d.dump().await, before);
    }

    async fn a_repetition_and_a_first_call_can_come_together(d: &Deployment) {
        let held = running(d, 2).await;
        waiting_behind(d, 3).await;
        let next = next(d, 2);
        let mut alone = held[0].complete_and_claim(d, LANE);
        alone.need = NEED.parse().ok();
        alone.next_lease_id = next.lease_ids[0];
        d.call(alone).await;
        let call = CompleteExecutionsAndClaimNext::of(&completions(&held), &next);
        let told = end(d, call.clone()).await;
        assert_eq!(told.words, ["DUPLICATE", "OK"]);
        let leases: Vec<_> = told.taken.iter().map(|held| held.lease_id).collect();
        assert_eq!(leases, next.lease_ids, "the one that was taken before, and one more");
        // What the first took is completed with the repetition of what brought it.
        let both = [held[0].complete(b""), told.taken[0].complete(b"")];
        let after = ClaimRequest {
            lease_ids: vec![next.lease_ids[0], LeaseId::from_uuid(d.new_uuid())],
            ..next
        };
        let told = end(d, CompleteExecutionsAndClaimNext::of(&both, &after)).await;
        assert_eq!(told.words, ["DUPLICATE", "OK"]);
        let leases: Vec<_> = told.taken.iter().map(|held| held.lease_id).collect();
        assert_eq!(leases, after.lease_ids[1..], "it runs no longer");
    }

    async fn one_that_is_named_twice_ends_once(d: &Deployment) {
        let held = running(d, 1).await;
        waiting_behind(d, 2).await;
        let calls = [held[0].complete(b"1"), held[0].complete(b"2")];
        let told = end(d, CompleteExecutionsAndClaimNext::of(&calls, &next(d, 2))).await;
        assert_eq!((told.words, told.taken.len()),
            (vec!["OK".to_owned(), "DUPLICATE".to_owned()], 1));
        let result = d.backend.read_result(held[0].id).await.expect("the result can be read");
        assert_eq!(result.as_deref(), Some(b"1".as_slice()));
    }

    async fn every_worker_takes_for_itself(d: &Deployment) {
        d.create_one().await;
        let mut held = d.claimed(d.claim_call(LANE, 1)).await;
        d.create_one().await;
        let other = WorkerInstanceId::try_new("other-1").expect("a name");
        let mut claim = d.claim_call(LANE, 1);
        claim.worker_instance_id = other.clone();
        held.extend(d.claimed(claim).await);
        waiting_behind(d, 2).await;
        let call = CompleteExecutionsAndClaimNext::of(&completions(&held), &next(d, 2));
        let told = end(d, call).await;
        let mut workers = Vec::new();
        for taken in &told.taken {
            let lease = d.describe(taken.id).await.current_lease.expect("a lease is held");
            workers.push(lease.worker_instance_id);
        }
        assert_eq!(workers.iter().map(WorkerInstanceId::as_str).collect::<Vec<_>>(),
            [INSTANCE, "other-1"]);
    }

    async fn steps_that_end_together_free_what_waits_for_both(d: &Deployment) {
        let flow = d.flow("a -> c, b -> c").await;
        let held = [d.take(&flow, "a").await, d.take(&flow, "b").await, d.create_and_claim().await];
        let plain = ClaimRequest { from: TakeFrom::default(), ..next(d, 3) };
        let calls = [held[2].complete(b""), held[0].complete(b""), held[1].complete(b"")];
        let told = end(d, CompleteExecutionsAndClaimNext::of(&calls, &plain)).await;
        assert_eq!(told.words, ["OK", "OK", "OK"]);
        let ids: Vec<_> = told.taken.iter().map(|held| held.id).collect();
        assert_eq!(ids, [flow.id("c")], "it is freed once, and nothing else is");
        d.call(told.taken[0].complete(b"")).await;
        assert_eq!(d.flow_state(&flow).await, "completed: 3 completed");
    }

    async fn a_paused_lane_gives_nothing_and_the_ends_count(d: &Deployment) {
        let held = running(d, 2).await;
        waiting_behind(d, 2).await;
        d.call(SetLane { paused: Some(true), ..unset(LANE) }).await;
        let call = CompleteExecutionsAndClaimNext::of(&completions(&held), &next(d, 2));
        let told = end(d, call).await;
        assert_eq!((told.taken.len(), told.next_score), (0, None));
        for held in held {
            assert_eq!(d.describe(held.id).await.public_state(), PublicState::Completed);
        }
    }

    async fn nothing_behind_the_greatest_score_is_taken_for_any(d: &Deployment) {
        let held = running(d, 2).await;
        let first = d.create_one().await;
        let most = d.now().get() as i64;
        d.advance(1).await;
        d.create_one().await;
        let mut next = next(d, 2);
        next.from.score_max = Some(most);
        let told = end(d, CompleteExecutionsAndClaimNext::of(&completions(&held), &next)).await;
        assert_eq!(told.taken(), [(first, next.lease_ids[0])]);
        assert_eq!(told.next_score, Some(most + 1));
    }

    async fn what_the_workers_cannot_do_is_refused_before_anything_is_written(d: &Deployment) {
        let held = running(d, 2).await;
        let before = d.dump().await;
        let mut next = next(d, 2);
        next.from.need = "tests:work:gpu".parse().ok();
        let call = CompleteExecutionsAndClaimNext::of(&completions(&held), &next);
        assert_eq!(d.refused(call.clone()).await, Code::CapabilityMismatch);
        let name = "ff_complete_executions_and_claim_next";
        let args: [&[u8]; 9] =
            [LANE.as_bytes(), b"a b", b"1000", b"", b"", b"", b"", b"6", b"x"];
        assert_eq!(d.raw(name, &args).await.code(), "invalid_capabilities");
        assert_eq!(d.dump().await, before);
        let able = CompleteExecutionsAndClaimNext { capabilities: capabilities(&["gpu"]), ..call };
        assert_eq!(end(d, able).await.words, ["OK", "OK"]);
    }

    async fn such_a_batch_is_bounded_and_whole(d: &Deployment) {
        let held = running(d, 1).await;
        let most = limits::FINISH_BATCH_MAX as usize;
        let calls = vec![held[0].complete(b""); most + 1];
        let many = CompleteExecutionsAndClaimNext::of(&calls, &next(d, most + 1));
        let before = d.dump().await;
        assert_eq!(d.refused(many).await, Code::InvalidInput);
        let mut half = CompleteExecutionsAndClaimNext::of(&calls[..1], &next(d, 1));
        half.items.0.pop();
        assert_eq!(d.refused(half).await, Code::InvalidInput);
        let mut large = CompleteExecutionsAndClaimNext::of(&calls[..1], &next(d, 1));
        large.items.0[4] = vec![0; limits::RESULT_BYTES_MAX as usize + 1];
        assert_eq!(d.refused(large).await, Code::PayloadTooLarge);
        assert_eq!(d.dump().await, before);
    }
}

/// Puts so many into the usual queue, one after the other.
async fn waiting_behind(d: &Deployment, count: usize) {
    for _ in 0..count {
        d.advance(1).await;
        d.create_one().await;
    }
}
