//! Suspending: the holder of a lease gives it back until signals, an operator or a time end its
//! wait, and the same attempt goes on.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::approvals::ApprovalRequest;
use super::condition::{Condition, ConditionMatcher};
use crate::ToSchema;
use crate::argument::{check_bytes, check_range};
use crate::backend::Handle;
use crate::bytes::{base64_option, json_text};
use crate::engine_backend::Answer;
use crate::error::EngineError;
use crate::limits;
use crate::literal::{UnknownLiteral, literals};
use crate::types::{
    SignalId, SuspensionId, TimestampMs, WaitpointHmac, WaitpointId, WaitpointToken,
};

/// What the holder of a lease does about waiting. Every call recognises its own repetition.
pub trait Suspensions: Send + Sync {
    /// Gives the lease back until the wait is over. If the signals that came before are enough, the
    /// holder keeps its lease and goes on with them.
    fn suspend<'a>(
        &'a self,
        handle: &'a Handle,
        request: SuspendRequest,
    ) -> Answer<'a, SuspendOutcome>;

    /// Opens a waitpoint, so that signals can come before the execution is suspended on it.
    fn create_waitpoint<'a>(
        &'a self,
        handle: &'a Handle,
        request: CreateWaitpoint,
    ) -> Answer<'a, PendingWaitpoint>;

    /// Closes a waitpoint that the execution will not be suspended on.
    fn close_waitpoint<'a>(
        &'a self,
        handle: &'a Handle,
        waitpoint_id: WaitpointId,
        reason: &'a str,
    ) -> Answer<'a, ()>;

    /// The signals that ended the latest wait of the execution, in their order: none if an operator
    /// did, one named `timeout` if a time did. A read.
    fn observe_signals<'a>(&'a self, handle: &'a Handle) -> Answer<'a, Vec<ResumeSignal>>;
}

literals! {
    /// Why an execution is suspended.
    SuspensionReason("suspension reason") {
        /// For a signal of any kind.
        WaitingForSignal = "waiting_for_signal",
        /// For a person's decision.
        WaitingForApproval = "waiting_for_approval",
        /// For an answer of another system.
        WaitingForCallback = "waiting_for_callback",
        /// For what a tool finds.
        WaitingForToolResult = "waiting_for_tool_result",
        /// For an operator to look at it.
        WaitingForOperatorReview = "waiting_for_operator_review",
        /// A policy stopped it.
        PausedByPolicy = "paused_by_policy",
        /// A budget is spent.
        PausedByBudget = "paused_by_budget",
        /// Between two steps.
        StepBoundary = "step_boundary",
        /// Somebody stopped it.
        ManualPause = "manual_pause",
    }

    /// What ended a wait.
    ResumedBy("end of a wait") {
        /// Signals that satisfied the condition.
        Signal = "signal",
        /// An operator.
        Operator = "operator",
        /// The suspension's timeout.
        Timeout = "timeout",
    }
}

/// What happens to an execution whose wait has lasted too long.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum TimeoutBehavior {
    /// It fails.
    #[default]
    Fail,
    /// It is cancelled.
    Cancel,
    /// It expires.
    Expire,
    /// It goes on, and finds a signal named `timeout`.
    #[serde(rename = "auto_resume_with_timeout_signal", alias = "auto_resume")]
    AutoResume,
    /// It stays suspended, for an operator to decide.
    Escalate,
}

impl TimeoutBehavior {
    /// Every word.
    pub const WORDS: &[&'static str] =
        &["fail", "cancel", "expire", "auto_resume_with_timeout_signal", "escalate"];

    /// The word on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Fail => "fail",
            Self::Cancel => "cancel",
            Self::Expire => "expire",
            Self::AutoResume => "auto_resume_with_timeout_signal",
            Self::Escalate => "escalate",
        }
    }
}

impl fmt::Display for TimeoutBehavior {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for TimeoutBehavior {
    type Err = UnknownLiteral;

    fn from_str(text: &str) -> Result<Self, UnknownLiteral> {
        match text {
            "fail" => Ok(Self::Fail),
            "cancel" => Ok(Self::Cancel),
            "expire" => Ok(Self::Expire),
            "auto_resume" | "auto_resume_with_timeout_signal" => Ok(Self::AutoResume),
            "escalate" => Ok(Self::Escalate),
            _ => {
                let (text, known) = (text.to_owned(), Self::WORDS);
                Err(UnknownLiteral { what: "timeout behaviour", text, known })
            }
        }
    }
}

/// Asks for a suspension.
#[serde_with_macros::skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SuspendRequest {
    /// What ends the wait.
    pub condition: Condition,
    /// Why.
    pub reason: Option<SuspensionReason>,
    /// How long it may last, by the store's clock; the policy's default if absent.
    #[schema(minimum = 1, maximum = 34_560_000_000u64)]
    pub timeout_ms: Option<u64>,
    /// What happens then; the policy's default if absent, and to fail if that says nothing.
    pub timeout_behavior: Option<TimeoutBehavior>,
    /// Whether an operator may end the wait; yes if absent, unless only the timeout may end it.
    pub allow_operator_override: Option<bool>,
    /// How long to wait after signals have ended the wait.
    #[serde(default, skip_serializing_if = "is_zero")]
    #[schema(maximum = 34_560_000_000u64)]
    pub resume_delay_ms: u64,
    /// Who asks: a person or a program.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schema(max_length = 256)]
    pub requested_by: String,
    /// A waitpoint that was opened before, with the signals that came meanwhile. If absent, one is
    /// made.
    pub pending_waitpoint_id: Option<WaitpointId>,
    /// The name that senders know a new waitpoint by; unique among the open ones of the execution.
    #[schema(value_type = Option<crate::schema::WaitpointKey>)]
    pub waitpoint_key: Option<String>,
    /// A fresh id for a new waitpoint; made by the backend if absent.
    pub waitpoint_id: Option<WaitpointId>,
    /// A fresh id for the suspension, by which a repetition is recognised; made by the backend if
    /// absent.
    pub suspension_id: Option<SuspensionId>,
    /// What to show to those who decide, as JSON.
    #[serde(rename = "details", with = "json_text", skip_serializing_if = "json_text::is_none")]
    #[serde(default)]
    #[schema(value_type = Option<crate::schema::AnyJson>)]
    pub details_json: Option<String>,
    /// What approvers are asked. Their decisions are signals of the source type `approver`.
    pub approval: Option<ApprovalRequest>,
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

impl SuspendRequest {
    /// Waits for this, with all defaults.
    pub fn new(condition: Condition) -> Self {
        Self {
            condition,
            reason: None,
            timeout_ms: None,
            timeout_behavior: None,
            allow_operator_override: None,
            resume_delay_ms: 0,
            requested_by: String::new(),
            pending_waitpoint_id: None,
            waitpoint_key: None,
            waitpoint_id: None,
            suspension_id: None,
            details_json: None,
            approval: None,
        }
    }

    /// Checks what the types do not already hold.
    pub fn validate(&self) -> Result<(), EngineError> {
        if let Some(timeout_ms) = self.timeout_ms {
            check_range("timeout_ms", timeout_ms, 1..=limits::DELAY_MS_MAX)?;
        }
        check_range("resume_delay_ms", self.resume_delay_ms, 0..=limits::DELAY_MS_MAX)?;
        check_bytes("requested_by", self.requested_by.len(), limits::CREATOR_BYTES_MAX)?;
        let details = self.details_json.as_ref().map_or(0, String::len);
        check_bytes("details", details, limits::WAIT_DETAILS_BYTES_MAX)?;
        self.details_json.as_deref().map_or(Ok(()), check_json)?;
        self.approval.as_ref().map_or(Ok(()), ApprovalRequest::validate)?;
        self.condition.check_senders(self.approval.as_ref())
    }
}

fn check_json(text: &str) -> Result<(), EngineError> {
    let read = serde_json::from_str::<serde::de::IgnoredAny>(text);
    read.map(drop).map_err(|error| EngineError::invalid("details", format!("is no JSON: {error}")))
}

/// What became of a request to suspend.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "status", rename_all = "snake_case")]
pub enum SuspendOutcome {
    /// The lease is given back; whoever shows the token may signal the waitpoint.
    Suspended {
        /// The suspension.
        suspension_id: SuspensionId,
        /// What it waits on.
        waitpoint_id: WaitpointId,
        /// The name of that.
        waitpoint_key: String,
        /// What senders must show.
        waitpoint_token: WaitpointToken,
    },
    /// The signals that came before were enough: the lease is still held.
    AlreadySatisfied {
        /// The suspension that was not necessary.
        suspension_id: SuspensionId,
        /// What it would have waited on.
        waitpoint_id: WaitpointId,
        /// The name of that.
        waitpoint_key: String,
        /// What senders had to show.
        waitpoint_token: WaitpointToken,
        /// The signals.
        resumption: Resumption,
    },
}

/// What ended a wait.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Resumption {
    /// Who or what.
    pub resumed_by: ResumedBy,
    /// False if the signals are too large to come along: they are to be read.
    pub complete: bool,
    /// Exactly the signals that satisfied the condition, in their order.
    pub signals: Vec<ResumeSignal>,
}

/// A signal that ended a wait, or helped to.
#[serde_with_macros::skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ResumeSignal {
    /// Its id.
    pub signal_id: SignalId,
    /// What it says.
    pub signal_name: String,
    /// A word of the sender's own.
    pub signal_category: String,
    /// What kind of sender it came from.
    pub source_type: String,
    /// Which one.
    pub source_identity: String,
    /// What it belongs to, in the sender's words.
    pub correlation_id: String,
    /// How the payload is to be read.
    pub payload_encoding: String,
    /// When it was taken, by the store's clock.
    pub accepted_at: TimestampMs,
    /// Whatever came with it.
    #[serde(rename = "payload_base64", with = "base64_option", default)]
    #[schema(value_type = Option<crate::schema::Base64>)]
    pub payload: Option<Vec<u8>>,
}

/// Opens a waitpoint before the execution is suspended on it.
#[serde_with_macros::skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CreateWaitpoint {
    /// The name that senders know it by; unique among the open ones of the execution.
    #[schema(value_type = crate::schema::WaitpointKey)]
    pub waitpoint_key: String,
    /// How long it stays open, by the store's clock.
    #[schema(minimum = 1, maximum = 34_560_000_000u64)]
    pub expires_in_ms: u64,
    /// A fresh id, by which a repetition is recognised; made by the backend if absent.
    pub waitpoint_id: Option<WaitpointId>,
}

impl CreateWaitpoint {
    /// Checks what the types do not already hold.
    pub fn validate(&self) -> Result<(), EngineError> {
        check_bytes("waitpoint_key", self.waitpoint_key.len(), limits::WAITPOINT_KEY_BYTES_MAX)?;
        check_range("expires_in_ms", self.expires_in_ms, 1..=limits::DELAY_MS_MAX)
    }
}

/// A waitpoint that is open although its execution is not suspended.
#[serde_with_macros::skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PendingWaitpoint {
    /// Its id.
    pub waitpoint_id: WaitpointId,
    /// What senders must show.
    pub hmac_token: WaitpointHmac,
    /// When it closes by itself; none if it was used or closed since.
    pub expires_at: Option<TimestampMs>,
}

/// How a waitpoint of the older form recognises its signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitpointKind {
    /// By the signal's name.
    SignalName,
    /// By what the signal belongs to.
    CorrelationId,
    /// By something outside.
    External,
}

/// A waitpoint of the older form: one signal that is waited for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WaitpointSpec {
    /// How the signal is recognised.
    pub kind: WaitpointKind,
    /// What is compared; a signal's name in UTF-8.
    pub matcher: Vec<u8>,
    /// The token of the waitpoint, if it was opened before.
    pub hmac_token: WaitpointHmac,
}

impl WaitpointSpec {
    /// The condition that several of them mean together. Only names can be waited for.
    pub fn condition(specs: &[Self]) -> Result<Condition, EngineError> {
        let matchers = specs.iter().map(|spec| match spec.kind {
            WaitpointKind::SignalName => std::str::from_utf8(&spec.matcher)
                .map(ConditionMatcher::named)
                .map_err(|_| EngineError::invalid("matcher", "must be a name in UTF-8")),
            _ => Err(EngineError::invalid("kind", "must be a signal's name")),
        });
        let matchers: Vec<ConditionMatcher> = matchers.collect::<Result<_, _>>()?;
        Ok(Condition::from(matchers.as_slice()))
    }
}

/// One suspension of an execution, as a description tells it.
#[serde_with_macros::skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SuspensionRecord {
    /// The suspension.
    pub suspension_id: SuspensionId,
    /// What it waits or waited on.
    pub waitpoint_id: WaitpointId,
    /// The name of that.
    pub waitpoint_key: String,
    /// Why.
    pub reason: String,
    /// Who asked for it.
    pub requested_by: String,
    /// Since when.
    pub since: TimestampMs,
    /// When it ends by itself.
    pub timeout_at: Option<TimestampMs>,
    /// What happens then.
    pub timeout_behavior: Option<TimeoutBehavior>,
    /// How many signals came.
    pub signal_count: u32,
    /// How many of them the condition counted.
    pub matched_signal_count: u32,
    /// When it ended; none while it lasts.
    pub closed_at: Option<TimestampMs>,
    /// What became of it.
    pub close_reason: Option<String>,
    /// The worker process that suspended the execution.
    pub worker_instance_id: Option<String>,
    /// What ended the wait: `signal` and the name of the last one, `operator` and who that was, or
    /// `timeout` and what it did, with a colon between. None while it lasts, or if it was the end
    /// of the execution.
    pub ended_by: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn behaviours_have_one_word_and_one_of_them_two() {
        for behavior in [
            TimeoutBehavior::Fail,
            TimeoutBehavior::Cancel,
            TimeoutBehavior::Expire,
            TimeoutBehavior::AutoResume,
            TimeoutBehavior::Escalate,
        ] {
            assert_eq!(behavior.to_string().parse(), Ok(behavior));
            let json = serde_json::to_string(&behavior).expect("text");
            assert_eq!(json, format!("\"{behavior}\""));
            assert_eq!(serde_json::from_str::<TimeoutBehavior>(&json).expect("a word"), behavior);
        }
        assert_eq!("auto_resume".parse(), Ok(TimeoutBehavior::AutoResume));
        let error = "later".parse::<TimeoutBehavior>().expect_err("no such word");
        assert_eq!(error.text, "later");
    }

    #[test]
    fn waitpoints_of_the_older_form_become_a_condition() {
        let spec = |kind, name: &str| WaitpointSpec {
            kind,
            matcher: name.as_bytes().to_vec(),
            hmac_token: WaitpointHmac::default(),
        };
        let named = [spec(WaitpointKind::SignalName, "a"), spec(WaitpointKind::SignalName, "b")];
        assert_eq!(WaitpointSpec::condition(&named), Ok(Condition::all(["a", "b"])));
        assert!(WaitpointSpec::condition(&[spec(WaitpointKind::External, "a")]).is_err());
    }

    #[test]
    fn details_that_are_no_json_are_refused_by_their_name() {
        let mut request = SuspendRequest::new(Condition::any(["go"]));
        for (text, right) in
            [("{\"a\": [1e400, null]}", true), ("1", true), ("{", false), ("", false)]
        {
            request.details_json = Some(text.to_owned());
            let refused = request.validate().map_err(|error| error.to_string());
            assert_eq!(refused.is_ok(), right, "{text}");
            assert!(refused.err().is_none_or(|text| text.contains("details")), "{text}");
        }
    }

    #[test]
    fn a_request_and_its_answer_survive_the_wire() {
        let mut request = SuspendRequest::new(Condition::any(["approved"]));
        request.details_json = Some(r#"{"question":"Ship it?"}"#.to_owned());
        request.timeout_behavior = Some(TimeoutBehavior::Escalate);
        let json = serde_json::to_string(&request).expect("text");
        assert_eq!(serde_json::from_str::<SuspendRequest>(&json).expect(&json), request);
        let signal = ResumeSignal {
            signal_id: SignalId::from_uuid(uuid::Uuid::from_u128(7)),
            signal_name: "approved".to_owned(),
            signal_category: String::new(),
            source_type: "approver".to_owned(),
            source_identity: "ann".to_owned(),
            correlation_id: String::new(),
            payload_encoding: "json".to_owned(),
            accepted_at: TimestampMs(5),
            payload: Some(vec![0, 255]),
        };
        let json = serde_json::to_string(&signal).expect("text");
        assert_eq!(serde_json::from_str::<ResumeSignal>(&json).expect(&json), signal);
    }
}
