//! When each partition is to be looked at next. Store time is only compared with store time: the
//! last tick tells how far it is ahead of the local clock.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::time::Duration;

use ff_core::contracts::TickReport;
use ff_core::partition::{Partition, PartitionFamily};
use ff_core::types::TimestampMs;
use tokio::time::Instant;

/// A budget or quota partition in which nothing has a time is swept once in so many rounds: most
/// deployments have nothing there, and no work waits there that a sweep would have to tell of.
const ROUNDS_QUIET: u32 = 2;

/// The partitions by the time of their next look.
///
/// Each is swept once in a round, at a moment of its own, so that the sweeps of all partitions are
/// spread evenly over the time.
pub(crate) struct Agenda {
    begun: Instant,
    sweep: Duration,
    partitions: u32,
    order: BTreeSet<(Instant, Partition)>,
    at: HashMap<Partition, Instant>,
    /// Those of budgets and quotas in which nothing had a time when they were last looked at.
    quiet: HashSet<Partition>,
    /// The store's time at a local moment, from the latest tick.
    reference: Option<(TimestampMs, Instant)>,
}

impl Agenda {
    /// Every partition at once: nobody knows yet what is due.
    pub(crate) fn all_now(
        partitions: impl ExactSizeIterator<Item = Partition>,
        sweep: Duration,
        now: Instant,
    ) -> Self {
        let mut agenda = Self {
            begun: now,
            sweep: sweep.max(Duration::from_millis(1)),
            partitions: u32::try_from(partitions.len()).unwrap_or(u32::MAX).max(1),
            order: BTreeSet::new(),
            at: HashMap::new(),
            quiet: HashSet::new(),
            reference: None,
        };
        partitions.for_each(|partition| agenda.schedule(partition, now));
        agenda
    }

    /// In which round a partition is at this time: it is swept when the next one begins.
    pub(crate) fn round(&self, partition: Partition, at: Instant) -> u32 {
        let first = self.sweep * u32::from(partition.index) / self.partitions;
        let rounds = (at - self.begun + self.sweep).saturating_sub(first).as_nanos();
        u32::try_from(rounds / self.sweep.as_nanos()).unwrap_or(u32::MAX)
    }

    /// When a partition is swept after this time.
    pub(crate) fn next_sweep(&self, partition: Partition, after: Instant) -> Instant {
        let first = self.sweep * u32::from(partition.index) / self.partitions;
        let skipped = if self.quiet.contains(&partition) { ROUNDS_QUIET - 1 } else { 0 };
        self.begun + self.sweep * (self.round(partition, after) + skipped) + first
    }

    /// The time of the nearest look.
    pub(crate) fn next(&self) -> Option<Instant> {
        self.order.first().map(|(at, _)| *at)
    }

    /// Looks at a partition at this time, or earlier if that was planned already.
    pub(crate) fn schedule(&mut self, partition: Partition, at: Instant) {
        let planned = self.at.get(&partition).copied();
        if planned.is_some_and(|planned| planned <= at) {
            return;
        }
        if let Some(planned) = planned {
            self.order.remove(&(planned, partition));
        }
        self.at.insert(partition, at);
        self.order.insert((at, partition));
    }

    /// Looks at a partition at this time, and not earlier, unless it is being looked at now.
    pub(crate) fn postpone(&mut self, partition: Partition, at: Instant) {
        if let Some(planned) = self.at.remove(&partition) {
            self.order.remove(&(planned, partition));
            self.schedule(partition, at);
        }
    }

    /// Takes the next partition whose time has come.
    pub(crate) fn take_due(&mut self, now: Instant) -> Option<Partition> {
        let (at, partition) = *self.order.first()?;
        if at > now {
            return None;
        }
        self.order.remove(&(at, partition));
        self.at.remove(&partition);
        Some(partition)
    }

    /// A timer was set in a partition, for a time of the store.
    pub(crate) fn announce(
        &mut self,
        partition: Partition,
        due_at: Option<TimestampMs>,
        now: Instant,
    ) {
        let at = due_at.and_then(|due_at| self.local(due_at)).unwrap_or(now);
        self.schedule(partition, at.max(now));
    }

    fn local(&self, store: TimestampMs) -> Option<Instant> {
        let (reference, local) = self.reference?;
        Some(local + Duration::from_millis(reference.millis_until(store)))
    }

    /// A tick is over: the next look is when it is needed, or with the next sweep, of which the
    /// partition was told.
    pub(crate) fn ticked(&mut self, partition: Partition, report: &TickReport, started: Instant) {
        self.reference = Some((report.now, started));
        let needed = report
            .next_due_at
            .map(|due_at| started + Duration::from_millis(report.now.millis_until(due_at)));
        let swept = self.next_sweep(partition, started);
        self.schedule(partition, needed.map_or(swept, |needed| needed.min(swept)));
        if needed.is_none() && partition.family != PartitionFamily::Flow {
            self.quiet.insert(partition);
        } else {
            self.quiet.remove(&partition);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SWEEP: Duration = Duration::from_secs(10);

    fn report(now: u64, next: Option<u64>) -> TickReport {
        let next_due_at = next.map(TimestampMs::new);
        TickReport { now: TimestampMs::new(now), next_due_at, ..TickReport::default() }
    }

    fn one_partition() -> (Agenda, Partition, Instant) {
        let (partition, now) = (Partition::flow(0), Instant::now());
        (Agenda::all_now(std::iter::once(partition), SWEEP, now), partition, now)
    }

    #[test]
    fn a_new_engine_looks_everywhere_at_once() {
        let now = Instant::now();
        let mut agenda = Agenda::all_now((0..4).map(Partition::flow), SWEEP, now);
        let taken: Vec<_> = std::iter::from_fn(|| agenda.take_due(now)).collect();
        assert_eq!(taken.len(), 4);
        assert_eq!(agenda.next(), None);
    }

    #[test]
    fn the_next_look_is_when_the_store_says() {
        let (mut agenda, partition, now) = one_partition();
        assert_eq!(agenda.take_due(now), Some(partition));
        agenda.ticked(partition, &report(1_000_000, Some(1_000_250)), now);
        assert_eq!(agenda.next(), Some(now + Duration::from_millis(250)));
        assert_eq!(agenda.take_due(now), None);
    }

    #[test]
    fn a_far_timer_waits_for_the_sweep() {
        let (mut agenda, partition, now) = one_partition();
        agenda.take_due(now);
        agenda.ticked(partition, &report(1_000_000, Some(9_000_000)), now);
        assert_eq!(agenda.next(), Some(now + SWEEP));
    }

    #[test]
    fn sweeps_are_spread_over_the_time_and_each_partition_has_one_in_a_round() {
        let now = Instant::now();
        let mut agenda = Agenda::all_now((0..4).map(Partition::flow), SWEEP, now);
        let quiet = report(1_000_000, None);
        let mut swept = Vec::new();
        for moment in (0..=80).map(|step| now + SWEEP * step / 20) {
            while let Some(partition) = agenda.take_due(moment) {
                swept.push((partition.index, (moment - now).as_millis() / 500));
                agenda.ticked(partition, &quiet, moment);
            }
        }
        let at = |index: u16| -> Vec<u128> {
            swept.iter().filter(|(one, _)| *one == index).map(|(_, step)| *step).collect()
        };
        assert_eq!(at(0), [0, 20, 40, 60, 80]);
        assert_eq!(at(1), [0, 5, 25, 45, 65]);
        assert_eq!(at(3), [0, 15, 35, 55, 75]);
    }

    #[test]
    fn a_partition_of_budgets_without_times_is_swept_every_second_time() {
        let (begun, budgets) = (Instant::now(), Partition::budget(0));
        let mut agenda = Agenda::all_now(std::iter::once(budgets), SWEEP, begun);
        let mut swept = |now: Instant, next: Option<u64>| {
            assert_eq!(agenda.take_due(now), Some(budgets));
            agenda.ticked(budgets, &report(1_000_000, next), now);
            agenda.next().expect("it is swept") - begun
        };
        assert_eq!(swept(begun, None), SWEEP, "as it was told");
        assert_eq!(swept(begun + SWEEP, None), 3 * SWEEP);
        assert_eq!(swept(begun + 3 * SWEEP, Some(9_000_000)), 5 * SWEEP, "as it was told");
        assert_eq!(swept(begun + 5 * SWEEP, Some(9_000_000)), 6 * SWEEP);
    }

    #[test]
    fn what_is_overdue_is_looked_at_again_at_once() {
        let (mut agenda, partition, now) = one_partition();
        agenda.take_due(now);
        agenda.ticked(partition, &report(1_000_000, Some(999_000)), now);
        assert_eq!(agenda.take_due(now), Some(partition));
    }

    #[test]
    fn an_announced_timer_brings_the_look_forward_but_never_back() {
        let (mut agenda, partition, now) = one_partition();
        agenda.take_due(now);
        agenda.ticked(partition, &report(1_000_000, None), now);
        agenda.announce(partition, Some(TimestampMs::new(1_000_040)), now);
        assert_eq!(agenda.next(), Some(now + Duration::from_millis(40)));
        agenda.announce(partition, Some(TimestampMs::new(1_005_000)), now);
        assert_eq!(agenda.next(), Some(now + Duration::from_millis(40)));
    }
}
