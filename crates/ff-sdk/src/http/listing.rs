//! Lists of executions: the server walks the partitions.

use ff_api::listing::{ExecutionList, ListQuery};
use ff_api::paths;
use ff_core::contracts::{ListFilter, ListPage};
use ff_core::engine_backend::Answer;
use ff_core::error::EngineError;
use ff_core::partition::Partition;

use super::HttpBackend;
use super::call::Call;
use crate::connection::ListAll;

impl HttpBackend {
    async fn list(&self, query: ListQuery) -> Result<ListPage, EngineError> {
        let path = format!("{}?{}", paths::EXECUTIONS, query.to_query());
        Ok(self.json::<ExecutionList>(Call::get(path)).await?.into())
    }

    pub(super) fn list_one<'a>(
        &'a self,
        partition: Partition,
        filter: &'a ListFilter,
        cursor: Option<String>,
        limit: u32,
    ) -> Answer<'a, ListPage> {
        let partition = Some(partition.index);
        let limit = Some(limit);
        Box::pin(self.list(ListQuery { partition, cursor, limit, ..ListQuery::new(filter) }))
    }
}

impl ListAll for HttpBackend {
    fn list_all<'a>(
        &'a self,
        filter: &'a ListFilter,
        cursor: Option<String>,
        limit: u32,
    ) -> Answer<'a, ListPage> {
        let limit = Some(limit);
        Box::pin(self.list(ListQuery { cursor, limit, ..ListQuery::new(filter) }))
    }
}
