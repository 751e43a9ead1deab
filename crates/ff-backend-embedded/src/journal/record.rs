//! What the journal's files are made of: commands in the protocol's own form, and lines that start
//! with `#`, which Valkey skips when it loads the file.
//!
//! A line is `#ff <word>=<16 hex digits> crc=<8 hex digits>`. The words are:
//!
//! * `v1`: the first line of a file. The number is the file's salt, which is part of every other
//!   checksum in it, so that bytes inside a payload can never pass for a line.
//! * `tx`: ends a transaction, which is everything since the last line. The number is its place in
//!   the journal; the checksum covers the transaction.
//! * `synced`: every transaction up to this one was on the disk when the line was written. Damage
//!   before such a place is never a torn write.
//! * `slice`: in the table at the end of a rewritten file: where the slice of one index begins. The
//!   number is the index in its first 16 bits, and the offset in the others.
//! * `slices`: ends that table. The number is the offset at which the table begins.
//! * `sealed`: the file is complete. The number is the last transaction that it accounts for.

use std::hash::{BuildHasher, RandomState};

use crate::number;

/// Starts every transaction.
pub(crate) const MULTI: &[u8] = b"*1\r\n$5\r\nMULTI\r\n";
/// Ends the commands of a transaction.
pub(crate) const EXEC: &[u8] = b"*1\r\n$4\r\nEXEC\r\n";
/// What Valkey writes first when it continues a file.
pub(crate) const SELECT: &[u8] = b"*2\r\n$6\r\nSELECT\r\n$1\r\n0\r\n";

/// Starts a command with as many arguments.
pub(crate) fn write_array(out: &mut Vec<u8>, arguments: usize) {
    out.push(b'*');
    number::write_uint(out, arguments as u64);
    out.extend_from_slice(b"\r\n");
}

/// One argument.
pub(crate) fn write_bulk(out: &mut Vec<u8>, argument: &[u8]) {
    out.push(b'$');
    number::write_uint(out, argument.len() as u64);
    out.extend_from_slice(b"\r\n");
    out.extend_from_slice(argument);
    out.extend_from_slice(b"\r\n");
}

/// A transaction that still lacks its number: where its line goes, and the checksum of its bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mark {
    pub(crate) line: usize,
    crc: u32,
}

/// What a line says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Word {
    Version,
    Transaction,
    Synced,
    Slice,
    Slices,
    Sealed,
}

impl Word {
    const ALL: [Self; 6] =
        [Self::Version, Self::Transaction, Self::Synced, Self::Slice, Self::Slices, Self::Sealed];

    const fn as_str(self) -> &'static str {
        match self {
            Self::Version => "v1",
            Self::Transaction => "tx",
            Self::Synced => "synced",
            Self::Slice => "slice",
            Self::Slices => "slices",
            Self::Sealed => "sealed",
        }
    }
}

/// A salt for a new file: any number that a payload cannot know.
pub(crate) fn new_salt() -> u64 {
    RandomState::new().hash_one(0u8)
}

/// Length of the longest line.
pub(crate) const LINE_MAX: usize = "#ff synced=0123456789abcdef crc=01234567\r\n".len();
const TRANSACTION_LINE: usize = "#ff tx=0123456789abcdef crc=01234567\r\n".len();

/// Leaves room for the line of the transaction that starts at `start` and ends here.
pub(crate) fn reserve_mark(bytes: &mut Vec<u8>, start: usize) -> Mark {
    let line = bytes.len();
    let crc = crc32fast::hash(&bytes[start..]);
    bytes.resize(line + TRANSACTION_LINE, b' ');
    Mark { line, crc }
}

/// Numbers a transaction, in the room that was left for it.
pub(crate) fn fill_mark(bytes: &mut [u8], mark: Mark, sequence: u64, salt: u64) {
    let room = &mut bytes[mark.line..mark.line + TRANSACTION_LINE];
    line(Word::Transaction, sequence, mark.crc, salt, |at, part| {
        room[at..at + part.len()].copy_from_slice(part);
    });
}

/// Appends a line that covers no commands.
pub(crate) fn write_line(out: &mut Vec<u8>, word: Word, value: u64, salt: u64) {
    let salt = if word == Word::Version { 0 } else { salt };
    line(word, value, 0, salt, |_, part| out.extend_from_slice(part));
}

/// The line that ends a transaction with these bytes, as it must read.
pub(crate) fn transaction_line(transaction: &[u8], sequence: u64, salt: u64) -> Vec<u8> {
    let mut out = Vec::with_capacity(TRANSACTION_LINE);
    let crc = crc32fast::hash(transaction);
    line(Word::Transaction, sequence, crc, salt, |_, part| out.extend_from_slice(part));
    out
}

/// Hands the parts of a line to `put`, with their positions. The checksum continues that of the
/// covered bytes over the line itself and the salt.
fn line(word: Word, value: u64, covered: u32, salt: u64, mut put: impl FnMut(usize, &[u8])) {
    let mut crc = crc32fast::Hasher::new_with_initial(covered);
    let mut at = 0;
    for part in [b"#ff ", word.as_str().as_bytes(), b"=", &hex::<16>(value)] {
        crc.update(part);
        put(at, part);
        at += part.len();
    }
    crc.update(&salt.to_le_bytes());
    for part in [&b" crc="[..], &hex::<8>(crc.finalize().into()), b"\r\n"] {
        put(at, part);
        at += part.len();
    }
}

fn hex<const N: usize>(value: u64) -> [u8; N] {
    std::array::from_fn(|at| {
        let digit = (value >> (4 * (N - 1 - at))) & 0xf;
        b"0123456789abcdef"[digit as usize]
    })
}

/// Reads the word and number of a line, without checking it. `None` if it has not the form of one.
pub(crate) fn read_line(text: &[u8]) -> Option<(Word, u64)> {
    let rest = text.strip_prefix(b"#ff ")?;
    let word = Word::ALL.into_iter().find(|word| {
        let after = rest.strip_prefix(word.as_str().as_bytes());
        after.is_some_and(|after| after.starts_with(b"="))
    })?;
    let value = rest.get(word.as_str().len() + 1..)?.get(..16)?;
    let value = value.iter().try_fold(0u64, |value, byte| {
        let digit = b"0123456789abcdef".iter().position(|digit| digit == byte)?;
        Some(value << 4 | digit as u64)
    })?;
    Some((word, value))
}
