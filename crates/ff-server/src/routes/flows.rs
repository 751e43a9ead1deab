//! Flows: made step by step, cancelled and read.

use ff_core::contracts::{
    AddEdge, AddFlowMember, ApplyEdge, CancelFlow, CreateFlow, DescribeEdge, DescribeFlow,
    EdgeQuery, FlowQuery, MemberQuery, SealFlow, SetFlowTags,
};
use ff_core::error::{Code, EngineError};
use ff_core::types::EdgeId;

use crate::route::{Route, direct};

pub(super) fn routes() -> Vec<Route> {
    vec![
        direct::<CreateFlow, _>(|engine, _, it| engine.create_flow(it)),
        direct::<FlowQuery, _>(|engine, _, query| engine.list_flows(query)),
        direct::<DescribeFlow, _>(|engine, id, _| {
            let described = engine.describe_flow(id);
            Box::pin(async move { described.await?.ok_or_else(|| missing(Code::FlowNotFound)) })
        }),
        direct::<CancelFlow, _>(|engine, id, it| engine.cancel_flow(id, it)),
        direct::<SealFlow, _>(|engine, id, _| engine.seal_flow(id)),
        direct::<SetFlowTags, _>(|engine, id, it| engine.set_flow_tags(id, it)),
        direct::<AddFlowMember, _>(|engine, id, it| engine.add_flow_member(id, it)),
        direct::<MemberQuery, _>(|engine, id, query| engine.list_members(id, query)),
        direct::<AddEdge, _>(|engine, id, it| engine.add_edge(id, it)),
        direct::<ApplyEdge, _>(|engine, id, it| engine.apply_edge(id, it)),
        direct::<DescribeEdge, _>(|engine, edge, _| {
            let described = engine.describe_edge(edge);
            Box::pin(async move { described.await?.ok_or_else(|| missing(Code::EdgeNotFound)) })
        })
        .path_parameter::<EdgeId>("edge_id", "The edge."),
        direct::<EdgeQuery, _>(|engine, id, query| engine.list_edges(id, query)),
    ]
}

pub(super) fn missing(code: Code) -> EngineError {
    EngineError::Refused { code, details: Vec::new() }
}
