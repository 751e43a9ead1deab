//! One submission, put together step by step.

use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::time::Duration;

use ff_core::capability::CapabilitySet;
use ff_core::contracts::{CreateExecution, Created, Debounce, IfTaken, Singleton};
use ff_core::error::EngineError;
use ff_core::policy::{ExecutionPolicy, RetryPolicy, RoutingRequirements, TimeoutPolicy};
use ff_core::types::{
    ExecutionKind, ExecutionRef, IdempotencyKey, LaneId, NameError, Namespace, ThrottleKey,
    TimestampMs,
};

use super::Client;
use crate::error::{SUBMISSION as CONTEXT, SdkError};
use crate::kind::Takes;

/// The lane of those who name none.
pub(crate) const DEFAULT_LANE: &str = "default";

/// An execution to be submitted: awaiting it submits it. A wrong setting is reported then, by its
/// name, and nothing is sent. One that is a task of a flow is submitted with it, and by nobody.
#[derive(Debug)]
#[must_use = "a submission is sent when it is awaited, or given to `submit_many`"]
pub struct Submission<To = Client> {
    to: To,
    /// The first wrong setting, if there is one.
    request: Result<CreateExecution, SdkError>,
    required_capabilities: Vec<String>,
}

impl<To> Submission<To> {
    pub(crate) fn to<I: ?Sized>(
        to: To,
        kind: impl Takes<I>,
        payload: Result<Vec<u8>, serde_json::Error>,
    ) -> Self {
        let request = match (ExecutionKind::try_new(kind.kind_name()), payload) {
            (Ok(kind), Ok(payload)) => Ok(CreateExecution::new(kind).with_payload(payload)),
            (Err(error), _) => Err(wrong_name(error)),
            (_, Err(error)) => Err(SdkError::config(CONTEXT, "input", error)),
        };
        let submission = Self { to, request, required_capabilities: Vec::new() };
        submission.set(|request| request.policy = kind.kind_policy())
    }

    fn set(mut self, change: impl FnOnce(&mut CreateExecution)) -> Self {
        if let Ok(request) = &mut self.request {
            change(request);
        }
        self
    }

    fn set_name<N>(
        mut self,
        name: Result<N, NameError>,
        change: impl FnOnce(&mut CreateExecution, N),
    ) -> Self {
        match (name, &mut self.request) {
            (Ok(name), Ok(request)) => change(request, name),
            (Err(error), Ok(_)) => self.request = Err(wrong_name(error)),
            (_, Err(_)) => {}
        }
        self
    }

    /// The queue to wait in; `default` if not said.
    pub fn lane(self, lane: impl Into<String>) -> Self {
        self.set_name(LaneId::try_new(lane.into()), |request, lane| request.lane = Some(lane))
    }

    /// The namespace; the client's if not said.
    pub fn namespace(self, namespace: &str) -> Self {
        let namespace = Namespace::try_new(namespace);
        self.set_name(namespace, |request, namespace| request.namespace = Some(namespace))
    }

    /// 0 to 9000; higher runs first.
    pub fn priority(self, priority: u16) -> Self {
        self.set(|request| request.priority = Some(priority))
    }

    /// Who submits it.
    pub fn creator(self, creator: impl Into<String>) -> Self {
        self.set(|request| request.creator = creator.into())
    }

    /// Your own name for what it belongs to, such as an order or a trace.
    pub fn correlation_id(self, id: impl Into<String>) -> Self {
        self.set(|request| request.correlation_id = id.into())
    }

    /// Retries, timeouts, routing and keeping, all at once, instead of what its kind says.
    pub fn policy(self, policy: ExecutionPolicy) -> Self {
        self.set(|request| request.policy = Some(policy))
    }

    /// How failures are retried; as its kind says, or not at all, if not said.
    pub fn retry(self, retry: RetryPolicy) -> Self {
        self.set(|request| policy_of(request).retry_policy = Some(retry))
    }

    /// How long one attempt may run; `Duration::MAX` is for ever.
    pub fn attempt_timeout(self, limit: Duration) -> Self {
        self.set(|request| timeouts_of(request).attempt_timeout_ms = limited(limit))
    }

    /// How long the whole execution may take, waiting and retries included; `Duration::MAX` is for
    /// ever.
    pub fn deadline(self, limit: Duration) -> Self {
        self.set(|request| timeouts_of(request).execution_deadline_ms = limited(limit))
    }

    /// Only workers with this capability may run it. May be said several times.
    pub fn requires(mut self, capability: impl Into<String>) -> Self {
        self.required_capabilities.push(capability.into());
        self
    }

    /// The same key in the same namespace is the same execution: submitting it again changes
    /// nothing and answers the first one.
    pub fn idempotency_key(self, key: impl Into<String>) -> Self {
        let key = IdempotencyKey::try_new(key.into());
        self.set_name(key, |request, key| request.idempotency_key = Some(key))
    }

    /// Waits until nobody has submitted under this key, of the same namespace and kind, for so
    /// long; at most so long after the first. Each submission replaces the payload, and is answered
    /// with the same id.
    pub fn debounce(self, key: &str, delay: Duration, max_wait: Duration) -> Self {
        let (delay_ms, max_wait_ms) = (millis(delay), millis(max_wait));
        self.set_name(ThrottleKey::try_new(key), |request, key| {
            request.debounce = Some(Debounce { key, delay_ms, max_wait_ms });
        })
    }

    /// One at a time under this key, of the same namespace and kind: while one is not over, the
    /// answer is that one, or it waits behind it.
    pub fn singleton(self, key: &str, if_taken: IfTaken) -> Self {
        self.set_name(ThrottleKey::try_new(key), |request, key| {
            request.singleton = Some(Singleton { key, if_taken });
        })
    }

    /// Not to be claimed before this much time has passed since the submission, by the store's
    /// clock.
    pub fn delay(self, delay: Duration) -> Self {
        self.set(|request| {
            request.delay_until = None;
            request.delay_ms = Some(millis(delay));
        })
    }

    /// Not to be claimed before this time, by the store's clock.
    pub fn delay_until(self, time: TimestampMs) -> Self {
        self.set(|request| {
            request.delay_until = Some(time);
            request.delay_ms = None;
        })
    }

    /// Expires at this time of the store's clock if it has not ended.
    pub fn deadline_at(self, time: TimestampMs) -> Self {
        self.set(|request| request.deadline_at = Some(time))
    }

    /// A label: a lower-case word, a dot and a name, as in `team.owner`.
    pub fn tag(self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.set(|request| drop(request.tags.insert(key.into(), value.into())))
    }

    /// An id of your own instead of a new one.
    pub fn execution_id(self, execution_id: impl Into<ExecutionRef>) -> Self {
        self.set(|request| request.execution_id = Some(execution_id.into()))
    }

    /// What is asked for, with all that was said.
    pub(crate) fn into_request(self) -> Result<CreateExecution, SdkError> {
        let mut request = self.request?;
        require(&mut request, self.required_capabilities)?;
        Ok(request)
    }
}

impl Submission {
    pub(super) fn new<I: ?Sized>(
        client: &Client,
        kind: impl Takes<I>,
        payload: Result<Vec<u8>, serde_json::Error>,
    ) -> Self {
        let namespace = client.namespace.clone();
        Self::to(client.clone(), kind, payload).set(|request| request.namespace = Some(namespace))
    }

    /// Submits it.
    pub async fn send(self) -> Result<Created, SdkError> {
        let client = self.to.clone();
        client.engine().create(self.into_request()?).await.map_err(not_submitted)
    }
}

impl IntoFuture for Submission {
    type Output = Result<Created, SdkError>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.send())
    }
}

/// Submits what is right, and answers in the order of the request.
pub(super) async fn submit_all(
    client: &Client,
    submissions: Vec<Submission>,
) -> Vec<Result<Created, SdkError>> {
    let (mut executions, mut wrong) = (Vec::with_capacity(submissions.len()), Vec::new());
    for (position, submission) in submissions.into_iter().enumerate() {
        match submission.into_request() {
            Ok(execution) => executions.push(execution),
            Err(error) => wrong.push((position, error)),
        }
    }
    let created = client.engine().create_many(executions).await;
    let mut answers: Vec<_> =
        created.into_iter().map(|answer| answer.map_err(not_submitted)).collect();
    for (position, error) in wrong {
        answers.insert(position, Err(error));
    }
    answers
}

/// A refusal names what is wrong; of other trouble it is to be said when it came up.
fn not_submitted(error: EngineError) -> SdkError {
    match error.through() {
        EngineError::Backend(_) => error.in_context("submit").into(),
        _ => error.into(),
    }
}

fn policy_of(request: &mut CreateExecution) -> &mut ExecutionPolicy {
    request.policy.get_or_insert_default()
}

fn timeouts_of(request: &mut CreateExecution) -> &mut TimeoutPolicy {
    policy_of(request).timeout_policy.get_or_insert_default()
}

/// Adds to the capabilities that the policy requires already.
fn require(request: &mut CreateExecution, more: Vec<String>) -> Result<(), SdkError> {
    if more.is_empty() {
        return Ok(());
    }
    let policy = policy_of(request);
    let before = policy.required_capabilities();
    let all = before.iter().map(str::to_owned).chain(more);
    let required_capabilities = CapabilitySet::try_new(all)
        .map_err(|error| SdkError::config(CONTEXT, "required_capabilities", error))?;
    policy.routing_requirements = Some(RoutingRequirements { required_capabilities });
    Ok(())
}

fn wrong_name(error: NameError) -> SdkError {
    SdkError::config(CONTEXT, error.field, error.rule)
}

fn limited(limit: Duration) -> Option<u64> {
    (limit != Duration::MAX).then(|| millis(limit))
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
