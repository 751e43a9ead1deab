//! Frames are there in order, once each per attempt: what was given is what is kept, it never
//! changes, and it only goes from its beginning.

use ff_script::dump::{Stored, StreamEntry};
use ff_script::value::Value;
use serde_json::{Map, Value as Json};

use super::super::output::{last_sequence, payload};
use super::super::view::{Fields, View, field};
use super::fence::may_write;
use super::{Checked, Seen, fence, rule};

pub(super) fn check(seen: &Seen<'_>) -> Checked {
    streams_only_grow(seen)?;
    match seen.sent.name() {
        "ff_append_frame" => appended(seen),
        "ff_read_attempt_stream" if seen.answer.done => told(seen),
        _ => Ok(()),
    }
}

fn stream<'a>(view: View<'a>, uuid: &str, attempt: u64) -> &'a [StreamEntry] {
    match view.stored(&format!("x:{uuid}:s:{attempt}")) {
        Some(Stored::Stream(entries)) => entries,
        _ => &[],
    }
}

/// What is still there of a stream is as it was; only an append adds to it.
fn streams_only_grow(seen: &Seen<'_>) -> Checked {
    let appends = seen.sent.name() == "ff_append_frame";
    for (key, stored) in seen.after {
        let Stored::Stream(after) = stored else { continue };
        if key.ends_with(b":log") {
            continue;
        }
        let before = match seen.before.get(key) {
            Some(Stored::Stream(before)) => before.as_slice(),
            _ => &[],
        };
        let last = before.last().map_or(0, |entry| entry.ms);
        let old = after.iter().take_while(|entry| entry.ms <= last).count();
        let name = || format!("{} was rewritten", key.escape_ascii());
        rule(before.ends_with(&after[..old]), name)?;
        rule(appends || old == after.len(), name)?;
    }
    Ok(())
}

/// What an append must be answered by, and what is kept of it.
fn appended(seen: &Seen<'_>) -> Checked {
    let Some(uuid) = seen.sent.execution() else { return Ok(()) };
    let Some(record) = seen.before().record(uuid) else {
        return rule(!seen.answer.done, || "nothing is there to append to".to_owned());
    };
    let first = seen.sent.number("first_sequence");
    let last = first + (seen.sent.rest().len() / 4) as u64 - 1;
    let there = last_sequence(record);
    let word = seen.answer.word.as_str();
    let right: &[&str] = match () {
        () if last <= there && fence::is_latest(seen.sent, record) => &["DUPLICATE"],
        () if !may_write(seen.sent, record, seen.now) => {
            &["stale_owner_cannot_append", "stream_closed"]
        }
        () if first > there + 1 => &["frame_gap"],
        () if too_large(record, first.max(there + 1)..=last) => &["retention_limit_exceeded"],
        () => &["OK"],
    };
    rule(right.contains(&word), || format!("answered by {word} instead of {right:?}"))?;
    if seen.answer.done {
        let told = seen.answer.values.first();
        rule(told == Some(&Value::Int(last as i64)), || format!("told {told:?}, not {last}"))?;
    }
    kept(seen, uuid)
}

/// Does the policy keep too few bytes for one of these frames?
fn too_large(record: Fields<'_>, mut numbers: std::ops::RangeInclusive<u64>) -> bool {
    let bytes = record.text(field::STREAM_RULE).split(':').nth(2).and_then(|it| it.parse().ok());
    bytes.is_some_and(|bytes| numbers.any(|number| payload(number).len() as u64 > bytes))
}

/// Every frame holds what its number says, and a summary is what they sum up to.
fn kept(seen: &Seen<'_>, uuid: &str) -> Checked {
    let Some(record) = seen.after().record(uuid) else { return Ok(()) };
    let attempt = record.count(field::ATTEMPT_COUNT).saturating_sub(1);
    for entry in stream(seen.after(), uuid, attempt) {
        let right = payload(entry.ms).into_bytes();
        let is = entry.fields.iter().find(|(name, _)| name == b"p").map(|(_, bytes)| bytes);
        rule(is == Some(&right), || format!("frame {} is not the one that was sent", entry.ms))?;
    }
    match seen.after().stored(&format!("x:{uuid}:s:{attempt}:d")) {
        Some(Stored::String(text)) => {
            let is: Option<Json> = serde_json::from_slice(text).ok();
            let right = summed_up(last_sequence(record));
            rule(is.as_ref() == Some(&right), || format!("sums up to {is:?} instead of {right}"))
        }
        _ => Ok(()),
    }
}

/// All frames up to this one, applied one after the other.
fn summed_up(last: u64) -> Json {
    (1..=last).fold(Json::Object(Map::new()), |document, number| {
        merged(document, serde_json::from_str(&payload(number)).expect("frames are JSON"))
    })
}

fn merged(target: Json, patch: Json) -> Json {
    let Json::Object(patch) = patch else { return patch };
    let mut object = match target {
        Json::Object(object) => object,
        _ => Map::new(),
    };
    for (name, value) in patch {
        if value.is_null() {
            object.remove(&name);
        } else {
            let before = object.remove(&name).unwrap_or(Json::Null);
            object.insert(name, merged(before, value));
        }
    }
    Json::Object(object)
}

/// A read tells the frames of its range that are there, from the first on.
fn told(seen: &Seen<'_>) -> Checked {
    let [Value::Int(attempt), Value::Array(rows), ..] = seen.answer.values.as_slice() else {
        return Err(format!("a read answered {:?}", seen.answer));
    };
    let (from, to) = (seen.sent.number("from_sequence"), seen.sent.text("to_sequence"));
    let to = to.parse().unwrap_or(u64::MAX);
    let uuid = seen.sent.execution().unwrap_or_default();
    let entries = stream(seen.after(), uuid, *attempt as u64).iter();
    let mut right = entries.filter(|entry| (from..=to).contains(&entry.ms));
    for row in rows[1..].chunks(3) {
        let entry = right.next().map(|entry| format!("{}-0 {}", entry.ms, payload(entry.ms)));
        let is = format!("{} {}", shown(&row[0]), shown(&row[2]));
        rule(entry.as_ref() == Some(&is), || format!("told {is} instead of {entry:?}"))?;
    }
    let full = rows.len() / 3 >= seen.sent.number("count_limit") as usize;
    let short = full || !seen.sent.text("bytes_max").is_empty() || summary_told(seen);
    rule(short || right.next().is_none(), || "not all that is there was told".to_owned())
}

fn summary_told(seen: &Seen<'_>) -> bool {
    seen.answer.values.last().is_some_and(|summary| !shown(summary).is_empty())
}

fn shown(value: &Value) -> String {
    String::from_utf8_lossy(value.as_bytes().unwrap_or_default()).into_owned()
}
