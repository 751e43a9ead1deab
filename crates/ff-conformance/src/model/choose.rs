//! From a step to a call: the details that make it one, chosen from what the test knows.

use ff_core::capability::CapabilitySet;
use ff_core::need::Need;
use ff_core::partition::Partition;
use ff_core::types::{
    AttemptId, ExecutionId, ExecutionKind, GrantId, LaneId, LeaseId, Namespace, RequestId,
    TimestampMs,
};
use ff_script::calls::cancel::CancelExecution;
use ff_script::calls::change::{ChangePriority, SetExecutionTags};
use ff_script::calls::claim::{ClaimExecution, ClaimResumedExecution, ReclaimExecution};
use ff_script::calls::claim_next::ClaimNext;
use ff_script::calls::complete::CompleteExecution;
use ff_script::calls::create::CreateExecutions;
use ff_script::calls::describe::{DescribeExecution, ListAttempts, ReadPayload, ReadResult};
use ff_script::calls::events::ReadEvents;
use ff_script::calls::expire::{ExpireExecution, PromoteDelayed};
use ff_script::calls::explain::{CountAhead, ExplainExecution};
use ff_script::calls::fail::FailExecution;
use ff_script::calls::grant::{GrantNext, IssueClaimGrant, IssueReclaimGrant};
use ff_script::calls::hold::{HoldExecution, ListHeld, ReleaseExecution};
use ff_script::calls::lease::{MarkLeaseExpired, RenewLease, RevokeLease};
use ff_script::calls::list::ListExecutions;
use ff_script::calls::pause::{DelayExecution, MoveToWaitingChildren};
use ff_script::calls::progress::UpdateProgress;
use ff_script::calls::replay::ReplayExecution;
use ff_script::calls::tick::Tick;
use ff_script::wire::{Joined, Rest};

use ff_script::call::Call;

use super::admission;
use super::create::{
    CATEGORIES, NAMESPACES, abilities, bytes, kind, lane, moment, new_execution, span,
};
use super::dice::Dice;
use super::eligible::{self, Way, is_eligible, is_live, is_stale, is_usable, queue, way};
use super::flows;
use super::output;
use super::plan::Op;
use super::sent::Sent;
use super::view::View;
use super::wait;
use super::workers::{self, ttl_ms, worker};
use super::world::{Grant, LANES, Lease, World};

/// The call of a step; none if there is nothing yet that it could be about.
pub(super) fn choose(op: Op, dice: &mut Dice, world: &mut World) -> Option<Sent> {
    match op {
        Op::Create => Some(create(dice, world)),
        Op::CreateMany => Some(create_many(dice, world)),
        Op::ClaimNext => Some(claim_next(dice, world)),
        Op::GrantNext => Some(grant_next(dice, world)),
        Op::Tick => Some(tick(dice, world)),
        Op::List => Some(list(dice, world)),
        Op::Events => Some(events(dice, world)),
        Op::Register | Op::Heartbeat | Op::Unregister | Op::Release | Op::ListWorkers => {
            Some(workers::choose(op, dice, world))
        }
        Op::SubmitGraph
        | Op::GraphPart
        | Op::CreateFlow
        | Op::Join
        | Op::AddEdge
        | Op::SealFlow
        | Op::CancelFlow
        | Op::MendFlow
        | Op::ReadFlow => flows::choose(op, dice, world),
        Op::Ask
        | Op::Undo
        | Op::Carry
        | Op::Unblock
        | Op::MakeQuota
        | Op::NoteQuota
        | Op::ReadQuota
        | Op::MakeBudget
        | Op::UseBudget
        | Op::ReadBudget => admission::choose(op, dice, world),
        Op::Signal => wait::signal(dice, world),
        Op::Rotate => Some(wait::rotate(dice, world)),
        Op::Repeat => dice.recent(&world.history).cloned(),
        Op::UseGrant => {
            let grant = dice.likely(&world.grants, |grant| is_usable(grant, world))?.clone();
            let way = way(dice, &grant.execution_id, world);
            Some(use_grant(way, dice, grant))
        }
        Op::Renew
        | Op::Progress
        | Op::Append
        | Op::Complete
        | Op::Fail
        | Op::CancelHeld
        | Op::Delay
        | Op::WaitForChildren
        | Op::Suspend
        | Op::OpenWaitpoint
        | Op::CloseWaitpoint
        | Op::ReadSignals => {
            let fits = match dice.below(10) {
                0 | 1 => is_stale,
                // A waitpoint that was opened is there to be used.
                2..=5 if op == Op::Suspend => wait::is_expected,
                _ => is_live,
            };
            let lease = dice.likely(&world.leases, |lease| fits(lease, world))?.clone();
            Some(use_lease(op, dice, lease, world))
        }
        Op::Advance | Op::Back => None,
        _ => {
            let fits = |id: &ExecutionId| {
                world.record(id).is_some_and(|record| is_eligible(op, record, world.now))
            };
            let id = *dice.likely(&world.ids, fits)?;
            Some(about(op, dice, id, world))
        }
    }
}

pub(super) fn on<C: Call>(id: ExecutionId, call: &C) -> Sent {
    Sent::of(id.partition(), call)
}

fn create(dice: &mut Dice, world: &mut World) -> Sent {
    let call = new_execution(dice, world);
    world.ids.push(call.execution_id);
    on(call.execution_id, &call)
}

/// All of a batch go to the partition of the first.
fn create_many(dice: &mut Dice, world: &mut World) -> Sent {
    let partition = *dice.pick(&world.partitions);
    let mut calls = Vec::new();
    for _ in 0..1 + dice.below(3) {
        let mut call = new_execution(dice, world);
        call.execution_id = ExecutionId::from_parts(partition, call.execution_id.uuid());
        call.idempotency_key = None;
        world.ids.push(call.execution_id);
        calls.push(call);
    }
    Sent::of(partition, &CreateExecutions::of(&calls))
}

fn claim_next(dice: &mut Dice, world: &World) -> Sent {
    let (worker_id, worker_instance_id) = worker(dice);
    let lease_ids = (0..1 + dice.below(4)).map(|_| LeaseId::from_uuid(dice.uuid())).collect();
    let (partition, lane) = queue(dice, world);
    let abilities = abilities(dice);
    let (need, score_max) = head(dice, world, partition, &lane, &abilities);
    let call = ClaimNext {
        lane,
        worker_id,
        worker_instance_id,
        capabilities: abilities,
        lease_ttl_ms: ttl_ms(dice),
        retry: dice.chance(20),
        kinds: Joined(if need.is_none() { kinds(dice) } else { Vec::new() }),
        namespaces: Joined(if need.is_none() { namespaces(dice) } else { Vec::new() }),
        need,
        score_max,
        lease_ids: Rest(lease_ids),
    };
    Sent::of(partition, &call)
}

/// Mostly any kind.
/// A queue that such a worker may take from, and a score near its head, or neither.
fn head(
    dice: &mut Dice,
    world: &World,
    partition: Partition,
    lane: &LaneId,
    abilities: &CapabilitySet,
) -> (Option<Need>, Option<i64>) {
    let view = View::new(&world.held, partition);
    let needs = view.needs(lane.as_str()).into_iter();
    let needs = needs.filter_map(|need| need.parse::<Need>().ok());
    let fitting: Vec<Need> = needs.filter(|it| abilities.includes(&it.capabilities)).collect();
    if fitting.is_empty() || dice.chance(50) {
        return (None, None);
    }
    let need = fitting[dice.below(fitting.len() as u64) as usize].clone();
    let head = view.ranked(&format!("q:{lane}:{need}")).first().map(|(_, score)| *score as i64);
    let slack = dice.below(100) as i64 - 50;
    (Some(need), dice.sometimes(50, |_| head).flatten().map(|score| score + slack))
}

/// One of those that executions have.
pub(super) fn namespaces(dice: &mut Dice) -> Vec<Namespace> {
    let name = |dice: &mut Dice| dice.pick(&NAMESPACES).parse().expect("a valid name");
    dice.sometimes(20, name).into_iter().collect()
}

fn kinds(dice: &mut Dice) -> Vec<ExecutionKind> {
    dice.sometimes(30, kind).into_iter().collect()
}

fn use_grant(way: Way, dice: &mut Dice, grant: Grant) -> Sent {
    let Grant { execution_id, grant_id, worker_id, worker_instance_id } = grant;
    let lane = dice.sometimes(50, lane);
    let lease_id = LeaseId::from_uuid(dice.uuid());
    let lease_ttl_ms = ttl_ms(dice);
    let attempt_id = AttemptId::from_uuid(dice.uuid());
    match way {
        Way::Resume => {
            let call = ClaimResumedExecution {
                execution_id,
                worker_id,
                worker_instance_id,
                lane,
                grant_id,
                lease_id,
                lease_ttl_ms,
            };
            on(execution_id, &call)
        }
        Way::Reclaim => {
            let call = ReclaimExecution {
                execution_id,
                worker_id,
                worker_instance_id,
                lane,
                grant_id,
                lease_id,
                lease_ttl_ms,
                attempt_id,
            };
            on(execution_id, &call)
        }
        Way::Begin => {
            let call = ClaimExecution {
                execution_id,
                worker_id,
                worker_instance_id,
                lane,
                grant_id,
                lease_id,
                lease_ttl_ms,
                attempt_id,
            };
            on(execution_id, &call)
        }
    }
}

fn use_lease(op: Op, dice: &mut Dice, lease: Lease, world: &World) -> Sent {
    let Lease { execution_id, lease_id, lease_epoch, attempt_id } = lease.clone();
    match op {
        Op::Renew => {
            let lease_ttl_ms = ttl_ms(dice);
            let call = RenewLease { execution_id, lease_id, lease_epoch, attempt_id, lease_ttl_ms };
            on(execution_id, &call)
        }
        Op::Progress => on(execution_id, &progress(dice, lease)),
        Op::Append => on(execution_id, &output::append(dice, lease, world)),
        Op::Complete => {
            let result = bytes(dice);
            let call =
                CompleteExecution { execution_id, lease_id, lease_epoch, attempt_id, result };
            on(execution_id, &call)
        }
        Op::Fail => on(execution_id, &fail(dice, lease)),
        Op::CancelHeld => on(execution_id, &cancel_held(dice, lease)),
        Op::Delay => {
            let delay_until = moment(dice, world).into();
            let call =
                DelayExecution { execution_id, lease_id, lease_epoch, attempt_id, delay_until };
            on(execution_id, &call)
        }
        Op::Suspend | Op::OpenWaitpoint | Op::CloseWaitpoint | Op::ReadSignals => {
            wait::of_holder(op, dice, &lease, world)
        }
        _ => {
            let call = MoveToWaitingChildren { execution_id, lease_id, lease_epoch, attempt_id };
            on(execution_id, &call)
        }
    }
}

fn progress(dice: &mut Dice, lease: Lease) -> UpdateProgress {
    let Lease { execution_id, lease_id, lease_epoch, attempt_id } = lease;
    UpdateProgress {
        execution_id,
        lease_id,
        lease_epoch,
        attempt_id,
        progress_pct: (*dice.pick(&["", "-", "0", "40", "100"])).to_owned(),
        progress_message: (*dice.pick(&["", "-", "halfway there"])).to_owned(),
    }
}

fn fail(dice: &mut Dice, lease: Lease) -> FailExecution {
    let Lease { execution_id, lease_id, lease_epoch, attempt_id } = lease;
    FailExecution {
        execution_id,
        lease_id,
        lease_epoch,
        attempt_id,
        failure_reason: (*dice.pick(&["", "it broke", "a: b:c"])).to_owned(),
        failure_category: (*dice.pick(&CATEGORIES)).to_owned(),
        failure_detail: bytes(dice),
        is_final: dice.chance(15),
    }
}

/// Half of the changes from outside name themselves.
pub(super) fn request(dice: &mut Dice) -> Option<RequestId> {
    dice.sometimes(50, |dice| RequestId::from_uuid(dice.uuid()))
}

/// Most holders give the whole fence.
fn cancel_held(dice: &mut Dice, lease: Lease) -> CancelExecution {
    let whole = dice.chance(80);
    CancelExecution {
        execution_id: lease.execution_id,
        lease_id: Some(lease.lease_id),
        lease_epoch: Some(lease.lease_epoch),
        attempt_id: whole.then_some(lease.attempt_id),
        reason: "no longer needed".to_owned(),
        source: "lease_holder".to_owned(),
        request_id: request(dice),
    }
}

/// Calls about an execution that need no lease.
fn about(op: Op, dice: &mut Dice, id: ExecutionId, world: &World) -> Sent {
    match op {
        Op::Grant => match way(dice, &id, world) {
            Way::Reclaim => on(id, &reclaim_grant(dice, id)),
            Way::Begin | Way::Resume => on(id, &claim_grant(dice, id)),
        },
        Op::Cancel => on(id, &cancel(dice, id)),
        Op::Revoke => on(id, &revoke(dice, id, world)),
        Op::MarkExpired => on(id, &MarkLeaseExpired { execution_id: id }),
        Op::Expire => {
            let reason = *dice.pick(&["attempt_timeout", "execution_deadline"]);
            on(id, &ExpireExecution { execution_id: id, expire_reason: reason.to_owned() })
        }
        Op::Promote => on(id, &PromoteDelayed { execution_id: id }),
        Op::Priority => {
            let priority = dice.below(4) as u16 * 3000;
            on(id, &ChangePriority { execution_id: id, priority, request_id: request(dice) })
        }
        Op::Hold => on(id, &hold(dice, id)),
        Op::LetGo => on(id, &let_go(dice, id)),
        Op::Tag => on(id, &tag(dice, id)),
        Op::ReadOutput => on(id, &output::read(dice, id)),
        Op::Resume | Op::ExpireSuspension | Op::Waits => wait::of_anybody(op, dice, id),
        Op::Replay => on(id, &replay(dice, id, world)),
        _ => read(dice, id),
    }
}

fn grant_next(dice: &mut Dice, world: &World) -> Sent {
    let (worker_id, worker_instance_id) = worker(dice);
    let (partition, lane) = queue(dice, world);
    let call = GrantNext {
        lane,
        worker_id,
        worker_instance_id,
        capabilities: abilities(dice),
        grant_ttl_ms: ttl_ms(dice),
        retry: dice.chance(20),
        grant_id: GrantId::from_uuid(dice.uuid()),
        need: None,
        score_max: None,
        namespaces: Joined(Vec::new()),
    };
    Sent::of(partition, &call)
}

fn claim_grant(dice: &mut Dice, execution_id: ExecutionId) -> IssueClaimGrant {
    let (worker_id, worker_instance_id) = worker(dice);
    IssueClaimGrant {
        execution_id,
        worker_id,
        worker_instance_id,
        capabilities: abilities(dice),
        grant_ttl_ms: ttl_ms(dice),
        grant_id: GrantId::from_uuid(dice.uuid()),
    }
}

fn reclaim_grant(dice: &mut Dice, execution_id: ExecutionId) -> IssueReclaimGrant {
    IssueReclaimGrant(claim_grant(dice, execution_id))
}

/// Some sources may cancel without a lease, the last may not.
fn cancel(dice: &mut Dice, execution_id: ExecutionId) -> CancelExecution {
    let source = *dice.pick(&["operator_override", "flow_cascade", "system_timeout", "passer_by"]);
    CancelExecution {
        execution_id,
        lease_id: None,
        lease_epoch: None,
        attempt_id: None,
        reason: (*dice.pick(&["", "changed our mind"])).to_owned(),
        source: source.to_owned(),
        request_id: request(dice),
    }
}

fn revoke(dice: &mut Dice, execution_id: ExecutionId, world: &World) -> RevokeLease {
    let known = dice.recent(&world.leases).map(|lease| lease.lease_id);
    RevokeLease {
        execution_id,
        expected_lease_id: known.filter(|_| dice.chance(30)),
        reason: (*dice.pick(&["", "it hangs"])).to_owned(),
        request_id: request(dice),
    }
}

fn hold(dice: &mut Dice, execution_id: ExecutionId) -> HoldExecution {
    HoldExecution {
        execution_id,
        requested_by: (*dice.pick(&["", "mia"])).to_owned(),
        reason: (*dice.pick(&["", "wrong: input"])).to_owned(),
        request_id: request(dice),
    }
}

fn let_go(dice: &mut Dice, execution_id: ExecutionId) -> ReleaseExecution {
    let requested_by = (*dice.pick(&["", "mia"])).to_owned();
    ReleaseExecution { execution_id, requested_by, request_id: request(dice) }
}

fn tag(dice: &mut Dice, execution_id: ExecutionId) -> SetExecutionTags {
    let name = *dice.pick(&["team.name", "run.number", "Team"]);
    let tags = vec![name.to_owned(), dice.below(3).to_string()];
    SetExecutionTags { execution_id, request_id: request(dice), tags: Rest(tags) }
}

fn replay(dice: &mut Dice, execution_id: ExecutionId, world: &World) -> ReplayExecution {
    ReplayExecution {
        execution_id,
        reason: (*dice.pick(&["", "fixed the input"])).to_owned(),
        requested_by: (*dice.pick(&["", "somebody"])).to_owned(),
        deadline_at: dice.sometimes(20, |dice| match dice.chance(30) {
            true => TimestampMs::new(0),
            false => moment(dice, world),
        }),
        expected_replay_count: dice.sometimes(50, |dice| dice.below(3) as u32),
        downstream: dice.chance(25),
        request_id: request(dice),
    }
}

fn read(dice: &mut Dice, execution_id: ExecutionId) -> Sent {
    match dice.below(7) {
        0 => on(execution_id, &DescribeExecution { execution_id }),
        1 => on(execution_id, &ReadPayload { execution_id }),
        2 => on(execution_id, &ReadResult { execution_id }),
        4 => on(execution_id, &ExplainExecution { execution_id }),
        5 => on(execution_id, &ahead(dice)),
        3 => {
            let limit = 1 + dice.below(3) as u32;
            on(execution_id, &ListHeld { cursor: String::new(), limit })
        }
        _ => on(execution_id, &ListAttempts { execution_id, limit: 1 + dice.below(20) as u32 }),
    }
}

fn ahead(dice: &mut Dice) -> CountAhead {
    let score = (*dice.pick(&["0", "1800000000000", "-7"])).to_owned();
    let need = format!("{}:{}", dice.pick(&NAMESPACES), kind(dice));
    CountAhead { lane: lane(dice), need: need.parse().expect("a need"), score }
}

fn tick(dice: &mut Dice, world: &World) -> Sent {
    let items_max = *dice.pick(&[1, 2, 1000, 1000, 1000]);
    let due = |partition: &Partition| eligible::is_due(*partition, world);
    let partition = *dice.likely(world.ticked(), due).expect("there are partitions");
    let next_look_ms = *dice.pick(&[None, Some(1), Some(1_000), Some(55_000)]);
    let announce = dice.below(4) == 0;
    let settled = Rest(world.admission.debts.settled(partition, dice));
    Sent::of(partition, &Tick { next_look_ms, announce, settled, ..Tick::once(items_max) })
}

fn list(dice: &mut Dice, world: &World) -> Sent {
    let lanes = LANES.iter().map(|lane| lane.parse().expect("a valid name"));
    let states = [
        "waiting",
        "delayed",
        "active",
        "completed",
        "failed",
        "cancelled",
        "expired",
        "suspended",
        "waiting_children",
        "skipped",
    ];
    let state = dice.sometimes(80, |dice| dice.pick(&states).parse().expect("a known state"));
    let call = ListExecutions {
        namespace: None,
        lane: dice.sometimes(30, lane),
        state,
        kind: None,
        from_ms: dice.sometimes(20, |dice| TimestampMs::new(world.now - span(dice))),
        to_ms: None,
        tag_name: None,
        tag_value: None,
        cursor: String::new(),
        limit: 1 + dice.below(5) as u32,
        lanes: Rest(lanes.collect()),
    };
    Sent::of(*dice.pick(&world.partitions), &call)
}

fn events(dice: &mut Dice, world: &World) -> Sent {
    let call = ReadEvents { cursor: String::new(), limit: 1 + dice.below(50) as u32 };
    Sent::of(*dice.pick(&world.partitions), &call)
}
