//! Lists over all partitions in one order. Each partition lists its own in that order, so that a
//! little of each is enough: a partition is asked again only while what it has left may come before
//! what is known. A place in the order is one for all partitions, and so is a cursor.

use std::cmp::Ordering;
use std::sync::Arc;

use ff_core::bytes::{decode_token, encode_token};
use ff_core::contracts::{ExecutionSummary, ListFilter, ListPage};
use ff_core::error::EngineError;
use ff_core::partition::Partition;
use ff_core::state::PublicState;
use ff_core::types::LaneId;

use super::reads::{own_input, read_row};
use super::{ScriptBackend, call};
use crate::calls::list::{ListExecutions, ListExecutionsReply};
use crate::host::Host;
use crate::together::some_at_a_time;
use crate::value::Value;
use crate::wire::{Reading, Rest, Row};

/// Calls that a page may make besides one for each partition: one of a sparse filter comes back
/// early.
const MORE_CALLS_MAX: usize = 256;
/// So many of a partition are asked for at least.
const PAGE_MIN: u32 = 4;

/// A place in the order of a list: an index of a partition, and an entry of it. Indexes follow each
/// other by name (`lua/verb/list.lua`).
#[derive(Clone, Debug, PartialEq, Eq)]
struct Place {
    source: String,
    score: i64,
    member: Vec<u8>,
}

impl Place {
    /// What is over and the list of all go backwards.
    fn is_backwards(&self) -> bool {
        self.source == "all" || self.source.starts_with("ended:")
    }

    /// As the library reads it.
    fn cursor(&self) -> String {
        let hex: String = self.member.iter().map(|byte| format!("{byte:02x}")).collect();
        format!("{}|{}|{hex}", self.source, self.score)
    }

    fn parse(cursor: &str) -> Option<Self> {
        let (rest, hex) = cursor.rsplit_once('|')?;
        let (source, score) = rest.rsplit_once('|')?;
        let digits = hex.as_bytes().chunks(2).map(|pair| std::str::from_utf8(pair).ok());
        let byte = |pair: Option<&str>| {
            pair.filter(|pair| pair.len() == 2).and_then(|pair| u8::from_str_radix(pair, 16).ok())
        };
        let member = digits.map(byte).collect::<Option<Vec<u8>>>()?;
        let whole = !source.is_empty() && !member.is_empty();
        whole.then_some(Self { source: source.to_owned(), score: score.parse().ok()?, member })
    }

    /// A place as callers of the API have it.
    fn encode(&self) -> String {
        encode_token(format!("2.{}", self.cursor()).as_bytes())
    }

    fn decode(text: &str) -> Option<Self> {
        let text = String::from_utf8(decode_token(text)?).ok()?;
        Self::parse(text.strip_prefix("2.")?)
    }
}

impl Ord for Place {
    fn cmp(&self, other: &Self) -> Ordering {
        let inside = self.score.cmp(&other.score).then_with(|| self.member.cmp(&other.member));
        let inside = if self.is_backwards() { inside.reverse() } else { inside };
        self.source.cmp(&other.source).then(inside)
    }
}

impl PartialOrd for Place {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// An execution and its place.
struct Placed {
    place: Place,
    summary: ExecutionSummary,
}

impl Row for Placed {
    fn take(values: &mut std::vec::IntoIter<Value>) -> Option<Self> {
        let summary = ExecutionSummary::take(values)?;
        let source = String::read(values.next()?)?;
        let score = String::read(values.next()?)?.parse().ok()?;
        let member = summary.execution_id.uuid().to_string().into_bytes();
        Some(Self { place: Place { source, score, member }, summary })
    }
}

/// How far a partition has been looked at.
struct Walk {
    partition: Partition,
    /// What comes before or at this place was seen; none: nothing was.
    seen_to: Option<Place>,
    at_end: bool,
}

/// What the pages of all partitions have in common.
struct Asked {
    filter: ListFilter,
    lanes: Vec<LaneId>,
    page: u32,
}

impl Asked {
    fn call(&self, cursor: Option<&Place>) -> ListExecutions {
        let filter = self.filter.clone();
        let (tag_name, tag_value) = match filter.tag {
            Some(tag) => (Some(tag.name), tag.value),
            None => (None, None),
        };
        ListExecutions {
            namespace: filter.namespace,
            lane: filter.lane,
            state: filter.state,
            kind: filter.kind,
            from_ms: filter.from,
            to_ms: filter.to,
            tag_name,
            tag_value,
            cursor: cursor.map(Place::cursor).unwrap_or_default(),
            limit: self.page,
            lanes: Rest(self.lanes.clone()),
        }
    }
}

/// The next entries of one partition.
async fn step<H: Host + ?Sized>(
    host: Arc<H>,
    asked: Arc<Asked>,
    mut walk: Walk,
) -> Result<(Walk, Vec<Placed>), EngineError> {
    let reply = call(host.as_ref(), walk.partition, asked.call(walk.seen_to.as_ref())).await;
    let rule = "is not of this list: pass it back with the same filter";
    let ListExecutionsReply::Page { executions, next_cursor } =
        reply.map_err(|error| own_input(error, "cursor", rule))?;
    let rows = executions.0.into_iter().map(|row| read_row(row, "listed execution"));
    let rows = rows.collect::<Result<Vec<Placed>, _>>()?;
    walk.at_end = next_cursor.is_none();
    if let Some(cursor) = next_cursor {
        let place = Place::parse(&cursor);
        let damaged = || EngineError::corrupt("list of executions", "cursor", cursor);
        walk.seen_to = Some(place.ok_or_else(damaged)?);
    }
    Ok((walk, rows))
}

impl<H: Host + ?Sized> ScriptBackend<H> {
    pub(super) async fn list(&self, filter: ListFilter) -> Result<ListPage, EngineError> {
        filter.validate(&self.config)?;
        let limit = filter.checked_limit()?;
        let from = filter.cursor.as_deref().map(|cursor| {
            let rule = "must be a next_cursor of this list";
            Place::decode(cursor).ok_or_else(|| EngineError::invalid("cursor", rule))
        });
        let mut merge = Merge::new(limit as usize, from.transpose()?, self.partitions_of(&filter)?);
        let lanes = self.lanes_to_walk(&filter).await?;
        let page = merge.page(limit);
        let asked = Arc::new(Asked { filter, lanes, page });
        let mut calls_left = merge.walks.len() + MORE_CALLS_MAX;
        loop {
            let wanted = merge.take_wanted(calls_left);
            if wanted.is_empty() {
                return Ok(merge.finish());
            }
            calls_left -= wanted.len();
            self.walk_on(&asked, wanted, &mut merge).await?;
        }
    }

    /// One step of each of these partitions, some at a time.
    async fn walk_on(
        &self,
        asked: &Arc<Asked>,
        walks: Vec<Walk>,
        merge: &mut Merge,
    ) -> Result<(), EngineError> {
        let steps =
            walks.into_iter().map(|walk| step(Arc::clone(&self.host), Arc::clone(asked), walk));
        some_at_a_time("list_executions", steps, |(walk, rows)| {
            merge.walks.push(walk);
            merge.rows.extend(rows);
            Ok(())
        })
        .await?;
        merge.rows.sort_by(|one, other| one.place.cmp(&other.place));
        Ok(())
    }

    fn partitions_of(&self, filter: &ListFilter) -> Result<Vec<Partition>, EngineError> {
        match filter.partition {
            Some(index) => Ok(vec![self.config.flow_partition(index)?]),
            None => Ok(self.config.flow_partitions().collect()),
        }
    }

    /// The lanes whose queues may hold what is asked for.
    async fn lanes_to_walk(&self, filter: &ListFilter) -> Result<Vec<LaneId>, EngineError> {
        let mut lanes = match (&filter.lane, filter.state) {
            (Some(lane), _) => vec![lane.clone()],
            (None, Some(PublicState::Waiting | PublicState::Active)) => self.all_lanes().await?,
            (None, _) => Vec::new(),
        };
        lanes.sort_unstable();
        Ok(lanes)
    }
}

/// The pages of all partitions on their way to one.
struct Merge {
    limit: usize,
    walks: Vec<Walk>,
    /// In their order.
    rows: Vec<Placed>,
    begun: bool,
}

impl Merge {
    fn new(limit: usize, from: Option<Place>, partitions: Vec<Partition>) -> Self {
        let begin = |partition| Walk { partition, seen_to: from.clone(), at_end: false };
        let walks = partitions.into_iter().map(begin).collect();
        Self { limit, walks, rows: Vec::new(), begun: false }
    }

    /// How many of a partition to ask for at a time.
    fn page(&self, limit: u32) -> u32 {
        let partitions = self.walks.len().max(1) as u32;
        (2 * limit / partitions).clamp(PAGE_MIN.min(limit), limit)
    }

    /// The partitions that may still have some of the page: all at first, then those whose rest may
    /// come before the last of what is known.
    fn take_wanted(&mut self, most: usize) -> Vec<Walk> {
        let last = self.rows.get(self.limit - 1).map(|row| row.place.clone());
        let begun = std::mem::replace(&mut self.begun, true);
        let mut wanted = Vec::new();
        self.walks.retain_mut(|walk| {
            let behind = begun && last.is_some() && walk.seen_to >= last;
            let keep = walk.at_end || behind || wanted.len() == most;
            if !keep {
                let (partition, seen_to) = (walk.partition, walk.seen_to.take());
                wanted.push(Walk { partition, seen_to, at_end: false });
            }
            keep
        });
        wanted
    }

    /// What is certain: what no partition can have anything before.
    fn finish(mut self) -> ListPage {
        let open = self.walks.iter().filter(|walk| !walk.at_end);
        let certain_to = open.filter_map(|walk| walk.seen_to.clone()).min();
        let certain = |row: &Placed| certain_to.as_ref().is_none_or(|to| row.place <= *to);
        let count = self.rows.iter().take_while(|row| certain(row)).count();
        let next = match count > self.limit || count == self.limit && certain_to.is_some() {
            true => Some(self.rows[self.limit - 1].place.encode()),
            false => certain_to.map(|place| place.encode()),
        };
        self.rows.truncate(count.min(self.limit));
        let items = self.rows.into_iter().map(|row| row.summary).collect();
        ListPage { items, next_cursor: next }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(source: &str, score: i64, member: &str) -> Place {
        Place { source: source.to_owned(), score, member: member.as_bytes().to_vec() }
    }

    #[test]
    fn a_place_survives_its_text_and_nothing_else_is_one() {
        for place in [place("all", 12, "x"), place("q:a|b.c", -9_000_000_000_000_001, "a-b")] {
            assert_eq!(Place::decode(&place.encode()), Some(place));
        }
        for wrong in ["", "x", "MS4", "===", "\u{e9}", "Mi4", "Mi5hbGx8MXw", "Mi5hbGx8MXx4eA"] {
            assert_eq!(Place::decode(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn what_is_over_comes_latest_first_and_what_is_live_in_the_order_of_its_index() {
        for source in ["all", "ended:failed"] {
            assert!(place(source, 2, "a") < place(source, 1, "b"));
            assert!(place(source, 1, "b") < place(source, 1, "a"));
        }
        for source in ["due", "leases", "suspended", "q:a"] {
            assert!(place(source, 1, "b") < place(source, 2, "a"));
            assert!(place(source, 1, "a") < place(source, 1, "b"));
        }
        assert!(place("due", 9, "z") < place("leases", 1, "a"));
        assert!(place("due", 9, "z") < place("q:a", 1, "a"));
    }
}
