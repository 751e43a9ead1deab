//! Wake-ups of one test's partitions.

use std::time::Duration;

use ff_core::partition::Partition;
use ff_script::host::{Host, Subscription, Topic, Wake};

use crate::deployment::Deployment;
use crate::servers::WAKING_PARTITIONS;

/// Far longer than a wake-up takes: only a missing one waits this long.
const LIMIT: Duration = Duration::from_secs(60);

/// Receives what is published in the partitions of one test.
pub struct Listener {
    subscription: Subscription,
    partitions: [Partition; 4],
}

impl Deployment {
    /// Starts to listen to a topic.
    pub async fn listen(&self, topic: Topic) -> Listener {
        assert!(self.home().index < WAKING_PARTITIONS, "wake-ups of this partition are not heard");
        let subscription = self.host().subscribe(topic).await.expect("topics can be subscribed to");
        Listener { subscription, partitions: self.partitions }
    }
}

impl Listener {
    /// The lane that the next wake-up tells of: `count:score:lane:need`.
    pub async fn lane(&mut self) -> String {
        let message = self.next().await;
        message.split(':').nth(2).expect("it names a lane").to_owned()
    }

    /// Waits for this very message. What was published a moment before may come first.
    pub async fn hears(&mut self, message: &str) {
        while self.next().await != message {}
    }

    /// The message of the next wake-up in one of the test's partitions.
    pub async fn next(&mut self) -> String {
        loop {
            let wake = tokio::time::timeout(LIMIT, self.subscription.next()).await;
            match wake.expect("a wake-up arrives in time").expect("the host is open") {
                Wake::Message { partition, message } if self.partitions.contains(&partition) => {
                    return String::from_utf8(message).expect("messages are ASCII");
                }
                // Others' wake-ups, and the notice that some of theirs were too many.
                Wake::Message { .. } | Wake::Missed => {}
            }
        }
    }
}
