//! Workers as the scheduler sees them: what they may take, and those that wait.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};

use ff_core::capability::CapabilitySet;
use ff_core::need::Need;
use ff_core::types::{ExecutionKind, LaneId, Namespace};
use tokio::sync::Notify;

/// What a worker may take.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Ability {
    capabilities: CapabilitySet,
    /// Any if empty.
    kinds: HashSet<ExecutionKind>,
    /// Any if empty.
    namespaces: HashSet<Namespace>,
}

impl Ability {
    pub(crate) fn new(
        capabilities: CapabilitySet,
        kinds: &[ExecutionKind],
        namespaces: &[Namespace],
    ) -> Self {
        let kinds = kinds.iter().cloned().collect();
        Self { capabilities, kinds, namespaces: namespaces.iter().cloned().collect() }
    }

    /// May such a worker take what has this need?
    pub(crate) fn can_take(&self, need: &Need) -> bool {
        (self.kinds.is_empty() || self.kinds.contains(&need.kind))
            && (self.namespaces.is_empty() || self.namespaces.contains(&need.namespace))
            && self.capabilities.includes(&need.capabilities)
    }
}

/// A claim that waits for work.
#[derive(Debug)]
pub(crate) struct Waiter {
    /// In the order in which they came.
    pub(crate) id: u64,
    pub(crate) lanes: Arc<[LaneId]>,
    pub(crate) ability: Ability,
    /// There may be something for it.
    pub(crate) call: Notify,
    /// The queues that it was called for, or that gave it nothing although they have something;
    /// none any more when it has left.
    calls: Mutex<Option<Vec<(LaneId, String)>>>,
}

impl Waiter {
    pub(crate) fn new(id: u64, lanes: Arc<[LaneId]>, ability: Ability) -> Self {
        Self { id, lanes, ability, call: Notify::new(), calls: Mutex::new(Some(Vec::new())) }
    }

    /// It is to look at a queue, which nobody else is called for. False if it has left.
    pub(crate) fn note(&self, lane: &LaneId, queue: &str) -> bool {
        let mut calls = self.calls.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(calls) = calls.as_mut() else { return false };
        if !calls.iter().any(|(of, name)| of == lane && name == queue) {
            calls.push((lane.clone(), queue.to_owned()));
        }
        true
    }

    /// It leaves. Answers the queues that it was to look at.
    pub(crate) fn leave(&self) -> Vec<(LaneId, String)> {
        let calls = self.calls.lock().unwrap_or_else(PoisonError::into_inner).take();
        calls.unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_worker_takes_what_it_can_of_the_kinds_and_namespaces_it_names() {
        let ability = |capabilities: &[&str], kinds: &[&str], namespaces: &[&str]| Ability {
            capabilities: CapabilitySet::try_new(capabilities.iter().copied()).expect("valid"),
            kinds: kinds.iter().map(|kind| kind.parse().expect("valid")).collect(),
            namespaces: namespaces.iter().map(|name| name.parse().expect("valid")).collect(),
        };
        let need: Need = "shop:render:gpu,large".parse().expect("a need");
        assert!(ability(&["gpu", "large", "x"], &[], &[]).can_take(&need));
        assert!(ability(&["gpu", "large"], &["mail", "render"], &["shop"]).can_take(&need));
        assert!(!ability(&["gpu"], &[], &[]).can_take(&need), "lacks one");
        assert!(!ability(&["gpu", "large"], &["mail"], &[]).can_take(&need), "another kind");
        assert!(!ability(&["gpu", "large"], &[], &["other"]).can_take(&need), "another namespace");
    }
}
