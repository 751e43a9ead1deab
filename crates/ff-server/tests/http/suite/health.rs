//! Health, numbers, and what the deployment says about itself.

use serde_json::json;

use super::{claim, complete, submit, text};
use crate::client::Client;
use crate::server::PARTITIONS;

pub(crate) fn health_readiness_and_metrics_answer(client: &Client) {
    assert_eq!(client.get("/healthz").expect(200).json(), json!({"status": "ok"}));
    assert_eq!(client.get("/readyz").expect(200).json(), json!({"status": "ok"}));
    submit(client, &json!({"kind": "metered", "lane": "metered"}));
    complete(client, &claim(client, "metered"), b"");
    submit(client, &json!({"kind": "metered", "lane": "metered"}));
    submit(client, &json!({"kind": "metered", "lane": "metered", "delay_ms": 3_600_000}));
    client.get("/v1/executions/nonsense").expect(400);
    client.get("/nowhere").expect(404);
    let metrics = client.get("/metrics").expect(200);
    assert_eq!(metrics.header("content-type"), Some("text/plain; version=0.0.4"));
    let lines = String::from_utf8(metrics.body).expect("text");
    let has =
        |start: &str| assert!(lines.lines().any(|l| l.starts_with(start)), "{start}\n{lines}");
    has("ff_build_info{version=\"");
    has("ff_http_requests_total{method=\"POST\",route=\"/v1/executions\",status=\"201\"} ");
    has("ff_http_requests_total{method=\"unknown\",route=\"unknown\",status=\"404\"} ");
    has("ff_http_request_duration_seconds_bucket{method=\"POST\",route=\"/v1/claims\"");
    has("ff_http_connections 1");
    has("ff_claims_total ");
    has("ff_claimed_total{lane=\"metered\"} 1");
    has("ff_attempt_outcome_total{lane=\"metered\",outcome=\"completed\"} 1");
    has("ff_lease_renewal_total{outcome=\"ok\"} ");
    has("ff_lease_losses_total{code=\"stale_lease\"} ");
    has("ff_reclaims_total ");
    has("ff_problems_total{code=\"invalid_input\"} ");
    has("ff_store_errors_total{kind=\"transport\"} 0");
    has("ff_engine_ticks_total ");
    has("ff_queue_depth{lane=\"metered\"} 1");
    has("ff_queue_head_age_seconds{lane=\"metered\"} ");
    has("ff_need_depth{lane=\"metered\",need=\"default:metered\"} 1");
    has("ff_need_head_age_seconds{lane=\"metered\",need=\"default:metered\"} ");
    has("ff_attempts_total{kind=\"metered\",outcome=\"completed\"} 1");
    has("ff_wait_seconds_bucket{kind=\"metered\",le=\"+Inf\"} 1");
    has("ff_run_seconds_count{kind=\"metered\"} 1");
    has("ff_executions{state=\"delayed\"} ");
    has("ff_executions{state=\"active\"} ");
    has("ff_executions{state=\"failed\"} ");
    has("ff_executions_by_kind{kind=\"metered\",state=\"waiting\"} 1");
    has("ff_executions_by_kind{kind=\"metered\",state=\"delayed\"} 1");
    has("ff_executions_by_kind{kind=\"metered\",state=\"completed\"} 1");
    has("ff_unserved_executions{kind=\"metered\"} 0");
    has("ff_workers ");
    has("process_cpu_seconds_total ");
    has("process_resident_memory_bytes ");
    has("process_open_fds ");
}

/// A number of the process that has no labels.
fn number(client: &Client, name: &str) -> u64 {
    let metrics = String::from_utf8(client.get("/metrics").expect(200).body).expect("text");
    let line = metrics.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line.expect("the number is there").parse().expect("a whole number")
}

pub(crate) fn a_worker_that_is_full_is_counted(client: &Client) {
    let before = number(client, "ff_worker_at_capacity_total");
    let registration = json!({
        "worker_id": "full", "worker_instance_id": "full-1", "lanes": ["full"],
        "capacity": 2, "running": 0, "ttl_ms": 60_000,
    });
    let registered = client.post("/v1/workers", &registration).expect(201).json();
    let beat = |running: u64| {
        let beat = json!({
            "session": registered["session"], "ttl_ms": 60_000, "running": running,
        });
        client.post("/v1/workers/full-1/heartbeat", &beat).expect(200);
        number(client, "ff_worker_at_capacity_total")
    };
    assert_eq!(beat(1), before, "it has room");
    assert_eq!(beat(2), before + 1);
}

pub(crate) fn lanes_events_and_the_deployment_can_be_read(client: &Client) {
    let id = submit(client, &json!({"kind": "job", "lane": "shown"}));
    let deployment = client.get("/v1/deployment").expect(200).json();
    assert_eq!(deployment["partitions"]["num_flow_partitions"], PARTITIONS);
    let store = text(&deployment["store"]);
    assert!(["embedded", "valkey", "valkey-cluster"].contains(&store.as_str()), "{store}");
    let counts = client.get("/v1/stats").expect(200).json();
    let known = ["waiting", "active", "completed", "failed", "cancelled", "expired", "skipped"];
    let sum: u64 = known.iter().map(|state| counts[state].as_u64().expect("a number")).sum();
    assert!(sum > 0 && counts["total"] == sum, "{counts}");
    let kinds = client.get("/v1/stats/kinds").expect(200).json();
    let counted = kinds["counts"].as_array().expect("counts").iter();
    let of_kinds: u64 = counted.filter_map(|one| one["count"].as_u64()).sum();
    assert!(kinds["exact"] == true && of_kinds == sum, "{kinds} of {counts}");
    let lanes = client.get("/v1/lanes?limit=1000").expect(200).json();
    let shown = |lanes: &serde_json::Value| {
        let lanes = lanes["lanes"].as_array().expect("a list");
        lanes.iter().find(|lane| lane["lane"] == "shown").cloned().expect("the lane")
    };
    assert_eq!(shown(&lanes)["waiting"], 1);
    let partition = id.trim_start_matches("{fp:").split('}').next().expect("an index").to_owned();
    let query = format!("/v1/lanes?limit=1000&partition={partition}");
    assert_eq!(shown(&client.get(&query).expect(200).json())["waiting"], 1);
    let (mut after, mut found) = (String::new(), false);
    loop {
        let query = format!("/v1/events?partition={partition}&limit=1000{after}");
        let page = client.get(&query).expect(200).json();
        let events = page["events"].as_array().expect("a list").clone();
        found |= events.iter().any(|event| event["execution_id"] == json!(id));
        if events.is_empty() {
            break;
        }
        after = format!("&after={}", text(&page["next_cursor"]));
    }
    assert!(found, "the submission is in its partition's log");
    for (query, field) in [
        ("/v1/events", "partition"),
        ("/v1/events?partition=9999", "partition"),
        ("/v1/events?partition=0&limit=0", "limit"),
        ("/v1/events?partition=0&after=nonsense", "after"),
        ("/v1/lanes?limit=1001", "limit"),
        ("/v1/lanes?partition=9999", "partition"),
        ("/v1/lanes?cursor=%7B", "cursor"),
        ("/v1/executions?partition=9999", "partition"),
    ] {
        let problem = client.get(query).problem(400, "invalid_input");
        assert!(problem.to_string().contains(field), "{query}: {problem}");
    }
}
