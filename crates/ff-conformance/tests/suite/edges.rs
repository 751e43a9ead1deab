//! Just at the edge: the last value that is taken, the first that is not, and orders that only many
//! show.

use ff_conformance::record::{key_of, log};
use ff_conformance::{
    Deployment, GRANT_MS, HostKind, LANE, LEASE_MS, WORKER, capabilities, conformance, instance,
    lane, worker,
};
use ff_core::limits;
use ff_core::state::{AttemptLifecycle, AttemptState, PublicState};
use ff_core::types::{GrantId, WorkerSession};
use ff_script::calls::claim_next::ClaimNext;
use ff_script::calls::create::CreateExecutions;
use ff_script::calls::grant::{GrantNext, GrantNextReply};
use ff_script::calls::tick::{Tick, TickReply};
use ff_script::calls::worker::{
    ListWorkers, ListWorkersReply, RegisterWorker, ReleaseWorkerLeases, ReleaseWorkerLeasesReply,
};
use ff_script::host::Topic;
use ff_script::value::Value;
use ff_script::wire::{Joined, Rest};

use super::replay::replay;
use super::scenario::registration;

fn next_grant(d: &Deployment, process: &str) -> GrantNext {
    GrantNext {
        lane: lane(LANE),
        worker_id: worker(WORKER),
        worker_instance_id: instance(process),
        capabilities: capabilities(&[]),
        grant_ttl_ms: GRANT_MS,
        retry: false,
        grant_id: GrantId::from_uuid(d.new_uuid()),
        need: None,
        score_max: None,
        namespaces: Joined(Vec::new()),
    }
}

conformance! {
    async fn a_repeated_grant_is_found_among_others(d: &Deployment) {
        let mut calls = Vec::new();
        let mut granted = Vec::new();
        for process in ["w-1", "w-2", "w-3"] {
            d.create_one().await;
            let call = next_grant(d, process);
            let GrantNextReply::Granted { execution_id, .. } = d.call(call.clone()).await else {
                panic!("there is something to grant");
            };
            calls.push(GrantNext { retry: true, ..call });
            granted.push(execution_id);
        }
        for (call, granted) in calls.into_iter().zip(granted) {
            match d.call(call).await {
                GrantNextReply::GrantedBefore { execution_id, .. } => {
                    assert_eq!(execution_id, granted);
                }
                other => panic!("it was granted before, not {other:?}"),
            }
        }
        let never_arrived = GrantNext { retry: true, ..next_grant(d, "w-1") };
        let nothing = GrantNextReply::Nothing { next_score: None };
        assert_eq!(d.call(never_arrived.clone()).await, nothing);
        let id = d.create_one().await;
        match d.call(never_arrived).await {
            GrantNextReply::Granted { execution_id, .. } => assert_eq!(execution_id, id),
            other => panic!("it is a first grant, not {other:?}"),
        }
    }

    async fn many_workers_are_listed_by_instance(d: &Deployment) {
        // Neither in the order of their names nor against it.
        let mut names: Vec<String> = (0..60).map(|n| format!("w-{:02}", n * 37 % 60)).collect();
        for name in &names {
            d.call(RegisterWorker {
                worker_id: worker(WORKER),
                worker_instance_id: instance(name),
                session: WorkerSession::from_uuid(d.new_uuid()),
                capabilities: capabilities(&[]),
                ttl_ms: 1000,
                lanes: Rest(vec![lane(LANE)]),
                ..registration(d)
            })
            .await;
        }
        let ListWorkersReply::Workers { workers } = d.call(ListWorkers {}).await;
        let listed = workers.0.into_iter().map(|row| match row {
            Value::Array(values) => match &values[0] {
                Value::Bytes(name) => String::from_utf8_lossy(name).into_owned(),
                other => panic!("a name is a text, not {other:?}"),
            },
            other => panic!("a row is a list, not {other:?}"),
        });
        names.sort();
        assert_eq!(listed.collect::<Vec<_>>(), names);
    }

    async fn the_last_attempt_of_a_replayed_execution_keeps_its_end(d: &Deployment) {
        for (how, end) in [
            ("complete", AttemptLifecycle::EndedSuccess),
            ("fail", AttemptLifecycle::EndedFailure),
            ("expire", AttemptLifecycle::EndedFailure),
            ("cancel", AttemptLifecycle::EndedCancelled),
        ] {
            let id = d.create().deadline_in(10).send().await;
            let held = d.claim(LANE).await;
            match how {
                "complete" => assert!(d.try_call(held.complete(b"")).await.is_ok()),
                "fail" => assert!(d.try_call(held.fail("no", "x")).await.is_ok()),
                "cancel" => assert!(d.try_call(held.cancel("")).await.is_ok()),
                _ => {
                    d.advance(10).await;
                    d.tick().await;
                }
            }
            let ended_at = d.now();
            d.advance(5).await;
            d.call(replay(id)).await;
            for attempts in [1, 2] {
                let all = d.attempts(id).await;
                assert_eq!(all.len(), attempts);
                assert_eq!((all[0].state, all[0].ended_at), (end, Some(ended_at)), "{how}");
                if attempts == 1 {
                    assert_eq!(d.claim(LANE).await.id, id);
                }
            }
        }
    }

    /// The latest three requests of an execution are known, and no older one.
    async fn several_requests_are_remembered(d: &Deployment) {
        let id = d.create_one().await.to_string();
        let requests: Vec<String> = (0..4).map(|_| d.new_uuid().to_string()).collect();
        let change = async |request: &String| {
            let args: [&[u8]; 3] = [id.as_bytes(), b"7", request.as_bytes()];
            d.raw("ff_change_priority", &args).await.word
        };
        for request in &requests[..3] {
            assert_eq!(change(request).await, "OK");
        }
        for request in &requests[..3] {
            assert_eq!(change(request).await, "DUPLICATE");
        }
        assert_eq!(change(&requests[3]).await, "OK");
        for request in &requests[1..] {
            assert_eq!(change(request).await, "DUPLICATE");
        }
        assert_eq!(change(&requests[0]).await, "OK", "the oldest was forgotten");
    }

    async fn one_call_wakes_all_who_wait(d: &Deployment) {
        let mut ready = d.listen(Topic::Ready).await;
        let calls = ["a", "a", "b", "c", "c", "a"].map(|lane| d.create().lane(lane).call());
        d.call(CreateExecutions::of(&calls)).await;
        d.create().lane("e").send().await;
        for lane in ["a", "b", "c", "e"] {
            assert_eq!(ready.lane().await, lane, "who was woken is not woken again");
        }
    }

    async fn only_a_replacement_or_a_replay_has_a_cause(d: &Deployment) {
        let policy = r#"{"retry_policy":{"backoff":{"type":"fixed","delay_ms":0}}}"#;
        let id = d.create().policy(policy).send().await;
        d.call(d.claim(LANE).await.fail("no", "transient")).await;
        d.claim(LANE).await;
        d.advance(LEASE_MS).await;
        d.tick().await;
        d.call(d.claim(LANE).await.complete(b"")).await;
        d.call(replay(id)).await;
        d.claim(LANE).await;
        let causes = d.attempts(id).await.into_iter().map(|attempt| attempt.cause);
        let causes: Vec<String> = causes.map(Option::unwrap_or_default).collect();
        assert_eq!(causes, ["", "", "lease_expired", "alice fixed the bug"]);
    }

    /// Nothing is skipped yet, but what a newer version skipped can be described.
    async fn what_was_skipped_never_had_an_attempt(d: &Deployment) {
        let id = d.create_one().await;
        let key = key_of(id, "");
        let put = async |state: &[u8]| {
            let command = d.host().exec(d.home(), &[b"HSET", &key, b"st", state]).await;
            command.expect("every store has the command");
        };
        put(b"skipped").await;
        let described = d.describe(id).await;
        assert_eq!(described.public_state(), PublicState::Skipped);
        assert_eq!(described.state.attempt_state, AttemptState::None);
        put(b"waiting").await;
    }

    async fn a_waiting_retry_names_the_attempt_that_failed(d: &Deployment) {
        let policy = r#"{"retry_policy":{"backoff":{"type":"fixed","delay_ms":9}}}"#;
        let id = d.create().policy(policy).send().await;
        for attempt in 0..3 {
            d.call(d.claim(LANE).await.fail("no", "transient")).await;
            let detail = d.describe(id).await.blocking_detail.expect("it says why");
            let at = d.now().plus_millis(9);
            assert_eq!(detail, format!("delayed until {at} after attempt {attempt} failed: no"));
            d.advance(9).await;
            d.tick().await;
        }
    }

    async fn a_leaving_worker_hands_back_more_than_one_call_looks_at(d: &Deployment) {
        d.host().watch(false);
        let each = limits::RELEASE_SCAN_MAX as usize + 10;
        for name in ["leaves", "stays"].into_iter().cycle().take(2 * each) {
            d.create_one().await;
            let call =
                ClaimNext { worker_instance_id: instance(name), ..d.claim_call(LANE, 1) };
            assert_eq!(d.claimed(call).await.len(), 1);
        }
        let (mut total, mut skip) = (0, Some(0));
        while let Some(from) = skip {
            let call = ReleaseWorkerLeases { worker_instance_id: instance("leaves"), skip: from };
            let ReleaseWorkerLeasesReply::Released { released, next_skip } = d.call(call).await;
            total += released as usize;
            skip = next_skip;
        }
        assert_eq!(total, each);
        let most = limits::CLAIM_COUNT_MAX as usize;
        assert_eq!(d.claimed(d.claim_call(LANE, most)).await.len(), most);
        assert_eq!(d.claimed(d.claim_call(LANE, most)).await.len(), each - most, "nobody else's came back");
    }

    /// By age alone: the tick names no length. A server's log has a clock that no test can set.
    async fn old_events_go_in_time_also_after_the_clock_was_set_back(d: &Deployment) {
        if d.kind() != HostKind::Embedded {
            return;
        }
        d.host().watch(false);
        let (start, day) = (d.now().get(), limits::EVENT_LOG_AGE_MS_MAX + 1000);
        let left = async || {
            d.call(Tick::once(1)).await;
            log(&d.dump().await, d.home()).len()
        };
        d.set_time(start + 10 * day).await;
        assert_eq!(left().await, 0, "the log was looked at far ahead");
        d.set_time(start).await;
        for at in [start, start + 2 * day] {
            d.set_time(at).await;
            for _ in 0..150 {
                d.create_one().await;
            }
            let before = left().await;
            assert!(before >= 150, "{before}: nothing is old");
            d.advance(day).await;
            let after = left().await;
            assert!((1..=100).contains(&after), "{after}");
        }
    }

    async fn a_tick_gets_past_more_strange_entries_than_one_call_looks_at(d: &Deployment) {
        d.host().watch(false);
        let due = format!("{}:due", d.home().key());
        for n in 0..limits::STRANGE_SCAN_MAX + 50 {
            let member = format!("z:{n}");
            let words: [&[u8]; 4] = [b"ZADD", due.as_bytes(), b"1", member.as_bytes()];
            d.host().exec(d.home(), &words).await.expect("every store has the command");
        }
        d.create().delayed_by(100).send().await;
        d.advance(100).await;
        let mut promoted = 0;
        for _ in 0..3 {
            let TickReply::Ticked { promoted: more, .. } =
                d.call(Tick::once(1)).await;
            promoted += more;
        }
        assert_eq!(promoted, 1, "each call goes on behind what the one before left alone");
        let words: [&[u8]; 2] = [b"DEL", due.as_bytes()];
        d.host().exec(d.home(), &words).await.expect("every store has the command");
    }

    async fn a_mark_that_is_left_again_keeps_its_time(d: &Deployment) {
        let server = d.new_uuid().to_string();
        let (start, largest) = (d.now(), "9007199254740991");
        let mark = async |text: &str| {
            let answer = d.raw("ff_mark_shard", &[server.as_bytes(), text.as_bytes()]).await;
            (answer.text(0), answer.text(1))
        };
        assert_eq!(mark("5").await.0, "0");
        for text in ["5", "4", "5", largest] {
            d.advance(10).await;
            assert_eq!(mark(text).await, ("5".to_owned(), start.to_string()), "{text}");
        }
        let at = d.now().to_string();
        d.advance(10).await;
        assert_eq!(mark("6").await, (largest.to_owned(), at));
    }

    async fn a_long_reason_is_told_up_to_its_last_whole_character(d: &Deployment) {
        let policy = r#"{"retry_policy":{"backoff":{"type":"fixed","delay_ms":9}}}"#;
        for (reason, told) in [
            ("x".repeat(200), 200),
            ("x".repeat(201), 200),
            (format!("{}é", "x".repeat(198)), 200),
            (format!("{}é", "x".repeat(199)), 199),
            (format!("{}🦀", "x".repeat(196)), 200),
            (format!("{}🦀", "x".repeat(197)), 197),
            (format!("{}🦀", "x".repeat(199)), 199),
            (format!("{}🦀", "x".repeat(200)), 200),
        ] {
            d.create().policy(policy).send().await;
            let held = d.claim(LANE).await;
            d.call(held.fail(&reason, "transient")).await;
            let detail = d.describe(held.id).await.blocking_detail.expect("it says why");
            let (_, excerpt) = detail.split_once("failed: ").expect("it says what failed");
            assert_eq!(excerpt, &reason[..told]);
        }
    }
}
