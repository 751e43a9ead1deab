//! The traits that workers, the server and the engine program against. A worker built on any
//! implementation has the whole API: nothing reaches around it.

use std::collections::BTreeMap;

use futures_core::future::BoxFuture;

use crate::backend::Handle;
use crate::contracts::{
    AllFinished, ClaimRequest, Claimed, ClaimedNext, Completion, Depths, FinishedNext, GrantedNext,
    LaneDepth, NextGrantRequest, Owed, QueueHead, TakeFrom, TaskEnd, TickReport, TickRequest,
    WorkerList,
};
use crate::error::EngineError;
use crate::partition::{Partition, PartitionConfig};
use crate::types::{LaneId, WorkerId};

pub use crate::contracts::{
    Approvals, Budgets, Executions, Flows, Grants, Holds, Kinds, Lanes, Quotas, Reads, Signals,
    Streams, Suspensions, Tasks, Workers,
};

/// What a call answers in the end.
pub type Answer<'a, T> = BoxFuture<'a, Result<T, EngineError>>;

/// A deployment: a store of one's own, or a server in front of one.
///
/// Every change is atomic: it happened as a whole or not at all. Every call may be repeated when
/// its answer was lost: terminal calls recognise their own fence, claims their own lease id.
pub trait EngineBackend:
    Executions
    + Holds
    + Flows
    + Tasks
    + Suspensions
    + Signals
    + Streams
    + Grants
    + Workers
    + Reads
    + Lanes
    + Kinds
    + Budgets
    + Quotas
where
    Self: 'static,
{
    /// How many partitions the deployment has.
    fn partition_config(&self) -> PartitionConfig;

    /// A short name for messages.
    fn name(&self) -> &'static str;
}

/// A store: what is done on one partition at a time, for those who go through all of them, and what
/// only a server that has looked at credentials may do.
pub trait PartitionBackend: EngineBackend + Approvals {
    /// Takes up to as many executions of a lane on one partition as there are lease ids: highest
    /// priority first, then oldest, fresh and interrupted ones alike. Repeating it with `retry` and
    /// the same lease ids answers the same executions.
    fn claim_next(&self, partition: Partition, request: ClaimRequest) -> Answer<'_, ClaimedNext>;

    /// Ends a task and takes the next one of its partition for the same worker, under the one lease
    /// id of the claim: of the queue that is named, or of those of the lane that the end itself put
    /// something into. Repeating it answers the same.
    fn finish<'a>(
        &'a self,
        handle: &'a Handle,
        end: TaskEnd,
        next: ClaimRequest,
    ) -> Answer<'a, FinishedNext>;

    /// Completes several tasks of one partition, and takes the next ones for their workers: each
    /// under the lease id in its place. Repeating it answers the same.
    fn complete_all_and_claim(
        &self,
        completions: Vec<Completion>,
        next: ClaimRequest,
    ) -> Answer<'_, AllFinished>;

    /// What an earlier, unanswered send of a claim took on one partition: the executions that its
    /// worker instance holds under its lease ids. Takes nothing new. A read.
    fn recall_claims(
        &self,
        partition: Partition,
        request: ClaimRequest,
    ) -> Answer<'_, Vec<Claimed>>;

    /// Reserves the best execution of a lane on one partition that the worker could take, if there
    /// is one. An unused reservation ends by itself.
    fn grant_next(
        &self,
        partition: Partition,
        worker_id: WorkerId,
        request: NextGrantRequest,
        from: TakeFrom,
    ) -> Answer<'_, GrantedNext>;

    /// The queues of these lanes on one partition that are not empty.
    fn list_needs(&self, partition: Partition, lanes: Vec<LaneId>) -> Answer<'_, Vec<QueueHead>>;

    /// How much waits in all lanes in use, by lane and need. A read.
    fn depths(&self) -> Answer<'_, Depths>;

    /// The lanes whose share of the claims of those who take from several was set. A read.
    fn claim_weights(&self) -> Answer<'_, BTreeMap<LaneId, u32>>;

    /// The workers that are registered in one partition; engines are all in the first. A read.
    fn workers_of(&self, partition: Partition) -> Answer<'_, WorkerList>;

    /// All workers, perhaps as they were a moment ago. A read.
    fn recent_workers(&self) -> Answer<'_, WorkerList>;

    /// How much waits in these lanes of one partition. A read.
    fn lane_depths(&self, partition: Partition, lanes: Vec<LaneId>) -> Answer<'_, Vec<LaneDepth>>;

    /// Does what is due in one partition, by the store's clock. Repeating it is harmless: what was
    /// done is no longer due.
    fn tick(&self, partition: Partition, request: TickRequest) -> Answer<'_, TickReport>;

    /// Does what a partition owes to others; gives the entries that are done, to be named by the
    /// next tick. What could not be done is told of again by a later one.
    fn carry_out(&self, partition: Partition, owed: Vec<Owed>) -> Answer<'_, Vec<Vec<u8>>>;
}

/// Compiles only while the traits can be used behind a pointer, as every caller does.
const _: fn(&dyn PartitionBackend) -> &dyn EngineBackend = |store| store;

/// Every call of a backend whose type is known: `use ff_core::engine_backend::roles::*`.
pub mod roles {
    pub use super::{
        Approvals as _, Budgets as _, EngineBackend as _, Executions as _, Flows as _, Grants as _,
        Holds as _, Kinds as _, Lanes as _, PartitionBackend as _, Quotas as _, Reads as _,
        Signals as _, Streams as _, Suspensions as _, Tasks as _, Workers as _,
    };
}
