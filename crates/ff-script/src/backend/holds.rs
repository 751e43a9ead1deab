//! Keeping single executions from being claimed.

use ff_core::contracts::{ExecutionState, HoldExecution, ListHeld, ListHeldPage, ReleaseExecution};
use ff_core::engine_backend::{Answer, Holds};
use ff_core::partition::PartitionFamily;
use ff_core::types::ExecutionId;

use super::ScriptBackend;
use super::executions::named;
use super::pages::Span;
use crate::calls;
use crate::calls::hold::{HoldExecutionReply, ListHeldReply, ReleaseExecutionReply};
use crate::host::Host;

impl<H: Host + ?Sized> Holds for ScriptBackend<H> {
    fn hold_execution(
        &self,
        execution_id: ExecutionId,
        request: HoldExecution,
    ) -> Answer<'_, ExecutionState> {
        Box::pin(async move {
            request.validate()?;
            let call = calls::hold::HoldExecution {
                execution_id,
                requested_by: request.requested_by,
                reason: request.reason,
                request_id: named(request.request_id),
            };
            let (HoldExecutionReply::Held { public_state }
            | HoldExecutionReply::HeldBefore { public_state }) =
                self.call_on(execution_id, call).await?;
            Ok(ExecutionState { execution_id, public_state })
        })
    }

    fn release_execution(
        &self,
        execution_id: ExecutionId,
        request: ReleaseExecution,
    ) -> Answer<'_, ExecutionState> {
        Box::pin(async move {
            request.validate()?;
            let call = calls::hold::ReleaseExecution {
                execution_id,
                requested_by: request.requested_by,
                request_id: named(request.request_id),
            };
            let (ReleaseExecutionReply::Released { public_state }
            | ReleaseExecutionReply::NotHeld { public_state }) =
                self.call_on(execution_id, call).await?;
            Ok(ExecutionState { execution_id, public_state })
        })
    }

    fn list_held(&self, query: ListHeld) -> Answer<'_, ListHeldPage> {
        Box::pin(async move {
            let limit = query.checked_limit()?;
            let (family, partition) = (PartitionFamily::Flow, query.partition);
            let span = Span { family, partition, cursor: query.cursor, limit };
            let call = |cursor, limit| calls::hold::ListHeld { cursor, limit };
            let listed = self.list_from(span, call, |ListHeldReply::Page { held, next_cursor }| {
                (held.0, next_cursor)
            });
            let (entries, next_cursor) = listed.await?;
            Ok(ListHeldPage { entries, next_cursor })
        })
    }
}
