//! Submitting an execution.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use uuid::Uuid;

use super::tags::{Tags, check_tags};
use crate::argument;
use crate::bytes::{self, Base64};
use crate::error::{Code, EngineError};
use crate::limits;
use crate::partition::PartitionConfig;
use crate::policy::ExecutionPolicy;
use crate::state::PublicState;
use crate::types::{
    ExecutionId, ExecutionKind, ExecutionRef, IdempotencyKey, LaneId, Moment, Namespace,
    TimestampMs,
};

/// Everything about an execution that its submitter decides.
#[derive(Clone, Debug, PartialEq)]
pub struct NewExecution {
    /// Its id, chosen by the submitter: submitting the same id again changes nothing.
    pub execution_id: ExecutionId,
    /// The tenant or environment it belongs to.
    pub namespace: Namespace,
    /// The queue it waits in.
    pub lane: LaneId,
    /// The handler that runs it.
    pub kind: ExecutionKind,
    /// 0 to 9000; higher runs first.
    pub priority: u16,
    /// Who submitted it; may be empty.
    pub creator: String,
    /// The submitter's own name for what it belongs to; may be empty.
    pub correlation_id: String,
    /// Retries, timeouts, routing, keeping.
    pub policy: ExecutionPolicy,
    /// The input, opaque.
    pub payload: Vec<u8>,
    /// Not to be claimed before this time.
    pub delay_until: Option<Moment>,
    /// Expires at this time if it has not ended. The policy may set one too; the earlier counts.
    pub deadline_at: Option<TimestampMs>,
    /// Labels.
    pub tags: Tags,
    /// The same key in the same namespace is the same execution, while it is remembered. For this
    /// to hold everywhere, the id is made by [`ExecutionId::for_idempotency_key`].
    pub idempotency_key: Option<IdempotencyKey>,
}

impl NewExecution {
    /// An execution of a kind, with defaults for everything else.
    pub fn new(execution_id: ExecutionId, kind: ExecutionKind) -> Self {
        Self {
            execution_id,
            namespace: Namespace::default(),
            lane: LaneId::default(),
            kind,
            priority: 0,
            creator: String::new(),
            correlation_id: String::new(),
            policy: ExecutionPolicy::default(),
            payload: Vec::new(),
            delay_until: None,
            deadline_at: None,
            tags: Tags::new(),
            idempotency_key: None,
        }
    }

    /// Checks what the types do not already hold, so that nothing wrong is sent to the store.
    pub fn validate(&self, config: &PartitionConfig) -> Result<(), EngineError> {
        self.execution_id.check(config)?;
        self.policy.validate()?;
        argument::check_range("priority", self.priority.into(), 0..=limits::PRIORITY_MAX)?;
        argument::check_bytes("creator", self.creator.len(), limits::CREATOR_BYTES_MAX)?;
        let correlated = self.correlation_id.len();
        argument::check_bytes("correlation_id", correlated, limits::CORRELATION_ID_BYTES_MAX)?;
        check_payload(self.payload.len())?;
        self.delay_until.map_or(Ok(()), |until| until.check("delay_until"))?;
        self.deadline_at.map_or(Ok(()), |time| Moment::At(time).check("deadline_at"))?;
        check_tags(&self.tags)
    }
}

fn check_payload(len: usize) -> Result<(), EngineError> {
    if len as u64 <= limits::PAYLOAD_BYTES_MAX {
        return Ok(());
    }
    let details = vec![len.to_string(), limits::PAYLOAD_BYTES_MAX.to_string()];
    Err(EngineError::Refused { code: Code::PayloadTooLarge, details })
}

/// A new execution. Only the kind is required. The input is given in one of three forms; without
/// any it is empty.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct CreateExecution {
    /// The handler that runs it.
    pub kind: ExecutionKind,
    /// Its id, if the client chooses it: submitting the same id again changes nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub execution_id: Option<ExecutionRef>,
    /// The tenant or environment it belongs to; `default` if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<Namespace>,
    /// The queue it waits in; `default` if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lane: Option<LaneId>,
    /// Higher runs first; 0 if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(value_type = Option<crate::schema::Priority>))]
    pub priority: Option<u16>,
    /// Who submits it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[cfg_attr(feature = "schema", schema(max_length = 256))]
    pub creator: String,
    /// The submitter's own name for what it belongs to, such as an order or a trace.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[cfg_attr(feature = "schema", schema(max_length = 256))]
    pub correlation_id: String,
    /// Retries, timeouts, routing, keeping.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub policy: Option<ExecutionPolicy>,
    /// The input as a JSON value: its text without blanks between its parts is the payload.
    #[serde(default, deserialize_with = "bytes::present", skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(value_type = Option<crate::schema::AnyJson>))]
    pub payload: Option<Box<RawValue>>,
    /// The input as text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub payload_text: Option<String>,
    /// The input as base64, for bytes of any kind.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(value_type = Option<crate::schema::Base64>))]
    pub payload_base64: Option<Base64>,
    /// Not to be claimed before this time, in milliseconds since the Unix epoch.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(value_type = Option<crate::schema::Moment>))]
    pub delay_until: Option<TimestampMs>,
    /// Not to be claimed for this many milliseconds, by the store's clock.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(value_type = Option<crate::schema::DelayMs>))]
    pub delay_ms: Option<u64>,
    /// Expires at this time if it has not ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(value_type = Option<crate::schema::Moment>))]
    pub deadline_at: Option<TimestampMs>,
    /// Labels.
    #[serde(default, skip_serializing_if = "Tags::is_empty")]
    #[cfg_attr(feature = "schema", schema(value_type = crate::schema::Tags))]
    pub tags: Tags,
    /// The same key in the same namespace is the same execution, while it is remembered.
    #[serde(skip_serializing_if = "Option::is_none")]
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
            correlation_id: String::new(),
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

    /// The submission with its id: its own, or one made of this fresh UUID. An idempotency key
    /// decides the partition, so that every repetition meets the first submission.
    pub fn place(
        mut self,
        fresh: Uuid,
        config: &PartitionConfig,
    ) -> Result<NewExecution, EngineError> {
        let own = self.execution_id.take().map(|own| own.resolve(config)).transpose()?;
        let Some(key) = &self.idempotency_key else {
            return self.under(own.unwrap_or_else(|| ExecutionId::solo(fresh, config)));
        };
        let namespace = self.namespace.clone().unwrap_or_default();
        let made = ExecutionId::for_idempotency_key(&namespace, key, fresh, config);
        let partition = made.partition();
        if own.is_some_and(|own| own.partition() != partition) {
            let rule = format!("must be on {partition}, the partition of its idempotency key");
            return Err(EngineError::invalid("execution_id", rule));
        }
        self.under(own.unwrap_or(made))
    }

    pub(super) fn under(self, execution_id: ExecutionId) -> Result<NewExecution, EngineError> {
        let delay_until = Moment::of_fields(self.delay_until, self.delay_ms)?;
        let payload = bytes::one_of(
            "payload",
            self.payload_base64,
            self.payload_text,
            self.payload.as_deref(),
        )?;
        Ok(NewExecution {
            execution_id,
            namespace: self.namespace.unwrap_or_default(),
            lane: self.lane.unwrap_or_default(),
            kind: self.kind,
            priority: self.priority.unwrap_or_default(),
            creator: self.creator,
            correlation_id: self.correlation_id,
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
        let (delay_until, delay_ms) = new.delay_until.map_or((None, None), Moment::into_fields);
        Self {
            kind: new.kind,
            execution_id: Some(new.execution_id.into()),
            namespace: Some(new.namespace),
            lane: Some(new.lane),
            priority: Some(new.priority),
            creator: new.creator,
            correlation_id: new.correlation_id,
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
#[serde(from = "CreatedExecution", into = "CreatedExecution")]
pub enum Created {
    /// The execution is new.
    Created {
        /// Its id.
        execution_id: ExecutionId,
        /// Waiting or delayed.
        public_state: PublicState,
    },
    /// The id or the idempotency key was known; nothing changed.
    Duplicate {
        /// The execution that was there first.
        execution_id: ExecutionId,
        /// Where it stands.
        public_state: PublicState,
    },
}

impl Created {
    /// The execution that now exists, new or not.
    pub const fn execution_id(&self) -> ExecutionId {
        match self {
            Self::Created { execution_id, .. } | Self::Duplicate { execution_id, .. } => {
                *execution_id
            }
        }
    }

    /// Where it stands.
    pub const fn public_state(&self) -> PublicState {
        match self {
            Self::Created { public_state, .. } | Self::Duplicate { public_state, .. } => {
                *public_state
            }
        }
    }

    /// The answer to a submission under an id that was made for it and for nothing else: whoever
    /// finds it there has sent it before and lost the answer.
    pub fn under_fresh_id(self, fresh: ExecutionId) -> Self {
        match self {
            Self::Duplicate { execution_id, public_state } if execution_id == fresh => {
                Self::Created { execution_id, public_state }
            }
            other => other,
        }
    }

    /// True if this submission made it.
    pub const fn is_new(&self) -> bool {
        matches!(self, Self::Created { .. })
    }
}

/// The answer to a submission.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct CreatedExecution {
    /// The execution that now exists, new or not.
    pub execution_id: ExecutionId,
    /// Where it stands.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::object::Object;
    use crate::partition::Partition;

    fn new_execution() -> NewExecution {
        let id = ExecutionId::from_parts(Partition::flow(1), uuid::Uuid::from_u128(1));
        NewExecution {
            priority: 9000,
            payload: vec![0; 4_194_304],
            deadline_at: Some(TimestampMs(1)),
            ..NewExecution::new(id, ExecutionKind::try_new("email").expect("valid"))
        }
    }

    fn refused(change: impl FnOnce(&mut NewExecution)) -> String {
        let mut execution = new_execution();
        change(&mut execution);
        let error = execution.validate(&PartitionConfig::default()).expect_err("must be refused");
        error.to_string()
    }

    #[test]
    fn an_ordinary_submission_passes() {
        assert_eq!(new_execution().validate(&PartitionConfig::default()), Ok(()));
    }

    #[test]
    fn what_is_found_under_a_fresh_id_is_new_and_what_is_found_elsewhere_is_not() {
        let id =
            |number| ExecutionId::from_parts(Partition::flow(1), uuid::Uuid::from_u128(number));
        let public_state = PublicState::Active;
        let found = Created::Duplicate { execution_id: id(1), public_state };
        assert!(found.under_fresh_id(id(1)).is_new());
        assert_eq!(found.under_fresh_id(id(2)), found);
    }

    #[test]
    fn each_broken_rule_is_named() {
        assert!(refused(|new| new.priority = 9001).starts_with("priority must be from 0 to 9000"));
        assert!(refused(|new| new.creator = "x".repeat(257)).starts_with("creator must be"));
        assert!(refused(|new| new.payload = vec![0; 8_388_609]).contains("[8388609, 8388608]"));
        assert!(
            refused(|new| new.delay_until = Some(TimestampMs(0).into())).starts_with("delay_until")
        );
        assert!(
            refused(|new| new.deadline_at = Some(TimestampMs(limits::TIMESTAMP_MS_MAX + 1)))
                .starts_with("deadline_at")
        );
        assert!(refused(|new| new.policy.ageing_ms = Some(u64::MAX)).contains("ageing_ms"));
        let elsewhere = ExecutionId::from_parts(Partition::flow(256), uuid::Uuid::from_u128(1));
        assert!(refused(|new| new.execution_id = elsewhere).contains("partition 256"));
    }

    fn id() -> ExecutionId {
        ExecutionId::from_parts(Partition::flow(3), uuid::Uuid::from_u128(9))
    }

    fn read(json: &str) -> Result<NewExecution, String> {
        let request: Object<CreateExecution> =
            serde_json::from_str(json).map_err(|error| error.to_string())?;
        request.0.under(id()).map_err(|error| error.to_string())
    }

    fn placed(key: Option<&str>, own: Option<ExecutionRef>) -> Result<ExecutionId, String> {
        let request = CreateExecution {
            execution_id: own,
            idempotency_key: key.and_then(|key| IdempotencyKey::try_new(key).ok()),
            ..CreateExecution::new(ExecutionKind::try_new("k").expect("valid"))
        };
        let placed = request.place(Uuid::from_u128(7), &PartitionConfig::default());
        placed.map(|new| new.execution_id).map_err(|error| error.to_string())
    }

    #[test]
    fn an_id_of_ones_own_is_taken_as_it_is_whole_or_bare() {
        assert_eq!(placed(None, Some(id().into())), Ok(id()));
        let bare = Uuid::from_u128(9);
        let solo = ExecutionId::solo(bare, &PartitionConfig::default());
        assert_eq!(placed(None, Some(bare.into())), Ok(solo));
    }

    #[test]
    fn a_key_decides_the_partition_of_ids_that_are_made_and_of_those_that_are_brought() {
        let made = placed(Some("order-1"), None).expect("made");
        assert_eq!(placed(Some("order-1"), Some(made.uuid().into())), Ok(made));
        // Its UUID hashes to another partition, and is kept nevertheless.
        let brought = ExecutionId::from_parts(made.partition(), Uuid::from_u128(9));
        assert_eq!(placed(Some("order-1"), Some(brought.into())), Ok(brought));
        let elsewhere = placed(Some("order-1"), Some(brought.uuid().into()));
        let rule = format!("execution_id must be on {}", made.partition());
        assert!(elsewhere.expect_err("elsewhere").starts_with(&rule));
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
        let (execution_id, public_state) = (id(), PublicState::Delayed);
        for created in [
            Created::Created { execution_id, public_state },
            Created::Duplicate { execution_id, public_state },
        ] {
            let json = serde_json::to_string(&created).expect("text");
            assert_eq!(serde_json::from_str::<Created>(&json).expect("read back"), created);
        }
    }
}
