//! Submitting executions, one by one or in batches, and intervening in them.

use std::collections::BTreeMap;

use ff_core::contracts::{
    self, CancelExecution, CancelMany, CancelSource, ChangePriority, Created, ExecutionState,
    ManyChanged, PriorityChange, ReplayExecution, ReplayMany, RevokeLease, RevokeOutcome, SetTags,
};
use ff_core::engine_backend::{Answer, Executions};
use ff_core::error::{Code, EngineError};
use ff_core::limits;
use ff_core::operation::Nothing;
use ff_core::partition::Partition;
use ff_core::state::PublicState;
use ff_core::types::{ExecutionId, RequestId};
use futures_core::future::BoxFuture;

use super::ScriptBackend;
use crate::call::{Call, open_reply};
use crate::calls;
use crate::calls::change::{ChangePriorityReply, SetExecutionTags};
use crate::calls::create::{
    CreateExecution, CreateExecutionReply, CreateExecutions, CreateExecutionsReply,
};
use crate::calls::lease::RevokeLeaseReply;
use crate::calls::replay::ReplayExecutionReply;
use crate::host::Host;
use crate::ids::{IdSource, SystemIds};
use crate::value::Value;
use crate::wire::Rest;

/// Bytes of one batch call: keeps the store's longest pause far below a lease.
pub(super) const BATCH_BYTES_MAX: usize = 1 << 20;

/// The id of a change from outside: every one has one, so that its repetition is recognised.
pub(super) fn named(request_id: Option<RequestId>) -> Option<RequestId> {
    Some(request_id.unwrap_or_else(|| RequestId::from_uuid(SystemIds.random())))
}

impl<H: Host + ?Sized> Executions for ScriptBackend<H> {
    fn create(&self, execution: contracts::CreateExecution) -> Answer<'_, Created> {
        Box::pin(async move {
            let item = self.prepare(0, execution).await?;
            let answer = self.create_with_others(&item.call).await;
            let answer = answer.map(|reply| created(reply).under_fresh_id(item.fresh));
            self.or_elsewhere(item, answer).await
        })
    }

    fn create_many(
        &self,
        executions: Vec<contracts::CreateExecution>,
    ) -> BoxFuture<'_, Vec<Result<Created, EngineError>>> {
        Box::pin(self.create_all(executions))
    }

    fn cancel_execution(
        &self,
        execution_id: ExecutionId,
        request: CancelExecution,
    ) -> Answer<'_, ExecutionState> {
        Box::pin(async move {
            request.validate()?;
            let call = calls::cancel::CancelExecution {
                execution_id,
                lease_id: None,
                lease_epoch: None,
                attempt_id: None,
                reason: request.reason,
                source: CancelSource::OperatorOverride.as_str().to_owned(),
                request_id: named(request.request_id),
            };
            self.call_on(execution_id, call).await?;
            Ok(ExecutionState { execution_id, public_state: PublicState::Cancelled })
        })
    }

    fn revoke_lease(
        &self,
        execution_id: ExecutionId,
        request: RevokeLease,
    ) -> Answer<'_, RevokeOutcome> {
        Box::pin(async move {
            request.validate()?;
            let call = calls::lease::RevokeLease {
                execution_id,
                expected_lease_id: request.expected_lease_id,
                reason: request.reason,
                request_id: named(request.request_id),
            };
            Ok(match self.call_on(execution_id, call).await? {
                RevokeLeaseReply::Revoked { lease_id, lease_epoch, .. } => {
                    RevokeOutcome::Revoked { lease_id, lease_epoch }
                }
                RevokeLeaseReply::NotHeld { reason } if reason == "already_revoked" => {
                    RevokeOutcome::AlreadyRevoked
                }
                RevokeLeaseReply::NotHeld { .. } => RevokeOutcome::AlreadyExpired,
            })
        })
    }

    fn change_priority(
        &self,
        execution_id: ExecutionId,
        request: ChangePriority,
    ) -> Answer<'_, PriorityChange> {
        Box::pin(async move {
            request.validate()?;
            let call = calls::change::ChangePriority {
                execution_id,
                priority: request.priority,
                request_id: named(request.request_id),
            };
            let (ChangePriorityReply::Changed { old_priority, new_priority }
            | ChangePriorityReply::ChangedBefore { old_priority, new_priority }) =
                self.call_on(execution_id, call).await?;
            Ok(PriorityChange { old: old_priority, new: new_priority })
        })
    }

    fn replay(
        &self,
        execution_id: ExecutionId,
        request: ReplayExecution,
    ) -> Answer<'_, ExecutionState> {
        Box::pin(async move {
            request.validate()?;
            let call = calls::replay::ReplayExecution {
                execution_id,
                reason: request.reason,
                requested_by: request.requested_by,
                deadline_at: None,
                expected_replay_count: None,
                request_id: named(request.request_id),
                downstream: request.downstream,
            };
            let (ReplayExecutionReply::Replayed { public_state, .. }
            | ReplayExecutionReply::ReplayedBefore { public_state, .. }) =
                self.call_on(execution_id, call).await?;
            Ok(ExecutionState { execution_id, public_state })
        })
    }

    fn cancel_many(&self, request: CancelMany) -> Answer<'_, ManyChanged> {
        Box::pin(self.cancel_page(request))
    }

    fn replay_many(&self, request: ReplayMany) -> Answer<'_, ManyChanged> {
        Box::pin(self.replay_page(request))
    }

    fn set_tags(&self, execution_id: ExecutionId, request: SetTags) -> Answer<'_, Nothing> {
        Box::pin(async move {
            request.validate()?;
            let tags = request.tags.into_iter().flat_map(|(name, value)| [name, value]);
            let call = SetExecutionTags {
                execution_id,
                request_id: named(request.request_id),
                tags: Rest(tags.collect()),
            };
            self.call_on(execution_id, call).await?;
            Ok(Nothing {})
        })
    }
}

impl<H: Host + ?Sized> ScriptBackend<H> {
    async fn create_all(
        &self,
        executions: Vec<contracts::CreateExecution>,
    ) -> Vec<Result<Created, EngineError>> {
        let mut answers: Vec<Option<Result<Created, EngineError>>> =
            executions.iter().map(|_| None).collect();
        let mut batches: BTreeMap<Partition, Vec<Item>> = BTreeMap::new();
        for (position, new) in executions.into_iter().enumerate() {
            match self.prepare(position, new).await {
                Ok(item) => {
                    let partition = item.call.execution_id.partition();
                    batches.entry(partition).or_default().push(item);
                }
                Err(error) => answers[position] = Some(Err(error)),
            }
        }
        for (partition, items) in batches {
            self.create_on(partition, items, &mut answers).await;
        }
        answers.into_iter().map(|answer| answer.expect("every position was answered")).collect()
    }

    async fn prepare(
        &self,
        position: usize,
        execution: contracts::CreateExecution,
    ) -> Result<Item, EngineError> {
        if let Some(policy) = &execution.policy {
            self.check_budgets(policy).await?;
        }
        let is_fresh = execution.execution_id.is_none();
        let lies_anywhere = execution.lies_anywhere();
        let fresh = self.neighbours.next(&self.config);
        let call = CreateExecution::try_from(execution.place(fresh, &self.config)?)?;
        self.register_lane(&call.lane).await?;
        let fresh = is_fresh.then_some(call.execution_id);
        Ok(Item { position, fresh, lies_anywhere, call })
    }

    async fn create_one(&self, item: &Item) -> Result<Created, EngineError> {
        let reply = self.call(item.call.execution_id.partition(), item.call.clone()).await?;
        Ok(created(reply).under_fresh_id(item.fresh))
    }

    /// A lane's limit is divided among the partitions, and neighbours fill a few of them first:
    /// what lies anywhere and found its partition full is tried once more, where chance has it.
    async fn or_elsewhere(
        &self,
        mut item: Item,
        answer: Result<Created, EngineError>,
    ) -> Result<Created, EngineError> {
        match answer {
            Err(error) if item.lies_anywhere && is_full(&error) => {
                let elsewhere = ExecutionId::solo(SystemIds.ordered(), &self.config);
                item.call.execution_id = elsewhere;
                item.fresh = Some(elsewhere);
                self.create_one(&item).await
            }
            answer => answer,
        }
    }

    async fn create_on(
        &self,
        partition: Partition,
        items: Vec<Item>,
        answers: &mut [Option<Result<Created, EngineError>>],
    ) {
        let mut items = items.into_iter().peekable();
        while items.peek().is_some() {
            let batch = next_batch(&mut items);
            let results = self.send_batch(partition, &batch).await;
            for (item, result) in batch.into_iter().zip(results) {
                let answer = result.map(|it| it.under_fresh_id(item.fresh));
                let position = item.position;
                answers[position] = Some(self.or_elsewhere(item, answer).await);
            }
        }
    }

    async fn send_batch(
        &self,
        partition: Partition,
        batch: &[Item],
    ) -> Vec<Result<Created, EngineError>> {
        let call = CreateExecutions::of(batch.iter().map(|item| &item.call));
        match self.call(partition, call).await {
            Ok(CreateExecutionsReply::Answers { answers }) => {
                answers.0.into_iter().map(|answer| read_answer(answer).map(created)).collect()
            }
            Err(error) => batch.iter().map(|_| Err(error.clone())).collect(),
        }
    }
}

/// A submission of several, by its place among them.
struct Item {
    position: usize,
    /// Its id, if it was made here.
    fresh: Option<ExecutionId>,
    /// Whether it may be made in another partition as well.
    lies_anywhere: bool,
    call: CreateExecution,
}

/// Takes as many items as fit in one call; at least one.
fn next_batch(items: &mut std::iter::Peekable<std::vec::IntoIter<Item>>) -> Vec<Item> {
    let mut batch: Vec<Item> = Vec::new();
    let mut bytes = 0;
    while let Some(item) = items.next_if(|item| {
        let size = bytes + item.call.payload.len();
        batch.is_empty()
            || batch.len() < limits::CREATE_BATCH_MAX as usize && size <= BATCH_BYTES_MAX
    }) {
        bytes += item.call.payload.len();
        batch.push(item);
    }
    batch
}

fn is_full(error: &EngineError) -> bool {
    error.code() == Some(Code::LaneFull)
}

pub(super) fn read_answer(answer: Value) -> Result<CreateExecutionReply, EngineError> {
    let (status, values) = open_reply(CreateExecution::CONTRACT.name, answer)?;
    CreateExecution::decode(&status, values)
}

fn created(reply: CreateExecutionReply) -> Created {
    match reply {
        CreateExecutionReply::Created { execution_id, public_state } => {
            Created::Created { execution_id, public_state }
        }
        CreateExecutionReply::Duplicate { execution_id, public_state }
        | CreateExecutionReply::Debounced { execution_id, public_state } => {
            Created::Duplicate { execution_id, public_state }
        }
    }
}
