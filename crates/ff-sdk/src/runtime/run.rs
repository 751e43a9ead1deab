//! The loop of a worker, and the life of one attempt in it.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use ff_core::error::{Code, EngineError};
use ff_core::types::ExecutionId;
use ff_script::backoff::Backoff;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tracing::Instrument as _;

use super::context::Context;
use super::handler;
use super::task_error::TaskError;
use super::{
    INVALID_DELAY, INVALID_OUTPUT, INVALID_SUSPENSION, Kinds, Place, Source, UNKNOWN_KIND, Worker,
};
use crate::connection::Connection;
use crate::error::{SdkError, TerminalError};
use crate::task::{ClaimedTask, Outcome, Told};
use crate::worker::{FlowFabricWorker, ShutdownReport};

/// A wait for work comes back now and then, so that a dead connection is noticed.
const WAIT: Duration = Duration::from_secs(60);
const BACKOFF: Backoff = Backoff::of_ms(50, 5_000);

/// Ends a worker from elsewhere. Cheap to clone.
#[derive(Clone, Debug)]
pub struct ShutdownHandle(pub(super) watch::Sender<bool>);

impl ShutdownHandle {
    /// Tells the worker to stop: it claims nothing more, waits for its handlers, and hands back
    /// what is left after the drain timeout.
    pub fn shutdown(&self) {
        self.0.send_replace(true);
    }
}

impl<S: Send + Sync + 'static> Worker<S> {
    /// Works until it is told to stop. An error means that it could not go on.
    pub async fn run(self) -> Result<ShutdownReport, SdkError> {
        self.run_until(std::future::pending::<()>()).await
    }

    /// Works until the future is ready or it is told to stop. `tokio::signal::ctrl_c()` is a good
    /// one.
    pub async fn run_until(
        self,
        ended: impl Future<Output = impl Sized>,
    ) -> Result<ShutdownReport, SdkError> {
        let kinds = self.kinds.by_name.keys().cloned().collect();
        let worker = match self.source {
            Source::Worker(worker) => {
                worker.serve_only(kinds).await?;
                worker
            }
            Source::Shared(connection) => {
                FlowFabricWorker::connect_serving(self.config, &connection, kinds, self.namespaces)
                    .await?
            }
            Source::Own => {
                let connection = Connection::open(self.config.backend.clone()).await?;
                FlowFabricWorker::connect_serving(self.config, &connection, kinds, self.namespaces)
                    .await?
            }
        };
        if !self.policies.is_empty() {
            worker.register_kinds(self.policies).await?;
        }
        let mut attempts = JoinSet::new();
        let mut stopped = self.stop.subscribe();
        let outcome = tokio::select! {
            // The sender is ours, so the wait ends only with a match.
            _ = stopped.wait_for(|stopped| *stopped) => Ok(()),
            _ = ended => Ok(()),
            error = work(&worker, &self.kinds, &mut attempts) => Err(error),
        };
        let report = worker.shutdown(self.drain).await;
        // What did not end in time has lost its lease and is dropped.
        attempts.abort_all();
        outcome.and(report)
    }
}

/// Claims and runs until that is no longer possible.
async fn work<S: Send + Sync + 'static>(
    worker: &FlowFabricWorker,
    kinds: &Arc<Kinds<S>>,
    attempts: &mut JoinSet<()>,
) -> SdkError {
    let mut backoff = BACKOFF;
    loop {
        while attempts.try_join_next().is_some() {}
        let (wanted, most) = kinds.with_room();
        let all = wanted.len() == kinds.by_name.len();
        let claimed = tokio::select! {
            claimed = worker.claim_kinds(&wanted, most, WAIT), if !wanted.is_empty() => claimed,
            // A kind that was left out has room again: ask anew, for it too.
            () = kinds.freed.notified(), if !all => continue,
        };
        match claimed {
            Ok(tasks) => {
                backoff = BACKOFF;
                for task in tasks {
                    let place = kinds.place_for(&task.core().claimed.kind);
                    attempts.spawn(attempt(task, place, Arc::clone(kinds)));
                }
            }
            Err(error) if is_own_fault(&error) => return error,
            Err(error) => {
                complain(&error);
                backoff.pause().await;
            }
        }
    }
}

/// True if asking again cannot help: the worker is stopped, or the engine refuses its settings.
fn is_own_fault(error: &SdkError) -> bool {
    match error {
        SdkError::Config { .. } | SdkError::WorkerStopped { .. } => true,
        _ => match error.engine().map(EngineError::through) {
            Some(EngineError::InvalidArgument { .. }) => true,
            Some(EngineError::Refused { code, .. }) => {
                matches!(code, Code::InvalidInput | Code::InvalidCapabilities)
            }
            _ => false,
        },
    }
}

/// Trouble that passes by itself, or an answer that somebody has to do something about.
fn complain(error: &SdkError) {
    if error.is_retryable() {
        tracing::warn!(%error, "claiming failed, trying again");
    } else {
        tracing::error!(%error, "claiming is refused, trying again: is it still the right server, \
            the right token?");
    }
}

/// Attempts one after the other, as long as the end of each brings the next.
async fn attempt<S: Send + Sync + 'static>(
    task: ClaimedTask,
    mut place: Option<Place>,
    kinds: Arc<Kinds<S>>,
) {
    let mut next = Some(task);
    while let Some(task) = next {
        let kind = task.core().claimed.kind.clone();
        next = one_attempt(task, &mut place, &kinds).await;
        let is_same = next.as_ref().is_some_and(|next| next.core().claimed.kind == kind);
        if !is_same {
            free(place.take(), &kinds);
            place = next.as_ref().and_then(|next| kinds.place_for(&next.core().claimed.kind));
        }
    }
}

/// What an attempt made of an execution does not count: because that has ended meanwhile, which is
/// nobody's fault, or because nobody could be told.
fn not_reported(execution_id: ExecutionId, error: &SdkError) {
    if error.engine().and_then(EngineError::code) == Some(Code::ExecutionNotActive) {
        tracing::warn!(%execution_id, "it has ended meanwhile; what its attempt did does not count");
    } else {
        tracing::error!(%execution_id, %error, "the outcome was not reported");
    }
}

/// A place that is done with.
fn free<S>(place: Option<Place>, kinds: &Kinds<S>) {
    if place.is_some() {
        drop(place);
        kinds.freed.notify_one();
    }
}

/// One attempt, from its claim to its outcome; gives the task that came with that.
async fn one_attempt<S: Send + Sync + 'static>(
    task: ClaimedTask,
    place: &mut Option<Place>,
    kinds: &Kinds<S>,
) -> Option<ClaimedTask> {
    let span = tracing::info_span!(
        "attempt",
        execution_id = %task.execution_id(),
        kind = task.execution_kind(),
        attempt = task.attempt_index().get() + 1,
        lane = %task.lane_id(),
    );
    let execution_id = *task.execution_id();
    let reported = run_to_end(task, place, kinds);
    match reported.instrument(span.clone()).await {
        Ok(next) => next,
        Err(TerminalError { source, .. }) => {
            span.in_scope(|| not_reported(execution_id, &source));
            None
        }
    }
}

/// Runs the handler and reports what became of it; again if what it would wait for has come before.
/// Gives the task that comes next.
async fn run_to_end<S: Send + Sync + 'static>(
    mut task: ClaimedTask,
    place: &mut Option<Place>,
    kinds: &Kinds<S>,
) -> Result<Option<ClaimedTask>, TerminalError> {
    loop {
        let lost = task.lost();
        let result = tokio::select! {
            result = handle(&task, place, kinds) => result,
            loss = lost => {
                tracing::warn!(%loss, "the lease was lost; the handler is dropped");
                return Ok(None);
            }
        };
        let told = report(task, result, kinds).await?;
        if !told.landed.keeps_lease() {
            return Ok(told.next);
        }
        task = told.task;
    }
}

/// Runs the handler of the task's kind, in a place of that kind if it has a limit.
async fn handle<S: Send + Sync + 'static>(
    task: &ClaimedTask,
    place: &mut Option<Place>,
    kinds: &Kinds<S>,
) -> Result<Vec<u8>, TaskError> {
    let Some(kind) = kinds.by_name.get(&task.core().claimed.kind) else {
        // It was not asked for: whoever gave it to us is not the engine we know.
        let message = format!("this worker has no handler for {:?}", task.execution_kind());
        return Err(TaskError::fail(message).with_category(UNKNOWN_KIND));
    };
    if place.is_none() {
        *place = kinds.wait_for_place(&task.core().claimed.kind).await;
    }
    // A handler may also end from within, whatever the type of its errors.
    let (end, mut ended) = mpsc::channel(1);
    let context = Context::new(Arc::clone(task.core()), Arc::clone(&kinds.state), end);
    tokio::select! {
        result = handler::run(Arc::clone(&kind.handler), context) => result,
        Some(instead) = ended.recv() => Err(instead),
    }
}

/// Reports what became of an attempt for as long as its lease holds. Only a refusal of the output
/// itself makes a failure of it: any other answer leaves finished work as it is. The task comes
/// back if it does not have to wait for what it wanted to wait for; what ends it brings the next.
async fn report<S>(
    mut task: ClaimedTask,
    result: Result<Vec<u8>, TaskError>,
    kinds: &Kinds<S>,
) -> Result<Told, TerminalError> {
    let mut outcome = match result {
        Ok(output) => Outcome::Complete(Some(output)),
        Err(error) => outcome_of(error),
    };
    let next = task.next_task(kinds.with_room_after(&task.core().claimed.kind));
    let mut backoff = BACKOFF;
    loop {
        let (back, source) = match task.tell(&outcome, next.clone()).await {
            Ok(told) => {
                tracing::debug!(landed = ?told.landed, "the outcome was reported");
                return Ok(told);
            }
            Err(TerminalError { task: Some(back), source }) => (back, source),
            Err(lost) => return Err(lost),
        };
        if let Some(error) = refusal(&outcome, &source) {
            outcome = outcome_of(error);
        } else if is_final(&source) || !back.is_lease_healthy() {
            return Err(TerminalError { task: Some(back), source });
        } else {
            tracing::error!(error = %source, "the outcome was not taken, reporting it again");
            backoff.pause().await;
        }
        task = *back;
    }
}

/// What a refusal of the outcome itself makes of the attempt.
fn refusal(outcome: &Outcome, source: &SdkError) -> Option<TaskError> {
    let (what, category) = match outcome {
        Outcome::Complete(_) if refuses_output(source) => ("result", INVALID_OUTPUT),
        Outcome::Suspend(_) if is_final(source) => ("suspension", INVALID_SUSPENSION),
        Outcome::Delay(_) if is_final(source) => ("delay", INVALID_DELAY),
        _ => return None,
    };
    let error = TaskError::fail(format!("the {what} was refused: {source}"));
    Some(error.with_category(category))
}

/// A result that the engine does not take, one that is too large for instance.
fn refuses_output(error: &SdkError) -> bool {
    match error.engine().map(EngineError::through) {
        Some(EngineError::Refused { code, .. }) => *code == Code::PayloadTooLarge,
        Some(EngineError::InvalidArgument { field, .. }) => field == "result",
        _ => false,
    }
}

/// The engine itself has spoken. A token that it does not know may be the one before the next.
fn is_final(error: &SdkError) -> bool {
    match error.engine().map(EngineError::through) {
        Some(EngineError::Refused { code, .. }) => *code != Code::Unauthorized,
        Some(EngineError::InvalidArgument { .. } | EngineError::Corrupt { .. }) => true,
        _ => false,
    }
}

fn outcome_of(error: TaskError) -> Outcome {
    let outcome = error.into_outcome();
    if let Outcome::Fail(reason, class) = &outcome {
        tracing::info!(category = class.category(), reason = reason.message, "the attempt failed");
    }
    outcome
}
