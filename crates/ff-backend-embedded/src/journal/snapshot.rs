//! Writes a keyspace as commands that build it again: the rewritten journal, and exports.

use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use super::disk::{Disk, write_all};
use super::record::{self, Word};
use crate::effects::{Effects, Transactions};
use crate::keyspace::{EntryId, Expanded, Hash, Keyspace, Object, SortedSet, Stream};
use crate::number;

/// Fields, members or values in one command, so that no command is long.
const PER_COMMAND_MAX: usize = 64;
/// Bytes after which a transaction of a rewritten journal is closed.
const TRANSACTION_BYTES: usize = 64 << 10;
/// Bytes that are collected before they are written.
const WRITE_BYTES: usize = 1 << 20;

/// Takes a command.
type Emit<'a> = dyn FnMut(&[&[u8]]) -> io::Result<()> + 'a;

/// Hands over the commands that build one key. Each touches only that key.
pub(crate) fn commands(key: &[u8], object: &Object, emit: &mut Emit<'_>) -> io::Result<()> {
    match object {
        Object::String(value) => emit(&[b"SET", key, value]),
        Object::Hash(hash) => hash_commands(key, hash, emit),
        Object::SortedSet(set) => sorted_set_commands(key, set, emit),
        Object::List(list) => in_pieces(b"RPUSH", key, 1, list.iter(), emit),
        Object::Set(set) => in_pieces(b"SADD", key, 1, set.iter().map(|member| &**member), emit),
        Object::Stream(stream) => stream_commands(key, stream, emit),
    }
}

/// Splits a long list of arguments into commands of at most as many groups.
fn in_pieces<'a>(
    name: &[u8],
    key: &[u8],
    group: usize,
    parts: impl Iterator<Item = &'a [u8]>,
    emit: &mut Emit<'_>,
) -> io::Result<()> {
    let mut command: Vec<&[u8]> = vec![name, key];
    for part in parts {
        command.push(part);
        if command.len() == 2 + group * PER_COMMAND_MAX {
            emit(&command)?;
            command.truncate(2);
        }
    }
    if command.len() > 2 { emit(&command) } else { Ok(()) }
}

fn hash_commands(key: &[u8], hash: &Hash, emit: &mut Emit<'_>) -> io::Result<()> {
    let parts = hash.iter().flat_map(|(field, value)| [field, value]);
    in_pieces(b"HSET", key, 2, parts, emit)
}

fn sorted_set_commands(key: &[u8], set: &SortedSet, emit: &mut Emit<'_>) -> io::Result<()> {
    let mut members = set.iter();
    loop {
        let piece: Vec<(f64, Expanded<'_>)> = members.by_ref().take(PER_COMMAND_MAX).collect();
        if piece.is_empty() {
            return Ok(());
        }
        let scores: Vec<Vec<u8>> = piece
            .iter()
            .map(|(score, _)| {
                let mut text = Vec::new();
                number::write_double(&mut text, *score);
                text
            })
            .collect();
        let parts = scores.iter().zip(&piece).flat_map(|(text, (_, it))| [&**text, &**it]);
        let command: Vec<&[u8]> = [&b"ZADD"[..], key].into_iter().chain(parts).collect();
        emit(&command)?;
    }
}

fn stream_commands(key: &[u8], stream: &Stream, emit: &mut Emit<'_>) -> io::Result<()> {
    let text = |id: EntryId| {
        let mut text = Vec::new();
        id.write(&mut text);
        text
    };
    for entry in stream.iter() {
        let id = text(entry.id);
        let command: Vec<&[u8]> =
            [&b"XADD"[..], key, &id].into_iter().chain(entry.parts()).collect();
        emit(&command)?;
    }
    let last = stream.last_id();
    if stream.iter().next_back().is_none_or(|entry| entry.id < last) {
        // An id stays used when its entry is gone: add an entry with it and delete that.
        let id = text(last);
        emit(&[b"XADD", key, &id, b"x", b"y"])?;
        emit(&[b"XDEL", key, &id])?;
    }
    Ok(())
}

/// Writes keyspaces as a file that stands for the whole journal up to transaction `covers`.
/// Answers its length.
pub(crate) fn write_base(
    disk: &dyn Disk,
    path: &Path,
    keyspaces: &[Keyspace],
    covers: u64,
    cancelled: &AtomicBool,
) -> io::Result<u64> {
    let mut file = disk.create(path)?;
    // Synced piece by piece: calls wait for the journal's own syncs, and those wait for the disk,
    // which a large file synced as a whole would keep busy for long.
    write_to(keyspaces, covers, cancelled, &mut |piece| {
        write_all(&mut *file, piece)?;
        file.sync()
    })
}

/// The length that such a file would have.
pub(crate) fn base_length(keyspaces: &[Keyspace], cancelled: &AtomicBool) -> io::Result<u64> {
    write_to(keyspaces, 0, cancelled, &mut |_| Ok(()))
}

/// Takes a piece of a file.
type Sink<'a> = dyn FnMut(&[u8]) -> io::Result<()> + 'a;

fn write_to(
    keyspaces: &[Keyspace],
    covers: u64,
    cancelled: &AtomicBool,
    sink: &mut Sink<'_>,
) -> io::Result<u64> {
    let mut base = BaseWriter::new(sink);
    for (key, object) in keyspaces.iter().flat_map(Keyspace::iter) {
        if cancelled.load(Ordering::Relaxed) {
            return Err(io::Error::other("the store is being closed"));
        }
        commands(&key, object, &mut |command| base.command(command))?;
    }
    base.finish(covers)
}

struct BaseWriter<'a, 'b> {
    sink: &'a mut Sink<'b>,
    salt: u64,
    effects: Effects,
    /// Bytes in the transaction that is open.
    open: usize,
    sequence: u64,
    pending: Vec<u8>,
    length: u64,
}

impl<'a, 'b> BaseWriter<'a, 'b> {
    fn new(sink: &'a mut Sink<'b>) -> Self {
        let salt = record::new_salt();
        let mut pending = Vec::with_capacity(WRITE_BYTES + 2 * TRANSACTION_BYTES);
        record::write_line(&mut pending, Word::Version, salt, salt);
        let effects = Effects::new(true);
        Self { sink, salt, effects, open: 0, sequence: 0, pending, length: 0 }
    }

    fn command(&mut self, command: &[&[u8]]) -> io::Result<()> {
        self.effects.command(command);
        self.open += command.iter().map(|argument| argument.len() + 16).sum::<usize>();
        if self.open >= TRANSACTION_BYTES { self.end_transaction() } else { Ok(()) }
    }

    fn end_transaction(&mut self) -> io::Result<()> {
        self.open = 0;
        if self.effects.finish() {
            let mut batch = self.effects.take_batch(Transactions::default());
            batch.number(&mut self.sequence, self.salt);
            self.pending.extend_from_slice(&batch.bytes);
        }
        if self.pending.len() >= WRITE_BYTES { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> io::Result<()> {
        (self.sink)(&self.pending)?;
        self.length += self.pending.len() as u64;
        self.pending.clear();
        Ok(())
    }

    fn finish(mut self, covers: u64) -> io::Result<u64> {
        self.end_transaction()?;
        record::write_line(&mut self.pending, Word::Sealed, covers, self.salt);
        self.flush()?;
        Ok(self.length)
    }
}
