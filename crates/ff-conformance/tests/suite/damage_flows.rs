//! Flows and edges that somebody wrote around the library: every function has an answer, and what
//! is whole goes on.

use ff_conformance::record::key_of;
use ff_conformance::{Deployment, Flow, LANE, conformance};
use ff_core::types::{EdgeId, ExecutionId};
use ff_script::calls::edge::{
    EvaluateFlowEligibility, PromoteBlockedToEligible, ResolveDependency, StageDependencyEdge,
};
use ff_script::calls::flow::{SealFlow, SetFlowTags};
use ff_script::calls::flow_cancel::{AckCancelMember, ReadCancelReceipt, RetryStuckMembers};
use ff_script::calls::flow_events::ReadFlowEvents;
use ff_script::calls::flow_reads::{
    DescribeEdge, DescribeFlow, ListEdges, ListFlows, ListMembers, ReadGraph,
};
use ff_script::calls::inputs::ReadInputs;
use ff_script::wire::Rest;

use super::edge::applied;
use super::scenario::encode;

/// What nobody would store.
const NONSENSE: [&str; 9] = ["", "x", "-1", "1.5", "1e9", ":", "::::::", "cancel:x", "zz:7"];

async fn plant(d: &Deployment, words: &[&[u8]]) {
    d.host().exec(d.home(), words).await.expect("a command that every host has");
}

fn flow_key(d: &Deployment, flow: &Flow, suffix: &str) -> Vec<u8> {
    format!("{}:f:{}{suffix}", d.home().key(), flow.id).into_bytes()
}

/// A flow in which something waits, something runs, and an edge is staged; its edges' ids.
async fn busy(d: &Deployment) -> (Flow, EdgeId, EdgeId) {
    let flow = d.open_flow("a b c e").await;
    let applied = d.connect(&flow, "a", "b").await;
    let edge = d.edge(&flow, "a", "c");
    let staged = edge.edge_id;
    d.call(StageDependencyEdge(edge)).await;
    (flow, applied, staged)
}

async fn answer(d: &Deployment, name: &str, args: Vec<Vec<u8>>) {
    let args: Vec<&[u8]> = args.iter().map(Vec::as_slice).collect();
    d.raw(name, &args).await;
}

/// Every function that has to do with flows, whatever it answers.
async fn call_all(d: &Deployment, flow: &Flow, (applied_id, staged_id): (EdgeId, EdgeId)) {
    let flow_id = flow.id;
    let id = |name: &str| flow.id(name);
    answer(d, "ff_describe_flow", encode(&DescribeFlow { flow_id })).await;
    let edge = DescribeEdge { flow_id, edge_id: applied_id };
    answer(d, "ff_describe_edge", encode(&edge)).await;
    let members = ListMembers { flow_id, state: None, from: 0, limit: 10 };
    answer(d, "ff_list_members", encode(&members)).await;
    let graph = ReadGraph { flow_id, cursor: None, limit: 10 };
    answer(d, "ff_read_graph", encode(&graph)).await;
    answer(d, "ff_list_flows", encode(&ListFlows { after: None, limit: 10, owing: false })).await;
    for name in ["a", "b"] {
        let inputs = ReadInputs { execution_id: id(name), from: 0, bytes_max: 100 };
        answer(d, "ff_read_inputs", encode(&inputs)).await;
    }
    let events = ReadFlowEvents { flow_id, cursor: String::new(), limit: 10, seek: false };
    answer(d, "ff_read_flow_events", encode(&events)).await;
    for (name, direction) in [("a", "outgoing"), ("b", "incoming")] {
        let direction = direction.to_owned();
        let edges = ListEdges { execution_id: id(name), direction, from: 0, limit: 10 };
        answer(d, "ff_list_edges", encode(&edges)).await;
    }
    let pairs = Rest(vec!["a.b".to_owned(), "c".to_owned()]);
    answer(d, "ff_set_flow_tags", encode(&SetFlowTags { flow_id, pairs })).await;
    answer(d, "ff_apply_dependency_to_child", encode(&applied(flow, staged_id, "c"))).await;
    answer(d, "ff_add_dependency", encode(&d.edge(flow, "b", "e"))).await;
    answer(d, "ff_add_dependency", encode(&d.edge(flow, "e", "a"))).await;
    for name in ["b", "c"] {
        let execution_id = id(name);
        let call = EvaluateFlowEligibility { execution_id };
        answer(d, "ff_evaluate_flow_eligibility", encode(&call)).await;
        let call = PromoteBlockedToEligible { execution_id };
        answer(d, "ff_promote_blocked_to_eligible", encode(&call)).await;
    }
    while let Some(held) = d.try_claim(LANE).await {
        answer(d, "ff_complete_execution", encode(&held.complete(b"done"))).await;
    }
    let resolve = ResolveDependency { flow_id, edge_id: applied_id };
    answer(d, "ff_resolve_dependency", encode(&resolve)).await;
    answer(d, "ff_seal_flow", encode(&SealFlow { flow_id })).await;
    d.tick().await;
    answer(d, "ff_cancel_flow", encode(&d.cancelling(flow, "cancel_all"))).await;
    let receipt = ReadCancelReceipt { flow_id, fate: None, from: 0, limit: 10 };
    answer(d, "ff_read_cancel_receipt", encode(&receipt)).await;
    let retry = RetryStuckMembers { flow_id, from: 0 };
    answer(d, "ff_retry_stuck_members", encode(&retry)).await;
    let ack = AckCancelMember { flow_id, execution_id: id("a") };
    answer(d, "ff_ack_cancel_member", encode(&ack)).await;
    for _ in 0..4 {
        d.tick().await;
        d.advance(90_000_000).await;
    }
}

async fn sweep(d: &Deployment, damage: impl AsyncFn(&Flow)) {
    let (flow, applied, staged) = busy(d).await;
    damage(&flow).await;
    call_all(d, &flow, (applied, staged)).await;
    d.host().clear(&d.partitions).await;
    d.set_time(d.now().get()).await;
}

async fn plant_field(d: &Deployment, id: ExecutionId, field: &str, value: &str) {
    plant(d, &[b"HSET", &key_of(id, ""), field.as_bytes(), value.as_bytes()]).await;
}

conformance! {
    async fn a_flow_with_a_damaged_field_stops_nobody(d: &Deployment) {
        d.host().watch(false);
        for field in ["created_at", "changed_at", "revision", "nodes", "edges", "graph", "sealed",
            "n:waiting", "n:blocked", "n:running", "n:success", "live", "bad", "on_failure",
            "failing", "state", "cancelled_at", "cancel_policy", "started_at", "ended_at",
            "deadline_at", "retention_ms", "expired", "walk", "stuck"] {
            for value in NONSENSE {
                sweep(d, async |flow| {
                    let key = flow_key(d, flow, "");
                    plant(d, &[b"HSET", &key, field.as_bytes(), value.as_bytes()]).await;
                }).await;
            }
        }
    }

    async fn a_member_with_a_damaged_field_stops_nobody(d: &Deployment) {
        d.host().watch(false);
        for name in ["a", "b"] {
            for field in ["fl", "nm", "on", "op", "hd", "dp", "rk", "eo", "er", "ic", "cn", "pa",
                "kp"] {
                for value in NONSENSE {
                    sweep(d, async |flow| plant_field(d, flow.id(name), field, value).await).await;
                }
            }
        }
    }

    async fn edges_that_cannot_be_read_stop_nobody(d: &Deployment) {
        d.host().watch(false);
        for value in NONSENSE {
            sweep(d, async |flow| {
                for (name, list) in [("a", ":out"), ("b", ":in")] {
                    let key = key_of(flow.id(name), list);
                    plant(d, &[b"LSET", &key, b"0", value.as_bytes()]).await;
                }
            }).await;
            sweep(d, async |flow| {
                let key = key_of(flow.id("a"), ":inputs");
                plant(d, &[b"RPUSH", &key, value.as_bytes()]).await;
                plant_field(d, flow.id("a"), "ic", "1").await;
            }).await;
        }
    }

    async fn what_is_missing_stops_nobody(d: &Deployment) {
        d.host().watch(false);
        for suffix in ["", ":m", ":e"] {
            sweep(d, async |flow| plant(d, &[b"DEL", &flow_key(d, flow, suffix)]).await).await;
        }
        for name in ["a", "b", "c"] {
            for suffix in ["", ":out", ":in"] {
                sweep(d, async |flow| {
                    plant(d, &[b"DEL", &key_of(flow.id(name), suffix)]).await;
                }).await;
            }
        }
    }

    async fn an_entry_of_what_is_gone_is_removed_and_one_that_is_early_put_right(d: &Deployment) {
        d.host().watch(false);
        let due = format!("{}:due", d.home().key());
        for member in ["f:", "e:"] {
            let member = format!("{member}{}", d.new_uuid());
            plant(d, &[b"ZADD", due.as_bytes(), b"1", member.as_bytes()]).await;
        }
        let report = d.tick().await;
        assert_eq!((report.flows, report.edges, report.next_due_at), (1, 1, None));
        let mut graph = d.graph("a");
        graph.head.deadline_at = Some(d.now().plus_millis(1000));
        let flow = d.submit(&graph).await;
        let member = format!("f:{}", flow.id);
        plant(d, &[b"ZADD", due.as_bytes(), b"1", member.as_bytes()]).await;
        assert_eq!(d.tick().await.next_due_at, graph.head.deadline_at);
        assert_eq!(d.states(&flow).await, "a waiting");
    }
}
