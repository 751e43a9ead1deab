//! Large payloads: what a server holds of them at a time, in a process that is measured.

use std::sync::Arc;

use ff_backend_valkey::{ValkeyConfig, ValkeyHost};
use ff_core::contracts::CreateExecution;
use ff_core::engine_backend::roles::*;
use ff_core::partition::{Partition, PartitionConfig};
use ff_core::types::{ExecutionId, ExecutionKind, LaneId};
use ff_script::backend::ScriptBackend;
use ff_script::ids::{IdSource, SystemIds};
use ff_script::library::Library;
use serde_json::json;

use crate::client::Client;
use crate::crash::ServerChild;
use crate::deployment::valkey;
use crate::server::PARTITIONS;
use crate::several::start_child;
use crate::suite::text;

const MIB: usize = 1 << 20;
const PAYLOADS: u16 = 128;
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

/// Straight into the store: only claims are to be measured.
fn submit_large(url: &str) {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    runtime.block_on(async {
        let partitions =
            PartitionConfig { num_flow_partitions: PARTITIONS, ..PartitionConfig::default() };
        let host = ValkeyConfig::parse(url).expect("a URL");
        let host = ValkeyHost::connect(host, Library::current()).await.expect("connects");
        let backend = ScriptBackend::open(Arc::new(host), partitions).await.expect("opens");
        for number in 0..PAYLOADS {
            let partition = Partition::flow(number % PARTITIONS);
            backend.create(large(partition)).await.expect("created");
        }
    });
}

fn large(partition: Partition) -> CreateExecution {
    CreateExecution {
        lane: Some(LaneId::try_new("large").expect("valid")),
        ..CreateExecution::new(ExecutionKind::try_new("large").expect("valid"))
            .with_id(ExecutionId::from_parts(partition, SystemIds.ordered()))
            .with_payload(vec![7; PAYLOAD_BYTES])
    }
}

#[test]
fn a_claim_of_many_large_payloads_takes_a_server_little_memory() {
    let valkey = valkey();
    let child = start_child(&valkey.url());
    submit_large(&valkey.url());
    let client = Client::new(child.address);
    client.get("/v1/deployment").expect(200);
    let before = status_kib(&child, "VmRSS");
    // The first one meets a server that knows nothing of sizes, the others one that does.
    for _ in 0..4 {
        let request = json!({
            "worker_id": "w", "worker_instance_id": "w-1", "lanes": ["large"], "count": PAYLOADS,
            "lease_ttl_ms": 600_000, "wait_ms": 10_000, "payload_text": false,
        });
        let tasks = client.post("/v1/claims", &request).expect(200).json();
        let tasks = tasks["tasks"].as_array().expect("tasks");
        assert!(!tasks.is_empty());
        for task in tasks {
            assert_eq!(text(&task["payload_base64"]).len(), PAYLOAD_BYTES.div_ceil(3) * 4);
            assert_eq!(task["fence"]["lease_epoch"], 1, "claimed once");
        }
    }
    let grown = status_kib(&child, "VmHWM").saturating_sub(before);
    assert!(grown < GROWTH_KIB_MAX, "the claims took {grown} KiB");
}
