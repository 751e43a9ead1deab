//! This very program, started once more for a part of a scenario.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};

use clap::ValueEnum as _;
use serde_json::Value;

use super::part::Part;
use crate::Failure;
use crate::threads;

/// A process that measures one part, and says what it found in lines of JSON. Dropping it kills it.
pub(crate) struct PartProcess {
    child: Child,
    output: BufReader<ChildStdout>,
}

impl PartProcess {
    /// Starts a hidden subcommand with these arguments.
    pub(crate) fn start(name: &str, say: impl FnOnce(&mut Command)) -> Result<Self, Failure> {
        let mut command = Command::new(std::env::current_exe()?);
        command.arg(name);
        say(&mut command);
        let mut child = command.stdout(Stdio::piped()).spawn()?;
        let output = child.stdout.take().ok_or("the process has no output")?;
        Ok(Self { child, output: BufReader::new(output) })
    }

    /// Starts a part of `room`.
    pub(crate) fn of_room(
        part: Part,
        data: &Path,
        say: impl FnOnce(&mut Command),
    ) -> Result<Self, Failure> {
        let word = part.to_possible_value().map(|value| value.get_name().to_owned());
        Self::start("room-part", |command| {
            command.args(["--part", &word.unwrap_or_default()]).arg("--directory").arg(data);
            say(command);
        })
    }

    /// The next line that it says.
    pub(crate) fn answer(&mut self) -> Result<Value, Failure> {
        let mut line = String::new();
        self.output.read_line(&mut line)?;
        if line.is_empty() {
            return Err("a part failed; it says why above".into());
        }
        Ok(serde_json::from_str(&line)?)
    }

    /// Memory that it occupied at most.
    pub(crate) fn peak_bytes(&self) -> Option<u64> {
        threads::peak_bytes_of(self.child.id())
    }
}

impl Drop for PartProcess {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
