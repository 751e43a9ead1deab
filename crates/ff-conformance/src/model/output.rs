//! Output of attempts: which frames a step writes, and which it reads.

use ff_core::backend::{Frame, FrameKind};
use ff_core::types::{AttemptIndex, ExecutionId};
use ff_script::calls::stream::{AppendFrame, ReadAttemptStream};
use ff_script::wire::Rest;

use super::dice::Dice;
use super::view::{Fields, field};
use super::world::{Lease, World};

/// What the frame with this number holds, whoever writes it: so that a frame in the wrong place is
/// noticed. A merge patch, for streams that sum up.
pub(super) fn payload(sequence: u64) -> String {
    match sequence % 4 {
        0 => r#"{"a":null}"#.to_owned(),
        1 => format!(r#"{{"a":{sequence}}}"#),
        2 => format!(r#"{{"b":{{"n{sequence}":[{sequence}]}}}}"#),
        _ => format!(r#"{{"b":{{"n{}":null}},"c":"{sequence}"}}"#, sequence - 1),
    }
}

/// The number of the last frame of an execution's latest attempt; 0 if there is none.
pub(super) fn last_sequence(record: Fields<'_>) -> u64 {
    record.text(field::FRAMES).split(':').nth(1).and_then(|last| last.parse().ok()).unwrap_or(0)
}

/// Most often the next frames; at times some that are there already, or a gap.
pub(super) fn append(dice: &mut Dice, lease: Lease, world: &World) -> AppendFrame {
    let Lease { execution_id, lease_id, lease_epoch, attempt_id } = lease;
    let next = world.record(&execution_id).map_or(0, last_sequence) + 1;
    let first_sequence = match dice.below(10) {
        0 => next + 1 + dice.below(2),
        1..4 => next.saturating_sub(dice.below(4)).max(1),
        _ => next,
    };
    let numbers = first_sequence..first_sequence + 1 + dice.below(5);
    let frames = numbers.map(|number| Frame::new(FrameKind::Event, payload(number)));
    let frames = Rest(frames.collect());
    AppendFrame { execution_id, lease_id, lease_epoch, attempt_id, first_sequence, frames }
}

pub(super) fn read(dice: &mut Dice, execution_id: ExecutionId) -> ReadAttemptStream {
    ReadAttemptStream {
        execution_id,
        attempt_index: dice.sometimes(50, |dice| AttemptIndex(dice.below(3) as u32)),
        from_sequence: dice.below(8),
        to_sequence: dice.sometimes(30, |dice| dice.below(12)),
        count_limit: 1 + dice.below(6),
        bytes_max: dice.sometimes(30, |dice| 1 + dice.below(60)),
    }
}
