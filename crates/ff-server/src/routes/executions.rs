//! Submitting and listing executions.

mod place;
mod raw;

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::StatusCode;
use ff_api::bytes::{decode_token, encode_token};
use ff_api::create::CreatedExecution;
use ff_api::create::{BULK_MAX, BulkCreate, BulkCreated, BulkItem, CreateExecution};
use ff_api::headers;
use ff_api::listing::{ExecutionList, LIMIT_DEFAULT, ListQuery};
use ff_api::paths;
use ff_api::problem::Problem;
use ff_api::schema;
use ff_core::argument::check_range;
use ff_core::contracts::NewExecution;
use ff_core::error::{Code, EngineError};
use ff_core::limits;
use ff_core::partition::Partition;

use crate::answer::{Answered, Json, ok};
use crate::app::App;
use crate::body::{self, Kind};
use crate::extract::{self, Limited, Query, parse_json};
use crate::refusal::Refusal;
use crate::route::Route;

const TAG: &str = "executions";

const CREATE: &str = "The body is JSON, or the payload as raw bytes with everything else in \
    headers. Submitting an id or an idempotency key that is known answers 200 and changes nothing; \
    an idempotency key that was used for a different submission is refused with 409.";

const LIST: &str = "Walks the partitions by index. Inside a partition, ended executions and \
    unfiltered lists come newest first, live states in the order of their queue. A page may be \
    shorter than asked for although more follow: go on until next_cursor is absent. An execution \
    at or before the cursor is never repeated.";

/// Calls one page may make: a page of a sparse filter comes back early, with a cursor.
const CALLS_MAX: u32 = 1024;

pub(super) fn routes() -> Vec<Route> {
    vec![create_route(), bulk_route(), list_route()]
}

fn create_route() -> Route {
    Route::post(paths::EXECUTIONS, create)
        .says("createExecution", TAG, "Submits an execution.")
        .explains(CREATE)
        .takes::<CreateExecution>()
        .or_bytes()
        .header::<schema::IdempotencyKey>("Idempotency-Key", "The same as idempotency_key.")
        .header::<schema::Kind>("FlowFabric-Kind", "The kind, for raw bytes.")
        .header::<schema::Lane>("FlowFabric-Lane", "The lane, for raw bytes.")
        .header::<schema::Namespace>("FlowFabric-Namespace", "The namespace, for raw bytes.")
        .header::<schema::Priority>("FlowFabric-Priority", "The priority, for raw bytes.")
        .header::<String>("FlowFabric-Policy", "The policy as JSON, for raw bytes.")
        .header::<String>("FlowFabric-Tags", "The tags as a JSON object, for raw bytes.")
        .header::<schema::TimestampMs>("FlowFabric-Delay-Until", "The time, for raw bytes.")
        .header::<schema::DelayMs>("FlowFabric-Delay-Ms", "The delay, for raw bytes.")
        .header::<schema::TimestampMs>("FlowFabric-Deadline-At", "The time, for raw bytes.")
        .header::<schema::ExecutionId>("FlowFabric-Execution-Id", "The id, for raw bytes.")
        .header::<String>("FlowFabric-Creator", "Who submits it, for raw bytes.")
        .answers::<CreatedExecution>(201, "It is new.")
        .answers::<CreatedExecution>(200, "It was known; nothing changed.")
        .refuses(&[409])
}

fn bulk_route() -> Route {
    Route::post(paths::EXECUTIONS_BULK, create_bulk)
        .says("createExecutions", TAG, "Submits several executions, each on its own.")
        .takes::<BulkCreate>()
        .answers::<BulkCreated>(200, "One answer for each, in the order of the request.")
}

fn list_route() -> Route {
    Route::get(paths::EXECUTIONS, list)
        .says("listExecutions", TAG, "Lists executions of all partitions.")
        .explains(LIST)
        .query::<ListQuery>()
        .uses::<schema::Namespace>()
        .uses::<schema::Lane>()
        .uses::<schema::PublicState>()
        .uses::<schema::Kind>()
        .uses::<schema::TimestampMs>()
        .answers::<ExecutionList>(200, "A page.")
}

async fn create(State(app): State<Arc<App>>, request: Request) -> Answered<CreatedExecution> {
    let (parts, body) = request.into_parts();
    let bytes_max = CreateExecution::bytes_max(&app);
    let of_kind = body::kind(&parts.headers);
    raw::check(of_kind, &parts.headers)?;
    let whole = body::read(&app, &parts.headers, body, bytes_max).await?;
    let mut submission = match of_kind {
        Kind::Json => parse_json(&whole.bytes)?,
        Kind::Other | Kind::Unsaid => raw::submission(&parts.headers, whole.bytes)?,
    };
    let key = extract::header(&parts.headers, headers::IDEMPOTENCY_KEY)?;
    place::merge_key(&mut submission, key)?;
    let new = place::prepare(&app, submission)?;
    let created = app.backend.create(new).await?;
    let status = if created.is_new() { StatusCode::CREATED } else { StatusCode::OK };
    Ok(Json(status, created.into()))
}

async fn create_bulk(
    State(app): State<Arc<App>>,
    extract::Json(bulk, _room): extract::Json<BulkCreate>,
) -> Answered<BulkCreated> {
    let count = bulk.executions.len() as u64;
    check_range("number of executions", count, 1..=BULK_MAX as u64)?;
    let mut results = Vec::with_capacity(bulk.executions.len());
    let mut accepted: Vec<NewExecution> = Vec::with_capacity(bulk.executions.len());
    for submission in bulk.executions {
        match place::prepare(&app, submission.0) {
            Ok(new) => {
                accepted.push(new);
                results.push(None);
            }
            Err(error) => results.push(Some(refused(&error))),
        }
    }
    let mut answers = app.backend.create_many(accepted).await.into_iter();
    let results = results
        .into_iter()
        .map(|result| result.or_else(|| answers.next().map(BulkItem::from)))
        .collect::<Option<Vec<_>>>();
    let unanswered = || EngineError::corrupt("bulk answer", "results", "fewer than asked for");
    ok(BulkCreated { results: results.ok_or_else(unanswered)? })
}

fn refused(error: &EngineError) -> BulkItem {
    BulkItem { execution: None, problem: Some(Problem::from(error)) }
}

async fn list(
    State(app): State<Arc<App>>,
    Query(query): Query<ListQuery>,
) -> Answered<ExecutionList> {
    let limit = query.limit.unwrap_or(LIMIT_DEFAULT);
    check_range("limit", limit.into(), 1..=limits::LIST_LIMIT_MAX)?;
    let filter = query.filter();
    for (field, time) in [("from", filter.from), ("to", filter.to)] {
        let millis = time.map_or(1, |time| time.as_millis());
        check_range(field, millis, 1..=limits::TIMESTAMP_MS_MAX)?;
    }
    let mut at = Some(Position::first(&app, &query)?);
    let mut executions = Vec::new();
    let mut calls = 0;
    while let Some(position) = at.take() {
        let wanted = limit - executions.len() as u32;
        if wanted == 0 || calls == CALLS_MAX {
            at = Some(position);
            break;
        }
        let partition = Partition::flow(position.partition);
        let listed = app.backend.list_executions(partition, &filter, position.inside, wanted);
        let page = listed.await.map_err(wrong_cursor)?;
        executions.extend(page.items.into_iter().map(Into::into));
        at = Position::after(&app, &query, position.partition, page.next_cursor);
        calls += 1;
    }
    ok(ExecutionList { executions, next_cursor: at.map(|position| position.encode()) })
}

/// The only input that the store itself can find wrong is the cursor.
fn wrong_cursor(error: EngineError) -> Refusal {
    if error.code() == Some(Code::InvalidInput) {
        return Refusal::invalid(
            "cursor",
            "is not of this list: pass it back with the same filter",
        );
    }
    error.into()
}

/// A place in a list over partitions: the partition, and the store's own cursor inside it.
#[derive(Debug, PartialEq, Eq)]
struct Position {
    partition: u16,
    inside: Option<String>,
}

impl Position {
    fn first(app: &App, query: &ListQuery) -> Result<Self, Refusal> {
        let count = app.partitions().num_flow_partitions;
        if let Some(partition) = query.partition {
            check_range("partition", partition.into(), 0..=u64::from(count) - 1)?;
        }
        let position = match &query.cursor {
            Some(cursor) => Self::decode(cursor).filter(|position| position.partition < count),
            None => Some(Self { partition: query.partition.unwrap_or(0), inside: None }),
        };
        position
            .filter(|position| query.partition.is_none_or(|only| only == position.partition))
            .ok_or_else(|| Refusal::invalid("cursor", "must be a next_cursor of this list"))
    }

    fn after(app: &App, query: &ListQuery, partition: u16, inside: Option<String>) -> Option<Self> {
        if inside.is_some() {
            return Some(Self { partition, inside });
        }
        let next = partition + 1;
        let more = query.partition.is_none() && next < app.partitions().num_flow_partitions;
        more.then_some(Self { partition: next, inside: None })
    }

    fn encode(&self) -> String {
        let inside = self.inside.as_deref().unwrap_or_default();
        encode_token(format!("1.{}.{inside}", self.partition).as_bytes())
    }

    fn decode(text: &str) -> Option<Self> {
        let text = String::from_utf8(decode_token(text)?).ok()?;
        let mut parts = text.splitn(3, '.');
        let (version, partition, inside) = (parts.next()?, parts.next()?, parts.next()?);
        let inside = (!inside.is_empty()).then(|| inside.to_owned());
        (version == "1").then_some(Self { partition: partition.parse().ok()?, inside })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_position_survives_its_text_and_nothing_else_is_one() {
        for inside in [None, Some("q:a.b|12|x".to_owned())] {
            let position = Position { partition: 255, inside };
            assert_eq!(Position::decode(&position.encode()), Some(position));
        }
        for wrong in ["", "x", "MS4", "Mi4xLg", "MS54Lg", "MS43MDAwMC4", "===", "\u{e9}"] {
            assert_eq!(Position::decode(wrong), None, "{wrong}");
        }
    }
}
