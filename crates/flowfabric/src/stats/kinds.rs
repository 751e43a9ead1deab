//! Counts by kind, as a table.

use std::collections::BTreeMap;

use ff_core::contracts::KindCounts;
use ff_sdk::PublicState;

use crate::table::{Table, cut};

/// The widest name of a kind: with the numbers a line has 80 columns.
const KIND_MAX: usize = 12;

/// How many of one kind are in which state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    waiting: u64,
    delayed: u64,
    active: u64,
    completed: u64,
    failed: u64,
    /// Live, but neither waiting nor delayed nor active.
    paused: u64,
    /// Cancelled, expired or skipped.
    stopped: u64,
}

impl Counts {
    fn add(&mut self, state: PublicState, count: u64) {
        let place = match state {
            PublicState::Waiting => &mut self.waiting,
            PublicState::Delayed => &mut self.delayed,
            PublicState::Active => &mut self.active,
            PublicState::Completed => &mut self.completed,
            PublicState::Failed => &mut self.failed,
            state if state.is_terminal() => &mut self.stopped,
            _ => &mut self.paused,
        };
        *place += count;
    }

    pub(crate) fn live(&self) -> u64 {
        self.waiting + self.delayed + self.active + self.paused
    }

    pub(crate) fn ended(&self) -> u64 {
        self.completed + self.failed + self.stopped
    }
}

/// All kinds.
pub(crate) struct Kinds {
    pub(crate) by_kind: BTreeMap<String, Counts>,
    /// False if the numbers are estimates.
    pub(crate) exact: bool,
}

/// How fast a kind goes, and how long it will take.
pub(crate) type Speed = (String, String);

impl Kinds {
    pub(crate) fn of(told: &KindCounts) -> Self {
        let mut by_kind: BTreeMap<String, Counts> = BTreeMap::new();
        for one in &told.counts {
            let counts = by_kind.entry(one.kind.to_string()).or_default();
            counts.add(one.public_state, one.count);
        }
        Self { by_kind, exact: told.exact }
    }

    /// A line for each kind, those with most to do first; with speeds, if there are any.
    pub(crate) fn table(&self, speeds: &[(String, Speed)], most: usize) -> Table {
        let head = ["kind", "waiting", "delayed", "active", "others", "completed", "failed"];
        let mut head = head.to_vec();
        if !speeds.is_empty() {
            head.extend(["per s", "left"]);
        }
        let mut kinds: Vec<(&String, &Counts)> = self.by_kind.iter().collect();
        kinds.sort_by_key(|(kind, counts)| (std::cmp::Reverse(counts.live()), *kind));
        let mut table = Table::new(&head);
        for (kind, counts) in kinds.into_iter().take(most) {
            let speed = speeds.iter().find(|(of, _)| of == kind).map(|(_, speed)| speed.clone());
            let mut cells = self.cells(kind, counts);
            if !speeds.is_empty() {
                let (rate, left) = speed.unwrap_or_default();
                cells.extend([rate, left]);
            }
            table.cells(cells);
        }
        table
    }

    fn cells(&self, kind: &str, counts: &Counts) -> Vec<String> {
        let about = if self.exact { "" } else { "~" };
        let Counts { waiting, delayed, active, completed, failed, paused, stopped } = *counts;
        let numbers = [waiting, delayed, active, paused + stopped, completed, failed];
        let shown = numbers.map(|number| match number {
            0 => "0".to_owned(),
            number => format!("{about}{number}"),
        });
        std::iter::once(cut(kind, KIND_MAX)).chain(shown).collect()
    }
}
