//! What the journal does to a disk, behind a trait: tests can fill it, slow it and break it.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;

/// The changes that the journal makes in a file system.
pub trait Disk: Send + Sync + 'static {
    /// Makes an empty file, in place of one that is there.
    fn create(&self, path: &Path) -> io::Result<Box<dyn JournalFile>>;
    /// Opens a file to append to it.
    fn append(&self, path: &Path) -> io::Result<Box<dyn JournalFile>>;
    /// Puts a file in the place of another, at once.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Removes a file.
    fn remove(&self, path: &Path) -> io::Result<()>;
    /// Makes sure that files which were made, renamed and removed stay so.
    fn sync_directory(&self, path: &Path) -> io::Result<()>;
}

/// A file that grows at its end.
pub trait JournalFile: Send {
    /// Appends some of the bytes, and answers how many.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize>;
    /// Makes sure that what was written stays.
    fn sync(&mut self) -> io::Result<()>;
    /// Cuts the file off at this length.
    fn truncate(&mut self, length: u64) -> io::Result<()>;
}

/// Appends all of the bytes.
pub(crate) fn write_all(file: &mut dyn JournalFile, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match file.write(bytes) {
            Ok(0) => return Err(io::ErrorKind::StorageFull.into()),
            Ok(written) => bytes = &bytes[written..],
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// True if waiting for room may help.
pub(crate) fn is_full(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge
    )
}

/// The file system.
#[derive(Clone, Copy, Debug, Default)]
pub struct RealDisk;

impl Disk for RealDisk {
    fn create(&self, path: &Path) -> io::Result<Box<dyn JournalFile>> {
        File::create(path)?;
        self.append(path)
    }

    fn append(&self, path: &Path) -> io::Result<Box<dyn JournalFile>> {
        Ok(Box::new(OpenOptions::new().append(true).open(path)?))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        std::fs::rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        std::fs::remove_file(path)
    }

    fn sync_directory(&self, path: &Path) -> io::Result<()> {
        File::open(path)?.sync_all()
    }
}

impl JournalFile for File {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Write::write(self, bytes)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.sync_data()
    }

    fn truncate(&mut self, length: u64) -> io::Result<()> {
        self.set_len(length)
    }
}
