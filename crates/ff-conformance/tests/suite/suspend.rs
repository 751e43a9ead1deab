//! Suspending and resuming: by signals, by an operator, by a time.

use ff_conformance::record::{events_of, key_of, listed_in, record, score};
use ff_conformance::{Deployment, INSTANCE, LANE, LEASE_MS, SECRET, Suspended, conformance};
use ff_core::contracts::{Condition, ResumedBy, SuspensionReason, TimeoutBehavior};
use ff_core::error::Code;
use ff_core::state::{AttemptLifecycle, AttemptState, AttemptType, BlockingReason, PublicState};
use ff_core::types::LeaseId;
use ff_script::calls::claim::AttemptKind;
use ff_script::calls::suspend::{
    ExpireSuspension, ExpireSuspensionReply, ReadResumeSignalsReply, ResumeExecutionReply,
    SuspendExecutionReply,
};
use ff_script::host::Topic;

use super::replay::replay;

const TIMEOUT_MS: u64 = 5000;

fn go() -> Condition {
    Condition::any(["go"])
}

/// Suspends with a timeout that does this.
async fn timed(d: &Deployment, behavior: TimeoutBehavior) -> Suspended {
    let held = d.create_and_claim().await;
    let mut call = d.suspension(&held, &go());
    (call.timeout_ms, call.timeout_behavior) = (Some(TIMEOUT_MS), Some(behavior));
    d.suspend_by(&held, call).await
}

async fn expire(d: &Deployment, it: &Suspended) -> ExpireSuspensionReply {
    d.call(ExpireSuspension { execution_id: it.held.id }).await
}

conformance! {
    async fn a_suspended_execution_goes_on_when_its_signal_comes(d: &Deployment) {
        let mut ready = d.listen(Topic::Ready).await;
        let it = d.suspend(&go()).await;
        assert_eq!(ready.lane().await, LANE);
        let described = d.describe(it.held.id).await;
        assert_eq!(described.public_state(), PublicState::Suspended);
        assert_eq!(described.state.attempt_state, AttemptState::AttemptInterrupted);
        assert_eq!(described.state.blocking_reason, BlockingReason::WaitingForSignal);
        assert_eq!(described.current_waitpoint, Some(it.on.waitpoint_id));
        assert_eq!((described.current_lease, described.last_transition_at), (None, d.now()));
        assert_eq!(d.attempts(it.held.id).await[0].state, AttemptLifecycle::Suspended);
        assert_eq!(listed_in(&d.dump().await, it.held.id), ["suspended"]);
        assert!(d.try_claim(LANE).await.is_none(), "nobody can claim it");
        d.advance(10).await;
        assert_eq!(d.deliver(&it.on, "go").await, "resume_condition_satisfied");
        assert_eq!(ready.lane().await, LANE);
        assert_eq!(listed_in(&d.dump().await, it.held.id), ["q:default:tests:work"]);
        let resumed = d.claim_resumed(&it.held).await;
        assert_eq!(resumed.row.attempt_kind, AttemptKind::Resumed);
        assert_eq!(resumed.lease_epoch.get(), it.held.lease_epoch.get() + 1);
        assert_eq!(resumed.signal_names(), ["go"]);
        d.call(resumed.complete(b"")).await;
        let events = events_of(&d.dump().await, it.held.id);
        let suspended = format!("suspended 0 waiting_for_signal:{}", it.on.waitpoint_id);
        assert_eq!(events[2..5], [suspended.as_str(), "resumed 0 signal:go", "claimed 0 resumed"]);
    }

    async fn every_reason_says_what_it_blocks_for(d: &Deployment) {
        for (reason, blocks) in [
            (SuspensionReason::WaitingForSignal, BlockingReason::WaitingForSignal),
            (SuspensionReason::WaitingForApproval, BlockingReason::WaitingForApproval),
            (SuspensionReason::WaitingForCallback, BlockingReason::WaitingForCallback),
            (SuspensionReason::WaitingForToolResult, BlockingReason::WaitingForToolResult),
            (SuspensionReason::WaitingForOperatorReview, BlockingReason::PausedByOperator),
            (SuspensionReason::PausedByPolicy, BlockingReason::PausedByPolicy),
            (SuspensionReason::PausedByBudget, BlockingReason::WaitingForBudget),
            (SuspensionReason::StepBoundary, BlockingReason::WaitingForSignal),
            (SuspensionReason::ManualPause, BlockingReason::PausedByOperator),
        ] {
            let held = d.create_and_claim().await;
            let mut call = d.suspension(&held, &go());
            call.reason_code = Some(reason);
            d.suspend_by(&held, call).await;
            let described = d.describe(held.id).await;
            assert_eq!(described.state.blocking_reason, blocks, "{reason}");
            let detail = described.blocking_detail.unwrap_or_default();
            assert!(detail.contains(reason.as_str()), "{detail}");
        }
    }

    async fn a_suspended_attempt_keeps_the_time_it_has_left(d: &Deployment) {
        d.create().policy(r#"{"timeout_policy":{"attempt_timeout_ms":1000}}"#).send().await;
        let held = d.claim(LANE).await;
        d.advance(300).await;
        let it = d.suspend_held(&held, &go()).await;
        let stored = record(&d.dump().await, held.id);
        assert_eq!(stored["tl"], "700");
        assert!(!stored.contains_key("ta") && !stored.contains_key("le"), "{stored:?}");
        d.advance(LEASE_MS).await;
        d.deliver(&it.on, "go").await;
        let resumed = d.claim_resumed(&held).await;
        assert_eq!(resumed.row.attempt_timeout_at, Some(d.now().plus_millis(700)));
    }

    async fn a_delayed_resume_wakes_at_its_time(d: &Deployment) {
        let held = d.create_and_claim().await;
        let mut call = d.suspension(&held, &go());
        call.resume_delay_ms = Some(400);
        let it = d.suspend_by(&held, call).await;
        d.deliver(&it.on, "go").await;
        let described = d.describe(held.id).await;
        let at = d.now().plus_millis(400);
        assert_eq!((described.public_state(), described.delay_until),
            (PublicState::Delayed, Some(at)));
        assert_eq!(described.state.blocking_reason, BlockingReason::WaitingForResumeDelay);
        assert_eq!(score(&d.dump().await, "due", held.id), Some(at.get()));
        d.set_time(at.get()).await;
        assert_eq!(d.tick().await.promoted, 1);
        assert_eq!(d.claim_resumed(&held).await.signal_names(), ["go"]);
    }

    async fn an_operator_ends_a_wait(d: &Deployment) {
        let it = d.suspend(&go()).await;
        let call = d.resumption(it.held.id);
        let public_state = PublicState::Waiting;
        assert_eq!(d.call(call.clone()).await, ResumeExecutionReply::Resumed { public_state });
        assert_eq!(d.call(call).await, ResumeExecutionReply::ResumedBefore { public_state });
        let resumed = d.claim_resumed(&it.held).await;
        let resume = resumed.row.resume.clone().expect("it was suspended");
        assert_eq!((resume.resumed_by, resume.signals.len()), (ResumedBy::Operator, 0));
        let other = d.resumption(it.held.id);
        assert_eq!(d.refused(other).await, Code::ExecutionNotSuspended);
        let mut unknown = d.resumption(d.new_id());
        unknown.resume_delay_ms = Some(0);
        assert_eq!(d.refused(unknown).await, Code::ExecutionNotFound);
        assert_eq!(events_of(&d.dump().await, it.held.id)[3], "resumed 0 operator:operator");
    }

    async fn an_operator_may_end_a_wait_later(d: &Deployment) {
        let it = d.suspend(&Condition::OperatorOnly).await;
        let mut call = d.resumption(it.held.id);
        call.resume_delay_ms = Some(50);
        let public_state = PublicState::Delayed;
        assert_eq!(d.call(call).await, ResumeExecutionReply::Resumed { public_state });
        d.advance(50).await;
        d.tick().await;
        d.claim_resumed(&it.held).await;
    }

    async fn a_wait_that_no_operator_may_end_is_not_ended_by_one(d: &Deployment) {
        let held = d.create_and_claim().await;
        let mut call = d.suspension(&held, &go());
        call.resume_condition_json = go().to_json(Some(false)).expect("short");
        let it = d.suspend_by(&held, call).await;
        let code = d.refused(d.resumption(held.id)).await;
        assert_eq!(code, Code::OperatorOverrideNotAllowed);
        d.deliver(&it.on, "go").await;
    }

    async fn a_wait_that_can_never_end_is_refused(d: &Deployment) {
        d.install_secret().await;
        let held = d.create_and_claim().await;
        let mut call = d.suspension(&held, &Condition::TimeoutOnly);
        assert_eq!(d.refused(call.clone()).await, Code::InvalidInput, "no timeout");
        call.timeout_ms = Some(10);
        call.timeout_behavior = Some(TimeoutBehavior::Cancel);
        d.suspend_by(&held, call).await;
        assert_eq!(d.refused(d.resumption(held.id)).await, Code::OperatorOverrideNotAllowed);
        d.advance(10).await;
        assert_eq!(d.tick().await.suspensions, 1);
        assert_eq!(d.describe(held.id).await.public_state(), PublicState::Cancelled);
    }

    async fn a_timeout_fails_cancels_or_expires(d: &Deployment) {
        for (behavior, state, attempt) in [
            (TimeoutBehavior::Fail, PublicState::Failed, AttemptLifecycle::EndedFailure),
            (TimeoutBehavior::Cancel, PublicState::Cancelled, AttemptLifecycle::EndedCancelled),
            (TimeoutBehavior::Expire, PublicState::Expired, AttemptLifecycle::EndedFailure),
        ] {
            let mut ended = d.listen(Topic::Ended).await;
            let it = timed(d, behavior).await;
            d.advance(TIMEOUT_MS).await;
            let reply = expire(d, &it).await;
            assert_eq!(reply, ExpireSuspensionReply::Expired { behavior, public_state: state });
            assert_eq!(ended.next().await, it.held.id.uuid().to_string());
            let described = d.describe(it.held.id).await;
            assert_eq!(described.public_state(), state);
            let why = format!("suspension_timeout:{behavior}");
            let told = described.failure.map(|failure| failure.reason);
            assert_eq!(told.or(described.cancel.map(|cancel| cancel.reason)), Some(why));
            let suspension = &described.suspensions[0];
            let closed = format!("timed_out_{behavior}");
            assert_eq!(suspension.close_reason.as_deref(), Some(closed.as_str()));
            assert_eq!(d.attempts(it.held.id).await[0].state, attempt);
            let reason = "not_suspended".to_owned();
            assert_eq!(expire(d, &it).await, ExpireSuspensionReply::NotDue { reason });
            assert_eq!(d.refused(d.signal(&it.on, "go")).await, Code::WaitpointClosed);
        }
    }

    async fn a_timeout_that_resumes_is_told_by_a_signal(d: &Deployment) {
        let it = timed(d, TimeoutBehavior::AutoResume).await;
        d.deliver(&it.on, "other").await;
        d.advance(TIMEOUT_MS).await;
        assert_eq!(d.tick().await.suspensions, 1);
        let resumed = d.claim_resumed(&it.held).await;
        let resume = resumed.row.resume.clone().expect("it was suspended");
        assert_eq!(resume.resumed_by, ResumedBy::Timeout);
        assert_eq!(resumed.signal_names(), ["timeout"]);
        assert_eq!(resume.signals[0].source_type, "system");
        assert_eq!(resume.signals[0].accepted_at, d.now());
        let closed = d.describe(it.held.id).await.suspensions[0].close_reason.clone();
        assert_eq!(closed.as_deref(), Some("timed_out_auto_resume"));
    }

    async fn a_timeout_that_escalates_leaves_it_to_an_operator(d: &Deployment) {
        let it = timed(d, TimeoutBehavior::Escalate).await;
        d.advance(TIMEOUT_MS).await;
        let (behavior, public_state) = (TimeoutBehavior::Escalate, PublicState::Suspended);
        let reply = expire(d, &it).await;
        assert_eq!(reply, ExpireSuspensionReply::Expired { behavior, public_state });
        let described = d.describe(it.held.id).await;
        assert_eq!(described.state.blocking_reason, BlockingReason::PausedByOperator);
        assert_eq!(described.suspensions[0].timeout_at, None);
        assert_eq!(listed_in(&d.dump().await, it.held.id), ["suspended"]);
        let reason = "no_timeout".to_owned();
        assert_eq!(expire(d, &it).await, ExpireSuspensionReply::NotDue { reason });
        assert_eq!(d.deliver(&it.on, "go").await, "resume_condition_satisfied");
    }

    async fn a_timeout_does_nothing_before_its_time(d: &Deployment) {
        let it = timed(d, TimeoutBehavior::Fail).await;
        d.advance(TIMEOUT_MS - 1).await;
        let reason = "not_yet_due".to_owned();
        assert_eq!(expire(d, &it).await, ExpireSuspensionReply::NotDue { reason });
        assert_eq!(d.tick().await.suspensions, 0);
        let reason = "execution_not_found".to_owned();
        let unknown = d.call(ExpireSuspension { execution_id: d.new_id() }).await;
        assert_eq!(unknown, ExpireSuspensionReply::NotDue { reason });
        d.deliver(&it.on, "go").await;
    }

    async fn a_signal_after_the_timeout_is_late_although_nothing_was_done_yet(d: &Deployment) {
        let it = timed(d, TimeoutBehavior::Fail).await;
        d.advance(TIMEOUT_MS).await;
        assert_eq!(d.refused(d.signal(&it.on, "go")).await, Code::WaitpointClosed);
        let it = timed(d, TimeoutBehavior::Escalate).await;
        d.advance(TIMEOUT_MS).await;
        assert_eq!(d.deliver(&it.on, "go").await, "resume_condition_satisfied");
    }

    async fn the_policy_says_how_long_where_the_suspension_does_not(d: &Deployment) {
        let policy = r#"{"suspension_policy":{"default_timeout_ms":70,"timeout_behavior":
            "auto_resume"}}"#;
        d.create().policy(policy).send().await;
        let held = d.claim(LANE).await;
        d.suspend_held(&held, &go()).await;
        let suspension = d.describe(held.id).await.suspensions[0].clone();
        assert_eq!(suspension.timeout_at, Some(d.now().plus_millis(70)));
        assert_eq!(suspension.timeout_behavior, Some(TimeoutBehavior::AutoResume));
        d.advance(70).await;
        d.tick().await;
        let held = d.claim_resumed(&held).await;
        let mut call = d.suspension(&held, &go());
        (call.timeout_ms, call.timeout_behavior) = (Some(9), Some(TimeoutBehavior::Expire));
        d.suspend_by(&held, call).await;
        d.advance(9).await;
        d.tick().await;
        assert_eq!(d.describe(held.id).await.public_state(), PublicState::Expired);
    }

    async fn a_worker_that_dies_after_the_resume_does_not_cost_the_approval(d: &Deployment) {
        let it = d.suspend(&go()).await;
        d.deliver(&it.on, "go").await;
        d.claim_resumed(&it.held).await;
        d.advance(LEASE_MS).await;
        d.tick().await;
        let next = d.claim(LANE).await;
        assert_eq!(next.row.attempt_kind, AttemptKind::New(AttemptType::Reclaim));
        assert_eq!(next.signal_names(), ["go"]);
        let reply = d.call(next.read_signals(None, 1000)).await;
        let ReadResumeSignalsReply::Signals { ended_by, signals, next_from } = reply;
        assert_eq!((ended_by, signals.len(), next_from), (Some(ResumedBy::Signal), 1, None));
    }

    async fn a_replay_begins_without_the_signals_of_the_run_before(d: &Deployment) {
        let it = d.suspend(&go()).await;
        d.deliver(&it.on, "go").await;
        let held = d.claim_resumed(&it.held).await;
        d.call(held.complete(b"")).await;
        d.call(replay(held.id)).await;
        let held = d.claim(LANE).await;
        assert_eq!(held.row.resume, None);
        let reply = d.call(held.read_signals(None, 1000)).await;
        let ReadResumeSignalsReply::Signals { ended_by, signals, .. } = reply;
        assert_eq!((ended_by, signals.len()), (None, 0));
    }

    async fn large_signals_are_left_to_a_read_of_their_own(d: &Deployment) {
        let it = d.suspend(&Condition::all(["a", "b"])).await;
        for name in ["a", "b"] {
            let mut signal = d.signal(&it.on, name);
            signal.payload = vec![7; 50_000];
            d.effect(signal).await;
        }
        let held = d.claim_resumed(&it.held).await;
        let resume = held.row.resume.clone().expect("it was suspended");
        assert_eq!((resume.complete, resume.signals.len()), (false, 0));
        let reply = d.call(held.read_signals(None, 1)).await;
        let ReadResumeSignalsReply::Signals { signals, next_from, .. } = reply;
        assert_eq!((signals.len(), next_from), (1, Some(2)));
        assert_eq!(signals[0].payload, Some(vec![7; 50_000]));
        let reply = d.call(held.read_signals(next_from, 1)).await;
        let ReadResumeSignalsReply::Signals { signals, next_from, .. } = reply;
        assert_eq!((signals[0].signal_name.as_str(), next_from), ("b", None));
    }

    async fn history_is_told_and_bounded(d: &Deployment) {
        let mut held = d.create_and_claim().await;
        for number in 0..20 {
            let mut call = d.suspension(&held, &go());
            call.requested_by = format!("step {number}");
            let it = d.suspend_by(&held, call).await;
            d.deliver(&it.on, "go").await;
            held = d.claim_resumed(&held).await;
        }
        let suspensions = d.describe(held.id).await.suspensions;
        assert_eq!(suspensions.len(), 17, "sixteen and the latest");
        let last = suspensions.last().expect("there is one");
        assert_eq!((last.requested_by.as_str(), last.signal_count), ("step 19", 1));
        assert_eq!(last.close_reason.as_deref(), Some("resumed"));
        assert_eq!(held.signal_names(), ["go"]);
    }

    async fn what_ends_a_suspended_execution_closes_its_waitpoint(d: &Deployment) {
        let cancelled = d.suspend(&go()).await;
        let mut cancel = cancelled.held.cancel("no");
        (cancel.lease_id, cancel.lease_epoch, cancel.attempt_id) = (None, None, None);
        cancel.source = "operator_override".to_owned();
        d.call(cancel).await;
        d.create().deadline_in(100).send().await;
        let held = d.claim(LANE).await;
        let expired = d.suspend_held(&held, &go()).await;
        d.advance(99).await;
        assert_eq!(d.deliver(&expired.on, "other").await, "no_op");
        d.advance(1).await;
        let late = d.signal(&expired.on, "go");
        assert_eq!(d.refused(late.clone()).await, Code::TargetNotSignalable);
        assert_eq!(d.tick().await.expired, 1);
        assert_eq!(d.refused(late).await, Code::WaitpointClosed);
        for (it, reason) in [(cancelled, "cancelled"), (expired, "expired:execution_deadline")] {
            let closed = d.describe(it.held.id).await.suspensions[0].close_reason.clone();
            assert_eq!(closed.as_deref(), Some(reason));
            assert_eq!(d.refused(d.signal(&it.on, "go")).await, Code::WaitpointClosed);
        }
    }

    async fn purging_leaves_nothing_behind(d: &Deployment) {
        d.create().policy(r#"{"retention_ms":0}"#).send().await;
        let held = d.claim(LANE).await;
        d.open_waitpoint(&held, "early", 1000).await;
        let it = d.suspend_held(&held, &go()).await;
        d.deliver(&it.on, "other").await;
        d.deliver(&it.on, "go").await;
        let held = d.claim_resumed(&held).await;
        d.call(held.complete(b"")).await;
        d.advance(60_000).await;
        d.tick().await;
        assert_eq!(d.tick().await.purged, 0);
        let left: Vec<String> = d.dump().await.keys()
            .map(|key| String::from_utf8_lossy(key).into_owned())
            .filter(|key| key.contains(":wp:") || key.contains(":x:"))
            .collect();
        assert_eq!(left, [""; 0]);
    }

    async fn details_and_condition_are_kept_as_they_were_given(d: &Deployment) {
        let held = d.create_and_claim().await;
        let mut call = d.suspension(&held, &go());
        call.details = r#"{"question":"Ship \u0001 it?"}"#.to_owned();
        let it = d.suspend_by(&held, call).await;
        let open = ff_script::calls::waitpoint::ListPendingWaitpoints { execution_id: held.id };
        let ff_script::calls::waitpoint::ListPendingWaitpointsReply::Waitpoints { waitpoints } =
            d.call(open).await;
        let one = &waitpoints.0[0];
        assert_eq!(one.details_json.as_deref(), Some(it.call.details.as_str()));
        assert_eq!(one.condition_json, Some(it.call.resume_condition_json.clone()));
        assert_eq!(one.required_signal_names, ["go"]);
    }

    async fn a_waitpoint_that_is_gone_fails_what_waits_on_it(d: &Deployment) {
        let it = timed(d, TimeoutBehavior::AutoResume).await;
        let key = format!("{}:wp:{}", d.home().key(), it.on.waitpoint_id);
        d.host().exec(d.home(), &[b"DEL", key.as_bytes()]).await;
        d.host().exec(d.home(), &[b"DEL", &key_of(it.held.id, ":waitpoints")]).await;
        d.advance(TIMEOUT_MS).await;
        d.tick().await;
        assert_eq!(d.describe(it.held.id).await.public_state(), PublicState::Failed);
        d.host().clear(&d.partitions).await;
    }

    async fn a_lost_reply_to_suspend_is_answered_again(d: &Deployment) {
        let it = d.suspend(&go()).await;
        let before = SuspendExecutionReply::SuspendedBefore {
            suspension_id: it.call.suspension_id,
            waitpoint_id: it.on.waitpoint_id,
            waitpoint_key: it.on.key.clone(),
            waitpoint_token: it.on.token.clone(),
        };
        assert_eq!(d.call(it.call.clone()).await, before);
        d.deliver(&it.on, "go").await;
        assert_eq!(d.call(it.call.clone()).await, before);
        let held = d.claim_resumed(&it.held).await;
        assert_eq!(d.call(it.call.clone()).await, before);
        d.suspend_held(&held, &go()).await;
        assert_eq!(d.call(it.call.clone()).await, before);
        d.rotate("k2", &SECRET[2..], 0).await;
        let SuspendExecutionReply::SuspendedBefore { waitpoint_token, .. } =
            d.call(it.call.clone()).await
        else {
            panic!("it was done before");
        };
        assert!(waitpoint_token.as_str().starts_with("k2:"), "tokens are made anew");
    }

    async fn a_suspension_is_repeated_under_its_own_lease_alone(d: &Deployment) {
        let held = d.create_and_claim().await;
        let early = d.open_waitpoint(&held, "early", 900_000).await;
        let it = d.suspend_held(&held, &go()).await;
        let mut call = it.call.clone();
        call.lease_id = LeaseId::from_uuid(d.new_uuid());
        assert_eq!(d.refused(call).await, Code::ExecutionNotActive);
        d.deliver(&it.on, "go").await;
        // What was opened under one lease and is waited on under the next knows both.
        let held = d.claim_resumed(&held).await;
        let it = d.suspend_by(&held, d.suspension_on(&held, &early, &go())).await;
        let reply = d.call(it.call.clone()).await;
        assert!(matches!(reply, SuspendExecutionReply::SuspendedBefore { .. }), "{reply:?}");
    }

    async fn the_latest_suspension_is_the_one_that_began_last(d: &Deployment) {
        let held = d.create_and_claim().await;
        let first = d.open_waitpoint(&held, "first", 900_000).await;
        let second = d.open_waitpoint(&held, "second", 900_000).await;
        let it = d.suspend_by(&held, d.suspension_on(&held, &second, &go())).await;
        d.deliver(&it.on, "go").await;
        let held = d.claim_resumed(&held).await;
        d.suspend_by(&held, d.suspension_on(&held, &first, &go())).await;
        let described = d.describe(held.id).await;
        let order: Vec<_> = described.suspensions.iter().map(|one| one.waitpoint_id).collect();
        assert_eq!(order, [second.waitpoint_id, first.waitpoint_id]);
        assert_eq!(described.current_waitpoint, Some(first.waitpoint_id));
    }

    async fn a_description_tells_who_asked_and_what_ended_it(d: &Deployment) {
        let mut held = d.create_and_claim().await;
        for ends in ["signal:go", "operator:operator", "timeout:auto_resume"] {
            let mut call = d.suspension(&held, &go());
            call.requested_by = "step 1".to_owned();
            (call.timeout_ms, call.timeout_behavior) =
                (Some(TIMEOUT_MS), Some(TimeoutBehavior::AutoResume));
            let it = d.suspend_by(&held, call).await;
            match ends {
                "signal:go" => {
                    d.deliver(&it.on, "go").await;
                }
                "operator:operator" => {
                    d.call(d.resumption(held.id)).await;
                }
                _ => {
                    d.advance(TIMEOUT_MS).await;
                    d.tick().await;
                }
            }
            let told = d.describe(held.id).await.suspensions.pop().expect("it was suspended");
            assert_eq!(told.worker_instance_id.as_deref(), Some(INSTANCE));
            assert_eq!(told.ended_by.as_deref(), Some(ends));
            let events = events_of(&d.dump().await, held.id).join("\n");
            let asked = format!("suspended 0 waiting_for_signal:{}:step 1", it.on.waitpoint_id);
            assert!(events.contains(&asked), "{events}");
            held = d.claim_resumed(&held).await;
        }
        let it = d.suspend_held(&held, &go()).await;
        let told = d.describe(it.held.id).await.suspensions.pop().expect("it is suspended");
        assert_eq!((told.ended_by, told.closed_at), (None, None));
    }

    async fn an_operator_comes_too_late_after_the_timeout(d: &Deployment) {
        let it = timed(d, TimeoutBehavior::Fail).await;
        d.advance(TIMEOUT_MS).await;
        assert_eq!(d.refused(d.resumption(it.held.id)).await, Code::WaitpointClosed);
        d.tick().await;
        d.create().deadline_in(100).send().await;
        let held = d.claim(LANE).await;
        d.suspend_held(&held, &go()).await;
        d.advance(100).await;
        assert_eq!(d.refused(d.resumption(held.id)).await, Code::TargetNotSignalable);
    }

    async fn an_escalated_wait_is_ended_by_an_operator_whatever_it_said_before(d: &Deployment) {
        for carried_out in [true, false] {
            let held = d.create_and_claim().await;
            let mut call = d.suspension(&held, &Condition::TimeoutOnly);
            (call.timeout_ms, call.timeout_behavior) = (Some(10), Some(TimeoutBehavior::Escalate));
            d.suspend_by(&held, call).await;
            let code = d.refused(d.resumption(held.id)).await;
            assert_eq!(code, Code::OperatorOverrideNotAllowed);
            d.advance(10).await;
            if carried_out {
                assert_eq!(d.tick().await.suspensions, 1);
            }
            d.call(d.resumption(held.id)).await;
            let resumed = d.claim_resumed(&held).await;
            d.call(resumed.complete(b"")).await;
        }
    }

    async fn more_signals_than_an_execution_takes_are_not_waited_for(d: &Deployment) {
        d.install_secret().await;
        d.create().policy(r#"{"max_signals_per_execution":2}"#).send().await;
        let held = d.claim(LANE).await;
        let three = || Condition::count(3, ["a"]);
        let all_of = Condition::AllOf { conditions: vec![go(), three()] };
        for never in [three(), Condition::all(["a", "b", "c"]), all_of] {
            assert_eq!(d.refused(d.suspension(&held, &never)).await, Code::InvalidInput);
        }
        let any_of = Condition::AnyOf { conditions: vec![go(), three()] };
        d.suspend_held(&held, &any_of).await;
    }

    async fn the_engines_own_signals_are_not_waited_for(d: &Deployment) {
        d.install_secret().await;
        let held = d.create_and_claim().await;
        let source_type = Some("system".to_owned());
        let never = Condition::Any { signals: vec!["timeout".to_owned()], source_type };
        assert_eq!(d.refused(d.suspension(&held, &never)).await, Code::InvalidInput);
    }
}
