//! The background check: a promoted replica may run an older library, or none, and a slot may have
//! moved while nobody called.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{MissedTickBehavior, interval};

use crate::errors::Failure;
use crate::loader::Loader;
use crate::node::Node;
use crate::topology::Topology;

/// Checks every master, one command each, at this interval, for as long as the task lives.
pub(crate) async fn watch(topology: Arc<Topology>, loader: Arc<Loader>, every: Duration) {
    let mut ticks = interval(every);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    // The first tick comes at once, and everything has just been checked.
    ticks.tick().await;
    loop {
        ticks.tick().await;
        if let Err(failure) = topology.refresh().await {
            tracing::warn!(error = %failure.error, "cannot learn who serves what");
        }
        for master in topology.masters() {
            if let Err(failure) = check(&master, &loader).await {
                tracing::warn!(error = %failure.error, "cannot check the function library");
            }
        }
    }
}

async fn check(master: &Node, loader: &Loader) -> Result<(), Failure> {
    let connection = master.connection().await?;
    let checked = loader.check(&connection).await;
    // Whatever is wrong, the next call finds out for itself and is told.
    connection.set_verified(checked.is_ok());
    checked.inspect_err(|failure| master.react(failure, &connection))
}
