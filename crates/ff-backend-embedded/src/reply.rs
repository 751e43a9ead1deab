//! The reply of one command, flat and reusable, so that a command touches neither Lua nor the
//! allocator.

use crate::number;

/// One element of a reply. Lists are followed by their elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Item {
    Nil,
    Int(i64),
    Bytes { start: usize, end: usize },
    Status(&'static str),
    List(usize),
}

/// A reply in preorder, with all byte strings in one buffer.
#[derive(Debug, Default)]
pub(crate) struct Reply {
    items: Vec<Item>,
    bytes: Vec<u8>,
}

impl Reply {
    /// What a reply may keep allocated between calls.
    const KEPT_BYTES_MAX: usize = 1 << 20;

    pub(crate) fn clear(&mut self) {
        self.items.clear();
        self.bytes.clear();
        self.bytes.shrink_to(Self::KEPT_BYTES_MAX);
    }

    pub(crate) fn nil(&mut self) {
        self.items.push(Item::Nil);
    }

    pub(crate) fn int(&mut self, value: i64) {
        self.items.push(Item::Int(value));
    }

    /// A count of things in memory.
    pub(crate) fn count(&mut self, value: usize) {
        self.int(value as i64);
    }

    pub(crate) fn status(&mut self, text: &'static str) {
        self.items.push(Item::Status(text));
    }

    pub(crate) fn bytes(&mut self, value: &[u8]) {
        self.text(|buffer| buffer.extend_from_slice(value));
    }

    pub(crate) fn bytes_or_nil(&mut self, value: Option<&[u8]>) {
        match value {
            Some(value) => self.bytes(value),
            None => self.nil(),
        }
    }

    /// A number that travels as text.
    pub(crate) fn double(&mut self, value: f64) {
        self.text(|buffer| number::write_double(buffer, value));
    }

    /// A byte string that is written in place.
    pub(crate) fn text(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        let start = self.bytes.len();
        write(&mut self.bytes);
        self.items.push(Item::Bytes { start, end: self.bytes.len() });
    }

    /// Starts a list of `count` elements, which follow.
    pub(crate) fn list(&mut self, count: usize) {
        self.items.push(Item::List(count));
    }

    /// Starts a list whose length is not known yet; hand the position to [`Self::end_list`].
    pub(crate) fn start_list(&mut self) -> usize {
        self.list(0);
        self.items.len() - 1
    }

    /// States the number of direct elements of a list.
    pub(crate) fn end_list(&mut self, position: usize, count: usize) {
        self.items[position] = Item::List(count);
    }

    pub(crate) fn items(&self) -> &[Item] {
        &self.items
    }

    pub(crate) fn slice(&self, start: usize, end: usize) -> &[u8] {
        &self.bytes[start..end]
    }
}
