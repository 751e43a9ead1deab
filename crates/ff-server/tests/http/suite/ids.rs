//! Executions by their UUID alone.

use ff_core::partition::{Partition, PartitionConfig};
use ff_core::types::{ExecutionId, ExecutionRef};
use serde_json::{Value, json};

use super::{claim, complete, path, submit, text, token};
use crate::client::{Answer, Client};
use crate::server::PARTITIONS;

const PLACED: &str = "0193b1a0-7e2c-7b1d-9d3f-2a4c5e6f7081";
const FORM: &str = "{fp:N}:<uuid>";

fn config() -> PartitionConfig {
    PartitionConfig { num_flow_partitions: PARTITIONS, ..PartitionConfig::default() }
}

/// The UUID of an id, which says all that the id says.
#[track_caller]
fn bare(id: &str) -> String {
    let id = ExecutionId::parse(id).expect("a whole id");
    let shortest = ExecutionRef::shortest(id, &config());
    assert_eq!(shortest, ExecutionRef::Bare(id.uuid()), "{id} lives where it hashes to");
    shortest.to_string()
}

/// Sends every request that has an execution in its path, as the server's own document lists them.
fn on_every_route(client: &Client, id: &str) -> Vec<(String, Answer)> {
    let document: Value = serde_json::from_str(&ff_server::openapi_json()).expect("json");
    let mut answers = Vec::new();
    for (template, operations) in document["paths"].as_object().expect("paths") {
        let Some(rest) = template.strip_prefix("/v1/executions/{execution_id}") else { continue };
        // Its answer ends when the execution does.
        if rest == "/stream/tail" {
            continue;
        }
        let rest = &match rest {
            "/edges" => "/edges?direction=incoming".to_owned(),
            _ => rest.replace("{attempt_index}", "0"),
        };
        for method in operations.as_object().expect("operations").keys() {
            let body = match rest.as_str() {
                "/priority" => json!({"priority": 1}),
                "/tags" => json!({"tags": {"a.b": "c"}}),
                "/grant" => json!({
                    "worker_id": "w", "worker_instance_id": "w-1", "grant_ttl_ms": 60_000,
                }),
                "/signal" => json!({
                    "waitpoint_key": "k", "waitpoint_token": "k1:0", "signal_name": "go",
                }),
                _ => json!({}),
            };
            let body = if method == "get" { String::new() } else { body.to_string() };
            let headers = [("content-type", "application/json")];
            let (method, path) = (method.to_uppercase(), path(id, rest));
            let answer = client.send(&method, &path, &headers, body.as_bytes());
            answers.push((format!("{method} {path}"), answer));
        }
    }
    assert!(answers.len() >= 12, "{answers:?}");
    answers
}

pub(crate) fn a_bare_uuid_is_enough_on_every_route(client: &Client) {
    for key in [None, Some("bare-17")] {
        let body = json!({"kind": "job", "lane": "bare", "idempotency_key": key});
        let id = submit(client, &body);
        let uuid = bare(&id);
        for (what, answer) in on_every_route(client, &uuid) {
            assert_ne!(answer.status, 404, "{what}");
            assert_ne!(answer.status, 400, "{what}");
            // Whoever has no token of a waitpoint is not told which executions exist.
            assert_eq!(answer.status == 401, what.ends_with("/signal"), "{what}");
        }
        let found = client.get(&format!("/v1/executions/{uuid}")).expect(200).json();
        assert_eq!(found["execution_id"], json!(id), "answers have the whole id");
        assert_eq!(found["tags"]["a.b"], "c", "it was changed by its UUID");
    }
}

pub(crate) fn a_signal_and_a_follower_find_an_execution_by_its_uuid(client: &Client) {
    let id = submit(client, &json!({"kind": "job", "lane": "bare-waits"}));
    let (uuid, task) = (bare(&id), claim(client, "bare-waits"));
    let condition = json!({"type": "any", "signals": ["go"]});
    let body = json!({"task_token": token(&task), "suspension": {"condition": condition}});
    let suspended = client.post("/v1/tasks/suspend", &body).expect(200).json();
    let signal = json!({
        "waitpoint_id": suspended["waitpoint_id"], "signal_name": "go",
        "waitpoint_token": suspended["waitpoint_token"],
    });
    let taken = client.post(&path(&uuid, "/signal"), &signal).expect(200).json();
    assert_eq!(taken["status"], "triggered_resume", "{taken}");
    complete(client, &claim(client, "bare-waits"), b"");
    let followed = client.get(&path(&uuid, "/stream/tail")).expect(200);
    assert!(String::from_utf8_lossy(&followed.body).contains("event: end"), "{followed:?}");
    let placed = client.get(&path(PLACED, "/stream/tail")).problem(404, "execution_not_found");
    assert!(text(&placed["detail"]).contains(FORM), "{placed}");
}

pub(crate) fn several_submissions_may_name_their_executions_by_uuid(client: &Client) {
    let ids: Vec<_> =
        (0..3).map(|_| submit(client, &json!({"kind": "job", "lane": "bare-bulk"}))).collect();
    let again = ids.iter().map(|id| json!({"kind": "job", "execution_id": bare(id)}));
    let body = json!({"executions": again.collect::<Vec<_>>()});
    let created = client.post("/v1/executions/bulk", &body).expect(200).json();
    for (number, id) in ids.iter().enumerate() {
        let execution = &created["results"][number]["execution"];
        assert_eq!(execution["execution_id"], json!(id));
        assert_eq!(execution["created"], json!(false), "{execution}");
    }
}

pub(crate) fn a_body_may_name_an_execution_by_its_uuid(client: &Client) {
    let id = submit(client, &json!({"kind": "job", "lane": "bare-body"}));
    let uuid = bare(&id);
    let again = json!({"kind": "job", "lane": "bare-body", "execution_id": uuid});
    let again = client.post("/v1/executions", &again).expect(200).json();
    assert_eq!((&again["execution_id"], &again["created"]), (&json!(id), &json!(false)));
    let raw = [("flowfabric-kind", "job"), ("flowfabric-execution-id", uuid.as_str())];
    let again = client.send("POST", "/v1/executions", &raw, b"").expect(200).json();
    assert_eq!(again["execution_id"], json!(id));

    let wanted = json!({"worker_id": "w", "worker_instance_id": "w-1", "grant_ttl_ms": 60_000});
    let grant = client.post(&path(&uuid, "/grant"), &wanted).expect(200).json();
    assert_eq!(grant["execution_id"], json!(id));
    let exchange = json!({
        "execution_id": uuid, "grant_key": grant["grant_key"], "worker_id": "w",
        "worker_instance_id": "w-1", "lease_ttl_ms": 30_000,
    });
    let task = client.post("/v1/grants/claim", &exchange).expect(200).json();
    assert_eq!(task["execution_id"], json!(id));
    complete(client, &task, b"done");
    let result = client.get(&format!("/v1/executions/{uuid}/result")).expect(200);
    assert_eq!(result.body, b"done");
}

pub(crate) fn what_was_placed_elsewhere_needs_its_whole_id(client: &Client) {
    let uuid = PLACED.parse::<ExecutionRef>().expect("a UUID");
    let home = uuid.resolve(&config()).expect("any partition").partition().index;
    let elsewhere = Partition::flow((home + 1) % PARTITIONS);
    let id = format!("{elsewhere}:{PLACED}");
    let placed = json!({"kind": "job", "lane": "placed", "execution_id": id});
    assert_eq!(submit(client, &placed), id);
    for (what, answer) in on_every_route(client, PLACED) {
        // Without a token, nobody is told what exists.
        if what.ends_with("/signal") {
            answer.problem(401, "invalid_token");
            continue;
        }
        let problem = answer.problem(404, "execution_not_found");
        assert!(text(&problem["detail"]).contains(FORM), "{what}: {problem}");
    }
    let exchange = json!({
        "execution_id": PLACED, "worker_id": "w", "worker_instance_id": "w-1",
        "grant_key": format!("claim.{PLACED}"), "lease_ttl_ms": 30_000,
    });
    let problem = client.post("/v1/grants/claim", &exchange).problem(404, "execution_not_found");
    assert!(text(&problem["detail"]).contains(FORM), "{problem}");

    assert_eq!(client.get(&path(&id, "")).expect(200).json()["execution_id"], json!(id));
    let task = claim(client, "placed");
    assert_eq!(task["execution_id"], json!(id));
    complete(client, &task, b"");
    // Whoever gave the whole id needs no such advice.
    let missing = format!("{{fp:{home}}}:{PLACED}");
    let problem = client.get(&path(&missing, "")).problem(404, "execution_not_found");
    assert_eq!(problem["detail"], Value::Null);
}
