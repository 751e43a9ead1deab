//! What engines of this kind got wrong about suspension and signals, each as a test of its own.

use ff_conformance::record::{key_of, listed_in, record};
use ff_conformance::{Deployment, Held, LANE, Suspended, Waiting, conformance};
use ff_core::contracts::{Condition, TimeoutBehavior};
use ff_core::error::Code;
use ff_core::state::PublicState;
use ff_script::calls::signal::{DeliverSignal, DeliverSignalReply};
use ff_script::calls::suspend::{
    ExpireSuspension, ExpireSuspensionReply, SuspendExecution, SuspendExecutionReply,
};
use ff_script::host::Topic;

use super::scenario::encode;

fn go() -> Condition {
    Condition::any(["go"])
}

async fn state(d: &Deployment, held: &Held) -> PublicState {
    d.describe(held.id).await.public_state()
}

async fn timed(d: &Deployment, behavior: TimeoutBehavior, timeout_ms: u64) -> Suspended {
    let held = d.create_and_claim().await;
    let mut call = d.suspension(&held, &go());
    (call.timeout_ms, call.timeout_behavior) = (Some(timeout_ms), Some(behavior));
    d.suspend_by(&held, call).await
}

/// Makes a call with one argument replaced; gives the code it is refused with.
async fn with(d: &Deployment, name: &str, args: &[Vec<u8>], position: usize, text: &str) -> String {
    let mut args = args.to_vec();
    args[position] = text.as_bytes().to_vec();
    let sent: Vec<&[u8]> = args.iter().map(Vec::as_slice).collect();
    d.raw(name, &sent).await.code().to_owned()
}

conformance! {
    async fn s1_a_signal_resumes_no_other_execution(d: &Deployment) {
        let (a, b) = (d.suspend(&go()).await, d.suspend(&go()).await);
        let forged = Waiting { execution_id: b.held.id, ..a.on.clone() };
        assert_eq!(d.refused(d.signal(&forged, "go")).await, Code::InvalidToken);
        let mixed = Waiting { token: a.on.token.clone(), ..b.on.clone() };
        assert_eq!(d.refused(d.signal(&mixed, "go")).await, Code::InvalidToken);
        assert_eq!((state(d, &a.held).await, state(d, &b.held).await),
            (PublicState::Suspended, PublicState::Suspended));
        d.deliver(&a.on, "go").await;
        assert_eq!(state(d, &b.held).await, PublicState::Suspended);
    }

    async fn s2_an_old_waitpoint_does_not_resume_a_newer_suspension(d: &Deployment) {
        let first = d.suspend(&go()).await;
        d.call(d.resumption(first.held.id)).await;
        let held = d.claim_resumed(&first.held).await;
        let satisfied = d.open_waitpoint(&held, "satisfied", 1000).await;
        d.deliver(&satisfied, "go").await;
        d.call(d.suspension_on(&held, &satisfied, &go())).await;
        let closed = d.open_waitpoint(&held, "closed", 1000).await;
        d.call(held.close_waitpoint(closed.waitpoint_id)).await;
        let last = d.suspend_held(&held, &go()).await;
        for old in [&first.on, &satisfied, &closed] {
            assert_eq!(d.refused(d.signal(old, "go")).await, Code::WaitpointClosed);
        }
        assert_eq!(state(d, &held).await, PublicState::Suspended);
        d.deliver(&last.on, "go").await;
    }

    async fn s3_a_delayed_resume_wakes(d: &Deployment) {
        let it = d.suspend(&go()).await;
        let mut call = d.resumption(it.held.id);
        call.resume_delay_ms = Some(100);
        d.call(call).await;
        assert_eq!(record(&d.dump().await, it.held.id)["du"], d.now().plus_millis(100).to_string());
        d.advance(100).await;
        assert_eq!(d.tick().await.promoted, 1);
        d.claim_resumed(&it.held).await;
    }

    async fn s4_a_signal_that_races_with_the_suspension_is_not_lost(d: &Deployment) {
        let held = d.create_and_claim().await;
        let on = d.open_waitpoint(&held, "k", 1000).await;
        let late = d.signal(&on, "go");
        d.suspend_by(&held, d.suspension_on(&held, &on, &go())).await;
        let args = encode(&late);
        let sent: Vec<&[u8]> = args.iter().map(Vec::as_slice).collect();
        let answer = d.raw("ff_buffer_signal_for_pending_waitpoint", &sent).await;
        assert_eq!(answer.text(1), "resume_condition_satisfied");
        d.claim_resumed(&held).await;
    }

    async fn s5_a_suspension_without_a_timeout_is_left_alone(d: &Deployment) {
        let it = d.suspend(&go()).await;
        let reason = "no_timeout".to_owned();
        let reply = d.call(ExpireSuspension { execution_id: it.held.id }).await;
        assert_eq!(reply, ExpireSuspensionReply::NotDue { reason });
        let (due, uuid) = (format!("{}:due", d.home().key()), it.held.id.uuid().to_string());
        d.host().exec(d.home(), &[b"ZADD", due.as_bytes(), b"1", uuid.as_bytes()]).await;
        assert_eq!(d.tick().await.corrected, 1);
        assert_eq!(listed_in(&d.dump().await, it.held.id), ["suspended"]);
    }

    async fn s6_an_end_by_timeout_is_told_to_those_who_wait(d: &Deployment) {
        let mut ended = d.listen(Topic::Ended).await;
        let it = timed(d, TimeoutBehavior::Fail, 10).await;
        d.advance(10).await;
        d.tick().await;
        assert_eq!(ended.next().await, it.held.id.uuid().to_string());
    }

    async fn s7_a_suspension_that_is_refused_has_written_nothing(d: &Deployment) {
        let held = d.create_and_claim().await;
        let on = d.open_waitpoint(&held, "k", 1000).await;
        let args = encode(&d.suspension_on(&held, &on, &go()));
        for (position, text) in [(7, "sometime"), (9, "-1"), (9, "1.5"), (9, "x"), (10, "later"),
            (11, ""), (11, "{"), (11, "null"), (11, r#"{"type":"any","signals":null}"#), (12, "x"),
            (14, "2")] {
            let code = with(d, "ff_suspend_execution", &args, position, text).await;
            assert_eq!(code, "invalid_input", "{position} {text}");
        }
        assert_eq!(state(d, &held).await, PublicState::Active);
        d.suspend_by(&held, d.suspension_on(&held, &on, &go())).await;
    }

    async fn s8_a_suspension_can_be_repeated(d: &Deployment) {
        let it = d.suspend(&go()).await;
        let reply = d.call(it.call.clone()).await;
        let SuspendExecutionReply::SuspendedBefore { waitpoint_token, .. } = reply else {
            panic!("{reply:?}")
        };
        assert_eq!(waitpoint_token, it.on.token);
        let other = SuspendExecution { suspension_id:
            ff_core::types::SuspensionId::from_uuid(d.new_uuid()), ..it.call.clone() };
        assert_eq!(d.refused(other).await, Code::ExecutionNotActive);
        let delay = it.held.delay(d.now().plus_millis(5));
        assert_eq!(d.refused(delay).await, Code::ExecutionNotActive, "it was no delay");
        let stranger = SuspendExecution { lease_epoch: ff_core::types::LeaseEpoch(9),
            ..it.call.clone() };
        assert_eq!(d.refused(stranger).await, Code::ExecutionNotActive);
    }

    async fn s9_operator_only_is_no_wildcard(d: &Deployment) {
        for condition in [Condition::OperatorOnly, Condition::TimeoutOnly] {
            let held = d.create_and_claim().await;
            let mut call = d.suspension(&held, &condition);
            call.timeout_ms = Some(1000);
            let it = d.suspend_by(&held, call).await;
            assert_eq!(d.deliver(&it.on, "go").await, "no_op");
            assert_eq!(state(d, &held).await, PublicState::Suspended);
        }
    }

    async fn s10_conditions_that_cannot_be_met_are_refused(d: &Deployment) {
        d.install_secret().await;
        let held = d.create_and_claim().await;
        for json in [r#"{"required_signal_names":["a"],"minimum_signal_count":2}"#,
            r#"{"required_signal_names":[],"minimum_signal_count":1}"#,
            r#"{"type":"all_of","conditions":[{"type":"timeout_only"}]}"#] {
            let resume_condition_json = json.to_owned();
            let call = SuspendExecution { resume_condition_json, ..d.suspension(&held, &go()) };
            assert_eq!(d.refused(call).await, Code::InvalidInput, "{json}");
        }
        let three = Condition::count(3, ["*"]);
        let it = d.suspend_held(&held, &three).await;
        d.deliver(&it.on, "a").await;
        d.deliver(&it.on, "a").await;
        assert_eq!(d.deliver(&it.on, "b").await, "resume_condition_satisfied");
    }

    async fn s11_a_signal_that_is_refused_has_counted_for_nothing(d: &Deployment) {
        let it = d.suspend(&go()).await;
        let args = encode(&d.signal(&it.on, "go"));
        for (position, text) in [(3, "x"), (4, ""), (4, "*"), (4, " go"), (4, "g\no")] {
            let code = with(d, "ff_deliver_signal", &args, position, text).await;
            assert_eq!(code, "invalid_input", "{position} {text}");
        }
        assert_eq!(d.deliver(&it.on, "go").await, "resume_condition_satisfied");
    }

    async fn s12_an_active_waitpoint_is_not_closed_under_its_execution(d: &Deployment) {
        let it = d.suspend(&go()).await;
        let close = it.held.close_waitpoint(it.on.waitpoint_id);
        assert_eq!(d.refused(close).await, Code::WaitpointActive);
        assert_eq!(d.deliver(&it.on, "go").await, "resume_condition_satisfied");
    }

    async fn s13_a_pending_waitpoint_needs_the_whole_fence(d: &Deployment) {
        let held = d.create_and_claim().await;
        let on = d.open_waitpoint(&held, "k", 1000).await;
        let other = d.new_uuid().to_string();
        for (name, args) in [
            ("ff_create_pending_waitpoint", encode(&d.opening(&held, "k2", 1000))),
            ("ff_close_waitpoint", encode(&held.close_waitpoint(on.waitpoint_id))),
        ] {
            for (position, text, code) in [(1, other.as_str(), "stale_lease"),
                (2, "9", "stale_lease"),
                (3, other.as_str(), "stale_lease"), (1, "", "partial_fence_triple")] {
                assert_eq!(with(d, name, &args, position, text).await, code, "{name}");
            }
        }
        d.advance(ff_conformance::LEASE_MS).await;
        assert_eq!(d.refused(d.opening(&held, "k2", 1000)).await, Code::LeaseExpired);
        assert_eq!(d.refused(held.close_waitpoint(on.waitpoint_id)).await, Code::LeaseExpired);
    }

    async fn s14_waitpoints_that_were_never_used_are_purged_too(d: &Deployment) {
        d.create().policy(r#"{"retention_ms":0}"#).send().await;
        let held = d.claim(LANE).await;
        for (key, ms) in [("expires", 10), ("stays", 100_000), ("satisfied", 100_000)] {
            let on = d.open_waitpoint(&held, key, ms).await;
            d.deliver(&on, "go").await;
            if key == "satisfied" {
                d.call(d.suspension_on(&held, &on, &go())).await;
            }
        }
        d.advance(10).await;
        d.tick().await;
        d.call(held.complete(b"")).await;
        d.advance(60_000).await;
        d.tick().await;
        let dump = d.dump().await;
        let left = dump.keys().filter(|key| String::from_utf8_lossy(key).contains(":wp:")).count();
        assert_eq!((left, dump.contains_key(&key_of(held.id, ":waitpoints"))), (0, false));
    }

    async fn s15_a_waitpoint_id_is_not_used_twice(d: &Deployment) {
        let held = d.create_and_claim().await;
        let on = d.open_waitpoint(&held, "k", 1000).await;
        d.deliver(&on, "go").await;
        d.call(held.close_waitpoint(on.waitpoint_id)).await;
        let mut again = d.suspension(&held, &go());
        again.waitpoint_id = on.waitpoint_id;
        assert_eq!(d.refused(again).await, Code::WaitpointAlreadyExists);
        let mut again = d.opening(&held, "k2", 1000);
        again.waitpoint_id = on.waitpoint_id;
        assert_eq!(d.refused(again).await, Code::WaitpointAlreadyExists);
        let mut key_again = d.suspension(&held, &go());
        key_again.waitpoint_key = Some("k".to_owned());
        let it = d.suspend_by(&held, key_again).await;
        assert_eq!(state(d, &held).await, PublicState::Suspended, "old signals count for nothing");
        assert_eq!(d.refused(d.signal(&on, "go")).await, Code::WaitpointClosed);
        d.deliver(&it.on, "go").await;
    }

    async fn s16_the_signal_that_resumed_can_be_repeated(d: &Deployment) {
        let it = d.suspend(&go()).await;
        let mut call = d.signal(&it.on, "go");
        call.idempotency_key = "once".to_owned();
        d.effect(call.clone()).await;
        let held = d.claim_resumed(&it.held).await;
        d.suspend_held(&held, &go()).await;
        let signal_id = call.signal_id.to_string();
        assert_eq!(d.call(call).await, DeliverSignalReply::DeliveredBefore { signal_id });
        assert_eq!(state(d, &held).await, PublicState::Suspended);
    }

    async fn s17_one_signal_id_counts_once(d: &Deployment) {
        let it = d.suspend(&Condition::all(["go", "go"])).await;
        let call = d.signal(&it.on, "go");
        assert_eq!(d.effect(call.clone()).await, "appended_to_waitpoint");
        let signal_id = call.signal_id.to_string();
        assert_eq!(d.call(call).await, DeliverSignalReply::DeliveredBefore { signal_id });
        assert_eq!(d.deliver(&it.on, "go").await, "resume_condition_satisfied");
    }

    async fn s18_an_idempotency_key_belongs_to_one_waitpoint(d: &Deployment) {
        let held = d.create_and_claim().await;
        for key in ["one", "other"] {
            let on = d.open_waitpoint(&held, key, 1000).await;
            let idempotency_key = "same".to_owned();
            let call = DeliverSignal { idempotency_key, ..d.signal(&on, "go") };
            assert_eq!(d.effect(call).await, "buffered_for_pending_waitpoint");
        }
    }

    async fn s19_nothing_is_learned_without_a_token(d: &Deployment) {
        let it = d.suspend(&go()).await;
        let done = d.suspend(&go()).await;
        d.deliver(&done.on, "go").await;
        let unknown = Waiting { execution_id: d.new_id(), ..it.on.clone() };
        let forge = |on: &Waiting| Waiting { token: done.on.token.clone(), ..on.clone() };
        let closed = Waiting { token: it.on.token.clone(), ..done.on.clone() };
        for on in [unknown, forge(&it.on), closed] {
            assert_eq!(d.refused(d.signal(&on, "go")).await, Code::InvalidToken);
        }
    }

    async fn s20_what_is_counted_is_told(d: &Deployment) {
        let held = d.create_and_claim().await;
        let on = d.open_waitpoint(&held, "k", 1000).await;
        d.deliver(&on, "a").await;
        d.deliver(&on, "x").await;
        d.suspend_by(&held, d.suspension_on(&held, &on, &Condition::all(["a", "b"]))).await;
        let told = |suspension: &ff_core::contracts::SuspensionRecord| {
            (suspension.signal_count, suspension.matched_signal_count)
        };
        assert_eq!(told(&d.describe(held.id).await.suspensions[0]), (2, 1));
        d.deliver(&on, "b").await;
        assert_eq!(told(&d.describe(held.id).await.suspensions[0]), (3, 2));
    }

    async fn s21_signals_have_limits_and_none_is_dropped(d: &Deployment) {
        d.create().policy(r#"{"max_signals_per_execution":3}"#).send().await;
        let held = d.claim(LANE).await;
        let on = d.open_waitpoint(&held, "k", 1000).await;
        for name in ["a", "b", "c"] {
            d.deliver(&on, name).await;
        }
        assert_eq!(d.refused(d.signal(&on, "d")).await, Code::SignalLimitExceeded);
        let long = DeliverSignal { signal_name: "n".repeat(129), ..d.signal(&on, "d") };
        assert_eq!(d.refused(long).await, Code::InvalidInput);
        let call = d.suspension_on(&held, &on, &Condition::all(["a", "b", "c"]));
        let reply = d.call(call).await;
        let SuspendExecutionReply::Satisfied { resume, .. } = reply else { panic!("{reply:?}") };
        assert_eq!(resume.map(|resume| resume.signals.len()), Some(3));
    }

    async fn s22_nothing_is_buffered_for_what_is_over(d: &Deployment) {
        let held = d.create_and_claim().await;
        let on = d.open_waitpoint(&held, "k", 10).await;
        let kept = d.open_waitpoint(&held, "kept", 100_000).await;
        d.advance(10).await;
        assert_eq!(d.refused(d.signal(&on, "go")).await, Code::WaitpointClosed);
        d.call(held.fail("no", "permanent")).await;
        assert_eq!(d.refused(d.signal(&kept, "go")).await, Code::WaitpointClosed);
    }

    async fn s23_the_attempt_keeps_its_time_across_a_suspension(d: &Deployment) {
        d.create().policy(r#"{"timeout_policy":{"attempt_timeout_ms":500}}"#).send().await;
        let held = d.claim(LANE).await;
        d.advance(100).await;
        let it = d.suspend_held(&held, &go()).await;
        d.advance(10_000).await;
        assert_eq!(d.tick().await.timed_out, 0);
        d.deliver(&it.on, "go").await;
        let resumed = d.claim_resumed(&held).await;
        d.advance(399).await;
        assert_eq!(d.tick().await.timed_out, 0);
        d.advance(1).await;
        assert_eq!(d.tick().await.timed_out, 1);
        assert_eq!(state(d, &resumed).await, PublicState::Expired);
    }

    async fn s24_an_escalation_leaves_no_stale_time(d: &Deployment) {
        let it = timed(d, TimeoutBehavior::Escalate, 10).await;
        d.advance(10).await;
        assert_eq!(d.tick().await.suspensions, 1);
        let described = d.describe(it.held.id).await;
        assert_eq!((described.suspensions[0].timeout_at, described.last_mutation_at),
            (None, d.now()));
        assert!(!record(&d.dump().await, it.held.id).contains_key("su"));
        d.advance(100_000).await;
        assert_eq!(d.tick().await.suspensions, 0);
    }

    async fn s25_a_timeout_that_resumes_says_so(d: &Deployment) {
        let it = timed(d, TimeoutBehavior::AutoResume, 10).await;
        d.advance(10).await;
        d.tick().await;
        assert_eq!(d.claim_resumed(&it.held).await.signal_names(), ["timeout"]);
    }

    async fn s26_an_operator_ends_the_wait_that_there_is(d: &Deployment) {
        let first = d.suspend(&go()).await;
        d.deliver(&first.on, "go").await;
        let held = d.claim_resumed(&first.held).await;
        let second = d.suspend_held(&held, &go()).await;
        d.call(d.resumption(held.id)).await;
        let suspensions = d.describe(held.id).await.suspensions;
        assert_eq!(suspensions.iter().filter(|it| it.closed_at.is_none()).count(), 0);
        assert_eq!(d.refused(d.signal(&second.on, "go")).await, Code::WaitpointClosed);
    }

    async fn s27_durations_count_by_the_stores_clock(d: &Deployment) {
        let it = timed(d, TimeoutBehavior::Fail, 70).await;
        let suspension = d.describe(it.held.id).await.suspensions[0].clone();
        assert_eq!(suspension.timeout_at, Some(d.now().plus_millis(70)));
        let held = d.create_and_claim().await;
        let args = encode(&d.suspension(&held, &go()));
        for (position, text) in [(7, "because"), (10, "explode")] {
            let code = with(d, "ff_suspend_execution", &args, position, text).await;
            assert_eq!(code, "invalid_input");
        }
    }

    async fn s28_a_resumed_execution_goes_where_every_runnable_one_goes(d: &Deployment) {
        d.create().priority(7).deadline_in(9000).send().await;
        let held = d.claim(LANE).await;
        let it = d.suspend_held(&held, &go()).await;
        d.deliver(&it.on, "go").await;
        assert_eq!(listed_in(&d.dump().await, held.id), ["due", "q:default:tests:work"]);
        d.create_one().await;
        d.claim_resumed(&held).await;
    }

    async fn s29_suspensions_have_a_history(d: &Deployment) {
        let it = d.suspend(&go()).await;
        d.call(d.resumption(it.held.id)).await;
        let held = d.claim_resumed(&it.held).await;
        let mut call = d.suspension(&held, &go());
        (call.requested_by, call.timeout_ms) = ("billing".to_owned(), Some(5));
        d.suspend_by(&held, call).await;
        d.advance(5).await;
        d.tick().await;
        let told: Vec<_> = d.describe(held.id).await.suspensions.into_iter()
            .map(|it| (it.requested_by, it.close_reason)).collect();
        assert_eq!(told, [(String::new(), Some("resumed".to_owned())),
            ("billing".to_owned(), Some("timed_out_fail".to_owned()))]);
    }

    async fn s30_a_closed_waitpoint_always_says_the_same(d: &Deployment) {
        let it = d.suspend(&go()).await;
        d.deliver(&it.on, "go").await;
        let code = Code::WaitpointClosed;
        assert_eq!(d.refused(d.signal(&it.on, "go")).await, code);
        let held = d.claim_resumed(&it.held).await;
        assert_eq!(d.refused(d.signal(&it.on, "go")).await, code);
        d.call(held.complete(b"")).await;
        assert_eq!(d.refused(d.signal(&it.on, "go")).await, code);
    }

    async fn s31_a_waitpoint_is_found_by_its_key(d: &Deployment) {
        let held = d.create_and_claim().await;
        let on = d.open_waitpoint(&held, "order 7", 1000).await;
        let by_key = DeliverSignal { waitpoint_id: None, waitpoint_key: Some("order 7".to_owned()),
            ..d.signal(&on, "go") };
        assert_eq!(d.effect(by_key.clone()).await, "buffered_for_pending_waitpoint");
        d.call(held.close_waitpoint(on.waitpoint_id)).await;
        let new = d.open_waitpoint(&held, "order 7", 1000).await;
        let again = DeliverSignal { signal_id: ff_core::types::SignalId::from_uuid(d.new_uuid()),
            ..by_key };
        assert_eq!(d.refused(again.clone()).await, Code::InvalidToken, "the key has moved on");
        let right = DeliverSignal { waitpoint_token: new.token.clone(), ..again };
        assert_eq!(d.effect(right).await, "buffered_for_pending_waitpoint");
    }
}
