//! What a handler knows about its attempt, and can do besides returning.

use std::sync::Arc;
use std::time::Duration;

use ff_core::backend::HandleKind;
use ff_core::contracts::{
    ChildrenAdded, Claimed, GraphTask, PassedInput, ResumeSignal, ResumedBy, SuspendRequest, Tags,
};
use ff_core::types::{
    AttemptIndex, ExecutionId, LaneId, LeaseFence, Namespace, TimestampMs, WaitpointId,
    WaitpointToken,
};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::sync::mpsc;

use super::TaskError;
use crate::client::{Client, Submission};
use crate::error::SdkError;
use crate::flow::Input;
use crate::json;
use crate::kind::Takes;
use crate::task::{Child, Frames, LeaseLoss, LeaseMonitor, TaskCore, Usage};

/// What a handler knows about its attempt: which execution, which try, the shared state, and
/// whether it is still wanted. Cheap to clone.
pub struct Context<S = ()> {
    core: Arc<TaskCore>,
    state: Arc<S>,
    /// Ends the handler with what is no failure.
    end: mpsc::Sender<TaskError>,
}

impl<S> Clone for Context<S> {
    fn clone(&self) -> Self {
        let (core, state) = (Arc::clone(&self.core), Arc::clone(&self.state));
        Self { core, state, end: self.end.clone() }
    }
}

impl<S> Context<S> {
    pub(super) fn new(core: Arc<TaskCore>, state: Arc<S>, end: mpsc::Sender<TaskError>) -> Self {
        Self { core, state, end }
    }

    /// What all handlers of the worker share.
    pub fn state(&self) -> &S {
        &self.state
    }

    /// The execution.
    pub fn execution_id(&self) -> ExecutionId {
        self.core.handle().execution_id
    }

    /// Which try this is: 1 for the first one.
    pub fn attempt(&self) -> u32 {
        self.attempt_index().get().saturating_add(1)
    }

    /// The number of the attempt, from 0.
    pub fn attempt_index(&self) -> AttemptIndex {
        self.core.handle().attempt_index
    }

    /// Whether the attempt is a new one, goes on after a pause, or follows a lost worker.
    pub fn claim_kind(&self) -> HandleKind {
        self.core.handle().kind
    }

    /// The handler that the submitter asked for.
    pub fn kind(&self) -> &str {
        self.core.claimed.kind.as_str()
    }

    /// The lane it was claimed from.
    pub fn lane(&self) -> &LaneId {
        &self.core.handle().lane
    }

    /// The namespace it belongs to.
    pub fn namespace(&self) -> &Namespace {
        &self.core.claimed.namespace
    }

    /// Labels.
    pub fn tags(&self) -> &Tags {
        &self.core.claimed.tags
    }

    /// What it uses of the budgets that apply to it.
    ///
    /// ```
    /// # use ff_sdk::{Context, ReportUsageResult, TaskResult, UsageDimensions};
    /// async fn step(context: &Context, number: u32) -> TaskResult<bool> {
    ///     let used = UsageDimensions::new().with("tokens", 800);
    ///     let used = used.dedup_key(format!("step-{number}"));
    ///     let told = context.usage().report(used).await?;
    ///     Ok(!matches!(told, ReportUsageResult::HardBreach { .. }))
    /// }
    /// ```
    pub fn usage(&self) -> Usage<'_> {
        Usage::new(&self.core)
    }

    /// The input as it was submitted.
    pub fn payload(&self) -> &[u8] {
        &self.core.claimed.payload
    }

    /// What upstreams of its flow pass to it, by name, in the order in which they came, as far as
    /// the claim brought it: the first 256, with their bytes while those are at most 64 KiB in all.
    pub fn inputs(&self) -> &[PassedInput] {
        &self.core.claimed.inputs
    }

    /// What an upstream of its flow passes under a name, read as JSON; none if nothing is.
    pub async fn input<T: DeserializeOwned>(&self, name: &str) -> Result<Option<T>, SdkError> {
        let Some(bytes) = self.core.input(name).await? else { return Ok(None) };
        let wrong = |error| format!("input {name} has another shape: {error}");
        json::decode(&bytes).map(Some).map_err(|error| SdkError::wrong_input(wrong(error)))
    }

    /// What is passed under a name whose type is known. That nothing is, is an error which as a
    /// [`TaskError`] is final.
    pub async fn passed<T: DeserializeOwned>(&self, input: &Input<T>) -> Result<T, SdkError> {
        let missing = || SdkError::wrong_input(format!("nothing is passed as {}", input.name()));
        self.input(input.name()).await?.ok_or_else(missing)
    }

    /// All inputs with their bytes. What the claim did not bring is read, a mebibyte at a time.
    pub async fn all_inputs(&self) -> Result<Vec<PassedInput>, SdkError> {
        self.core.all_inputs().await
    }

    /// What is passed under a name, with its bytes as they are; none if nothing is.
    pub async fn input_raw(&self, name: &str) -> Result<Option<Vec<u8>>, SdkError> {
        self.core.input(name).await
    }

    /// Adds members to the execution's flow, as its children; an execution in no flow begins one of
    /// its own. An attempt that adds the same again changes nothing, so a handler just asks for
    /// what it needs, and waits while some of it is not there:
    ///
    /// ```
    /// use ff_sdk::{Context, Kind};
    ///
    /// const COUNT: Kind<String, u64> = Kind::new("count").retries(3);
    ///
    /// async fn total(context: Context, pages: Vec<String>) -> anyhow::Result<u64> {
    ///     let tasks = pages.iter().map(|page| COUNT.task(page, page));
    ///     context.add_children(tasks.collect::<Result<Vec<_>, _>>()?).await?;
    ///     if context.has_open_children() {
    ///         context.wait_children().await;
    ///     }
    ///     let mut words = 0;
    ///     for child in context.children() {
    ///         words += child.result_of(&COUNT).await?;
    ///     }
    ///     Ok(words)
    /// }
    /// ```
    pub async fn add_children(
        &self,
        tasks: impl IntoIterator<Item = GraphTask>,
    ) -> Result<ChildrenAdded, SdkError> {
        self.core.add_children(tasks.into_iter().collect()).await
    }

    /// The children of the execution, in the order in which they were added, as they stood when it
    /// was claimed.
    pub fn children(&self) -> Vec<Child> {
        let child = |told| Child::new(Arc::clone(&self.core), told);
        self.core.family.all().into_iter().map(child).collect()
    }

    /// True if some children are not over, as far as this attempt knows: it should wait for them,
    /// by [`TaskError::wait_children`].
    pub fn has_open_children(&self) -> bool {
        self.children().iter().any(|child| !child.is_over())
    }

    /// Everything that the claim answered.
    pub fn claimed(&self) -> &Claimed {
        &self.core.claimed
    }

    /// Proof of holding the lease, for other systems that want to refuse a zombie's write.
    pub fn fence(&self) -> LeaseFence {
        self.core.handle().fence
    }

    /// The fence as the value of an HTTP header, see [`crate::FENCE_HEADER`].
    pub fn fence_header_value(&self) -> String {
        self.core.fence_header_value()
    }

    /// Says how far the work is: 0 to 100, and a sentence for a person.
    pub async fn progress(&self, percent: u8, message: &str) -> Result<(), SdkError> {
        self.core.progress(percent, message).await
    }

    /// Writes output that others follow: tokens, lines, anything. Whatever was written is there
    /// before the attempt ends.
    pub fn frames(&self) -> Frames {
        Frames::new(Arc::clone(&self.core))
    }

    /// Exactly the signals that ended the latest wait of the execution, in their order: empty until
    /// then. A handler that waits asks for them first, and suspends if there are none:
    ///
    /// ```
    /// use ff_sdk::{Condition, Context, SuspendRequest, TaskError};
    ///
    /// async fn publish(context: Context, page: String) -> Result<String, TaskError> {
    ///     let signals = context.resume_signals().await?;
    ///     match signals.first().map(|signal| signal.signal_name.as_str()) {
    ///         Some("approved") => Ok(format!("{page} is published")),
    ///         Some(_) => Err(TaskError::fail("nobody wants it")),
    ///         None => {
    ///             let decision = Condition::any(["approved", "rejected"]);
    ///             Err(TaskError::suspend(SuspendRequest::new(decision)))
    ///         }
    ///     }
    /// }
    /// ```
    pub async fn resume_signals(&self) -> Result<Vec<ResumeSignal>, SdkError> {
        self.core.resume_signals().await
    }

    /// What ended the latest wait of the execution; none if it never was suspended.
    pub fn resumed_by(&self) -> Option<ResumedBy> {
        self.core.latest_wait.ended_by().map(|resumption| resumption.resumed_by)
    }

    /// Opens a waitpoint before the handler suspends on it, so that the token can be sent out
    /// first. [`SuspendRequest::pending_waitpoint_id`](crate::SuspendRequest) names it.
    pub async fn create_pending_waitpoint(
        &self,
        waitpoint_key: &str,
        expires_in_ms: u64,
    ) -> Result<(WaitpointId, WaitpointToken), SdkError> {
        self.core.create_pending_waitpoint(waitpoint_key, expires_in_ms).await
    }

    /// An execution for the handler of a name or a [`Kind`](crate::Kind), in the namespace of this
    /// one: see [`Client::submit`]. An attempt that follows this one would submit it again: an
    /// [`idempotency_key`](crate::Submission::idempotency_key) made of this execution's UUID keeps
    /// it from being a second one.
    ///
    /// ```
    /// use ff_sdk::{Context, Kind, TaskError};
    ///
    /// const INVOICE: Kind<u64, ()> = Kind::new("invoice");
    ///
    /// async fn order(context: Context, cents: u64) -> Result<(), TaskError> {
    ///     let key = format!("invoice-of-{}", context.execution_id().uuid());
    ///     context.submit(&INVOICE, &cents).idempotency_key(key).await?;
    ///     Ok(())
    /// }
    /// ```
    pub fn submit<I: Serialize + ?Sized>(&self, kind: impl Takes<I>, input: &I) -> Submission {
        self.client().submit(kind, input)
    }

    /// A client over the worker's connection, in the namespace of this execution: to wait for other
    /// executions, to cancel them, to look at them.
    pub fn client(&self) -> Client {
        Client::new(&self.core.connection).with_namespace(self.namespace().clone())
    }

    /// Gives the execution back for a while, by the store's clock. The handler ends here and is
    /// dropped; when the time has come it is run again, in the same attempt.
    ///
    /// ```
    /// use std::time::Duration;
    /// use ff_sdk::Context;
    ///
    /// # async fn is_uploaded(_: &str) -> anyhow::Result<bool> { Ok(true) }
    /// async fn transcode(context: Context, clip: String) -> anyhow::Result<String> {
    ///     if !is_uploaded(&clip).await? {
    ///         context.delay_for(Duration::from_secs(60)).await;
    ///     }
    ///     Ok(format!("{clip}.webm"))
    /// }
    /// ```
    ///
    /// A handler that blocks its thread cannot be dropped: it returns [`TaskError::delay_for`],
    /// and so for all that end a handler from within.
    pub async fn delay_for(&self, pause: Duration) -> ! {
        self.end_with(TaskError::delay_for(pause)).await
    }

    /// The same until a time of the store's clock.
    pub async fn delay_until(&self, time: TimestampMs) -> ! {
        self.end_with(TaskError::delay_until(time)).await
    }

    /// Ends the execution as cancelled, by its worker. The handler ends here and is dropped.
    pub async fn cancel(&self, reason: &str) -> ! {
        self.end_with(TaskError::cancel(reason)).await
    }

    /// Gives the execution back until it is signalled: see [`TaskError::suspend`]. The handler ends
    /// here and is dropped; then it is run again, in the same attempt.
    pub async fn suspend(&self, request: SuspendRequest) -> ! {
        self.end_with(TaskError::suspend(request)).await
    }

    /// Gives the execution back until its children have ended: see [`TaskError::wait_children`].
    /// The handler ends here and is dropped; then it is run again, in the same attempt.
    pub async fn wait_children(&self) -> ! {
        self.end_with(TaskError::wait_children()).await
    }

    /// Fails the attempt with all that a [`TaskError`] can say, whatever the type of the handler's
    /// own errors is. The handler ends here and is dropped.
    ///
    /// ```
    /// use ff_sdk::{Context, TaskError};
    ///
    /// async fn charge(context: Context, cents: i64) -> anyhow::Result<()> {
    ///     if cents < 0 {
    ///         context.fail(TaskError::fail("a charge cannot be negative")).await;
    ///     }
    ///     anyhow::bail!("the bank is busy, which may be tried again")
    /// }
    /// ```
    pub async fn fail(&self, error: TaskError) -> ! {
        self.end_with(error).await
    }

    async fn end_with(&self, outcome: TaskError) -> ! {
        // Who listens drops the handler. Should nobody listen any more, it is being dropped.
        let _ = self.end.send(outcome).await;
        std::future::pending().await
    }

    /// The lease, for whoever must know until when it holds.
    pub fn lease(&self) -> LeaseMonitor {
        LeaseMonitor(Arc::clone(&self.core.lease))
    }

    /// True if the lease is lost: the work is somebody else's now.
    pub fn is_cancelled(&self) -> bool {
        self.core.lease.loss().is_some()
    }

    /// Returns when the lease is lost. The handler itself is dropped at its next `await` then; this
    /// is for what it has started elsewhere.
    pub async fn cancelled(&self) -> LeaseLoss {
        self.core.lease.lost().await
    }
}
