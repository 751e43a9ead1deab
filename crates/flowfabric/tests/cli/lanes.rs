//! `lane` and `kind`.

use serde_json::json;

use crate::site::{Scratch, Site, eventually};

#[test]
fn a_lane_is_paused_resumed_and_listed() {
    let site = Site::start();
    site.submit(&["mail", "--lane", "post"]);
    let paused = site.run(&["lane", "pause", "post"]).text();
    assert!(paused.contains("state    paused since "), "{paused}");
    let listed = site.run(&["lane", "ls"]).text();
    let row = listed.lines().find(|line| line.starts_with("post")).expect("the lane");
    assert!(row.contains("paused") && row.contains("in order"), "{row}");
    let shown = site.run(&["lane", "show", "post", "--json"]).json().remove(0);
    assert_eq!(shown["waiting"], 1);
    assert!(shown["settings"]["paused_at"].is_u64(), "{shown}");
    let resumed = site.run(&["lane", "resume", "post"]).text();
    assert!(resumed.contains("state    open"), "{resumed}");
}

#[test]
fn a_lane_is_limited_and_shared() {
    let site = Site::start();
    let set = ["lane", "set", "post", "--limit", "5000", "--fair", "team.name", "--weight", "a=3"];
    let said = site.run(&set).text();
    assert!(said.contains("order    fair by team.name\nweight   a=3\nlimit    5000"), "{said}");
    let said = site.run(&["lane", "set", "post", "--limit", "none", "--weight", "none"]).text();
    assert!(said.contains("limit    none") && !said.contains("weight"), "{said}");
    let said = site.run(&["lane", "set", "post", "--in-order", "--json"]).json().remove(0);
    assert_eq!(said, json!({"lane": "post", "settings": {"order": "in_order"}}));
    let wrong = site.run(&["lane", "set", "post", "--fair", "tenant"]).complaint(2);
    assert!(wrong.contains("namespace or the name of a tag"), "{wrong}");
}

#[test]
fn the_defaults_of_a_kind_hold_where_a_submission_says_nothing() {
    let site = Site::start();
    let said = site.run(&["kind", "set", "mail", "--retries", "5", "--backoff", "1ms"]).text();
    assert!(said.contains("pinned    yes"), "{said}");
    let listed = site.run(&["kind", "ls"]).text();
    assert!(listed.contains("--retries 5 --backoff 1ms..1m"), "{listed}");
    let id = site.submit(&["mail"]);
    let _worker = site.worker(&["--kind", "mail"], &["false"]);
    site.until(&id, "failed");
    assert_eq!(site.field(&id, "total_attempt_count"), 6);
    assert!(site.run(&["kind", "unpin", "mail"]).text().contains("pinned    no"));
    assert!(site.run(&["kind", "pin", "mail"]).text().contains("pinned    yes"));
    site.run(&["kind", "set", "--all", "--retention", "2d"]).text();
    let all = site.run(&["kind", "ls", "--json"]).json().remove(0);
    assert_eq!(all["defaults"], json!({"retention_ms": 172_800_000}));
    site.run(&["kind", "set", "mail"]).text();
    let shown = site.run(&["kind", "show", "mail", "--json"]).json().remove(0);
    assert_eq!(shown, json!({"kind": "mail", "policy": {}, "pinned": false}));
}

#[test]
fn what_is_not_there_is_said_and_one_is_not_many() {
    let site = Site::start();
    let none = site.run(&["quota", "ls"]);
    assert!(none.stdout.is_empty() && none.stderr.contains("there is no quota"), "{none:?}");
    site.submit(&["mail"]);
    let one = site.run(&["lane", "ls"]);
    assert!(one.stderr.contains("1 lane\n"), "{one:?}");
    let shown = site.run(&["config", "show"]);
    assert!(shown.stderr.contains("no retries, 100 reclaims"), "{shown:?}");
}

#[test]
fn the_log_warns_of_workers_that_differ_about_a_kind() {
    let scratch = Scratch::new("differing");
    let log = scratch.path().join("log");
    let site = Site::start_warning(&log);
    let told = || std::fs::read_to_string(&log).expect("text");
    let retries = |name: &str, retries: &str| {
        let options = ["--kind", "mail", "--name", name, "--retries", retries];
        let worker = site.worker(&options, &["cat"]);
        eventually(|| site.run(&["kind", "ls"]).text().contains(&format!("--retries {retries}")));
        worker
    };
    let mut first = retries("first", "3");
    let alike = retries("alike", "3");
    assert_eq!(told(), "", "they do not differ");
    let _second = retries("second", "5");
    eventually(|| told().contains("the defaults of the worker that started last"));
    let said = told();
    assert!(said.contains("kind=mail") && said.contains("former=first-"), "{said}");
    first.signal("-TERM");
    assert_eq!(first.wait(), Some(0));
    drop(alike);
}
