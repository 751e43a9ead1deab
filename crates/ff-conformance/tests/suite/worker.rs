//! The registry of workers, the leases a leaving one hands back, and what waits for them.

use ff_conformance::record::{events_of, hash, listed_in, member_score};
use ff_conformance::{
    Answer, Deployment, INSTANCE, LANE, LEASE_MS, WORKER, capabilities, conformance, instance,
    lane, worker,
};
use ff_core::error::Code;
use ff_core::limits;
use ff_core::state::{AttemptState, PublicState};
use ff_core::types::{ExecutionId, WorkerSession};
use ff_script::calls::claim::AttemptKind;
use ff_script::calls::worker::{
    HandBackLeases, HandBackLeasesReply, HeartbeatWorker, HeartbeatWorkerReply, LaneDepths,
    LaneDepthsReply, ListWorkers, ListWorkersReply, RegisterWorker, RegisterWorkerReply,
    ReleaseWorkerLeases, ReleaseWorkerLeasesReply, UnregisterWorker, UnregisterWorkerReply,
};
use ff_script::value::Value;
use ff_script::wire::{Joined, Rest};

const TTL_MS: u64 = 15_000;

fn register(session: WorkerSession) -> RegisterWorker {
    RegisterWorker {
        worker_id: worker(WORKER),
        worker_instance_id: instance(INSTANCE),
        session,
        capabilities: capabilities(&["gpu", "cuda"]),
        ttl_ms: TTL_MS,
        kinds: Joined(vec!["k1".parse().expect("a name"), "k2".parse().expect("a name")]),
        running: Some(1),
        capacity: Some(3),
        process: "boot:1:7:1".to_owned(),
        replaces: String::new(),
        namespaces: Joined(Vec::new()),
        lanes: Rest(vec![lane("a"), lane("b")]),
    }
}

fn unregister(session: WorkerSession) -> UnregisterWorker {
    UnregisterWorker { worker_instance_id: instance(INSTANCE), session }
}

fn heartbeat(session: WorkerSession) -> HeartbeatWorker {
    HeartbeatWorker {
        worker_instance_id: instance(INSTANCE),
        session,
        ttl_ms: TTL_MS,
        running: None,
    }
}

fn new_session(d: &Deployment) -> WorkerSession {
    WorkerSession::from_uuid(d.new_uuid())
}

/// The listed workers, each as its values in order.
async fn workers(d: &Deployment) -> Vec<Vec<String>> {
    let ListWorkersReply::Workers { workers } = d.call(ListWorkers {}).await;
    workers.0.into_iter().map(texts).collect()
}

fn texts(row: Value) -> Vec<String> {
    let Value::Array(values) = row else { panic!("a row is a list, not {row:?}") };
    let answer = Answer { done: true, word: String::new(), values };
    (0..answer.values.len()).map(|position| answer.text(position)).collect()
}

async fn release(d: &Deployment, name: &str) -> u32 {
    let call = ReleaseWorkerLeases { worker_instance_id: instance(name), skip: 0 };
    let ReleaseWorkerLeasesReply::Released { released, next_skip } = d.call(call).await;
    assert_eq!(next_skip, None, "there are few");
    released
}

conformance! {
    async fn a_registered_worker_is_listed_until_its_time_is_over(d: &Deployment) {
        let session = new_session(d);
        let (begin, expires_at) = (d.now(), d.now().plus_millis(TTL_MS));
        let reply = d.call(register(session)).await;
        assert_eq!(reply, RegisterWorkerReply::Registered { expires_at, replaced: false });
        let (begin, end) = (begin.to_string(), expires_at.to_string());
        let row = [INSTANCE, WORKER, &begin, &end, "cuda,gpu", "a\nb", "k1\nk2", "1", "3", &begin,
            "boot:1:7:1", ""];
        assert_eq!(workers(d).await, [row]);
        let due = member_score(&d.dump().await, d.home(), "due", "w:worker-1");
        assert_eq!(due, Some(expires_at.get() as f64));
        d.advance(TTL_MS).await;
        assert!(workers(d).await.is_empty());
        assert_eq!(d.tick().await.forgotten, 1);
        assert!(hash(&d.dump().await, format!("{}:workers", d.home().key()).as_bytes()).is_empty());
    }

    /// However much waits, with deadlines, delays or keys: only what runs is looked at.
    async fn a_leaving_worker_costs_what_runs_and_not_what_waits(d: &Deployment) {
        d.host().watch(false);
        let held = d.create_and_claim().await;
        for n in 0..=limits::RELEASE_SCAN_MAX {
            d.create().deadline_in(1000 + n).idempotency(&format!("key-{n}"), "x").send().await;
        }
        let call = ReleaseWorkerLeases { worker_instance_id: instance(INSTANCE), skip: 0 };
        let reply = d.call(call).await;
        assert_eq!(reply, ReleaseWorkerLeasesReply::Released { released: 1, next_skip: None });
        assert_eq!(d.describe(held.id).await.public_state(), PublicState::Waiting);
    }

    async fn a_registration_can_be_repeated_and_keeps_its_begin(d: &Deployment) {
        let session = new_session(d);
        let begin = d.now();
        d.call(register(session)).await;
        d.advance(100).await;
        d.call(register(session)).await;
        let rows = workers(d).await;
        assert_eq!((rows.len(), rows[0][2].clone()), (1, begin.to_string()));
        assert_eq!(rows[0][3], d.now().plus_millis(TTL_MS).to_string());
        d.call(unregister(session)).await;
    }

    async fn an_instance_belongs_to_one_session_at_a_time(d: &Deployment) {
        let (session, other) = (new_session(d), new_session(d));
        d.call(register(session)).await;
        assert_eq!(d.refused(register(other)).await, Code::WorkerInstanceInUse);
        assert_eq!(d.refused(heartbeat(other)).await, Code::WorkerInstanceInUse);
        assert_eq!(d.refused(unregister(other)).await, Code::WorkerInstanceInUse);
        d.advance(TTL_MS).await;
        d.call(register(other)).await;
        d.call(unregister(other)).await;
    }

    async fn a_worker_tells_the_namespaces_that_it_takes_from(d: &Deployment) {
        let session = new_session(d);
        let namespaces = Joined(vec!["a".parse().expect("a name"), "b".parse().expect("a name")]);
        for kinds in [Joined(Vec::new()), Joined(vec!["k".parse().expect("a name")])] {
            let kind = if kinds.0.is_empty() { "" } else { "k" };
            let namespaces = namespaces.clone();
            d.call(RegisterWorker { kinds, namespaces, ..register(session) }).await;
            let row = workers(d).await.remove(0);
            assert_eq!((row[6].as_str(), row[11].as_str()), (kind, "a\nb"));
        }
        d.call(heartbeat(session)).await;
        assert_eq!(workers(d).await[0][11], "a\nb");
        d.call(register(session)).await;
        assert_eq!(workers(d).await[0][11], "");
    }

    async fn a_worker_without_a_stated_capacity_is_never_full(d: &Deployment) {
        let session = new_session(d);
        d.call(RegisterWorker { capacity: None, ..register(session) }).await;
        let beat = HeartbeatWorker { running: Some(7), ..heartbeat(session) };
        let HeartbeatWorkerReply::Extended { at_capacity, .. } = d.call(beat).await;
        assert!(!at_capacity);
    }

    async fn a_heartbeat_extends_a_registration_and_makes_none(d: &Deployment) {
        let session = new_session(d);
        assert_eq!(d.refused(heartbeat(session)).await, Code::WorkerNotFound);
        d.call(register(session)).await;
        d.advance(TTL_MS - 1).await;
        let expires_at = d.now().plus_millis(TTL_MS);
        let extended = HeartbeatWorkerReply::Extended { expires_at, at_capacity: false };
        assert_eq!(d.call(heartbeat(session)).await, extended);
        let shorter = HeartbeatWorker { ttl_ms: 1, ..heartbeat(session) };
        assert_eq!(d.call(shorter).await, extended);
        d.advance(TTL_MS).await;
        assert_eq!(d.refused(heartbeat(session)).await, Code::WorkerNotFound);
        d.tick().await;
    }

    async fn an_unregistered_worker_is_gone_at_once(d: &Deployment) {
        let session = new_session(d);
        assert_eq!(d.call(unregister(session)).await, UnregisterWorkerReply::Unknown {});
        d.call(register(session)).await;
        assert_eq!(d.call(unregister(session)).await, UnregisterWorkerReply::Unregistered {});
        assert_eq!(d.call(unregister(session)).await, UnregisterWorkerReply::Unknown {});
        assert!(d.dump().await.is_empty());
    }

    async fn workers_are_listed_by_instance(d: &Deployment) {
        let session = new_session(d);
        for name in ["w-2", "w-1", "w-10"] {
            let call = RegisterWorker {
                worker_instance_id: instance(name),
                lanes: Rest(vec![]),
                ..register(session)
            };
            d.call(call).await;
        }
        let names: Vec<String> = workers(d).await.into_iter().map(|row| row[0].clone()).collect();
        assert_eq!(names, ["w-1", "w-10", "w-2"]);
        d.advance(TTL_MS).await;
        d.tick().await;
    }

    async fn malformed_capabilities_are_refused(d: &Deployment) {
        let session = d.new_uuid().to_string();
        let args: [&[u8]; 11] =
            [b"w", b"w-1", session.as_bytes(), b"a,,b", b"1000", b"", b"", b"", b"", b"", b""];
        let answer = d.raw("ff_register_worker", &args).await;
        assert_eq!((answer.code(), answer.text(0).as_str()),
            ("invalid_capabilities", "worker:empty_token"));
    }

    async fn a_process_that_was_seen_to_go_is_replaced_at_once(d: &Deployment) {
        let (session, other) = (new_session(d), new_session(d));
        d.call(register(session)).await;
        let (code, details) = d.refusal(register(other)).await;
        assert_eq!((code, details), (Code::WorkerInstanceInUse, vec!["boot:1:7:1".to_owned()]));
        let replacing = |former: &str| RegisterWorker {
            process: "boot:1:8:1".to_owned(),
            replaces: former.to_owned(),
            ..register(other)
        };
        assert_eq!(d.refused(replacing("boot:1:9:1")).await, Code::WorkerInstanceInUse);
        d.advance(10).await;
        let expires_at = d.now().plus_millis(TTL_MS);
        let replaced = RegisterWorkerReply::Registered { expires_at, replaced: true };
        assert_eq!(d.call(replacing("boot:1:7:1")).await, replaced);
        let (code, details) = d.refusal(heartbeat(session)).await;
        assert_eq!((code, details), (Code::WorkerInstanceInUse, vec!["boot:1:8:1".to_owned()]));
        assert_eq!(workers(d).await[0][2], d.now().to_string(), "it began now");
        // Whoever says nothing about itself is never seen to go.
        d.call(unregister(other)).await;
        d.call(RegisterWorker { process: String::new(), ..register(session) }).await;
        assert_eq!(d.refused(replacing("")).await, Code::WorkerInstanceInUse);
        d.call(unregister(session)).await;
    }

    async fn a_heartbeat_says_how_much_a_worker_runs(d: &Deployment) {
        let session = new_session(d);
        d.call(register(session)).await;
        d.advance(5).await;
        let runs = |running| HeartbeatWorker { running: Some(running), ..heartbeat(session) };
        for (running, full) in [(2, false), (3, true), (4, true)] {
            let HeartbeatWorkerReply::Extended { at_capacity, .. } = d.call(runs(running)).await;
            assert_eq!(at_capacity, full, "{running} of 3");
        }
        let row = workers(d).await.remove(0);
        assert_eq!(row[7..10], ["4".to_owned(), "3".to_owned(), d.now().to_string()]);
        let silent = RegisterWorker {
            kinds: Joined(Vec::new()),
            running: None,
            capacity: None,
            lanes: Rest(Vec::new()),
            ..register(session)
        };
        d.call(silent).await;
        let row = workers(d).await.remove(0);
        assert!(row[5..9].iter().all(String::is_empty), "{row:?}");
        assert_eq!(row[10], "boot:1:7:1");
        d.call(unregister(session)).await;
    }

    async fn a_leaving_worker_hands_back_what_it_names(d: &Deployment) {
        let first = d.create_and_claim().await;
        let second = d.create_and_claim().await;
        let other = d.create_one().await;
        let call = |name: &str, ids: &[ExecutionId]| HandBackLeases {
            worker_instance_id: instance(name),
            execution_ids: Rest(ids.to_vec()),
        };
        let handed_back = |released| HandBackLeasesReply::HandedBack { released };
        assert_eq!(d.call(call("worker-2", &[first.id])).await, handed_back(0));
        let named = [first.id, first.id, other, d.new_id()];
        assert_eq!(d.call(call(INSTANCE, &named)).await, handed_back(1));
        assert_eq!(d.call(call(INSTANCE, &named)).await, handed_back(0));
        assert_eq!(d.refused(first.complete(b"")).await, Code::ExecutionNotActive);
        d.call(second.complete(b"")).await;
        assert_eq!(d.claim(LANE).await.attempt_id, first.attempt_id);
    }

    async fn a_leaving_worker_hands_its_leases_back(d: &Deployment) {
        let first = d.create_and_claim().await;
        let second = d.create_and_claim().await;
        let mut other = d.claim_call(LANE, 1);
        other.worker_instance_id = instance("worker-2");
        d.create_one().await;
        let kept = d.claimed(other).await.remove(0);
        d.advance(10).await;
        assert_eq!(release(d, INSTANCE).await, 2);
        assert_eq!(release(d, INSTANCE).await, 0);
        for held in [&first, &second] {
            let described = d.describe(held.id).await;
            assert_eq!(described.state.attempt_state, AttemptState::AttemptInterrupted);
            assert_eq!(d.refused(held.complete(b"")).await, Code::ExecutionNotActive);
            let dump = d.dump().await;
            assert_eq!(listed_in(&dump, held.id), ["q:default:tests:work"]);
            assert_eq!(events_of(&dump, held.id).last().map(String::as_str),
                Some("released 0 worker_left"));
        }
        d.call(kept.complete(b"")).await;
        let resumed = d.claim(LANE).await;
        assert_eq!(resumed.row.attempt_kind, AttemptKind::Resumed);
        assert_eq!(resumed.attempt_id, first.attempt_id);
        assert_eq!(d.describe(first.id).await.reclaim_count, 0, "a leave costs no reclaim");
    }

    async fn a_pause_after_the_lease_was_handed_back_is_refused(d: &Deployment) {
        let held = d.create_and_claim().await;
        assert_eq!(release(d, INSTANCE).await, 1);
        let late = d.now().plus_millis(500);
        assert_eq!(d.refused(held.delay(late)).await, Code::ExecutionNotActive);
        assert_eq!(d.refused(held.wait_for_children()).await, Code::ExecutionNotActive);
        let resumed = d.claim(LANE).await;
        assert_eq!((resumed.id, resumed.attempt_id), (held.id, held.attempt_id));
        assert!(resumed.lease_epoch > held.lease_epoch);
        assert_eq!(d.refused(held.delay(late)).await, Code::StaleLease);
    }

    async fn a_lease_past_its_time_is_not_handed_back(d: &Deployment) {
        let held = d.create_and_claim().await;
        d.advance(LEASE_MS).await;
        assert_eq!(release(d, INSTANCE).await, 0);
        assert_eq!(d.tick().await.lapsed, 1);
        assert_eq!(release(d, INSTANCE).await, 0);
        assert_eq!(d.claim(LANE).await.id, held.id);
    }

    async fn depths_tell_the_longest_queues_and_no_more_than_an_answer_may_have(d: &Deployment) {
        let most = ff_core::limits::NEEDS_TOLD_MAX as usize;
        for number in 0..most + 3 {
            d.create().lane("a").kind(&format!("k{number}")).send().await;
        }
        d.create().lane("a").kind("k1").send().await;
        let lanes = Rest(vec![lane("a")]);
        let LaneDepthsReply::Depths { depths, needs } = d.call(LaneDepths { lanes }).await;
        assert_eq!(texts(depths.0.into_iter().next().expect("a lane"))[1], (most + 4).to_string());
        let queues: Vec<Vec<String>> = needs.0.into_iter().map(texts).collect();
        assert_eq!(queues.len(), most);
        assert!(queues[0][1].ends_with(":k1") && queues[0][2] == "2", "{:?}", queues[0]);
    }

    async fn depths_tell_how_much_waits_and_since_when(d: &Deployment) {
        let oldest = d.now();
        d.create().lane("a").send().await;
        d.advance(100).await;
        d.create().lane("a").send().await;
        d.create().lane("b").delayed_by(1000).send().await;
        let lanes = Rest(vec![lane("a"), lane("b"), lane("none")]);
        let LaneDepthsReply::Depths { depths, needs } = d.call(LaneDepths { lanes }).await;
        let queues: Vec<Vec<String>> = needs.0.into_iter().map(texts).collect();
        assert_eq!(queues.len(), 1, "queues in which something waits");
        let [of, _, waiting, since] = &queues[0][..] else { panic!("{queues:?}") };
        assert_eq!((&**of, &**waiting), ("a", "2"));
        assert_eq!(*since, oldest.to_string());
        let rows: Vec<Vec<String>> = depths.0.into_iter().map(texts).collect();
        assert_eq!(rows, [
            vec!["a".to_owned(), "2".to_owned(), oldest.to_string()],
            vec!["b".to_owned(), "0".to_owned(), String::new()],
            vec!["none".to_owned(), "0".to_owned(), String::new()],
        ]);
    }
}
