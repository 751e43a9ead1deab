//! Work that goes on although nobody waits for its answer any more: counted, so that whoever closes
//! a store can wait for it.

use std::sync::Arc;

use tokio::sync::watch;

/// The count. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct InFlight {
    count: Arc<watch::Sender<usize>>,
    /// Where it counts too.
    whole: Option<Arc<watch::Sender<usize>>>,
}

/// One piece of work, until it is dropped.
#[derive(Debug)]
pub struct InFlightGuard(InFlight);

impl InFlight {
    /// A count of its own, of work that counts in a whole, too.
    pub fn part_of(whole: &Self) -> Self {
        Self { count: Arc::default(), whole: Some(Arc::clone(&whole.count)) }
    }

    /// Work begins.
    pub fn begin(&self) -> InFlightGuard {
        self.counts().for_each(|count| count.send_modify(|count| *count += 1));
        InFlightGuard(self.clone())
    }

    /// True if there is none.
    pub fn is_none(&self) -> bool {
        *self.count.borrow() == 0
    }

    /// Returns when there is none.
    pub async fn none(&self) {
        let mut changes = self.count.subscribe();
        // The sender lives as long as we do, so the wait ends only with a match.
        let _ = changes.wait_for(|count| *count == 0).await;
    }

    fn counts(&self) -> impl Iterator<Item = &watch::Sender<usize>> {
        [&self.count].into_iter().chain(&self.whole).map(AsRef::as_ref)
    }
}

impl Drop for InFlightGuard {
    fn drop(&mut self) {
        self.0.counts().for_each(|count| count.send_modify(|count| *count -= 1));
    }
}
