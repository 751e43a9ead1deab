//! What a host must be able to do: run a function of the library on a partition, and deliver
//! wake-ups. Everything else, reads included, is a function.

use ff_core::backend_error::BackendError;
use ff_core::partition::Partition;
use futures_core::future::BoxFuture;
use tokio::sync::broadcast;

use crate::args::Args;
use crate::value::Value;

/// A function of the library, as a host needs to know it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Function {
    /// The registered name, with the contract's major version: `ff_renew_lease_v1`.
    pub wire_name: &'static str,
    /// True for functions flagged `no-writes`.
    pub read_only: bool,
}

impl Function {
    /// True for what is done again by itself sooner or later: if the store loses it, nobody has
    /// lost anything.
    pub fn is_upkeep(self) -> bool {
        const UPKEEP: [&str; 3] = ["ff_tick_v1", "ff_heartbeat_worker_v1", "ff_register_worker_v1"];
        UPKEEP.contains(&self.wire_name)
    }
}

/// A store that runs the function library.
///
/// A call is atomic: all of its effects are there afterwards, or none. When `call` returns `Ok`,
/// the effects are as durable as the host was configured to make them.
pub trait Host: Send + Sync + 'static {
    /// Runs one function on one partition.
    fn call(
        &self,
        function: Function,
        partition: Partition,
        args: Args,
    ) -> BoxFuture<'_, Result<Value, BackendError>>;

    /// Starts to deliver the wake-ups of one topic, from all partitions.
    fn subscribe(&self, topic: Topic) -> BoxFuture<'_, Result<Subscription, BackendError>>;

    /// How often the store was found to have lost what it had acknowledged. Whoever remembers what
    /// is in the store looks again when this has grown.
    fn losses(&self) -> u64 {
        0
    }

    /// Short name for messages: `embedded`, `valkey`, `valkey-cluster`.
    fn name(&self) -> &'static str;
}

/// What one can wait for. The library publishes on `<partition key>:<topic>`, after the effects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Topic {
    /// Work became claimable; the message is the lane.
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

/// One wake-up. A hint: correctness never depends on it arriving.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wake {
    /// Something happened in this partition.
    Message {
        /// Where.
        partition: Partition,
        /// What, see [`Topic`].
        message: Vec<u8>,
    },
    /// Wake-ups may have been lost (reconnect, slow reader): look everywhere once.
    Missed,
}

/// A stream of wake-ups. Ends when the host is closed.
pub struct Subscription {
    receiver: broadcast::Receiver<Wake>,
}

impl Subscription {
    /// A subscription fed by this channel.
    pub fn new(receiver: broadcast::Receiver<Wake>) -> Self {
        Self { receiver }
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
