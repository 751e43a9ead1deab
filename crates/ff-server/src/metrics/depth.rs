//! How much waits in each lane, and since when. Asking costs one call for each partition, so the
//! answer is kept for a while.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use ff_core::contracts::LaneDepth;
use ff_core::error::EngineError;
use ff_core::limits;
use ff_core::partition::Partition;
use ff_core::types::{LaneId, TimestampMs};
use tokio::sync::Mutex;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::text::Text;
use crate::app::App;

/// Partitions that are asked at the same time: one after the other, each would wait for its own
/// sync of a busy journal.
const ASKED_AT_ONCE_MAX: usize = 16;

/// How long an answer is kept.
const KEPT: Duration = Duration::from_secs(5);

/// What waits in a lane, all partitions together.
#[derive(Clone, Debug)]
pub(crate) struct Depth {
    pub(crate) waiting: u64,
    pub(crate) head_created_at: Option<TimestampMs>,
}

#[derive(Clone)]
struct Known {
    at: Instant,
    now: TimestampMs,
    lanes: BTreeMap<LaneId, Depth>,
}

/// The latest answer.
#[derive(Default)]
pub(super) struct Depths(Mutex<Option<Known>>);

impl Depths {
    /// Whoever asks while somebody else asks waits for that answer.
    async fn get(&self, app: &App) -> Result<Known, EngineError> {
        let mut known = self.0.lock().await;
        if let Some(known) = known.as_ref().filter(|known| known.at.elapsed() < KEPT) {
            return Ok(known.clone());
        }
        let asked = ask(app).await?;
        *known = Some(asked.clone());
        Ok(asked)
    }

    pub(super) async fn render(&self, app: &App, text: &mut Text) {
        let known = match self.get(app).await {
            Ok(known) => known,
            Err(error) => {
                tracing::warn!(%error, "reading the depths of lanes failed");
                return;
            }
        };
        text.family("ff_queue_depth", "gauge", "Executions that could be claimed now, by lane.");
        for (lane, depth) in &known.lanes {
            text.sample("ff_queue_depth", &[("lane", lane.as_str())], depth.waiting);
        }
        let about = "How long the oldest execution at the head of the lane has existed.";
        text.family("ff_queue_head_age_seconds", "gauge", about);
        for (lane, depth) in &known.lanes {
            let age_ms = depth.head_created_at.map_or(0, |at| at.millis_until(known.now));
            let seconds = Duration::from_millis(age_ms).as_secs_f64();
            text.sample("ff_queue_head_age_seconds", &[("lane", lane.as_str())], seconds);
        }
    }
}

async fn ask(app: &App) -> Result<Known, EngineError> {
    let page = app.backend.list_lanes(None, limits::LANES_MAX as u32).await?;
    let lanes = sum(app, page.lanes).await?;
    let now = app.store_time(Partition::flow(0)).await?;
    Ok(Known { at: Instant::now(), now, lanes })
}

/// The depths of these lanes, all partitions together.
pub(crate) async fn sum(
    app: &App,
    lanes: Vec<LaneId>,
) -> Result<BTreeMap<LaneId, Depth>, EngineError> {
    let none = Depth { waiting: 0, head_created_at: None };
    let mut depths: BTreeMap<_, _> = lanes.iter().map(|l| (l.clone(), none.clone())).collect();
    if lanes.is_empty() {
        return Ok(depths);
    }
    let mut partitions = app.partitions().flow_partitions();
    let mut asking = JoinSet::new();
    loop {
        for partition in partitions.by_ref().take(ASKED_AT_ONCE_MAX - asking.len()) {
            let (backend, lanes) = (Arc::clone(&app.backend), lanes.clone());
            asking.spawn(async move { backend.lane_depths(partition, lanes).await });
        }
        let Some(answer) = asking.join_next().await else { return Ok(depths) };
        let lost = |_| EngineError::Unavailable { op: "lane_depths" };
        answer.map_err(lost)??.into_iter().for_each(|depth| add(&mut depths, depth));
    }
}

fn add(depths: &mut BTreeMap<LaneId, Depth>, part: LaneDepth) {
    let Some(depth) = depths.get_mut(&part.lane) else { return };
    depth.waiting += part.waiting;
    depth.head_created_at = match (depth.head_created_at, part.head_created_at) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    };
}
