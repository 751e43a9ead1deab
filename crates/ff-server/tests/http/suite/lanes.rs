//! Lanes and kinds: settings that every partition knows.

use serde_json::{Value, json};

use super::{claim, claim_some, complete, path, submit};
use crate::client::Client;

pub(crate) fn a_paused_lane_hands_nothing_out_until_it_is_resumed(client: &Client) {
    let paused = client.post("/v1/lanes/halted/pause", &Value::Null).expect(200).json();
    assert!(paused["settings"]["paused_at"].is_u64() && paused.get("failed").is_none(), "{paused}");
    let ids: Vec<String> =
        (0..8).map(|_| submit(client, &json!({"kind": "job", "lane": "halted"}))).collect();
    assert_eq!(claim_some(client, &["halted"], 8, 0).len(), 0);
    let shown = client.get(&path(&ids[0], "")).expect(200).json();
    assert_eq!(shown["state"]["blocking_reason"], "paused_by_policy");
    assert_eq!(shown["state"]["eligibility_state"], "blocked_by_lane_state");
    let lane = client.get("/v1/lanes/halted").expect(200).json();
    assert_eq!(lane["waiting"], 8);
    assert!(lane["settings"]["paused_at"].is_u64(), "{lane}");
    client.post("/v1/lanes/halted/resume", &Value::Null).expect(200);
    for _ in 0..8 {
        complete(client, &claim(client, "halted"), b"");
    }
    let lane = client.get("/v1/lanes/halted").expect(200).json();
    assert_eq!(lane, json!({"lane": "halted", "waiting": 0}));
}

pub(crate) fn a_lane_is_limited_shared_and_listed_with_its_settings(client: &Client) {
    let set = json!({"waiting_max": 1, "order": "fair", "fair_by": "team.name",
        "weights": {"gold": 3}});
    let changed = client.put("/v1/lanes/narrow", &set).expect(200).json();
    assert_eq!(changed["settings"]["partition_max"], 1);
    assert_eq!(changed["settings"]["weights"], json!({"gold": 3}));
    let first = submit(client, &json!({"kind": "job", "lane": "narrow"}));
    let (partition, _) = first
        .split_once(':')
        .map(|(_, rest)| rest)
        .and_then(|rest| rest.split_once('}'))
        .expect("an id");
    let same = format!("{{fp:{partition}}}:00000000-0000-4000-8000-00000000f111");
    let refused = json!({"kind": "job", "lane": "narrow", "execution_id": same});
    let refused = client.post("/v1/executions", &refused).expect(429).json();
    assert_eq!(refused["code"], "lane_full");
    let lanes = client.get("/v1/lanes?limit=1000").expect(200).json();
    let lanes = lanes["lanes"].as_array().expect("a list");
    let lane = lanes.iter().find(|lane| lane["lane"] == "narrow").expect("the lane");
    assert_eq!(lane["settings"]["order"], "fair");
    client.put("/v1/lanes/narrow", &json!({"fair_by": "tenant"})).expect(400);
    client.put("/v1/lanes/narrow", &json!({"weights": {"gold": 0}})).expect(400);
    client.put("/v1/lanes/narrow", &json!({"paused": "yes"})).expect(400);
    client.put("/v1/lanes/a%7Bb", &json!({"paused": true})).expect(400);
    let plain = json!({"waiting_max": 0, "order": "in_order"});
    let changed = client.put("/v1/lanes/narrow", &plain).expect(200).json();
    assert_eq!(changed["settings"], json!({"order": "in_order"}));
}

pub(crate) fn a_full_partition_does_not_refuse_what_may_lie_in_another(client: &Client) {
    client.put("/v1/lanes/thin", &json!({"waiting_max": 256})).expect(200);
    let body = json!({"kind": "job", "lane": "thin"});
    let made = (0..16).filter(|_| client.post("/v1/executions", &body).status == 201).count();
    // Neighbours lie in four partitions, or in eight where one run ends, with room for one each.
    assert!(made >= 10, "{made} of 16");
    client.put("/v1/lanes/thin", &json!({"waiting_max": 0})).expect(200);
}

pub(crate) fn what_a_submission_leaves_unsaid_is_taken_from_its_kind(client: &Client) {
    let told = |retries: u64, ago: u64| {
        let kinds = json!({"sum": {"retry_policy": {"max_retries": retries}}});
        let body = json!({"worker_instance_id": "w-1", "started_ms_ago": ago, "kinds": kinds});
        client.post("/v1/kinds", &body).expect(200).json()["kinds"]["sum"].clone()
    };
    assert_eq!(told(5, 1000), "registered");
    assert_eq!(told(5, 1), "equal");
    assert_eq!(told(6, 100_000), "newer");
    let retried = |lane: &str| {
        let id = submit(client, &json!({"kind": "sum", "lane": lane}));
        let task = claim(client, lane);
        let fail = json!({"task_token": task["task_token"], "reason": "no", "category": "x"});
        client.post("/v1/tasks/fail", &fail).expect(200);
        client.get(&path(&id, "/state")).expect(200).json()["public_state"].clone()
    };
    assert_eq!(retried("unsaid-1"), "delayed");
    let pinned = client.put("/v1/kinds/sum", &json!({"policy": {}, "pinned": true})).expect(200);
    assert_eq!(pinned.json()["pinned"], true);
    assert_eq!(told(7, 0), "pinned");
    assert_eq!(retried("unsaid-2"), "failed");
    // Other scenarios share the server: what they are given must be what they had anyway.
    client.put("/v1/defaults", &json!({"policy": {"max_replay_count": 10}})).expect(200);
    let list = client.get("/v1/kinds").expect(200).json();
    assert_eq!(list["defaults"], json!({"max_replay_count": 10}));
    client.put("/v1/defaults", &json!({"policy": {}})).expect(200);
    client.put("/v1/kinds/sum", &json!({"policy": {}, "pinned": false})).expect(200);
    let kind = client.get("/v1/kinds/sum").expect(200).json();
    assert_eq!(kind, json!({"kind": "sum", "policy": {}, "pinned": false}));
    client.put("/v1/kinds/sum", &json!({"policy": {"retries": 1}})).expect(400);
}
