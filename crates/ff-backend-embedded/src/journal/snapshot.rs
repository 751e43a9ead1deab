//! Writes a keyspace as commands that build it again: the rewritten journal, and exports.

use std::io;
use std::path::Path;

use ff_script::dump::Stored;

use super::disk::{Disk, JournalFile, write_all};
use super::pace::Pace;
use super::record::{self, Word};
use super::slice;
use crate::clock::monotonic;
use crate::effects::{Effects, Transactions};
use crate::keyspace::{EntryId, Expanded, Hash, Keyspace, Object, SortedSet, Stream};
use crate::number;

/// Fields, members or values in one command, so that no command is long.
const PER_COMMAND_MAX: usize = 64;
/// Bytes after which a transaction of a rewritten journal is closed.
const TRANSACTION_BYTES: usize = 64 << 10;

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

/// The same for a value of another store.
pub(crate) fn stored_commands(key: &[u8], value: &Stored, emit: &mut Emit<'_>) -> io::Result<()> {
    match value {
        Stored::String(value) => emit(&[b"SET", key, value]),
        Stored::Hash(hash) => {
            let parts = hash.iter().flat_map(|(field, value)| [&**field, &**value]);
            in_pieces(b"HSET", key, 2, parts, emit)
        }
        Stored::SortedSet(scores) => scores
            .iter()
            .try_for_each(|(member, score)| emit(&[b"ZADD", key, &double(*score), member])),
        Stored::List(list) => in_pieces(b"RPUSH", key, 1, list.iter().map(Vec::as_slice), emit),
        Stored::Set(set) => in_pieces(b"SADD", key, 1, set.iter().map(Vec::as_slice), emit),
        Stored::Stream(entries) => entries.iter().try_for_each(|entry| {
            let id = format!("{}-{}", entry.ms, entry.seq);
            let parts = entry.fields.iter().flat_map(|(name, value)| [&**name, &**value]);
            let command: Vec<&[u8]> =
                [&b"XADD"[..], key, id.as_bytes()].into_iter().chain(parts).collect();
            emit(&command)
        }),
    }
}

fn double(number: f64) -> Vec<u8> {
    let mut text = Vec::new();
    number::write_double(&mut text, number);
    text
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
        let scores: Vec<Vec<u8>> = piece.iter().map(|(score, _)| double(*score)).collect();
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

/// Asked before as many bytes are written; an error ends the writing.
type Permission<'a> = Box<dyn Fn(u64) -> io::Result<()> + 'a>;

/// Writes a file that stands for the whole journal up to a transaction, slice by slice.
pub(crate) struct BaseWriter<'a> {
    file: Box<dyn JournalFile>,
    permission: Permission<'a>,
    pace: Pace,
    /// As much is written and synced at once: calls wait for the journal's own syncs, and those
    /// wait for the disk, which a large file synced as a whole would keep busy for long.
    piece_bytes: usize,
    salt: u64,
    effects: Effects,
    /// Bytes in the transaction that is open.
    open: usize,
    sequence: u64,
    pending: Vec<u8>,
    /// Bytes that were written.
    written: u64,
    /// Where each slice begins.
    starts: Vec<(u16, u64)>,
}

impl<'a> BaseWriter<'a> {
    pub(crate) fn create(
        disk: &dyn Disk,
        path: &Path,
        piece_bytes: usize,
        permission: Permission<'a>,
        pace: Pace,
    ) -> io::Result<Self> {
        let salt = record::new_salt();
        let mut pending = Vec::new();
        record::write_line(&mut pending, Word::Version, salt, salt);
        Ok(Self {
            file: disk.create(path)?,
            permission,
            pace,
            piece_bytes,
            salt,
            effects: Effects::new(true),
            open: 0,
            sequence: 0,
            pending,
            written: 0,
            starts: Vec::new(),
        })
    }

    /// Writes one slice. They come in the order of their indexes.
    pub(crate) fn slice(&mut self, index: u16, keyspace: &Keyspace) -> io::Result<()> {
        self.starts.push((index, self.length()));
        for (key, object) in keyspace.iter() {
            commands(&key, object, &mut |command| self.command(command))?;
        }
        self.end_transaction()
    }

    /// Writes the table of the slices and the seal. Answers the length of the file.
    pub(crate) fn finish(mut self, covers: u64) -> io::Result<u64> {
        let table = self.length();
        slice::write_table(&mut self.pending, &self.starts, table, self.salt);
        let length = self.length();
        record::write_line(&mut self.pending, Word::Sealed, covers, self.salt);
        self.flush()?;
        Ok(length)
    }

    fn length(&self) -> u64 {
        self.written + self.pending.len() as u64
    }

    fn command(&mut self, command: &[&[u8]]) -> io::Result<()> {
        self.effects.command(command);
        let bytes = command.iter().map(|argument| argument.len() + 16).sum::<usize>();
        self.pace.worked(bytes);
        self.open += bytes;
        if self.open >= TRANSACTION_BYTES { self.end_transaction() } else { Ok(()) }
    }

    fn end_transaction(&mut self) -> io::Result<()> {
        self.open = 0;
        if self.effects.finish() {
            let mut batch = self.effects.take_batch(Transactions::default());
            batch.number(&mut self.sequence, self.salt);
            self.pending.extend_from_slice(&batch.bytes);
        }
        if self.pending.len() >= self.piece_bytes { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> io::Result<()> {
        (self.permission)(self.pending.len() as u64)?;
        let before = monotonic();
        write_all(&mut *self.file, &self.pending)?;
        self.file.sync()?;
        self.pace.synced(before.elapsed());
        self.written += self.pending.len() as u64;
        self.pending.clear();
        Ok(())
    }
}
