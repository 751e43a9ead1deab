//! Changing all executions that pass a filter, a page at a time.

use std::sync::Arc;

use ff_core::contracts::{
    CancelMany, CancelSource, ExecutionSummary, ListFilter, ManyChanged, RefusedChange, ReplayMany,
};
use ff_core::error::EngineError;
use ff_core::types::{ExecutionId, RequestId};

use super::{ScriptBackend, call};
use crate::call::Call;
use crate::calls::cancel::CancelExecution;
use crate::calls::replay::ReplayExecution;
use crate::host::Host;
use crate::ids::{IdSource, SystemIds};
use crate::together::some_at_a_time;

/// The id of the change of one of many: the same for every repetition of the request.
fn name_of_one(request_id: RequestId, execution_id: ExecutionId) -> RequestId {
    let (request, execution) = (request_id.as_uuid().as_u128(), execution_id.uuid().as_u128());
    let mixed = (request ^ execution).to_be_bytes();
    RequestId::from_uuid(uuid::Builder::from_random_bytes(mixed).into_uuid())
}

impl<H: Host + ?Sized> ScriptBackend<H> {
    pub(super) async fn cancel_page(&self, it: CancelMany) -> Result<ManyChanged, EngineError> {
        it.validate()?;
        let request_id = it.request_id.unwrap_or_else(|| RequestId::from_uuid(SystemIds.random()));
        let cancel = |execution_id| CancelExecution {
            execution_id,
            lease_id: None,
            lease_epoch: None,
            attempt_id: None,
            reason: it.reason.clone(),
            source: CancelSource::OperatorOverride.as_str().to_owned(),
            request_id: Some(name_of_one(request_id, execution_id)),
        };
        let live = |one: &ExecutionSummary| !one.public_state.is_terminal();
        self.change_page(it.filter.clone(), it.dry_run, live, cancel).await
    }

    pub(super) async fn replay_page(&self, it: ReplayMany) -> Result<ManyChanged, EngineError> {
        it.validate()?;
        let request_id = it.request_id.unwrap_or_else(|| RequestId::from_uuid(SystemIds.random()));
        let replay = |execution_id| ReplayExecution {
            execution_id,
            reason: it.reason.clone(),
            requested_by: it.requested_by.clone(),
            deadline_at: None,
            expected_replay_count: None,
            request_id: Some(name_of_one(request_id, execution_id)),
            downstream: false,
        };
        self.change_page(it.filter.clone(), it.dry_run, |_| true, replay).await
    }

    async fn change_page<C>(
        &self,
        filter: ListFilter,
        dry_run: bool,
        concerns: impl Fn(&ExecutionSummary) -> bool,
        change: impl Fn(ExecutionId) -> C,
    ) -> Result<ManyChanged, EngineError>
    where
        C: Call + Send + 'static,
        C::Reply: Send,
    {
        let page = self.list(filter).await?;
        let concerned = page.items.into_iter().filter(concerns);
        let ids: Vec<ExecutionId> = concerned.map(|one| one.execution_id).collect();
        let (found, next_cursor) = (ids.len() as u32, page.next_cursor);
        let mut done = ManyChanged { found, next_cursor, ..ManyChanged::default() };
        if !dry_run {
            self.change_all(ids, change, &mut done).await?;
        }
        Ok(done)
    }

    /// Changes these, some at a time. What is refused is told; what could not be sent ends it.
    async fn change_all<C>(
        &self,
        ids: Vec<ExecutionId>,
        change: impl Fn(ExecutionId) -> C,
        done: &mut ManyChanged,
    ) -> Result<(), EngineError>
    where
        C: Call + Send + 'static,
        C::Reply: Send,
    {
        let changes = ids.into_iter().map(|id| {
            let (host, change) = (Arc::clone(&self.host), change(id));
            async move { Ok((id, call(host.as_ref(), id.partition(), change).await.map(drop))) }
        });
        some_at_a_time("change_many", changes, |(id, outcome)| count(id, outcome, done)).await
    }
}

fn count(
    execution_id: ExecutionId,
    outcome: Result<(), EngineError>,
    done: &mut ManyChanged,
) -> Result<(), EngineError> {
    match outcome {
        Ok(()) => done.changed += 1,
        Err(error) => {
            let Some(code) = error.code() else { return Err(error) };
            let (code, detail) = (code.to_string(), code.sentence().to_owned());
            done.refused.push(RefusedChange { execution_id, code, detail });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use ff_core::partition::Partition;

    #[test]
    fn a_repetition_names_each_change_as_before_and_no_two_alike() {
        let id =
            |number| ExecutionId::from_parts(Partition::flow(1), uuid::Uuid::from_u128(number));
        let request = |number| RequestId::from_uuid(uuid::Uuid::from_u128(number));
        let one = name_of_one(request(1 << 90), id(5));
        assert_eq!(one, name_of_one(request(1 << 90), id(5)));
        assert_ne!(one, name_of_one(request(1 << 90), id(6)));
        assert_ne!(one, name_of_one(request(1 << 91), id(5)));
    }
}
