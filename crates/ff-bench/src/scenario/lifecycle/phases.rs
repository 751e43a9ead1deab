//! Creates only, claims only, completes only: what each kind of call costs the store.

use std::sync::{Arc, Mutex, PoisonError};

use ff_core::backend::Handle;
use ff_core::partition::Partition;

use crate::Failure;
use crate::arguments::Lifecycle;
use crate::caller::{self, Caller, Cost};
use crate::statistics::Rounds;
use crate::store::Store;
use crate::worker::Worker;

/// Store time per execution, one value per round.
#[derive(Debug, Default)]
pub(super) struct PhaseCosts {
    pub(super) create: Rounds,
    pub(super) claim: Rounds,
    pub(super) complete: Rounds,
}

impl PhaseCosts {
    pub(super) fn merge(&mut self, other: Self) {
        self.create.merge(other.create);
        self.claim.merge(other.claim);
        self.complete.merge(other.complete);
    }
}

/// Takes so many groups of executions through their life, all of them one phase after the other.
pub(super) async fn measure(
    store: &Store,
    options: &Lifecycle,
    groups: u64,
) -> Result<PhaseCosts, Failure> {
    let (group, mut costs) = (u64::from(options.claim_batch), PhaseCosts::default());
    let (created, claimed) = (Pile::default(), Pile::default());
    let workers = || Worker::several(store, &options.load, options.claim_batch);

    let creating = |worker| Creating { worker, created: created.clone() };
    let creating = workers()?.into_iter().map(creating).collect();
    let (_, cost) = caller::measure(store, creating, groups).await?;
    note(&mut costs.create, cost, group);

    let claiming = |worker| Claiming { worker, created: created.clone(), claimed: claimed.clone() };
    let claiming = workers()?.into_iter().map(claiming).collect();
    let (_, cost) = caller::measure(store, claiming, groups).await?;
    note(&mut costs.claim, cost, group);

    let completing = |worker| Completing { worker, claimed: claimed.clone() };
    let completing = workers()?.into_iter().map(completing).collect();
    let (_, cost) = caller::measure(store, completing, groups * group).await?;
    note(&mut costs.complete, cost, 1);
    Ok(costs)
}

fn note(rounds: &mut Rounds, cost: Cost, executions_per_step: u64) {
    let us = cost.spent.store_us.map(|us| us / executions_per_step as f64);
    us.into_iter().for_each(|us| rounds.add(us));
}

/// What one phase leaves for the next.
struct Pile<T>(Arc<Mutex<Vec<T>>>);

impl<T> Pile<T> {
    fn put(&self, things: impl IntoIterator<Item = T>) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).extend(things);
    }

    fn take(&self) -> Result<T, Failure> {
        let taken = self.0.lock().unwrap_or_else(PoisonError::into_inner).pop();
        taken.ok_or_else(|| "the phase before left too little".into())
    }
}

impl<T> Default for Pile<T> {
    fn default() -> Self {
        Self(Arc::default())
    }
}

impl<T> Clone for Pile<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

struct Creating {
    worker: Worker,
    created: Pile<Partition>,
}

impl Caller for Creating {
    async fn step(&mut self) -> Result<(), Failure> {
        let partition = self.worker.create_group().await?;
        self.created.put([partition]);
        Ok(())
    }
}

struct Claiming {
    worker: Worker,
    created: Pile<Partition>,
    claimed: Pile<Handle>,
}

impl Caller for Claiming {
    async fn step(&mut self) -> Result<(), Failure> {
        let partition = self.created.take()?;
        let handles = self.worker.claim_group(partition).await?;
        self.claimed.put(handles);
        Ok(())
    }
}

struct Completing {
    worker: Worker,
    claimed: Pile<Handle>,
}

impl Caller for Completing {
    async fn step(&mut self) -> Result<(), Failure> {
        self.worker.complete(&self.claimed.take()?).await
    }
}
