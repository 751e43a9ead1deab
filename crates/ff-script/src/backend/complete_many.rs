//! Completing several tasks, with one call for those of a partition.

use std::collections::BTreeMap;

use ff_core::contracts::Completion;
use ff_core::error::EngineError;
use ff_core::limits;
use ff_core::partition::Partition;

use super::executions::BATCH_BYTES_MAX;
use super::{ScriptBackend, held};
use crate::call::{Call as _, open_reply};
use crate::calls::complete::{CompleteExecution, CompleteExecutions, CompleteExecutionsReply};
use crate::host::Host;
use crate::together::together;
use crate::value::Value;

/// A completion, by its place among those that were asked for.
type Item = (usize, CompleteExecution);

impl<H: Host + ?Sized> ScriptBackend<H> {
    pub(super) async fn complete_all(
        &self,
        completions: Vec<Completion>,
    ) -> Vec<Result<(), EngineError>> {
        let count = completions.len();
        let calls = batches(completions).into_iter().map(|(partition, batch)| async move {
            let places: Vec<usize> = batch.iter().map(|(place, _)| *place).collect();
            places.into_iter().zip(self.complete_on(partition, batch).await)
        });
        let mut answers: Vec<Option<Result<(), EngineError>>> = (0..count).map(|_| None).collect();
        for (place, answer) in together(calls).await.into_iter().flatten() {
            answers[place] = Some(answer);
        }
        let unanswered = || Err(EngineError::Unavailable { op: "complete" });
        answers.into_iter().map(|answer| answer.unwrap_or_else(unanswered)).collect()
    }

    async fn complete_on(
        &self,
        partition: Partition,
        batch: Vec<Item>,
    ) -> Vec<Result<(), EngineError>> {
        let call = CompleteExecutions::of(batch.iter().map(|(_, call)| call));
        match self.call(partition, call).await {
            Ok(CompleteExecutionsReply::Answers { answers }) => {
                answers.0.into_iter().map(read_answer).collect()
            }
            Err(error) => batch.iter().map(|_| Err(error.clone())).collect(),
        }
    }
}

fn read_answer(answer: Value) -> Result<(), EngineError> {
    let (status, values) = open_reply(CompleteExecution::CONTRACT.name, answer)?;
    CompleteExecution::decode(&status, values).map(drop)
}

/// As many as fit in one call each, those of one partition together.
fn batches(completions: Vec<Completion>) -> Vec<(Partition, Vec<Item>)> {
    let mut by_partition: BTreeMap<Partition, Vec<Vec<Item>>> = BTreeMap::new();
    for (place, Completion { handle, result }) in completions.into_iter().enumerate() {
        let call = held!(handle, CompleteExecution { result: result.unwrap_or_default() });
        let batches = by_partition.entry(call.execution_id.partition()).or_default();
        match batches.last_mut().filter(|batch| has_room(batch, &call)) {
            Some(batch) => batch.push((place, call)),
            None => batches.push(vec![(place, call)]),
        }
    }
    let flat = by_partition.into_iter();
    flat.flat_map(|(partition, it)| it.into_iter().map(move |batch| (partition, batch))).collect()
}

fn has_room(batch: &[Item], call: &CompleteExecution) -> bool {
    let bytes: usize = batch.iter().map(|(_, call)| call.result.len()).sum();
    batch.len() < limits::COMPLETE_BATCH_MAX as usize
        && bytes + call.result.len() <= BATCH_BYTES_MAX
}
