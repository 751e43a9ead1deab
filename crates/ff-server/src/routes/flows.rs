//! Flows: made step by step, cancelled and read.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::response::Response;
use ff_api::flow::CancelFlowRequest;
use ff_core::argument::check_range;
use ff_core::contracts::{
    AddEdge, AddFlowMember, ApplyEdge, CancelReceiptQuery, CreateFlow, DescribeEdge, DescribeFlow,
    EdgeQuery, FlowQuery, FlowSnapshot, GraphQuery, InputQuery, MemberQuery, ReplayFailed,
    RetryStuck, SealFlow, SetFlowTags,
};
use ff_core::error::{Code, EngineError};
use ff_core::limits;
use ff_core::types::{EdgeId, FlowId};
use tokio::time::Instant;

use crate::app::App;
use crate::extract::{Asked, On};
use crate::refusal::Refusal;
use crate::route::{Route, answer, direct, json};

pub(super) fn routes() -> Vec<Route> {
    vec![
        direct::<CreateFlow, _>(|engine, _, it| engine.create_flow(it)),
        direct::<FlowQuery, _>(|engine, _, query| engine.list_flows(query)),
        direct::<DescribeFlow, _>(|engine, id, _| {
            let described = engine.describe_flow(id);
            Box::pin(async move { described.await?.ok_or_else(|| missing(Code::FlowNotFound)) })
        }),
        json::<CancelFlowRequest, _, _>(cancel),
        direct::<CancelReceiptQuery, _>(|engine, id, it| engine.read_cancel_receipt(id, it)),
        direct::<RetryStuck, _>(|engine, id, it| engine.retry_stuck_members(id, it)),
        direct::<ReplayFailed, _>(|engine, id, it| engine.replay_failed(id, it)),
        direct::<SealFlow, _>(|engine, id, _| engine.seal_flow(id)),
        direct::<SetFlowTags, _>(|engine, id, it| engine.set_flow_tags(id, it)),
        direct::<AddFlowMember, _>(|engine, id, it| engine.add_flow_member(id, it)),
        direct::<MemberQuery, _>(|engine, id, query| engine.list_members(id, query)),
        direct::<GraphQuery, _>(|engine, id, query| engine.read_graph(id, query)),
        direct::<AddEdge, _>(|engine, id, it| engine.add_edge(id, it)),
        direct::<ApplyEdge, _>(|engine, id, it| engine.apply_edge(id, it)),
        direct::<DescribeEdge, _>(|engine, edge, _| {
            let described = engine.describe_edge(edge);
            Box::pin(async move { described.await?.ok_or_else(|| missing(Code::EdgeNotFound)) })
        })
        .path_parameter::<EdgeId>("edge_id", "The edge."),
        direct::<InputQuery, _>(|engine, id, query| engine.read_inputs(id, query)),
        direct::<EdgeQuery, _>(|engine, id, query| engine.list_edges(id, query)),
    ]
}

async fn cancel(
    State(app): State<Arc<App>>,
    On(id, name): On<FlowId>,
    Asked(request, _room): Asked<CancelFlowRequest>,
) -> Result<Response, Refusal> {
    cancel_and_wait(&app, id, request).await.map_err(|refusal| refusal.advise(name))
}

async fn cancel_and_wait(
    app: &App,
    id: FlowId,
    request: CancelFlowRequest,
) -> Result<Response, Refusal> {
    check_range("wait_ms", request.wait_ms, 0..=limits::CLAIM_WAIT_MS_MAX)?;
    let deadline = Instant::now() + Duration::from_millis(request.wait_ms);
    let request = request.into_cancel();
    let result = app.backend.cancel_flow(id, request.clone()).await?;
    if Instant::now() >= deadline {
        return Ok(answer::<CancelFlowRequest>(result));
    }
    await_rest(app, id, deadline).await?;
    Ok(answer::<CancelFlowRequest>(app.backend.cancel_flow(id, request).await?))
}

/// The flow, when nothing of it runs any more, or as it stands when the time is up; none if there
/// is no such flow.
pub(super) async fn await_rest(
    app: &App,
    id: FlowId,
    deadline: Instant,
) -> Result<Option<FlowSnapshot>, Refusal> {
    let home = app.partitions().flow_partition_of(id.as_bytes());
    let mut watch = app.endings.watch_flow(home, id).await?;
    loop {
        let flow = app.backend.describe_flow(id).await?;
        let rests = flow.as_ref().is_none_or(FlowSnapshot::is_at_rest);
        let now = Instant::now();
        if rests || now >= deadline || app.is_draining() {
            return Ok(flow);
        }
        tokio::select! {
            () = watch.news(deadline - now) => {}
            () = app.draining() => {}
        }
    }
}

pub(super) fn missing(code: Code) -> EngineError {
    EngineError::Refused { code, details: Vec::new() }
}
