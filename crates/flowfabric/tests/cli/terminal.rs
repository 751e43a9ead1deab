//! What only a person at a terminal sees and does.

use std::io::Write;
use std::process::{Command, Stdio};

use serde_json::json;

use crate::approve::ask;
use crate::site::Site;

/// Runs a command of the shell on a terminal where somebody types, and answers all that the
/// terminal was sent.
pub(crate) fn run(url: &str, line: &str, typed: &str) -> String {
    let line = format!("{} {line}", env!("CARGO_BIN_EXE_flowfabric"));
    let mut script = Command::new("script");
    script.args(["-qec", &line, "/dev/null"]).env("FLOWFABRIC_URL", url);
    if !typed.is_empty() {
        script.stdin(Stdio::piped());
    }
    let mut child = script.stdout(Stdio::piped()).spawn().expect("it starts");
    // The keyboard stays there for as long as the terminal does.
    let mut keyboard = child.stdin.take();
    if let Some(keyboard) = &mut keyboard {
        keyboard.write_all(typed.as_bytes()).expect("it is typed");
        keyboard.flush().expect("it is typed");
    }
    let output = child.wait_with_output().expect("it ends");
    drop(keyboard);
    String::from_utf8(output.stdout).expect("text")
}

#[test]
fn an_approver_picks_one_of_several_choices() {
    let site = Site::start();
    let choices = json!([{"signal": "now", "label": "At once"}, {"signal": "later"}]);
    let approval = json!({"question": "When?", "choices": choices, "approvers": ["ann"]});
    let id = ask(&site, "a", &approval);
    let nothing = run(&site.url, &format!("approve {id}"), "7\n");
    assert!(nothing.contains("nothing was decided"), "{nothing:?}");
    let seen = run(&site.url, &format!("approve {id}"), "2\n");
    for part in ["When?", "  1  At once", "  2  later", "Which one?", "ann decided later at "] {
        assert!(seen.contains(part), "{part}: {seen:?}");
    }
}

#[test]
fn what_a_program_puts_out_cannot_move_the_cursor() {
    let site = Site::start();
    let _worker = site.worker(&["--kind", "k"], &["sh", "-c", r"printf '\033[2Jtext\n' >&2"]);
    let id = site.submit(&["k"]);
    site.until(&id, "completed");
    let tail = |more: &str| run(&site.url, &format!("tail --from-start {more} {id}"), "");
    for seen in [tail(""), tail("--lines")] {
        assert!(seen.contains("[2Jtext") && !seen.contains('\x1b'), "{seen:?}");
    }
    assert!(tail("--raw").contains("\x1b[2Jtext"));
}

#[test]
fn neither_can_a_document_that_it_keeps() {
    let site = Site::start();
    let policy = json!({"stream_policy": {"durability_mode": "summary"}});
    let body = json!({"kind": "k", "lane": "sums", "policy": policy});
    let id = site.post("/v1/executions", &body.to_string())["execution_id"].clone();
    let claim = json!({"worker_id": "w", "worker_instance_id": "w-1", "lanes": ["sums"],
        "lease_ttl_ms": 30_000, "wait_ms": 10_000});
    let token = site.post("/v1/claims", &claim.to_string())["tasks"][0]["task_token"].clone();
    let patch = json!({"title": "a\u{9b}2Jb"}).to_string();
    let frames = json!({"task_token": token, "first_sequence": 1,
        "frames": [{"payload_text": patch}]});
    site.post("/v1/tasks/frames", &frames.to_string());
    let id = id.as_str().expect("an id").to_owned();
    site.run(&["cancel", &id]).text();
    let tail = |more: &str| run(&site.url, &format!("tail --from-start {more} '{id}'"), "");
    for (seen, shown) in [(tail(""), "a2Jb"), (tail("--lines"), "a 2Jb")] {
        assert!(seen.contains(shown) && !seen.contains('\u{9b}'), "{seen:?}");
    }
    assert!(tail("--raw").contains("a\u{9b}2Jb"));
}

#[test]
fn the_reader_of_the_demo_approves_with_enter() {
    let seen = run("", "demo", "\n");
    assert!(seen.contains("press Enter"), "{seen:?}");
    assert!(seen.contains("it is approved by you"), "{seen:?}");
}
