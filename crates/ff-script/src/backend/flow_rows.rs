//! Flows as the library tells them, for those who asked.

use ff_core::contracts::{
    CancelReceipt, CancelledMember, EdgeOf, EdgeSnapshot, FlowMember, FlowSnapshot, FlowSummary,
};
use ff_core::error::EngineError;
use ff_core::types::FlowId;

use crate::calls::flow_cancel::{ReadCancelReceiptReply, ReceiptRow};
use crate::calls::flow_reads::{DescribeFlowReply, EdgeRow, FlowRow, MemberRow};

/// A word of the library that this build must know.
pub(super) fn word<T: std::str::FromStr>(what: &'static str, text: &str) -> Result<T, EngineError> {
    text.parse().map_err(|_| EngineError::corrupt("flow", what, text))
}

pub(super) fn snapshot(
    flow_id: FlowId,
    flow: DescribeFlowReply,
) -> Result<FlowSnapshot, EngineError> {
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
    let state = word("public_flow_state", &public_flow_state)?;
    let mut told = FlowSnapshot::new(flow_id, kind, namespace, state, created_at, last_mutation_at);
    (told.graph_revision, told.node_count, told.edge_count) =
        (graph_revision, node_count, edge_count);
    (told.started_at, told.completed_at, told.deadline_at) = (started_at, ended_at, deadline_at);
    (told.sealed, told.being_cancelled, told.stuck_count) = (sealed, being_cancelled, stuck);
    (told.cancelled_at, told.cancel_reason) = (cancelled_at, cancel_reason);
    told.on_failure = word("on_failure", &on_failure)?;
    told.cancellation_policy =
        cancellation_policy.map(|policy| word("cancellation_policy", &policy)).transpose()?;
    told.counts = counts.0;
    told.tags = tags;
    Ok(told)
}

pub(super) fn edge_of(flow_id: FlowId, row: EdgeRow) -> Result<EdgeSnapshot, EngineError> {
    let mut edge = EdgeSnapshot::new(
        EdgeOf { flow_id, edge_id: row.edge_id },
        row.upstream_execution_id,
        row.downstream_execution_id,
        word("dependency_kind", &row.dependency_kind)?,
        word("edge_state", &row.edge_state)?,
    );
    edge.applied = row.applied;
    edge.data_passing_ref = row.input_name.filter(|_| row.passes_data);
    Ok(edge)
}

pub(super) fn member(row: MemberRow) -> FlowMember {
    let cancelled = row.cancelled_by.is_some();
    FlowMember {
        execution_id: row.execution_id,
        name: row.name,
        ordinal: row.ordinal,
        kind: row.kind,
        public_state: row.public_state,
        optional: row.optional,
        attempt_count: row.attempt_count,
        edge_count: row.edge_count,
        started_at: row.started_at,
        completed_at: row.ended_at,
        cancelled_by: row.cancelled_by,
        fenced_until: row.lease_expires_at.filter(|_| cancelled),
    }
}

pub(super) fn receipt(told: ReadCancelReceiptReply) -> Result<CancelReceipt, EngineError> {
    let ReadCancelReceiptReply::Receipt { policy, cancelled_at, done, stuck, entries, next_from } =
        told;
    Ok(CancelReceipt {
        cancellation_policy: word("cancellation policy", &policy)?,
        cancelled_at,
        done,
        stuck_count: stuck,
        members: entries.0.into_iter().map(cancelled_member).collect::<Result<_, _>>()?,
        next_from,
    })
}

fn cancelled_member(row: ReceiptRow) -> Result<CancelledMember, EngineError> {
    Ok(CancelledMember {
        execution_id: row.execution_id,
        name: row.name,
        ordinal: row.ordinal,
        fate: word("fate", &row.fate)?,
        public_state: row.public_state,
        completed_at: row.ended_at,
        fenced_until: row.fenced_until,
    })
}

pub(super) fn summary(row: FlowRow) -> Result<FlowSummary, EngineError> {
    Ok(FlowSummary {
        flow_id: row.flow_id,
        flow_kind: row.kind,
        namespace: row.namespace,
        status: word("public_flow_state", &row.public_flow_state)?,
        node_count: row.node_count,
        stuck_count: row.stuck,
        created_at: row.created_at,
        completed_at: row.ended_at,
    })
}
