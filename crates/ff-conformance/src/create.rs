//! Building new executions: everything has a default.

use ff_core::contracts::{Debounce, IfTaken, Singleton, Throttle};
use ff_core::error::EngineError;
use ff_core::partition::Partition;
use ff_core::types::{
    ExecutionId, ExecutionKind, IdempotencyKey, LaneId, Namespace, ThrottleKey, TimestampMs,
};
use ff_script::calls::create::{CreateExecution, CreateExecutionReply};

use crate::deployment::Deployment;

/// The lane of an execution that names none.
pub const LANE: &str = "default";

/// An execution that is about to be created.
pub struct NewExecution<'a> {
    deployment: &'a Deployment,
    call: CreateExecution,
}

impl Deployment {
    /// A new execution with a fresh id in the first partition.
    pub fn create(&self) -> NewExecution<'_> {
        let call = CreateExecution {
            execution_id: self.new_id(),
            namespace: Namespace::try_new("tests").expect("a valid name"),
            lane: lane(LANE),
            kind: ExecutionKind::try_new("work").expect("a valid name"),
            priority: 0,
            creator: String::new(),
            policy_json: String::new(),
            payload: Vec::new(),
            delay_until: None,
            deadline_at: None,
            tags_json: String::new(),
            idempotency_key: None,
            dedup_ms: None,
            content_digest: String::new(),
            sent_ms_ago: None,
            throttle: None,
            correlation_id: String::new(),
        };
        NewExecution { deployment: self, call }
    }

    /// Creates an execution with all defaults.
    pub async fn create_one(&self) -> ExecutionId {
        self.create().send().await
    }
}

/// A lane by its name.
pub fn lane(name: &str) -> LaneId {
    LaneId::try_new(name).expect("a valid name")
}

impl NewExecution<'_> {
    /// With this id.
    pub fn id(mut self, id: ExecutionId) -> Self {
        self.call.execution_id = id;
        self
    }

    /// With the submitter's own name for what it belongs to.
    pub fn correlation_id(mut self, id: &str) -> Self {
        id.clone_into(&mut self.call.correlation_id);
        self
    }

    /// With a fresh id in this partition.
    pub fn on(mut self, partition: Partition) -> Self {
        self.call.execution_id = ExecutionId::from_parts(partition, self.deployment.new_uuid());
        self
    }

    /// In this namespace.
    pub fn namespace(mut self, name: &str) -> Self {
        self.call.namespace = Namespace::try_new(name).expect("a valid name");
        self
    }

    /// In this lane.
    pub fn lane(mut self, name: &str) -> Self {
        self.call.lane = lane(name);
        self
    }

    /// Of this kind.
    pub fn kind(mut self, name: &str) -> Self {
        self.call.kind = ExecutionKind::try_new(name).expect("a valid name");
        self
    }

    /// With this priority.
    pub fn priority(mut self, priority: u16) -> Self {
        self.call.priority = priority;
        self
    }

    /// By this creator.
    pub fn creator(mut self, creator: &str) -> Self {
        self.call.creator = creator.to_owned();
        self
    }

    /// With this policy, well-formed or not.
    pub fn policy(mut self, json: &str) -> Self {
        self.call.policy_json = json.to_owned();
        self
    }

    /// With this input.
    pub fn payload(mut self, bytes: &[u8]) -> Self {
        self.call.payload = bytes.to_vec();
        self
    }

    /// Not before this time.
    pub fn delay_until(mut self, at: TimestampMs) -> Self {
        self.call.delay_until = Some(at.into());
        self
    }

    /// Not before this many milliseconds from now.
    pub fn delayed_by(self, ms: u64) -> Self {
        let at = self.deployment.now().plus_millis(ms);
        self.delay_until(at)
    }

    /// To end by this time.
    pub fn deadline_at(mut self, at: TimestampMs) -> Self {
        self.call.deadline_at = Some(at);
        self
    }

    /// To end within this many milliseconds from now.
    pub fn deadline_in(self, ms: u64) -> Self {
        let at = self.deployment.now().plus_millis(ms);
        self.deadline_at(at)
    }

    /// With these tags, well-formed or not.
    pub fn tags(mut self, json: &str) -> Self {
        self.call.tags_json = json.to_owned();
        self
    }

    /// Under this idempotency key, for content with this digest.
    pub fn idempotency(mut self, key: &str, digest: &str) -> Self {
        self.call.idempotency_key = Some(IdempotencyKey::try_new(key).expect("a valid key"));
        self.call.content_digest = digest.to_owned();
        self
    }

    /// Debounced under this key.
    pub fn debounced(mut self, key: &str, delay_ms: u64, max_wait_ms: u64) -> Self {
        let key = ThrottleKey::new(key);
        self.call.throttle = Some(Throttle::Debounce(Debounce { key, delay_ms, max_wait_ms }));
        self
    }

    /// The only one under this key.
    pub fn singleton(mut self, key: &str, if_taken: IfTaken) -> Self {
        let key = ThrottleKey::new(key);
        self.call.throttle = Some(Throttle::Singleton(Singleton { key, if_taken }));
        self
    }

    /// Remembered for this long.
    pub fn dedup_ms(mut self, ms: u64) -> Self {
        self.call.dedup_ms = Some(ms);
        self
    }

    /// Sent again: this long ago for the first time.
    pub fn sent_ms_ago(mut self, ms: u64) -> Self {
        self.call.sent_ms_ago = Some(ms);
        self
    }

    /// The call that would be made.
    pub fn call(self) -> CreateExecution {
        self.call
    }

    /// Makes the call on the partition of the id.
    pub async fn reply(self) -> Result<CreateExecutionReply, EngineError> {
        let partition = self.call.execution_id.partition();
        self.deployment.backend.call(partition, self.call).await
    }

    /// Creates the execution, which must be new.
    pub async fn send(self) -> ExecutionId {
        match self.reply().await {
            Ok(CreateExecutionReply::Created { execution_id, .. }) => execution_id,
            other => panic!("the execution must be created, and create gave {other:?}"),
        }
    }
}
