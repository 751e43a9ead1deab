//! Submitting executions.

use serde_json::json;

use super::{claim, complete, path, state, submit, text};
use crate::client::Client;

pub(crate) fn a_submission_is_created_once_and_found_again(client: &Client) {
    let body = json!({
        "kind": "email", "lane": "submit-once", "namespace": "shop", "priority": 7,
        "creator": "ann", "tags": {"team.owner": "ann"}, "payload": {"to": "bob"},
        "policy": {"retry_policy": {"max_retries": 2}},
    });
    let id = submit(client, &body);
    let mut again = body.clone();
    again["execution_id"] = json!(id);
    let answer = client.post("/v1/executions", &again).expect(200).json();
    assert_eq!(answer["created"], false);
    assert_eq!(answer["execution_id"], json!(id));
    let found = client.get(&path(&id, "")).expect(200).json();
    for (field, expected) in [
        ("kind", json!("email")),
        ("lane", json!("submit-once")),
        ("namespace", json!("shop")),
        ("priority", json!(7)),
        ("creator", json!("ann")),
        ("public_state", json!("waiting")),
        ("tags", json!({"team.owner": "ann"})),
    ] {
        assert_eq!(found[field], expected, "{field}");
    }
    assert_eq!(found["policy"]["retry_policy"]["max_retries"], 2);
    assert_eq!(found["state"]["lifecycle_phase"], "runnable");
    // Braces and colon may also stand in the path as they are.
    client.get(&format!("/v1/executions/{id}")).expect(200);
    assert_eq!(client.get(&path(&id, "/payload")).expect(200).body, br#"{"to":"bob"}"#);
    client.get(&path(&id, "/result")).problem(409, "execution_not_ended");
}

pub(crate) fn an_idempotency_key_is_the_same_execution(client: &Client) {
    let body = json!({"kind": "order", "lane": "submit-key", "payload_text": "17"});
    let with_key = |key: &str, body: &serde_json::Value| {
        let headers = [("content-type", "application/json"), ("idempotency-key", key)];
        client.send("POST", "/v1/executions", &headers, body.to_string().as_bytes())
    };
    let first = with_key("order-17", &body).expect(201).json();
    let again = with_key("order-17", &body).expect(200).json();
    assert_eq!(first["execution_id"], again["execution_id"]);
    let mut in_body = body.clone();
    in_body["idempotency_key"] = json!("order-17");
    let third = client.post("/v1/executions", &in_body).expect(200).json();
    assert_eq!(first["execution_id"], third["execution_id"]);
    let other = json!({"kind": "order", "lane": "submit-key", "payload_text": "18"});
    let problem = with_key("order-17", &other).problem(409, "idempotency_conflict");
    assert_eq!(problem["details"][0], first["execution_id"]);
    let problem = with_key("another", &in_body).problem(400, "invalid_input");
    assert_eq!(problem["field"], "idempotency_key");
    // In another namespace the key is another key.
    let mut elsewhere = in_body;
    elsewhere["namespace"] = json!("elsewhere");
    client.post("/v1/executions", &elsewhere).expect(201);
}

pub(crate) fn a_bulk_answers_every_item_on_its_own(client: &Client) {
    let good = |n: u32| json!({"kind": "bulk", "lane": "submit-bulk", "payload": n});
    let mut items: Vec<_> = (0..50).map(good).collect();
    items[7] = json!({"kind": "bulk", "lane": "submit-bulk", "priority": 9001});
    items[9] = json!({"kind": "bulk", "payload_text": "a", "payload_base64": ""});
    let answer = client.post("/v1/executions/bulk", &json!({"executions": items})).expect(200);
    let results = answer.json()["results"].as_array().expect("results").clone();
    assert_eq!(results.len(), 50);
    for (position, result) in results.iter().enumerate() {
        if position == 7 || position == 9 {
            assert_eq!(result["problem"]["status"], 400, "{position}: {result}");
            assert_eq!(result["execution"], json!(null));
        } else {
            assert_eq!(result["execution"]["created"], true, "{position}: {result}");
            let id = text(&result["execution"]["execution_id"]);
            let payload = client.get(&path(&id, "/payload")).expect(200).body;
            assert_eq!(payload, position.to_string().into_bytes());
        }
    }
    let problem = client.post("/v1/executions/bulk", &json!({"executions": []}));
    problem.problem(400, "invalid_input");
    let many: Vec<_> = (0..1001).map(good).collect();
    let problem = client.post("/v1/executions/bulk", &json!({"executions": many}));
    assert!(problem.problem(400, "invalid_input")["detail"].to_string().contains("1000"));
}

/// Payload and result travel raw, and through a task in base64.
#[track_caller]
fn round_trip(client: &Client, lane: &str, bytes: &[u8]) {
    let headers = [
        ("content-type", "application/octet-stream"),
        ("flowfabric-kind", "bytes"),
        ("flowfabric-lane", lane),
    ];
    let created = client.send("POST", "/v1/executions", &headers, bytes).expect(201).json();
    let id = text(&created["execution_id"]);
    let payload = client.get(&path(&id, "/payload")).expect(200);
    assert_eq!(payload.header("content-type"), Some("application/octet-stream"));
    assert!(payload.body == bytes, "the payload of {} bytes", bytes.len());
    let task = claim(client, lane);
    let base64: ff_core::bytes::Base64 =
        serde_json::from_value(task["payload_base64"].clone()).expect("base64");
    assert!(base64.0 == bytes, "the payload of {} bytes in a task", bytes.len());
    assert_eq!(task["payload_text"].is_string(), std::str::from_utf8(bytes).is_ok());
    complete(client, &task, bytes);
    let result = client.get(&path(&id, "/result")).expect(200);
    assert!(result.body == bytes, "the result of {} bytes", bytes.len());
}

pub(crate) fn bytes_come_back_as_they_were(client: &Client) {
    let every: Vec<u8> = (0..=255).collect();
    round_trip(client, "submit-bytes", &every);
    round_trip(client, "submit-bytes", b"");
    round_trip(client, "submit-bytes", "äöü \u{1f600}\0\r\n".as_bytes());
}

pub(crate) fn four_mebibytes_come_back_as_they_were(client: &Client) {
    let large: Vec<u8> =
        (0..4 * 1024 * 1024_u32).map(|n| (n.wrapping_mul(31) >> 3) as u8).collect();
    round_trip(client, "submit-large", &large);
}

pub(crate) fn a_payload_may_be_given_in_three_forms(client: &Client) {
    for (body, bytes) in [
        (json!({"kind": "k", "payload": [1, {"a": null}]}), r#"[1,{"a":null}]"#.as_bytes()),
        (json!({"kind": "k", "payload": null}), b"null"),
        (json!({"kind": "k", "payload_text": "é"}), "é".as_bytes()),
        (json!({"kind": "k", "payload_base64": "AP8="}), &[0, 255]),
        (json!({"kind": "k"}), b""),
    ] {
        let id = submit(client, &body);
        assert_eq!(client.get(&path(&id, "/payload")).expect(200).body, bytes, "{body}");
    }
    // Raw bytes with everything in headers.
    let headers = [
        ("flowfabric-kind", "raw kind"),
        ("flowfabric-lane", "submit-raw"),
        ("flowfabric-namespace", "raw"),
        ("flowfabric-priority", "9"),
        ("flowfabric-policy", r#"{"retention_ms":600000}"#),
        ("flowfabric-tags", r#"{"a.b":"c"}"#),
        ("flowfabric-deadline-at", "4102444800000"),
        ("flowfabric-creator", "curl"),
    ];
    let created = client.send("POST", "/v1/executions", &headers, b"\xff").expect(201).json();
    let found = client.get(&path(&text(&created["execution_id"]), "")).expect(200).json();
    assert_eq!(found["kind"], "raw kind");
    assert_eq!(found["namespace"], "raw");
    assert_eq!(found["priority"], 9);
    assert_eq!(found["policy"]["retention_ms"], 600_000);
    assert_eq!(found["tags"]["a.b"], "c");
    assert_eq!(found["deadline_at"], 4_102_444_800_000_u64);
    assert_eq!(found["creator"], "curl");
}

pub(crate) fn a_relative_delay_counts_by_the_stores_clock(client: &Client) {
    let body = json!({"kind": "k", "lane": "submit-delay", "delay_ms": 3_600_000});
    let created = client.post("/v1/executions", &body).expect(201).json();
    assert_eq!(created["public_state"], "delayed");
    let id = text(&created["execution_id"]);
    assert_eq!(state(client, &id), "delayed");
    let found = client.get(&path(&id, "")).expect(200).json();
    let time = |field: &str| found[field].as_u64().expect("a time");
    let delay = time("delay_until") - time("created_at");
    assert!((3_590_000..=3_600_000).contains(&delay), "{delay}");
    let both = json!({"kind": "k", "delay_ms": 1, "delay_until": 4_102_444_800_000_u64});
    let problem = client.post("/v1/executions", &both).problem(400, "invalid_input");
    assert_eq!(problem["field"], "delay_ms");
}

pub(crate) fn a_debounced_submission_is_the_same_execution_with_another_payload(client: &Client) {
    let body = |payload: &str| {
        json!({
            "kind": "index", "lane": "submit-debounced", "payload_text": payload,
            "debounce": {"key": "doc-7", "delay_ms": 60_000, "max_wait_ms": 90_000},
        })
    };
    let first = client.post("/v1/executions", &body("one")).expect(201).json();
    let again = client.post("/v1/executions", &body("two")).expect(200).json();
    assert_eq!(first["execution_id"], again["execution_id"]);
    assert_eq!(again["created"], false);
    let id = text(&first["execution_id"]);
    assert_eq!(client.get(&path(&id, "/payload")).expect(200).body, b"two");
    let mut delayed = body("three");
    delayed["delay_ms"] = json!(5);
    let problem = client.post("/v1/executions", &delayed).problem(400, "invalid_input");
    assert_eq!(problem["field"], "debounce");
}

pub(crate) fn a_singleton_is_skipped_or_queued_and_lives_where_its_key_does(client: &Client) {
    let body = |if_taken: &str| {
        json!({
            "kind": "sync", "lane": "submit-singleton",
            "singleton": {"key": "site-1", "if_taken": if_taken},
        })
    };
    let first = submit(client, &body("skip"));
    let again = client.post("/v1/executions", &body("skip")).expect(200).json();
    assert_eq!(text(&again["execution_id"]), first);
    let queued = submit(client, &body("queue"));
    let why = client.get(&path(&queued, "/why")).expect(200).json();
    assert_eq!(why["why"]["reason"], "singleton");
    assert_eq!(text(&why["why"]["execution_id"]), first);
    let mut keyed = body("skip");
    keyed["idempotency_key"] = json!("k");
    client.post("/v1/executions", &keyed).problem(400, "invalid_input");
    let mut elsewhere = body("queue");
    let partition = first.trim_start_matches("{fp:").split('}').next().expect("a partition");
    let other = if partition == "0" { 1 } else { 0 };
    elsewhere["execution_id"] = json!(format!("{{fp:{other}}}:{}", uuid::Uuid::from_u128(9)));
    let problem = client.post("/v1/executions", &elsewhere).problem(400, "invalid_input");
    assert_eq!(problem["field"], "execution_id");
    complete(client, &claim(client, "submit-singleton"), b"");
    assert_eq!(state(client, &queued), "waiting");
}
