//! Reading one execution.

use ff_conformance::gates::Limits;
use ff_conformance::{Deployment, LANE, conformance};
use ff_core::engine_backend::roles::*;
use ff_core::error::Code;
use ff_core::limits;
use ff_core::policy::ExecutionPolicy;
use ff_core::state::{AttemptLifecycle, PublicState};
use ff_core::types::ExecutionId;
use ff_script::calls::describe::{
    DescribeExecution, ListAttempts, ListAttemptsReply, ReadPayload, ReadResult, ReadResultReply,
};
use ff_script::calls::kind::{Pinning, SetKind};

use super::cancel::outside;
use super::replay::replay;

/// Every part of a policy that needs nothing else to exist.
const ALL: &str = concat!(
    r#"{"retry_policy":{"max_retries":5,"backoff":{"type":"exponential","#,
    r#""initial_delay_ms":100,"max_delay_ms":5000,"multiplier":1.505,"jitter":true},"#,
    r#""retryable_categories":["a\\b\"c","timeout"]},"#,
    r#""timeout_policy":{"attempt_timeout_ms":1000,"execution_deadline_ms":60000},"#,
    r#""suspension_policy":{"default_timeout_ms":5,"timeout_behavior":"escalate"},"#,
    r#""max_signals_per_execution":9,"max_reclaim_count":7,"max_replay_count":2,"#,
    r#""retention_ms":31622400000,"ageing_ms":60000,"#,
    r#""routing_requirements":{"required_capabilities":["avx","gpu"]},"#,
    r#""stream_policy":{"durability_mode":"summary","retention_maxlen":50,"#,
    r#""retention_bytes":1000,"retention_ttl_ms":0},"#,
    r#""budget_ids":["00000000-0000-4000-8000-000000000007"],"#,
    r#""reserve_usage":{"seconds":0,"tokens":1000000000000}}"#,
);

fn policy(json: &str) -> ExecutionPolicy {
    ExecutionPolicy::from_json(json.as_bytes()).unwrap_or_else(|error| panic!("{error}: {json}"))
}

/// The policy that holds for an execution.
async fn effective(d: &Deployment, id: ExecutionId) -> ExecutionPolicy {
    policy(&d.describe(id).await.effective_policy_json.expect("it is told"))
}

async fn result(d: &Deployment, execution_id: ExecutionId) -> ReadResultReply {
    d.call(ReadResult { execution_id }).await
}

fn answer(public_state: PublicState, result: &[u8], why: Option<(&str, &str)>) -> ReadResultReply {
    let text = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
    ReadResultReply::Result {
        public_state,
        result: result.to_vec(),
        failure_reason: why.and_then(|(reason, _)| text(reason)),
        failure_category: why.and_then(|(_, category)| text(category)),
    }
}

conformance! {
    async fn what_does_not_exist_is_not_found_by_any_reader(d: &Deployment) {
        let execution_id = d.new_id();
        assert_eq!(d.refused(DescribeExecution { execution_id }).await, Code::ExecutionNotFound);
        assert_eq!(d.refused(ReadPayload { execution_id }).await, Code::ExecutionNotFound);
        assert_eq!(d.refused(ReadResult { execution_id }).await, Code::ExecutionNotFound);
        let attempts = ListAttempts { execution_id, limit: 1 };
        assert_eq!(d.refused(attempts).await, Code::ExecutionNotFound);
        assert_eq!(d.backend.describe_execution(execution_id).await, Ok(None));
        assert_eq!(d.backend.read_payload(execution_id).await, Ok(None));
        assert_eq!(d.backend.read_result(execution_id).await, Ok(None));
    }

    async fn a_result_comes_with_the_state_and_the_cause(d: &Deployment) {
        let held = d.create_and_claim().await;
        assert_eq!(result(d, held.id).await, answer(PublicState::Active, b"", None));
        d.call(held.complete(b"\x00\xff")).await;
        assert_eq!(result(d, held.id).await, answer(PublicState::Completed, b"\x00\xff", None));
        let held = d.create_and_claim().await;
        d.call(held.fail("broken", "bug")).await;
        let failed = answer(PublicState::Failed, b"", Some(("broken", "bug")));
        assert_eq!(result(d, held.id).await, failed);
        let id = d.create_one().await;
        d.call(outside(id, "operator_override")).await;
        let cancelled = answer(PublicState::Cancelled, b"", Some(("not wanted", "")));
        assert_eq!(result(d, id).await, cancelled);
    }

    async fn the_policy_that_holds_is_told_with_what_nobody_said(d: &Deployment) {
        let id = d.create_one().await;
        assert_eq!(effective(d, id).await, ExecutionPolicy::built_in());
        let id = d.create().policy(ALL).send().await;
        assert_eq!(effective(d, id).await, policy(ALL));
    }

    async fn the_policy_that_holds_is_merged(d: &Deployment) {
        let set = |kind: Option<&str>, policy: &str| SetKind {
            kind: kind.map(|kind| kind.parse().expect("a kind")),
            policy_json: policy.to_owned(),
            pinning: Pinning::Pin,
        };
        d.call(set(None, r#"{"retention_ms":5,"max_replay_count":1}"#)).await;
        d.call(set(Some("charge"), r#"{"max_replay_count":2,"max_reclaim_count":7}"#)).await;
        let id = d.create().kind("charge").policy(r#"{"max_reclaim_count":9}"#).send().await;
        let told = effective(d, id).await;
        let told = (told.retention_ms, told.max_replay_count, told.max_reclaim_count);
        assert_eq!(told, (Some(5), Some(2), Some(9)));
    }

    async fn how_long_it_is_kept_is_told_when_it_has_ended(d: &Deployment) {
        let held = d.create_and_claim().await;
        d.call(held.fail("broken", "bug")).await;
        let seven_days = Some(limits::FAILED_RETENTION_MS_DEFAULT);
        assert_eq!(effective(d, held.id).await.retention_ms, seven_days);
    }

    async fn how_long_an_idempotency_key_is_remembered_is_told_if_there_is_one(d: &Deployment) {
        let named = || d.create().idempotency("key", "digest");
        let id = named().send().await;
        let a_day = Some(limits::DEDUP_MS_DEFAULT);
        assert_eq!(effective(d, id).await.dedup_window_ms, a_day);
    }

    async fn the_quota_that_it_runs_under_is_told(d: &Deployment) {
        let id = d.quota(Limits::at_once(1)).await;
        let execution = d.create_under(id, "k").send().await;
        let told = effective(d, execution).await.quota.expect("a quota");
        assert_eq!((told.policy_id, told.key.as_deref()), (id, Some("k")));
    }

    async fn a_new_execution_has_no_attempts(d: &Deployment) {
        let id = d.create_one().await;
        assert!(d.attempts(id).await.is_empty());
        assert_eq!(d.describe(id).await.current_attempt, None);
    }

    async fn attempts_are_listed_oldest_first_and_the_newest_when_limited(d: &Deployment) {
        let policy = r#"{"retry_policy":{"max_retries":5,
            "backoff":{"type":"fixed","delay_ms":0}}}"#;
        let id = d.create().policy(policy).send().await;
        for round in 0..4 {
            d.advance(10).await;
            d.call(d.claim(LANE).await.fail(&format!("failure {round}: a|b:c"), "x")).await;
        }
        d.claim(LANE).await;
        let attempts = d.attempts(id).await;
        let indexes: Vec<u32> = attempts.iter().map(|attempt| attempt.index.get()).collect();
        assert_eq!(indexes, [0, 1, 2, 3, 4]);
        let epochs: Vec<u64> = attempts.iter().map(|attempt| attempt.lease_epoch.get()).collect();
        assert_eq!(epochs, [1, 2, 3, 4, 5]);
        assert_eq!(attempts[2].failure_reason.as_deref(), Some("failure 2: a|b:c"));
        assert_eq!(attempts[2].ended_at, Some(attempts[2].started_at));
        assert_eq!(attempts[4].state, AttemptLifecycle::Started);
        for (limit, first) in [(1, 4), (2, 3), (5, 0), (1000, 0)] {
            let call = ListAttempts { execution_id: id, limit };
            let ListAttemptsReply::Attempts { attempts } = d.call(call).await;
            let line = String::from_utf8_lossy(&attempts.0[0]).into_owned();
            assert_eq!(line.split(':').next(), Some(first.to_string().as_str()), "{limit}");
            assert_eq!(attempts.0.len(), 5usize.min(limit as usize));
        }
    }

    async fn the_history_of_attempts_is_bounded(d: &Deployment) {
        d.host().watch(false);
        let policy = r#"{"retry_policy":{"max_retries":1000,
            "backoff":{"type":"fixed","delay_ms":0}}}"#;
        let id = d.create().policy(policy).send().await;
        for _ in 0..=1000 {
            d.call(d.claim(LANE).await.fail("no", "x")).await;
        }
        d.call(replay(id)).await;
        d.claim(LANE).await;
        let described = d.describe(id).await;
        assert_eq!(described.total_attempt_count, 1002);
        let attempts = d.attempts(id).await;
        assert_eq!(attempts.len(), 1000);
        assert_eq!((attempts[0].index.get(), attempts[999].index.get()), (2, 1001));
    }

    async fn times_tell_when_what_happened(d: &Deployment) {
        let id = d.create().policy(r#"{"retry_policy":{}}"#).send().await;
        let created_at = d.now();
        d.advance(10).await;
        let held = d.claim(LANE).await;
        let started_at = d.now();
        d.advance(10).await;
        d.call(held.fail("no", "x")).await;
        let failed_at = d.now();
        d.advance(1000).await;
        d.tick().await;
        d.advance(10).await;
        let held = d.claim(LANE).await;
        let described = d.describe(id).await;
        assert_eq!(described.created_at, created_at);
        assert_eq!(described.started_at, Some(started_at), "the first attempt's begin");
        assert_eq!(described.last_transition_at, d.now());
        d.advance(10).await;
        d.call(held.renew(60_000)).await;
        let described = d.describe(id).await;
        assert_eq!(described.last_mutation_at, d.now());
        assert!(described.last_transition_at > failed_at);
        assert!(described.last_transition_at < d.now());
    }
}
