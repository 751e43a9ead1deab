//! Following a flow: its events and those of its members, looked for in the log of its partition.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use ff_core::contracts::{FlowActivity, FlowActivityStream, FlowEvent, FlowPosition, FlowSnapshot};
use ff_core::error::EngineError;
use ff_core::partition::Partition;
use ff_core::types::{EventCursor, FlowId};
use tokio::time::timeout;

use super::{BACKOFF, SWEEP_SECONDS, passes};
use crate::backend::call;
use crate::backend::flow_rows::snapshot;
use crate::backend::reads::{in_words, parse_cursor, time_of};
use crate::calls::flow_events::{FlowEventRow, ReadFlowEvents, ReadFlowEventsReply};
use crate::calls::flow_reads::DescribeFlow;
use crate::host::{Host, Subject, Subscription};
use crate::unfold::unfold;

/// Entries of the log that one read looks at.
const LOOKED_AT: u32 = 256;
/// The end of the log.
const LOG_END: &str = "$";

/// What happens in a flow behind a position.
pub(in crate::backend) async fn follow_flow<H: Host + ?Sized>(
    host: Arc<H>,
    home: Partition,
    flow_id: FlowId,
    after: FlowPosition,
) -> Result<FlowActivityStream, EngineError> {
    let reader = Reader::begin(host, home, flow_id, after).await?;
    Ok(Box::pin(unfold(reader, |reader| Box::pin(reader.step()))))
}

/// One who follows a flow.
struct Reader<H: ?Sized> {
    host: Arc<H>,
    home: Partition,
    flow_id: FlowId,
    wakes: Subscription,
    /// The position in the log, as the store writes it; empty for its beginning.
    cursor: String,
    /// The first event of the flow was not met yet.
    seeking: bool,
    /// There may be more in the log.
    behind: bool,
    /// What was not handed on yet: of one read at most.
    pieces: VecDeque<FlowActivity>,
    over: bool,
}

type Item = Result<FlowActivity, EngineError>;

impl<H: Host + ?Sized> Reader<H> {
    /// Listens, then reads what is there: nothing can fall in between.
    async fn begin(
        host: Arc<H>,
        home: Partition,
        flow_id: FlowId,
        after: FlowPosition,
    ) -> Result<Self, EngineError> {
        let wakes = host.follow(Subject::Flow(home, flow_id)).await?;
        let seeking = after == FlowPosition::Start;
        let cursor = match after {
            FlowPosition::Start => String::new(),
            FlowPosition::End => LOG_END.to_owned(),
            FlowPosition::Behind(cursor) => cursor.as_str().to_owned(),
        };
        let (pieces, behind, over) = (VecDeque::new(), true, false);
        let mut reader = Self { host, home, flow_id, wakes, cursor, seeking, behind, pieces, over };
        reader.look().await?;
        Ok(reader)
    }

    /// The next piece; none behind the last one.
    async fn step(mut self) -> Option<(Item, Self)> {
        loop {
            if let Some(piece) = self.pieces.pop_front() {
                return Some((Ok(piece), self));
            }
            if self.over {
                return None;
            }
            if let Err(error) = self.go_on().await {
                self.over = true;
                return Some((Err(error), self));
            }
        }
    }

    async fn go_on(&mut self) -> Result<(), EngineError> {
        if !self.behind {
            self.wait().await?;
        }
        let mut backoff = BACKOFF;
        loop {
            match self.look().await {
                Err(error) if passes(&error) => backoff.pause().await,
                looked => return looked,
            }
        }
    }

    /// Returns when something may have happened.
    async fn wait(&mut self) -> Result<(), EngineError> {
        let sweep = Duration::from_secs(SWEEP_SECONDS);
        if let Ok(None) = timeout(sweep, self.wakes.next()).await {
            // Whoever told of it is gone, as with the runtime that it ran on.
            self.wakes = self.host.follow(Subject::Flow(self.home, self.flow_id)).await?;
        }
        self.wakes.skip_arrived();
        Ok(())
    }

    /// Reads once.
    async fn look(&mut self) -> Result<(), EngineError> {
        let page = self.read(self.cursor.clone()).await?;
        if page.truncated || self.seeking && !page.found && !page.more {
            return self.jump().await;
        }
        (self.cursor, self.behind) = (page.next, page.more);
        self.seeking &= !page.found;
        self.pieces.extend(page.events.into_iter().map(FlowActivity::Event));
        if page.ended && !page.more { self.end().await } else { Ok(()) }
    }

    /// Goes to the end of the log, past events that are gone: how the flow stands is told instead.
    async fn jump(&mut self) -> Result<(), EngineError> {
        let cursor = self.read(LOG_END.to_owned()).await?.next;
        let flow = Box::new(self.describe().await?);
        self.pieces.push_back(FlowActivity::Gap { cursor: parse_cursor(&cursor)?, flow });
        (self.cursor, self.seeking, self.behind) = (cursor, false, true);
        Ok(())
    }

    /// The flow is over, unless it was reopened in this moment: that will be heard of.
    async fn end(&mut self) -> Result<(), EngineError> {
        let flow = Box::new(self.describe().await?);
        if flow.completed_at.is_some() {
            let cursor = parse_cursor(&self.cursor)?;
            self.pieces.push_back(FlowActivity::End { cursor, flow });
            self.over = true;
        }
        Ok(())
    }

    async fn describe(&self) -> Result<FlowSnapshot, EngineError> {
        let flow_id = self.flow_id;
        let described = call(self.host.as_ref(), self.home, DescribeFlow { flow_id }).await?;
        Ok(snapshot(flow_id, described))
    }

    async fn read(&self, cursor: String) -> Result<Page, EngineError> {
        let (flow_id, seek) = (self.flow_id, self.seeking);
        let read = ReadFlowEvents { flow_id, cursor, limit: LOOKED_AT, seek };
        let ReadFlowEventsReply::Page { events, next_cursor, truncated, more, ended, found } =
            call(self.host.as_ref(), self.home, read).await?;
        let events = events.0.into_iter().map(event).collect::<Result<_, _>>()?;
        let next = next_cursor.unwrap_or_default();
        Ok(Page { events, next, truncated, more, ended, found })
    }
}

/// What one read answers.
struct Page {
    events: Vec<FlowEvent>,
    next: String,
    truncated: bool,
    more: bool,
    ended: bool,
    found: bool,
}

fn event(row: FlowEventRow) -> Result<FlowEvent, EngineError> {
    let strange = |cursor: &EventCursor| {
        EngineError::corrupt("event log", "cursor", cursor.as_str().to_owned())
    };
    Ok(FlowEvent {
        at: time_of(&row.cursor).ok_or_else(|| strange(&row.cursor))?,
        cursor: row.cursor,
        reason: in_words(&row.name, row.why),
        kind: row.name,
        execution_id: row.execution_id,
        name: row.member,
        attempt_index: row.attempt_index,
        worker_instance_id: row.worker_instance_id,
    })
}
