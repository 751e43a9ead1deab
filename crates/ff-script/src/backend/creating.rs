//! Submissions that come at the same moment: those of one partition are sent by one call.

use std::sync::Arc;
use std::time::Instant;

use ff_core::error::EngineError;
use ff_core::partition::Partition;
use tokio::sync::oneshot;

use super::executions::read_answer;
use super::{ScriptBackend, call};
use crate::call::Call as _;
use crate::calls::create::{
    CreateExecution, CreateExecutionReply, CreateExecutions, CreateExecutionsReply,
};
use crate::gathering::Gathering;
use crate::host::Host;

/// What has a larger input than this is sent by itself.
const PAYLOAD_BYTES_MAX: usize = 16 * 1024;

/// Submissions of one call.
const AT_ONCE_MAX: usize = 32;

/// Those that are about to be sent, by where.
pub(super) type AllCreating = Gathering<Partition, Creating>;

/// One of them, while its caller waits.
pub(super) struct Creating {
    call: CreateExecution,
    answer: oneshot::Sender<Result<CreateExecutionReply, EngineError>>,
}

pub(super) fn gathering() -> Arc<AllCreating> {
    Arc::new(Gathering::new(AT_ONCE_MAX))
}

impl<H: Host + ?Sized> ScriptBackend<H> {
    /// Creates an execution, together with those that come at this moment.
    pub(super) async fn create_with_others(
        &self,
        new: &CreateExecution,
    ) -> Result<CreateExecutionReply, EngineError> {
        let partition = new.execution_id.partition();
        if new.payload.len() > PAYLOAD_BYTES_MAX {
            return self.call(partition, new.clone()).await;
        }
        let begun_at = Instant::now();
        let (answer, told) = oneshot::channel();
        let one = Creating { call: new.clone(), answer };
        if let Some(begun) = self.creating.join(partition, one) {
            let (host, creating) = (Arc::clone(&self.host), Arc::clone(&self.creating));
            tokio::spawn(async move {
                if let Some((partition, creating)) = creating.gather(begun).await {
                    send(host.as_ref(), partition, creating).await;
                }
            });
        }
        match told.await {
            Ok(answer) => answer,
            // The runtime of whoever sent it for all ended.
            Err(_) => {
                let mut again = new.clone();
                again.mark_repeated(begun_at.elapsed());
                self.call(partition, again).await
            }
        }
    }
}

async fn send<H: Host + ?Sized>(host: &H, partition: Partition, creating: Vec<Creating>) {
    let answers = create_all(host, partition, &creating).await;
    for (one, answer) in creating.into_iter().zip(answers) {
        // Whoever is gone by now asks again, or never.
        drop(one.answer.send(answer));
    }
}

async fn create_all<H: Host + ?Sized>(
    host: &H,
    partition: Partition,
    creating: &[Creating],
) -> Vec<Result<CreateExecutionReply, EngineError>> {
    if let [one] = creating {
        return vec![call(host, partition, one.call.clone()).await];
    }
    let all = CreateExecutions::of(creating.iter().map(|one| &one.call));
    match call(host, partition, all).await {
        Ok(CreateExecutionsReply::Answers { answers }) => {
            answers.0.into_iter().map(read_answer).collect()
        }
        Err(error) => creating.iter().map(|_| Err(error.clone())).collect(),
    }
}
