//! The life of a task in the hands of a worker.

use serde_json::{Value, json};

use super::{claim, claim_some, complete, path, state, submit, text, token};
use crate::client::Client;

pub(crate) fn a_worker_registers_claims_renews_and_completes(client: &Client) {
    let registration = json!({
        "worker_id": "life", "worker_instance_id": "life/1", "lanes": ["life"],
        "capabilities": ["gpu"], "ttl_ms": 60_000,
    });
    let registered = client.post("/v1/workers", &registration).expect(201).json();
    let session = text(&registered["session"]);
    let beat = json!({"session": session, "ttl_ms": 120_000});
    let beaten = client.post("/v1/workers/life%2F1/heartbeat", &beat).expect(200).json();
    assert!(beaten["expires_at"].as_u64() > registered["expires_at"].as_u64());
    let workers = client.get("/v1/workers").expect(200).json();
    let known = workers["workers"].as_array().expect("a list").iter();
    assert_eq!(known.filter(|worker| worker["worker_instance_id"] == "life/1").count(), 1);
    client.post("/v1/workers", &registration).problem(409, "worker_instance_in_use");

    let id = submit(client, &json!({"kind": "job", "lane": "life", "payload_text": "in"}));
    let task = claim(client, "life");
    assert_eq!(task["execution_id"], json!(id));
    assert_eq!(task["payload_text"], "in");
    assert_eq!(task["attempt_index"], 0);
    assert_eq!(task["attempt_type"], "initial");
    assert_eq!(task["handle_kind"], "fresh");
    assert_eq!(task["fence"]["lease_epoch"], 1);
    let renewed = client.post("/v1/tasks/renew", &json!({"task_token": token(&task)}));
    let renewed = renewed.expect(200).json();
    assert!(renewed["expires_at"].as_u64() >= task["lease_expires_at"].as_u64());
    let progress = json!({"task_token": token(&task), "percent": 40, "message": "almost half"});
    client.post("/v1/tasks/progress", &progress).expect(204);
    let found = client.get(&path(&id, "")).expect(200).json();
    assert_eq!(found["progress"]["percent"], 40);
    assert_eq!(found["current_lease"]["worker_id"], "tester");
    complete(client, &task, b"out");
    // A repetition is answered as the first time.
    complete(client, &task, b"out");
    assert_eq!(state(client, &id), "completed");
    assert_eq!(client.get(&path(&id, "/result")).expect(200).body, b"out");

    let bye = json!({"session": session});
    let gone = client.post("/v1/workers/life%2F1/disconnect", &bye).expect(200).json();
    assert_eq!(gone["handed_back"], 0);
    client.post("/v1/workers/life%2F1/heartbeat", &beat).problem(404, "worker_not_found");
}

pub(crate) fn several_tasks_are_completed_in_one_request(client: &Client) {
    let ids: Vec<String> =
        (0..3).map(|_| submit(client, &json!({"kind": "job", "lane": "bulk-end"}))).collect();
    let tasks = claim_some(client, &["bulk-end"], 3, 10_000);
    assert_eq!(tasks.len(), 3);
    let mut ends: Vec<Value> =
        tasks.iter().map(|task| json!({"task_token": token(task), "result_text": "out"})).collect();
    client
        .post("/v1/tasks/fail", &json!({"task_token": token(&tasks[1]), "reason": "no"}))
        .expect(200);
    ends.push(ends[0].clone());
    let answer = client.post("/v1/tasks/complete/bulk", &json!({"tasks": ends})).expect(200).json();
    let results = answer["results"].as_array().expect("a list");
    let completed: Vec<bool> = results.iter().map(|it| it["completed"] == true).collect();
    assert_eq!(completed, [true, false, true, true]);
    assert_eq!(results[1]["problem"]["code"], "execution_not_active");
    let states: Vec<String> = ids.iter().map(|id| state(client, id)).collect();
    assert_eq!(states.iter().filter(|state| *state == "completed").count(), 2);
    let next = json!({"tasks": [{"task_token": token(&tasks[0]), "next": {}}]});
    client.post("/v1/tasks/complete/bulk", &next).problem(400, "invalid_input");
    client.post("/v1/tasks/complete/bulk", &json!({"tasks": []})).problem(400, "invalid_input");
}

fn fail(client: &Client, task: &Value, body: Value) -> Value {
    let mut body = body;
    body["task_token"] = json!(token(task));
    client.post("/v1/tasks/fail", &body).expect(200).json()
}

pub(crate) fn a_failure_is_retried_and_then_final(client: &Client) {
    let policy = json!({
        "retry_policy": {"max_retries": 1, "backoff": {"type": "fixed", "delay_ms": 1}},
    });
    let id = submit(client, &json!({"kind": "job", "lane": "fail", "policy": policy}));
    let answer = fail(client, &claim(client, "fail"), json!({"reason": "first"}));
    assert_eq!(answer["retry_scheduled"], true);
    assert!(answer["delay_until"].is_u64());
    let second = claim(client, "fail");
    assert_eq!((&second["attempt_index"], &second["attempt_type"]), (&json!(1), &json!("retry")));
    let last = json!({"reason": "second", "category": "vendor", "detail_base64": "AP8="});
    let answer = fail(client, &second, last);
    assert_eq!(answer, json!({"retry_scheduled": false}));
    assert_eq!(state(client, &id), "failed");
    let problem = client.get(&path(&id, "/result")).problem(409, "execution_failed");
    assert_eq!(problem["detail"], "second");
    assert_eq!(problem["failure"]["category"], "vendor");
    assert_eq!(problem["failure"]["detail_base64"], "AP8=");
    assert_eq!(problem["retryable"], false);
}

pub(crate) fn a_delayed_task_goes_on_with_the_same_attempt(client: &Client) {
    let id = submit(client, &json!({"kind": "job", "lane": "delay"}));
    let task = claim(client, "delay");
    let later = json!({"task_token": token(&task), "delay_ms": 50});
    client.post("/v1/tasks/delay", &later).expect(204);
    let resumed = claim(client, "delay");
    assert_eq!(resumed["execution_id"], json!(id));
    assert_eq!(resumed["attempt_index"], 0);
    assert_eq!(resumed["handle_kind"], "resumed");
    let until = json!({"task_token": token(&resumed), "delay_until": 4_102_444_800_000_u64});
    client.post("/v1/tasks/delay", &until).expect(204);
    assert_eq!(state(client, &id), "delayed");
    let neither = client.post("/v1/tasks/delay", &json!({"task_token": token(&resumed)}));
    assert_eq!(neither.problem(400, "invalid_input")["field"], "delay_until");
}

pub(crate) fn a_task_without_children_goes_on_at_once(client: &Client) {
    let id = submit(client, &json!({"kind": "job", "lane": "children"}));
    let task = claim(client, "children");
    let wait = json!({"task_token": token(&task)});
    client.post("/v1/tasks/wait-children", &wait).expect(204);
    // A repetition is answered as the first time.
    client.post("/v1/tasks/wait-children", &wait).expect(204);
    client.post("/v1/tasks/renew", &wait).problem(409, "execution_not_active");
    let resumed = claim(client, "children");
    assert_eq!(resumed["execution_id"], json!(id));
    assert_eq!(resumed["handle_kind"], "resumed");
    // So is one that comes when the next lease is held; what that lease protects is refused.
    client.post("/v1/tasks/wait-children", &wait).expect(204);
    client.post("/v1/tasks/renew", &wait).problem(409, "stale_lease");
    complete(client, &resumed, b"");
}

pub(crate) fn a_cancelled_task_ends_without_a_result(client: &Client) {
    let id = submit(client, &json!({"kind": "job", "lane": "task-cancel"}));
    let task = claim(client, "task-cancel");
    let cancel = json!({"task_token": token(&task), "reason": "not needed"});
    client.post("/v1/tasks/cancel", &cancel).expect(204);
    let problem = client.get(&path(&id, "/result")).problem(409, "execution_cancelled");
    assert_eq!(problem["detail"], "not needed");
    let found = client.get(&path(&id, "")).expect(200).json();
    assert_eq!(found["cancel"]["cancelled_by"], "lease_holder");
}

pub(crate) fn a_worker_that_leaves_hands_its_tasks_back(client: &Client) {
    let session = "11111111-2222-4333-8444-555555555555";
    let registration = json!({
        "worker_id": "leaver", "worker_instance_id": "leaver-1", "ttl_ms": 60_000,
        "session": session,
    });
    let id = submit(client, &json!({"kind": "job", "lane": "leave"}));
    let request = json!({
        "worker_id": "leaver", "worker_instance_id": "leaver-1", "lanes": ["leave"],
        "lease_ttl_ms": 60_000, "wait_ms": 5000,
    });
    let bare = &id[id.len() - 36..];
    for executions in [json!(null), json!([bare])] {
        client.post("/v1/workers", &registration).expect(201);
        let claimed = client.post("/v1/claims", &request).expect(200).json();
        assert_eq!(claimed["tasks"][0]["execution_id"], json!(id));
        let bye = json!({"session": session, "executions": executions});
        let gone = client.post("/v1/workers/leaver-1/disconnect", &bye).expect(200).json();
        assert_eq!(gone["handed_back"], 1);
    }
    let task = claim(client, "leave");
    assert_eq!(task["execution_id"], json!(id));
    assert_eq!(task["attempt_index"], 0);
    complete(client, &task, b"");
}

pub(crate) fn several_lanes_and_several_tasks_come_in_one_claim(client: &Client) {
    for lane in ["multi-a", "multi-b"] {
        for _ in 0..3 {
            submit(client, &json!({"kind": "job", "lane": lane}));
        }
    }
    let mut found = Vec::new();
    while found.len() < 6 {
        let tasks = claim_some(client, &["multi-a", "multi-b"], 6 - found.len() as u32, 5000);
        assert!(!tasks.is_empty(), "{} of 6", found.len());
        found.extend(tasks);
    }
    for lane in ["multi-a", "multi-b"] {
        assert_eq!(found.iter().filter(|task| task["lane"] == lane).count(), 3);
    }
    assert!(claim_some(client, &["multi-a"], 1, 0).is_empty(), "nothing is left");
    // Capabilities route: who cannot do it is not asked to.
    let needs = json!({"routing_requirements": {"required_capabilities": ["gpu"]}});
    submit(client, &json!({"kind": "job", "lane": "multi-c", "policy": needs}));
    assert!(claim_some(client, &["multi-c"], 1, 0).is_empty());
    let able = json!({
        "worker_id": "able", "worker_instance_id": "able-1", "lanes": ["multi-c"],
        "capabilities": ["gpu", "avx"], "lease_ttl_ms": 1000, "wait_ms": 5000,
        "payload_text": false,
    });
    let claimed = client.post("/v1/claims", &able).expect(200).json();
    assert_eq!(claimed["tasks"].as_array().map(Vec::len), Some(1));
    assert_eq!(claimed["tasks"][0]["payload_text"], json!(null));
}

pub(crate) fn a_claim_takes_only_the_kinds_it_names(client: &Client) {
    let mail = submit(client, &json!({"kind": "mail", "lane": "kinds"}));
    let crop = submit(client, &json!({"kind": "crop", "lane": "kinds"}));
    let claim = |kinds: Value| {
        let body = json!({
            "worker_id": "k", "worker_instance_id": "k-1", "lanes": ["kinds"], "kinds": kinds,
            "count": 2, "lease_ttl_ms": 60_000, "wait_ms": 1_000,
        });
        let found = client.post("/v1/claims", &body).expect(200).json();
        let tasks = found["tasks"].as_array().expect("a list").clone();
        tasks.iter().map(|task| text(&task["execution_id"])).collect::<Vec<_>>()
    };
    assert_eq!(claim(json!(["crop", "resize"])), [crop]);
    assert_eq!(claim(json!([])), [mail]);
}

pub(crate) fn a_claim_is_repeated_under_its_lease_ids(client: &Client) {
    const IDS: [&str; 2] =
        ["0b0bd06e-7b5c-4a9d-8f2c-0a6d6f1c0001", "0b0bd06e-7b5c-4a9d-8f2c-0a6d6f1c0002"];
    let request = |ids: &[&str], count: u32, retry: bool| {
        json!({
            "worker_id": "again", "worker_instance_id": "again-1", "lanes": ["again"],
            "count": count, "lease_ttl_ms": 30_000, "lease_ids": ids, "retry": retry,
            "wait_ms": if retry { 0 } else { 5_000 },
        })
    };
    let claim = |retry| {
        let answer = client.post("/v1/claims", &request(&IDS, 2, retry)).expect(200).json();
        answer["tasks"].as_array().expect("tasks").clone()
    };
    assert!(claim(true).is_empty(), "nothing was taken before, nothing is there");
    let id = submit(client, &json!({"kind": "job", "lane": "again", "payload_text": "x"}));
    let first = claim(false);
    assert_eq!(first.len(), 1);
    assert!(IDS.contains(&text(&first[0]["fence"]["lease_id"]).as_str()));
    submit(client, &json!({"kind": "job", "lane": "again"}));
    let again = claim(true);
    assert_eq!(again.len(), 1, "the one of before, no other");
    assert_eq!((&again[0]["execution_id"], &again[0]["fence"]), (&json!(id), &first[0]["fence"]));
    complete(client, &again[0], b"once");
    assert_eq!(state(client, &id), "completed");

    for (wrong, field) in [
        (request(&[], 1, true), "retry"),
        (request(&[IDS[0], IDS[0]], 2, false), "lease_ids"),
        (request(&IDS, 1, false), "lease_ids"),
        (request(&["x"], 1, false), "lease_ids[0]"),
    ] {
        let problem = client.post("/v1/claims", &wrong).problem(400, "invalid_input");
        assert_eq!(problem["field"], field, "{problem}");
    }
}
