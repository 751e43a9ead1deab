//! Signals, and what people and programs outside do about waiting executions.

use std::sync::Arc;

use ff_core::argument::check_payload;
use ff_core::contracts::{
    ApprovalList, DeliverSignal, ExecutionState, ListSuspended, ListSuspendedPage, OpenWaitpoints,
    ResumeExecution, RotateWaitpointSecretRequest, RotateWaitpointSecretResponse, SignalOutcome,
};
use ff_core::engine_backend::{Answer, Signals};
use ff_core::error::{Code, EngineError};
use ff_core::limits;
use ff_core::partition::PartitionFamily;
use ff_core::types::{ExecutionId, SignalId};

use super::ScriptBackend;
use super::executions::named;
use super::pages::Span;
use super::secrets::rotate_waitpoint_hmac_secret_all_partitions;
use crate::calls;
use crate::calls::signal::DeliverSignalReply;
use crate::calls::suspend::ResumeExecutionReply;
use crate::calls::waitpoint::{ListPendingWaitpoints, ListPendingWaitpointsReply};
use crate::calls::waits::ListSuspendedReply;
use crate::host::Host;
use crate::ids::{IdSource, SystemIds};

impl<H: Host + ?Sized> Signals for ScriptBackend<H> {
    fn deliver_signal(
        &self,
        execution_id: ExecutionId,
        request: DeliverSignal,
    ) -> Answer<'_, SignalOutcome> {
        Box::pin(async move {
            request.check_source()?;
            self.deliver(execution_id, request).await
        })
    }

    fn resume_execution(
        &self,
        execution_id: ExecutionId,
        request: ResumeExecution,
    ) -> Answer<'_, ExecutionState> {
        Box::pin(async move {
            request.validate()?;
            let call = calls::suspend::ResumeExecution {
                execution_id,
                requested_by: request.requested_by,
                resume_delay_ms: request.resume_delay_ms,
                request_id: named(request.request_id),
            };
            let (ResumeExecutionReply::Resumed { public_state }
            | ResumeExecutionReply::ResumedBefore { public_state }) =
                self.call_on(execution_id, call).await?;
            Ok(ExecutionState { execution_id, public_state })
        })
    }

    fn pending_waitpoints(&self, execution_id: ExecutionId) -> Answer<'_, OpenWaitpoints> {
        Box::pin(async move {
            let call = ListPendingWaitpoints { execution_id };
            let ListPendingWaitpointsReply::Waitpoints { waitpoints } =
                self.call_signed(execution_id, call).await?;
            Ok(OpenWaitpoints { waitpoints: waitpoints.0 })
        })
    }

    fn list_approvals(&self, execution_id: ExecutionId) -> Answer<'_, ApprovalList> {
        Box::pin(self.approvals_of(execution_id))
    }

    fn list_suspended(&self, query: ListSuspended) -> Answer<'_, ListSuspendedPage> {
        Box::pin(async move {
            let limit = query.checked_limit()?;
            let (family, partition) = (PartitionFamily::Flow, query.partition);
            let span = Span { family, partition, cursor: query.cursor, limit };
            let call = |cursor, limit| calls::waits::ListSuspended { cursor, limit };
            let open =
                |ListSuspendedReply::Page { suspended, next_cursor }| (suspended.0, next_cursor);
            let (entries, next_cursor) = self.list_from(span, call, open).await?;
            Ok(ListSuspendedPage { entries, next_cursor })
        })
    }

    fn rotate_waitpoint_secret(
        &self,
        request: RotateWaitpointSecretRequest,
    ) -> Answer<'_, RotateWaitpointSecretResponse> {
        Box::pin(async move {
            let grace_ms = request.grace_ms.unwrap_or(self.secrets.grace_ms);
            let host = Arc::clone(&self.host);
            rotate_waitpoint_hmac_secret_all_partitions(host, &self.config, request, grace_ms).await
        })
    }
}

impl<H: Host + ?Sized> ScriptBackend<H> {
    /// Delivers a signal from whomever.
    pub(super) async fn deliver(
        &self,
        execution_id: ExecutionId,
        mut request: DeliverSignal,
    ) -> Result<SignalOutcome, EngineError> {
        request.validate()?;
        let payload = request.payload()?.unwrap_or_default();
        check_payload(payload.len(), limits::SIGNAL_PAYLOAD_BYTES_MAX)?;
        let new_signal = || SignalId::from_uuid(SystemIds.random());
        let call = calls::signal::DeliverSignal {
            execution_id,
            waitpoint_id: request.waitpoint_id,
            waitpoint_key: request.waitpoint_key,
            signal_id: request.signal_id.unwrap_or_else(new_signal),
            signal_name: request.signal_name,
            signal_category: request.signal_category,
            source_type: request.source_type,
            source_identity: request.source_identity,
            payload,
            payload_encoding: request.payload_encoding,
            idempotency_key: request.idempotency_key,
            correlation_id: request.correlation_id,
            waitpoint_token: request.waitpoint_token,
        };
        Ok(match self.call_on(execution_id, call).await.map_err(hide_place)? {
            DeliverSignalReply::Delivered { signal_id, effect } => {
                SignalOutcome::of_effect(signal_id, effect)
            }
            DeliverSignalReply::DeliveredBefore { signal_id } => {
                SignalOutcome::Duplicate { existing_signal_id: signal_id }
            }
        })
    }
}

/// A partition that never signed anything knows no waitpoint: it says so as any other.
fn hide_place(error: EngineError) -> EngineError {
    if error.code() == Some(Code::HmacSecretNotInitialized) {
        return EngineError::refused(Code::InvalidToken);
    }
    error
}
