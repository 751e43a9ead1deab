//! Opens a data directory: takes it, reads it back, cuts a torn tail and goes on where it ended.

use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::disk::{self, Disk, parent, write_all};
use super::layout::Layout;
use super::leftover;
use super::load::{Loaded, RecoveryReport, Tail, TornTail};
use super::lock::DirectoryLock;
use super::manifest::Manifest;
use super::marker::Marker;
use super::record::{self, Word};
use super::shards;
use super::writer::{OpenFile, WriterStart};
use crate::error::StoreError;
use crate::keyspace::Keyspace;

/// A data directory that is ours, with its content.
pub(crate) struct Started {
    pub(crate) lock: DirectoryLock,
    pub(crate) layout: Layout,
    pub(crate) manifest: Manifest,
    pub(crate) keyspaces: Vec<Keyspace>,
    pub(crate) report: RecoveryReport,
    pub(crate) writer: WriterStart,
    pub(crate) base_bytes: u64,
}

/// Opens the directory, which is made if it does not exist.
pub(crate) fn start(
    root: &Path,
    disk: &Arc<dyn Disk>,
    shards: usize,
) -> Result<Started, StoreError> {
    let layout = Layout::new(root);
    make_directory(&**disk, root)?;
    let lock = DirectoryLock::take(&layout)?;
    let known = known(&layout)?;
    let marker = Marker::read(&layout)?;
    make_directory(&**disk, &layout.journal)?;
    let (loaded, keyspaces, manifest, open) = match known {
        Some(manifest) => go_on(&layout, &**disk, marker, manifest, shards)?,
        None => begin(&layout, &**disk, shards)?,
    };
    let Loaded { report, sequence, base_bytes, .. } = loaded;
    if marker.is_none() {
        Marker { transactions: sequence }.store(&layout, &**disk)?;
    }
    let sealed_bytes = (report.bytes - base_bytes).saturating_sub(open.length);
    let writer = WriterStart { open, sequence, sealed_bytes };
    Ok(Started { lock, layout, manifest, keyspaces, report, writer, base_bytes })
}

/// The manifest of the store that is here. `None` if there is none and never was.
pub(crate) fn known(layout: &Layout) -> Result<Option<Manifest>, StoreError> {
    let known = Manifest::read(layout)?;
    if known.is_none() {
        leftover::refuse_orphans(layout)?;
        if Marker::read(layout)?.is_some() {
            return Err(Marker::journal_is_gone(layout));
        }
    }
    Ok(known)
}

/// Makes a directory, and those above it, to stay. One that is there may just have been made by a
/// process that was killed before it could make sure of that.
pub(crate) fn make_directory(disk: &dyn Disk, path: &Path) -> Result<(), StoreError> {
    let made = !path.is_dir();
    if made {
        make_directory(disk, parent(path))?;
        disk.create_directory(path).map_err(StoreError::io(path))?;
    }
    match disk.sync_directory(parent(path)) {
        Err(error) if !made && is_elsewhere(&error) => Ok(()),
        synced => synced.map_err(StoreError::io(parent(path))),
    }
}

/// True where we can have made nothing: we may not look there, or it can only be read.
fn is_elsewhere(error: &io::Error) -> bool {
    use io::ErrorKind::{InvalidInput, PermissionDenied, ReadOnlyFilesystem};
    matches!(error.kind(), PermissionDenied | ReadOnlyFilesystem | InvalidInput)
}

/// What an opened journal consists of.
type Parts = (Loaded, Vec<Keyspace>, Manifest, OpenFile);

/// An empty store: its first file, and a manifest that lists it.
fn begin(layout: &Layout, disk: &dyn Disk, shards: usize) -> Result<Parts, StoreError> {
    let path = layout.increment(1);
    let open = create(disk, &path).map_err(StoreError::io(&path))?;
    let manifest = Manifest { base: None, increments: vec![1] };
    manifest.store(layout, disk).map_err(StoreError::io(&layout.manifest()))?;
    let tail = Tail { number: 1, offset: open.length, salt: open.salt };
    let loaded = Loaded { report: RecoveryReport::default(), tail, sequence: 0, base_bytes: 0 };
    let keyspaces = (0..shards).map(|_| Keyspace::default()).collect();
    Ok((loaded, keyspaces, manifest, open))
}

/// Makes a file of the journal with its first line, which is on the disk before anybody lists it.
pub(crate) fn create(disk: &dyn Disk, path: &Path) -> io::Result<OpenFile> {
    let salt = record::new_salt();
    let mut line = Vec::new();
    record::write_line(&mut line, Word::Version, salt, salt);
    let mut file = disk.create(path)?;
    write_all(&mut *file, &line)?;
    file.sync()?;
    let length = line.len() as u64;
    Ok(OpenFile { file, salt, length, reserved: length })
}

/// Reads a store back, cuts the last file to its whole transactions, and makes sure that all of
/// them, and a manifest that ends with it, are on the disk before anything is answered from them.
fn go_on(
    layout: &Layout,
    disk: &dyn Disk,
    marker: Option<Marker>,
    mut manifest: Manifest,
    shards: usize,
) -> Result<Parts, StoreError> {
    // Looked for first: damage is found before anything is changed.
    leftover::find(layout, &manifest)?;
    let (mut loaded, keyspaces) = shards::load(layout, &manifest, shards)?;
    require(layout, marker, &loaded)?;
    let tail = &loaded.tail;
    let path = layout.increment(tail.number);
    let (open, kept) =
        reopen(layout, disk, tail, loaded.report.torn.as_ref()).map_err(StoreError::io(&path))?;
    loaded.report.kept = kept;
    sync_again(layout, disk, &manifest)?;
    if manifest.last() != tail.number {
        manifest.increments.retain(|number| *number <= tail.number);
        manifest.store(layout, disk).map_err(StoreError::io(&layout.manifest()))?;
    }
    leftover::remove(layout, disk, &manifest)?;
    Ok((loaded, keyspaces, manifest, open))
}

/// A process that was killed may have sealed a file, or stored the manifest, and not synced it.
fn sync_again(layout: &Layout, disk: &dyn Disk, manifest: &Manifest) -> Result<(), StoreError> {
    for number in &manifest.increments {
        let path = layout.increment(*number);
        let synced = disk.append(&path).and_then(|mut file| file.sync());
        synced.map_err(StoreError::io(&path))?;
    }
    disk.sync_directory(&layout.journal).map_err(StoreError::io(&layout.journal))
}

/// Refuses a journal that ends before what is known to have been there.
pub(crate) fn require(
    layout: &Layout,
    marker: Option<Marker>,
    loaded: &Loaded,
) -> Result<(), StoreError> {
    let path = layout.increment(loaded.tail.number);
    marker.map_or(Ok(()), |marker| marker.require(loaded.sequence, &path, loaded.tail.offset))
}

fn reopen(
    layout: &Layout,
    disk: &dyn Disk,
    tail: &Tail,
    torn: Option<&TornTail>,
) -> io::Result<(OpenFile, Option<PathBuf>)> {
    let mut file = disk.append(&layout.increment(tail.number))?;
    let mut kept = None;
    if let Some(torn) = torn {
        // Gives back what was reserved, so that there is room for the copy.
        file.truncate(torn.offset + torn.bytes)?;
        kept = Some(keep(layout, disk, tail.number, torn)?);
    }
    file.truncate(tail.offset)?;
    let open = OpenFile { file, salt: tail.salt, length: tail.offset, reserved: tail.offset };
    Ok((open, kept))
}

/// Copies what will be cut off into a file of its own, to stay. Answers where it is.
fn keep(layout: &Layout, disk: &dyn Disk, number: u64, torn: &TornTail) -> io::Result<PathBuf> {
    let mut source = std::fs::File::open(&torn.file)?;
    source.seek(SeekFrom::Start(torn.offset))?;
    let mut bytes = Vec::new();
    source.take(torn.bytes).read_to_end(&mut bytes)?;
    // Room that was reserved by writing zeros is nothing worth keeping.
    let length = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
    let path = layout.torn(number, torn.offset);
    let mut copy = disk.create(&path)?;
    write_all(&mut *copy, &bytes[..length])?;
    copy.sync()?;
    disk.sync_directory(disk::parent(&path))?;
    Ok(path)
}
