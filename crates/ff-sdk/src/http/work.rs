//! Work and endings: what the server is asked to wait for.

use std::time::Duration;

use ff_api::problem::HttpCode;
use ff_api::raw::ResultQuery;
use ff_api::task::{CompleteTask, FailTask, Task, token_of};
use ff_api::worker::{Claim, ClaimedTasks};
use ff_core::backend::Handle;
use ff_core::bytes::Base64;
use ff_core::contracts::{AwaitFlow, Claimed, Finished, NextTask, TaskEnd, TaskEnded, WorkRequest};
use ff_core::engine_backend::Answer;
use ff_core::error::EngineError;
use ff_core::limits;
use ff_core::operation::Nothing;
use ff_core::types::LeaseId;
use ff_core::work_source::WorkSource;
use ff_script::ids::{IdSource, SystemIds};

use super::HttpBackend;
use super::call::Call;
use crate::endings::{Awaited, LongWait};

impl WorkSource for HttpBackend {
    /// The leases have ids of our own: an answer that was lost is asked for again by them, for as
    /// long as the leases can last.
    fn claim(&self, request: WorkRequest) -> Answer<'_, Vec<Claimed>> {
        Box::pin(async move {
            request.validate()?;
            let leases_last = Duration::from_millis(request.lease_ttl_ms);
            let ids = (0..request.count).map(|_| LeaseId::from_uuid(SystemIds.random()));
            let first = WorkRequest { lease_ids: ids.collect(), ..request };
            let again = WorkRequest { retry: true, ..first.clone() };
            let call = Call::of::<Claim>(Nothing {}, &first)?.waiting(first.max_wait());
            let call = call.repeated_as(&again)?.insisting(leases_last);
            let claimed = self.reply::<Claim>(call).await?;
            claimed.tasks.into_iter().map(Claimed::try_from).collect()
        })
    }

    /// The next lease has an id of the caller's: an answer that was lost is asked for again by it.
    fn finish<'a>(
        &'a self,
        handle: &'a Handle,
        end: TaskEnd,
        next: NextTask,
    ) -> Answer<'a, Finished> {
        Box::pin(async move {
            end.validate()?;
            next.validate()?;
            let (ended, tasks) = match end {
                TaskEnd::Complete(result) => {
                    let tasks = self.complete_and_ask(handle, result, next).await?;
                    (TaskEnded::Completed, tasks)
                }
                TaskEnd::Fail(reason, class) => {
                    let request =
                        FailTask { next: Some(next), ..FailTask::new(handle, reason, &class) };
                    let mut failed = self.send::<FailTask>(Nothing {}, request).await?;
                    let tasks = std::mem::take(&mut failed.tasks);
                    (TaskEnded::Failed(failed.into()), tasks)
                }
            };
            let next = tasks.into_iter().next().map(Claimed::try_from).transpose()?;
            Ok(Finished { ended, next })
        })
    }
}

impl HttpBackend {
    async fn complete_and_ask(
        &self,
        handle: &Handle,
        result: Option<Vec<u8>>,
        next: NextTask,
    ) -> Result<Vec<Task>, EngineError> {
        let request = CompleteTask {
            task_token: Some(token_of(handle)),
            result_base64: result.map(Base64),
            next: Some(next),
            ..CompleteTask::default()
        };
        let call = Call::of::<CompleteTask>(Nothing {}, &request)?;
        Ok(self.read::<ClaimedTasks>(call).await?.tasks)
    }
}

impl LongWait for HttpBackend {
    fn wait(&self, awaited: Awaited, limit: Duration) -> Answer<'_, Option<Vec<u8>>> {
        Box::pin(async move {
            let wait = limit.min(Duration::from_millis(limits::CLAIM_WAIT_MS_MAX));
            let wait_ms = wait.as_millis() as u64;
            let call = match awaited {
                Awaited::Execution(id) => Call::of::<ResultQuery>(id, &ResultQuery { wait_ms }),
                Awaited::Flow(_, id) => Call::of::<AwaitFlow>(id, &AwaitFlow { wait_ms }),
            };
            match self.run(call?.waiting(wait)).await {
                Err(error) if !is_news(&error) => Err(error),
                Err(_) => Ok(None),
                Ok(answered) => Ok(Some(answered.body.into())),
            }
        })
    }
}

/// The server looked and says how the execution stands.
fn is_news(error: &EngineError) -> bool {
    is_without_result(error) || error.code().is_some()
}

/// The execution has no result: not yet, or not at all.
pub(super) fn is_without_result(error: &EngineError) -> bool {
    let EngineError::UnknownCode { code, .. } = error else { return false };
    matches!(
        HttpCode::parse(code),
        Some(
            HttpCode::ExecutionNotEnded
                | HttpCode::ExecutionFailed
                | HttpCode::ExecutionCancelled
                | HttpCode::ExecutionExpired
                | HttpCode::ExecutionSkipped
        )
    )
}
