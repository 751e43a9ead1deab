//! Grants: an execution is reserved for a worker in one call and claimed in another.

use std::fmt;
use std::str::FromStr;

use ff_core::capability::CapabilitySet;
use ff_core::contracts::{ClaimGrant, NextGrant, ReclaimGrant};
use ff_core::error::EngineError;
use ff_core::operation::{Input, Nothing, Operation};
use ff_core::partition::Partition;
#[cfg(feature = "openapi")]
use ff_core::schema;
use ff_core::types::{
    ExecutionId, ExecutionRef, GrantId, LaneId, LeaseId, TimestampMs, WorkerId, WorkerInstanceId,
};
use serde::{Deserialize, Serialize};

use crate::task::Task;

/// Asks for the next execution of a lane that the worker of the path could take.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ClaimForWorker {
    /// The lane to take from.
    pub lane_id: LaneId,
    /// The process.
    pub worker_instance_id: WorkerInstanceId,
    /// What the worker can do.
    #[serde(default)]
    pub capabilities: CapabilitySet,
    /// How long the reservation lasts.
    #[cfg_attr(feature = "openapi", schema(value_type = schema::GrantTtlMs))]
    pub grant_ttl_ms: u64,
}

impl Operation for ClaimForWorker {
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
    const INPUT: Input = Input::Body;
    const REFUSES: &'static [u16] = &[409];
}

/// Reserves the execution of the path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct GrantExecution {
    /// The kind of worker.
    pub worker_id: WorkerId,
    /// The process.
    pub worker_instance_id: WorkerInstanceId,
    /// What the worker can do.
    #[serde(default)]
    pub capabilities: CapabilitySet,
    /// How long the reservation lasts.
    #[cfg_attr(feature = "openapi", schema(value_type = schema::GrantTtlMs))]
    pub grant_ttl_ms: u64,
    /// True to take over an execution whose worker lost its lease; false for one that waits.
    #[serde(default)]
    pub reclaim: bool,
    /// Chosen by the client, or by the server if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub grant_id: Option<GrantId>,
}

impl Operation for GrantExecution {
    type Target = ExecutionId;
    type Request = Self;
    type Reply = Grant;

    const PATH: &'static str = "/v1/executions/{execution_id}/grant";
    const NAME: &'static str = "grantExecution";
    const GROUP: &'static str = "grants";
    const SUMMARY: &'static str = "Reserves one execution for a worker.";
    const ANSWERS: &'static str = "It is reserved.";
    const INPUT: Input = Input::Body;
    const REFUSES: &'static [u16] = &[404, 409];
}

/// A reservation. Works once, for the worker it was made for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Grant {
    /// The execution reserved.
    pub execution_id: ExecutionId,
    /// The partition it lives on, as in `{fp:7}`.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub partition_key: Partition,
    /// Names the reservation; to be given back unchanged.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub grant_key: GrantKey,
    /// When the reservation ends, in milliseconds since the Unix epoch.
    pub expires_at_ms: TimestampMs,
}

/// What a reservation is good for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GrantKind {
    /// Starts a new attempt.
    Claim,
    /// Goes on with a paused attempt.
    Resume,
    /// Takes over from a lost worker.
    Reclaim,
}

impl GrantKind {
    const ALL: [Self; 3] = [Self::Claim, Self::Resume, Self::Reclaim];

    const fn as_str(self) -> &'static str {
        match self {
            Self::Claim => "claim",
            Self::Resume => "resume",
            Self::Reclaim => "reclaim",
        }
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
        write!(f, "{}.{}", self.kind.as_str(), self.grant_id)
    }
}

/// A text that is not the key of a grant.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a grant key must be given back exactly as it was received")]
pub struct GrantKeyParseError;

impl FromStr for GrantKey {
    type Err = GrantKeyParseError;

    fn from_str(text: &str) -> Result<Self, GrantKeyParseError> {
        let (word, id) = text.split_once('.').ok_or(GrantKeyParseError)?;
        let kind = GrantKind::ALL.into_iter().find(|kind| kind.as_str() == word);
        Ok(Self {
            kind: kind.ok_or(GrantKeyParseError)?,
            grant_id: id.parse().map_err(|_| GrantKeyParseError)?,
        })
    }
}

impl Serialize for GrantKey {
    fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for GrantKey {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = String::deserialize(from)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

impl From<&NextGrant> for Grant {
    fn from(grant: &NextGrant) -> Self {
        match grant {
            NextGrant::Claim(grant) => Self::of_claim(grant, GrantKind::Claim),
            NextGrant::Resume(grant) => Self::of_claim(grant, GrantKind::Resume),
            NextGrant::Reclaim(grant) => Self::from(grant),
        }
    }
}

impl From<&ClaimGrant> for Grant {
    fn from(grant: &ClaimGrant) -> Self {
        Self::of_claim(grant, GrantKind::Claim)
    }
}

impl From<&ReclaimGrant> for Grant {
    fn from(grant: &ReclaimGrant) -> Self {
        Self {
            execution_id: grant.execution_id,
            partition_key: grant.partition(),
            grant_key: GrantKey { kind: GrantKind::Reclaim, grant_id: grant.grant_id },
            expires_at_ms: grant.expires_at,
        }
    }
}

impl Grant {
    fn of_claim(grant: &ClaimGrant, kind: GrantKind) -> Self {
        Self {
            execution_id: grant.execution_id,
            partition_key: grant.partition(),
            grant_key: GrantKey { kind, grant_id: grant.grant_id },
            expires_at_ms: grant.expires_at,
        }
    }

    /// The domain's grant, for the worker that asked for it.
    pub fn into_next(self, worker_id: WorkerId, instance: WorkerInstanceId) -> NextGrant {
        grant_of(self.grant_key, self.execution_id, worker_id, instance, self.expires_at_ms)
    }
}

fn grant_of(
    key: GrantKey,
    execution_id: ExecutionId,
    worker_id: WorkerId,
    worker_instance_id: WorkerInstanceId,
    expires_at: TimestampMs,
) -> NextGrant {
    let grant_id = key.grant_id;
    if key.kind == GrantKind::Reclaim {
        return NextGrant::Reclaim(ReclaimGrant {
            grant_id,
            execution_id,
            worker_id,
            worker_instance_id,
            expires_at,
        });
    }
    let grant = ClaimGrant { grant_id, execution_id, worker_id, worker_instance_id, expires_at };
    if key.kind == GrantKind::Resume { NextGrant::Resume(grant) } else { NextGrant::Claim(grant) }
}

/// Turns a reservation into a task.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ClaimGranted {
    /// The execution reserved.
    pub execution_id: ExecutionRef,
    /// As received with the reservation.
    #[cfg_attr(feature = "openapi", schema(value_type = schema::GrantKey))]
    pub grant_key: GrantKey,
    /// The kind of worker it was made for.
    pub worker_id: WorkerId,
    /// The process it was made for.
    pub worker_instance_id: WorkerInstanceId,
    /// How long the lease lasts without renewal.
    #[cfg_attr(feature = "openapi", schema(value_type = schema::TtlMs))]
    pub lease_ttl_ms: u64,
    /// A fresh id, the same one again when the answer was lost; the server chooses one if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lease_id: Option<LeaseId>,
}

impl Operation for ClaimGranted {
    type Target = Nothing;
    type Request = Self;
    type Reply = Task;

    const PATH: &'static str = "/v1/grants/claim";
    const NAME: &'static str = "claimGranted";
    const SUMMARY: &'static str = "Turns a grant into a task.";
    const ANSWERS: &'static str = "The task.";
    const INPUT: Input = Input::Body;
    const REFUSES: &'static [u16] = &[404, 409];
}

impl ClaimGranted {
    /// The domain's grant of the execution that was named. When it ends is the store's to know.
    pub fn grant(&self, execution_id: ExecutionId) -> NextGrant {
        grant_of(
            self.grant_key,
            execution_id,
            self.worker_id.clone(),
            self.worker_instance_id.clone(),
            TimestampMs::default(),
        )
    }

    /// The request for a grant of this kind.
    pub fn new(grant: &NextGrant, lease_ttl_ms: u64, lease_id: Option<LeaseId>) -> Self {
        let wire = Grant::from(grant);
        let (worker_id, worker_instance_id) = match grant {
            NextGrant::Claim(grant) | NextGrant::Resume(grant) => {
                (&grant.worker_id, &grant.worker_instance_id)
            }
            NextGrant::Reclaim(grant) => (&grant.worker_id, &grant.worker_instance_id),
        };
        Self {
            execution_id: wire.execution_id.into(),
            grant_key: wire.grant_key,
            worker_id: worker_id.clone(),
            worker_instance_id: worker_instance_id.clone(),
            lease_ttl_ms,
            lease_id,
        }
    }
}

/// For clients: a grant that is refused by its key is the caller's mistake.
impl From<GrantKeyParseError> for EngineError {
    fn from(error: GrantKeyParseError) -> Self {
        Self::invalid("grant_key", error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use uuid::Uuid;

    fn claim_grant() -> ClaimGrant {
        ClaimGrant {
            grant_id: GrantId::from_uuid(Uuid::from_u128(1)),
            execution_id: ExecutionId::from_parts(Partition::flow(3), Uuid::from_u128(9)),
            worker_id: WorkerId::try_new("w").expect("valid"),
            worker_instance_id: WorkerInstanceId::try_new("w-1").expect("valid"),
            expires_at: TimestampMs(77),
        }
    }

    #[test]
    fn a_grant_survives_the_wire_and_knows_what_it_is_good_for() {
        let of = claim_grant();
        let reclaim = ReclaimGrant {
            grant_id: of.grant_id,
            execution_id: of.execution_id,
            worker_id: of.worker_id.clone(),
            worker_instance_id: of.worker_instance_id.clone(),
            expires_at: of.expires_at,
        };
        for grant in [
            NextGrant::Claim(of.clone()),
            NextGrant::Resume(of.clone()),
            NextGrant::Reclaim(reclaim),
        ] {
            let json = serde_json::to_string(&Grant::from(&grant)).expect("text");
            assert!(json.contains(r#""partition_key":"{fp:3}""#), "{json}");
            let back: Grant = serde_json::from_str(&json).expect("a grant");
            assert_eq!(back.into_next(of.worker_id.clone(), of.worker_instance_id.clone()), grant);
            let request = ClaimGranted::new(&grant, 1000, None);
            let back = request.grant(of.execution_id);
            assert_eq!(Grant::from(&back).grant_key, Grant::from(&grant).grant_key);
        }
    }

    #[test]
    fn a_key_that_is_not_ours_is_refused() {
        for wrong in ["", "claim", "claim.x", "steal.00000000-0000-0000-0000-000000000001"] {
            assert_eq!(wrong.parse::<GrantKey>(), Err(GrantKeyParseError), "{wrong}");
        }
    }
}
