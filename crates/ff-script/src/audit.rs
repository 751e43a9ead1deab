//! The audit: reads a copy of a whole store and says what should not be there. It knows the rules
//! on its own, in Rust, so that a mistake of the library cannot hide behind the library.
//!
//! | invariant | what is checked |
//! |---|---|
//! | I1 | an execution is in one legal state, and in exactly the indexes that state calls for |
//! | I2 | a lease is whole where one is held, and its epoch keeps up with the attempts |
//! | I3 | an end has its time and its cause, and what is live has neither |
//! | I4 | attempts are contiguous, follow from each other, and stay within the policy |
//! | I5 | all executions are listed, and nothing else; quotas know who holds a place |
//! | I6 | a flow counts its members right, and who waits in it waits for somebody |
//! | I7 | a suspended execution waits on one waitpoint, an ended one on none; signals are whole |
//! | I8 | what is remembered under an idempotency key is readable, and forgotten in time |
//! | I8 | who has a throttle's key is live and was created under it, and of a singleton one is |
//! | I9 | no unknown key or field, no wrong type, no orphan, nothing beyond its bound |

mod keys;
mod record;

mod contents;

mod attempts;
mod blobs;
mod budgets;
mod children;
mod flows;
mod gates;
mod idempotency;
mod index;
mod state;
mod storage;
mod streams;
mod throttles;
mod waitpoints;
mod workers;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt;

use ff_core::partition::{PartitionConfig, PartitionFamily};

use crate::dump::Dump;
use contents::Contents;
pub use keys::{deployment_key, is_mark, is_secret, partition_config};

/// Checks a copy of a store, or of some of its partitions, with these partition counts. No rule
/// reaches beyond a partition.
pub fn audit(dump: &Dump, config: &PartitionConfig) -> Report {
    let mut found = Findings::default();
    let partitions = contents::sort(dump, config, &mut found);
    let mut executions = BTreeMap::new();
    for contents in partitions.values() {
        check(contents, config, &mut found);
        for record in contents.records.values() {
            let state = record.state_word().to_owned();
            *executions.entry(state).or_insert(0) += 1;
        }
    }
    Report { partitions: partitions.len(), keys: dump.len(), executions, violations: found.0 }
}

fn check(contents: &Contents<'_>, config: &PartitionConfig, found: &mut Findings) {
    gates::check(contents, found);
    budgets::check(contents, found);
    if contents.partition.family != PartitionFamily::Flow {
        return;
    }
    for record in contents.records.values() {
        record::check_fields(record, found);
        blobs::check(contents, record, found);
        state::check(record, found);
        attempts::check(contents, record, found);
        streams::check(contents, record, found);
    }
    index::check(contents, found);
    idempotency::check(contents, found);
    throttles::check(contents, found);
    waitpoints::check(contents, found);
    flows::check(contents, found);
    workers::check(contents, found);
    storage::check(contents, config, found);
}

/// What an audit found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Partitions that hold anything.
    pub partitions: usize,
    /// Keys of the store.
    pub keys: usize,
    /// How many executions there are, by the state word of their records.
    pub executions: BTreeMap<String, usize>,
    /// Everything that should not be.
    pub violations: Vec<Violation>,
}

impl Report {
    /// Adds what was found in other partitions.
    pub fn add(&mut self, other: Self) {
        self.partitions += other.partitions;
        self.keys += other.keys;
        for (state, count) in other.executions {
            *self.executions.entry(state).or_insert(0) += count;
        }
        self.violations.extend(other.violations);
    }

    /// True if every invariant holds.
    pub fn is_clean(&self) -> bool {
        self.violations.is_empty()
    }
}

/// A broken invariant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Which one, as in `I1`.
    pub invariant: &'static str,
    /// Where.
    pub key: String,
    /// What is wrong, for a person.
    pub what: String,
}

/// A damaged store can break a rule a million times; a person reads the beginning.
const SHOWN_MAX: usize = 100;

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let total: usize = self.executions.values().sum();
        write!(f, "{} partitions, {} keys, {total} executions", self.partitions, self.keys)?;
        for (place, (state, count)) in self.executions.iter().enumerate() {
            // Records say success where everybody else says completed.
            let word = if state == "success" { "completed" } else { state.as_str() };
            write!(f, "{}{count} {word}", if place == 0 { ": " } else { ", " })?;
        }
        writeln!(f)?;
        if self.is_clean() {
            return write!(f, "no violation");
        }
        write!(f, "{} violations", self.violations.len())?;
        for violation in self.violations.iter().take(SHOWN_MAX) {
            write!(f, "\n{violation}")?;
        }
        match self.violations.len().saturating_sub(SHOWN_MAX) {
            0 => Ok(()),
            more => write!(f, "\nand {more} more"),
        }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}: {}", self.invariant, self.key, self.what)
    }
}

/// Collects violations.
#[derive(Default)]
struct Findings(Vec<Violation>);

impl Findings {
    fn add(&mut self, invariant: &'static str, key: impl fmt::Display, what: impl Into<String>) {
        self.0.push(Violation { invariant, key: key.to_string(), what: what.into() });
    }
}

/// Bytes of a store, as a person reads them.
fn shown(bytes: &[u8]) -> String {
    bytes.escape_ascii().to_string()
}
