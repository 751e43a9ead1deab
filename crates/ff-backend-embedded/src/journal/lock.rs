//! Keeps a second store out of a data directory.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Seek, Write};
use std::time::Duration;

use super::layout::Layout;
use crate::error::StoreError;

/// Holds a data directory until it is dropped, or until the process ends in whatever way.
#[derive(Debug)]
pub(crate) struct DirectoryLock {
    _file: File,
}

/// A lock that was just given back may still be held for a moment: by a child process between its
/// fork and its exec.
const TRIES: u32 = 25;
const PAUSE: Duration = Duration::from_millis(10);

fn lock_soon(file: &File) -> Result<(), TryLockError> {
    for _ in 1..TRIES {
        match file.try_lock() {
            Err(TryLockError::WouldBlock) => std::thread::sleep(PAUSE),
            answer => return answer,
        }
    }
    file.try_lock()
}

impl DirectoryLock {
    pub(crate) fn take(layout: &Layout) -> Result<Self, StoreError> {
        let path = layout.lock();
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(&path)
            .map_err(StoreError::io(&path))?;
        match lock_soon(&file) {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let text = std::fs::read_to_string(&path).unwrap_or_default();
                let pid = text.trim().parse().ok();
                return Err(StoreError::Locked { directory: layout.root.clone(), pid });
            }
            Err(TryLockError::Error(error)) => return Err(StoreError::io(&path)(error)),
        }
        // Only for the message above: the lock holds without it, also on a full disk.
        let _ = file.set_len(0);
        let _ = file.rewind();
        let _ = writeln!(file, "{}", std::process::id());
        Ok(Self { _file: file })
    }
}
