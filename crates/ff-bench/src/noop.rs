//! The baseline on Valkey: a function that does nothing, called with ten arguments.

use std::sync::Arc;

use ff_backend_valkey::ValkeyHost;
use ff_core::partition::Partition;
use ff_script::args::Args;
use ff_script::host::{Function, Host};

use crate::Failure;
use crate::caller::Caller;
use crate::ids::Ids;
use crate::store::{Inside, Store};

const SOURCE: &[u8] = b"#!lua name=ff_bench_noop
redis.register_function('ff_bench_noop', function() return {1, 'OK'} end)";
const NOOP: Function = Function { wire_name: "ff_bench_noop", read_only: false };
const ARGUMENTS: [&[u8]; 10] = [b"an-argument-of-20-by"; 10];

/// Puts the function next to the library on every master.
pub(crate) async fn install(host: &ValkeyHost) -> Result<(), Failure> {
    host.raw_on_all_masters(&[b"FUNCTION", b"LOAD", b"REPLACE", SOURCE]).await?;
    Ok(())
}

/// Takes it away again: the store may not be ours.
pub(crate) async fn remove(host: &ValkeyHost) -> Result<(), Failure> {
    host.raw_on_all_masters(&[b"FUNCTION", b"DELETE", b"ff_bench_noop"]).await?;
    Ok(())
}

/// Calls the function, over and over.
pub(crate) struct NoopCaller {
    host: Arc<dyn Host>,
    partitions: u16,
    ids: Ids,
}

impl NoopCaller {
    /// As many callers; none if the store has no such function.
    pub(crate) fn several(store: &Store, count: u32) -> Vec<Self> {
        let Inside::Valkey(_) = &store.inside else { return Vec::new() };
        let caller = |_| Self {
            host: Arc::clone(&store.host),
            partitions: store.partitions(),
            ids: Ids::new(),
        };
        (0..count).map(caller).collect()
    }
}

impl Caller for NoopCaller {
    async fn step(&mut self) -> Result<(), Failure> {
        let partition = Partition::flow(self.ids.below(self.partitions));
        let args: Args = ARGUMENTS.into_iter().collect();
        self.host.call(NOOP, partition, args).await?;
        Ok(())
    }
}
