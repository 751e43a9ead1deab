//! How much waits in each lane, and of each need in it, and since when. Asking costs one call for
//! each partition, so the answer is kept for a while.

use std::cmp::Reverse;
use std::sync::Arc;
use std::time::Duration;

use ff_core::contracts::{Depths, LaneDepth, NeedDepth};
use ff_core::error::EngineError;
use ff_core::limits;
use ff_core::partition::Partition;
use ff_core::types::{LaneId, TimestampMs};
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
    depths: Arc<Told>,
}

/// The latest answer.
#[derive(Default)]
pub(super) struct LatestDepths(Mutex<Option<Known>>);

impl LatestDepths {
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
        known.depths.render(known.now, text);
    }
}

async fn ask(app: &App) -> Result<Known, EngineError> {
    let depths = app.backend.depths().await?;
    let now = app.store_time(Partition::flow(0)).await?;
    Ok(Known { at: Instant::now(), now, depths: Arc::new(Told::new(depths)) })
}

/// What is told: all lanes, the needs with most, and what is left of each lane.
struct Told {
    lanes: Vec<LaneDepth>,
    needs: Vec<NeedDepth>,
    others: Vec<(LaneId, u64)>,
}

impl Told {
    fn new(Depths { lanes, mut needs }: Depths) -> Self {
        let order = |depth: &NeedDepth| (depth.lane.clone(), depth.need.to_string());
        needs.sort_by_cached_key(|depth| (Reverse(depth.waiting), order(depth)));
        needs.truncate(limits::NEED_METRICS_MAX as usize);
        needs.sort_by_cached_key(order);
        let left = |lane: &LaneDepth| {
            let told = needs.iter().filter(|depth| depth.lane == lane.lane);
            lane.waiting.saturating_sub(told.map(|depth| depth.waiting).sum())
        };
        let others = lanes.iter().map(|lane| (lane.lane.clone(), left(lane)));
        let others = others.filter(|(_, left)| *left > 0).collect();
        Self { lanes, needs, others }
    }

    fn render(&self, now: TimestampMs, text: &mut Text) {
        text.family("ff_queue_depth", "gauge", "Executions that could be claimed now, by lane.");
        for depth in &self.lanes {
            text.sample("ff_queue_depth", &[("lane", depth.lane.as_str())], depth.waiting);
        }
        let about = "How long the oldest execution at the head of the lane has existed.";
        text.family("ff_queue_head_age_seconds", "gauge", about);
        for depth in &self.lanes {
            let seconds = age(depth.head_created_at, now);
            text.sample("ff_queue_head_age_seconds", &[("lane", depth.lane.as_str())], seconds);
        }
        self.render_needs(now, text);
    }

    fn render_needs(&self, now: TimestampMs, text: &mut Text) {
        let about = "Executions that could be claimed now, by lane and what they ask of a worker.";
        text.family("ff_need_depth", "gauge", about);
        for depth in &self.needs {
            let need = depth.need.to_string();
            let labels = [("lane", depth.lane.as_str()), ("need", &*need)];
            text.sample("ff_need_depth", &labels, depth.waiting);
        }
        for (lane, left) in &self.others {
            text.sample("ff_need_depth", &[("lane", lane.as_str()), ("need", "other")], *left);
        }
        let about = "How long the oldest execution at the head of such a queue has existed.";
        text.family("ff_need_head_age_seconds", "gauge", about);
        for depth in &self.needs {
            let need = depth.need.to_string();
            let labels = [("lane", depth.lane.as_str()), ("need", &*need)];
            text.sample("ff_need_head_age_seconds", &labels, age(depth.head_created_at, now));
        }
    }
}

fn age(since: Option<TimestampMs>, now: TimestampMs) -> f64 {
    Duration::from_millis(since.map_or(0, |at| at.millis_until(now))).as_secs_f64()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn need(kind: &str, waiting: u64) -> NeedDepth {
        let need = format!("default:{kind}").parse().expect("a need");
        NeedDepth { lane: LaneId::default(), need, waiting, head_created_at: None }
    }

    #[test]
    fn any_number_of_needs_makes_a_bounded_number_of_series() {
        let most = limits::NEED_METRICS_MAX;
        let needs = (0..2 * most).map(|number| need(&format!("k{number}"), number + 1)).collect();
        let waiting = (1..=2 * most).sum();
        let (lane, settings) = (LaneId::default(), None);
        let lanes = vec![LaneDepth { lane, waiting, head_created_at: None, settings }];
        let told = Told::new(Depths { lanes, needs });
        assert_eq!(told.needs.len() as u64, most);
        assert!(told.needs.iter().all(|depth| depth.waiting > most), "those with most");
        assert_eq!(told.others, [(LaneId::default(), (1..=most).sum::<u64>())]);
    }
}
