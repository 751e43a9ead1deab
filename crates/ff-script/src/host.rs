//! What a host must be able to do: run a function of the library on a partition, and deliver
//! wake-ups. Everything else, reads included, is a function.

use ff_core::backend_error::BackendError;
use ff_core::partition::Partition;
use futures_core::future::BoxFuture;

use crate::args::Args;
use crate::value::Value;
pub use crate::wake::{Channel, Subject, Subscription, Topic, Wake};

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

    /// Starts to deliver the wake-ups of one subject. What is published after this has resolved is
    /// heard, or [`Wake::Missed`] is delivered later: whoever reads the subject after that, and
    /// again at every wake-up, lets nothing pass. What was published just before may be heard, too.
    /// However many follow a subject in this process, the store is asked for it once, and gives it
    /// up when the last of them is dropped.
    fn follow(&self, subject: Subject) -> BoxFuture<'_, Result<Subscription, BackendError>>;

    /// How often the store was found to have lost what it had acknowledged. Whoever remembers what
    /// is in the store looks again when this has grown.
    fn losses(&self) -> u64 {
        0
    }

    /// Short name for messages: `embedded`, `valkey`, `valkey-cluster`.
    fn name(&self) -> &'static str;
}
