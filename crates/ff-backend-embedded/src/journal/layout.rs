//! Where things are in a data directory.

use std::path::{Path, PathBuf};

use crate::error::StoreError;

const LOCK: &str = "flowfabric.lock";
const MARKER: &str = "flowfabric.store";
const JOURNAL: &str = "appendonlydir";
const MANIFEST: &str = "appendonly.aof.manifest";
const PREFIX: &str = "appendonly.aof.";
const BASE: &str = ".base.aof";
const INCREMENT: &str = ".incr.aof";

/// The paths of a data directory.
#[derive(Clone, Debug)]
pub(crate) struct Layout {
    pub(crate) root: PathBuf,
    pub(crate) journal: PathBuf,
}

/// A file of the journal, by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum JournalName {
    Base(u64),
    Increment(u64),
}

impl Layout {
    pub(crate) fn new(root: &Path) -> Self {
        Self { root: root.to_owned(), journal: root.join(JOURNAL) }
    }

    pub(crate) fn lock(&self) -> PathBuf {
        self.root.join(LOCK)
    }

    pub(crate) fn marker(&self) -> PathBuf {
        self.root.join(MARKER)
    }

    pub(crate) fn new_marker(&self) -> PathBuf {
        self.root.join(format!("temp-{MARKER}"))
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

    pub(crate) fn increment(&self, number: u64) -> PathBuf {
        self.file(&increment_name(number))
    }

    /// A place beside an increment for what is cut off from it, where nothing is yet.
    pub(crate) fn torn(&self, number: u64, offset: u64) -> PathBuf {
        let name = |again: u32| format!("{PREFIX}{number}.torn-{offset}-{again}");
        let mut places = (1..).map(|again| self.file(&name(again)));
        places.find(|path| !path.exists()).expect("no directory holds endless files")
    }

    /// The journal's files that are there, by the numbers in their names. Files with other names
    /// belong to somebody else.
    pub(crate) fn journal_names(&self) -> Result<Vec<JournalName>, StoreError> {
        let entries = match std::fs::read_dir(&self.journal) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries.map_err(StoreError::io(&self.journal))?,
        };
        let mut names = Vec::new();
        for entry in entries {
            let entry = entry.map_err(StoreError::io(&self.journal))?;
            names.extend(entry.file_name().to_str().and_then(JournalName::parse));
        }
        Ok(names)
    }
}

impl JournalName {
    fn parse(name: &str) -> Option<Self> {
        let number = |kind: &str| name.strip_prefix(PREFIX)?.strip_suffix(kind)?.parse().ok();
        let found = number(BASE).map(Self::Base).or_else(|| number(INCREMENT).map(Self::Increment));
        found.filter(|found| found.text() == name)
    }

    pub(crate) fn text(self) -> String {
        match self {
            Self::Base(number) => base_name(number),
            Self::Increment(number) => increment_name(number),
        }
    }

    pub(crate) fn number(self) -> u64 {
        match self {
            Self::Base(number) | Self::Increment(number) => number,
        }
    }
}

/// The name of a rewritten journal.
pub(crate) fn base_name(number: u64) -> String {
    format!("{PREFIX}{number}{BASE}")
}

/// The name of a part of the journal.
pub(crate) fn increment_name(number: u64) -> String {
    format!("{PREFIX}{number}{INCREMENT}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_that_we_write_are_the_journal_s() {
        for (name, expected) in [
            ("appendonly.aof.1.incr.aof", Some(JournalName::Increment(1))),
            ("appendonly.aof.12.base.aof", Some(JournalName::Base(12))),
            ("appendonly.aof.1.base.rdb", None),
            ("appendonly.aof.01.incr.aof", None),
            ("appendonly.aof.+1.incr.aof", None),
            ("appendonly.aof.1.incr.aof.bak", None),
            ("appendonly.aof.bak", None),
            ("appendonly.aof.manifest", None),
            ("appendonly.aof..incr.aof", None),
        ] {
            assert_eq!(JournalName::parse(name), expected, "{name}");
        }
    }
}
