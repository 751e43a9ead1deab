//! Reads a file of the journal, one unit at a time: a transaction with its line, or a line.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::ops::Range;
use std::path::Path;

use super::record::{self, EXEC, LINE_MAX, MULTI, SELECT, Word};

/// How much is read at once, at first; more when a unit is larger.
const READ_BYTES: usize = 256 << 10;

/// One unit of a file, checked.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Unit {
    /// A transaction with this number; its commands are in the scanner.
    Transaction(u64),
    /// Everything up to this transaction was synced.
    Synced(u64),
    /// A line of the table of slices, which this way of reading does not need.
    Table,
    /// The file is complete up to this transaction.
    Sealed(u64),
    /// The file ends here, between units, or goes on with nothing but zeros: room that was reserved
    /// and never used.
    End,
    /// Not what we wrote.
    Damage(&'static str),
    /// Commands that Valkey appended.
    Foreign,
}

/// What the start of a file looks like.
pub(crate) enum Opening {
    /// As it must; units follow.
    Good(Scanner),
    /// The file ends within its first line: it was being made.
    Unfinished,
    /// Anything else.
    Damaged,
}

/// Reads units, and remembers where it is.
pub(crate) struct Scanner {
    file: File,
    buffer: Vec<u8>,
    start: usize,
    at_end: bool,
    /// How much of the file may still be read.
    left: u64,
    /// Where the next unit starts in the file.
    pub(crate) offset: u64,
    /// Part of every checksum in the file.
    pub(crate) salt: u64,
    transaction: Transaction,
}

/// The commands of a transaction, as places in the buffer.
#[derive(Default)]
struct Transaction {
    start: usize,
    arguments: Vec<Range<usize>>,
    /// For each command, where its arguments end in the list above.
    ends: Vec<usize>,
}

/// How far reading a transaction got.
enum Parsed {
    /// Ends after as many bytes.
    Whole(usize),
    Cut,
    Wrong,
}

impl Scanner {
    /// Opens a file and reads its first line.
    pub(crate) fn open(path: &Path) -> io::Result<Opening> {
        let mut scanner = Self {
            file: File::open(path)?,
            buffer: Vec::new(),
            start: 0,
            at_end: false,
            left: u64::MAX,
            offset: 0,
            salt: 0,
            transaction: Transaction::default(),
        };
        scanner.fill(LINE_MAX)?;
        if scanner.ends_within_first_line() {
            return Ok(Opening::Unfinished);
        }
        match record::read_line(&scanner.buffer) {
            Some((Word::Version, salt)) if scanner.take_line(Word::Version, salt) => {
                scanner.salt = salt;
                Ok(Opening::Good(scanner))
            }
            _ => Ok(Opening::Damaged),
        }
    }

    fn ends_within_first_line(&self) -> bool {
        const START: &[u8] = b"#ff v1=";
        let mut line = Vec::with_capacity(LINE_MAX);
        record::write_line(&mut line, Word::Version, 0, 0);
        let start = &self.buffer[..self.buffer.len().min(START.len())];
        self.buffer.len() < line.len() && START.starts_with(start)
    }

    /// Goes on with this part of the file, as if that ended behind it.
    pub(crate) fn go_to(&mut self, part: Range<u64>) -> io::Result<()> {
        self.file.seek(SeekFrom::Start(part.start))?;
        self.buffer.clear();
        self.start = 0;
        self.at_end = false;
        self.left = part.end - part.start;
        self.offset = part.start;
        Ok(())
    }

    /// The next unit. After `End`, `Damage` or `Foreign` there is no other.
    pub(crate) fn next(&mut self) -> io::Result<Unit> {
        loop {
            let parsed = match &self.buffer[self.start..] {
                [] => Parsed::Cut,
                [0, ..] => return self.zeros(),
                [b'#', ..] => Parsed::Whole(0),
                bytes => self.transaction.parse(bytes),
            };
            let left = self.buffer.len() - self.start;
            match parsed {
                Parsed::Cut if !self.at_end => self.fill(READ_BYTES)?,
                Parsed::Cut if left == 0 => return Ok(Unit::End),
                Parsed::Cut => return Ok(Unit::Damage("the file ends within a transaction")),
                Parsed::Wrong => return Ok(self.wrong()),
                // The line that follows may not have been read yet.
                Parsed::Whole(end) if left < end + LINE_MAX && !self.at_end => {
                    self.fill(READ_BYTES)?
                }
                Parsed::Whole(end) => return Ok(self.finish(end)),
            }
        }
    }

    /// Hands each command of the transaction that was read last to `apply`.
    pub(crate) fn commands<E>(
        &self,
        mut apply: impl FnMut(&[&[u8]]) -> Result<(), E>,
    ) -> Result<(), E> {
        let bytes = &self.buffer[self.transaction.start..];
        let mut from = 0;
        let mut arguments = Vec::new();
        for end in &self.transaction.ends {
            let places = &self.transaction.arguments[from..*end];
            arguments.extend(places.iter().map(|place| &bytes[place.clone()]));
            apply(&arguments)?;
            arguments.clear();
            from = *end;
        }
        Ok(())
    }

    /// True if a line further on says that this transaction was synced. Reads the rest of the file.
    pub(crate) fn was_synced(&mut self, sequence: u64) -> io::Result<bool> {
        self.file.read_to_end(&mut self.buffer)?;
        let rest = &self.buffer[self.start..];
        let places = rest.iter().enumerate().filter(|(_, byte)| **byte == b'#');
        Ok(places.into_iter().any(|(place, _)| {
            let line = &rest[place..];
            match record::read_line(line) {
                Some((word @ (Word::Synced | Word::Sealed), value)) if value >= sequence => {
                    let mut expected = Vec::with_capacity(LINE_MAX);
                    record::write_line(&mut expected, word, value, self.salt);
                    line.starts_with(&expected)
                }
                _ => false,
            }
        }))
    }

    fn fill(&mut self, bytes: usize) -> io::Result<()> {
        self.buffer.drain(..self.start);
        self.start = 0;
        let wanted = (bytes.max(self.buffer.len()) as u64).min(self.left);
        let read = (&mut self.file).take(wanted).read_to_end(&mut self.buffer)? as u64;
        self.left -= read;
        self.at_end = read < wanted || self.left == 0;
        Ok(())
    }

    /// Tells reserved room from damage. Reads the rest of the file.
    fn zeros(&mut self) -> io::Result<Unit> {
        self.file.read_to_end(&mut self.buffer)?;
        let zeros = self.buffer[self.start..].iter().all(|byte| *byte == 0);
        Ok(if zeros { Unit::End } else { self.wrong() })
    }

    fn wrong(&self) -> Unit {
        if self.buffer[self.start..].starts_with(SELECT) {
            Unit::Foreign
        } else {
            Unit::Damage("this is no transaction")
        }
    }

    /// Checks the line that follows as many bytes of commands, and steps over both.
    fn finish(&mut self, end: usize) -> Unit {
        let line = &self.buffer[self.start + end..];
        let Some((word, value)) = record::read_line(line) else {
            return Unit::Damage("a transaction or line has no checksum");
        };
        match word {
            Word::Transaction if end > 0 => {
                let bytes = &self.buffer[self.start..self.start + end];
                let expected = record::transaction_line(bytes, value, self.salt);
                if !line.starts_with(&expected) {
                    return Unit::Damage("a transaction does not match its checksum");
                }
                self.transaction.start = self.start;
                self.step(end + expected.len());
                Unit::Transaction(value)
            }
            Word::Synced if end == 0 && self.take_line(word, value) => Unit::Synced(value),
            Word::Slice | Word::Slices if end == 0 && self.take_line(word, value) => Unit::Table,
            Word::Sealed if end == 0 && self.take_line(word, value) => Unit::Sealed(value),
            _ => Unit::Damage("a line does not match its checksum"),
        }
    }

    /// Steps over a line if it reads as it must.
    fn take_line(&mut self, word: Word, value: u64) -> bool {
        let mut expected = Vec::with_capacity(LINE_MAX);
        record::write_line(&mut expected, word, value, self.salt);
        let good = self.buffer[self.start..].starts_with(&expected);
        if good {
            self.step(expected.len());
        }
        good
    }

    fn step(&mut self, bytes: usize) {
        self.start += bytes;
        self.offset += bytes as u64;
    }
}

impl Transaction {
    /// Reads from `MULTI` to `EXEC`.
    fn parse(&mut self, bytes: &[u8]) -> Parsed {
        self.arguments.clear();
        self.ends.clear();
        if !bytes.starts_with(MULTI) {
            return if MULTI.starts_with(bytes) { Parsed::Cut } else { Parsed::Wrong };
        }
        let mut at = MULTI.len();
        loop {
            if bytes[at..].starts_with(EXEC) {
                return Parsed::Whole(at + EXEC.len());
            }
            match self.command(bytes, at) {
                Parsed::Whole(end) => at = end,
                other => return other,
            }
        }
    }

    fn command(&mut self, bytes: &[u8], at: usize) -> Parsed {
        let (count, mut at) = match prefixed_number(bytes, at, b'*') {
            Ok(read) => read,
            Err(other) => return other,
        };
        for _ in 0..count {
            let (length, start) = match prefixed_number(bytes, at, b'$') {
                Ok(read) => read,
                Err(other) => return other,
            };
            let Some(end) = start.checked_add(length) else { return Parsed::Wrong };
            match bytes.get(end..).map(|rest| &rest[..rest.len().min(2)]) {
                Some(b"\r\n") => {}
                Some(b"" | b"\r") | None => return Parsed::Cut,
                Some(_) => return Parsed::Wrong,
            }
            self.arguments.push(start..end);
            at = end + 2;
        }
        self.ends.push(self.arguments.len());
        Parsed::Whole(at)
    }
}

/// Reads `<prefix><number>\r\n`: the number, and where it ends. One loop, because there is a number
/// in front of every argument, and most have one digit or two.
fn prefixed_number(bytes: &[u8], at: usize, prefix: u8) -> Result<(usize, usize), Parsed> {
    /// More than any number that we write has.
    const DIGITS_MAX: usize = 12;
    let byte = |at: usize| bytes.get(at).copied().ok_or(Parsed::Cut);
    if byte(at)? != prefix {
        return Err(Parsed::Wrong);
    }
    let (first, mut end, mut value) = (at + 1, at + 1, 0);
    loop {
        match byte(end)? {
            digit @ b'0'..=b'9' if end - first < DIGITS_MAX => {
                value = value * 10 + usize::from(digit - b'0');
            }
            b'\r' if end > first => break,
            _ => return Err(Parsed::Wrong),
        }
        end += 1;
    }
    let has_one_spelling = bytes[first] != b'0' || end - first == 1;
    match byte(end + 1)? {
        b'\n' if has_one_spelling => Ok((value, end + 2)),
        _ => Err(Parsed::Wrong),
    }
}
