//! Copies of a running store.

use std::sync::Arc;

use axum::extract::State;
use ff_api::backup::{Backup, MakeBackup};
use ff_api::problem::{HttpCode, Problem};
use ff_backend_embedded::BackupError;
use ff_core::backend_error::{BackendError, BackendErrorKind, Retry};
use ff_core::error::EngineError;

use crate::answer::{Answered, ok};
use crate::app::App;
use crate::extract::Asked;
use crate::refusal::Refusal;
use crate::route::{Route, json};
use crate::store;

pub(super) fn routes() -> Vec<Route> {
    vec![json::<MakeBackup, _, _>(make_backup).lasting()]
}

async fn make_backup(
    State(app): State<Arc<App>>,
    Asked(request, _): Asked<MakeBackup>,
) -> Answered<Backup> {
    let made = store::backup(&app.store, &request.name).await.map_err(refusal)?;
    ok(Backup {
        directory: made.directory.display().to_string(),
        transactions: made.transactions,
        bytes: made.bytes,
    })
}

fn refusal(error: BackupError) -> Refusal {
    let said = error.to_string();
    let kind = match error {
        BackupError::Name => return Problem::invalid("name", said).into(),
        BackupError::Exists { .. } => return Problem::new(HttpCode::BackupExists, said).into(),
        BackupError::NoFiles => return Problem::new(HttpCode::NothingToBackUp, said).into(),
        BackupError::Store(_) => BackendErrorKind::Resource,
        BackupError::Closed => BackendErrorKind::Closed,
    };
    EngineError::Backend(BackendError::new(kind, Retry::Safe, said)).into()
}
