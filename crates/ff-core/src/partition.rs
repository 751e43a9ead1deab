//! Partitions: the unit of atomicity. Everything that belongs together carries one hash tag, and
//! one call touches one tag.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::ToSchema;
use crate::argument::check_range;
use crate::error::EngineError;
use crate::wire_text::serde_as_text;

/// Which family of records a partition holds. The family decides the hash tag's prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum PartitionFamily {
    /// Flows, their executions, queues, timers and event log: `{fp:N}`.
    Flow,
    /// Budgets: `{b:N}`.
    Budget,
    /// Quota policies: `{q:N}`.
    Quota,
}

impl PartitionFamily {
    const ALL: [Self; 3] = [Self::Flow, Self::Budget, Self::Quota];

    const fn prefix(self) -> &'static str {
        match self {
            Self::Flow => "fp",
            Self::Budget => "b",
            Self::Quota => "q",
        }
    }
}

/// One partition: a family and an index below that family's count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Partition {
    /// The family the partition belongs to.
    pub family: PartitionFamily,
    /// Zero-based index within the family.
    pub index: u16,
}

impl Partition {
    /// The flow partition with this index, home of executions and flows.
    pub const fn flow(index: u16) -> Self {
        Self { family: PartitionFamily::Flow, index }
    }

    /// The partition of quota policies with this index.
    pub const fn quota(index: u16) -> Self {
        Self { family: PartitionFamily::Quota, index }
    }

    /// The partition of budgets with this index.
    pub const fn budget(index: u16) -> Self {
        Self { family: PartitionFamily::Budget, index }
    }

    /// The hash tag with its braces, for example `{fp:7}`.
    pub fn hash_tag(self) -> String {
        self.to_string()
    }

    /// The key that names this partition in a call, and the prefix of every key inside it.
    pub fn key(self) -> String {
        format!("ff:{self}")
    }

    /// Accepts one spelling per index, so that an id has one text and one key.
    pub(crate) fn parse_index(text: &str) -> Option<u16> {
        let shortest = text == "0" || !text.starts_with(['0', '+']);
        shortest.then(|| text.parse().ok()).flatten()
    }
}

impl fmt::Display for Partition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{{{}:{}}}", self.family.prefix(), self.index)
    }
}

/// Why a text is not a partition's hash tag.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PartitionKeyParseError {
    /// The text is not enclosed in braces.
    #[error("a partition is written in braces, as in {{fp:7}}")]
    MissingBraces,
    /// No colon between family and index.
    #[error("a partition is written as family:index, as in {{fp:7}}")]
    MalformedBody,
    /// The family is none of `fp`, `b`, `q`.
    #[error("unknown partition family {0:?}: fp, b and q exist")]
    UnknownFamilyPrefix(String),
    /// The index is not a whole number from 0 to 65535, written without leading zeros or sign.
    #[error("partition index {0:?} is not a whole number from 0 to 65535")]
    InvalidIndex(String),
}

impl FromStr for Partition {
    type Err = PartitionKeyParseError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let body = text
            .strip_prefix('{')
            .and_then(|rest| rest.strip_suffix('}'))
            .ok_or(PartitionKeyParseError::MissingBraces)?;
        let (prefix, index) = body.split_once(':').ok_or(PartitionKeyParseError::MalformedBody)?;
        let family = PartitionFamily::ALL
            .into_iter()
            .find(|family| family.prefix() == prefix)
            .ok_or_else(|| PartitionKeyParseError::UnknownFamilyPrefix(prefix.to_owned()))?;
        let index = Self::parse_index(index)
            .ok_or_else(|| PartitionKeyParseError::InvalidIndex(index.to_owned()))?;
        Ok(Self { family, index })
    }
}

serde_as_text!(Partition, "a partition, as in {fp:7}");

/// How many partitions each family has. Fixed for the life of a deployment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = Partitions)]
pub struct PartitionConfig {
    /// Number of `{fp:N}` partitions.
    pub num_flow_partitions: u16,
    /// Number of `{b:N}` partitions.
    pub num_budget_partitions: u16,
    /// Number of `{q:N}` partitions.
    pub num_quota_partitions: u16,
}

impl Default for PartitionConfig {
    fn default() -> Self {
        Self { num_flow_partitions: 256, num_budget_partitions: 32, num_quota_partitions: 32 }
    }
}

impl PartitionConfig {
    /// The number of partitions of one family.
    pub const fn count_for(&self, family: PartitionFamily) -> u16 {
        match family {
            PartitionFamily::Flow => self.num_flow_partitions,
            PartitionFamily::Budget => self.num_budget_partitions,
            PartitionFamily::Quota => self.num_quota_partitions,
        }
    }

    /// The flow partition with this index, if there is one.
    pub fn flow_partition(&self, index: u16) -> Result<Partition, EngineError> {
        let last = u64::from(self.num_flow_partitions) - 1;
        check_range("partition", index.into(), 0..=last).map(|()| Partition::flow(index))
    }

    /// Every flow partition, in index order.
    pub fn flow_partitions(&self) -> impl ExactSizeIterator<Item = Partition> + use<> {
        (0..self.num_flow_partitions).map(Partition::flow)
    }

    /// Every partition of every family, those of executions first.
    pub fn partitions(&self) -> impl Iterator<Item = Partition> + use<> {
        let quotas = (0..self.num_quota_partitions).map(Partition::quota);
        let budgets = (0..self.num_budget_partitions).map(Partition::budget);
        self.flow_partitions().chain(quotas).chain(budgets)
    }

    /// The partition of a family that these bytes hash to.
    pub fn partition_of(&self, family: PartitionFamily, bytes: &[u8]) -> Partition {
        Partition { family, index: crc16(bytes) % self.count_for(family).max(1) }
    }

    /// The flow partition that these bytes hash to.
    pub fn flow_partition_of(&self, bytes: &[u8]) -> Partition {
        self.partition_of(PartitionFamily::Flow, bytes)
    }

    /// The partition of the quota policy, or of the budget, with this UUID.
    pub fn shared_partition_of(&self, family: PartitionFamily, uuid: Uuid) -> Partition {
        self.partition_of(family, uuid.as_bytes())
    }

    /// The UUID with its last two bytes changed, if they have to be, so that it hashes to this flow
    /// partition. What precedes them stays: the time, the order, the version.
    pub fn uuid_on(&self, partition: Partition, uuid: Uuid) -> Uuid {
        let count = self.num_flow_partitions.max(1);
        assert!(partition.index < count, "{partition} is none of {count} flow partitions");
        let mut bytes = uuid.into_bytes();
        let wanted = nearest_crc(crc16(&bytes), partition.index, count);
        let (kept, last) = bytes.split_at_mut(14);
        last.copy_from_slice(&last_bytes(kept, wanted).to_be_bytes());
        Uuid::from_bytes(bytes)
    }
}

/// The CRC in the same run of `count` values that is this index modulo their count. Chance decides
/// the run, so all that lead to the index are about equally likely.
fn nearest_crc(crc: u16, index: u16, count: u16) -> u16 {
    let run = crc - crc % count;
    // The last run may be cut short before the index: the one before is whole.
    run.checked_add(index).unwrap_or_else(|| run - count + index)
}

/// The two bytes that give a message this CRC when they follow what is there. The last sixteen
/// shifts take in nothing but them, and a shift can be undone because the polynomial is odd.
fn last_bytes(before: &[u8], crc: u16) -> u16 {
    crc16(before) ^ (0..16).fold(crc, |crc, _| unshift(crc))
}

const POLYNOMIAL: u16 = 0x1021;

fn shift(crc: u16) -> u16 {
    if crc & 0x8000 != 0 { (crc << 1) ^ POLYNOMIAL } else { crc << 1 }
}

fn unshift(crc: u16) -> u16 {
    if crc & 1 != 0 { ((crc ^ POLYNOMIAL) >> 1) | 0x8000 } else { crc >> 1 }
}

/// CRC-16/XMODEM: the hash that places ids on partitions (and, in a cluster, tags on slots).
pub fn crc16(bytes: &[u8]) -> u16 {
    bytes
        .iter()
        .fold(0u16, |crc, byte| (0..8).fold(crc ^ (u16::from(*byte) << 8), |crc, _| shift(crc)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn crc16_is_the_xmodem_variant() {
        assert_eq!(crc16(b"123456789"), 0x31C3);
        assert_eq!(crc16(b""), 0);
    }

    #[test]
    fn a_partition_has_one_text() {
        assert_eq!(Partition::flow(7).hash_tag(), "{fp:7}");
        assert_eq!("{b:3}".parse(), Ok(Partition { family: PartitionFamily::Budget, index: 3 }));
        for wrong in ["fp:7", "{fp7}", "{x:1}", "{fp:07}", "{fp:+7}", "{fp:65536}", "{fp:}"] {
            assert!(wrong.parse::<Partition>().is_err(), "{wrong} must not parse");
        }
        assert_eq!("{fp:0}".parse(), Ok(Partition::flow(0)));
    }

    #[test]
    fn all_partitions_are_those_of_executions_quotas_and_budgets() {
        let config = PartitionConfig {
            num_flow_partitions: 2,
            num_budget_partitions: 1,
            num_quota_partitions: 1,
        };
        let all: Vec<String> = config.partitions().map(Partition::hash_tag).collect();
        assert_eq!(all, ["{fp:0}", "{fp:1}", "{q:0}", "{b:0}"]);
    }

    #[test]
    fn every_partition_is_reached() {
        let config = PartitionConfig { num_flow_partitions: 16, ..Default::default() };
        let hit: std::collections::BTreeSet<u16> =
            (0u32..1000).map(|n| config.flow_partition_of(&n.to_be_bytes()).index).collect();
        assert_eq!(hit.len(), 16);
    }

    fn flows(num_flow_partitions: u16) -> PartitionConfig {
        PartitionConfig { num_flow_partitions, ..Default::default() }
    }

    /// Numbers without a pattern, the same in every run.
    fn scattered(number: u64) -> u128 {
        let mixed = |seed: u64| {
            let mixed = (seed ^ (seed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            u128::from(mixed ^ (mixed >> 27))
        };
        mixed(number) << 64 | mixed(!number)
    }

    fn kept(uuid: Uuid) -> u128 {
        uuid.as_u128() >> 16
    }

    #[test]
    fn a_uuid_is_made_for_any_partition_of_any_number_of_them() {
        for count in 1..=u16::MAX {
            let uuid = Uuid::from_u128(scattered(count.into()));
            let any = crc16(&count.to_be_bytes()) % count;
            let home = Partition::flow([0, any, count - 1][usize::from(count % 3)]);
            let made = flows(count).uuid_on(home, uuid);
            assert_eq!(flows(count).flow_partition_of(made.as_bytes()), home, "{uuid} of {count}");
            assert_eq!(kept(made), kept(uuid), "{home} of {count}");
        }
    }

    #[test]
    fn what_is_in_its_place_stays_as_it_is() {
        for number in 0..10_000 {
            let uuid = Uuid::from_u128(scattered(number));
            let config = flows(u16::try_from(number).expect("small") + 1);
            let home = config.flow_partition_of(uuid.as_bytes());
            assert_eq!(config.uuid_on(home, uuid), uuid);
        }
    }

    #[test]
    fn every_crc_is_reached_by_one_end() {
        for crc in 0..=u16::MAX {
            let end = last_bytes(b"before", crc).to_be_bytes();
            assert_eq!(crc16(&[b"before", &end[..]].concat()), crc);
        }
    }

    #[test]
    fn no_more_chance_is_given_up_than_the_partition_costs() {
        for count in [1, 2, 3, 255, 256, 1000, 32_768, 40_000, u16::MAX] {
            let index = count - 1;
            let mut uses = std::collections::HashMap::new();
            for crc in 0..=u16::MAX {
                *uses.entry(nearest_crc(crc, index, count)).or_insert(0) += 1;
            }
            let choices = (0..=u16::MAX).filter(|crc| crc % count == index).count();
            assert_eq!(uses.len(), choices, "{count}");
            assert!(uses.values().all(|uses| *uses <= 2 * u32::from(count)), "{count}");
        }
    }

    #[test]
    #[should_panic(expected = "{fp:4} is none of 4 flow partitions")]
    fn a_partition_that_does_not_exist_has_no_uuids() {
        flows(4).uuid_on(Partition::flow(4), Uuid::nil());
    }
}
