//! Ending an attempt as failed.

use ff_conformance::record::{events_of, key_of, listed_in, record, score};
use ff_conformance::{Deployment, Held, LANE, conformance};
use ff_core::state::{AttemptLifecycle, AttemptState, AttemptType, PublicState};
use ff_core::types::TimestampMs;
use ff_script::calls::claim::AttemptKind;
use ff_script::calls::fail::{FailExecution, FailExecutionReply};
use ff_script::host::Topic;

use super::replay::replay;

fn retry(rest: &str) -> String {
    format!(r#"{{"retry_policy":{{{rest}}}}}"#)
}

fn fixed(max_retries: u32, delay_ms: u64) -> String {
    retry(&format!(
        r#""max_retries":{max_retries},"backoff":{{"type":"fixed","delay_ms":{delay_ms}}}"#
    ))
}

async fn claim_with(d: &Deployment, policy: &str) -> Held {
    d.create().policy(policy).send().await;
    d.claim(LANE).await
}

fn scheduled(at: TimestampMs) -> FailExecutionReply {
    FailExecutionReply::Failed { result: "retry_scheduled".to_owned(), delay_until: Some(at) }
}

fn terminal() -> FailExecutionReply {
    FailExecutionReply::Failed { result: "terminal_failed".to_owned(), delay_until: None }
}

/// The delays after the first failures, until there is none.
async fn delays(d: &Deployment, policy: &str) -> Vec<u64> {
    let mut held = claim_with(d, policy).await;
    let mut delays = Vec::new();
    loop {
        let FailExecutionReply::Failed { delay_until, .. } =
            d.call(held.fail("no", "transient")).await
        else {
            panic!("each failure is reported once");
        };
        let Some(at) = delay_until else { return delays };
        delays.push(at.get() - d.now().get());
        d.set_time(at.get()).await;
        d.tick().await;
        held = d.claim(LANE).await;
    }
}

conformance! {
    async fn what_failed_or_expired_is_kept_for_a_week(d: &Deployment) {
        let week_ms = ff_core::limits::FAILED_RETENTION_MS_DEFAULT;
        let held = d.create_and_claim().await;
        d.call(held.fail("no", "permanent")).await;
        let purge_at = Some(d.now().plus_millis(week_ms));
        assert_eq!(d.describe(held.id).await.purge_at, purge_at);
        let expired = d.create().deadline_in(10).send().await;
        d.advance(10).await;
        d.tick().await;
        assert_eq!(d.describe(expired).await.purge_at, Some(d.now().plus_millis(week_ms)));
        let stated = d.create().policy(r#"{"retention_ms":5}"#).send().await;
        d.call(d.claim(LANE).await.fail("no", "permanent")).await;
        assert_eq!(d.describe(stated).await.purge_at, Some(d.now().plus_millis(5)));
    }

    async fn a_backoff_of_nothing_times_a_huge_power_is_a_number(d: &Deployment) {
        let policy = r#"{"retry_policy":{"max_retries":1000,"backoff":{"type":"exponential",
            "initial_delay_ms":0,"max_delay_ms":0,"multiplier":100}}}"#;
        let id = d.create().policy(policy).send().await;
        d.host().watch(false);
        for _ in 0..200 {
            d.call(d.claim(LANE).await.fail("no", "x")).await;
            d.tick().await;
        }
        assert_eq!(d.describe(id).await.public_state(), PublicState::Waiting);
    }

    async fn without_a_retry_policy_a_failure_is_final(d: &Deployment) {
        let mut ended = d.listen(Topic::Ended).await;
        let held = d.create_and_claim().await;
        d.advance(5).await;
        let failure_detail = b"trace".to_vec();
        let call = FailExecution { failure_detail, ..held.fail("broken", "bug") };
        assert_eq!(d.call(call).await, terminal());
        assert_eq!(ended.next().await, held.id.uuid().to_string());
        let described = d.describe(held.id).await;
        assert_eq!(described.public_state(), PublicState::Failed);
        assert_eq!(described.completed_at, Some(d.now()));
        let failure = described.failure.expect("the cause is kept");
        assert_eq!((failure.reason.as_str(), failure.category.as_str()), ("broken", "bug"));
        assert_eq!(failure.detail, b"trace");
        let dump = d.dump().await;
        assert_eq!(listed_in(&dump, held.id), ["ended:failed"]);
        assert_eq!(events_of(&dump, held.id).last().map(String::as_str),
            Some("ended 0 failed:failed:tests"));
        assert_eq!(d.attempts(held.id).await[0].state, AttemptLifecycle::EndedFailure);
    }

    async fn a_retry_waits_for_its_time(d: &Deployment) {
        let held = claim_with(d, &fixed(1, 1500)).await;
        let mut due = d.listen(Topic::Due).await;
        d.advance(1).await;
        let at = d.now().plus_millis(1500);
        assert_eq!(d.call(held.fail("no", "transient")).await, scheduled(at));
        due.hears(&at.to_string()).await;
        let described = d.describe(held.id).await;
        assert_eq!(described.public_state(), PublicState::Delayed);
        assert_eq!(described.state.attempt_state, AttemptState::PendingRetryAttempt);
        assert_eq!((described.delay_until, described.retry_count), (Some(at), 1));
        assert_eq!(described.last_transition_at, d.now());
        let detail = described.blocking_detail.expect("it says why");
        assert_eq!(detail, format!("delayed until {at} after attempt 0 failed: no"));
        let dump = d.dump().await;
        assert_eq!(listed_in(&dump, held.id), ["due"]);
        assert_eq!(score(&dump, "due", held.id), Some(at.get()));
        assert_eq!(events_of(&dump, held.id).last().map(String::as_str),
            Some("retry_scheduled 0 transient"));
    }

    async fn a_retry_is_a_new_attempt(d: &Deployment) {
        let held = claim_with(d, &fixed(1, 0)).await;
        assert_eq!(d.call(held.fail("no", "transient")).await, scheduled(d.now()));
        let retried = d.claim(LANE).await;
        assert_eq!(retried.row.attempt_kind, AttemptKind::New(AttemptType::Retry));
        assert_eq!((retried.row.attempt_index.get(), retried.lease_epoch.get()), (1, 2));
        let attempts = d.attempts(held.id).await;
        assert_eq!(attempts[0].failure_reason.as_deref(), Some("no"));
        assert_eq!(attempts[0].failure_category.as_deref(), Some("transient"));
        assert_eq!(attempts[1].state, AttemptLifecycle::Started);
        let described = d.describe(held.id).await;
        assert_eq!((described.failure, described.total_attempt_count), (None, 2));
        assert_eq!(d.call(retried.fail("again", "transient")).await, terminal());
    }

    async fn delays_grow_by_the_multiplier_up_to_the_maximum(d: &Deployment) {
        let policy = retry(r#""max_retries":5,"backoff":{"type":"exponential",
            "initial_delay_ms":100,"max_delay_ms":500,"multiplier":1.5}"#);
        assert_eq!(delays(d, &policy).await, [100, 150, 225, 337, 500]);
    }

    async fn the_default_policy_retries_three_times_with_doubled_delays(d: &Deployment) {
        assert_eq!(delays(d, &retry("")).await, [1000, 2000, 4000]);
    }

    async fn jitter_takes_away_at_most_half_and_is_the_same_everywhere(d: &Deployment) {
        let policy = retry(r#""max_retries":4,"backoff":{"type":"exponential",
            "initial_delay_ms":1000,"max_delay_ms":1000,"jitter":true}"#);
        let delays = delays(d, &policy).await;
        assert!(delays.iter().all(|delay| (500..=1000).contains(delay)), "{delays:?}");
        let differ = delays.iter().collect::<std::collections::BTreeSet<_>>().len();
        assert!(differ > 1, "{delays:?}");
    }

    async fn only_listed_categories_are_retried(d: &Deployment) {
        let policy = retry(r#""retryable_categories":["transient","vendor-503"]"#);
        for (category, retried) in [("transient", true), ("vendor-503", true), ("vendor", false),
            ("trans", false), ("", false), ("permanent", false)] {
            let held = claim_with(d, &policy).await;
            let reply = d.call(held.fail("no", category)).await;
            assert_eq!(reply != terminal(), retried, "{category:?}");
        }
    }

    async fn a_permanent_failure_is_never_retried(d: &Deployment) {
        for policy in [retry(""), retry(r#""retryable_categories":["permanent"]"#)] {
            let held = claim_with(d, &policy).await;
            assert_eq!(d.call(held.fail("no", "permanent")).await, terminal());
        }
    }

    async fn a_final_failure_is_not_retried(d: &Deployment) {
        let held = claim_with(d, &fixed(5, 0)).await;
        let call = FailExecution { is_final: true, ..held.fail("no", "transient") };
        assert_eq!(d.call(call).await, terminal());
        let failure = d.describe(held.id).await.failure.expect("the cause is kept");
        assert_eq!(failure.category, "transient");
        d.call(replay(held.id)).await;
        let held = d.claim(LANE).await;
        assert_eq!(d.call(held.fail("no", "transient")).await, scheduled(d.now()),
            "the policy is still there");
    }

    async fn a_lost_reply_to_fail_is_answered_again(d: &Deployment) {
        let held = claim_with(d, &fixed(1, 500)).await;
        let at = d.now().plus_millis(500);
        d.call(held.fail("no", "transient")).await;
        let before = |result: &str, delay_until| {
            FailExecutionReply::FailedBefore { result: result.to_owned(), delay_until }
        };
        d.advance(100).await;
        assert_eq!(d.call(held.fail("other", "permanent")).await,
            before("retry_scheduled", Some(at)));
        d.set_time(at.get()).await;
        d.tick().await;
        assert_eq!(d.call(held.fail("no", "transient")).await, before("retry_scheduled", Some(at)));
        let held = d.claim(LANE).await;
        d.call(held.fail("no", "transient")).await;
        assert_eq!(d.call(held.fail("no", "transient")).await, before("terminal_failed", None));
    }

    async fn a_long_detail_has_a_key_of_its_own_until_the_next_attempt(d: &Deployment) {
        let held = claim_with(d, &fixed(1, 0)).await;
        let call = FailExecution { failure_detail: vec![0xfe; 5000], ..held.fail("no", "x") };
        d.call(call).await;
        assert!(d.dump().await.contains_key(&key_of(held.id, ":detail")));
        let failure = d.describe(held.id).await.failure.expect("the cause is kept");
        assert_eq!(failure.detail, vec![0xfe; 5000]);
        d.claim(LANE).await;
        let dump = d.dump().await;
        assert!(!dump.contains_key(&key_of(held.id, ":detail")));
        assert!(!record(&dump, held.id).contains_key("de2"));
    }

    async fn a_reason_in_any_script_can_be_described_while_the_retry_waits(d: &Deployment) {
        for length in [99, 100, 101, 199, 200, 201] {
            let held = claim_with(d, &fixed(1, 500)).await;
            let reason = format!("{}{}", "x".repeat(length), "é漢🦀".repeat(20));
            d.call(held.fail(&reason, "transient")).await;
            let described = d.describe(held.id).await;
            assert_eq!(described.failure.expect("the cause is kept").reason, reason);
            assert!(described.blocking_detail.is_some());
        }
    }
}
