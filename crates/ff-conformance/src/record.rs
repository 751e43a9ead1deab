//! Looking at single keys of a dump.

use std::collections::BTreeMap;

use ff_core::partition::Partition;
use ff_core::types::ExecutionId;
use ff_script::dump::{Dump, Stored, StreamEntry};

/// The key of an execution's record, or with a suffix, of something that belongs to it.
pub fn key_of(id: ExecutionId, suffix: &str) -> Vec<u8> {
    format!("{}:x:{}{suffix}", id.partition().key(), id.uuid()).into_bytes()
}

/// An execution's record: fields by their stored names, `lua/model/field.lua`.
pub fn record(dump: &Dump, id: ExecutionId) -> BTreeMap<String, String> {
    hash(dump, &key_of(id, ""))
}

/// A hash; empty if there is none.
pub fn hash(dump: &Dump, key: &[u8]) -> BTreeMap<String, String> {
    let text = |bytes: &Vec<u8>| String::from_utf8_lossy(bytes).into_owned();
    match dump.get(key) {
        None => BTreeMap::new(),
        Some(Stored::Hash(fields)) => {
            fields.iter().map(|(name, value)| (text(name), text(value))).collect()
        }
        Some(other) => panic!("{} is no hash but {other:?}", key.escape_ascii()),
    }
}

/// The score of an execution in an index of its partition: `due`, `all`, `q:<lane>`,
/// `ended:<outcome>`.
pub fn score(dump: &Dump, index: &str, id: ExecutionId) -> Option<u64> {
    member_score(dump, id.partition(), index, &id.uuid().to_string()).map(|score| score as u64)
}

/// The score of any member of an index.
pub fn member_score(dump: &Dump, partition: Partition, index: &str, member: &str) -> Option<f64> {
    let key = format!("{}:{index}", partition.key());
    match dump.get(key.as_bytes()) {
        None => None,
        Some(Stored::SortedSet(members)) => members.get(member.as_bytes()).copied(),
        Some(other) => panic!("{key} is no index but {other:?}"),
    }
}

/// The indexes that list an execution, sorted, besides `all`.
pub fn listed_in(dump: &Dump, id: ExecutionId) -> Vec<String> {
    let prefix = format!("{}:", id.partition().key()).into_bytes();
    let member = id.uuid().to_string();
    let lists = |stored: &Stored| match stored {
        Stored::SortedSet(members) => members.contains_key(member.as_bytes()),
        _ => false,
    };
    let keys = dump.iter().filter(|(_, stored)| lists(stored)).map(|(key, _)| key);
    let names = keys.filter_map(|key| key.strip_prefix(prefix.as_slice()));
    let names = names.map(|name| String::from_utf8_lossy(name).into_owned());
    names.filter(|name| name != "all").collect()
}

/// One entry of a partition's log: what, to whom, to which attempt, why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogEntry {
    /// What happened.
    pub event: String,
    /// The uuid of the execution.
    pub uuid: String,
    /// The number of the attempt, or nothing.
    pub attempt: String,
    /// The epoch of its lease, or nothing.
    pub epoch: String,
    /// The process that held that lease, or nothing.
    pub worker: String,
    /// Why, or nothing.
    pub why: String,
}

/// The log of a partition, oldest first.
pub fn log(dump: &Dump, partition: Partition) -> Vec<LogEntry> {
    match dump.get(format!("{}:log", partition.key()).as_bytes()) {
        None => Vec::new(),
        Some(Stored::Stream(entries)) => entries.iter().map(log_entry).collect(),
        Some(other) => panic!("the log is no stream but {other:?}"),
    }
}

/// Takes one entry apart.
pub fn log_entry(entry: &StreamEntry) -> LogEntry {
    let [(_, text)] = entry.fields.as_slice() else { panic!("{entry:?} is not one text") };
    let text = String::from_utf8_lossy(text);
    let parts: Vec<&str> = text.splitn(6, ':').collect();
    let [event, uuid, attempts, epoch, worker, why] = parts[..] else {
        panic!("{entry:?} lacks a part")
    };
    // The log counts attempts; they are numbered from zero.
    let attempt = attempts.parse::<u32>().map(|count| (count - 1).to_string());
    LogEntry {
        event: event.into(),
        uuid: uuid.into(),
        attempt: attempt.unwrap_or_default(),
        epoch: epoch.into(),
        worker: worker.into(),
        why: why.into(),
    }
}

/// What happened to one execution, as `event attempt why`.
pub fn events_of(dump: &Dump, id: ExecutionId) -> Vec<String> {
    let uuid = id.uuid().to_string();
    let mine = log(dump, id.partition()).into_iter().filter(|entry| entry.uuid == uuid);
    let line = |entry: LogEntry| format!("{} {} {}", entry.event, entry.attempt, entry.why);
    mine.map(|entry| line(entry).split_whitespace().collect::<Vec<_>>().join(" ")).collect()
}
