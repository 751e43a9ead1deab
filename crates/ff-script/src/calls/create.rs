//! Creating executions.

use std::time::Duration;

use ff_core::contracts::{NewExecution, Tags, Throttle};
use ff_core::error::EngineError;
use ff_core::limits;
use ff_core::policy::ExecutionPolicy;
use ff_core::state::PublicState;
use ff_core::types::{
    ExecutionId, ExecutionKind, IdempotencyKey, LaneId, Moment, Namespace, TimestampMs,
};

use crate::call::{Call as _, functions};
use crate::library::fnv1a;
use crate::value::Value;
use crate::wire::{List, Rest};

functions! {
    /// Creates an execution.
    write ff_create_execution(CreateExecution {
        execution_id: ExecutionId,
        namespace: Namespace,
        lane: LaneId,
        kind: ExecutionKind,
        priority: u16,
        creator: String,
        policy_json: String,
        payload: Vec<u8>,
        delay_until: Option<Moment>,
        deadline_at: Option<TimestampMs>,
        tags_json: String,
        idempotency_key: Option<IdempotencyKey>,
        dedup_ms: Option<u64>,
        content_digest: String,
        sent_ms_ago: Option<u64>,
        correlation_id: String,
        throttle: Option<Throttle>,
    })
    -> CreateExecutionReply {
        "OK" => Created { execution_id: ExecutionId, public_state: PublicState },
        "DUPLICATE" => Duplicate { execution_id: ExecutionId, public_state: PublicState },
        "DEBOUNCED" => Debounced { execution_id: ExecutionId, public_state: PublicState },
    }
    refuses [IdempotencyConflict, InvalidPolicyJson, InvalidCapabilities, InvalidTagKey,
        TooManyNeeds, QuotaPolicyNotFound, LaneFull];

    /// Creates several executions of one partition; each gets an answer of its own. `items` are the
    /// arguments of `ff_create_execution`, `width` of them for one execution after the other.
    write ff_create_executions(CreateExecutions { width: u64, items: Rest<Vec<u8>> })
    -> CreateExecutionsReply { "OK" => Answers { answers: List<Value> } }
    refuses [];
}

impl CreateExecution {
    /// What is no older than the first send of this call was made by it.
    pub(crate) fn sent_before(&mut self, since: Duration) {
        self.sent_ms_ago = Some(ms_ago(since));
    }

    /// Tells whether two submissions under one idempotency key ask for the same work. Delay and
    /// deadline are left out: a client that computes them from its clock still repeats itself.
    fn digest(&self) -> String {
        let mut content = Vec::with_capacity(self.payload.len() + 256);
        let head = [self.lane.as_str(), self.kind.as_str(), &self.policy_json, &self.tags_json];
        for part in head {
            content.extend_from_slice(&(part.len() as u64).to_le_bytes());
            content.extend_from_slice(part.as_bytes());
        }
        content.extend_from_slice(&self.priority.to_le_bytes());
        content.extend_from_slice(&self.payload);
        format!("{:016x}", fnv1a(&content))
    }
}

/// How many arguments one execution has.
const WIDTH: usize = CreateExecution::CONTRACT.args.len();

impl CreateExecutions {
    /// These executions, which must be of one partition.
    pub fn of<'a>(calls: impl IntoIterator<Item = &'a CreateExecution>) -> Self {
        let items = calls
            .into_iter()
            .flat_map(|call| call.encode().iter().map(<[u8]>::to_vec).collect::<Vec<_>>());
        Self { width: WIDTH as u64, items: Rest(items.collect()) }
    }

    /// As above, in the arguments of every execution.
    pub(crate) fn sent_before(&mut self, since: Duration) {
        let ago = ms_ago(since).to_string().into_bytes();
        let place = CreateExecution::CONTRACT.args.iter().position(|name| *name == "sent_ms_ago");
        for item in self.items.0.chunks_mut(WIDTH) {
            if let Some(argument) = place.and_then(|place| item.get_mut(place)) {
                argument.clone_from(&ago);
            }
        }
    }
}

impl TryFrom<NewExecution> for CreateExecution {
    type Error = EngineError;

    fn try_from(new: NewExecution) -> Result<Self, EngineError> {
        let NewExecution { execution_id, payload, delay_until, request } = new;
        let throttle = request.throttle()?;
        let mut call = Self {
            execution_id,
            namespace: request.namespace.unwrap_or_default(),
            lane: request.lane.unwrap_or_default(),
            kind: request.kind,
            priority: request.priority.unwrap_or_default(),
            creator: request.creator,
            correlation_id: request.correlation_id,
            policy_json: policy_json(&request.policy.unwrap_or_default())?,
            payload,
            delay_until,
            deadline_at: request.deadline_at,
            tags_json: tags_json(&request.tags)?,
            idempotency_key: request.idempotency_key,
            dedup_ms: None,
            content_digest: String::new(),
            sent_ms_ago: None,
            throttle,
        };
        if call.idempotency_key.is_some() {
            call.content_digest = call.digest();
        }
        Ok(call)
    }
}

/// A policy as the library reads it; nothing if it asks for nothing.
fn policy_json(policy: &ExecutionPolicy) -> Result<String, EngineError> {
    let json = policy.to_json()?;
    Ok(if json == "{}" { String::new() } else { json })
}

/// Labels as the library reads them; nothing if there are none.
pub(crate) fn tags_json(tags: &Tags) -> Result<String, EngineError> {
    if tags.is_empty() {
        return Ok(String::new());
    }
    serde_json::to_string(tags).map_err(|error| EngineError::invalid("tags", error.to_string()))
}

/// Rounded up, and bounded.
fn ms_ago(since: Duration) -> u64 {
    let ms = u64::try_from(since.as_millis()).unwrap_or(u64::MAX);
    ms.saturating_add(1).min(limits::SENT_MS_AGO_MAX)
}
