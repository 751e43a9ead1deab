//! How people and programs name an execution: by its whole id, or by its UUID alone.

use std::fmt;
use std::str::FromStr;

use uuid::Uuid;

use super::execution_id::{ExecutionId, ExecutionIdParseError, PartitionOutOfRange};
use super::uuid_ids::parse_uuid;
use crate::error::{Code, EngineError};
use crate::partition::PartitionConfig;
use crate::wire_text::serde_as_text;

/// The name of an execution as it comes in from outside: whoever knows the deployment's partitions
/// makes an [`ExecutionId`] of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ExecutionRef {
    /// The whole id, `{fp:N}:<uuid>`.
    Whole(ExecutionId),
    /// The UUID alone, which lives where it hashes to. True of all ids that are made here.
    Bare(Uuid),
}

impl ExecutionRef {
    /// The shortest name of an execution: its UUID, unless it lives elsewhere than that says.
    pub fn shortest(id: ExecutionId, config: &PartitionConfig) -> Self {
        let is_enough = ExecutionId::solo(id.uuid(), config) == id;
        if is_enough { Self::Bare(id.uuid()) } else { Self::Whole(id) }
    }

    /// The id that this deployment means by it.
    pub fn resolve(self, config: &PartitionConfig) -> Result<ExecutionId, PartitionOutOfRange> {
        match self {
            Self::Whole(id) => id.check(config).map(|()| id),
            Self::Bare(uuid) => Ok(ExecutionId::solo(uuid, config)),
        }
    }

    /// What to tell somebody who found nothing under this name, if the name may be the reason.
    pub const fn advice(self) -> Option<&'static str> {
        match self {
            Self::Whole(_) => None,
            Self::Bare(_) => Some(
                "a UUID alone is looked for only where it hashes to; \
                 an execution that was placed elsewhere needs its whole id, {fp:N}:<uuid>",
            ),
        }
    }

    /// The error of a call about the execution of this name, with the advice if it was not found.
    #[must_use]
    pub fn advise(self, error: EngineError) -> EngineError {
        match (error.code(), self.advice()) {
            (Some(code @ Code::ExecutionNotFound), Some(advice)) => {
                EngineError::Refused { code, details: vec![advice.to_owned()] }
            }
            _ => error,
        }
    }
}

impl From<ExecutionId> for ExecutionRef {
    fn from(id: ExecutionId) -> Self {
        Self::Whole(id)
    }
}

impl From<&ExecutionId> for ExecutionRef {
    fn from(id: &ExecutionId) -> Self {
        Self::Whole(*id)
    }
}

impl From<Uuid> for ExecutionRef {
    fn from(uuid: Uuid) -> Self {
        Self::Bare(uuid)
    }
}

/// Why a text names no execution.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ExecutionRefParseError {
    /// It begins like a whole id and is none.
    #[error(transparent)]
    Whole(#[from] ExecutionIdParseError),
    /// It does not begin like one, and is no UUID either.
    #[error(
        "{0:?} is neither a hyphenated lower-case UUID of 36 characters nor one with its partition, \
         as in {{fp:7}}:<uuid>"
    )]
    Bare(String),
}

impl FromStr for ExecutionRef {
    type Err = ExecutionRefParseError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text.starts_with('{') {
            return Ok(Self::Whole(text.parse()?));
        }
        let invalid = || ExecutionRefParseError::Bare(text.to_owned());
        parse_uuid(text).map(Self::Bare).ok_or_else(invalid)
    }
}

impl fmt::Display for ExecutionRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Whole(id) => id.fmt(f),
            Self::Bare(uuid) => uuid.as_hyphenated().fmt(f),
        }
    }
}

serde_as_text!(ExecutionRef, "an execution's UUID, or its whole id, as in {fp:7}:<uuid>");

#[cfg(test)]
mod tests {
    use super::*;
    use crate::partition::Partition;

    const UUID: &str = "550e8400-e29b-41d4-a716-446655440000";

    fn config() -> PartitionConfig {
        PartitionConfig { num_flow_partitions: 4, ..Default::default() }
    }

    fn read(text: &str) -> ExecutionRef {
        text.parse().expect(text)
    }

    #[test]
    fn a_bare_uuid_means_what_the_whole_id_means_if_it_lives_where_it_hashes_to() {
        let solo = ExecutionId::solo(Uuid::from_u128(9), &config());
        for name in [ExecutionRef::from(solo), solo.uuid().into(), read(&solo.to_string())] {
            assert_eq!(name.resolve(&config()), Ok(solo));
        }
        assert_eq!(ExecutionRef::shortest(solo, &config()), ExecutionRef::Bare(solo.uuid()));
    }

    #[test]
    fn what_lives_elsewhere_keeps_its_whole_id() {
        let home = ExecutionId::solo(Uuid::from_u128(9), &config()).partition().index;
        let elsewhere = Partition::flow((home + 1) % 4);
        let placed = ExecutionId::from_parts(elsewhere, Uuid::from_u128(9));
        let shortest = ExecutionRef::shortest(placed, &config());
        assert_eq!(shortest.to_string(), placed.to_string());
        assert_eq!(shortest.resolve(&config()), Ok(placed));
        assert_ne!(ExecutionRef::from(placed.uuid()).resolve(&config()), Ok(placed));
    }

    #[test]
    fn both_forms_survive_text_and_json() {
        for text in [UUID, &format!("{{fp:2}}:{UUID}")] {
            let name = read(text);
            assert_eq!(name.to_string(), text);
            let json = serde_json::to_string(&name).expect("serialises");
            assert_eq!(json, format!("\"{text}\""));
            assert_eq!(serde_json::from_str::<ExecutionRef>(&json).expect("deserialises"), name);
        }
    }

    #[test]
    fn a_wrong_name_is_told_both_right_ones() {
        for text in ["", "x", &UUID.to_uppercase(), &UUID[1..], &format!("fp:1:{UUID}")] {
            let error = text.parse::<ExecutionRef>().expect_err(text).to_string();
            assert!(error.contains("UUID") && error.contains("{fp:7}:<uuid>"), "{error}");
        }
        let error = "{fp:1}:x".parse::<ExecutionRef>();
        assert_eq!(error, Err(ExecutionIdParseError::InvalidUuid("x".to_owned()).into()));
    }

    #[test]
    fn a_partition_that_the_deployment_lacks_is_refused() {
        let name = read(&format!("{{fp:4}}:{UUID}"));
        assert_eq!(name.resolve(&config()), Err(PartitionOutOfRange { index: 4, count: 4 }));
    }

    #[test]
    fn only_who_looked_for_a_bare_uuid_and_found_nothing_is_advised() {
        let missing = EngineError::refused(Code::ExecutionNotFound);
        let advised = read(UUID).advise(missing.clone());
        assert_eq!(advised.code(), Some(Code::ExecutionNotFound));
        assert!(advised.to_string().contains("needs its whole id"), "{advised}");
        assert_eq!(read(&format!("{{fp:2}}:{UUID}")).advise(missing.clone()), missing);
        let other = EngineError::refused(Code::StaleLease);
        assert_eq!(read(UUID).advise(other.clone()), other);
    }
}
