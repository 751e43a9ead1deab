//! Listing executions.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::{claim, complete, submit, text};
use crate::client::Client;

/// All pages of a list.
#[track_caller]
fn all(client: &Client, query: &str) -> Vec<Value> {
    let (mut rows, mut cursor) = (Vec::new(), String::new());
    loop {
        let page = client.get(&format!("/v1/executions?{query}{cursor}")).expect(200).json();
        rows.extend(page["executions"].as_array().expect("a list").iter().cloned());
        match page["next_cursor"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => return rows,
        }
    }
}

fn ids(rows: &[Value]) -> BTreeSet<String> {
    rows.iter().map(|row| text(&row["execution_id"])).collect()
}

pub(crate) fn filters_and_cursors_find_everything_once(client: &Client) {
    let mut submitted = BTreeSet::new();
    for number in 0..40 {
        let kind = if number % 2 == 0 { "even" } else { "odd" };
        let body = json!({"kind": kind, "lane": "list", "namespace": "listed"});
        submitted.insert(submit(client, &body));
    }
    for limit in [1, 7, 1000] {
        let rows = all(client, &format!("namespace=listed&limit={limit}"));
        assert_eq!(rows.len(), 40, "each once with limit {limit}");
        assert_eq!(ids(&rows), submitted);
    }
    assert_eq!(all(client, "namespace=listed&kind=odd").len(), 20);
    assert_eq!(all(client, "lane=list&state=waiting").len(), 40);
    assert_eq!(all(client, "lane=list&state=completed").len(), 0);
    let task = claim(client, "list");
    complete(client, &task, b"");
    let ended = all(client, "lane=list&state=completed");
    assert_eq!(ids(&ended), BTreeSet::from([text(&task["execution_id"])]));
    assert_eq!(ended[0]["worker_id"], "tester");
    let created_at = ended[0]["created_at"].as_u64().expect("a time");
    let since = all(client, &format!("lane=list&from={created_at}&to={}", created_at + 1));
    assert!(ids(&since).contains(&text(&task["execution_id"])));
    assert!(all(client, "lane=list&to=1").is_empty());
    one_order(client);
    one_partition_at_a_time(client, &submitted);
    wrong_cursors(client);
}

/// The newest come first, whatever partition they are in, on however many pages.
fn one_order(client: &Client) {
    let whole = all(client, "namespace=listed&limit=1000");
    let times: Vec<u64> = whole.iter().filter_map(|row| row["created_at"].as_u64()).collect();
    assert!(times.is_sorted_by(|one, other| one >= other), "{times:?}");
    for limit in [1, 3, 39, 40] {
        assert_eq!(all(client, &format!("namespace=listed&limit={limit}")), whole, "{limit}");
    }
    let waiting = all(client, "lane=list&state=waiting&limit=1000");
    assert_eq!(all(client, "lane=list&state=waiting&limit=2"), waiting);
    let turn = |row: &Value| (text(&row["kind"]), row["created_at"].as_u64());
    assert!(waiting.is_sorted_by_key(turn), "by kind, in the order of their turn: {waiting:?}");
}

fn one_partition_at_a_time(client: &Client, submitted: &BTreeSet<String>) {
    let mut found = BTreeSet::new();
    for partition in 0..crate::server::PARTITIONS {
        let rows = all(client, &format!("namespace=listed&partition={partition}&limit=3"));
        for id in ids(&rows) {
            assert!(id.starts_with(&format!("{{fp:{partition}}}")), "{id}");
            assert!(found.insert(id), "each once");
        }
    }
    assert_eq!(&found, submitted);
}

fn wrong_cursors(client: &Client) {
    // Inside a partition a cursor belongs to its filter; between two it only names the next one.
    let mut next = Some(String::new());
    while let Some(after) = next {
        let page = client.get(&format!("/v1/executions?namespace=listed&limit=1{after}"));
        let cursor = page.expect(200).json()["next_cursor"].as_str().map(str::to_owned);
        next = cursor.map(|cursor| {
            let foreign = client.get(&format!("/v1/executions?state=failed&cursor={cursor}"));
            if foreign.status != 200 {
                assert_eq!(foreign.problem(400, "invalid_input")["field"], "cursor");
            }
            format!("&cursor={cursor}")
        });
    }
    for wrong in ["x", "", "MS45OTk5OS4", &"a".repeat(5000), "%00", "MS4wLiclKQ"] {
        let answer = client.get(&format!("/v1/executions?cursor={wrong}"));
        assert_eq!(answer.problem(400, "invalid_input")["field"], "cursor", "{wrong}");
    }
}
