//! Submitting executions, listing them, and intervening in them.

mod raw;

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::StatusCode;
use ff_api::create::{BULK_MAX, BulkCreate, BulkCreated, BulkItem, Create};
use ff_api::headers;
use ff_core::argument::check_range;
use ff_core::contracts::{
    CancelExecution, CancelMany, ChangePriority, CreateExecution, Created, CreatedExecution,
    HoldExecution, ListFilter, ListHeld, ReleaseExecution, ReplayExecution, ReplayMany,
    RevokeLease, SetTags,
};
use ff_core::error::EngineError;
use ff_core::types::IdempotencyKey;

use crate::answer::{Answered, Json, ok};
use crate::app::App;
use crate::body::{self, Kind};
use crate::extract::{self, parse_json};
use crate::refusal::Refusal;
use crate::route::{self, Route, direct};

pub(super) fn routes() -> Vec<Route> {
    vec![
        raw::with_headers(route::raw::<Create, _, _>(create).or_bytes())
            .answers::<CreatedExecution>(201, "It is new.")
            .answers::<CreatedExecution>(200, "It was known; nothing changed."),
        route::json::<BulkCreate, _, _>(create_bulk),
        direct::<ListFilter, _>(|engine, _, filter| engine.list_executions(filter)),
        direct::<CancelMany, _>(|engine, _, it| engine.cancel_many(it)),
        direct::<ReplayMany, _>(|engine, _, it| engine.replay_many(it)),
        direct::<CancelExecution, _>(|engine, id, it| engine.cancel_execution(id, it)),
        direct::<ReplayExecution, _>(|engine, id, it| engine.replay(id, it)),
        direct::<HoldExecution, _>(|engine, id, it| engine.hold_execution(id, it)),
        direct::<ReleaseExecution, _>(|engine, id, it| engine.release_execution(id, it)),
        direct::<ListHeld, _>(|engine, _, query| engine.list_held(query)),
        direct::<RevokeLease, _>(|engine, id, it| engine.revoke_lease(id, it)),
        direct::<ChangePriority, _>(|engine, id, it| engine.change_priority(id, it)),
        direct::<SetTags, _>(|engine, id, it| engine.set_tags(id, it)),
    ]
}

async fn create(State(app): State<Arc<App>>, request: Request) -> Answered<Created> {
    let (parts, body) = request.into_parts();
    let of_kind = body::kind(&parts.headers);
    raw::check(of_kind, &parts.headers)?;
    let whole = body::read(&app, &parts.headers, body, body::PAYLOAD_BODY_BYTES).await?;
    let mut submission: CreateExecution = match of_kind {
        Kind::Json => parse_json(&whole.bytes)?,
        Kind::Other | Kind::Unsaid => raw::submission(&parts.headers, whole.bytes)?,
    };
    let key = extract::header(&parts.headers, headers::IDEMPOTENCY_KEY)?;
    merge_key(&mut submission, key)?;
    let created = app.backend.create(submission).await?;
    let status = if created.is_new() { StatusCode::CREATED } else { StatusCode::OK };
    Ok(Json(status, created))
}

async fn create_bulk(State(app): State<Arc<App>>, request: Request) -> Answered<BulkCreated> {
    let (bulk, _room) = extract::bulk::<BulkCreate>(request, &app).await?;
    let count = bulk.executions.len() as u64;
    check_range("number of executions", count, 1..=BULK_MAX as u64)?;
    let executions = bulk.executions.into_iter().map(|execution| execution.0).collect();
    let answers = app.backend.create_many(executions).await;
    ok(BulkCreated { results: answers.into_iter().map(BulkItem::from).collect() })
}

/// Takes the key of the header, which must not contradict the body.
fn merge_key(submission: &mut CreateExecution, header: Option<&str>) -> Result<(), Refusal> {
    let Some(header) = header else { return Ok(()) };
    let key = IdempotencyKey::try_new(header).map_err(EngineError::from)?;
    match &submission.idempotency_key {
        Some(other) if *other != key => {
            let rule = "must be the same in the header and in the body, or stand in one of them";
            Err(Refusal::invalid("idempotency_key", rule))
        }
        _ => {
            submission.idempotency_key = Some(key);
            Ok(())
        }
    }
}
