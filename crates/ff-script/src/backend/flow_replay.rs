//! Failed members of a flow run again: one after the other, each by the function that replays any
//! execution, which alone decides whether it may.

use ff_core::contracts::{
    FailedReplayed, FlowMember, MemberQuery, ReplayExecution, ReplayFailed, ReplayRefused,
};
use ff_core::engine_backend::{Executions as _, Flows as _};
use ff_core::error::{Code, EngineError};
use ff_core::state::PublicState;
use ff_core::types::{ExecutionId, FlowId, RequestId};
use uuid::Uuid;

use super::ScriptBackend;
use super::executions::named;
use crate::host::Host;

/// The ends that are failures of the member itself.
const FAILED: [PublicState; 3] =
    [PublicState::Failed, PublicState::Expired, PublicState::Cancelled];

/// Refusals of members that need no replay of their own: an upstream comes first, or one that was
/// replayed before let it wait again.
const NO_ROOTS: [Code; 2] = [Code::DepsNotSatisfied, Code::ExecutionNotTerminal];

/// Refusals that are the flow's.
const OF_FLOW: [Code; 2] = [Code::FlowCancelled, Code::FlowAlreadyTerminal];

impl<H: Host + ?Sized> ScriptBackend<H> {
    pub(super) async fn replay_some(
        &self,
        flow_id: FlowId,
        mut request: ReplayFailed,
    ) -> Result<FailedReplayed, EngineError> {
        request.validate()?;
        request.request_id = named(request.request_id);
        let query = MemberQuery { state: None, from: request.from, limit: request.limit };
        let page = self.list_members(flow_id, query).await?;
        let mut told = FailedReplayed { next_from: page.next_from, ..FailedReplayed::default() };
        for member in page.members.into_iter().filter(is_failed) {
            let id = member.execution_id;
            match self.replay(id, replay_of(id, &request)).await {
                Ok(_) => told.replayed.push(id),
                Err(error) => told.refused.extend(refusal(id, error)?),
            }
        }
        Ok(told)
    }
}

fn is_failed(member: &FlowMember) -> bool {
    FAILED.contains(&member.public_state)
}

/// Every member has a request id of its own, the same in each repetition.
fn replay_of(id: ExecutionId, request: &ReplayFailed) -> ReplayExecution {
    let own = |whole: RequestId| {
        RequestId::from_uuid(Uuid::new_v5(&whole.as_uuid(), id.uuid().as_bytes()))
    };
    ReplayExecution {
        reason: request.reason.clone(),
        requested_by: request.requested_by.clone(),
        downstream: request.downstream,
        request_id: request.request_id.map(own),
    }
}

/// What a refusal of one member means for the whole: nothing, a line of the answer, or its end.
fn refusal(
    execution_id: ExecutionId,
    error: EngineError,
) -> Result<Option<ReplayRefused>, EngineError> {
    match error.code() {
        Some(code) if NO_ROOTS.contains(&code) => Ok(None),
        Some(code) if !OF_FLOW.contains(&code) => {
            Ok(Some(ReplayRefused { execution_id, code: code.as_str().to_owned() }))
        }
        _ => Err(error),
    }
}
