//! `--wait`: whether a command waits for an end, and for how long.

use std::time::Duration;

use clap::error::ErrorKind;

use crate::time;

/// How long `--wait` waits unless it says so.
const DEFAULT: &str = "10m";

/// Whether to wait.
#[derive(clap::Args, Clone, Copy)]
pub(crate) struct Wait {
    /// Wait for the end and print the result; --wait=30s gives up after that time [default: 10m].
    #[arg(long, value_name = "TIME", num_args = 0..=1, require_equals = true,
        default_missing_value = DEFAULT, value_parser = time::duration)]
    wait: Option<Duration>,
}

/// What to say to somebody who wrote `--wait 30s`: a time is part of the flag, so that the id of an
/// execution may follow.
pub(crate) fn tip(error: &clap::Error, mut words: impl Iterator<Item = String>) -> Option<String> {
    let at_wait = error.kind() == ErrorKind::UnknownArgument && words.any(|word| word == "--wait");
    let time = words.next().filter(|word| at_wait && time::duration(word).is_ok())?;
    Some(format!("a time to wait is written --wait={time}"))
}

impl Wait {
    pub(crate) fn is_wanted(self) -> bool {
        self.wait.is_some()
    }

    /// How long; not at all if it was not said.
    pub(crate) fn limit(self) -> Duration {
        self.wait.unwrap_or_default()
    }
}
