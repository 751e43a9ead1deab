//! A worker's entry in the registry: made at the start, kept alive by one heartbeat, taken off at
//! the end.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use ff_core::contracts::{
    Disconnect, Heartbeat, KindOutcome, KindsRegistered, RegisterKinds, WorkerRegistration,
};
use ff_core::engine_backend::EngineBackend;
use ff_core::error::{Code, EngineError};
use ff_core::limits;
use ff_core::policy::ExecutionPolicy;
use ff_core::types::{ExecutionId, ExecutionKind, ExecutionRef, TimestampMs};
use tokio::time::{Instant, sleep, timeout};

use super::{Shared, WorkerStatus, process};
use crate::error::{Context as _, SdkError};

/// Makes the worker known. Refuses if a live process has its instance id; one of this machine that
/// is gone is replaced, and its leases are handed back.
pub(super) async fn register(shared: &Shared) -> Result<(), SdkError> {
    let registered = match try_register(shared, shared.engine(), None).await {
        Err(error) => match gone(&error) {
            Some(former) => {
                let instance = shared.config.worker_instance_id.as_str();
                tracing::info!(instance, former, "the process before is gone; taking its place");
                try_register(shared, shared.engine(), Some(former)).await
            }
            None => Err(error),
        },
        registered => registered,
    };
    match registered {
        Err(error) if error.code() == Some(Code::WorkerInstanceInUse) => {
            let instance = shared.config.worker_instance_id.as_str();
            let message = format!("{instance:?} belongs to another live process: {error}");
            Err(SdkError::config("worker_connect", "worker_instance_id", message))
        }
        Err(error) => Err(error.in_context("register_worker").into()),
        Ok(()) => Ok(()),
    }
}

/// Tells the defaults of the worker's kinds.
pub(super) async fn register_kinds(
    shared: &Shared,
    kinds: BTreeMap<ExecutionKind, ExecutionPolicy>,
) -> Result<KindsRegistered, SdkError> {
    let request = RegisterKinds {
        worker_instance_id: shared.config.worker_instance_id.clone(),
        started_ms_ago: u64::try_from(shared.started.elapsed().as_millis()).unwrap_or(u64::MAX),
        kinds,
    };
    let registered = shared.engine().register_kinds(request).await.context("register_kinds")?;
    for (kind, outcome) in &registered.kinds {
        if matches!(outcome, KindOutcome::Newer | KindOutcome::Pinned) {
            tracing::warn!(%kind, ?outcome, "other defaults of the kind hold than this worker's");
        }
    }
    Ok(registered)
}

/// The process that is in the way, if it certainly is not there any more.
fn gone(error: &EngineError) -> Option<String> {
    let in_use = error.code() == Some(Code::WorkerInstanceInUse);
    let former = error.details().first().filter(|_| in_use)?;
    process::is_gone(former).then(|| former.clone())
}

async fn try_register(
    shared: &Shared,
    engine: &Arc<dyn EngineBackend>,
    replaces: Option<String>,
) -> Result<(), EngineError> {
    let sent = Instant::now();
    let ttl_ms = shared.registration_ttl_ms();
    let registration = WorkerRegistration {
        worker_id: shared.config.worker_id.clone(),
        worker_instance_id: shared.config.worker_instance_id.clone(),
        session: Some(shared.session),
        lanes: shared.config.lanes.clone(),
        capabilities: shared.capabilities.clone(),
        kinds: shared.kinds(),
        namespaces: shared.namespaces.clone(),
        running: Some(shared.running()),
        capacity: Some(shared.capacity()),
        process: process::own(),
        replaces,
        ttl_ms,
    };
    let registered = engine.register_worker(registration).await?;
    note_time(shared, sent, registered.expires_at, ttl_ms);
    Ok(())
}

/// Extends the registration.
async fn heartbeat(shared: &Shared, engine: &Arc<dyn EngineBackend>) -> Result<(), EngineError> {
    let sent = Instant::now();
    let ttl_ms = shared.registration_ttl_ms();
    let instance = shared.config.worker_instance_id.clone();
    let heartbeat = Heartbeat { session: shared.session, ttl_ms, running: Some(shared.running()) };
    let registered = engine.heartbeat_worker(instance, heartbeat).await?;
    note_time(shared, sent, registered.expires_at, ttl_ms);
    Ok(())
}

/// An expiry tells the time it was computed at.
fn note_time(shared: &Shared, sent: Instant, expires_at: TimestampMs, ttl_ms: u64) {
    shared.clock.note(sent, TimestampMs::new(expires_at.as_millis().saturating_sub(ttl_ms)));
}

/// Keeps the registration alive until another process has taken the instance's place. Runs on the
/// thread that is kept for that, as renewals do.
pub(super) async fn keep(shared: Arc<Shared>) {
    let interval = Duration::from_millis(shared.registration_ttl_ms() / 3);
    let mut pause = interval;
    loop {
        sleep(pause).await;
        pause = match timeout(interval, beat(&shared)).await {
            Ok(Ok(())) => interval,
            Ok(Err(error)) if error.code() == Some(Code::WorkerInstanceInUse) => {
                return lose(&shared, &error);
            }
            Ok(Err(error)) => {
                tracing::warn!(%error, "heartbeat failed, trying again");
                interval / 8
            }
            Err(_) => interval / 8,
        };
    }
}

/// One heartbeat. A registration that ran out, through an outage for instance, is made again.
async fn beat(shared: &Shared) -> Result<(), EngineError> {
    let engine = shared.upkeep.engine();
    match heartbeat(shared, engine).await {
        Err(error) if error.code() == Some(Code::WorkerNotFound) => {
            try_register(shared, engine, None).await
        }
        answer => answer,
    }
}

fn lose(shared: &Shared, error: &EngineError) {
    let instance = shared.config.worker_instance_id.as_str();
    tracing::error!(instance, %error, "another process took this worker's place; claiming stops");
    shared.status.send_if_modified(|status| {
        let running = *status == WorkerStatus::Running;
        if running {
            *status = WorkerStatus::Lost;
        }
        running
    });
}

/// Takes the worker off the list and hands back those leases of its that are left. Only while the
/// registration is our own: a process that took our place must keep its leases.
pub(super) async fn disconnect(
    shared: &Shared,
    left_over: Vec<ExecutionId>,
) -> Result<(), EngineError> {
    match heartbeat(shared, shared.engine()).await {
        Err(error) if is_gone(&error) => return Ok(()),
        answer => answer?,
    }
    let instance = shared.config.worker_instance_id.clone();
    let session = shared.session;
    // Of more than one call may name, the rest is found by looking.
    let most = usize::try_from(limits::DISCONNECT_EXECUTIONS_MAX).unwrap_or(usize::MAX);
    let executions =
        (left_over.len() <= most).then(|| left_over.into_iter().map(ExecutionRef::from).collect());
    let request = Disconnect { session, executions };
    shared.engine().disconnect_worker(instance, request).await.map(drop)
}

fn is_gone(error: &EngineError) -> bool {
    matches!(error.code(), Some(Code::WorkerNotFound | Code::WorkerInstanceInUse))
}
