//! Reporting what became of an execution. A call whose answer was lost is sent again until the
//! lease's deadline: the store recognises its repetition by the fence.

use std::sync::Arc;

use ff_core::backend::{FailOutcome, FailureClass, FailureReason};
use ff_core::contracts::{self, NextTask, SuspendRequest, TaskEnd, TaskEnded};
use ff_core::error::{Code, EngineError};
use ff_core::types::Moment;
use tokio::time::Instant;

use super::renewal::is_lease_gone;
use super::{ClaimedTask, TaskCore};
use crate::error::TerminalError;
use crate::worker::{Shared, new_task};

/// What a worker reports about its execution.
pub(crate) enum Outcome {
    Complete(Option<Vec<u8>>),
    Fail(FailureReason, FailureClass),
    Cancel(String),
    Delay(Moment),
    WaitChildren,
    /// With its ids, so that a repetition is recognised.
    Suspend(Box<SuspendRequest>),
}

/// What the store made of it.
#[derive(Debug)]
pub(crate) enum Landed {
    Done,
    Failed(FailOutcome),
    Suspended(Box<contracts::SuspendOutcome>),
}

impl Landed {
    /// True if the lease goes on: the signals that were waited for had come before.
    pub(crate) fn keeps_lease(&self) -> bool {
        let Self::Suspended(outcome) = self else { return false };
        matches!(**outcome, contracts::SuspendOutcome::AlreadySatisfied { .. })
    }
}

impl Outcome {
    const fn name(&self) -> &'static str {
        match self {
            Self::Complete(_) => "complete",
            Self::Fail(..) => "fail",
            Self::Cancel(_) => "cancel",
            Self::Delay(_) => "delay",
            Self::WaitChildren => "wait_children",
            Self::Suspend(_) => "suspend",
        }
    }

    /// What it is for whoever asks for the next task with it; none if it cannot be sent so.
    fn end(&self) -> Option<TaskEnd> {
        match self {
            Self::Complete(result) if is_small(result.as_deref()) => {
                Some(TaskEnd::Complete(result.clone()))
            }
            Self::Fail(reason, class) => Some(TaskEnd::Fail(reason.clone(), class.clone())),
            _ => None,
        }
    }

    async fn send(&self, core: &TaskCore) -> Result<Landed, EngineError> {
        let (engine, handle) = (core.engine(), &core.claimed.handle);
        let done = match self {
            Self::Complete(result) => engine.complete(handle, result.clone()).await,
            Self::Fail(reason, class) => {
                let failed = engine.fail(handle, reason.clone(), class.clone()).await;
                return failed.map(Landed::Failed);
            }
            Self::Cancel(reason) => engine.cancel(handle, reason).await,
            Self::Delay(until) => engine.delay(handle, *until).await,
            Self::WaitChildren => engine.wait_children(handle).await,
            Self::Suspend(request) => {
                let suspended = engine.suspend(handle, (**request).clone()).await;
                return suspended.map(|outcome| Landed::Suspended(Box::new(outcome)));
            }
        };
        done.map(|()| Landed::Done)
    }
}

/// An outcome that was reported.
pub(crate) struct Told {
    pub(crate) landed: Landed,
    /// It is over, unless its lease goes on.
    pub(crate) task: ClaimedTask,
    /// What its worker goes on with, in its room, if that was asked for.
    pub(crate) next: Option<ClaimedTask>,
}

/// Bytes of a result that travels on the way that brings the next task: there it is text over HTTP,
/// and the workers of a connection share one thread. A larger one costs more than it spares.
const RESULT_WITH_NEXT_BYTES_MAX: usize = 64 * 1024;

fn is_small(result: Option<&[u8]>) -> bool {
    result.is_none_or(|bytes| bytes.len() <= RESULT_WITH_NEXT_BYTES_MAX)
}

impl ClaimedTask {
    /// Reports an outcome and ends the task, or gives it back.
    pub(crate) async fn settle(self, outcome: &Outcome) -> Result<Landed, TerminalError> {
        self.tell(outcome, None).await.map(|told| told.landed)
    }

    /// Reports an outcome, and takes the next task with it if one is asked for.
    pub(crate) async fn tell(
        mut self,
        outcome: &Outcome,
        next: Option<NextTask>,
    ) -> Result<Told, TerminalError> {
        if let Some(error) = self.refused_here() {
            self.finish();
            return Err(TerminalError { task: None, source: error.into() });
        }
        self.finish_output().await;
        let reported = match next.zip(outcome.end()) {
            Some((next, end)) => self.finish_with_next(outcome.name(), end, next).await,
            None => report(&self.core, outcome, &mut self.unresolved).await.map(|it| (it, None)),
        };
        match reported {
            Ok((landed, next)) => {
                self.take_in(&landed);
                let next = next.and_then(|next| self.make_room_for(next));
                Ok(Told { landed, task: self, next })
            }
            Err(error) if is_lease_gone(&error) => {
                self.finish();
                let source = error.in_context(outcome.name()).into();
                Err(TerminalError { task: None, source })
            }
            Err(error) => {
                let source = error.in_context(outcome.name()).into();
                Err(TerminalError { task: Some(Box::new(self)), source })
            }
        }
    }

    /// Its outcome landed by another call.
    pub(crate) fn settled_elsewhere(mut self) {
        self.finish();
    }

    /// Waits until what was written is there. Work that is done stays done without it.
    pub(crate) async fn finish_output(&self) {
        let flushed = tokio::time::timeout_at(self.core.lease.deadline(), self.core.output.flush());
        if let Ok(Err(error)) = flushed.await {
            let execution_id = self.execution_id();
            tracing::warn!(%execution_id, %error, "not all of the output was appended");
        }
    }

    /// Where the answer is awaited, the next lease is renewed at once.
    async fn finish_with_next(
        &mut self,
        name: &'static str,
        end: TaskEnd,
        next: NextTask,
    ) -> Result<(Landed, Option<Self>), EngineError> {
        let (core, shared) = (&self.core, &self.shared);
        until_answered(core, name, &mut self.unresolved, || {
            let (shared, core) = (Arc::clone(shared), Arc::clone(core));
            let (end, next) = (end.clone(), next.clone());
            let work = Arc::clone(&shared);
            work_on(work, async move {
                let sent = Instant::now();
                let finished = shared.upkeep.work().finish(core.handle(), end, next).await?;
                let next = finished.next.map(|claimed| new_task(&shared, claimed, sent));
                Ok((landed(finished.ended), next))
            })
        })
        .await
    }

    /// The next task takes over the room of this one. A worker that stops takes none: dropping it
    /// hands it back.
    fn make_room_for(&mut self, next: Self) -> Option<Self> {
        self.shared.check_running().ok()?;
        self.permit.take().map(|permit| next.with_permit(permit))
    }

    fn take_in(&mut self, landed: &Landed) {
        match landed {
            Landed::Suspended(outcome) if landed.keeps_lease() => {
                self.unresolved = false;
                self.core.latest_wait.is_over(outcome);
            }
            _ => self.finish(),
        }
    }

    /// After the loss of the lease nothing is sent any more, unless an earlier call may have been
    /// applied: then asking again is the only way to know.
    fn refused_here(&self) -> Option<EngineError> {
        let loss = self.core.lease.loss().filter(|_| !self.unresolved)?;
        Some(EngineError::refused(Code::LeaseExpired).in_context(loss.to_string()))
    }
}

fn landed(ended: TaskEnded) -> Landed {
    match ended {
        TaskEnded::Completed => Landed::Done,
        TaskEnded::Failed(outcome) => Landed::Failed(outcome),
    }
}

/// Runs something on the thread that claims.
async fn work_on<T: Send + 'static>(
    shared: Arc<Shared>,
    work: impl Future<Output = Result<T, EngineError>> + Send + 'static,
) -> Result<T, EngineError> {
    shared.upkeep.run(work).await
}

pub(super) async fn report(
    core: &TaskCore,
    outcome: &Outcome,
    unresolved: &mut bool,
) -> Result<Landed, EngineError> {
    until_answered(core, outcome.name(), unresolved, || outcome.send(core)).await
}

/// Sends a call until it is answered, or until the lease's deadline. Renewals go on meanwhile and
/// move it, by one lease at most.
pub(super) async fn until_answered<T, F>(
    core: &TaskCore,
    op: &'static str,
    unresolved: &mut bool,
    send: impl Fn() -> F,
) -> Result<T, EngineError>
where
    F: Future<Output = Result<T, EngineError>>,
{
    let latest = Instant::now() + core.lease.ttl();
    let deadline = || core.lease.deadline().min(latest);
    ff_script::until_answered::until_answered(op, deadline, unresolved, send).await
}
