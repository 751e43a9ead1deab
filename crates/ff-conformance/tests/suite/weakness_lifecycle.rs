//! Known weaknesses of libraries like ours, each as the behaviour we want instead: what becomes of
//! an execution and its attempts.

use ff_conformance::record::{events_of, listed_in, record, score};
use ff_conformance::{Deployment, Held, LANE, LEASE_MS, conformance, instance, worker};
use ff_core::error::Code;
use ff_core::state::{AttemptLifecycle, AttemptState, AttemptType, PublicState};
use ff_core::types::{ExecutionId, TimestampMs};
use ff_script::calls::change::ChangePriority;
use ff_script::calls::expire::{ExpireExecution, ExpireExecutionReply};
use ff_script::calls::fail::FailExecutionReply;

use super::cancel::outside;
use super::claim::granted;
use super::lease::revoke;
use super::replay::replay;

async fn claim_with(d: &Deployment, policy: &str) -> Held {
    d.create().policy(policy).send().await;
    d.claim(LANE).await
}

async fn cancel(d: &Deployment, id: ExecutionId) {
    d.call(outside(id, "operator_override")).await;
}

/// Claims for another worker than the usual one.
async fn claim_elsewhere(d: &Deployment) -> Held {
    let mut call = d.claim_call(LANE, 1);
    call.worker_id = worker("another");
    call.worker_instance_id = instance("another-1");
    d.claimed(call).await.remove(0)
}

conformance! {
    async fn w11_a_revoked_execution_can_hold_a_lease_after_its_replay(d: &Deployment) {
        let held = d.create_and_claim().await;
        d.call(revoke(&held, "drain")).await;
        cancel(d, held.id).await;
        d.call(replay(held.id)).await;
        let held = d.claim(LANE).await;
        d.call(held.renew(LEASE_MS)).await;
        assert_eq!(d.describe(held.id).await.blocking_detail, None);
        d.call(held.complete(b"")).await;
    }

    async fn w12_a_new_attempt_has_its_own_time_limit(d: &Deployment) {
        let policy = r#"{"timeout_policy":{"attempt_timeout_ms":40000}}"#;
        let old = claim_with(d, policy).await;
        d.advance(LEASE_MS).await;
        d.tick().await;
        assert_eq!(listed_in(&d.dump().await, old.id), ["q:default:tests:work"], "the old limit is gone");
        let new = d.claim(LANE).await;
        assert_eq!(new.row.attempt_timeout_at, Some(d.now().plus_millis(40_000)));
        d.advance(10_000).await;
        assert_eq!(d.tick().await.total(), 0, "the old limit does not end the new attempt");
    }

    async fn w13_nothing_of_the_old_holder_remains(d: &Deployment) {
        let old = d.create_and_claim().await;
        d.call(old.renew(LEASE_MS)).await;
        d.call(old.progress("5", "old")).await;
        d.call(revoke(&old, "why")).await;
        let new = claim_elsewhere(d).await;
        let stored = record(&d.dump().await, old.id);
        let traces = ["worker-1".to_owned(), "old".to_owned(), "why".to_owned(),
            old.lease_id.to_string()];
        for value in stored.values() {
            assert!(!traces.contains(value), "{stored:?}");
        }
        assert!(!stored.contains_key("lr"), "the renewal was the old holder's");
        let lease = d.describe(new.id).await.current_lease.expect("held");
        assert_eq!(lease.worker_instance_id.as_str(), "another-1");
        assert_eq!(d.attempts(old.id).await[0].worker_instance_id.as_str(), "worker-1");
    }

    async fn w14_too_many_lost_leases_end_the_execution_without_a_worker(d: &Deployment) {
        for policy in [r#"{"max_reclaim_count":1}"#,
            r#"{"timeout_policy":{"max_reclaim_count":1}}"#,
            r#"{"max_reclaim_count":9,"timeout_policy":{"max_reclaim_count":1}}"#] {
            let held = claim_with(d, policy).await;
            d.call(revoke(&held, "")).await;
            d.claim(LANE).await;
            d.advance(LEASE_MS).await;
            assert_eq!(d.tick().await.lapsed, 1);
            let described = d.describe(held.id).await;
            assert_eq!(described.public_state(), PublicState::Failed, "{policy}");
            let failure = described.failure.expect("the cause is kept");
            assert_eq!(failure.reason, "max_reclaims_exceeded");
            assert_eq!((described.current_lease, described.attempt_timeout_at), (None, None));
            let attempts = d.attempts(held.id).await;
            assert!(attempts.iter().all(|attempt| attempt.ended_at.is_some()));
            let dump = d.dump().await;
            assert_eq!(listed_in(&dump, held.id), ["ended:failed"]);
            assert_eq!(events_of(&dump, held.id).last().map(String::as_str),
                Some("ended 1 failed:max_reclaims_exceeded:tests"));
        }
    }

    async fn w14b_an_attempt_says_how_the_one_before_was_lost(d: &Deployment) {
        let held = d.create_and_claim().await;
        d.call(revoke(&held, "drain")).await;
        d.claim(LANE).await;
        d.advance(LEASE_MS).await;
        d.tick().await;
        d.claim(LANE).await;
        let causes: Vec<Option<String>> =
            d.attempts(held.id).await.into_iter().map(|attempt| attempt.cause).collect();
        let causes: Vec<Option<&str>> = causes.iter().map(Option::as_deref).collect();
        assert_eq!(causes, [None, Some("lease_revoked"), Some("lease_expired")]);
    }

    async fn w15_nothing_expires_that_is_not_due(d: &Deployment) {
        let policy = r#"{"timeout_policy":{"attempt_timeout_ms":100},"retry_policy":{}}"#;
        let held = claim_with(d, policy).await;
        let late = ExpireExecution {
            execution_id: held.id,
            expire_reason: "attempt_timeout".to_owned(),
        };
        let not = |reason: &str| ExpireExecutionReply::NotDue { reason: reason.to_owned() };
        d.advance(50).await;
        d.call(held.fail("no", "x")).await;
        d.advance(50).await;
        assert_eq!(d.call(late.clone()).await, not("not_applicable"));
        d.advance(1000).await;
        d.tick().await;
        let held = d.claim(LANE).await;
        assert_eq!(d.call(late.clone()).await, not("not_due"), "a new attempt has a new limit");
        d.call(held.delay(d.now().plus_millis(5))).await;
        d.advance(100).await;
        assert_eq!(d.call(late).await, not("not_applicable"));
        assert_eq!(d.describe(held.id).await.public_state(), PublicState::Delayed);
    }

    async fn w17_a_paused_attempt_ends_with_its_execution(d: &Deployment) {
        let cancelled = d.create_and_claim().await;
        d.call(cancelled.wait_for_children()).await;
        cancel(d, cancelled.id).await;
        let expired = d.create().deadline_in(100).send().await;
        let held = d.claim(LANE).await;
        d.call(held.delay(d.now().plus_millis(1000))).await;
        d.advance(100).await;
        d.tick().await;
        for (id, end) in [(cancelled.id, AttemptLifecycle::EndedCancelled),
            (expired, AttemptLifecycle::EndedFailure)] {
            let attempts = d.attempts(id).await;
            assert_eq!((attempts.len(), attempts[0].state), (1, end));
            assert!(attempts[0].ended_at.is_some());
            let described = d.describe(id).await;
            assert_eq!(described.state.attempt_state, AttemptState::AttemptTerminal);
        }
    }

    async fn w18_a_worker_cancels_only_with_the_whole_fence(d: &Deployment) {
        let held = d.create_and_claim().await;
        for source in ["", "worker", "lease_holder", "OPERATOR_OVERRIDE", "operator_overrid"] {
            assert_eq!(d.refused(outside(held.id, source)).await, Code::FenceRequired, "{source}");
        }
        let mut partial = held.cancel("");
        partial.attempt_id = None;
        assert_eq!(d.refused(partial).await, Code::PartialFenceTriple);
        d.advance(LEASE_MS).await;
        assert_eq!(d.refused(held.cancel("")).await, Code::LeaseExpired);
        d.tick().await;
        d.call(outside(held.id, "flow_cascade")).await;
    }

    async fn w19_the_attempt_that_runs_is_the_one_that_ends(d: &Deployment) {
        let old = d.create_and_claim().await;
        d.call(revoke(&old, "")).await;
        claim_elsewhere(d).await;
        cancel(d, old.id).await;
        let states: Vec<AttemptLifecycle> =
            d.attempts(old.id).await.iter().map(|attempt| attempt.state).collect();
        let (lost, ended) =
            (AttemptLifecycle::InterruptedReclaimed, AttemptLifecycle::EndedCancelled);
        assert_eq!(states, [lost, ended]);
        let never_ran = d.create_one().await;
        cancel(d, never_ran).await;
        assert!(d.attempts(never_ran).await.is_empty(), "no attempt is made up");
    }

    async fn w20_every_end_clears_the_same(d: &Deployment) {
        let policy = r#"{"timeout_policy":{"attempt_timeout_ms":10000},
            "retry_policy":{"backoff":{"type":"fixed","delay_ms":50}}}"#;
        let retry = claim_with(d, policy).await;
        d.call(retry.fail("no", "x")).await;
        let paused = claim_with(d, policy).await;
        d.call(paused.delay(d.now().plus_millis(50))).await;
        let running = claim_with(d, policy).await;
        d.call(running.renew(LEASE_MS)).await;
        let delayed = d.create().delayed_by(10).send().await;
        let reserved = d.create_one().await;
        d.call(d.claim_grant_call(reserved)).await;
        for id in [retry.id, paused.id, running.id, delayed, reserved] {
            cancel(d, id).await;
            let stored = record(&d.dump().await, id);
            for field in ["nx", "du", "dr", "gi", "gk", "gw", "gn", "gx"] {
                assert!(!stored.contains_key(field), "{field} in {stored:?}");
            }
            let described = d.describe(id).await;
            assert_eq!((described.current_lease, described.delay_until), (None, None));
            assert_eq!(described.attempt_timeout_at, None);
            d.call(replay(id)).await;
            let again = d.claim(LANE).await;
            assert_eq!(again.id, id);
            let left = record(&d.dump().await, id);
            for field in ["lr", "tl", "ra", "vr", "cr", "cb", "ax", "ae", "fr", "fc", "rc"] {
                assert!(!left.contains_key(field), "{field} in {left:?}");
            }
            d.call(again.complete(b"")).await;
        }
    }

    async fn w36_promotion_goes_by_the_stores_time(d: &Deployment) {
        let id = d.create().delayed_by(100).send().await;
        let at = d.now().get() + 100;
        d.advance(99).await;
        let answer = d.raw("ff_promote_delayed", &[id.to_string().as_bytes()]).await;
        assert_eq!((answer.word.as_str(), answer.text(0).as_str()),
            ("ALREADY_SATISFIED", "not_yet_due"));
        assert_eq!(score(&d.dump().await, "due", id), Some(at));
    }

    async fn w37_waiting_for_no_children_is_waiting_for_a_worker(d: &Deployment) {
        let held = d.create_and_claim().await;
        d.call(held.wait_for_children()).await;
        let described = d.describe(held.id).await;
        assert_eq!(described.public_state(), PublicState::Waiting);
        assert_eq!(described.state.attempt_state, AttemptState::AttemptInterrupted);
        assert_eq!(d.claim(LANE).await.id, held.id);
    }

    async fn w38_any_live_execution_can_be_reprioritised_and_none_is_queued_by_it(d: &Deployment) {
        let delayed = d.create().delayed_by(1000).send().await;
        let held = d.create_and_claim().await;
        for (id, place) in [(delayed, "due"), (held.id, "leases")] {
            let change = ChangePriority { execution_id: id, priority: 9, request_id: None };
            d.call(change).await;
            assert_eq!(listed_in(&d.dump().await, id), [place]);
        }
        let id = delayed.to_string();
        let answer = d.raw("ff_change_priority", &[id.as_bytes(), b"9001"]).await;
        assert_eq!(answer.code(), "invalid_input", "nothing is clamped silently");
    }

    async fn w39_progress_is_bounded_fenced_and_clearable(d: &Deployment) {
        let held = d.create_and_claim().await;
        for wrong in ["101", "-1", "1.5", "1e1"] {
            assert_eq!(d.refused(held.progress(wrong, "")).await, Code::InvalidInput);
        }
        let long = "m".repeat(1025);
        assert_eq!(d.refused(held.progress("", &long)).await, Code::InvalidInput);
        d.call(held.progress("70", &long[..1024])).await;
        let mut other = held.progress("80", "");
        other.attempt_id = ff_core::types::AttemptId::from_uuid(d.new_uuid());
        assert_eq!(d.refused(other).await, Code::StaleLease);
        d.call(held.progress("", "message only")).await;
        let progress = d.describe(held.id).await.progress.expect("reported");
        assert_eq!(progress.percent, Some(70), "a message leaves the percentage");
        d.call(held.progress("-", "-")).await;
        let progress = d.describe(held.id).await.progress.expect("reported");
        assert_eq!((progress.percent, progress.message), (None, None));
    }

    async fn w41_categories_and_jitter_count(d: &Deployment) {
        let policy = r#"{"retry_policy":{"retryable_categories":["transient"],
            "backoff":{"type":"exponential","initial_delay_ms":1000,"jitter":true}}}"#;
        let other = claim_with(d, policy).await;
        d.call(other.fail("no", "other")).await;
        let described = d.describe(other.id).await;
        assert_eq!(described.public_state(), PublicState::Failed);
        assert_eq!(described.failure.expect("kept").category, "other");
        let held = claim_with(d, policy).await;
        let FailExecutionReply::Failed { delay_until, .. } =
            d.call(held.fail("no", "transient")).await
        else {
            panic!("reported once");
        };
        let delay = delay_until.expect("a retry is left").get() - d.now().get();
        assert!((500..=1000).contains(&delay), "{delay}");
    }

    async fn w42_a_time_limit_follows_the_retry_policy_and_survives_a_pause(d: &Deployment) {
        let policy = r#"{"timeout_policy":{"attempt_timeout_ms":100},
            "retry_policy":{"max_retries":1,"retryable_categories":["timeout"],
            "backoff":{"type":"fixed","delay_ms":0}}}"#;
        let held = claim_with(d, policy).await;
        d.advance(60).await;
        d.call(held.delay(d.now())).await;
        d.claim(LANE).await;
        d.advance(39).await;
        assert_eq!(d.tick().await.timed_out, 0);
        d.advance(1).await;
        assert_eq!(d.tick().await.timed_out, 1);
        let retry = d.claim(LANE).await;
        assert_eq!(retry.row.attempt_timeout_at, Some(d.now().plus_millis(100)));
        d.advance(100).await;
        assert_eq!(d.tick().await.timed_out, 1);
        assert_eq!(d.describe(held.id).await.public_state(), PublicState::Expired);
    }

    async fn w43_the_deadline_is_kept_checked_and_never_overrun(d: &Deployment) {
        let none = d.create().deadline_at(TimestampMs::new(0)).lane("none").send().await;
        assert_eq!(d.describe(none).await.deadline_at, None);
        d.advance(1_000_000).await;
        assert_eq!(d.tick().await.expired, 0, "zero means none");
        let policy = r#"{"timeout_policy":{"execution_deadline_ms":1000},"retry_policy":
            {"backoff":{"type":"fixed","delay_ms":1000}}}"#;
        let held = claim_with(d, policy).await;
        let at = d.now().plus_millis(1000);
        assert_eq!((held.row.deadline_at, record(&d.dump().await, held.id)["dl"].clone()),
            (Some(at), at.to_string()));
        let reply = d.call(held.fail("no", "x")).await;
        assert!(matches!(reply, FailExecutionReply::Failed { delay_until: None, .. }),
            "a retry after the deadline is no retry: {reply:?}");
        d.advance(5000).await;
        d.call(replay(held.id)).await;
        assert_eq!(d.describe(held.id).await.deadline_at, Some(d.now().plus_millis(1000)));
        let grant = d.claim_grant_call(held.id);
        d.advance(1000).await;
        assert_eq!(d.refused(grant).await, Code::ExecutionNotEligible);
        assert!(d.try_claim(LANE).await.is_none());
    }

    async fn w44_a_replay_begins_anew_and_says_who_and_why(d: &Deployment) {
        let policy = r#"{"max_reclaim_count":1,
            "retry_policy":{"max_retries":1,"backoff":{"type":"fixed","delay_ms":0}}}"#;
        let held = claim_with(d, policy).await;
        d.call(held.progress("9", "old")).await;
        d.call(revoke(&held, "")).await;
        d.call(d.claim(LANE).await.fail("one", "x")).await;
        d.call(d.claim(LANE).await.fail("two", "x")).await;
        d.call(replay(held.id)).await;
        let described = d.describe(held.id).await;
        assert_eq!((described.retry_count, described.reclaim_count), (0, 0));
        assert_eq!((described.progress, described.cancel), (None, None));
        let again = d.claim(LANE).await;
        let attempts = d.attempts(held.id).await;
        let last = attempts.last().expect("attempts");
        assert_eq!((last.attempt_type, last.cause.as_deref()),
            (AttemptType::Replay, Some("alice fixed the bug")));
        assert_eq!(d.describe(held.id).await.state.attempt_state, AttemptState::RunningAttempt);
        d.call(revoke(&again, "")).await;
        let reply = d.call(d.claim(LANE).await.fail("three", "x")).await;
        assert!(matches!(reply, FailExecutionReply::Failed { delay_until: Some(_), .. }));
    }

    async fn w50_ids_must_be_whole_and_of_this_partition(d: &Deployment) {
        let id = d.create_one().await;
        let elsewhere = ExecutionId::from_parts(d.partitions[1], id.uuid()).to_string();
        for wrong in [elsewhere.as_str(), "", &id.uuid().to_string()] {
            let answer = d.raw("ff_describe_execution", &[wrong.as_bytes()]).await;
            assert_eq!(answer.code(), "invalid_input", "{wrong:?}");
        }
        let uuid = d.new_uuid().to_string();
        let (id, uuid) = (id.to_string(), uuid.as_bytes());
        for args in [
            [LANE.as_bytes(), b"", b"w-1", b"", b"1000", b"0", b"", b"0", uuid],
            [LANE.as_bytes(), b"w", b"", b"", b"1000", b"0", b"", b"0", uuid],
            [LANE.as_bytes(), b"w", b"w-1", b"", b"1000", b"0", b"", b"0", b""],
            [b"", b"w", b"w-1", b"", b"1000", b"0", b"", b"0", uuid],
        ] {
            assert_eq!(d.raw("ff_claim_next", &args).await.code(), "invalid_input");
        }
        let claim: [&[u8]; 8] = [id.as_bytes(), b"w", b"w-1", b"", uuid, uuid, b"1000", b""];
        assert_eq!(d.raw("ff_claim_execution", &claim).await.code(), "invalid_input");
    }

    async fn w57_an_unnamed_source_is_unknown_and_a_reason_is_optional(d: &Deployment) {
        let held = d.create_and_claim().await;
        let mut call = held.cancel("");
        call.source.clear();
        d.call(call).await;
        let cancel = d.describe(held.id).await.cancel.expect("who is kept");
        assert_eq!((cancel.cancelled_by.as_str(), cancel.reason.as_str()), ("unknown", ""));
    }

    async fn w60_a_differing_lane_is_refused(d: &Deployment) {
        let id = d.create_one().await;
        let mut call = granted(d, id).await;
        call.lane = Some(ff_conformance::lane("other"));
        assert_eq!(d.refused(call).await, Code::InvalidClaimGrant);
        assert_eq!(d.describe(id).await.lane.as_str(), LANE);
    }
}
