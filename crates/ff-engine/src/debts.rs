//! What partitions owe to others: carried out as soon as a tick tells of it, acknowledged with the
//! next tick of the partition. An entry whose acknowledgement is lost is told of again, and whoever
//! receives it twice notices.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use ff_core::contracts::Owed;
use ff_core::engine_backend::PartitionBackend;
use ff_core::partition::Partition;
use tokio::task::JoinSet;

/// What was done is acknowledged by a tick of its own if there is none so long: well before the
/// entries count as lost.
pub(crate) const SETTLE_WITHIN: Duration = Duration::from_millis(500);

/// What is being carried out, and what is done.
#[derive(Default)]
pub(crate) struct Debts {
    carrying: JoinSet<(Partition, Vec<Vec<u8>>)>,
    done: HashMap<Partition, Vec<Vec<u8>>>,
}

impl Debts {
    /// Begins to carry out what a partition owes.
    pub(crate) fn carry_out(
        &mut self,
        backend: &Arc<dyn PartitionBackend>,
        partition: Partition,
        owed: Vec<Owed>,
    ) {
        if owed.is_empty() {
            return;
        }
        let backend = Arc::clone(backend);
        self.carrying.spawn(async move {
            let done = backend.carry_out(partition, owed).await.unwrap_or_else(|error| {
                tracing::warn!(%partition, %error, "what is owed could not be carried out");
                Vec::new()
            });
            (partition, done)
        });
    }

    /// The partition of which something was carried out and is to be acknowledged; none while
    /// nothing is under way.
    pub(crate) async fn next(&mut self) -> Option<Partition> {
        loop {
            // What panicked is told of again by a later tick.
            let Ok((partition, done)) = self.carrying.join_next().await? else { continue };
            if !done.is_empty() {
                self.done.entry(partition).or_default().extend(done);
                return Some(partition);
            }
        }
    }

    /// What a tick of this partition is to acknowledge, as much as one takes.
    pub(crate) fn done(&mut self, partition: Partition) -> Vec<Vec<u8>> {
        let Some(mut done) = self.done.remove(&partition) else { return Vec::new() };
        let rest = done.split_off(done.len().min(ff_core::limits::RELEASES_MAX as usize));
        if !rest.is_empty() {
            self.done.insert(partition, rest);
        }
        done
    }
}
