//! Standard output. Whoever reads it may stop reading, as `head` does: then there is nothing left
//! to do, and nothing to complain about.

use std::fmt;
use std::io::{ErrorKind, Result, StdoutLock, Write};
use std::sync::OnceLock;

/// What a shell calls the end by SIGPIPE.
const NOBODY_READS: i32 = 141;

/// As `println!`, for output that may be cut off by its reader.
macro_rules! say {
    ($($arguments:tt)*) => { $crate::output::line(format_args!($($arguments)*)) };
}

/// A line on standard error about what was done, for a person who wants to know.
macro_rules! note {
    ($($arguments:tt)*) => {
        if !$crate::output::is_quiet() {
            eprintln!($($arguments)*);
        }
    };
}

/// Whether only results and errors are wanted: `--quiet`.
static QUIET: OnceLock<bool> = OnceLock::new();

/// Said once, before anything is printed.
pub(crate) fn set_quiet(quiet: bool) {
    let _ = QUIET.set(quiet);
}

pub(crate) fn is_quiet() -> bool {
    QUIET.get().copied().unwrap_or_default()
}

/// Of a list, the ids alone, a line each.
pub(crate) fn ids(ids: impl IntoIterator<Item = impl fmt::Display>) {
    ids.into_iter().for_each(|id| line(format_args!("{id}")));
}

/// Prints a line.
pub(crate) fn line(text: fmt::Arguments<'_>) {
    if let Err(error) = writeln!(Out::new(), "{text}") {
        // A disk that is full, say: the command's own work was done.
        eprintln!("flowfabric: standard output: {error}");
    }
}

/// Standard output, which ends the process when nobody reads it any more.
pub(crate) struct Out(StdoutLock<'static>);

impl Out {
    pub(crate) fn new() -> Self {
        Self(std::io::stdout().lock())
    }
}

impl Write for Out {
    fn write(&mut self, bytes: &[u8]) -> Result<usize> {
        self.0.write(bytes).map_err(end_if_unread)
    }

    fn flush(&mut self) -> Result<()> {
        self.0.flush().map_err(end_if_unread)
    }
}

fn end_if_unread(error: std::io::Error) -> std::io::Error {
    if error.kind() == ErrorKind::BrokenPipe {
        std::process::exit(NOBODY_READS);
    }
    error
}
