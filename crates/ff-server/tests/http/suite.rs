//! Scenarios that hold on every store. Each uses a lane of its own, so that they can share a
//! server.

pub(crate) mod approvals;
pub(crate) mod budgets;
pub(crate) mod children;
pub(crate) mod flow_events;
pub(crate) mod flows;
pub(crate) mod frames;
pub(crate) mod grant;
pub(crate) mod health;
pub(crate) mod ids;
pub(crate) mod interventions;
pub(crate) mod lanes;
pub(crate) mod list;
pub(crate) mod many;
pub(crate) mod quotas;
pub(crate) mod submit;
pub(crate) mod suspensions;
pub(crate) mod waits;
pub(crate) mod work;
pub(crate) mod wrong;

use serde_json::{Value, json};

use crate::client::{Client, encoded};

/// Submits an execution and answers its id.
#[track_caller]
pub(crate) fn submit(client: &Client, body: &Value) -> String {
    let created = client.post("/v1/executions", body).expect(201).json();
    text(&created["execution_id"])
}

/// Claims one task of a lane.
#[track_caller]
pub(crate) fn claim(client: &Client, lane: &str) -> Value {
    let tasks = claim_some(client, &[lane], 1, 10_000);
    assert_eq!(tasks.len(), 1, "a task in {lane}");
    tasks.into_iter().next().expect("one")
}

/// Claims tasks of lanes.
#[track_caller]
pub(crate) fn claim_some(client: &Client, lanes: &[&str], count: u32, wait_ms: u64) -> Vec<Value> {
    let request = json!({
        "worker_id": "tester", "worker_instance_id": "tester-1", "lanes": lanes, "count": count,
        "lease_ttl_ms": 30_000, "wait_ms": wait_ms,
    });
    let claimed = client.post("/v1/claims", &request).expect(200).json();
    claimed["tasks"].as_array().expect("tasks").clone()
}

/// The token of a task.
pub(crate) fn token(task: &Value) -> String {
    text(&task["task_token"])
}

/// The path of an execution and what is asked of it.
pub(crate) fn path(id: &str, rest: &str) -> String {
    format!("/v1/executions/{}{rest}", encoded(id))
}

/// The state of an execution.
#[track_caller]
pub(crate) fn state(client: &Client, id: &str) -> String {
    text(&client.get(&path(id, "/state")).expect(200).json()["public_state"])
}

/// Ends a task with a result.
#[track_caller]
pub(crate) fn complete(client: &Client, task: &Value, result: &[u8]) {
    let headers = [("flowfabric-task", token(task))];
    let headers = headers.each_ref().map(|(name, value)| (*name, value.as_str()));
    client.send("POST", "/v1/tasks/complete", &headers, result).expect(204);
}

/// A JSON string's text.
#[track_caller]
pub(crate) fn text(value: &Value) -> String {
    value.as_str().unwrap_or_else(|| panic!("a text, not {value}")).to_owned()
}
