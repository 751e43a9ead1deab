//! Doing something in many partitions, some at the same time, and telling for each what became of
//! it.

use std::collections::HashMap;
use std::sync::Arc;

use ff_core::contracts::PartitionFailure;
use ff_core::error::EngineError;
use ff_core::partition::Partition;
use tokio::task::JoinSet;

use super::call;
use crate::call::Call;
use crate::host::Host;
use crate::together::AT_ONCE_MAX;

/// A partition in which something was not done, and why.
pub(super) type Failed = (Partition, EngineError);

/// Makes these calls, some at the same time, and hands each answer over.
pub(super) async fn in_each<H: Host + ?Sized, C: Call<Reply: Send> + 'static>(
    host: &Arc<H>,
    calls: impl IntoIterator<Item = (Partition, C)>,
    mut answered: impl FnMut(Partition, Result<C::Reply, EngineError>),
) {
    let (mut calls, mut running, mut places) = (calls.into_iter(), JoinSet::new(), HashMap::new());
    loop {
        for (partition, one) in calls.by_ref().take(AT_ONCE_MAX - running.len()) {
            let host = Arc::clone(host);
            let task = running.spawn(async move { call(host.as_ref(), partition, one).await });
            places.insert(task.id(), partition);
        }
        let Some(ended) = running.join_next_with_id().await else { return };
        let (id, answer) = ended.unwrap_or_else(|ended| {
            (ended.id(), Err(EngineError::Unavailable { op: C::CONTRACT.name }))
        });
        if let Some(partition) = places.remove(&id) {
            answered(partition, answer);
        }
    }
}

/// Where something was not done, and why, in the order of partitions.
pub(super) fn failures(failed: &[Failed]) -> Vec<PartitionFailure> {
    let row = |(partition, error): &Failed| PartitionFailure {
        partition: partition.index,
        reason: error.to_string(),
    };
    let mut rows: Vec<PartitionFailure> = failed.iter().map(row).collect();
    rows.sort_unstable_by_key(|row| row.partition);
    rows
}
