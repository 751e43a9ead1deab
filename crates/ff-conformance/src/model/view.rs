//! What a copy of a store says about executions and indexes.

use ff_core::partition::Partition;
use ff_script::dump::{Dump, Sorted, Stored, StreamEntry};
use ff_script::value::Value;
use ff_script::wire::{Packed, Reading};

/// The fields that rules look at, by their stored names.
pub(super) mod field {
    pub(crate) const STATE: &str = "st";
    pub(crate) const LANE: &str = "la";
    pub(crate) const KIND: &str = "ki";
    pub(crate) const NAMESPACE: &str = "ns";
    pub(crate) const CREATED_AT: &str = "ct";
    pub(crate) const AGEING_MS: &str = "ag";
    pub(crate) const CAPABILITIES: &str = "ca";
    pub(crate) const DEADLINE_AT: &str = "dl";
    pub(crate) const DEADLINE_MS: &str = "dm";
    pub(crate) const ATTEMPT_TIMEOUT_MS: &str = "at";
    pub(crate) const RETRY_RULE: &str = "rr";
    pub(crate) const RECLAIMS_MAX: &str = "mc";
    pub(crate) const REPLAYS_MAX: &str = "mp";
    pub(crate) const FAILURE_REASON: &str = "fr";
    pub(crate) const FAILURE_CATEGORY: &str = "fc";
    pub(crate) const DELAY_UNTIL: &str = "du";
    pub(crate) const TIMEOUT_AT: &str = "ta";
    pub(crate) const NEXT_ATTEMPT: &str = "nx";
    pub(crate) const ATTEMPT_COUNT: &str = "ac";
    pub(crate) const WAITS_AGAIN: &str = "wg";
    pub(crate) const ATTEMPT_ID: &str = "ai";
    pub(crate) const LEASE_ID: &str = "li";
    pub(crate) const LEASE_EPOCH: &str = "ep";
    pub(crate) const LEASE_EXPIRES_AT: &str = "le";
    pub(crate) const WORKER_INSTANCE_ID: &str = "wi";
    pub(crate) const GRANT_ID: &str = "gi";
    pub(crate) const GRANT_KIND: &str = "gk";
    pub(crate) const GRANT_WORKER_ID: &str = "gw";
    pub(crate) const GRANT_INSTANCE_ID: &str = "gn";
    pub(crate) const GRANT_EXPIRES_AT: &str = "gx";
    pub(crate) const ENDED_AT: &str = "et";
    pub(crate) const RETENTION_MS: &str = "re";
    pub(crate) const REMEMBERED_UNTIL: &str = "iu";
    pub(crate) const RETRY_COUNT: &str = "rc";
    pub(crate) const RECLAIM_COUNT: &str = "rl";
    pub(crate) const REPLAY_COUNT: &str = "rp";
    pub(crate) const TAGGED: &str = "tg";
    pub(crate) const REQUESTS: &str = "rq";
    pub(crate) const STREAM_RULE: &str = "sr";
    pub(crate) const FRAMES: &str = "fm";
    pub(crate) const KEPT_FROM: &str = "kf";
    pub(crate) const MUTATION_AT: &str = "lm";
    pub(crate) const SUSPEND_UNTIL: &str = "su";
    pub(crate) const WAITPOINT_ID: &str = "wp";
    pub(crate) const FLOW_ID: &str = "fl";
    pub(crate) const KEPT: &str = "kp";
    pub(crate) const PARK_REASON: &str = "kr";
    pub(crate) const QUOTA_ID: &str = "qi";
    pub(crate) const QUOTA_KEY: &str = "qk";
    pub(crate) const BUDGETS: &str = "bg";
    pub(crate) const BUDGET_AWAITED: &str = "ba";
    pub(crate) const PASSES: &str = "ps";
    pub(crate) const CANCELLED_BY: &str = "cb";
    /// What others of a flow change in the record of a member that is over.
    pub(crate) const OF_OTHERS: [&str; 6] = ["dp", "eo", "er", "rk", "ic", "kp"];
    /// What is decided when an execution is created, and never again.
    pub(crate) const FIXED: [&str; 30] = [
        "sm", "sb", "sx", "ct", "iu", "la", "ki", "ns", "by", "ca", "dm", "at", "rr", "sr", "mc",
        "mp", "re", "ag", "in", "in2", "in3", "in4", "po", "po2", "po3", "po4", "id", "id2", "id3",
        "id4",
    ];
}

/// The record of one execution.
#[derive(Clone, Copy)]
pub(super) struct Fields<'a>(pub(super) &'a Sorted<Vec<u8>>);

impl<'a> Fields<'a> {
    pub(super) fn bytes(self, name: &str) -> Option<&'a [u8]> {
        self.0.get(name.as_bytes()).map(Vec::as_slice)
    }

    pub(super) fn text(self, name: &str) -> &'a str {
        self.bytes(name).and_then(|bytes| std::str::from_utf8(bytes).ok()).unwrap_or("")
    }

    pub(super) fn number(self, name: &str) -> Option<u64> {
        self.text(name).parse().ok()
    }

    /// A counter: absent means none yet.
    pub(super) fn count(self, name: &str) -> u64 {
        self.number(name).unwrap_or(0)
    }

    pub(super) fn state(self) -> &'a str {
        self.text(field::STATE)
    }

    pub(super) fn is_ended(self) -> bool {
        matches!(self.state(), "success" | "failed" | "cancelled" | "expired" | "skipped")
    }

    /// The flow that it is a member of, or nothing.
    pub(super) fn flow_id(self) -> &'a str {
        self.text(field::FLOW_ID)
    }

    /// Has it begun, and does no replay let it wait for its upstreams again?
    pub(super) fn has_begun(self) -> bool {
        self.count(field::ATTEMPT_COUNT) > 0 && self.bytes(field::WAITS_AGAIN).is_none()
    }

    pub(super) fn is_lost(self) -> bool {
        matches!(self.state(), "lapsed" | "revoked")
    }

    /// Does an operator keep it from being claimed?
    pub(super) fn is_held(self) -> bool {
        self.text(field::PARK_REASON) == "paused_by_operator"
    }

    /// Has it to pass gates?
    pub(super) fn is_gated(self) -> bool {
        self.bytes(field::QUOTA_ID).is_some() || self.bytes(field::BUDGETS).is_some()
    }

    /// Is this its gate under a quota?
    pub(super) fn has_gate(self, gate: &str) -> bool {
        let (id, key) = (self.text(field::QUOTA_ID), self.text(field::QUOTA_KEY));
        gate == format!("q:{id}:{key}")
    }

    /// The gate that it waits at, if it does.
    pub(super) fn gate(self) -> Option<String> {
        match (self.state(), self.text(field::PARK_REASON)) {
            ("parked", "waiting_for_quota") => {
                let (id, key) = (self.text(field::QUOTA_ID), self.text(field::QUOTA_KEY));
                Some(format!("q:{id}:{key}"))
            }
            ("parked", "waiting_for_budget") => {
                Some(format!("b:{}", self.text(field::BUDGET_AWAITED)))
            }
            _ => None,
        }
    }

    /// An attempt goes by the id of the lease that began it unless it has one of its own.
    pub(super) fn attempt_id(self) -> &'a str {
        match self.text(field::ATTEMPT_ID) {
            "" => self.text(field::LEASE_ID),
            own => own,
        }
    }

    /// A claim starts nothing that is past its deadline.
    pub(super) fn in_time(self, now: u64) -> bool {
        self.number(field::DEADLINE_AT).is_none_or(|deadline_at| deadline_at > now)
    }
}

/// One partition of a copy of a store.
#[derive(Clone, Copy)]
pub(super) struct View<'a> {
    dump: &'a Dump,
    partition: Partition,
}

impl<'a> View<'a> {
    pub(super) fn new(dump: &'a Dump, partition: Partition) -> Self {
        Self { dump, partition }
    }

    pub(super) fn stored(self, rest: &str) -> Option<&'a Stored> {
        self.dump.get(format!("{}:{rest}", self.partition.key()).as_bytes())
    }

    /// The record of an execution; what is left of a purged one is none.
    pub(super) fn record(self, uuid: &str) -> Option<Fields<'a>> {
        match self.stored(&format!("x:{uuid}")) {
            Some(Stored::Hash(fields)) => {
                Some(Fields(fields)).filter(|record| !record.state().is_empty())
            }
            _ => None,
        }
    }

    /// A hash by its key.
    pub(super) fn hash(self, rest: &str) -> Option<Fields<'a>> {
        match self.stored(rest) {
            Some(Stored::Hash(fields)) => Some(Fields(fields)),
            _ => None,
        }
    }

    /// The record of a flow.
    pub(super) fn flow(self, id: &str) -> Option<Fields<'a>> {
        match self.stored(&format!("f:{id}")) {
            Some(Stored::Hash(fields)) => Some(Fields(fields)),
            _ => None,
        }
    }

    /// The flow that an execution is a member of.
    pub(super) fn flow_of(self, record: Fields<'_>) -> Option<Fields<'a>> {
        self.flow(record.flow_id())
    }

    /// The members of a flow.
    pub(super) fn members(self, id: &str) -> impl Iterator<Item = &'a str> {
        self.ranked(&format!("f:{id}:m")).into_iter().map(|(uuid, _)| uuid)
    }

    /// What is live and has a time: what runs first, each by its time.
    pub(super) fn timed(self) -> impl Iterator<Item = (&'a str, f64)> {
        LIVE.into_iter().flat_map(move |index| self.ranked(index))
    }

    /// The queues of a lane, by the need of what is in them.
    pub(super) fn needs(self, lane: &str) -> Vec<&'a str> {
        let begin = format!("{}:q:{lane}:", self.partition.key()).into_bytes();
        let queues = self.dump.range(begin.clone()..).map(|(key, _)| key);
        let queues = queues.take_while(|key| key.starts_with(&begin));
        queues.filter_map(|key| std::str::from_utf8(&key[begin.len()..]).ok()).collect()
    }

    /// What can be claimed in a lane, best first.
    pub(super) fn queued(self, lane: &str) -> Vec<(&'a str, f64)> {
        let queues = self.needs(lane).into_iter();
        let mut all: Vec<_> =
            queues.flat_map(|need| self.ranked(&format!("q:{lane}:{need}"))).collect();
        all.sort_by(|left, right| left.1.total_cmp(&right.1).then(left.0.cmp(right.0)));
        all
    }

    /// The members of an index, lowest score first.
    pub(super) fn ranked(self, rest: &str) -> Vec<(&'a str, f64)> {
        let Some(Stored::SortedSet(members)) = self.stored(rest) else { return Vec::new() };
        let named = |(member, score): (&'a Vec<u8>, &f64)| {
            (std::str::from_utf8(member).unwrap_or(""), *score)
        };
        let mut ranked: Vec<(&str, f64)> = members.iter().map(named).collect();
        // Members of one score are in the order of their bytes already.
        ranked.sort_by(|left, right| left.1.total_cmp(&right.1));
        ranked
    }

    /// A long value of an execution, wherever it is kept.
    pub(super) fn blob(self, uuid: &str, name: &str) -> Vec<u8> {
        if let Some(Stored::String(bytes)) = self.stored(&format!("x:{uuid}:{name}")) {
            return bytes.clone();
        }
        let short = match name {
            "payload" => "in",
            "result" => "out",
            "policy" => "po",
            _ => "de",
        };
        let Some(record) = self.record(uuid) else { return Vec::new() };
        let pieces = ["", "2", "3", "4"].map(|number| format!("{short}{number}"));
        pieces.iter().filter_map(|piece| record.bytes(piece)).flatten().copied().collect()
    }

    /// A waitpoint by its id.
    pub(super) fn waitpoint(self, id: &str) -> Option<Waitpoint<'a>> {
        let hash = |rest: String| match self.stored(&rest) {
            Some(Stored::Hash(fields)) => Some(Fields(fields)),
            _ => None,
        };
        let fields = hash(format!("wp:{id}"))?;
        Some(Waitpoint { fields, signals: hash(format!("wp:{id}:signals")) })
    }

    pub(super) fn log(self) -> &'a [StreamEntry] {
        match self.stored("log") {
            Some(Stored::Stream(entries)) => entries,
            _ => &[],
        }
    }

    pub(super) fn past_attempts(self, uuid: &str) -> &'a [Vec<u8>] {
        match self.stored(&format!("x:{uuid}:attempts")) {
            Some(Stored::List(lines)) => lines,
            _ => &[],
        }
    }
}

/// A waitpoint of a copy of a store.
#[derive(Clone, Copy)]
pub(super) struct Waitpoint<'a> {
    fields: Fields<'a>,
    signals: Option<Fields<'a>>,
}

impl<'a> Waitpoint<'a> {
    pub(super) fn text(&self, name: &str) -> &'a str {
        self.fields.text(name)
    }

    /// Name and sender of each signal, in their order.
    pub(super) fn signals(&self) -> Vec<(String, String)> {
        let packed = |number: u64| {
            let bytes = self.signals?.bytes(&number.to_string())?.to_vec();
            let parts = Packed::read(Value::Bytes(bytes))?.0;
            let text = |place: usize| String::from_utf8(parts.get(place)?.clone()).ok();
            Some((text(1)?, text(4)?))
        };
        (1..=self.fields.count("count")).filter_map(packed).collect()
    }
}

/// Every execution of a copy of a store.
pub(super) fn records(dump: &Dump) -> impl Iterator<Item = Fields<'_>> {
    dump.iter().filter_map(|(key, stored)| match stored {
        Stored::Hash(fields) if is_record(key) => {
            Some(Fields(fields)).filter(|record| !record.state().is_empty())
        }
        _ => None,
    })
}

fn is_record(key: &[u8]) -> bool {
    let text = std::str::from_utf8(key).unwrap_or("");
    let uuid = text.split_once("}:x:").map(|(_, uuid)| uuid);
    uuid.is_some_and(|uuid| !uuid.contains(':'))
}

/// The indexes of what is live by time: what runs, and all else.
pub(super) const LIVE: [&str; 2] = ["leases", "due"];

/// The indexes by time: what is due, and what is over by its purge time.
pub(super) const TIMED: [&str; 7] = [
    "leases",
    "due",
    "ended:success",
    "ended:failed",
    "ended:cancelled",
    "ended:expired",
    "ended:skipped",
];
