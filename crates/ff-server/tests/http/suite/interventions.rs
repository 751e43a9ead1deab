//! Interventions from outside, and what is told about an execution afterwards.

use serde_json::{Value, json};

use super::{claim, complete, path, state, submit, text, token};
use crate::client::Client;

pub(crate) fn an_execution_is_cancelled_and_replayed(client: &Client) {
    let id = submit(client, &json!({"kind": "job", "lane": "interventions"}));
    let body = json!({"reason": "a mistake"});
    let cancelled = client.post(&path(&id, "/cancel"), &body).expect(200).json();
    assert_eq!(cancelled, json!({"execution_id": id, "public_state": "cancelled"}));
    // Without a body, and again: harmless.
    client.send("POST", &path(&id, "/cancel"), &[], b"").expect(200);
    let problem = client.get(&path(&id, "/result")).problem(409, "execution_cancelled");
    assert_eq!(problem["detail"], "a mistake");
    let body = json!({"reason": "it was right", "requested_by": "ann"});
    let replayed = client.post(&path(&id, "/replay"), &body).expect(200).json();
    assert_eq!(replayed["public_state"], "waiting");
    client.post(&path(&id, "/replay"), &json!({})).problem(409, "execution_not_terminal");
    let task = claim(client, "interventions");
    complete(client, &task, b"done");
    client.post(&path(&id, "/cancel"), &json!({})).problem(409, "execution_not_active");
    assert_eq!(client.get(&path(&id, "/result")).expect(200).body, b"done");
}

pub(crate) fn a_revoked_lease_is_refused_by_its_code(client: &Client) {
    let id = submit(client, &json!({"kind": "job", "lane": "revoke"}));
    client.post(&path(&id, "/revoke-lease"), &json!({})).problem(409, "execution_not_active");
    let task = claim(client, "revoke");
    let wrong = json!({"expected_lease_id": "11111111-2222-4333-8444-555555555555"});
    client.post(&path(&id, "/revoke-lease"), &wrong).problem(409, "stale_lease");
    let right = json!({"expected_lease_id": task["fence"]["lease_id"], "reason": "stuck"});
    let revoked = client.post(&path(&id, "/revoke-lease"), &right).expect(200).json();
    assert_eq!(revoked["status"], "revoked");
    assert_eq!(revoked["lease_id"], task["fence"]["lease_id"]);
    let again = client.post(&path(&id, "/revoke-lease"), &json!({})).expect(200).json();
    assert_eq!(again["status"], "already_revoked");
    let late = client.post("/v1/tasks/renew", &json!({"task_token": token(&task)}));
    late.problem(409, "lease_revoked");
    let second = claim(client, "revoke");
    assert_eq!(second["handle_kind"], "reclaimed");
    assert_eq!(second["attempt_index"], 1);
    complete(client, &second, b"");
}

pub(crate) fn priority_and_tags_can_be_changed(client: &Client) {
    let low = submit(client, &json!({"kind": "job", "lane": "prio", "priority": 1}));
    let body = json!({"priority": 5});
    let changed = client.put(&path(&low, "/priority"), &body).expect(200).json();
    assert_eq!(changed, json!({"old_priority": 1, "new_priority": 5}));
    client.put(&path(&low, "/tags"), &json!({"tags": {"a.b": "c", "a.d": "e"}})).expect(204);
    client.put(&path(&low, "/tags"), &json!({"tags": {"a.b": "x"}})).expect(204);
    let found = client.get(&path(&low, "")).expect(200).json();
    assert_eq!(found["tags"], json!({"a.b": "x", "a.d": "e"}));
    assert_eq!(found["priority"], 5);
    let problem = client.put(&path(&low, "/tags"), &json!({"tags": {"Nope": "c"}}));
    assert_eq!(problem.problem(400, "invalid_tag_key")["field"], "tags");
}

pub(crate) fn attempts_and_history_tell_what_happened(client: &Client) {
    let policy = json!({
        "retry_policy": {"max_retries": 1, "backoff": {"type": "fixed", "delay_ms": 0}},
    });
    let id = submit(client, &json!({"kind": "job", "lane": "history", "policy": policy}));
    let first = claim(client, "history");
    let body = json!({"task_token": token(&first), "reason": "hiccup", "category": "timeout"});
    client.post("/v1/tasks/fail", &body).expect(200);
    complete(client, &claim(client, "history"), b"");
    let attempts = client.get(&path(&id, "/attempts")).expect(200).json();
    let attempts = attempts["attempts"].as_array().expect("a list");
    assert_eq!(attempts.len(), 2);
    assert_eq!(attempts[0]["state"], "ended_failure");
    assert_eq!(attempts[0]["failure_category"], "timeout");
    assert_eq!(attempts[1]["attempt_type"], "retry");
    assert_eq!(attempts[1]["state"], "ended_success");
    let history = client.get(&path(&id, "/history")).expect(200).json();
    assert_eq!(history["complete"], true);
    let events: Vec<&Value> = history["events"].as_array().expect("a list").iter().collect();
    assert_eq!(events.first().map(|event| text(&event["kind"])).as_deref(), Some("created"));
    assert_eq!(events.last().map(|event| text(&event["kind"])).as_deref(), Some("ended"));
    assert!(events.iter().all(|event| event["execution_id"] == json!(id)));
    assert_eq!(state(client, &id), "completed");
}
