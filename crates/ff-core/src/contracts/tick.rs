//! What became of the things that were due.

use crate::types::TimestampMs;

/// What a tick may do in one partition, and what its caller will do next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TickRequest {
    /// Things it may do; more are left to the next one.
    pub items_max: u32,
    /// The caller looks at the partition again after this long at the latest, and earlier when a
    /// push tells it to. Whoever ticks only once says nothing.
    pub next_look_ms: Option<u64>,
    /// Tells those who wait for work what lies in the queues, in case that a push was lost.
    pub announce: bool,
    /// What the partition owed and was carried out.
    pub settled: Vec<Vec<u8>>,
}

impl TickRequest {
    /// A tick by somebody who does not come back.
    pub const fn once(items_max: u32) -> Self {
        Self { items_max, next_look_ms: None, announce: false, settled: Vec::new() }
    }
}

/// What one tick did in one partition, and when the next is needed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TickReport {
    /// Delays and backoffs that were over: executions became claimable.
    pub promoted: u32,
    /// Leases that ran out.
    pub lapsed: u32,
    /// Attempts that ran out of time.
    pub timed_out: u32,
    /// Executions that reached their deadline.
    pub expired: u32,
    /// Ended executions whose retention time was over.
    pub purged: u32,
    /// Grants that ran out unused: executions became claimable again.
    pub granted_back: u32,
    /// Registrations of workers, what was left of purged executions, and output, whose time was
    /// over.
    pub forgotten: u32,
    /// Entries that were not due after all and were put where they belong.
    pub corrected: u32,
    /// Suspensions that lasted as long as they might.
    pub suspensions: u32,
    /// Waitpoints that nobody was suspended on in time.
    pub waitpoints: u32,
    /// Steps of what is done to all members of a flow.
    pub flows: u32,
    /// Ended executions that told more of those who wait for them.
    pub edges: u32,
    /// Flows of the partition that owe an end to members: they are being cancelled, or some could
    /// not be.
    pub owing: u32,
    /// Gates that were looked at because more may pass.
    pub gates: u32,
    /// What the partition owes to others, which the caller is to carry out now.
    pub owed: Vec<Owed>,
    /// When the next thing is due; none if nothing waits for time.
    pub next_due_at: Option<TimestampMs>,
    /// How late the most overdue thing was when this tick came.
    pub late_ms: u64,
    /// The store's time at the tick, for computing how long to sleep.
    pub now: TimestampMs,
    /// True if more was due than one tick does: tick again at once.
    pub more: bool,
}

impl TickReport {
    /// How much was done altogether.
    pub const fn total(&self) -> u64 {
        self.promoted as u64
            + self.lapsed as u64
            + self.timed_out as u64
            + self.expired as u64
            + self.purged as u64
            + self.granted_back as u64
            + self.forgotten as u64
            + self.corrected as u64
            + self.suspensions as u64
            + self.waitpoints as u64
            + self.flows as u64
            + self.edges as u64
            + self.gates as u64
    }
}

/// Something that a partition owes to another one. Carrying it out twice does no harm.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owed {
    /// What, as the partition wrote it down; named again when it is done.
    pub entry: Vec<u8>,
    /// What is to be told with it, as it is now.
    pub told: String,
}
