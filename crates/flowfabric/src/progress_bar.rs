//! A line about how far long work is: only for a person at a terminal, on standard error, and only
//! once it has taken a moment.

use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

use crate::{output, terminal};

const WIDTH: u64 = 24;
/// What is done sooner needs no bar.
const QUIET_TIME: Duration = Duration::from_millis(300);
const REDRAW: Duration = Duration::from_millis(100);

/// How far something is. Wiped away when it is dropped.
pub(crate) struct ProgressBar {
    what: &'static str,
    total: Option<u64>,
    begun: Instant,
    drawn: Option<Instant>,
    shown: bool,
}

impl ProgressBar {
    /// Work of a known size, or of an unknown one.
    pub(crate) fn new(what: &'static str, total: impl Into<Option<u64>>, json: bool) -> Self {
        let shown = !json && !output::is_quiet() && std::io::stderr().is_terminal();
        Self { what, total: total.into(), begun: Instant::now(), drawn: None, shown }
    }

    /// Whether anybody sees it.
    pub(crate) fn is_shown(&self) -> bool {
        self.shown
    }

    /// So much is done; the note says more about it.
    pub(crate) fn set(&mut self, done: u64, note: &str) {
        let now = Instant::now();
        let fresh = self.drawn.is_some_and(|drawn| now - drawn < REDRAW);
        if !self.shown || fresh || now - self.begun < QUIET_TIME {
            return;
        }
        self.drawn = Some(now);
        let columns = terminal::size().1.saturating_sub(1);
        let line = line(self.what, self.total, done, now - self.begun, note);
        let line: String = line.chars().take(columns).collect();
        // A bar that cannot be drawn is no reason to stop the work.
        let _ = write!(std::io::stderr(), "\r{line}\x1b[K");
    }

    /// Makes room for a line of its own; the bar is drawn again with what is done next.
    pub(crate) fn wipe(&mut self) {
        if self.drawn.take().is_some() {
            let _ = write!(std::io::stderr(), "\r\x1b[K");
        }
    }
}

impl Drop for ProgressBar {
    fn drop(&mut self) {
        self.wipe();
    }
}

fn line(what: &str, total: Option<u64>, done: u64, elapsed: Duration, note: &str) -> String {
    let seconds = elapsed.as_secs();
    let Some(total) = total.filter(|total| *total > 0) else {
        return format!("{what}  {seconds} s  {note}");
    };
    let done = done.min(total);
    let filled = done * WIDTH / total;
    let bar: String = (0..WIDTH).map(|at| if at < filled { '█' } else { '░' }).collect();
    format!("{what}  {bar} {:>3} %  {seconds} s  {note}", done * 100 / total)
}

/// Runs work that blocks, and asks now and then how far it is.
pub(crate) fn during<T: Send>(
    mut bar: ProgressBar,
    work: impl FnOnce() -> T + Send,
    progress: impl Fn() -> (u64, String),
) -> T {
    if !bar.shown {
        return work();
    }
    std::thread::scope(|scope| {
        let working = scope.spawn(work);
        while !working.is_finished() {
            std::thread::sleep(REDRAW / 5);
            let (done, note) = progress();
            bar.set(done, &note);
        }
        match working.join() {
            Ok(answer) => answer,
            Err(panic) => std::panic::resume_unwind(panic),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_fills_up_and_never_overflows() {
        let at = |done| line("reading", Some(200), done, Duration::from_secs(3), "x");
        assert_eq!(at(0), format!("reading  {}   0 %  3 s  x", "░".repeat(24)));
        assert_eq!(at(100), format!("reading  {}{}  50 %  3 s  x", "█".repeat(12), "░".repeat(12)));
        assert_eq!(at(999), format!("reading  {} 100 %  3 s  x", "█".repeat(24)));
    }

    #[test]
    fn work_of_unknown_size_shows_its_time() {
        assert_eq!(
            line("waiting", None, 0, Duration::from_secs(7), "active"),
            "waiting  7 s  active"
        );
        assert_eq!(line("waiting", Some(0), 0, Duration::ZERO, ""), "waiting  0 s  ");
    }
}
