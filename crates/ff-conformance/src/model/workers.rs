//! Calls of and about worker processes: who is there, what they hand back, what waits for them.

use ff_core::types::{WorkerId, WorkerInstanceId, WorkerSession};
use ff_script::calls::deployment::ListLanes;
use ff_script::calls::list::CountExecutions;
use ff_script::calls::worker::{
    HeartbeatWorker, LaneDepths, ListWorkers, RegisterWorker, ReleaseWorkerLeases, UnregisterWorker,
};
use ff_script::wire::Rest;
use uuid::Uuid;

use super::create::{abilities, lane};
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
                lanes,
            };
            Sent::of(first, &call)
        }
        Op::Heartbeat => Sent::of(first, &HeartbeatWorker { worker_instance_id, session, ttl_ms }),
        Op::Unregister => Sent::of(first, &UnregisterWorker { worker_instance_id, session }),
        Op::Release => Sent::of(any, &ReleaseWorkerLeases { worker_instance_id, skip: 0 }),
        _ if dice.chance(40) => Sent::of(first, &ListWorkers {}),
        _ if dice.chance(30) => Sent::of(first, &ListLanes {}),
        _ if dice.chance(30) => Sent::of(first, &CountExecutions {}),
        _ => {
            let lanes = LANES.iter().map(|lane| lane.parse().expect("a valid name")).collect();
            Sent::of(any, &LaneDepths { lanes: Rest(lanes) })
        }
    }
}

/// Two sessions that may claim to be the same process.
fn session(dice: &mut Dice) -> WorkerSession {
    WorkerSession::from_uuid(Uuid::from_u128(1 + u128::from(dice.chance(30))))
}
