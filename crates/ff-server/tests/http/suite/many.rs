//! Cancelling and replaying all executions that pass a filter.

use serde_json::{Value, json};

use super::{claim, complete, submit};
use crate::client::Client;

/// How many of the kind are in a state.
fn count(client: &Client, state: &str) -> usize {
    let list = client.get(&format!("/v1/executions?kind=many&state={state}&limit=1000"));
    list.expect(200).json()["executions"].as_array().expect("a list").len()
}

/// Sends it page by page to the end; answers how many were changed.
fn to_the_end(client: &Client, path: &str, mut body: Value) -> u64 {
    let mut changed = 0;
    loop {
        let page = client.post(path, &body).expect(200).json();
        changed += page["changed"].as_u64().expect("a number");
        match page["next_cursor"].as_str() {
            Some(next) => body["filter"]["cursor"] = next.into(),
            None => return changed,
        }
    }
}

pub(crate) fn what_passes_a_filter_is_cancelled_and_replayed(client: &Client) {
    for number in 0..25 {
        let tags = json!({"team.name": if number < 20 { "a" } else { "b" }});
        submit(client, &json!({"kind": "many", "lane": "many", "tags": tags}));
    }
    complete(client, &claim(client, "many"), b"");
    let of_a = json!({"kind": "many", "tag": "team.name=a", "limit": 6});
    let dry = json!({"filter": {"kind": "many", "limit": 1000}, "dry_run": true});
    let found = client.post("/v1/executions/cancel", &dry).expect(200).json();
    assert_eq!((&found["found"], &found["changed"]), (&24.into(), &0.into()));
    assert_eq!(count(client, "waiting"), 24, "a dry run changes nothing");

    let cancel = json!({"filter": of_a, "reason": "no more"});
    let cancelled = to_the_end(client, "/v1/executions/cancel", cancel);
    let left = count(client, "waiting") as u64;
    assert_eq!((cancelled + left, left >= 4), (24, true), "those of the other team stay");
    assert_eq!(count(client, "cancelled") as u64, cancelled);
    repeated(client, cancelled);
    wrong(client);
}

/// A page that is sent again, because its answer was lost, has no second effect.
fn repeated(client: &Client, cancelled: u64) {
    let filter = json!({"kind": "many", "state": "cancelled", "limit": 1000});
    let request_id = "550e8400-e29b-41d4-a716-446655440000";
    let replay = json!({"filter": filter, "requested_by": "test", "request_id": request_id});
    let replayed = client.post("/v1/executions/replay", &replay).expect(200).json();
    assert_eq!(replayed["changed"], cancelled);
    let again = client.post("/v1/executions/replay", &replay).expect(200).json();
    assert_eq!((&again["found"], &again["changed"]), (&0.into(), &0.into()));
}

fn wrong(client: &Client) {
    for (path, body, field) in [
        ("cancel", json!({"filter": {"state": "failed"}}), "filter.state"),
        ("replay", json!({"filter": {"kind": "many"}}), "filter.state"),
        ("replay", json!({"filter": {"state": "waiting"}}), "filter.state"),
        ("cancel", json!({"filter": {"cursor": "x"}}), "cursor"),
        ("cancel", json!({"filter": {"limit": 1001}}), "limit"),
        ("cancel", json!({"filter": {"tag": "Team"}}), "filter.tag"),
        ("cancel", json!({}), "filter"),
    ] {
        let problem = client.post(&format!("/v1/executions/{path}"), &body);
        let problem = problem.problem(400, "invalid_input");
        assert_eq!(problem["field"], field, "{body}");
    }
}
