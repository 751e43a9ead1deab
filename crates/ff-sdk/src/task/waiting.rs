//! Waiting: a task gives its execution back until signals say how it goes on.

use std::sync::{Mutex, PoisonError};

use ff_core::contracts::{
    self, Condition, ConditionMatcher, CreateWaitpoint, ResumeSignal, Resumption, SuspendRequest,
    SuspensionReason, TimeoutBehavior,
};
use ff_core::types::{SuspensionId, WaitpointId, WaitpointToken};
use ff_script::ids::{IdSource, SystemIds};

use super::outcome::{Landed, Outcome, Told, until_answered};
use super::{ClaimedTask, TaskCore};
use crate::error::{Context as _, SdkError, TerminalError};

/// What became of a request to suspend.
#[derive(Debug)]
pub enum SuspendOutcome {
    /// The execution waits. Whoever shows the token may signal the waitpoint.
    Suspended {
        /// The suspension.
        suspension_id: SuspensionId,
        /// What it waits on.
        waitpoint_id: WaitpointId,
        /// The name of that.
        waitpoint_key: String,
        /// What senders must show: a credential.
        waitpoint_token: WaitpointToken,
    },
    /// The signals that came before were enough: the lease is still held, and the task goes on.
    AlreadySatisfied {
        /// The suspension that was not necessary.
        suspension_id: SuspensionId,
        /// What it would have waited on.
        waitpoint_id: WaitpointId,
        /// The name of that.
        waitpoint_key: String,
        /// What senders had to show.
        waitpoint_token: WaitpointToken,
        /// The task: [`ClaimedTask::resume_signals`] has the signals.
        task: Box<ClaimedTask>,
    },
}

/// What ended the latest wait of a task's execution, if it ever was suspended.
pub(crate) struct LatestWait(Mutex<Option<Resumption>>);

impl LatestWait {
    pub(super) fn new(resumption: Option<Resumption>) -> Self {
        Self(Mutex::new(resumption))
    }

    pub(crate) fn ended_by(&self) -> Option<Resumption> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Another wait is over before it began.
    pub(super) fn is_over(&self, outcome: &contracts::SuspendOutcome) {
        if let contracts::SuspendOutcome::AlreadySatisfied { resumption, .. } = outcome {
            let mut latest = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            *latest = Some(resumption.clone());
        }
    }
}

impl TaskCore {
    /// The signals that ended the latest wait. Small ones came with the claim.
    pub(crate) async fn resume_signals(&self) -> Result<Vec<ResumeSignal>, SdkError> {
        match self.latest_wait.ended_by() {
            None => Ok(Vec::new()),
            Some(Resumption { complete: true, signals, .. }) => Ok(signals),
            Some(_) => {
                self.check_held()?;
                self.engine().observe_signals(self.handle()).await.context("resume_signals")
            }
        }
    }

    pub(crate) async fn create_pending_waitpoint(
        &self,
        waitpoint_key: &str,
        expires_in_ms: u64,
    ) -> Result<(WaitpointId, WaitpointToken), SdkError> {
        self.check_held()?;
        let request = CreateWaitpoint {
            waitpoint_key: waitpoint_key.to_owned(),
            expires_in_ms,
            waitpoint_id: Some(WaitpointId::from_uuid(SystemIds.random())),
        };
        let send = || self.engine().create_waitpoint(self.handle(), request.clone());
        let opened = until_answered(self, "create_waitpoint", &mut false, send)
            .await
            .context("create_pending_waitpoint")?;
        Ok((opened.waitpoint_id, opened.hmac_token.token().clone()))
    }
}

impl Outcome {
    /// A suspension under ids of its own: those that the request has not.
    pub(crate) fn suspend(mut request: SuspendRequest) -> Self {
        let new_suspension = || SuspensionId::from_uuid(SystemIds.random());
        request.suspension_id.get_or_insert_with(new_suspension);
        if request.pending_waitpoint_id.is_none() {
            let new_waitpoint = || WaitpointId::from_uuid(SystemIds.random());
            request.waitpoint_id.get_or_insert_with(new_waitpoint);
        }
        Self::Suspend(Box::new(request))
    }
}

impl ClaimedTask {
    /// Gives the execution back until it is signalled; then the same attempt goes on, with any
    /// worker. One matcher waits for one signal, several for one each, none for any signal.
    ///
    /// The reason is one of [`SuspensionReason`]'s words; any other counts as
    /// `waiting_for_signal`.
    pub async fn suspend(
        self,
        reason_code: &str,
        condition_matchers: &[ConditionMatcher],
        timeout_ms: Option<u64>,
        timeout_behavior: TimeoutBehavior,
    ) -> Result<SuspendOutcome, TerminalError> {
        let mut request = SuspendRequest::new(Condition::from(condition_matchers));
        let reason = reason_code.parse().unwrap_or(SuspensionReason::WaitingForSignal);
        request.reason = Some(reason);
        request.timeout_ms = timeout_ms;
        request.timeout_behavior = Some(timeout_behavior);
        self.suspend_with(request).await
    }

    /// The same with everything that can be said about it: conditions of any shape, a waitpoint
    /// that was opened before, who decides what. If it is refused, the task comes back with the
    /// error.
    pub async fn suspend_with(
        self,
        request: SuspendRequest,
    ) -> Result<SuspendOutcome, TerminalError> {
        let Told { landed, task, .. } = self.tell(&Outcome::suspend(request), None).await?;
        match landed {
            Landed::Suspended(outcome) => Ok(SuspendOutcome::new(*outcome, task)),
            _ => unreachable!("a suspension is answered with what became of it"),
        }
    }

    /// Opens a waitpoint before the execution is suspended on it, so that the token can be sent out
    /// first: signals that come meanwhile are kept. [`SuspendRequest::pending_waitpoint_id`] names
    /// it.
    pub async fn create_pending_waitpoint(
        &self,
        waitpoint_key: &str,
        expires_in_ms: u64,
    ) -> Result<(WaitpointId, WaitpointToken), SdkError> {
        self.core.create_pending_waitpoint(waitpoint_key, expires_in_ms).await
    }

    /// Exactly the signals that ended the latest wait of the execution, in their order: none if an
    /// operator ended it or there never was one, one named `timeout` if a time did. A later attempt
    /// finds the same ones, until the execution is suspended again.
    pub async fn resume_signals(&self) -> Result<Vec<ResumeSignal>, SdkError> {
        self.core.resume_signals().await
    }
}

impl SuspendOutcome {
    fn new(outcome: contracts::SuspendOutcome, task: ClaimedTask) -> Self {
        use contracts::SuspendOutcome::{AlreadySatisfied, Suspended};
        match outcome {
            Suspended { suspension_id, waitpoint_id, waitpoint_key, waitpoint_token } => {
                Self::Suspended { suspension_id, waitpoint_id, waitpoint_key, waitpoint_token }
            }
            AlreadySatisfied {
                suspension_id,
                waitpoint_id,
                waitpoint_key,
                waitpoint_token,
                ..
            } => Self::AlreadySatisfied {
                suspension_id,
                waitpoint_id,
                waitpoint_key,
                waitpoint_token,
                task: Box::new(task),
            },
        }
    }
}
