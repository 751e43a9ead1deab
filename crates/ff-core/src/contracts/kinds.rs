//! The defaults of kinds and of the deployment: what a submission's policy leaves unsaid is taken
//! from its kind, then from the deployment, then from [`crate::limits`], field by field.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::secrets::PartitionFailure;
use crate::ToSchema;
use crate::argument::check_range;
use crate::engine_backend::Answer;
use crate::error::EngineError;
use crate::limits;
use crate::operation::{Method, Nothing, Operation};
use crate::policy::ExecutionPolicy;
use crate::types::{ExecutionKind, TimestampMs, WorkerInstanceId};

/// Keeps the defaults of kinds and of the deployment.
pub trait Kinds: Send + Sync {
    /// A worker tells the defaults of the kinds that it serves. What is equal to what is known
    /// writes nothing; of workers that differ the one that started last wins; what an operator has
    /// pinned stays. Repeating it is harmless.
    fn register_kinds(&self, request: RegisterKinds) -> Answer<'_, KindsRegistered>;

    /// All kinds that have defaults, and those of the deployment. A read.
    fn list_kinds(&self) -> Answer<'_, KindList>;

    /// The defaults of one kind; none were told if they are empty. A read.
    fn describe_kind(&self, kind: ExecutionKind) -> Answer<'_, KindRecord>;

    /// An operator sets the defaults of a kind, or pins or frees them.
    fn set_kind(&self, kind: ExecutionKind, request: SetKind) -> Answer<'_, KindChanged>;

    /// An operator sets the defaults of all kinds.
    fn set_defaults(&self, request: SetDefaults) -> Answer<'_, KindChanged>;
}

/// A worker tells the defaults of the kinds that it serves.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RegisterKinds {
    /// The process.
    pub worker_instance_id: WorkerInstanceId,
    /// How long ago the process started.
    #[serde(default)]
    #[schema(maximum = 253_402_300_799_999u64)]
    pub started_ms_ago: u64,
    /// The defaults, by kind. An empty policy says that there are none.
    #[schema(value_type = BTreeMap<String, ExecutionPolicy>)]
    pub kinds: BTreeMap<ExecutionKind, ExecutionPolicy>,
}

impl RegisterKinds {
    /// Checks the ranges.
    pub fn validate(&self) -> Result<(), EngineError> {
        check_range("started_ms_ago", self.started_ms_ago, 0..=limits::TIMESTAMP_MS_MAX)?;
        check_range("number of kinds", self.kinds.len() as u64, 0..=limits::KINDS_MAX)
    }
}

impl Operation for RegisterKinds {
    type Target = Nothing;
    type Request = Self;
    type Reply = KindsRegistered;

    const PATH: &'static str = "/v1/kinds";
    const NAME: &'static str = "registerKinds";
    const SUMMARY: &'static str = "A worker tells the defaults of the kinds that it serves.";
    const ANSWERS: &'static str = "What became of each.";
    const ABOUT: &'static str = "What is equal to what is known writes nothing; of workers that \
        differ the one that started last wins; what an operator has pinned stays.";
    const BODY_BYTES_MAX: usize = 1024 * 1024;
}

/// The answer to a worker's defaults.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct KindsRegistered {
    /// What became of each.
    #[schema(value_type = BTreeMap<String, KindOutcome>)]
    pub kinds: BTreeMap<ExecutionKind, KindOutcome>,
    /// The partitions that do not know of it yet; servers bring them up to date by themselves.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failed: Vec<PartitionFailure>,
}

/// What became of the defaults that a worker told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum KindOutcome {
    /// They hold from now on.
    Registered,
    /// They held before.
    Equal,
    /// Others hold, of a worker that started later.
    Newer,
    /// Others hold, which an operator has pinned.
    Pinned,
}

/// Sets the defaults of a kind, or pins or frees them.
#[serde_with_macros::skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SetKind {
    /// The defaults; as they are if absent. An empty policy says that there are none.
    pub policy: Option<ExecutionPolicy>,
    /// Pinned defaults stay whatever workers tell. If absent: pinned if a policy is given,
    /// otherwise as it is.
    pub pinned: Option<bool>,
}

impl Operation for SetKind {
    type Target = ExecutionKind;
    type Request = Self;
    type Reply = KindChanged;

    const METHOD: Method = Method::Put;
    const PATH: &'static str = "/v1/kinds/{kind}";
    const NAME: &'static str = "setKind";
    const SUMMARY: &'static str = "Sets the defaults of a kind, or pins or frees them.";
    const ANSWERS: &'static str = "The defaults, and where they are not known yet.";
    const ABOUT: &'static str = "Repeating it is safe, and carries on where a partition could not \
        be reached. An empty policy that is not pinned is forgotten.";
}

/// Sets the defaults of all kinds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SetDefaults {
    /// The defaults. An empty policy says that there are none.
    pub policy: ExecutionPolicy,
}

impl Operation for SetDefaults {
    type Target = Nothing;
    type Request = Self;
    type Reply = KindChanged;

    const METHOD: Method = Method::Put;
    const PATH: &'static str = "/v1/defaults";
    const NAME: &'static str = "setDefaults";
    const GROUP: &'static str = "kinds";
    const SUMMARY: &'static str = "Sets the policy that holds where neither the submission nor \
        its kind says anything.";
    const ANSWERS: &'static str = "The defaults, and where they are not known yet.";
}

/// Reads the defaults of a kind.
#[derive(Clone, Copy, Debug)]
pub struct DescribeKind;

impl Operation for DescribeKind {
    type Target = ExecutionKind;
    type Request = Nothing;
    type Reply = KindRecord;

    const METHOD: Method = Method::Get;
    const PATH: &'static str = "/v1/kinds/{kind}";
    const NAME: &'static str = "getKind";
    const SUMMARY: &'static str = "The defaults of a kind.";
    const ANSWERS: &'static str = "The defaults; of a kind without any, an empty policy.";
    const REFUSES: &'static [u16] = &[];
}

/// Lists the kinds that have defaults.
#[derive(Clone, Copy, Debug)]
pub struct ListKinds;

impl Operation for ListKinds {
    type Target = Nothing;
    type Request = Nothing;
    type Reply = KindList;

    const METHOD: Method = Method::Get;
    const PATH: &'static str = "/v1/kinds";
    const NAME: &'static str = "listKinds";
    const SUMMARY: &'static str = "The kinds that have defaults, and the deployment's defaults.";
    const ANSWERS: &'static str = "All of them, in the order of names.";
}

/// The kinds that have defaults.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct KindList {
    /// In the order of names.
    pub kinds: Vec<KindRecord>,
    /// What holds for all kinds where they say nothing themselves.
    pub defaults: ExecutionPolicy,
}

/// The defaults of a kind.
#[serde_with_macros::skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct KindRecord {
    /// The kind; none for what holds for all kinds.
    pub kind: Option<ExecutionKind>,
    /// The defaults.
    pub policy: ExecutionPolicy,
    /// True if they stay whatever workers tell.
    pub pinned: bool,
    /// The worker process that told them; none if an operator did.
    pub told_by: Option<WorkerInstanceId>,
    /// When that process started.
    pub started_at: Option<TimestampMs>,
}

/// The answer to a change of defaults.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct KindChanged {
    /// What holds from now on.
    #[serde(flatten)]
    pub record: KindRecord,
    /// The partitions that do not know of it yet; servers bring them up to date by themselves.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failed: Vec<PartitionFailure>,
}

/// How the defaults of a kind are stored, as one JSON text.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
pub struct StoredKind {
    /// The defaults.
    #[serde(default)]
    pub policy: ExecutionPolicy,
    /// True if they stay whatever workers tell.
    #[serde(default)]
    pub pinned: bool,
    /// The worker process that told them.
    pub told_by: Option<WorkerInstanceId>,
    /// When that process started.
    pub started_at: Option<TimestampMs>,
}

impl StoredKind {
    /// As it is told.
    pub fn record(self, kind: Option<ExecutionKind>) -> KindRecord {
        let Self { policy, pinned, told_by, started_at } = self;
        KindRecord { kind, policy, pinned, told_by, started_at }
    }
}
