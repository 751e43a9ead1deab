//! Tools for data directories that no store is running on: check and export. They read a slice at a
//! time, the partitions of one index, so that they need little memory however much there is.

use std::io::Write;
use std::ops::RangeInclusive;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use ff_core::slot::{SLOTS, slot_of};
use ff_script::audit;
use ff_script::dump::Dump;

pub use crate::error::StoreError;
use crate::journal::layout::Layout;
use crate::journal::leftover;
pub use crate::journal::load::{RecoveryReport, TornTail};
use crate::journal::lock::DirectoryLock;
use crate::journal::marker::Marker;
use crate::journal::pace::Pace;
use crate::journal::shards::{panicked, threads};
use crate::journal::survey::Survey;
use crate::journal::{record, snapshot, start};

/// What a check found.
#[derive(Clone, Debug, PartialEq)]
pub struct CheckReport {
    /// What the journal holds. A torn tail would be cut when the store is opened; nothing else is
    /// ever dropped.
    pub recovery: RecoveryReport,
    /// Every key, for checks of what the keys mean.
    pub dump: Dump,
}

/// Verifies every checksum of a data directory, and copies all that is in it. Changes nothing.
pub fn check(directory: &Path) -> Result<CheckReport, StoreError> {
    let slices = Slices::open(directory)?;
    let mut dump = Dump::new();
    slices.for_each(|slice| slice)?.into_iter().for_each(|mut slice| dump.append(&mut slice));
    let recovery = RecoveryReport { keys: dump.len() as u64, ..slices.recovery };
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
    let slices = Slices::open(directory)?;
    let mut recovery = slices.recovery.clone();
    let mut emit = |command: &[&[u8]]| {
        let mut bytes = Vec::new();
        record::write_array(&mut bytes, command.len());
        command.iter().for_each(|argument| record::write_bulk(&mut bytes, argument));
        out.write_all(&bytes)
    };
    for index in &slices.indexes {
        let keyspace = slices.survey.read(*index, &mut Pace::hurried())?;
        recovery.keys += keyspace.len() as u64;
        let chosen = keyspace
            .iter()
            .filter(|(key, _)| slots.contains(&slot_of(key)))
            .filter(|(key, _)| with_secrets || !audit::is_secret(key));
        let written = chosen.into_iter().try_for_each(|(key, object)| {
            emit(&[b"DEL", &key])?;
            snapshot::commands(&key, object, &mut emit)
        });
        written.map_err(StoreError::io(Path::new("the export")))?;
    }
    out.flush().map_err(StoreError::io(Path::new("the export")))?;
    Ok(recovery)
}

/// A data directory that is read a slice at a time. No store can run on it meanwhile.
pub struct Slices {
    survey: Survey,
    indexes: Vec<u16>,
    recovery: RecoveryReport,
    _lock: DirectoryLock,
}

impl Slices {
    /// Looks through a data directory. Changes nothing.
    pub fn open(directory: &Path) -> Result<Self, StoreError> {
        let layout = Layout::new(directory);
        let missing = || StoreError::foreign(&layout.manifest(), "there is no store here");
        // Looked for first: taking the lock makes a file.
        start::known(&layout)?.ok_or_else(missing)?;
        let lock = DirectoryLock::take(&layout)?;
        let manifest = start::known(&layout)?.ok_or_else(missing)?;
        leftover::find(&layout, &manifest)?;
        let (survey, loaded) = Survey::of(&layout, &manifest)?;
        start::require(&layout, Marker::read(&layout)?, &loaded)?;
        let indexes = survey.indexes();
        Ok(Self { survey, indexes, recovery: loaded.report, _lock: lock })
    }

    /// What the journal holds. How many keys there are is known when they are read.
    pub fn recovery(&self) -> &RecoveryReport {
        &self.recovery
    }

    /// How many slices there are.
    pub fn len(&self) -> usize {
        self.indexes.len()
    }

    /// True if nothing was ever written.
    pub fn is_empty(&self) -> bool {
        self.indexes.is_empty()
    }

    /// The first slice, which has what is about the whole deployment.
    pub fn first(&self) -> Result<Dump, StoreError> {
        self.indexes.first().map_or(Ok(Dump::new()), |index| self.read(*index))
    }

    /// Reads every slice, several at a time, and verifies its checksums. Answers what `look` says
    /// of each, in order.
    pub fn for_each<T: Send>(&self, look: impl Fn(Dump) -> T + Sync) -> Result<Vec<T>, StoreError> {
        let next = AtomicUsize::new(0);
        let work = || {
            let places = std::iter::from_fn(|| {
                let place = next.fetch_add(1, Ordering::Relaxed);
                self.indexes.get(place).map(|index| (place, *index))
            });
            let looked = places.map(|(place, index)| Ok((place, look(self.read(index)?))));
            looked.collect::<Result<Vec<_>, StoreError>>()
        };
        let found: Result<Vec<Vec<_>>, _> = thread::scope(|scope| {
            let count = threads().min(self.indexes.len());
            let threads: Vec<_> = (0..count).map(|_| scope.spawn(work)).collect();
            threads.into_iter().map(|thread| thread.join().unwrap_or_else(panicked)).collect()
        });
        let mut found: Vec<_> = found?.into_iter().flatten().collect();
        found.sort_by_key(|(place, _)| *place);
        Ok(found.into_iter().map(|(_, said)| said).collect())
    }

    fn read(&self, index: u16) -> Result<Dump, StoreError> {
        let mut dump = Dump::new();
        self.survey.read(index, &mut Pace::hurried())?.dump_into(&mut dump);
        Ok(dump)
    }
}
