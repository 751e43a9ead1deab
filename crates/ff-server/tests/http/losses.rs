//! A Valkey that loses what it acknowledged, or may.

use std::time::{Duration, Instant};

use ff_backend_valkey::Durability;
use ff_server::StoreConfig;
use ff_test_valkey::{Link, Reply, Valkey, ValkeyOptions};
use serde_json::json;

use crate::client::Client;
use crate::server::{TestServer, config, on};
use crate::suite::{state, submit};

fn start(append_only: bool) -> Valkey {
    let append_fsync = append_only.then(|| "everysec".to_owned());
    let options = ValkeyOptions { append_only, append_fsync, ..ValkeyOptions::default() };
    Valkey::start(options).expect("valkey starts")
}

fn metric(client: &Client, name: &str) -> String {
    let text = String::from_utf8(client.get("/metrics").expect(200).body).expect("text");
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line.unwrap_or_else(|| panic!("{name} is not in {text}")).to_owned()
}

#[test]
fn lost_work_is_told_by_readyz_and_metrics_and_the_server_goes_on() {
    let mut valkey = start(false);
    let server = on(&valkey.url());
    let client = server.client();
    assert!(server.running().banner().contains("on disk     nothing"));
    assert_eq!(metric(&client, "ff_store_durable"), "0");
    assert_eq!(metric(&client, "ff_store_losses_total"), "0");
    submit(&client, &json!({"kind": "a", "lane": "doomed"}));
    // Once there is a mark of it, the submission cannot be lost unnoticed.
    let deadline = Instant::now() + Duration::from_secs(20);
    while valkey.command(&["KEYS", "ff:*:marks"]).expect("an answer") == Reply::List(Vec::new()) {
        assert!(Instant::now() < deadline, "there is no mark");
    }
    valkey.kill9().expect("killed");
    valkey.restart().expect("restarted");
    let warning = loop {
        assert!(Instant::now() < deadline, "the loss was not told");
        let answer = client.get("/readyz");
        if answer.status == 200 && answer.json()["warnings"].is_array() {
            break answer.json()["warnings"][0].to_string();
        }
    };
    assert!(warning.contains("has lost acknowledged work"), "{warning}");
    assert!(!warning.contains("127.0.0.1"), "anybody may read it: {warning}");
    assert_eq!(metric(&client, "ff_store_losses_total"), "1");
    let id = submit(&client, &json!({"kind": "a", "lane": "doomed"}));
    assert_eq!(state(&client, &id), "waiting");
}

#[test]
fn a_server_that_requires_durability_says_what_valkey_lacks() {
    let required = |valkey: &Valkey| {
        let store = StoreConfig::parse(&valkey.url()).and_then(StoreConfig::require_durable);
        TestServer::try_start(config(store.expect("a store")))
    };
    let refused = required(&start(false)).err().expect("nothing is kept").to_string();
    assert!(refused.contains("CONFIG SET appendonly yes"), "{refused}");
    let valkey = start(true);
    let server = required(&valkey).expect("it keeps a file");
    assert!(server.running().banner().contains("on disk     append-only file"));
    assert_eq!(metric(&server.client(), "ff_store_durable"), "1");
}

#[test]
fn what_no_replica_confirms_is_never_told_as_done() {
    let valkey = start(false);
    let link = Link::to(valkey.port()).expect("a port is free");
    let replica = Valkey::start_replica(&valkey, link.port(), ValkeyOptions::default());
    let _replica = replica.expect("it follows");
    let store = StoreConfig::parse(&valkey.url())
        .and_then(|store| store.with_durability(Durability::Replica))
        .expect("a store");
    let server = TestServer::start(config(store));
    assert!(server.running().banner().contains("when a replica has it"));
    let client = server.client();
    let new = json!({"kind": "a", "execution_id": submit(&client, &json!({"kind": "a"}))});
    assert_eq!(client.get("/readyz").status, 200);
    link.hold();
    let refused = client.post("/v1/executions", &new).expect(503).json();
    assert!(["not_replicated", "resource"].contains(&refused["code"].as_str().expect("a code")));
    assert_eq!(refused["retryable"], true, "{refused}");
    let unready = client.get("/readyz").expect(503).json();
    assert!(!unready.to_string().contains("127.0.0.1"), "anybody may read it: {unready}");
    link.release();
    let deadline = Instant::now() + Duration::from_secs(20);
    while client.post("/v1/executions", &new).status >= 500 {
        assert!(Instant::now() < deadline, "it is not confirmed");
    }
    while client.get("/readyz").status != 200 {
        assert!(Instant::now() < deadline, "it does not recover");
    }
}
