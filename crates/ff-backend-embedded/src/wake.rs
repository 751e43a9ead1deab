//! Delivers wake-ups to whoever subscribed.

use std::sync::{Arc, PoisonError, RwLock, Weak};

use ff_core::partition::Partition;
use ff_script::host::{Channel, Subject, Subscription, Topic, Wake};
use hashbrown::HashMap;
use tokio::sync::broadcast;

use crate::keyspace::Seeded;

/// A reader of a topic that is further behind than this is told that it missed something.
const TOPIC_BACKLOG_MAX: usize = 4096;
/// The same for one who follows a subject. Few: each is a reason to read, and so is having missed
/// some, but thousands of subjects may be followed.
const SUBJECT_BACKLOG_MAX: usize = 16;

/// The wake-ups of one call.
pub(crate) type Wakes = Vec<(Channel, Vec<u8>)>;

/// One feed per topic, and one per subject that somebody follows. Subscriptions end when the last
/// copy is dropped.
pub(crate) struct WakeHub {
    topics: [broadcast::Sender<Wake>; Topic::ALL.len()],
    subjects: Arc<Subjects>,
}

impl WakeHub {
    pub(crate) fn new() -> Self {
        Self {
            topics: Topic::ALL.map(|_| broadcast::Sender::new(TOPIC_BACKLOG_MAX)),
            subjects: Arc::default(),
        }
    }

    pub(crate) fn subscribe(&self, topic: Topic) -> Subscription {
        Subscription::new(self.sender(topic).subscribe())
    }

    pub(crate) fn follow(&self, subject: Subject) -> Subscription {
        self.subjects.follow(subject)
    }

    /// Delivers the wake-ups of one call.
    pub(crate) fn deliver(&self, partition: Partition, wakes: Wakes) {
        for (channel, message) in wakes {
            let wake = Wake::Message { partition, message };
            match channel {
                // Nobody listening is as good as delivered: wake-ups are hints.
                Channel::Topic(topic) => drop(self.sender(topic).send(wake)),
                Channel::Subject(subject) => self.subjects.deliver(subject, wake),
            }
        }
    }

    fn sender(&self, topic: Topic) -> &broadcast::Sender<Wake> {
        let index = Topic::ALL.iter().position(|known| *known == topic);
        &self.topics[index.expect("every topic is in the list of all topics")]
    }
}

/// The subjects that somebody follows.
#[derive(Default)]
struct Subjects {
    feeds: RwLock<HashMap<Subject, broadcast::Sender<Wake>, Seeded>>,
}

impl Subjects {
    fn follow(self: &Arc<Self>, subject: Subject) -> Subscription {
        let mut feeds = self.feeds.write().unwrap_or_else(PoisonError::into_inner);
        let new = || broadcast::Sender::new(SUBJECT_BACKLOG_MAX);
        let receiver = feeds.entry(subject).or_insert_with(new).subscribe();
        Subscription::holding(receiver, Followed { subject, subjects: Arc::downgrade(self) })
    }

    fn deliver(&self, subject: Subject, wake: Wake) {
        let feeds = self.feeds.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(feed) = feeds.get(&subject) {
            // The last follower may be leaving.
            let _ = feed.send(wake);
        }
    }

    /// Forgets a subject that nobody follows any more. Those who come do so under the same lock.
    fn leave(&self, subject: Subject) {
        let mut feeds = self.feeds.write().unwrap_or_else(PoisonError::into_inner);
        if feeds.get(&subject).is_some_and(|feed| feed.receiver_count() == 0) {
            feeds.remove(&subject);
        }
    }
}

/// Held by everyone who follows a subject. Does not keep the store's subscriptions from ending.
struct Followed {
    subject: Subject,
    subjects: Weak<Subjects>,
}

impl Drop for Followed {
    fn drop(&mut self) {
        if let Some(subjects) = self.subjects.upgrade() {
            subjects.leave(self.subject);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ff_core::types::ExecutionId;

    #[test]
    fn a_subject_is_forgotten_with_its_last_follower() {
        let id: ExecutionId =
            "{fp:7}:00000000-0000-0000-0000-000000000005".parse().expect("that is an id");
        let hub = WakeHub::new();
        let followed = || hub.subjects.feeds.read().expect("nobody panics").len();
        let frames = [hub.follow(Subject::Frames(id)), hub.follow(Subject::Frames(id))];
        let other = "{fp:7}:00000000-0000-0000-0000-000000000006".parse().expect("that is an id");
        let other = hub.follow(Subject::Frames(other));
        assert_eq!(followed(), 2);
        drop(other);
        let [first, second] = frames;
        drop(first);
        assert_eq!(followed(), 1);
        drop(second);
        assert_eq!(followed(), 0);
    }
}
