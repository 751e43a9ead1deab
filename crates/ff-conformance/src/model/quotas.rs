//! Calls about quota policies: few of them, with limits so small that they are reached.

use std::sync::LazyLock;

use ff_core::policy::QuotaUse;
use ff_core::types::QuotaPolicyId;
use ff_script::calls::quota::{
    CreateQuotaPolicy, DeleteQuotaPolicy, DescribeQuotaPolicy, ListQuotaHolders, NoteQuotaPolicy,
    UpdateQuotaPolicy,
};
use ff_script::value::Value;
use uuid::Uuid;

use super::dice::Dice;
use super::plan::Op;
use super::play::config;
use super::sent::Sent;
use super::view::View;
use super::world::{PARTITIONS, QUOTAS, World};
use crate::gates::Limits;

/// Two policies, which live in one partition.
pub(super) static POLICIES: LazyLock<[QuotaPolicyId; 2]> =
    LazyLock::new(|| [1, 2].map(|number| QuotaPolicyId::from_uuid(at_home(number))));

/// The keys of each.
const KEYS: [&str; 2] = ["", "k"];

/// A uuid of something that lives in the first partition of its family.
pub(super) fn at_home(number: u128) -> Uuid {
    config().uuid_on(PARTITIONS[0], Uuid::from_u128(number << 16))
}

pub(super) fn number(value: &Value) -> Option<u64> {
    shown(value).parse().ok()
}

pub(super) fn shown(value: &Value) -> String {
    match value {
        Value::Int(number) => number.to_string(),
        other => String::from_utf8_lossy(other.as_bytes().unwrap_or_default()).into_owned(),
    }
}

/// Under which policy and key a new execution runs, once there is one.
pub(super) fn quota_use(dice: &mut Dice, world: &World) -> Option<QuotaUse> {
    let there = |id: &&QuotaPolicyId| is_there(**id, world);
    let known: Vec<&QuotaPolicyId> = POLICIES.iter().filter(there).collect();
    if known.is_empty() || dice.chance(20) {
        return None;
    }
    let policy = QuotaUse::of(**dice.pick(&known));
    Some(match *dice.pick(&KEYS) {
        "" => policy,
        key => policy.with_key(key),
    })
}

fn is_there(id: QuotaPolicyId, world: &World) -> bool {
    View::new(&world.held, QUOTAS).hash(&format!("policy:{id}")).is_some()
}

pub(super) fn choose(op: Op, dice: &mut Dice, world: &World) -> Sent {
    let id = *dice.pick(&*POLICIES);
    match op {
        Op::NoteQuota => note(id, dice, world),
        Op::ReadQuota if dice.chance(50) => {
            let quota_key = (*dice.pick(&KEYS)).to_owned();
            Sent::of(QUOTAS, &DescribeQuotaPolicy { quota_policy_id: id, quota_key })
        }
        Op::ReadQuota => {
            let quota_key = (*dice.pick(&KEYS)).to_owned();
            Sent::of(QUOTAS, &ListQuotaHolders { quota_policy_id: id, quota_key, limit: 10 })
        }
        _ if !is_there(id, world) || dice.chance(20) => Sent::of(QUOTAS, &limits(dice).create(id)),
        _ if dice.chance(15) => Sent::of(QUOTAS, &DeleteQuotaPolicy { quota_policy_id: id }),
        _ => {
            let CreateQuotaPolicy {
                quota_policy_id,
                window_seconds,
                max_requests_per_window,
                max_concurrent,
                jitter_ms,
            } = limits(dice).create(id);
            let call = UpdateQuotaPolicy {
                quota_policy_id,
                window_seconds,
                max_requests_per_window,
                max_concurrent,
                jitter_ms,
            };
            Sent::of(QUOTAS, &call)
        }
    }
}

/// Makes a policy known to a partition that does not know it yet, if there is one.
fn note(id: QuotaPolicyId, dice: &mut Dice, world: &World) -> Sent {
    let misses = |partition: &ff_core::partition::Partition| {
        let facts = View::new(&world.held, *partition).hash("facts");
        facts.is_none_or(|facts| facts.bytes(&format!("quota:{id}")).is_none())
    };
    let partition = *dice.likely(&world.partitions, misses).expect("there are partitions");
    let call: NoteQuotaPolicy = Limits::at_once(1).note(id);
    Sent::of(partition, &call)
}

/// One at a time or two, few within seconds, or both.
fn limits(dice: &mut Dice) -> Limits {
    let concurrent = dice.sometimes(80, |dice| 1 + dice.below(2));
    let within = concurrent.is_none() || dice.chance(30);
    let limits = match within {
        true => Limits::within(1 + dice.below(5), 1 + dice.below(3)),
        false => Limits::default(),
    };
    Limits { concurrent, jitter_ms: dice.sometimes(30, |dice| dice.below(500)), ..limits }
}
