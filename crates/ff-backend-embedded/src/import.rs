//! Makes a data directory of what another store held: the way back from Valkey.

use std::io;
use std::path::Path;

use ff_script::dump::Stored;

use crate::effects::{Effects, Transactions};
use crate::error::StoreError;
use crate::journal::disk::{Disk, RealDisk, write_all};
use crate::journal::layout::Layout;
use crate::journal::lock::DirectoryLock;
use crate::journal::manifest::Manifest;
use crate::journal::marker::Marker;
use crate::journal::record::{self, Word};
use crate::journal::writer::OpenFile;
use crate::journal::{snapshot, start};

/// The number of the only file.
const FIRST: u64 = 1;
/// Bytes that are collected before they are written.
const WRITE_BYTES: usize = 1 << 20;

/// A data directory that is being made. It is none before it is finished.
pub struct Import {
    layout: Layout,
    open: OpenFile,
    effects: Effects,
    pending: Vec<u8>,
    /// The last transaction: one for each key.
    sequence: u64,
    _lock: DirectoryLock,
}

impl Import {
    /// Begins a data directory, which is made if it does not exist. There may be no store in it.
    pub fn begin(directory: &Path) -> Result<Self, StoreError> {
        let layout = Layout::new(directory);
        start::make_directory(&RealDisk, directory)?;
        let lock = DirectoryLock::take(&layout)?;
        if start::known(&layout)?.is_some() {
            return Err(StoreError::foreign(&layout.manifest(), "there is a store here already"));
        }
        start::make_directory(&RealDisk, &layout.journal)?;
        let path = layout.increment(FIRST);
        let open = start::create(&RealDisk, &path).map_err(StoreError::io(&path))?;
        let (effects, pending) = (Effects::new(true), Vec::new());
        Ok(Self { layout, open, effects, pending, sequence: 0, _lock: lock })
    }

    /// Adds a key, in the place of what it held if it was added before.
    pub fn add(&mut self, key: &[u8], value: &Stored) -> Result<(), StoreError> {
        let path = self.layout.increment(FIRST);
        let effects = &mut self.effects;
        let mut emit = |command: &[&[u8]]| {
            effects.command(command);
            Ok(())
        };
        let written =
            emit(&[b"DEL", key]).and_then(|()| snapshot::stored_commands(key, value, &mut emit));
        written.map_err(StoreError::io(&path))?;
        self.effects.finish();
        let mut batch = self.effects.take_batch(Transactions::default());
        batch.number(&mut self.sequence, self.open.salt);
        self.pending.extend_from_slice(&batch.bytes);
        if self.pending.len() >= WRITE_BYTES { self.flush() } else { Ok(()) }
    }

    /// Makes it a data directory. Answers how many keys were added.
    pub fn finish(mut self) -> Result<u64, StoreError> {
        let salt = self.open.salt;
        record::write_line(&mut self.pending, Word::Synced, self.sequence, salt);
        self.flush()?;
        let path = self.layout.increment(FIRST);
        self.open.file.sync().map_err(StoreError::io(&path))?;
        let manifest = Manifest { base: None, increments: vec![FIRST] };
        let stored = manifest.store(&self.layout, &RealDisk);
        stored.map_err(StoreError::io(&self.layout.manifest()))?;
        Marker { transactions: self.sequence }.store(&self.layout, &RealDisk)?;
        Ok(self.sequence)
    }

    /// Removes what there is of it.
    pub fn give_up(self) -> Result<(), StoreError> {
        let path = self.layout.increment(FIRST);
        RealDisk.remove(&path).map_err(StoreError::io(&path))
    }

    fn flush(&mut self) -> Result<(), StoreError> {
        let path = self.layout.increment(FIRST);
        let written: io::Result<()> = write_all(&mut *self.open.file, &self.pending);
        self.pending.clear();
        written.map_err(StoreError::io(&path))
    }
}
