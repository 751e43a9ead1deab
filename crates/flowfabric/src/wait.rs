//! `--wait`: whether a command waits for an end, and for how long.

use std::time::Duration;

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

impl Wait {
    pub(crate) fn is_wanted(self) -> bool {
        self.wait.is_some()
    }

    /// How long; not at all if it was not said.
    pub(crate) fn limit(self) -> Duration {
        self.wait.unwrap_or_default()
    }
}
