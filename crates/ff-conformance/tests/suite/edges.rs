//! Just at the edge: the last value that is taken, the first that is not, and orders that only many
//! show.

use ff_conformance::{
    Deployment, GRANT_MS, LANE, WORKER, capabilities, conformance, instance, lane, worker,
};
use ff_core::state::AttemptLifecycle;
use ff_core::types::{GrantId, WorkerSession};
use ff_script::calls::grant::{GrantNext, GrantNextReply};
use ff_script::calls::worker::{ListWorkers, ListWorkersReply, RegisterWorker};
use ff_script::value::Value;
use ff_script::wire::Rest;

use super::replay::replay;

fn next_grant(d: &Deployment, process: &str) -> GrantNext {
    GrantNext {
        lane: lane(LANE),
        worker_id: worker(WORKER),
        worker_instance_id: instance(process),
        capabilities: capabilities(&[]),
        grant_ttl_ms: GRANT_MS,
        retry: false,
        grant_id: GrantId::from_uuid(d.new_uuid()),
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
        assert_eq!(d.call(never_arrived.clone()).await, GrantNextReply::Nothing {});
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
