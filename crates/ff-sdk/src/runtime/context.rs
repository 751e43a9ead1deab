//! What a handler knows about its attempt, and can do besides returning.

use std::sync::Arc;

use ff_core::backend::HandleKind;
use ff_core::contracts::{
    ChildrenAdded, Claimed, GraphTask, PassedInput, ResumeSignal, ResumedBy, Tags,
};
use ff_core::types::{
    AttemptIndex, ExecutionId, LaneId, LeaseFence, Namespace, WaitpointId, WaitpointToken,
};

use serde::de::DeserializeOwned;

use super::TaskError;
use crate::error::SdkError;
use crate::flow::Input;
use crate::json;
use crate::task::{Child, Frames, LeaseLoss, LeaseMonitor, TaskCore};

/// What a handler knows about its attempt: which execution, which try, the shared state, and
/// whether it is still wanted. Cheap to clone.
pub struct Context<S = ()> {
    core: Arc<TaskCore>,
    state: Arc<S>,
}

impl<S> Clone for Context<S> {
    fn clone(&self) -> Self {
        Self { core: Arc::clone(&self.core), state: Arc::clone(&self.state) }
    }
}

impl<S> Context<S> {
    pub(super) fn new(core: Arc<TaskCore>, state: Arc<S>) -> Self {
        Self { core, state }
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

    /// The input as it was submitted.
    pub fn payload(&self) -> &[u8] {
        &self.core.claimed.payload
    }

    /// What upstreams of its flow pass to it, by name, in the order in which they came.
    pub fn inputs(&self) -> &[PassedInput] {
        &self.core.claimed.inputs
    }

    /// What an upstream of its flow passes under a name, read as JSON; none if nothing is.
    pub async fn input<T: DeserializeOwned>(&self, name: &str) -> Result<Option<T>, TaskError> {
        let Some(bytes) = self.core.input(name).await? else { return Ok(None) };
        let wrong = |error| TaskError::fail(format!("input {name} has another shape: {error}"));
        json::decode(&bytes).map(Some).map_err(wrong)
    }

    /// What is passed under a name whose type is known. Fails the attempt for good if nothing is.
    pub async fn passed<T: DeserializeOwned>(&self, input: &Input<T>) -> Result<T, TaskError> {
        let missing = || TaskError::fail(format!("nothing is passed as {}", input.name()));
        self.input(input.name()).await?.ok_or_else(missing)
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
    /// use ff_sdk::{Context, CreateExecution, ExecutionKind, GraphTask, TaskError};
    ///
    /// async fn total(context: Context, pages: Vec<String>) -> Result<u64, TaskError> {
    ///     let count = ExecutionKind::try_new("count")?;
    ///     let task = |page: &String| {
    ///         let mut counting = CreateExecution::new(count.clone());
    ///         counting.payload_text = Some(format!("{page:?}"));
    ///         GraphTask::new(page.clone(), counting)
    ///     };
    ///     context.add_children(pages.iter().map(task)).await?;
    ///     if context.has_open_children() {
    ///         return Err(TaskError::wait_children());
    ///     }
    ///     let mut words = 0;
    ///     for child in context.children() {
    ///         words += child.result::<u64>().await?;
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
