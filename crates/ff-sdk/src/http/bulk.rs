//! Submitting and completing many, as many in one request as it may carry.

use ff_api::create::{BULK_MAX, BulkCreate};
use ff_api::task::{BulkComplete, CompleteTask, token_of};
use ff_core::bytes::Base64;
use ff_core::contracts::{Completion, CreateExecution, Created};
use ff_core::error::EngineError;
use ff_core::object::Object;
use ff_core::operation::Nothing;
use ff_core::types::ExecutionId;
use ff_script::ids::{IdSource, SystemIds};

use super::HttpBackend;

/// Bytes of inputs or results in one request.
const BYTES_MAX: usize = 4 << 20;

/// A submission with an id.
pub(super) struct Placed {
    pub(super) request: CreateExecution,
    /// The id, if it was made here.
    pub(super) fresh: Option<ExecutionId>,
    /// How large its input is.
    bytes: usize,
}

impl HttpBackend {
    /// Checks a submission and gives it an id, so that its repetition is the same one.
    pub(super) fn place(&self, execution: CreateExecution) -> Result<Placed, EngineError> {
        let is_fresh = execution.execution_id.is_none();
        let new = execution.place(SystemIds.ordered(), &self.partitions)?;
        let (fresh, bytes) = (is_fresh.then_some(new.execution_id), new.payload.len());
        Ok(Placed { fresh, bytes, request: new.into() })
    }

    /// Sends what is right, and answers in the order of the request.
    pub(super) async fn create_all(
        &self,
        executions: Vec<CreateExecution>,
    ) -> Vec<Result<Created, EngineError>> {
        let (mut placed, mut wrong) = (Vec::with_capacity(executions.len()), Vec::new());
        for (position, execution) in executions.into_iter().enumerate() {
            match self.place(execution) {
                Ok(execution) => placed.push(execution),
                Err(error) => wrong.push((position, error)),
            }
        }
        let mut answers = Vec::with_capacity(placed.len());
        for batch in batches(placed, |placed| placed.bytes) {
            answers.extend(self.create_batch(batch).await);
        }
        for (position, error) in wrong {
            answers.insert(position, Err(error));
        }
        answers
    }

    async fn create_batch(&self, batch: Vec<Placed>) -> Vec<Result<Created, EngineError>> {
        let fresh: Vec<Option<ExecutionId>> = batch.iter().map(|placed| placed.fresh).collect();
        let executions = batch.into_iter().map(|placed| Object(placed.request)).collect();
        let told = self.send::<BulkCreate>(Nothing {}, BulkCreate { executions }).await;
        let answers = of_each(told.map(|told| told.results), fresh.len()).into_iter().zip(fresh);
        answers.map(|(answer, fresh)| answer.map(|it: Created| it.under_fresh_id(fresh))).collect()
    }

    /// Answers in the order of what was asked for.
    pub(super) async fn complete_all(
        &self,
        completions: Vec<Completion>,
    ) -> Vec<Result<(), EngineError>> {
        let mut answers = Vec::with_capacity(completions.len());
        for batch in batches(completions, |it| it.result.as_ref().map_or(0, Vec::len)) {
            answers.extend(self.complete_batch(batch).await);
        }
        answers
    }

    async fn complete_batch(&self, batch: Vec<Completion>) -> Vec<Result<(), EngineError>> {
        let count = batch.len();
        let tasks = batch.into_iter().map(|it| Object(request(it))).collect();
        let told = self.send::<BulkComplete>(Nothing {}, BulkComplete { tasks }).await;
        of_each(told.map(|told| told.results), count)
    }
}

fn request(Completion { handle, result }: Completion) -> CompleteTask {
    CompleteTask {
        task_token: Some(token_of(&handle)),
        result_base64: result.map(Base64),
        ..CompleteTask::default()
    }
}

/// The answer to each part of a request that had so many.
fn of_each<R, T>(told: Result<Vec<R>, EngineError>, count: usize) -> Vec<Result<T, EngineError>>
where
    T: Clone,
    Result<T, EngineError>: From<R>,
{
    match told {
        Ok(results) if results.len() == count => results.into_iter().map(Result::from).collect(),
        Ok(results) => {
            let found = results.len().to_string();
            vec![Err(EngineError::corrupt("bulk answer", "results", found)); count]
        }
        Err(error) => vec![Err(error); count],
    }
}

/// As many as one request may carry, by number and by size.
fn batches<T>(all: Vec<T>, bytes_of: impl Fn(&T) -> usize) -> Vec<Vec<T>> {
    let mut batches: Vec<Vec<T>> = Vec::new();
    let mut bytes = 0;
    for one in all {
        let more = bytes_of(&one);
        match batches.last_mut() {
            Some(batch) if batch.len() < BULK_MAX && bytes + more <= BYTES_MAX => {
                bytes += more;
                batch.push(one);
            }
            _ => {
                bytes = more;
                batches.push(vec![one]);
            }
        }
    }
    batches
}
