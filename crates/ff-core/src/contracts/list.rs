//! Listings, page by page.

use crate::state::PublicState;
use crate::types::{ExecutionId, ExecutionKind, LaneId, Namespace, TimestampMs, WorkerId};

/// Which executions to list. What is absent does not restrict.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListFilter {
    /// Only this namespace.
    pub namespace: Option<Namespace>,
    /// Only this lane.
    pub lane: Option<LaneId>,
    /// Only this state.
    pub state: Option<PublicState>,
    /// Only this kind.
    pub kind: Option<ExecutionKind>,
    /// Only what was submitted at this time or later.
    pub from: Option<TimestampMs>,
    /// Only what was submitted before this time.
    pub to: Option<TimestampMs>,
}

impl ListFilter {
    /// True if an execution belongs in the listing.
    pub fn matches(&self, execution: &ExecutionSummary) -> bool {
        fn fits<T: PartialEq>(wanted: Option<&T>, actual: &T) -> bool {
            wanted.is_none_or(|wanted| wanted == actual)
        }
        fits(self.namespace.as_ref(), &execution.namespace)
            && fits(self.lane.as_ref(), &execution.lane)
            && fits(self.state.as_ref(), &execution.public_state)
            && fits(self.kind.as_ref(), &execution.kind)
            && self.from.is_none_or(|from| execution.created_at >= from)
            && self.to.is_none_or(|to| execution.created_at < to)
    }
}

/// One line of a listing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExecutionSummary {
    /// Its id.
    pub execution_id: ExecutionId,
    /// The tenant or environment it belongs to.
    pub namespace: Namespace,
    /// The queue it waits or waited in.
    pub lane: LaneId,
    /// The handler that runs it.
    pub kind: ExecutionKind,
    /// The one word for where it stands.
    pub public_state: PublicState,
    /// Higher runs first.
    pub priority: u16,
    /// How many attempts were started.
    pub total_attempt_count: u32,
    /// When it was submitted.
    pub created_at: TimestampMs,
    /// When it ended, if it has.
    pub completed_at: Option<TimestampMs>,
    /// The worker of its latest attempt, if there was one.
    pub worker_id: Option<WorkerId>,
}

/// A page of executions of one partition.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListPage {
    /// The executions; may be fewer than asked for although more follow.
    pub items: Vec<ExecutionSummary>,
    /// Where the next page begins; none at the end.
    pub next_cursor: Option<String>,
}

/// A page of lanes, in the order of their names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LanePage {
    /// The lanes.
    pub lanes: Vec<LaneId>,
    /// The last lane of this page if more follow; the next page begins after it.
    pub next_cursor: Option<LaneId>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::partition::Partition;

    #[test]
    fn a_filter_restricts_by_what_it_names_and_time_ends_before_to() {
        let execution = ExecutionSummary {
            execution_id: ExecutionId::from_parts(Partition::flow(0), uuid::Uuid::from_u128(1)),
            namespace: Namespace::default(),
            lane: LaneId::try_new("gpu").expect("valid"),
            kind: ExecutionKind::try_new("render").expect("valid"),
            public_state: PublicState::Active,
            priority: 0,
            total_attempt_count: 1,
            created_at: TimestampMs(100),
            completed_at: None,
            worker_id: None,
        };
        let all = ListFilter::default;
        assert!(all().matches(&execution));
        let time = |from, to| ListFilter {
            from: Some(TimestampMs(from)),
            to: Some(TimestampMs(to)),
            ..all()
        };
        assert!(time(100, 101).matches(&execution));
        assert!(!time(101, 200).matches(&execution));
        assert!(!time(0, 100).matches(&execution));
        assert!(ListFilter { state: Some(PublicState::Active), ..all() }.matches(&execution));
        assert!(!ListFilter { state: Some(PublicState::Failed), ..all() }.matches(&execution));
        let lane = LaneId::try_new("cpu").ok();
        assert!(!ListFilter { lane, ..all() }.matches(&execution));
    }
}
