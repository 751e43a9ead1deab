//! Flows: what only HTTP needs.

use ff_core::contracts::{CancelFlow, CancelFlowPolicy, CancelFlowResult};
use ff_core::operation::{Input, Operation};
use ff_core::types::FlowId;
use serde::{Deserialize, Serialize};

use crate::ToSchema;

/// Cancels a flow, and waits for its end if that is asked for.
#[serde_with_macros::skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CancelFlowRequest {
    /// Which members are cancelled; all if absent.
    pub cancellation_policy: Option<CancelFlowPolicy>,
    /// Why, for a person.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schema(max_length = 4096)]
    pub reason: String,
    /// How long to wait until nothing of it runs any more; 0 if absent.
    #[serde(default)]
    #[schema(value_type = ff_core::schema::WaitMs)]
    pub wait_ms: u64,
}

impl CancelFlowRequest {
    /// A cancel that is not waited for.
    pub fn at_once(CancelFlow { cancellation_policy, reason }: CancelFlow) -> Self {
        Self { cancellation_policy, reason, wait_ms: 0 }
    }

    /// What the store is asked to do.
    pub fn into_cancel(self) -> CancelFlow {
        CancelFlow { cancellation_policy: self.cancellation_policy, reason: self.reason }
    }
}

impl Operation for CancelFlowRequest {
    type Target = FlowId;
    type Request = Self;
    type Reply = CancelFlowResult;

    const PATH: &'static str = "/v1/flows/{flow_id}/cancel";
    const NAME: &'static str = "cancelFlow";
    const SUMMARY: &'static str = "Cancels a flow.";
    const ANSWERS: &'static str =
        "It is cancelled, and so are its members, at once or in a moment.";
    const ABOUT: &'static str = "Nothing of it is claimed from this moment on. What is left of its \
        members is cancelled in steps that survive any crash; a repetition tells how far that is, \
        and the receipt what became of each.";
    const INPUT: Input = Input::OptionalBody;
    const WAITS: bool = true;
}
