//! Claims in two steps.

use serde_json::{Value, json};

use super::{complete, path, state, submit, text};
use crate::client::Client;

fn claim_granted(client: &Client, grant: &Value, worker: &str) -> crate::client::Answer {
    let request = json!({
        "execution_id": grant["execution_id"], "grant_key": grant["grant_key"],
        "worker_id": worker, "worker_instance_id": "g/1", "lease_ttl_ms": 30_000,
    });
    client.post("/v1/grants/claim", &request)
}

pub(crate) fn a_grant_of_the_next_execution_becomes_a_task(client: &Client) {
    let request = json!({
        "lane_id": "granted", "worker_instance_id": "g/1", "capabilities": [],
        "grant_ttl_ms": 60_000,
    });
    let nothing = client.post("/v1/workers/g%2Fpool/claim", &request).expect(204);
    assert!(nothing.body.is_empty());
    let id = submit(client, &json!({"kind": "job", "lane": "granted", "payload_text": "in"}));
    let grant = client.post("/v1/workers/g%2Fpool/claim", &request).expect(200).json();
    assert_eq!(grant["execution_id"], json!(id));
    let partition = id.split_once("}:").map(|(partition, _)| format!("{partition}}}"));
    assert_eq!(Some(text(&grant["partition_key"])), partition);
    assert!(grant["expires_at_ms"].is_u64() && grant["grant_key"].is_string());
    // Reserved: nobody else is offered it.
    client.post("/v1/workers/g%2Fpool/claim", &request).expect(204);
    claim_granted(client, &grant, "somebody").problem(409, "invalid_claim_grant");
    let task = claim_granted(client, &grant, "g/pool").expect(200).json();
    assert_eq!(task["payload_text"], "in");
    complete(client, &task, b"out");
    assert_eq!(state(client, &id), "completed");
    let long = json!({"lane_id": "granted", "worker_instance_id": "g/1", "grant_ttl_ms": 0});
    let problem = client.post("/v1/workers/g%2Fpool/claim", &long);
    assert_eq!(problem.problem(400, "invalid_input")["field"], "grant_ttl_ms");
}

pub(crate) fn one_execution_can_be_reserved_for_a_worker(client: &Client) {
    let id = submit(client, &json!({"kind": "job", "lane": "reserved"}));
    let request = json!({
        "worker_id": "g", "worker_instance_id": "g/1", "grant_ttl_ms": 60_000,
    });
    let grant = client.post(&path(&id, "/grant"), &request).expect(200).json();
    let again = client.post(&path(&id, "/grant"), &request).expect(200).json();
    assert_eq!(grant["grant_key"], again["grant_key"], "the same worker, the same grant");
    let mut other = request.clone();
    other["worker_id"] = json!("other");
    client.post(&path(&id, "/grant"), &other).problem(409, "grant_already_exists");
    let mut reclaim = request;
    reclaim["reclaim"] = json!(true);
    client.post(&path(&id, "/grant"), &reclaim).problem(409, "execution_not_reclaimable");
    let task = claim_granted(client, &grant, "g").expect(200).json();
    complete(client, &task, b"");
    let broken = json!({
        "execution_id": id, "grant_key": "nonsense", "worker_id": "g",
        "worker_instance_id": "g/1", "lease_ttl_ms": 1,
    });
    let problem = client.post("/v1/grants/claim", &broken);
    assert_eq!(problem.problem(400, "invalid_input")["field"], "grant_key");
}
