//! Quotas over HTTP.

use serde_json::{Value, json};

use super::{claim, claim_some, complete, submit, text};
use crate::client::Client;

const HITS: &str = "ff_quota_hit_total{reason=\"concurrency\"}";

pub(crate) fn a_quota_is_made_read_changed_listed_and_removed(client: &Client) {
    let id = "00000000-0000-4000-8000-0000000c0d01";
    let body = json!({"quota_policy_id": id, "max_concurrent": 2});
    let made = client.post("/v1/quotas", &body).expect(200).json();
    assert_eq!((&made["changed"], &made["max_concurrent"]), (&json!(true), &json!(2)));
    assert_eq!(client.post("/v1/quotas", &body).expect(200).json()["changed"], false);
    let other = json!({"quota_policy_id": id, "max_concurrent": 3});
    client.post("/v1/quotas", &other).problem(409, "quota_attach_conflict");
    let path = format!("/v1/quotas/{id}");
    let change = json!({"window_seconds": 60, "max_requests_per_window": 5});
    client.put(&path, &change).expect(200);
    let read = client.get(&path).expect(200).json();
    assert_eq!(read["max_requests_per_window"], 5);
    assert!(read["max_concurrent"].is_null(), "what is absent is not limited: {read}");
    let listed = client.get("/v1/quotas").expect(200).json();
    let listed = listed["quotas"].as_array().expect("a list");
    assert!(listed.iter().any(|quota| quota["quota_policy_id"] == id), "{listed:?}");
    client.put(&path, &json!({})).problem(400, "invalid_quota_spec");
    let gone = client.post(&format!("{path}/delete"), &Value::Null).expect(200).json();
    assert_eq!(gone["deleted"], true);
    client.get(&path).problem(404, "quota_policy_not_found");
}

pub(crate) fn one_at_a_time_is_handed_out_and_the_next_when_it_ends(client: &Client) {
    let made = client.post("/v1/quotas", &json!({"max_concurrent": 1})).expect(200).json();
    let quota = text(&made["quota_policy_id"]);
    let policy = json!({"quota": {"policy_id": quota, "key": "one"}});
    let ids: Vec<String> = (0..2)
        .map(|_| submit(client, &json!({"kind": "job", "lane": "quota", "policy": policy})))
        .collect();
    let first = claim(client, "quota");
    assert!(claim_some(client, &["quota"], 1, 0).is_empty(), "one is running");
    let metrics = String::from_utf8(client.get("/metrics").expect(200).body).expect("text");
    let hits = metrics.lines().find_map(|it| it.strip_prefix(HITS)).expect("it is counted");
    assert!(hits.trim().parse::<u64>().expect("a count") > 0, "{hits}");
    let holders = client.get(&format!("/v1/quotas/{quota}/holders?key=one")).expect(200).json();
    let holders = holders["holders"].as_array().expect("a list");
    assert_eq!(holders.len(), 1);
    assert_eq!(holders[0]["execution_id"], first["execution_id"]);
    complete(client, &first, b"");
    let second = claim(client, "quota");
    assert_ne!(second["execution_id"], first["execution_id"]);
    assert!(ids.iter().any(|id| second["execution_id"] == json!(id)));
    complete(client, &second, b"");
}

pub(crate) fn a_wrong_quota_is_refused_with_the_reason(client: &Client) {
    let id = "00000000-0000-4000-8000-0000000c0dff";
    for (limits, code) in [
        (json!({}), "invalid_quota_spec"),
        (json!({"max_concurrent": 0}), "invalid_input"),
        (json!({"max_concurrent": -1}), "invalid_input"),
        (json!({"max_concurrent": 1.5}), "invalid_input"),
        (json!({"max_concurrent": 1_000_001}), "invalid_input"),
        (json!({"window_seconds": 0, "max_requests_per_window": 1}), "invalid_input"),
        (json!({"window_seconds": 1.5, "max_requests_per_window": 1}), "invalid_input"),
        (json!({"window_seconds": 60, "max_requests_per_window": 0}), "invalid_input"),
        (json!({"window_seconds": 60}), "invalid_quota_spec"),
        (json!({"max_requests_per_window": 1}), "invalid_quota_spec"),
    ] {
        let mut body = limits.clone();
        body["quota_policy_id"] = json!(id);
        client.post("/v1/quotas", &body).problem(400, code);
    }
    let path = format!("/v1/quotas/{id}");
    client.get(&path).problem(404, "quota_policy_not_found");
    client.put(&path, &json!({"max_concurrent": 1})).problem(404, "quota_policy_not_found");
    let policy = json!({"quota": {"policy_id": id, "key": "k"}});
    let submission = json!({"kind": "job", "lane": "quota-unknown", "policy": policy});
    client.post("/v1/executions", &submission).problem(404, "quota_policy_not_found");
    assert!(claim_some(client, &["quota-unknown"], 1, 0).is_empty(), "nothing was created");
}
