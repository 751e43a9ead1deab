//! Reads: one execution, listings, lanes, events.

use ff_core::contracts::{
    AttemptRecord, AttemptSummary, CancelSummary, Event, EventPage, ExecutionSnapshot,
    ExecutionSummary, FailureSummary, LanePage, LeaseSummary, ListFilter, ListPage,
    ProgressSummary,
};
use ff_core::error::{Code, EngineError};
use ff_core::limits;
use ff_core::partition::Partition;
use ff_core::state::{PublicState, StateVector};
use ff_core::types::{AttemptIndex, EventCursor, ExecutionId, LaneId, TimestampMs};

use super::{FIRST, ScriptBackend};
use crate::calls::deployment::{ListLanes, ListLanesReply};
use crate::calls::describe::{
    DescribeExecution, DescribeExecutionReply, ListAttempts, ListAttemptsReply, ReadPayload,
    ReadPayloadReply, ReadResult, ReadResultReply,
};
use crate::calls::events::{ReadEvents, ReadEventsReply};
use crate::calls::list::{ListExecutions, ListExecutionsReply};
use crate::host::Host;
use crate::value::Value;
use crate::wire::{Reading, Rest};

impl<H: Host> ScriptBackend<H> {
    pub(super) async fn describe(
        &self,
        execution_id: ExecutionId,
    ) -> Result<Option<ExecutionSnapshot>, EngineError> {
        let reply = self.call_on(execution_id, DescribeExecution { execution_id }).await;
        found(reply.map(|reply| snapshot(execution_id, reply)))
    }

    pub(super) async fn result(
        &self,
        execution_id: ExecutionId,
    ) -> Result<Option<Vec<u8>>, EngineError> {
        let reply = found(self.call_on(execution_id, ReadResult { execution_id }).await)?;
        Ok(reply.and_then(|ReadResultReply::Result { public_state, result, .. }| {
            (public_state == PublicState::Completed).then_some(result)
        }))
    }

    pub(super) async fn payload(
        &self,
        execution_id: ExecutionId,
    ) -> Result<Option<Vec<u8>>, EngineError> {
        let reply = found(self.call_on(execution_id, ReadPayload { execution_id }).await)?;
        Ok(reply.map(|ReadPayloadReply::Payload { payload }| payload))
    }

    pub(super) async fn attempts(
        &self,
        execution_id: ExecutionId,
    ) -> Result<Vec<AttemptRecord>, EngineError> {
        let limit = limits::LIST_LIMIT_MAX as u32;
        let ListAttemptsReply::Attempts { attempts } =
            self.call_on(execution_id, ListAttempts { execution_id, limit }).await?;
        attempts.0.iter().map(|line| attempt(execution_id, line)).collect()
    }

    pub(super) async fn list(
        &self,
        partition: Partition,
        filter: &ListFilter,
        cursor: Option<String>,
        limit: u32,
    ) -> Result<ListPage, EngineError> {
        let lanes = match (&filter.lane, filter.state) {
            (Some(lane), _) => vec![lane.clone()],
            (None, Some(PublicState::Waiting | PublicState::Active)) => self.all_lanes().await?,
            (None, _) => Vec::new(),
        };
        let call = ListExecutions {
            namespace: filter.namespace.clone(),
            lane: filter.lane.clone(),
            state: filter.state,
            kind: filter.kind.clone(),
            from_ms: filter.from,
            to_ms: filter.to,
            cursor: cursor.unwrap_or_default(),
            limit,
            lanes: Rest(lanes),
        };
        let ListExecutionsReply::Page { executions, next_cursor } =
            self.call(partition, call).await?;
        let items = executions.0.into_iter().map(|row| read_row(row, "listed execution", summary));
        Ok(ListPage { items: items.collect::<Result<_, _>>()?, next_cursor })
    }

    async fn all_lanes(&self) -> Result<Vec<LaneId>, EngineError> {
        let ListLanesReply::Lanes { lanes } = self.call(FIRST, ListLanes {}).await?;
        Ok(lanes.0)
    }

    pub(super) async fn lane_page(
        &self,
        after: Option<LaneId>,
        limit: u32,
    ) -> Result<LanePage, EngineError> {
        let mut lanes = self.all_lanes().await?;
        lanes.retain(|lane| after.as_ref().is_none_or(|after| lane > after));
        let more = lanes.len() > limit as usize;
        lanes.truncate(limit as usize);
        let next_cursor = if more { lanes.last().cloned() } else { None };
        Ok(LanePage { lanes, next_cursor })
    }

    pub(super) async fn events(
        &self,
        partition: Partition,
        after: Option<EventCursor>,
        limit: u32,
    ) -> Result<EventPage, EngineError> {
        let cursor = after.map(|cursor| cursor.as_str().to_owned()).unwrap_or_default();
        self.events_from(partition, cursor, limit).await
    }

    /// As `events`, from a raw cursor: `$` asks for the end of the log.
    pub(super) async fn events_from(
        &self,
        partition: Partition,
        cursor: String,
        limit: u32,
    ) -> Result<EventPage, EngineError> {
        let ReadEventsReply::Page { events, next_cursor, truncated } =
            self.call(partition, ReadEvents { cursor, limit }).await?;
        let events = events.0.into_iter().map(|row| read_row(row, "event", event));
        Ok(EventPage {
            events: events.collect::<Result<_, _>>()?,
            next_cursor: next_cursor.map(|cursor| parse_cursor(&cursor)).transpose()?,
            truncated,
        })
    }
}

/// What does not exist is no error of a read.
fn found<T>(reply: Result<T, EngineError>) -> Result<Option<T>, EngineError> {
    match reply {
        Ok(value) => Ok(Some(value)),
        Err(error) if error.code() == Some(Code::ExecutionNotFound) => Ok(None),
        Err(error) => Err(error),
    }
}

fn snapshot(execution_id: ExecutionId, reply: DescribeExecutionReply) -> ExecutionSnapshot {
    let DescribeExecutionReply::Execution {
        namespace,
        lane,
        kind,
        priority,
        creator,
        lifecycle_phase,
        ownership_state,
        eligibility_state,
        blocking_reason,
        terminal_outcome,
        attempt_state,
        public_state,
        blocking_detail,
        created_at,
        started_at,
        ended_at,
        last_transition_at,
        last_mutation_at,
        delay_until,
        deadline_at,
        attempt_count,
        attempt_id,
        attempt_type,
        lease_id,
        lease_epoch,
        lease_expires_at,
        worker_id,
        worker_instance_id,
        attempt_timeout_at,
        retry_count,
        reclaim_count,
        replay_count,
        failure_reason,
        failure_category,
        failure_detail,
        cancel_reason,
        cancelled_by,
        progress_pct,
        progress_message,
        progress_at,
        required_capabilities,
        flow_id,
        purge_at,
        policy_json,
        tags,
    } = reply;
    let current_lease = match (lease_id, lease_expires_at, worker_id, worker_instance_id) {
        (Some(lease_id), Some(expires_at), Some(worker_id), Some(worker_instance_id)) => {
            Some(LeaseSummary { lease_id, lease_epoch, worker_id, worker_instance_id, expires_at })
        }
        _ => None,
    };
    ExecutionSnapshot {
        execution_id,
        flow_id,
        namespace,
        lane,
        kind,
        creator,
        priority,
        state: StateVector {
            lifecycle_phase,
            ownership_state,
            eligibility_state,
            blocking_reason,
            terminal_outcome,
            attempt_state,
            public_state,
        },
        blocking_detail,
        current_attempt: attempt_id.zip(attempt_type).map(|(attempt_id, attempt_type)| {
            let attempt_index = AttemptIndex::new(attempt_count.saturating_sub(1));
            AttemptSummary { attempt_id, attempt_index, attempt_type }
        }),
        current_lease,
        current_waitpoint: None,
        total_attempt_count: attempt_count,
        retry_count,
        reclaim_count,
        replay_count,
        created_at,
        started_at,
        completed_at: ended_at,
        last_transition_at,
        last_mutation_at,
        delay_until,
        attempt_timeout_at,
        deadline_at,
        purge_at,
        failure: failure_reason.map(|reason| FailureSummary {
            reason,
            category: failure_category.unwrap_or_default(),
            detail: failure_detail,
        }),
        cancel: cancelled_by.map(|cancelled_by| CancelSummary {
            reason: cancel_reason.unwrap_or_default(),
            cancelled_by,
        }),
        progress: progress_at.map(|updated_at| ProgressSummary {
            percent: progress_pct,
            message: progress_message,
            updated_at,
        }),
        policy_json,
        required_capabilities,
        tags,
    }
}

/// One line of `lua/model/attempt.lua`: eleven short parts, then two texts, the first with its
/// length.
fn attempt(execution_id: ExecutionId, line: &[u8]) -> Result<AttemptRecord, EngineError> {
    parse_attempt(line).ok_or_else(|| {
        let shown = String::from_utf8_lossy(&line[..line.len().min(200)]).into_owned();
        EngineError::corrupt(format!("attempt of {execution_id}"), "line", shown)
    })
}

fn parse_attempt(line: &[u8]) -> Option<AttemptRecord> {
    let mut parts = line.splitn(12, |byte| *byte == b':');
    let mut next = || parts.next().and_then(|part| std::str::from_utf8(part).ok());
    let (index, id, attempt_type, state) = (next()?, next()?, next()?, next()?);
    let (started_at, ended_at, epoch) = (next()?, next()?, next()?);
    let (worker_id, worker_instance_id, category, length) = (next()?, next()?, next()?, next()?);
    let texts = parts.next()?;
    let (cause, reason) = texts.split_at_checked(length.parse().ok()?)?;
    let text =
        |bytes: &[u8]| (!bytes.is_empty()).then(|| String::from_utf8_lossy(bytes).into_owned());
    Some(AttemptRecord {
        index: AttemptIndex::new(index.parse().ok()?),
        id: id.parse().ok()?,
        attempt_type: attempt_type.parse().ok()?,
        cause: text(cause),
        state: state.parse().ok()?,
        started_at: TimestampMs::new(started_at.parse().ok()?),
        ended_at: match ended_at {
            "" => None,
            text => Some(TimestampMs::new(text.parse().ok()?)),
        },
        worker_id: worker_id.parse().ok()?,
        worker_instance_id: worker_instance_id.parse().ok()?,
        lease_epoch: ff_core::types::LeaseEpoch::new(epoch.parse().ok()?),
        failure_reason: text(reason),
        failure_category: text(category.as_bytes()),
    })
}

pub(super) fn read_row<T>(
    row: Value,
    what: &str,
    read: impl Fn(Vec<Value>) -> Option<T>,
) -> Result<T, EngineError> {
    let shown = format!("{row:?}");
    let Value::Array(parts) = row else {
        return Err(EngineError::corrupt(what, "row", shown));
    };
    read(parts).ok_or_else(|| EngineError::corrupt(what, "row", shown))
}

/// The values of a row that this build knows; a newer library may have more of them.
pub(super) fn columns<const N: usize>(mut parts: Vec<Value>) -> Option<[Value; N]> {
    parts.truncate(N);
    parts.try_into().ok()
}

fn summary(parts: Vec<Value>) -> Option<ExecutionSummary> {
    let [
        execution_id,
        namespace,
        lane,
        kind,
        public_state,
        priority,
        created_at,
        ended_at,
        count,
        worker,
    ] = columns(parts)?;
    Some(ExecutionSummary {
        execution_id: Reading::read(execution_id)?,
        namespace: Reading::read(namespace)?,
        lane: Reading::read(lane)?,
        kind: Reading::read(kind)?,
        public_state: Reading::read(public_state)?,
        priority: Reading::read(priority)?,
        total_attempt_count: Reading::read(count)?,
        created_at: Reading::read(created_at)?,
        completed_at: Reading::read(ended_at)?,
        worker_id: Reading::read(worker)?,
    })
}

fn event(parts: Vec<Value>) -> Option<Event> {
    let [cursor, kind, execution_id, attempt_index, reason, lease_epoch, worker_instance_id] =
        columns(parts)?;
    let cursor = EventCursor::read(cursor)?;
    let at = cursor.as_str().split('-').next()?.parse().ok()?;
    Some(Event {
        at: TimestampMs::new(at),
        cursor,
        kind: Reading::read(kind)?,
        execution_id: Reading::read(execution_id)?,
        attempt_index: Reading::read(attempt_index)?,
        lease_epoch: Reading::read(lease_epoch)?,
        worker_instance_id: Reading::read(worker_instance_id)?,
        reason: Reading::read(reason)?,
    })
}

fn parse_cursor(text: &str) -> Result<EventCursor, EngineError> {
    EventCursor::parse(text).map_err(|_| EngineError::corrupt("event log", "cursor", text))
}
