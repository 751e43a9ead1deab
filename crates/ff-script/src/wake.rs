//! Wake-ups: what one can wait for, and how it arrives.

use std::any::Any;

use ff_core::partition::{Partition, PartitionFamily};
use ff_core::types::{ExecutionId, FlowId};
use tokio::sync::broadcast;
use uuid::Uuid;

/// What one can wait for in all partitions. The library publishes on `<partition key>:<topic>`,
/// after the effects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Topic {
    /// Work became claimable; the message is how many joined a queue, the best of their scores, and
    /// the queue: `count:score:lane:need`.
    Ready,
    /// An execution ended; the message is its id.
    Ended,
    /// A timer was set that is due before the next sweep; the message is its time.
    Due,
}

impl Topic {
    /// Every topic.
    pub const ALL: [Self; 3] = [Self::Ready, Self::Ended, Self::Due];

    /// The last part of the channel name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Ready => "ready",
            Self::Ended => "ended",
            Self::Due => "due",
        }
    }

    /// The channel this topic uses in a partition.
    pub fn channel(self, partition: Partition) -> String {
        format!("{}:{}", partition.key(), self.as_str())
    }
}

/// One thing that one can follow, and hear of nothing else. The library publishes on
/// `<partition key>:<kind>:<uuid>`, after the effects.
///
/// The end of an execution that wrote nothing is told on [`Topic::Ended`] alone: a push of its own
/// would be one more command for every execution, for the few that somebody follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Subject {
    /// The output of an execution: `<attempt>:<last frame>` when frames were appended and when
    /// another attempt begins, with `:closed` behind it when an attempt is over.
    Frames(ExecutionId),
    /// A flow, by where it lives: something happened to it or to one of its members.
    Flow(Partition, FlowId),
}

impl Subject {
    /// The partition that publishes it.
    pub const fn partition(self) -> Partition {
        match self {
            Self::Frames(id) => id.partition(),
            Self::Flow(home, _) => home,
        }
    }

    /// The channel that it is published on.
    pub fn channel(self) -> String {
        let (kind, uuid) = match self {
            Self::Frames(id) => ("frames", id.uuid()),
            Self::Flow(_, id) => ("flow", id.as_uuid()),
        };
        format!("{}:{kind}:{uuid}", self.partition().key())
    }
}

/// A channel of a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Channel {
    /// The one of a topic.
    Topic(Topic),
    /// The one of a subject.
    Subject(Subject),
}

impl Channel {
    /// The channel with this name, which follows the partition's key and a colon. None if nobody
    /// can wait for it.
    pub fn named(partition: Partition, name: &[u8]) -> Option<Self> {
        if let Some(topic) = Topic::ALL.into_iter().find(|it| it.as_str().as_bytes() == name) {
            return Some(Self::Topic(topic));
        }
        let colon = name.iter().position(|byte| *byte == b':')?;
        if partition.family != PartitionFamily::Flow {
            return None;
        }
        let uuid = Uuid::try_parse_ascii(&name[colon + 1..]).ok()?;
        match &name[..colon] {
            b"frames" => Some(Subject::Frames(ExecutionId::from_parts(partition, uuid))),
            b"flow" => Some(Subject::Flow(partition, FlowId::from_uuid(uuid))),
            _ => None,
        }
        .map(Self::Subject)
    }
}

/// One wake-up. A hint: correctness never depends on it arriving.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wake {
    /// Something happened in this partition.
    Message {
        /// Where.
        partition: Partition,
        /// What, see [`Topic`]; hosts do not look into it.
        message: Vec<u8>,
    },
    /// Wake-ups may have been lost (reconnect, slow reader): look everywhere once.
    Missed,
}

/// The executions and flows that a message on [`Topic::Ended`] names, with a blank between them; an
/// empty list if it cannot be read.
pub(crate) fn all_ended(message: &[u8]) -> Vec<Uuid> {
    let names = message.split(|byte| *byte == b' ');
    names.map(|name| Uuid::try_parse_ascii(name).ok()).collect::<Option<_>>().unwrap_or_default()
}

/// A stream of wake-ups. Ends when the host is closed.
pub struct Subscription {
    receiver: broadcast::Receiver<Wake>,
    /// Dropped after the receiver, so that it finds out whether that was the last one.
    _hold: Option<Box<dyn Any + Send + Sync>>,
}

impl Subscription {
    /// A subscription fed by this channel.
    pub fn new(receiver: broadcast::Receiver<Wake>) -> Self {
        Self { receiver, _hold: None }
    }

    /// A subscription that drops `hold` when it has left the channel.
    pub fn holding(receiver: broadcast::Receiver<Wake>, hold: impl Any + Send + Sync) -> Self {
        Self { receiver, _hold: Some(Box::new(hold)) }
    }

    /// Forgets the wake-ups that have arrived: whoever reads after this knows what they told of.
    pub fn skip_arrived(&mut self) {
        use broadcast::error::TryRecvError;
        while let Ok(_) | Err(TryRecvError::Lagged(_)) = self.receiver.try_recv() {}
    }

    /// The next wake-up, or `None` when the host is gone.
    pub async fn next(&mut self) -> Option<Wake> {
        match self.receiver.recv().await {
            Ok(wake) => Some(wake),
            Err(broadcast::error::RecvError::Lagged(_)) => Some(Wake::Missed),
            Err(broadcast::error::RecvError::Closed) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_channel_is_recognised_by_the_name_that_it_was_given() {
        let partition = Partition::flow(7);
        let id = ExecutionId::from_parts(partition, Uuid::from_u128(5));
        let name = |channel: String| channel.replacen("ff:{fp:7}:", "", 1).into_bytes();
        let flow = FlowId::from_uuid(id.uuid());
        for subject in [Subject::Frames(id), Subject::Flow(partition, flow)] {
            let found = Channel::named(partition, &name(subject.channel()));
            assert_eq!(found, Some(Channel::Subject(subject)));
        }
        for topic in Topic::ALL {
            let found = Channel::named(partition, &name(topic.channel(partition)));
            assert_eq!(found, Some(Channel::Topic(topic)));
        }
        let budget = Partition { family: PartitionFamily::Budget, index: 7 };
        assert_eq!(Channel::named(budget, &name(Subject::Frames(id).channel())), None);
        for strange in ["", ":", "frames", "frames:", "frames:x", "flow:", "ready:", "other:0"] {
            assert_eq!(Channel::named(partition, strange.as_bytes()), None, "{strange}");
        }
    }
}
