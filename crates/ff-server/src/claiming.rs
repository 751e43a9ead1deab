//! Claims on behalf of clients that may hang up: that drops the claim, and the scheduler hands back
//! what it would have got.

use ff_core::contracts::{Claimed, LeaseIds, WorkRequest};
use ff_core::error::EngineError;

use crate::app::App;

/// Claims work, and waits for it as long as the request says, the client stays and the server runs.
/// A client that named its leases can ask again for an answer that was lost.
pub(crate) async fn claim(
    app: &App,
    request: WorkRequest,
    leases: Option<LeaseIds>,
) -> Result<Vec<Claimed>, EngineError> {
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
