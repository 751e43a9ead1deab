//! I9: the output of attempts. The frames of a stream are numbered without gaps and start where the
//! ones before them stop; the latest attempt's are the ones that the record tells of; earlier ones
//! are there for the last few attempts only; and nothing is kept beyond the policy.

use ff_core::limits;

use super::Findings;
use super::contents::Contents;
use super::keys::Place;
use super::record::{Field, Record, State, field, number};
use crate::dump::{Stored, StreamEntry};

/// What tells a stream from an execution in the index of times.
pub(super) const DUE_PREFIX: &[u8] = b"s:";

/// What is kept of an execution's output: `mode:frames:bytes:ttl in ms, or nothing`.
pub(super) struct Rule {
    sums_up: bool,
    frames: i64,
    bytes: i64,
    ttl_ms: Option<i64>,
}

impl Rule {
    pub(super) fn parse(text: &[u8]) -> Option<Self> {
        let parts: Vec<&[u8]> = text.split(|byte| *byte == b':').collect();
        let [mode, frames, bytes, ttl_ms] = parts[..] else { return None };
        let sums_up = match mode {
            b"durable" | b"best_effort" => false,
            b"summary" => true,
            _ => return None,
        };
        let ttl_ms = if ttl_ms.is_empty() { None } else { Some(number(ttl_ms)?) };
        Some(Self { sums_up, frames: number(frames)?, bytes: number(bytes)?, ttl_ms })
    }

    fn of(record: &Record<'_>) -> Self {
        let stated = record.bytes(field::STREAM_RULE).and_then(Self::parse);
        stated.unwrap_or(Self {
            sums_up: false,
            frames: limits::STREAM_FRAMES_DEFAULT as i64,
            bytes: limits::STREAM_BYTES_DEFAULT as i64,
            ttl_ms: None,
        })
    }
}

/// What a stream holds: the numbers of its first and last frame, where the first one starts and
/// the last one stops.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Held {
    first: i64,
    last: i64,
    start: i64,
    stop: i64,
}

impl Held {
    pub(super) fn parse(text: &[u8]) -> Option<Self> {
        let numbers: Vec<i64> = text.split(|byte| *byte == b':').filter_map(number).collect();
        let [first, last, start, stop] = numbers[..] else { return None };
        let right = first >= 1 && last >= first - 1 && start >= 0 && stop >= start;
        right.then_some(Self { first, last, start, stop })
    }

    /// Reads the frames of a stream; none if one is not as it should be.
    fn of(entries: &[StreamEntry]) -> Option<Self> {
        let first = i64::try_from(entries.first()?.ms).ok()?;
        let start = start_of(entries.first()?)?;
        let (mut sequence, mut stop) = (first, start);
        for entry in entries {
            let numbered = i64::try_from(entry.ms).ok()? == sequence && entry.seq == 0;
            if !numbered || start_of(entry)? != stop {
                return None;
            }
            sequence += 1;
            stop += entry.fields.get(1)?.1.len() as i64;
        }
        Some(Self { first, last: sequence - 1, start, stop })
    }

    fn is_empty(&self) -> bool {
        self.first > self.last
    }

    /// Trimming is done now and then, so that a bound may be exceeded by an eighth.
    fn is_within(&self, rule: &Rule) -> bool {
        let exceeds = |amount: i64, bound: i64| amount > bound + bound / 8;
        !exceeds(self.last - self.first + 1, rule.frames)
            && !exceeds(self.stop - self.start, rule.bytes)
    }
}

/// Where a frame starts: `h` is `when:start:type:correlation id`, and `p` the bytes.
fn start_of(entry: &StreamEntry) -> Option<i64> {
    let [(name, header), (payload, _)] = entry.fields.as_slice() else { return None };
    let parts: Vec<&[u8]> = header.splitn(4, |byte| *byte == b':').collect();
    let [at, start, frame_type, _correlation] = parts[..] else { return None };
    let right = name == b"h" && payload == b"p" && !frame_type.is_empty();
    number(at)?;
    if right { number(start) } else { None }
}

fn latest(record: &Record<'_>) -> i64 {
    record.count(field::ATTEMPT_COUNT) - 1
}

pub(super) fn check(contents: &Contents<'_>, record: &Record<'_>, found: &mut Findings) {
    let held = record.bytes(field::FRAMES).and_then(Held::parse);
    let kept = held.filter(|held| !held.is_empty());
    let latest = latest(record);
    let place = u32::try_from(latest).ok().map(|index| Place::Frames(record.uuid, index));
    let stored = place.is_some_and(|place| contents.places.contains_key(&place));
    if kept.is_some() != stored {
        found.add("I9", record.name(), "what it says about its output is not there, or more is");
    }
    let kept_from = record.number(field::KEPT_FROM);
    let few = limits::STREAMS_KEPT_MAX as i64;
    if kept_from.is_some_and(|from| from < 0 || from >= latest || latest - from > few) {
        found.add("I9", record.name(), "keeps the output of other attempts than the last few");
    }
}

/// What is wrong with a stream or with the document that sums it up.
pub(super) fn wrong(
    contents: &Contents<'_>,
    place: &Place<'_>,
    stored: &Stored,
) -> Option<&'static str> {
    let (Place::Frames(uuid, index) | Place::Document(uuid, index)) = place else { return None };
    let Some(record) = contents.records.get(uuid) else { return Some("belongs to no execution") };
    let (index, latest) = (i64::from(*index), latest(record));
    let kept_from = record.number(field::KEPT_FROM).unwrap_or(latest);
    if index > latest || index < kept_from {
        return Some("is the output of an attempt that none is kept of");
    }
    match stored {
        Stored::Stream(entries) => wrong_frames(record, entries, index == latest),
        Stored::String(text) => wrong_document(contents, record, place, text),
        _ => None,
    }
}

fn wrong_frames(
    record: &Record<'_>,
    entries: &[StreamEntry],
    is_latest: bool,
) -> Option<&'static str> {
    let Some(held) = Held::of(entries) else { return Some("a frame that does not follow") };
    let told = record.bytes(field::FRAMES).and_then(Held::parse);
    if is_latest && told != Some(held) {
        return Some("holds other frames than the record tells");
    }
    (!held.is_within(&Rule::of(record))).then_some("holds more than the policy allows")
}

fn wrong_document(
    contents: &Contents<'_>,
    record: &Record<'_>,
    place: &Place<'_>,
    text: &[u8],
) -> Option<&'static str> {
    let Place::Document(uuid, index) = *place else { return None };
    if !Rule::of(record).sums_up || !contents.places.contains_key(&Place::Frames(uuid, index)) {
        return Some("sums up what is not there");
    }
    if text.len() as u64 > limits::SUMMARY_BYTES_MAX {
        return Some("longer than allowed");
    }
    let json = serde_json::from_slice::<&serde_json::value::RawValue>(text);
    json.is_err().then_some("is no JSON")
}

/// The entries that the index of times must have: each stream whose attempt is over, with the time
/// at which the policy lets it go.
pub(super) fn due<'a>(contents: &Contents<'a>) -> impl Iterator<Item = (Vec<u8>, i64)> {
    contents.places.keys().filter_map(|place| {
        let Place::Frames(uuid, index) = place else { return None };
        let record = contents.records.get(uuid)?;
        let ttl_ms = Rule::of(record).ttl_ms?;
        let ended_at = if i64::from(*index) == latest(record) {
            latest_end(record)
        } else {
            past_end(contents, uuid, *index)
        };
        let member = format!("s:{uuid}:{index}").into_bytes();
        Some((member, ended_at? + ttl_ms))
    })
}

/// When the latest attempt ended, if it has.
fn latest_end(record: &Record<'_>) -> Option<i64> {
    const TIMES: [Field; 2] = [field::ATTEMPT_ENDED_AT, field::ENDED_AT];
    let over = record.has(field::ATTEMPT_END) || record.state().is_some_and(State::is_ended);
    over.then(|| TIMES.into_iter().find_map(|time| record.number(time))).flatten()
}

/// When an earlier attempt ended: `index:id:type:lifecycle:begin:end:…`.
fn past_end<'a>(contents: &Contents<'a>, uuid: &'a str, index: u32) -> Option<i64> {
    let lines = contents.list(&Place::Attempts(uuid))?.iter();
    let parts = lines.map(|line| line.split(|byte| *byte == b':').collect::<Vec<_>>());
    let mut ends = parts.filter(|parts| number(parts[0]) == Some(index.into()));
    number(ends.next()?.get(5)?)
}
