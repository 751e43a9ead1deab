//! Claims on behalf of clients that may hang up: what nobody takes any more is handed back at once.

use std::sync::Arc;

use ff_core::backend::Handle;
use ff_core::contracts::{
    ClaimGrant, Claimed, LeaseIds, LeaseRequest, NextGrant, ReclaimGrant, WorkRequest,
};
use ff_core::error::EngineError;
use ff_core::types::Moment;
use tokio::sync::oneshot;

use crate::app::App;

type Answer = Result<Vec<Claimed>, EngineError>;

/// Claims work, and waits for it as long as the request says, the client stays and the server runs.
/// A client that hangs up drops this, and the scheduler hands back what it would have got.
/// One that named its leases can ask again for an answer that was lost.
pub(crate) async fn claim(app: &App, request: WorkRequest, leases: Option<LeaseIds>) -> Answer {
    let claiming = async {
        match leases {
            Some(leases) => app.work.claim_as(request, leases).await,
            None => app.work.claim(request).await,
        }
    };
    tokio::select! {
        answer = claiming => answer,
        () = app.draining() => Ok(Vec::new()),
    }
}

/// Turns a grant into a lease. The grant says which of the three calls it is for. The call runs in
/// a task of its own, so that it is never dropped between taking an execution and answering it.
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
    if let Err(error) = app.backend.delay(handle, Moment::After(0)).await {
        tracing::warn!(execution = %handle.execution_id, %error, "handing back failed");
    }
}
