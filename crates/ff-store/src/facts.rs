//! Keeps every partition up to date with the facts that the first one has decided, beside whatever
//! else goes on: whoever changes a fact tells all partitions, and this tells those that were
//! missed.

use std::sync::Arc;
use std::time::Duration;

use ff_core::error::EngineError;
use ff_script::backend::{FactsInstalled, ScriptBackend};
use ff_script::backoff::Backoff;
use tokio::task::JoinHandle;
use tokio::time::Instant;

/// Between tries to tell those that were missed.
pub(crate) const BACKOFF: Backoff = Backoff::of_ms(1_000, 60_000);

/// How often the first partition is asked whether all were seen at its revision.
const LOOKED_AT_EVERY: Duration = Duration::from_secs(60);

/// How often all partitions are looked at, whatever the first one says of them.
const CHECKED_EVERY: Duration = Duration::from_secs(60 * 60);

/// The facts of a store being kept, until this is dropped.
#[derive(Debug)]
pub struct KeptFacts(JoinHandle<()>);

impl KeptFacts {
    pub(crate) fn start(backend: Arc<ScriptBackend>) -> Self {
        Self(tokio::spawn(keep(backend)))
    }
}

impl Drop for KeptFacts {
    fn drop(&mut self) {
        self.0.abort();
    }
}

async fn keep(backend: Arc<ScriptBackend>) {
    loop {
        let losses = backend.host().losses();
        let mut backoff = BACKOFF;
        while !is_everywhere(backend.install_facts().await) {
            backoff.pause().await;
        }
        let checked_at = Instant::now();
        while losses == backend.host().losses()
            && checked_at.elapsed() < CHECKED_EVERY
            && backend.facts_are_installed().await.unwrap_or(true)
        {
            tokio::time::sleep(LOOKED_AT_EVERY).await;
        }
    }
}

/// Tells the log, and answers whether nothing is left to do.
fn is_everywhere(answer: Result<FactsInstalled, EngineError>) -> bool {
    let installed = match answer {
        Ok(installed) => installed,
        Err(error) => {
            tracing::warn!(%error, "facts cannot be read: it is tried again");
            return false;
        }
    };
    if installed.changed > 0 {
        tracing::info!(partitions = installed.changed, "partitions were brought up to date");
    }
    for (partition, error) in &installed.failed {
        let index = partition.index;
        tracing::warn!(partition = index, %error, "facts are not up to date: it is tried again");
    }
    installed.failed.is_empty()
}

#[cfg(all(test, feature = "embedded"))]
mod tests {
    use ff_core::contracts::{LaneChanged, SetLane};
    use ff_core::engine_backend::roles::*;
    use ff_core::partition::Partition;
    use ff_core::types::LaneId;
    use ff_script::calls::fact::{ReadFacts, ReadFactsReply};

    use super::*;
    use crate::trouble::backend;

    const INSTALL: &str = "ff_install_facts_v1";

    async fn pause(backend: &ScriptBackend, name: &str, paused: bool) -> LaneChanged {
        let lane = LaneId::try_new(name).expect("a lane");
        backend.set_lane(lane, SetLane::paused(paused)).await.expect("it is decided")
    }

    /// What one partition knows.
    async fn known(backend: &ScriptBackend, partition: Partition) -> (u64, Vec<String>) {
        let ReadFactsReply::Facts { revision, facts, .. } =
            backend.call(partition, ReadFacts { whole: true }).await.expect("readable");
        (revision, facts.0)
    }

    /// All partitions know what the first one does.
    async fn assert_equal(backend: &ScriptBackend) {
        let first = known(backend, Partition::flow(0)).await;
        for partition in backend.partition_config().flow_partitions() {
            assert_eq!(known(backend, partition).await, first, "{partition}");
        }
        assert!(backend.facts_are_installed().await.expect("readable"));
    }

    #[tokio::test]
    async fn a_change_is_told_to_all_partitions() {
        let (backend, _) = backend(INSTALL, 0).await;
        assert!(pause(&backend, "a", true).await.failed.is_empty());
        assert_equal(&backend).await;
        assert_eq!(known(&backend, Partition::flow(7)).await.1.len(), 2);
        pause(&backend, "a", false).await;
        assert_equal(&backend).await;
        assert!(known(&backend, Partition::flow(7)).await.1.is_empty());
    }

    #[tokio::test]
    async fn partitions_that_could_not_be_reached_are_told_and_the_same_change_carries_on() {
        let (backend, trouble) = backend(INSTALL, 5).await;
        let changed = pause(&backend, "a", true).await;
        assert_eq!(changed.failed.len(), 5);
        assert!(changed.failed.iter().all(|failure| failure.reason.contains("no way there")));
        assert!(!backend.facts_are_installed().await.expect("readable"));
        trouble.fail(0);
        assert!(pause(&backend, "a", true).await.failed.is_empty());
        assert_equal(&backend).await;
    }

    #[tokio::test]
    async fn a_partition_that_missed_several_changes_is_given_the_whole() {
        let (backend, trouble) = backend(INSTALL, 0).await;
        pause(&backend, "a", true).await;
        trouble.fail(9);
        pause(&backend, "a", false).await;
        trouble.fail(9);
        pause(&backend, "b", true).await;
        trouble.fail(0);
        pause(&backend, "c", true).await;
        assert_equal(&backend).await;
    }

    #[tokio::test(start_paused = true)]
    async fn what_was_missed_is_installed_by_itself() {
        let (backend, trouble) = backend(INSTALL, 39).await;
        assert_eq!(pause(&backend, "a", true).await.failed.len(), 39);
        trouble.fail(100);
        let kept = KeptFacts::start(Arc::clone(&backend));
        while !backend.facts_are_installed().await.expect("readable") {
            tokio::time::advance(Duration::from_secs(1)).await;
        }
        drop(kept);
        assert_equal(&backend).await;
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
    async fn many_who_install_at_the_same_time_end_with_the_same() {
        let (backend, _) = backend(INSTALL, 0).await;
        let changes = (0..24).map(|number| {
            let backend = Arc::clone(&backend);
            tokio::spawn(async move {
                let name = format!("lane-{}", number % 6);
                pause(&backend, &name, number % 3 != 0).await;
            })
        });
        for change in changes.collect::<Vec<_>>() {
            change.await.expect("no panic");
        }
        let installed = backend.install_facts().await.expect("readable");
        assert!(installed.failed.is_empty(), "{installed:?}");
        assert_equal(&backend).await;
    }
}
