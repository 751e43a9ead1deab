//! A stream: entries in order of their ids, in blocks that are dropped whole when it is trimmed.

use std::collections::VecDeque;

use ff_script::dump::StreamEntry;

use super::footprint::allocated;
use super::length;
use crate::number;

/// Entries per block, as in Valkey: an approximate trim drops whole blocks.
const BLOCK_ENTRIES_MAX: usize = 100;
/// Bytes that the entries of a block share, as in Valkey: what was trimmed or deleted takes no more
/// room than this. A longer entry has a block of its own.
const BLOCK_BYTES_MAX: usize = 4096;

/// The id of an entry: milliseconds and a sequence number within them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct EntryId {
    pub(crate) ms: u64,
    pub(crate) seq: u64,
}

impl EntryId {
    pub(crate) const MIN: Self = Self { ms: 0, seq: 0 };
    pub(crate) const MAX: Self = Self { ms: u64::MAX, seq: u64::MAX };

    /// The id after this one, if there is one.
    pub(crate) fn next(self) -> Option<Self> {
        match self.seq.checked_add(1) {
            Some(seq) => Some(Self { ms: self.ms, seq }),
            None => self.ms.checked_add(1).map(|ms| Self { ms, seq: 0 }),
        }
    }

    /// The id before this one, if there is one.
    pub(crate) fn previous(self) -> Option<Self> {
        match self.seq.checked_sub(1) {
            Some(seq) => Some(Self { ms: self.ms, seq }),
            None => self.ms.checked_sub(1).map(|ms| Self { ms, seq: u64::MAX }),
        }
    }

    /// Reads `ms-seq` or `ms`, whose missing part is `seq`.
    pub(crate) fn parse(text: &[u8], seq: u64) -> Option<Self> {
        match text.iter().position(|byte| *byte == b'-') {
            None => Some(Self { ms: number::parse_uint(text)?, seq }),
            Some(dash) => Some(Self {
                ms: number::parse_uint(&text[..dash])?,
                seq: number::parse_uint(&text[dash + 1..])?,
            }),
        }
    }

    pub(crate) fn write(self, out: &mut Vec<u8>) {
        number::write_uint(out, self.ms);
        out.push(b'-');
        number::write_uint(out, self.seq);
    }
}

/// Entries in order.
#[derive(Debug, Default)]
pub(crate) struct Stream {
    blocks: VecDeque<Block>,
    len: usize,
    last: EntryId,
    /// What the blocks hold.
    block_bytes: usize,
}

/// Entries whose ids and places are kept by how far they are from the block's first id.
#[derive(Debug)]
struct Block {
    base: EntryId,
    bytes: Vec<u8>,
    entries: Vec<Mark>,
    /// How many entries at the front were trimmed.
    trimmed: usize,
}

/// Where an entry begins, and its id: milliseconds behind those of the block's first, and the
/// sequence number, in the first millisecond counted from that of the first.
#[derive(Clone, Copy, Debug)]
struct Mark {
    start: u32,
    ms: u32,
    seq: u32,
}

/// One entry, borrowed from its block.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry<'a> {
    pub(crate) id: EntryId,
    bytes: &'a [u8],
}

impl<'a> Entry<'a> {
    /// Field names and values, alternating.
    pub(crate) fn parts(self) -> impl Iterator<Item = &'a [u8]> {
        let (bytes, mut next) = (self.bytes, 0);
        std::iter::from_fn(move || {
            (next < bytes.len()).then(|| {
                let (size, start) = length::read(bytes, next);
                next = start + size;
                &bytes[start..next]
            })
        })
    }

    pub(super) fn stored(self) -> StreamEntry {
        let parts: Vec<&[u8]> = self.parts().collect();
        let fields = parts.chunks_exact(2).map(|pair| (pair[0].to_vec(), pair[1].to_vec()));
        StreamEntry { ms: self.id.ms, seq: self.id.seq, fields: fields.collect() }
    }
}

impl Block {
    fn new(base: EntryId) -> Self {
        Self { base, bytes: Vec::new(), entries: Vec::new(), trimmed: 0 }
    }

    fn has_room(&self, more: usize) -> bool {
        self.entries.len() < BLOCK_ENTRIES_MAX && self.bytes.len() + more <= BLOCK_BYTES_MAX
    }

    /// The block takes no more entries.
    fn close(&mut self) {
        self.bytes.shrink_to_fit();
        self.entries.shrink_to_fit();
    }

    fn footprint(&self) -> usize {
        allocated(self.bytes.capacity()) + allocated(self.entries.capacity() * size_of::<Mark>())
    }

    fn live(&self) -> usize {
        self.entries.len() - self.trimmed
    }

    /// The id as this block keeps it; none if it is too far from the first one.
    fn mark(&self, id: EntryId) -> Option<Mark> {
        let ms = id.ms - self.base.ms;
        let seq = if ms == 0 { id.seq - self.base.seq } else { id.seq };
        let start = u32::try_from(self.bytes.len()).ok()?;
        Some(Mark { start, ms: u32::try_from(ms).ok()?, seq: u32::try_from(seq).ok()? })
    }

    fn id(&self, mark: Mark) -> EntryId {
        let first = if mark.ms == 0 { self.base.seq } else { 0 };
        EntryId { ms: self.base.ms + u64::from(mark.ms), seq: first + u64::from(mark.seq) }
    }

    fn first_id(&self) -> EntryId {
        self.id(*self.entries.first().expect("a block is made for an entry"))
    }

    fn last_id(&self) -> EntryId {
        self.id(*self.entries.last().expect("a block is made for an entry"))
    }

    fn entry(&self, index: usize) -> Entry<'_> {
        let mark = self.entries[index];
        let end = self.entries.get(index + 1).map_or(self.bytes.len(), |next| next.start as usize);
        Entry { id: self.id(mark), bytes: &self.bytes[mark.start as usize..end] }
    }

    fn push(&mut self, mark: Mark, parts: &[&[u8]]) {
        self.entries.push(mark);
        for part in parts {
            length::write(&mut self.bytes, part.len());
            self.bytes.extend_from_slice(part);
        }
    }

    /// True if the entry was there.
    fn remove(&mut self, id: EntryId) -> bool {
        let found = self.entries.binary_search_by_key(&id, |mark| self.id(*mark));
        let Some(index) = found.ok().filter(|index| *index >= self.trimmed) else { return false };
        let length = self.entry(index).bytes.len();
        let start = self.entries.remove(index).start as usize;
        self.bytes.drain(start..start + length);
        self.entries[index..].iter_mut().for_each(|mark| mark.start -= length as u32);
        true
    }

    fn between(&self, from: EntryId, to: EntryId) -> impl DoubleEndedIterator<Item = Entry<'_>> {
        let before = |id: EntryId| self.entries.partition_point(|mark| self.id(*mark) < id);
        let first = before(from).max(self.trimmed);
        let end = self.entries.partition_point(|mark| self.id(*mark) <= to).max(first);
        (first..end).map(|index| self.entry(index))
    }
}

impl Stream {
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// The greatest id ever used.
    pub(crate) fn last_id(&self) -> EntryId {
        self.last
    }

    /// The id for a new entry at this time: never one that was used, also when time went back.
    pub(crate) fn next_id(&self, now_ms: u64) -> Option<EntryId> {
        if now_ms > self.last.ms { Some(EntryId { ms: now_ms, seq: 0 }) } else { self.last.next() }
    }

    /// Appends an entry; the id must be greater than the last one.
    pub(crate) fn push(&mut self, id: EntryId, parts: &[&[u8]]) {
        debug_assert!(id > self.last, "ids only grow");
        let length = parts.iter().map(|part| length::size(part.len()) + part.len()).sum();
        let open = self.blocks.back_mut().filter(|block| block.has_room(length));
        match open.and_then(|block| Some((block.mark(id)?, block))) {
            Some((mark, block)) => {
                self.block_bytes -= block.footprint();
                block.push(mark, parts);
                self.block_bytes += block.footprint();
            }
            None => self.begin_block(id, parts),
        }
        self.last = id;
        self.len += 1;
    }

    fn begin_block(&mut self, id: EntryId, parts: &[&[u8]]) {
        if let Some(full) = self.blocks.back_mut() {
            self.block_bytes -= full.footprint();
            full.close();
            self.block_bytes += full.footprint();
        }
        let mut block = Block::new(id);
        block.push(Mark { start: 0, ms: 0, seq: 0 }, parts);
        self.block_bytes += block.footprint();
        self.blocks.push_back(block);
    }

    /// Takes an entry out. True if it was there.
    pub(crate) fn remove(&mut self, id: EntryId) -> bool {
        let at = self.blocks.partition_point(|block| block.last_id() < id);
        let Some(block) = self.blocks.get_mut(at) else { return false };
        let was_there = block.remove(id);
        self.len -= usize::from(was_there);
        if block.live() == 0 {
            self.block_bytes -= block.footprint();
            self.blocks.remove(at);
        }
        was_there
    }

    /// Drops the oldest whole blocks while at least `keep` entries remain. True if any was dropped.
    pub(crate) fn trim_blocks(&mut self, keep: usize) -> bool {
        let before = self.len;
        while let Some(first) = self.blocks.front()
            && self.len - first.live() >= keep
        {
            self.len -= first.live();
            self.drop_first();
        }
        self.len != before
    }

    fn drop_first(&mut self) {
        if let Some(first) = self.blocks.pop_front() {
            self.block_bytes -= first.footprint();
        }
    }

    /// Drops the oldest entries until no more than `keep` remain. True if any was dropped.
    pub(crate) fn trim(&mut self, keep: usize) -> bool {
        if self.len <= keep {
            return false;
        }
        self.trim_blocks(keep);
        if let Some(first) = self.blocks.front_mut() {
            first.trimmed += self.len - keep;
            self.len = keep;
        }
        true
    }

    /// Drops the oldest whole blocks that hold nothing from this id on. True if any was dropped.
    pub(crate) fn trim_blocks_before(&mut self, id: EntryId) -> bool {
        let before = self.len;
        while let Some(first) = self.blocks.front()
            && first.last_id() < id
        {
            self.len -= first.live();
            self.drop_first();
        }
        self.len != before
    }

    /// Drops the entries before this id. True if any was dropped.
    pub(crate) fn trim_before(&mut self, id: EntryId) -> bool {
        let left = self.range(id, EntryId::MAX).count();
        self.trim(left)
    }

    /// What it takes beside itself.
    pub(super) fn content_bytes(&self) -> usize {
        self.block_bytes + allocated(self.blocks.capacity() * size_of::<Block>())
    }

    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = Entry<'_>> {
        self.range(EntryId::MIN, EntryId::MAX)
    }

    /// The entries between two ids, both included.
    pub(crate) fn range(
        &self,
        from: EntryId,
        to: EntryId,
    ) -> impl DoubleEndedIterator<Item = Entry<'_>> {
        let start = self.blocks.partition_point(|block| block.last_id() < from);
        let end = self.blocks.partition_point(|block| block.first_id() <= to).max(start);
        self.blocks.range(start..end).flat_map(move |block| block.between(from, to))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stream(count: u64) -> Stream {
        let mut stream = Stream::default();
        for n in 1..=count {
            stream.push(EntryId { ms: n, seq: 0 }, &[b"n", n.to_string().as_bytes()]);
        }
        stream
    }

    fn times(stream: &Stream, from: u64, to: u64) -> Vec<u64> {
        let to = EntryId { ms: to, seq: u64::MAX };
        stream.range(EntryId { ms: from, seq: 0 }, to).map(|entry| entry.id.ms).collect()
    }

    #[test]
    fn ranges_cross_blocks() {
        let stream = stream(350);
        assert_eq!(times(&stream, 98, 103), [98, 99, 100, 101, 102, 103]);
        assert_eq!(times(&stream, 349, 999), [349, 350]);
        assert_eq!(times(&stream, 351, 999), [0u64; 0]);
    }

    #[test]
    fn an_approximate_trim_keeps_at_least_what_was_asked_for() {
        let mut stream = stream(350);
        assert!(stream.trim_blocks(120));
        assert_eq!(stream.len(), 150);
        assert_eq!(stream.iter().next().map(|entry| entry.id.ms), Some(201));
        assert!(!stream.trim_blocks(120));
    }

    #[test]
    fn an_exact_trim_is_exact() {
        let mut stream = stream(350);
        assert!(stream.trim(3) && !stream.trim(3));
        assert_eq!(times(&stream, 0, 999), [348, 349, 350]);
        assert!(stream.trim(0));
        assert_eq!((stream.len(), stream.iter().count()), (0, 0));
        assert_eq!(stream.last_id(), EntryId { ms: 350, seq: 0 });
        stream.push(EntryId { ms: 351, seq: 0 }, &[b"a", b"b"]);
        assert_eq!(times(&stream, 0, 999), [351]);
    }

    #[test]
    fn a_deleted_entry_is_gone_and_its_neighbours_are_whole() {
        let id = |ms| EntryId { ms, seq: 0 };
        let mut stream = stream(350);
        stream.trim(300);
        assert!(!stream.remove(id(50)), "it was trimmed");
        for ms in (51..=350).filter(|ms| ms % 3 != 0) {
            assert!(stream.remove(id(ms)) && !stream.remove(id(ms)));
        }
        let numbers =
            (51..=350).filter(|ms| ms % 3 == 0).map(|ms: u64| ms.to_string().into_bytes());
        let found = stream.iter().map(|entry| entry.parts().nth(1).map(<[u8]>::to_vec));
        assert!(found.eq(numbers.map(Some)));
        assert_eq!((stream.len(), stream.last_id()), (100, id(350)));
    }

    #[test]
    fn entries_that_went_take_room_for_one_block_at_most() {
        let mut stream = Stream::default();
        for ms in 1..=50 {
            stream.push(EntryId { ms, seq: 0 }, &[b"frame", &[7; 1000]]);
        }
        stream.trim(1);
        let kept: usize = stream.blocks.iter().map(|block| block.bytes.len()).sum();
        assert!(kept <= BLOCK_BYTES_MAX, "{kept}");
        stream.push(EntryId { ms: 51, seq: 0 }, &[b"frame", &[7; 100_000]]);
        assert_eq!(stream.blocks.len(), 2);
    }

    #[test]
    fn ids_do_not_go_back_when_the_clock_does() {
        let stream = stream(10);
        assert_eq!(stream.next_id(11), Some(EntryId { ms: 11, seq: 0 }));
        assert_eq!(stream.next_id(10), Some(EntryId { ms: 10, seq: 1 }));
        assert_eq!(stream.next_id(3), Some(EntryId { ms: 10, seq: 1 }));
    }
}
