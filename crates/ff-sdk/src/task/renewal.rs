//! Keeps a lease alive in the background, one task per lease, on the worker's thread for that.

use std::sync::Arc;
use std::time::Duration;

use ff_core::backend_error::BackendError;
use ff_core::engine_backend::EngineBackend;
use ff_core::error::{Code, EngineError};
use tokio::time::{Instant, sleep_until, timeout};
use tracing::Instrument as _;

use super::TaskCore;
use super::lease::LeaseLoss;

/// A failed renewal is tried again after at most this long.
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// The store says that the execution is no longer ours.
pub(super) fn is_lease_gone(error: &EngineError) -> bool {
    matches!(
        error.code(),
        Some(
            Code::StaleLease
                | Code::LeaseExpired
                | Code::LeaseRevoked
                | Code::ExecutionNotActive
                | Code::ExecutionNotFound
        )
    )
}

/// Renews until the lease is lost; whoever ends the task aborts this.
pub(super) async fn keep(core: Arc<TaskCore>, engine: Arc<dyn EngineBackend>) {
    let interval = core.lease.ttl() / 3;
    let mut next = Instant::now() + interval;
    while core.lease.loss().is_none() {
        sleep_until(next.min(core.lease.deadline())).await;
        if core.lease.loss().is_some() {
            break;
        }
        let sent = Instant::now();
        next = match renew(&core, &engine).await {
            Ok(()) => sent + interval,
            Err(error) if is_lease_gone(&error) => break,
            Err(_) => Instant::now() + pause(&core, interval),
        };
    }
    if let Some(loss) = core.lease.loss() {
        tracing::warn!(execution_id = %core.claimed.handle.execution_id, %loss, "lease lost");
        core.lease.lose(loss);
    }
}

/// Shorter as the end comes near, so that there is always time for another try.
fn pause(core: &TaskCore, interval: Duration) -> Duration {
    (interval / 4).min(core.lease.remaining() / 4).min(PAUSE_MAX)
}

/// One renewal. It may take half of what is left, so that a call that hangs leaves room for
/// another.
pub(super) async fn renew(
    core: &TaskCore,
    engine: &Arc<dyn EngineBackend>,
) -> Result<(), EngineError> {
    let execution_id = core.claimed.handle.execution_id;
    let span = tracing::debug_span!("renew_lease", %execution_id);
    let sent = Instant::now();
    let limit = core.lease.remaining() / 2;
    let answer = timeout(limit, engine.renew(&core.claimed.handle)).instrument(span).await;
    match answer.unwrap_or_else(|_| Err(BackendError::timed_out(limit).into())) {
        Ok(renewal) if renewal.lease_epoch == core.claimed.handle.fence.lease_epoch => {
            core.lease.renewed(sent);
            core.lease.tell_reached(renewal.budgets_reached);
            Ok(())
        }
        Ok(_) => Err(lose(core, EngineError::refused(Code::StaleLease))),
        Err(error) if is_lease_gone(&error) => Err(lose(core, error)),
        Err(error) => {
            tracing::debug!(%execution_id, %error, "renewal failed, trying again");
            core.lease.failed(error.clone());
            Err(error)
        }
    }
}

fn lose(core: &TaskCore, error: EngineError) -> EngineError {
    core.lease.lose(LeaseLoss::Refused(error.clone()));
    error
}
