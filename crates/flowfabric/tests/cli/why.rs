//! `why`: every answer as somebody meets it, and what a wait without a worker says.

use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};

use crate::site::{Site, run};

/// The word for why an execution does not run.
fn word(site: &Site, id: &str) -> String {
    let json = site.run(&["why", id, "--json"]).json().remove(0);
    json["why"]["reason"].as_str().expect("a word").to_owned()
}

/// What is said of an execution, and the word for it.
fn told(site: &Site, id: &str) -> (String, String) {
    let json = site.run(&["why", id, "--json"]).json().remove(0);
    let text = site.run(&["why", id]).text();
    assert!(text.contains(json["summary"].as_str().expect("a sentence")), "{text}");
    assert!(text.contains("since        20"), "{text}");
    (text, json["why"]["reason"].as_str().expect("a word").to_owned())
}

#[test]
fn what_waits_for_a_time_a_person_or_others_says_so() {
    let site = Site::start();
    let delayed = site.submit(&["mail", "--delay", "10m"]);
    let (text, word) = told(&site, &delayed);
    assert_eq!(word, "delayed");
    assert!(text.contains("until        20") && text.contains("(in 9m"), "{text}");
    let held = site.submit(&["mail"]);
    site.run(&["hold", &held, "--by", "mia", "--reason", "wrong amount"]).text();
    let (text, word) = told(&site, &held);
    assert_eq!(word, "held");
    assert!(text.contains("held by mia: wrong amount"), "{text}");
    assert!(text.contains(&format!("flowfabric release {held}")), "{text}");
    let missing = site.run(&["why", "0192f0aa-0000-7000-8000-000000000000"]).complaint(1);
    assert!(missing.contains("there is no execution"), "{missing}");
}

#[test]
fn what_nobody_can_take_names_what_is_missing() {
    let site = Site::start();
    let needs = r#"{"routing_requirements":{"required_capabilities":["cuda","gpu"]}}"#;
    let policy = ["render", "--policy", needs];
    let id = site.submit(&policy);
    let (text, _) = told(&site, &id);
    assert!(text.contains("no worker is connected"), "{text}");
    assert!(text.contains("to go on     flowfabric worker run --kind render -- PROGRAM"), "{text}");
    let _mail = site.worker(&["--kind", "mail", "--name", "mailer"], &["cat"]);
    crate::site::eventually(|| word(&site, &id) == "no_worker_for_kind");
    let (text, _) = told(&site, &id);
    assert!(
        text.contains("no worker serves render; 1 in lane default serves other kinds"),
        "{text}"
    );
    let gpu = ["--kind", "render", "--name", "half", "--capability", "gpu"];
    let _half = site.worker(&gpu, &["cat"]);
    crate::site::eventually(|| word(&site, &id) == "no_capable_worker");
    let (text, _) = told(&site, &id);
    assert!(text.contains("no worker can do all it requires (cuda,gpu)"), "{text}");
    assert!(text.contains("nearest      half") && text.contains("lacks cuda"), "{text}");
    let worker = "flowfabric worker run --kind render --capability cuda --capability gpu --";
    assert!(text.contains(worker), "{text}");
}

#[test]
fn what_is_suspended_names_the_signals_that_it_waits_for() {
    let site = Site::start();
    let id = site.submit(&["gate"]);
    let wait = r#"echo '{"condition":{"type":"any","signals":["it is paid","void"]}}' \
        >"$FLOWFABRIC_SUSPEND"; exit 80"#;
    let _gate = site.worker(&["--kind", "gate"], &["sh", "-c", wait]);
    site.until(&id, "suspended");
    let (text, word) = told(&site, &id);
    assert_eq!(word, "suspended");
    assert!(text.contains("waiting for signal (it is paid, void)"), "{text}");
    assert!(text.contains("0 signals so far"), "{text}");
    assert!(text.contains(&format!("flowfabric signal {id} 'it is paid'")), "{text}");
}

#[test]
fn what_is_queued_runs_or_is_over_says_where_and_how() {
    let site = Site::start();
    let first = site.submit(&["slow"]);
    let worker = site.worker(&["--kind", "slow", "--name", "mia"], &["sleep", "60"]);
    site.until(&first, "active");
    let (text, word) = told(&site, &first);
    assert_eq!(word, "running");
    assert!(text.contains("runs on mia") && text.contains("lease        20"), "{text}");
    let second = site.submit(&["slow"]);
    let third = site.submit(&["slow"]);
    let (text, word) = told(&site, &third);
    assert_eq!(word, "queued");
    assert!(text.contains("about 1 ahead, 1 worker can take it"), "{text}");
    site.run(&["cancel", &second, "--reason", "a mistake"]).text();
    let (text, word) = told(&site, &second);
    assert_eq!(word, "ended");
    assert!(text.contains("cancelled: a mistake"), "{text}");
    drop(worker);
}

#[test]
fn a_wait_for_what_nobody_serves_says_so() {
    let site = Site::start();
    let waited = site.run(&["submit", "render", "--wait=4s"]);
    let said = waited.complaint(4);
    assert!(said.contains("no worker is connected; still waiting"), "{said}");
    let many = ["submit", "render", "--lines", "--wait=5s"];
    let said = site.run_with(b"ada\ngrace\nlinus\n", &many).complaint(4);
    assert_eq!(said.matches("no worker is connected; still waiting").count(), 1, "{said}");
}

#[test]
fn a_wait_for_a_flow_names_the_task_that_nobody_serves() {
    let site = Site::start();
    let flow = site.run_with(b"flow: x\ntasks: { a: { kind: render } }", &["flow", "submit", "-"]);
    let flow = flow.text();
    let mut command = site.command(&["flow", "show", &flow, "--wait"]);
    let mut waiting = command.stderr(Stdio::piped()).spawn().expect("a wait");
    let mut told = BufReader::new(waiting.stderr.take().expect("standard error")).lines();
    let mut line = || told.next().expect("a line").expect("text");
    assert_eq!(line(), "task a: no worker is connected; still waiting");
    let interrupt = format!("kill -INT {}", waiting.id());
    run(Command::new("sh").args(["-c", &interrupt])).text();
    let goes_on = format!("flow {flow} goes on; come back to it with");
    assert!(line().contains(&goes_on), "{goes_on}");
    assert_eq!(waiting.wait().expect("an end").code(), Some(130));
}

#[test]
fn a_wait_in_a_paused_lane_says_so() {
    let site = Site::start();
    site.run(&["lane", "pause", "slow"]).text();
    let said = site.run(&["submit", "render", "--lane", "slow", "--wait=4s"]).complaint(4);
    assert!(said.contains("lane slow is paused; still waiting"), "{said}");
}

#[test]
fn get_says_that_nobody_serves_a_kind() {
    let site = Site::start();
    let id = site.submit(&["render"]);
    let text = site.run(&["get", &id]).text();
    assert!(text.contains("but          no worker is connected"), "{text}");
    let json = site.run(&["get", &id, "--json"]).json().remove(0);
    assert_eq!(json["without_worker"], "no worker is connected");
    let delayed = site.submit(&["render", "--delay", "1h"]);
    assert!(!site.run(&["get", &delayed]).text().contains("no worker"));
}
