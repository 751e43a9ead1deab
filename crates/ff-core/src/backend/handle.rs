//! What a worker holds while it works on an execution. Travels as opaque bytes.

use crate::error::EngineError;
use crate::literal::literals;
use crate::partition::Partition;
use crate::state::AttemptType;
use crate::types::{
    AttemptId, AttemptIndex, ExecutionId, LaneId, LeaseEpoch, LeaseFence, LeaseId, WorkerId,
    WorkerInstanceId,
};

use uuid::Uuid;

literals! {
    /// How the lease came about.
    HandleKind("handle kind") {
        /// A new attempt: the first, a retry or a replay.
        Fresh = "fresh",
        /// An interrupted attempt goes on.
        Resumed = "resumed",
        /// A new attempt takes over from a worker that lost its lease.
        Reclaimed = "reclaimed",
    }
}

/// The right to work on an execution: what every call about it carries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Handle {
    /// The execution.
    pub execution_id: ExecutionId,
    /// Proof of the lease.
    pub fence: LeaseFence,
    /// The attempt's number.
    pub attempt_index: AttemptIndex,
    /// Why the attempt was started.
    pub attempt_type: AttemptType,
    /// The lane the execution was claimed from.
    pub lane: LaneId,
    /// The kind of worker that holds it.
    pub worker_id: WorkerId,
    /// The process that holds it.
    pub worker_instance_id: WorkerInstanceId,
    /// How long each renewal extends the lease.
    pub lease_ttl_ms: u64,
    /// How the lease came about.
    pub kind: HandleKind,
}

/// The first byte of every encoded handle.
const VERSION: u8 = 1;

impl Handle {
    /// The handle as bytes, to be given back unchanged. Numbers are little-endian, texts follow
    /// their length.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = vec![VERSION];
        bytes.extend(self.execution_id.partition().index.to_le_bytes());
        bytes.extend(self.execution_id.uuid().as_bytes());
        bytes.extend(self.attempt_index.get().to_le_bytes());
        bytes.extend(self.fence.attempt_id.as_bytes());
        bytes.extend(self.fence.lease_id.as_bytes());
        bytes.extend(self.fence.lease_epoch.get().to_le_bytes());
        bytes.extend(self.lease_ttl_ms.to_le_bytes());
        let names = [self.lane.as_str(), self.worker_id.as_str(), self.worker_instance_id.as_str()];
        let words = [self.attempt_type.as_str(), self.kind.as_str()];
        names.into_iter().chain(words).for_each(|text| put_text(&mut bytes, text));
        bytes
    }

    /// Reads what [`Handle::encode`] wrote, and nothing else: every rule of every part is checked
    /// and no byte may follow.
    pub fn decode(bytes: &[u8]) -> Result<Self, HandleDecodeError> {
        let mut reader = Reader(bytes);
        let [version] = reader.array()?;
        if version != VERSION {
            return Err(HandleDecodeError::Version(version));
        }
        let handle = Self::read(&mut reader)?;
        if reader.0.is_empty() { Ok(handle) } else { Err(HandleDecodeError::TrailingBytes) }
    }

    fn read(reader: &mut Reader<'_>) -> Result<Self, HandleDecodeError> {
        let partition = Partition::flow(u16::from_le_bytes(reader.array()?));
        let execution_id = ExecutionId::from_parts(partition, reader.uuid()?);
        let attempt_index = AttemptIndex(u32::from_le_bytes(reader.array()?));
        let attempt_id = AttemptId::from_uuid(reader.uuid()?);
        let lease_id = LeaseId::from_uuid(reader.uuid()?);
        let lease_epoch = LeaseEpoch(u64::from_le_bytes(reader.array()?));
        Ok(Self {
            execution_id,
            fence: LeaseFence { lease_id, lease_epoch, attempt_id },
            attempt_index,
            lease_ttl_ms: u64::from_le_bytes(reader.array()?),
            lane: reader.text("lane")?,
            worker_id: reader.text("worker_id")?,
            worker_instance_id: reader.text("worker_instance_id")?,
            attempt_type: reader.text("attempt_type")?,
            kind: reader.text("kind")?,
        })
    }
}

/// Why bytes are not a handle.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HandleDecodeError {
    /// Written by another version, or no handle at all.
    #[error("has the unknown version {0}")]
    Version(u8),
    /// The bytes end too early.
    #[error("is cut short")]
    CutShort,
    /// Something follows the handle.
    #[error("has bytes after its end")]
    TrailingBytes,
    /// A part breaks its own rules.
    #[error("has an invalid {0}")]
    Part(&'static str),
}

impl From<HandleDecodeError> for EngineError {
    fn from(error: HandleDecodeError) -> Self {
        Self::invalid("handle", error.to_string())
    }
}

fn put_text(bytes: &mut Vec<u8>, text: &str) {
    let length = u32::try_from(text.len()).expect("names and words are far shorter than 4 GiB");
    bytes.extend(length.to_le_bytes());
    bytes.extend(text.as_bytes());
}

struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, length: usize) -> Result<&'a [u8], HandleDecodeError> {
        let (taken, rest) = self.0.split_at_checked(length).ok_or(HandleDecodeError::CutShort)?;
        self.0 = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], HandleDecodeError> {
        let taken = self.take(N)?;
        taken.try_into().map_err(|_| HandleDecodeError::CutShort)
    }

    fn uuid(&mut self) -> Result<Uuid, HandleDecodeError> {
        self.array().map(Uuid::from_bytes)
    }

    fn text<T: std::str::FromStr>(&mut self, part: &'static str) -> Result<T, HandleDecodeError> {
        let invalid = HandleDecodeError::Part(part);
        let length = usize::try_from(u32::from_le_bytes(self.array()?)).map_err(|_| invalid)?;
        let text = std::str::from_utf8(self.take(length)?).map_err(|_| invalid)?;
        text.parse().map_err(|_| invalid)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn handle() -> Handle {
        Handle {
            execution_id: ExecutionId::from_parts(Partition::flow(513), Uuid::from_u128(7)),
            fence: LeaseFence {
                lease_id: LeaseId::from_uuid(Uuid::from_u128(8)),
                lease_epoch: LeaseEpoch(9),
                attempt_id: AttemptId::from_uuid(Uuid::from_u128(10)),
            },
            attempt_index: AttemptIndex(3),
            attempt_type: AttemptType::Retry,
            lane: LaneId::try_new("gpu").expect("valid"),
            worker_id: WorkerId::try_new("render").expect("valid"),
            worker_instance_id: WorkerInstanceId::try_new("render-1").expect("valid"),
            lease_ttl_ms: 30_000,
            kind: HandleKind::Resumed,
        }
    }

    #[test]
    fn a_handle_survives_its_bytes() {
        assert_eq!(Handle::decode(&handle().encode()), Ok(handle()));
    }

    #[test]
    fn a_cut_handle_is_refused_wherever_it_is_cut() {
        let bytes = handle().encode();
        for length in 0..bytes.len() {
            assert_eq!(Handle::decode(&bytes[..length]), Err(HandleDecodeError::CutShort));
        }
    }

    #[test]
    fn other_versions_and_trailing_bytes_are_refused() {
        let mut bytes = handle().encode();
        bytes.push(0);
        assert_eq!(Handle::decode(&bytes), Err(HandleDecodeError::TrailingBytes));
        bytes[0] = 2;
        assert_eq!(Handle::decode(&bytes), Err(HandleDecodeError::Version(2)));
    }

    #[test]
    fn a_part_that_breaks_its_rules_is_named() {
        let bytes = handle().encode();
        let lane_at = bytes.windows(3).position(|part| part == b"gpu").expect("the lane's text");
        for wrong in [b"g{u", b"g\xffu", b"gp "] {
            let mut bytes = bytes.clone();
            bytes[lane_at..lane_at + 3].copy_from_slice(wrong);
            assert_eq!(Handle::decode(&bytes), Err(HandleDecodeError::Part("lane")));
        }
        let error = EngineError::from(HandleDecodeError::Part("lane"));
        assert_eq!(error.to_string(), "handle has an invalid lane");
    }

    #[test]
    fn a_length_beyond_the_bytes_is_refused() {
        let mut bytes = handle().encode();
        let lane_at = bytes.windows(3).position(|part| part == b"gpu").expect("the lane's text");
        bytes[lane_at - 4..lane_at].copy_from_slice(&u32::MAX.to_le_bytes());
        assert_eq!(Handle::decode(&bytes), Err(HandleDecodeError::CutShort));
    }
}
