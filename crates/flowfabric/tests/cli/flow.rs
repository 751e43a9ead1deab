//! `flow`: a graph from a file, shown, listed and cancelled.

use crate::site::{Site, flowfabric, run};

const FILE: &str = "
flow: media
tasks:
  split: { input: clip }
  left: { kind: encode, after: [split], pass: [split] }
  right: { kind: encode, after: [split], pass: { split: parts } }
  join: { after: [left, right], pass: [left, right] }
";

const PROGRAM: &str = r#"case $FLOWFABRIC_KIND in
    split) printf '%s in two' "$(cat)" ;;
    encode) printf 'encoded %s' "$(cat)" ;;
    join) cat "$FLOWFABRIC_INPUTS/left" "$FLOWFABRIC_INPUTS/right" ;;
    *) exit 1 ;;
esac"#;

const KINDS: [&str; 8] =
    ["--kind", "split", "--kind", "encode", "--kind", "join", "--kind", "broken"];

/// Submits a file, and answers the flow's id.
fn submit(site: &Site, file: &str) -> String {
    site.run_with(file.as_bytes(), &["flow", "submit", "-"]).text()
}

#[test]
fn a_flow_of_a_file_is_drawn_when_it_has_ended() {
    let site = Site::start();
    let _worker = site.worker(&KINDS, &["sh", "-c", PROGRAM]);
    let ran = site.run_with(FILE.as_bytes(), &["flow", "submit", "-", "--wait"]);
    let drawn = ran.text();
    let (first, rest) = drawn.split_once('\n').expect("several lines");
    assert!(first.starts_with("media ") && first.ends_with(" is completed"), "{first}");
    let expected = "\
        4 completed\n\
        └─ split completed\n\
        \x20  ├─ left completed\n\
        \x20  │  └─ join completed (also after right)\n\
        \x20  └─ right completed";
    assert_eq!(rest, expected);
    let id = first.split(' ').nth(1).expect("an id");
    let told = site.run(&["flow", "show", "--json", id]).json().remove(0);
    assert_eq!((told["flow"]["node_count"].as_u64(), edges(&told)), (Some(4), 4));
    let join = told["members"][3]["execution_id"].as_str().expect("an id");
    assert_eq!(site.run(&["result", join]).text(), "encoded clip in twoencoded clip in two");
}

fn edges(told: &serde_json::Value) -> usize {
    told["edges"].as_array().map_or(0, Vec::len)
}

#[test]
fn a_flow_that_failed_ends_the_command_with_3() {
    let site = Site::start();
    let _worker = site.worker(&KINDS, &["sh", "-c", PROGRAM]);
    let file = b"flow: x\ntasks: { broken: {}, join: { after: [broken] } }";
    let ran = site.run_with(file, &["flow", "submit", "-", "--wait"]);
    assert!(ran.stdout.contains("broken failed") && ran.stdout.contains("join skipped"), "{ran:?}");
    assert!(ran.complaint(3).contains("the flow is failed"));
}

#[test]
fn a_flow_is_drawn_in_other_languages_and_listed() {
    let site = Site::start();
    assert_eq!(site.run(&["flow", "ls"]).text(), "");
    let id = submit(&site, FILE);
    let dot = site.run(&["flow", "show", &id, "--format", "dot"]).text();
    assert!(dot.starts_with("digraph flow {") && dot.contains("n0 -> n1;"), "{dot}");
    assert!(dot.contains(r#"n0 [label="split\nwaiting"];"#), "{dot}");
    let mermaid = site.run(&["flow", "show", &id, "--format", "mermaid"]).text();
    assert!(mermaid.starts_with("graph LR") && mermaid.contains("n1 --> n3"), "{mermaid}");
    let listed = site.run(&["flow", "ls"]).text();
    assert!(listed.lines().count() == 2 && listed.contains(&id), "{listed}");
    let rows = site.run(&["flow", "ls", "--json"]).json();
    assert_eq!((rows.len(), rows[0]["node_count"].as_u64()), (1, Some(4)));
}

#[test]
fn a_cancelled_flow_tells_what_became_of_each_task() {
    let site = Site::start();
    let id = submit(&site, FILE);
    let told = site.run(&["flow", "cancel", &id, "--reason", "a mistake", "--wait"]).text();
    let rows: Vec<Vec<&str>> = told.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(rows[0], ["TASK", "STATE", "WHAT"]);
    assert_eq!(rows[1], ["split", "cancelled", "stopped"]);
    assert_eq!(rows.len(), 5);
    let again = site.run(&["flow", "cancel", &id]).text();
    assert_eq!(again, format!("{id} is cancelled (4 tasks)"));
    let json = site.run(&["flow", "cancel", &id, "--json"]).json().remove(0);
    assert_eq!(json["done"], true);
    let shown = site.run(&["flow", "show", &id, "--wait"]).complaint(3);
    assert!(shown.contains("the flow is cancelled"), "{shown}");
}

#[test]
fn a_file_that_cannot_run_is_refused_and_leaves_nothing() {
    let site = Site::start();
    let refused =
        |file: &str| site.run_with(file.as_bytes(), &["flow", "submit", "-"]).complaint(1);
    let cycle =
        refused("flow: x\ntasks: { a: { after: [c] }, b: { after: [a] }, c: { after: [b] } }");
    assert!(cycle.contains("cycle_detected") && cycle.contains("a -> b -> c -> a"), "{cycle}");
    let unknown = refused("flow: x\ntasks: { a: { after: [nobody] } }");
    assert!(unknown.contains("tasks.a.after") && unknown.contains("nobody"), "{unknown}");
    let twice = refused("flow: x\ntasks:\n  a: {}\n  a: {}");
    assert!(twice.contains("two tasks are named a"), "{twice}");
    let joins = refused("flow: x\ntasks: { a: {}, b: { after: { all: [a], any: [a] } } }");
    assert!(joins.contains("task b: after must be"), "{joins}");
    assert_eq!(site.run(&["flow", "ls", "--json"]).json().len(), 0);
}

#[test]
fn the_same_key_is_the_same_flow() {
    let site = Site::start();
    let keyed = format!("key: clip-7{FILE}");
    let id = submit(&site, &keyed);
    assert_eq!(submit(&site, &keyed), id);
    let other = keyed.replace("input: clip", "input: another");
    let ran = site.run_with(other.as_bytes(), &["flow", "submit", "-"]);
    assert!(ran.complaint(1).contains("idempotency_conflict"));
}

#[test]
fn a_flow_that_is_not_there_is_told_so() {
    let site = Site::start();
    let id = "00000000-0000-4000-8000-000000000000";
    for command in ["show", "cancel"] {
        let told = site.run(&["flow", command, id]).complaint(1);
        assert!(told.contains("flow"), "{told}");
    }
    assert!(site.run(&["flow", "show", id]).complaint(1).contains("there is no flow"));
    assert_eq!(run(flowfabric().args(["flow", "show", "nonsense"])).code, Some(2));
}
