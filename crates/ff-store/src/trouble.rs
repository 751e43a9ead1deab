//! A store some calls of which fail, for tests.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use ff_backend_embedded::{EmbeddedConfig, EmbeddedHost};
use ff_core::backend_error::{BackendError, BackendErrorKind, Retry};
use ff_core::partition::{Partition, PartitionConfig};
use ff_script::args::Args;
use ff_script::backend::{FirstSecret, ScriptBackend, WaitpointSecrets};
use ff_script::host::{Function, Host, Subject, Subscription, Topic};
use ff_script::library::Library;
use ff_script::value::Value;
use futures_core::future::BoxFuture;

/// The first key of waitpoint tokens.
pub(crate) const SECRET: &str = "00112233445566778899aabbccddeeff";

/// A host that answers the next calls of a function with an error.
pub(crate) struct Trouble {
    host: EmbeddedHost,
    function: &'static str,
    left: AtomicU32,
}

impl Trouble {
    /// So many calls of the function will fail.
    pub(crate) fn fail(&self, calls: u32) {
        self.left.store(calls, Ordering::Relaxed);
    }
}

impl Host for Trouble {
    fn call(
        &self,
        function: Function,
        partition: Partition,
        args: Args,
    ) -> BoxFuture<'_, Result<Value, BackendError>> {
        let concerned = function.wire_name == self.function;
        let less = |left: u32| left.checked_sub(1);
        let order = Ordering::Relaxed;
        if concerned && self.left.fetch_update(order, order, less).is_ok() {
            let error = BackendError::new(BackendErrorKind::Transport, Retry::Safe, "no way there");
            return Box::pin(std::future::ready(Err(error)));
        }
        self.host.call(function, partition, args)
    }

    fn subscribe(&self, topic: Topic) -> BoxFuture<'_, Result<Subscription, BackendError>> {
        self.host.subscribe(topic)
    }

    fn follow(&self, subject: Subject) -> BoxFuture<'_, Result<Subscription, BackendError>> {
        self.host.follow(subject)
    }

    fn name(&self) -> &'static str {
        "trouble"
    }
}

/// A store of forty partitions on such a host, and the host.
pub(crate) async fn backend(
    function: &'static str,
    failures: u32,
) -> (Arc<ScriptBackend>, Arc<Trouble>) {
    let config = EmbeddedConfig { shards: 1, ..EmbeddedConfig::in_memory() };
    let host = EmbeddedHost::open(config, &Library::current()).expect("it opens");
    let trouble = Arc::new(Trouble { host, function, left: AtomicU32::new(failures) });
    let host: Arc<dyn Host> = Arc::clone(&trouble) as _;
    let counts = PartitionConfig { num_flow_partitions: 40, ..PartitionConfig::default() };
    let first = FirstSecret::parse(SECRET).expect("a secret");
    let backend = ScriptBackend::open(host, counts).await.expect("it opens");
    let secrets = WaitpointSecrets { first, ..WaitpointSecrets::default() };
    (Arc::new(backend.with_waitpoint_secrets(secrets)), trouble)
}
