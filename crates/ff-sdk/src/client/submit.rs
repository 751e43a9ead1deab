//! One submission, put together step by step.

use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::time::Duration;

use ff_core::capability::CapabilitySet;
use ff_core::contracts::{Created, NewExecution, Tags};
use ff_core::error::EngineError;
use ff_core::policy::{ExecutionPolicy, RetryPolicy, RoutingRequirements, TimeoutPolicy};
use ff_core::types::{
    ExecutionId, ExecutionKind, IdempotencyKey, LaneId, Moment, NameError, Namespace, TimestampMs,
};
use ff_script::ids::{IdSource, SystemIds};

use super::Client;
use crate::error::SdkError;

const CONTEXT: &str = "submission";

/// The lane of those who name none.
pub(crate) const DEFAULT_LANE: &str = "default";

/// An execution to be submitted: awaiting it submits it. A wrong setting is reported then, by its
/// name, and nothing is sent.
#[derive(Debug)]
#[must_use = "a submission is sent when it is awaited, or given to `submit_many`"]
pub struct Submission {
    client: Client,
    execution_id: Option<ExecutionId>,
    kind: String,
    lane: String,
    namespace: Result<Namespace, NameError>,
    priority: u16,
    creator: String,
    policy: ExecutionPolicy,
    required_capabilities: Vec<String>,
    payload: Result<Vec<u8>, serde_json::Error>,
    delay_until: Option<Moment>,
    deadline_at: Option<TimestampMs>,
    tags: Tags,
    idempotency_key: Option<String>,
}

impl Submission {
    pub(super) fn new(
        client: &Client,
        kind: &str,
        payload: Result<Vec<u8>, serde_json::Error>,
    ) -> Self {
        Self {
            client: client.clone(),
            execution_id: None,
            kind: kind.to_owned(),
            lane: DEFAULT_LANE.to_owned(),
            namespace: Ok(client.namespace.clone()),
            priority: 0,
            creator: String::new(),
            policy: ExecutionPolicy::default(),
            required_capabilities: Vec::new(),
            payload,
            delay_until: None,
            deadline_at: None,
            tags: Tags::new(),
            idempotency_key: None,
        }
    }

    /// The queue to wait in; `default` if not said.
    pub fn lane(mut self, lane: impl Into<String>) -> Self {
        self.lane = lane.into();
        self
    }

    /// The namespace; the client's if not said.
    pub fn namespace(mut self, namespace: &str) -> Self {
        self.namespace = Namespace::try_new(namespace);
        self
    }

    /// 0 to 9000; higher runs first.
    pub fn priority(mut self, priority: u16) -> Self {
        self.priority = priority;
        self
    }

    /// Who submits it.
    pub fn creator(mut self, creator: impl Into<String>) -> Self {
        self.creator = creator.into();
        self
    }

    /// Retries, timeouts, routing and keeping, all at once.
    pub fn policy(mut self, policy: ExecutionPolicy) -> Self {
        self.policy = policy;
        self
    }

    /// How failures are retried; not at all if not said.
    pub fn retry(mut self, retry: RetryPolicy) -> Self {
        self.policy.retry_policy = Some(retry);
        self
    }

    /// How long one attempt may run; `Duration::MAX` is for ever.
    pub fn attempt_timeout(mut self, limit: Duration) -> Self {
        self.timeouts().attempt_timeout_ms = limited(limit);
        self
    }

    /// How long the whole execution may take, waiting and retries included; `Duration::MAX` is for
    /// ever.
    pub fn deadline(mut self, limit: Duration) -> Self {
        self.timeouts().execution_deadline_ms = limited(limit);
        self
    }

    fn timeouts(&mut self) -> &mut TimeoutPolicy {
        self.policy.timeout_policy.get_or_insert_default()
    }

    /// Only workers with this capability may run it. May be said several times.
    pub fn requires(mut self, capability: impl Into<String>) -> Self {
        self.required_capabilities.push(capability.into());
        self
    }

    /// The same key in the same namespace is the same execution: submitting it again changes
    /// nothing and answers the first one.
    pub fn idempotency_key(mut self, key: impl Into<String>) -> Self {
        self.idempotency_key = Some(key.into());
        self
    }

    /// Not to be claimed before this much time has passed since the submission, by the store's
    /// clock.
    pub fn delay(mut self, delay: Duration) -> Self {
        self.delay_until = Some(Moment::After(millis(delay)));
        self
    }

    /// Not to be claimed before this time, by the store's clock.
    pub fn delay_until(mut self, time: TimestampMs) -> Self {
        self.delay_until = Some(time.into());
        self
    }

    /// Expires at this time of the store's clock if it has not ended.
    pub fn deadline_at(mut self, time: TimestampMs) -> Self {
        self.deadline_at = Some(time);
        self
    }

    /// A label: a lower-case word, a dot and a name, as in `team.owner`.
    pub fn tag(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.tags.insert(key.into(), value.into());
        self
    }

    /// An id of your own instead of a new one.
    pub fn execution_id(mut self, execution_id: ExecutionId) -> Self {
        self.execution_id = Some(execution_id);
        self
    }

    /// Checks everything and puts it together. Says also whether the id is a fresh one.
    fn build(self) -> Result<(NewExecution, bool), SdkError> {
        let fresh = self.execution_id.is_none();
        let config = self.client.engine().partition_config();
        let namespace = self.namespace.map_err(wrong_name)?;
        let key = self.idempotency_key.map(IdempotencyKey::try_new).transpose();
        let idempotency_key = key.map_err(wrong_name)?;
        let uuid = SystemIds.ordered();
        let new_id = || match &idempotency_key {
            Some(key) => ExecutionId::for_idempotency_key(&namespace, key, uuid, &config),
            None => ExecutionId::solo(uuid, &config),
        };
        let new = NewExecution {
            execution_id: self.execution_id.unwrap_or_else(new_id),
            lane: LaneId::try_new(self.lane).map_err(wrong_name)?,
            kind: ExecutionKind::try_new(self.kind).map_err(wrong_name)?,
            priority: self.priority,
            creator: self.creator,
            policy: with_capabilities(self.policy, self.required_capabilities)?,
            payload: self.payload.map_err(|error| SdkError::config(CONTEXT, "input", error))?,
            delay_until: self.delay_until,
            deadline_at: self.deadline_at,
            tags: self.tags,
            namespace,
            idempotency_key,
        };
        new.validate(&config)?;
        Ok((new, fresh))
    }

    /// Submits it.
    pub async fn send(self) -> Result<Created, SdkError> {
        let client = self.client.clone();
        let (new, fresh) = self.build()?;
        let id = new.execution_id;
        answer(client.engine().create(new).await, fresh.then_some(id))
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
    let mut answers: Vec<Option<Result<Created, SdkError>>> = Vec::new();
    let mut executions = Vec::with_capacity(submissions.len());
    let mut fresh_ids = Vec::with_capacity(submissions.len());
    for submission in submissions {
        match submission.build() {
            Ok((new, fresh)) => {
                fresh_ids.push(fresh.then_some(new.execution_id));
                executions.push(new);
                answers.push(None);
            }
            Err(error) => answers.push(Some(Err(error))),
        }
    }
    let mut created = client.engine().create_many(executions).await.into_iter().zip(fresh_ids);
    let mut next = || {
        let (created, fresh) = created.next().expect("a backend answers every submission");
        answer(created, fresh)
    };
    answers.into_iter().map(|answer| answer.unwrap_or_else(&mut next)).collect()
}

fn answer(
    created: Result<Created, EngineError>,
    fresh: Option<ExecutionId>,
) -> Result<Created, SdkError> {
    let created = created.map_err(|error| SdkError::from(error.in_context("submit")))?;
    Ok(fresh.map_or(created, |id| created.under_fresh_id(id)))
}

/// Adds to the capabilities that the policy requires already.
fn with_capabilities(
    mut policy: ExecutionPolicy,
    more: Vec<String>,
) -> Result<ExecutionPolicy, SdkError> {
    if more.is_empty() {
        return Ok(policy);
    }
    let before = policy.required_capabilities();
    let all = before.iter().map(str::to_owned).chain(more);
    let required_capabilities = CapabilitySet::try_new(all)
        .map_err(|error| SdkError::config(CONTEXT, "required_capabilities", error))?;
    policy.routing_requirements = Some(RoutingRequirements { required_capabilities });
    Ok(policy)
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
