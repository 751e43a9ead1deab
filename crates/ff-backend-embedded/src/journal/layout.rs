//! Where things are in a data directory.

use std::path::{Path, PathBuf};

const LOCK: &str = "flowfabric.lock";
const JOURNAL: &str = "appendonlydir";
const MANIFEST: &str = "appendonly.aof.manifest";
const PREFIX: &str = "appendonly.aof.";

/// The paths of a data directory.
#[derive(Clone, Debug)]
pub(crate) struct Layout {
    pub(crate) root: PathBuf,
    pub(crate) journal: PathBuf,
}

impl Layout {
    pub(crate) fn new(root: &Path) -> Self {
        Self { root: root.to_owned(), journal: root.join(JOURNAL) }
    }

    pub(crate) fn lock(&self) -> PathBuf {
        self.root.join(LOCK)
    }

    pub(crate) fn manifest(&self) -> PathBuf {
        self.journal.join(MANIFEST)
    }

    pub(crate) fn new_manifest(&self) -> PathBuf {
        self.journal.join(format!("temp-{MANIFEST}"))
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.journal.join(name)
    }
}

/// The name of a rewritten journal.
pub(crate) fn base_name(number: u64) -> String {
    format!("{PREFIX}{number}.base.aof")
}

/// The name of a part of the journal.
pub(crate) fn increment_name(number: u64) -> String {
    format!("{PREFIX}{number}.incr.aof")
}

/// True for files that belong to a journal, whoever wrote them.
pub(crate) fn is_journal_file(name: &str) -> bool {
    name.starts_with(PREFIX) && name != MANIFEST
}
