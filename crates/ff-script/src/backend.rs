//! One `EngineBackend` over any host: encodes, sends, decodes, and decides nothing about state.

mod admission;
mod approvals;
mod budgets;
mod children;
mod complete_many;
mod completions;
mod creating;
mod everywhere;
mod executions;
mod explain;
mod facts;
mod flow_replay;
mod flow_rows;
mod flows;
mod following;
mod grants;
mod holds;
mod kind_counts;
mod kinds;
mod lanes;
mod listing;
mod many;
mod next_task;
mod next_tasks;
mod owed;
mod pages;
mod partition;
mod quotas;
mod reads;
mod secrets;
mod signals;
mod snapshot;
mod streams;
mod suspensions;
mod tasks;
mod upgrade;
mod verdicts;
mod workers;

pub use admission::AdmissionCounters;
pub use completions::Completions;
pub use facts::FactsInstalled;
pub use secrets::{
    FirstSecret, Installed, WaitpointSecrets, rotate_waitpoint_hmac_secret_all_partitions,
};

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, Instant};

use ff_core::backend_error::{BackendError, Retry};
use ff_core::engine_backend::EngineBackend;
use ff_core::error::EngineError;
use ff_core::limits;
use ff_core::partition::{Partition, PartitionConfig};
use ff_core::types::{ExecutionId, LaneId};

use crate::call::{Call, open_reply};
use crate::calls::deployment::{OpenDeployment, OpenDeploymentReply, RegisterLane};
use crate::host::Host;
use crate::ids::Neighbours;
use following::Following;

/// How often a call whose answer was lost is sent again. Every call recognises its repetition.
const REPEATS_MAX: u32 = 3;

/// Calls that one page of a list may make: a page of a sparse filter comes back early.
const CALLS_MAX: u32 = 1024;

/// How long the use of a lane need not be noted again.
const LANE_NOTED_FOR: Duration = Duration::from_millis(limits::LANE_USE_NOTED_MS);

/// The partition that keeps what holds for the whole deployment.
const FIRST: Partition = Partition::flow(0);

/// A call of the holder of a lease: by which right, and what else it says.
macro_rules! held {
    ($handle:ident, $call:ident { $($field:ident $(: $value:expr)?),* $(,)? }) => {
        $call {
            execution_id: $handle.execution_id,
            lease_id: $handle.fence.lease_id,
            lease_epoch: $handle.fence.lease_epoch,
            attempt_id: $handle.fence.attempt_id,
            $($field $(: $value)?),*
        }
    };
}
use held;

/// The engine's API over a host that runs the function library: one of this type, or any.
pub struct ScriptBackend<H: ?Sized = dyn Host> {
    host: Arc<H>,
    config: PartitionConfig,
    /// The lanes whose use was noted, and when.
    lanes: RwLock<HashMap<LaneId, Instant>>,
    /// The losses of the store after which the lanes were made known.
    losses: AtomicU64,
    secrets: WaitpointSecrets,
    following: Arc<Following<H>>,
    /// The list of workers, for those who only look.
    workers: workers::Known,
    admission: AdmissionCounters,
    neighbours: Neighbours,
    creating: Arc<creating::AllCreating>,
}

impl<H: Host + ?Sized> ScriptBackend<H> {
    /// Opens the deployment on this host: a new one gets these partition counts, an existing one
    /// must have them; one in an older format is upgraded, one in a newer is refused.
    pub async fn open(host: Arc<H>, config: PartitionConfig) -> Result<Self, EngineError> {
        let losses = AtomicU64::new(host.losses());
        let following = Following::new(Arc::clone(&host));
        let (lanes, secrets) = (RwLock::default(), WaitpointSecrets::default());
        let workers = workers::Known::default();
        let admission = AdmissionCounters::default();
        let neighbours = Neighbours::default();
        let backend = Self {
            host,
            config,
            lanes,
            losses,
            secrets,
            following,
            workers,
            admission,
            neighbours,
            creating: creating::gathering(),
        };
        backend.open_deployment().await?;
        Ok(backend)
    }

    async fn open_deployment(&self) -> Result<(), EngineError> {
        let open = OpenDeployment {
            num_flow_partitions: self.config.num_flow_partitions,
            num_budget_partitions: self.config.num_budget_partitions,
            num_quota_partitions: self.config.num_quota_partitions,
            format: limits::STORE_FORMAT,
        };
        let OpenDeploymentReply::Opened { format, .. } = self.call(FIRST, open).await?;
        if format < limits::STORE_FORMAT { self.upgrade().await } else { Ok(()) }
    }

    /// Which claims were refused by gates.
    pub fn admission(&self) -> &AdmissionCounters {
        &self.admission
    }

    /// The host underneath.
    pub fn host(&self) -> &Arc<H> {
        &self.host
    }

    /// Runs one typed call. A call whose answer was lost is repeated a few times.
    pub async fn call<C: Call>(
        &self,
        partition: Partition,
        typed: C,
    ) -> Result<C::Reply, EngineError> {
        call(self.host.as_ref(), partition, typed).await
    }

    /// A call on one execution, on the partition that its id names.
    async fn call_on<C: Call>(&self, id: ExecutionId, call: C) -> Result<C::Reply, EngineError> {
        id.check(&self.config)?;
        self.call(id.partition(), call).await
    }

    /// Makes a lane known before its first use by this process, and now and then while it is used.
    async fn register_lane(&self, lane: &LaneId) -> Result<(), EngineError> {
        self.forget_after_loss().await?;
        let noted = self.lanes.read().unwrap_or_else(PoisonError::into_inner).get(lane).copied();
        if noted.is_some_and(|at| at.elapsed() < LANE_NOTED_FOR) {
            return Ok(());
        }
        self.call(FIRST, RegisterLane { lane: lane.clone() }).await?;
        let mut lanes = self.lanes.write().unwrap_or_else(PoisonError::into_inner);
        lanes.insert(lane.clone(), Instant::now());
        Ok(())
    }
}

impl<H: Host + ?Sized> ScriptBackend<H> {
    /// A store that has lost something may have lost the deployment's record and its lanes.
    async fn forget_after_loss(&self) -> Result<(), EngineError> {
        let losses = self.host.losses();
        if self.losses.load(Ordering::Relaxed) != losses {
            self.open_deployment().await?;
            self.lanes.write().unwrap_or_else(PoisonError::into_inner).clear();
            self.losses.store(losses, Ordering::Relaxed);
        }
        Ok(())
    }
}

impl<H: Host + ?Sized> EngineBackend for ScriptBackend<H> {
    fn partition_config(&self) -> PartitionConfig {
        self.config
    }

    fn name(&self) -> &'static str {
        self.host.name()
    }
}

/// Runs one typed call. A call whose answer was lost is repeated a few times.
async fn call<H: Host + ?Sized, C: Call>(
    host: &H,
    partition: Partition,
    mut call: C,
) -> Result<C::Reply, EngineError> {
    let (begun, mut repeats) = (Instant::now(), 0);
    loop {
        match host.call(C::FUNCTION, partition, call.encode_short()).await {
            Ok(reply) => {
                let (status, values) = open_reply(C::CONTRACT.name, reply)?;
                return C::decode(&status, values);
            }
            Err(error) if error.retry == Retry::IfReplaySafe && repeats < REPEATS_MAX => {
                repeats += 1;
                call.mark_repeated(begun.elapsed());
            }
            Err(error) => {
                let error = if repeats > 0 { perhaps_applied(error) } else { error };
                return Err(EngineError::from(error).in_context(C::CONTRACT.name));
            }
        }
    }
}

/// The last try of a call may certainly not have been applied, and an earlier one still have been.
fn perhaps_applied(mut error: BackendError) -> BackendError {
    if error.retry == Retry::Safe {
        error.retry = Retry::IfReplaySafe;
    }
    error
}
