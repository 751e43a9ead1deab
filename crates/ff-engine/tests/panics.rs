//! A tick that panics is tried again: its partition is not forgotten.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use ff_backend_embedded::{EmbeddedConfig, EmbeddedHost};
use ff_core::backend_error::BackendError;
use ff_core::partition::{Partition, PartitionConfig};
use ff_engine::{Engine, EngineConfig};
use ff_script::args::Args;
use ff_script::backend::ScriptBackend;
use ff_script::host::{Function, Host, Subject, Subscription, Topic};
use ff_script::library::Library;
use ff_script::value::Value;
use futures_core::future::BoxFuture;
use tokio::sync::Semaphore;

const VICTIM: Partition = Partition::flow(2);
const PANICS: u32 = 2;

/// A real store whose caller panics in the first ticks of one partition.
struct Panicking {
    host: EmbeddedHost,
    ticks: AtomicU32,
    /// Has a permit for every tick of the partition that got through.
    through: Semaphore,
}

impl Host for Panicking {
    fn call(
        &self,
        function: Function,
        partition: Partition,
        args: Args,
    ) -> BoxFuture<'_, Result<Value, BackendError>> {
        Box::pin(async move {
            let ticks = partition == VICTIM && function.wire_name.starts_with("ff_tick");
            if ticks {
                let before = self.ticks.fetch_add(1, Ordering::SeqCst);
                assert!(before >= PANICS, "a bug in the caller");
            }
            let answer = self.host.call(function, partition, args).await;
            self.through.add_permits(usize::from(ticks));
            answer
        })
    }

    fn subscribe(&self, topic: Topic) -> BoxFuture<'_, Result<Subscription, BackendError>> {
        self.host.subscribe(topic)
    }

    fn follow(&self, subject: Subject) -> BoxFuture<'_, Result<Subscription, BackendError>> {
        self.host.follow(subject)
    }

    fn name(&self) -> &'static str {
        self.host.name()
    }
}

#[tokio::test]
async fn a_partition_whose_tick_panicked_is_ticked_again() {
    let host = EmbeddedHost::open(EmbeddedConfig::in_memory(), &Library::current());
    let host = host.expect("an embedded host");
    let host = Arc::new(Panicking { host, ticks: AtomicU32::new(0), through: Semaphore::new(0) });
    let partitions = PartitionConfig { num_flow_partitions: 4, ..PartitionConfig::default() };
    let backend = ScriptBackend::open(Arc::clone(&host), partitions).await.expect("opens");
    let engine = Engine::start(Arc::new(backend), EngineConfig::default()).await.expect("starts");
    let time_limit = std::time::Duration::from_secs(30);
    let ticked = tokio::time::timeout(time_limit, host.through.acquire()).await;
    assert!(ticked.is_ok(), "the partition was forgotten");
    assert_eq!(engine.shutdown().await.failures(), u64::from(PANICS));
}
