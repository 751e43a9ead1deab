//! The same for the functions of flows.

use ff_conformance::record::key_of;
use ff_conformance::{Deployment, Flow, LANE, joining};
use ff_core::limits;
use ff_core::types::ExecutionId;
use ff_script::calls::edge::{
    EvaluateFlowEligibility, PromoteBlockedToEligible, ResolveDependency, StageDependencyEdge,
};
use ff_script::calls::flow::{SealFlow, SetFlowTags};
use ff_script::calls::flow_cancel::{
    AckCancelMember, CancelFlow, ReadCancelReceipt, RetryStuckMembers,
};
use ff_script::calls::flow_events::ReadFlowEvents;
use ff_script::calls::flow_reads::{
    DescribeEdge, DescribeFlow, ListEdges, ListFlows, ListMembers, ReadGraph,
};
use ff_script::calls::inputs::ReadInputs;
use ff_script::wire::Rest;

use super::edge::applied;
use super::scenario::encode;

/// As `super::scenario::prepare`.
pub(crate) async fn prepare(d: &Deployment, name: &str) -> Vec<Vec<u8>> {
    match name {
        "ff_create_flow" => {
            let mut call = d.create_flow();
            call.on_failure = Some("fail_fast".to_owned());
            call.deadline_at = Some(d.now().plus_millis(9_000_000));
            call.retention_ms = Some(9000);
            call.tags_json = r#"{"a.b":"c"}"#.to_owned();
            encode(&call)
        }
        "ff_submit_graph" => {
            let mut graph = d.graph("a => b");
            graph.create("b").payload = b"input".to_vec();
            encode(&graph.whole())
        }
        "ff_add_children" => adding(d).await,
        "ff_resolve_dependency" => resolvable(d).await,
        "ff_promote_blocked_to_eligible" => {
            encode(&PromoteBlockedToEligible { execution_id: stranded(d).await })
        }
        _ => prepare_open(d, name).await,
    }
}

async fn prepare_open(d: &Deployment, name: &str) -> Vec<Vec<u8>> {
    let flow = d.open_flow("a b").await;
    match name {
        "ff_add_execution_to_flow" => encode(&joining(&flow, d.create_one().await, "c")),
        "ff_seal_flow" => encode(&SealFlow { flow_id: flow.id }),
        "ff_set_flow_tags" => {
            let pairs = Rest(vec!["a.b".to_owned(), "c".to_owned()]);
            encode(&SetFlowTags { flow_id: flow.id, pairs })
        }
        "ff_cancel_flow" => {
            encode(&CancelFlow { grace_ms: Some(500), ..d.cancelling(&flow, "cancel_all") })
        }
        "ff_ack_cancel_member" => {
            encode(&AckCancelMember { flow_id: flow.id, execution_id: flow.id("a") })
        }
        "ff_read_cancel_receipt" => {
            d.call(d.cancelling(&flow, "cancel_all")).await;
            let fate = Some("stopped".to_owned());
            encode(&ReadCancelReceipt { flow_id: flow.id, fate, from: 1, limit: 10 })
        }
        "ff_retry_stuck_members" => encode(&RetryStuckMembers { flow_id: flow.id, from: 1 }),
        "ff_stage_dependency_edge" => encode(&StageDependencyEdge(full_edge(d, &flow))),
        "ff_add_dependency" => encode(&full_edge(d, &flow)),
        _ => prepare_connected(d, name, &flow).await,
    }
}

/// An edge with everything that one can have.
fn full_edge(d: &Deployment, flow: &Flow) -> ff_script::calls::edge::AddDependency {
    let mut call = d.edge(flow, "a", "b");
    call.dependency_kind = Some("any_outcome".to_owned());
    call.data_passing_ref = "left".to_owned();
    call.expected_graph_revision = Some(2);
    call
}

async fn prepare_connected(d: &Deployment, name: &str, flow: &Flow) -> Vec<Vec<u8>> {
    let call = full_edge(d, flow);
    let (flow_id, edge_id) = (flow.id, call.edge_id);
    d.call(StageDependencyEdge(call)).await;
    match name {
        "ff_apply_dependency_to_child" => encode(&applied(flow, edge_id, "b")),
        "ff_evaluate_flow_eligibility" => {
            encode(&EvaluateFlowEligibility { execution_id: flow.id("b") })
        }
        "ff_describe_flow" => encode(&DescribeFlow { flow_id }),
        "ff_describe_edge" => encode(&DescribeEdge { flow_id, edge_id }),
        "ff_list_edges" => {
            let (execution_id, direction) = (flow.id("a"), "outgoing".to_owned());
            encode(&ListEdges { execution_id, direction, from: 0, limit: 10 })
        }
        "ff_list_members" => encode(&ListMembers { flow_id, state: None, from: 0, limit: 10 }),
        "ff_read_graph" => {
            encode(&ReadGraph { flow_id, cursor: Some("1:1".to_owned()), limit: 10 })
        }
        "ff_read_inputs" => {
            encode(&ReadInputs { execution_id: flow.id("b"), from: 1, bytes_max: 100 })
        }
        "ff_list_flows" => encode(&ListFlows { after: Some(flow_id), limit: 10, owing: true }),
        "ff_read_flow_events" => {
            let cursor = String::new();
            encode(&ReadFlowEvents { flow_id, cursor, limit: 10, seek: true })
        }
        other => panic!("{other} needs a scenario"),
    }
}

/// A running execution that is in no flow adds children, one of which waits for the other.
async fn adding(d: &Deployment) -> Vec<Vec<u8>> {
    let name = format!("lane-{}", d.new_uuid().as_u128() & 0xffff_ffff);
    d.create().lane(&name).send().await;
    let held = d.claim(&name).await;
    d.advance(1).await;
    let mut graph = d.graph("a => b");
    graph.create("b").payload = b"input".to_vec();
    encode(&held.add_children(&graph))
}

/// The last of more edges than one call tells.
async fn resolvable(d: &Deployment) -> Vec<Vec<u8>> {
    let edges: Vec<String> =
        (0..=limits::EDGES_PER_CALL).map(|number| format!("a -> b{number}")).collect();
    let flow = d.flow(&edges.join(", ")).await;
    d.complete(&flow, "a").await;
    let id = format!("00000001-0000-8000-8000-{:012x}", limits::EDGES_PER_CALL);
    encode(&ResolveDependency { flow_id: flow.id, edge_id: id.parse().expect("an id") })
}

/// An execution that is blocked although it waits for nobody: somebody wrote around the library.
async fn stranded(d: &Deployment) -> ExecutionId {
    let id = d.create_one().await;
    let queue = format!("{}:q:{LANE}:tests:work", d.home().key());
    let uuid = id.uuid().to_string();
    let blocked: [&[u8]; 4] = [b"HSET", &key_of(id, ""), b"st", b"blocked"];
    let unlisted: [&[u8]; 3] = [b"ZREM", queue.as_bytes(), uuid.as_bytes()];
    for words in [&blocked[..], &unlisted[..]] {
        d.host().exec(d.home(), words).await.expect("every store has the command");
    }
    id
}
