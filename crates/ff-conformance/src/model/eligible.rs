//! What a call could do something with: most calls are about such an execution, because what is
//! sure to be refused teaches little.

use ff_core::partition::Partition;
use ff_core::types::{ExecutionId, LaneId};

use super::dice::Dice;
use super::plan::Op;
use super::view::{Fields, TIMED, View, field};
use super::world::{Grant, LANES, Lease, World};

/// Does the lease still hold?
pub(super) fn is_live(lease: &Lease, world: &World) -> bool {
    world.record(&lease.execution_id).is_some_and(|record| {
        record.state() == "running"
            && record.count(field::LEASE_EPOCH) == lease.lease_epoch.get()
            && record.count(field::LEASE_EXPIRES_AT) > world.now
    })
}

/// Does another lease hold now? Then this one belongs to a worker that came back from the dead.
pub(super) fn is_stale(lease: &Lease, world: &World) -> bool {
    world.record(&lease.execution_id).is_some_and(|record| {
        record.state() == "running" && record.count(field::LEASE_EPOCH) > lease.lease_epoch.get()
    })
}

/// Is the reservation still there?
pub(super) fn is_usable(grant: &Grant, world: &World) -> bool {
    world.record(&grant.execution_id).is_some_and(|record| {
        record.text(field::GRANT_ID) == grant.grant_id.to_string()
            && record.count(field::GRANT_EXPIRES_AT) > world.now
    })
}

/// The ways to use a reservation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// To begin an attempt.
    Begin,
    /// To go on with a paused one.
    Resume,
    /// To replace a lost one.
    Reclaim,
}

/// The way that fits an execution, most often; otherwise any.
pub(super) fn way(dice: &mut Dice, id: &ExecutionId, world: &World) -> Way {
    let right = match world.record(id) {
        Some(record) if record.is_lost() => Way::Reclaim,
        Some(record) if record.text(field::NEXT_ATTEMPT) == "resume" => Way::Resume,
        _ => Way::Begin,
    };
    if dice.chance(85) { right } else { *dice.pick(&[Way::Begin, Way::Resume, Way::Reclaim]) }
}

/// Is this an execution that the call could do something with?
pub(super) fn is_eligible(op: Op, record: Fields<'_>, now: u64) -> bool {
    let passed = |name: &str| record.number(name).is_some_and(|at| at <= now);
    match op {
        Op::Grant => record.state() == "waiting" || record.is_lost(),
        Op::Cancel | Op::Priority => !record.is_ended(),
        Op::Hold => !record.is_ended() && !record.is_held(),
        Op::LetGo => record.is_held(),
        Op::Revoke => record.state() == "running",
        Op::MarkExpired => record.state() == "running" && passed(field::LEASE_EXPIRES_AT),
        Op::Expire => {
            !record.is_ended() && (passed(field::DEADLINE_AT) || passed(field::TIMEOUT_AT))
        }
        Op::Promote => record.state() == "delayed" && passed(field::DELAY_UNTIL),
        Op::Replay => record.is_ended(),
        Op::ReadOutput => record.bytes(field::FRAMES).is_some(),
        Op::Resume => record.state() == "suspended",
        Op::ExpireSuspension => record.state() == "suspended" && passed(field::SUSPEND_UNTIL),
        _ => true,
    }
}

/// A partition and a lane, most often where something waits.
pub(super) fn queue(dice: &mut Dice, world: &World) -> (Partition, LaneId) {
    let partitions = world.partitions.iter();
    let queues: Vec<(Partition, &str)> =
        partitions.flat_map(|partition| LANES.iter().map(|lane| (*partition, *lane))).collect();
    let waits = |(partition, lane): &(Partition, &str)| {
        !View::new(&world.held, *partition).needs(lane).is_empty()
    };
    let (partition, lane) = *dice.likely(&queues, waits).expect("there are lanes");
    (partition, lane.parse().expect("a valid name"))
}

/// Is something due in this partition?
pub(super) fn is_due(partition: Partition, world: &World) -> bool {
    let view = View::new(&world.held, partition);
    let indexes = TIMED.iter().chain([&"outbox"]);
    let mut heads = indexes.filter_map(|index| view.ranked(index).first().copied());
    heads.any(|(_, at)| at <= world.now as f64)
}
