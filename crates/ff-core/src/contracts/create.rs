//! Submitting an execution.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use uuid::Uuid;

use super::tags::{Tags, check_tags};
use super::throttle::{Debounce, Singleton, Throttle};
use crate::ToSchema;
use crate::argument;
use crate::bytes::{self, Base64};
use crate::error::EngineError;
use crate::limits;
use crate::partition::PartitionConfig;
use crate::policy::ExecutionPolicy;
use crate::state::PublicState;
use crate::types::{
    ExecutionId, ExecutionKind, ExecutionRef, IdempotencyKey, LaneId, Moment, Namespace,
    TimestampMs,
};

/// A submission that was checked and has its id: what a store is given.
#[derive(Clone, Debug)]
pub struct NewExecution {
    /// Its id.
    pub execution_id: ExecutionId,
    /// The input, opaque.
    pub payload: Vec<u8>,
    /// Not to be claimed before this time.
    pub delay_until: Option<Moment>,
    /// Everything else. What became of the fields above is no longer in it.
    pub request: CreateExecution,
}

/// A new execution. Only the kind is required. The input is given in one of three forms; without
/// any it is empty.
#[serde_with_macros::skip_serializing_none]
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CreateExecution {
    /// The handler that runs it.
    pub kind: ExecutionKind,
    /// Its id, if the client chooses it: submitting the same id again changes nothing.
    pub execution_id: Option<ExecutionRef>,
    /// The tenant or environment it belongs to; `default` if absent.
    pub namespace: Option<Namespace>,
    /// The queue it waits in; `default` if absent.
    pub lane: Option<LaneId>,
    /// Higher runs first; 0 if absent.
    #[schema(value_type = Option<crate::schema::Priority>)]
    pub priority: Option<u16>,
    /// Who submits it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schema(max_length = 256)]
    pub creator: String,
    /// The submitter's own name for what it belongs to, such as an order or a trace.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schema(max_length = 256)]
    pub correlation_id: String,
    /// Retries, timeouts, routing, keeping.
    pub policy: Option<ExecutionPolicy>,
    /// The input as a JSON value: its text without blanks between its parts is the payload.
    #[serde(default, deserialize_with = "bytes::present", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<crate::schema::AnyJson>)]
    pub payload: Option<Box<RawValue>>,
    /// The input as text.
    pub payload_text: Option<String>,
    /// The input as base64, for bytes of any kind.
    #[schema(value_type = Option<crate::schema::Base64>)]
    pub payload_base64: Option<Base64>,
    /// Not to be claimed before this time, in milliseconds since the Unix epoch.
    #[schema(value_type = Option<crate::schema::Moment>)]
    pub delay_until: Option<TimestampMs>,
    /// Not to be claimed for this many milliseconds, by the store's clock.
    #[schema(value_type = Option<crate::schema::DelayMs>)]
    pub delay_ms: Option<u64>,
    /// Expires at this time if it has not ended.
    #[schema(value_type = Option<crate::schema::Moment>)]
    pub deadline_at: Option<TimestampMs>,
    /// Labels.
    #[serde(default, skip_serializing_if = "Tags::is_empty")]
    #[schema(value_type = crate::schema::Tags)]
    pub tags: Tags,
    /// The same key in the same namespace is the same execution, while it is remembered.
    pub idempotency_key: Option<IdempotencyKey>,
    /// Waits for a pause in the submissions under a key; each replaces the payload.
    pub debounce: Option<Debounce>,
    /// One at a time of its namespace, kind and key.
    pub singleton: Option<Singleton>,
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
            debounce: None,
            singleton: None,
        }
    }

    /// The same under this id.
    #[must_use]
    pub fn with_id(self, execution_id: impl Into<ExecutionRef>) -> Self {
        Self { execution_id: Some(execution_id.into()), ..self }
    }

    /// The same with this input.
    #[must_use]
    pub fn with_payload(self, payload: impl Into<Vec<u8>>) -> Self {
        let payload_base64 = Some(Base64(payload.into()));
        Self { payload: None, payload_text: None, payload_base64, ..self }
    }

    /// Checks the submission and gives it its id: its own, or one made of this fresh UUID. A key
    /// decides the partition, so that every submission under it meets the first.
    pub fn place(
        mut self,
        fresh: Uuid,
        config: &PartitionConfig,
    ) -> Result<NewExecution, EngineError> {
        let own = self.execution_id.take().map(|own| own.resolve(config)).transpose()?;
        let Some((made, whose)) = self.keyed(fresh, config)? else {
            return self.under(own.unwrap_or_else(|| ExecutionId::solo(fresh, config)), config);
        };
        let partition = made.partition();
        if own.is_some_and(|own| own.partition() != partition) {
            let rule = format!("must be on {partition}, the partition of its {whose} key");
            return Err(EngineError::invalid("execution_id", rule));
        }
        self.under(own.unwrap_or(made), config)
    }

    /// True if neither an id nor a key of its own says where it lies.
    pub const fn lies_anywhere(&self) -> bool {
        self.execution_id.is_none()
            && self.idempotency_key.is_none()
            && self.debounce.is_none()
            && self.singleton.is_none()
    }

    /// The id that its key makes, and whose key that is.
    fn keyed(
        &self,
        fresh: Uuid,
        config: &PartitionConfig,
    ) -> Result<Option<(ExecutionId, &'static str)>, EngineError> {
        let namespace = self.namespace.clone().unwrap_or_default();
        Ok(match (self.throttle()?, &self.idempotency_key) {
            (Some(throttle), None) => {
                let (key, whose) = throttle.key();
                let kind = &self.kind;
                let made = ExecutionId::for_throttle_key(&namespace, kind, key, fresh, config);
                Some((made, whose))
            }
            (None, Some(key)) => {
                let made = ExecutionId::for_idempotency_key(&namespace, key, fresh, config);
                Some((made, "idempotency"))
            }
            _ => None,
        })
    }

    /// How it is throttled, if it is. Each key decides the partition, so that there is one.
    pub fn throttle(&self) -> Result<Option<Throttle>, EngineError> {
        let given = [
            ("debounce", self.debounce.is_some()),
            ("singleton", self.singleton.is_some()),
            ("idempotency_key", self.idempotency_key.is_some()),
        ];
        let mut given = given.into_iter().filter(|(_, is_given)| *is_given);
        if let (Some((one, _)), Some((other, _))) = (given.next(), given.next()) {
            let rule = format!("must not be given together with {other}");
            return Err(EngineError::invalid(one, rule));
        }
        Ok(match (&self.debounce, &self.singleton) {
            (Some(debounce), _) => Some(Throttle::Debounce(debounce.clone())),
            (None, Some(singleton)) => Some(Throttle::Singleton(singleton.clone())),
            (None, None) => None,
        })
    }

    pub(super) fn under(
        mut self,
        execution_id: ExecutionId,
        config: &PartitionConfig,
    ) -> Result<NewExecution, EngineError> {
        execution_id.check(config)?;
        self.validate()?;
        let delay_until = Moment::of_fields(self.delay_until.take(), self.delay_ms.take())?;
        let (base64, text) = (self.payload_base64.take(), self.payload_text.take());
        let payload = bytes::one_of("payload", base64, text, self.payload.take().as_deref())?;
        let payload = payload.unwrap_or_default();
        argument::check_payload(payload.len(), limits::PAYLOAD_BYTES_MAX)?;
        self.execution_id = None;
        Ok(NewExecution { execution_id, payload, delay_until, request: self })
    }

    /// Checks what the types do not already hold, but for the input and the delay.
    fn validate(&self) -> Result<(), EngineError> {
        self.policy.as_ref().map_or(Ok(()), ExecutionPolicy::validate)?;
        self.debounce.as_ref().map_or(Ok(()), Debounce::validate)?;
        if self.debounce.is_some() && (self.delay_until.is_some() || self.delay_ms.is_some()) {
            let rule = "must not be given together with a delay: it is one";
            return Err(EngineError::invalid("debounce", rule));
        }
        let priority = self.priority.unwrap_or_default();
        argument::check_range("priority", priority.into(), 0..=limits::PRIORITY_MAX)?;
        argument::check_bytes("creator", self.creator.len(), limits::CREATOR_BYTES_MAX)?;
        let correlated = self.correlation_id.len();
        argument::check_bytes("correlation_id", correlated, limits::CORRELATION_ID_BYTES_MAX)?;
        self.deadline_at.map_or(Ok(()), |time| Moment::At(time).check("deadline_at"))?;
        check_tags(&self.tags)
    }
}

impl From<NewExecution> for CreateExecution {
    fn from(new: NewExecution) -> Self {
        let (delay_until, delay_ms) = new.delay_until.map_or((None, None), Moment::into_fields);
        let request = new.request.with_id(new.execution_id).with_payload(new.payload);
        Self { delay_until, delay_ms, ..request }
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
    /// The id or the key was known. Nothing changed, but for the payload and the time of what is
    /// debounced.
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

    /// The answer to a submission whose id, if one is named here, was made for it and for nothing
    /// else: whoever finds it there has sent it before and lost the answer.
    pub fn under_fresh_id(self, fresh: Option<ExecutionId>) -> Self {
        match self {
            Self::Duplicate { execution_id, public_state } if Some(execution_id) == fresh => {
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
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CreatedExecution {
    /// The execution that now exists, new or not.
    pub execution_id: ExecutionId,
    /// Where it stands.
    pub public_state: PublicState,
    /// True if this submission made it; false if its id or its key was known.
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

    fn submission() -> CreateExecution {
        let kind = ExecutionKind::try_new("email").expect("valid");
        CreateExecution {
            priority: Some(9000),
            deadline_at: Some(TimestampMs(1)),
            ..CreateExecution::new(kind).with_id(id()).with_payload(vec![0; 4_194_304])
        }
    }

    fn place(submission: CreateExecution) -> Result<NewExecution, String> {
        let placed = submission.place(Uuid::from_u128(7), &PartitionConfig::default());
        placed.map_err(|error| error.to_string())
    }

    fn refused(change: impl FnOnce(&mut CreateExecution)) -> String {
        let mut submission = submission();
        change(&mut submission);
        place(submission).expect_err("must be refused")
    }

    #[test]
    fn an_ordinary_submission_passes() {
        assert_eq!(place(submission()).map(|new| new.execution_id), Ok(id()));
    }

    #[test]
    fn what_is_found_under_a_fresh_id_is_new_and_what_is_found_elsewhere_is_not() {
        let id =
            |number| ExecutionId::from_parts(Partition::flow(1), uuid::Uuid::from_u128(number));
        let public_state = PublicState::Active;
        let found = Created::Duplicate { execution_id: id(1), public_state };
        assert!(found.under_fresh_id(Some(id(1))).is_new());
        assert_eq!(found.under_fresh_id(Some(id(2))), found);
        assert_eq!(found.under_fresh_id(None), found);
    }

    #[test]
    fn each_broken_rule_is_named() {
        assert!(
            refused(|new| new.priority = Some(9001)).starts_with("priority must be from 0 to 9000")
        );
        assert!(refused(|new| new.creator = "x".repeat(257)).starts_with("creator must be"));
        let large = || Some(Base64(vec![0; 8_388_609]));
        let details = "bytes: 8388609, bytes allowed: 8388608";
        assert!(refused(|new| new.payload_base64 = large()).contains(details));
        assert!(refused(|new| new.delay_until = Some(TimestampMs(0))).starts_with("delay_until"));
        assert!(
            refused(|new| new.deadline_at = Some(TimestampMs(limits::TIMESTAMP_MS_MAX + 1)))
                .starts_with("deadline_at")
        );
        let policy = ExecutionPolicy { ageing_ms: Some(u64::MAX), ..ExecutionPolicy::default() };
        assert!(refused(|new| new.policy = Some(policy)).contains("ageing_ms"));
        let elsewhere = ExecutionId::from_parts(Partition::flow(256), Uuid::from_u128(1));
        assert!(refused(|new| new.execution_id = Some(elsewhere.into())).contains("256"));
    }

    fn id() -> ExecutionId {
        ExecutionId::from_parts(Partition::flow(3), uuid::Uuid::from_u128(9))
    }

    fn read(json: &str) -> Result<NewExecution, String> {
        let request: Object<CreateExecution> =
            serde_json::from_str(json).map_err(|error| error.to_string())?;
        request.0.under(id(), &PartitionConfig::default()).map_err(|error| error.to_string())
    }

    fn placed(key: Option<&str>, own: Option<ExecutionRef>) -> Result<ExecutionId, String> {
        let request = CreateExecution {
            execution_id: own,
            idempotency_key: key.and_then(|key| IdempotencyKey::try_new(key).ok()),
            ..CreateExecution::new(ExecutionKind::try_new("k").expect("valid"))
        };
        place(request).map(|new| new.execution_id)
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
        assert_eq!((new.request.lane, new.request.namespace), (None, None));
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
        let parts = r#""kind":"k","tags":{"a.b":"c"},"policy":{"retention_ms":5}"#;
        let keyed = r#""idempotency_key":"order-1","payload_base64":"AP8=""#;
        for until in [r#""delay_until":9"#, r#""delay_ms":5"#] {
            let new = read(&format!("{{{parts},{keyed},{until}}}")).expect("valid");
            let json = serde_json::to_string(&CreateExecution::from(new.clone()));
            let json = json.expect("text");
            let again = read(&json).expect("read back");
            assert_eq!(format!("{again:?}"), format!("{new:?}"));
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
