//! Taking executions: from a lane's queue, or one at a time through a grant.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::children::ChildResult;
use super::inputs::PassedInput;
use super::suspensions::Resumption;
use super::tags::Tags;
use super::work::WorkRequest;
use crate::ToSchema;
use crate::argument;
use crate::backend::Handle;
use crate::capability::CapabilitySet;
use crate::engine_backend::Answer;
use crate::error::EngineError;
use crate::limits;
use crate::literal::literals;
use crate::need::Need;
use crate::operation::Operation;
use crate::partition::Partition;
use crate::types::{
    BudgetId, ExecutionId, ExecutionKind, GrantId, LaneId, LeaseId, Namespace, TimestampMs,
    WorkerId, WorkerInstanceId,
};
use crate::wire_text::serde_as_text;

/// Reserves executions for workers, who turn the reservations into leases.
pub trait Grants: Send + Sync {
    /// Reserves a waiting execution for one worker. Repeating it for the same worker instance
    /// answers the same grant.
    fn issue_claim_grant(
        &self,
        execution_id: ExecutionId,
        request: GrantRequest,
    ) -> Answer<'_, ClaimGrant>;

    /// Starts a new attempt on a reserved execution. Refuses with `use_claim_resumed_execution`,
    /// keeping the grant, if an interrupted attempt is to go on instead. Repeating it with the same
    /// lease id answers the same lease.
    fn claim_from_grant<'a>(
        &'a self,
        grant: &'a ClaimGrant,
        lease: LeaseRequest,
    ) -> Answer<'a, Claimed>;

    /// Goes on with the interrupted attempt of a reserved execution. Repeating it with the same
    /// lease id answers the same lease.
    fn claim_resumed<'a>(
        &'a self,
        grant: &'a ClaimGrant,
        lease: LeaseRequest,
    ) -> Answer<'a, Claimed>;

    /// Reserves an execution whose lease lapsed or was revoked. Repeating it for the same worker
    /// instance answers the same grant.
    fn issue_reclaim_grant(
        &self,
        execution_id: ExecutionId,
        request: GrantRequest,
    ) -> Answer<'_, ReclaimGrant>;

    /// Takes over such an execution with a new attempt. Repeating it with the same lease id answers
    /// the same lease.
    fn claim_from_reclaim_grant<'a>(
        &'a self,
        grant: &'a ReclaimGrant,
        lease: LeaseRequest,
    ) -> Answer<'a, Claimed>;
}

/// A worker asks for work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClaimRequest {
    /// The lane it serves.
    pub lane: LaneId,
    /// The kind of worker.
    pub worker_id: WorkerId,
    /// The process.
    pub worker_instance_id: WorkerInstanceId,
    /// What it can do.
    pub capabilities: CapabilitySet,
    /// The kinds of executions it wants; none named means any.
    pub kinds: Vec<ExecutionKind>,
    /// The namespaces it takes from; none named means any.
    pub namespaces: Vec<Namespace>,
    /// Which of the lane's queues to take from, and how far.
    pub from: TakeFrom,
    /// How long each lease lasts unless renewed.
    pub lease_ttl_ms: u64,
    /// One fresh id per execution wanted. A lease is recognised by its id, so a claim whose answer
    /// was lost is repeated with the same ids.
    pub lease_ids: Vec<LeaseId>,
    /// True for such a repetition: leases of these ids are answered again before new ones are made.
    pub retry: bool,
}

/// What to take of a lane, for those who know more of it than the partition that they ask.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TakeFrom {
    /// The queue to take from; all that suit the worker if none is named.
    pub need: Option<Need>,
    /// Nothing with a greater score is taken: something better waits elsewhere.
    pub score_max: Option<i64>,
}

/// What a claim took.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClaimedNext {
    /// The executions, best first.
    pub claimed: Vec<Claimed>,
    /// The score of the best one that is left: the lowest is taken first.
    pub next_score: Option<i64>,
}

/// What a request for a reservation found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GrantedNext {
    /// The reservation, if there was something.
    pub grant: Option<NextGrant>,
    /// The score of the best one that is left: the lowest is taken first.
    pub next_score: Option<i64>,
}

/// A queue that is not empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueueHead {
    /// Its lane.
    pub lane: LaneId,
    /// What those in it ask of a worker.
    pub need: Need,
    /// The score of its best one: the lowest is taken first.
    pub score: i64,
    /// How many it has.
    pub waiting: u32,
}

impl ClaimRequest {
    /// A claim from the first of the lanes that are asked for.
    pub fn of(request: &WorkRequest, lease_ids: Vec<LeaseId>) -> Self {
        Self {
            lane: request.lanes.first().cloned().unwrap_or_default(),
            worker_id: request.worker_id.clone(),
            worker_instance_id: request.worker_instance_id.clone(),
            capabilities: request.capabilities.clone(),
            kinds: request.kinds.clone(),
            namespaces: request.namespaces.clone(),
            from: TakeFrom::default(),
            lease_ttl_ms: request.lease_ttl_ms,
            lease_ids,
            retry: false,
        }
    }

    /// Checks what the types do not already hold.
    pub fn validate(&self) -> Result<(), EngineError> {
        check_lease_ttl(self.lease_ttl_ms)?;
        check_kinds(&self.kinds)?;
        check_namespaces(&self.namespaces)?;
        let count = self.lease_ids.len() as u64;
        argument::check_range("number of lease ids", count, 1..=limits::CLAIM_COUNT_MAX)?;
        let distinct: BTreeSet<&LeaseId> = self.lease_ids.iter().collect();
        if distinct.len() == self.lease_ids.len() {
            Ok(())
        } else {
            Err(EngineError::invalid("lease_ids", "must all be different"))
        }
    }
}

pub(super) fn check_kinds(kinds: &[ExecutionKind]) -> Result<(), EngineError> {
    argument::check_range("number of kinds", kinds.len() as u64, 0..=limits::KINDS_MAX)
}

pub(super) fn check_namespaces(namespaces: &[Namespace]) -> Result<(), EngineError> {
    let count = namespaces.len() as u64;
    argument::check_range("number of namespaces", count, 0..=limits::NAMESPACES_MAX)
}

pub(super) fn check_lease_ttl(lease_ttl_ms: u64) -> Result<(), EngineError> {
    let range = limits::LEASE_TTL_MS_MIN..=limits::LEASE_TTL_MS_MAX;
    argument::check_range("lease_ttl_ms", lease_ttl_ms, range)
}

/// An execution in the hands of a worker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claimed {
    /// The right to work on it.
    pub handle: Handle,
    /// The tenant or environment it belongs to.
    pub namespace: Namespace,
    /// The handler that runs it.
    pub kind: ExecutionKind,
    /// The input, opaque.
    pub payload: Vec<u8>,
    /// Labels.
    pub tags: Tags,
    /// Its priority when it was claimed.
    pub priority: u16,
    /// When it was submitted.
    pub created_at: TimestampMs,
    /// When the lease ends unless renewed.
    pub lease_expires_at: TimestampMs,
    /// When the attempt runs out of time.
    pub attempt_timeout_at: Option<TimestampMs>,
    /// When the execution runs out of time.
    pub deadline_at: Option<TimestampMs>,
    /// The number of the next frame of its output: 1 unless an attempt with output goes on.
    pub next_frame: u64,
    /// What ended the latest wait of the execution, if it ever was suspended.
    pub resumption: Option<Resumption>,
    /// What upstreams of its flow pass to it.
    pub inputs: Vec<PassedInput>,
    /// Its children, in the order in which they were added.
    pub children: Vec<ChildResult>,
    /// The budgets that apply to it.
    pub budget_ids: Vec<BudgetId>,
}

/// How much input several claimed executions have. A claim ends early when it reaches
/// [`limits::CLAIM_BYTES_MAX`]: there may be more.
pub fn payload_bytes(claimed: &[Claimed]) -> u64 {
    claimed.iter().map(|one| one.payload.len() as u64).sum()
}

/// Reserves an execution for a worker.
#[serde_with_macros::skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = GrantExecution)]
pub struct GrantRequest {
    /// The kind of worker.
    pub worker_id: WorkerId,
    /// The process.
    pub worker_instance_id: WorkerInstanceId,
    /// What the worker can do.
    #[serde(default)]
    pub capabilities: CapabilitySet,
    /// How long the reservation lasts.
    #[schema(value_type = crate::schema::GrantTtlMs)]
    pub grant_ttl_ms: u64,
    /// True to take over an execution whose worker lost its lease; false for one that waits.
    #[serde(default)]
    pub reclaim: bool,
    /// Chosen by the client, or by the server if absent.
    pub grant_id: Option<GrantId>,
}

impl GrantRequest {
    /// Checks what the types do not already hold.
    pub fn validate(&self) -> Result<(), EngineError> {
        check_grant_ttl(self.grant_ttl_ms)
    }
}

impl Operation for GrantRequest {
    type Target = ExecutionId;
    type Request = Self;
    type Reply = Grant;

    const PATH: &'static str = "/v1/executions/{execution_id}/grant";
    const NAME: &'static str = "grantExecution";
    const GROUP: &'static str = "grants";
    const SUMMARY: &'static str = "Reserves one execution for a worker.";
    const ANSWERS: &'static str = "It is reserved.";
}

fn check_grant_ttl(grant_ttl_ms: u64) -> Result<(), EngineError> {
    argument::check_range("grant_ttl_ms", grant_ttl_ms, 1..=limits::GRANT_TTL_MS_MAX)
}

macro_rules! grants {
    ($($(#[$doc:meta])* $name:ident;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub struct $name {
            /// The reservation.
            pub grant_id: GrantId,
            /// The execution reserved.
            pub execution_id: ExecutionId,
            /// The kind of worker it is reserved for.
            pub worker_id: WorkerId,
            /// The process it is reserved for.
            pub worker_instance_id: WorkerInstanceId,
            /// When the reservation ends.
            pub expires_at: TimestampMs,
        }

        impl $name {
            /// The partition to call.
            pub const fn partition(&self) -> Partition {
                self.execution_id.partition()
            }
        }
    )*};
}

grants! {
    /// A reservation of an execution that waits to be claimed. Works once.
    ClaimGrant;
    /// A reservation of an execution whose worker lost its lease. Works once.
    ReclaimGrant;
}

impl From<ClaimGrant> for ReclaimGrant {
    fn from(grant: ClaimGrant) -> Self {
        let ClaimGrant { grant_id, execution_id, worker_id, worker_instance_id, expires_at } =
            grant;
        Self { grant_id, execution_id, worker_id, worker_instance_id, expires_at }
    }
}

impl From<ReclaimGrant> for ClaimGrant {
    fn from(grant: ReclaimGrant) -> Self {
        let ReclaimGrant { grant_id, execution_id, worker_id, worker_instance_id, expires_at } =
            grant;
        Self { grant_id, execution_id, worker_id, worker_instance_id, expires_at }
    }
}

/// Asks for the next execution of a lane that a worker could take.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = ClaimForWorker)]
pub struct NextGrantRequest {
    /// The lane to take from.
    #[serde(rename = "lane_id")]
    pub lane: LaneId,
    /// The process.
    pub worker_instance_id: WorkerInstanceId,
    /// What the worker can do.
    #[serde(default)]
    pub capabilities: CapabilitySet,
    /// How long the reservation lasts.
    #[schema(value_type = crate::schema::GrantTtlMs)]
    pub grant_ttl_ms: u64,
}

impl NextGrantRequest {
    /// Checks the ranges.
    pub fn validate(&self) -> Result<(), EngineError> {
        check_grant_ttl(self.grant_ttl_ms)
    }
}

impl Operation for NextGrantRequest {
    type Target = WorkerId;
    type Request = Self;
    type Reply = Grant;

    const PATH: &'static str = "/v1/workers/{worker}/claim";
    const NAME: &'static str = "claimForWorker";
    const GROUP: &'static str = "grants";
    const SUMMARY: &'static str = "Reserves the next execution of a lane for a worker.";
    const ANSWERS: &'static str = "It is reserved.";
    const ABOUT: &'static str = "Looks for the best execution of the lane that the worker could \
        take, in the partitions that may have one, each in its turn. An unused grant ends by itself.";
    const REFUSES: &'static [u16] = &[409];
}

literals! {
    /// What a reservation is good for.
    GrantKind("kind of a grant") {
        /// Starts a new attempt: `claim_from_grant`.
        Claim = "claim",
        /// Goes on with a paused attempt: `claim_resumed`.
        Resume = "resume",
        /// Takes over from a lost worker: `claim_from_reclaim_grant`.
        Reclaim = "reclaim",
    }
}

/// A reservation, and which call it is good for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NextGrant {
    /// Starts a new attempt: `claim_from_grant`.
    Claim(ClaimGrant),
    /// Goes on with a paused attempt: `claim_resumed`.
    Resume(ClaimGrant),
    /// Takes over from a lost worker: `claim_from_reclaim_grant`.
    Reclaim(ReclaimGrant),
}

impl NextGrant {
    /// A reservation that is good for this.
    pub fn new(kind: GrantKind, grant: ClaimGrant) -> Self {
        match kind {
            GrantKind::Claim => Self::Claim(grant),
            GrantKind::Resume => Self::Resume(grant),
            GrantKind::Reclaim => Self::Reclaim(grant.into()),
        }
    }

    /// What it is good for, and what every reservation says.
    pub fn into_parts(self) -> (GrantKind, ClaimGrant) {
        match self {
            Self::Claim(grant) => (GrantKind::Claim, grant),
            Self::Resume(grant) => (GrantKind::Resume, grant),
            Self::Reclaim(grant) => (GrantKind::Reclaim, grant.into()),
        }
    }
}

/// A reservation. Works once, for the worker it was made for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Grant {
    /// The execution reserved.
    pub execution_id: ExecutionId,
    /// The partition it lives on, as in `{fp:7}`.
    #[schema(value_type = String)]
    pub partition_key: Partition,
    /// Names the reservation; to be given back unchanged.
    #[schema(value_type = String)]
    pub grant_key: GrantKey,
    /// When the reservation ends, in milliseconds since the Unix epoch.
    pub expires_at_ms: TimestampMs,
}

impl From<NextGrant> for Grant {
    fn from(grant: NextGrant) -> Self {
        let (kind, grant) = grant.into_parts();
        Self {
            execution_id: grant.execution_id,
            partition_key: grant.partition(),
            grant_key: GrantKey { kind, grant_id: grant.grant_id },
            expires_at_ms: grant.expires_at,
        }
    }
}

impl Grant {
    /// The reservation with the worker that asked for it.
    pub fn into_next(self, worker_id: WorkerId, instance: WorkerInstanceId) -> NextGrant {
        let grant = ClaimGrant {
            grant_id: self.grant_key.grant_id,
            execution_id: self.execution_id,
            worker_id,
            worker_instance_id: instance,
            expires_at: self.expires_at_ms,
        };
        NextGrant::new(self.grant_key.kind, grant)
    }
}

/// The name of a reservation, with what it is good for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GrantKey {
    /// What it is good for.
    pub kind: GrantKind,
    /// The reservation.
    pub grant_id: GrantId,
}

impl fmt::Display for GrantKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.kind, self.grant_id)
    }
}

/// A text that is not the key of a grant.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a grant key must be given back exactly as it was received")]
pub struct GrantKeyParseError;

impl FromStr for GrantKey {
    type Err = GrantKeyParseError;

    fn from_str(text: &str) -> Result<Self, GrantKeyParseError> {
        let (kind, id) = text.split_once('.').ok_or(GrantKeyParseError)?;
        Ok(Self {
            kind: kind.parse().map_err(|_| GrantKeyParseError)?,
            grant_id: id.parse().map_err(|_| GrantKeyParseError)?,
        })
    }
}

serde_as_text!(GrantKey, "the key of a grant");

/// The lease wanted in exchange for a grant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeaseRequest {
    /// A fresh id; the same one again when the answer was lost.
    pub lease_id: LeaseId,
    /// How long the lease lasts unless renewed.
    pub lease_ttl_ms: u64,
}

impl LeaseRequest {
    /// Checks what the types do not already hold.
    pub fn validate(&self) -> Result<(), EngineError> {
        check_lease_ttl(self.lease_ttl_ms)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use uuid::Uuid;

    fn request(lease_ttl_ms: u64, lease_ids: Vec<u128>) -> Result<(), String> {
        let request = ClaimRequest {
            kinds: Vec::new(),
            namespaces: Vec::new(),
            from: TakeFrom::default(),
            lane: LaneId::try_new("gpu").expect("valid"),
            worker_id: WorkerId::try_new("render").expect("valid"),
            worker_instance_id: WorkerInstanceId::try_new("render-1").expect("valid"),
            capabilities: CapabilitySet::default(),
            lease_ttl_ms,
            lease_ids: lease_ids
                .into_iter()
                .map(|id| LeaseId::from_uuid(Uuid::from_u128(id)))
                .collect(),
            retry: false,
        };
        request.validate().map_err(|error| error.to_string())
    }

    #[test]
    fn a_claim_wants_one_to_256_different_leases() {
        assert_eq!(request(1, vec![1]), Ok(()));
        assert_eq!(request(86_400_000, (0..256).collect()), Ok(()));
        assert!(request(1, vec![]).is_err());
        assert!(request(1, (0..257).collect()).is_err());
        assert_eq!(request(1, vec![1, 2, 1]), Err("lease_ids must all be different".to_owned()));
    }

    #[test]
    fn a_grant_survives_the_wire_and_knows_what_it_is_good_for() {
        let of = ClaimGrant {
            grant_id: GrantId::from_uuid(Uuid::from_u128(1)),
            execution_id: ExecutionId::from_parts(Partition::flow(3), Uuid::from_u128(9)),
            worker_id: WorkerId::try_new("w").expect("valid"),
            worker_instance_id: WorkerInstanceId::try_new("w-1").expect("valid"),
            expires_at: TimestampMs(77),
        };
        for kind in GrantKind::ALL {
            let grant = NextGrant::new(*kind, of.clone());
            let json = serde_json::to_string(&Grant::from(grant.clone())).expect("text");
            assert!(json.contains(r#""partition_key":"{fp:3}""#), "{json}");
            let back: Grant = serde_json::from_str(&json).expect("a grant");
            assert_eq!(back.into_next(of.worker_id.clone(), of.worker_instance_id.clone()), grant);
        }
    }

    #[test]
    fn a_key_that_is_not_ours_is_refused() {
        for wrong in ["", "claim", "claim.x", "steal.00000000-0000-0000-0000-000000000001"] {
            assert_eq!(wrong.parse::<GrantKey>(), Err(GrantKeyParseError), "{wrong}");
        }
    }

    #[test]
    fn leases_and_grants_have_bounded_times() {
        let wrong = "lease_ttl_ms must be from 1 to 86400000, got";
        assert_eq!(request(0, vec![1]), Err(format!("{wrong} 0")));
        assert_eq!(request(86_400_001, vec![1]), Err(format!("{wrong} 86400001")));
        let lease_id = LeaseId::from_uuid(Uuid::from_u128(1));
        assert!(LeaseRequest { lease_id, lease_ttl_ms: 0 }.validate().is_err());
        assert!(LeaseRequest { lease_id, lease_ttl_ms: 1 }.validate().is_ok());
    }
}
