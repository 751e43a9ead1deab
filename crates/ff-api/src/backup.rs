//! Copies of a store that is running.

use ff_core::operation::{Nothing, Operation};
use serde::{Deserialize, Serialize};

use crate::ToSchema;

/// Asks for a copy of an embedded store.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct MakeBackup {
    /// What the copy is called: a directory of this name is made where the server keeps backups.
    #[schema(max_length = 64, pattern = "^[A-Za-z0-9][A-Za-z0-9._-]*$")]
    pub name: String,
}

impl Operation for MakeBackup {
    type Target = Nothing;
    type Request = Self;
    type Reply = Backup;

    const PATH: &'static str = "/v1/admin/backups";
    const NAME: &'static str = "makeBackup";
    const GROUP: &'static str = "deployment";
    const SUMMARY: &'static str = "Copies the embedded store while it runs.";
    const ANSWERS: &'static str = "Where the copy is, whole and on the disk.";
    const ABOUT: &'static str = "All that was acknowledged before the request is in the copy. It \
        takes as long as copying the data takes, and calls go on meanwhile; whoever does not wait \
        for the answer finds the directory when it is whole. A server on Valkey, or one in memory, \
        has nothing to copy.";
}

/// A copy of a store: a data directory to start on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Backup {
    /// Where it is, on the server's machine.
    pub directory: String,
    /// The last transaction that is in it.
    pub transactions: u64,
    /// How many bytes it has.
    pub bytes: u64,
}
