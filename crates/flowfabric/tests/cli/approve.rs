//! `approve`, `reject` and `links`.

use serde_json::{Value, json};

use crate::site::Site;

/// Submits an execution that asks this, in a lane of its own.
pub(crate) fn ask(site: &Site, lane: &str, approval: &Value) -> String {
    let id = site.submit(&["deploy", "--lane", lane]);
    let claim = json!({"worker_id": "w", "worker_instance_id": "w-1", "lanes": [lane],
        "lease_ttl_ms": 30_000, "wait_ms": 10_000});
    let claimed = site.post("/v1/claims", &claim.to_string());
    let condition = json!({"type": "any", "signals": ["*"], "source_type": "approver"});
    let body = json!({"task_token": claimed["tasks"][0]["task_token"],
        "suspension": {"condition": condition, "approval": approval}});
    site.post("/v1/tasks/suspend", &body.to_string());
    id
}

#[test]
fn somebody_approves_and_somebody_rejects() {
    let site = Site::start();
    let first = ask(&site, "a", &json!({"question": "Ship?", "approvers": ["ann"]}));
    let said = site.run(&["approve", &first]).text();
    assert!(said.starts_with("ann decided approved at "), "{said}");
    assert!(said.ends_with("; nobody else is waited for"), "{said}");
    assert_eq!(site.field(&first, "public_state"), "waiting");
    let second = ask(&site, "b", &json!({"approvers": ["ann", "bob"]}));
    let whom = site.run(&["reject", &second]).complaint(2);
    assert!(whom.contains("say as whom, with --as: ann, bob"), "{whom}");
    let stranger = site.run(&["reject", &second, "--as", "eve"]).complaint(2);
    assert!(stranger.contains("flowfabric: approvers must be among those"), "{stranger}");
    let said = site.run(&["reject", &second, "--as", "bob", "--json"]).json().remove(0);
    assert_eq!((&said["approver"], &said["signal"]), (&json!("bob"), &json!("rejected")));
    let over = site.run(&["approve", &second, "--as", "ann"]).complaint(1);
    assert!(over.contains("asks nobody for an approval now: bob decided rejected at "), "{over}");
}

#[test]
fn other_choices_are_named() {
    let site = Site::start();
    let choices = json!([{"signal": "now", "label": "At once"}, {"signal": "later"}]);
    let id = ask(&site, "a", &json!({"choices": choices, "approvers": ["ann"]}));
    let which = site.run(&["approve", &id]).complaint(2);
    assert!(which.contains("with --choice one can choose: now, later"), "{which}");
    let said = site.run(&["approve", &id, "--choice", "later"]).text();
    assert!(said.starts_with("ann decided later at "), "{said}");
}

#[test]
fn links_are_printed_one_for_each_approver() {
    let site = Site::start();
    let id = ask(&site, "a", &json!({"approvers": ["ann", "bob"]}));
    let table = site.run(&["links", &id]).text();
    let begin = format!("{}/approve/", site.url);
    assert_eq!(table.matches(&begin).count(), 2, "{table}");
    let one = site.run(&["links", &id, "--for", "bob", "--expires-in", "1m", "--json"]);
    let one = one.json();
    assert_eq!((one.len(), &one[0]["approver"]), (1, &json!("bob")));
    let path = one[0]["url"].as_str().expect("a url").strip_prefix(&site.url).expect("ours");
    let decided = site.post(path, r#"{"choice":"approved"}"#);
    assert_eq!(decided["decision"]["approver"], "bob");
    let nobody = site.submit(&["plain"]);
    let refused = site.run(&["links", &nobody]).complaint(1);
    assert!(refused.contains("asks nobody for an approval"), "{refused}");
}
