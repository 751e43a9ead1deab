//! Signals, and what people and programs outside do about waiting executions.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::approvals::ApprovalList;
use super::executions::ExecutionState;
use super::secrets::{RotateWaitpointSecretRequest, RotateWaitpointSecretResponse};
use super::waits::{ListSuspended, ListSuspendedPage};
use crate::ToSchema;
use crate::argument::{check_bytes, check_range};
use crate::bytes::{self, Base64, json_text};
use crate::engine_backend::Answer;
use crate::error::EngineError;
use crate::limits;
use crate::literal::literals;
use crate::operation::{Input, Method, Nothing, Operation};
use crate::types::{
    ExecutionId, RequestId, SignalId, SuspensionId, TimestampMs, WaitpointId, WaitpointToken,
};
use crate::value::Value;

/// Signals executions, resumes them, and tells what waits.
pub trait Signals: Send + Sync {
    /// Gives a signal to a waitpoint, whether its execution is suspended already or not yet. A
    /// repetition with the same signal id or idempotency key is recognised.
    fn deliver_signal(
        &self,
        execution_id: ExecutionId,
        request: DeliverSignal,
    ) -> Answer<'_, SignalOutcome>;

    /// Ends the wait of a suspended execution without looking at its condition. A repetition with
    /// the same request id is recognised.
    fn resume_execution(
        &self,
        execution_id: ExecutionId,
        request: ResumeExecution,
    ) -> Answer<'_, ExecutionState>;

    /// The open waitpoints of an execution, each with a token. A read, and one that gives
    /// credentials away.
    fn pending_waitpoints(&self, execution_id: ExecutionId) -> Answer<'_, OpenWaitpoints>;

    /// What an execution asked approvers, and what they decided, oldest first. A read.
    fn list_approvals(&self, execution_id: ExecutionId) -> Answer<'_, ApprovalList>;

    /// What is suspended, partition by partition, longest first. A read.
    fn list_suspended(&self, query: ListSuspended) -> Answer<'_, ListSuspendedPage>;

    /// Makes a key the one that signs tokens, in all partitions; the one before is accepted for a
    /// grace period. It can be repeated: where it was done, it has no second effect.
    fn rotate_waitpoint_secret(
        &self,
        request: RotateWaitpointSecretRequest,
    ) -> Answer<'_, RotateWaitpointSecretResponse>;
}

/// The type of the sender of a decision.
pub(super) const APPROVER_SOURCE: &str = "approver";
/// The type of the sender of what the engine itself says.
pub(super) const SYSTEM_SOURCE: &str = "system";

/// Senders of these types are known to the engine alone.
const RESERVED_SOURCES: [&str; 2] = [APPROVER_SOURCE, SYSTEM_SOURCE];

/// A signal as a program sends it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Signal {
    /// What it says: a name that conditions list.
    pub signal_name: String,
    /// A word of the sender's own.
    pub signal_category: String,
    /// Whatever comes with it.
    pub payload: Option<Vec<u8>>,
    /// What kind of sender it comes from.
    pub source_type: String,
    /// Which one.
    pub source_identity: String,
    /// The sender's name for it: a second one of the same name has no effect.
    pub idempotency_key: Option<String>,
    /// The right to signal the waitpoint.
    pub waitpoint_token: WaitpointToken,
}

/// Gives a signal to a waitpoint, which is named by its id or by its key.
#[serde_with_macros::skip_serializing_none]
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct DeliverSignal {
    /// The waitpoint by its id.
    pub waitpoint_id: Option<WaitpointId>,
    /// The waitpoint by its name.
    #[schema(value_type = Option<crate::schema::WaitpointKey>)]
    pub waitpoint_key: Option<String>,
    /// The right to signal it.
    pub waitpoint_token: WaitpointToken,
    /// What the signal says: a name that conditions list.
    #[schema(value_type = crate::schema::SignalName)]
    pub signal_name: String,
    /// A word of the sender's own.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schema(max_length = 64)]
    pub signal_category: String,
    /// What kind of sender it comes from; `approver` and `system` are the engine's own.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schema(value_type = crate::schema::SourceType)]
    pub source_type: String,
    /// Which one.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schema(max_length = 256)]
    pub source_identity: String,
    /// What it belongs to, in the sender's words.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schema(max_length = 256)]
    pub correlation_id: String,
    /// The payload as a JSON value: its text without blanks between its parts is the payload.
    #[serde(default, deserialize_with = "bytes::present", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<crate::schema::AnyJson>)]
    pub payload: Option<Box<RawValue>>,
    /// The payload as text.
    pub payload_text: Option<String>,
    /// The payload as base64, for bytes of any kind.
    #[schema(value_type = Option<crate::schema::Base64>)]
    pub payload_base64: Option<Base64>,
    /// How the payload is to be read, in a word; `json` if absent and it is.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schema(max_length = 64)]
    pub payload_encoding: String,
    /// The sender's name for the signal: a second one of the same name has no effect.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schema(max_length = 256)]
    pub idempotency_key: String,
    /// A fresh id for the signal, by which a repetition is recognised; made by the backend if
    /// absent.
    pub signal_id: Option<SignalId>,
}

impl DeliverSignal {
    /// A signal for the waitpoint of this id.
    pub fn to_waitpoint(waitpoint_id: WaitpointId, signal: Signal) -> Self {
        Self { waitpoint_id: Some(waitpoint_id), ..signal.into() }
    }

    /// A signal for the waitpoint of this name.
    pub fn to_key(waitpoint_key: impl Into<String>, signal: Signal) -> Self {
        Self { waitpoint_key: Some(waitpoint_key.into()), ..signal.into() }
    }

    /// The payload, if there is one.
    pub fn payload(&mut self) -> Result<Option<Vec<u8>>, EngineError> {
        if self.payload.is_some() && self.payload_encoding.is_empty() {
            self.payload_encoding = "json".to_owned();
        }
        let (base64, text) = (self.payload_base64.take(), self.payload_text.take());
        bytes::one_of("payload", base64, text, self.payload.as_deref())
    }

    /// Checks what the types do not already hold.
    pub fn validate(&self) -> Result<(), EngineError> {
        if self.waitpoint_id.is_none() && self.waitpoint_key.is_none() {
            return Err(EngineError::invalid("waitpoint_id", "or waitpoint_key must be given"));
        }
        check_bytes(
            "waitpoint_token",
            self.waitpoint_token.as_str().len(),
            limits::TOKEN_BYTES_MAX,
        )?;
        check_bytes("signal_category", self.signal_category.len(), limits::CATEGORY_BYTES_MAX)?;
        check_bytes("source_type", self.source_type.len(), limits::CATEGORY_BYTES_MAX)?;
        check_bytes("payload_encoding", self.payload_encoding.len(), limits::CATEGORY_BYTES_MAX)?;
        let key = self.idempotency_key.len();
        check_bytes("idempotency_key", key, limits::IDEMPOTENCY_KEY_BYTES_MAX)?;
        let most = limits::SIGNAL_SOURCE_BYTES_MAX;
        check_bytes("source_identity", self.source_identity.len(), most)?;
        check_bytes("correlation_id", self.correlation_id.len(), most)
    }

    /// Refuses a sender that claims to be what only the engine can know.
    pub fn check_source(&self) -> Result<(), EngineError> {
        if !RESERVED_SOURCES.contains(&self.source_type.as_str()) {
            return Ok(());
        }
        Err(EngineError::invalid("source_type", "must not be approver or system"))
    }
}

impl From<Signal> for DeliverSignal {
    fn from(signal: Signal) -> Self {
        Self {
            waitpoint_token: signal.waitpoint_token,
            signal_name: signal.signal_name,
            signal_category: signal.signal_category,
            source_type: signal.source_type,
            source_identity: signal.source_identity,
            payload_base64: signal.payload.map(Base64),
            idempotency_key: signal.idempotency_key.unwrap_or_default(),
            ..Self::default()
        }
    }
}

impl Operation for DeliverSignal {
    type Target = ExecutionId;
    type Request = Self;
    type Reply = SignalOutcome;

    const PATH: &'static str = "/v1/executions/{execution_id}/signal";
    const NAME: &'static str = "deliverSignal";
    const GROUP: &'static str = "waiting";
    const SUMMARY: &'static str = "Gives a signal to a waitpoint of an execution.";
    const ANSWERS: &'static str = "It was taken, now or before.";
    const ABOUT: &'static str = "The waitpoint's token is the credential: no other is needed. \
        Unknown executions, unknown waitpoints and wrong tokens are refused alike.";
    /// Base64 makes a payload longer by a third.
    const BODY_BYTES_MAX: usize = 2 * limits::SIGNAL_PAYLOAD_BYTES_MAX as usize;
    const REFUSES: &'static [u16] = &[401, 409];
}

/// What a signal did.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "status", rename_all = "snake_case")]
pub enum SignalOutcome {
    /// It was recorded; the condition is not satisfied yet.
    Accepted {
        /// The signal.
        signal_id: SignalId,
        /// `appended_to_waitpoint` if it counts, `no_op` if it fits nowhere.
        effect: String,
    },
    /// It was recorded and satisfied the condition: the execution goes on.
    TriggeredResume {
        /// The signal.
        signal_id: SignalId,
    },
    /// It is kept until the execution is suspended.
    Buffered {
        /// The signal.
        signal_id: SignalId,
    },
    /// It was delivered before.
    Duplicate {
        /// The signal that it repeats.
        existing_signal_id: String,
    },
}

impl SignalOutcome {
    /// What a signal with this effect did.
    pub fn of_effect(signal_id: SignalId, effect: String) -> Self {
        match effect.as_str() {
            "resume_condition_satisfied" => Self::TriggeredResume { signal_id },
            "buffered_for_pending_waitpoint" => Self::Buffered { signal_id },
            _ => Self::Accepted { signal_id, effect },
        }
    }

    /// Reads the raw reply of `ff_deliver_signal`, for those who call it themselves.
    pub fn from_fcall_value(raw: &Value) -> Result<Self, EngineError> {
        let corrupt = |field| EngineError::corrupt("reply of ff_deliver_signal", field, "");
        let Value::Array(parts) = raw else { return Err(corrupt("envelope")) };
        let text = |at: usize| parts.get(at).and_then(Value::as_text);
        let word = text(1).ok_or_else(|| corrupt("status"))?;
        match (parts.first(), word) {
            (Some(Value::Int(0)), code) => {
                let details = parts.iter().skip(2).filter_map(Value::as_text).map(str::to_owned);
                Err(EngineError::from_reply(code, details.collect()))
            }
            (Some(Value::Int(1)), "DUPLICATE") => {
                let existing_signal_id = text(2).ok_or_else(|| corrupt("signal_id"))?.to_owned();
                Ok(Self::Duplicate { existing_signal_id })
            }
            (Some(Value::Int(1)), "OK") => {
                let signal_id = text(2).and_then(|text| text.parse().ok());
                let effect = text(3).ok_or_else(|| corrupt("effect"))?.to_owned();
                Ok(Self::of_effect(signal_id.ok_or_else(|| corrupt("signal_id"))?, effect))
            }
            _ => Err(corrupt("status")),
        }
    }
}

/// Ends the wait of a suspended execution.
#[serde_with_macros::skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ResumeExecution {
    /// Who asks: a person or a program.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schema(max_length = 256)]
    pub requested_by: String,
    /// Not to be claimed before so long from now.
    #[schema(maximum = 34_560_000_000u64)]
    pub resume_delay_ms: Option<u64>,
    /// A fresh id for this change: a repetition with the same one has no second effect, whatever
    /// was done in between.
    pub request_id: Option<RequestId>,
}

impl ResumeExecution {
    /// Checks what the types do not already hold.
    pub fn validate(&self) -> Result<(), EngineError> {
        check_bytes("requested_by", self.requested_by.len(), limits::CREATOR_BYTES_MAX)?;
        let delay_ms = self.resume_delay_ms.unwrap_or_default();
        check_range("resume_delay_ms", delay_ms, 0..=limits::DELAY_MS_MAX)
    }
}

impl Operation for ResumeExecution {
    type Target = ExecutionId;
    type Request = Self;
    type Reply = ExecutionState;

    const PATH: &'static str = "/v1/executions/{execution_id}/resume";
    const NAME: &'static str = "resumeExecution";
    const GROUP: &'static str = "waiting";
    const SUMMARY: &'static str = "Ends the wait of a suspended execution, whatever its condition.";
    const ANSWERS: &'static str = "It goes on.";
    const INPUT: Input = Input::OptionalBody;
}

literals! {
    /// Whether an open waitpoint is in use.
    WaitpointState("waitpoint state") {
        /// The execution is not suspended on it yet.
        Pending = "pending",
        /// The execution is suspended on it.
        Active = "active",
    }
}

/// Lists the open waitpoints of an execution.
#[derive(Clone, Copy, Debug)]
pub struct PendingWaitpoints;

impl Operation for PendingWaitpoints {
    type Target = ExecutionId;
    type Request = Nothing;
    type Reply = OpenWaitpoints;

    const METHOD: Method = Method::Get;
    const PATH: &'static str = "/v1/executions/{execution_id}/pending-waitpoints";
    const NAME: &'static str = "listPendingWaitpoints";
    const GROUP: &'static str = "waiting";
    const SUMMARY: &'static str = "The open waitpoints of an execution, with their tokens.";
    const ANSWERS: &'static str = "The waitpoints. The tokens are credentials.";
}

/// The open waitpoints of an execution.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct OpenWaitpoints {
    /// The waitpoints, oldest first.
    pub waitpoints: Vec<OpenWaitpoint>,
}

/// An open waitpoint.
#[serde_with_macros::skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct OpenWaitpoint {
    /// Its id.
    pub waitpoint_id: WaitpointId,
    /// Its name.
    pub waitpoint_key: String,
    /// Whether it is in use.
    pub state: WaitpointState,
    /// What senders must show, under the current key.
    pub waitpoint_token: WaitpointToken,
    /// The signals that its condition lists; empty if any will do, or none ever will.
    pub required_signal_names: Vec<String>,
    /// When it was made.
    pub created_at: TimestampMs,
    /// Since when the execution is suspended on it.
    pub activated_at: Option<TimestampMs>,
    /// When it closes by itself.
    pub expires_at: Option<TimestampMs>,
    /// The suspension.
    pub suspension_id: Option<SuspensionId>,
    /// Why the execution is suspended.
    pub reason: Option<String>,
    /// Who asked for it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub requested_by: String,
    /// How many signals came so far.
    pub signal_count: u32,
    /// What ends the wait.
    #[serde(rename = "condition", with = "json_text", skip_serializing_if = "json_text::is_none")]
    #[serde(default)]
    #[schema(value_type = Option<crate::schema::AnyJson>)]
    pub condition_json: Option<String>,
    /// What to show to those who decide.
    #[serde(rename = "details", with = "json_text", skip_serializing_if = "json_text::is_none")]
    #[serde(default)]
    #[schema(value_type = Option<crate::schema::AnyJson>)]
    pub details_json: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(text: &str) -> Value {
        Value::Bytes(text.as_bytes().to_vec())
    }

    #[test]
    fn a_raw_reply_is_read_as_what_it_did() {
        let id = SignalId::from_uuid(uuid::Uuid::from_u128(7));
        let read = |effect: &str| {
            let parts = vec![Value::Int(1), bytes("OK"), bytes(&id.to_string()), bytes(effect)];
            SignalOutcome::from_fcall_value(&Value::Array(parts))
        };
        let accepted = SignalOutcome::Accepted { signal_id: id, effect: "no_op".to_owned() };
        assert_eq!(read("no_op"), Ok(accepted));
        let resumed = SignalOutcome::TriggeredResume { signal_id: id };
        assert_eq!(read("resume_condition_satisfied"), Ok(resumed));
        let buffered = SignalOutcome::Buffered { signal_id: id };
        assert_eq!(read("buffered_for_pending_waitpoint"), Ok(buffered));
        let again = Value::Array(vec![Value::Int(1), bytes("DUPLICATE"), bytes("s-1")]);
        let existing_signal_id = "s-1".to_owned();
        let duplicate = SignalOutcome::Duplicate { existing_signal_id };
        assert_eq!(SignalOutcome::from_fcall_value(&again), Ok(duplicate));
    }

    #[test]
    fn a_raw_refusal_is_the_error_that_it_says() {
        let refused = Value::Array(vec![Value::Int(0), bytes("waitpoint_closed")]);
        let error = SignalOutcome::from_fcall_value(&refused).expect_err("refused");
        assert_eq!(error.code(), Some(crate::error::Code::WaitpointClosed));
        for wrong in [Value::Nil, Value::Array(Vec::new()), Value::Array(vec![Value::Int(1)])] {
            assert!(SignalOutcome::from_fcall_value(&wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn only_the_engine_speaks_for_approvers() {
        let from = |source_type: &str| {
            let source_type = source_type.to_owned();
            DeliverSignal { source_type, ..DeliverSignal::default() }.check_source()
        };
        assert_eq!(from("webhook"), Ok(()));
        assert!(from("approver").is_err() && from("system").is_err());
    }
}
