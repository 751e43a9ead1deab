//! Claiming by grant, and the row that every claim answers with.

use ff_core::backend::HandleKind;
use ff_core::bytes::Base64;
use ff_core::contracts::{ChildResult, PassedInput, Resumption, Tags};
use ff_core::state::AttemptType;
use ff_core::types::{
    AttemptId, AttemptIndex, ExecutionId, ExecutionKind, GrantId, LaneId, LeaseEpoch, LeaseId,
    Namespace, TimestampMs, WorkerId, WorkerInstanceId,
};

use crate::call::functions;
use crate::gate::Gate;
use crate::value::Value;
use crate::wire::{Reading, row};

/// The three ways to claim by a grant: only a new attempt has an id to be given.
macro_rules! claims {
    ($(
        $(#[$doc:meta])*
        $name:ident($call:ident { $($attempt_id:ident)? }) -> $reply:ident
        refuses [$($code:ident),*];
    )*) => {
        functions! {$(
            $(#[$doc])*
            write $name($call {
                execution_id: ExecutionId,
                worker_id: WorkerId,
                worker_instance_id: WorkerInstanceId,
                lane: Option<LaneId>,
                grant_id: GrantId,
                lease_id: LeaseId,
                lease_ttl_ms: u64,
                $($attempt_id: AttemptId,)?
            })
            -> $reply {
                "OK" => Claimed { claim: ClaimRow },
                "DUPLICATE" => ClaimedBefore { claim: ClaimRow },
            }
            refuses [$($code),*];
        )*}

        $(impl From<$reply> for ClaimRow {
            fn from(reply: $reply) -> Self {
                let ($reply::Claimed { claim } | $reply::ClaimedBefore { claim }) = reply;
                claim
            }
        })*
    };
}

claims! {
    /// Starts a new attempt of a granted execution under a lease.
    ff_claim_execution(ClaimExecution { attempt_id }) -> ClaimExecutionReply
    refuses [ExecutionNotFound, ExecutionNotLeaseable, LeaseConflict, UseClaimResumedExecution,
        InvalidClaimGrant, ClaimGrantExpired, DataLost, FlowCancelled, LanePaused];

    /// Goes on with the paused attempt of a granted execution under a new lease.
    ff_claim_resumed_execution(ClaimResumedExecution {}) -> ClaimResumedExecutionReply
    refuses [ExecutionNotFound, ExecutionNotLeaseable, LeaseConflict, NotAResumedExecution,
        InvalidClaimGrant, ClaimGrantExpired, DataLost, FlowCancelled, LanePaused];

    /// Replaces an attempt whose lease was lost by a new one.
    ff_reclaim_execution(ReclaimExecution { attempt_id }) -> ReclaimExecutionReply
    refuses [ExecutionNotFound, ExecutionNotReclaimable, MaxRetriesExhausted, InvalidClaimGrant,
        ClaimGrantExpired, DataLost, FlowCancelled, LanePaused];
}

/// Everything a worker needs to begin.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names say it; lua/model/claim.lua has the order")]
pub struct ClaimRow {
    pub execution_id: ExecutionId,
    pub lease_id: LeaseId,
    pub lease_epoch: LeaseEpoch,
    pub lease_expires_at: TimestampMs,
    pub attempt_id: AttemptId,
    pub attempt_index: AttemptIndex,
    pub attempt_kind: AttemptKind,
    pub lane: LaneId,
    pub kind: ExecutionKind,
    pub namespace: Namespace,
    pub priority: u16,
    pub created_at: TimestampMs,
    pub attempt_timeout_at: Option<TimestampMs>,
    pub deadline_at: Option<TimestampMs>,
    pub payload: Vec<u8>,
    pub tags: Tags,
    pub next_frame: u64,
    pub resume: Option<Resumption>,
    pub inputs: PassedInputs,
    pub children: ChildResults,
    pub gates: Gates,
}

row!(ClaimRow {
    execution_id,
    lease_id,
    lease_epoch,
    lease_expires_at,
    attempt_id,
    attempt_index,
    attempt_kind,
    lane,
    kind,
    namespace,
    priority,
    created_at,
    attempt_timeout_at,
    deadline_at,
    payload,
    tags;
    // An older library does not tell: it has no output, and nothing waits in it.
    next_frame = 1,
    resume = None,
    inputs = PassedInputs::default(),
    children = ChildResults::default(),
    gates = Gates::default(),
});

/// What an execution must pass before its worker is told of it; most have nothing of that kind.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Gates(pub Vec<Gate>);

/// Three values each: `lua/model/gate.lua`.
impl Reading for Gates {
    fn read(value: Value) -> Option<Self> {
        let Value::Array(values) = value else { return Some(Self::default()) };
        let texts: Vec<String> = values.into_iter().map(String::read).collect::<Option<_>>()?;
        Gate::all(&texts).map(Self)
    }
}

/// What upstreams pass to a member of a flow.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PassedInputs(pub Vec<PassedInput>);

/// Four values each: `lua/model/input.lua`.
impl Reading for PassedInputs {
    fn read(value: Value) -> Option<Self> {
        let Value::Array(values) = value else { return Some(Self::default()) };
        let mut values = values.into_iter();
        let mut inputs = Vec::new();
        while let Some(name) = values.next() {
            let (name, execution_id) = (Reading::read(name)?, Reading::read(values.next()?)?);
            let bytes_base64 = bytes_if_here(&mut values)?;
            inputs.push(PassedInput { name, execution_id, bytes_base64 });
        }
        Some(Self(inputs))
    }
}

/// How the children of an execution stand.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChildResults(pub Vec<ChildResult>);

/// Five values each: `lua/model/children.lua`.
impl Reading for ChildResults {
    fn read(value: Value) -> Option<Self> {
        let Value::Array(values) = value else { return Some(Self::default()) };
        let mut values = values.into_iter();
        let mut children = Vec::new();
        while let Some(name) = values.next() {
            let (name, execution_id) = (Reading::read(name)?, Reading::read(values.next()?)?);
            let public_state = Reading::read(values.next()?)?;
            let bytes_base64 = bytes_if_here(&mut values)?;
            children.push(ChildResult { name, execution_id, public_state, bytes_base64 });
        }
        Some(Self(children))
    }
}

/// Two values: whether the bytes are here, and the bytes.
fn bytes_if_here(values: &mut impl Iterator<Item = Value>) -> Option<Option<Base64>> {
    let (here, bytes) = (bool::read(values.next()?)?, Vec::<u8>::read(values.next()?)?);
    Some(here.then_some(Base64(bytes)))
}

/// What a claim began: a new attempt of some type, or a paused one that goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttemptKind {
    /// A new attempt.
    New(AttemptType),
    /// A paused attempt that goes on.
    Resumed,
}

impl AttemptKind {
    /// The type to tell the worker: a resumed attempt keeps no type of its own here.
    pub fn attempt_type(self) -> AttemptType {
        match self {
            Self::New(attempt_type) => attempt_type,
            Self::Resumed => AttemptType::Initial,
        }
    }

    /// The kind of the handle.
    pub fn handle_kind(self) -> HandleKind {
        match self {
            Self::New(AttemptType::Reclaim) => HandleKind::Reclaimed,
            Self::New(_) => HandleKind::Fresh,
            Self::Resumed => HandleKind::Resumed,
        }
    }
}

impl Reading for AttemptKind {
    fn read(value: Value) -> Option<Self> {
        if value.as_bytes() == Some(b"resumed") {
            return Some(Self::Resumed);
        }
        AttemptType::read(value).map(Self::New)
    }
}
