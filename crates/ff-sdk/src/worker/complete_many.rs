//! Ending several tasks at once.

use ff_core::contracts::Completion;

use super::FlowFabricWorker;
use crate::error::TerminalError;
use crate::task::ClaimedTask;

impl FlowFabricWorker {
    /// Ends several tasks in success, with as few calls as they have partitions. Each has an answer
    /// of its own, in the order of the tasks; one whose answer is lost is asked for again as
    /// [`ClaimedTask::complete`] does.
    pub async fn complete_many(
        &self,
        tasks: Vec<(ClaimedTask, Option<Vec<u8>>)>,
    ) -> Vec<Result<(), TerminalError>> {
        for (task, _) in &tasks {
            task.finish_output().await;
        }
        let completion = |(task, result): &(ClaimedTask, Option<Vec<u8>>)| Completion {
            handle: task.handle().clone(),
            result: result.clone(),
        };
        let answers = self.shared.engine().complete_many(tasks.iter().map(completion).collect());
        let mut ended = Vec::with_capacity(tasks.len());
        for (answer, (task, result)) in answers.await.into_iter().zip(tasks) {
            ended.push(match answer {
                Ok(()) => {
                    task.settled_elsewhere();
                    Ok(())
                }
                Err(_) => task.complete(result).await,
            });
        }
        ended
    }
}
