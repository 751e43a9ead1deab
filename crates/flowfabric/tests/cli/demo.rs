//! `demo`: what it tells comes true, and nothing is left behind.

use std::path::Path;

use serde_json::Value;

use crate::site::{Running, Scratch, alone, eventually, flowfabric};

fn gone(pid: &Value) -> bool {
    !Path::new(&format!("/proc/{pid}")).exists()
}

#[test]
fn what_it_tells_comes_true_and_no_process_is_left() {
    let events = alone(&["demo", "--json"]).json();
    let named = |name: &str| events.iter().find(|event| event["event"] == name).expect("told");
    let workers = named("workers_started")["workers"].as_object().expect("names").clone();
    assert_eq!(workers.len(), 3);
    let killed = named("killed");
    assert_eq!(workers[killed["worker"].as_str().expect("a name")], killed["pid"]);

    let summary = events.last().expect("an end");
    assert_eq!((&summary["event"], &summary["came_true"]), (&"summary".into(), &true.into()));
    assert_eq!(summary["killed"], killed["worker"]);
    assert_eq!(named("flow_ended")["flow"]["public_flow_state"], "completed");
    assert_ne!(summary["taken_over_by"], summary["killed"]);
    let kinds = summary["kinds"].as_array().expect("kinds");
    let submitted: u64 = kinds.iter().filter_map(|kind| kind["submitted"].as_u64()).sum();
    assert_eq!((kinds.len(), submitted), (8, 45));

    eventually(|| workers.values().all(gone));
    let dir = named("server_started")["directory"].as_str().expect("a directory");
    assert!(!Path::new(dir).exists(), "{dir}");
}

#[test]
fn people_read_what_happens_and_may_keep_the_data() {
    let scratch = Scratch::new("demo");
    let dir = scratch.path().join("data");
    let dir = dir.to_str().expect("text");
    let text = alone(&["demo", "--dir", dir]).text();
    for line in [
        "45 executions are submitted",
        "8 media     tasks of a flow",
        "the flow \"media\" is completed: its 8 tasks are over",
        "finishes \"media: apology\"",
        "it is approved by the demo itself",
        "*** kill -9 ",
        "takes over \"orphan 1\"",
        "yes",
    ] {
        assert!(text.contains(line), "{text}");
    }
    assert!(!text.contains(" NO"), "{text}");
    assert!(text.contains("finished its work. Nobody intervened."), "{text}");
    let checked = alone(&["store", "check", "--json", dir]).json().remove(0);
    assert_eq!(
        checked["executions"],
        serde_json::json!({ "success": 41, "failed": 3, "skipped": 1 })
    );
}

#[test]
fn an_interrupted_demo_leaves_no_process_behind() {
    for (signal, code) in [("-INT", Some(130)), ("-TERM", Some(130)), ("-KILL", None)] {
        let mut demo = Running::start(flowfabric().args(["demo", "--json"]));
        let started = demo.event_named("server_started");
        let workers = demo.event_named("workers_started")["workers"].clone();
        demo.event_named("took");
        demo.signal(signal);
        assert_eq!(demo.wait(), code, "{signal}");
        eventually(|| workers.as_object().expect("names").values().all(gone));
        let dir = started["directory"].as_str().expect("a directory");
        if signal == "-KILL" {
            std::fs::remove_dir_all(dir).expect("it could not clean up");
        }
        assert!(!Path::new(dir).exists(), "{signal}: {dir}");
    }
}
