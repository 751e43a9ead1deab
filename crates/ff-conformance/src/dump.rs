//! Copies of what some partitions hold, for comparing and for looking at keys.

use ff_backend_valkey::ValkeyHost;
use ff_core::partition::Partition;
use ff_script::dump::{Dump, Sorted, Stored, StreamEntry};
use ff_script::value::Value;

/// Reads every key of a partition but its clock, in one call.
const READ: &str = "
local out = {}
for _, key in ipairs(redis.call('KEYS', KEYS[1] .. ':*')) do
  local kind = redis.call('TYPE', key).ok
  local value
  if kind == 'string' then value = redis.call('GET', key)
  elseif kind == 'hash' then value = redis.call('HGETALL', key)
  elseif kind == 'zset' then value = redis.call('ZRANGE', key, 0, -1, 'WITHSCORES')
  elseif kind == 'list' then value = redis.call('LRANGE', key, 0, -1)
  elseif kind == 'set' then value = redis.call('SMEMBERS', key)
  elseif kind == 'stream' then value = redis.call('XRANGE', key, '-', '+')
  end
  if key ~= KEYS[1] .. ':clock' then out[#out + 1] = { key, kind, value } end
end
return out";

/// Removes every key of a partition.
const CLEAR: &str = "
for _, key in ipairs(redis.call('KEYS', KEYS[1] .. ':*')) do redis.call('DEL', key) end";

/// Everything a partition holds on a server.
pub(crate) async fn read(host: &ValkeyHost, partition: Partition) -> Dump {
    match eval(host, partition, READ).await {
        Value::Array(rows) => rows.into_iter().map(row).collect(),
        other => panic!("a dump is a list, not {other:?}"),
    }
}

/// Empties a partition on a server.
pub(crate) async fn clear(host: &ValkeyHost, partition: Partition) {
    eval(host, partition, CLEAR).await;
}

async fn eval(host: &ValkeyHost, partition: Partition, script: &str) -> Value {
    let key = partition.key();
    let words: [&[u8]; 4] = [b"EVAL", script.as_bytes(), b"1", key.as_bytes()];
    host.exec(partition, &words).await.expect("the script is right")
}

fn row(value: Value) -> (Vec<u8>, Stored) {
    let [key, kind, value] = <[Value; 3]>::try_from(list(value)).expect("a row has three parts");
    let stored = match bytes(kind).as_slice() {
        b"string" => Stored::String(bytes(value)),
        b"hash" => Stored::Hash(pairs(value).into_iter().collect()),
        b"zset" => Stored::SortedSet(scores(value)),
        b"list" => Stored::List(list(value).into_iter().map(bytes).collect()),
        b"set" => Stored::Set(list(value).into_iter().map(bytes).collect()),
        b"stream" => Stored::Stream(list(value).into_iter().map(entry).collect()),
        other => panic!("no key of ours is a {}", String::from_utf8_lossy(other)),
    };
    (bytes(key), stored)
}

fn list(value: Value) -> Vec<Value> {
    match value {
        Value::Array(values) => values,
        other => panic!("{other:?} is not a list"),
    }
}

fn bytes(value: Value) -> Vec<u8> {
    match value {
        Value::Bytes(bytes) => bytes,
        other => panic!("{other:?} is not a byte string"),
    }
}

fn text(value: Value) -> String {
    String::from_utf8(bytes(value)).expect("ids and scores are ASCII")
}

fn pairs(value: Value) -> Vec<(Vec<u8>, Vec<u8>)> {
    let flat: Vec<Vec<u8>> = list(value).into_iter().map(bytes).collect();
    flat.chunks(2).map(|pair| (pair[0].clone(), pair[1].clone())).collect()
}

fn scores(value: Value) -> Sorted<f64> {
    let score = |text: Vec<u8>| String::from_utf8(text).ok()?.parse().ok();
    let scored = |(member, text)| (member, score(text).expect("a score is a number"));
    pairs(value).into_iter().map(scored).collect()
}

fn entry(value: Value) -> StreamEntry {
    let [id, fields] = <[Value; 2]>::try_from(list(value)).expect("an entry has two parts");
    let id = text(id);
    let (ms, seq) = id.split_once('-').expect("an entry's id has two numbers");
    let number = |text: &str| text.parse().expect("an entry's id has two numbers");
    StreamEntry { ms: number(ms), seq: number(seq), fields: pairs(fields) }
}

/// Only the keys of these partitions.
pub fn of_partitions(dump: Dump, partitions: &[Partition]) -> Dump {
    let prefixes: Vec<Vec<u8>> =
        partitions.iter().map(|partition| format!("{}:", partition.key()).into_bytes()).collect();
    let ours = |key: &[u8]| prefixes.iter().any(|prefix| key.starts_with(prefix));
    dump.into_iter().filter(|(key, _)| ours(key)).collect()
}

/// The same dump with the keys of one partition under the name of another.
pub fn moved(dump: Dump, from: Partition, to: Partition) -> Dump {
    let (from, to) = (format!("{}:", from.key()), format!("{}:", to.key()));
    let renamed = |key: Vec<u8>| match key.strip_prefix(from.as_bytes()) {
        Some(rest) => [to.as_bytes(), rest].concat(),
        None => key,
    };
    dump.into_iter().map(|(key, stored)| (renamed(key), stored)).collect()
}

/// The same dump in a form that does not depend on the host: partitions by their position in
/// `partitions`, log entries by their position in the log. A server names log entries by its own
/// clock, not by the test's.
pub fn portable(dump: Dump, partitions: &[Partition]) -> Dump {
    dump.into_iter()
        .map(|(key, stored)| (portable_key(&key, partitions), numbered(stored)))
        .collect()
}

fn portable_key(key: &[u8], partitions: &[Partition]) -> Vec<u8> {
    for (position, partition) in partitions.iter().enumerate() {
        let prefix = format!("{}:", partition.key());
        if let Some(rest) = key.strip_prefix(prefix.as_bytes()) {
            return [format!("ff:{{#{position}}}:").as_bytes(), rest].concat();
        }
    }
    key.to_vec()
}

fn numbered(stored: Stored) -> Stored {
    let Stored::Stream(entries) = stored else { return stored };
    let number =
        |(seq, entry): (usize, StreamEntry)| StreamEntry { ms: 0, seq: seq as u64, ..entry };
    Stored::Stream(entries.into_iter().enumerate().map(number).collect())
}

/// The same dump with of each stream only as many of the last entries as another has, and nothing
/// about whether some are gone. A log is trimmed by whole blocks, whose size is the store's, and by
/// the age of entries, which is by the store's own clock: only the end that both have can be
/// compared.
pub fn common_end(mut dump: Dump, other: &Dump) -> Dump {
    dump.retain(|key, _| !key.ends_with(b":trimmed"));
    for (key, stored) in &mut dump {
        if let (Stored::Stream(here), Some(Stored::Stream(there))) = (&mut *stored, other.get(key))
        {
            let last = here.split_off(here.len() - here.len().min(there.len()));
            *stored = numbered(Stored::Stream(last));
        }
    }
    dump
}

/// What differs between two dumps, one line per key, for a person.
pub fn difference(before: &Dump, after: &Dump) -> String {
    let keys: std::collections::BTreeSet<&Vec<u8>> = before.keys().chain(after.keys()).collect();
    let changed = keys.into_iter().filter(|key| before.get(*key) != after.get(*key));
    let line = |key: &Vec<u8>| {
        let shown = |dump: &Dump| dump.get(key).map_or("nothing".to_owned(), show);
        format!("{}:\n  was {}\n  is  {}", key.escape_ascii(), shown(before), shown(after))
    };
    changed.map(line).collect::<Vec<_>>().join("\n")
}

/// A stored value in short, for a person.
pub fn show(stored: &Stored) -> String {
    let text = |bytes: &[u8]| {
        let shown = bytes[..bytes.len().min(200)].escape_ascii().to_string();
        if bytes.len() > 200 { format!("{shown}… ({} bytes)", bytes.len()) } else { shown }
    };
    let pair = |(name, value): (&Vec<u8>, &Vec<u8>)| format!("{}={}", text(name), text(value));
    match stored {
        Stored::String(bytes) => text(bytes),
        Stored::Hash(fields) => fields.iter().map(pair).collect::<Vec<_>>().join(" "),
        Stored::SortedSet(members) => {
            let scored = members.iter().map(|(member, score)| format!("{}@{score}", text(member)));
            scored.collect::<Vec<_>>().join(" ")
        }
        Stored::List(values) => values.iter().map(|it| text(it)).collect::<Vec<_>>().join(" | "),
        Stored::Set(members) => members.iter().map(|it| text(it)).collect::<Vec<_>>().join(" "),
        Stored::Stream(entries) => entries.iter().map(show_entry).collect::<Vec<_>>().join(" | "),
    }
}

fn show_entry(entry: &StreamEntry) -> String {
    let values: Vec<String> =
        entry.fields.iter().map(|(_, value)| value.escape_ascii().to_string()).collect();
    values.join(",")
}
