//! How much waits in each lane, and since when. Asking costs one call for each partition, so the
//! answer is kept for a while.

use std::time::Duration;

use ff_core::contracts::{LaneDepth, LaneQuery};
use ff_core::error::EngineError;
use ff_core::limits;
use ff_core::partition::Partition;
use ff_core::types::TimestampMs;
use tokio::sync::Mutex;
use tokio::time::Instant;

use super::text::Text;
use crate::app::App;

/// How long an answer is kept.
const KEPT: Duration = Duration::from_secs(5);

#[derive(Clone)]
struct Known {
    at: Instant,
    now: TimestampMs,
    lanes: Vec<LaneDepth>,
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
        for depth in &known.lanes {
            text.sample("ff_queue_depth", &[("lane", depth.lane.as_str())], depth.waiting);
        }
        let about = "How long the oldest execution at the head of the lane has existed.";
        text.family("ff_queue_head_age_seconds", "gauge", about);
        for depth in &known.lanes {
            let age_ms = depth.head_created_at.map_or(0, |at| at.millis_until(known.now));
            let seconds = Duration::from_millis(age_ms).as_secs_f64();
            text.sample("ff_queue_head_age_seconds", &[("lane", depth.lane.as_str())], seconds);
        }
    }
}

async fn ask(app: &App) -> Result<Known, EngineError> {
    let all = LaneQuery { limit: Some(limits::LANES_MAX as u32), ..LaneQuery::default() };
    let lanes = app.backend.list_lanes(all).await?.lanes;
    let now = app.store_time(Partition::flow(0)).await?;
    Ok(Known { at: Instant::now(), now, lanes })
}
