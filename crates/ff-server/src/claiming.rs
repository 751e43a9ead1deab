//! Claims on behalf of clients that may hang up. A claim runs in a task of its own, so that it is
//! never dropped between taking an execution and answering it; what nobody takes any more is handed
//! back at once.

use std::sync::Arc;
use std::time::Duration;

use ff_core::backend::Handle;
use ff_core::contracts::{ClaimGrant, Claimed, LeaseRequest, NextGrant, ReclaimGrant, WorkRequest};
use ff_core::error::EngineError;
use ff_core::types::TimestampMs;
use tokio::sync::oneshot;
use tokio::time::Instant;

use crate::app::App;

/// How long the scheduler is left alone before it is checked whether anybody still waits. Looking
/// costs no call of the store unless something was heard.
const SLICE: Duration = Duration::from_millis(500);

type Answer = Result<Vec<Claimed>, EngineError>;

/// Claims work, and waits for it as long as the request says, the client stays and the server runs.
pub(crate) async fn claim(app: &Arc<App>, request: WorkRequest) -> Answer {
    request.validate()?;
    let (give, take) = oneshot::channel();
    let held = app.background();
    let worker = Arc::clone(app);
    tokio::spawn(async move {
        let _held = held;
        let answer = claim_in_slices(&worker, request, &give).await;
        deliver(&worker, give, answer).await;
    });
    tokio::select! {
        answer = take => answer.unwrap_or_else(|_| Ok(Vec::new())),
        () = app.draining() => Ok(Vec::new()),
    }
}

async fn claim_in_slices(
    app: &App,
    request: WorkRequest,
    give: &oneshot::Sender<Answer>,
) -> Answer {
    let deadline = Instant::now() + request.max_wait;
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let slice = WorkRequest { max_wait: left.min(SLICE), ..request.clone() };
        let claimed = app.work.claim(slice).await?;
        let over = left <= SLICE || give.is_closed() || app.is_draining();
        if over || !claimed.is_empty() {
            return Ok(claimed);
        }
    }
}

/// Turns a grant into a lease. The grant says which of the three calls it is for.
pub(crate) async fn claim_granted(
    app: &Arc<App>,
    grant: NextGrant,
    lease: LeaseRequest,
) -> Result<Claimed, EngineError> {
    let (give, take) = oneshot::channel();
    let held = app.background();
    let worker = Arc::clone(app);
    tokio::spawn(async move {
        let _held = held;
        let claimed = exchange(&worker, &grant, lease).await;
        deliver(&worker, give, claimed.map(|claimed| vec![claimed])).await;
    });
    let lost = || EngineError::Unavailable { op: "claim" };
    let claimed = take.await.map_err(|_| lost())??;
    claimed.into_iter().next().ok_or_else(lost)
}

async fn exchange(
    app: &App,
    grant: &NextGrant,
    lease: LeaseRequest,
) -> Result<Claimed, EngineError> {
    let backend = &app.backend;
    match grant {
        NextGrant::Claim(grant) => backend.claim_from_grant(grant as &ClaimGrant, lease).await,
        NextGrant::Resume(grant) => backend.claim_resumed(grant as &ClaimGrant, lease).await,
        NextGrant::Reclaim(grant) => {
            backend.claim_from_reclaim_grant(grant as &ReclaimGrant, lease).await
        }
    }
}

async fn deliver(app: &App, give: oneshot::Sender<Answer>, answer: Answer) {
    if let Err(Ok(untaken)) = give.send(answer) {
        for claimed in untaken {
            hand_back(app, &claimed.handle).await;
        }
    }
}

/// The execution waits again, in its old place and with its attempt, for any worker. If even that
/// fails, its lease lapses.
async fn hand_back(app: &App, handle: &Handle) {
    if let Err(error) = app.backend.delay(handle, TimestampMs::new(1)).await {
        tracing::warn!(execution = %handle.execution_id, %error, "handing back failed");
    }
}
