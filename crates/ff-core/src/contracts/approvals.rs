//! Approvals: what a suspended execution asks people, and what they decided.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::condition::ANY_SIGNAL;
use crate::ToSchema;
use crate::argument::check_bytes;
use crate::engine_backend::Answer;
use crate::error::EngineError;
use crate::limits;
use crate::operation::{Method, Nothing, Operation};
use crate::types::{Approver, ExecutionId, TimestampMs, WaitpointId};

/// Keeps approvals, and the keys of the links by which approvers are recognised. A store does; a
/// server in front of one checks the links and tells who they belong to.
pub trait Approvals: Send + Sync {
    /// What approvers are asked on one waitpoint, and what they decided. A read.
    fn read_approval(
        &self,
        execution_id: ExecutionId,
        waitpoint_id: WaitpointId,
    ) -> Answer<'_, Approval>;

    /// Takes the decision of an approver whom the caller has verified. The first one stands.
    fn record_decision(
        &self,
        execution_id: ExecutionId,
        decision: NewDecision,
    ) -> Answer<'_, DecisionOutcome>;

    /// The keys that links are accepted under, and the store's time. A read, and one that gives
    /// credentials away.
    fn link_keys(&self) -> Answer<'_, LinkKeys>;

    /// Makes a new key the one that signs links, under this id or a fresh one; the one before is
    /// accepted for a while. With `only_first` nothing happens where there is one. Gives the id of
    /// the key that signs.
    fn rotate_link_key(
        &self,
        kid: Option<String>,
        grace_ms: u64,
        only_first: bool,
    ) -> Answer<'_, String>;
}

/// What approvers are asked.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ApprovalRequest {
    /// What is to be decided.
    #[serde(skip_serializing_if = "String::is_empty")]
    #[schema(value_type = crate::schema::ApprovalText)]
    pub question: String,
    /// What it is about: whatever an approver should know.
    #[serde(skip_serializing_if = "String::is_empty")]
    #[schema(value_type = crate::schema::ApprovalText)]
    pub subject: String,
    /// The possible answers; if there are none, to approve and to reject.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(max_items = 16)]
    pub choices: Vec<ApprovalChoice>,
    /// Who may decide; if there are none, whoever a link is made for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(max_items = 100)]
    pub approvers: Vec<Approver>,
}

/// One possible answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ApprovalChoice {
    /// The signal that it sends: a name that the condition lists.
    #[schema(value_type = crate::schema::SignalName)]
    pub signal: String,
    /// What stands on its button; the signal's name if it is empty.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schema(value_type = crate::schema::ButtonLabel)]
    pub label: String,
}

impl ApprovalChoice {
    /// A signal and what stands on its button.
    pub fn new(signal: impl Into<String>, label: impl Into<String>) -> Self {
        Self { signal: signal.into(), label: label.into() }
    }

    /// What to call it to a person.
    pub fn shown(&self) -> &str {
        if self.label.is_empty() { &self.signal } else { &self.label }
    }
}

impl ApprovalRequest {
    /// Asks this question, with the usual choices.
    pub fn new(question: impl Into<String>) -> Self {
        Self { question: question.into(), ..Self::default() }
    }

    /// Checks what the types do not already hold.
    pub fn validate(&self) -> Result<(), EngineError> {
        for (field, text) in [("question", &self.question), ("subject", &self.subject)] {
            check_bytes(&at(field), text.len(), limits::APPROVAL_TEXT_BYTES_MAX)?;
            if text.chars().any(|letter| letter.is_control() && !"\n\r\t".contains(letter)) {
                return Err(EngineError::invalid(at(field), "must not have control characters"));
            }
        }
        check_count("choices", self.choices.len(), limits::APPROVAL_CHOICES_MAX)?;
        check_count("approvers", self.approvers.len(), limits::APPROVERS_MAX)?;
        self.choices.iter().try_for_each(check_choice)?;
        check_distinct("choices", self.choices.iter().map(|choice| choice.signal.as_str()))?;
        check_distinct("approvers", self.approvers.iter().map(Approver::as_str))?;
        check_bytes("approval", self.to_json()?.len(), limits::WAIT_DETAILS_BYTES_MAX)
    }

    /// The possible answers, the usual ones if none were given.
    pub fn offered(&self) -> Vec<ApprovalChoice> {
        if !self.choices.is_empty() {
            return self.choices.clone();
        }
        let usual = [("approved", "Approve"), ("rejected", "Reject")];
        usual.map(|(signal, label)| ApprovalChoice::new(signal, label)).to_vec()
    }

    /// May this person be asked?
    pub fn asks(&self, approver: &Approver) -> bool {
        self.approvers.is_empty() || self.approvers.contains(approver)
    }

    /// Can so many decisions of these names come? An approver decides once.
    pub(super) fn can_send(&self, signals: &[String], count: usize) -> bool {
        let offered = self.offered();
        let known =
            |name: &String| name == ANY_SIGNAL || offered.iter().any(|one| one.signal == *name);
        let deciders = match self.approvers.len() {
            0 => limits::APPROVERS_MAX as usize,
            named => named,
        };
        count <= deciders && signals.iter().any(known)
    }

    /// The text that a store keeps.
    pub fn to_json(&self) -> Result<String, EngineError> {
        serde_json::to_string(self)
            .map_err(|error| EngineError::invalid("approval", error.to_string()))
    }
}

fn at(field: &str) -> String {
    format!("approval.{field}")
}

fn check_count(field: &str, count: usize, most: u64) -> Result<(), EngineError> {
    if count as u64 <= most {
        return Ok(());
    }
    Err(EngineError::invalid(at(field), format!("must be at most {most}, got {count}")))
}

fn check_choice(choice: &ApprovalChoice) -> Result<(), EngineError> {
    let name = &choice.signal;
    let printable = name.bytes().all(|byte| (0x20..=0x7e).contains(&byte));
    if name.is_empty() || !printable || name.trim() != name || name == ANY_SIGNAL {
        let rule = "must name signals: printable ASCII without blanks at the ends, and not *";
        return Err(EngineError::invalid(at("choices"), rule));
    }
    check_bytes(&at("choices"), name.len(), limits::SIGNAL_NAME_BYTES_MAX)?;
    if choice.label.chars().any(char::is_control) {
        return Err(EngineError::invalid(at("choices"), "must not have control characters"));
    }
    check_bytes(&at("choices"), choice.label.len(), limits::APPROVAL_LABEL_BYTES_MAX)
}

fn check_distinct<'a>(
    field: &str,
    names: impl Iterator<Item = &'a str>,
) -> Result<(), EngineError> {
    let mut seen = std::collections::HashSet::new();
    for name in names {
        if !seen.insert(name) {
            return Err(EngineError::invalid(at(field), format!("must not repeat {name:?}")));
        }
    }
    Ok(())
}

/// An approval: what was asked, and what was decided so far.
#[serde_with_macros::skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Approval {
    /// The waitpoint that the execution waits or waited on.
    pub waitpoint_id: WaitpointId,
    /// The name of that.
    pub waitpoint_key: String,
    /// True while those who have not decided still may.
    pub open: bool,
    /// What is asked.
    pub request: ApprovalRequest,
    /// Who asks: a person or a program.
    pub requested_by: String,
    /// Since when.
    pub asked_at: TimestampMs,
    /// When the wait ends by itself.
    pub closes_at: Option<TimestampMs>,
    /// When it ended; none while it lasts.
    pub closed_at: Option<TimestampMs>,
    /// What became of it.
    pub close_reason: Option<String>,
    /// Who decided what and when, in that order.
    pub decisions: Vec<ApprovalDecision>,
}

impl Approval {
    /// What this person decided, if anything.
    pub fn decision_of(&self, approver: &Approver) -> Option<&ApprovalDecision> {
        self.decisions.iter().find(|decision| decision.approver == *approver)
    }
}

/// What somebody decided.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ApprovalDecision {
    /// Who.
    pub approver: Approver,
    /// The signal of the choice.
    pub signal: String,
    /// When, by the store's clock.
    pub decided_at: TimestampMs,
}

/// A decision of somebody whom the caller has verified.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewDecision {
    /// What is decided on.
    pub waitpoint_id: WaitpointId,
    /// Who decides.
    pub approver: Approver,
    /// The signal of the choice.
    pub signal: String,
}

/// What became of a decision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DecisionOutcome {
    /// It was taken.
    Taken(ApprovalDecision),
    /// There was one of this approver before, and that stands.
    Stands(ApprovalDecision),
}

/// Lists the approvals of an execution.
#[derive(Clone, Copy, Debug)]
pub struct ListApprovals;

/// The approvals that an execution asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ApprovalList {
    /// The approvals, oldest first.
    pub approvals: Vec<Approval>,
}

impl Operation for ListApprovals {
    type Target = ExecutionId;
    type Request = Nothing;
    type Reply = ApprovalList;

    const METHOD: Method = Method::Get;
    const PATH: &'static str = "/v1/executions/{execution_id}/approvals";
    const NAME: &'static str = "listApprovals";
    const GROUP: &'static str = "approvals";
    const SUMMARY: &'static str = "What an execution asked approvers, and what they decided.";
    const ANSWERS: &'static str =
        "The approvals, oldest first; of those that are over, the latest.";
}

/// The keys of approval links.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkKeys {
    /// The store's time.
    pub now: TimestampMs,
    /// The id of the key that signs; none before the first link.
    pub current_kid: Option<String>,
    /// All that are accepted.
    pub keys: Vec<LinkKey>,
}

/// A key of approval links.
#[derive(Clone, PartialEq, Eq)]
pub struct LinkKey {
    /// Its id.
    pub kid: String,
    /// The key itself.
    pub secret: Vec<u8>,
}

impl fmt::Debug for LinkKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LinkKey").field("kid", &self.kid).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(json: &str) -> ApprovalRequest {
        serde_json::from_str(json).expect(json)
    }

    #[test]
    fn an_empty_request_asks_to_approve_or_to_reject() {
        let request = read("{}");
        assert_eq!(request.validate(), Ok(()));
        let signals: Vec<String> = request.offered().into_iter().map(|one| one.signal).collect();
        assert_eq!(signals, ["approved", "rejected"]);
        assert!(request.asks(&Approver::new("ann")));
        assert_eq!(request.to_json().as_deref(), Ok("{}"));
    }

    #[test]
    fn only_those_who_are_named_are_asked() {
        let request = read(r#"{"approvers":["ann","bob@example.com"]}"#);
        assert!(request.asks(&Approver::new("bob@example.com")));
        assert!(!request.asks(&Approver::new("eve")));
    }

    #[test]
    fn what_breaks_a_rule_is_named() {
        let long = "x".repeat(4097);
        for (json, field) in [
            (format!(r#"{{"question":"{long}"}}"#), "approval.question"),
            (r#"{"subject":"a\u0007b"}"#.to_owned(), "approval.subject"),
            (r#"{"choices":[{"signal":""}]}"#.to_owned(), "approval.choices"),
            (r#"{"choices":[{"signal":"*"}]}"#.to_owned(), "approval.choices"),
            (r#"{"choices":[{"signal":" a"}]}"#.to_owned(), "approval.choices"),
            (r#"{"choices":[{"signal":"é"}]}"#.to_owned(), "approval.choices"),
            (r#"{"choices":[{"signal":"a"},{"signal":"a"}]}"#.to_owned(), "approval.choices"),
            (r#"{"choices":[{"signal":"a","label":"\n"}]}"#.to_owned(), "approval.choices"),
            (r#"{"approvers":["ann","ann"]}"#.to_owned(), "approval.approvers"),
            (
                format!(
                    r#"{{"choices":[{}]}}"#,
                    r#"{"signal":"a"},"#.repeat(17).trim_end_matches(',')
                ),
                "approval.choices",
            ),
        ] {
            let error = read(&json).validate().expect_err(&json);
            assert!(error.to_string().starts_with(field), "{json}: {error}");
        }
        assert!(serde_json::from_str::<ApprovalRequest>(r#"{"approver":["ann"]}"#).is_err());
    }

    #[test]
    fn a_key_is_not_shown() {
        let key = LinkKey { kid: "k1".to_owned(), secret: b"canary".to_vec() };
        assert_eq!(format!("{key:?}"), r#"LinkKey { kid: "k1", .. }"#);
    }
}
