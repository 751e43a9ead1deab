//! Asking for work.

use std::sync::Arc;

use axum::extract::State;
use ff_api::paths;
use ff_api::task::Task;
use ff_api::worker::{Claim, ClaimedTasks};

use crate::answer::{Answered, ok};
use crate::app::App;
use crate::claiming;
use crate::extract::Json;
use crate::route::Route;

const CLAIM: &str = "Answers at once if there is work, otherwise as soon as there is some, at the \
    latest after wait_ms with no tasks. Each task has a lease of its own: renew it, and end it with \
    complete, fail, delay or cancel. A client that hangs up gets nothing, and what it would have \
    got is handed back.";

pub(super) fn routes() -> Vec<Route> {
    vec![
        Route::post(paths::CLAIMS, claim)
            .says("claimTasks", "workers", "Claims tasks of one or several lanes.")
            .explains(CLAIM)
            .waits()
            .takes::<Claim>()
            .answers::<ClaimedTasks>(200, "The tasks; none if the time passed."),
    ]
}

async fn claim(
    State(app): State<Arc<App>>,
    Json(request, _): Json<Claim>,
) -> Answered<ClaimedTasks> {
    let with_text = request.payload_text;
    let claimed = claiming::claim(&app, request.into()).await?;
    app.metrics.claimed(&claimed);
    let tasks = claimed.into_iter().map(|claimed| Task::new(claimed, with_text)).collect();
    ok(ClaimedTasks { tasks })
}
