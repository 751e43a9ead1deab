//! Where a submission goes: its id and its partition.

use ff_api::create::CreateExecution;
use ff_core::contracts::NewExecution;
use ff_core::error::EngineError;
use ff_core::types::{ExecutionId, IdempotencyKey};

use crate::app::App;
use crate::refusal::Refusal;

/// Takes the key of the header, which must not contradict the body.
pub(super) fn merge_key(
    submission: &mut CreateExecution,
    header: Option<&str>,
) -> Result<(), Refusal> {
    let Some(header) = header else { return Ok(()) };
    let key = IdempotencyKey::try_new(header).map_err(EngineError::from)?;
    match &submission.idempotency_key {
        Some(other) if *other != key => {
            let rule = "must be the same in the header and in the body, or stand in one of them";
            Err(Refusal::invalid("idempotency_key", rule))
        }
        _ => {
            submission.idempotency_key = Some(key);
            Ok(())
        }
    }
}

/// The domain's request for a submission.
pub(super) fn prepare(app: &App, submission: CreateExecution) -> Result<NewExecution, EngineError> {
    let id = place(app, &submission)?;
    id.check(&app.partitions())?;
    submission.into_new(id)
}

/// An idempotency key decides the partition, so that every repetition meets the first submission.
fn place(app: &App, submission: &CreateExecution) -> Result<ExecutionId, EngineError> {
    let partitions = app.partitions();
    let Some(key) = &submission.idempotency_key else {
        let solo = || ExecutionId::solo(app.ids.ordered(), &partitions);
        return Ok(submission.execution_id.unwrap_or_else(solo));
    };
    let namespace = submission.namespace.clone().unwrap_or_default();
    let uuid = submission.execution_id.map_or_else(|| app.ids.ordered(), |id| id.uuid());
    let placed = ExecutionId::for_idempotency_key(&namespace, key, uuid, &partitions);
    match submission.execution_id {
        Some(id) if id != placed => {
            let partition = placed.partition();
            let rule = format!("must be on {partition}, the partition of its idempotency key");
            Err(EngineError::invalid("execution_id", rule))
        }
        _ => Ok(placed),
    }
}
