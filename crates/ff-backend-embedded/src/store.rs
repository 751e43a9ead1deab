//! Tools for data directories that no store is running on: check and export.

use std::io::Write;
use std::ops::RangeInclusive;
use std::path::Path;

use ff_core::slot::{SLOTS, slot_of};
use ff_script::audit;
use ff_script::dump::Dump;

pub use crate::error::StoreError;
use crate::journal::layout::Layout;
use crate::journal::leftover;
use crate::journal::load;
pub use crate::journal::load::{RecoveryReport, TornTail};
use crate::journal::lock::DirectoryLock;
use crate::journal::marker::Marker;
use crate::journal::replay::Replay;
use crate::journal::{record, snapshot, start};
use crate::keyspace::Keyspace;

/// What a check found.
#[derive(Clone, Debug, PartialEq)]
pub struct CheckReport {
    /// What the journal holds. A torn tail would be cut when the store is opened; nothing else is
    /// ever dropped.
    pub recovery: RecoveryReport,
    /// Every key, for checks of what the keys mean.
    pub dump: Dump,
}

/// Verifies every checksum of a data directory. Changes nothing.
pub fn check(directory: &Path) -> Result<CheckReport, StoreError> {
    let (recovery, keyspaces) = read(directory)?;
    let mut dump = Dump::new();
    keyspaces.iter().for_each(|keyspace| keyspace.dump_into(&mut dump));
    Ok(CheckReport { recovery, dump })
}

/// Writes the content of a data directory as commands that `valkey-cli --pipe` loads. Each command
/// touches one key, so that a cluster takes them too, and each key is removed before it is built,
/// so that loading an export again changes nothing. Answers what was read.
pub fn export(directory: &Path, out: &mut dyn Write) -> Result<RecoveryReport, StoreError> {
    export_slots(directory, 0..=SLOTS - 1, true, out)
}

/// As [`export`], but only the keys of these cluster slots: what one node of a cluster takes; and
/// what signs tokens and links only if that is wanted.
pub fn export_slots(
    directory: &Path,
    slots: RangeInclusive<u16>,
    with_secrets: bool,
    out: &mut dyn Write,
) -> Result<RecoveryReport, StoreError> {
    let (recovery, keyspaces) = read(directory)?;
    let chosen = keyspaces
        .iter()
        .flat_map(Keyspace::iter)
        .filter(|(key, _)| slots.contains(&slot_of(key)))
        .filter(|(key, _)| with_secrets || !audit::is_secret(key));
    let mut emit = |command: &[&[u8]]| {
        let mut bytes = Vec::new();
        record::write_array(&mut bytes, command.len());
        command.iter().for_each(|argument| record::write_bulk(&mut bytes, argument));
        out.write_all(&bytes)
    };
    let written = chosen.into_iter().try_for_each(|(key, object)| {
        emit(&[b"DEL", &key])?;
        snapshot::commands(&key, object, &mut emit)
    });
    written.and_then(|()| out.flush()).map_err(StoreError::io(Path::new("the export")))?;
    Ok(recovery)
}

fn read(directory: &Path) -> Result<(RecoveryReport, Vec<Keyspace>), StoreError> {
    let layout = Layout::new(directory);
    let missing = || StoreError::foreign(&layout.manifest(), "there is no store here");
    // Looked for first: taking the lock makes a file.
    start::known(&layout)?.ok_or_else(missing)?;
    let _lock = DirectoryLock::take(&layout)?;
    let manifest = start::known(&layout)?.ok_or_else(missing)?;
    leftover::find(&layout, &manifest)?;
    let mut replay = Replay::new(1);
    let loaded = load::load(&layout, &manifest, &mut replay)?;
    start::require(&layout, Marker::read(&layout)?, &loaded)?;
    Ok((loaded.report, replay.into_keyspaces()))
}
