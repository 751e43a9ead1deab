//! What the journal does to a disk, behind a trait: tests can fill it, slow it and break it.

use std::io;
use std::path::Path;

pub use super::real_disk::RealDisk;

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
    /// Makes a directory inside one that is there.
    fn create_directory(&self, path: &Path) -> io::Result<()>;
    /// Makes sure that files which were made, renamed and removed in this directory stay so.
    fn sync_directory(&self, path: &Path) -> io::Result<()>;
    /// How many bytes may still be written where this directory is.
    fn free_bytes(&self, path: &Path) -> io::Result<u64>;
}

/// A file that grows at its end.
pub trait JournalFile: Send {
    /// Appends some of the bytes, and answers how many.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize>;
    /// Makes sure that what was written stays.
    fn sync(&mut self) -> io::Result<()>;
    /// What [`Self::sync`] would do at the time it is run, for another thread to run.
    fn later_sync(&self) -> io::Result<LaterSync>;
    /// Makes sure that the file can grow to this length, however full the disk is by then.
    fn reserve(&mut self, length: u64) -> io::Result<()>;
    /// Cuts the file off at this length, and gives back what was reserved beyond it.
    fn truncate(&mut self, length: u64) -> io::Result<()>;
}

/// A sync that another thread may run.
pub type LaterSync = Box<dyn FnOnce() -> io::Result<()> + Send>;

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

/// Writes a small file that is there whole or not at all, and stays.
pub(crate) fn replace(disk: &dyn Disk, new: &Path, path: &Path, text: &str) -> io::Result<()> {
    let mut file = disk.create(new)?;
    write_all(&mut *file, text.as_bytes())?;
    file.sync()?;
    disk.rename(new, path)?;
    disk.sync_directory(parent(path))
}

/// The directory that a file or directory is in.
pub(crate) fn parent(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if parent.as_os_str().is_empty() => Path::new("."),
        Some(parent) => parent,
        None => path,
    }
}

/// True if waiting for room may help.
pub(crate) fn is_full(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge
    )
}
