//! Calls of and about worker processes: who is there, what they hand back, what waits for them.

use ff_core::types::{ExecutionId, LaneId, LeaseId, WorkerId, WorkerInstanceId, WorkerSession};
use ff_script::calls::claim_next::RecallClaims;
use ff_script::calls::deployment::ListLanes;
use ff_script::calls::list::CountExecutions;
use ff_script::calls::worker::{
    HandBackLeases, HeartbeatWorker, LaneDepths, ListNeeds, ListWorkers, RegisterWorker,
    ReleaseWorkerLeases, UnregisterWorker,
};
use ff_script::wire::{Joined, Rest};
use uuid::Uuid;

use super::choose::namespaces;
use super::create::{abilities, kind, lane};
use super::dice::Dice;
use super::plan::Op;
use super::sent::Sent;
use super::world::{LANES, WORKERS, World};

/// A worker and one of its processes.
pub(super) fn worker(dice: &mut Dice) -> (WorkerId, WorkerInstanceId) {
    let (worker, instance) = *dice.pick(&WORKERS);
    let worker = WorkerId::try_new(worker).expect("a valid name");
    (worker, WorkerInstanceId::try_new(instance).expect("a valid name"))
}

/// From a moment to a minute: shorter leases lapse, longer ones are renewed.
pub(super) fn ttl_ms(dice: &mut Dice) -> u64 {
    *dice.pick(&[1, 500, 10_000, 60_000, 600_000])
}

/// The registry is in the first partition.
pub(super) fn choose(op: Op, dice: &mut Dice, world: &World) -> Sent {
    let (worker_id, worker_instance_id) = worker(dice);
    let session = session(dice);
    let ttl_ms = ttl_ms(dice);
    let first = world.partitions[0];
    let any = *dice.pick(&world.partitions);
    match op {
        Op::Register => {
            let (capabilities, lanes) = (abilities(dice), Rest(vec![lane(dice)]));
            let call = RegisterWorker {
                worker_id,
                worker_instance_id,
                session,
                capabilities,
                ttl_ms,
                kinds: Joined(vec![kind(dice)]),
                running: dice.sometimes(50, |dice| dice.below(3) as u32),
                capacity: dice.sometimes(50, |_| 2),
                process: process(dice),
                replaces: process(dice),
                namespaces: Joined(namespaces(dice)),
                lanes,
            };
            Sent::of(first, &call)
        }
        Op::Heartbeat => {
            Sent::of(first, &HeartbeatWorker { worker_instance_id, session, ttl_ms, running: None })
        }
        Op::Unregister => Sent::of(first, &UnregisterWorker { worker_instance_id, session }),
        Op::Release if dice.chance(50) => hand_back(dice, world, worker_instance_id),
        Op::Release => Sent::of(any, &ReleaseWorkerLeases { worker_instance_id, skip: 0 }),
        _ if dice.chance(40) => Sent::of(first, &ListWorkers {}),
        _ if dice.chance(30) => Sent::of(first, &ListLanes {}),
        _ if dice.chance(30) => Sent::of(first, &CountExecutions {}),
        _ if dice.chance(30) => recall(dice, world, worker_instance_id),
        _ if dice.chance(50) => Sent::of(any, &ListNeeds { lanes: Rest(lanes()) }),
        _ => Sent::of(any, &LaneDepths { lanes: Rest(lanes()) }),
    }
}

fn lanes() -> Vec<LaneId> {
    LANES.iter().map(|lane| lane.parse().expect("a valid name")).collect()
}

/// Asks for leases that somebody got, under the name of anybody.
fn recall(dice: &mut Dice, world: &World, worker_instance_id: WorkerInstanceId) -> Sent {
    let lease = dice.likely(&world.leases, |_| true).cloned();
    let partition = lease.as_ref().map_or(world.partitions[0], |it| it.execution_id.partition());
    let lease_id = lease.map_or_else(|| LeaseId::from_uuid(dice.uuid()), |it| it.lease_id);
    let (lease_ttl_ms, lease_ids) = (ttl_ms(dice), Rest(vec![lease_id]));
    Sent::of(partition, &RecallClaims { worker_instance_id, lease_ttl_ms, lease_ids })
}

/// Some executions of a partition, held or not.
fn hand_back(dice: &mut Dice, world: &World, worker_instance_id: WorkerInstanceId) -> Sent {
    let partition = *dice.pick(&world.partitions);
    let here = world.ids.iter().filter(|id| id.partition() == partition).copied();
    let mut ids: Vec<ExecutionId> = here.collect();
    ids.truncate(1 + dice.below(6) as usize);
    if ids.is_empty() {
        ids.push(ExecutionId::from_parts(partition, dice.uuid()));
    }
    Sent::of(partition, &HandBackLeases { worker_instance_id, execution_ids: Rest(ids) })
}

/// A process by its name, or nothing.
fn process(dice: &mut Dice) -> String {
    (*dice.pick(&["", "", "boot:1:7:1", "boot:1:8:1"])).to_owned()
}

/// Two sessions that may claim to be the same process.
fn session(dice: &mut Dice) -> WorkerSession {
    WorkerSession::from_uuid(Uuid::from_u128(1 + u128::from(dice.chance(30))))
}
