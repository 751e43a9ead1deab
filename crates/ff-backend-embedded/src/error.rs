//! What can go wrong, from the inside to the outside:
//!
//! | | says why | who sees it |
//! |---|---|---|
//! | `CommandError` | a command did nothing | the Lua function that called it |
//! | `FunctionError` | a function gave no value | the shard that called it |
//! | `BackendError`, made in `backend` | a call was not answered | whoever called the host |
//! | [`StoreError`], [`OpenError`] | a directory or a store cannot be used | whoever opens it |
//! | [`BackupError`] | no copy of a store was made | whoever asked for one |
//!
//! A call that fails halfway, a failed disk and a panic also stop the whole store: see `stop`.

pub(crate) mod backend;
mod command;
mod function;

pub(crate) use command::CommandError;
pub(crate) use function::FunctionError;

use std::path::{Path, PathBuf};

/// Why a store could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The configuration makes no sense.
    #[error("the configuration is wrong: {0}")]
    Config(&'static str),
    /// The function library does not load.
    #[error("the function library does not load: {0}")]
    Library(String),
    /// The data directory cannot be used.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The operating system refused a thread.
    #[error("the embedded store could not start a thread: {0}")]
    Thread(#[source] std::io::Error),
}

/// Why no copy of a store was made.
#[derive(Debug, thiserror::Error)]
pub enum BackupError {
    /// There is nothing to copy: the store is in memory only.
    #[error("the store is in memory only, and has no files to copy")]
    NoFiles,
    /// The name is none that a copy may have.
    #[error(
        "must be 1 to {} letters, digits, `.`, `_` or `-`, and begin with none \
         of the last three",
        BACKUP_NAME_BYTES_MAX
    )]
    Name,
    /// There is something of that name.
    #[error("{} is there already", .directory.display())]
    Exists {
        /// What is there.
        directory: PathBuf,
    },
    /// The copy could not be made. What there was of it is gone.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The store is closed, or is being closed.
    #[error("the embedded store is closed")]
    Closed,
}

/// The longest name of a copy.
pub(crate) const BACKUP_NAME_BYTES_MAX: usize = 64;

/// Why a data directory cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// Another process, or another store in this one, uses the directory.
    #[error("{} is in use by {}", .directory.display(), holder(.pid))]
    Locked {
        /// The data directory.
        directory: PathBuf,
        /// The process that holds it, if it said so.
        pid: Option<u32>,
    },
    /// Data that was once on the disk has changed or is missing. Nothing was dropped.
    #[error("{} is damaged at byte {offset}: {reason}", .file.display())]
    Damaged {
        /// The file with the damage.
        file: PathBuf,
        /// Where the damage starts.
        offset: u64,
        /// What is wrong there.
        reason: String,
    },
    /// The directory holds data that this store did not write.
    #[error("{}: {reason}", .file.display())]
    Foreign {
        /// The file in question.
        file: PathBuf,
        /// What it holds instead.
        reason: String,
    },
    /// The operating system refused to read or write.
    #[error("{}: {source}", .path.display())]
    Io {
        /// What was read or written.
        path: PathBuf,
        /// Why it was refused.
        source: std::io::Error,
    },
}

impl StoreError {
    /// Turns an error of the operating system into one that names its file.
    pub(crate) fn io(path: &Path) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io { path, source }
    }

    pub(crate) fn damaged(file: &Path, offset: u64, reason: impl Into<String>) -> Self {
        Self::Damaged { file: file.to_owned(), offset, reason: reason.into() }
    }

    pub(crate) fn foreign(file: &Path, reason: impl Into<String>) -> Self {
        Self::Foreign { file: file.to_owned(), reason: reason.into() }
    }
}

fn holder(pid: &Option<u32>) -> String {
    match pid {
        Some(pid) => format!("process {pid}"),
        None => "another process".to_owned(),
    }
}
