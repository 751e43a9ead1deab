//! Cancelled flows, and what became of their members.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::ToSchema;
use crate::argument::check_bytes;
use crate::error::EngineError;
use crate::limits;
use crate::literal::literals;
use crate::operation::{Input, Method, Operation};
use crate::state::PublicState;
use crate::types::{ExecutionId, FlowId, TimestampMs};

literals! {
    /// Which members a cancelled flow cancels.
    CancelFlowPolicy("cancellation policy") {
        /// All.
        CancelAll = "cancel_all",
        /// Those without an attempt; the others run to their end.
        CancelPending = "cancel_pending",
        /// None: the flow takes no more members, and the rest goes on.
        FlowOnly = "flow_only",
    }

    /// What a cancel meant for a member.
    MemberFate("fate of a member") {
        /// It was cancelled, and nobody was at it.
        Stopped = "stopped",
        /// It was cancelled while it ran: its worker may not know of it before its lease is over.
        Fenced = "fenced",
        /// It had ended before.
        HadEnded = "had_ended",
        /// It is none of those that are cancelled.
        RunsOn = "runs_on",
        /// It is still to be cancelled.
        Owed = "owed",
        /// It could not be cancelled: what is stored of it cannot be read.
        Stuck = "stuck",
    }
}

/// Cancels a flow.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CancelFlow {
    /// Which members are cancelled; all if absent.
    pub cancellation_policy: Option<CancelFlowPolicy>,
    /// Why, for a person.
    pub reason: String,
}

impl CancelFlow {
    /// Checks what the types do not already hold.
    pub fn validate(&self) -> Result<(), EngineError> {
        check_bytes("reason", self.reason.len(), limits::REASON_BYTES_MAX)
    }
}

/// How long who cancels a flow waits until nothing of it runs any more.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CancelFlowWait {
    /// Not at all.
    #[default]
    NoWait,
    /// So long at most.
    WaitTimeout(Duration),
    /// For as long as it takes.
    WaitIndefinite,
}

/// The answer to a cancel. A repetition tells how far it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "status", rename_all = "snake_case")]
pub enum CancelFlowResult {
    /// All that are to be cancelled are.
    Cancelled {
        /// Which members are cancelled.
        cancellation_policy: CancelFlowPolicy,
        /// How many members the flow has.
        member_count: u32,
    },
    /// Some are still to be cancelled, which happens by itself.
    CancellationScheduled {
        /// Which members are cancelled.
        cancellation_policy: CancelFlowPolicy,
        /// How many members the flow has.
        member_count: u32,
    },
    /// All are but some that could not be.
    PartiallyCancelled {
        /// Which members are cancelled.
        cancellation_policy: CancelFlowPolicy,
        /// How many members the flow has.
        member_count: u32,
        /// How many could not be cancelled; the receipt names them.
        stuck_count: u32,
    },
}

impl CancelFlowResult {
    /// The answer from what the store tells.
    pub const fn new(
        cancellation_policy: CancelFlowPolicy,
        member_count: u32,
        done: bool,
        stuck_count: u32,
    ) -> Self {
        match (done, stuck_count) {
            (false, _) => Self::CancellationScheduled { cancellation_policy, member_count },
            (true, 0) => Self::Cancelled { cancellation_policy, member_count },
            _ => Self::PartiallyCancelled { cancellation_policy, member_count, stuck_count },
        }
    }

    /// How many members the flow has.
    pub const fn member_count(&self) -> u32 {
        match self {
            Self::Cancelled { member_count, .. }
            | Self::CancellationScheduled { member_count, .. }
            | Self::PartiallyCancelled { member_count, .. } => *member_count,
        }
    }

    /// Is nothing left that is still to be cancelled by itself?
    pub const fn is_done(&self) -> bool {
        !matches!(self, Self::CancellationScheduled { .. })
    }
}

/// Which part of a receipt to read.
#[serde_with_macros::skip_serializing_none]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CancelReceiptQuery {
    /// Only members for whom the cancel meant this.
    pub fate: Option<MemberFate>,
    /// Where to go on: `next_from` of the page before.
    #[schema(maximum = 100_000)]
    pub from: Option<u64>,
    /// How many to look at; 100 if absent.
    #[schema(value_type = Option<crate::schema::PageLimit>)]
    pub limit: Option<u32>,
}

impl Operation for CancelReceiptQuery {
    type Target = FlowId;
    type Request = Self;
    type Reply = CancelReceipt;

    const METHOD: Method = Method::Get;
    const PATH: &'static str = "/v1/flows/{flow_id}/cancel/receipt";
    const NAME: &'static str = "readCancelReceipt";
    const SUMMARY: &'static str = "Tells what a cancel meant for each member of a flow.";
    const ANSWERS: &'static str = "The members in the order in which they came.";
    const ABOUT: &'static str = "Which were stopped, had ended, run on, or are fenced and may still \
        be running somewhere, and until when. A repetition answers the same once all are cancelled.";
    const REFUSES: &'static [u16] = &[404, 409];
}

/// What a cancel meant for the members of a flow, or some of them.
#[serde_with_macros::skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CancelReceipt {
    /// Which members are cancelled.
    pub cancellation_policy: CancelFlowPolicy,
    /// When the flow was cancelled.
    pub cancelled_at: TimestampMs,
    /// False while members are still to be cancelled.
    pub done: bool,
    /// How many members could not be.
    pub stuck_count: u32,
    /// The members.
    pub members: Vec<CancelledMember>,
    /// Where to go on, if there may be more.
    pub next_from: Option<u64>,
}

/// What a cancel meant for a member.
#[serde_with_macros::skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CancelledMember {
    /// The execution.
    pub execution_id: ExecutionId,
    /// Its name in the flow.
    pub name: Option<String>,
    /// Its number in the flow.
    pub ordinal: u64,
    /// What the cancel meant for it.
    pub fate: MemberFate,
    /// Where it stands; none if that cannot be read.
    pub public_state: Option<PublicState>,
    /// When it ended.
    pub completed_at: Option<TimestampMs>,
    /// Until when its worker may not know of the cancel.
    pub fenced_until: Option<TimestampMs>,
}

/// Tries members again that could not be dealt with.
#[serde_with_macros::skip_serializing_none]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RetryStuck {
    /// Where to go on: `next_from` of the answer before.
    #[schema(maximum = 100_000)]
    pub from: Option<u64>,
}

impl Operation for RetryStuck {
    type Target = FlowId;
    type Request = Self;
    type Reply = StuckRetried;

    const PATH: &'static str = "/v1/flows/{flow_id}/cancel/retry";
    const NAME: &'static str = "retryStuckMembers";
    const SUMMARY: &'static str = "Tries members of a flow again that could not be cancelled.";
    const ANSWERS: &'static str = "They were tried.";
    const ABOUT: &'static str = "A member whose record cannot be read does not hold up the others: \
        it is stuck until somebody mended it and tries it again.";
    const INPUT: Input = Input::OptionalBody;
    const REFUSES: &'static [u16] = &[404];
}

/// What became of members that were tried again.
#[serde_with_macros::skip_serializing_none]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct StuckRetried {
    /// How many were tried.
    pub tried_count: u32,
    /// How many of them are not stuck any more.
    pub settled_count: u32,
    /// How many are stuck now.
    pub stuck_count: u32,
    /// Where to go on, if there may be more.
    pub next_from: Option<u64>,
}
