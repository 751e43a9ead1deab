//! Fills the queues with executions that wait.

use std::sync::{Arc, Mutex, PoisonError};

use ff_core::limits::CREATE_BATCH_MAX;
use ff_core::partition::Partition;

use crate::Failure;
use crate::arguments::LoadOptions;
use crate::caller::{self, Caller};
use crate::progress::Progress;
use crate::store::Store;
use crate::worker::Worker;

/// Enough to keep a store busy while one caller encodes.
const CALLERS: usize = 4;

/// Creates as many executions, spread evenly over all partitions.
pub(crate) async fn fill(store: &Store, load: &LoadOptions, count: u64) -> Result<(), Failure> {
    let batches = batches(count, store.partitions());
    let steps = batches.len() as u64;
    let batches = Arc::new(Mutex::new(batches));
    let progress = Arc::new(Progress::new("creating waiting executions", count));
    let filler =
        |worker| Filler { worker, batches: Arc::clone(&batches), progress: Arc::clone(&progress) };
    let workers: Result<Vec<_>, _> = (0..CALLERS).map(|_| Worker::new(store, load, 1)).collect();
    caller::run(workers?.into_iter().map(filler).collect(), steps).await?;
    Ok(())
}

type Batch = (Partition, u64);

/// Batches of one call each. Neighbours are on different partitions, so that all queues grow alike.
fn batches(count: u64, partitions: u16) -> Vec<Batch> {
    let mut left: Vec<Batch> = (0..partitions)
        .map(|index| {
            let (all, place) = (u64::from(partitions), u64::from(index));
            (Partition::flow(index), count / all + u64::from(place < count % all))
        })
        .collect();
    let mut batches = Vec::new();
    while left.iter().any(|(_, count)| *count > 0) {
        for (partition, count) in left.iter_mut().filter(|(_, count)| *count > 0) {
            let size = (*count).min(CREATE_BATCH_MAX);
            batches.push((*partition, size));
            *count -= size;
        }
    }
    batches
}

struct Filler {
    worker: Worker,
    batches: Arc<Mutex<Vec<Batch>>>,
    progress: Arc<Progress>,
}

impl Caller for Filler {
    async fn step(&mut self) -> Result<(), Failure> {
        let batch = self.batches.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let Some((partition, count)) = batch else { return Ok(()) };
        self.worker.create_many(partition, count).await?;
        self.progress.add(count);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_partition_gets_its_share() {
        let batches = batches(1000, 3);
        let of = |index| {
            let mine = batches.iter().filter(|(partition, _)| *partition == Partition::flow(index));
            mine.map(|(_, count)| *count).sum::<u64>()
        };
        assert_eq!([of(0), of(1), of(2)], [334, 333, 333]);
        assert!(batches.iter().all(|(_, count)| *count <= CREATE_BATCH_MAX));
    }
}
