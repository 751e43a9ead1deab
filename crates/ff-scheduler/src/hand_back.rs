//! Claims that nobody takes any more are handed back, so that no lease has to lapse because a
//! caller went away.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use ff_core::contracts::{Claimed, payload_bytes};
use ff_core::engine_backend::{Answer, PartitionBackend};
use ff_core::error::EngineError;
use ff_core::limits;
use ff_script::in_flight::{InFlight, InFlightGuard};
use ff_script::until_answered;
use tokio::runtime::Handle as Runtime;
use tokio::time::Instant;

/// A call that, once begun, runs to its end, whoever waits for it: its caller may go away while the
/// store answers. What it found is then dropped, and with that handed back.
pub(crate) struct Detached<T: Send + 'static> {
    call: Option<Answer<'static, T>>,
    begun: bool,
}

impl<T: Send + 'static> Detached<T> {
    pub(crate) fn new(call: impl Future<Output = Result<T, EngineError>> + Send + 'static) -> Self {
        Self { call: Some(Box::pin(call)), begun: false }
    }
}

impl<T: Send + 'static> Future for Detached<T> {
    type Output = Result<T, EngineError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        self.begun = true;
        let Some(call) = &mut self.call else { return Poll::Pending };
        let answer = call.as_mut().poll(context);
        if answer.is_ready() {
            self.call = None;
        }
        answer
    }
}

impl<T: Send + 'static> Drop for Detached<T> {
    fn drop(&mut self) {
        if let Some(call) = self.call.take().filter(|_| self.begun) {
            go_on(async { drop(call.await) });
        }
    }
}

/// Lets something go on by itself, if there is still a runtime to do so.
fn go_on(something: impl Future<Output = ()> + Send + 'static) {
    if let Ok(runtime) = Runtime::try_current() {
        runtime.spawn(something);
    }
}

/// Executions on their way to a caller.
pub(crate) struct Claims {
    backend: Arc<dyn PartitionBackend>,
    in_flight: InFlight,
    claimed: Vec<Claimed>,
}

impl Claims {
    pub(crate) fn new(
        backend: Arc<dyn PartitionBackend>,
        in_flight: InFlight,
        claimed: Vec<Claimed>,
    ) -> Self {
        Self { backend, in_flight, claimed }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.claimed.is_empty()
    }

    pub(crate) fn add(&mut self, mut found: Self) {
        self.claimed.append(&mut found.claimed);
    }

    /// How much input they have.
    pub(crate) fn bytes(&self) -> u64 {
        payload_bytes(&self.claimed)
    }

    /// Hands back what is beyond the bytes that an answer may have; the first one fits always.
    pub(crate) fn hand_back_surplus(&mut self) {
        let mut bytes = 0;
        let fitting = self.claimed.iter().take_while(|one| {
            let fits = bytes < limits::CLAIM_BYTES_MAX;
            bytes += one.payload.len() as u64;
            fits
        });
        let surplus = self.claimed.split_off(fitting.count());
        drop(Self::new(Arc::clone(&self.backend), self.in_flight.clone(), surplus));
    }

    /// The caller has them now.
    pub(crate) fn keep(mut self) -> Vec<Claimed> {
        std::mem::take(&mut self.claimed)
    }
}

impl Drop for Claims {
    fn drop(&mut self) {
        let claimed = std::mem::take(&mut self.claimed);
        if !claimed.is_empty() {
            go_on(hand_back(Arc::clone(&self.backend), self.in_flight.begin(), claimed));
        }
    }
}

async fn hand_back(
    backend: Arc<dyn PartitionBackend>,
    _guard: InFlightGuard,
    claimed: Vec<Claimed>,
) {
    for Claimed { handle, .. } in claimed {
        let lease_ends = Instant::now() + Duration::from_millis(handle.lease_ttl_ms);
        until_answered::hand_back(&*backend, &handle, lease_ends).await;
    }
}
