//! Delivers wake-ups to whoever subscribed.

use ff_core::partition::Partition;
use ff_script::host::{Subscription, Topic, Wake};
use tokio::sync::broadcast;

/// A reader that is further behind than this is told that it missed something.
const BACKLOG_MAX: usize = 4096;

/// One channel per topic. Subscriptions end when the last copy is dropped.
pub(crate) struct WakeHub {
    topics: [broadcast::Sender<Wake>; Topic::ALL.len()],
}

impl WakeHub {
    pub(crate) fn new() -> Self {
        Self { topics: Topic::ALL.map(|_| broadcast::Sender::new(BACKLOG_MAX)) }
    }

    pub(crate) fn subscribe(&self, topic: Topic) -> Subscription {
        Subscription::new(self.sender(topic).subscribe())
    }

    /// Delivers the wake-ups of one call.
    pub(crate) fn deliver(&self, partition: Partition, wakes: Vec<(Topic, Vec<u8>)>) {
        for (topic, message) in wakes {
            // Nobody listening is as good as delivered: wake-ups are hints.
            let _ = self.sender(topic).send(Wake::Message { partition, message });
        }
    }

    fn sender(&self, topic: Topic) -> &broadcast::Sender<Wake> {
        let index = Topic::ALL.iter().position(|known| *known == topic);
        &self.topics[index.expect("every topic is in the list of all topics")]
    }
}
