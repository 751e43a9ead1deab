//! What the engine has done, in numbers.

use std::sync::atomic::{AtomicU64, Ordering};

use ff_core::contracts::TickReport;

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident),* $(,)?) => {
        /// Counters since the start. Reading them is cheap and never blocks.
        #[derive(Debug, Default)]
        pub struct EngineStats { $($name: AtomicU64),* }

        impl EngineStats {
            $($(#[$doc])*
            pub fn $name(&self) -> u64 {
                self.$name.load(Ordering::Relaxed)
            })*
        }
    };
}

counters! {
    /// Ticks that were answered.
    ticks,
    /// Ticks that failed.
    failures,
    /// Delays that ended.
    promoted,
    /// Leases that lapsed.
    lapsed,
    /// Attempts that ran out of time.
    timed_out,
    /// Executions that reached their deadline.
    expired,
    /// Grants that were not used.
    granted_back,
    /// Executions that were removed after their retention.
    purged,
    /// Idempotency keys whose window ended.
    forgotten,
    /// Index entries that had to be put right.
    corrected,
    /// How late the latest tick that found something due was, in milliseconds.
    late_ms,
    /// How late any tick ever was, in milliseconds.
    late_ms_max,
    /// How many partitions it looks after now.
    partitions,
    /// How many flows of those partitions owe an end to members.
    owing,
}

impl EngineStats {
    pub(crate) fn count(&self, report: &TickReport) {
        let add = |counter: &AtomicU64, number: u32| {
            counter.fetch_add(u64::from(number), Ordering::Relaxed);
        };
        if report.total() > 0 {
            self.late_ms.store(report.late_ms, Ordering::Relaxed);
            self.late_ms_max.fetch_max(report.late_ms, Ordering::Relaxed);
        }
        add(&self.ticks, 1);
        add(&self.promoted, report.promoted);
        add(&self.lapsed, report.lapsed);
        add(&self.timed_out, report.timed_out);
        add(&self.expired, report.expired);
        add(&self.granted_back, report.granted_back);
        add(&self.purged, report.purged);
        add(&self.forgotten, report.forgotten);
        add(&self.corrected, report.corrected);
    }

    pub(crate) fn set_partitions(&self, count: usize) {
        self.partitions.store(count as u64, Ordering::Relaxed);
    }

    pub(crate) fn set_owing(&self, count: u64) {
        self.owing.store(count, Ordering::Relaxed);
    }

    pub(crate) fn count_failure(&self) {
        self.failures.fetch_add(1, Ordering::Relaxed);
    }
}
