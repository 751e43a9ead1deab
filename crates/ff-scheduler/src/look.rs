//! Looking through all partitions: what waits in lanes of which nothing is known, and what a lost
//! push has told of.

use std::sync::Arc;

use ff_core::contracts::QueueHead;
use ff_core::error::EngineError;
use ff_core::partition::Partition;
use ff_core::types::LaneId;
use ff_script::together::some_at_a_time;

use crate::Shared;
use crate::turns::Weight;

/// Lanes that somebody looks through. Unless all partitions answer, they stay unknown.
struct Looking<'a> {
    shared: &'a Shared,
    lanes: &'a [LaneId],
    everywhere: bool,
}

impl Drop for Looking<'_> {
    fn drop(&mut self) {
        self.shared.board().looked(self.lanes, self.everywhere);
        self.shared.looked.notify_waiters();
    }
}

/// Looks through all partitions for work of these lanes.
pub(crate) async fn look(shared: &Arc<Shared>, lanes: &[LaneId]) -> Result<(), EngineError> {
    let mut looking = Looking { shared, lanes, everywhere: false };
    let partitions: Vec<_> = shared.backend.partition_config().flow_partitions().collect();
    weigh(shared, lanes).await?;
    look_at(shared, lanes, &partitions).await?;
    looking.everywhere = true;
    Ok(())
}

/// Asks for the weights of these lanes. Later changes are told by pushes.
async fn weigh(shared: &Shared, lanes: &[LaneId]) -> Result<(), EngineError> {
    let weights = shared.backend.claim_weights().await?;
    let mut board = shared.board();
    for lane in lanes {
        let weight = weights.get(lane).and_then(|weight| Weight::new(*weight));
        board.weigh(lane, weight.unwrap_or_default());
    }
    Ok(())
}

/// Looks through some partitions for work of these lanes.
pub(crate) async fn look_at(
    shared: &Arc<Shared>,
    lanes: &[LaneId],
    partitions: &[Partition],
) -> Result<(), EngineError> {
    // A list, not an iterator: the compiler cannot see that the latter may cross threads.
    let asked: Vec<_> =
        partitions.iter().map(|it| list(Arc::clone(shared), *it, lanes.to_vec())).collect();
    some_at_a_time("list_needs", asked, Ok).await
}

async fn list(
    shared: Arc<Shared>,
    partition: Partition,
    lanes: Vec<LaneId>,
) -> Result<(), EngineError> {
    let heard = shared.board().heard();
    let heads = shared.backend.list_needs(partition, lanes.clone()).await?;
    let mut board = shared.board();
    for lane in &lanes {
        let own = heads.iter().filter(|head| head.lane == *lane);
        let queues: Vec<_> = own.map(told).collect();
        board.listed(lane, partition.index, &queues, heard);
    }
    Ok(())
}

fn told(head: &QueueHead) -> (String, i64, u32) {
    (head.need.to_string(), head.score, head.waiting)
}
