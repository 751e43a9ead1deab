//! Opens a data directory: takes it, reads it back, cuts a torn tail and goes on where it ended.

use std::path::Path;
use std::sync::Arc;

use super::disk::{Disk, JournalFile, write_all};
use super::layout::{Layout, increment_name, is_journal_file};
use super::load::{self, Loaded, RecoveryReport, Tail};
use super::lock::DirectoryLock;
use super::manifest::Manifest;
use super::record::{self, Word};
use super::replay::Replay;
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
    let journal = &layout.journal;
    std::fs::create_dir_all(journal).map_err(StoreError::io(journal))?;
    disk.sync_directory(root).map_err(StoreError::io(root))?;
    let lock = DirectoryLock::take(&layout)?;
    let known = Manifest::read(&layout)?;
    if known.is_none() {
        refuse_orphans(&layout)?;
    }
    let mut replay = Replay::new(shards);
    let loaded = match &known {
        Some(manifest) => load::load(&layout, manifest, &mut replay)?,
        None => nothing_yet(),
    };
    let (manifest, open) = go_on(&layout, &**disk, known, &loaded)?;
    remove_unlisted(&layout, &**disk, &manifest)?;
    let Loaded { report, sequence, base_bytes, .. } = loaded;
    let appended = report.bytes - base_bytes;
    let writer = WriterStart { open, sequence, appended };
    let keyspaces = replay.into_keyspaces();
    Ok(Started { lock, layout, manifest, keyspaces, report, writer, base_bytes })
}

fn nothing_yet() -> Loaded {
    let tail = Tail { number: 1, offset: 0, salt: None };
    Loaded { report: RecoveryReport::default(), tail, sequence: 0, base_bytes: 0 }
}

/// Data without a manifest is not an empty store.
fn refuse_orphans(layout: &Layout) -> Result<(), StoreError> {
    for name in file_names(layout)? {
        let path = layout.file(&name);
        if is_journal_file(&name) && !load::holds_nothing(&path)? {
            let reason = "there is data here, but no manifest that lists it";
            return Err(StoreError::damaged(&path, 0, reason));
        }
    }
    Ok(())
}

/// Cuts the last file to its whole transactions, and makes sure that they, and a manifest that ends
/// with it, are on the disk before anything is answered from them.
fn go_on(
    layout: &Layout,
    disk: &dyn Disk,
    known: Option<Manifest>,
    loaded: &Loaded,
) -> Result<(Manifest, OpenFile), StoreError> {
    let tail = &loaded.tail;
    let path = layout.file(&increment_name(tail.number));
    let open = reopen(disk, &path, tail).map_err(StoreError::io(&path))?;
    let mut manifest = known.clone().unwrap_or(Manifest { base: None, increments: vec![1] });
    manifest.increments.retain(|number| *number <= tail.number);
    if known.as_ref() != Some(&manifest) {
        manifest.store(layout, disk).map_err(StoreError::io(&layout.manifest()))?;
    }
    Ok((manifest, open))
}

fn reopen(disk: &dyn Disk, path: &Path, tail: &Tail) -> std::io::Result<OpenFile> {
    let (mut file, salt, length): (Box<dyn JournalFile>, _, _) = match tail.salt {
        Some(salt) => {
            let mut file = disk.append(path)?;
            file.truncate(tail.offset)?;
            (file, salt, tail.offset)
        }
        None => {
            let salt = record::new_salt();
            let mut line = Vec::new();
            record::write_line(&mut line, Word::Version, salt, salt);
            let mut file = disk.create(path)?;
            write_all(&mut *file, &line)?;
            (file, salt, line.len() as u64)
        }
    };
    file.sync()?;
    Ok(OpenFile { file, salt, length })
}

/// Removes what an interrupted compaction left behind.
fn remove_unlisted(
    layout: &Layout,
    disk: &dyn Disk,
    manifest: &Manifest,
) -> Result<(), StoreError> {
    for name in file_names(layout)? {
        if is_journal_file(&name) && !manifest.lists(&name) {
            let path = layout.file(&name);
            disk.remove(&path).map_err(StoreError::io(&path))?;
        }
    }
    Ok(())
}

fn file_names(layout: &Layout) -> Result<Vec<String>, StoreError> {
    let journal = &layout.journal;
    let entries = std::fs::read_dir(journal).map_err(StoreError::io(journal))?;
    entries
        .map(|entry| {
            let entry = entry.map_err(StoreError::io(journal))?;
            Ok(entry.file_name().to_string_lossy().into_owned())
        })
        .collect()
}
