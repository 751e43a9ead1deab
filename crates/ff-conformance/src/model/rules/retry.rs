//! A failure is followed by a retry exactly if the policy has one left for it, after its pause.

use ff_script::value::Value;

use super::super::view::{Fields, field};
use super::{Checked, Seen, rule};

/// A compiled retry policy.
struct Rule<'a> {
    max_retries: u64,
    exponential: bool,
    first_ms: f64,
    max_ms: f64,
    multiplier: f64,
    jitter: bool,
    categories: &'a str,
}

impl<'a> Rule<'a> {
    fn parse(text: &'a str) -> Option<Self> {
        let parts: Vec<&str> = text.split(':').collect();
        let [max, kind, first_ms, max_ms, multiplier_milli, jitter, categories] = parts[..] else {
            return None;
        };
        Some(Self {
            max_retries: max.parse().ok()?,
            exponential: kind == "exponential",
            first_ms: first_ms.parse().ok()?,
            max_ms: max_ms.parse().ok()?,
            multiplier: multiplier_milli.parse::<f64>().ok()? / 1000.0,
            jitter: jitter == "1",
            categories,
        })
    }

    fn admits(&self, category: &str) -> bool {
        let listed = self.categories.split(',').any(|listed| listed == category);
        category != "permanent" && (self.categories.is_empty() || listed)
    }

    /// The shortest and the longest pause before the retry after so many.
    fn pause_ms(&self, count: u64) -> (u64, u64) {
        let full = match self.exponential {
            true => (self.first_ms * self.multiplier.powf(count as f64)).min(self.max_ms),
            false => self.first_ms,
        };
        let least = if self.jitter { full / 2.0 } else { full };
        (least as u64, full as u64)
    }
}

pub(super) fn check(seen: &Seen<'_>) -> Checked {
    if seen.sent.name() != "ff_fail_execution" || !seen.done() {
        return Ok(());
    }
    let record = seen.sent.execution().and_then(|uuid| seen.before().record(uuid));
    let Some(record) = record else { return Err("what does not exist failed".to_owned()) };
    let at = match seen.answer.values.as_slice() {
        [Value::Bytes(result), Value::Int(at)] if result == b"retry_scheduled" => Some(*at as u64),
        _ => None,
    };
    let last = seen.sent.text("is_final") == "1";
    let span = span(record, seen.sent.text("failure_category"), seen.now).filter(|_| !last);
    match (at, span) {
        (None, None) => Ok(()),
        (Some(at), None) => Err(format!("a retry at {at} that the policy does not have")),
        (None, Some((_, latest))) => {
            let late = !before_deadline(record, latest);
            rule(late, || "no retry although the policy has one left".to_owned())
        }
        (Some(at), Some((earliest, latest))) => {
            let right = (earliest..=latest).contains(&at) && before_deadline(record, at);
            rule(right, || format!("a retry at {at}, not from {earliest} to {latest}"))
        }
    }
}

/// Whether a failure of this category can, and whether it must, be followed by a retry. Between
/// the two lies a deadline that some of the possible pauses reach.
pub(super) fn expected(record: Fields<'_>, category: &str, now: u64) -> (bool, bool) {
    let span = span(record, category, now);
    let can = span.is_some_and(|(earliest, _)| before_deadline(record, earliest));
    let must = span.is_some_and(|(_, latest)| before_deadline(record, latest));
    (can, must)
}

/// When the retry may be; nothing if there is none left for this failure.
fn span(record: Fields<'_>, category: &str, now: u64) -> Option<(u64, u64)> {
    let rule = Rule::parse(record.text(field::RETRY_RULE))?;
    let count = record.count(field::RETRY_COUNT);
    if count >= rule.max_retries || !rule.admits(category) {
        return None;
    }
    let (least, most) = rule.pause_ms(count);
    Some((now + least, now + most))
}

fn before_deadline(record: Fields<'_>, at: u64) -> bool {
    record.number(field::DEADLINE_AT).is_none_or(|deadline_at| at < deadline_at)
}
