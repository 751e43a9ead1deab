//! Submitting an execution.

use super::tags::{Tags, check_tags};
use crate::argument;
use crate::error::{Code, EngineError};
use crate::limits;
use crate::partition::PartitionConfig;
use crate::policy::ExecutionPolicy;
use crate::state::PublicState;
use crate::types::{
    ExecutionId, ExecutionKind, IdempotencyKey, LaneId, Moment, Namespace, TimestampMs,
};

/// Everything about an execution that its submitter decides.
#[derive(Clone, Debug, PartialEq)]
pub struct NewExecution {
    /// Its id, chosen by the submitter: submitting the same id again changes nothing.
    pub execution_id: ExecutionId,
    /// The tenant or environment it belongs to.
    pub namespace: Namespace,
    /// The queue it waits in.
    pub lane: LaneId,
    /// The handler that runs it.
    pub kind: ExecutionKind,
    /// 0 to 9000; higher runs first.
    pub priority: u16,
    /// Who submitted it; may be empty.
    pub creator: String,
    /// Retries, timeouts, routing, keeping.
    pub policy: ExecutionPolicy,
    /// The input, opaque.
    pub payload: Vec<u8>,
    /// Not to be claimed before this time.
    pub delay_until: Option<Moment>,
    /// Expires at this time if it has not ended. The policy may set one too; the earlier counts.
    pub deadline_at: Option<TimestampMs>,
    /// Labels.
    pub tags: Tags,
    /// The same key in the same namespace is the same execution, while it is remembered. For this
    /// to hold everywhere, the id is made by [`ExecutionId::for_idempotency_key`].
    pub idempotency_key: Option<IdempotencyKey>,
}

impl NewExecution {
    /// Checks what the types do not already hold, so that nothing wrong is sent to the store.
    pub fn validate(&self, config: &PartitionConfig) -> Result<(), EngineError> {
        self.execution_id.check(config)?;
        self.policy.validate()?;
        argument::check_range("priority", self.priority.into(), 0..=limits::PRIORITY_MAX)?;
        argument::check_bytes("creator", self.creator.len(), limits::CREATOR_BYTES_MAX)?;
        check_payload(self.payload.len())?;
        self.delay_until.map_or(Ok(()), |until| until.check("delay_until"))?;
        self.deadline_at.map_or(Ok(()), |time| Moment::At(time).check("deadline_at"))?;
        check_tags(&self.tags)
    }
}

fn check_payload(len: usize) -> Result<(), EngineError> {
    if len as u64 <= limits::PAYLOAD_BYTES_MAX {
        return Ok(());
    }
    let details = vec![len.to_string(), limits::PAYLOAD_BYTES_MAX.to_string()];
    Err(EngineError::Refused { code: Code::PayloadTooLarge, details })
}

/// The answer to a submission.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Created {
    /// The execution is new.
    Created {
        /// Its id.
        execution_id: ExecutionId,
        /// Waiting or delayed.
        public_state: PublicState,
    },
    /// The id or the idempotency key was known; nothing changed.
    Duplicate {
        /// The execution that was there first.
        execution_id: ExecutionId,
        /// Where it stands.
        public_state: PublicState,
    },
}

impl Created {
    /// The execution that now exists, new or not.
    pub const fn execution_id(&self) -> ExecutionId {
        match self {
            Self::Created { execution_id, .. } | Self::Duplicate { execution_id, .. } => {
                *execution_id
            }
        }
    }

    /// Where it stands.
    pub const fn public_state(&self) -> PublicState {
        match self {
            Self::Created { public_state, .. } | Self::Duplicate { public_state, .. } => {
                *public_state
            }
        }
    }

    /// The answer to a submission under an id that was made for it and for nothing else: whoever
    /// finds it there has sent it before and lost the answer.
    pub fn under_fresh_id(self, fresh: ExecutionId) -> Self {
        match self {
            Self::Duplicate { execution_id, public_state } if execution_id == fresh => {
                Self::Created { execution_id, public_state }
            }
            other => other,
        }
    }

    /// True if this submission made it.
    pub const fn is_new(&self) -> bool {
        matches!(self, Self::Created { .. })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::partition::Partition;

    fn new_execution() -> NewExecution {
        NewExecution {
            execution_id: ExecutionId::from_parts(Partition::flow(1), uuid::Uuid::from_u128(1)),
            namespace: Namespace::default(),
            lane: LaneId::try_new("default").expect("valid"),
            kind: ExecutionKind::try_new("email").expect("valid"),
            priority: 9000,
            creator: String::new(),
            policy: ExecutionPolicy::default(),
            payload: vec![0; 4_194_304],
            delay_until: None,
            deadline_at: Some(TimestampMs(1)),
            tags: Tags::new(),
            idempotency_key: None,
        }
    }

    fn refused(change: impl FnOnce(&mut NewExecution)) -> String {
        let mut execution = new_execution();
        change(&mut execution);
        let error = execution.validate(&PartitionConfig::default()).expect_err("must be refused");
        error.to_string()
    }

    #[test]
    fn an_ordinary_submission_passes() {
        assert_eq!(new_execution().validate(&PartitionConfig::default()), Ok(()));
    }

    #[test]
    fn what_is_found_under_a_fresh_id_is_new_and_what_is_found_elsewhere_is_not() {
        let id =
            |number| ExecutionId::from_parts(Partition::flow(1), uuid::Uuid::from_u128(number));
        let public_state = PublicState::Active;
        let found = Created::Duplicate { execution_id: id(1), public_state };
        assert!(found.under_fresh_id(id(1)).is_new());
        assert_eq!(found.under_fresh_id(id(2)), found);
    }

    #[test]
    fn each_broken_rule_is_named() {
        assert!(refused(|new| new.priority = 9001).starts_with("priority must be from 0 to 9000"));
        assert!(refused(|new| new.creator = "x".repeat(257)).starts_with("creator must be"));
        assert!(refused(|new| new.payload = vec![0; 8_388_609]).contains("[8388609, 8388608]"));
        assert!(
            refused(|new| new.delay_until = Some(TimestampMs(0).into())).starts_with("delay_until")
        );
        assert!(
            refused(|new| new.deadline_at = Some(TimestampMs(limits::TIMESTAMP_MS_MAX + 1)))
                .starts_with("deadline_at")
        );
        assert!(refused(|new| new.policy.ageing_ms = Some(u64::MAX)).contains("ageing_ms"));
        let elsewhere = ExecutionId::from_parts(Partition::flow(256), uuid::Uuid::from_u128(1));
        assert!(refused(|new| new.execution_id = elsewhere).contains("partition 256"));
    }
}
