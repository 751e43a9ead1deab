//! The layout of keys: what each key of a store is for. The only file of the audit that spells one.

use std::borrow::Cow;
use std::fmt;

use ff_core::need::Need;
use ff_core::partition::{Partition, PartitionConfig, PartitionFamily};
use ff_core::state::TerminalOutcome;
use ff_core::types::{ExecutionId, LaneId};

use crate::dump::{Dump, Stored};

/// Declares the places, one row each: its name, how its key ends, and what is stored there. Those
/// in braces belong to something with an id, which stands behind the word and a colon.
macro_rules! places {
    (
        $($owner:literal {
            $($(#[$part_doc:meta])* $part:ident $part_end:literal $part_type:ident;)*
        })*
        alone { $($(#[$doc:meta])* $name:ident $end:literal $type:ident;)* }
        others { $($(#[$other_doc:meta])* $other:ident($($inner:ty),*) $other_type:ident;)* }
    ) => {
        /// What a key of a partition is for.
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub(super) enum Place<'a> {
            $($($(#[$part_doc])* $part(&'a str),)*)*
            $($(#[$doc])* $name,)*
            $($(#[$other_doc])* $other($($inner),*),)*
        }

        impl<'a> Place<'a> {
            fn of_partition(end: &str) -> Option<Self> {
                match end {
                    $($end => Some(Self::$name),)*
                    _ => None,
                }
            }

            fn of_owner(owner: &str, id: &'a str, end: &str) -> Option<Self> {
                match (owner, end) {
                    $($(($owner, $part_end) => Some(Self::$part(id)),)*)*
                    _ => None,
                }
            }

            /// Is this the type that the place has?
            pub(super) fn fits(&self, stored: &Stored) -> bool {
                match self {
                    $($(Self::$part(_) => matches!(stored, Stored::$part_type(_)),)*)*
                    $(Self::$name => matches!(stored, Stored::$type(_)),)*
                    $(Self::$other(..) => matches!(stored, Stored::$other_type(_)),)*
                }
            }
        }

        impl fmt::Display for Place<'_> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                match self {
                    $($(Self::$part(id) => write!(f, concat!($owner, ":{}", $part_end), id),)*)*
                    $(Self::$name => f.write_str($end),)*
                    $(Self::$other(..) => self.write_other(f),)*
                }
            }
        }
    };
}

places! {
    "x" {
        /// The record of an execution.
        Record "" Hash;
        /// The tags of an execution.
        Tags ":tags" Hash;
        /// The past attempts of an execution.
        Attempts ":attempts" List;
        /// The waitpoints of an execution.
        Waitpoints ":waitpoints" Hash;
        /// The edges that begin at an execution.
        Outgoing ":out" List;
        /// The edges that end at it.
        Incoming ":in" List;
        /// What upstreams passed to it.
        Inputs ":inputs" List;
        /// Its children.
        Children ":children" List;
        /// Its budgets.
        BudgetList ":budgets" String;
        /// What a refused claim of it puts back.
        Undo ":undo" String;
    }
    "policy" {
        /// A quota policy.
        Policy "" Hash;
        /// Its gates that somebody waits for.
        Awaited ":awaited" SortedSet;
    }
    "budget" {
        /// A budget.
        Budget "" Hash;
        /// Who has used it.
        Users ":users" SortedSet;
        /// What happened to it.
        Happened ":events" List;
    }
    "wp" {
        /// A waitpoint.
        Waitpoint "" Hash;
        /// The signals of a waitpoint.
        Signals ":signals" Hash;
    }
    "f" {
        /// A flow.
        Flow "" Hash;
        /// Its members.
        Members ":m" SortedSet;
        /// Where its edges are that a caller named.
        EdgeIds ":e" Hash;
        /// Its members that could not be dealt with.
        Stuck ":stuck" SortedSet;
        /// Its tags.
        FlowTags ":tags" Hash;
    }
    alone {
        /// Every flow.
        Flows "flows" SortedSet;
        /// Flows that owe an end to members.
        Owing "owing" SortedSet;
        /// What happens later, but to what runs.
        Due "due" SortedSet;
        /// What runs.
        Leases "leases" SortedSet;
        /// What is suspended.
        Suspended "suspended" SortedSet;
        /// What must not be claimed.
        Parked "parked" SortedSet;
        /// Every execution.
        All "all" SortedSet;
        /// The events.
        Log "log" Stream;
        /// There once events were trimmed away.
        Trimmed "trimmed" String;
        /// What is remembered under idempotency keys.
        Idempotency "idem" Hash;
        /// Who has the keys of throttles.
        Throttles "throttles" Hash;
        /// The keys of waitpoint tokens.
        Secrets "secrets" Hash;
        /// What every partition knows.
        Facts "facts" Hash;
        /// The keys of approval links.
        LinkSecrets "link-secrets" Hash;
        /// The partition counts.
        Deployment "deployment" Hash;
        /// The lanes in use.
        Lanes "lanes" Set;
        /// The lanes by their last use.
        LaneUses "lane-uses" SortedSet;
        /// The connected workers.
        Workers "workers" Hash;
        /// The marks of servers.
        Marks "marks" Hash;
        /// What is owed to other partitions.
        Outbox "outbox" SortedSet;
        /// Gates that let nobody pass.
        Closed "closed" Hash;
        /// Budgets of flows and executions to come.
        Attached "attached" Hash;
        /// Every budget.
        Budgets "budgets" SortedSet;
        /// The lanes that have needs.
        Queued "queued" SortedSet;
    }
    others {
        /// A long value of an execution.
        Blob(&'a str, BlobName) String;
        /// The output of one of its attempts.
        Frames(&'a str, u32) Stream;
        /// What that output sums up to.
        Document(&'a str, u32) String;
        /// What can be claimed in a lane by those who meet its need: `lane:need`.
        Queue(Cow<'a, str>) SortedSet;
        /// The needs of a lane's queues.
        Needs(&'a str) Set;
        /// Who was served when in a fair lane.
        Shares(&'a str) SortedSet;
        /// Who waits for a singleton key: `namespace:kind:key`.
        Turns(&'a str) SortedSet;
        /// What ended this way.
        Ended(TerminalOutcome) SortedSet;
        /// What an execution has of a budget.
        Usage(&'a str, &'a str) Hash;
        /// What its reports said.
        Reports(&'a str, &'a str) Hash;
        /// Who waits at a gate.
        Gate(Cow<'a, str>) SortedSet;
        /// Who holds a place behind a gate.
        Holders(&'a str) SortedSet;
        /// Whose leases passed a gate and are over.
        Admitted(&'a str) Hash;
        /// Whom the window of a gate let pass.
        Window(&'a str) SortedSet;
        /// The partitions that wait for a gate.
        Waiting(&'a str) SortedSet;
        /// What was opened for them.
        Openings(&'a str) Hash;
    }
}

/// The values of a record that may get a key of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum BlobName {
    Payload,
    Result,
    Policy,
    Detail,
}

impl BlobName {
    pub(super) const ALL: [Self; 4] = [Self::Payload, Self::Result, Self::Policy, Self::Detail];

    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Payload => "payload",
            Self::Result => "result",
            Self::Policy => "policy",
            Self::Detail => "detail",
        }
    }
}

/// The partition and the place that a key names.
pub(super) fn parse(key: &[u8]) -> Option<(Partition, Place<'_>)> {
    let text = std::str::from_utf8(key).ok()?.strip_prefix("ff:")?;
    let (tag, rest) = text.split_at(text.find('}')? + 1);
    let partition: Partition = tag.parse().ok()?;
    let place = Place::parse(rest.strip_prefix(':')?)?;
    place.is_of(partition.family).then_some((partition, place))
}

/// The key of a place.
pub(super) fn name(partition: Partition, place: &Place<'_>) -> String {
    format!("{}:{place}", partition.key())
}

/// The key of the deployment's record, for those who must look at it before any library runs.
pub fn deployment_key() -> String {
    name(Partition::flow(0), &Place::Deployment)
}

/// Does this key hold what signs tokens or links?
pub fn is_secret(key: &[u8]) -> bool {
    matches!(parse(key), Some((_, Place::Secrets | Place::LinkSecrets)))
}

/// Does this key hold the marks that servers leave in a Valkey? They mean nothing elsewhere.
pub fn is_mark(key: &[u8]) -> bool {
    matches!(parse(key), Some((_, Place::Marks)))
}

/// The counts that the deployment of a dump was created with; the default ones if it was never
/// opened.
pub fn partition_config(dump: &Dump) -> PartitionConfig {
    let default = PartitionConfig::default();
    let key = name(Partition::flow(0), &Place::Deployment);
    let Some(Stored::Hash(fields)) = dump.get(key.as_bytes()) else { return default };
    let count = |name: &[u8], default: u16| {
        let text = fields.get(name).and_then(|value| std::str::from_utf8(value).ok());
        text.and_then(|text| text.parse().ok()).unwrap_or(default)
    };
    PartitionConfig {
        num_flow_partitions: count(b"flow", default.num_flow_partitions),
        num_budget_partitions: count(b"budget", default.num_budget_partitions),
        num_quota_partitions: count(b"quota", default.num_quota_partitions),
    }
}

impl<'a> Place<'a> {
    fn parse(rest: &'a str) -> Option<Self> {
        Self::of_partition(rest).or_else(|| match rest.split_once(':')? {
            ("q", name) => queue(name),
            ("needs", lane) => LaneId::try_new(lane).is_ok().then_some(Self::Needs(lane)),
            ("shares", lane) => LaneId::try_new(lane).is_ok().then_some(Self::Shares(lane)),
            ("turns", name) => (name.split(':').count() == 3).then_some(Self::Turns(name)),
            ("ended", outcome) => ended(outcome),
            ("gate", gate) => is_gate(gate).then_some(Self::Gate(Cow::Borrowed(gate))),
            ("holders", gate) => is_gate(gate).then_some(Self::Holders(gate)),
            ("admitted", gate) => is_gate(gate).then_some(Self::Admitted(gate)),
            ("window", gate) => is_gate(gate).then_some(Self::Window(gate)),
            ("waiting", gate) => is_gate(gate).then_some(Self::Waiting(gate)),
            ("openings", gate) => is_gate(gate).then_some(Self::Openings(gate)),
            (owner, named) => {
                let (uuid, end) = named.split_at_checked(UUID_BYTES)?;
                let place = Self::of_owner(owner, uuid, end);
                let place = place.or_else(|| Self::of_execution(owner, uuid, end));
                let place = place.or_else(|| Self::of_budget(owner, uuid, end));
                place.filter(|_| is_uuid(uuid.as_bytes()))
            }
        })
    }

    /// What an execution has one of for each attempt or name.
    fn of_execution(owner: &str, uuid: &'a str, end: &str) -> Option<Self> {
        let part = end.strip_prefix(':').filter(|_| owner == "x")?;
        if let Some(attempt) = part.strip_prefix("s:") {
            return Self::of_attempt(uuid, attempt);
        }
        let name = BlobName::ALL.into_iter().find(|name| name.as_str() == part)?;
        Some(Self::Blob(uuid, name))
    }

    /// What a budget has one of for each execution.
    fn of_budget(owner: &str, id: &'a str, end: &'a str) -> Option<Self> {
        let named = end.strip_prefix(":of:").filter(|_| owner == "budget")?;
        let (execution, is_reports) = match named.strip_suffix(":reports") {
            Some(execution) => (execution, true),
            None => (named, false),
        };
        execution.parse::<ExecutionId>().ok()?;
        Some(if is_reports { Self::Reports(id, execution) } else { Self::Usage(id, execution) })
    }

    fn of_attempt(uuid: &'a str, text: &str) -> Option<Self> {
        let (index, is_document) = match text.strip_suffix(":d") {
            Some(index) => (index, true),
            None => (text, false),
        };
        let number: u32 = index.parse().ok().filter(|number: &u32| number.to_string() == index)?;
        Some(if is_document { Self::Document(uuid, number) } else { Self::Frames(uuid, number) })
    }

    fn write_other(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Blob(uuid, name) => write!(f, "x:{uuid}:{}", name.as_str()),
            Self::Frames(uuid, attempt) => write!(f, "x:{uuid}:s:{attempt}"),
            Self::Document(uuid, attempt) => write!(f, "x:{uuid}:s:{attempt}:d"),
            Self::Queue(name) => write!(f, "q:{name}"),
            Self::Needs(lane) => write!(f, "needs:{lane}"),
            Self::Shares(lane) => write!(f, "shares:{lane}"),
            Self::Usage(id, execution) => write!(f, "budget:{id}:of:{execution}"),
            Self::Reports(id, execution) => write!(f, "budget:{id}:of:{execution}:reports"),
            Self::Turns(name) => write!(f, "turns:{name}"),
            Self::Ended(outcome) => write!(f, "ended:{outcome}"),
            Self::Gate(gate) => write!(f, "gate:{gate}"),
            Self::Holders(gate) => write!(f, "holders:{gate}"),
            Self::Admitted(gate) => write!(f, "admitted:{gate}"),
            Self::Window(gate) => write!(f, "window:{gate}"),
            Self::Waiting(gate) => write!(f, "waiting:{gate}"),
            Self::Openings(gate) => write!(f, "openings:{gate}"),
            _ => Ok(()),
        }
    }

    /// Is this a place of partitions of this family?
    fn is_of(&self, family: PartitionFamily) -> bool {
        match self {
            Self::Due | Self::Outbox => true,
            Self::Waiting(_) | Self::Openings(_) => family != PartitionFamily::Flow,
            Self::Policy(_)
            | Self::Admitted(_)
            | Self::Awaited(_)
            | Self::Holders(_)
            | Self::Window(_) => family == PartitionFamily::Quota,
            Self::Budgets
            | Self::Budget(_)
            | Self::Users(_)
            | Self::Happened(_)
            | Self::Usage(..)
            | Self::Reports(..) => family == PartitionFamily::Budget,
            _ => family == PartitionFamily::Flow,
        }
    }

    /// Facts about the whole deployment live in the first partition alone.
    pub(super) fn only_in_first(&self) -> bool {
        matches!(self, Self::Deployment | Self::LinkSecrets | Self::Lanes | Self::LaneUses)
    }
}

/// A lane, and what those who wait there need.
fn queue(name: &str) -> Option<Place<'_>> {
    let (lane, need) = name.split_once(':')?;
    let known = LaneId::try_new(lane).is_ok() && need.parse::<Need>().is_ok();
    known.then_some(Place::Queue(Cow::Borrowed(name)))
}

/// The gate of a quota policy's key, `q:<id>:<key>`, or of a budget, `b:<id>`.
pub(super) fn is_gate(gate: &str) -> bool {
    let Some((kind, rest)) = gate.split_once(':') else { return false };
    let Some((id, key)) = rest.split_at_checked(UUID_BYTES) else { return false };
    is_uuid(id.as_bytes())
        && match kind {
            "q" => key.starts_with(':'),
            "b" => key.is_empty(),
            _ => false,
        }
}

fn ended(outcome: &str) -> Option<Place<'_>> {
    let outcome: TerminalOutcome = outcome.parse().ok()?;
    (outcome != TerminalOutcome::None).then_some(Place::Ended(outcome))
}

const UUID_BYTES: usize = 36;

/// Lower-case and hyphenated: the one spelling of an id.
pub(super) fn is_uuid(text: &[u8]) -> bool {
    text.len() == UUID_BYTES
        && text.iter().enumerate().all(|(at, byte)| match at {
            8 | 13 | 18 | 23 => *byte == b'-',
            _ => matches!(byte, b'0'..=b'9' | b'a'..=b'f'),
        })
}
