//! Listing executions, a page at a time.

use ff_core::contracts::{ExecutionSummary, ListFilter};
use ff_core::limits;

use crate::connection::Connection;
use crate::error::SdkError;

/// As many as a page may have.
const PAGE: u32 = limits::LIST_LIMIT_MAX as u32;

/// A listing under way. Not a snapshot: what changes meanwhile may be seen or not.
#[derive(Debug)]
pub struct Listing {
    connection: Connection,
    /// The next page; none at the end.
    next: Option<ListFilter>,
}

impl Listing {
    pub(super) fn new(connection: Connection, filter: ListFilter) -> Self {
        let limit = filter.limit.or(Some(PAGE));
        Self { connection, next: Some(ListFilter { limit, ..filter }) }
    }

    /// The next page, never empty; none at the end. All pages are in one order.
    pub async fn next_page(&mut self) -> Result<Option<Vec<ExecutionSummary>>, SdkError> {
        while let Some(filter) = self.next.take() {
            let page = self.connection.engine().list_executions(filter.clone()).await;
            let page = page.map_err(|error| {
                self.next = Some(filter.clone());
                error.in_context("list")
            })?;
            self.next = page.next_cursor.map(|next| ListFilter { cursor: Some(next), ..filter });
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
