//! Reads: one execution, lists of them, lanes, events.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use ff_core::contracts::{
    AttemptRecord, Attempts, Depths, Event, EventPage, EventQuery, ExecutionCounts,
    ExecutionSnapshot, ExecutionSummary, Explanation, History, KindCounts, LaneDepth, LaneList,
    LaneQuery, LaneSettings, ListFilter, ListPage, NeedDepth, found,
};
use ff_core::engine_backend::{Answer, Reads};
use ff_core::error::{Code, EngineError};
use ff_core::limits;
use ff_core::need::Need;
use ff_core::partition::Partition;
use ff_core::state::PublicState;
use ff_core::types::{AttemptIndex, EventCursor, ExecutionId, FlowId, LaneId, TimestampMs};

use super::partition::depths;
use super::snapshot::snapshot;
use super::{FIRST, ScriptBackend, call};
use crate::calls::deployment::{ForgetLane, ListLanes, ListLanesReply};
use crate::calls::describe::{
    DescribeExecution, ListAttempts, ListAttemptsReply, ReadPayload, ReadPayloadReply, ReadResult,
    ReadResultReply,
};
use crate::calls::events::{ReadEvents, ReadEventsReply};
use crate::calls::list::{CountExecutions, CountExecutionsReply};
use crate::host::Host;
use crate::together::some_at_a_time;
use crate::value::Value;
use crate::wire::{Reading, Row, row};

impl<H: Host + ?Sized> Reads for ScriptBackend<H> {
    fn describe_execution(
        &self,
        execution_id: ExecutionId,
    ) -> Answer<'_, Option<ExecutionSnapshot>> {
        Box::pin(async move {
            let reply = self.call_on(execution_id, DescribeExecution { execution_id }).await;
            found(reply.map(|reply| snapshot(execution_id, reply)))
        })
    }

    fn explain_execution(&self, execution_id: ExecutionId) -> Answer<'_, Explanation> {
        Box::pin(self.explain(execution_id))
    }

    fn read_result(&self, execution_id: ExecutionId) -> Answer<'_, Option<Vec<u8>>> {
        Box::pin(async move {
            let reply = found(self.call_on(execution_id, ReadResult { execution_id }).await)?;
            Ok(reply.and_then(|ReadResultReply::Result { public_state, result, .. }| {
                (public_state == PublicState::Completed).then_some(result)
            }))
        })
    }

    fn read_payload(&self, execution_id: ExecutionId) -> Answer<'_, Option<Vec<u8>>> {
        Box::pin(async move {
            let reply = found(self.call_on(execution_id, ReadPayload { execution_id }).await)?;
            Ok(reply.map(|ReadPayloadReply::Payload { payload }| payload))
        })
    }

    fn list_attempts(&self, execution_id: ExecutionId) -> Answer<'_, Attempts> {
        Box::pin(async move {
            let limit = limits::LIST_LIMIT_MAX as u32;
            let ListAttemptsReply::Attempts { attempts } =
                self.call_on(execution_id, ListAttempts { execution_id, limit }).await?;
            let attempts = attempts.0.iter().map(|line| attempt(execution_id, line));
            Ok(Attempts { attempts: attempts.collect::<Result<_, _>>()? })
        })
    }

    fn read_history(&self, execution_id: ExecutionId) -> Answer<'_, History> {
        Box::pin(async move {
            self.call_on(execution_id, DescribeExecution { execution_id }).await?;
            self.history(execution_id).await
        })
    }

    fn list_executions(&self, filter: ListFilter) -> Answer<'_, ListPage> {
        Box::pin(self.list(filter))
    }

    fn count_kinds(&self) -> Answer<'_, KindCounts> {
        Box::pin(self.count_by_kind())
    }

    fn count_executions(&self) -> Answer<'_, ExecutionCounts> {
        Box::pin(async move {
            let mut sum = ExecutionCounts::default();
            self.ask_all("count_executions", counts, |part| sum += part).await?;
            Ok(sum)
        })
    }

    fn list_lanes(&self, query: LaneQuery) -> Answer<'_, LaneList> {
        Box::pin(async move {
            let limit = query.checked_limit()? as usize;
            let only =
                query.partition.map(|index| self.config.flow_partition(index)).transpose()?;
            let (mut lanes, unused, mut settings) = self.known_lanes().await?;
            lanes.retain(|lane| query.cursor.as_ref().is_none_or(|after| lane > after));
            let more = lanes.len() > limit;
            lanes.truncate(limit);
            let next_cursor = if more { lanes.last().cloned() } else { None };
            let mut lanes = match only {
                Some(partition) => depths(Arc::clone(&self.host), partition, lanes).await?.lanes,
                None => self.summed_depths(lanes).await?.lanes,
            };
            for depth in &mut lanes {
                depth.settings = settings.remove(&depth.lane);
            }
            if only.is_none() {
                self.forget_unused(&mut lanes, &unused).await?;
            }
            Ok(LaneList { lanes, next_cursor })
        })
    }

    fn read_events(&self, query: EventQuery) -> Answer<'_, EventPage> {
        Box::pin(async move {
            let limit = query.checked_limit()?;
            let partition = self.config.flow_partition(query.partition)?;
            let read = self.events(partition, query.after, limit).await;
            read.map_err(|error| own_input(error, "after", "must be the cursor of an event"))
        })
    }
}

/// The only input that the store itself can find wrong in a read is where it goes on.
pub(super) fn own_input(error: EngineError, field: &str, rule: &str) -> EngineError {
    match error.code() {
        Some(Code::InvalidInput) => EngineError::invalid(field, rule),
        _ => error,
    }
}

impl<H: Host + ?Sized> ScriptBackend<H> {
    async fn history(&self, execution_id: ExecutionId) -> Result<History, EngineError> {
        let limit = limits::LIST_LIMIT_MAX as u32;
        let (mut history, mut after) = (History::default(), None);
        // The log may grow while it is read; what comes after as many events as it holds can wait.
        for _ in 0..=limits::EVENT_LOG_LENGTH / limits::LIST_LIMIT_MAX {
            let page = self.events(execution_id.partition(), after, limit).await?;
            let full = page.events.len() == limit as usize;
            let events = page.events.into_iter();
            history.events.extend(events.filter(|event| event.execution_id == Some(execution_id)));
            after = page.next_cursor;
            if !full {
                break;
            }
        }
        history.complete = history.events.first().is_some_and(|event| event.kind == "created");
        Ok(history)
    }

    pub(super) async fn all_lanes(&self) -> Result<Vec<LaneId>, EngineError> {
        let ListLanesReply::Lanes { lanes, .. } = self.call(FIRST, ListLanes {}).await?;
        Ok(lanes.0)
    }

    /// The lanes in use or with settings, those of them that nobody has used for long, and the
    /// settings.
    async fn known_lanes(
        &self,
    ) -> Result<(Vec<LaneId>, Vec<LaneId>, BTreeMap<LaneId, LaneSettings>), EngineError> {
        let settings = self.lane_settings().await?;
        let ListLanesReply::Lanes { lanes, unused } = self.call(FIRST, ListLanes {}).await?;
        let mut lanes = lanes.0;
        lanes.extend(settings.keys().cloned());
        lanes.sort_unstable();
        lanes.dedup();
        Ok((lanes, unused.0, settings))
    }

    /// Lanes that nobody has used for long, and in which nothing waits, go away.
    async fn forget_unused(
        &self,
        lanes: &mut Vec<LaneDepth>,
        unused: &[LaneId],
    ) -> Result<(), EngineError> {
        let goes =
            |it: &LaneDepth| it.waiting == 0 && it.settings.is_none() && unused.contains(&it.lane);
        for depth in lanes.iter().filter(|depth| goes(depth)) {
            self.call(FIRST, ForgetLane { lane: depth.lane.clone() }).await?;
        }
        lanes.retain(|depth| !goes(depth));
        Ok(())
    }

    /// How much waits in all lanes in use or with settings. Those that nobody uses go away.
    pub(super) async fn all_depths(&self) -> Result<Depths, EngineError> {
        let (mut lanes, unused, mut settings) = self.known_lanes().await?;
        lanes.truncate(limits::LANES_MAX as usize);
        let mut depths = self.summed_depths(lanes).await?;
        for depth in &mut depths.lanes {
            depth.settings = settings.remove(&depth.lane);
        }
        self.forget_unused(&mut depths.lanes, &unused).await?;
        Ok(depths)
    }

    /// The depths of these lanes, all partitions together.
    pub(super) async fn summed_depths(&self, lanes: Vec<LaneId>) -> Result<Depths, EngineError> {
        let none =
            |lane: LaneId| LaneDepth { lane, waiting: 0, head_created_at: None, settings: None };
        let mut sums: BTreeMap<LaneId, LaneDepth> =
            lanes.iter().map(|lane| (lane.clone(), none(lane.clone()))).collect();
        let mut needs = HashMap::new();
        let ask = |host, partition| depths(host, partition, lanes.clone());
        let collect = |part: Depths| {
            part.lanes.into_iter().for_each(|it| add(&mut sums, it));
            part.needs.into_iter().for_each(|it| add_need(&mut needs, it));
        };
        self.ask_all("lane_depths", ask, collect).await?;
        Ok(Depths { lanes: sums.into_values().collect(), needs: needs.into_values().collect() })
    }

    /// Asks every partition the same, some at a time.
    pub(super) async fn ask_all<T, F>(
        &self,
        op: &'static str,
        ask: impl Fn(Arc<H>, Partition) -> F,
        mut collect: impl FnMut(T),
    ) -> Result<(), EngineError>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, EngineError>> + Send + 'static,
    {
        let asked = self.config.flow_partitions().map(|it| ask(Arc::clone(&self.host), it));
        some_at_a_time(op, asked, |part| {
            collect(part);
            Ok(())
        })
        .await
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
        let events = events.0.into_iter().map(|row| read_row(row, "event"));
        Ok(EventPage {
            events: events.collect::<Result<_, _>>()?,
            next_cursor: next_cursor.map(|cursor| parse_cursor(&cursor)).transpose()?,
            truncated,
        })
    }
}

/// How many executions one partition has.
async fn counts<H: Host + ?Sized>(
    host: Arc<H>,
    at: Partition,
) -> Result<ExecutionCounts, EngineError> {
    let CountExecutionsReply::Counts {
        total,
        running: active,
        succeeded: completed,
        failed,
        cancelled,
        expired,
        skipped,
    } = call(host.as_ref(), at, CountExecutions {}).await?;
    let others = active + completed + failed + cancelled + expired + skipped;
    let waiting = total.saturating_sub(others);
    Ok(ExecutionCounts { total, waiting, active, completed, failed, cancelled, expired, skipped })
}

fn add(sums: &mut BTreeMap<LaneId, LaneDepth>, part: LaneDepth) {
    let Some(sum) = sums.get_mut(&part.lane) else { return };
    sum.waiting += part.waiting;
    sum.head_created_at = older(sum.head_created_at, part.head_created_at);
}

fn add_need(sums: &mut HashMap<(LaneId, Need), NeedDepth>, part: NeedDepth) {
    match sums.entry((part.lane.clone(), part.need.clone())) {
        Entry::Vacant(new) => {
            new.insert(part);
        }
        Entry::Occupied(mut known) => {
            let sum = known.get_mut();
            sum.waiting += part.waiting;
            sum.head_created_at = older(sum.head_created_at, part.head_created_at);
        }
    }
}

fn older(one: Option<TimestampMs>, other: Option<TimestampMs>) -> Option<TimestampMs> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
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

/// Reads a row that is an array of its own. A newer library may have more values in it.
pub(super) fn read_row<T: Row>(row: Value, what: &str) -> Result<T, EngineError> {
    let shown = format!("{row:?}");
    let read = match row {
        Value::Array(parts) => T::take(&mut parts.into_iter()),
        _ => None,
    };
    read.ok_or_else(|| EngineError::corrupt(what, "row", shown))
}

row!(ExecutionSummary {
    execution_id,
    namespace,
    lane,
    kind,
    public_state,
    priority,
    created_at,
    completed_at,
    total_attempt_count,
    worker_id,
    worker_instance_id,
});

impl Row for Event {
    fn take(values: &mut std::vec::IntoIter<Value>) -> Option<Self> {
        let cursor = EventCursor::read(values.next()?)?;
        let kind: String = Reading::read(values.next()?)?;
        let (execution_id, flow_id) = subject(&kind, Reading::read(values.next()?)?);
        Some(Self {
            at: time_of(&cursor)?,
            cursor,
            execution_id,
            flow_id,
            attempt_index: Reading::read(values.next()?)?,
            reason: in_words(&kind, Reading::read(values.next()?)?),
            kind,
            lease_epoch: Reading::read(values.next()?)?,
            worker_instance_id: Reading::read(values.next()?)?,
        })
    }
}

/// Why something happened, with the word that people read for a good end: the store's own is that
/// of the state vector.
pub(super) fn in_words(kind: &str, reason: Option<String>) -> Option<String> {
    let reason = reason?;
    match reason.strip_prefix("success:").filter(|_| kind == "ended") {
        Some(rest) => Some(format!("completed:{rest}")),
        None => Some(reason),
    }
}

/// What an event happened to. Where the id of an execution stands, an event of a flow has its own.
fn subject(kind: &str, id: ExecutionId) -> (Option<ExecutionId>, Option<FlowId>) {
    if kind.starts_with("flow_") {
        (None, Some(FlowId::from_uuid(id.uuid())))
    } else {
        (Some(id), None)
    }
}

/// When an event happened: its position begins with the time.
pub(super) fn time_of(cursor: &EventCursor) -> Option<TimestampMs> {
    cursor.as_str().split('-').next()?.parse().ok().map(TimestampMs::new)
}

pub(super) fn parse_cursor(text: &str) -> Result<EventCursor, EngineError> {
    EventCursor::parse(text).map_err(|_| EngineError::corrupt("event log", "cursor", text))
}
