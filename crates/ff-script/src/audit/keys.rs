//! The layout of keys: what each key of a store is for. The only file of the audit that spells one.

use std::fmt;

use ff_core::partition::{Partition, PartitionConfig, PartitionFamily};
use ff_core::state::TerminalOutcome;
use ff_core::types::LaneId;

use crate::dump::{Dump, Stored};

/// What a key of a partition is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Place<'a> {
    /// The record of an execution.
    Record(&'a str),
    /// A long value of an execution.
    Blob(&'a str, BlobName),
    /// The tags of an execution.
    Tags(&'a str),
    /// The past attempts of an execution.
    Attempts(&'a str),
    /// The output of one of its attempts.
    Frames(&'a str, u32),
    /// What that output sums up to.
    Document(&'a str, u32),
    /// The waitpoints of an execution.
    Waitpoints(&'a str),
    /// A waitpoint.
    Waitpoint(&'a str),
    /// The signals of a waitpoint.
    Signals(&'a str),
    /// The edges that begin at an execution.
    Outgoing(&'a str),
    /// The edges that end at it.
    Incoming(&'a str),
    /// What upstreams passed to it.
    Inputs(&'a str),
    /// Its children.
    Children(&'a str),
    /// A flow.
    Flow(&'a str),
    /// Its members.
    Members(&'a str),
    /// Where its edges are that a caller named.
    EdgeIds(&'a str),
    /// Its members that could not be dealt with.
    Stuck(&'a str),
    /// Its tags.
    FlowTags(&'a str),
    /// Every flow.
    Flows,
    /// Flows that owe an end to members.
    Owing,
    /// What can be claimed in a lane.
    Queue(&'a str),
    /// What happens later, but to what runs.
    Due,
    /// What runs.
    Leases,
    /// What is suspended.
    Suspended,
    /// Every execution.
    All,
    /// What ended this way.
    Ended(TerminalOutcome),
    /// The events.
    Log,
    /// There once events were trimmed away.
    Trimmed,
    /// What is remembered under idempotency keys.
    Idempotency,
    /// The keys of waitpoint tokens.
    Secrets,
    /// The keys of approval links.
    LinkSecrets,
    /// The partition counts.
    Deployment,
    /// The lanes in use.
    Lanes,
    /// The connected workers.
    Workers,
    /// The marks of servers.
    Marks,
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
    (partition.family == PartitionFamily::Flow).then_some((partition, place))
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
        match rest {
            "due" => Some(Self::Due),
            "leases" => Some(Self::Leases),
            "suspended" => Some(Self::Suspended),
            "all" => Some(Self::All),
            "log" => Some(Self::Log),
            "trimmed" => Some(Self::Trimmed),
            "idem" => Some(Self::Idempotency),
            "secrets" => Some(Self::Secrets),
            "link-secrets" => Some(Self::LinkSecrets),
            "deployment" => Some(Self::Deployment),
            "lanes" => Some(Self::Lanes),
            "workers" => Some(Self::Workers),
            "marks" => Some(Self::Marks),
            "flows" => Some(Self::Flows),
            "owing" => Some(Self::Owing),
            _ => match rest.split_once(':')? {
                ("q", lane) => LaneId::try_new(lane).is_ok().then_some(Self::Queue(lane)),
                ("ended", outcome) => ended(outcome),
                ("x", execution) => Self::of_execution(execution),
                ("wp", waitpoint) => Self::of_waitpoint(waitpoint),
                ("f", flow) => Self::of_flow(flow),
                _ => None,
            },
        }
    }

    fn of_execution(text: &'a str) -> Option<Self> {
        let (uuid, part) = text.split_once(':').unwrap_or((text, ""));
        if !is_uuid(uuid.as_bytes()) {
            return None;
        }
        match part {
            "" if text.len() == uuid.len() => Some(Self::Record(uuid)),
            "tags" => Some(Self::Tags(uuid)),
            "attempts" => Some(Self::Attempts(uuid)),
            _ if part.starts_with("s:") => Self::of_attempt(uuid, &part[2..]),
            "waitpoints" => Some(Self::Waitpoints(uuid)),
            "out" => Some(Self::Outgoing(uuid)),
            "in" => Some(Self::Incoming(uuid)),
            "inputs" => Some(Self::Inputs(uuid)),
            "children" => Some(Self::Children(uuid)),
            _ => {
                let name = BlobName::ALL.into_iter().find(|name| name.as_str() == part)?;
                Some(Self::Blob(uuid, name))
            }
        }
    }

    fn of_attempt(uuid: &'a str, text: &str) -> Option<Self> {
        let (index, is_document) = match text.strip_suffix(":d") {
            Some(index) => (index, true),
            None => (text, false),
        };
        let number: u32 = index.parse().ok().filter(|number: &u32| number.to_string() == index)?;
        Some(if is_document { Self::Document(uuid, number) } else { Self::Frames(uuid, number) })
    }

    fn of_waitpoint(text: &'a str) -> Option<Self> {
        let (uuid, part) = text.split_once(':').unwrap_or((text, ""));
        match part {
            _ if !is_uuid(uuid.as_bytes()) => None,
            "" if text.len() == uuid.len() => Some(Self::Waitpoint(uuid)),
            "signals" => Some(Self::Signals(uuid)),
            _ => None,
        }
    }

    fn of_flow(text: &'a str) -> Option<Self> {
        let (uuid, part) = text.split_once(':').unwrap_or((text, ""));
        match part {
            _ if !is_uuid(uuid.as_bytes()) => None,
            "" if text.len() == uuid.len() => Some(Self::Flow(uuid)),
            "m" => Some(Self::Members(uuid)),
            "e" => Some(Self::EdgeIds(uuid)),
            "stuck" => Some(Self::Stuck(uuid)),
            "tags" => Some(Self::FlowTags(uuid)),
            _ => None,
        }
    }

    /// Is this the type that the place has?
    pub(super) fn fits(&self, stored: &Stored) -> bool {
        match self {
            Self::Record(_)
            | Self::Tags(_)
            | Self::Waitpoints(_)
            | Self::Waitpoint(_)
            | Self::Signals(_)
            | Self::Flow(_)
            | Self::EdgeIds(_)
            | Self::FlowTags(_)
            | Self::Secrets
            | Self::LinkSecrets
            | Self::Idempotency
            | Self::Deployment
            | Self::Workers
            | Self::Marks => matches!(stored, Stored::Hash(_)),
            Self::Blob(..) | Self::Document(..) | Self::Trimmed => {
                matches!(stored, Stored::String(_))
            }
            Self::Attempts(_)
            | Self::Outgoing(_)
            | Self::Incoming(_)
            | Self::Inputs(_)
            | Self::Children(_) => matches!(stored, Stored::List(_)),
            Self::Queue(_)
            | Self::Due
            | Self::Leases
            | Self::Suspended
            | Self::All
            | Self::Flows
            | Self::Owing
            | Self::Members(_)
            | Self::Stuck(_)
            | Self::Ended(_) => matches!(stored, Stored::SortedSet(_)),
            Self::Log | Self::Frames(..) => matches!(stored, Stored::Stream(_)),
            Self::Lanes => matches!(stored, Stored::Set(_)),
        }
    }

    /// Facts about the whole deployment live in the first partition alone.
    pub(super) fn only_in_first(&self) -> bool {
        matches!(self, Self::Deployment | Self::LinkSecrets | Self::Lanes | Self::Workers)
    }
}

fn ended(outcome: &str) -> Option<Place<'_>> {
    let outcome: TerminalOutcome = outcome.parse().ok()?;
    (outcome != TerminalOutcome::None).then_some(Place::Ended(outcome))
}

impl fmt::Display for Place<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Record(uuid) => write!(f, "x:{uuid}"),
            Self::Blob(uuid, name) => write!(f, "x:{uuid}:{}", name.as_str()),
            Self::Tags(uuid) => write!(f, "x:{uuid}:tags"),
            Self::Attempts(uuid) => write!(f, "x:{uuid}:attempts"),
            Self::Frames(uuid, attempt) => write!(f, "x:{uuid}:s:{attempt}"),
            Self::Document(uuid, attempt) => write!(f, "x:{uuid}:s:{attempt}:d"),
            Self::Waitpoints(uuid) => write!(f, "x:{uuid}:waitpoints"),
            Self::Waitpoint(id) => write!(f, "wp:{id}"),
            Self::Signals(id) => write!(f, "wp:{id}:signals"),
            Self::Outgoing(uuid) => write!(f, "x:{uuid}:out"),
            Self::Incoming(uuid) => write!(f, "x:{uuid}:in"),
            Self::Inputs(uuid) => write!(f, "x:{uuid}:inputs"),
            Self::Children(uuid) => write!(f, "x:{uuid}:children"),
            Self::Flow(id) => write!(f, "f:{id}"),
            Self::Members(id) => write!(f, "f:{id}:m"),
            Self::EdgeIds(id) => write!(f, "f:{id}:e"),
            Self::Stuck(id) => write!(f, "f:{id}:stuck"),
            Self::FlowTags(id) => write!(f, "f:{id}:tags"),
            Self::Flows => f.write_str("flows"),
            Self::Owing => f.write_str("owing"),
            Self::Queue(lane) => write!(f, "q:{lane}"),
            Self::Due => f.write_str("due"),
            Self::Leases => f.write_str("leases"),
            Self::Suspended => f.write_str("suspended"),
            Self::All => f.write_str("all"),
            Self::Ended(outcome) => write!(f, "ended:{outcome}"),
            Self::Log => f.write_str("log"),
            Self::Trimmed => f.write_str("trimmed"),
            Self::Idempotency => f.write_str("idem"),
            Self::Secrets => f.write_str("secrets"),
            Self::LinkSecrets => f.write_str("link-secrets"),
            Self::Deployment => f.write_str("deployment"),
            Self::Lanes => f.write_str("lanes"),
            Self::Workers => f.write_str("workers"),
            Self::Marks => f.write_str("marks"),
        }
    }
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
