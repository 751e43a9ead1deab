//! Budgets over HTTP.

use serde_json::{Value, json};

use super::{claim, claim_some, complete, path, submit, text};
use crate::client::Client;

fn create(client: &Client, lane: &str, more: &Value) -> String {
    let mut body = json!({
        "scope_type": "lane", "scope_id": lane, "dimensions": {"tokens": {"hard": 100}},
    });
    for (name, value) in more.as_object().into_iter().flatten() {
        body[name] = value.clone();
    }
    text(&client.post("/v1/budgets", &body).expect(200).json()["budget_id"])
}

fn report(client: &Client, budget: &str, task: &Value, tokens: u64, key: &str) -> Value {
    let body = json!({
        "task_token": task["task_token"], "dimensions": {"tokens": tokens}, "dedup_key": key,
    });
    client.post(&format!("/v1/budgets/{budget}/usage"), &body).expect(200).json()
}

pub(crate) fn a_budget_is_made_read_changed_listed_reset_and_removed(client: &Client) {
    let id = "00000000-0000-4000-8000-0000000b0d01";
    let body = json!({
        "budget_id": id, "name": "Tokens", "scope_type": "kind", "scope_id": "budget-crud",
        "dimensions": {"tokens": {"hard": 100, "soft": 80}}, "reset_interval_ms": 3_600_000,
    });
    let made = client.post("/v1/budgets", &body).expect(200).json();
    assert_eq!(made, json!({"budget_id": id, "created": true}));
    assert_eq!(client.post("/v1/budgets", &body).expect(200).json()["created"], false);
    let mut other = body.clone();
    other["dimensions"]["tokens"]["hard"] = json!(200);
    client.post("/v1/budgets", &other).problem(409, "budget_attach_conflict");
    let path = format!("/v1/budgets/{id}");
    let read = client.get(&path).expect(200).json();
    assert_eq!(
        read["dimensions"]["tokens"],
        json!({"hard": 100, "soft": 80, "used": 0, "reserved": 0})
    );
    assert_eq!(
        (read["name"].as_str(), read["on_hard_limit"].as_str()),
        (Some("Tokens"), Some("block"))
    );
    let change = json!({"dimensions": {"tokens": {"hard": 500}}, "on_hard_limit": "fail"});
    let changed = client.put(&path, &change).expect(200).json();
    assert_eq!(changed["dimensions"]["tokens"]["hard"], 500);
    let listed = client.get("/v1/budgets?limit=1000").expect(200).json();
    let listed = listed["budgets"].as_array().expect("a list");
    assert!(listed.iter().any(|budget| budget["budget_id"] == id), "{listed:?}");
    let reset = client.post(&format!("{path}/reset"), &json!({})).expect(200).json();
    assert_eq!(reset["reset_count"], 1);
    let early = json!({"due_only": true});
    client.post(&format!("{path}/reset"), &early).problem(409, "not_due");
    let gone = client.post(&format!("{path}/delete"), &Value::Null).expect(200).json();
    assert_eq!(gone, json!({"deleted": true}));
    client.get(&path).problem(404, "budget_not_found");
    client.put(&path, &change).problem(404, "budget_not_found");
}

pub(crate) fn a_wrong_budget_is_refused_with_the_reason(client: &Client) {
    let body = |change: Value| {
        let mut body = json!({
            "scope_type": "lane", "scope_id": "budget-wrong",
            "dimensions": {"tokens": {"hard": 100}},
        });
        for (name, value) in change.as_object().expect("fields") {
            body[name] = value.clone();
        }
        body
    };
    for (change, code) in [
        (json!({"scope_type": "team"}), "invalid_input"),
        (json!({"scope_type": "flow"}), "invalid_budget_scope"),
        (json!({"dimensions": {}}), "invalid_input"),
        (json!({"dimensions": {"tokens": {"hard": 0}}}), "invalid_input"),
        (json!({"dimensions": {"tokens": {"hard": -1}}}), "invalid_input"),
        (json!({"dimensions": {"tokens": {"hard": 1.5}}}), "invalid_input"),
        (json!({"dimensions": {"tokens": {"hard": 5, "soft": 6}}}), "invalid_input"),
        (json!({"dimensions": {"a b": {"hard": 5}}}), "invalid_input"),
        (json!({"reset_interval_ms": 0}), "invalid_input"),
        (json!({"on_hard_limit": "panic"}), "invalid_input"),
    ] {
        client.post("/v1/budgets", &body(change)).problem(400, code);
    }
    let twice = body(json!({})).to_string().replace(r#"{"hard":100}"#, r#"{"hard":1},"tokens":{}"#);
    let problem = post_text(client, "/v1/budgets", &twice).problem(400, "invalid_input");
    assert!(text(&problem["detail"]).contains("tokens is given twice"), "{problem}");
    let listed = client.get("/v1/budgets?limit=1000").expect(200).json().to_string();
    assert!(!listed.contains("budget-wrong"), "{listed}");
}

/// Of an execution: there is no such budget.
const UNKNOWN: &str = "00000000-0000-4000-8000-0000000b0dff";

fn post_text(client: &Client, path: &str, body: &str) -> crate::client::Answer {
    client.send("POST", path, &[("content-type", "application/json")], body.as_bytes())
}

pub(crate) fn an_unknown_budget_is_refused_wherever_it_is_named(client: &Client) {
    let policy = json!({"budget_ids": [UNKNOWN]});
    let submission = json!({"kind": "k", "lane": "budget-unknown", "policy": policy});
    client.post("/v1/executions", &submission).problem(404, "budget_not_found");
    assert!(claim_some(client, &["budget-unknown"], 1, 0).is_empty(), "nothing was created");
    let path = format!("/v1/budgets/{UNKNOWN}");
    client.get(&path).problem(404, "budget_not_found");
    client.get(&format!("{path}/usage")).problem(404, "budget_not_found");
    client.put(&path, &json!({"dimensions": {}})).problem(404, "budget_not_found");
    client.post(&format!("{path}/reset"), &json!({})).problem(404, "budget_not_found");
    submit(client, &json!({"kind": "k", "lane": "budget-unknown"}));
    let task = claim(client, "budget-unknown");
    let body = json!({"task_token": task["task_token"], "dimensions": {"tokens": 1}});
    client.post(&format!("{path}/usage"), &body).problem(404, "budget_not_found");
    client.post(&format!("{path}/reserve"), &body).problem(404, "budget_not_found");
    complete(client, &task, b"");
}

pub(crate) fn a_wrong_report_counts_nothing(client: &Client) {
    let lane = "budget-report";
    let budget = create(client, lane, &json!({}));
    submit(client, &json!({"kind": "k", "lane": lane}));
    let task = claim(client, lane);
    let token = text(&task["task_token"]);
    for dimensions in [
        r#"{"tokens":-1}"#,
        r#"{"tokens":1.5}"#,
        r#"{"tokens":1000000000001}"#,
        r#"{"tokens":9007199254740993}"#,
        r#"{"tokens":18446744073709551616}"#,
        r#"{"tokens":1,"tokens":2}"#,
        r#"{"tokens":1,"a b":2}"#,
        "{}",
    ] {
        for verb in ["usage", "reserve"] {
            let path = format!("/v1/budgets/{budget}/{verb}");
            let body = format!(r#"{{"task_token":"{token}","dimensions":{dimensions}}}"#);
            post_text(client, &path, &body).problem(400, "invalid_input");
        }
    }
    let read = client.get(&format!("/v1/budgets/{budget}")).expect(200).json();
    let tokens = &read["dimensions"]["tokens"];
    assert_eq!((&tokens["used"], &tokens["reserved"]), (&json!(0), &json!(0)));
    complete(client, &task, b"");
}

pub(crate) fn a_task_reports_under_its_lease_and_a_full_budget_blocks(client: &Client) {
    let lane = "budget-lane";
    let budget = create(client, lane, &json!({}));
    let first = submit(client, &json!({"kind": "agent", "lane": lane}));
    let second = submit(client, &json!({"kind": "agent", "lane": lane}));
    let task = claim(client, lane);
    assert_eq!(task["budget_ids"], json!([budget]));
    assert_eq!(report(client, &budget, &task, 60, "a")["outcome"], "ok");
    assert_eq!(report(client, &budget, &task, 60, "a")["outcome"], "already_applied");
    let told = report(client, &budget, &task, 60, "b");
    assert_eq!(
        told,
        json!({"outcome": "hard_breach", "dimension": "tokens", "current_usage": 120,
        "hard_limit": 100})
    );
    assert_eq!(claim_some(client, &[lane], 1, 0).len(), 0);
    let reserve = json!({"task_token": task["task_token"], "dimensions": {"tokens": 1}});
    client.post(&format!("/v1/budgets/{budget}/reserve"), &reserve).problem(409, "budget_exceeded");
    let usage = client.get(&format!("/v1/budgets/{budget}/usage")).expect(200).json();
    assert_eq!(usage["usage"][0]["dimensions"]["tokens"]["used"], 120);
    complete(client, &task, b"");
    let stale = json!({"task_token": task["task_token"], "dimensions": {"tokens": 1}});
    let ids = [first, second];
    // The budget hears of the end of the lease a moment later; what comes before that counts.
    while client.post(&format!("/v1/budgets/{budget}/usage"), &stale).status != 409 {}
    let blocked = ids.iter().find(|id| super::state(client, id) != "completed").expect("one waits");
    assert_eq!(super::state(client, blocked), "rate_limited");
    let why = client.get(&path(blocked, "/why")).expect(200).json();
    assert_eq!(why["why"]["reason"], "budget", "{why}");
    let raise = json!({"dimensions": {"tokens": {"hard": 1000}}});
    client.put(&format!("/v1/budgets/{budget}"), &raise).expect(200);
    complete(client, &claim(client, lane), b"");
    let metrics = String::from_utf8(client.get("/metrics").expect(200).body).expect("text");
    assert!(metrics.contains("ff_budget_hit_total{dimension=\"tokens\"}"), "{metrics}");
}
