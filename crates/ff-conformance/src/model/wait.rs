//! Calls about waiting: suspensions, waitpoints, and signals from those who know a token, or say
//! so.

use ff_core::contracts::TimeoutBehavior;
use ff_core::types::{ExecutionId, SignalId, SuspensionId, WaitpointId, WaitpointToken};
use ff_script::calls::secret::ListWaitpointHmacKids;
use ff_script::calls::signal::{BufferSignal, DeliverSignal};
use ff_script::calls::suspend::{
    ExpireSuspension, ReadResumeSignals, ResumeExecution, SuspendExecution,
};
use ff_script::calls::waitpoint::{CloseWaitpoint, CreatePendingWaitpoint, ListPendingWaitpoints};
use ff_script::calls::waits::ListSuspended;

use super::choose::{on, request};
use super::create::span;
use super::dice::Dice;
use super::eligible::is_live;
use super::plan::Op;
use super::sent::Sent;
use super::view::{View, Waitpoint};
use super::world::{Known, Lease, World};
use crate::waiting::rotation;

/// The signals that are sent.
const NAMES: [&str; 3] = ["go", "stop", "more"];
/// Who sends them.
const SENDERS: [&str; 2] = ["ann", "bob"];
/// The names of waitpoints.
const KEYS: [&str; 2] = ["first", "second"];

/// A second reading of a condition: is it satisfied by what came, given as names and senders?
type Reading = fn(&[(&str, &str)]) -> bool;

/// The conditions that are waited for.
const CONDITIONS: [(&str, Reading); 5] = [
    (r#"{"type":"any","signals":["go","stop"]}"#, |came| {
        came.iter().any(|(name, _)| *name != "more")
    }),
    (r#"{"type":"all","signals":["go","stop"]}"#, |came| {
        ["go", "stop"].iter().all(|wanted| came.iter().any(|(name, _)| name == wanted))
    }),
    (r#"{"type":"count","count":2,"signals":["*"]}"#, |came| came.len() >= 2),
    (r#"{"type":"count","count":2,"signals":["go"],"distinct_sources":true}"#, |came| {
        SENDERS.iter().all(|sender| came.contains(&("go", sender)))
    }),
    (r#"{"type":"operator_only"}"#, |_| false),
];

/// What the holder of a lease does about waiting.
pub(super) fn of_holder(op: Op, dice: &mut Dice, lease: &Lease, world: &World) -> Sent {
    let Lease { execution_id, lease_id, lease_epoch, attempt_id } = lease.clone();
    match op {
        Op::Suspend => on(execution_id, &suspend(dice, lease, world)),
        Op::OpenWaitpoint => {
            let call = CreatePendingWaitpoint {
                execution_id,
                lease_id,
                lease_epoch,
                attempt_id,
                waitpoint_id: WaitpointId::from_uuid(dice.uuid()),
                waitpoint_key: (*dice.pick(&KEYS)).to_owned(),
                expires_in_ms: 1 + span(dice),
            };
            on(execution_id, &call)
        }
        Op::CloseWaitpoint => {
            let known = pending(dice, execution_id, world);
            let waitpoint_id = known.unwrap_or_else(|| WaitpointId::from_uuid(dice.uuid()));
            let reason = None;
            let call = CloseWaitpoint {
                execution_id,
                lease_id,
                lease_epoch,
                attempt_id,
                waitpoint_id,
                reason,
            };
            on(execution_id, &call)
        }
        _ => {
            let call = ReadResumeSignals {
                execution_id,
                lease_id,
                lease_epoch,
                attempt_id,
                from: None,
                bytes_max: 1000,
            };
            on(execution_id, &call)
        }
    }
}

/// A pending waitpoint of the execution, if the test knows one.
fn pending(dice: &mut Dice, id: ExecutionId, world: &World) -> Option<WaitpointId> {
    let own = |known: &&Known| known.execution_id == id && state_of(known, world) == "pending";
    let known: Vec<&Known> = world.waitpoints.iter().filter(own).collect();
    dice.recent(&known).map(|known| known.waitpoint_id)
}

/// Has somebody who can still be suspended opened a waitpoint?
pub(super) fn is_expected(lease: &Lease, world: &World) -> bool {
    let own = |known: &Known| {
        known.execution_id == lease.execution_id && state_of(known, world) == "pending"
    };
    is_live(lease, world) && world.waitpoints.iter().any(own)
}

fn state_of<'a>(known: &Known, world: &'a World) -> &'a str {
    let view = View::new(&world.held, known.execution_id.partition());
    view.waitpoint(&known.waitpoint_id.to_string()).map_or("", |one| one.text("state"))
}

fn suspend(dice: &mut Dice, lease: &Lease, world: &World) -> SuspendExecution {
    let Lease { execution_id, lease_id, lease_epoch, attempt_id } = lease.clone();
    let known = pending(dice, execution_id, world).filter(|_| dice.chance(90));
    let behaviors = [
        TimeoutBehavior::Fail,
        TimeoutBehavior::Cancel,
        TimeoutBehavior::Expire,
        TimeoutBehavior::AutoResume,
        TimeoutBehavior::Escalate,
    ];
    SuspendExecution {
        execution_id,
        lease_id,
        lease_epoch,
        attempt_id,
        suspension_id: SuspensionId::from_uuid(dice.uuid()),
        waitpoint_id: known.unwrap_or_else(|| WaitpointId::from_uuid(dice.uuid())),
        waitpoint_key: dice.sometimes(30, |dice| (*dice.pick(&KEYS)).to_owned()),
        reason_code: None,
        requested_by: String::new(),
        timeout_ms: dice.sometimes(50, |dice| 1 + span(dice)),
        timeout_behavior: dice.sometimes(80, |dice| *dice.pick(&behaviors)),
        resume_condition_json: dice.pick(&CONDITIONS).0.to_owned(),
        resume_delay_ms: dice.sometimes(20, span),
        details: String::new(),
        use_pending_waitpoint: known.is_some(),
        approval: String::new(),
    }
}

/// What anybody does about an execution that may wait.
pub(super) fn of_anybody(op: Op, dice: &mut Dice, id: ExecutionId) -> Sent {
    match op {
        Op::Resume => {
            let call = ResumeExecution {
                execution_id: id,
                requested_by: "operator".to_owned(),
                resume_delay_ms: dice.sometimes(20, span),
                request_id: request(dice),
            };
            on(id, &call)
        }
        Op::ExpireSuspension => on(id, &ExpireSuspension { execution_id: id }),
        _ if dice.chance(60) => on(id, &ListPendingWaitpoints { execution_id: id }),
        _ if dice.chance(50) => {
            on(id, &ListSuspended { cursor: String::new(), limit: 1 + dice.below(3) as u32 })
        }
        _ => on(id, &ListWaitpointHmacKids {}),
    }
}

/// Another key signs from now on; the one before is accepted for a while.
pub(super) fn rotate(dice: &mut Dice, world: &World) -> Sent {
    let kid = *dice.pick(&["k2", "k3"]);
    let secret = if kid == "k2" { "ab".repeat(16) } else { "cd".repeat(16) };
    let call = rotation(kid, &secret, span(dice));
    Sent::of(*dice.pick(&world.partitions), &call)
}

/// A signal: mostly with the right token, sometimes with one that is not.
pub(super) fn signal(dice: &mut Dice, world: &World) -> Option<Sent> {
    let wanted: &[&str] = if dice.chance(40) { &["pending"] } else { &["pending", "active"] };
    let open = |known: &Known| wanted.contains(&state_of(known, world));
    let known = dice.likely(&world.waitpoints, open)?.clone();
    let by_key = dice.chance(20);
    let waitpoint_token = token(dice, &known, world);
    let call = DeliverSignal {
        execution_id: known.execution_id,
        waitpoint_id: (!by_key).then_some(known.waitpoint_id),
        waitpoint_key: by_key.then_some(known.key),
        signal_id: SignalId::from_uuid(dice.uuid()),
        signal_name: (*dice.pick(&NAMES)).to_owned(),
        signal_category: String::new(),
        source_type: "test".to_owned(),
        source_identity: (*dice.pick(&SENDERS)).to_owned(),
        payload: super::create::bytes(dice),
        payload_encoding: String::new(),
        idempotency_key: dice.sometimes(30, |_| "same".to_owned()).unwrap_or_default(),
        correlation_id: String::new(),
        waitpoint_token,
    };
    Some(if dice.chance(85) { on(call.execution_id, &call) } else { older(call) })
}

fn token(dice: &mut Dice, known: &Known, world: &World) -> WaitpointToken {
    match dice.below(20) {
        0 => dice.pick(&world.waitpoints).token.clone(),
        1 => {
            let mut bytes = known.token.as_str().as_bytes().to_vec();
            let place = dice.below(bytes.len() as u64) as usize;
            bytes[place] ^= 1 << dice.below(7);
            WaitpointToken::new(String::from_utf8(bytes).expect("ASCII stays ASCII"))
        }
        _ => known.token.clone(),
    }
}

/// The same under its older name.
fn older(call: DeliverSignal) -> Sent {
    on(call.execution_id, &BufferSignal(call))
}

/// Is what a waitpoint waits for there? A second reading of its condition.
pub(super) fn is_satisfied(one: &Waitpoint<'_>) -> bool {
    let came = one.signals();
    let came: Vec<(&str, &str)> =
        came.iter().map(|(name, sender)| (name.as_str(), sender.as_str())).collect();
    let known = CONDITIONS.iter().find(|(json, _)| *json == one.text("condition"));
    known.is_some_and(|(_, satisfied)| satisfied(&came))
}
