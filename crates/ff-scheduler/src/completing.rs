//! Completions that come at the same moment: those of one partition whose workers go on alike are
//! sent by one call.

use std::sync::Arc;

use ff_core::backend::Handle;
use ff_core::backend_error::{BackendError, BackendErrorKind, Retry};
use ff_core::contracts::{AllFinished, Completion, Finished, NextTask, TaskEnd};
use ff_core::error::EngineError;
use ff_core::limits;
use ff_core::partition::Partition;
use ff_core::types::LeaseId;
use ff_script::gathering::Gathering;
use ff_script::in_flight::{InFlight, InFlightGuard};
use tokio::sync::oneshot;

use crate::Shared;
use crate::hand_back::Claims;
use crate::next_task::Ended;

/// A result of more bytes than this is sent by itself.
const RESULT_BYTES_MAX: usize = 16 * 1024;

/// Those that are about to be sent, by where and what follows.
pub(crate) type AllCompleting = Gathering<(Partition, NextTask), Completing>;

/// One of them, while its caller waits.
pub(crate) struct Completing {
    handle: Handle,
    result: Option<Vec<u8>>,
    lease_id: LeaseId,
    in_flight: InFlight,
    guard: InFlightGuard,
    answer: oneshot::Sender<Result<Ended, EngineError>>,
}

pub(crate) fn gathering() -> AllCompleting {
    Gathering::new(limits::FINISH_BATCH_MAX as usize)
}

/// May a completion with this result be sent together with others?
pub(crate) fn is_small(result: &Option<Vec<u8>>) -> bool {
    result.as_ref().is_none_or(|bytes| bytes.len() <= RESULT_BYTES_MAX)
}

impl Shared {
    /// Completes a task, and takes the next one, together with those that come at this moment.
    pub(crate) async fn complete_with_others(
        self: &Arc<Self>,
        handle: &Handle,
        result: Option<Vec<u8>>,
        next: NextTask,
        lease_id: LeaseId,
        in_flight: InFlight,
    ) -> Result<Ended, EngineError> {
        let (answer, told) = oneshot::channel();
        let next = NextTask {
            lanes: next.lanes_after(handle),
            lease_ttl_ms: Some(next.lease_ttl_ms.unwrap_or(handle.lease_ttl_ms)),
            lease_id: None,
            ..next
        };
        let (partition, handle) = (handle.execution_id.partition(), handle.clone());
        let guard = in_flight.begin();
        let one = Completing { handle, result, lease_id, in_flight, guard, answer };
        if let Some(begun) = self.completing.join((partition, next), one) {
            let shared = Arc::clone(self);
            tokio::spawn(async move {
                let gathered = shared.completing.gather(begun).await;
                if let Some(((_, next), completing)) = gathered {
                    shared.send(&next, completing).await;
                }
            });
        }
        told.await.map_err(|_| stopped())?
    }

    async fn send(self: &Arc<Self>, next: &NextTask, mut completing: Vec<Completing>) {
        match completing.pop() {
            Some(one) if completing.is_empty() => self.send_one(next, one).await,
            last => {
                completing.extend(last);
                self.send_all(next, completing).await;
            }
        }
    }

    async fn send_one(self: &Arc<Self>, next: &NextTask, one: Completing) {
        let Completing { handle, result, lease_id, in_flight, guard, answer } = one;
        let end = TaskEnd::Complete(result);
        let sent = self.end_and_ask(&handle, end, next, lease_id, in_flight).await;
        // Whoever is gone by now does not hear it, and what it was given is handed back.
        drop(answer.send(sent.map(|ended| ended.until(guard))));
    }

    async fn send_all(self: &Arc<Self>, next: &NextTask, mut completing: Vec<Completing>) {
        let lease_ids = completing.iter().map(|one| one.lease_id).collect();
        let first = &completing[0].handle;
        let (asked, request) = self.ask_after(first, next, lease_ids, &self.in_flight);
        let completion = |one: &mut Completing| Completion {
            handle: one.handle.clone(),
            result: one.result.take(),
        };
        let completions = completing.iter_mut().map(completion).collect();
        match self.backend.complete_all_and_claim(completions, request).await {
            Ok(all) => {
                if let Some(asked) = asked.filter(|_| !all.is_repetition) {
                    asked.answered(largest(&all), all.next_score);
                }
                let each = completing.into_iter().zip(all.finished);
                each.for_each(|(one, finished)| self.tell(one, finished));
            }
            Err(error) => {
                completing.into_iter().for_each(|one| self.tell(one, Err(error.clone())));
            }
        }
    }

    fn tell(&self, one: Completing, finished: Result<Finished, EngineError>) {
        let Completing { in_flight, guard, answer, .. } = one;
        let ended = finished.map(|mut finished| {
            let taken = finished.next.take().into_iter().collect();
            let claims = Claims::new(Arc::clone(&self.backend), in_flight, taken);
            Ended { finished, claims, _guard: Some(guard) }
        });
        drop(answer.send(ended));
    }
}

/// The runtime of whoever sent it for all ended.
fn stopped() -> EngineError {
    let why = "the runtime that sent it ended";
    BackendError::new(BackendErrorKind::Transport, Retry::IfReplaySafe, why).into()
}

/// The bytes of the largest input among what was taken.
fn largest(all: &AllFinished) -> Option<u64> {
    let finished = all.finished.iter().flatten();
    finished.filter_map(|one| one.next.as_ref()).map(|one| one.payload.len() as u64).max()
}
