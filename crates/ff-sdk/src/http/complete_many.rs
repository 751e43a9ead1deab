//! Completing several tasks, as many in one request as it may carry.

use ff_api::create::BULK_MAX;
use ff_api::task::{BulkComplete, CompleteTask, token_of};
use ff_core::bytes::Base64;
use ff_core::contracts::Completion;
use ff_core::error::EngineError;
use ff_core::object::Object;
use ff_core::operation::Nothing;

use super::HttpBackend;

/// Bytes of results in one request.
const BYTES_MAX: usize = 4 << 20;

impl HttpBackend {
    /// Answers in the order of what was asked for.
    pub(super) async fn complete_all(
        &self,
        completions: Vec<Completion>,
    ) -> Vec<Result<(), EngineError>> {
        let mut answers = Vec::with_capacity(completions.len());
        for batch in batches(completions) {
            answers.extend(self.complete_batch(batch).await);
        }
        answers
    }

    async fn complete_batch(&self, batch: Vec<Completion>) -> Vec<Result<(), EngineError>> {
        let count = batch.len();
        let tasks = batch.into_iter().map(|it| Object(request(it))).collect();
        match self.send::<BulkComplete>(Nothing {}, BulkComplete { tasks }).await {
            Ok(told) if told.results.len() == count => {
                told.results.into_iter().map(Result::from).collect()
            }
            Ok(told) => {
                let found = told.results.len().to_string();
                vec![Err(EngineError::corrupt("bulk answer", "results", found)); count]
            }
            Err(error) => vec![Err(error); count],
        }
    }
}

fn request(Completion { handle, result }: Completion) -> CompleteTask {
    CompleteTask {
        task_token: Some(token_of(&handle)),
        result_base64: result.map(Base64),
        ..CompleteTask::default()
    }
}

fn batches(completions: Vec<Completion>) -> Vec<Vec<Completion>> {
    let size = |it: &Completion| it.result.as_ref().map_or(0, Vec::len);
    let mut batches: Vec<Vec<Completion>> = Vec::new();
    for completion in completions {
        let fits = |batch: &&mut Vec<Completion>| {
            let bytes: usize = batch.iter().map(size).sum();
            batch.len() < BULK_MAX && bytes + size(&completion) <= BYTES_MAX
        };
        match batches.last_mut().filter(fits) {
            Some(batch) => batch.push(completion),
            None => batches.push(vec![completion]),
        }
    }
    batches
}
