//! Waiting for the end of one execution. One subscription serves all who wait; a wake-up is only a
//! hint, so a waiter looks before it waits, and again now and then.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ff_core::partition::Partition;
use ff_core::types::{ExecutionId, FlowId};
use ff_script::host::{Subscription, Wake};
use tokio::sync::Notify;

/// How long a waiter trusts that it would have been told.
pub(crate) const LOOK_AGAIN: Duration = Duration::from_secs(5);

/// Everybody who waits for an end.
#[derive(Default)]
pub(crate) struct Ended {
    waiting: Mutex<HashMap<ExecutionId, Entry>>,
}

struct Entry {
    waiters: usize,
    news: Arc<Notify>,
}

impl Ended {
    /// Begins to wait for an execution. Whatever happens to it from now on is noticed.
    pub(crate) fn watch(self: &Arc<Self>, execution_id: ExecutionId) -> Watch {
        let mut waiting = self.lock();
        let entry = waiting
            .entry(execution_id)
            .or_insert_with(|| Entry { waiters: 0, news: Arc::default() });
        entry.waiters += 1;
        let news = Arc::clone(&entry.news);
        drop(waiting);
        Watch { ended: Arc::clone(self), execution_id, news }
    }

    /// Hands on wake-ups until the store is closed.
    pub(crate) async fn listen(self: Arc<Self>, mut wakes: Subscription) {
        while let Some(wake) = wakes.next().await {
            match wake {
                Wake::Message { partition, message } => self.tell(partition, &message),
                Wake::Missed => self.tell_all(),
            }
        }
        self.tell_all();
    }

    fn tell(&self, partition: Partition, message: &[u8]) {
        // Any id that is a UUID parses the same way; a message that is none is not for us.
        let uuid = std::str::from_utf8(message).ok().and_then(|text| FlowId::parse(text).ok());
        let Some(uuid) = uuid else { return };
        let execution_id = ExecutionId::from_parts(partition, uuid.as_uuid());
        if let Some(entry) = self.lock().get(&execution_id) {
            entry.news.notify_waiters();
        }
    }

    fn tell_all(&self) {
        self.lock().values().for_each(|entry| entry.news.notify_waiters());
    }

    fn leave(&self, execution_id: ExecutionId) {
        let mut waiting = self.lock();
        if let Some(entry) = waiting.get_mut(&execution_id) {
            entry.waiters -= 1;
            if entry.waiters == 0 {
                waiting.remove(&execution_id);
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<ExecutionId, Entry>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One who waits.
pub(crate) struct Watch {
    ended: Arc<Ended>,
    execution_id: ExecutionId,
    news: Arc<Notify>,
}

impl Watch {
    /// Completes when the execution may have ended since this call.
    pub(crate) fn news(&self) -> tokio::sync::futures::Notified<'_> {
        self.news.notified()
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.ended.leave(self.execution_id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::sync::broadcast;

    #[tokio::test]
    async fn a_waiter_is_told_of_its_own_execution_only_and_forgotten_when_it_leaves() {
        let (wakes, receiver) = broadcast::channel(8);
        let ended = Arc::new(Ended::default());
        tokio::spawn(Arc::clone(&ended).listen(Subscription::new(receiver)));
        let partition = Partition::flow(3);
        let id = |n| ExecutionId::from_parts(partition, uuid::Uuid::from_u128(n));
        let (one, two) = (ended.watch(id(1)), ended.watch(id(2)));
        let (news_of_one, news_of_two) = (one.news(), two.news());
        let message = id(1).uuid().to_string().into_bytes();
        wakes.send(Wake::Message { partition, message }).expect("somebody listens");
        news_of_one.await;
        let early = tokio::time::timeout(Duration::from_millis(20), news_of_two).await;
        assert!(early.is_err(), "the second was not meant");
        let news_of_two = two.news();
        wakes.send(Wake::Missed).expect("somebody listens");
        news_of_two.await;
        drop((one, two));
        assert!(ended.lock().is_empty());
    }
}
