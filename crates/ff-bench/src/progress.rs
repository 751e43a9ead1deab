//! Says how far a long step is, for somebody who watches.

use std::io::{IsTerminal, Write, stderr};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Steps that take less need no progress.
const QUIET_TIME: Duration = Duration::from_secs(1);
const INTERVAL: Duration = Duration::from_millis(200);

/// A step with a known number of parts. Prints to stderr, if that is a terminal.
pub(crate) struct Progress {
    what: String,
    total: u64,
    done: AtomicU64,
    started: Instant,
    /// When something was printed last; `None` if nothing was.
    printed: Option<Mutex<Option<Instant>>>,
}

impl Progress {
    pub(crate) fn new(what: impl Into<String>, total: u64) -> Self {
        let printed = stderr().is_terminal().then(|| Mutex::new(None));
        Self { what: what.into(), total, done: AtomicU64::new(0), started: Instant::now(), printed }
    }

    /// More parts are done.
    pub(crate) fn add(&self, parts: u64) {
        let done = self.done.fetch_add(parts, Ordering::Relaxed) + parts;
        // Whoever finds the lock taken has nothing to add.
        let Some(Ok(mut printed)) = self.printed.as_ref().map(Mutex::try_lock) else { return };
        let waited =
            printed.map_or(self.started.elapsed() >= QUIET_TIME, |at| at.elapsed() >= INTERVAL);
        if waited {
            *printed = Some(Instant::now());
            self.print(done);
        }
    }

    fn print(&self, done: u64) {
        let per_second = done as f64 / self.started.elapsed().as_secs_f64();
        let left_s = (self.total.saturating_sub(done)) as f64 / per_second;
        let Self { what, total, .. } = self;
        let line = format!("{what}: {done} of {total}, {per_second:.0}/s, {left_s:.0} s left");
        // What cannot be shown is not worth ending the run for.
        let _ = write!(stderr(), "\r\x1b[K{line}");
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        let printed = self.printed.as_mut().and_then(|it| it.get_mut().ok()?.as_ref());
        if printed.is_some() {
            let _ = write!(stderr(), "\r\x1b[K");
        }
    }
}
