//! The newest executions of a deployment that has too many to look at all of them. Each partition
//! lists its own newest first, so that a little of each is enough: a partition is asked again only
//! while what it has left may still be among the newest of all.

use std::cmp::Reverse;
use std::sync::Arc;

use ff_core::partition::Partition;
use ff_sdk::{Client, EngineBackend, ExecutionSummary, ListFilter, TimestampMs};
use tokio::task::JoinSet;

use super::Found;
use crate::failure::Failure;

/// How many partitions are asked at the same time.
const AT_ONCE: usize = 16;
/// A filter that hardly anything passes would have every partition read to its end.
const CALLS_MAX: usize = 4096;

/// One partition, from its newest execution to its oldest.
struct Walk {
    partition: Partition,
    cursor: Option<String>,
    at_end: bool,
    /// Nothing that is left here is newer than this.
    newest_left: Option<TimestampMs>,
}

impl Walk {
    fn may_have(&self, oldest_wanted: Option<TimestampMs>) -> bool {
        let older = match (self.newest_left, oldest_wanted) {
            (Some(left), Some(wanted)) => left < wanted,
            _ => false,
        };
        !self.at_end && !older
    }

    async fn step(
        mut self,
        engine: Arc<dyn EngineBackend>,
        filter: Arc<ListFilter>,
        page: u32,
    ) -> Result<(Self, Vec<ExecutionSummary>), Failure> {
        let (partition, cursor) = (Some(self.partition.index), self.cursor.take());
        let filter = ListFilter { partition, cursor, limit: Some(page), ..(*filter).clone() };
        let listed = engine.list_executions(filter).await?;
        self.newest_left = listed.items.last().map(|last| last.created_at).or(self.newest_left);
        self.at_end = listed.next_cursor.is_none();
        self.cursor = listed.next_cursor;
        Ok((self, listed.items))
    }
}

/// The newest that pass a filter without a state.
pub(super) async fn newest(
    client: &Client,
    filter: ListFilter,
    limit: usize,
) -> Result<Found, Failure> {
    let partitions = client.connection().partition_config().num_flow_partitions;
    let page = (2 * limit / usize::from(partitions)).clamp(4, 100) as u32;
    let filter = Arc::new(filter);
    let mut walks: Vec<Walk> = (0..partitions).map(Partition::flow).map(begin).collect();
    let mut found = Found::default();
    for _ in 0..CALLS_MAX / AT_ONCE {
        let oldest_wanted = found.newest.get(limit - 1).map(|summary| summary.created_at);
        walks.retain(|walk| walk.may_have(oldest_wanted));
        // Those that may have the newest come first: what they have may spare the others.
        walks
            .sort_by_key(|walk| Reverse(walk.newest_left.map_or(u64::MAX, TimestampMs::as_millis)));
        if walks.is_empty() {
            found.exact = true;
            break;
        }
        let mut steps = JoinSet::new();
        for walk in walks.drain(..walks.len().min(AT_ONCE)) {
            let engine = Arc::clone(client.connection().engine());
            steps.spawn(walk.step(engine, Arc::clone(&filter), page));
        }
        while let Some(step) = steps.join_next().await {
            let (walk, items) = step??;
            walks.push(walk);
            found.add(items, limit);
        }
    }
    Ok(found)
}

fn begin(partition: Partition) -> Walk {
    Walk { partition, cursor: None, at_end: false, newest_left: None }
}
