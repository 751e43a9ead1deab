//! The id of an execution carries its partition, so that anybody who has the id knows where the
//! execution lives without asking.

use std::fmt;
use std::str::FromStr;

use uuid::Uuid;

use super::uuid_ids::parse_uuid;
use super::{ExecutionKind, FlowId, IdempotencyKey, Namespace, ThrottleKey};
use crate::partition::{Partition, PartitionConfig, PartitionFamily};
use crate::wire_text::serde_as_text;

/// One execution, written `{fp:N}:<uuid>`. Never changes across retries, resumes or replays. An id
/// that is made here has a UUID that hashes to its partition, so that the UUID says it all: see
/// [`ExecutionRef`](super::ExecutionRef).
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ExecutionId {
    partition_index: u16,
    uuid: Uuid,
}

impl ExecutionId {
    /// An id that stands in the program's text, as `{fp:N}:<uuid>`.
    ///
    /// # Panics
    ///
    /// If it is in no such form: [`Self::parse`] is for ids from elsewhere.
    #[track_caller]
    pub fn new(text: &str) -> Self {
        Self::parse(text).unwrap_or_else(|error| panic!("{error}"))
    }

    /// A new execution of this flow: it lives where the flow lives.
    pub fn for_flow(flow_id: &FlowId, fresh: Uuid, config: &PartitionConfig) -> Self {
        Self::made_for(config.flow_partition_of(flow_id.as_bytes()), fresh, config)
    }

    /// An execution in no flow: spread by its own id, so that one busy lane uses all partitions.
    pub fn solo(uuid: Uuid, config: &PartitionConfig) -> Self {
        Self::from_parts(config.flow_partition_of(uuid.as_bytes()), uuid)
    }

    /// A new execution submitted under an idempotency key: placed by namespace and key, so that
    /// every repetition meets the first one on the same partition. The zero byte keeps pairs apart.
    pub fn for_idempotency_key(
        namespace: &Namespace,
        key: &IdempotencyKey,
        fresh: Uuid,
        config: &PartitionConfig,
    ) -> Self {
        let place = [namespace.as_str().as_bytes(), &[0], key.as_str().as_bytes()].concat();
        Self::made_for(config.flow_partition_of(&place), fresh, config)
    }

    /// A new execution that is throttled: placed by namespace, kind and key, so that all under one
    /// key meet.
    pub fn for_throttle_key(
        namespace: &Namespace,
        kind: &ExecutionKind,
        key: &ThrottleKey,
        fresh: Uuid,
        config: &PartitionConfig,
    ) -> Self {
        let place = [namespace.as_str(), kind.as_str(), key.as_str()].join("\0");
        Self::made_for(config.flow_partition_of(place.as_bytes()), fresh, config)
    }

    /// A new execution where another one lives.
    ///
    /// # Panics
    /// If that is a partition which the deployment lacks: see [`ExecutionId::check`].
    pub(crate) fn beside(other: &Self, fresh: Uuid, config: &PartitionConfig) -> Self {
        Self::made_for(other.partition(), fresh, config)
    }

    /// A new execution whose place is given: the end of its UUID is made to hash to it.
    fn made_for(partition: Partition, fresh: Uuid, config: &PartitionConfig) -> Self {
        Self::from_parts(partition, config.uuid_on(partition, fresh))
    }

    /// An execution on a given flow partition.
    ///
    /// # Panics
    /// If the partition belongs to another family: executions live on flow partitions only.
    pub fn from_parts(partition: Partition, uuid: Uuid) -> Self {
        assert_eq!(partition.family, PartitionFamily::Flow, "executions live on flow partitions");
        Self { partition_index: partition.index, uuid }
    }

    /// Reads the one text form. Does not know the deployment: see [`ExecutionId::check`].
    pub fn parse(text: &str) -> Result<Self, ExecutionIdParseError> {
        text.parse()
    }

    /// The partition that holds everything about this execution.
    pub const fn partition(&self) -> Partition {
        Partition::flow(self.partition_index)
    }

    /// The part of the id that is unique.
    pub const fn uuid(&self) -> Uuid {
        self.uuid
    }

    /// Refuses an id that names a partition this deployment does not have. To be called where ids
    /// come in from outside.
    pub fn check(&self, config: &PartitionConfig) -> Result<(), PartitionOutOfRange> {
        let count = config.num_flow_partitions;
        let index = self.partition_index;
        if index < count { Ok(()) } else { Err(PartitionOutOfRange { index, count }) }
    }
}

/// An id that names a partition the deployment does not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the id names flow partition {index}, but this deployment has only {count}")]
pub struct PartitionOutOfRange {
    /// The index in the id.
    pub index: u16,
    /// How many flow partitions exist.
    pub count: u16,
}

/// Why a text is not an execution id.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ExecutionIdParseError {
    /// It does not begin with a flow partition's tag and a colon.
    #[error("execution id {0:?} does not begin with a partition, as in {{fp:7}}:<uuid>")]
    MissingTag(String),
    /// The index is not a whole number from 0 to 65535 in its shortest form.
    #[error("partition index {0:?} in an execution id is not a whole number from 0 to 65535")]
    InvalidPartitionIndex(String),
    /// What follows the tag is not a hyphenated lower-case UUID.
    #[error("{0:?} in an execution id is not a hyphenated lower-case UUID of 36 characters")]
    InvalidUuid(String),
}

impl FromStr for ExecutionId {
    type Err = ExecutionIdParseError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (index, uuid) = text
            .strip_prefix("{fp:")
            .and_then(|rest| rest.split_once("}:"))
            .ok_or_else(|| ExecutionIdParseError::MissingTag(text.to_owned()))?;
        let partition_index = Partition::parse_index(index)
            .ok_or_else(|| ExecutionIdParseError::InvalidPartitionIndex(index.to_owned()))?;
        let uuid =
            parse_uuid(uuid).ok_or_else(|| ExecutionIdParseError::InvalidUuid(uuid.to_owned()))?;
        Ok(Self { partition_index, uuid })
    }
}

impl fmt::Display for ExecutionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.partition(), self.uuid.as_hyphenated())
    }
}

impl fmt::Debug for ExecutionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ExecutionId({self})")
    }
}

serde_as_text!(ExecutionId, "an execution id, as in {fp:7}:<uuid>");

#[cfg(test)]
mod tests {
    use super::*;
    use crate::partition::crc16;

    const UUID: &str = "550e8400-e29b-41d4-a716-446655440000";

    fn uuid() -> Uuid {
        parse_uuid(UUID).expect("canonical")
    }

    #[test]
    fn an_execution_id_survives_text_and_json() {
        let id = ExecutionId::from_parts(Partition::flow(42), uuid());
        let text = format!("{{fp:42}}:{UUID}");
        assert_eq!(id.to_string(), text);
        assert_eq!(ExecutionId::parse(&text), Ok(id));
        let json = serde_json::to_string(&id).expect("serialises");
        assert_eq!(serde_json::from_str::<ExecutionId>(&json).expect("deserialises"), id);
    }

    #[test]
    fn each_wrong_part_is_named() {
        use ExecutionIdParseError::{InvalidPartitionIndex, InvalidUuid, MissingTag};
        for text in ["", UUID, "{b:1}:x", "fp:1:x", "{fp:1}", &format!("{{fp:1}}{UUID}")] {
            assert_eq!(ExecutionId::parse(text), Err(MissingTag(text.to_owned())));
        }
        for index in ["", "-1", "+1", "07", "65536", " 1", "0x1"] {
            let text = format!("{{fp:{index}}}:{UUID}");
            assert_eq!(ExecutionId::parse(&text), Err(InvalidPartitionIndex(index.to_owned())));
        }
        for rest in ["", "x", &UUID.to_uppercase(), &format!("{UUID} ")] {
            let text = format!("{{fp:1}}:{rest}");
            assert_eq!(ExecutionId::parse(&text), Err(InvalidUuid(rest.to_owned())));
        }
    }

    #[test]
    fn members_of_a_flow_live_with_the_flow() {
        let config = PartitionConfig::default();
        let flow = FlowId::from_uuid(uuid());
        let one = ExecutionId::for_flow(&flow, Uuid::from_u128(1), &config);
        let two = ExecutionId::for_flow(&flow, Uuid::from_u128(2), &config);
        assert_eq!(one.partition(), two.partition());
        assert_eq!(one.partition().index, crc16(uuid().as_bytes()) % 256);
    }

    #[test]
    fn solo_executions_spread_over_all_partitions() {
        let config = PartitionConfig { num_flow_partitions: 8, ..Default::default() };
        let hit: std::collections::BTreeSet<Partition> =
            (0..500).map(|n| ExecutionId::solo(Uuid::from_u128(n), &config).partition()).collect();
        assert_eq!(hit.len(), 8);
    }

    #[test]
    fn one_idempotency_key_has_one_partition_whatever_the_uuid() {
        let config = PartitionConfig::default();
        let namespace = Namespace::try_new("shop").expect("valid");
        let key = IdempotencyKey::try_new("order-17").expect("valid");
        let place = |n| {
            let uuid = Uuid::from_u128(n);
            ExecutionId::for_idempotency_key(&namespace, &key, uuid, &config).partition()
        };
        assert_eq!(place(1), place(2));
        assert_eq!(place(1).index, crc16(b"shop\0order-17") % 256);
    }

    #[test]
    fn every_id_that_is_made_lives_where_its_uuid_hashes_to() {
        let namespace = Namespace::default();
        for count in [1, 2, 7, 256, 1000, u16::MAX] {
            let config = PartitionConfig { num_flow_partitions: count, ..Default::default() };
            for number in 0..100 {
                let fresh = Uuid::from_u128(uuid().as_u128() + number);
                let key = IdempotencyKey::try_new(format!("order-{number}")).expect("valid");
                let flow = FlowId::from_uuid(Uuid::from_u128(number));
                for id in [
                    ExecutionId::solo(fresh, &config),
                    ExecutionId::for_flow(&flow, fresh, &config),
                    ExecutionId::for_idempotency_key(&namespace, &key, fresh, &config),
                ] {
                    assert_eq!(ExecutionId::solo(id.uuid(), &config), id, "{count}");
                    assert_eq!(id.uuid().as_u128() >> 16, fresh.as_u128() >> 16, "{count}");
                }
            }
        }
    }

    #[test]
    fn an_index_beyond_the_deployment_is_refused() {
        let config = PartitionConfig { num_flow_partitions: 4, ..Default::default() };
        assert_eq!(ExecutionId::from_parts(Partition::flow(3), uuid()).check(&config), Ok(()));
        let error = ExecutionId::from_parts(Partition::flow(4), uuid()).check(&config);
        assert_eq!(error, Err(PartitionOutOfRange { index: 4, count: 4 }));
    }
}
