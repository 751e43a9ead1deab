//! The list of the journal's files, in Valkey's own format, with a comment at its end that tells
//! whether it is whole.

use std::path::Path;

use super::disk::{self, Disk};
use super::layout::{JournalName, Layout, base_name, increment_name};
use crate::error::StoreError;

/// Which files make up the journal, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Manifest {
    /// Number of the rewritten journal, if there is one.
    pub(crate) base: Option<u64>,
    /// Numbers of the parts that follow it. The last one is being written.
    pub(crate) increments: Vec<u64>,
}

impl Manifest {
    /// Reads the manifest. `None` if there is none.
    pub(crate) fn read(layout: &Layout) -> Result<Option<Self>, StoreError> {
        let path = layout.manifest();
        match std::fs::read(&path) {
            Ok(text) => Self::parse(&text, &path).map(Some),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(StoreError::io(&path)(error)),
        }
    }

    fn parse(text: &[u8], path: &Path) -> Result<Self, StoreError> {
        let damaged = |offset: usize, reason: &str| {
            StoreError::damaged(path, offset as u64, format!("the manifest is not whole: {reason}"))
        };
        let text = std::str::from_utf8(text)
            .map_err(|error| damaged(error.valid_up_to(), "it is no text"))?;
        let mut manifest = Self::default();
        let mut offset = 0;
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            let words: Vec<&str> = line.split_whitespace().collect();
            let ["file", name, "seq", number, "type", kind] = words[..] else {
                return Err(damaged(offset, "a line is not `file <name> seq <number> type <b|i>`"));
            };
            let number =
                number.parse().map_err(|_| damaged(offset, "a file's number is no number"))?;
            manifest.add(name, number, kind, path)?;
            offset += line.len() + 1;
        }
        if manifest.increments.is_empty() {
            return Err(damaged(offset, "no file to append to is listed"));
        }
        if manifest.text() != text {
            return Err(damaged(offset, "its last line, the checksum, does not match or is gone"));
        }
        Ok(manifest)
    }

    fn add(&mut self, name: &str, number: u64, kind: &str, path: &Path) -> Result<(), StoreError> {
        if kind == "b" && name == base_name(number) {
            self.base = Some(number);
        } else if kind == "i" && name == increment_name(number) {
            self.increments.push(number);
        } else if name.ends_with(".rdb") {
            let reason = format!(
                "{name} is a snapshot that Valkey wrote, which the embedded store does not read"
            );
            return Err(StoreError::foreign(path, reason));
        } else {
            let reason = format!("{name} of type {kind} is not a file that this store writes");
            return Err(StoreError::foreign(path, reason));
        }
        Ok(())
    }

    /// Valkey skips lines that start with `#`.
    fn text(&self) -> String {
        let base = self.base.iter().map(|number| (base_name(*number), number, 'b'));
        let increments =
            self.increments.iter().map(|number| (increment_name(*number), number, 'i'));
        let mut text: String = base
            .chain(increments)
            .map(|(name, number, kind)| format!("file {name} seq {number} type {kind}\n"))
            .collect();
        text.push_str(&format!("#ff end crc={:08x}\n", crc32fast::hash(text.as_bytes())));
        text
    }

    /// Puts this manifest in the place of the old one, at once and to stay. The files that it lists
    /// must have been synced; that they are in their directory is made sure of here.
    pub(crate) fn store(&self, layout: &Layout, disk: &dyn Disk) -> std::io::Result<()> {
        disk.sync_directory(&layout.journal)?;
        disk::replace(disk, &layout.new_manifest(), &layout.manifest(), &self.text())
    }

    /// True if the manifest lists this file.
    pub(crate) fn lists(&self, name: JournalName) -> bool {
        match name {
            JournalName::Base(number) => self.base == Some(number),
            JournalName::Increment(number) => self.increments.contains(&number),
        }
    }

    /// Number of the file that is being written.
    pub(crate) fn last(&self) -> u64 {
        *self.increments.last().expect("a manifest lists a file to append to")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Manifest, String> {
        Manifest::parse(text.as_bytes(), Path::new("manifest")).map_err(|error| error.to_string())
    }

    #[test]
    fn a_manifest_reads_back_as_it_was_written() {
        for manifest in [
            Manifest { base: None, increments: vec![1] },
            Manifest { base: Some(3), increments: vec![4, 5] },
        ] {
            assert_eq!(parse(&manifest.text()), Ok(manifest));
        }
    }

    #[test]
    fn what_we_cannot_read_is_named() {
        for (text, expected) in [
            ("", "no file to append to"),
            ("nonsense", "a line is not"),
            ("file appendonly.aof.1.base.rdb seq 1 type b\n", "snapshot that Valkey wrote"),
            ("file other.aof seq 1 type i\n", "not a file that this store writes"),
            ("file appendonly.aof.1.incr.aof seq 1 type i\n", "the checksum"),
        ] {
            let refused = parse(text).expect_err("it must not parse");
            assert!(refused.contains(expected), "{text}: {refused}");
        }
    }

    #[test]
    fn a_cut_or_changed_manifest_is_refused() {
        let text = Manifest { base: Some(3), increments: vec![4, 5] }.text().into_bytes();
        let refused = |text: &[u8]| Manifest::parse(text, Path::new("manifest")).is_err();
        for length in 0..text.len() {
            assert!(refused(&text[..length]), "cut at {length}");
        }
        for bit in 0..text.len() * 8 {
            let mut flipped = text.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert!(refused(&flipped), "flip of bit {bit}");
        }
    }
}
