//! Listing executions, a page at a time.

use ff_core::contracts::{ExecutionSummary, ListFilter, ListPage};
use ff_core::error::EngineError;
use ff_core::limits;
use ff_core::partition::Partition;

use crate::connection::Connection;
use crate::error::SdkError;

/// One call of a store reads so many at most; a server gathers as many as a page may have.
const PAGE: u32 = 100;
const SERVER_PAGE: u32 = limits::LIST_LIMIT_MAX as u32;

/// A listing under way. Not a snapshot: what changes meanwhile may be seen or not.
#[derive(Debug)]
pub struct Listing {
    connection: Connection,
    filter: ListFilter,
    next: Option<Place>,
}

/// Where a listing goes on.
#[derive(Clone, Debug)]
enum Place {
    /// In this partition.
    Partition(u16, Option<String>),
    /// Wherever the backend was.
    Backend(Option<String>),
}

impl Listing {
    pub(super) fn new(connection: Connection, filter: ListFilter) -> Self {
        let first = match connection.listing() {
            Some(_) => Place::Backend(None),
            None => Place::Partition(0, None),
        };
        Self { connection, filter, next: Some(first) }
    }

    /// The next page, never empty; none at the end. Pages of one partition are in its order, and
    /// partitions follow each other.
    pub async fn next_page(&mut self) -> Result<Option<Vec<ExecutionSummary>>, SdkError> {
        while let Some(place) = self.next.clone() {
            let (page, next) = self.read(place).await.map_err(|error| error.in_context("list"))?;
            self.next = next;
            if !page.is_empty() {
                return Ok(Some(page));
            }
        }
        Ok(None)
    }

    /// Reads a page, and says where the next one begins.
    async fn read(
        &self,
        place: Place,
    ) -> Result<(Vec<ExecutionSummary>, Option<Place>), EngineError> {
        match (place, self.connection.listing()) {
            (Place::Backend(cursor), Some(backend)) => {
                let page = backend.list_all(&self.filter, cursor, SERVER_PAGE).await?;
                let next = page.next_cursor.map(|cursor| Place::Backend(Some(cursor)));
                Ok((page.items, next))
            }
            (Place::Backend(_), None) => Ok((Vec::new(), None)),
            (Place::Partition(index, cursor), _) => {
                let engine = self.connection.engine();
                let partition = Partition::flow(index);
                let page = engine.list_executions(partition, &self.filter, cursor, PAGE).await?;
                let next = self.after(index, &page);
                Ok((page.items, next))
            }
        }
    }

    fn after(&self, index: u16, page: &ListPage) -> Option<Place> {
        let count = self.connection.partition_config().num_flow_partitions;
        match &page.next_cursor {
            Some(cursor) => Some(Place::Partition(index, Some(cursor.clone()))),
            None => (index + 1 < count).then_some(Place::Partition(index + 1, None)),
        }
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
