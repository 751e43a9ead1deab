//! Ending in success.

use ff_conformance::record::{events_of, listed_in, record, score};
use ff_conformance::{LANE, conformance};
use ff_core::engine_backend::roles::*;
use ff_core::error::Code;
use ff_core::limits;
use ff_core::state::{AttemptLifecycle, PublicState};
use ff_core::types::LeaseId;
use ff_script::calls::complete::{
    CompleteExecutionReply, CompleteExecutions, CompleteExecutionsReply,
};
use ff_script::host::Topic;
use ff_script::value::Value;

/// The status or code of one of several answers.
pub(super) fn word(answer: Value) -> String {
    let Value::Array(values) = answer else { panic!("{answer:?}") };
    values[1].as_text().expect("a word").to_owned()
}

conformance! {
    async fn a_completed_execution_has_its_result_and_is_kept_for_a_day(d: &Deployment) {
        let mut ended = d.listen(Topic::Ended).await;
        let held = d.create_and_claim().await;
        d.advance(7).await;
        let reply = d.call(held.complete(b"the result")).await;
        let public_state = PublicState::Completed;
        assert_eq!(reply, CompleteExecutionReply::Completed { public_state });
        let described = d.describe(held.id).await;
        assert_eq!(described.completed_at, Some(d.now()));
        assert_eq!(described.purge_at, Some(d.now().plus_millis(limits::RETENTION_MS_DEFAULT)));
        assert_eq!((described.current_lease, described.last_transition_at), (None, d.now()));
        let result = d.backend.read_result(held.id).await.expect("the result can be read");
        assert_eq!(result.as_deref(), Some(b"the result".as_slice()));
        assert_eq!(ended.next().await, held.id.uuid().to_string());
    }

    async fn it_leaves_every_live_index_for_the_one_of_its_outcome(d: &Deployment) {
        let held = d.create_and_claim().await;
        assert_eq!(listed_in(&d.dump().await, held.id), ["leases"]);
        d.call(held.complete(b"")).await;
        let dump = d.dump().await;
        assert_eq!(listed_in(&dump, held.id), ["ended:success"]);
        let purge_at = d.now().get() + limits::RETENTION_MS_DEFAULT;
        assert_eq!(score(&dump, "ended:success", held.id), Some(purge_at));
        assert_eq!(score(&dump, "all", held.id), Some(d.now().get()));
        assert_eq!(events_of(&dump, held.id),
            ["created", "claimed 0 initial", "ended 0 success:completed:tests"]);
    }

    async fn its_attempt_ends_in_success(d: &Deployment) {
        let held = d.create_and_claim().await;
        let running = d.attempts(held.id).await;
        assert_eq!((running[0].state, running[0].ended_at), (AttemptLifecycle::Started, None));
        d.advance(5).await;
        d.call(held.complete(b"")).await;
        let attempts = d.attempts(held.id).await;
        assert_eq!(attempts.len(), 1);
        assert_eq!(attempts[0].state, AttemptLifecycle::EndedSuccess);
        assert_eq!(attempts[0].ended_at, Some(d.now()));
    }

    async fn a_lost_reply_to_complete_is_answered_again(d: &Deployment) {
        let held = d.create_and_claim().await;
        d.call(held.complete(b"first")).await;
        d.advance(60_000).await;
        let reply = d.call(held.complete(b"second")).await;
        let public_state = PublicState::Completed;
        assert_eq!(reply, CompleteExecutionReply::CompletedBefore { public_state });
        let result = d.backend.read_result(held.id).await.expect("the result can be read");
        assert_eq!(result.as_deref(), Some(b"first".as_slice()), "an outcome never changes");
    }

    async fn several_are_completed_in_one_call_each_on_its_own(d: &Deployment) {
        let (first, second) = (d.create_and_claim().await, d.create_and_claim().await);
        let mut stale = first.complete(b"stale");
        stale.lease_id = LeaseId::from_uuid(d.new_uuid());
        let calls = [stale, first.complete(b"1"), second.complete(b"2"), first.complete(b"again")];
        let answered = d.call(CompleteExecutions::of(&calls)).await;
        let CompleteExecutionsReply::Answers { answers } = answered;
        let words: Vec<String> = answers.0.into_iter().map(word).collect();
        assert_eq!(words, ["stale_lease", "OK", "OK", "DUPLICATE"]);
        for (held, expected) in [(&first, b"1"), (&second, b"2")] {
            let result = d.backend.read_result(held.id).await.expect("the result can be read");
            assert_eq!(result.as_deref(), Some(expected.as_slice()));
        }
    }

    async fn a_batch_is_bounded_and_whole(d: &Deployment) {
        let held = d.create_and_claim().await;
        let call = held.complete(b"");
        let most = limits::COMPLETE_BATCH_MAX as usize;
        let many = CompleteExecutions::of(std::iter::repeat_n(&call, most + 1));
        assert_eq!(d.refused(many).await, Code::InvalidInput);
        let mut half = CompleteExecutions::of([&call]);
        half.items.0.pop();
        assert_eq!(d.refused(half).await, Code::InvalidInput);
        let mut large = CompleteExecutions::of([&call]);
        large.items.0[4] = vec![0; limits::RESULT_BYTES_MAX as usize + 1];
        assert_eq!(d.refused(large).await, Code::PayloadTooLarge);
        assert_eq!(d.describe(held.id).await.public_state(), PublicState::Active);
    }

    async fn the_policy_says_how_long_it_is_kept(d: &Deployment) {
        for (policy, keep) in [(r#"{"retention_ms":0}"#, 0), (r#"{"retention_ms":1234}"#, 1234)] {
            let id = d.create().policy(policy).send().await;
            d.call(d.claim(LANE).await.complete(b"")).await;
            let purge_at = Some(d.now().plus_millis(keep));
            assert_eq!(d.describe(id).await.purge_at, purge_at);
        }
    }

    async fn an_empty_result_is_stored_nowhere(d: &Deployment) {
        let held = d.create_and_claim().await;
        d.call(held.complete(b"")).await;
        let stored = record(&d.dump().await, held.id);
        assert!(!stored.keys().any(|field| field.starts_with("out")), "{stored:?}");
        let result = d.backend.read_result(held.id).await.expect("the result can be read");
        assert_eq!(result.as_deref(), Some(b"".as_slice()));
    }
}
