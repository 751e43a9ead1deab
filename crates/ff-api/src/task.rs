//! A task: an execution in the hands of a worker, and what the worker says about it. Every request
//! carries the task's token, in the body or in the `FlowFabric-Task` header.

use ff_core::backend::{
    FailOutcome, FailureClass, FailureReason, Handle, HandleKind, LeaseRenewal,
};
use ff_core::bytes::{self, Base64, decode_token, encode_token};
use ff_core::contracts::{
    ChildResult, ChildrenAdded, Claimed, GRAPH_BODY_BYTES, GraphTask, NextTask, PassedInput,
    Resumption, Tags,
};
use ff_core::error::EngineError;
use ff_core::object::Object;
use ff_core::operation::{Input, Nothing, Operation};
#[cfg(feature = "openapi")]
use ff_core::schema;
use ff_core::state::AttemptType;
use ff_core::types::{
    AttemptIndex, BudgetId, ExecutionId, ExecutionKind, LaneId, LeaseFence, Moment, Namespace,
    TimestampMs, WorkerId, WorkerInstanceId,
};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::ToSchema;
use crate::problem::Problem;

/// The token of a handle.
pub fn token_of(handle: &Handle) -> String {
    encode_token(&handle.encode())
}

/// The handle of a token.
pub fn handle_of(token: &str) -> Result<Handle, EngineError> {
    let wrong = |rule: String| EngineError::invalid("task_token", rule);
    let bytes = decode_token(token)
        .ok_or_else(|| wrong("must be given back exactly as it was received".to_owned()))?;
    Handle::decode(&bytes).map_err(|error| wrong(error.to_string()))
}

/// An execution in the hands of a worker.
#[serde_with_macros::skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Task {
    /// The right to work on it: to be given with every request about it, unchanged.
    pub task_token: String,
    /// The execution.
    pub execution_id: ExecutionId,
    /// The tenant or environment it belongs to.
    pub namespace: Namespace,
    /// The handler that runs it.
    pub kind: ExecutionKind,
    /// The lane it was claimed from.
    pub lane: LaneId,
    /// The input.
    #[schema(value_type = schema::Base64)]
    pub payload_base64: Base64,
    /// The input as text, if it is UTF-8 and was asked for.
    pub payload_text: Option<String>,
    /// Labels.
    #[serde(default)]
    #[schema(value_type = schema::Tags)]
    pub tags: Tags,
    /// Its priority when it was claimed.
    #[schema(value_type = schema::Priority)]
    pub priority: u16,
    /// When it was submitted.
    pub created_at: TimestampMs,
    /// The attempt's number, from 0.
    pub attempt_index: AttemptIndex,
    /// Why the attempt was started.
    pub attempt_type: AttemptType,
    /// How the lease came about.
    pub handle_kind: HandleKind,
    /// The fence: the attempt, the lease and its epoch.
    pub fence: LeaseFence,
    /// When the lease ends unless renewed.
    pub lease_expires_at: TimestampMs,
    /// How long each renewal extends the lease.
    pub lease_ttl_ms: u64,
    /// When the attempt runs out of time.
    pub attempt_timeout_at: Option<TimestampMs>,
    /// When the execution runs out of time.
    pub deadline_at: Option<TimestampMs>,
    /// The number of the next frame of its output.
    #[serde(default = "first_frame")]
    #[schema(minimum = 1)]
    pub next_frame: u64,
    /// What ended the latest wait of the execution, if it ever was suspended.
    pub resumption: Option<Resumption>,
    /// What upstreams of its flow pass to it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub inputs: Vec<PassedInput>,
    /// Its children, in the order in which they were added.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub children: Vec<ChildResult>,
    /// The budgets that apply to it, which it may report to.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub budget_ids: Vec<BudgetId>,
    /// The kind of worker that holds it.
    pub worker_id: WorkerId,
    /// The process that holds it.
    pub worker_instance_id: WorkerInstanceId,
}

/// Most attempts begin without output.
const fn first_frame() -> u64 {
    1
}

impl Task {
    /// A claimed execution for the wire, with its payload as text too if that is wanted.
    pub fn new(claimed: Claimed, with_text: bool) -> Self {
        let text = with_text.then(|| std::str::from_utf8(&claimed.payload).ok()).flatten();
        let handle = &claimed.handle;
        Self {
            task_token: token_of(handle),
            execution_id: handle.execution_id,
            namespace: claimed.namespace,
            kind: claimed.kind,
            lane: handle.lane.clone(),
            payload_text: text.map(str::to_owned),
            payload_base64: Base64(claimed.payload),
            tags: claimed.tags,
            priority: claimed.priority,
            created_at: claimed.created_at,
            attempt_index: handle.attempt_index,
            attempt_type: handle.attempt_type,
            handle_kind: handle.kind,
            fence: handle.fence,
            lease_expires_at: claimed.lease_expires_at,
            lease_ttl_ms: handle.lease_ttl_ms,
            attempt_timeout_at: claimed.attempt_timeout_at,
            deadline_at: claimed.deadline_at,
            next_frame: claimed.next_frame,
            resumption: claimed.resumption,
            inputs: claimed.inputs,
            children: claimed.children,
            budget_ids: claimed.budget_ids,
            worker_id: handle.worker_id.clone(),
            worker_instance_id: handle.worker_instance_id.clone(),
        }
    }
}

impl TryFrom<Task> for Claimed {
    type Error = EngineError;

    fn try_from(task: Task) -> Result<Self, EngineError> {
        Ok(Self {
            handle: handle_of(&task.task_token)?,
            namespace: task.namespace,
            kind: task.kind,
            payload: task.payload_base64.0,
            tags: task.tags,
            priority: task.priority,
            created_at: task.created_at,
            lease_expires_at: task.lease_expires_at,
            attempt_timeout_at: task.attempt_timeout_at,
            deadline_at: task.deadline_at,
            next_frame: task.next_frame,
            resumption: task.resumption,
            inputs: task.inputs,
            children: task.children,
            budget_ids: task.budget_ids,
        })
    }
}

/// Extends the lease by its TTL from now.
#[serde_with_macros::skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RenewTask {
    /// The task, unless the header names it.
    pub task_token: Option<String>,
}

impl Operation for RenewTask {
    type Target = Nothing;
    type Request = Self;
    type Reply = LeaseRenewal;

    const PATH: &'static str = "/v1/tasks/renew";
    const NAME: &'static str = "renewTask";
    const SUMMARY: &'static str = "Extends the lease of a task by its TTL from now.";
    const ANSWERS: &'static str = "The lease lasts until then.";
    const INPUT: Input = Input::OptionalBody;
}

/// Says how far the work is. What is absent stays as it was.
#[serde_with_macros::skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ProgressTask {
    /// The task, unless the header names it.
    pub task_token: Option<String>,
    /// 0 to 100.
    #[schema(minimum = 0, maximum = 100)]
    pub percent: Option<u8>,
    /// A sentence for a person.
    #[schema(max_length = 1024)]
    pub message: Option<String>,
}

impl Operation for ProgressTask {
    type Target = Nothing;
    type Request = Self;
    type Reply = Nothing;

    const PATH: &'static str = "/v1/tasks/progress";
    const NAME: &'static str = "progressTask";
    const SUMMARY: &'static str = "Says how far a task is.";
    const ANSWERS: &'static str = "It is noted.";
}

/// Ends the execution successfully. The result is given in one of three forms, or not at all.
#[serde_with_macros::skip_serializing_none]
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CompleteTask {
    /// The task, unless the header names it.
    pub task_token: Option<String>,
    /// The result as a JSON value: its text without blanks between its parts is the result.
    #[serde(default, deserialize_with = "bytes::present", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<schema::AnyJson>)]
    pub result: Option<Box<RawValue>>,
    /// The result as text.
    pub result_text: Option<String>,
    /// The result as base64, for bytes of any kind.
    #[schema(value_type = Option<schema::Base64>)]
    pub result_base64: Option<Base64>,
    /// What the worker takes next: then the answer tells the task it goes on with, if there is one.
    pub next: Option<NextTask>,
}

impl Operation for CompleteTask {
    type Target = Nothing;
    type Request = Self;
    type Reply = Nothing;

    const PATH: &'static str = "/v1/tasks/complete";
    const NAME: &'static str = "completeTask";
    const SUMMARY: &'static str = "Ends a task with a result.";
    const ANSWERS: &'static str = "It is completed.";
    const ABOUT: &'static str = "With the token in the header, a body of any type but \
        application/json is the result itself. A repetition with the same token is recognised and \
        answered as the first time. With next, the worker is given its next task in the answer, \
        which spares it a claim; no task there says nothing but that it should claim.";
    const INPUT: Input = Input::OptionalBody;
}

impl CompleteTask {
    /// The result, if there is one.
    pub fn into_result(self) -> Result<Option<Vec<u8>>, EngineError> {
        bytes::one_of("result", self.result_base64, self.result_text, self.result.as_deref())
    }
}

/// Ends several tasks with their results, each on its own: one refusal does not affect the others.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct BulkComplete {
    /// The ends, at most 1000. Each names its task; none asks for the next one.
    #[schema(value_type = Vec<CompleteTask>, min_items = 1, max_items = 1000)]
    pub tasks: Vec<Object<CompleteTask>>,
}

impl Operation for BulkComplete {
    type Target = Nothing;
    type Request = Self;
    type Reply = BulkCompleted;

    const PATH: &'static str = "/v1/tasks/complete/bulk";
    const NAME: &'static str = "completeTasks";
    const SUMMARY: &'static str = "Ends several tasks with their results, each on its own.";
    const ANSWERS: &'static str = "One answer for each, in the order of the request.";
}

/// The answers to several ends, in the order of the request.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct BulkCompleted {
    /// One for each.
    pub results: Vec<BulkEnd>,
}

/// What became of one end.
#[serde_with_macros::skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct BulkEnd {
    /// Whether the task is completed.
    pub completed: bool,
    /// Why it is not.
    pub problem: Option<Problem>,
}

impl From<Result<(), EngineError>> for BulkEnd {
    fn from(answer: Result<(), EngineError>) -> Self {
        let problem = answer.err().map(|error| Problem::from(&error));
        Self { completed: problem.is_none(), problem }
    }
}

impl From<BulkEnd> for Result<(), EngineError> {
    fn from(end: BulkEnd) -> Self {
        match end.problem {
            None if end.completed => Ok(()),
            None => Err(EngineError::corrupt("bulk answer", "results", "an empty item")),
            Some(problem) => Err(problem.into()),
        }
    }
}

/// Ends the attempt as failed; the policy decides between a retry and the end.
#[serde_with_macros::skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct FailTask {
    /// The task, unless the header names it.
    pub task_token: Option<String>,
    /// A sentence for a person.
    #[schema(max_length = 4096)]
    pub reason: String,
    /// `transient` (if absent), `permanent`, `infra_crash`, `timeout`, `cancelled`, or a word of
    /// the worker's own that retry policies may list. Permanent failures are never retried.
    #[schema(value_type = Option<schema::Category>)]
    pub category: Option<String>,
    /// True if no retry can mend it, whatever the policy says.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_final: bool,
    /// More, in any form: a stack trace, an encoded error.
    #[schema(value_type = Option<schema::Base64>)]
    pub detail_base64: Option<Base64>,
    /// What the worker takes next: then the answer tells the task it goes on with, if there is one.
    pub next: Option<NextTask>,
}

impl Operation for FailTask {
    type Target = Nothing;
    type Request = Self;
    type Reply = FailedTask;

    const PATH: &'static str = "/v1/tasks/fail";
    const NAME: &'static str = "failTask";
    const SUMMARY: &'static str = "Ends a task's attempt as failed; its policy decides what next.";
    const ANSWERS: &'static str = "What follows.";
}

impl FailTask {
    /// A failure for the wire.
    pub fn new(handle: &Handle, reason: FailureReason, class: &FailureClass) -> Self {
        Self {
            task_token: Some(token_of(handle)),
            reason: reason.message,
            category: Some(class.category().to_owned()),
            is_final: class.is_final(),
            detail_base64: reason.detail.map(Base64),
            next: None,
        }
    }

    /// What went wrong, in the domain's words.
    pub fn into_failure(self) -> Result<(FailureReason, FailureClass), EngineError> {
        let class = match &self.category {
            Some(category) => FailureClass::from_category(category)?,
            None => FailureClass::Transient,
        };
        let class = match class {
            FailureClass::Permanent => FailureClass::Permanent,
            other if self.is_final => FailureClass::Final(other.category().to_owned()),
            other => other,
        };
        let detail = self.detail_base64.map(|detail| detail.0);
        Ok((FailureReason { message: self.reason, detail }, class))
    }
}

/// What follows from a failure.
#[serde_with_macros::skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FailedTask {
    /// Whether another attempt will be made.
    pub retry_scheduled: bool,
    /// Not before this time, by the store's clock.
    pub delay_until: Option<TimestampMs>,
    /// What the worker goes on with, if it asked for that and there is something.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tasks: Vec<Task>,
}

impl From<FailOutcome> for FailedTask {
    fn from(outcome: FailOutcome) -> Self {
        let delay_until = match outcome {
            FailOutcome::RetryScheduled { delay_until } => Some(delay_until),
            FailOutcome::TerminalFailed => None,
        };
        Self { retry_scheduled: delay_until.is_some(), delay_until, tasks: Vec::new() }
    }
}

impl From<FailedTask> for FailOutcome {
    fn from(answer: FailedTask) -> Self {
        match answer.delay_until {
            Some(delay_until) if answer.retry_scheduled => Self::RetryScheduled { delay_until },
            _ => Self::TerminalFailed,
        }
    }
}

/// Gives the execution back until a time; then the same attempt goes on, with any worker.
#[serde_with_macros::skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct DelayTask {
    /// The task, unless the header names it.
    pub task_token: Option<String>,
    /// The time, in milliseconds since the Unix epoch. Either this or `delay_ms`.
    #[schema(value_type = Option<schema::Moment>)]
    pub delay_until: Option<TimestampMs>,
    /// From now on for this many milliseconds, by the store's clock.
    #[schema(value_type = Option<schema::DelayMs>)]
    pub delay_ms: Option<u64>,
}

impl Operation for DelayTask {
    type Target = Nothing;
    type Request = Self;
    type Reply = Nothing;

    const PATH: &'static str = "/v1/tasks/delay";
    const NAME: &'static str = "delayTask";
    const SUMMARY: &'static str = "Gives a task back until a time; then its attempt goes on.";
    const ANSWERS: &'static str = "It is given back.";
}

impl DelayTask {
    /// A pause for the wire.
    pub fn new(handle: &Handle, until: Moment) -> Self {
        let (delay_until, delay_ms) = until.into_fields();
        Self { task_token: Some(token_of(handle)), delay_until, delay_ms }
    }

    /// When the attempt goes on.
    pub fn until(&self) -> Result<Moment, EngineError> {
        let moment = Moment::of_fields(self.delay_until, self.delay_ms)?;
        let neither = || EngineError::invalid("delay_until", "or delay_ms must be given");
        moment.ok_or_else(neither)
    }
}

/// Adds members to the execution's flow, as its children.
#[serde_with_macros::skip_serializing_none]
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AddChildrenTask {
    /// The task, unless the header names it.
    pub task_token: Option<String>,
    /// The children, in any order. `after` names others of them, children that were added before,
    /// or, by their whole ids, other members of the flow.
    #[schema(min_items = 1, max_items = 1000)]
    pub tasks: Vec<GraphTask>,
}

impl Operation for AddChildrenTask {
    type Target = Nothing;
    type Request = Self;
    type Reply = ChildrenAdded;

    const PATH: &'static str = "/v1/tasks/children";
    const NAME: &'static str = "addChildrenTask";
    const SUMMARY: &'static str = "Adds children to a task.";
    const ANSWERS: &'static str = "They are there, and run.";
    const ABOUT: &'static str = "They are members of the task's flow; a task in no flow begins one \
        of its own. A child's id is made from its parent's and its name: adding it again changes \
        nothing, with another content it is refused with 409. `/v1/tasks/wait-children` gives the \
        task back until they have ended, and a claim tells of them in `children`.";
    const BODY_BYTES_MAX: usize = GRAPH_BODY_BYTES;
    const REFUSES: &'static [u16] = &[400, 404, 409, 413];
}

/// Gives the execution back until its children have ended; then the same attempt goes on.
#[serde_with_macros::skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct WaitChildrenTask {
    /// The task, unless the header names it.
    pub task_token: Option<String>,
}

impl Operation for WaitChildrenTask {
    type Target = Nothing;
    type Request = Self;
    type Reply = Nothing;

    const PATH: &'static str = "/v1/tasks/wait-children";
    const NAME: &'static str = "waitChildrenTask";
    const SUMMARY: &'static str = "Gives a task back until its children have ended.";
    const ANSWERS: &'static str = "It is given back.";
    const ABOUT: &'static str = "Then its attempt goes on, with any worker; at once if it has \
        none. A repetition with the same token is recognised.";
    const INPUT: Input = Input::OptionalBody;
}

/// Ends the execution as cancelled, by the holder of its lease.
#[serde_with_macros::skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CancelTask {
    /// The task, unless the header names it.
    pub task_token: Option<String>,
    /// Why, for a person.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schema(max_length = 4096)]
    pub reason: String,
}

impl Operation for CancelTask {
    type Target = Nothing;
    type Request = Self;
    type Reply = Nothing;

    const PATH: &'static str = "/v1/tasks/cancel";
    const NAME: &'static str = "cancelTask";
    const SUMMARY: &'static str = "Ends a task as cancelled.";
    const ANSWERS: &'static str = "It is cancelled.";
    const INPUT: Input = Input::OptionalBody;
}

#[cfg(test)]
mod tests {
    use super::*;
    use ff_core::partition::Partition;
    use ff_core::types::{AttemptId, LeaseEpoch, LeaseId};
    use uuid::Uuid;

    fn claimed(payload: Vec<u8>) -> Claimed {
        Claimed {
            handle: Handle {
                execution_id: ExecutionId::from_parts(Partition::flow(3), Uuid::from_u128(9)),
                fence: LeaseFence {
                    lease_id: LeaseId::from_uuid(Uuid::from_u128(1)),
                    lease_epoch: LeaseEpoch(2),
                    attempt_id: AttemptId::from_uuid(Uuid::from_u128(3)),
                },
                attempt_index: AttemptIndex(0),
                attempt_type: AttemptType::Initial,
                lane: LaneId::try_new("default").expect("valid"),
                worker_id: WorkerId::try_new("w").expect("valid"),
                worker_instance_id: WorkerInstanceId::try_new("w-1").expect("valid"),
                lease_ttl_ms: 30_000,
                kind: HandleKind::Fresh,
            },
            namespace: Namespace::default(),
            kind: ExecutionKind::try_new("email").expect("valid"),
            payload,
            tags: Tags::new(),
            priority: 0,
            created_at: TimestampMs(5),
            lease_expires_at: TimestampMs(6),
            attempt_timeout_at: None,
            deadline_at: Some(TimestampMs(7)),
            next_frame: 8,
            resumption: None,
            inputs: Vec::new(),
            children: Vec::new(),
            budget_ids: Vec::new(),
        }
    }

    #[test]
    fn a_task_survives_the_wire_whatever_its_bytes() {
        for payload in [Vec::new(), (0..=255).collect(), "é".into()] {
            let json = serde_json::to_string(&Task::new(claimed(payload.clone()), true));
            let task: Task = serde_json::from_str(&json.expect("text")).expect("a task");
            assert_eq!(task.payload_text.is_some(), std::str::from_utf8(&payload).is_ok());
            assert_eq!(Claimed::try_from(task), Ok(claimed(payload)));
        }
    }

    #[test]
    fn a_token_that_was_touched_is_refused_by_name() {
        let token = token_of(&claimed(Vec::new()).handle);
        for wrong in ["", "x", "===", &token[1..], &format!("{token}AAAA")] {
            let error = handle_of(wrong).expect_err(wrong);
            assert!(error.to_string().starts_with("task_token "), "{error}");
        }
    }

    #[test]
    fn failures_survive_the_wire() {
        let reason = FailureReason { message: "no".to_owned(), detail: Some(vec![0, 255]) };
        let class = FailureClass::Custom("vendor".to_owned());
        let request = FailTask::new(&claimed(Vec::new()).handle, reason.clone(), &class);
        assert_eq!(request.into_failure(), Ok((reason, class)));
        let retry = FailOutcome::RetryScheduled { delay_until: TimestampMs(9) };
        for outcome in [retry, FailOutcome::TerminalFailed] {
            assert_eq!(FailOutcome::from(FailedTask::from(outcome)), outcome);
        }
    }
}
