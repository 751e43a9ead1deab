//! Reads everything a server holds under our keys.

use ff_core::backend_error::{BackendError, BackendErrorKind, Retry};
use ff_script::dump::{Dump, Sorted, Stored, StreamEntry};
use ff_script::value::Value;

use crate::connection::Connection;
use crate::errors::{Failure, Remedy};

const OUR_KEYS: &str = "ff:*";
const BATCH: usize = 1000;

/// Takes some of the keys of a server.
pub(crate) type Take<'a> = dyn FnMut(Dump) -> Result<(), BackendError> + Send + 'a;

/// Hands over every key of ours on this server, some at a time; one may come twice. Keys that
/// vanish meanwhile are left out.
pub(crate) async fn read_all(
    connection: &Connection,
    take: &mut Take<'_>,
) -> Result<(), BackendError> {
    let mut cursor = b"0".to_vec();
    loop {
        let mut scan = redis::cmd("SCAN");
        scan.arg(&cursor).arg("MATCH").arg(OUR_KEYS).arg("COUNT").arg(BATCH);
        let mut dump = Dump::new();
        let next = read_some(connection, &scan, &mut dump).await.map_err(|it| it.error)?;
        take(dump)?;
        if next == b"0" {
            return Ok(());
        }
        cursor = next;
    }
}

/// Reads what a scan finds; answers where to go on.
async fn read_some(
    connection: &Connection,
    scan: &redis::Cmd,
    dump: &mut Dump,
) -> Result<Vec<u8>, Failure> {
    let (next, keys) = parse_scan(connection.run(scan).await?).ok_or_else(strange)?;
    read_keys(connection, keys, dump).await?;
    Ok(next)
}

async fn read_keys(
    connection: &Connection,
    keys: Vec<Vec<u8>>,
    dump: &mut Dump,
) -> Result<(), Failure> {
    let mut types = redis::pipe();
    for key in &keys {
        types.cmd("TYPE").arg(key);
    }
    if keys.is_empty() {
        return Ok(());
    }
    let types = connection.run_all(&types).await?;
    let mut reads = redis::pipe();
    let mut read = Vec::new();
    for (key, kind) in keys.into_iter().zip(types) {
        if let Some(kind) = Kind::of(kind.as_bytes().unwrap_or_default()) {
            kind.add_read(&key, &mut reads);
            read.push((key, kind));
        }
    }
    if read.is_empty() {
        return Ok(());
    }
    for ((key, kind), value) in read.into_iter().zip(connection.run_all(&reads).await?) {
        if let Some(stored) = kind.parse(value).ok_or_else(strange)? {
            dump.insert(key, stored);
        }
    }
    Ok(())
}

#[derive(Clone, Copy)]
enum Kind {
    String,
    Hash,
    SortedSet,
    List,
    Set,
    Stream,
}

impl Kind {
    /// The kind by its name; `None` for a key that is gone.
    fn of(name: &[u8]) -> Option<Self> {
        match name {
            b"string" => Some(Self::String),
            b"hash" => Some(Self::Hash),
            b"zset" => Some(Self::SortedSet),
            b"list" => Some(Self::List),
            b"set" => Some(Self::Set),
            b"stream" => Some(Self::Stream),
            _ => None,
        }
    }

    fn add_read(self, key: &[u8], reads: &mut redis::Pipeline) {
        match self {
            Self::String => reads.cmd("GET").arg(key),
            Self::Hash => reads.cmd("HGETALL").arg(key),
            Self::SortedSet => reads.cmd("ZRANGE").arg(key).arg(0).arg(-1).arg("WITHSCORES"),
            Self::List => reads.cmd("LRANGE").arg(key).arg(0).arg(-1),
            Self::Set => reads.cmd("SMEMBERS").arg(key),
            Self::Stream => reads.cmd("XRANGE").arg(key).arg("-").arg("+"),
        };
    }

    /// What was read; `Some(None)` if the key was gone by then, `None` if it makes no sense.
    fn parse(self, value: Value) -> Option<Option<Stored>> {
        if let (Self::String, Value::Nil) = (self, &value) {
            return Some(None);
        }
        if let Self::String = self {
            return Some(Some(Stored::String(bytes(value)?)));
        }
        let Value::Array(items) = value else { return None };
        if items.is_empty() && !matches!(self, Self::Stream) {
            return Some(None);
        }
        Some(Some(match self {
            Self::Hash => Stored::Hash(pairs(items)?.into_iter().collect()),
            Self::SortedSet => Stored::SortedSet(scores(items)?),
            Self::Set => Stored::Set(items.into_iter().map(bytes).collect::<Option<_>>()?),
            Self::Stream => Stored::Stream(items.into_iter().map(entry).collect::<Option<_>>()?),
            _ => Stored::List(items.into_iter().map(bytes).collect::<Option<_>>()?),
        }))
    }
}

fn parse_scan(reply: Value) -> Option<(Vec<u8>, Vec<Vec<u8>>)> {
    let Value::Array(parts) = reply else { return None };
    let [cursor, Value::Array(keys)] = <[Value; 2]>::try_from(parts).ok()? else { return None };
    Some((bytes(cursor)?, keys.into_iter().map(bytes).collect::<Option<_>>()?))
}

fn bytes(value: Value) -> Option<Vec<u8>> {
    match value {
        Value::Bytes(bytes) => Some(bytes),
        _ => None,
    }
}

fn pairs(items: Vec<Value>) -> Option<Vec<(Vec<u8>, Vec<u8>)>> {
    let mut items = items.into_iter();
    let mut pairs = Vec::new();
    while let Some(first) = items.next() {
        pairs.push((bytes(first)?, bytes(items.next()?)?));
    }
    Some(pairs)
}

fn scores(items: Vec<Value>) -> Option<Sorted<f64>> {
    let number = |text: Vec<u8>| std::str::from_utf8(&text).ok()?.parse().ok();
    pairs(items)?.into_iter().map(|(member, score)| Some((member, number(score)?))).collect()
}

fn entry(item: Value) -> Option<StreamEntry> {
    let Value::Array(parts) = item else { return None };
    let [id, Value::Array(fields)] = <[Value; 2]>::try_from(parts).ok()? else { return None };
    let id = String::from_utf8(bytes(id)?).ok()?;
    let (ms, seq) = id.split_once('-')?;
    Some(StreamEntry { ms: ms.parse().ok()?, seq: seq.parse().ok()?, fields: pairs(fields)? })
}

fn strange() -> Failure {
    let message = "a read command was answered with something else".to_owned();
    Failure::new(BackendErrorKind::Protocol, Retry::Never, Remedy::GiveUp, message)
}
