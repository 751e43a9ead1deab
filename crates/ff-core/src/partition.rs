//! Partitions: the unit of atomicity. Everything that belongs together carries one hash tag, and
//! one call touches one tag.

use std::fmt;
use std::str::FromStr;

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
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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

    /// Every flow partition, in index order.
    pub fn flow_partitions(&self) -> impl Iterator<Item = Partition> + use<> {
        (0..self.num_flow_partitions).map(Partition::flow)
    }

    /// The partition of a family that these bytes hash to.
    pub fn partition_of(&self, family: PartitionFamily, bytes: &[u8]) -> Partition {
        Partition { family, index: crc16(bytes) % self.count_for(family).max(1) }
    }

    /// The flow partition that these bytes hash to.
    pub fn flow_partition_of(&self, bytes: &[u8]) -> Partition {
        self.partition_of(PartitionFamily::Flow, bytes)
    }
}

/// CRC-16/XMODEM: the hash that places ids on partitions (and, in a cluster, tags on slots).
pub fn crc16(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0u16, |crc, byte| {
        (0..8).fold(crc ^ (u16::from(*byte) << 8), |crc, _| {
            if crc & 0x8000 != 0 { (crc << 1) ^ 0x1021 } else { crc << 1 }
        })
    })
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
    fn every_partition_is_reached() {
        let config = PartitionConfig { num_flow_partitions: 16, ..Default::default() };
        let hit: std::collections::BTreeSet<u16> =
            (0u32..1000).map(|n| config.flow_partition_of(&n.to_be_bytes()).index).collect();
        assert_eq!(hit.len(), 16);
    }
}
