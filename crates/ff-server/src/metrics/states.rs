//! How many executions are in which state, by kind. Asking costs two calls for each partition, so
//! the answer is kept for a while.

use std::collections::BTreeMap;
use std::time::Duration;

use ff_core::contracts::{ExecutionCounts, KindCount, KindCounts};
use ff_core::error::EngineError;
use ff_core::state::PublicState;
use tokio::sync::Mutex;
use tokio::time::Instant;

use super::kinds::KINDS_MAX;
use super::text::Text;
use super::workers::Workers;
use crate::app::App;

/// How long an answer is kept: as long as most scrape intervals.
const KEPT: Duration = Duration::from_secs(10);

/// Only their sum is counted as executions move; how many of each there are is told by kind.
const WAITING: [PublicState; 5] = [
    PublicState::Waiting,
    PublicState::Delayed,
    PublicState::RateLimited,
    PublicState::WaitingChildren,
    PublicState::Suspended,
];

#[derive(Clone)]
struct Known {
    at: Instant,
    totals: ExecutionCounts,
    kinds: KindCounts,
}

/// The latest answer.
#[derive(Default)]
pub(super) struct States(Mutex<Option<Known>>);

impl States {
    /// Whoever asks while somebody else asks waits for that answer.
    async fn get(&self, app: &App) -> Result<Known, EngineError> {
        let mut known = self.0.lock().await;
        if let Some(known) = known.as_ref().filter(|known| known.at.elapsed() < KEPT) {
            return Ok(known.clone());
        }
        let totals = app.backend.count_executions().await?;
        let kinds = app.backend.count_kinds().await?;
        let asked = Known { at: Instant::now(), totals, kinds };
        *known = Some(asked.clone());
        Ok(asked)
    }

    pub(super) async fn render(&self, app: &App, workers: &Workers, text: &mut Text) {
        match self.get(app).await {
            Ok(known) => known.render(workers, text),
            Err(error) => tracing::warn!(%error, "counting executions failed"),
        }
    }
}

impl Known {
    fn render(&self, workers: &Workers, text: &mut Text) {
        let about = "Executions by state; what is over is counted until it is removed.";
        text.family("ff_executions", "gauge", about);
        for (state, count) in self.by_state() {
            text.sample("ff_executions", &[("state", state.as_str())], count);
        }
        let about = "Executions by kind and state; the kinds with most of them.";
        text.family("ff_executions_by_kind", "gauge", about);
        let shown = most(&self.kinds.counts);
        for one in shown.iter() {
            let labels = [("kind", one.kind.as_str()), ("state", one.public_state.as_str())];
            text.sample("ff_executions_by_kind", &labels, one.count);
        }
        let about = "0 if there are too many to count by kind, and some stand for the others.";
        let exact = u64::from(self.kinds.exact);
        text.number("ff_executions_by_kind_exact", "gauge", about, exact);
        let about = "Executions that wait although no worker that this server hears from takes \
            their kind.";
        text.family("ff_unserved_executions", "gauge", about);
        let waiting = shown.iter().filter(|one| one.public_state == PublicState::Waiting);
        for one in waiting {
            let count = if workers.take(&one.kind) { 0 } else { one.count };
            text.sample("ff_unserved_executions", &[("kind", one.kind.as_str())], count);
        }
    }

    fn by_state(&self) -> Vec<(PublicState, u64)> {
        let totals = &self.totals;
        let of_kinds = |state| {
            let same = self.kinds.counts.iter().filter(|one| one.public_state == state);
            (state, same.map(|one| one.count).sum())
        };
        let exact = [
            (PublicState::Active, totals.active),
            (PublicState::Completed, totals.completed),
            (PublicState::Failed, totals.failed),
            (PublicState::Cancelled, totals.cancelled),
            (PublicState::Expired, totals.expired),
            (PublicState::Skipped, totals.skipped),
        ];
        WAITING.into_iter().map(of_kinds).chain(exact).collect()
    }
}

/// The counts of the kinds that have most.
fn most(counts: &[KindCount]) -> Vec<&KindCount> {
    let mut sums: BTreeMap<&str, u64> = BTreeMap::new();
    for one in counts {
        *sums.entry(one.kind.as_str()).or_default() += one.count;
    }
    let mut order: Vec<(&str, u64)> = sums.into_iter().collect();
    order.sort_by_key(|(_, sum)| std::cmp::Reverse(*sum));
    order.truncate(KINDS_MAX);
    let shown = |one: &&KindCount| order.iter().any(|(kind, _)| *kind == one.kind.as_str());
    counts.iter().filter(shown).collect()
}
