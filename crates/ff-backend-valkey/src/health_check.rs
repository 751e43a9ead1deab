//! The background check: a promoted replica may run an older library, or none, settings may have
//! changed, and a slot may have moved while nobody called.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{MissedTickBehavior, interval};

use crate::caller::Caller;
use crate::errors::Failure;
use crate::node::Node;
use crate::verifier::Verifier;

/// Checks every master, a few commands each, at this interval, for as long as the task lives.
pub(crate) async fn run(caller: Arc<Caller>, every: Duration) {
    let Caller { topology, verifier, .. } = &*caller;
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
            if let Err(failure) = check(&master, verifier).await {
                tracing::warn!(error = %failure.error, "a server does not pass its check");
            }
        }
    }
}

async fn check(master: &Node, verifier: &Verifier) -> Result<(), Failure> {
    let connection = master.connection().await?;
    let checked = verifier.check(&connection).await;
    // Whatever is wrong, the next call finds out for itself and is told.
    if checked.is_err() {
        connection.set_verified(false);
    }
    checked.inspect_err(|failure| master.react(failure, &connection))
}
