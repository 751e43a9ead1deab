//! What a disk would still hold after a power cut: files without what was not synced, directories
//! without changes that were not synced, in any combination.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use super::Random;

/// Which changes of directories, and what of unsynced bytes, a power cut spares.
pub(crate) enum Survivors {
    /// None.
    Nothing,
    /// All of them: the machine stopped, but the disk finished its work.
    Everything,
    /// The last change of each directory, without those before it.
    LastChange,
    /// Whatever chance wants.
    Chance(Random),
}

/// Syncs of directories that are left out, by the last change before them: as if they were deleted
/// from the code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LeftOut {
    DirectoryMade,
    FileMade,
    Renamed,
}

/// A disk's files and directories.
pub(crate) struct Model {
    /// Second names of all files, so that their bytes can be read when they have no other.
    vault: tempfile::TempDir,
    files: Vec<FileModel>,
    directories: BTreeMap<PathBuf, DirectoryModel>,
    pub(crate) left_out: Option<LeftOut>,
}

/// One file, by lengths.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct FileModel {
    written: u64,
    synced: u64,
    reserved: u64,
}

#[derive(Default)]
struct DirectoryModel {
    synced: BTreeMap<OsString, Entry>,
    changes: Vec<Change>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Entry {
    File(u64),
    Directory,
}

#[derive(Clone, Debug)]
enum Change {
    Made(OsString, Entry),
    Renamed(OsString, OsString, Entry),
    Removed(OsString),
}

impl FileModel {
    pub(crate) fn sync(&mut self) {
        self.synced = self.written;
    }

    pub(crate) fn wrote(&mut self, bytes: u64) {
        self.written += bytes;
    }

    pub(crate) fn reserved(&mut self, length: u64) {
        self.reserved = self.reserved.max(length);
    }

    /// Bytes that can be written however full the disk is.
    pub(crate) fn unwritten(&self) -> u64 {
        self.reserved.saturating_sub(self.written)
    }

    /// Bytes that the file takes.
    pub(crate) fn space(&self) -> u64 {
        self.reserved.max(self.written)
    }

    /// Answers how many bytes became free.
    pub(crate) fn truncated(&mut self, length: u64) -> u64 {
        let before = self.space();
        *self = Self { written: length, synced: self.synced.min(length), reserved: length };
        before.saturating_sub(length)
    }
}

impl Change {
    fn apply(&self, entries: &mut BTreeMap<OsString, Entry>) {
        match self {
            Self::Made(name, entry) => {
                entries.insert(name.clone(), *entry);
            }
            Self::Renamed(from, to, entry) => {
                entries.remove(from);
                entries.insert(to.clone(), *entry);
            }
            Self::Removed(name) => {
                entries.remove(name);
            }
        }
    }
}

impl DirectoryModel {
    fn with<'a>(&self, changes: impl Iterator<Item = &'a Change>) -> BTreeMap<OsString, Entry> {
        let mut entries = self.synced.clone();
        changes.for_each(|change| change.apply(&mut entries));
        entries
    }

    fn last_change(&self) -> Option<LeftOut> {
        match self.changes.last()? {
            Change::Made(_, Entry::Directory) => Some(LeftOut::DirectoryMade),
            Change::Made(_, Entry::File(_)) => Some(LeftOut::FileMade),
            Change::Renamed(..) => Some(LeftOut::Renamed),
            Change::Removed(_) => None,
        }
    }

    /// What the directory holds as long as the machine runs.
    fn now(&self) -> BTreeMap<OsString, Entry> {
        self.with(self.changes.iter())
    }

    fn after_power_cut(&self, survivors: &mut Survivors) -> BTreeMap<OsString, Entry> {
        match survivors {
            Survivors::Nothing => self.synced.clone(),
            Survivors::Everything => self.now(),
            Survivors::LastChange => self.with(self.changes.last().into_iter()),
            Survivors::Chance(random) => {
                let kept: Vec<&Change> =
                    self.changes.iter().filter(|_| random.below(2) == 0).collect();
                self.with(kept.into_iter())
            }
        }
    }
}

impl Default for Model {
    fn default() -> Self {
        let vault = tempfile::tempdir().expect("there is room for it");
        Self { vault, files: Vec::new(), directories: BTreeMap::new(), left_out: None }
    }
}

fn parent(path: &Path) -> PathBuf {
    path.parent().expect("it is in a directory").to_owned()
}

fn name(path: &Path) -> OsString {
    path.file_name().expect("it has a name").to_owned()
}

impl Model {
    pub(crate) fn file(&mut self, inode: u64) -> &mut FileModel {
        &mut self.files[inode as usize]
    }

    fn second_name(&self, inode: u64) -> PathBuf {
        self.vault.path().join(inode.to_string())
    }

    /// What is in a directory when it is first seen is on the disk.
    fn directory(&mut self, path: &Path) -> &mut DirectoryModel {
        if !self.directories.contains_key(path) {
            let mut synced = BTreeMap::new();
            for entry in std::fs::read_dir(path).unwrap() {
                let found = entry.unwrap().path();
                let entry = if found.is_dir() { Entry::Directory } else { self.add(&found) };
                synced.insert(name(&found), entry);
            }
            let model = DirectoryModel { synced, changes: Vec::new() };
            self.directories.insert(path.to_owned(), model);
        }
        self.directories.get_mut(path).expect("it was just put there")
    }

    fn add(&mut self, path: &Path) -> Entry {
        let inode = self.files.len() as u64;
        let length = std::fs::metadata(path).unwrap().len();
        std::fs::hard_link(path, self.second_name(inode)).unwrap();
        self.files.push(FileModel { written: length, synced: length, reserved: length });
        Entry::File(inode)
    }

    pub(crate) fn look_at_parent(&mut self, path: &Path) {
        self.directory(&parent(path));
    }

    pub(crate) fn created(&mut self, path: &Path) -> u64 {
        let entry = self.add(path);
        self.directory(&parent(path)).changes.push(Change::Made(name(path), entry));
        (self.files.len() - 1) as u64
    }

    pub(crate) fn opened(&mut self, path: &Path) -> u64 {
        match self.directory(&parent(path)).now()[&name(path)] {
            Entry::File(inode) => inode,
            Entry::Directory => panic!("{} is a directory", path.display()),
        }
    }

    pub(crate) fn renamed(&mut self, from: &Path, to: &Path) {
        let directory = self.directory(&parent(to));
        let entry = directory.now()[&name(from)];
        directory.changes.push(Change::Renamed(name(from), name(to), entry));
    }

    /// Answers how many bytes became free.
    pub(crate) fn removed(&mut self, path: &Path) -> u64 {
        let inode = self.opened(path);
        self.directory(&parent(path)).changes.push(Change::Removed(name(path)));
        self.file(inode).space()
    }

    pub(crate) fn made_directory(&mut self, path: &Path) {
        let made = Change::Made(name(path), Entry::Directory);
        self.directory(&parent(path)).changes.push(made);
        self.directories.insert(path.to_owned(), DirectoryModel::default());
    }

    pub(crate) fn synced_directory(&mut self, path: &Path) {
        // Nothing was changed in one that was never looked at.
        if let Some(directory) = self.directories.get_mut(path)
            && (self.left_out.is_none() || self.left_out != directory.last_change())
        {
            directory.synced = directory.now();
            directory.changes.clear();
        }
    }

    /// Copies what a power cut may leave below a directory.
    pub(crate) fn after_power_cut(
        &self,
        root: &Path,
        survivors: &mut Survivors,
    ) -> tempfile::TempDir {
        let copy = tempfile::tempdir().unwrap();
        for (path, directory) in &self.directories {
            let to = copy.path().join(path.strip_prefix(root).unwrap());
            // One whose parent nobody changed is where it was.
            if path.parent().is_none_or(|parent| !self.directories.contains_key(parent)) {
                std::fs::create_dir_all(&to).unwrap();
            }
            // A directory that is gone took what was in it along.
            if !to.is_dir() {
                continue;
            }
            for (name, entry) in directory.after_power_cut(survivors) {
                match entry {
                    Entry::Directory => std::fs::create_dir(to.join(name)).unwrap(),
                    Entry::File(inode) => {
                        std::fs::write(to.join(name), self.bytes(inode, survivors)).unwrap();
                    }
                }
            }
        }
        copy
    }

    fn bytes(&self, inode: u64, survivors: &mut Survivors) -> Vec<u8> {
        let mut bytes = std::fs::read(self.second_name(inode)).unwrap();
        let FileModel { synced, written, .. } = self.files[inode as usize];
        match survivors {
            Survivors::Everything => {}
            Survivors::Nothing | Survivors::LastChange => bytes.truncate(synced as usize),
            // Some of the bytes, or the length without them.
            Survivors::Chance(random) => match random.below(3) {
                0 => bytes.truncate(synced as usize),
                1 => bytes.truncate((synced + random.below(written - synced + 1)) as usize),
                _ => bytes[synced as usize..].fill(0),
            },
        }
        bytes
    }
}
