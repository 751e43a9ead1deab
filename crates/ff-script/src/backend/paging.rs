//! Lists over partitions whose entries lie in an index of their own, page by page.

use ff_core::contracts::ListFilter;
use ff_core::error::EngineError;
use ff_core::partition::Partition;

use super::reads::Position;
use super::{CALLS_MAX, ScriptBackend};
use crate::call::Call;
use crate::host::Host;

/// What of a list is asked for.
pub(super) struct Span {
    /// Only of this partition.
    pub(super) partition: Option<u16>,
    /// From behind the page that ended here.
    pub(super) cursor: Option<String>,
    /// At most so many.
    pub(super) limit: u32,
}

impl<H: Host + ?Sized> ScriptBackend<H> {
    /// A page, and where the next one begins. `call` asks one partition from a cursor of its own on
    /// for so many; `open` gives the entries it answered, and its cursor.
    pub(super) async fn list_from<C: Call, T>(
        &self,
        Span { partition, cursor, limit }: Span,
        call: impl Fn(String, u32) -> C,
        open: impl Fn(C::Reply) -> (Vec<T>, Option<String>),
    ) -> Result<(Vec<T>, Option<String>), EngineError> {
        let filter = ListFilter { partition, cursor, ..ListFilter::default() };
        filter.validate(&self.config)?;
        let mut at = Some(Position::first(&filter, &self.config)?);
        let (mut entries, mut calls) = (Vec::new(), 0);
        while let Some(position) = at.take() {
            let wanted = limit - entries.len() as u32;
            if wanted == 0 || calls == CALLS_MAX {
                at = Some(position);
                break;
            }
            let asked = call(position.inside.clone().unwrap_or_default(), wanted);
            let (found, next) = open(self.call(Partition::flow(position.partition), asked).await?);
            entries.extend(found);
            at = position.next(next, &filter, &self.config);
            calls += 1;
        }
        Ok((entries, at.map(|position| position.encode())))
    }
}
