//! What a claim costs with few and with many executions waiting.

use serde_json::{Value, json};

use super::phases::{self, PhaseCosts};
use super::{PHASE_EXECUTIONS_PER_ROUND_MAX, ROUNDS};
use crate::Failure;
use crate::arguments::Lifecycle;
use crate::fill;
use crate::progress::Progress;
use crate::report::{Report, rounded};
use crate::store::Store;

/// A store with so many executions waiting.
struct Queue {
    waiting: u64,
    store: Store,
    costs: PhaseCosts,
}

/// Compares the numbers in `--compare-waiting`. All stores are there from the beginning and take
/// turns, so that whatever else the machine does hits all of them alike.
pub(super) async fn run(options: &Lifecycle) -> Result<Report, Failure> {
    let mut queues = Vec::new();
    for waiting in &options.compare_waiting {
        queues.push(Queue::open(options, *waiting).await?);
    }
    let group = u64::from(options.claim_batch);
    let per_round = (options.load.executions / ROUNDS).min(PHASE_EXECUTIONS_PER_ROUND_MAX);
    let groups = per_round.div_ceil(group).max(1);
    let progress = Progress::new("rounds", ROUNDS);
    for _ in 0..ROUNDS {
        for queue in &mut queues {
            queue.costs.merge(phases::measure(&queue.store, options, groups).await?);
        }
        progress.add(1);
    }
    drop(progress);
    for queue in &queues {
        queue.store.check_journal(options.store.journal)?;
    }
    Ok(report(options, &queues, ROUNDS * groups * group))
}

impl Queue {
    async fn open(options: &Lifecycle, waiting: u64) -> Result<Self, Failure> {
        let store = Store::open(&options.store).await?;
        fill::fill(&store, &options.load, waiting).await?;
        Ok(Self { waiting, store, costs: PhaseCosts::default() })
    }

    fn claim_us(&self) -> Option<f64> {
        self.costs.claim.median()
    }

    fn row(&self) -> Value {
        let known = |us: Option<f64>| us.map(rounded);
        json!({
            "waiting": self.waiting,
            "claim_us": known(self.claim_us()),
            "create_us": known(self.costs.create.median()),
            "complete_us": known(self.costs.complete.median()),
        })
    }
}

fn report(options: &Lifecycle, queues: &[Queue], executions: u64) -> Report {
    let mut load = options.load.clone();
    load.executions = executions;
    let first = queues.first().and_then(Queue::claim_us);
    let last = queues.last().and_then(Queue::claim_us);
    Report::new("lifecycle", &options.store, &load)
        .field("claim_batch", options.claim_batch)
        .field("by_waiting", queues.iter().map(Queue::row).collect::<Vec<_>>())
        .measured("claim_ratio", last.zip(first).map(|(last, first)| last / first))
}
