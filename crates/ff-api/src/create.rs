//! Submitting executions.

use ff_core::contracts::{Created, NewExecution, Tags};
use ff_core::error::EngineError;
use ff_core::policy::ExecutionPolicy;
use ff_core::state::PublicState;
use ff_core::types::{ExecutionId, ExecutionKind, IdempotencyKey, LaneId, Namespace, TimestampMs};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::bytes::{self, Base64};
use crate::object::Object;
use crate::problem::Problem;
use crate::task::{moment_of, split_moment};

/// The lane of an execution that names none.
pub const DEFAULT_LANE: &str = "default";

/// A new execution. Only the kind is required. The input is given in one of three forms; without
/// any it is empty.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct CreateExecution {
    /// The handler that runs it.
    #[cfg_attr(feature = "openapi", schema(value_type = crate::schema::Kind))]
    pub kind: ExecutionKind,
    /// Its id, if the client chooses it: submitting the same id again changes nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<crate::schema::ExecutionId>))]
    pub execution_id: Option<ExecutionId>,
    /// The tenant or environment it belongs to; `default` if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<crate::schema::Namespace>))]
    pub namespace: Option<Namespace>,
    /// The queue it waits in; `default` if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<crate::schema::Lane>))]
    pub lane: Option<LaneId>,
    /// Higher runs first; 0 if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<crate::schema::Priority>))]
    pub priority: Option<u16>,
    /// Who submits it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[cfg_attr(feature = "openapi", schema(max_length = 256))]
    pub creator: String,
    /// Retries, timeouts, routing, keeping.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<crate::schema::ExecutionPolicy>))]
    pub policy: Option<ExecutionPolicy>,
    /// The input as a JSON value: its text without blanks between its parts is the payload.
    #[serde(default, deserialize_with = "bytes::present", skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<crate::schema::AnyJson>))]
    pub payload: Option<Box<RawValue>>,
    /// The input as text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub payload_text: Option<String>,
    /// The input as base64, for bytes of any kind.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<crate::schema::Base64>))]
    pub payload_base64: Option<Base64>,
    /// Not to be claimed before this time, in milliseconds since the Unix epoch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<crate::schema::TimestampMs>))]
    pub delay_until: Option<TimestampMs>,
    /// Not to be claimed for this many milliseconds, by the store's clock.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<crate::schema::DelayMs>))]
    pub delay_ms: Option<u64>,
    /// Expires at this time if it has not ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<crate::schema::TimestampMs>))]
    pub deadline_at: Option<TimestampMs>,
    /// Labels.
    #[serde(default, skip_serializing_if = "Tags::is_empty")]
    #[cfg_attr(feature = "openapi", schema(value_type = crate::schema::Tags))]
    pub tags: Tags,
    /// The same key in the same namespace is the same execution, while it is remembered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<crate::schema::IdempotencyKey>))]
    pub idempotency_key: Option<IdempotencyKey>,
}

impl CreateExecution {
    /// A submission of this kind with no input.
    pub fn new(kind: ExecutionKind) -> Self {
        Self {
            kind,
            execution_id: None,
            namespace: None,
            lane: None,
            priority: None,
            creator: String::new(),
            policy: None,
            payload: None,
            payload_text: None,
            payload_base64: None,
            delay_until: None,
            delay_ms: None,
            deadline_at: None,
            tags: Tags::new(),
            idempotency_key: None,
        }
    }

    /// The domain's request, once the id is known.
    pub fn into_new(self, execution_id: ExecutionId) -> Result<NewExecution, EngineError> {
        let delay_until = moment_of(self.delay_until, self.delay_ms)?;
        let payload = bytes::one_of(
            "payload",
            self.payload_base64,
            self.payload_text,
            self.payload.as_deref(),
        )?;
        Ok(NewExecution {
            execution_id,
            namespace: self.namespace.unwrap_or_default(),
            lane: self.lane.map_or_else(|| LaneId::try_new(DEFAULT_LANE), Ok)?,
            kind: self.kind,
            priority: self.priority.unwrap_or_default(),
            creator: self.creator,
            policy: self.policy.unwrap_or_default(),
            payload: payload.unwrap_or_default(),
            delay_until,
            deadline_at: self.deadline_at,
            tags: self.tags,
            idempotency_key: self.idempotency_key,
        })
    }
}

impl From<NewExecution> for CreateExecution {
    fn from(new: NewExecution) -> Self {
        let (delay_until, delay_ms) = new.delay_until.map_or((None, None), split_moment);
        Self {
            kind: new.kind,
            execution_id: Some(new.execution_id),
            namespace: Some(new.namespace),
            lane: Some(new.lane),
            priority: Some(new.priority),
            creator: new.creator,
            policy: (new.policy != ExecutionPolicy::default()).then_some(new.policy),
            payload: None,
            payload_text: None,
            payload_base64: Some(Base64(new.payload)),
            delay_until,
            delay_ms,
            deadline_at: new.deadline_at,
            tags: new.tags,
            idempotency_key: new.idempotency_key,
        }
    }
}

/// The answer to a submission.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct CreatedExecution {
    /// The execution that now exists, new or not.
    #[cfg_attr(feature = "openapi", schema(value_type = crate::schema::ExecutionId))]
    pub execution_id: ExecutionId,
    /// Where it stands.
    #[cfg_attr(feature = "openapi", schema(value_type = crate::schema::PublicState))]
    pub public_state: PublicState,
    /// True if this submission made it; false if its id or idempotency key was known.
    pub created: bool,
}

impl From<Created> for CreatedExecution {
    fn from(created: Created) -> Self {
        Self {
            execution_id: created.execution_id(),
            public_state: created.public_state(),
            created: created.is_new(),
        }
    }
}

impl From<CreatedExecution> for Created {
    fn from(answer: CreatedExecution) -> Self {
        let CreatedExecution { execution_id, public_state, created } = answer;
        if created {
            Self::Created { execution_id, public_state }
        } else {
            Self::Duplicate { execution_id, public_state }
        }
    }
}

/// The most executions of one bulk request.
pub const BULK_MAX: usize = 1000;

/// Several submissions, each on its own: one refusal does not affect the others.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct BulkCreate {
    /// The submissions, at most 1000.
    #[cfg_attr(
        feature = "openapi",
        schema(value_type = Vec<CreateExecution>, min_items = 1, max_items = 1000)
    )]
    pub executions: Vec<Object<CreateExecution>>,
}

/// The answers to several submissions, in the order of the request.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct BulkCreated {
    /// One for each submission.
    pub results: Vec<BulkItem>,
}

/// What became of one submission: exactly one of the two is there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct BulkItem {
    /// It was accepted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub execution: Option<CreatedExecution>,
    /// It was refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<Problem>,
}

impl From<Result<Created, EngineError>> for BulkItem {
    fn from(answer: Result<Created, EngineError>) -> Self {
        match answer {
            Ok(created) => Self { execution: Some(created.into()), problem: None },
            Err(error) => Self { execution: None, problem: Some(Problem::from(&error)) },
        }
    }
}

impl From<BulkItem> for Result<Created, EngineError> {
    fn from(item: BulkItem) -> Self {
        match (item.execution, item.problem) {
            (Some(created), _) => Ok(created.into()),
            (None, Some(problem)) => Err(problem.into()),
            (None, None) => Err(EngineError::corrupt("bulk answer", "results", "an empty item")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ff_core::partition::Partition;
    use ff_core::types::Moment;

    fn id() -> ExecutionId {
        ExecutionId::from_parts(Partition::flow(3), uuid::Uuid::from_u128(9))
    }

    fn read(json: &str) -> Result<NewExecution, String> {
        let request: Object<CreateExecution> =
            serde_json::from_str(json).map_err(|error| error.to_string())?;
        request.0.into_new(id()).map_err(|error| error.to_string())
    }

    #[test]
    fn only_the_kind_is_required() {
        let new = read(r#"{"kind":"email"}"#).expect("valid");
        assert_eq!((new.lane.as_str(), new.namespace.as_str()), ("default", "default"));
        assert!(new.payload.is_empty());
        assert!(read("{}").expect_err("no kind").contains("missing field `kind`"));
    }

    #[test]
    fn the_payload_is_what_was_written() {
        let payload = |json: &str| read(json).map(|new| new.payload);
        let given = r#"{"kind":"k","payload":{"b": 1.0, "a": [null, 1e400]}}"#;
        assert_eq!(payload(given), Ok(br#"{"b":1.0,"a":[null,1e400]}"#.to_vec()));
        assert_eq!(payload(r#"{"kind":"k","payload":null}"#), Ok(b"null".to_vec()));
        assert_eq!(payload(r#"{"kind":"k","payload_text":"\u00e9"}"#), Ok("é".into()));
        assert_eq!(payload(r#"{"kind":"k","payload_base64":"AP8="}"#), Ok(vec![0, 255]));
        let twice = payload(r#"{"kind":"k","payload_base64":"","payload":1}"#);
        assert!(twice.expect_err("twice").contains("must be given once"));
    }

    #[test]
    fn what_is_unknown_or_breaks_a_rule_is_refused() {
        for (json, says) in [
            (r#"{"kind":"k","prio":1}"#, "unknown field `prio`"),
            (r#"{"kind":"a:b"}"#, "printable ASCII"),
            (r#"{"kind":"k","priority":-1}"#, "expected u16"),
            (r#"{"kind":"k","policy":{"retries":1}}"#, "unknown field `retries`"),
            (r#"["k"]"#, "expected an object"),
        ] {
            let error = read(json).expect_err(json);
            assert!(error.contains(says), "{json}: {error}");
        }
        assert!(serde_json::from_str::<BulkCreate>(r#"{"executions":[["k"]]}"#).is_err());
    }

    #[test]
    fn a_submission_survives_the_wire() {
        let mut new =
            read(r#"{"kind":"k","payload_base64":"AP8=","tags":{"a.b":"c"}}"#).expect("valid");
        new.idempotency_key = IdempotencyKey::try_new("order-1").ok();
        new.policy.retention_ms = Some(5);
        for until in [Moment::At(TimestampMs(9)), Moment::After(5)] {
            new.delay_until = Some(until);
            let wire = CreateExecution::from(new.clone());
            let json = serde_json::to_string(&wire).expect("text");
            assert_eq!(read(&json), Ok(new.clone()));
        }
    }

    #[test]
    fn answers_survive_the_wire() {
        let execution_id = id();
        let public_state = PublicState::Delayed;
        for created in [
            Created::Created { execution_id, public_state },
            Created::Duplicate { execution_id, public_state },
        ] {
            let item = BulkItem::from(Ok(created));
            let json = serde_json::to_string(&item).expect("text");
            let back: BulkItem = serde_json::from_str(&json).expect("an item");
            assert_eq!(Result::<Created, EngineError>::from(back), Ok(created));
        }
    }
}
