//! What the holder of a lease says about its execution.

use ff_core::backend::{FailOutcome, FailureClass, FailureReason, Handle, LeaseRenewal};
use ff_core::contracts::{ChildrenAdded, Completion, GraphTask};
use ff_core::engine_backend::{Answer, Tasks};
use ff_core::error::EngineError;
use ff_core::types::Moment;
use futures_core::future::BoxFuture;

use super::next_task::fail_outcome;
use super::{ScriptBackend, held};
use crate::call::Call;
use crate::calls::cancel::CancelExecution;
use crate::calls::complete::CompleteExecution;
use crate::calls::fail::{FailExecution, FailExecutionReply};
use crate::calls::lease::{RenewLease, RenewLeaseReply};
use crate::calls::pause::{DelayExecution, MoveToWaitingChildren};
use crate::calls::progress::UpdateProgress;
use crate::host::Host;

impl<H: Host + ?Sized> Tasks for ScriptBackend<H> {
    fn renew<'a>(&'a self, handle: &'a Handle) -> Answer<'a, LeaseRenewal> {
        Box::pin(async move {
            let call = held!(handle, RenewLease { lease_ttl_ms: handle.lease_ttl_ms });
            let RenewLeaseReply::Renewed { lease_expires_at, lease_epoch, budgets_reached } =
                self.call_on(handle.execution_id, call).await?;
            let budgets_reached = budgets_reached.0;
            Ok(LeaseRenewal { expires_at: lease_expires_at, lease_epoch, budgets_reached })
        })
    }

    fn progress<'a>(
        &'a self,
        handle: &'a Handle,
        percent: Option<u8>,
        message: Option<String>,
    ) -> Answer<'a, ()> {
        let call = held!(
            handle,
            UpdateProgress {
                progress_pct: percent.map(|percent| percent.to_string()).unwrap_or_default(),
                progress_message: message.unwrap_or_default(),
            }
        );
        self.say(handle, call)
    }

    fn complete<'a>(&'a self, handle: &'a Handle, result: Option<Vec<u8>>) -> Answer<'a, ()> {
        self.say(handle, held!(handle, CompleteExecution { result: result.unwrap_or_default() }))
    }

    fn complete_many(
        &self,
        completions: Vec<Completion>,
    ) -> BoxFuture<'_, Vec<Result<(), EngineError>>> {
        Box::pin(self.complete_all(completions))
    }

    fn fail<'a>(
        &'a self,
        handle: &'a Handle,
        reason: FailureReason,
        class: FailureClass,
    ) -> Answer<'a, FailOutcome> {
        Box::pin(async move {
            reason.validate()?;
            class.validate()?;
            let call = held!(
                handle,
                FailExecution {
                    failure_reason: reason.message,
                    failure_category: class.category().to_owned(),
                    failure_detail: reason.detail.unwrap_or_default(),
                    is_final: class.is_final(),
                }
            );
            let (FailExecutionReply::Failed { delay_until, .. }
            | FailExecutionReply::FailedBefore { delay_until, .. }) =
                self.call_on(handle.execution_id, call).await?;
            Ok(fail_outcome(delay_until))
        })
    }

    fn cancel<'a>(&'a self, handle: &'a Handle, reason: &'a str) -> Answer<'a, ()> {
        let call = CancelExecution {
            execution_id: handle.execution_id,
            lease_id: Some(handle.fence.lease_id),
            lease_epoch: Some(handle.fence.lease_epoch),
            attempt_id: Some(handle.fence.attempt_id),
            reason: reason.to_owned(),
            source: "lease_holder".to_owned(),
            request_id: None,
        };
        self.say(handle, call)
    }

    fn delay<'a>(&'a self, handle: &'a Handle, delay_until: Moment) -> Answer<'a, ()> {
        self.say(handle, held!(handle, DelayExecution { delay_until }))
    }

    fn add_children<'a>(
        &'a self,
        handle: &'a Handle,
        tasks: Vec<GraphTask>,
    ) -> Answer<'a, ChildrenAdded> {
        Box::pin(self.send_children(handle, tasks))
    }

    fn wait_children<'a>(&'a self, handle: &'a Handle) -> Answer<'a, ()> {
        self.say(handle, held!(handle, MoveToWaitingChildren {}))
    }
}

impl<H: Host + ?Sized> ScriptBackend<H> {
    /// A call whose answer says no more than that it was done.
    fn say<'a, C: Call + 'a>(&'a self, handle: &Handle, call: C) -> Answer<'a, ()>
    where
        C::Reply: Send,
    {
        let sent = self.call_on(handle.execution_id, call);
        Box::pin(async move { sent.await.map(drop) })
    }
}
