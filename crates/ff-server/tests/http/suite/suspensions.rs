//! Waiting over HTTP: waitpoints, signals, an operator's word, and the keys of tokens.

use serde_json::{Value, json};

use super::{claim, complete, path, state, submit, text, token};
use crate::client::Client;
use crate::server::PARTITIONS;

/// Submits an execution and claims it.
#[track_caller]
fn started(client: &Client, lane: &str) -> (String, Value) {
    let id = submit(client, &json!({"kind": "job", "lane": lane}));
    (id, claim(client, lane))
}

#[track_caller]
fn suspend(client: &Client, task: &Value, suspension: &Value) -> Value {
    let body = json!({"task_token": token(task), "suspension": suspension});
    client.post("/v1/tasks/suspend", &body).expect(200).json()
}

fn go() -> Value {
    json!({"condition": {"type": "any", "signals": ["go"]}})
}

fn signal(waitpoint: &Value, waitpoint_token: &str, name: &str) -> Value {
    json!({"waitpoint_id": waitpoint, "waitpoint_token": waitpoint_token, "signal_name": name})
}

/// How often a refusal was counted.
fn counted(client: &Client, code: &str) -> u64 {
    let metrics = String::from_utf8(client.get("/metrics").expect(200).body).expect("text");
    let begin = format!("ff_problems_total{{code=\"{code}\"}} ");
    let count = metrics.lines().find_map(|line| line.strip_prefix(begin.as_str()));
    count.map_or(0, |count| count.parse().expect("a number"))
}

pub(crate) fn a_signal_ends_a_wait_and_its_worker_reads_it(client: &Client) {
    let (id, task) = started(client, "signals");
    let suspended = suspend(client, &task, &go());
    assert_eq!(
        (state(client, &id), &suspended["status"]),
        ("suspended".into(), &"suspended".into())
    );
    let waitpoint = &suspended["waitpoint_id"];
    let right = text(&suspended["waitpoint_token"]);
    let body = signal(waitpoint, &right, "go");
    let told = client.post(&path(&id, "/signal"), &body).expect(200).json();
    assert_eq!(told["status"], "triggered_resume");
    let resumed = claim(client, "signals");
    assert_eq!(resumed["handle_kind"], "resumed");
    let asked = json!({"task_token": token(&resumed)});
    let read = client.post("/v1/tasks/signals", &asked).expect(200).json();
    assert_eq!(read["signals"][0]["signal_name"], "go");
    assert_eq!(read["signals"].as_array().map(Vec::len), Some(1));
    complete(client, &resumed, b"");
    client.post(&path(&id, "/signal"), &body).problem(409, "waitpoint_closed");
}

pub(crate) fn a_wrong_token_is_refused_and_counted(client: &Client) {
    let (id, task) = started(client, "forged");
    let suspended = suspend(client, &task, &go());
    let right = text(&suspended["waitpoint_token"]);
    let last = if right.ends_with('0') { "1" } else { "0" };
    let forged = format!("{}{last}", &right[..right.len() - 1]);
    let before = counted(client, "invalid_token");
    let unknown = json!("550e8400-e29b-41d4-a716-446655440000");
    for body in [
        signal(&suspended["waitpoint_id"], &forged, "go"),
        signal(&unknown, &right, "go"),
        signal(&suspended["waitpoint_id"], "k1:", "go"),
    ] {
        let problem = client.post(&path(&id, "/signal"), &body).problem(401, "invalid_token");
        assert!(!problem.to_string().contains(&right[3..]), "{problem}");
    }
    assert_eq!(counted(client, "invalid_token"), before + 3);
    assert_eq!(state(client, &id), "suspended");
}

pub(crate) fn a_waitpoint_is_opened_listed_and_closed(client: &Client) {
    let (id, task) = started(client, "waitpoints");
    let waitpoint = json!({"waitpoint_key": "payment", "expires_in_ms": 60_000});
    let body = json!({"task_token": token(&task), "waitpoint": waitpoint});
    let opened = client.post("/v1/tasks/waitpoints", &body).expect(200).json();
    let listed = client.get(&path(&id, "/pending-waitpoints")).expect(200).json();
    let open = &listed["waitpoints"][0];
    assert_eq!(open["waitpoint_id"], opened["waitpoint_id"]);
    assert_eq!((&open["waitpoint_key"], &open["state"]), (&json!("payment"), &json!("pending")));
    assert_eq!(open["waitpoint_token"], opened["hmac_token"]);
    let early = json!({"waitpoint_key": "payment", "waitpoint_token": open["waitpoint_token"],
        "signal_name": "paid"});
    let told = client.post(&path(&id, "/signal"), &early).expect(200).json();
    assert_eq!(told["status"], "buffered");
    let close = json!({"task_token": token(&task), "waitpoint_id": opened["waitpoint_id"],
        "reason": "not needed"});
    client.post("/v1/tasks/waitpoints/close", &close).expect(204);
    client.post("/v1/tasks/waitpoints/close", &close).expect(204);
    let listed = client.get(&path(&id, "/pending-waitpoints")).expect(200).json();
    assert_eq!(listed["waitpoints"], json!([]));
    client.post(&path(&id, "/signal"), &early).problem(409, "waitpoint_closed");
    complete(client, &task, b"");
}

pub(crate) fn an_operator_ends_a_wait_once(client: &Client) {
    let (id, task) = started(client, "resume");
    suspend(client, &task, &go());
    let listed = client.get("/v1/suspended?limit=1000").expect(200).json();
    let entries = listed["entries"].as_array().expect("a list");
    assert!(entries.iter().any(|entry| entry["execution_id"] == json!(id)), "{listed}");
    let body = json!({"requested_by": "ann", "request_id": "550e8400-e29b-41d4-a716-446655440001"});
    for _ in 0..2 {
        let resumed = client.post(&path(&id, "/resume"), &body).expect(200).json();
        assert_eq!(resumed["execution_id"], json!(id));
    }
    client.post(&path(&id, "/resume"), &json!({})).problem(409, "execution_not_suspended");
    let resumed = claim(client, "resume");
    let asked = json!({"task_token": token(&resumed)});
    let read = client.post("/v1/tasks/signals", &asked).expect(200).json();
    assert_eq!(read, json!({"signals": []}));
    complete(client, &resumed, b"");
}

pub(crate) fn a_rotated_secret_signs_from_then_on(client: &Client) {
    let (id, task) = started(client, "rotation");
    let suspended = suspend(client, &task, &go());
    let old = text(&suspended["waitpoint_token"]);
    let rotate = json!({"new_kid": "2026-11", "new_secret_hex": "00ff".repeat(16),
        "grace_ms": 60_000});
    for _ in 0..2 {
        let answer = client.post("/v1/admin/rotate-waitpoint-secret", &rotate).expect(200).json();
        assert_eq!(answer, json!({"rotated": PARTITIONS, "failed": [], "new_kid": "2026-11"}));
    }
    let other = json!({"new_kid": "2026-11", "new_secret_hex": "ff00".repeat(16)});
    let refused = client.post("/v1/admin/rotate-waitpoint-secret", &other);
    assert!(!refused.problem(409, "rotation_conflict").to_string().contains("ff00"));
    let listed = client.get(&path(&id, "/pending-waitpoints")).expect(200).json();
    let new = text(&listed["waitpoints"][0]["waitpoint_token"]);
    assert!(new.starts_with("2026-11:") && new != old, "{old}");
    let other = signal(&suspended["waitpoint_id"], &new, "other");
    client.post(&path(&id, "/signal"), &other).expect(200);
    let body = signal(&suspended["waitpoint_id"], &old, "go");
    let told = client.post(&path(&id, "/signal"), &body).expect(200).json();
    assert_eq!(told["status"], "triggered_resume");
    complete(client, &claim(client, "rotation"), b"");
}
