//! How many executions of which kind are in which state, all partitions together.

use std::collections::BTreeMap;
use std::sync::Arc;

use ff_core::contracts::{KindCount, KindCounts};
use ff_core::error::EngineError;
use ff_core::limits;
use ff_core::partition::Partition;
use ff_core::state::PublicState;
use ff_core::types::{ExecutionKind, LaneId};

use super::reads::read_row;
use super::{ScriptBackend, call};
use crate::calls::kind_counts::{CountKinds, CountKindsReply};
use crate::host::Host;
use crate::wire::{Rest, row};

/// Executions that one count looks at, all partitions together: a fraction of a second.
const LOOK_AT: u32 = 65_536;
/// A partition of a deployment with many of them is asked for so many at least.
const LOOK_AT_MIN: u32 = 16;

row!(KindCount { kind, public_state, count });

impl<H: Host + ?Sized> ScriptBackend<H> {
    pub(super) async fn count_by_kind(&self) -> Result<KindCounts, EngineError> {
        let lanes = self.all_lanes().await?;
        let partitions = u32::from(self.config.num_flow_partitions).max(1);
        let most = limits::COUNT_LOOK_MAX as u32;
        let look_at = (LOOK_AT / partitions).clamp(LOOK_AT_MIN, most);
        let mut sums: BTreeMap<(ExecutionKind, PublicState), u64> = BTreeMap::new();
        let mut all_exact = true;
        let ask = |host, partition| count(host, partition, look_at, lanes.clone());
        let collect = |part: KindCounts| {
            all_exact &= part.exact;
            for KindCount { kind, public_state, count } in part.counts {
                *sums.entry((kind, public_state)).or_default() += count;
            }
        };
        self.ask_all("count_kinds", ask, collect).await?;
        let counts = sums.into_iter().map(|((kind, public_state), count)| KindCount {
            kind,
            public_state,
            count,
        });
        Ok(KindCounts { counts: counts.collect(), exact: all_exact })
    }
}

async fn count<H: Host + ?Sized>(
    host: Arc<H>,
    partition: Partition,
    look_at: u32,
    lanes: Vec<LaneId>,
) -> Result<KindCounts, EngineError> {
    let asked = CountKinds { look_at, lanes: Rest(lanes) };
    let CountKindsReply::Counts { counts, exact } = call(host.as_ref(), partition, asked).await?;
    let counts = counts.0.into_iter().map(|row| read_row(row, "count of a kind"));
    Ok(KindCounts { counts: counts.collect::<Result<_, _>>()?, exact })
}
