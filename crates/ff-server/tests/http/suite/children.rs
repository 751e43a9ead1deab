//! Children: what a task adds to its flow, waits for and is told of.

use serde_json::{Value, json};

use super::{claim, claim_some, complete, state, submit, text, token};
use crate::client::Client;

fn child(name: &str, after: &[&str]) -> Value {
    let after: Vec<Value> = after.iter().map(|other| json!({"task": other})).collect();
    json!({"name": name, "execution": {"kind": "job"}, "after": after})
}

pub(crate) fn a_task_waits_for_the_children_that_it_added(client: &Client) {
    let id = submit(client, &json!({"kind": "split", "lane": "family"}));
    let parent = claim(client, "family");
    let tasks = json!([child("join", &["left", "right"]), child("left", &[]), child("right", &[])]);
    let request = json!({"task_token": token(&parent), "tasks": tasks});
    let added = client.post("/v1/tasks/children", &request).expect(200).json();
    let names = added["children"].as_array().expect("a list").iter();
    let names: Vec<(String, bool)> =
        names.map(|child| (text(&child["name"]), child["added"] == json!(true))).collect();
    let all = ["join", "left", "right"].map(|name| (name.to_owned(), true));
    assert_eq!(names, all, "in the order in which they were given");
    let again = client.post("/v1/tasks/children", &request).expect(200).json();
    assert!(again["children"].as_array().expect("a list").iter().all(|it| it["added"] == false));
    client.post("/v1/tasks/wait-children", &json!({"task_token": token(&parent)})).expect(204);
    assert_eq!(state(client, &id), "waiting_children");
    for task in claim_some(client, &["family"], 2, 10_000) {
        complete(client, &task, b"part");
    }
    let last = claim(client, "family");
    let failed = json!({"task_token": token(&last), "reason": "no", "category": "permanent"});
    client.post("/v1/tasks/fail", &failed).expect(200);
    let resumed = claim(client, "family");
    assert_eq!(resumed["execution_id"], json!(id));
    let told = resumed["children"].as_array().expect("a list");
    let of = |name: &str| told.iter().find(|child| child["name"] == name).expect("a child");
    assert_eq!(of("left")["public_state"], "completed");
    assert_eq!(of("left")["bytes_base64"], "cGFydA==");
    assert_eq!(of("join")["public_state"], "failed");
    assert_eq!(of("join").get("bytes_base64"), None);
    complete(client, &resumed, b"");
    let flow = client.get(&format!("/v1/flows/{}", text(&added["flow_id"]))).expect(200).json();
    assert_eq!(flow["public_flow_state"], "failed", "a child's failure is the flow's");
    assert_eq!((&flow["flow_kind"], &flow["node_count"]), (&json!("split"), &json!(4)));
}

pub(crate) fn children_that_cannot_be_are_refused_with_their_place(client: &Client) {
    submit(client, &json!({"kind": "split", "lane": "wrong-family"}));
    let parent = claim(client, "wrong-family");
    let post = |tasks: Value| {
        let request = json!({"task_token": token(&parent), "tasks": tasks});
        client.post("/v1/tasks/children", &request)
    };
    post(json!([])).problem(400, "invalid_input");
    let twice = post(json!([child("a", &[]), child("a", &[])])).problem(400, "invalid_input");
    assert!(twice.to_string().contains("tasks.a"), "{twice}");
    post(json!([child("a", &["b"]), child("b", &["a"])])).problem(409, "cycle_detected");
    let own = text(&parent["execution_id"]);
    post(json!([child("a", &[own.as_str()])])).problem(409, "cycle_detected");
    post(json!([child("a", &["nobody"])])).problem(409, "execution_not_in_flow");
    let mut other = child("a", &[]);
    other["execution"]["namespace"] = json!("other");
    let refused = post(json!([other])).problem(400, "invalid_input");
    assert!(refused.to_string().contains("tasks.a.execution.namespace"), "{refused}");
    post(json!([child("a", &[])])).expect(200);
    let mut changed = child("a", &[]);
    changed["execution"]["payload_text"] = json!("another");
    post(json!([changed])).problem(409, "idempotency_conflict");
    complete(client, &parent, b"");
    post(json!([child("b", &[])])).problem(409, "execution_not_active");
    complete(client, &claim(client, "wrong-family"), b"");
}
