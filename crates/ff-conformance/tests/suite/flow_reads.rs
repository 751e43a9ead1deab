//! Flows, their members and their edges, read.

use ff_conformance::{Deployment, Flow, conformance};
use ff_core::error::Code;
use ff_core::state::PublicState;
use ff_core::types::{EdgeId, ExecutionId, FlowId};
use ff_script::calls::edge::StageDependencyEdge;
use ff_script::calls::flow_reads::{
    DescribeEdge, DescribeEdgeReply, DescribeFlow, DescribeFlowReply, EdgeRow, ListEdges,
    ListEdgesReply, ListFlows, ListFlowsReply, ListMembers, ListMembersReply, ReadGraph,
    ReadGraphReply,
};

use super::flow::nowhere;

async fn edges(d: &Deployment, id: ExecutionId, direction: &str) -> Vec<EdgeRow> {
    let (mut rows, mut from) = (Vec::new(), Some(0));
    while let Some(at) = from {
        let direction = direction.to_owned();
        let call = ListEdges { execution_id: id, direction, from: at, limit: 2 };
        let ListEdgesReply::Edges { edges, next_from, .. } = d.call(call).await;
        rows.extend(edges.0);
        from = next_from;
    }
    rows
}

/// Edges as `from-kind-to state`.
fn lines(flow: &Flow, rows: &[EdgeRow]) -> Vec<String> {
    let name = |id: ExecutionId| {
        flow.ids.iter().find(|(_, known)| **known == id).map(|(name, _)| name.clone())
    };
    let line = |row: &EdgeRow| {
        let (from, to) = (name(row.upstream_execution_id), name(row.downstream_execution_id));
        let (from, to) = (from.unwrap_or_default(), to.unwrap_or_default());
        format!("{from} {} {to} {}", row.dependency_kind, row.edge_state)
    };
    rows.iter().map(line).collect()
}

async fn edge(d: &Deployment, flow: &Flow, edge_id: EdgeId) -> Option<EdgeRow> {
    match d.call(DescribeEdge { flow_id: flow.id, edge_id }).await {
        DescribeEdgeReply::Edge { edge } => Some(edge),
        DescribeEdgeReply::None {} => None,
    }
}

conformance! {
    async fn a_flow_is_described(d: &Deployment) {
        let mut graph = d.graph("a -> b");
        graph.head.on_failure = Some("fail_fast".to_owned());
        graph.head.deadline_at = Some(d.now().plus_millis(5000));
        let flow = d.submit(&graph).await;
        let DescribeFlowReply::Flow { kind, namespace, graph_revision, node_count, edge_count,
            created_at, on_failure, deadline_at, cancelled_at, .. } = d.described(&flow).await;
        assert_eq!((kind.as_str(), namespace.as_str()), ("tests", "tests"));
        assert_eq!((graph_revision, node_count, edge_count), (3, 2, 1));
        assert_eq!((created_at, cancelled_at), (d.now(), None));
        assert_eq!((on_failure.as_str(), deadline_at), ("fail_fast", graph.head.deadline_at));
        d.advance(5).await;
        d.call(d.cancelling(&flow, "cancel_pending")).await;
        let DescribeFlowReply::Flow { cancelled_at, cancel_reason, cancellation_policy,
            last_mutation_at, .. } = d.described(&flow).await;
        assert_eq!((cancelled_at, last_mutation_at), (Some(d.now()), d.now()));
        assert_eq!(cancel_reason.as_deref(), Some("enough"));
        assert_eq!(cancellation_policy.map(|policy| policy.as_str()), Some("cancel_pending"));
        let nothing = DescribeFlow { flow_id: nowhere(d).id };
        assert_eq!(d.refused(nothing).await, Code::FlowNotFound);
    }

    async fn edges_are_listed_both_ways_and_by_pages(d: &Deployment) {
        let flow = d.flow("a -> b, a -f> c, a -a> e, b -> e").await;
        d.complete(&flow, "a").await;
        let out = edges(d, flow.id("a"), "outgoing").await;
        assert_eq!(lines(&flow, &out), ["a success_only b satisfied",
            "a failure_only c impossible", "a any_outcome e satisfied"]);
        let into = edges(d, flow.id("e"), "incoming").await;
        assert_eq!(lines(&flow, &into), ["a any_outcome e satisfied", "b success_only e pending"]);
        let known = edge(d, &flow, into[1].edge_id).await;
        assert_eq!(known.as_ref(), Some(&into[1]));
        let nobody = ListEdges { execution_id: d.new_id(), direction: "incoming".to_owned(),
            from: 0, limit: 10 };
        assert_eq!(d.refused(nobody).await, Code::ExecutionNotFound);
    }

    async fn an_edge_is_found_by_the_id_it_was_given(d: &Deployment) {
        let flow = d.open_flow("a b c").await;
        let mut call = d.edge(&flow, "a", "b");
        call.data_passing_ref = "left".to_owned();
        let edge_id = call.edge_id;
        d.call(StageDependencyEdge(call)).await;
        let row = edge(d, &flow, edge_id).await.expect("it is there");
        assert_eq!((row.applied, row.passes_data, row.input_name.as_deref()),
            (false, true, Some("left")));
        let derived: EdgeId = "00000001-0000-8000-8000-000000000000".parse().expect("an id");
        assert_eq!(edge(d, &flow, derived).await, None);
        assert_eq!(edge(d, &flow, EdgeId::from_uuid(d.new_uuid())).await, None);
        let nothing = DescribeEdge { flow_id: nowhere(d).id, edge_id };
        assert_eq!(d.refused(nothing).await, Code::FlowNotFound);
    }

    async fn members_are_listed_by_state_and_by_pages(d: &Deployment) {
        let flow = d.flow("a -> b, c, e?").await;
        let held = d.take(&flow, "c").await;
        let listed = async |state: Option<PublicState>, from: u64, limit: u32| {
            let call = ListMembers { flow_id: flow.id, state, from, limit };
            let ListMembersReply::Members { members, next_from } = d.call(call).await;
            let names: Vec<String> = members.0.into_iter().filter_map(|row| row.name).collect();
            (names.join(" "), next_from)
        };
        assert_eq!(listed(None, 0, 3).await, ("a b c".to_owned(), Some(4)));
        assert_eq!(listed(None, 4, 3).await, ("e".to_owned(), None));
        assert_eq!(listed(Some(PublicState::Waiting), 0, 10).await, ("a e".to_owned(), None));
        let rows = d.members(&flow).await;
        assert_eq!((rows[0].ordinal, rows[0].edge_count, rows[3].optional), (1, 1, true));
        assert_eq!((rows[2].attempt_count, rows[2].fenced_until),
            (1, Some(held.row.lease_expires_at)));
        let nothing = ListMembers { flow_id: nowhere(d).id, state: None, from: 0, limit: 1 };
        assert_eq!(d.refused(nothing).await, Code::FlowNotFound);
    }

    async fn a_graph_is_read_whole_in_pages_of_any_size(d: &Deployment) {
        let flow = d.flow("a -> b, a -f> c, a => e, b -> e, x").await;
        d.complete(&flow, "a").await;
        let told = ["a success_only b satisfied", "a failure_only c impossible",
            "a success_only e satisfied", "b success_only e pending"];
        for limit in 1..=10 {
            let (mut names, mut edges, mut cursor) = (Vec::new(), Vec::new(), None);
            loop {
                let call = ReadGraph { flow_id: flow.id, cursor, limit };
                let page = d.call(call).await;
                let ReadGraphReply::Graph { members, edges: more, next_cursor } = page;
                assert!(members.0.len() + more.0.len() <= limit as usize);
                names.extend(members.0.into_iter().filter_map(|row| row.name));
                edges.extend(more.0);
                cursor = next_cursor;
                if cursor.is_none() {
                    break;
                }
            }
            assert_eq!(names.join(" "), "a b c e x", "{limit} at a time");
            assert_eq!(lines(&flow, &edges), told, "{limit} at a time");
            assert_eq!(edges.iter().map(|edge| edge.passes_data).collect::<Vec<_>>(),
                [false, false, true, false]);
        }
        let nothing = ReadGraph { flow_id: nowhere(d).id, cursor: None, limit: 1 };
        assert_eq!(d.refused(nothing).await, Code::FlowNotFound);
        let wrong = ReadGraph { flow_id: flow.id, cursor: Some("1".to_owned()), limit: 1 };
        assert_eq!(d.refused(wrong).await, Code::InvalidInput);
    }

    async fn flows_are_listed_by_pages(d: &Deployment) {
        let mut ids: Vec<FlowId> = Vec::new();
        for _ in 0..3 {
            ids.push(d.flow("a").await.id);
        }
        let page = async |after: Option<FlowId>| {
            let ListFlowsReply::Flows { flows, next_after } =
                d.call(ListFlows { after, limit: 2, owing: false }).await;
            (flows.0, next_after)
        };
        let (first, after) = page(None).await;
        assert_eq!((first[0].flow_id, first[0].status.as_str()), (ids[0], "open"));
        assert_eq!(after, Some(ids[1]));
        let (second, after) = page(after).await;
        assert_eq!((second.len(), second[0].flow_id, after), (1, ids[2], None));
    }

    async fn a_listing_tells_how_far_each_flow_is(d: &Deployment) {
        let flow = d.flow("a, b, c").await;
        d.complete(&flow, "a").await;
        d.fail(&flow, "b").await;
        let ListFlowsReply::Flows { flows, .. } =
            d.call(ListFlows { after: None, limit: 2, owing: false }).await;
        let row = &flows.0[0];
        assert_eq!((row.node_count, row.live_count, row.failed_count), (3, 1, 1));
    }
}
