//! An execution in a worker's hands.

mod children;
mod frames;
mod lease;
mod outcome;
mod renewal;
mod usage;
mod waiting;

pub use children::Child;
pub use frames::Frames;
pub use lease::{LeaseLoss, LeaseMonitor};
pub use usage::{Usage, parse_report_usage_result};
pub use waiting::SuspendOutcome;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use ff_core::backend::{
    FailOutcome, FailureClass, FailureReason, Frame, FrameKind, Handle, HandleKind,
};
use ff_core::contracts::{
    AppendFrameOutcome, Claimed, InputPage, InputQuery, NextTask, PassedInput, StreamFrames, Tags,
};
use ff_core::engine_backend::EngineBackend;
use ff_core::error::{Code, EngineError};
use ff_core::limits;
use ff_core::types::{
    AttemptId, AttemptIndex, ExecutionId, ExecutionKind, LaneId, LeaseEpoch, LeaseFence, LeaseId,
    Moment, Namespace, StreamCursor, TimestampMs,
};
use ff_script::until_answered;
use tokio::sync::OwnedSemaphorePermit;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::connection::Connection;
use crate::error::{Context as _, SdkError, TerminalError};
use crate::stream;
use crate::worker::Shared;
use children::Family;
use frames::Output;
use lease::Lease;
use outcome::Landed;
pub(crate) use outcome::{Outcome, Told};
use waiting::LatestWait;

/// The header that carries [`ClaimedTask::fence_header_value`] to other systems.
pub const FENCE_HEADER: &str = "flowfabric-fence";

/// An execution in a worker's hands, under a lease that is renewed in the background, on a thread
/// of its own: work that blocks this one does not cost the lease.
///
/// It ends by [`complete`](Self::complete), [`fail`](Self::fail), [`cancel`](Self::cancel),
/// [`suspend`](Self::suspend), [`delay_execution`](Self::delay_execution) or
/// [`move_to_waiting_children`](Self::move_to_waiting_children), which consume it.
/// Should the store not answer, they try again until the lease's deadline and then give the task
/// back inside the error. A task that is simply dropped hands its execution back at once, so that
/// another worker goes on with the same attempt.
pub struct ClaimedTask {
    core: Arc<TaskCore>,
    shared: Arc<Shared>,
    renewal: JoinHandle<()>,
    /// The worker's room for it, released with the task; none until somebody takes it over.
    permit: Option<OwnedSemaphorePermit>,
    /// An outcome landed, or there is nothing left to report.
    finished: bool,
    /// A call may have been applied although its answer was lost.
    unresolved: bool,
}

/// What a task shares with its renewal and with a handler's context.
pub(crate) struct TaskCore {
    pub(crate) claimed: Claimed,
    pub(crate) connection: Connection,
    pub(crate) lease: Arc<Lease>,
    pub(crate) output: Output,
    pub(crate) latest_wait: LatestWait,
    pub(crate) family: Family,
}

impl TaskCore {
    fn new(claimed: Claimed, deadline: Instant, shared: &Shared) -> Self {
        let ttl = Duration::from_millis(claimed.handle.lease_ttl_ms);
        let over_at = claimed.attempt_timeout_at.into_iter().chain(claimed.deadline_at).min();
        let over_at = over_at.and_then(|over_at| shared.clock.latest(over_at));
        let lease = Arc::new(Lease::new(deadline, over_at, ttl));
        let latest_wait = LatestWait::new(claimed.resumption.clone());
        let family = Family::new(claimed.children.clone());
        let (connection, output) = (shared.connection.clone(), Output::default());
        Self { claimed, connection, lease, output, latest_wait, family }
    }

    pub(crate) fn engine(&self) -> &Arc<dyn EngineBackend> {
        self.connection.engine()
    }

    pub(crate) fn handle(&self) -> &Handle {
        &self.claimed.handle
    }

    pub(crate) async fn progress(&self, percent: u8, message: &str) -> Result<(), SdkError> {
        if percent > 100 {
            let error =
                EngineError::invalid("percent", format!("must be at most 100, got {percent}"));
            return Err(error.into());
        }
        self.check_held()?;
        let message = Some(message.to_owned());
        self.engine().progress(self.handle(), Some(percent), message).await.context("progress")
    }

    /// What an upstream passes under a name; none if nothing is. What was too large for the claim
    /// is read now.
    pub(crate) async fn input(&self, name: &str) -> Result<Option<Vec<u8>>, SdkError> {
        let brought = &self.claimed.inputs;
        if let Some(input) = brought.iter().find(|input| input.name == name) {
            if let Some(bytes) = &input.bytes_base64 {
                return Ok(Some(bytes.0.clone()));
            }
            return self.engine().read_result(input.execution_id).await.context("input");
        }
        let mut from = self.unnamed();
        while let Some(place) = from {
            let page = self.read_inputs(place).await?;
            from = page.next_from;
            if let Some(input) = page.inputs.into_iter().find(|input| input.name == name) {
                return Ok(input.bytes_base64.map(|bytes| bytes.0));
            }
        }
        Ok(None)
    }

    /// Everything that upstreams pass, with its bytes, however much that is.
    pub(crate) async fn all_inputs(&self) -> Result<Vec<PassedInput>, SdkError> {
        let brought = &self.claimed.inputs;
        let is_here = |input: &&PassedInput| input.bytes_base64.is_some();
        let mut inputs: Vec<PassedInput> = brought.iter().take_while(is_here).cloned().collect();
        let is_more = inputs.len() < brought.len() || self.unnamed().is_some();
        let mut from = is_more.then_some(inputs.len() as u64);
        while let Some(place) = from {
            let page = self.read_inputs(place).await?;
            inputs.extend(page.inputs);
            from = page.next_from;
        }
        Ok(inputs)
    }

    /// Where the inputs begin that the claim did not even name; none if it named all.
    fn unnamed(&self) -> Option<u64> {
        let named = self.claimed.inputs.len() as u64;
        (named >= limits::CLAIM_INPUTS_MAX).then_some(named)
    }

    async fn read_inputs(&self, from: u64) -> Result<InputPage, SdkError> {
        let query = InputQuery { from: Some(from), bytes_max: None };
        self.engine().read_inputs(self.handle().execution_id, query).await.context("inputs")
    }

    /// After the loss of the lease the store would refuse: it need not be asked.
    pub(crate) fn check_held(&self) -> Result<(), SdkError> {
        match self.lease.loss() {
            None => Ok(()),
            Some(loss) => {
                Err(EngineError::refused(Code::LeaseExpired).in_context(loss.to_string()).into())
            }
        }
    }

    pub(crate) fn fence_header_value(&self) -> String {
        let Handle { execution_id, fence, .. } = self.handle();
        let LeaseFence { lease_id, lease_epoch, attempt_id } = fence;
        format!(
            "execution=\"{execution_id}\", epoch={lease_epoch}, lease=\"{lease_id}\", \
             attempt=\"{attempt_id}\""
        )
    }
}

impl ClaimedTask {
    /// Takes charge of a lease.
    pub(crate) fn new(claimed: Claimed, deadline: Instant, shared: Arc<Shared>) -> Self {
        let core = Arc::new(TaskCore::new(claimed, deadline, &shared));
        shared.tasks.add(&core);
        let engine = Arc::clone(shared.upkeep.engine());
        let renewal = shared.upkeep.spawn(renewal::keep(Arc::clone(&core), engine));
        Self { core, shared, renewal, permit: None, finished: false, unresolved: false }
    }

    /// Takes room of the worker, for as long as the task lasts.
    pub(crate) fn with_permit(mut self, permit: OwnedSemaphorePermit) -> Self {
        self.permit = Some(permit);
        self
    }

    /// The execution.
    pub fn execution_id(&self) -> &ExecutionId {
        &self.handle().execution_id
    }

    /// The number of the attempt, from 0.
    pub fn attempt_index(&self) -> AttemptIndex {
        self.handle().attempt_index
    }

    /// The attempt.
    pub fn attempt_id(&self) -> &AttemptId {
        &self.handle().fence.attempt_id
    }

    /// The lease.
    pub fn lease_id(&self) -> &LeaseId {
        &self.handle().fence.lease_id
    }

    /// The lease's epoch: greater than that of every lease of this execution before.
    pub fn lease_epoch(&self) -> LeaseEpoch {
        self.handle().fence.lease_epoch
    }

    /// How the lease came about.
    pub fn claim_kind(&self) -> HandleKind {
        self.handle().kind
    }

    /// The input as it was submitted.
    pub fn input_payload(&self) -> &[u8] {
        &self.core.claimed.payload
    }

    /// What upstreams of its flow pass to it, by name, in the order in which they came.
    pub fn inputs(&self) -> &[PassedInput] {
        &self.core.claimed.inputs
    }

    /// The handler that the submitter asked for.
    pub fn execution_kind(&self) -> &str {
        self.core.claimed.kind.as_str()
    }

    /// Labels.
    pub fn tags(&self) -> &Tags {
        &self.core.claimed.tags
    }

    /// The lane it was claimed from.
    pub fn lane_id(&self) -> &LaneId {
        &self.handle().lane
    }

    /// The namespace it belongs to.
    pub fn namespace(&self) -> &Namespace {
        &self.core.claimed.namespace
    }

    /// Everything that the claim answered.
    pub fn claimed(&self) -> &Claimed {
        &self.core.claimed
    }

    /// What every call about this task carries.
    pub fn handle(&self) -> &Handle {
        self.core.handle()
    }

    /// Proof of holding the lease. Other systems that remember the greatest
    /// [`lease_epoch`](Self::lease_epoch) they saw for an execution can refuse a late write of a
    /// worker that lost its lease without noticing.
    pub fn fence(&self) -> LeaseFence {
        self.handle().fence
    }

    /// The fence as the value of an HTTP header (a structured field, RFC 9651), see
    /// [`FENCE_HEADER`].
    pub fn fence_header_value(&self) -> String {
        self.core.fence_header_value()
    }

    /// True only while the lease is certainly held, with a margin to act: judged by time, not by
    /// the number of failed renewals.
    pub fn is_lease_healthy(&self) -> bool {
        self.core.lease.is_healthy()
    }

    /// Until when the lease certainly holds.
    pub fn lease_deadline(&self) -> Instant {
        self.core.lease.deadline()
    }

    /// How many renewals have failed since the last one that succeeded.
    pub fn consecutive_renewal_failures(&self) -> u32 {
        self.core.lease.failures()
    }

    /// Why the last failed renewal failed.
    pub fn last_renewal_error(&self) -> Option<EngineError> {
        self.core.lease.last_error()
    }

    /// A view of the lease that can be kept apart from the task.
    pub fn lease(&self) -> LeaseMonitor {
        LeaseMonitor(Arc::clone(&self.core.lease))
    }

    /// Returns when the lease is lost: the work is somebody else's now, and should stop.
    pub fn lost(&self) -> impl Future<Output = LeaseLoss> + Send + 'static {
        let lease = Arc::clone(&self.core.lease);
        async move { lease.lost().await }
    }

    pub(crate) fn core(&self) -> &Arc<TaskCore> {
        &self.core
    }

    /// Renews the lease now, outside the schedule.
    pub async fn renew_lease(&self) -> Result<(), SdkError> {
        self.core.check_held()?;
        renewal::renew(&self.core, self.core.engine()).await.context("renew")
    }

    /// Says how far the work is: 0 to 100, and a sentence for a person.
    pub async fn update_progress(&self, percent: u8, message: &str) -> Result<(), SdkError> {
        self.core.progress(percent, message).await
    }

    /// Appends a frame to the attempt's output and waits until it is there: its type, a word of
    /// your own; its bytes; and, if you like, what connects it to something else.
    pub async fn append_frame(
        &self,
        frame_type: &str,
        payload: &[u8],
        metadata: Option<&str>,
    ) -> Result<AppendFrameOutcome, SdkError> {
        let mut frame = Frame::new(FrameKind::Event, payload).with_type(frame_type);
        frame.correlation_id = metadata.map(str::to_owned);
        self.core.check_held()?;
        frames::append(&self.core, frame).await.context("append_frame")
    }

    /// Writes output without waiting for each frame. It is there before an outcome is reported.
    pub fn frames(&self) -> Frames {
        Frames::new(Arc::clone(&self.core))
    }

    /// Reads the attempt's own output: see [`crate::read_stream`].
    pub async fn read_stream(
        &self,
        from: StreamCursor,
        to: StreamCursor,
        count_limit: u64,
    ) -> Result<StreamFrames, SdkError> {
        let (engine, id) = (self.core.engine().as_ref(), self.execution_id());
        stream::read_stream(engine, id, self.attempt_index(), from, to, count_limit).await
    }

    /// Waits for more of the attempt's own output: see [`crate::tail_stream`].
    pub async fn tail_stream(
        &self,
        after: StreamCursor,
        block_ms: u64,
        count_limit: u64,
    ) -> Result<StreamFrames, SdkError> {
        let (engine, id) = (self.core.engine().as_ref(), self.execution_id());
        let attempt = self.attempt_index();
        stream::tail_stream(engine, id, attempt, after, block_ms, count_limit).await
    }

    /// Ends the execution in success, with a result or without.
    pub async fn complete(self, result_payload: Option<Vec<u8>>) -> Result<(), TerminalError> {
        self.settle(&Outcome::Complete(result_payload)).await.map(drop)
    }

    /// Ends the execution in success, and takes the next one in the same call, if there is one that
    /// comes next: it has the room of this one. None says nothing but that it is time to claim.
    pub async fn complete_and_claim_next(
        self,
        result_payload: Option<Vec<u8>>,
    ) -> Result<Option<Self>, TerminalError> {
        let next = self.next_task(self.shared.kinds());
        let told = self.tell(&Outcome::Complete(result_payload), next).await?;
        Ok(told.next)
    }

    /// What to ask for with the end of this task, of these kinds.
    pub(crate) fn next_task(&self, kinds: Vec<ExecutionKind>) -> Option<NextTask> {
        self.shared.next_task(kinds)
    }

    /// Ends the attempt as failed. The execution's policy decides about a retry, by the category:
    /// `transient`, `permanent`, `infra_crash`, `timeout`, `cancelled` or one of your own.
    pub async fn fail(
        self,
        reason: &str,
        error_category: &str,
    ) -> Result<FailOutcome, TerminalError> {
        match FailureClass::from_category(error_category) {
            Ok(class) => self.fail_with(FailureReason::new(reason), class).await,
            Err(error) => Err(TerminalError { task: Some(Box::new(self)), source: error.into() }),
        }
    }

    /// Ends the attempt as failed, with a detail for whoever looks into it.
    pub async fn fail_with(
        self,
        reason: FailureReason,
        class: FailureClass,
    ) -> Result<FailOutcome, TerminalError> {
        match self.settle(&Outcome::Fail(reason, class)).await? {
            Landed::Failed(outcome) => Ok(outcome),
            _ => unreachable!("a failure is answered with what follows from it"),
        }
    }

    /// Ends the execution as cancelled, by its worker.
    pub async fn cancel(self, reason: &str) -> Result<(), TerminalError> {
        self.settle(&Outcome::Cancel(reason.to_owned())).await.map(drop)
    }

    /// Gives the execution back until a time of the store's clock. Then the same attempt goes on,
    /// with any worker.
    pub async fn delay_execution(self, delay_until: TimestampMs) -> Result<(), TerminalError> {
        self.settle(&Outcome::Delay(delay_until.into())).await.map(drop)
    }

    /// Gives the execution back for a while, by the store's clock.
    pub async fn delay_for(self, pause: Duration) -> Result<(), TerminalError> {
        let pause_ms = u64::try_from(pause.as_millis()).unwrap_or(u64::MAX);
        self.settle(&Outcome::Delay(Moment::After(pause_ms))).await.map(drop)
    }

    /// Gives the execution back until its children have ended, however they did. Then the same
    /// attempt goes on, with any worker; at once if all have.
    pub async fn move_to_waiting_children(self) -> Result<(), TerminalError> {
        self.settle(&Outcome::WaitChildren).await.map(drop)
    }

    /// Nothing is left to do: no renewal, no handing back.
    fn finish(&mut self) {
        self.finished = true;
        self.core.lease.settle();
    }
}

impl Drop for ClaimedTask {
    fn drop(&mut self) {
        self.renewal.abort();
        self.shared.tasks.remove(self.lease_id());
        if self.finished || self.core.lease.loss().is_some() {
            return;
        }
        let execution_id = self.execution_id();
        tracing::warn!(%execution_id, "a task was dropped without an outcome; handing it back");
        self.core.lease.settle();
        self.shared.hand_backs.spawn(hand_back(Arc::clone(&self.core)));
    }
}

/// Takes the lease away from a task that is still in somebody's hands, and hands it back.
pub(crate) fn take_away(core: &Arc<TaskCore>, shared: &Shared) {
    core.lease.lose(LeaseLoss::HandedBack);
    shared.hand_backs.spawn(hand_back(Arc::clone(core)));
}

/// Gives the lease back so that the execution can be claimed at once.
async fn hand_back(core: Arc<TaskCore>) {
    until_answered::hand_back(core.engine().as_ref(), core.handle(), core.lease.deadline()).await;
}

impl fmt::Debug for ClaimedTask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClaimedTask")
            .field("execution_id", self.execution_id())
            .field("kind", &self.execution_kind())
            .field("attempt_index", &self.attempt_index())
            .field("lease_epoch", &self.lease_epoch())
            .finish_non_exhaustive()
    }
}
