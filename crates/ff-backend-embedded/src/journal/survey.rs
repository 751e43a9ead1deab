//! Where the slices of a journal are: read once from end to end, so that each slice can then be
//! read back by itself, whatever lies between its transactions. This is what lets a journal be
//! rewritten or checked without having all of it in memory.

use std::ops::Range;
use std::path::{Path, PathBuf};

use super::layout::Layout;
use super::load::{self, Loaded, Sink};
use super::manifest::Manifest;
use super::pace::Pace;
use super::replay::{Replay, key_of};
use super::scan::Scanner;
use super::slice::{Section, Slices};
use crate::error::StoreError;
use crate::keyspace::Keyspace;

/// Where everything of a journal is, by slices.
pub(crate) struct Survey {
    files: Vec<PathBuf>,
    slices: Vec<Places>,
    known: Slices,
    pace: Pace,
}

/// Where one slice is: in each file, in parts of it.
#[derive(Default)]
struct Places(Vec<(usize, Parts)>);

impl Survey {
    /// Looks through a journal that may be appended to.
    pub(crate) fn of(layout: &Layout, manifest: &Manifest) -> Result<(Self, Loaded), StoreError> {
        let mut survey = Self::new(Pace::hurried());
        let loaded = load::load(layout, manifest, &mut survey)?;
        Ok((survey, loaded))
    }

    /// Looks through a journal whose files are complete, in the background.
    pub(crate) fn of_sealed(layout: &Layout, manifest: &Manifest) -> Result<Self, StoreError> {
        let mut survey = Self::new(Pace::giving_way());
        load::load_sealed(layout, manifest, &mut survey)?;
        Ok(survey)
    }

    fn new(pace: Pace) -> Self {
        Self { files: Vec::new(), slices: Vec::new(), known: Slices::default(), pace }
    }

    /// The indexes of all slices that there is anything of, in order.
    pub(crate) fn indexes(&self) -> Vec<u16> {
        let some = self.slices.iter().enumerate().filter(|(_, places)| !places.0.is_empty());
        some.map(|(index, _)| index as u16).collect()
    }

    /// Reads one slice back.
    pub(crate) fn read(&self, index: u16, pace: &mut Pace) -> Result<Keyspace, StoreError> {
        let (mut replay, mut slices) = (Replay::default(), Slices::default());
        for (file, parts) in &self.slices[usize::from(index)].0 {
            let path = &self.files[*file];
            let mut scanner = load::open(path)?;
            for part in parts.iter() {
                load::read_part(path, &mut scanner, part, |command| {
                    pace.worked(command.iter().map(|part| part.len()).sum());
                    // A transaction of an older rewritten file has keys of many slices.
                    let mine = slices.of(key_of(command)?)? == index;
                    if mine { replay.apply(command) } else { Ok(()) }
                })?;
            }
        }
        Ok(replay.into_keyspace())
    }

    fn add(&mut self, index: u16, part: Range<u64>) {
        let (file, index) = (self.files.len() - 1, usize::from(index));
        if self.slices.len() <= index {
            self.slices.resize_with(index + 1, Places::default);
        }
        let places = &mut self.slices[index].0;
        if places.last().is_none_or(|(last, _)| *last != file) {
            places.push((file, Parts::default()));
        }
        if let Some((_, parts)) = places.last_mut() {
            parts.add(part);
        }
    }
}

impl Sink for Survey {
    fn file(&mut self, path: &Path) {
        self.files.push(path.to_owned());
    }

    fn transaction(&mut self, part: Range<u64>, scanner: &Scanner) -> Result<(), String> {
        self.pace.worked((part.end - part.start) as usize);
        let mut last = None;
        scanner.commands(|command| {
            let index = self.known.of(key_of(command)?)?;
            if last.replace(index) != Some(index) {
                self.add(index, part.clone());
            }
            Ok(())
        })
    }

    fn sections(&mut self, sections: Vec<Section>) -> Result<(), StoreError> {
        sections.into_iter().for_each(|section| self.add(section.index, section.part));
        Ok(())
    }
}

/// Parts of a file in order, in a few bytes each: there is one for nearly every transaction.
#[derive(Debug, Default)]
struct Parts {
    /// For each part but the last, how far it is from the one before, and how long it is.
    packed: Vec<u8>,
    /// Where the last packed part ends.
    packed_end: u64,
    last: Option<Range<u64>>,
}

impl Parts {
    /// Adds a part, unless it is the last one again.
    fn add(&mut self, part: Range<u64>) {
        match &mut self.last {
            Some(last) if part.start == last.end => last.end = part.end,
            Some(last) if part.start < last.end => {}
            last => {
                if let Some(done) = last.replace(part) {
                    write_number(&mut self.packed, done.start - self.packed_end);
                    write_number(&mut self.packed, done.end - done.start);
                    self.packed_end = done.end;
                }
            }
        }
    }

    fn iter(&self) -> impl Iterator<Item = Range<u64>> {
        let (mut rest, mut end) = (&*self.packed, 0);
        let packed = std::iter::from_fn(move || {
            if rest.is_empty() {
                return None;
            }
            let start = end + read_number(&mut rest);
            end = start + read_number(&mut rest);
            Some(start..end)
        });
        packed.chain(self.last.clone())
    }
}

/// Seven bits in each byte; the highest says whether more follow.
fn write_number(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

fn read_number(bytes: &mut &[u8]) -> u64 {
    let mut number = 0;
    for shift in (0..u64::BITS).step_by(7) {
        let Some((byte, rest)) = bytes.split_first() else { break };
        *bytes = rest;
        number |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            break;
        }
    }
    number
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "in a test, a panic is the report")]

    use super::*;
    use crate::effects::{Effects, Transactions};
    use crate::journal::record::{self, Word};
    use crate::journal::shards;
    use ff_script::dump::Dump;

    /// Files as they were written before there were slices: keys of many partitions in one
    /// transaction, and no table.
    fn older_journal(root: &Path) -> (Layout, Manifest) {
        let (layout, salt) = (Layout::new(root), 7);
        std::fs::create_dir(&layout.journal).unwrap();
        let mut base = Vec::new();
        record::write_line(&mut base, Word::Version, salt, salt);
        let mut effects = Effects::new(true);
        for n in 0..40 {
            let key = format!("ff:{{fp:{}}}:{n}", n * 7 % 10);
            effects.command(&[b"SET", key.as_bytes(), b"v"]);
            if n % 15 == 14 || n == 39 {
                effects.finish();
            }
        }
        let mut batch = effects.take_batch(Transactions::default());
        batch.number(&mut 0, salt);
        base.extend_from_slice(&batch.bytes);
        record::write_line(&mut base, Word::Sealed, 90, salt);
        std::fs::write(layout.file("appendonly.aof.1.base.aof"), base).unwrap();
        let mut increment = Vec::new();
        record::write_line(&mut increment, Word::Version, salt, salt);
        std::fs::write(layout.increment(2), increment).unwrap();
        (layout, Manifest { base: Some(1), increments: vec![2] })
    }

    #[test]
    fn a_rewritten_file_without_a_table_is_read_back_slice_by_slice_all_the_same() {
        let root = tempfile::tempdir().unwrap();
        let (layout, manifest) = older_journal(root.path());
        let (survey, loaded) = Survey::of(&layout, &manifest).unwrap();
        assert_eq!(loaded.sequence, 90);
        assert_eq!(survey.indexes(), (0..10).collect::<Vec<_>>());
        let (_, keyspaces) = shards::load(&layout, &manifest, 3).unwrap();
        let (mut whole, mut sliced) = (Dump::new(), Dump::new());
        keyspaces.iter().for_each(|keyspace| keyspace.dump_into(&mut whole));
        for index in survey.indexes() {
            let slice = survey.read(index, &mut Pace::hurried()).unwrap();
            assert_eq!(slice.len(), 4, "slice {index}");
            slice.dump_into(&mut sliced);
        }
        assert_eq!(whole.len(), 40);
        assert_eq!(sliced, whole);
    }

    #[test]
    fn parts_come_back_in_order_and_neighbours_as_one() {
        let mut parts = Parts::default();
        for part in [38..100, 100..250, 300..301, 300..301, 1 << 40..1 << 41, 1 << 41..1 << 42] {
            parts.add(part);
        }
        let all: Vec<_> = parts.iter().collect();
        assert_eq!(all, [38..250, 300..301, 1 << 40..1 << 42]);
        assert_eq!(Parts::default().iter().count(), 0);
    }
}
