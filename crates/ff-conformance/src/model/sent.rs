//! Calls as they are sent, with their arguments by name.

use std::fmt;

use ff_core::partition::Partition;
use ff_script::args::Args;
use ff_script::call::{Call, Contract};
use ff_script::host::Function;

/// One call, ready to be sent any number of times.
#[derive(Clone, Debug)]
pub(super) struct Sent {
    pub(super) contract: Contract,
    pub(super) function: Function,
    pub(super) partition: Partition,
    args: Vec<Vec<u8>>,
}

impl Sent {
    pub(super) fn of<C: Call>(partition: Partition, call: &C) -> Self {
        let args = call.encode().iter().map(<[u8]>::to_vec).collect();
        Self { contract: C::CONTRACT, function: C::FUNCTION, partition, args }
    }

    pub(super) fn name(&self) -> &'static str {
        self.contract.name
    }

    pub(super) fn args(&self) -> Args {
        self.args.iter().map(Vec::as_slice).collect()
    }

    /// An argument by its name; empty if it was not given.
    pub(super) fn arg(&self, name: &str) -> &[u8] {
        let position = self.contract.args.iter().position(|arg| *arg == name);
        position.and_then(|position| self.args.get(position)).map_or(b"", Vec::as_slice)
    }

    pub(super) fn text(&self, name: &str) -> &str {
        std::str::from_utf8(self.arg(name)).unwrap_or("")
    }

    pub(super) fn number(&self, name: &str) -> u64 {
        self.text(name).parse().unwrap_or(0)
    }

    /// The last argument, which may be a list.
    pub(super) fn rest(&self) -> &[Vec<u8>] {
        self.args.get(self.contract.args.len() - 1..).unwrap_or(&[])
    }

    /// Are all its arguments items of one list?
    pub(super) fn is_list(&self) -> bool {
        self.contract.args == ["items"]
    }

    /// The same call with the items of another one behind its own.
    pub(super) fn joined(&self, other: &Self) -> Self {
        let mut both = self.clone();
        both.args.extend(other.args.iter().cloned());
        both
    }

    /// The uuid of the execution that the call is about.
    pub(super) fn execution(&self) -> Option<&str> {
        uuid_of(self.text("execution_id"))
    }

    /// The same call, as it is sent when its answer was lost: a claim then says that it is a
    /// repetition, because it has no id of its own.
    pub(super) fn repeated(&self) -> Self {
        let mut again = self.clone();
        if let Some(position) = self.contract.args.iter().position(|arg| *arg == "retry") {
            again.args[position] = b"1".to_vec();
        }
        again
    }
}

/// The uuid in the id of an execution.
pub(super) fn uuid_of(id: &str) -> Option<&str> {
    id.split_once("}:").map(|(_, uuid)| uuid)
}

/// Bytes and long lists are not shown: a person wants to see what was called.
const SHOWN_BYTES: usize = 500;
const SHOWN_ARGS: usize = 16;

impl fmt::Display for Sent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.name(), self.partition)?;
        for arg in self.args.iter().take(SHOWN_ARGS) {
            match str::from_utf8(arg) {
                Ok(text) if arg.len() <= SHOWN_BYTES => write!(f, " '{text}'")?,
                _ => write!(f, " <{} bytes>", arg.len())?,
            }
        }
        match self.args.len().saturating_sub(SHOWN_ARGS) {
            0 => Ok(()),
            more => write!(f, " and {more} more"),
        }
    }
}
