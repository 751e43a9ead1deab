//! The word that the gate waits for: the reader gives it, or it is given where nobody watches.

use std::io::IsTerminal;
use std::time::Duration;

use ff_sdk::{Client, DeliverSignal, ExecutionId, PublicState, Signal};
use tokio::sync::oneshot;
use tokio::time::{sleep, timeout};

use super::worker::APPROVED;
use crate::failure::Failure;

/// How long a reader has.
const PATIENCE: Duration = Duration::from_secs(10);
const PAUSE: Duration = Duration::from_millis(20);

/// Whether somebody can be asked.
pub(super) fn somebody_watches(json: bool) -> bool {
    !json && std::io::stdin().is_terminal() && std::io::stdout().is_terminal()
}

/// Waits for the reader's word, if there is a reader, and passes it on. Answers who gave it.
pub(super) async fn give(
    client: Client,
    id: ExecutionId,
    ask: bool,
) -> Result<&'static str, Failure> {
    let asked = if ask { timeout(PATIENCE, a_line()).await.is_ok() } else { false };
    // Its worker tells that it waits just before it does.
    while client.describe(id).await?.map(|it| it.public_state()) != Some(PublicState::Suspended) {
        sleep(PAUSE).await;
    }
    let open = client.pending_waitpoints(id).await?.into_iter().next();
    let open = open.ok_or("the gate waits for nothing")?;
    let signal = Signal {
        signal_name: APPROVED.to_owned(),
        waitpoint_token: open.waitpoint_token,
        ..Signal::default()
    };
    client.signal(id, DeliverSignal::to_waitpoint(open.waitpoint_id, signal)).await?;
    Ok(if asked { "you" } else { "the demo itself" })
}

/// Returns when the reader has pressed Enter. The thread that waits for it ends with the process.
async fn a_line() {
    let (told, hear) = oneshot::channel();
    std::thread::spawn(move || {
        let _ = std::io::stdin().read_line(&mut String::new());
        let _ = told.send(());
    });
    let _ = hear.await;
}
