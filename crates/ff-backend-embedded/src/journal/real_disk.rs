//! The file system itself.

use std::fs::{File, OpenOptions};
use std::io::{self, Seek, SeekFrom, Write};
use std::path::Path;

use super::disk::{Disk, JournalFile, LaterSync};

/// The file system.
#[derive(Clone, Copy, Debug, Default)]
pub struct RealDisk;

impl Disk for RealDisk {
    fn create(&self, path: &Path) -> io::Result<Box<dyn JournalFile>> {
        File::create(path)?;
        self.append(path)
    }

    fn append(&self, path: &Path) -> io::Result<Box<dyn JournalFile>> {
        Ok(Box::new(RealFile::open(path)?))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        std::fs::rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        std::fs::remove_file(path)
    }

    fn create_directory(&self, path: &Path) -> io::Result<()> {
        std::fs::create_dir(path)
    }

    fn sync_directory(&self, path: &Path) -> io::Result<()> {
        File::open(path)?.sync_all()
    }

    fn free_bytes(&self, path: &Path) -> io::Result<u64> {
        let status = rustix::fs::statvfs(path)?;
        Ok(status.f_bavail.saturating_mul(status.f_frsize))
    }
}

/// How room in a file is reserved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reserving {
    /// The file system sets blocks aside; the file is as long as what was written.
    Blocks,
    /// The file system cannot: zeros are written ahead, and overwritten later.
    Zeros,
}

/// Zeros that are written at once.
static ZEROS: [u8; 64 << 10] = [0; 64 << 10];

/// A file that is written at its end, with room reserved behind it.
struct RealFile {
    file: File,
    /// Up to where it was written, which is where the next write goes.
    length: u64,
    /// Up to where it can grow for certain.
    reserved: u64,
    reserving: Reserving,
}

impl RealFile {
    fn open(path: &Path) -> io::Result<Self> {
        let mut file = OpenOptions::new().write(true).open(path)?;
        let length = file.seek(SeekFrom::End(0))?;
        Ok(Self { file, length, reserved: length, reserving: Reserving::Blocks })
    }

    fn reserve_zeros(&mut self, from: u64, length: u64) -> io::Result<()> {
        self.file.seek(SeekFrom::Start(from))?;
        let mut left = length - from;
        let mut written = Ok(());
        while left > 0 && written.is_ok() {
            let piece = left.min(ZEROS.len() as u64);
            written = self.file.write_all(&ZEROS[..piece as usize]);
            left -= piece;
        }
        // Some file systems look for the blocks only now.
        let written = written.and_then(|()| self.file.sync_data());
        if written.is_err() {
            self.file.set_len(from)?;
        }
        self.file.seek(SeekFrom::Start(self.length))?;
        written
    }
}

impl JournalFile for RealFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.file.write(bytes)?;
        self.length += written as u64;
        Ok(written)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.file.sync_data()
    }

    fn later_sync(&self) -> io::Result<LaterSync> {
        let file = self.file.try_clone()?;
        Ok(Box::new(move || file.sync_data()))
    }

    fn reserve(&mut self, length: u64) -> io::Result<()> {
        let from = self.reserved.max(self.length);
        if length <= from {
            return Ok(());
        }
        if self.reserving == Reserving::Blocks && !set_aside(&self.file, from, length)? {
            self.reserving = Reserving::Zeros;
        }
        if self.reserving == Reserving::Zeros {
            self.reserve_zeros(from, length)?;
        }
        self.reserved = length;
        Ok(())
    }

    fn truncate(&mut self, length: u64) -> io::Result<()> {
        self.file.set_len(length)?;
        self.file.seek(SeekFrom::Start(length))?;
        self.length = length;
        self.reserved = length;
        Ok(())
    }
}

/// Sets blocks aside without making the file longer. False if this file system cannot.
#[cfg(target_os = "linux")]
fn set_aside(file: &File, from: u64, to: u64) -> io::Result<bool> {
    use rustix::fs::{FallocateFlags, fallocate};
    use rustix::io::Errno;
    loop {
        match fallocate(file, FallocateFlags::KEEP_SIZE, from, to - from) {
            Ok(()) => return Ok(true),
            Err(Errno::INTR) => {}
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => return Ok(false),
            Err(error) => return Err(error.into()),
        }
    }
}

/// Sets blocks aside without making the file longer. False if this system cannot.
#[cfg(not(target_os = "linux"))]
fn set_aside(_file: &File, _from: u64, _to: u64) -> io::Result<bool> {
    Ok(false)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "in a test, a panic is the report")]

    use super::*;

    fn written(reserving: Reserving) -> (tempfile::TempDir, RealFile) {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("file");
        File::create(&path).unwrap();
        let mut file = RealFile { reserving, ..RealFile::open(&path).unwrap() };
        file.write(b"one ").unwrap();
        file.reserve(100_000).unwrap();
        file.write(b"two").unwrap();
        file.reserve(50_000).unwrap();
        (root, file)
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn blocks_that_are_set_aside_do_not_make_the_file_longer() {
        use std::os::unix::fs::MetadataExt;
        let (root, mut file) = written(Reserving::Blocks);
        let path = root.path().join("file");
        assert_eq!(file.reserving, Reserving::Blocks, "this test needs fallocate");
        assert_eq!(std::fs::read(&path).unwrap(), b"one two");
        assert!(std::fs::metadata(&path).unwrap().blocks() * 512 >= 100_000);
        file.truncate(7).unwrap();
        assert!(std::fs::metadata(&path).unwrap().blocks() * 512 < 100_000);
    }

    #[test]
    fn zeros_that_are_written_ahead_are_overwritten_and_cut() {
        let (root, mut file) = written(Reserving::Zeros);
        let path = root.path().join("file");
        let bytes = std::fs::read(&path).unwrap();
        assert_eq!((&bytes[..7], bytes.len()), (&b"one two"[..], 100_000));
        assert!(bytes[7..].iter().all(|byte| *byte == 0));
        file.truncate(7).unwrap();
        file.write(b"!").unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"one two!");
    }
}
