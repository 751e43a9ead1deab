//! The deployment: what it runs on, its lanes, its event logs.

use std::sync::Arc;

use axum::extract::State;
use ff_api::deployment::{Deployment, EventQuery, Lane, LaneList, LaneQuery};
use ff_api::history::EventPage;
use ff_api::paths;
use ff_api::schema;
use ff_core::argument::check_range;
use ff_core::error::{Code, EngineError};
use ff_core::limits;
use ff_core::partition::Partition;
use ff_core::types::LaneId;

use crate::answer::{Answered, ok};
use crate::app::App;
use crate::extract::Query;
use crate::metrics::depth;
use crate::refusal::Refusal;
use crate::route::Route;

const TAG: &str = "deployment";

/// How many lanes or events a page has unless the request says otherwise.
const LIMIT_DEFAULT: u32 = 100;

pub(super) fn routes() -> Vec<Route> {
    vec![
        Route::get(paths::LANES, lanes)
            .says("listLanes", TAG, "The lanes that were ever used, and how much waits in them.")
            .query::<LaneQuery>()
            .answers::<LaneList>(200, "A page, in the order of names."),
        Route::get(paths::EVENTS, events)
            .says("readEvents", TAG, "The event log of one partition, from a position.")
            .query::<EventQuery>()
            .uses::<schema::EventCursor>()
            .answers::<EventPage>(200, "Some events, in their order."),
        Route::get(paths::DEPLOYMENT, deployment)
            .says("getDeployment", TAG, "What the server runs on.")
            .answers::<Deployment>(200, "The deployment."),
    ]
}

fn check_limit(limit: Option<u32>) -> Result<u32, EngineError> {
    let limit = limit.unwrap_or(LIMIT_DEFAULT);
    check_range("limit", limit.into(), 1..=limits::LIST_LIMIT_MAX).map(|()| limit)
}

fn check_partition(app: &App, index: u16) -> Result<Partition, EngineError> {
    let last = u64::from(app.partitions().num_flow_partitions) - 1;
    check_range("partition", index.into(), 0..=last).map(|()| Partition::flow(index))
}

async fn lanes(State(app): State<Arc<App>>, Query(query): Query<LaneQuery>) -> Answered<LaneList> {
    let limit = check_limit(query.limit)?;
    let only = query.partition.map(|index| check_partition(&app, index)).transpose()?;
    let page = app.backend.list_lanes(query.cursor, limit).await?;
    let lanes = match only {
        Some(partition) => depths_on(&app, partition, page.lanes).await?,
        None => depths(&app, page.lanes).await?,
    };
    ok(LaneList { lanes, next_cursor: page.next_cursor })
}

async fn depths(app: &App, lanes: Vec<LaneId>) -> Result<Vec<Lane>, EngineError> {
    let summed = depth::sum(app, lanes).await?;
    let lane = |(lane, depth): (LaneId, depth::Depth)| Lane {
        lane,
        waiting: depth.waiting,
        head_created_at: depth.head_created_at,
    };
    Ok(summed.into_iter().map(lane).collect())
}

async fn depths_on(
    app: &App,
    partition: Partition,
    lanes: Vec<LaneId>,
) -> Result<Vec<Lane>, EngineError> {
    let depths = app.backend.lane_depths(partition, lanes).await?;
    Ok(depths.into_iter().map(Into::into).collect())
}

async fn events(
    State(app): State<Arc<App>>,
    Query(query): Query<EventQuery>,
) -> Answered<EventPage> {
    let limit = check_limit(query.limit)?;
    let partition = check_partition(&app, query.partition)?;
    let read = app.backend.read_events(partition, query.after, limit).await;
    ok(read.map_err(wrong_position)?.into())
}

/// The only input that the store itself can find wrong is the position.
fn wrong_position(error: EngineError) -> Refusal {
    if error.code() == Some(Code::InvalidInput) {
        return Refusal::invalid("after", "must be the cursor of an event");
    }
    error.into()
}

async fn deployment(State(app): State<Arc<App>>) -> Answered<Deployment> {
    ok(Deployment {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        store: app.backend.name().to_owned(),
        partitions: app.partitions().into(),
    })
}
