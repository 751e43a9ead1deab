//! The signals that ask a process to end, or to read its settings again.

use tokio::signal::unix::{Signal, SignalKind, signal};

/// Listens for SIGTERM and SIGINT from now on.
pub(crate) struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    pub(crate) fn listen() -> std::io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
        })
    }

    /// Returns at the next one.
    pub(crate) async fn next(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}

/// Listens for SIGHUP from now on.
pub(crate) fn hangups() -> std::io::Result<Signal> {
    signal(SignalKind::hangup())
}
