//! I9: nothing belongs to an execution that does not exist, and every collection is within its
//! bound.

use ff_core::limits;
use ff_core::partition::PartitionConfig;

use super::contents::{Contents, Hash, Scores};
use super::keys::{Place, is_uuid};
use super::record::{field, number};
use super::{Findings, streams};
use crate::dump::{Stored, StreamEntry};

/// The log is trimmed by whole blocks, so that it may exceed its length a little.
const LOG_LENGTH_MAX: u64 = limits::EVENT_LOG_LENGTH + limits::EVENT_LOG_LENGTH / 5;

pub(super) fn check(contents: &Contents<'_>, config: &PartitionConfig, found: &mut Findings) {
    for (place, stored) in &contents.places {
        let wrong = match (place, stored) {
            (Place::Blob(uuid, _), _) => orphan(contents, uuid),
            (Place::Tags(uuid), Stored::Hash(tags)) => {
                orphan(contents, uuid).or_else(|| unannounced(contents, uuid)).or(wrong_tags(tags))
            }
            (Place::Attempts(uuid), Stored::List(lines)) => {
                orphan(contents, uuid).or_else(|| too_many_attempts(lines))
            }
            (Place::Frames(..) | Place::Document(..), stored) => {
                streams::wrong(contents, place, stored)
            }
            (Place::Waitpoints(uuid), _) => orphan(contents, uuid),
            (
                Place::Outgoing(uuid)
                | Place::Incoming(uuid)
                | Place::Inputs(uuid)
                | Place::Children(uuid),
                _,
            ) => orphan(contents, uuid),
            (Place::FlowTags(_), Stored::Hash(tags)) => wrong_tags(tags),
            (Place::Secrets, Stored::Hash(secrets)) => wrong_secrets(secrets),
            (Place::Facts, Stored::Hash(facts)) => wrong_facts(facts),
            (Place::Shares(_), Stored::SortedSet(shares)) => wrong_shares(shares),
            (Place::Log, Stored::Stream(entries)) => wrong_log(entries),
            (Place::Deployment, Stored::Hash(counts)) => wrong_counts(counts, config),
            (Place::Marks, Stored::Hash(marks)) => wrong_marks(marks),
            _ => None,
        };
        if let Some(what) = wrong {
            found.add("I9", contents.key(place), what);
        }
    }
    missing_tags(contents, found);
}

fn orphan(contents: &Contents<'_>, uuid: &str) -> Option<&'static str> {
    (!contents.records.contains_key(uuid)).then_some("belongs to no execution")
}

fn unannounced(contents: &Contents<'_>, uuid: &str) -> Option<&'static str> {
    let record = contents.records.get(uuid)?;
    (!record.has(field::TAGGED)).then_some("the record does not say that there are tags")
}

fn missing_tags(contents: &Contents<'_>, found: &mut Findings) {
    for (uuid, record) in &contents.records {
        if record.has(field::TAGGED) && contents.hash(&Place::Tags(uuid)).is_none() {
            found.add("I9", record.name(), "says that there are tags, but there are none");
        }
    }
}

fn wrong_tags(tags: &Hash) -> Option<&'static str> {
    if tags.len() as u64 > limits::TAGS_MAX {
        return Some("more tags than allowed");
    }
    let fits = |(name, value): (&Vec<u8>, &Vec<u8>)| {
        name.len() as u64 <= limits::TAG_KEY_BYTES_MAX
            && value.len() as u64 <= limits::TAG_VALUE_BYTES_MAX
            && name.contains(&b'.')
    };
    (!tags.iter().all(fits)).then_some("a tag that could not have been set")
}

fn too_many_attempts(lines: &[Vec<u8>]) -> Option<&'static str> {
    (lines.len() as u64 > limits::ATTEMPT_HISTORY_MAX).then_some("more attempts than are kept")
}

/// Event, execution, attempt, epoch, worker and why, in one text.
const EVENT_PARTS: usize = 6;

fn wrong_log(entries: &[StreamEntry]) -> Option<&'static str> {
    if entries.len() as u64 > LOG_LENGTH_MAX {
        return Some("longer than the log may grow");
    }
    let known = |entry: &StreamEntry| match entry.fields.as_slice() {
        [(name, text)] => {
            name == b"e" && text.splitn(EVENT_PARTS, |byte| *byte == b':').count() == EVENT_PARTS
        }
        _ => false,
    };
    (!entries.iter().all(known)).then_some("an entry that is no event")
}

/// The current kid, the revision, and each key as `algorithm:accepted until:hex digits`.
fn wrong_secrets(secrets: &Hash) -> Option<&'static str> {
    let known = |kid: &[u8]| secrets.contains_key(&[b"kid:", kid].concat());
    if !secrets.get(&b"current"[..]).is_some_and(|kid| known(kid)) {
        return Some("no key that signs");
    }
    let readable = |(name, value): (&Vec<u8>, &Vec<u8>)| match name.as_slice() {
        b"current" => true,
        b"revision" => number(value).is_some(),
        name => name.starts_with(b"kid:") && is_secret(value),
    };
    let within = secrets.len() as u64 <= limits::KIDS_MAX + 2;
    (!within || !secrets.iter().all(readable)).then_some("a key that cannot be read")
}

/// The revision of the whole, and facts, whose names have a colon. The first partition also has the
/// revision that all were seen at.
fn wrong_facts(facts: &Hash) -> Option<&'static str> {
    let readable = |(name, value): (&Vec<u8>, &Vec<u8>)| match name.as_slice() {
        b"revision" | b"installed" => number(value).is_some(),
        name => name.contains(&b':') && value.len() as u64 <= limits::FACT_BYTES_MAX,
    };
    let within = facts.len() as u64 <= limits::FACTS_MAX + 2;
    (!within || !facts.iter().all(readable)).then_some("a fact that cannot be read")
}

/// What was served last, and the latest rank of each key.
fn wrong_shares(shares: &Scores) -> Option<&'static str> {
    let known = |member: &Vec<u8>| member == b"served" || member.starts_with(b"key:");
    (!shares.keys().all(known)).then_some("a share of nobody")
}

fn is_secret(value: &[u8]) -> bool {
    let parts: Vec<&[u8]> = value.splitn(3, |byte| *byte == b':').collect();
    let [algorithm, until, digits] = parts[..] else { return false };
    let bytes = (limits::SECRET_BYTES_MIN * 2..=limits::SECRET_BYTES_MAX * 2).step_by(2);
    algorithm == b"sha1"
        && (until.is_empty() || number(until).is_some())
        && bytes.into_iter().any(|length| length == digits.len() as u64)
        && digits.iter().all(u8::is_ascii_hexdigit)
}

/// Each server's `mark:marked_at`.
fn wrong_marks(marks: &Hash) -> Option<&'static str> {
    let readable = |(server, text): (&Vec<u8>, &Vec<u8>)| {
        let mut parts = text.splitn(2, |byte| *byte == b':').map(number);
        is_uuid(server) && matches!((parts.next(), parts.next()), (Some(Some(_)), Some(Some(_))))
    };
    (!marks.iter().all(readable)).then_some("a mark that cannot be read")
}

fn wrong_counts(counts: &Hash, config: &PartitionConfig) -> Option<&'static str> {
    let expected: [(&[u8], u64); 4] = [
        (b"flow", config.num_flow_partitions.into()),
        (b"budget", config.num_budget_partitions.into()),
        (b"quota", config.num_quota_partitions.into()),
        (b"format", limits::STORE_FORMAT),
    ];
    let same = |(name, count): &(&[u8], u64)| {
        let stored = counts.get(name).and_then(|value| number(value));
        stored.and_then(|stored| u64::try_from(stored).ok()) == Some(*count)
    };
    let right = counts.len() == expected.len() && expected.iter().all(same);
    (!right).then_some("other partition counts than the configured ones, or another format")
}
