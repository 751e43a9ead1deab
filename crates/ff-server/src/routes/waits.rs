//! Waiting: what workers, senders of signals and operators do about it.

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use ff_api::wait::{
    CloseWaitpointTask, ObserveSignalsTask, ObservedSignals, OpenWaitpointTask, SuspendTask,
};
use ff_core::contracts::{
    DeliverSignal, ListSuspended, PendingWaitpoint, PendingWaitpoints, ResumeExecution,
    RotateWaitpointSecretRequest, SuspendOutcome,
};

use crate::answer::{Answered, ok};
use crate::app::App;
use crate::extract::{Asked, TaskHeader, handle};
use crate::metrics::Outcome;
use crate::refusal::Refusal;
use crate::route::{Route, direct, json};

pub(super) fn routes() -> Vec<Route> {
    let of_tasks = vec![
        json::<SuspendTask, _, _>(suspend),
        json::<OpenWaitpointTask, _, _>(open_waitpoint),
        json::<CloseWaitpointTask, _, _>(close_waitpoint),
        json::<ObserveSignalsTask, _, _>(observe_signals),
    ];
    let about = "The task's token, unless the body has it.";
    let of_tasks =
        of_tasks.into_iter().map(|route| route.header::<String>("FlowFabric-Task", about));
    let others = [
        direct::<DeliverSignal, _>(|engine, id, it| engine.deliver_signal(id, it)).tokenless(),
        direct::<ResumeExecution, _>(|engine, id, it| engine.resume_execution(id, it)),
        direct::<PendingWaitpoints, _>(|engine, id, _| engine.pending_waitpoints(id)),
        direct::<ListSuspended, _>(|engine, _, query| engine.list_suspended(query)),
        direct::<RotateWaitpointSecretRequest, _>(|engine, _, it| {
            engine.rotate_waitpoint_secret(it)
        }),
    ];
    of_tasks.chain(others).collect()
}

async fn suspend(
    State(app): State<Arc<App>>,
    header: TaskHeader,
    Asked(request, _): Asked<SuspendTask>,
) -> Answered<SuspendOutcome> {
    let handle = handle(&app, header, request.task_token)?;
    let outcome = app.backend.suspend(&handle, request.suspension).await?;
    if matches!(outcome, SuspendOutcome::Suspended { .. }) {
        app.metrics.outcome(&handle, Outcome::Delayed);
    }
    ok(outcome)
}

async fn open_waitpoint(
    State(app): State<Arc<App>>,
    header: TaskHeader,
    Asked(request, _): Asked<OpenWaitpointTask>,
) -> Answered<PendingWaitpoint> {
    let handle = handle(&app, header, request.task_token)?;
    ok(app.backend.create_waitpoint(&handle, request.waitpoint).await?)
}

async fn close_waitpoint(
    State(app): State<Arc<App>>,
    header: TaskHeader,
    Asked(request, _): Asked<CloseWaitpointTask>,
) -> Result<StatusCode, Refusal> {
    let handle = handle(&app, header, request.task_token)?;
    app.backend.close_waitpoint(&handle, request.waitpoint_id, &request.reason).await?;
    Ok(StatusCode::NO_CONTENT)
}

async fn observe_signals(
    State(app): State<Arc<App>>,
    header: TaskHeader,
    Asked(request, _): Asked<ObserveSignalsTask>,
) -> Answered<ObservedSignals> {
    let handle = handle(&app, header, request.task_token)?;
    ok(ObservedSignals { signals: app.backend.observe_signals(&handle).await? })
}
