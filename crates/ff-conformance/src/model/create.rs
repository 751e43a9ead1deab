//! New executions of every kind that policies, delays, deadlines, tags and keys can make.

use ff_core::policy::{
    Backoff, CapabilitySet, DurabilityMode, ExecutionPolicy, RetryPolicy, RoutingRequirements,
    StreamPolicy, TimeoutPolicy,
};
use ff_core::types::{ExecutionId, ExecutionKind, IdempotencyKey, LaneId, Namespace, TimestampMs};
use ff_script::calls::create::CreateExecution;

use super::budgets;
use super::dice::Dice;
use super::quotas;
use super::world::{ABILITIES, KINDS, LANES, World};

const SECOND: u64 = 1000;
const HOUR: u64 = 3_600_000;
const DAY: u64 = 24 * HOUR;

/// Around the sizes at which a value is cut into pieces or gets a key of its own.
const SIZES: [u64; 8] = [0, 1, 64, 65, 192, 256, 257, 600];

pub(super) const NAMESPACES: [&str; 2] = ["left", "right"];

/// Categories that failures have and policies list.
pub(super) const CATEGORIES: [&str; 4] = ["", "transient", "rate_limit", "permanent"];

pub(super) fn new_execution(dice: &mut Dice, world: &World) -> CreateExecution {
    let idempotency_key = dice.sometimes(25, key);
    let execution_id = id(dice, world, idempotency_key.as_ref());
    CreateExecution {
        execution_id,
        namespace: namespace(execution_id),
        lane: lane(dice),
        kind: kind(dice),
        priority: if dice.chance(40) { dice.below(4) as u16 * 3000 } else { 0 },
        creator: if dice.chance(20) { "somebody".to_owned() } else { String::new() },
        policy_json: policy_json(dice, world),
        payload: bytes(dice),
        delay_until: dice.sometimes(25, |dice| moment(dice, world).into()),
        deadline_at: dice.sometimes(15, |dice| moment(dice, world)),
        tags_json: tags_json(dice),
        content_digest: idempotency_key.as_ref().map_or("", |_| digest(dice)).to_owned(),
        sent_ms_ago: None,
        throttle: None,
        correlation_id: dice.sometimes(10, |_| "order 7".to_owned()).unwrap_or_default(),
        idempotency_key,
        dedup_ms: dice.sometimes(20, |dice| 1 + dice.below(HOUR)),
    }
}

pub(super) fn kind(dice: &mut Dice) -> ExecutionKind {
    ExecutionKind::try_new(*dice.pick(&KINDS)).expect("a valid name")
}

fn key(dice: &mut Dice) -> IdempotencyKey {
    IdempotencyKey::try_new(dice.pick(&["invoice-1", "invoice-2"])).expect("a valid key")
}

fn digest(dice: &mut Dice) -> &'static str {
    if dice.chance(85) { "same" } else { "other" }
}

/// A key has its partition; without one, an id may have been used before.
fn id(dice: &mut Dice, world: &World, key: Option<&IdempotencyKey>) -> ExecutionId {
    let used = dice.sometimes(5, |dice| dice.recent(&world.ids).copied()).flatten();
    let place = match key {
        Some(key) => usize::from(key.as_str().ends_with('2')),
        None if dice.chance(50) => 0,
        None => dice.below(4) as usize,
    };
    let fresh = ExecutionId::from_parts(world.partitions[place], dice.uuid());
    used.filter(|_| key.is_none()).unwrap_or(fresh)
}

/// An id that is used again stays in its namespace.
fn namespace(id: ExecutionId) -> Namespace {
    let name = NAMESPACES[usize::from(id.uuid().as_u128().is_multiple_of(5))];
    Namespace::try_new(name).expect("a valid name")
}

pub(super) fn lane(dice: &mut Dice) -> LaneId {
    let name = if dice.chance(75) { LANES[0] } else { LANES[1] };
    LaneId::try_new(name).expect("a valid name")
}

pub(super) fn bytes(dice: &mut Dice) -> Vec<u8> {
    let size = *dice.pick(&SIZES);
    (0..size).map(|_| dice.below(256) as u8).collect()
}

/// Near or far, a bit before now at times.
pub(super) fn moment(dice: &mut Dice, world: &World) -> TimestampMs {
    let ahead = span(dice);
    TimestampMs::new((world.now + ahead).saturating_sub(5 * SECOND))
}

/// Milliseconds to hours, each magnitude as likely as the others.
pub(super) fn span(dice: &mut Dice) -> u64 {
    let top = *dice.pick(&[10, SECOND, 30 * SECOND, HOUR / 6, 3 * HOUR]);
    dice.below(top)
}

fn tags_json(dice: &mut Dice) -> String {
    match dice.below(6) {
        0 => r#"{"team.name":"blue"}"#.to_owned(),
        1 => r#"{"team.name":"red","cost.centre":7,"is.urgent":true}"#.to_owned(),
        _ => String::new(),
    }
}

/// Most executions have a policy; a few bring one that is refused.
fn policy_json(dice: &mut Dice, world: &World) -> String {
    match dice.below(10) {
        0..3 => String::new(),
        9 if dice.chance(20) => r#"{"retries":3}"#.to_owned(),
        _ => policy(dice, world).to_json().expect("the policy is within the limits"),
    }
}

fn policy(dice: &mut Dice, world: &World) -> ExecutionPolicy {
    let (budget_ids, reserve_usage) = budgets::named(dice, world);
    ExecutionPolicy {
        retry_policy: dice.sometimes(60, retry_policy),
        timeout_policy: dice.sometimes(40, timeout_policy),
        max_reclaim_count: dice.sometimes(60, |dice| dice.below(4)),
        max_replay_count: dice.sometimes(40, |dice| dice.below(3)),
        retention_ms: dice.sometimes(50, |dice| *dice.pick(&[0, SECOND, HOUR, 3 * DAY])),
        routing_requirements: dice.sometimes(20, requirements),
        ageing_ms: dice.sometimes(30, |dice| dice.below(HOUR)),
        dedup_window_ms: dice.sometimes(20, |dice| 1 + dice.below(3 * DAY)),
        stream_policy: dice.sometimes(40, stream_policy),
        suspension_policy: None,
        max_signals_per_execution: None,
        budget_ids,
        reserve_usage,
        quota: quotas::quota_use(dice, world),
    }
}

fn retry_policy(dice: &mut Dice) -> RetryPolicy {
    let some = dice.chance(20);
    RetryPolicy {
        max_retries: dice.below(4),
        backoff: if dice.chance(50) { fixed(dice) } else { exponential(dice) },
        retryable_categories: if some { vec!["transient".to_owned()] } else { Vec::new() },
    }
}

fn fixed(dice: &mut Dice) -> Backoff {
    Backoff::Fixed { delay_ms: if dice.chance(30) { 0 } else { span(dice) } }
}

fn exponential(dice: &mut Dice) -> Backoff {
    let initial_delay_ms = span(dice);
    Backoff::Exponential {
        initial_delay_ms,
        max_delay_ms: initial_delay_ms + span(dice),
        multiplier: *dice.pick(&[1.0, 1.5, 2.0, 3.125]),
        jitter: dice.chance(50),
    }
}

fn timeout_policy(dice: &mut Dice) -> TimeoutPolicy {
    TimeoutPolicy {
        attempt_timeout_ms: dice.sometimes(70, |dice| 1 + span(dice)),
        execution_deadline_ms: dice.sometimes(40, |dice| 1 + span(dice)),
        max_reclaim_count: dice.sometimes(30, |dice| dice.below(4)),
    }
}

/// Small bounds, so that they are reached.
fn stream_policy(dice: &mut Dice) -> StreamPolicy {
    StreamPolicy {
        durability_mode: dice.sometimes(50, |dice| *dice.pick(DurabilityMode::ALL)),
        retention_maxlen: dice.sometimes(50, |dice| 1 + dice.below(12)),
        retention_bytes: dice.sometimes(50, |dice| 1 + dice.below(60)),
        retention_ttl_ms: dice.sometimes(50, |dice| *dice.pick(&[0, SECOND, HOUR])),
    }
}

fn requirements(dice: &mut Dice) -> RoutingRequirements {
    RoutingRequirements { required_capabilities: abilities(dice) }
}

pub(super) fn abilities(dice: &mut Dice) -> CapabilitySet {
    let tokens = dice.pick(&ABILITIES).iter().copied();
    CapabilitySet::try_new(tokens).expect("valid capabilities")
}
