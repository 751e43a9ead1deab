//! I4: attempts are numbered without gaps, each follows from the one before, and none is beyond
//! what the policy allows.

use ff_core::limits;
use ff_core::state::{AttemptLifecycle, AttemptType};

use super::Findings;
use super::contents::Contents;
use super::keys::{Place, is_uuid};
use super::record::{Record, State, field, max_retries, number};

/// A past attempt, from its packed line.
struct Past {
    index: i64,
    attempt_type: AttemptType,
    lifecycle: AttemptLifecycle,
    epoch: i64,
}

/// `index:attempt_id:type:lifecycle:started:ended:epoch:worker:instance:category:length:texts`.
fn parse(line: &[u8]) -> Option<Past> {
    let parts: Vec<&[u8]> = line.splitn(12, |byte| *byte == b':').collect();
    let [index, id, attempt_type, lifecycle, started, ended, epoch, _, _, _, length, texts] =
        parts[..]
    else {
        return None;
    };
    number(started)?;
    number(ended)?;
    let cause_bytes = usize::try_from(number(length)?).ok()?;
    if !is_uuid(id) || cause_bytes > texts.len() {
        return None;
    }
    Some(Past {
        index: number(index)?,
        attempt_type: std::str::from_utf8(attempt_type).ok()?.parse().ok()?,
        lifecycle: std::str::from_utf8(lifecycle).ok()?.parse().ok()?,
        epoch: number(epoch)?,
    })
}

pub(super) fn check(contents: &Contents<'_>, record: &Record<'_>, found: &mut Findings) {
    let place = Place::Attempts(record.uuid);
    let lines = contents.list(&place).unwrap_or(&[]);
    let past: Vec<Past> = lines.iter().filter_map(|line| parse(line)).collect();
    if past.len() < lines.len() {
        return found.add("I4", contents.key(&place), "a line cannot be read");
    }
    let mut wrong = |what: String| found.add("I4", record.name(), what);
    numbering(record, &past, &mut wrong);
    succession(record, &past, &mut wrong);
    latest(record, &mut wrong);
    policy(record, &mut wrong);
    counters(record, &past, &mut wrong);
}

/// What happens with a sentence about something wrong.
type Wrong<'a> = dyn FnMut(String) + 'a;

fn numbering(record: &Record<'_>, past: &[Past], wrong: &mut Wrong<'_>) {
    let count = record.count(field::ATTEMPT_COUNT);
    let kept = (count - 1).clamp(0, limits::ATTEMPT_HISTORY_MAX as i64);
    if past.len() as i64 != kept {
        return wrong(format!("{count} attempts, but {} past ones are kept", past.len()));
    }
    let first = count - 1 - kept;
    for (place, attempt) in past.iter().enumerate() {
        let expected = first + place as i64;
        if attempt.index != expected {
            wrong(format!("attempt {} where {expected} is expected", attempt.index));
        }
    }
}

/// Each attempt has ended before the next begins, and the next says why it came about.
fn succession(record: &Record<'_>, past: &[Past], wrong: &mut Wrong<'_>) {
    let latest_epoch = record.count(field::LEASE_EPOCH);
    for (place, attempt) in past.iter().enumerate() {
        let next = past.get(place + 1);
        let next_type = next.map_or_else(|| latest_type(record), |next| next.attempt_type);
        if !attempt.lifecycle.is_final() {
            wrong(format!("attempt {} is past but {}", attempt.index, attempt.lifecycle));
        } else if !follows(attempt.lifecycle, next_type) {
            let (index, how) = (attempt.index, attempt.lifecycle);
            wrong(format!("attempt {index} is {how}, but a {next_type} follows"));
        }
        if attempt.epoch >= next.map_or(latest_epoch, |next| next.epoch) {
            wrong(format!("the epoch does not grow after attempt {}", attempt.index));
        }
        if attempt.index == 0 && !may_be_first(attempt.attempt_type) {
            wrong(format!("the first attempt is a {}", attempt.attempt_type));
        }
    }
    if record.count(field::ATTEMPT_COUNT) == 1 && !may_be_first(latest_type(record)) {
        wrong(format!("the only attempt is a {}", latest_type(record)));
    }
}

/// An execution that was cancelled before it ran begins with a replay.
fn may_be_first(attempt_type: AttemptType) -> bool {
    matches!(attempt_type, AttemptType::Initial | AttemptType::Replay)
}

fn follows(lifecycle: AttemptLifecycle, next: AttemptType) -> bool {
    match next {
        AttemptType::Retry => lifecycle == AttemptLifecycle::EndedFailure,
        AttemptType::Reclaim => lifecycle == AttemptLifecycle::InterruptedReclaimed,
        AttemptType::Replay => true,
        AttemptType::Initial | AttemptType::Fallback => false,
    }
}

fn latest_type(record: &Record<'_>) -> AttemptType {
    record.text(field::ATTEMPT_TYPE).parse().unwrap_or(AttemptType::Initial)
}

/// How the latest attempt stands agrees with the state and with what comes next.
fn latest(record: &Record<'_>, wrong: &mut Wrong<'_>) {
    let Some(state) = record.state() else { return };
    let ran = record.has(field::ATTEMPT_COUNT);
    let end = record.text(field::ATTEMPT_END);
    let fits = match (state, record.text(field::NEXT_ATTEMPT)) {
        (State::Running, _) => ran && end.is_empty(),
        (State::Lapsed, _) => ran && end == "lapse",
        (State::Revoked, _) => ran && end == "revoke",
        (State::Ended(_), _) => ran || end.is_empty(),
        (_, "retry") => ran && matches!(end, "fail" | "timeout"),
        (_, "resume") => ran && end.is_empty(),
        (_, "replay") => ran != end.is_empty(),
        (State::Parked, _) if ran => matches!(end, "lapse" | "revoke"),
        (_, _) => !ran && end.is_empty(),
    };
    if !fits {
        wrong(format!("{}: the latest attempt ended as {end:?}", record.state_word()));
    }
    if record.has(field::ATTEMPT_END) != record.has(field::ATTEMPT_ENDED_AT) {
        wrong("how the latest attempt ended is there without when".to_owned());
    }
    if record.has(field::STARTED_AT) != (record.count(field::ATTEMPT_COUNT) > 1) {
        wrong("the begin of the first attempt is not kept as it should be".to_owned());
    }
    timeout(record, state, wrong);
}

/// An attempt with a time limit has it while it runs, and its rest while it is paused.
fn timeout(record: &Record<'_>, state: State, wrong: &mut Wrong<'_>) {
    let limited = record.has(field::ATTEMPT_TIMEOUT_MS);
    let paused = record.text(field::NEXT_ATTEMPT) == "resume";
    if state == State::Running && record.has(field::TIMEOUT_AT) != limited {
        wrong("the running attempt's time limit does not follow the policy".to_owned());
    }
    if !state.is_ended() && record.has(field::TIMEOUT_LEFT_MS) != (paused && limited) {
        wrong("the paused attempt's remaining time does not follow the policy".to_owned());
    }
}

fn policy(record: &Record<'_>, wrong: &mut Wrong<'_>) {
    let retries_max = record.bytes(field::RETRY_RULE).and_then(max_retries).unwrap_or(0);
    let stated = |field, default: u64| record.number(field).unwrap_or(default as i64);
    for (name, count, most) in [
        ("retries", field::RETRY_COUNT, retries_max),
        ("reclaims", field::RECLAIM_COUNT, stated(field::RECLAIMS_MAX, limits::RECLAIMS_DEFAULT)),
        ("replays", field::REPLAY_COUNT, stated(field::REPLAYS_MAX, limits::REPLAYS_DEFAULT)),
    ] {
        let count = record.count(count);
        if count > most {
            wrong(format!("{count} {name}, but the policy allows {most}"));
        }
    }
}

/// The counters of a run agree with the types of its attempts. A replay starts them anew; one that
/// has not begun yet leaves no attempt to count, so that what is over can only be bounded.
fn counters(record: &Record<'_>, past: &[Past], wrong: &mut Wrong<'_>) {
    let Some(state) = record.state() else { return };
    if record.count(field::ATTEMPT_COUNT) > limits::ATTEMPT_HISTORY_MAX as i64 {
        return;
    }
    let next = record.text(field::NEXT_ATTEMPT);
    let begun = |of: AttemptType| if next == "replay" { 0 } else { run_count(record, past, of) };
    let pending = i64::from(next == "retry");
    // A retry that was scheduled when the execution ended was counted but never began.
    for (name, counter, expected, unbegun) in [
        ("retries", field::RETRY_COUNT, begun(AttemptType::Retry) + pending, 1),
        ("reclaims", field::RECLAIM_COUNT, begun(AttemptType::Reclaim), 0),
    ] {
        let count = record.count(counter);
        let fits = if state.is_ended() { count <= expected + unbegun } else { count == expected };
        if !fits {
            wrong(format!("{count} {name} are counted, but {expected} happened"));
        }
    }
}

/// How many attempts of a type the present run has.
fn run_count(record: &Record<'_>, past: &[Past], of: AttemptType) -> i64 {
    if !record.has(field::ATTEMPT_COUNT) {
        return 0;
    }
    let types = past.iter().map(|attempt| attempt.attempt_type);
    let types: Vec<AttemptType> = types.chain([latest_type(record)]).collect();
    let begin = types.iter().rposition(|kind| *kind == AttemptType::Replay).unwrap_or(0);
    types[begin..].iter().filter(|kind| **kind == of).count() as i64
}
