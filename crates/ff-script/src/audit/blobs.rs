//! I9: byte strings that belong to a record. Short ones are cut into pieces inside the record; a
//! long one has a key of its own, and then the second piece alone is there as a mark.

use ff_core::limits;
use ff_core::state::TerminalOutcome;

use super::Findings;
use super::contents::Contents;
use super::keys::{BlobName, Place};
use super::record::{Field, Record, State, field};

const MARK: &[u8] = b"@";
const PIECE: usize = limits::INLINE_VALUE_BYTES as usize;

fn pieces(name: BlobName) -> [Field; 4] {
    match name {
        BlobName::Payload => [field::PAYLOAD, field::PAYLOAD2, field::PAYLOAD3, field::PAYLOAD4],
        BlobName::Result => [field::RESULT, field::RESULT2, field::RESULT3, field::RESULT4],
        BlobName::Policy => [field::POLICY, field::POLICY2, field::POLICY3, field::POLICY4],
        BlobName::Detail => [field::DETAIL, field::DETAIL2, field::DETAIL3, field::DETAIL4],
    }
}

fn bytes_max(name: BlobName) -> u64 {
    match name {
        BlobName::Payload => limits::PAYLOAD_BYTES_MAX,
        BlobName::Result => limits::RESULT_BYTES_MAX,
        BlobName::Policy => limits::POLICY_BYTES_MAX,
        BlobName::Detail => limits::FAILURE_DETAIL_BYTES_MAX,
    }
}

pub(super) fn check(contents: &Contents<'_>, record: &Record<'_>, found: &mut Findings) {
    for name in BlobName::ALL {
        let values = pieces(name).map(|piece| record.bytes(piece));
        let own = contents.string(&Place::Blob(record.uuid, name));
        if let Some(what) = wrong(name, values, own) {
            found.add("I9", record.name(), format!("{}: {what}", name.as_str()));
        }
    }
    let done = record.state() == Some(State::Ended(TerminalOutcome::Success));
    if !done && pieces(BlobName::Result).iter().any(|piece| record.has(piece)) {
        found.add("I3", record.name(), "has a result without having succeeded");
    }
}

fn wrong(name: BlobName, values: [Option<&[u8]>; 4], own: Option<&[u8]>) -> Option<&'static str> {
    match (values, own) {
        ([None, None, None, None], None) => None,
        ([None, Some(MARK), None, None], Some(bytes)) => wrong_size(name, bytes),
        ([None, Some(MARK), None, None], None) => Some("the mark is there but not the key"),
        ([None, ..], None) => Some("the first piece is missing"),
        (_, Some(_)) => Some("a key of its own although the record does not say so"),
        (values, None) => wrong_pieces(values),
    }
}

fn wrong_size(name: BlobName, bytes: &[u8]) -> Option<&'static str> {
    if bytes.len() <= PIECE * 4 {
        Some("a key of its own although it fits into the record")
    } else if bytes.len() as u64 > bytes_max(name) {
        Some("longer than allowed")
    } else {
        None
    }
}

/// Every piece but the last is full, and no piece follows a gap.
fn wrong_pieces(values: [Option<&[u8]>; 4]) -> Option<&'static str> {
    let there = values.iter().take_while(|value| value.is_some()).count();
    if values[there..].iter().any(Option::is_some) {
        return Some("a piece is missing");
    }
    let sizes: Vec<usize> = values.iter().flatten().map(|value| value.len()).collect();
    let full = sizes[..there - 1].iter().all(|size| *size == PIECE);
    let last = (1..=PIECE).contains(&sizes[there - 1]);
    (!full || !last).then_some("the pieces are cut wrongly")
}
