//! Slices: the partitions of one index, with all their keys. A rewritten file has them one after
//! the other, and ends with a table of where each begins, so that some of them can be read without
//! the rest.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::ops::Range;
use std::path::Path;

use ff_core::partition::Partition;
use ff_core::slot::hash_tag;
use hashbrown::HashMap;

use super::record::{self, LINE_MAX, Word};
use crate::error::StoreError;
use crate::keyspace::Seeded;

/// What of a number in the table is the offset; the rest is the index.
const OFFSET_BITS: u32 = 48;
/// The lines behind the table: where it begins, and the seal.
const END_BYTES: u64 = 2 * LINE_MAX as u64;

/// Knows which slice a key belongs to.
#[derive(Default)]
pub(crate) struct Slices {
    known: HashMap<Box<[u8]>, u16, Seeded>,
}

impl Slices {
    /// The index of the partition that a key belongs to, by its tag.
    pub(crate) fn of(&mut self, key: &[u8]) -> Result<u16, String> {
        let tag = hash_tag(key);
        if let Some(index) = self.known.get(tag) {
            return Ok(*index);
        }
        let partition: Partition = std::str::from_utf8(tag)
            .ok()
            .and_then(|tag| format!("{{{tag}}}").parse().ok())
            .ok_or_else(|| format!("key {} belongs to no partition", key.escape_ascii()))?;
        self.known.insert(tag.into(), partition.index);
        Ok(partition.index)
    }
}

/// Where a slice is in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Section {
    pub(crate) index: u16,
    pub(crate) part: Range<u64>,
}

impl Section {
    pub(crate) fn bytes(&self) -> u64 {
        self.part.end - self.part.start
    }
}

/// Where the slices of a rewritten file are.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Table {
    pub(crate) sections: Vec<Section>,
    /// The last transaction that the file accounts for.
    pub(crate) covers: u64,
    /// Length of the file, its seal not counted.
    pub(crate) length: u64,
}

/// Appends a table that begins at this offset.
pub(crate) fn write_table(out: &mut Vec<u8>, starts: &[(u16, u64)], offset: u64, salt: u64) {
    for (index, start) in starts {
        let value = u64::from(*index) << OFFSET_BITS | start;
        record::write_line(out, Word::Slice, value, salt);
    }
    record::write_line(out, Word::Slices, offset, salt);
}

impl Table {
    /// Reads the table of a file with this salt. `None` if there is none that is whole: then the
    /// file is to be read from its beginning.
    pub(crate) fn read(path: &Path, salt: u64) -> Result<Option<Self>, StoreError> {
        let mut file = File::open(path).map_err(StoreError::io(path))?;
        let size = file.metadata().map_err(StoreError::io(path))?.len();
        let Some(end) = size.checked_sub(END_BYTES) else { return Ok(None) };
        let mut read = |from: u64| {
            let mut bytes = Vec::new();
            file.seek(SeekFrom::Start(from))?;
            file.read_to_end(&mut bytes)?;
            Ok(bytes)
        };
        let last = read(end).map_err(StoreError::io(path))?;
        let (Some(start), Some(covers)) = (
            checked(&last[..LINE_MAX], Word::Slices, salt),
            checked(&last[LINE_MAX..], Word::Sealed, salt),
        ) else {
            return Ok(None);
        };
        let lines = read(start.min(end)).map_err(StoreError::io(path))?;
        let lines = &lines[..lines.len() - END_BYTES as usize];
        let starts = starts(lines, salt)
            .ok_or_else(|| StoreError::damaged(path, start, "the table of slices is not whole"))?;
        let sections = sections(&starts, start)
            .ok_or_else(|| StoreError::damaged(path, start, "the slices are not in order"))?;
        Ok(Some(Self { sections, covers, length: size - LINE_MAX as u64 }))
    }
}

/// The number of a line, if it is this one and as it must be.
fn checked(line: &[u8], word: Word, salt: u64) -> Option<u64> {
    let (_, value) = record::read_line(line).filter(|(found, _)| *found == word)?;
    let mut expected = Vec::with_capacity(LINE_MAX);
    record::write_line(&mut expected, word, value, salt);
    (line == expected).then_some(value)
}

fn starts(lines: &[u8], salt: u64) -> Option<Vec<(u16, u64)>> {
    // The word of these lines is one letter shorter than the longest.
    let line = |line: &[u8]| {
        let value = checked(line, Word::Slice, salt)?;
        Some(((value >> OFFSET_BITS) as u16, value & ((1 << OFFSET_BITS) - 1)))
    };
    lines.chunks(LINE_MAX - 1).map(line).collect()
}

fn sections(starts: &[(u16, u64)], end: u64) -> Option<Vec<Section>> {
    let ends = starts.iter().skip(1).map(|(_, start)| *start).chain([end]);
    let sections: Vec<Section> = starts
        .iter()
        .zip(ends)
        .map(|((index, start), end)| Section { index: *index, part: *start..end })
        .collect();
    let in_order = starts.windows(2).all(|pair| pair[0].0 < pair[1].0)
        && sections.iter().all(|section| section.part.start <= section.part.end);
    in_order.then_some(sections)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "in a test, a panic is the report")]

    use super::*;

    const SALT: u64 = 7;
    const BEFORE: &[u8] = b"what the slices are made of";

    fn file(starts: &[(u16, u64)]) -> Vec<u8> {
        let mut bytes = BEFORE.to_vec();
        write_table(&mut bytes, starts, BEFORE.len() as u64, SALT);
        record::write_line(&mut bytes, Word::Sealed, 12, SALT);
        bytes
    }

    fn read(bytes: &[u8]) -> Result<Option<Table>, StoreError> {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("file");
        std::fs::write(&path, bytes).unwrap();
        Table::read(&path, SALT)
    }

    #[test]
    fn a_table_reads_back_as_it_was_written() {
        let table = read(&file(&[(0, 3), (7, 9), (300, 9)])).unwrap().unwrap();
        let section = |index, part| Section { index, part };
        let end = BEFORE.len() as u64;
        assert_eq!(table.sections, [section(0, 3..9), section(7, 9..9), section(300, 9..end)]);
        assert_eq!(table.covers, 12);
        assert_eq!(read(&file(&[])).unwrap().unwrap().sections, []);
    }

    #[test]
    fn a_table_that_was_cut_or_changed_is_not_read() {
        let bytes = file(&[(1, 3), (2, 9)]);
        for length in 0..bytes.len() {
            assert!(matches!(read(&bytes[..length]), Ok(None)), "cut at {length}");
        }
        for bit in BEFORE.len() * 8..bytes.len() * 8 {
            let mut flipped = bytes.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert!(!matches!(read(&flipped), Ok(Some(_))), "flip of bit {bit}");
        }
        for wrong in [&[(2, 3), (1, 9)][..], &[(1, 9), (2, 3)], &[(1, 900)]] {
            assert!(read(&file(wrong)).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn keys_belong_to_the_slice_of_their_partition_s_index() {
        let mut slices = Slices::default();
        for key in ["ff:{fp:7}:x", "ff:{q:7}:y", "ff:{fp:7}"] {
            assert_eq!(slices.of(key.as_bytes()), Ok(7), "{key}");
        }
        assert!(slices.of(b"ff:{other:7}").is_err());
    }
}
