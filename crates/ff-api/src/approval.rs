//! Approval links: how people who have no token decide. A link is the credential of one approver on
//! one waitpoint.

use std::fmt;

use ff_core::contracts::{ApprovalChoice, ApprovalDecision};
use ff_core::operation::{Input, Method, Nothing, Operation};
use ff_core::types::{Approver, ExecutionId, TimestampMs, WaitpointId};
use serde::{Deserialize, Serialize};

use crate::ToSchema;

/// What a link is made of: nobody who does not have the server's key can make one.
#[derive(Clone, PartialEq, Eq)]
pub struct LinkText(pub String);

impl fmt::Display for LinkText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for LinkText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LinkText({} characters)", self.0.len())
    }
}

/// Makes a link for each approver.
#[serde_with_macros::skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub struct MakeApprovalLinks {
    /// The waitpoint; the latest approval of the execution if absent.
    pub waitpoint_id: Option<WaitpointId>,
    /// For whom; all approvers that the suspension names if it is empty. If the suspension names
    /// any, they must be among them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(max_items = 100)]
    pub approvers: Vec<Approver>,
    /// How long they are good for, by the store's clock; until the wait ends by itself if absent,
    /// or for a week if it never does.
    #[schema(minimum = 1, maximum = 34_560_000_000u64)]
    pub expires_in_ms: Option<u64>,
}

impl Operation for MakeApprovalLinks {
    type Target = ExecutionId;
    type Request = Self;
    type Reply = ApprovalLinks;

    const PATH: &'static str = "/v1/executions/{execution_id}/approval-links";
    const NAME: &'static str = "makeApprovalLinks";
    const GROUP: &'static str = "approvals";
    const SUMMARY: &'static str = "Makes a link for each approver of an execution.";
    const ANSWERS: &'static str = "The links. Each is the credential of its approver.";
    const ABOUT: &'static str = "Whoever has a link decides as its approver: send each to that \
        person alone. It begins with the setting public_url. Making one again gives another link \
        of the same effect.";
    const INPUT: Input = Input::OptionalBody;
}

/// Links that were made.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ApprovalLinks {
    /// What is decided on.
    pub waitpoint_id: WaitpointId,
    /// Until when they are good.
    pub expires_at: TimestampMs,
    /// One for each approver.
    pub links: Vec<ApprovalLink>,
}

/// A link of one approver.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ApprovalLink {
    /// Whose it is.
    pub approver: Approver,
    /// Where to decide.
    pub url: String,
}

/// Reads what a link asks: a page for browsers, JSON for programs.
#[derive(Clone, Copy, Debug)]
pub struct ReadLink;

impl Operation for ReadLink {
    type Target = LinkText;
    type Request = Nothing;
    type Reply = LinkView;

    const METHOD: Method = Method::Get;
    const PATH: &'static str = "/approve/{link}";
    const NAME: &'static str = "readApprovalLink";
    const GROUP: &'static str = "approvals";
    const SUMMARY: &'static str = "What an approver is asked.";
    const ANSWERS: &'static str = "The question, or what the approver has decided.";
    const ABOUT: &'static str = "The link is the credential: no other is needed. Whoever accepts \
        text/html gets a page that works without scripts, also in place of a problem document. \
        Reading never decides. What is forged and what is unknown answer alike.";
    const REFUSES: &'static [u16] = &[404, 410];
}

/// Decides.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct DecideByLink {
    /// The signal of one of the choices.
    #[schema(min_length = 1, max_length = 128)]
    pub choice: String,
}

impl Operation for DecideByLink {
    type Target = LinkText;
    type Request = Self;
    type Reply = LinkView;

    const PATH: &'static str = "/approve/{link}";
    const NAME: &'static str = "decideByLink";
    const GROUP: &'static str = "approvals";
    const SUMMARY: &'static str = "Decides as the approver of a link.";
    const ANSWERS: &'static str = "What was decided, now or before.";
    const ABOUT: &'static str = "The first decision of an approver stands: the same again is \
        answered alike, another one with 409 decision_stands. Takes the page's form as well as JSON.";
    const BODY_BYTES_MAX: usize = 4096;
    const REFUSES: &'static [u16] = &[404, 409, 410];
}

/// What a link shows to its approver.
#[serde_with_macros::skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LinkView {
    /// Who is asked.
    pub approver: Approver,
    /// What is to be decided.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub question: String,
    /// What it is about.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub subject: String,
    /// The possible answers.
    pub choices: Vec<ApprovalChoice>,
    /// Who asks.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub requested_by: String,
    /// True while the execution waits.
    pub open: bool,
    /// Until when the link is good.
    pub expires_at: TimestampMs,
    /// What the approver decided.
    pub decision: Option<ApprovalDecision>,
    /// Who decided what and when, for those who have decided themselves.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub decisions: Vec<ApprovalDecision>,
}

/// Makes a new key the one that signs approval links.
#[serde_with_macros::skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub struct RotateLinkKey {
    /// The new key's id, by which a repetition is recognised; made by the server if absent.
    #[schema(max_length = 64, pattern = "^[!-9;-~]+$")]
    pub new_kid: Option<String>,
    /// How long links under the key before are accepted; a day if absent.
    #[schema(maximum = 34_560_000_000u64)]
    pub grace_ms: Option<u64>,
}

impl Operation for RotateLinkKey {
    type Target = Nothing;
    type Request = Self;
    type Reply = LinkKeyRotated;

    const PATH: &'static str = "/v1/admin/rotate-link-key";
    const NAME: &'static str = "rotateLinkKey";
    const GROUP: &'static str = "deployment";
    const SUMMARY: &'static str = "Makes a new key the one that signs approval links.";
    const ANSWERS: &'static str = "All servers of the deployment sign with it from now on.";
    const ABOUT: &'static str = "The key itself is made by the server and never shown.";
    const INPUT: Input = Input::OptionalBody;
}

/// Which key signs links.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LinkKeyRotated {
    /// Its id.
    pub kid: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_is_not_shown() {
        assert_eq!(format!("{:?}", LinkText("canary".to_owned())), "LinkText(6 characters)");
    }
}
