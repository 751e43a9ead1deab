//! Flows as the library tells them, for those who asked.

use ff_core::contracts::{CancelReceipt, EdgeOf, EdgeSnapshot, FlowMember, FlowSnapshot};
use ff_core::types::FlowId;

use crate::calls::flow_cancel::ReadCancelReceiptReply;
use crate::calls::flow_reads::{DescribeFlowReply, EdgeRow};

pub(super) fn snapshot(flow_id: FlowId, flow: DescribeFlowReply) -> FlowSnapshot {
    let DescribeFlowReply::Flow {
        kind,
        namespace,
        public_flow_state,
        graph_revision,
        node_count,
        edge_count,
        created_at,
        last_mutation_at,
        started_at,
        ended_at,
        sealed,
        on_failure,
        deadline_at,
        cancelled_at,
        cancel_reason,
        cancellation_policy,
        being_cancelled,
        stuck,
        counts,
        tags,
    } = flow;
    let state = public_flow_state;
    let mut told = FlowSnapshot::new(flow_id, kind, namespace, state, created_at, last_mutation_at);
    (told.graph_revision, told.node_count, told.edge_count) =
        (graph_revision, node_count, edge_count);
    (told.started_at, told.completed_at, told.deadline_at) = (started_at, ended_at, deadline_at);
    (told.sealed, told.being_cancelled, told.stuck_count) = (sealed, being_cancelled, stuck);
    (told.cancelled_at, told.cancel_reason) = (cancelled_at, cancel_reason);
    (told.on_failure, told.cancellation_policy) = (on_failure, cancellation_policy);
    (told.counts, told.tags) = (counts.into_iter().collect(), tags);
    told
}

pub(super) fn edge_of(flow_id: FlowId, row: EdgeRow) -> EdgeSnapshot {
    let mut edge = EdgeSnapshot::new(
        EdgeOf { flow_id, edge_id: row.edge_id },
        row.upstream_execution_id,
        row.downstream_execution_id,
        row.dependency_kind,
        row.edge_state,
    );
    edge.applied = row.applied;
    edge.data_passing_ref = row.input_name.filter(|_| row.passes_data);
    edge
}

/// Only of one that was cancelled the end of its lease is told.
pub(super) fn member(row: FlowMember) -> FlowMember {
    let fenced_until = row.fenced_until.filter(|_| row.cancelled_by.is_some());
    FlowMember { fenced_until, ..row }
}

pub(super) fn receipt(told: ReadCancelReceiptReply) -> CancelReceipt {
    let ReadCancelReceiptReply::Receipt { policy, cancelled_at, done, stuck, entries, next_from } =
        told;
    CancelReceipt {
        cancellation_policy: policy,
        cancelled_at,
        done,
        stuck_count: stuck,
        members: entries.0,
        next_from,
    }
}
