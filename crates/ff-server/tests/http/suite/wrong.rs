//! Requests that are wrong, and what they are told.

use serde_json::json;

use super::{claim, complete, path, submit, token};
use crate::client::{Client, encoded};

const UNKNOWN: &str = "{fp:3}:550e8400-e29b-41d4-a716-446655440000";
const JSON: &[(&str, &str)] = &[("content-type", "application/json")];

type Mistake = (&'static str, &'static str, &'static str, u16, &'static str, &'static str);

/// Method, path, JSON body, status, code, field.
const MISTAKES: &[Mistake] = &[
    ("POST", "/v1/executions", "", 400, "malformed_json", ""),
    ("POST", "/v1/executions", "{", 400, "malformed_json", ""),
    ("POST", "/v1/executions", "nope", 400, "malformed_json", ""),
    ("POST", "/v1/executions", "{}", 400, "invalid_input", "kind"),
    ("POST", "/v1/executions", "[]", 400, "invalid_input", "body"),
    ("POST", "/v1/executions", r#"{"kind":7}"#, 400, "invalid_input", "kind"),
    ("POST", "/v1/executions", r#"{"kind":""}"#, 400, "invalid_input", "kind"),
    ("POST", "/v1/executions", r#"{"kind":"a","kind":"a"}"#, 400, "invalid_input", "kind"),
    ("POST", "/v1/executions", r#"{"kind":"a","x":1}"#, 400, "invalid_input", "x"),
    ("POST", "/v1/executions", r#"{"kind":"a","lane":"{fp:1}"}"#, 400, "invalid_input", "lane"),
    ("POST", "/v1/executions", r#"{"kind":"a","priority":9001}"#, 400, "invalid_input", "priority"),
    ("POST", "/v1/executions", r#"{"kind":"a","priority":1e3}"#, 400, "invalid_input", "priority"),
    (
        "POST",
        "/v1/executions",
        r#"{"kind":"a","delay_until":0}"#,
        400,
        "invalid_input",
        "delay_until",
    ),
    (
        "POST",
        "/v1/executions",
        r#"{"kind":"a","delay_ms":1e300}"#,
        400,
        "invalid_input",
        "delay_ms",
    ),
    ("POST", "/v1/executions", r#"{"kind":"a","tags":{"x":"y"}}"#, 400, "invalid_tag_key", "tags"),
    (
        "POST",
        "/v1/executions",
        r#"{"kind":"a","payload_base64":"?"}"#,
        400,
        "invalid_input",
        "payload_base64",
    ),
    (
        "POST",
        "/v1/executions",
        r#"{"kind":"a","policy":{"max_replay_count":1001}}"#,
        400,
        "invalid_policy_json",
        "policy",
    ),
    (
        "POST",
        "/v1/executions",
        r#"{"kind":"a","policy":{"x":1}}"#,
        400,
        "invalid_input",
        "policy.x",
    ),
    (
        "POST",
        "/v1/executions",
        r#"{"kind":"a","execution_id":"x"}"#,
        400,
        "invalid_input",
        "execution_id",
    ),
    (
        "POST",
        "/v1/executions",
        r#"{"kind":"a","execution_id":"{fp:999}:550e8400-e29b-41d4-a716-446655440000"}"#,
        400,
        "partition_mismatch",
        "execution_id",
    ),
    ("GET", "/v1/executions?limit=0", "", 400, "invalid_input", "limit"),
    ("GET", "/v1/executions?limit=1001", "", 400, "invalid_input", "limit"),
    ("GET", "/v1/executions?limit=x", "", 400, "invalid_input", "limit"),
    ("GET", "/v1/executions?state=running", "", 400, "invalid_input", "state"),
    ("GET", "/v1/executions?colour=red", "", 400, "invalid_input", "colour"),
    ("GET", "/v1/executions?from=-1", "", 400, "invalid_input", "from"),
    ("GET", "/v1/executions?to=0", "", 400, "invalid_input", "to"),
    ("GET", "/v1/events?partition=0&after=01-1", "", 400, "invalid_input", "after"),
    (
        "POST",
        "/v1/claims",
        r#"{"worker_id":"a","worker_instance_id":"b","lanes":[],"lease_ttl_ms":1}"#,
        400,
        "invalid_input",
        "number of lanes",
    ),
    (
        "POST",
        "/v1/claims",
        r#"{"worker_id":"a","worker_instance_id":"b","lanes":["a"],"lease_ttl_ms":0}"#,
        400,
        "invalid_input",
        "lease_ttl_ms",
    ),
    (
        "POST",
        "/v1/claims",
        r#"{"worker_id":"a","worker_instance_id":"b","lanes":["a"],"lease_ttl_ms":1,"count":257}"#,
        400,
        "invalid_input",
        "count",
    ),
    (
        "POST",
        "/v1/claims",
        r#"{"worker_id":"a","worker_instance_id":"b","lanes":["a"],"lease_ttl_ms":1,"count":0}"#,
        400,
        "invalid_input",
        "count",
    ),
    (
        "POST",
        "/v1/claims",
        r#"{"worker_id":"a","worker_instance_id":"b","lanes":["a"],"lease_ttl_ms":1,"wait_ms":60001}"#,
        400,
        "invalid_input",
        "wait",
    ),
    (
        "POST",
        "/v1/claims",
        r#"{"worker_id":"a","worker_instance_id":"b","lanes":["a"],"lease_ttl_ms":1,"capabilities":["a b"]}"#,
        400,
        "invalid_input",
        "capabilities",
    ),
    (
        "POST",
        "/v1/workers",
        r#"{"worker_id":"a","worker_instance_id":"b","ttl_ms":0}"#,
        400,
        "invalid_input",
        "ttl_ms",
    ),
    (
        "POST",
        "/v1/workers",
        r#"{"worker_id":"a","worker_instance_id":"b:","ttl_ms":1}"#,
        400,
        "invalid_input",
        "worker_instance_id",
    ),
    (
        "POST",
        "/v1/workers/x/heartbeat",
        r#"{"session":"x","ttl_ms":1}"#,
        400,
        "invalid_input",
        "session",
    ),
    (
        "POST",
        "/v1/workers/%7B/heartbeat",
        r#"{"session":"11111111-2222-4333-8444-555555555555","ttl_ms":1}"#,
        400,
        "invalid_input",
        "worker_instance_id",
    ),
    (
        "POST",
        "/v1/workers/x/heartbeat",
        r#"{"session":"11111111-2222-4333-8444-555555555555","ttl_ms":1}"#,
        404,
        "worker_not_found",
        "",
    ),
    ("POST", "/v1/tasks/renew", "{}", 400, "invalid_input", "task_token"),
    ("POST", "/v1/tasks/renew", r#"{"task_token":"AAAA"}"#, 400, "invalid_input", "task_token"),
    ("POST", "/v1/tasks/fail", r#"{"task_token":"AAAA"}"#, 400, "invalid_input", "reason"),
    ("POST", "/v1/tasks/complete", r#"{"task_token":"?"}"#, 400, "invalid_input", "task_token"),
    ("POST", "/v1/tasks/progress", r#"{"percent":-1}"#, 400, "invalid_input", "percent"),
];

fn check(problem: &serde_json::Value, field: &str, what: &str) {
    if field.is_empty() {
        return;
    }
    assert_eq!(problem["field"], field, "{what}: {problem}");
    assert!(!problem["detail"].to_string().is_empty(), "{what}");
}

pub(crate) fn every_mistake_is_named_with_its_status(client: &Client) {
    for (method, path, body, status, code, field) in MISTAKES {
        let answer = client.send(method, path, JSON, body.as_bytes());
        check(&answer.problem(*status, code), field, &format!("{method} {path} {body}"));
    }
    let deep = format!(r#"{{"kind":"a","tags":{}"#, "[".repeat(50_000));
    client.send("POST", "/v1/executions", JSON, deep.as_bytes()).expect(400);
    let form = [("content-type", "application/x-www-form-urlencoded")];
    let problem = client.send("POST", "/v1/executions", &form, b"kind=a");
    problem.problem(415, "unsupported_media_type");
    let problem = client.send("POST", "/v1/claims", &form, b"{}");
    problem.problem(415, "unsupported_media_type");
    let problem = client.send("POST", "/v1/tasks/complete", &[], b"result");
    problem.problem(415, "unsupported_media_type");
    let both = [("content-type", "application/json"), ("flowfabric-kind", "a")];
    let problem = client.send("POST", "/v1/executions", &both, br#"{"kind":"a"}"#);
    check(&problem.problem(400, "invalid_input"), "flowfabric-kind", "kind twice");
    let ignored = [("content-type", "application/json"), ("flowfabric-priority", "7")];
    let problem = client.send("POST", "/v1/executions", &ignored, br#"{"kind":"a"}"#);
    check(&problem.problem(400, "invalid_input"), "flowfabric-priority", "not about JSON");
    let raw = [("flowfabric-kind", "a"), ("flowfabric-priority", "high")];
    let problem = client.send("POST", "/v1/executions", &raw, b"x");
    check(&problem.problem(400, "invalid_input"), "flowfabric-priority", "a word as a number");
    let raw = [("flowfabric-kind", "a"), ("flowfabric-policy", r#"{"x":1}"#)];
    let problem = client.send("POST", "/v1/executions", &raw, b"x");
    check(&problem.problem(400, "invalid_policy_json"), "policy", "an unknown setting");
    for rest in ["", "/state", "/result", "/payload", "/attempts", "/history"] {
        client.get(&path(UNKNOWN, rest)).problem(404, "execution_not_found");
    }
    for rest in ["/cancel", "/replay", "/revoke-lease"] {
        client.post(&path(UNKNOWN, rest), &json!({})).problem(404, "execution_not_found");
    }
}

pub(crate) fn strange_ids_are_refused_on_every_route(client: &Client) {
    let long = "x".repeat(5000);
    let ids = [
        "x",
        "{fp:1}",
        "{fp:01}:550e8400-e29b-41d4-a716-446655440000",
        "{fp:1}:550E8400-E29B-41D4-A716-446655440000",
        "{b:1}:550e8400-e29b-41d4-a716-446655440000",
        "{fp:1}:550e8400-e29b-41d4-a716-446655440000\0",
        "*",
        "\r\n",
        "\u{e9}",
        "{fp:1}:{fp:1}",
        "../../etc/passwd",
        &long,
    ];
    let reads = ["", "/state", "/result", "/payload", "/attempts", "/history"];
    for id in ids {
        for rest in reads {
            let problem = client.get(&path(id, rest)).problem(400, "invalid_input");
            assert_eq!(problem["field"], "execution_id", "{id:?}{rest}");
        }
        for rest in ["/cancel", "/replay", "/revoke-lease", "/grant"] {
            let answer = client.post(&path(id, rest), &json!({}));
            answer.problem(400, "invalid_input");
        }
        for rest in ["/priority", "/tags"] {
            let answer = client.put(&path(id, rest), &json!({"priority": 1}));
            answer.problem(400, "invalid_input");
        }
    }
    client.get("/v1/executions/%ff%fe/state").problem(400, "invalid_input");
    client.get("/v1/executions/%zz").problem(400, "invalid_input");
    for worker in ["{", ":", "\u{e9}", " ", &"x".repeat(300)] {
        let beat = json!({"session": "11111111-2222-4333-8444-555555555555", "ttl_ms": 1});
        for rest in ["heartbeat", "disconnect", "claim"] {
            let path = format!("/v1/workers/{}/{rest}", encoded(worker));
            client.post(&path, &beat).problem(400, "invalid_input");
        }
    }
}

pub(crate) fn unknown_paths_and_methods_are_problems_too(client: &Client) {
    for path in ["/", "/v1", "/v2/executions", "/v1/executions/", "/v1/tasks/steal"] {
        client.get(path).problem(404, "route_not_found");
    }
    let answer = client.send("DELETE", "/v1/executions", &[], b"");
    answer.problem(405, "method_not_allowed");
    let allowed = answer.header("allow").expect("the methods it knows").to_owned();
    assert!(allowed.contains("GET") && allowed.contains("POST"), "{allowed}");
    client.send("TRACE", "/v1/claims", &[], b"").problem(405, "method_not_allowed");
    assert_eq!(client.send("HEAD", "/healthz", &[], b"").status, 200);
}

pub(crate) fn stale_tokens_are_refused_by_their_code(client: &Client) {
    let id = submit(client, &json!({"kind": "job", "lane": "stale"}));
    let first = claim(client, "stale");
    let give_back = json!({"task_token": token(&first), "delay_until": 1});
    client.post("/v1/tasks/delay", &give_back).expect(204);
    let second = claim(client, "stale");
    assert_eq!(second["execution_id"], json!(id));
    let body = json!({"task_token": token(&first)});
    client.post("/v1/tasks/renew", &body).problem(409, "stale_lease");
    let late = client.post("/v1/tasks/complete", &body);
    assert_eq!(late.problem(409, "stale_lease")["class"], "terminal");
    complete(client, &second, b"");
    let after = client.post("/v1/tasks/renew", &json!({"task_token": token(&second)}));
    after.problem(409, "execution_not_active");
    let two = [("flowfabric-task", token(&first))];
    let two = two.each_ref().map(|(name, value)| (*name, value.as_str()));
    let headers = [two[0], ("content-type", "application/json")];
    let body = json!({"task_token": token(&second)}).to_string();
    let problem = client.send("POST", "/v1/tasks/renew", &headers, body.as_bytes());
    assert_eq!(problem.problem(400, "invalid_input")["field"], "task_token");
}
