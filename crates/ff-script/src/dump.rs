//! A copy of everything a store holds, for checks that look at keys from outside the library.

use std::collections::{BTreeMap, BTreeSet};

/// Every key of a store with its value.
pub type Dump = BTreeMap<Vec<u8>, Stored>;

/// One stored value.
#[derive(Clone, Debug, PartialEq)]
pub enum Stored {
    /// A byte string.
    String(Vec<u8>),
    /// Fields and values.
    Hash(BTreeMap<Vec<u8>, Vec<u8>>),
    /// Members with their scores.
    SortedSet(BTreeMap<Vec<u8>, f64>),
    /// Values in order.
    List(Vec<Vec<u8>>),
    /// Members.
    Set(BTreeSet<Vec<u8>>),
    /// Entries in order.
    Stream(Vec<StreamEntry>),
}

/// One entry of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamEntry {
    /// Milliseconds part of the entry's id.
    pub ms: u64,
    /// Sequence part of the entry's id.
    pub seq: u64,
    /// Field names and values, in order.
    pub fields: Vec<(Vec<u8>, Vec<u8>)>,
}
