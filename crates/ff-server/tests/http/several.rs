//! Several servers on one Valkey, and a Valkey that goes away.

use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::json;

use crate::client::Client;
use crate::crash::{ServerChild, child_command};
use crate::deployment::valkey;
use crate::server::on;
use crate::suite::{claim, claim_some, complete, path, state, submit, text, token};

pub(crate) fn start_child(url: &str) -> ServerChild {
    let mut command: Command = child_command(url);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let child: Child = command.spawn().expect("the child starts");
    ServerChild::await_address(child)
}

#[test]
fn one_of_two_servers_is_killed_and_the_other_goes_on() {
    let valkey = valkey();
    let mut first = start_child(&valkey.url());
    let second = on(&valkey.url());
    let (one, other) = (Client::new(first.address), second.client());
    // Work submitted at one is found at the other, by push.
    assert!(claim_some(&other, &["pair"], 1, 0).is_empty());
    let id = submit(&one, &json!({"kind": "a", "lane": "pair"}));
    let task = claim(&other, "pair");
    assert_eq!(task["execution_id"], json!(id));
    complete(&one, &task, b"either server");
    assert_eq!(other.get(&path(&id, "/result")).expect(200).body, b"either server");

    // A task claimed at the first, a delay and a retry set there, then it dies.
    let ids: Vec<String> =
        (0..20).map(|_| submit(&one, &json!({"kind": "a", "lane": "pair"}))).collect();
    let delayed = submit(&one, &json!({"kind": "a", "lane": "pair", "delay_ms": 1500}));
    let request = json!({
        "worker_id": "doomed", "worker_instance_id": "doomed-1", "lanes": ["pair"],
        "lease_ttl_ms": 1000, "wait_ms": 5000,
    });
    let held = one.post("/v1/claims", &request).expect(200).json()["tasks"][0].clone();
    first.kill9();
    let late = other.post("/v1/tasks/renew", &json!({"task_token": token(&held)}));
    assert!(late.status == 200 || late.status == 409, "the lease is not the server's");
    let mut left: std::collections::BTreeSet<String> = ids.into_iter().chain([delayed]).collect();
    let deadline = Instant::now() + Duration::from_secs(30);
    while !left.is_empty() {
        assert!(Instant::now() < deadline, "{} never came", left.len());
        for task in claim_some(&other, &["pair"], 16, 1000) {
            complete(&other, &task, b"done");
            let id = text(&task["execution_id"]);
            assert_eq!(state(&other, &id), "completed");
            left.remove(&id);
        }
    }
}

/// How many partitions a server's engine looks after.
fn share(client: &Client) -> u64 {
    let metrics = client.get("/metrics").expect(200);
    let text = String::from_utf8_lossy(&metrics.body).into_owned();
    let line = text.lines().find_map(|line| line.strip_prefix("ff_engine_partitions "));
    line.and_then(|count| count.parse().ok()).expect("a number of partitions")
}

#[test]
fn two_servers_share_the_partitions_and_the_timers_of_a_killed_one_fire() {
    let valkey = valkey();
    let mut first = start_child(&valkey.url());
    let second = on(&valkey.url());
    let (one, other) = (Client::new(first.address), second.client());
    let all = share(&one).max(share(&other));
    let deadline = Instant::now() + Duration::from_secs(20);
    while share(&one) + share(&other) != all {
        assert!(Instant::now() < deadline, "both still tick everything");
    }
    // They know each other by the registry of workers, which shows workers only.
    assert_eq!(one.get("/v1/workers").expect(200).json(), json!({"workers": []}));
    let impostor = json!({
        "worker_id": "flowfabric-engine", "worker_instance_id": "x", "lanes": [], "ttl_ms": 1000,
    });
    let problem = one.post("/v1/workers", &impostor).problem(400, "invalid_input");
    assert_eq!(problem["field"], "worker_id");
    let delayed = json!({"kind": "a", "lane": "timers", "delay_ms": 500});
    let ids: Vec<String> = (0..100).map(|_| submit(&one, &delayed)).collect();
    first.kill9();
    let deadline = Instant::now() + Duration::from_secs(15);
    for id in ids {
        while state(&other, &id) != "waiting" {
            assert!(Instant::now() < deadline, "the timer of {id} never fires");
        }
    }
}

#[test]
fn a_server_without_its_store_says_so_and_recovers() {
    let mut valkey = ff_test_valkey::Valkey::start(ff_test_valkey::ValkeyOptions {
        append_only: true,
        append_fsync: Some("always".to_owned()),
        ..Default::default()
    })
    .expect("valkey starts");
    let server = on(&valkey.url());
    let client = server.client();
    let id = submit(&client, &json!({"kind": "a", "lane": "outage"}));
    client.get("/readyz").expect(200);
    valkey.kill9().expect("killed");
    let answer = client.get(&path(&id, ""));
    assert!(matches!(answer.status, 503 | 504), "{answer:?}");
    let problem = answer.json();
    assert_eq!(problem["retryable"], true, "{problem}");
    assert!(answer.header("retry-after").is_some());
    client.get("/healthz").expect(200);
    let deadline = Instant::now() + Duration::from_secs(20);
    while client.get("/readyz").status != 503 {
        assert!(Instant::now() < deadline, "the server still claims to be ready");
    }
    valkey.restart().expect("restarted");
    while client.get("/readyz").status != 200 {
        assert!(Instant::now() < deadline, "the server never became ready again");
    }
    assert_eq!(state(&client, &id), "waiting");
    let task = claim(&client, "outage");
    complete(&client, &task, b"");
}
