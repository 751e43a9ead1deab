//! A list: values in order, and what they take.

use std::collections::VecDeque;
use std::ops::RangeInclusive;

use super::Bytes;
use super::footprint::allocated;

/// Values in order.
#[derive(Debug, Default)]
pub(crate) struct List {
    values: VecDeque<Bytes>,
    /// What the values take, beside their places.
    value_bytes: usize,
}

impl List {
    pub(crate) fn len(&self) -> usize {
        self.values.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    pub(crate) fn get(&self, at: usize) -> Option<&[u8]> {
        self.values.get(at).map(|value| &**value)
    }

    pub(crate) fn push(&mut self, value: &[u8]) {
        self.value_bytes += allocated(value.len());
        self.values.push_back(value.into());
    }

    /// Puts a value in the place of one that is there.
    pub(crate) fn replace(&mut self, at: usize, value: &[u8]) {
        self.value_bytes += allocated(value.len());
        self.value_bytes -= allocated(self.values[at].len());
        self.values[at] = value.into();
    }

    /// Takes the first one out.
    pub(crate) fn pop(&mut self) -> Option<Bytes> {
        let value = self.values.pop_front()?;
        self.value_bytes -= allocated(value.len());
        Some(value)
    }

    /// Drops all but those from one place to another.
    pub(crate) fn keep(&mut self, first: usize, last: usize) {
        let dropped = self.values.drain(last + 1..).map(|value| allocated(value.len()));
        self.value_bytes -= dropped.sum::<usize>();
        let dropped = self.values.drain(..first).map(|value| allocated(value.len()));
        self.value_bytes -= dropped.sum::<usize>();
    }

    pub(crate) fn range(&self, places: RangeInclusive<usize>) -> impl Iterator<Item = &[u8]> {
        self.values.range(places).map(|value| &**value)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &[u8]> {
        self.values.iter().map(|value| &**value)
    }

    /// What it takes beside itself.
    pub(super) fn content_bytes(&self) -> usize {
        self.value_bytes + allocated(self.values.capacity() * size_of::<Bytes>())
    }
}
