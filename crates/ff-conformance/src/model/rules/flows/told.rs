//! What workers and readers are told of flows.

use std::collections::BTreeSet;

use ff_script::call::{Call, open_reply};
use ff_script::calls::claim::ClaimRow;
use ff_script::calls::flow_reads::{
    DescribeFlow, DescribeFlowReply, ListMembers, ListMembersReply,
};
use ff_script::value::Value;

use super::super::super::world::claim_rows;
use super::super::{Checked, Seen, rule};
use super::Standing;

pub(super) fn check(seen: &Seen<'_>) -> Checked {
    for row in claim_rows(seen.sent, seen.answer) {
        inputs(seen, &row)?;
    }
    match seen.sent.name() {
        "ff_describe_flow" if seen.answer.done => described(seen),
        "ff_list_members" if seen.answer.done => listed(seen),
        _ => Ok(()),
    }
}

/// A claim brings what upstreams passed on: all of it if all were needed, and nothing else.
fn inputs(seen: &Seen<'_>, row: &ClaimRow) -> Checked {
    let uuid = row.execution_id.uuid().to_string();
    let view = seen.after();
    let Some(record) = view.record(&uuid) else { return Ok(()) };
    let Some(graph) = seen.graphs.0.get(record.flow_id()) else { return Ok(()) };
    let told: BTreeSet<(String, String)> = row
        .inputs
        .0
        .iter()
        .map(|input| (input.execution_id.uuid().to_string(), input.name.clone()))
        .collect();
    let passed =
        |edge: &super::super::super::graph::Edge| Some((edge.up.clone(), edge.input.clone()?));
    let all: BTreeSet<(String, String)> = graph.before(&uuid).filter_map(passed).collect();
    rule(told.is_subset(&all), || format!("{uuid} was passed {told:?}, of {all:?}"))?;
    let needs_all = graph.members.get(&uuid).is_none_or(|member| member.needed.is_none());
    rule(!needs_all || told == all, || format!("{uuid} was passed {told:?} instead of {all:?}"))?;
    for input in &row.inputs.0 {
        let up = input.execution_id.uuid().to_string();
        let bytes = input.bytes_base64.as_ref().map(|bytes| bytes.0.clone());
        // Who did not succeed has none.
        let right = view.blob(&up, "result");
        rule(bytes.is_none_or(|bytes| bytes == right), || {
            format!("{uuid} got another result of {up}")
        })?;
    }
    Ok(())
}

fn typed<C: Call>(seen: &Seen<'_>) -> Result<C::Reply, String> {
    let head = [Value::Int(1), Value::Bytes(seen.answer.word.clone().into_bytes())];
    let reply = Value::Array(head.into_iter().chain(seen.answer.values.clone()).collect());
    open_reply(seen.sent.name(), reply)
        .and_then(|(status, values)| C::decode(&status, values))
        .map_err(|error| error.to_string())
}

fn described(seen: &Seen<'_>) -> Checked {
    let id = seen.sent.text("flow_id");
    let Some(graph) = seen.graphs.0.get(id) else { return Ok(()) };
    let standing = Standing::of(seen.after(), id, graph)?;
    if standing.is_removed() {
        return Ok(());
    }
    let DescribeFlowReply::Flow { public_flow_state, node_count, edge_count, counts, .. } =
        typed::<DescribeFlow>(seen)?;
    let right = standing.state();
    rule(public_flow_state.as_str() == right, || {
        format!("told {public_flow_state} instead of {right}")
    })?;
    let sizes = (node_count as usize, edge_count as usize);
    let right = (graph.members.len(), graph.edges.len());
    rule(sizes == right, || format!("told {sizes:?} members and edges instead of {right:?}"))?;
    let counted: u32 = counts.iter().map(|(_, count)| count).sum();
    rule(counted == node_count, || format!("{counted} members in some state, of {node_count}"))
}

fn listed(seen: &Seen<'_>) -> Checked {
    let Some(graph) = seen.graphs.0.get(seen.sent.text("flow_id")) else { return Ok(()) };
    let ListMembersReply::Members { members, next_from } = typed::<ListMembers>(seen)?;
    let most = seen.sent.number("limit") as usize;
    let (told, all) = (members.0.len(), graph.members.len());
    let removed = told < all.min(most) && next_from.is_none();
    let id = seen.sent.text("flow_id");
    let removed = removed && Standing::of(seen.after(), id, graph)?.is_removed();
    rule(removed || told == all.min(most), || format!("{told} members were listed, of {all}"))
}
