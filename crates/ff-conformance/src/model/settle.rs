//! I10: once nothing goes wrong any more, everything ends, and what has ended is forgotten.

use ff_core::capability::CapabilitySet;
use ff_core::limits;
use ff_core::partition::Partition;
use ff_core::types::{ExecutionId, LaneId, LeaseId, WorkerId, WorkerInstanceId};
use ff_script::calls::budget::{DeleteBudget, UpdateBudget};
use ff_script::calls::claim::ClaimRow;
use ff_script::calls::claim_next::ClaimNext;
use ff_script::calls::complete::CompleteExecution;
use ff_script::calls::fail::FailExecution;
use ff_script::calls::flow::SealFlow;
use ff_script::calls::flow_cancel::CancelFlow;
use ff_script::calls::hold::ReleaseExecution;
use ff_script::calls::quota::DeleteQuotaPolicy;
use ff_script::calls::suspend::ResumeExecution;
use ff_script::calls::tick::Tick;
use ff_script::wire::{Joined, Rest};

use super::budgets;
use super::dice::Dice;
use super::eligible::is_due;
use super::graph::Graph;
use super::play::Game;
use super::quotas::POLICIES;
use super::rules::{has_room, promises};
use super::sent::Sent;
use super::view::{Fields, View, records};
use super::world::{ABILITIES, BUDGETS, FAIR, LANES, QUOTAS, WORKERS, claim_rows};

/// One round for what is claimable, one for what waits for a time or a lost worker, one to spare,
/// and one for each member of a flow that may wait for the one before.
const ROUNDS: usize = 3;

/// More than a plan can make due.
const ITEMS: u32 = 1000;

/// A tick can leave something that a second one must do, but not for long: what is done to all
/// members of a flow goes over some of them at a time.
const TICKS: usize = 4;

/// Workers claim and complete, time passes, the tick runs: everything ends.
pub(super) async fn end_everything(game: &mut Game<'_>) -> Result<(), String> {
    close_flows(game).await?;
    raise_budgets(game).await?;
    // Those who were given something to carry out, and died, count as dead now.
    let handed_out = last_time(game, &["outbox"]);
    game.set_time(handed_out).await;
    for round in 0..ROUNDS + members(game) + gated(game) {
        carry_out(game).await?;
        nobody_waits_in_vain(game)?;
        resume_all(game).await?;
        release_all(game).await?;
        work(game, round as u64).await?;
        if records(&game.world.held).all(|record| record.is_ended()) {
            return Ok(());
        }
        let last = last_time(game, &super::view::LIVE);
        game.set_time(last + 1).await;
    }
    let open: Vec<&str> = records(&game.world.held).map(|record| record.state()).collect();
    Err(format!("something never ends: {open:?}"))
}

/// What ticks and those who carry out what is owed may give each other to do.
const CARRIES: usize = 50;

/// How many executions are, or were, members of flows.
fn members(game: &Game<'_>) -> usize {
    game.world.graphs.0.values().map(|graph| graph.members.len()).sum()
}

/// How many executions have gates, which may let them pass one after the other.
fn gated(game: &Game<'_>) -> usize {
    2 * records(&game.world.held).filter(|record| record.is_gated()).count()
}

/// Does what is due and carries out what is owed, until nothing is.
async fn carry_out(game: &mut Game<'_>) -> Result<(), String> {
    for _ in 0..CARRIES {
        tick_until_quiet(game).await?;
        let mut busy = false;
        while let Some(sent) = game.world.admission.debts.next(&game.world.held) {
            let answer = game.send(&sent).await?;
            if !answer.done {
                return Err(format!("{} refuses what it is owed: {}", sent.name(), answer.word));
            }
            game.world.learn(&sent, &answer);
            busy = true;
        }
        game.world.admission.debts.put_down();
        for partition in game.world.ticked() {
            let settled = game.world.admission.debts.finished(*partition);
            if !settled.is_empty() {
                tick(game, *partition, settled).await?;
                busy = true;
            }
        }
        if !busy {
            return Ok(());
        }
    }
    Err("something is owed for ever".to_owned())
}

async fn tick(
    game: &mut Game<'_>,
    partition: Partition,
    settled: Vec<Vec<u8>>,
) -> Result<(), String> {
    let sent = Sent::of(partition, &Tick { settled: Rest(settled), ..Tick::once(ITEMS) });
    let answer = game.send(&sent).await?;
    game.world.learn(&sent, &answer);
    Ok(())
}

/// Asks the gates of what was claimed; gives whether all let it pass. What is refused is undone.
async fn admit(game: &mut Game<'_>, row: &ClaimRow) -> Result<bool, String> {
    while let Some(sent) = game.world.next_question(row) {
        let answer = game.send(&sent).await?;
        game.world.learn(&sent, &answer);
    }
    let Some(undo) = game.world.undo(row) else { return Ok(true) };
    game.send(&undo).await?;
    Ok(false)
}

/// A flow that is open never ends by itself: half of them are sealed, the others cancelled. Graphs
/// that were given up go by themselves.
async fn close_flows(game: &mut Game<'_>) -> Result<(), String> {
    let open: Vec<(String, Graph)> = game
        .world
        .graphs
        .0
        .iter()
        .filter(|(_, graph)| !graph.sealed && !graph.whole)
        .map(|(id, graph)| (id.clone(), graph.clone()))
        .collect();
    for (place, (id, graph)) in open.into_iter().enumerate() {
        let flow_id = id.parse().map_err(|_| format!("{id} is no id"))?;
        let sent = match place % 2 {
            0 => Sent::of(graph.partition, &SealFlow { flow_id }),
            _ => {
                let (reason, policy) = (String::new(), "flow_only".to_owned());
                Sent::of(graph.partition, &CancelFlow { flow_id, reason, policy, grace_ms: None })
            }
        };
        game.send(&sent).await?;
    }
    Ok(())
}

/// Nobody who may run is parked: where a gate has room, somebody can be claimed who may pass it.
fn nobody_waits_in_vain(game: &Game<'_>) -> Result<(), String> {
    let (held, now) = (&game.world.held, game.world.now);
    for record in records(held) {
        let Some(gate) = record.gate() else { continue };
        let waits = |other: Fields<'_>| {
            matches!(other.state(), "waiting" | "lapsed" | "revoked") && other.has_gate(&gate)
        };
        if has_room(held, &gate, now) && !records(held).any(waits) {
            return Err(format!("somebody waits at {gate}, which has room for him"));
        }
    }
    Ok(())
}

/// Every place and every reservation is back.
fn all_is_back(game: &Game<'_>) -> Result<(), String> {
    let holds = |key: &&Vec<u8>| key.windows(9).any(|part| part == b":holders:");
    match game.world.held.keys().find(holds) {
        Some(key) => Err(format!("{} is not empty", key.escape_ascii())),
        None if promises(&game.world.held) => Err("something is still reserved".to_owned()),
        None => Ok(()),
    }
}

/// People raise what budgets allow, as those who wait for that would wait for ever.
async fn raise_budgets(game: &mut Game<'_>) -> Result<(), String> {
    let most = limits::USAGE_MAX.to_string();
    for budget_id in *budgets::IDS {
        let words = budgets::DIMENSIONS.iter().flat_map(|name| [name, most.as_str(), ""]);
        let call = UpdateBudget {
            budget_id,
            on_hard_limit: None,
            reset_interval_ms: None,
            dimensions: Rest(words.map(str::to_owned).collect()),
        };
        if game.world.ticked().contains(&BUDGETS) {
            game.send(&Sent::of(BUDGETS, &call)).await?;
        }
    }
    Ok(())
}

async fn remove_limits(game: &mut Game<'_>) -> Result<(), String> {
    for budget_id in *budgets::IDS {
        if game.world.ticked().contains(&BUDGETS) {
            game.send(&Sent::of(BUDGETS, &DeleteBudget { budget_id })).await?;
        }
    }
    for quota_policy_id in *POLICIES {
        if game.world.ticked().contains(&QUOTAS) {
            game.send(&Sent::of(QUOTAS, &DeleteQuotaPolicy { quota_policy_id })).await?;
        }
    }
    Ok(())
}

/// When the last retention time and the last window are over, nothing is left but the log.
pub(super) async fn forget_everything(game: &mut Game<'_>) -> Result<(), String> {
    // What is purged early leaves a little for a minute.
    carry_out(game).await?;
    all_is_back(game)?;
    for round in 0..3 {
        let last = last_time(game, &super::view::TIMED);
        game.set_time(last + 1).await;
        carry_out(game).await?;
        if round == 0 {
            remove_limits(game).await?;
        }
    }
    let kept = |key: &[u8]| {
        let shares = format!(":shares:{FAIR}");
        [":log", ":trimmed", ":deployment", ":lanes", ":lane-uses", ":secrets", ":facts", &shares]
            .iter()
            .any(|end| key.ends_with(end.as_bytes()))
    };
    let left: Vec<String> = game
        .world
        .held
        .keys()
        .filter(|key| !kept(key))
        .map(|key| key.escape_ascii().to_string())
        .collect();
    if left.is_empty() { Ok(()) } else { Err(format!("left behind: {left:?}")) }
}

/// The last time in these indexes, or now if that is later.
fn last_time(game: &Game<'_>, indexes: &[&str]) -> u64 {
    let partitions = game.world.ticked().iter();
    let times = partitions.flat_map(|partition| {
        let view = View::new(&game.world.held, *partition);
        indexes.iter().flat_map(move |index| view.ranked(index)).map(|(_, at)| at as u64)
    });
    // Members of a flow go with it.
    let times = times.filter(|at| *at < limits::TIMESTAMP_MS_MAX);
    times.max().unwrap_or(0).max(game.world.now)
}

async fn tick_until_quiet(game: &mut Game<'_>) -> Result<(), String> {
    for partition in game.world.ticked() {
        let mut ticks = 0;
        while is_due(*partition, &game.world) {
            if ticks == TICKS + members(game) {
                return Err(format!("{partition} is never done"));
            }
            tick(game, *partition, Vec::new()).await?;
            ticks += 1;
        }
    }
    Ok(())
}

/// An operator ends every wait.
async fn resume_all(game: &mut Game<'_>) -> Result<(), String> {
    for partition in game.world.partitions {
        let view = View::new(&game.world.held, partition);
        let waiting: Vec<String> =
            view.ranked("suspended").into_iter().map(|(uuid, _)| uuid.to_owned()).collect();
        for uuid in waiting {
            let uuid = uuid.parse().map_err(|_| format!("{uuid} is no id"))?;
            let call = ResumeExecution {
                execution_id: ExecutionId::from_parts(partition, uuid),
                requested_by: String::new(),
                resume_delay_ms: None,
                request_id: None,
            };
            game.send(&Sent::of(partition, &call)).await?;
        }
    }
    Ok(())
}

/// An operator lets go of everything.
async fn release_all(game: &mut Game<'_>) -> Result<(), String> {
    for partition in game.world.partitions {
        let view = View::new(&game.world.held, partition);
        let held: Vec<String> =
            view.ranked("parked").into_iter().map(|(uuid, _)| uuid.to_owned()).collect();
        for uuid in held {
            let uuid = uuid.parse().map_err(|_| format!("{uuid} is no id"))?;
            let call = ReleaseExecution {
                execution_id: ExecutionId::from_parts(partition, uuid),
                requested_by: String::new(),
                request_id: None,
            };
            game.send(&Sent::of(partition, &call)).await?;
        }
    }
    Ok(())
}

/// A worker that can do everything takes all there is, and ends it: well, but for some that are
/// members of flows.
async fn work(game: &mut Game<'_>, round: u64) -> Result<(), String> {
    let mut dice = Dice::new(round);
    for partition in game.world.partitions {
        for lane in LANES {
            let waiting = View::new(&game.world.held, partition).queued(lane).len();
            if waiting == 0 {
                continue;
            }
            let sent = Sent::of(partition, &claim(&mut dice, lane, waiting));
            let answer = game.send(&sent).await?;
            game.world.learn(&sent, &answer);
            for row in claim_rows(&sent, &answer) {
                if !admit(game, &row).await? {
                    continue;
                }
                let member = game.world.record(&row.execution_id);
                let member = member.is_some_and(|record| !record.flow_id().is_empty());
                if member && dice.chance(30) {
                    game.send(&Sent::of(partition, &failure(&row))).await?;
                    continue;
                }
                let complete = CompleteExecution {
                    execution_id: row.execution_id,
                    lease_id: row.lease_id,
                    lease_epoch: row.lease_epoch,
                    attempt_id: row.attempt_id,
                    result: b"done".to_vec(),
                };
                game.send(&Sent::of(partition, &complete)).await?;
            }
        }
    }
    Ok(())
}

fn failure(row: &ClaimRow) -> FailExecution {
    FailExecution {
        execution_id: row.execution_id,
        lease_id: row.lease_id,
        lease_epoch: row.lease_epoch,
        attempt_id: row.attempt_id,
        failure_reason: "it broke".to_owned(),
        failure_category: String::new(),
        failure_detail: Vec::new(),
        is_final: true,
    }
}

fn claim(dice: &mut Dice, lane: &str, count: usize) -> ClaimNext {
    let (worker, instance) = WORKERS[0];
    let all = ABILITIES[ABILITIES.len() - 1].iter().copied();
    ClaimNext {
        lane: LaneId::try_new(lane).expect("a valid name"),
        worker_id: WorkerId::try_new(worker).expect("a valid name"),
        worker_instance_id: WorkerInstanceId::try_new(instance).expect("a valid name"),
        capabilities: CapabilitySet::try_new(all).expect("valid capabilities"),
        lease_ttl_ms: 60_000,
        retry: false,
        need: None,
        score_max: None,
        kinds: Joined(Vec::new()),
        namespaces: Joined(Vec::new()),
        lease_ids: Rest((0..count).map(|_| LeaseId::from_uuid(dice.uuid())).collect()),
    }
}
