//! Gives every partition the first key of its waitpoint tokens, beside whatever else goes on.

use std::sync::Arc;

use ff_core::engine_backend::EngineBackend as _;
use ff_core::partition::Partition;
use ff_script::backend::{Installed, ScriptBackend};
use tokio::task::JoinHandle;

use crate::facts::BACKOFF;

/// The first keys of waitpoint tokens on their way to all partitions. It ends when all have one,
/// or when this is dropped: a partition that was missed gets its key when it first needs it.
#[derive(Debug)]
pub struct FirstSecrets(JoinHandle<()>);

impl FirstSecrets {
    pub(crate) fn start(backend: Arc<ScriptBackend>) -> Self {
        Self(tokio::spawn(install(backend)))
    }

    /// Waits until all partitions have one.
    pub async fn installed(&mut self) {
        // It ends by itself only when it is done.
        let _ = (&mut self.0).await;
    }
}

impl Drop for FirstSecrets {
    fn drop(&mut self) {
        self.0.abort();
    }
}

async fn install(backend: Arc<ScriptBackend>) {
    let mut missing: Vec<Partition> = backend.partition_config().flow_partitions().collect();
    let mut backoff = BACKOFF;
    loop {
        missing = tell(backend.install_first_secret(missing).await);
        if missing.is_empty() {
            return;
        }
        backoff.pause().await;
    }
}

/// Tells the log, and answers where it is to be repeated.
fn tell(installed: Installed) -> Vec<Partition> {
    if installed.new > 0 {
        tracing::info!(partitions = installed.new, "waitpoint tokens have their first secret");
    }
    let told = installed.failed.into_iter().map(|(partition, error)| {
        let index = partition.index;
        tracing::warn!(partition = index, %error, "no waitpoint secret yet: it is tried again");
        partition
    });
    told.collect()
}

#[cfg(all(test, feature = "embedded"))]
mod tests {
    use ff_core::error::Code;
    use ff_script::calls::secret::{RotateWaitpointHmacSecret, SecretHex};

    use super::*;
    use crate::trouble::{SECRET, backend};

    const ROTATE: &str = "ff_rotate_waitpoint_hmac_secret_v1";

    async fn rotate(
        backend: &ScriptBackend,
        partition: Partition,
        hex: &str,
    ) -> Result<(), Option<Code>> {
        let (new_kid, new_secret_hex) = ("k1".to_owned(), SecretHex(hex.to_owned()));
        let rotate =
            RotateWaitpointHmacSecret { new_kid, new_secret_hex, grace_ms: 0, only_first: false };
        backend.call(partition, rotate).await.map(drop).map_err(|error| error.code())
    }

    #[tokio::test(start_paused = true)]
    async fn all_partitions_get_the_given_secret_and_those_that_failed_are_tried_again() {
        let (backend, _) = backend(ROTATE, 70).await;
        FirstSecrets::start(Arc::clone(&backend)).installed().await;
        for partition in backend.partition_config().flow_partitions() {
            // A kid stands for one secret: which one it is, is told by another's refusal.
            let other = rotate(&backend, partition, &SECRET.replace('0', "1")).await;
            assert_eq!(other, Err(Some(Code::RotationConflict)), "{partition}");
            assert_eq!(rotate(&backend, partition, SECRET).await, Ok(()), "{partition}");
        }
    }

    #[tokio::test]
    async fn a_second_start_changes_nothing() {
        let (backend, _) = backend(ROTATE, 0).await;
        let partitions = || backend.partition_config().flow_partitions();
        let first = backend.install_first_secret(partitions()).await;
        assert_eq!((first.new, first.failed.len()), (40, 0));
        let second = backend.install_first_secret(partitions()).await;
        assert_eq!((second.new, second.failed.len()), (0, 0));
    }
}
