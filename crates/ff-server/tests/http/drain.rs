//! Shutting down.

use std::thread;
use std::time::{Duration, Instant};

use ff_server::StoreConfig;
use serde_json::json;

use crate::client::Client;
use crate::server::{TestServer, config, embedded};
use crate::suite::{claim, claim_some, complete, path, state, submit};

fn wait_for_line(client: &Client, wanted: &str) {
    let deadline = Instant::now() + Duration::from_secs(10);
    loop {
        let text = String::from_utf8(client.get("/metrics").expect(200).body).expect("text");
        if text.lines().any(|line| line == wanted) {
            return;
        }
        assert!(Instant::now() < deadline, "{wanted} never came");
        thread::yield_now();
    }
}

#[test]
fn waiting_claims_are_answered_at_once_and_waiting_results_sent_elsewhere() {
    let server = embedded();
    let client = server.client();
    let id = submit(&client, &json!({"kind": "a", "lane": "never"}));
    let (one, other) = (client.another(), client.another());
    let claiming = thread::spawn(move || claim_some(&one, &["drain"], 1, 60_000));
    let asking = thread::spawn(move || other.get(&path(&id, "/result?wait_ms=60000")));
    wait_for_line(&client, "ff_http_waiting 2");
    let begun = Instant::now();
    assert!(server.shutdown(Duration::from_secs(20)), "everything was finished");
    let took = begun.elapsed();
    assert!(took < Duration::from_secs(5), "{took:?}");
    assert!(claiming.join().expect("no panic").is_empty());
    let answer = asking.join().expect("no panic");
    answer.problem(503, "draining");
    assert_eq!(answer.header("retry-after"), Some("1"));
    assert!(client.another().try_send("GET", "/healthz", &[], b"").is_err(), "nobody listens");
}

#[test]
fn requests_under_way_are_finished_and_nothing_acknowledged_is_lost() {
    let directory = tempfile::TempDir::new().expect("a directory");
    let store = StoreConfig::parse(&directory.path().display().to_string()).expect("a store");
    let server = TestServer::start(config(store.clone()));
    let submitting: Vec<_> = (0..4)
        .map(|_| {
            let client = server.client();
            thread::spawn(move || {
                let body = json!({"kind": "a", "lane": "drained"}).to_string();
                let json = [("content-type", "application/json")];
                let mut acknowledged = Vec::new();
                while let Ok(answer) =
                    client.try_send("POST", "/v1/executions", &json, body.as_bytes())
                {
                    assert_eq!(answer.status, 201);
                    acknowledged.push(answer.json()["execution_id"].clone());
                }
                acknowledged
            })
        })
        .collect();
    wait_for_some(&server.client());
    assert!(server.shutdown(Duration::from_secs(20)), "everything was finished");
    let acknowledged: Vec<_> =
        submitting.into_iter().flat_map(|thread| thread.join().expect("no panic")).collect();
    assert!(acknowledged.len() > 50, "{}", acknowledged.len());
    let server = TestServer::start(config(store));
    let client = server.client();
    for id in &acknowledged {
        let id = id.as_str().expect("an id");
        assert_eq!(state(&client, id), "waiting");
    }
    let task = claim(&client, "drained");
    complete(&client, &task, b"");
}

/// Until a few dozen were submitted.
fn wait_for_some(client: &Client) {
    let deadline = Instant::now() + Duration::from_secs(20);
    loop {
        let lanes = client.get("/v1/lanes").expect(200).json();
        if lanes["lanes"][0]["waiting"].as_u64().is_some_and(|waiting| waiting > 100) {
            return;
        }
        assert!(Instant::now() < deadline, "nothing is submitted");
    }
}
