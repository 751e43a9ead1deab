//! Files of the journal that its manifest does not list. Those that we made and no longer need are
//! removed; one that may hold what nothing else holds is damage, and stays.

use std::path::{Path, PathBuf};

use super::disk::Disk;
use super::layout::{JournalName, Layout};
use super::load::{self, Content};
use super::manifest::Manifest;
use crate::error::StoreError;

/// The files that may be removed.
pub(crate) fn find(layout: &Layout, manifest: &Manifest) -> Result<Vec<PathBuf>, StoreError> {
    let mut found = Vec::new();
    for name in layout.journal_names()? {
        let path = layout.file(&name.text());
        if !manifest.lists(name) && is_spare(&path, name, manifest.last())? {
            found.push(path);
        }
    }
    let temporary = layout.new_manifest();
    found.extend(temporary.exists().then_some(temporary));
    Ok(found)
}

fn is_spare(path: &Path, name: JournalName, last: u64) -> Result<bool, StoreError> {
    let content = load::content(path)?;
    match name {
        // The file after the last one is listed before the first transaction is written to it.
        JournalName::Increment(number) if number > last && content != Content::Nothing => {
            let reason = "this file holds transactions, but is not listed in the manifest";
            Err(StoreError::damaged(path, 0, reason))
        }
        // An older part of the journal, or a rewrite that was replaced or never finished.
        _ => Ok(content != Content::NotOurs),
    }
}

/// Removes the files that nothing needs.
pub(crate) fn remove(
    layout: &Layout,
    disk: &dyn Disk,
    manifest: &Manifest,
) -> Result<(), StoreError> {
    for path in find(layout, manifest)? {
        disk.remove(&path).map_err(StoreError::io(&path))?;
    }
    Ok(())
}

/// Data without a manifest is not an empty store.
pub(crate) fn refuse_orphans(layout: &Layout) -> Result<(), StoreError> {
    for name in layout.journal_names()? {
        let path = layout.file(&name.text());
        if load::content(&path)? != Content::Nothing {
            let reason = "there is data here, but no manifest that lists it";
            return Err(StoreError::damaged(&path, 0, reason));
        }
    }
    Ok(())
}
