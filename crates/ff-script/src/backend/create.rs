//! Creating executions, one by one or in batches.

use std::collections::BTreeMap;

use ff_core::contracts::{Created, NewExecution};
use ff_core::error::EngineError;
use ff_core::limits;
use ff_core::partition::Partition;

use super::ScriptBackend;
use crate::call::{Call, open_reply};
use crate::calls::create::{
    CreateExecution, CreateExecutionReply, CreateExecutions, CreateExecutionsReply,
};
use crate::host::Host;
use crate::library::fnv1a;
use crate::wire::Rest;

/// Bytes of one batch call: keeps the store's longest pause far below a lease.
const BATCH_BYTES_MAX: usize = 1 << 20;

impl<H: Host> ScriptBackend<H> {
    pub(super) async fn create_one(&self, new: NewExecution) -> Result<Created, EngineError> {
        new.validate(&self.config)?;
        self.register_lane(&new.lane).await?;
        let partition = new.execution_id.partition();
        self.call(partition, encode(new)?).await.map(created)
    }

    pub(super) async fn create_all(
        &self,
        executions: Vec<NewExecution>,
    ) -> Vec<Result<Created, EngineError>> {
        let mut answers: Vec<Option<Result<Created, EngineError>>> =
            executions.iter().map(|_| None).collect();
        let mut batches: BTreeMap<Partition, Vec<Item>> = BTreeMap::new();
        for (position, new) in executions.into_iter().enumerate() {
            match self.prepare(new).await {
                Ok((partition, call)) => {
                    batches.entry(partition).or_default().push(Item { position, call });
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
        new: NewExecution,
    ) -> Result<(Partition, CreateExecution), EngineError> {
        new.validate(&self.config)?;
        self.register_lane(&new.lane).await?;
        Ok((new.execution_id.partition(), encode(new)?))
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
            for (item, result) in batch.iter().zip(results) {
                answers[item.position] = Some(result);
            }
        }
    }

    async fn send_batch(
        &self,
        partition: Partition,
        batch: &[Item],
    ) -> Vec<Result<Created, EngineError>> {
        let items = batch
            .iter()
            .flat_map(|item| item.call.encode().iter().map(<[u8]>::to_vec).collect::<Vec<_>>())
            .collect();
        match self.call(partition, CreateExecutions { items: Rest(items) }).await {
            Ok(CreateExecutionsReply::Answers { answers }) => {
                answers.0.into_iter().map(|answer| read_answer(answer).map(created)).collect()
            }
            Err(error) => batch.iter().map(|_| Err(error.clone())).collect(),
        }
    }
}

struct Item {
    position: usize,
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

fn read_answer(answer: crate::value::Value) -> Result<CreateExecutionReply, EngineError> {
    let (status, values) = open_reply(CreateExecution::CONTRACT.name, answer)?;
    CreateExecution::decode(&status, values)
}

fn created(reply: CreateExecutionReply) -> Created {
    match reply {
        CreateExecutionReply::Created { execution_id, public_state } => {
            Created::Created { execution_id, public_state }
        }
        CreateExecutionReply::Duplicate { execution_id, public_state } => {
            Created::Duplicate { execution_id, public_state }
        }
    }
}

fn encode(new: NewExecution) -> Result<CreateExecution, EngineError> {
    let policy_json = match new.policy.to_json()? {
        json if json == "{}" => String::new(),
        json => json,
    };
    let tags_json = if new.tags.is_empty() {
        String::new()
    } else {
        serde_json::to_string(&new.tags)
            .map_err(|error| EngineError::invalid("tags", error.to_string()))?
    };
    let content_digest = match new.idempotency_key {
        Some(_) => content_digest(&new, &policy_json, &tags_json),
        None => String::new(),
    };
    Ok(CreateExecution {
        execution_id: new.execution_id,
        namespace: new.namespace,
        lane: new.lane,
        kind: new.kind,
        priority: new.priority,
        creator: new.creator,
        policy_json,
        payload: new.payload,
        delay_until: new.delay_until,
        deadline_at: new.deadline_at,
        tags_json,
        idempotency_key: new.idempotency_key,
        dedup_ms: None,
        content_digest,
        sent_ms_ago: None,
    })
}

/// Tells whether two submissions under one idempotency key ask for the same work. Delay and
/// deadline are left out: a client that computes them from its clock still repeats itself.
fn content_digest(new: &NewExecution, policy_json: &str, tags_json: &str) -> String {
    let mut content = Vec::with_capacity(new.payload.len() + 256);
    let head = [new.lane.as_str(), new.kind.as_str(), policy_json, tags_json];
    for part in head {
        content.extend_from_slice(&(part.len() as u64).to_le_bytes());
        content.extend_from_slice(part.as_bytes());
    }
    content.extend_from_slice(&new.priority.to_le_bytes());
    content.extend_from_slice(&new.payload);
    format!("{:016x}", fnv1a(&content))
}
