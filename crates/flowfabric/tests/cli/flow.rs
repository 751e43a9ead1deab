//! `flow`: a graph from a file, shown, listed and cancelled.

use crate::site::{Running, Scratch, Site, alone, eventually, flowfabric, run};
use crate::terminal;

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

/// What is in the rows of a table, without the times, which nobody can promise.
pub(crate) fn cells(text: &str) -> Vec<String> {
    let timeless = |cell: &&str| {
        cell.len() > "999 ms".len() || !cell.ends_with(" ms") && !cell.ends_with(" s")
    };
    let line = |line: &str| {
        let cells = line.split("  ").map(str::trim).filter(|cell| !cell.is_empty());
        cells.filter(timeless).collect::<Vec<_>>().join(" | ")
    };
    text.lines().map(line).collect()
}

#[test]
fn a_flow_of_a_file_is_drawn_when_it_has_ended() {
    let site = Site::start();
    let _worker = site.worker(&KINDS, &["sh", "-c", PROGRAM]);
    let ran = site.run_with(FILE.as_bytes(), &["flow", "submit", "-", "--wait"]);
    assert!(ran.stderr.contains("4 tasks in flow "), "{ran:?}");
    let drawn = ran.text();
    let lines: Vec<&str> = drawn.lines().collect();
    assert!(lines[0].starts_with("media ") && lines[0].ends_with(" is completed"), "{drawn}");
    assert!(lines[1].starts_with("4 completed, took "), "{drawn}");
    let (_, table) = drawn.split_once("\n\n").expect("a table");
    let expected = [
        "TASK | KIND | STATE | ATTEMPT | TIME",
        "split | split | completed | 1",
        "├─ left | encode | completed | 1",
        "│ | └─ join | join | completed | 1 | also after right",
        "└─ right | encode | completed | 1",
    ];
    assert_eq!(cells(table), expected, "{drawn}");
    let id = lines[0].split(' ').nth(1).expect("an id");
    let told = site.run(&["flow", "show", "--json", id]).json().remove(0);
    assert_eq!((told["flow"]["node_count"].as_u64(), edges(&told)), (Some(4), 4));
    let joined = site.run(&["flow", "result", id, "join"]).text();
    assert_eq!(joined, "encoded clip in twoencoded clip in two");
    let none = site.run(&["flow", "result", id, "nobody"]).complaint(1);
    assert!(none.contains("has no task \"nobody\""), "{none}");
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
    let told = cells(&ran.stdout).join("\n");
    assert!(told.contains("broken | broken | failed | 1"), "{ran:?}");
    assert!(told.contains("└─ join | join | skipped"), "{ran:?}");
    assert!(ran.complaint(3).contains("the flow is failed"));
}

#[test]
fn a_flow_is_drawn_in_other_languages() {
    let site = Site::start();
    let id = submit(&site, FILE);
    let shown = |format: &str| site.run(&["flow", "show", &id, "--format", format]).text();
    let dot = shown("dot");
    assert!(dot.starts_with("digraph flow {") && dot.contains("n0 -> n1;"), "{dot}");
    assert!(dot.contains(r#"n0 [label="split\nwaiting", "#), "{dot}");
    let mermaid = shown("mermaid");
    assert!(mermaid.starts_with("graph LR") && mermaid.contains("n1 --> n3"), "{mermaid}");
    let svg = shown("svg");
    assert!(svg.starts_with("<svg ") && svg.ends_with("</svg>"), "{svg}");
    assert_eq!((svg.matches("<g><title>").count(), svg.matches("class=\"edge\"").count()), (4, 4));
    assert_eq!(shown("json"), site.run(&["flow", "show", &id, "--json"]).text());
    let tree = site.run(&["flow", "show", &id]).text();
    assert!(tree.contains("is open") && tree.contains("1 waiting, 3 waiting_children"), "{tree}");
    assert!(!tree.contains('\x1b'), "no colours where nobody sees them");
}

#[test]
fn a_list_of_flows_is_newest_first_and_filtered() {
    let site = Site::start();
    let none = site.run(&["flow", "ls"]);
    assert!(none.stdout.is_empty() && none.stderr.contains("no such flows"), "{none:?}");
    let worker = site.worker(&KINDS, &["sh", "-c", PROGRAM]);
    let ended = site.run_with(FILE.as_bytes(), &["flow", "submit", "-", "--wait", "--json"]);
    let ended = ended.json()[0]["flow"]["flow_id"].as_str().expect("an id").to_owned();
    let broken = "flow: x\nnamespace: shop\ntasks: { broken: {}, join: { after: [broken] } }";
    let failed = site.run_with(broken.as_bytes(), &["flow", "submit", "-", "--wait", "--json"]);
    assert_eq!(failed.code, Some(3), "{failed:?}");
    drop(worker);
    let young = submit(&site, &FILE.replace("flow: media", "flow: a-kind-with-a-long-name"));
    let listed = site.run(&["flow", "ls"]);
    assert!(listed.stderr.contains("3 flows"), "{listed:?}");
    let text = listed.text();
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    let rows = cells(&text);
    assert_eq!(rows[0], "FLOW | KIND | STATE | DONE | AGE");
    assert!(rows[1].starts_with(&format!("{young} | a-kind-wit… | open | 0/4 | ")), "{text}");
    assert!(rows[2].contains(" | x | failed | 2/2, 1 failed | "), "{text}");
    assert!(rows[3].starts_with(&format!("{ended} | media | completed | 4/4 | ")), "{text}");
    let count = |filter: &[&str]| {
        let rows = site.run(&[&["flow", "ls", "--json"], filter].concat()).json();
        (rows.len(), rows.first().map(|row| row["status"].clone()))
    };
    assert_eq!(count(&["--state", "failed"]), (1, Some("failed".into())));
    assert_eq!(count(&["--namespace", "shop"]), (1, Some("failed".into())));
    assert_eq!(count(&["--kind", "media"]), (1, Some("completed".into())));
    assert_eq!(count(&["--since", "1h"]).0, 3);
    assert_eq!(count(&["--since", "2099-01-01"]).0, 0);
    assert_eq!(count(&["--stuck"]).0, 0);
    assert_eq!(count(&["--limit", "2"]), (2, Some("open".into())));
    let two = site.run(&["flow", "ls", "--limit", "2"]);
    assert!(two.stderr.contains("the newest 2 of 3 flows"), "{two:?}");
    assert!(site.run(&["flow", "ls", "--state", "asleep"]).complaint(2).contains("--state"));
}

#[test]
fn a_cancelled_flow_tells_what_became_of_each_task() {
    let site = Site::start();
    let id = submit(&site, FILE);
    let ran = site.run(&["flow", "cancel", &id, "--reason", "a mistake", "--wait"]);
    assert!(ran.stderr.contains("4 stopped"), "{ran:?}");
    let told = ran.text();
    let rows: Vec<Vec<&str>> = told.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(rows[0], ["TASK", "STATE", "WHAT"]);
    assert_eq!(rows[1], ["split", "cancelled", "stopped"]);
    assert_eq!(rows.len(), 5);
    let again = site.run(&["flow", "cancel", &id]).text();
    assert_eq!(again, format!("{id} is cancelled (4 tasks)"));
    let json = site.run(&["flow", "cancel", &id, "--json"]).json().remove(0);
    assert_eq!(json["status"], "cancelled");
    let receipt = site.run(&["flow", "cancel", &id, "--wait", "--json"]).json().remove(0);
    assert_eq!(
        (&receipt["done"], &receipt["members"][0]["fate"]),
        (&true.into(), &"stopped".into())
    );
    let shown = site.run(&["flow", "show", &id, "--wait"]).complaint(3);
    assert!(shown.contains("the flow is cancelled"), "{shown}");
    assert_eq!(
        site.run(&["flow", "cancel", &id, "--retry-stuck"]).text(),
        "0 of 0 tasks are not stuck any more"
    );
}

#[test]
fn a_receipt_tells_who_had_ended_and_who_may_still_run() {
    let site = Site::start();
    let _worker = site.worker(
        &["--kind", "quick", "--kind", "slow", "--concurrency", "2"],
        &["sh", "-c", "[ $FLOWFABRIC_KIND = quick ] || sleep 60"],
    );
    let file = "flow: x\ntasks: { quick: {}, slow: { after: [quick] }, last: { after: [slow] } }";
    let id = submit(&site, file);
    eventually(|| {
        let told = site.run(&["flow", "show", &id, "--json"]).json().remove(0);
        told["members"][1]["public_state"] == "active"
    });
    let told = cells(&site.run(&["flow", "cancel", &id, "--wait"]).text());
    assert_eq!(
        (&*told[1], &*told[3]),
        ("quick | completed | had ended", "last | cancelled | stopped")
    );
    let fenced = "slow | cancelled | stopped; its worker may go on until 20";
    assert!(told[2].starts_with(fenced), "{told:?}");
}

#[test]
fn a_file_that_cannot_run_is_refused_and_leaves_nothing() {
    let site = Site::start();
    let refused =
        |file: &str| site.run_with(file.as_bytes(), &["flow", "submit", "-"]).complaint(2);
    let cycle =
        refused("flow: x\ntasks: { a: { after: [c] }, b: { after: [a] }, c: { after: [b] } }");
    assert!(cycle.contains("cycle_detected") && cycle.contains("a -> b -> c -> a"), "{cycle}");
    let unknown = refused("flow: x\ntasks:\n  a: { after: [nobody] }");
    assert!(
        unknown
            .contains("standard input: tasks.a.after names \"nobody\", which is no task (line 3)"),
        "{unknown}"
    );
    let twice = refused("flow: x\ntasks:\n  a: {}\n  a: {}");
    assert!(twice.contains("two tasks are named a"), "{twice}");
    let joins = refused("flow: x\ntasks: { a: {}, b: { after: { all: [a], any: [a] } } }");
    assert!(joins.contains("task b: after must be"), "{joins}");
    assert_eq!(site.run(&["flow", "ls", "--json"]).json().len(), 0);
    let json = site.run_with(b"flow: x\ntasks: []", &["flow", "submit", "-", "--json"]);
    let told: serde_json::Value = serde_json::from_str(&json.complaint(2)).expect("json");
    assert!(told["error"].as_str().expect("a text").contains("tasks: invalid type"), "{told}");
}

#[test]
fn the_schema_of_a_file_is_printed() {
    let schema = alone(&["flow", "schema", "--json"]).json().remove(0);
    assert_eq!(schema["required"], serde_json::json!(["flow", "tasks"]));
    assert_eq!(schema["$defs"]["Task"]["properties"]["optional"]["type"], "boolean");
    let checked_in = include_str!("../../../../docs/flow.schema.json");
    assert_eq!(alone(&["flow", "schema"]).text(), checked_in.trim_end());
}

#[test]
fn a_terminal_sees_a_flow_live_until_it_has_ended() {
    let site = Site::start();
    let file = Scratch::new("live-flow");
    let path = file.path().join("graph.yaml");
    std::fs::write(&path, FILE).expect("written");
    let id = submit(&site, FILE);
    let _worker = site.worker(&KINDS, &["sh", "-c", &format!("sleep 0.4; {PROGRAM}")]);
    let seen = terminal::run(&site.url, &format!("flow show {id} --wait"), "");
    assert!(seen.starts_with("\x1b[?1049h"), "{seen:?}");
    assert!(seen.contains("\x1b[34mactive"), "{seen:?}");
    let (_, last) = seen.rsplit_once("\x1b[?1049l").expect("the screen comes back");
    assert!(last.contains("is \x1b[32mcompleted\x1b[0m") && last.contains("└─ right"), "{last:?}");
    let again = terminal::run(&site.url, &format!("flow show {id}"), "");
    assert!(!again.contains("\x1b[?1049h") && again.contains("└─ right"), "{again:?}");
    let line = format!("flow submit {} --wait", path.display());
    assert!(terminal::run(&site.url, &line, "").contains("\x1b[?1049h"));
    let plain = terminal::run(&site.url, &format!("flow show {id} --format dot"), "");
    assert!(plain.starts_with("digraph"), "{plain:?}");
}

#[test]
fn a_live_picture_is_left_by_an_interrupt() {
    let site = Site::start();
    let id = submit(&site, FILE);
    let live = |more: &str| {
        let line = format!("flow show {id} {more} & sleep 1; kill -INT $!; wait $!; echo code $?");
        terminal::run(&site.url, &line, "")
    };
    let left = live("");
    let (_, last) = left.rsplit_once("\x1b[?1049l").expect("the screen comes back");
    assert!(last.contains("is open") && last.contains("code 0"), "{left:?}");
    assert!(live("--wait").contains("code 130"));
    let once = terminal::run(&site.url, &format!("flow show {id} --once"), "");
    assert!(once.contains("is open") && !once.contains("\x1b[?1049h"), "{once:?}");
}

#[test]
fn a_server_that_is_killed_in_the_middle_of_a_flow_changes_nothing() {
    let data = Scratch::new("flow-kill");
    let store = data.path().join("store");
    let store = ["--store", store.to_str().expect("text")];
    let site = Site::start_with(&store);
    let address = site.url.trim_start_matches("http://").to_owned();
    let slow = format!("sleep 0.4; {PROGRAM}");
    let options = [&KINDS[..], &["--lease-ttl", "1500ms"]].concat();
    let mut worker = site.worker(&options, &["sh", "-c", &slow]);
    let id = submit(&site, FILE);
    let waits = Running::start(&mut site.command(&["flow", "show", &id, "--wait", "--json"]));
    worker.event_named("completed");
    site.kill();
    let site = Site::start_at(&address, &store);
    let told = { waits }.event();
    assert_eq!(told["flow"]["public_flow_state"], "completed", "{told}");
    let attempts = told["members"].as_array().expect("members").iter();
    assert!(attempts.clone().count() == 4, "{told}");
    assert!(attempts.clone().all(|member| member["public_state"] == "completed"), "{told}");
    let rows = site.run(&["flow", "ls", "--json"]).json();
    assert_eq!((rows.len(), &rows[0]["live_count"]), (1, &0.into()));
}

#[test]
fn what_failed_is_run_again_with_what_was_skipped_behind_it() {
    let site = Site::start();
    let mended = Scratch::new("flow-replay");
    let mark = mended.path().join("mended");
    let program = format!("[ $FLOWFABRIC_KIND != broken ] || [ -e {} ]", mark.display());
    let _worker = site.worker(&KINDS, &["sh", "-c", &program]);
    let file =
        b"flow: x\ntasks: { split: {}, broken: { after: [split] }, join: { after: [broken] } }";
    let failed = site.run_with(file, &["flow", "submit", "-", "--wait", "--json"]);
    assert_eq!(failed.code, Some(3), "{failed:?}");
    let id = site.run(&["flow", "ls", "--json"]).json()[0]["flow_id"].clone();
    let id = id.as_str().expect("an id");
    std::fs::write(&mark, "").expect("written");
    let told = site.run(&["flow", "replay", "--failed", id, "--reason", "mended"]).text();
    assert_eq!(cells(&told), ["TASK | WHAT", "broken | runs again"]);
    let ended = site.run(&["flow", "show", id, "--wait"]).text();
    assert!(ended.contains("is completed\n3 completed"), "{ended}");
    let again = site.run(&["flow", "replay", "--failed", id]);
    assert!(again.stdout.is_empty() && again.stderr.contains("nothing of it has failed"));
    let json = site.run(&["flow", "replay", "--failed", id, "--json"]).json().remove(0);
    assert_eq!(json["replayed"], serde_json::json!([]));
    assert!(site.run(&["flow", "replay", id]).complaint(2).contains("--failed"));
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
