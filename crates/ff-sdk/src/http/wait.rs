//! Waiting and signalling as requests.

use ff_api::wait::{CloseWaitpointTask, ObserveSignalsTask, OpenWaitpointTask, SuspendTask};
use ff_core::backend::Handle;
use ff_core::contracts::{
    CreateWaitpoint, DeliverSignal, ListApprovals, ListSuspended, PendingWaitpoint,
    PendingWaitpoints, ResumeExecution, ResumeSignal, RotateWaitpointSecretRequest, SignalOutcome,
    SuspendOutcome, SuspendRequest,
};
use ff_core::engine_backend::{Answer, Signals, Suspensions};
use ff_core::operation::Nothing;
use ff_core::types::{ExecutionId, SignalId, SuspensionId, WaitpointId};
use ff_script::ids::{IdSource, SystemIds};

use super::HttpBackend;
use super::engine::{Target, Told, name, sends, token};

fn new_waitpoint() -> WaitpointId {
    WaitpointId::from_uuid(SystemIds.random())
}

/// What the caller did not name is named here, so that all sends of a request are one.
impl Suspensions for HttpBackend {
    fn suspend<'a>(
        &'a self,
        handle: &'a Handle,
        mut suspension: SuspendRequest,
    ) -> Answer<'a, SuspendOutcome> {
        let new_suspension = || SuspensionId::from_uuid(SystemIds.random());
        suspension.suspension_id.get_or_insert_with(new_suspension);
        if suspension.pending_waitpoint_id.is_none() {
            suspension.waitpoint_id.get_or_insert_with(new_waitpoint);
        }
        let request = SuspendTask { task_token: token(handle), suspension };
        self.send::<SuspendTask>(Nothing {}, request)
    }

    fn create_waitpoint<'a>(
        &'a self,
        handle: &'a Handle,
        mut waitpoint: CreateWaitpoint,
    ) -> Answer<'a, PendingWaitpoint> {
        waitpoint.waitpoint_id.get_or_insert_with(new_waitpoint);
        let request = OpenWaitpointTask { task_token: token(handle), waitpoint };
        self.send::<OpenWaitpointTask>(Nothing {}, request)
    }

    fn close_waitpoint<'a>(
        &'a self,
        handle: &'a Handle,
        waitpoint_id: WaitpointId,
        reason: &'a str,
    ) -> Answer<'a, ()> {
        let reason = reason.to_owned();
        let request = CloseWaitpointTask { task_token: token(handle), waitpoint_id, reason };
        self.tell::<CloseWaitpointTask>(request)
    }

    fn observe_signals<'a>(&'a self, handle: &'a Handle) -> Answer<'a, Vec<ResumeSignal>> {
        let request = ObserveSignalsTask { task_token: token(handle) };
        let observed = self.send::<ObserveSignalsTask>(Nothing {}, request);
        Box::pin(async move { observed.await.map(|observed| observed.signals) })
    }
}

impl Signals for HttpBackend {
    sends! {
        resume_execution(on, named): ResumeExecution;
        pending_waitpoints(on): PendingWaitpoints;
        list_approvals(on): ListApprovals;
        list_suspended(it): ListSuspended;
        rotate_waitpoint_secret(it): RotateWaitpointSecretRequest;
    }

    fn deliver_signal(
        &self,
        id: ExecutionId,
        mut request: DeliverSignal,
    ) -> Answer<'_, SignalOutcome> {
        request.signal_id.get_or_insert_with(|| SignalId::from_uuid(SystemIds.random()));
        self.send::<DeliverSignal>(id, request)
    }
}
