//! What a worker does about waiting. Every request carries the task's token, in the body or in the
//! `FlowFabric-Task` header.

use ff_core::contracts::{
    CreateWaitpoint, PendingWaitpoint, ResumeSignal, SuspendOutcome, SuspendRequest,
};
use ff_core::limits;
use ff_core::operation::{Input, Nothing, Operation};
#[cfg(feature = "openapi")]
use ff_core::schema;
use ff_core::types::WaitpointId;
use serde::{Deserialize, Serialize};

use crate::ToSchema;

/// Gives the execution back until its wait is over; then the same attempt goes on, with any worker.
#[serde_with_macros::skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SuspendTask {
    /// The task, unless the header names it.
    pub task_token: Option<String>,
    /// What is waited for.
    pub suspension: SuspendRequest,
}

impl Operation for SuspendTask {
    type Target = Nothing;
    type Request = Self;
    type Reply = SuspendOutcome;

    const PATH: &'static str = "/v1/tasks/suspend";
    const NAME: &'static str = "suspendTask";
    const SUMMARY: &'static str = "Gives a task back until signals, an operator or a time say so.";
    const ANSWERS: &'static str = "It is given back, or the signals that came before are enough.";
    const ABOUT: &'static str = "A repetition with the same suspension id is recognised. If the \
        signals that came before are enough, the task is kept and its lease goes on.";
    /// Quotes and backslashes may double the details.
    const BODY_BYTES_MAX: usize = 4 * limits::WAIT_DETAILS_BYTES_MAX as usize;
}

/// Opens a waitpoint, so that signals can come before the task is suspended on it.
#[serde_with_macros::skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct OpenWaitpointTask {
    /// The task, unless the header names it.
    pub task_token: Option<String>,
    /// The waitpoint.
    pub waitpoint: CreateWaitpoint,
}

impl Operation for OpenWaitpointTask {
    type Target = Nothing;
    type Request = Self;
    type Reply = PendingWaitpoint;

    const PATH: &'static str = "/v1/tasks/waitpoints";
    const NAME: &'static str = "openWaitpointTask";
    const SUMMARY: &'static str = "Opens a waitpoint before the task is suspended on it.";
    const ANSWERS: &'static str = "It is open. The token is a credential.";
}

/// Closes a waitpoint that the task will not be suspended on.
#[serde_with_macros::skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CloseWaitpointTask {
    /// The task, unless the header names it.
    pub task_token: Option<String>,
    /// The waitpoint.
    pub waitpoint_id: WaitpointId,
    /// Why, in a word.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schema(value_type = schema::CloseReason)]
    pub reason: String,
}

impl Operation for CloseWaitpointTask {
    type Target = Nothing;
    type Request = Self;
    type Reply = Nothing;

    const PATH: &'static str = "/v1/tasks/waitpoints/close";
    const NAME: &'static str = "closeWaitpointTask";
    const SUMMARY: &'static str = "Closes a waitpoint that the task will not be suspended on.";
    const ANSWERS: &'static str = "It is closed.";
}

/// Reads the signals that ended the latest wait of the task's execution.
#[serde_with_macros::skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ObserveSignalsTask {
    /// The task, unless the header names it.
    pub task_token: Option<String>,
}

impl Operation for ObserveSignalsTask {
    type Target = Nothing;
    type Request = Self;
    type Reply = ObservedSignals;

    const PATH: &'static str = "/v1/tasks/signals";
    const NAME: &'static str = "observeSignalsTask";
    const SUMMARY: &'static str = "The signals that ended the latest wait of a task's execution.";
    const ANSWERS: &'static str = "The signals, in their order.";
    const INPUT: Input = Input::OptionalBody;
}

/// The signals that ended a wait.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ObservedSignals {
    /// The signals, in their order.
    pub signals: Vec<ResumeSignal>,
}
