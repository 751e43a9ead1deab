//! Large payloads: what a server holds of them at a time, in a process that is measured.

use serde_json::json;

use crate::client::Client;
use crate::crash::ServerChild;
use crate::deployment::valkey;
use crate::server::on;
use crate::several::start_child;
use crate::suite::text;

const MIB: usize = 1 << 20;
const PAYLOADS: usize = 128;
const PAYLOAD_BYTES: usize = 4 * MIB;
/// What the claims may take the server, besides what it is itself.
const GROWTH_KIB_MAX: u64 = 64 * 1024;

/// A line of a process's status, in KiB.
fn status_kib(child: &ServerChild, name: &str) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", child.pid()));
    let status = status.expect("the process runs");
    let line = status.lines().find_map(|line| line.strip_prefix(name)).expect("a line");
    line.trim_matches([':', ' ', '\t']).trim_end_matches(" kB").parse().expect("a number")
}

fn submit_large(client: &Client) {
    let headers = [
        ("content-type", "application/octet-stream"),
        ("flowfabric-kind", "large"),
        ("flowfabric-lane", "large"),
    ];
    let payload = vec![7; PAYLOAD_BYTES];
    for _ in 0..PAYLOADS {
        client.send("POST", "/v1/executions", &headers, &payload).expect(201);
    }
}

#[test]
fn a_claim_of_many_large_payloads_takes_a_server_little_memory() {
    let valkey = valkey();
    let child = start_child(&valkey.url());
    // Another server takes them in: only claims are to be measured.
    let feeder = on(&valkey.url());
    submit_large(&feeder.client());
    let client = Client::new(child.address);
    client.get("/v1/deployment").expect(200);
    let before = status_kib(&child, "VmRSS");
    let mut claimed = 0;
    while claimed < PAYLOADS {
        let request = json!({
            "worker_id": "w", "worker_instance_id": "w-1", "lanes": ["large"], "count": PAYLOADS,
            "lease_ttl_ms": 600_000, "wait_ms": 10_000, "payload_text": false,
        });
        let tasks = client.post("/v1/claims", &request).expect(200).json();
        let tasks = tasks["tasks"].as_array().expect("tasks");
        assert!(!tasks.is_empty(), "{claimed} of {PAYLOADS} came");
        for task in tasks {
            assert_eq!(text(&task["payload_base64"]).len(), PAYLOAD_BYTES.div_ceil(3) * 4);
            assert_eq!(task["fence"]["lease_epoch"], 1, "claimed once");
        }
        claimed += tasks.len();
    }
    let grown = status_kib(&child, "VmHWM").saturating_sub(before);
    assert!(grown < GROWTH_KIB_MAX, "the claims took {grown} KiB");
}
