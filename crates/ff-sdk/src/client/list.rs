//! Listing executions: partition after partition, a page at a time.

use ff_core::contracts::{ExecutionSummary, ListFilter};
use ff_core::partition::Partition;

use crate::connection::Connection;
use crate::error::SdkError;

const PAGE: u32 = 100;

/// A listing under way. Not a snapshot: what changes meanwhile may be seen or not.
#[derive(Debug)]
pub struct Listing {
    connection: Connection,
    filter: ListFilter,
    /// The partition to read next, and where in it.
    next: Option<(u16, Option<String>)>,
}

impl Listing {
    pub(super) fn new(connection: Connection, filter: ListFilter) -> Self {
        Self { connection, filter, next: Some((0, None)) }
    }

    /// The next page, never empty; none at the end. Pages of one partition are in its order, and
    /// partitions follow each other.
    pub async fn next_page(&mut self) -> Result<Option<Vec<ExecutionSummary>>, SdkError> {
        while let Some((index, cursor)) = self.next.clone() {
            let engine = self.connection.engine();
            let partition = Partition::flow(index);
            let page = engine.list_executions(partition, &self.filter, cursor, PAGE).await;
            let page = page.map_err(|error| error.in_context("list"))?;
            let count = engine.partition_config().num_flow_partitions;
            self.next = match page.next_cursor {
                Some(cursor) => Some((index, Some(cursor))),
                None => (index + 1 < count).then_some((index + 1, None)),
            };
            if !page.items.is_empty() {
                return Ok(Some(page.items));
            }
        }
        Ok(None)
    }

    /// Everything, in one list.
    pub async fn all(mut self) -> Result<Vec<ExecutionSummary>, SdkError> {
        let mut all = Vec::new();
        while let Some(page) = self.next_page().await? {
            all.extend(page);
        }
        Ok(all)
    }
}
