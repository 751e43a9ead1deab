//! Why an execution does not run.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::snapshot::{CancelSummary, FailureSummary, HoldSummary};
use crate::ToSchema;
use crate::capability::CapabilitySet;
use crate::operation::{Method, Nothing, Operation};
use crate::state::{BlockingReason, PublicState};
use crate::types::{
    BudgetId, ExecutionId, ExecutionKind, LaneId, Namespace, QuotaPolicyId, TimestampMs,
    WaitpointId, WorkerId, WorkerInstanceId,
};

/// Asks why an execution does not run.
#[derive(Clone, Copy, Debug)]
pub struct Explain;

impl Operation for Explain {
    type Target = ExecutionId;
    type Request = Nothing;
    type Reply = Explanation;

    const METHOD: Method = Method::Get;
    const PATH: &'static str = "/v1/executions/{execution_id}/why";
    const NAME: &'static str = "explainExecution";
    const SUMMARY: &'static str = "Why an execution does not run, and since when.";
    const ANSWERS: &'static str = "What it waits for, where it runs, or how it ended.";
    const ABOUT: &'static str = "Workers are those that are registered, as they were at most a \
        second ago; one that claims without having registered is not known. The place in the queue \
        is an estimate.";
}

/// Why an execution does not run. Times are of the store's clock.
#[serde_with_macros::skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Explanation {
    /// The execution.
    pub execution_id: ExecutionId,
    /// The handler that runs it.
    pub kind: ExecutionKind,
    /// The queue it waits or waited in.
    pub lane: LaneId,
    /// The one word for where it stands.
    pub public_state: PublicState,
    /// Why.
    pub why: Why,
    /// The same in words.
    pub summary: String,
    /// Since when it stands there.
    pub since: TimestampMs,
    /// The time of the answer.
    pub now: TimestampMs,
    /// When it ends by itself, wherever it stands.
    pub deadline_at: Option<TimestampMs>,
    /// Who will hold it as soon as what it does now is over.
    pub held_next: Option<HoldSummary>,
}

impl Explanation {
    /// True if it waits for a worker, and none that is connected can take it.
    pub const fn is_without_worker(&self) -> bool {
        matches!(
            self.why,
            Why::NoWorkerInLane { .. }
                | Why::NoWorkerInNamespace { .. }
                | Why::NoWorkerForKind { .. }
                | Why::NoCapableWorker { .. }
        )
    }
}

/// What keeps an execution from running, where it runs, or how it ended.
#[serde_with_macros::skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "reason", rename_all = "snake_case")]
pub enum Why {
    /// It must not run before a time.
    Delayed {
        /// The time.
        until: TimestampMs,
        /// What the pause is for: a delay, a retry, or a resume.
        blocking_reason: BlockingReason,
        /// The failure that a retry follows.
        failure: Option<FailureSummary>,
    },
    /// It waits for others of its flow.
    Dependencies {
        /// How many of them must be satisfied.
        needed: u32,
        /// How many are.
        satisfied: u32,
        /// How many there are.
        total: u32,
        /// The first that are not over.
        open: Vec<OpenUpstream>,
    },
    /// It waits for its children.
    Children {
        /// How many are not over.
        open: u32,
        /// How many there are.
        total: u32,
    },
    /// Its flow is not whole yet.
    FlowNotSealed,
    /// It is suspended.
    Suspended {
        /// What for.
        blocking_reason: BlockingReason,
        /// In the words of the suspension.
        suspended_for: String,
        /// What it waits on.
        waitpoint_id: Option<WaitpointId>,
        /// The name of that.
        waitpoint_key: String,
        /// The names of the signals that count; none if any does, or none ever will.
        signal_names: Vec<String>,
        /// Who asked for it.
        requested_by: String,
        /// How many signals came so far.
        signal_count: u32,
        /// When the wait ends by itself.
        timeout_at: Option<TimestampMs>,
    },
    /// An operator holds it.
    Held {
        /// Who.
        requested_by: String,
        /// Why, for a person.
        note: String,
        /// Since when.
        held_at: TimestampMs,
    },
    /// Another execution has its singleton key.
    Singleton {
        /// The one that has it.
        execution_id: ExecutionId,
    },
    /// A budget has no room for it.
    Budget {
        /// The budget.
        budget_id: BudgetId,
        /// Its name for people; may be empty.
        name: String,
        /// The dimension that is full, what is used of it, what is promised, and its limit.
        dimension: Option<String>,
        /// What is used of it.
        used: u64,
        /// What is promised to executions that run.
        reserved: u64,
        /// Its hard limit.
        limit: u64,
        /// How much of it an attempt of the execution reserves.
        reserves: u64,
        /// When the budget begins anew.
        opens_at: Option<TimestampMs>,
        /// The latest of those that run under it.
        holders: Vec<ExecutionId>,
    },
    /// Its key of a quota has no place for it.
    Quota {
        /// The policy.
        quota_policy_id: QuotaPolicyId,
        /// The key; may be empty.
        key: String,
        /// How many run under the key.
        running: u64,
        /// How many began within the window.
        in_window: u64,
        /// How many may run at a time.
        max_concurrent: Option<u64>,
        /// How many may begin within the window.
        max_requests_per_window: Option<u64>,
        /// How long the window is.
        window_seconds: Option<u64>,
        /// When the window lets the next one begin, if it is full.
        opens_at: Option<TimestampMs>,
        /// Those that have run under the key for longest.
        holders: Vec<ExecutionId>,
    },
    /// Nothing of its lane is handed out.
    LanePaused,
    /// It is reserved for a worker that has not taken it yet.
    Reserved {
        /// The process.
        worker_instance_id: WorkerInstanceId,
        /// Until when.
        until: TimestampMs,
    },
    /// No connected worker takes from its lane.
    NoWorkerInLane {
        /// How many workers are connected.
        connected: u32,
    },
    /// Workers of its lane have handlers for its kind, and none of them takes from its namespace.
    NoWorkerInNamespace {
        /// Its namespace.
        namespace: Namespace,
        /// How many of its lane have handlers for its kind.
        in_lane: u32,
    },
    /// No connected worker of its lane has a handler for its kind.
    NoWorkerForKind {
        /// How many take from its lane.
        in_lane: u32,
    },
    /// Workers have handlers for its kind, and none of them can do what it requires.
    NoCapableWorker {
        /// What it requires.
        required: CapabilitySet,
        /// Those that lack least.
        nearest: Vec<NearWorker>,
    },
    /// Workers can take it; others come first, or it is about to be taken.
    Queued {
        /// How many stand before it, about: others come and go, and workers of several kinds
        /// choose among several queues.
        ahead_estimate: u64,
        /// How many workers can take it.
        workers: u32,
        /// How many of them had room when they last said how much they run.
        with_room: u32,
    },
    /// It runs.
    Running {
        /// The kind of worker.
        worker_id: WorkerId,
        /// The process.
        worker_instance_id: WorkerInstanceId,
        /// When its lease ends unless renewed.
        lease_expires_at: TimestampMs,
        /// When it was last heard of.
        heard_at: Option<TimestampMs>,
    },
    /// It is over.
    Ended {
        /// Why it failed.
        failure: Option<FailureSummary>,
        /// Why it was cancelled.
        cancel: Option<CancelSummary>,
    },
}

/// An upstream that is not over.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct OpenUpstream {
    /// Its id.
    pub execution_id: ExecutionId,
    /// Its name in the flow; may be empty.
    pub name: String,
    /// Where it stands.
    pub public_state: PublicState,
}

/// A worker that could take an execution but for some capabilities.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct NearWorker {
    /// The process.
    pub worker_instance_id: WorkerInstanceId,
    /// What it lacks.
    pub missing: Vec<String>,
}

/// A sentence without times: those are for who shows it.
pub(super) struct Sentence<'a> {
    pub(super) why: &'a Why,
    pub(super) kind: &'a ExecutionKind,
    pub(super) lane: &'a LaneId,
    pub(super) state: PublicState,
}

impl Why {
    /// The same in words, about an execution of this kind, lane and state.
    pub fn summary(&self, kind: &ExecutionKind, lane: &LaneId, state: PublicState) -> String {
        Sentence { why: self, kind, lane, state }.to_string()
    }
}

/// Which limit of a quota is reached.
fn fullness(why: &Why) -> String {
    let Why::Quota {
        running,
        in_window,
        max_concurrent,
        max_requests_per_window,
        window_seconds,
        ..
    } = why
    else {
        return String::new();
    };
    let rate = max_requests_per_window.filter(|rate| in_window >= rate);
    match (max_concurrent.filter(|places| running >= places), rate) {
        (Some(places), _) => format!(": {running} of {places} are running"),
        (None, Some(rate)) => {
            let seconds = window_seconds.unwrap_or_default();
            format!(": {in_window} of {rate} within {seconds} s have begun")
        }
        (None, None) => ", which has room again".to_owned(),
    }
}

impl fmt::Display for Sentence<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { why, kind, lane, state } = self;
        match why {
            Why::Delayed { failure: Some(failure), .. } => {
                write!(f, "waits for its retry after: {}", failure.reason)
            }
            Why::Delayed { .. } => f.write_str("delayed"),
            Why::Dependencies { needed, satisfied, total, open } => {
                write!(f, "waits for others: {satisfied} of {total} are done")?;
                if needed < total {
                    write!(f, ", {needed} are needed")?;
                }
                match open.first() {
                    Some(first) if first.name.is_empty() => {
                        write!(f, "; {} is {}", first.execution_id, first.public_state)
                    }
                    Some(first) => write!(f, "; {} is {}", first.name, first.public_state),
                    None => Ok(()),
                }
            }
            Why::Children { open, total } => {
                write!(f, "waits for its children: {open} of {total} are not done")
            }
            Why::FlowNotSealed => f.write_str("its flow is not whole yet"),
            Why::Suspended { suspended_for, requested_by, signal_names, .. } => {
                write!(f, "suspended: {}", suspended_for.replace('_', " "))?;
                if !signal_names.is_empty() {
                    write!(f, " ({})", signal_names.join(", "))?;
                }
                by(f, requested_by)
            }
            Why::Held { requested_by, note, .. } => {
                f.write_str("held")?;
                by(f, requested_by)?;
                if note.is_empty() { Ok(()) } else { write!(f, ": {note}") }
            }
            Why::Singleton { execution_id } => {
                write!(f, "waits for its turn: {execution_id} has its singleton key")
            }
            Why::Budget { budget_id, name, dimension, used, reserved, limit, reserves, .. } => {
                f.write_str("waits for the budget ")?;
                if name.is_empty() {
                    write!(f, "{budget_id}")?
                } else {
                    f.write_str(name)?
                }
                match dimension {
                    Some(of) => {
                        write!(f, ": {used} of {limit} {of} are used, {reserved} reserved")?
                    }
                    None => f.write_str(", which has room again")?,
                }
                if *reserves > 0 { write!(f, "; it needs {reserves}") } else { Ok(()) }
            }
            Why::Quota { quota_policy_id, key, .. } => {
                write!(f, "waits for the quota {quota_policy_id}")?;
                if !key.is_empty() {
                    write!(f, ", key {key}")?;
                }
                f.write_str(&fullness(why))
            }
            Why::LanePaused => write!(f, "lane {lane} is paused"),
            Why::Reserved { worker_instance_id, .. } => {
                write!(f, "reserved for {worker_instance_id}, which has not taken it yet")
            }
            Why::NoWorkerInLane { connected: 0 } => f.write_str("no worker is connected"),
            Why::NoWorkerInLane { connected } => {
                let s = ending(*connected);
                write!(f, "no worker takes from lane {lane}; {connected} take{s} from others")
            }
            Why::NoWorkerInNamespace { namespace, in_lane } => {
                write!(f, "no worker of {kind} takes from namespace {namespace}; ")?;
                write!(f, "{in_lane} in lane {lane} take{} from others", ending(*in_lane))
            }
            Why::NoWorkerForKind { in_lane } => {
                let s = ending(*in_lane);
                write!(f, "no worker serves {kind}; {in_lane} in lane {lane} serve{s} other kinds")
            }
            Why::NoCapableWorker { required, nearest } => {
                write!(f, "no worker can do all it requires ({})", required.csv())?;
                match nearest.first() {
                    Some(near) => {
                        let missing = near.missing.join(", ");
                        write!(f, "; {} lacks {missing}", near.worker_instance_id)
                    }
                    None => Ok(()),
                }
            }
            Why::Queued { ahead_estimate, workers, with_room } => {
                write!(f, "waits in its queue: about {ahead_estimate} ahead, ")?;
                let can = if *workers == 1 { "worker" } else { "workers" };
                write!(f, "{workers} {can} can take it, {with_room} had room when last heard of")
            }
            Why::Running { worker_instance_id, .. } => write!(f, "runs on {worker_instance_id}"),
            Why::Ended { failure: Some(failure), .. } => write!(f, "{state}: {}", failure.reason),
            Why::Ended { cancel: Some(cancel), .. } if !cancel.reason.is_empty() => {
                write!(f, "{state}: {}", cancel.reason)
            }
            Why::Ended { .. } => write!(f, "{state}"),
        }
    }
}

/// How a verb ends that says what so many do.
fn ending(count: u32) -> &'static str {
    if count == 1 { "s" } else { "" }
}

fn by(f: &mut fmt::Formatter<'_>, name: &str) -> fmt::Result {
    if name.is_empty() { Ok(()) } else { write!(f, " by {name}") }
}
