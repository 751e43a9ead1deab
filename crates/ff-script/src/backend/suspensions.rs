//! What the holder of a lease does about waiting.

use ff_core::backend::Handle;
use ff_core::contracts::{
    CreateWaitpoint, PendingWaitpoint, ResumeSignal, SuspendOutcome, SuspendRequest,
};
use ff_core::engine_backend::{Answer, Suspensions};
use ff_core::error::EngineError;
use ff_core::limits;
use ff_core::types::{SuspensionId, WaitpointId};

use super::{ScriptBackend, held};
use crate::calls::suspend::{
    ReadResumeSignals, ReadResumeSignalsReply, SuspendExecution, SuspendExecutionReply,
};
use crate::calls::waitpoint::{
    CloseWaitpoint, CreatePendingWaitpoint, CreatePendingWaitpointReply,
};
use crate::host::Host;
use crate::ids::{IdSource, SystemIds};

impl<H: Host + ?Sized> Suspensions for ScriptBackend<H> {
    fn suspend<'a>(
        &'a self,
        handle: &'a Handle,
        request: SuspendRequest,
    ) -> Answer<'a, SuspendOutcome> {
        Box::pin(async move {
            request.validate()?;
            let call = encode(handle, request)?;
            self.call_signed(handle.execution_id, call).await?.try_into()
        })
    }

    fn create_waitpoint<'a>(
        &'a self,
        handle: &'a Handle,
        request: CreateWaitpoint,
    ) -> Answer<'a, PendingWaitpoint> {
        Box::pin(async move {
            request.validate()?;
            let call = held!(
                handle,
                CreatePendingWaitpoint {
                    waitpoint_id: request.waitpoint_id.unwrap_or_else(new_waitpoint),
                    waitpoint_key: request.waitpoint_key,
                    expires_in_ms: request.expires_in_ms,
                }
            );
            use CreatePendingWaitpointReply::{Opened, OpenedBefore};
            let (Opened { waitpoint_id, waitpoint_token, expires_at, .. }
            | OpenedBefore { waitpoint_id, waitpoint_token, expires_at, .. }) =
                self.call_signed(handle.execution_id, call).await?;
            Ok(PendingWaitpoint { waitpoint_id, hmac_token: waitpoint_token.into(), expires_at })
        })
    }

    fn close_waitpoint<'a>(
        &'a self,
        handle: &'a Handle,
        waitpoint_id: WaitpointId,
        reason: &'a str,
    ) -> Answer<'a, ()> {
        Box::pin(async move {
            let call =
                held!(handle, CloseWaitpoint { waitpoint_id, reason: Some(reason.to_owned()) });
            self.call_on(handle.execution_id, call).await.map(drop)
        })
    }

    fn observe_signals<'a>(&'a self, handle: &'a Handle) -> Answer<'a, Vec<ResumeSignal>> {
        Box::pin(async move {
            let (mut all, mut from) = (Vec::new(), None);
            loop {
                let call = held!(
                    handle,
                    ReadResumeSignals { from, bytes_max: limits::RESUME_SIGNALS_BYTES_MAX }
                );
                let ReadResumeSignalsReply::Signals { next_from, signals, .. } =
                    self.call_on(handle.execution_id, call).await?;
                all.extend(signals);
                if next_from.is_none() {
                    return Ok(all);
                }
                from = next_from;
            }
        })
    }
}

fn new_waitpoint() -> WaitpointId {
    WaitpointId::from_uuid(SystemIds.random())
}

fn encode(handle: &Handle, request: SuspendRequest) -> Result<SuspendExecution, EngineError> {
    let pending = request.pending_waitpoint_id;
    let new_suspension = || SuspensionId::from_uuid(SystemIds.random());
    Ok(held!(
        handle,
        SuspendExecution {
            suspension_id: request.suspension_id.unwrap_or_else(new_suspension),
            waitpoint_id: pending.or(request.waitpoint_id).unwrap_or_else(new_waitpoint),
            waitpoint_key: request.waitpoint_key,
            reason_code: request.reason,
            requested_by: request.requested_by,
            timeout_ms: request.timeout_ms,
            timeout_behavior: request.timeout_behavior,
            resume_condition_json: request.condition.to_json(request.allow_operator_override)?,
            resume_delay_ms: (request.resume_delay_ms > 0).then_some(request.resume_delay_ms),
            details: request.details_json.unwrap_or_default(),
            use_pending_waitpoint: pending.is_some(),
            approval: request.approval.map_or(Ok(String::new()), |asked| asked.to_json())?,
        }
    ))
}

impl TryFrom<SuspendExecutionReply> for SuspendOutcome {
    type Error = EngineError;

    fn try_from(reply: SuspendExecutionReply) -> Result<Self, EngineError> {
        use SuspendExecutionReply::{Satisfied, Suspended, SuspendedBefore};
        Ok(match reply {
            Suspended { suspension_id, waitpoint_id, waitpoint_key, waitpoint_token }
            | SuspendedBefore { suspension_id, waitpoint_id, waitpoint_key, waitpoint_token } => {
                Self::Suspended { suspension_id, waitpoint_id, waitpoint_key, waitpoint_token }
            }
            Satisfied { suspension_id, waitpoint_id, waitpoint_key, waitpoint_token, resume } => {
                let missing = || EngineError::corrupt("ff_suspend_execution", "resume", "");
                Self::AlreadySatisfied {
                    suspension_id,
                    waitpoint_id,
                    waitpoint_key,
                    waitpoint_token,
                    resumption: resume.ok_or_else(missing)?,
                }
            }
        })
    }
}
