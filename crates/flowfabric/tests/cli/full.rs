//! A store at its memory limit: what adds work is refused and told so, and all else goes on, so
//! that the store drains by itself, also when servers and workers are restarted meanwhile.

use std::process::Command;

use ff_test_valkey::{Valkey, ValkeyOptions};
use serde_json::Value;

use crate::site::{Scratch, Site, run};

const MEMORY: &str = "12mb";
/// Gone as soon as it has ended, so that room comes back.
const SUBMISSION: &str = r#"{"kind":"fill","payload":"@","policy":{"retention_ms":0}}"#;

fn full_store() -> Valkey {
    let options = ValkeyOptions::default();
    let limit = ["--maxmemory", MEMORY, "--maxmemory-policy", "noeviction"];
    Valkey::start(options.with_args(&limit)).expect("valkey-server starts")
}

/// Submits one with a payload of 64 KiB by plain HTTP: the status, the headers and the answer.
fn submit(site: &Site) -> (u16, String, Value) {
    let body = SUBMISSION.replace('@', &"x".repeat(64 * 1024));
    let url = format!("{}/v1/executions", site.url);
    let curl = ["-s", "-i", "-H", "content-type: application/json", "-d", &body, &url];
    let answer = run(Command::new("curl").args(curl)).text().replace('\r', "");
    let (head, body) = answer.split_once("\n\n").expect("a head and a body");
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
    let json = serde_json::from_str(body).expect("JSON");
    (status.expect("a status"), head.to_ascii_lowercase(), json)
}

/// Submits until the store is full: how many it took.
fn fill(site: &Site) -> usize {
    for taken in 0..2000 {
        let (status, head, answer) = submit(site);
        if status != 201 {
            assert_eq!((status, &answer["code"]), (503, &Value::from("store_full")), "{answer}");
            assert!(head.contains("\nretry-after: "), "{head}");
            assert_eq!(answer["retryable"], true);
            return taken;
        }
    }
    panic!("{MEMORY} hold 2,000 payloads of 64 KiB");
}

#[test]
fn a_full_valkey_drains_although_everybody_is_restarted() {
    let valkey = full_store();
    fills_and_drains(&["--store", &valkey.url()]);
}

#[test]
fn a_full_store_in_a_directory_drains_although_everybody_is_restarted() {
    let directory = Scratch::new("full");
    let path = directory.path().display().to_string();
    fills_and_drains(&["--store", &path, "--memory-limit", MEMORY]);
}

fn fills_and_drains(store: &[&str]) {
    let site = Site::start_with(store);
    let taken = fill(&site);
    assert!(taken > 20, "{taken}");
    drop(site);
    // A new server opens the deployment, a new worker registers, claims and finishes.
    let site = Site::start_with(store);
    let mut worker = site.worker(&["--kind", "fill", "--concurrency", "4"], &["true"]);
    for _ in 0..taken {
        let finished = worker.event_named("completed");
        assert!(finished["execution_id"].is_string(), "{finished}");
    }
    let again = std::iter::repeat_with(|| submit(&site)).take(200).find(|(status, ..)| {
        std::thread::sleep(std::time::Duration::from_millis(100));
        *status == 201
    });
    assert!(again.is_some(), "room comes back by itself");
}
